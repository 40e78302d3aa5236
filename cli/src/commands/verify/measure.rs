//! What Lambda's own lines in the logs tell of the time in which events were delivered one by one.

use std::time::Duration;

use gridpost_core::time::Timestamp;
use tokio::time::sleep;

use crate::aws_api::{AwsApi, Service};
use crate::commands::audit::logs::{each_line, group};
use crate::target::Target;
use crate::verify::bill::{Account, Runs};
use crate::wall_clock;

/// Lines can be found some seconds after they were written.
const SETTLED_MS: i64 = 10_000;

/// A time in which events were delivered, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// When the first publish began, in milliseconds since the Unix epoch.
    pub(super) from_ms: i64,
    /// When the last event had arrived.
    pub(super) to_ms: i64,
    /// How many did.
    pub(super) delivered: u64,
}

/// What ran in that time, or why it is not known.
pub(super) async fn account(target: &Target, span: &Span) -> (Account, Option<String>) {
    let left_ms = span.to_ms + SETTLED_MS - wall_clock::now_ms();
    sleep(Duration::from_millis(left_ms.try_into().unwrap_or(0))).await;
    let read = async {
        let logs = AwsApi::connect(Service::Logs, target).await?;
        let ingest = runs(&logs, target, "ingest", span).await?;
        let dispatch = runs(&logs, target, "dispatch", span).await?;
        anyhow::Ok(Account { ingest, dispatch, delivered: span.delivered })
    };
    match read.await {
        Ok(account) if account.ingest.count == 0 || account.dispatch.count == 0 => {
            (account, Some("the logs have no REPORT lines of that time".to_owned()))
        }
        // One publish is one run of ingest at least, and in a quiet deployment at most.
        Ok(account) if account.ingest.count > span.delivered + span.delivered / 5 + 2 => {
            let told = format!(
                "ingest ran {} times for {} publishes: something else was published meanwhile",
                account.ingest.count, span.delivered
            );
            (Account::default(), Some(told))
        }
        Ok(account) => (account, None),
        Err(error) => (Account::default(), Some(format!("{error:#}"))),
    }
}

async fn runs(logs: &AwsApi, target: &Target, function: &str, span: &Span) -> anyhow::Result<Runs> {
    let mut runs = Runs::default();
    let take = |at_ms: Option<i64>, line: &str| {
        // A run that began in time may end a little later.
        if at_ms.is_some_and(|at_ms| at_ms <= span.to_ms + 1_000) {
            runs.take(line);
        }
    };
    let since = Timestamp::from_millis(span.from_ms);
    each_line(logs, &group(target, function), since, "REPORT", take).await?;
    Ok(runs)
}

//! What Lambda's own lines in the logs tell of the time in which events were delivered one by one.

use std::time::Duration;

use anyhow::ensure;
use gridpost_core::time::Timestamp;
use tokio::time::sleep;

use crate::{
    audit::logs::{group, lines_between},
    aws_api::{AwsApi, Service},
    clock,
    target::Target,
    verify::bill::{Account, Runs},
};

/// Lines can be found some seconds after they were written.
const SETTLED_MS: i64 = 10_000;

/// Runs of a function for each event, over which no more lines are read: events come one after the other, and
/// each is one run.
const RUNS_MAX: u64 = 5;

/// A time in which events were delivered, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// When the first publish began and when the last event had arrived, by the clock of the deployment, which
    /// its logs have: in milliseconds since the Unix epoch.
    pub(super) there_ms: (i64, i64),
    /// When the last event had arrived, by this machine's clock.
    pub(super) to_ms: i64,
    pub(super) delivered: u64,
}

/// What ran in that time, or why it is not known.
pub(super) async fn account(target: &Target, span: &Span) -> (Account, Option<String>) {
    let left_ms = span.to_ms + SETTLED_MS - clock::now_ms();
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
    let (from_ms, to_ms) = span.there_ms;
    // A run that began in time may end a little later.
    let time = (Timestamp::from_millis(from_ms), Timestamp::from_millis(to_ms + 1_000));
    let most = span.delivered * RUNS_MAX;
    let take = |line: &str| {
        runs.take(line);
        runs.count <= most
    };
    lines_between(logs, &group(target, function), time, "REPORT", take).await?;
    ensure!(
        runs.count <= most,
        "{function} ran more than {most} times for {} events: something else was delivered meanwhile",
        span.delivered
    );
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::FakeApi;

    fn page(lines: usize, token: Value) -> Value {
        let line = "REPORT RequestId: 1\tBilled Duration: 11 ms\tMemory Size: 512 MB\t\n";
        let events = vec![json!({"timestamp": 1, "message": line}); lines];
        json!({"events": events, "nextToken": token})
    }

    #[tokio::test]
    async fn lines_are_read_to_a_bound() {
        let span = Span { there_ms: (1_000, 2_000), to_ms: 2_000, delivered: 10 };
        // (lines of a page, what follows it, how many runs there were; none where there are too many)
        let table =
            [(10, Value::Null, Some(10)), (0, Value::Null, Some(0)), (3, json!("more"), None)];
        for (lines, token, want) in table {
            let fake = FakeApi::answering(&[("POST / ", 200, page(lines, token))]).await;
            let logs = AwsApi::at(Service::Logs, &fake.url());
            let runs = runs(&logs, &Target::default(), "ingest", &span).await;
            assert_eq!(runs.ok().map(|runs| runs.count), want, "{lines}");
        }
    }
}

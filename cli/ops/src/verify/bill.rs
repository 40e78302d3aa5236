//! Calls and dollars for a million delivered events: of this account, as far as Lambda's own lines in the
//! logs tell; for the rest as `gridpost cost` reckons.

use std::time::Duration;

use anyhow::ensure;
use gridpost_core::time::Timestamp;
use serde::Serialize;
use tokio::time::sleep;

use crate::{
    aws_api::{AwsApi, Service},
    clock,
    cost::{self, Measured, Mix, Prices},
    target::Target,
    verify::logs::each_report,
};

/// Until when lines can't be found yet after they were written.
const SETTLED_MS: i64 = 10_000;

/// Runs of a function for each event, over which no more lines are read: events come one after the other, and
/// each is one run.
const RUNS_MAX: u64 = 5;

/// Runs of a function, by Lambda's `REPORT` lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    pub count: u64,
    /// The time they are billed for, in milliseconds.
    pub billed_ms: u64,
    /// The function's memory, in MB.
    pub memory_mb: u64,
}

impl Runs {
    /// Adds a run, if the line reports one.
    pub fn take(&mut self, line: &str) {
        let number = |name: &str| {
            let part = line.split('\t').find_map(|part| part.trim().strip_prefix(name))?;
            part.split_whitespace().next()?.parse::<u64>().ok()
        };
        let figures = number("Billed Duration:").zip(number("Memory Size:"));
        if let Some((billed_ms, memory_mb)) = figures.filter(|_| line.starts_with("REPORT ")) {
            self.count += 1;
            self.billed_ms += billed_ms;
            self.memory_mb = memory_mb;
        }
    }

    fn gb_seconds(&self) -> f64 {
        self.billed_ms as f64 / 1_000.0 * self.memory_mb as f64 / 1_024.0
    }
}

/// The runs while events were delivered, and nothing else was to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub ingest: Runs,
    pub dispatch: Runs,
    pub delivered: u64,
}

/// A time in which events were delivered, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// When the first publish began and when the last event had arrived, by the clock of the deployment, which
    /// its logs have: in milliseconds since the Unix epoch.
    pub(super) there_ms: (i64, i64),
    /// When the last event had arrived, by the local clock.
    pub(super) to_ms: i64,
    pub(super) delivered: u64,
}

/// Reads the runs in that time from the logs. Also returns why they are not known, if so.
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
    each_report(logs, target, function, time, take).await?;
    ensure!(
        runs.count <= most,
        "{function} ran more than {most} times for {} events: something else was delivered meanwhile",
        span.delivered
    );
    Ok(runs)
}

/// A line of the bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    pub what: &'static str,
    #[serde(rename = "unitsPerEvent")]
    pub units: f64,
    /// US dollars for a million delivered events.
    #[serde(rename = "dollarsPerMillion")]
    pub dollars: f64,
    #[serde(rename = "measured")]
    pub is_measured: bool,
}

/// The bill of a mix, logs included.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bill {
    pub lines: Vec<Line>,
    /// Region and month of the prices.
    pub prices: String,
}

impl Bill {
    /// Reckons the bill of a mix; measured runs take the place of estimates.
    pub fn of(mix: &Mix, account: &Account, prices: &Prices, measured: &Measured) -> Self {
        let bill = cost::bill(mix, prices, measured);
        let Account { ingest, dispatch, delivered } = account;
        let is_known = *delivered > 0 && ingest.count > 0 && dispatch.count > 0;
        let (request, gb_second) = (&prices.lambda_request, &prices.lambda_gb_second);
        let measured = [
            ("invocations of ingest", ingest.count as f64, request),
            ("invocations of dispatch", dispatch.count as f64, request),
            ("GB-seconds of ingest", ingest.gb_seconds(), gb_second),
            ("GB-seconds of dispatch", dispatch.gb_seconds(), gb_second),
        ];
        let line = |line: &cost::Line| {
            let found = measured.iter().find(|(what, ..)| is_known && *what == line.what);
            let (units, dollars) = found.map_or((line.units, line.dollars), |(_, all, price)| {
                let units = all / *delivered as f64;
                (units, units * price.dollars_per_million)
            });
            Line { what: line.what, units, dollars, is_measured: found.is_some() }
        };
        let lines = bill.lines.iter().chain([&bill.logs]).map(line).collect();
        Self { lines, prices: format!("{}, {}", prices.region, prices.lambda_request.as_of) }
    }

    /// Returns US dollars for a million delivered events.
    pub fn total(&self) -> f64 {
        self.lines.iter().map(|line| line.dollars).sum()
    }

    /// Whether any of it was measured.
    pub fn is_measured(&self) -> bool {
        self.lines.iter().any(|line| line.is_measured)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::FakeApi;

    const LINE: &str = "REPORT RequestId: 3f25\tDuration: 10.27 ms\tBilled Duration: 11 ms\t\
        Memory Size: 512 MB\tMax Memory Used: 30 MB\tInit Duration: 40.1 ms\t\n";

    #[test]
    fn lambdas_lines_are_counted() {
        let mut runs = Runs::default();
        for line in [LINE, "START RequestId: 3f25", "{\"message\":\"REPORT\"}", "REPORT x", LINE] {
            runs.take(line);
        }
        assert_eq!(runs, Runs { count: 2, billed_ms: 22, memory_mb: 512 });
    }

    #[test]
    fn what_was_measured_takes_the_estimates_place() {
        let (prices, measured) = (Prices::current(), Measured::current());
        let mix = Mix { records_per_invocation: 1, ..Mix::default() };
        let nothing = Bill::of(&mix, &Account::default(), &prices, &measured);
        let reckoned = cost::bill(&mix, &prices, &measured);
        assert!(!nothing.is_measured());
        assert!((nothing.total() - reckoned.total() - reckoned.logs.dollars).abs() < 1e-9);

        let ingest = Runs { count: 100, billed_ms: 2_000, memory_mb: 512 };
        let dispatch = Runs { count: 50, billed_ms: 4_000, memory_mb: 1_024 };
        let account = Account { ingest, dispatch, delivered: 100 };
        let bill = Bill::of(&mix, &account, &prices, &measured);
        let units = |what: &str| {
            let line = bill.lines.iter().find(|line| line.what == what).expect("a line");
            assert!(line.is_measured, "{what}");
            line.units
        };
        for (what, want) in [
            ("invocations of ingest", 1.0),
            ("invocations of dispatch", 0.5),
            ("GB-seconds of ingest", 0.01),
            ("GB-seconds of dispatch", 0.04),
        ] {
            assert!((units(what) - want).abs() < 1e-9, "{what}: {}", units(what));
        }
        assert!(bill.lines.iter().any(|line| line.what == "SQS requests" && !line.is_measured));
    }

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

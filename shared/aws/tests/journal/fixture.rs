//! A deployment whose logs are the fake's.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use gridpost_aws::journal::{LoggedDeployment, LoggedJournal, Run, RunStore};
use gridpost_core::{
    journal::{
        Answer, AttemptsQuestion, Count, Counted, Entry, Known, LedgerQuestion, Owner, Question,
    },
    ledger::Ledger,
    time::Timestamp,
};
use gridpost_ports::{
    Clock, Journal, JournalError, JournalReader, JournalReply, PortError, Progress, Saved,
};
use gridpost_runtime::telemetry::EmbeddedMeter;
use gridpost_testkit::{
    clock::{BEGINNING, VirtualClock},
    cloud_logs::CloudLogs,
};
use serde_json::{Value, json};
use tokio::time::sleep;
use uuid::Uuid;

pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub(super) const HOUR: Duration = Duration::from_secs(60 * 60);
pub(super) const MINUTE: Duration = Duration::from_secs(60);

const FUNCTIONS: [&str; 5] = ["ingest", "dispatch", "dead-letter", "redrive", "manage"];

pub(super) struct Fixture {
    pub(super) logs: Arc<CloudLogs>,
    pub(super) runs: Arc<Runs>,
    pub(super) clock: VirtualClock,
    pub(super) journal: LoggedJournal,
}

#[derive(Default)]
pub(super) struct Runs(Mutex<BTreeMap<String, (Run, u64)>>);

/// A minute of the day before the fixture's time begins.
pub(super) fn at(minute: u32) -> Timestamp {
    Timestamp::from_millis(BEGINNING.as_millis() - DAY.as_millis() as i64) + MINUTE * minute
}

/// The lines that a function writes at the end of an invocation.
pub(super) fn counted(now: Timestamp, count: impl FnOnce(&EmbeddedMeter)) -> String {
    let meter = EmbeddedMeter::default();
    count(&meter);
    meter.lines(now)
}

/// A line of dispatch about a failed attempt.
pub(super) fn failed(number: u32) -> Value {
    json!({
        "timestamp": "2025-12-31T00:00:00.000001Z", "level": "INFO", "message": "attempt failed",
        "delivery.id": Uuid::from_u128(u128::from(number)), "subscription": "Orders/billing",
        "attempt": 1, "outcome": "Busy", "status": 503, "duration_ms": 41, "decision": "Retry",
        "receives": 1, "due": "2026-01-01T00:00:00.000Z", "because": "Schedule", "events": 1,
        "event_ids": json!([format!("e-{number}")]).to_string(),
        "publish_time": "2025-12-31T00:00:00.000Z", "response": "later",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    })
}

impl Fixture {
    /// A deployment that keeps its logs for 30 days and began a day ago.
    pub(super) fn new() -> Self {
        let (logs, runs, clock) =
            (Arc::<CloudLogs>::default(), Arc::default(), VirtualClock::start());
        for function in FUNCTIONS {
            logs.create_group(&group(function), at(0), Some(30));
        }
        let journal = reader(&logs, &runs, clock);
        Self { logs, runs, clock, journal }
    }

    pub(super) fn log(&self, function: &str, minute: u32, lines: &str, times: u64) {
        for line in lines.lines() {
            self.logs.log(&group(function), at(minute), line, times);
        }
    }

    /// Logs so much else that pages are too many.
    pub(super) fn fill(&self, function: &str) {
        let line = format!("START RequestId {}", "x".repeat(200));
        (0..1_440).for_each(|minute| self.log(function, minute, &line, 14_000));
    }

    /// Asks until there is an answer, once a second, and allows as much money as it takes.
    pub(super) async fn answer(&self, question: &Question) -> Result<Answer, JournalError> {
        self.paged(question, None).await
    }

    pub(super) async fn paged(
        &self,
        question: &Question,
        page: Option<&str>,
    ) -> Result<Answer, JournalError> {
        let mut max_dollars = Some(1.0);
        loop {
            match self.journal.ask(question, page, max_dollars.take()).await?.progress {
                Progress::Answered(answer) => return Ok(answer),
                Progress::Running => sleep(Duration::from_secs(1)).await,
                Progress::TooDear => panic!("one dollar is enough"),
            }
        }
    }

    /// Looks at a page without money.
    pub(super) async fn look(&self, question: &Question, page: &str) -> Answer {
        let reply = self.journal.ask(question, Some(page), None).await.expect("a reply");
        let Progress::Answered(answer) = reply.progress else { panic!("{:?}", reply.progress) };
        answer
    }

    pub(super) async fn ask(
        &self,
        question: &Question,
        max_dollars: Option<f64>,
    ) -> Result<JournalReply, JournalError> {
        self.journal.ask(question, None, max_dollars).await
    }

    pub(super) fn queries(&self) -> usize {
        self.logs.queries().len()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Makes a reader of these logs.
pub(super) fn reader(
    logs: &Arc<CloudLogs>,
    runs: &Arc<Runs>,
    clock: VirtualClock,
) -> LoggedJournal {
    let deployment = LoggedDeployment { name_prefix: "g".to_owned(), logs_first_successes: false };
    let (logs, runs) = (Arc::clone(logs) as _, Arc::clone(runs) as _);
    LoggedJournal::new(logs, runs, Arc::new(clock), deployment)
}

pub(super) fn group(function: &str) -> String {
    format!("/aws/lambda/g-{function}")
}

/// Asks about the day.
pub(super) fn ledger() -> LedgerQuestion {
    LedgerQuestion { from: at(0), to: BEGINNING, ..LedgerQuestion::default() }
}

/// Asks about the day.
pub(super) fn attempts() -> AttemptsQuestion {
    AttemptsQuestion { from: at(0), to: BEGINNING, most: 100, ..AttemptsQuestion::default() }
}

pub(super) fn entries(answer: Answer) -> Vec<(String, Entry)> {
    match answer.known {
        Known::Attempts(entries) => entries,
        other => panic!("{other:?}"),
    }
}

pub(super) fn ledgers(answer: Answer) -> Vec<Ledger> {
    match answer.known {
        Known::Ledger(ledgers) => ledgers,
        other => panic!("{other:?}"),
    }
}

/// Counts events that were published then.
pub(super) fn count(
    meter: &EmbeddedMeter,
    owner: &Owner,
    publish_time: Timestamp,
    counted: Counted,
    events: u64,
) {
    let count = Count { owner: owner.clone(), publish_time, counted, events, once: None };
    meter.count_sent(&[count]);
}

#[async_trait]
impl RunStore for Runs {
    async fn load(&self, key: &str) -> Result<Option<(Run, u64)>, PortError> {
        Ok(self.0.lock().expect("no panic while held").get(key).cloned())
    }

    async fn save(&self, key: &str, run: &Run, revision: u64) -> Result<Saved, PortError> {
        let mut runs = self.0.lock().expect("no panic while held");
        if runs.get(key).map_or(0, |(_, stored)| *stored) != revision {
            return Ok(Saved::Conflict);
        }
        // As the table keeps it.
        let text = serde_json::to_string(run).expect("JSON");
        let run = serde_json::from_str(&text).expect("a run");
        runs.insert(key.to_owned(), (run, revision + 1));
        Ok(Saved::Written)
    }
}

//! Asks the journal of one machine when a world has ended.

use std::time::Duration;

use gridpost_core::{
    journal::{
        AttemptsQuestion, Entry, Known, LedgerQuestion, Question, Series, SeriesQuestion, Step,
    },
    ledger::Ledger,
    time::Timestamp,
};
use gridpost_embedded::JournalStore;
use gridpost_ports::{Clock, Journal, JournalReader, Progress};
use gridpost_testkit::clock::VirtualClock;

use super::embedded::EmbeddedStores;

/// After this, what no write has taken is committed by itself.
const COMMITTED_AFTER: Duration = Duration::from_secs(75);

/// Entries on a page: pages are to be many.
const PAGE: usize = 7;

/// The answers of the journal.
#[derive(Debug)]
pub struct JournalRemains {
    pub ledger: Ledger,
    pub minutes: Series,
    pub hours: Series,
    /// Oldest first.
    pub entries: Vec<Entry>,
}

impl JournalRemains {
    pub(super) async fn of(stores: &EmbeddedStores, clock: VirtualClock) -> Self {
        clock.sleep(clock.pace().to_clock(COMMITTED_AFTER)).await;
        let journal = &*stores.journal();
        journal.write(Vec::new()).await.expect("memory takes it");
        let to = clock.now() + Duration::from_millis(1);
        let ledger = LedgerQuestion { to, ..LedgerQuestion::default() };
        let Known::Ledger(ledgers) = ask(journal, &Question::Ledger(ledger), None).await.0 else {
            panic!("the answer is no ledger")
        };
        Self {
            ledger: ledgers.into_iter().next().unwrap_or_default(),
            minutes: series(journal, Step::Minute, to).await,
            hours: series(journal, Step::Hour, to).await,
            entries: entries(journal, to).await,
        }
    }
}

async fn series(journal: &JournalStore, step: Step, to: Timestamp) -> Series {
    let question = SeriesQuestion { to, step, ..SeriesQuestion::default() };
    match ask(journal, &Question::Series(question), None).await.0 {
        Known::Series(series) => series,
        other => panic!("the answer is no series: {other:?}"),
    }
}

async fn entries(journal: &JournalStore, to: Timestamp) -> Vec<Entry> {
    let question = AttemptsQuestion { to, most: PAGE, ..AttemptsQuestion::default() };
    let question = Question::Attempts(question);
    let (mut entries, mut page) = (Vec::new(), None);
    loop {
        let (known, next) = ask(journal, &question, page.as_deref()).await;
        let Known::Attempts(found) = known else { panic!("the answer has no attempts") };
        entries.extend(found.into_iter().map(|(_, entry)| entry));
        page = next;
        if page.is_none() {
            entries.reverse();
            return entries;
        }
    }
}

async fn ask(
    journal: &JournalStore,
    question: &Question,
    page: Option<&str>,
) -> (Known, Option<String>) {
    let reply = journal.ask(question, page, None).await.expect("memory answers");
    match reply.progress {
        Progress::Answered(answer) => (answer.known, answer.next),
        other => panic!("one machine answers at once: {other:?}"),
    }
}

//! Asks the journal when a world has ended.

use std::time::Duration;

use gridpost_core::{
    journal::{AttemptsQuestion, By, Entry, LedgerQuestion, Series, SeriesQuestion, Step},
    ledger::Ledger,
    time::Timestamp,
};
use gridpost_ports::{Clock, Journal, JournalReader};
use gridpost_testkit::{clock::VirtualClock, contract::journal as contract};

use super::{embedded::EmbeddedStores, logs::FunctionLogs};

/// After this, what no write has taken is committed by itself.
const COMMITTED_AFTER: Duration = Duration::from_secs(75);

/// Entries on a page: on one machine pages are many; from a log each costs much.
const PAGE: usize = 7;
const LOGGED_PAGE: usize = 100;

/// The answers of the journal.
#[derive(Debug)]
pub struct JournalRemains {
    /// Whether it is that of the functions' logs, or that of one machine.
    pub is_logged: bool,
    /// Whether it has first attempts that succeed.
    pub has_first_successes: bool,
    pub ledger: Ledger,
    pub minutes: Series,
    pub hours: Series,
    /// Of all owners and steps.
    pub together: Series,
    /// Oldest first.
    pub entries: Vec<Entry>,
}

impl JournalRemains {
    pub(super) async fn of_machine(stores: &EmbeddedStores, clock: VirtualClock) -> Self {
        clock.sleep(clock.pace().to_clock(COMMITTED_AFTER)).await;
        let journal = &*stores.journal();
        journal.write(Vec::new()).await.expect("memory takes it");
        let to = clock.now() + Duration::from_millis(1);
        Self { is_logged: false, has_first_successes: true, ..Self::of(journal, to, PAGE).await }
    }

    pub(super) async fn of_logs(logs: &FunctionLogs, clock: VirtualClock) -> Self {
        let to = clock.now() + Duration::from_millis(1);
        let has_first_successes = logs.logs_first_successes;
        let answers = Self::of(&logs.journal(), to, LOGGED_PAGE).await;
        Self { is_logged: true, has_first_successes, ..answers }
    }

    async fn of(journal: &dyn JournalReader, to: Timestamp, most: usize) -> Self {
        let ledger = LedgerQuestion { to, ..LedgerQuestion::default() };
        let step = Step::Minute;
        let together =
            SeriesQuestion { to, step, by: By::All, total: true, ..SeriesQuestion::default() };
        let question = AttemptsQuestion { to, most, ..AttemptsQuestion::default() };
        let mut entries = contract::attempts(journal, question).await;
        entries.reverse();
        Self {
            is_logged: false,
            has_first_successes: false,
            ledger: contract::ledger(journal, ledger).await,
            minutes: contract::series(journal, Step::Minute).await,
            hours: contract::series(journal, Step::Hour).await,
            together: contract::whole_series(journal, together).await,
            entries,
        }
    }
}

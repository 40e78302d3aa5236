//! Stores to test, and ways to make them refuse.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use gridpost_core::time::Timestamp;
use gridpost_embedded::{Embedded, Options};
use gridpost_ports::Clock;
use rusqlite::Connection;
use tempfile::TempDir;

/// A clock that a test moves.
#[derive(Clone)]
pub(super) struct HandClock(Arc<AtomicI64>);

impl HandClock {
    pub(super) fn pass(&self, seconds: u64) {
        let millis = i64::try_from(seconds).expect("few") * 1_000;
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Stores with their clock.
pub(super) struct World {
    pub(super) clock: HandClock,
    pub(super) stores: Embedded,
    pub(super) options: Options,
    folder: Option<TempDir>,
}

impl World {
    /// One in memory and one on disk: a test is to hold for both.
    pub(super) fn both() -> [Self; 2] {
        [Self::in_memory(), Self::on_disk()]
    }

    pub(super) fn in_memory() -> Self {
        Self::with(Options::default(), None)
    }

    pub(super) fn on_disk() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options { folder: Some(folder.path().to_owned()), ..Options::default() };
        Self::with(options, Some(folder))
    }

    fn with(options: Options, folder: Option<TempDir>) -> Self {
        let clock = HandClock(Arc::new(AtomicI64::new(60_000)));
        let stores = open(&options, &clock);
        Self { clock, stores, options, folder }
    }

    /// The same stores, opened with other options.
    pub(super) async fn set(self, change: impl FnOnce(&mut Options)) -> Self {
        let Self { clock, stores, mut options, folder } = self;
        stores.close().await;
        change(&mut options);
        Self { stores: open(&options, &clock), clock, options, folder }
    }

    /// The same stores, opened anew.
    pub(super) async fn again(self) -> Self {
        self.set(|_| ()).await
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.as_ref().expect("a folder").path()
    }

    fn database(&self) -> Connection {
        let database = Connection::open(self.folder().join("gridpost.sqlite")).expect("a database");
        database.busy_timeout(Duration::from_secs(10)).expect("a wait");
        database
    }

    /// Changes the database as no writer does.
    pub(super) fn tamper(&self, sql: &str) {
        self.database().execute_batch(sql).expect("it is changed");
    }

    /// How many rows a table has.
    pub(super) fn rows_of(&self, table: &str) -> i64 {
        let count = format!("SELECT count(*) FROM {table}");
        self.database().query_row(&count, [], |row| row.get(0)).expect("a number")
    }
}

fn open(options: &Options, clock: &HandClock) -> Embedded {
    Embedded::open(options.clone(), Arc::new(clock.clone())).expect("it opens")
}

//! Stores to test, and ways to make them refuse.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_embedded::{Embedded, Options, Queues, Visibility};
use gridpost_ports::Clock;
use gridpost_testkit::{
    contract::{Difference, OF_EMBEDDED, queues::QueueFixture},
    stores::Handed,
};
use rusqlite::Connection;
use tempfile::TempDir;

#[derive(Clone)]
pub(super) struct HandClock(Arc<AtomicI64>);

impl HandClock {
    pub(super) fn pass_s(&self, seconds: u64) {
        self.pass(Duration::from_secs(seconds));
    }

    pub(super) fn set_back_s(&self, seconds: i64) {
        self.0.fetch_sub(seconds * 1_000, Ordering::SeqCst);
    }

    fn pass(&self, time: Duration) {
        self.0.fetch_add(i64::try_from(time.as_millis()).expect("a while"), Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

pub(super) struct Fixture {
    pub(super) clock: HandClock,
    pub(super) stores: Embedded,
    pub(super) options: Options,
    pub(super) folder: Option<TempDir>,
}

impl Fixture {
    /// In memory and on disk: a test must hold for both.
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

    /// Opens the stores with other options.
    pub(super) async fn set(self, change: impl FnOnce(&mut Options)) -> Self {
        let Self { clock, stores, mut options, folder } = self;
        stores.close().await;
        change(&mut options);
        Self { stores: open(&options, &clock), clock, options, folder }
    }

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

    /// Changes the database from outside.
    pub(super) fn tamper(&self, sql: &str) {
        self.database().execute_batch(sql).expect("it is changed");
    }

    pub(super) fn rows_of(&self, table: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM {table}"))
    }

    /// Reads a number from the database.
    pub(super) fn number(&self, select: &str) -> i64 {
        self.database().query_row(select, [], |row| row.get(0)).expect("a number")
    }
}

#[async_trait]
impl QueueFixture for Fixture {
    type Queues = Queues;

    const DIFFERS: &'static [Difference] = OF_EMBEDDED;

    const MESSAGE_BYTES_MAX: usize = 262_144;

    fn queues(&self) -> Arc<Queues> {
        self.stores.queues()
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn visibility(&self) -> Duration {
        Visibility::default().delivery
    }

    fn retention(&self) -> Duration {
        Duration::from_secs(14 * 24 * 60 * 60)
    }

    async fn receive(&self, queue: Queue, most: usize) -> Vec<Handed> {
        let received = self.stores.receive(queue, most).await.expect("messages");
        let handed = received.into_iter().map(|message| Handed {
            message_id: message.message_id,
            receipt: message.receipt,
            body: message.body,
            count: message.receives,
        });
        handed.collect()
    }

    async fn pass(&self, time: Duration) {
        self.clock.pass(time);
    }
}

pub(super) fn open(options: &Options, clock: &HandClock) -> Embedded {
    Embedded::open(options.clone(), Arc::new(clock.clone())).expect("it opens")
}

//! Queues: every message is a row; the order of receipt is in memory. A message is written once and
//! deleted once; a receive writes nothing. Bodies stay in memory until they are received, if there is
//! memory for them, and are read from their rows otherwise. [`crash_suspects`] records messages in flight.

mod contents;
mod crash_suspects;
mod ports;
mod receipt;
mod rows;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_ports::{Clock, PortError, Record};
use tokio::sync::Notify;

use crate::{
    database::{Database, OnFullDisk},
    options::{OpenError, Options, Visibility},
};
use contents::{Contents, Message, RELEASED, Taken};
pub use crash_suspects::InFlightBatch;
use crash_suspects::{CRASHES_MAX, Group, InFlight, STABLE_AFTER};
pub(crate) use receipt::read as in_hand;
use rows::Ids;

/// A batch with this many bytes gets no further message. Source: AWS Lambda, "Quotas": 6 MB in an
/// invocation.
const BATCH_BYTES_MAX: usize = 6 * 1_048_576;

/// The delay of a message whose body could not be read.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// The memory for bodies.
const BODY_BYTES_MAX: usize = 32 * 1_048_576;

/// A received message.
#[derive(Clone, Debug)]
pub struct Received {
    /// Never used twice in a deployment.
    pub message_id: String,
    /// Valid until the message is received again.
    pub receipt: String,
    pub receives: u32,
    pub sent_at: Timestamp,
    pub group: String,
    pub body: String,
}

impl Received {
    /// Makes the record for a handler.
    #[must_use]
    pub fn into_record(self, queue: Queue, received_at: Timestamp) -> Record {
        Record {
            message_id: self.message_id.into(),
            receipt: self.receipt.into(),
            body: self.body,
            receive_count: self.receives,
            queue,
            received_at,
        }
    }
}

/// All queues of the deployment.
pub struct Queues {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
    all: Arc<BTreeMap<Queue, QueueState>>,
    ids: Arc<Ids>,
    budget: Arc<BodyBudget>,
    in_flight: Arc<InFlight>,
    /// Withheld messages that may have crashed the previous process.
    suspects: Mutex<Vec<Group>>,
    /// Whether only suspects may be received.
    is_isolating: AtomicBool,
    visibility: Visibility,
    max_receives: u32,
    message_bytes_max: usize,
}

#[derive(Default)]
struct QueueState {
    contents: Mutex<Contents>,
    has_changed: AtomicBool,
    changed: Notify,
}

/// Counts the bytes of bodies.
#[derive(Default)]
struct BodyBudget(AtomicUsize);

impl QueueState {
    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().expect("no panic while held")
    }

    /// Marks that a waiter must be woken.
    fn change(&self) {
        self.has_changed.store(true, Ordering::Release);
    }

    /// Wakes a waiter if marked: after the commit, so that all its messages fit one batch.
    fn wake(&self) {
        if self.has_changed.swap(false, Ordering::AcqRel) {
            self.changed.notify_one();
        }
    }
}

impl BodyBudget {
    /// Keeps a body, if there is memory.
    fn keep(&self, body: String) -> Option<Box<str>> {
        let bytes = body.len();
        if self.0.fetch_add(bytes, Ordering::Relaxed) + bytes <= BODY_BYTES_MAX {
            return Some(body.into());
        }
        self.0.fetch_sub(bytes, Ordering::Relaxed);
        None
    }

    fn release(&self, body: Option<&str>) {
        self.0.fetch_sub(body.map_or(0, str::len), Ordering::Relaxed);
    }
}

impl Queues {
    pub(crate) fn open(
        database: &Arc<Database>,
        clock: Arc<dyn Clock>,
        options: &Options,
    ) -> Result<Self, OpenError> {
        let all =
            [Queue::Dispatch, Queue::DeadLetter, Queue::FanOut, Queue::Redrive, Queue::Poison];
        let retry = (0..options.retry_queues.max(1)).map(Queue::Retry);
        let all = all.into_iter().chain(retry).map(|queue| (queue, QueueState::default()));
        let all: BTreeMap<_, _> = all.collect();
        rows::load(database, &all, clock.now(), options.retry_queues.max(1))?;
        let failed = |error| OpenError::Folder(options.folder.clone().unwrap_or_default(), error);
        let (in_flight, suspects) = InFlight::open(options.folder.as_deref()).map_err(failed)?;
        let suspects = withhold(&all, suspects);
        let all = Arc::new(all);
        let lines = Arc::clone(&all);
        database.after_each_commit(move || lines.values().for_each(QueueState::wake));
        Ok(Self {
            database: Arc::clone(database),
            clock,
            all,
            ids: Arc::new(Ids::from(database.opened)),
            budget: Arc::default(),
            in_flight: Arc::new(in_flight),
            is_isolating: AtomicBool::new(!suspects.is_empty()),
            suspects: Mutex::new(suspects),
            visibility: options.visibility,
            max_receives: options.max_receives,
            message_bytes_max: options.message_bytes_max,
        })
    }

    fn line(&self, call: &'static str, queue: Queue) -> Result<&QueueState, PortError> {
        self.database.check(call)?;
        let missing = || PortError::new(call, format!("there is no queue {queue}"));
        self.all.get(&queue).ok_or_else(missing)
    }

    pub(crate) async fn receive(
        &self,
        queue: Queue,
        most: usize,
    ) -> Result<Vec<Received>, PortError> {
        self.take(queue, most, self.visibility.of(queue)).await
    }

    async fn take(
        &self,
        queue: Queue,
        most: usize,
        hidden_for: Duration,
    ) -> Result<Vec<Received>, PortError> {
        const CALL: &str = "queue: receiving";
        let now = self.clock.now();
        let until = now + hidden_for;
        let max_receives = match queue {
            Queue::Poison => u32::MAX,
            _ => self.max_receives,
        };
        let line = self.line(CALL, queue)?;
        let visible_since = if self.is_isolating(queue) { RELEASED } else { now };
        let (taken, worn_out) = line.contents().take(now, visible_since, until, most, max_receives);
        for (id, message, _) in taken.iter().filter(|(_, message, _)| message.receives > 1) {
            self.database.journal.drop_before((*id, message.receives));
        }
        // On failure they stay hidden until their next receive, and the others are received.
        if !worn_out.is_empty()
            && let Err(error) = self.poison(queue, worn_out, "it was received too often").await
        {
            tracing::warn!(%error, %queue, "messages that were received too often stay");
        }
        self.with_bodies(CALL, line, taken, visible_since)
    }

    /// Reads missing bodies, up to the size of a batch: the other messages stay. Messages whose body
    /// can't be read are received a little later. Fails if that is so for all of them.
    fn with_bodies(
        &self,
        call: &'static str,
        line: &QueueState,
        taken: Vec<Taken>,
        visible_since: Timestamp,
    ) -> Result<Vec<Received>, PortError> {
        let mut received = Vec::with_capacity(taken.len());
        let (mut bytes, mut failed) = (0, None);
        for (id, message, body) in taken {
            if bytes >= BATCH_BYTES_MAX {
                // At its place: what has waited less must not overtake it.
                let visible_at = message.visible_at;
                let not_taken = line.contents().give_back((id, message, body), visible_at);
                self.budget.release(not_taken.as_deref());
                continue;
            }
            let body = match body {
                Some(body) => {
                    self.budget.release(Some(&body));
                    Some(body.into())
                }
                None => match self.database.read(call, |it| rows::body(it, id)) {
                    Ok(body) => body,
                    Err(error) => {
                        line.contents().give_back((id, message, None), visible_since + READ_AGAIN);
                        failed = Some(error);
                        continue;
                    }
                },
            };
            // It was just deleted.
            let Some(body) = body else {
                line.contents().remove(id);
                continue;
            };
            bytes += body.len();
            let whole = Received {
                message_id: receipt::message_id(id),
                receipt: receipt::write(id, message.receives),
                receives: message.receives,
                sent_at: message.sent_at,
                group: message.group.as_ref().to_owned(),
                body,
            };
            received.push(whole);
        }
        match failed {
            Some(error) if received.is_empty() => Err(error),
            Some(error) => {
                tracing::warn!(%error, "messages could not be read, and are received again");
                Ok(received)
            }
            None => Ok(received),
        }
    }

    /// Moves messages to the poison queue, and logs why.
    async fn poison(
        &self,
        from: Queue,
        ids: Vec<i64>,
        reason: &'static str,
    ) -> Result<(), PortError> {
        const CALL: &str = "queue: moving to the poison queue";
        let now = self.clock.now();
        // The queue's name in SQS.
        let moved_from = format!("gridpost-{from}");
        let (all, moved) = (Arc::clone(&self.all), ids.clone());
        let work = move |database: &rusqlite::Connection| {
            moved.iter().try_for_each(|id| rows::poison(database, *id, now, &moved_from))
        };
        let then = move |()| {
            for id in ids {
                tracing::warn!(%from, id, reason, "a message moves to the poison queue");
                let removed = all[&from].contents().remove(id);
                let Some((message, body)) = removed else { continue };
                let message = Message { visible_at: now, in_flight: false, ..message };
                all[&Queue::Poison].contents().add(id, message, body);
            }
            all[&Queue::Poison].change();
        };
        self.database.write_then(CALL, OnFullDisk::Wait, work, then).await
    }

    pub(crate) fn record_in_flight(&self, received: &[Received]) -> InFlightBatch {
        let ids = received.iter().filter_map(|one| receipt::read(&one.receipt));
        self.in_flight.record(&ids.map(|(id, _)| id).collect::<Vec<_>>())
    }

    /// Releases the suspects one group at a time, and moves those that crash the process to the poison
    /// queue. Returns once the process is stable.
    pub(crate) async fn isolate_crash_suspects(&self) {
        let groups = std::mem::take(&mut *self.suspects.lock().expect("no panic while held"));
        for mut group in groups {
            let crashing = group.extract_if(.., |_, crashes| *crashes >= CRASHES_MAX);
            for (id, _) in crashing.collect::<Vec<_>>() {
                self.poison_crashing(id).await;
            }
            let release = |group: &Group| {
                for line in self.all.values() {
                    group.keys().for_each(|id| line.contents().release(*id));
                }
                self.wake_all();
            };
            self.in_flight.try_group(group, release).await;
        }
        self.is_isolating.store(false, Ordering::Release);
        self.wake_all();
        tokio::time::sleep(STABLE_AFTER).await;
        self.in_flight.mark_stable();
    }

    async fn poison_crashing(&self, id: i64) {
        let reason = "it crashes the process";
        let from = self.all.iter().find(|(_, line)| line.contents().has(id));
        let Some((from, _)) = from else { return };
        if let Err(error) = self.poison(*from, vec![id], reason).await {
            tracing::error!(%error, id, "failed to move the message; it is withheld until the next start");
        }
    }

    fn is_isolating(&self, queue: Queue) -> bool {
        queue != Queue::Poison && self.is_isolating.load(Ordering::Acquire)
    }

    fn wake_all(&self) {
        self.all.values().for_each(|line| line.changed.notify_one());
    }

    pub(crate) fn next_visible(&self, queue: Queue) -> Result<Option<Timestamp>, PortError> {
        let line = self.line("queue: looking ahead", queue)?;
        // Until then, only suspects can be received, whose release wakes waiters.
        Ok(if self.is_isolating(queue) { None } else { line.contents().next() })
    }

    pub(crate) async fn arrived(&self, queue: Queue) {
        match self.all.get(&queue) {
            Some(line) => line.changed.notified().await,
            None => std::future::pending().await,
        }
    }
}

/// Withholds and returns the suspects that exist, hidden ones too: a crash sets a fast clock back, so
/// they may have been received. Their function hides those again that are not due.
fn withhold(all: &BTreeMap<Queue, QueueState>, mut groups: Vec<Group>) -> Vec<Group> {
    // The poison queue may hold a former suspect.
    let lines = || all.iter().filter(|(queue, _)| **queue != Queue::Poison);
    let withhold = |id| lines().any(|(_, line)| line.contents().withhold(id));
    groups.iter_mut().for_each(|group| group.retain(|id, _| withhold(*id)));
    groups.retain(|group| !group.is_empty());
    groups
}

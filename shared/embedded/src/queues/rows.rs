//! The rows of messages.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use gridpost_core::{
    delivery::{parking::queue_now, queue::Queue},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row};

use super::{QueueState, contents::Message};
use crate::{database::Database, options::OpenError};

/// The ids of an opening begin with its number times this, so that none is used twice: it has fewer messages in
/// a millisecond.
const IDS_OF_A_MILLISECOND: i64 = 1 << 20;
const FIRST_RETRY: i64 = 16;

pub(super) struct Ids(AtomicI64);

impl Ids {
    pub(super) fn from(opened: i64) -> Self {
        Self(AtomicI64::new(opened.saturating_mul(IDS_OF_A_MILLISECOND)))
    }

    pub(super) fn next(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

fn number(queue: Queue) -> i64 {
    match queue {
        Queue::Dispatch => 0,
        Queue::DeadLetter => 1,
        Queue::FanOut => 2,
        Queue::Redrive => 3,
        Queue::Poison => 4,
        // One machine has none.
        Queue::Slow => 5,
        Queue::Retry(shard) => FIRST_RETRY + i64::try_from(shard).expect("few queues"),
    }
}

/// Returns the queue of that number, given today's number of retry queues.
fn queue(number: i64, retry_queues: usize) -> Option<Queue> {
    let others = [Queue::Dispatch, Queue::DeadLetter, Queue::FanOut, Queue::Redrive, Queue::Poison];
    match usize::try_from(number - FIRST_RETRY) {
        Ok(shard) => queue_now(shard, retry_queues),
        Err(_) => others.get(usize::try_from(number).ok()?).copied(),
    }
}

/// Loads all stored messages into their queues. A visible message may have been received when the last
/// process ended, so one more receive is counted: from the second on, a state is looked up.
pub(super) fn load(
    database: &Database,
    lines: &BTreeMap<Queue, QueueState>,
    now: Timestamp,
    retry_queues: usize,
) -> Result<(), OpenError> {
    let mut groups = HashSet::<Arc<str>>::new();
    let mut put = |row: &Row<'_>| -> rusqlite::Result<()> {
        let (id, number) = (row.get(0)?, row.get(1)?);
        let Some(line) = queue(number, retry_queues).and_then(|queue| lines.get(&queue)) else {
            tracing::error!(id, queue = number, "a stored message has an unknown queue");
            return Ok(());
        };
        let sent_at = Timestamp::from_millis(row.get(2)?);
        let visible_at = Timestamp::from_millis(row.get(3)?);
        // Without hiding or delay it is visible, even if the clock was set back.
        let visible_at = if visible_at == sent_at { sent_at.min(now) } else { visible_at };
        let was_received = u32::from(visible_at <= now);
        let group = row.get_ref(5)?.as_str()?;
        let group = groups.get(group).cloned().unwrap_or_else(|| {
            let group = Arc::<str>::from(group);
            groups.insert(Arc::clone(&group));
            group
        });
        let message = Message {
            sent_at,
            visible_at,
            receives: row.get::<_, u32>(4)?.saturating_add(was_received),
            in_flight: false,
            group,
        };
        line.contents().add(id, message, None);
        Ok(())
    };
    database.look(|connection| {
        let all = "SELECT id, queue, sent_at, visible_at, receives, fair_group FROM messages \
                   ORDER BY id";
        let mut select = connection.prepare(all)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            put(row)?;
        }
        Ok(())
    })
}

pub(super) fn insert(
    connection: &Connection,
    id: i64,
    to: Queue,
    (sent_at, visible_at): (Timestamp, Timestamp),
    (group, body): (&str, &str),
) -> rusqlite::Result<()> {
    let insert = "INSERT INTO messages (id, queue, sent_at, visible_at, receives, fair_group, body) \
                  VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6)";
    let (sent_at, visible_at) = (sent_at.as_millis(), visible_at.as_millis());
    let values = (id, number(to), sent_at, visible_at, group, body);
    connection.prepare_cached(insert)?.execute(values).map(drop)
}

pub(super) fn body(connection: &Connection, id: i64) -> rusqlite::Result<Option<String>> {
    let mut select = connection.prepare_cached("SELECT body FROM messages WHERE id = ?1")?;
    select.query_row([id], |row| row.get(0)).optional()
}

/// Returns the queue of a poison message before it was moved.
pub(super) fn moved_from(connection: &Connection, id: i64) -> rusqlite::Result<Option<String>> {
    let mut select = connection.prepare_cached("SELECT moved_from FROM messages WHERE id = ?1")?;
    Ok(select.query_row([id], |row| row.get(0)).optional()?.flatten())
}

/// Hides a message and stores its receives. Returns whether it exists.
pub(super) fn hide(
    connection: &Connection,
    id: i64,
    receives: u32,
    until: Timestamp,
) -> rusqlite::Result<bool> {
    let update = "UPDATE messages SET visible_at = ?2, receives = ?3 WHERE id = ?1";
    let changed = connection.prepare_cached(update)?.execute((id, until.as_millis(), receives))?;
    Ok(changed > 0)
}

pub(super) fn poison(
    connection: &Connection,
    id: i64,
    now: Timestamp,
    moved_from: &str,
) -> rusqlite::Result<()> {
    let update = "UPDATE messages SET queue = ?2, visible_at = ?3, moved_from = ?4 WHERE id = ?1";
    let values = (id, number(Queue::Poison), now.as_millis(), moved_from);
    connection.prepare_cached(update)?.execute(values).map(drop)
}

/// Deletes a message. Returns whether it existed.
pub(super) fn delete(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    let deleted = connection.prepare_cached("DELETE FROM messages WHERE id = ?1")?.execute([id])?;
    Ok(deleted > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_has_a_number_of_its_own() {
        let table = [
            (Queue::Dispatch, 0),
            (Queue::DeadLetter, 1),
            (Queue::FanOut, 2),
            (Queue::Redrive, 3),
            (Queue::Poison, 4),
            (Queue::Retry(0), 16),
            (Queue::Retry(2), 18),
        ];
        for (one, stored) in table {
            assert_eq!((number(one), queue(stored, 3)), (stored, Some(one)));
        }
        // There were more retry queues before.
        assert_eq!(queue(18, 2), Some(Queue::Retry(0)));
        for other in [-1, 5, 15] {
            assert_eq!(queue(other, 1), None, "{other}");
        }
    }
}

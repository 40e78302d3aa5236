//! Entries as rows.

use std::time::Duration;

use gridpost_core::{
    journal::{Entry, EntryKind, Owner},
    time::Timestamp,
};
use rusqlite::{
    Connection, Row, params,
    types::{Value, ValueRef},
};
use uuid::Uuid;

use super::{
    segments::{Tail, sealed},
    words::{Numbers, Words},
};

/// The longest text of a response that is kept, in bytes.
const RESPONSE_BYTES_MAX: usize = 4_096;

/// All columns, in their order in the table.
pub(super) const COLUMNS: &str = "id, at, kind, owner, publish_time, delivery, delivery_rest, \
                                  attempt, part, outcome, status, took_ms, due, because, reason, \
                                  receives, events, event_ids, trace_parent, response";
const INSERT: &str = "INSERT OR IGNORE INTO entries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, \
                      ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)";

/// The bytes of a row with its keys and what lists it, about, and in SQL.
const ROW_BYTES: usize = 108;
pub(super) const SIZE: &str = "108 + octet_length(event_ids) * 5 / 4 \
                               + coalesce(octet_length(trace_parent), 0) \
                               + coalesce(octet_length(response), 0)";

/// The columns that filters read.
pub(super) const AT: usize = 1;
pub(super) const KIND: usize = 2;
pub(super) const OWNER: usize = 3;
pub(super) const OUTCOME: usize = 9;
pub(super) const EVENT_IDS: usize = 17;

/// An entry, prepared for its row.
pub(super) struct Prepared {
    entry: Entry,
    event_ids: Value,
    ids: Vec<String>,
}

impl Prepared {
    pub(super) fn of(mut entry: Entry) -> Self {
        if let Some(response) = &mut entry.response {
            response.truncate(response.floor_char_boundary(RESPONSE_BYTES_MAX));
        }
        let text = std::mem::take(&mut entry.event_ids);
        let ids: Vec<String> = serde_json::from_str(&text).unwrap_or_default();
        let event_ids = match ids.as_slice() {
            [id] if text == array(id) => match id.parse::<Uuid>() {
                Ok(uuid) if uuid.to_string() == *id => Value::Blob(uuid.into_bytes().to_vec()),
                _ if !id.starts_with('[') => Value::Text(id.clone()),
                _ => Value::Text(text),
            },
            _ => Value::Text(text),
        };
        Self { entry, event_ids, ids }
    }

    /// Whether a delivery has ended in a dead letter or a drop before. An end that is carried out again, after
    /// a fault, may be the other one: its event subscription was deleted meanwhile, or the bucket.
    fn has_ended(&self, connection: &Connection, numbers: &mut Numbers) -> rusqlite::Result<bool> {
        const ENDS: [EntryKind; 2] = [EntryKind::DeadLettered, EntryKind::Dropped];
        let Entry { kind, delivery, publish_time, part, .. } = &self.entry;
        if !ENDS.contains(kind) {
            return Ok(false);
        }
        let mut number = |kind: EntryKind| numbers.of(connection, &kind.to_string());
        let (one, other) = (number(ENDS[0])?, number(ENDS[1])?);
        let select = "SELECT 1 FROM entries WHERE publish_time = ?1 AND delivery = ?2 \
                      AND part = ?3 AND kind IN (?4, ?5)";
        let delivery = delivery.as_u64_pair().0.cast_signed();
        let values = (publish_time.as_millis(), delivery, part, one, other);
        connection.prepare_cached(select)?.exists(values)
    }

    /// Writes the entry as the tail's next row. Returns whether it is new.
    pub(super) fn write(
        &self,
        connection: &Connection,
        numbers: &mut Numbers,
        tail: &mut Tail,
    ) -> rusqlite::Result<bool> {
        if self.has_ended(connection, numbers)? {
            return Ok(false);
        }
        let entry = &self.entry;
        let kind = numbers.of(connection, &entry.kind.to_string())?;
        let owner = numbers.of(connection, &entry.subscription.to_string())?;
        let mut number =
            |text: Option<String>| text.map(|text| numbers.of(connection, &text)).transpose();
        let outcome = number(entry.outcome.map(|outcome| outcome.to_string()))?;
        let because = number(entry.because.map(|because| because.to_string()))?;
        let reason = number(entry.reason.clone())?;
        let (delivery, rest) = entry.delivery.as_u64_pair();
        let took_ms = entry.took.map(|took| i64::try_from(took.as_millis()).unwrap_or(i64::MAX));
        let trace_parent = entry.trace_parent.map(|trace| trace.to_string());
        let values = params![
            tail.next(),
            entry.at.as_millis(),
            kind,
            owner,
            entry.publish_time.as_millis(),
            delivery.cast_signed(),
            rest.cast_signed(),
            entry.attempt,
            entry.part,
            outcome,
            entry.status,
            took_ms,
            entry.due.map(Timestamp::as_millis),
            because,
            reason,
            entry.receives,
            entry.events,
            self.event_ids,
            trace_parent,
            entry.response,
        ];
        let is_new = connection.prepare_cached(INSERT)?.execute(values)? > 0;
        if is_new {
            let texts = [trace_parent.as_ref(), entry.response.as_ref()];
            let texts = texts.into_iter().flatten().map(String::len).sum::<usize>();
            let bytes = size(ValueRef::from(&self.event_ids), texts);
            tail.push(tail.next(), owner, entry.kind.is_failed(), entry.at, &self.ids, bytes);
        }
        Ok(is_new)
    }
}

/// Reads the tail.
pub(super) fn tail(connection: &Connection) -> rusqlite::Result<Tail> {
    let words = Words::read(connection)?;
    let first = sealed(connection)? + 1;
    let select = format!("SELECT {COLUMNS} FROM entries WHERE id >= ?1 ORDER BY id");
    let mut select = connection.prepare(&select)?;
    let mut rows = select.query([first])?;
    let mut tail = None;
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        let kind: Option<EntryKind> = words.parsed(row.get(KIND)?);
        let is_failed = kind.is_none_or(EntryKind::is_failed);
        let at = Timestamp::from_millis(row.get(AT)?);
        let event_ids = row.get_ref(EVENT_IDS)?;
        let text = |column| row.get_ref(column).map(bytes_of);
        let bytes = size(event_ids, text(EVENT_IDS + 1)? + text(EVENT_IDS + 2)?);
        let tail = tail.get_or_insert_with(|| Tail::from(id));
        tail.push(id, row.get(OWNER)?, is_failed, at, &ids(event_ids), bytes);
    }
    Ok(tail.unwrap_or_else(|| Tail::from(first)))
}

/// Reads an entry; `None` if another version wrote it.
pub(super) fn read(row: &Row<'_>, words: &Words) -> rusqlite::Result<Option<Entry>> {
    let number = |column| row.get::<_, Option<i64>>(column);
    let text = |column| number(column).map(|number| words.text(number?));
    let time = |column| number(column).map(|millis| millis.map(Timestamp::from_millis));
    let (kind, owner) = (words.parsed(row.get(KIND)?), words.owner(row.get(OWNER)?));
    let (Some(kind), Some(Owner::Subscription(subscription))) = (kind, owner) else {
        return Ok(None);
    };
    let (delivery, rest) = (row.get::<_, i64>(5)?, row.get::<_, i64>(6)?);
    let trace_parent: Option<String> = row.get(18)?;
    Ok(Some(Entry {
        kind,
        at: time(AT)?.unwrap_or_default(),
        delivery: Uuid::from_u64_pair(delivery.cast_unsigned(), rest.cast_unsigned()),
        subscription,
        publish_time: time(4)?.unwrap_or_default(),
        attempt: row.get(7)?,
        part: row.get(8)?,
        outcome: text(OUTCOME)?.and_then(|outcome| outcome.parse().ok()),
        status: row.get(10)?,
        took: number(11)?.and_then(|took| u64::try_from(took).ok()).map(Duration::from_millis),
        due: time(12)?,
        because: text(13)?.and_then(|because| serde_json::from_value(because.into()).ok()),
        reason: text(14)?.map(str::to_owned),
        receives: row.get(15)?,
        events: row.get(16)?,
        event_ids: event_ids(row.get_ref(EVENT_IDS)?),
        trace_parent: trace_parent.and_then(|trace| trace.parse().ok()),
        response: row.get(19)?,
    }))
}

fn array(id: &str) -> String {
    serde_json::to_string(&[id]).unwrap_or_default()
}

/// Returns the JSON array of a row's event ids.
fn event_ids(stored: ValueRef<'_>) -> String {
    match stored {
        ValueRef::Blob(bytes) => array(&Uuid::from_slice(bytes).unwrap_or_default().to_string()),
        other => match other.as_str().unwrap_or_default() {
            array if array.starts_with('[') => array.to_owned(),
            id => array(id),
        },
    }
}

/// Reads a row's event ids.
fn ids(stored: ValueRef<'_>) -> Vec<String> {
    serde_json::from_str(&event_ids(stored)).unwrap_or_default()
}

/// Whether a row has that event id.
pub(super) fn has_id(stored: ValueRef<'_>, id: &str) -> bool {
    match stored {
        ValueRef::Blob(bytes) => Uuid::from_slice(bytes).is_ok_and(|uuid| uuid.to_string() == id),
        ValueRef::Text([b'[', ..]) => ids(stored).iter().any(|one| one == id),
        ValueRef::Text(bytes) => bytes == id.as_bytes(),
        _ => false,
    }
}

/// Returns what [`SIZE`] does.
fn size(event_ids: ValueRef<'_>, texts: usize) -> usize {
    ROW_BYTES + bytes_of(event_ids) * 5 / 4 + texts
}

fn bytes_of(stored: ValueRef<'_>) -> usize {
    match stored {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}

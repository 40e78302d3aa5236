//! Finds entries by event id and event subscription.
//!
//! An index by event id would write a page for each entry, as ids are random. Instead, the latest entries
//! are a *tail*, which readers go through; when it is long enough, it becomes a *segment*: lists of what
//! its rows are found by, written together.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use gridpost_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};

/// Items of a segment's lists: an entry has two and more. Writing them takes a millisecond or two.
const ITEMS_MAX: usize = 16_384;

/// A row's number within its segment has 16 bits, and each row has an item at least.
const _: () = assert!(ITEMS_MAX < 1 << 16);

/// Lists of each kind: a look-up reads one of them in each segment.
const PARTS: u64 = 128;

const ITEM_BYTES: usize = 6;

/// Properties that entries are found by.
#[derive(Clone, Copy)]
pub(super) enum Term<'a> {
    Event(&'a str),
    Owner(i64),
    /// Failed ones of an owner.
    FailedOf(i64),
    Failed,
}

impl Term<'_> {
    /// Returns the list that has it, and its key there. Equal keys of event ids are rare.
    fn place(self) -> (i64, u32) {
        let (kind, part, key) = match self {
            Self::Event(id) => {
                let hash = hash(id);
                (0, hash >> 32, hash)
            }
            Self::Owner(number) => (1, number.cast_unsigned(), number.cast_unsigned()),
            Self::FailedOf(number) => (2, number.cast_unsigned(), number.cast_unsigned()),
            Self::Failed => (3, 0, 0),
        };
        let low = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0);
        (kind * PARTS.cast_signed() + (part % PARTS).cast_signed(), low(key))
    }
}

/// Hashes an id by FNV-1a, and mixes the bits. Stored, so it must never change.
fn hash(id: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The latest entries, which are in no segment.
pub(super) struct Tail {
    first: i64,
    next: i64,
    earliest: Timestamp,
    latest: Timestamp,
    bytes: usize,
    items: usize,
    lists: BTreeMap<i64, Vec<u8>>,
}

impl Tail {
    /// Makes an empty tail whose first entry will have that id.
    pub(super) fn from(first: i64) -> Self {
        Self {
            first,
            next: first,
            earliest: Timestamp::MAX,
            latest: Timestamp::MIN,
            bytes: 0,
            items: 0,
            lists: BTreeMap::new(),
        }
    }

    /// Returns the id of the next entry.
    pub(super) fn next(&self) -> i64 {
        self.next
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(
        &mut self,
        id: i64,
        owner: i64,
        is_failed: bool,
        at: Timestamp,
        event_ids: &[String],
        bytes: usize,
    ) {
        let failed = [Term::FailedOf(owner), Term::Failed].into_iter().filter(|_| is_failed);
        let events = event_ids.iter().map(|id| Term::Event(id));
        let offset = u16::try_from(id - self.first).unwrap_or(u16::MAX);
        for term in events.chain([Term::Owner(owner)]).chain(failed) {
            let (list, key) = term.place();
            let items = self.lists.entry(list).or_default();
            items.extend_from_slice(&key.to_le_bytes());
            items.extend_from_slice(&offset.to_le_bytes());
            self.items += 1;
        }
        self.bytes += bytes;
        self.earliest = self.earliest.min(at);
        self.latest = self.latest.max(at);
        self.next = id + 1;
    }

    /// Makes the tail a segment if it is long enough.
    pub(super) fn seal(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.items < ITEMS_MAX {
            return Ok(());
        }
        let tail = std::mem::replace(self, Self::from(self.next));
        let insert = "INSERT INTO segment_lists (first, list, items) VALUES (?1, ?2, ?3)";
        let mut insert = connection.prepare_cached(insert)?;
        for (list, items) in tail.lists {
            insert.execute((tail.first, list, items))?;
        }
        let insert = "INSERT INTO segments (first, last, earliest, latest, bytes) \
                      VALUES (?1, ?2, ?3, ?4, ?5)";
        let times = (tail.earliest.as_millis(), tail.latest.as_millis());
        let bytes = i64::try_from(tail.bytes).unwrap_or(i64::MAX);
        let values = (tail.first, tail.next - 1, times.0, times.1, bytes);
        connection.prepare_cached(insert)?.execute(values).map(drop)
    }
}

/// Returns the last entry that is in a segment.
pub(super) fn sealed(connection: &Connection) -> rusqlite::Result<i64> {
    let select = "SELECT last FROM segments ORDER BY first DESC LIMIT 1";
    let last = connection.prepare_cached(select)?.query_row([], |row| row.get(0)).optional()?;
    Ok(last.unwrap_or(0))
}

/// A segment.
pub(super) struct Segment {
    pub(super) first: i64,
    pub(super) last: i64,
    earliest: i64,
    latest: i64,
}

impl Segment {
    /// Whether an entry of that time may be in it.
    pub(super) fn is_within(&self, from: Timestamp, to: Timestamp) -> bool {
        self.latest >= from.as_millis() && self.earliest < to.as_millis()
    }

    /// Lists the segments that begin before an id, newest first.
    pub(super) fn before(connection: &Connection, id: i64) -> rusqlite::Result<Vec<Self>> {
        let select = "SELECT first, last, earliest, latest FROM segments \
                      WHERE first < ?1 ORDER BY first DESC";
        let mut select = connection.prepare_cached(select)?;
        let segments = select.query_map([id], |row| {
            let (first, last) = (row.get(0)?, row.get(1)?);
            Ok(Self { first, last, earliest: row.get(2)?, latest: row.get(3)? })
        })?;
        segments.collect()
    }

    /// Finds its entries with one of those terms, newest first. Others may be among them.
    pub(super) fn find(
        &self,
        connection: &Connection,
        places: &Places,
    ) -> rusqlite::Result<BTreeSet<i64>> {
        let select = "SELECT items FROM segment_lists WHERE first = ?1 AND list = ?2";
        let mut select = connection.prepare_cached(select)?;
        let mut ids = BTreeSet::new();
        for (list, keys) in &places.0 {
            let mut rows = select.query((self.first, list))?;
            let Some(row) = rows.next()? else { continue };
            let (items, _) = row.get_ref(0)?.as_blob()?.as_chunks::<ITEM_BYTES>();
            for [a, b, c, d, low, high] in items {
                if keys.contains(&u32::from_le_bytes([*a, *b, *c, *d])) {
                    ids.insert(self.first + i64::from(u16::from_le_bytes([*low, *high])));
                }
            }
        }
        Ok(ids)
    }
}

/// Where terms are listed.
pub(super) struct Places(BTreeMap<i64, HashSet<u32>>);

impl<'a> FromIterator<Term<'a>> for Places {
    fn from_iter<T: IntoIterator<Item = Term<'a>>>(terms: T) -> Self {
        let mut lists = BTreeMap::<_, HashSet<_>>::new();
        for (list, key) in terms.into_iter().map(Term::place) {
            lists.entry(list).or_default().insert(key);
        }
        Self(lists)
    }
}

/// Removes the first segment if its entries are before that one. Returns whether it did.
pub(super) fn remove_before(connection: &Connection, entry: i64) -> rusqlite::Result<bool> {
    let Some((first, _)) = first(connection)?.filter(|(_, last)| *last < entry) else {
        return Ok(false);
    };
    for table in ["segment_lists", "segments"] {
        let delete = format!("DELETE FROM {table} WHERE first = ?1");
        connection.prepare_cached(&delete)?.execute([first])?;
    }
    Ok(true)
}

/// Returns the first and the last entry of the first segment.
pub(super) fn first(connection: &Connection) -> rusqlite::Result<Option<(i64, i64)>> {
    let select = "SELECT first, last FROM segments ORDER BY first LIMIT 1";
    let mut select = connection.prepare_cached(select)?;
    select.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

//! Removes history in small pieces, oldest first: what is too old, and more while the journal is larger
//! than it may be or the disk is nearly full. Removed rows leave pages for messages.

use std::{path::PathBuf, time::Duration};

use gridpost_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::{
    counts::{self, Series},
    entries::SIZE,
    segments::{self, Tail},
};
use crate::{
    named::{note_of, set_note},
    options::Options,
    room::Disk,
};

const ENTRIES_KEPT_FOR: Duration = Duration::from_secs(14 * 24 * 60 * 60);
const MINUTES_KEPT_FOR: Duration = Duration::from_secs(14 * 24 * 60 * 60);
const SUMS_KEPT_FOR: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Sums that are kept however large they are, when nothing else makes room.
const SUMS_KEPT_AT_LEAST: Duration = Duration::from_secs(60 * 60);

/// The newest rows about repeatable work that are kept: those of publishes under way.
const ONCE_KEPT: i64 = 4_096;

/// Rows that one commit removes: at least; as many as have twice the bytes that it adds; and at most, about
/// 1 MB, or so many while the disk is nearly full. Writes wait for it.
const AT_ONCE_MIN: i64 = 64;
const AT_ONCE_MAX: i64 = 8_192;

/// How often the disk and sums are looked at; the disk after that many commits, too.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const SUMS_EVERY: Duration = Duration::from_secs(10 * 60);
const COMMITS_MAX: u32 = 64;

/// History makes way where less is free than this many times the room without which publishes are refused.
const FLOORS: u64 = 2;

/// The bytes of a row of sums, about. One of repeatable work has as many as two of them.
const SUM_BYTES: i64 = 32;
const ONCE_BYTES: i64 = 2 * SUM_BYTES;
pub(super) const ONCE_SUMS: usize = 2;

/// The note of how many rows sums have, and how far it may lag.
const SUMS: &str = "sums";
const SUMS_LAG: i64 = 256;

/// The share of the disk that the journal may take without another limit, and the bytes in memory.
const DISK_SHARE: u64 = 10;
const MEMORY_BYTES: u64 = 64 * 1_048_576;

/// How large the journal may be.
pub(crate) struct Limits {
    bytes: i64,
    folder: Option<PathBuf>,
    floor: Option<u64>,
}

impl Limits {
    pub(crate) fn of(options: &Options) -> Self {
        let folder = options.folder.clone();
        let share = || folder.as_deref().and_then(Disk::of).map(|disk| disk.size / DISK_SHARE);
        let bytes = options.journal_bytes_max.or_else(share).unwrap_or(MEMORY_BYTES);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        Self { bytes, folder, floor: options.disk_floor }
    }
}

/// The history that there is to remove.
pub(super) struct Retention {
    /// The first entry and its time.
    oldest: Option<(i64, Timestamp)>,
    /// The bytes of entries, about, and rows of sums.
    bytes: i64,
    sums: i64,
    sums_noted: i64,
    /// The bytes added in this transaction.
    added: i64,
    /// The time of the last look at the disk, and the commits since then.
    looked: Option<(Timestamp, u32)>,
    is_short: bool,
    /// Of free pages in the file, at the last look at the disk.
    free_bytes: u64,
    sums_looked: Option<Timestamp>,
}

impl Retention {
    pub(super) fn load(connection: &Connection, tail: &Tail) -> rusqlite::Result<Self> {
        let (oldest, sums) = (oldest(connection)?, note_of(connection, SUMS)?.unwrap_or(0));
        let sum = |select: &str, values: (i64, i64)| {
            connection.query_row(select, values, |row| row.get::<_, i64>(0))
        };
        let mut bytes = i64::try_from(tail.bytes()).unwrap_or(i64::MAX);
        if let Some((first, last)) = segments::first(connection)? {
            // The first segment may have lost entries.
            let left = "FROM entries WHERE id BETWEEN ?1 AND ?2";
            bytes += sum(&format!("SELECT coalesce(sum({SIZE}), 0) {left}"), (first, last))?;
            let others =
                "SELECT coalesce(sum(bytes), 0) FROM segments WHERE first BETWEEN ?1 AND ?2";
            bytes += sum(others, (last, i64::MAX))?;
        }
        Ok(Self {
            oldest,
            bytes,
            sums,
            sums_noted: sums,
            added: 0,
            looked: None,
            is_short: false,
            free_bytes: 0,
            sums_looked: None,
        })
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// Records what a transaction adds.
    pub(super) fn add(&mut self, bytes: usize, sums: usize) {
        let signed = |number| i64::try_from(number).unwrap_or(i64::MAX);
        let (bytes, sums) = (signed(bytes), signed(sums));
        self.added = bytes.saturating_add(sums.saturating_mul(SUM_BYTES));
        self.bytes = self.bytes.saturating_add(bytes);
        self.sums = self.sums.saturating_add(sums);
    }

    /// Removes history, a piece of what there is: the oldest first.
    pub(super) fn sweep(
        &mut self,
        connection: &Connection,
        tail: &Tail,
        limits: &Limits,
        now: Timestamp,
    ) -> rusqlite::Result<()> {
        if self.oldest.is_none() && self.added > 0 {
            self.oldest = oldest(connection)?;
        }
        self.look(connection, limits, now)?;
        let is_over = self.bytes + self.sums * SUM_BYTES > limits.bytes || self.is_short;
        // The newest entry stays.
        let newest = tail.next() - 1;
        let oldest = self.oldest.filter(|(first, _)| *first < newest);
        let is_due = |at| now < at || now.since(at) >= SUMS_EVERY;
        let is_due = self.sums_looked.is_none_or(is_due);
        let mut earlier = before(now, ENTRIES_KEPT_FOR);
        if is_over {
            earlier = oldest.map_or(Timestamp::MAX, |(_, at)| at.max(earlier));
        }
        let removed = if is_over || is_due { self.remove_once(connection, earlier)? } else { 0 };
        match oldest {
            Some((first, at))
                if at < before(now, ENTRIES_KEPT_FOR) || (is_over && removed == 0) =>
            {
                self.remove_entries(connection, (first, newest), is_over, now)?;
            }
            _ => {}
        }
        if (self.sums - self.sums_noted).abs() >= SUMS_LAG {
            set_note(connection, SUMS, self.sums)?;
            self.sums_noted = self.sums;
        }
        if is_due {
            // However little room there is: what waits is not history.
            let delete = "DELETE FROM waiting_events WHERE hour < ?1";
            let hour = before(now, SUMS_KEPT_FOR).as_millis().div_euclid(3_600_000);
            connection.prepare_cached(delete)?.execute([hour])?;
        }
        let has_no_room = is_over && oldest.is_none() && removed == 0;
        if is_due || has_no_room {
            let has_more = self.remove_sums(connection, has_no_room, now)? || removed > 0;
            self.sums_looked = (!has_more).then_some(now);
        }
        Ok(())
    }

    /// Looks now and then whether the disk is nearly full.
    fn look(
        &mut self,
        connection: &Connection,
        limits: &Limits,
        now: Timestamp,
    ) -> rusqlite::Result<()> {
        let Some(folder) = &limits.folder else { return Ok(()) };
        let commits = match self.looked {
            Some((at, commits)) if !self.is_short && now >= at && now.since(at) < LOOK_EVERY => {
                commits + 1
            }
            _ => COMMITS_MAX,
        };
        if commits < COMMITS_MAX {
            self.looked = self.looked.map(|(at, _)| (at, commits));
            return Ok(());
        }
        self.looked = Some((now, 0));
        let pragma = |name| {
            let value = connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            value.map(i64::unsigned_abs)
        };
        let (page, free) = (pragma("page_size")?, pragma("freelist_count")?);
        let (pages, pages_max) = (pragma("page_count")?, pragma("max_page_count")?);
        let Disk { size: total, free: left } =
            Disk::of(folder).unwrap_or(Disk { size: u64::MAX, free: u64::MAX });
        let size = total.min(pages_max.saturating_mul(page));
        let left = left.min(pages_max.saturating_sub(pages).saturating_mul(page));
        self.free_bytes = free.saturating_mul(page);
        let left = left.saturating_add(self.free_bytes);
        let floor = Disk { size, free: left }.floor(limits.floor);
        let is_short = left < floor.saturating_mul(FLOORS);
        if is_short && !self.is_short {
            tracing::warn!(left, "the disk is nearly full; the journal's history makes room");
        }
        self.is_short = is_short;
        Ok(())
    }

    /// Removes the first entries, but never the newest, and the segments that end before the rest.
    fn remove_entries(
        &mut self,
        connection: &Connection,
        (first, newest): (i64, i64),
        is_over: bool,
        now: Timestamp,
    ) -> rusqlite::Result<()> {
        let earlier = if is_over { Timestamp::MAX } else { before(now, ENTRIES_KEPT_FOR) };
        let select = format!(
            "SELECT id, at, {SIZE} FROM entries WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3"
        );
        let mut select = connection.prepare_cached(&select)?;
        let mut rows = select.query((first, newest, AT_ONCE_MAX))?;
        let (mut rest, mut begin, mut bytes) = (first, i64::MIN, 0);
        while let Some(row) = rows.next()? {
            let (id, at): (i64, i64) = (row.get(0)?, row.get(1)?);
            let is_enough = !self.is_short && id - first >= AT_ONCE_MIN && bytes >= 2 * self.added;
            if is_enough || at >= earlier.as_millis() {
                break;
            }
            (rest, begin, bytes) = (id + 1, begin.max(at + 1), bytes + row.get::<_, i64>(2)?);
        }
        drop(rows);
        connection.prepare_cached("DELETE FROM entries WHERE id < ?1")?.execute([rest])?;
        self.bytes -= bytes;
        note_begin(connection, None, begin)?;
        self.oldest = oldest(connection)?;
        while segments::remove_before(connection, rest)? {}
        Ok(())
    }

    /// Removes the first rows about repeatable work that are earlier, but not the newest. Returns how many.
    fn remove_once(
        &mut self,
        connection: &Connection,
        earlier: Timestamp,
    ) -> rusqlite::Result<usize> {
        let select = "SELECT id, at FROM counted_once ORDER BY id LIMIT 1";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        let first = connection.prepare_cached(select)?.query_row([], read).optional()?;
        let Some((first, _)) = first.filter(|(_, at)| *at < earlier.as_millis()) else {
            return Ok(0);
        };
        let delete = "DELETE FROM counted_once WHERE id >= ?1 AND id < ?2 AND at < ?3 \
                      AND id <= (SELECT max(id) FROM counted_once) - ?4";
        let most = if self.is_short { AT_ONCE_MAX } else { 2 * self.added / ONCE_BYTES };
        let until = first.saturating_add(most.clamp(AT_ONCE_MIN, AT_ONCE_MAX));
        let values = (first, until, earlier.as_millis(), ONCE_KEPT);
        let removed = connection.prepare_cached(delete)?.execute(values)?;
        self.sums -= i64::try_from(ONCE_SUMS * removed).unwrap_or(0);
        Ok(removed)
    }

    /// Removes the first step of each series that is old enough. Returns whether there may be more.
    fn remove_sums(
        &mut self,
        connection: &Connection,
        has_no_room: bool,
        now: Timestamp,
    ) -> rusqlite::Result<bool> {
        let mut has_more = false;
        let ages = [
            (Series::Minutes, MINUTES_KEPT_FOR),
            (Series::Hours, SUMS_KEPT_FOR),
            (Series::Ledger, SUMS_KEPT_FOR),
        ];
        for (series, age) in ages {
            let age = if has_no_room { SUMS_KEPT_AT_LEAST } else { age };
            let Some(step) = counts::edge(connection, series, "min")? else { continue };
            let end = series.begin(step + 1);
            if end > before(now, age) {
                continue;
            }
            let delete = "DELETE FROM counts WHERE series = ?1 AND step = ?2";
            let removed = connection.prepare_cached(delete)?.execute((series.number(), step))?;
            self.sums -= i64::try_from(removed).unwrap_or(0);
            note_begin(connection, Some(series), end.as_millis())?;
            has_more = true;
            if has_no_room {
                break;
            }
        }
        Ok(has_more)
    }
}

fn before(now: Timestamp, age: Duration) -> Timestamp {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(age))
}

fn begin_note(of: Option<Series>) -> String {
    match of {
        None => "entries begin".to_owned(),
        Some(series) => format!("series {} begins", series.number()),
    }
}

/// Notes that nothing is kept from before that time.
fn note_begin(connection: &Connection, of: Option<Series>, at_ms: i64) -> rusqlite::Result<()> {
    let before = note_of(connection, &begin_note(of))?;
    set_note(connection, &begin_note(of), at_ms.max(before.unwrap_or(i64::MIN)))
}

/// Returns the time before which entries, or counts of a series, were removed.
pub(super) fn begins(
    connection: &Connection,
    of: Option<Series>,
) -> rusqlite::Result<Option<Timestamp>> {
    Ok(note_of(connection, &begin_note(of))?.map(Timestamp::from_millis))
}

/// Returns the first entry and its time.
pub(super) fn oldest(connection: &Connection) -> rusqlite::Result<Option<(i64, Timestamp)>> {
    let select = "SELECT id, at FROM entries ORDER BY id LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, Timestamp::from_millis(row.get(1)?)));
    connection.prepare_cached(select)?.query_row([], read).optional()
}

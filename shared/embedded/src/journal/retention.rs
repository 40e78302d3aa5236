//! Removes history in small pieces, oldest first: what is too old, and more while the journal is larger
//! than it may be or the disk is nearly full. Removed rows leave pages for messages.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use gridpost_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::{
    counts::{self, Series},
    segments::{self, Tail},
};
use crate::named::{note_of, set_note};

const ENTRIES_KEPT_FOR: Duration = Duration::from_secs(14 * 24 * 60 * 60);
const MINUTES_KEPT_FOR: Duration = Duration::from_secs(14 * 24 * 60 * 60);
const SUMS_KEPT_FOR: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Sums that are kept however large they are, when entries make no room.
const SUMS_KEPT_AT_LEAST: Duration = Duration::from_secs(60 * 60);

/// Counts of repeatable work that are kept when the journal is too large: no publish is repeated later.
const ONCE_KEPT_AT_LEAST: Duration = Duration::from_secs(24 * 60 * 60);

/// Rows that one commit removes: at least, and twice what it adds, but at most. Writes wait for it.
const AT_ONCE_MIN: i64 = 64;
const AT_ONCE_MAX: i64 = 2_048;

/// Rows that one commit removes while the disk is nearly full, about 1 MB.
const AT_ONCE_SHORT: i64 = 8_192;

/// How often the disk and sums are looked at; the disk after that many commits, too.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const SUMS_EVERY: Duration = Duration::from_secs(10 * 60);
const COMMITS_MAX: u32 = 64;

/// The free room that history makes way for: this many bytes, or a 20th of a small disk.
const ROOM_BYTES: u64 = 64 * 1_048_576;
const ROOM_SHARE: u64 = 20;

/// The bytes of a row of sums, about. One of repeatable work has as many as two of them.
const SUM_BYTES: i64 = 32;
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
}

impl Limits {
    pub(crate) fn of(bytes: Option<u64>, folder: Option<&Path>) -> Self {
        let share = || folder.and_then(disk).map(|(total, _)| total / DISK_SHARE);
        let bytes = bytes.or_else(share).unwrap_or(MEMORY_BYTES);
        Self { bytes: i64::try_from(bytes).unwrap_or(i64::MAX), folder: folder.map(Path::to_owned) }
    }
}

/// Returns the size of the disk that has a folder, and what is free of it, in bytes.
fn disk(folder: &Path) -> Option<(u64, u64)> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Some((bytes(disk.f_blocks), bytes(disk.f_bavail)))
}

/// The history that there is to remove.
pub(super) struct Retention {
    /// The first entry and its time.
    oldest: Option<(i64, Timestamp)>,
    /// The bytes of entries and rows of sums, about.
    bytes: i64,
    sums: i64,
    sums_noted: i64,
    /// Entries added in this transaction.
    added: i64,
    /// The time of the last look at the disk, and the commits since then.
    looked: Option<(Timestamp, u32)>,
    is_short: bool,
    sums_looked: Option<Timestamp>,
}

impl Retention {
    pub(super) fn load(connection: &Connection, tail: &Tail) -> rusqlite::Result<Self> {
        let sealed = "SELECT coalesce(sum(bytes), 0) FROM segments";
        let sealed: i64 = connection.query_row(sealed, [], |row| row.get(0))?;
        let sums = note_of(connection, SUMS)?.unwrap_or(0);
        Ok(Self {
            oldest: oldest(connection)?,
            bytes: sealed.saturating_add_unsigned(tail.bytes() as u64),
            sums,
            sums_noted: sums,
            added: 0,
            looked: None,
            is_short: false,
            sums_looked: None,
        })
    }

    /// Records what a transaction adds.
    pub(super) fn add(&mut self, entries: i64, bytes: usize, sums: usize) {
        self.added = entries;
        self.bytes = self.bytes.saturating_add_unsigned(bytes as u64);
        self.sums = self.sums.saturating_add_unsigned(sums as u64);
    }

    /// Removes history, a piece of what there is.
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
        let newest = tail.next() - 1;
        match self.oldest {
            Some((first, at))
                if first < newest && (is_over || at < before(now, ENTRIES_KEPT_FOR)) =>
            {
                self.remove_entries(connection, (first, newest), is_over, now)?;
            }
            _ => {}
        }
        let has_entries = self.oldest.is_some_and(|(first, _)| first < newest);
        self.remove_sums(connection, (is_over, has_entries), now)
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
        let (total, left) = disk(folder).unwrap_or((u64::MAX, u64::MAX));
        let total = total.min(pages_max.saturating_mul(page));
        let left = left.min(pages_max.saturating_sub(pages).saturating_mul(page));
        let left = left.saturating_add(free.saturating_mul(page));
        let is_short = left < ROOM_BYTES.min(total / ROOM_SHARE);
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
        let most = match self.is_short {
            true => AT_ONCE_SHORT,
            false => self.added.saturating_mul(2).clamp(AT_ONCE_MIN, AT_ONCE_MAX),
        };
        let until = first.saturating_add(most).min(newest);
        let earlier = if is_over { Timestamp::MAX } else { before(now, ENTRIES_KEPT_FOR) };
        let delete = "DELETE FROM entries WHERE id >= ?1 AND id < ?2 AND at < ?3";
        let values = (first, until, earlier.as_millis());
        let removed = connection.prepare_cached(delete)?.execute(values)?;
        let each = self.bytes / (newest - first + 1);
        self.bytes -= each.saturating_mul(i64::try_from(removed).unwrap_or(0));
        self.oldest = oldest(connection)?;
        let rest = self.oldest.map_or(newest, |(first, _)| first);
        while segments::remove_before(connection, rest)? {}
        Ok(())
    }

    /// Removes the first step of each series that is old enough, and counts of work that is not repeated.
    fn remove_sums(
        &mut self,
        connection: &Connection,
        (is_over, has_entries): (bool, bool),
        now: Timestamp,
    ) -> rusqlite::Result<()> {
        let has_no_room = is_over && !has_entries;
        if (self.sums - self.sums_noted).abs() >= SUMS_LAG {
            set_note(connection, SUMS, self.sums)?;
            self.sums_noted = self.sums;
        }
        let is_due = |at| now < at || now.since(at) >= SUMS_EVERY;
        if !has_no_room && !self.sums_looked.is_none_or(is_due) {
            return Ok(());
        }
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
            let end = begins(connection, series)?.unwrap_or(i64::MIN).max(end.as_millis());
            set_note(connection, &begin_note(series), end)?;
            has_more = true;
            if has_no_room {
                break;
            }
        }
        let age = match is_over {
            true if has_no_room => SUMS_KEPT_AT_LEAST,
            true => ONCE_KEPT_AT_LEAST,
            false => ENTRIES_KEPT_FOR,
        };
        // Reads the first rows alone: all others are younger.
        let delete = "DELETE FROM counted_once WHERE at < ?1 AND id IN \
                      (SELECT id FROM counted_once ORDER BY id LIMIT ?2)";
        let values = (before(now, age).as_millis(), AT_ONCE_MAX);
        let removed = connection.prepare_cached(delete)?.execute(values)?;
        self.sums -= i64::try_from(ONCE_SUMS * removed).unwrap_or(0);
        has_more |= removed >= AT_ONCE_MAX.unsigned_abs() as usize;
        self.sums_looked = (!has_more).then_some(now);
        Ok(())
    }
}

fn before(now: Timestamp, age: Duration) -> Timestamp {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(age))
}

fn begin_note(series: Series) -> String {
    format!("series {} begins", series.number())
}

/// Returns the time before which a series was removed, in milliseconds.
pub(super) fn begins(connection: &Connection, series: Series) -> rusqlite::Result<Option<i64>> {
    note_of(connection, &begin_note(series))
}

/// Returns the first entry and its time.
pub(super) fn oldest(connection: &Connection) -> rusqlite::Result<Option<(i64, Timestamp)>> {
    let select = "SELECT id, at FROM entries ORDER BY id LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, Timestamp::from_millis(row.get(1)?)));
    connection.prepare_cached(select)?.query_row([], read).optional()
}

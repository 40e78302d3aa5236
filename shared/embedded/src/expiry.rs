//! Removes expired rows, which DynamoDB and S3 do by themselves, and gives free space back to the disk.

use std::time::Duration;

use gridpost_core::time::Timestamp;
use rusqlite::Connection;

/// How often rows are removed during writes.
const EVERY: Duration = Duration::from_secs(10 * 60);

/// Most rows of a table that one sweep removes: writes wait for it.
const AT_ONCE_MAX: usize = 1_000;

/// The pause after a sweep that removed that many, which keeps up with 1,000 rows a second.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Nothing can refer to older payloads. Source: the lifecycle rule of the payload bucket on AWS.
const PAYLOADS_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// After a pause of the process or machine, payloads are only removed after a day at work, when every
/// waiting delivery could end: none is attempted for more than a day, and a dead letter has four hours.
const AT_WORK_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest time without a commit that is no pause: wake saves its cursor each minute.
const PAUSE: Duration = Duration::from_secs(60 * 60);

/// Space that rows have left is given back where it is so many pages of 4 KiB, and a quarter of the file or more:
/// less is soon used again.
const FREE_PAGES_MIN: i64 = 4_096;
const FREE_SHARE: i64 = 4;

/// Most pages that one sweep gives back: writes wait for it.
const PAGES_AT_ONCE: i64 = 2_048;

/// A count is only read in its minute; one more day allows for wrong clocks.
const RATES_KEPT_MINUTES: i64 = 24 * 60;

#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    /// The times of the last and the next sweep.
    last: Option<(Timestamp, Timestamp)>,
    /// The end of the last pause, and the latest commit.
    at_work: Option<(Timestamp, Timestamp)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sweep {
    payloads_too: bool,
}

impl Sweeps {
    /// Records a commit. Returns the sweep that is due, if any.
    pub(crate) fn commit(&mut self, now: Timestamp) -> Option<Sweep> {
        let since = match self.at_work {
            Some((since, latest)) if now.since(latest) <= PAUSE => since,
            _ => now,
        };
        self.at_work = Some((since, now));
        // The clock may have been set back.
        let is_due = self.last.is_none_or(|(looked, next)| now < looked || now >= next);
        is_due.then(|| Sweep { payloads_too: now.since(since) >= AT_WORK_FOR })
    }

    pub(crate) fn swept(&mut self, now: Timestamp, has_more: bool) {
        self.last = Some((now, now + if has_more { AGAIN_AFTER } else { EVERY }));
    }
}

/// Removes expired rows and gives free space back, up to limits. Returns whether there may be more.
pub(crate) fn forget(
    connection: &Connection,
    now: Timestamp,
    sweep: Sweep,
) -> rusqlite::Result<bool> {
    let millis = |kept: Duration| i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
    let mut tables = vec![
        ("states", "expires_at", now.as_millis()),
        ("healths", "expires_at", now.as_millis()),
        ("redrives", "expires_at", now.as_millis()),
        ("publishes", "expires_at", now.as_millis()),
    ];
    if sweep.payloads_too {
        tables.push(("payloads", "written_at", now.as_millis() - millis(PAYLOADS_KEPT_FOR)));
    }
    let mut has_more = false;
    for (table, column, before) in tables {
        let delete = format!(
            "DELETE FROM {table} WHERE rowid IN \
             (SELECT rowid FROM {table} WHERE {column} < ?1 LIMIT {AT_ONCE_MAX})"
        );
        has_more |= connection.execute(&delete, [before])? >= AT_ONCE_MAX;
    }
    let before = now.as_minutes() - RATES_KEPT_MINUTES;
    connection.execute("DELETE FROM rates WHERE minute < ?1", [before])?;
    Ok(give_back(connection)? || has_more)
}

/// Gives some of the free space of the file back, if it has much. Returns whether it had.
fn give_back(connection: &Connection) -> rusqlite::Result<bool> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let free = number("freelist_count")?;
    if free < FREE_PAGES_MIN || free * FREE_SHARE < number("page_count")? {
        return Ok(false);
    }
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES_AT_ONCE})"))?;
    let mut pages = vacuum.query([])?;
    while pages.next()?.is_some() {}
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_S: u64 = 60;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_767_225_600_000) + Duration::from_secs(seconds)
    }

    #[test]
    fn it_is_looked_again_soon_where_there_is_more() {
        let mut sweeps = Sweeps::default();
        // (seconds, whether is looked then, whether there is more)
        let table = [
            (0, true, true),
            (0, false, false),
            (1, true, true),
            (2, true, false),
            (3, false, false),
            (2 + 10 * MINUTE_S - 1, false, false),
            (2 + 10 * MINUTE_S, true, false),
        ];
        for (seconds, want, has_more) in table {
            let sweep = sweeps.commit(at(seconds));
            assert_eq!(sweep.is_some(), want, "{seconds}");
            if sweep.is_some() {
                sweeps.swept(at(seconds), has_more);
            }
        }
        // The clock was put back.
        assert!(sweeps.commit(at(5)).is_some());
    }

    #[test]
    fn payloads_are_kept_until_a_day_after_a_pause() {
        let mut sweeps = Sweeps::default();
        let mut payloads_too = |minute: u64| {
            let now = at(minute * MINUTE_S);
            let sweep = sweeps.commit(now);
            sweeps.swept(now, false);
            sweep.is_some_and(|sweep| sweep.payloads_too)
        };
        let day = 24 * 60;
        let first = (0..=day).step_by(60).find(|minute| payloads_too(*minute));
        assert_eq!(first, Some(day), "a start is the end of a pause");
        let wakes = day + 30 * day;
        let again = (wakes..=wakes + day).step_by(60).find(|minute| payloads_too(*minute));
        assert_eq!(again, Some(wakes + day), "a machine that has slept");
    }
}

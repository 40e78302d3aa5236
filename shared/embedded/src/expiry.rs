//! Rows that say nothing any more are removed: DynamoDB and S3 do that by themselves.

use std::time::Duration;

use gridpost_core::time::Timestamp;
use rusqlite::Connection;

/// How often is looked for them, while anything is written.
const EVERY: Duration = Duration::from_secs(10 * 60);

/// Most rows of a table that one look removes: writes wait for it meanwhile.
const AT_ONCE_MAX: usize = 1_000;

/// When is looked again where a table had as many: that keeps up with 1,000 rows a second.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A payload is removed when it was written so long ago: nothing can ask for it any more. Source: the
/// lifecycle rule of the payload bucket on AWS.
const PAYLOADS_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// But a process that was not running, or a machine that slept, may have been away for longer than
/// that: what waited has its payload until there was a day for its end. No delivery is attempted
/// for more than a day, and a dead letter has four hours.
const AT_WORK_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// A longer time without a commit is such a pause: wake notes how far it has come each minute.
const PAUSE: Duration = Duration::from_secs(60 * 60);

/// A minute's count of requests is asked for in that minute alone; a day more is for clocks that are
/// wrong.
const RATES_KEPT_MINUTES: i64 = 24 * 60;

/// When is looked for what has expired.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// When was looked last, and when is looked again.
    last: Option<(Timestamp, Timestamp)>,
    /// Since when there was no pause, and the latest commit.
    at_work: Option<(Timestamp, Timestamp)>,
}

/// What one look is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    payloads_too: bool,
}

impl Looks {
    /// Notes a commit; answers what is to be looked for with it, if it is time.
    pub(crate) fn commit(&mut self, now: Timestamp) -> Option<Look> {
        let since = match self.at_work {
            Some((since, latest)) if now.since(latest) <= PAUSE => since,
            _ => now,
        };
        self.at_work = Some((since, now));
        // The clock may have been put back.
        let is_due = self.last.is_none_or(|(looked, next)| now < looked || now >= next);
        is_due.then(|| Look { payloads_too: now.since(since) >= AT_WORK_FOR })
    }

    /// Notes that was looked, and whether a table may have more.
    pub(crate) fn looked(&mut self, now: Timestamp, has_more: bool) {
        self.last = Some((now, now + if has_more { AGAIN_AFTER } else { EVERY }));
    }
}

/// Removes what has expired: some of it, where there is a lot. Answers whether a table may have
/// more.
pub(crate) fn forget(
    connection: &Connection,
    now: Timestamp,
    look: Look,
) -> rusqlite::Result<bool> {
    let millis = |kept: Duration| i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
    let mut tables = vec![
        ("states", "expires_at", now.as_millis()),
        ("healths", "expires_at", now.as_millis()),
        ("redrives", "expires_at", now.as_millis()),
    ];
    if look.payloads_too {
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
    Ok(has_more)
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
        let mut looks = Looks::default();
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
            let look = looks.commit(at(seconds));
            assert_eq!(look.is_some(), want, "{seconds}");
            if look.is_some() {
                looks.looked(at(seconds), has_more);
            }
        }
        // The clock was put back.
        assert!(looks.commit(at(5)).is_some());
    }

    #[test]
    fn payloads_are_kept_until_a_day_after_a_pause() {
        let mut looks = Looks::default();
        let mut payloads_too = |minute: u64| {
            let now = at(minute * MINUTE_S);
            let look = looks.commit(now);
            looks.looked(now, false);
            look.is_some_and(|look| look.payloads_too)
        };
        let day = 24 * 60;
        let first = (0..=day).step_by(60).find(|minute| payloads_too(*minute));
        assert_eq!(first, Some(day), "a start is the end of a pause");
        let wakes = day + 30 * day;
        let again = (wakes..=wakes + day).step_by(60).find(|minute| payloads_too(*minute));
        assert_eq!(again, Some(wakes + day), "a machine that has slept");
    }
}

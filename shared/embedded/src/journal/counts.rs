//! Counts, summed by step of time, owner, and what is counted.
//!
//! A commit writes its sums as one row of recent counts. Now and then these are added to the steps of their
//! series, together. The series by time of counting have sums of more than one owner, too: of each topic with its
//! event subscriptions, and of all.

use std::{
    collections::{BTreeMap, HashSet, btree_map::Entry},
    ops::Range,
    time::Duration,
};

use gridpost_core::{
    journal::{Count, Counted, Step},
    subscription::SubscriptionKey,
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::words::{Numbers, TOGETHER, owner_text};

/// Recent rows, the sums in them, and how many of these differ, that are added to the series together: in
/// some milliseconds.
const RECENT_ROWS_MAX: usize = 256;
const RECENT_IN_ROWS_MAX: usize = 4_096;
const RECENT_SUMS_MAX: usize = 1_000;

/// Entries of a page, about, and the rows that it looks at: it ends with a step.
const ENTRIES_MAX: usize = 5_000;
const LOOKED_AT_MAX: usize = 100_000;

/// How long counts are recent.
const RECENT_FOR: Duration = Duration::from_secs(60 * 60);

/// Whose sums are read.
pub(super) enum Owners {
    /// Topics and event subscriptions, each by itself.
    Each,
    /// Topics, each with its event subscriptions.
    WholeTopics,
    These(HashSet<i64>),
}

/// A series of steps of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Series {
    /// Hours of publish.
    Ledger,
    /// Minutes of counting.
    Minutes,
    /// Hours of counting.
    Hours,
}

impl Series {
    pub(super) const ALL: [Self; 3] = [Self::Ledger, Self::Minutes, Self::Hours];

    /// The number in rows.
    pub(super) fn number(self) -> i64 {
        match self {
            Self::Ledger => 0,
            Self::Minutes => 1,
            Self::Hours => 2,
        }
    }

    fn step_ms(self) -> i64 {
        if self == Self::Minutes { 60_000 } else { 3_600_000 }
    }

    /// Returns how many of its steps are in a longer one.
    pub(super) fn steps_of(self, step: Step) -> i64 {
        i64::from(step.minutes()) * 60_000 / self.step_ms()
    }

    fn step(self, at: Timestamp) -> i64 {
        at.as_millis().div_euclid(self.step_ms())
    }

    /// Returns the steps that have a time of `from` to before `to`.
    pub(super) fn steps(self, from: Timestamp, to: Timestamp) -> Range<i64> {
        let last = Timestamp::from_millis(to.as_millis().saturating_sub(1));
        self.step(from)..self.step(last).saturating_add(1)
    }

    /// Returns the beginning of a step.
    pub(super) fn begin(self, step: i64) -> Timestamp {
        Timestamp::from_millis(step.saturating_mul(self.step_ms()))
    }
}

/// A count, prepared for its sum.
pub(super) struct Tally {
    owner: String,
    counted: String,
    publish_time: Timestamp,
    at: Timestamp,
    events: i64,
    /// Failed attempts are not in the ledger.
    is_in_ledger: bool,
    once: Option<Uuid>,
}

impl Tally {
    pub(super) fn of(count: &Count, at: Timestamp) -> Self {
        Self {
            owner: owner_text(&count.owner),
            counted: count.counted.to_string(),
            publish_time: count.publish_time,
            at,
            events: i64::try_from(count.events).unwrap_or(i64::MAX),
            is_in_ledger: !matches!(count.counted, Counted::Failed(_)),
            once: count.once,
        }
    }
}

/// The key of a sum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    owner: i64,
    counted: i64,
    minute: i64,
    /// None outside the ledger.
    publish_hour: Option<i64>,
}

impl Key {
    /// Returns its step of a series, if it is in there.
    fn step(self, series: Series) -> Option<i64> {
        match series {
            Series::Ledger => self.publish_hour,
            Series::Minutes => Some(self.minute),
            Series::Hours => Some(self.minute.div_euclid(60)),
        }
    }
}

/// A sum in a row of recent counts: its key, and events.
type Recent = (i64, i64, i64, Option<i64>, i64);

/// Sums of one transaction, or several.
#[derive(Default)]
pub(super) struct Sums {
    sums: BTreeMap<Key, i64>,
    /// The rows of recent counts that they are in, how many sums these have, and since when.
    rows: usize,
    in_rows: usize,
    since: Option<Timestamp>,
}

impl Sums {
    /// Reads all recent counts.
    pub(super) fn recent(connection: &Connection) -> rusqlite::Result<Self> {
        let mut recent = Self::default();
        let mut select = connection.prepare_cached("SELECT sums FROM recent_counts")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let text = row.get_ref(0)?.as_str()?;
            let sums: Vec<Recent> = serde_json::from_str(text).unwrap_or_default();
            recent.add(sums.into_iter().map(|(owner, counted, minute, publish_hour, events)| {
                (Key { owner, counted, minute, publish_hour }, events)
            }));
        }
        Ok(recent)
    }

    fn add(&mut self, sums: impl IntoIterator<Item = (Key, i64)>) {
        for (key, events) in sums {
            let sum = self.sums.entry(key).or_default();
            *sum = sum.saturating_add(events);
            self.in_rows += 1;
        }
        self.rows += 1;
    }

    /// Counts, unless it was counted before. Returns how many rows were written.
    pub(super) fn count(
        &mut self,
        connection: &Connection,
        numbers: &mut Numbers,
        tally: &Tally,
    ) -> rusqlite::Result<usize> {
        let owner = numbers.of(connection, &tally.owner)?;
        let counted = numbers.of(connection, &tally.counted)?;
        let mut written = 0;
        if let Some(work) = tally.once {
            // Work that is repeated may have another publish time.
            let insert = "INSERT OR IGNORE INTO counted_once (at, work, owner, counted) \
                          VALUES (?1, ?2, ?3, ?4)";
            let values = (tally.at.as_millis(), work.as_bytes(), owner, counted);
            written = connection.prepare_cached(insert)?.execute(values)?;
            if written == 0 {
                return Ok(0);
            }
        }
        let publish_hour = tally.is_in_ledger.then(|| Series::Ledger.step(tally.publish_time));
        let key = Key { owner, counted, minute: tally.at.as_minutes(), publish_hour };
        self.add([(key, tally.events)]);
        Ok(written)
    }

    /// Returns the newest minute in which something was counted.
    pub(super) fn newest_minute(&self) -> Option<i64> {
        self.sums.keys().map(|key| key.minute).max()
    }

    /// Returns the sums of some steps: step, owner, what is counted, events.
    pub(super) fn within(
        &self,
        series: Series,
        steps: Range<i64>,
    ) -> impl Iterator<Item = (i64, i64, i64, i64)> {
        self.sums.iter().filter_map(move |(key, events)| {
            let step = key.step(series).filter(|step| steps.contains(step))?;
            Some((step, key.owner, key.counted, *events))
        })
    }

    /// Writes sums of this transaction, and adds them to the recent ones. Returns how many rows of series
    /// were written.
    pub(super) fn commit(
        self,
        connection: &Connection,
        numbers: &mut Numbers,
        recent: &mut Self,
        now: Timestamp,
    ) -> rusqlite::Result<usize> {
        if self.sums.is_empty() {
            return Ok(0);
        }
        let row = |(key, events): (&Key, &i64)| -> Recent {
            (key.owner, key.counted, key.minute, key.publish_hour, *events)
        };
        let rows: Vec<_> = self.sums.iter().map(row).collect();
        let text = serde_json::to_string(&rows).unwrap_or_default();
        let insert = "INSERT INTO recent_counts (sums) VALUES (?1)";
        connection.prepare_cached(insert)?.execute([text])?;
        recent.add(self.sums);
        let is_recent = now.since(*recent.since.get_or_insert(now)) < RECENT_FOR;
        let is_short = recent.rows < RECENT_ROWS_MAX
            && recent.in_rows < RECENT_IN_ROWS_MAX
            && recent.sums.len() < RECENT_SUMS_MAX;
        if is_short && is_recent {
            return Ok(0);
        }
        connection.prepare_cached("DELETE FROM recent_counts")?.execute([])?;
        std::mem::take(recent).add_to_series(connection, numbers)
    }

    fn add_to_series(
        self,
        connection: &Connection,
        numbers: &mut Numbers,
    ) -> rusqlite::Result<usize> {
        for ((owner, hour), change) in self.waiting_changes(connection)? {
            let add = "INSERT INTO waiting_events (owner, hour, events) VALUES (?1, ?2, ?3) \
                       ON CONFLICT DO UPDATE SET events = events + excluded.events";
            connection.prepare_cached(add)?.execute((owner, hour, change))?;
            let delete = "DELETE FROM waiting_events WHERE owner = ?1 AND hour = ?2 AND events = 0";
            connection.prepare_cached(delete)?.execute((owner, hour))?;
        }
        let (mut steps, mut topics) = (BTreeMap::<_, i64>::new(), BTreeMap::new());
        for (key, events) in self.sums {
            let topic = match topics.entry(key.owner) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => *entry.insert(numbers.of_topic(connection, key.owner)?),
            };
            for series in Series::ALL {
                let Some(step) = key.step(series) else { continue };
                let more = [-topic, TOGETHER].into_iter().filter(|_| series != Series::Ledger);
                for owner in more.chain([key.owner]) {
                    let sum = steps.entry((series.number(), step, owner, key.counted)).or_default();
                    *sum = sum.saturating_add(events);
                }
            }
        }
        let mut written = 0;
        for ((series, step, owner, counted), events) in steps {
            let values = (series, step, owner, counted, events);
            let update = "UPDATE counts SET events = events + ?5 \
                          WHERE series = ?1 AND step = ?2 AND owner = ?3 AND counted = ?4";
            if connection.prepare_cached(update)?.execute(values)? == 0 {
                let insert = "INSERT INTO counts (series, step, owner, counted, events) \
                              VALUES (?1, ?2, ?3, ?4, ?5)";
                written += connection.prepare_cached(insert)?.execute(values)?;
            }
        }
        Ok(written)
    }
}

impl Sums {
    /// Returns by how much they change what waits, by owner and hour of publish.
    fn waiting_changes(
        &self,
        connection: &Connection,
    ) -> rusqlite::Result<BTreeMap<(i64, i64), i64>> {
        let mut select = connection.prepare_cached("SELECT text FROM words WHERE number = ?1")?;
        let (mut each, mut changes) = (BTreeMap::new(), BTreeMap::<_, i64>::new());
        for (key, events) in &self.sums {
            let Some(hour) = key.publish_hour else { continue };
            if let Entry::Vacant(entry) = each.entry(key.counted) {
                let text: String = select.query_row([key.counted], |row| row.get(0))?;
                // Another version may count more.
                entry.insert(text.parse().map_or(0, |counted: Counted| counted.waiting_change()));
            }
            let change = changes.entry((key.owner, hour)).or_default();
            *change = change.saturating_add(each[&key.counted].saturating_mul(*events));
        }
        changes.retain(|_, change| *change != 0);
        Ok(changes)
    }
}

/// Events that wait, and the hour of publish of the oldest, in milliseconds.
pub(crate) type Waiting = (u64, Option<i64>);

/// Returns how many events of each event subscription were matched or redriven and have not ended. An hour in which
/// more ended makes up for no other.
pub(super) fn waiting(
    connection: &Connection,
    of: &[SubscriptionKey],
) -> rusqlite::Result<Vec<Waiting>> {
    let recent = Sums::recent(connection)?.waiting_changes(connection)?;
    let mut find = connection.prepare_cached("SELECT number FROM words WHERE text = ?1")?;
    let select = "SELECT hour, events FROM waiting_events WHERE owner = ?1";
    let mut select = connection.prepare_cached(select)?;
    let waiting = |key: &SubscriptionKey| {
        let owner = find.query_row([key.to_string()], |row| row.get::<_, i64>(0)).optional()?;
        let Some(owner) = owner else { return Ok((0, None)) };
        let hours = select.query_map([owner], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut hours: BTreeMap<i64, i64> = hours.collect::<rusqlite::Result<_>>()?;
        for ((_, hour), change) in recent.range((owner, i64::MIN)..=(owner, i64::MAX)) {
            *hours.entry(*hour).or_default() += change;
        }
        hours.retain(|_, events| *events > 0);
        let oldest = hours.first_key_value().map(|(hour, _)| *hour);
        Ok((hours.into_values().filter_map(|events| u64::try_from(events).ok()).sum(), oldest))
    };
    of.iter().map(waiting).collect()
}

/// Reads sums of some steps without recent counts: step, owner, what is counted, events. Always `summed` steps are
/// one, or all of them. Returns the step at which the next page begins.
pub(super) fn read(
    connection: &Connection,
    series: Series,
    steps: Range<i64>,
    summed: Option<i64>,
    owners: &Owners,
    mut put: impl FnMut(i64, i64, i64, i64),
) -> rusqlite::Result<Option<i64>> {
    let first = steps.start.max(edge(connection, series, "min")?.unwrap_or(0));
    let until = steps.end.min(edge(connection, series, "max")?.map_or(0, |last| last + 1));
    let (is_one, these) = match owners {
        Owners::Each => ("owner > 0", None),
        Owners::WholeTopics => ("owner < 0", None),
        Owners::These(these) => ("owner IN (SELECT value FROM json_each(?4))", Some(these)),
    };
    let listed = serde_json::to_string(&these).unwrap_or_default();
    // Looks up each step of each owner asked for: others may have many more rows.
    let select = format!(
        "WITH RECURSIVE steps (at) AS \
         (SELECT ?2 WHERE ?2 < ?3 UNION ALL SELECT at + 1 FROM steps WHERE at + 1 < ?3) \
         SELECT step, owner, counted, events FROM steps CROSS JOIN counts \
         WHERE series = ?1 AND step = at AND {is_one} AND ?4 IS NOT NULL"
    );
    let mut select = connection.prepare_cached(&select)?;
    let mut rows = select.query((series.number(), first, until, listed))?;
    let (mut entries, mut looked_at) = (BTreeMap::<_, BTreeMap<i64, i64>>::new(), 0);
    let (mut last, mut next) = (first, None);
    while let Some(row) = rows.next()? {
        let step = row.get(0)?;
        let begin = summed.map_or(first, |summed| summed * i64::div_euclid(step, summed));
        let is_full = entries.len() >= ENTRIES_MAX || looked_at >= LOOKED_AT_MAX;
        if is_full && begin > last {
            next = Some(begin);
            break;
        }
        (last, looked_at) = (begin, looked_at + 1);
        let entry = entries.entry((begin, row.get(1)?)).or_default();
        let sum = entry.entry(row.get(2)?).or_default();
        *sum = sum.saturating_add(row.get(3)?);
    }
    for ((step, owner), sums) in entries {
        sums.into_iter().for_each(|(counted, events)| put(step, owner, counted, events));
    }
    Ok(next)
}

/// Returns the first or last step of a series: `min` or `max`.
pub(super) fn edge(
    connection: &Connection,
    series: Series,
    edge: &str,
) -> rusqlite::Result<Option<i64>> {
    let select = format!("SELECT {edge}(step) FROM counts WHERE series = ?1");
    connection.prepare_cached(&select)?.query_row([series.number()], |row| row.get(0))
}

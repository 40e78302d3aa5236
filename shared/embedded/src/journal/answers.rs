//! Answers questions.

use std::{collections::HashSet, ops::Range};

use gridpost_core::{
    journal::{
        AttemptsQuestion, By, Count, Entry, EntryKind, Known, LedgerQuestion, Question,
        Series as Flows, SeriesQuestion, Step,
    },
    ledger::Ledger,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use rusqlite::{Connection, Row};

use super::{
    counts::{self, Owners, Series, Sums, Waiting},
    entries::{self, AT, COLUMNS, EVENT_IDS, KIND, OUTCOME, OWNER},
    retention::{begins, oldest},
    segments::{Places, Segment, Term, sealed},
    words::{TOGETHER, Words},
};

/// Rows that one page looks at: a second or less.
const LOOKED_AT_MAX: usize = 200_000;

/// A page of an answer.
pub(crate) struct Page {
    pub(crate) known: Known,
    pub(crate) begins: Option<Timestamp>,
    /// For attempts the entry before which the next page begins; for counts its first step.
    pub(crate) next: Option<i64>,
}

/// Answers a question from that place on, as of one commit.
pub(crate) fn page(
    connection: &Connection,
    question: &Question,
    place: Option<i64>,
) -> rusqlite::Result<Page> {
    let connection = &*connection.unchecked_transaction()?;
    match question {
        Question::Attempts(question) => attempts(connection, question, place.unwrap_or(i64::MAX)),
        Question::Ledger(question) => ledger(connection, question, place),
        Question::Series(question) => series(connection, question, place),
    }
}

/// Returns how many events of each event subscription wait, as of one commit.
pub(crate) fn waiting(
    connection: &Connection,
    of: &[SubscriptionKey],
) -> rusqlite::Result<Vec<Waiting>> {
    counts::waiting(&*connection.unchecked_transaction()?, of)
}

/// Conditions that entries meet.
struct Filter<'a> {
    question: &'a AttemptsQuestion,
    words: &'a Words,
    owners: Option<HashSet<i64>>,
    successes: HashSet<i64>,
    outcomes: HashSet<i64>,
}

impl<'a> Filter<'a> {
    fn of(question: &'a AttemptsQuestion, words: &'a Words) -> Self {
        let (topic, subscription) = (question.topic.as_deref(), question.subscription.as_deref());
        let outcomes: Vec<_> = question.outcomes.iter().map(ToString::to_string).collect();
        let is_success = |text: &str| text.parse().is_ok_and(|kind: EntryKind| !kind.is_failed());
        Self {
            question,
            words,
            owners: words.owners(topic, subscription),
            successes: words.numbers(is_success),
            outcomes: words.numbers(|text| outcomes.iter().any(|outcome| outcome == text)),
        }
    }

    /// Returns where segments list the entries; `None` if all are to be looked at.
    fn places(&self) -> Option<Places> {
        let AttemptsQuestion { event_id, failed, .. } = self.question;
        match (event_id, &self.owners, failed) {
            (Some(id), ..) => Some([Term::Event(id)].into_iter().collect()),
            (None, Some(owners), true) => {
                Some(owners.iter().copied().map(Term::FailedOf).collect())
            }
            (None, Some(owners), false) => Some(owners.iter().copied().map(Term::Owner).collect()),
            (None, None, true) => Some([Term::Failed].into_iter().collect()),
            (None, None, false) => None,
        }
    }

    /// Reads a row's entry if it meets the conditions.
    fn entry(&self, row: &Row<'_>) -> rusqlite::Result<Option<Entry>> {
        let AttemptsQuestion { event_id, from, to, failed, outcomes, .. } = self.question;
        let at = Timestamp::from_millis(row.get(AT)?);
        let owner = row.get(OWNER)?;
        if at < *from
            || at >= *to
            || self.owners.as_ref().is_some_and(|owners| !owners.contains(&owner))
            || (*failed && self.successes.contains(&row.get(KIND)?))
        {
            return Ok(None);
        }
        let outcome: Option<i64> = row.get(OUTCOME)?;
        if !outcomes.is_empty() && outcome.is_none_or(|one| !self.outcomes.contains(&one)) {
            return Ok(None);
        }
        if let Some(id) = event_id
            && !entries::has_id(row.get_ref(EVENT_IDS)?, id)
        {
            return Ok(None);
        }
        entries::read(row, self.words)
    }
}

/// Gathers the entries of a page.
struct Gathering<'a> {
    connection: &'a Connection,
    filter: Filter<'a>,
    entries: Vec<(i64, Entry)>,
    looked_at: usize,
    /// The next page has entries before this one.
    next: Option<i64>,
}

impl Gathering<'_> {
    /// Looks at the entries from `first` to `last`, newest first. Returns whether the page ends there.
    fn look(&mut self, first: i64, last: i64) -> rusqlite::Result<bool> {
        let select =
            format!("SELECT {COLUMNS} FROM entries WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC");
        let mut select = self.connection.prepare_cached(&select)?;
        let mut rows = select.query((first, last))?;
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            if self.looked_at == LOOKED_AT_MAX {
                self.next = Some(id + 1);
                return Ok(true);
            }
            self.looked_at += 1;
            let Some(entry) = self.filter.entry(row)? else { continue };
            if self.entries.len() >= self.filter.question.most.max(1) {
                self.next = self.entries.last().map(|(id, _)| *id);
                return Ok(true);
            }
            self.entries.push((id, entry));
        }
        Ok(false)
    }

    /// Looks at all entries before an id until the page ends.
    fn gather(&mut self, before: i64) -> rusqlite::Result<()> {
        let places = self.filter.places();
        if self.look(sealed(self.connection)? + 1, before.saturating_sub(1))? {
            return Ok(());
        }
        let (from, to) = (self.filter.question.from, self.filter.question.to);
        for segment in Segment::before(self.connection, before)? {
            if !segment.is_within(from, to) {
                continue;
            }
            let Some(places) = &places else {
                if self.look(segment.first, segment.last.min(before - 1))? {
                    return Ok(());
                }
                continue;
            };
            let ids = segment.find(self.connection, places)?;
            for id in ids.range(..before).rev() {
                if self.look(*id, *id)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

fn attempts(
    connection: &Connection,
    question: &AttemptsQuestion,
    before: i64,
) -> rusqlite::Result<Page> {
    let words = Words::read(connection)?;
    let filter = Filter::of(question, &words);
    let mut gathering =
        Gathering { connection, filter, entries: Vec::new(), looked_at: 0, next: None };
    gathering.gather(before)?;
    let Gathering { entries, next, .. } = gathering;
    let entries = entries.into_iter().map(|(id, entry)| (id.to_string(), entry));
    let removed = begins(connection, None)?;
    // With a clock that was set back, what was removed may be newer than what is there.
    let oldest = oldest(connection)?.map_or(Timestamp::MAX, |(_, at)| at);
    let begins = removed.map(|end| end.min(oldest)).filter(|begins| *begins > question.from);
    Ok(Page { known: Known::Attempts(entries.collect()), begins, next })
}

fn ledger(
    connection: &Connection,
    question: &LedgerQuestion,
    place: Option<i64>,
) -> rusqlite::Result<Page> {
    let LedgerQuestion { topic, subscription, from, to, cuts } = question;
    // The sums do not say when they were counted.
    let mut periods = vec![Ledger::default(); cuts.len() + 1];
    let counts = Counts::of(connection, topic.as_deref(), subscription.as_deref())?;
    let steps = after(Series::Ledger.steps(*from, *to), place);
    let put = |_, count: Count| periods[0].count(&count);
    let next = counts.read(Series::Ledger, steps, Some(1), &counts.each(), put)?;
    let begins = begins(connection, Some(Series::Ledger))?.filter(|begins| begins > from);
    Ok(Page { known: Known::Ledger(periods), begins, next })
}

fn series(
    connection: &Connection,
    question: &SeriesQuestion,
    place: Option<i64>,
) -> rusqlite::Result<Page> {
    let SeriesQuestion { topic, subscription, step, by, total, .. } = question;
    let counts = Counts::of(connection, topic.as_deref(), subscription.as_deref())?;
    let owners = match (by, topic, subscription) {
        (By::EventSubscription, ..) | (_, _, Some(_)) => counts.each(),
        (By::Topic, None, None) => Owners::WholeTopics,
        (By::All, None, None) => Owners::These([TOGETHER].into()),
        (_, Some(topic), None) => Owners::These(counts.words.whole_topics(topic)),
    };
    let (mut flows, mut lacks_before, mut next) = (Flows::of(*by), None, None);
    for (series, steps) in parts(connection, question, &counts.recent)? {
        let removed = begins(connection, Some(series))?;
        let removed = removed.filter(|end| !steps.is_empty() && *end > series.begin(steps.start));
        lacks_before = lacks_before.max(removed.map(|end| end.min(series.begin(steps.end))));
        let summed = (!total).then(|| series.steps_of(*step));
        let put = |at, count: Count| flows.add(question.begin(at), &count);
        next = counts.read(series, after(steps, place), summed, &owners, put)?;
    }
    Ok(Page { known: Known::Series(flows), begins: lacks_before, next })
}

/// Returns the steps that a question asks for. A total of minutes has whole hours where it can.
fn parts(
    connection: &Connection,
    question: &SeriesQuestion,
    recent: &Sums,
) -> rusqlite::Result<Vec<(Series, Range<i64>)>> {
    let SeriesQuestion { from, to, step, total, .. } = question;
    let from = step.begin(*from);
    if step.minutes() >= Step::Hour.minutes() {
        return Ok(vec![(Series::Hours, Series::Hours.steps(from, *to))]);
    }
    let minutes = Series::Minutes.steps(from, *to);
    let newest = counts::edge(connection, Series::Minutes, "max")?.max(recent.newest_minute());
    let is_to_the_end = newest.is_none_or(|newest| newest < minutes.end);
    let end = if is_to_the_end { minutes.end + 59 } else { minutes.end };
    let hours = (minutes.start + 59).div_euclid(60)..end.div_euclid(60);
    if !total || hours.is_empty() {
        return Ok(vec![(Series::Minutes, minutes)]);
    }
    let (before, after) = (minutes.start..hours.start * 60, hours.end * 60..minutes.end);
    Ok(vec![(Series::Minutes, before), (Series::Hours, hours), (Series::Minutes, after)])
}

/// Returns the steps from a place on.
fn after(steps: Range<i64>, place: Option<i64>) -> Range<i64> {
    place.map_or(steps.start, |place| place.max(steps.start))..steps.end
}

/// Counts of the owners asked for.
struct Counts<'a> {
    connection: &'a Connection,
    words: Words,
    recent: Sums,
    /// None for all.
    owners: Option<HashSet<i64>>,
}

impl<'a> Counts<'a> {
    fn of(
        connection: &'a Connection,
        topic: Option<&str>,
        subscription: Option<&str>,
    ) -> rusqlite::Result<Self> {
        let (words, recent) = (Words::read(connection)?, Sums::recent(connection)?);
        let owners = words.owners(topic, subscription);
        Ok(Self { connection, words, recent, owners })
    }

    fn each(&self) -> Owners {
        self.owners.clone().map_or(Owners::Each, Owners::These)
    }

    /// Reads counts with the beginning of their steps: recent ones, and those that [`counts::read`] sums.
    fn read(
        &self,
        series: Series,
        steps: Range<i64>,
        summed: Option<i64>,
        owners: &Owners,
        mut put: impl FnMut(Timestamp, Count),
    ) -> rusqlite::Result<Option<i64>> {
        let mut put = |step, owner, counted, events| {
            let at = series.begin(step);
            if let (Some(owner), Some(counted)) =
                (self.words.owner(owner), self.words.parsed(counted))
            {
                let events = u64::try_from(events).unwrap_or(0);
                put(at, Count { owner, publish_time: at, counted, events, once: None });
            }
        };
        let next = counts::read(self.connection, series, steps.clone(), summed, owners, &mut put)?;
        for (step, owner, counted, events) in
            self.recent.within(series, steps.start..next.unwrap_or(steps.end))
        {
            if self.owners.as_ref().is_none_or(|owners| owners.contains(&owner)) {
                put(step, owner, counted, events);
            }
        }
        Ok(next)
    }
}

//! What happened in the last hours, step by step: the journal's series as pages draw them.
//!
//! All who look share the answers for some seconds, and one budget: on AWS an answer has a price.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gridpost_api::journal::{
    JournalQuery, SeriesEntry,
    query::{AttemptsQuery, JournalQueryInput, LedgerQuery, SeriesQuery},
};
use gridpost_api::schema::Time;
use gridpost_core::journal::{By, Flow, Step};
use gridpost_core::ledger::Account;
use gridpost_core::name;
use gridpost_core::time::Timestamp;
pub(super) use gridpost_ops::audit::document::total;
use gridpost_ops::{failure::chain, journal::Late};
use maud::Markup;
use serde::Deserialize;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

use super::Shared;
use super::form::Look;
use super::kit;
use super::urls::with_query;

/// How long an answer is shared: on AWS it is a query of the logs. On one machine it costs milliseconds, and is not to be
/// older than what the same page says of health.
pub(super) const KEPT_ON_ONE_MACHINE: Duration = Duration::from_millis(500);
const KEPT_ON_AWS: Duration = Duration::from_secs(5 * 60);

/// How long a page waits for the journal.
const PATIENCE: Duration = Duration::from_secs(3);

/// How old an answer may be that is shown while a new one is not there: less than the shortest range.
const OLDER_MAX: Duration = Duration::from_secs(10 * 60);

/// How far behind what is known may be without a word about it.
const AS_OF_NOW: Duration = Duration::from_secs(60);

/// Rows of the table of a picture.
const TABLE_ROWS: usize = 24;

/// How far back a page looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Since {
    pub(super) name: &'static str,
    /// In URLs, and for `--since`.
    pub(super) value: &'static str,
    minutes: i64,
    step: Step,
}

/// What the URL of a page with traffic asks for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SinceQuery {
    #[serde(flatten)]
    pub(super) look: Look,
    since: Option<String>,
    pub(super) failed: Option<String>,
}

impl SinceQuery {
    /// Returns how far back it looks; what is unknown is the default.
    pub(super) fn since(&self) -> Since {
        let known = Since::ALL.into_iter().find(|one| Some(one.value) == self.since.as_deref());
        known.unwrap_or(Since::SIX_HOURS)
    }
}

impl Since {
    pub(super) const QUARTER_HOUR: Self = Self::of("15 min", "15m", 15, Step::Minute);
    const SIX_HOURS: Self = Self::of("6 h", "6h", 6 * 60, Step::FiveMinutes);
    const DAY: Self = Self::of("24 h", "24h", 24 * 60, Step::HalfHour);
    const ALL: [Self; 5] = [
        Self::QUARTER_HOUR,
        Self::of("1 h", "1h", 60, Step::Minute),
        Self::SIX_HOURS,
        Self::DAY,
        Self::of("7 d", "7d", 7 * 24 * 60, Step::ThreeHours),
    ];

    const fn of(name: &'static str, value: &'static str, minutes: i64, step: Step) -> Self {
        Self { name, value, minutes, step }
    }

    /// Returns where it begins: from six hours on at the beginning of an hour, as the ledger does.
    fn begin(self, now: Timestamp) -> Timestamp {
        let Self { minutes, step, .. } = self;
        let begin = Timestamp::from_millis(now.as_millis() - minutes * 60_000);
        step.begin(if minutes > 60 { begin.hour() } else { begin })
    }

    /// Links to the same page for other times.
    pub(super) fn choice(self, url: &str) -> Markup {
        let links = Self::ALL.map(|one| (one.name, with_query(url, &[("since", one.value)])));
        kit::choice("Time range", self.name, &links)
    }
}

/// The owner of counts: all together, a topic with its event subscriptions, or an event subscription.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scope<'a> {
    pub(super) topic: Option<&'a str>,
    pub(super) name: Option<&'a str>,
}

/// Sums by topic and event subscription, whose names are the same in any case.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    flows: BTreeMap<(String, String), Flow>,
    /// In words: what is not in them.
    pub(super) gaps: Vec<String>,
}

impl Totals {
    /// Returns the sums of an event subscription, or without a name what a topic itself counts.
    pub(super) fn of(&self, topic: &str, name: &str) -> Option<&Flow> {
        self.flows.get(&(name::folded(topic), name::folded(name)))
    }

    /// Returns the account of an event subscription, which may be empty.
    pub(super) fn account(&self, topic: &str, name: &str) -> Account {
        self.of(topic, name).map(|flow| flow.account.clone()).unwrap_or_default()
    }

    /// Returns the sums of a topic together with its event subscriptions.
    pub(super) fn of_topic(&self, topic: &str) -> Flow {
        let topic = name::folded(topic);
        let mut sum = Flow::default();
        let own = self.flows.iter().filter(|((of, _), _)| *of == topic);
        own.for_each(|(_, flow)| add(&mut sum, flow));
        sum
    }
}

/// What was counted, by equal steps of time.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    pub(super) begins: Timestamp,
    pub(super) step: Duration,
    pub(super) steps: Vec<Flow>,
    pub(super) total: Flow,
    /// In words: what is not in it.
    pub(super) gaps: Vec<String>,
    /// Before this time nothing is kept.
    pub(super) kept_from: Option<Timestamp>,
}

/// The journal's answer, or the reason why it gave no answer.
type JournalAnswer = Result<Arc<JournalQuery>, String>;

/// Answers of the journal, by the questions without their times.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<HashMap<String, Kept>>);

/// A question under way, which all who ask wait for, or its answer.
#[derive(Clone, Debug)]
struct Kept {
    from: Timestamp,
    /// The answer, with the time when it came.
    cell: Arc<OnceCell<(Instant, JournalAnswer)>>,
    /// The answer before it.
    older: Option<Arc<JournalQuery>>,
}

impl Answers {
    /// Returns what is kept of a question; a new one, where its answer failed, is too old, or has another beginning.
    fn of(&self, question: String, from: Timestamp, age: Duration) -> Kept {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age_of = |one: &Kept| one.cell.get().map_or(Duration::ZERO, |(at, _)| at.elapsed());
        // An older answer is shown while a new one is not there.
        answers.retain(|_, one| age_of(one) < age + KEPT_ON_AWS);
        let new = |older| Kept { from, cell: Arc::default(), older };
        let one = answers.entry(question).or_insert_with(|| new(None));
        if let Some((_, answer)) = one.cell.get()
            && (answer.is_err() || one.from != from || age_of(one) >= age)
        {
            *one = new(answer.as_ref().ok().or(one.older.as_ref()).cloned());
        }
        one.clone()
    }
}

impl Shared {
    /// Returns where a range begins: on AWS so that those who look within five minutes ask for the same.
    fn begin(&self, since: Since, now: Timestamp) -> Timestamp {
        let begin = since.begin(now);
        if self.settings.target.is_dev() { begin } else { Step::FiveMinutes.begin(begin) }
    }

    /// Asks the journal for what happened since then, or takes an answer that it gave some seconds ago; an older one
    /// while a new one is not there.
    async fn ask(
        &self,
        of: impl Fn(Option<Time>) -> JournalQueryInput,
        (since, now): (Since, Timestamp),
        most: usize,
    ) -> anyhow::Result<Arc<JournalQuery>> {
        let age = if self.settings.target.is_dev() { KEPT_ON_ONE_MACHINE } else { KEPT_ON_AWS };
        let (key, from) = (key(&of(None), since, most)?, self.begin(since, now));
        let Kept { from, cell, older } = self.answers.of(key, from, age);
        let (question, journal) = (of(Some(from.into())), self.journal.clone());
        // Goes on although its page does not wait for it.
        let asked = tokio::spawn(async move {
            let asked = async || {
                let answer = journal.ask(question, most).await;
                (Instant::now(), answer.map(Arc::new).map_err(|error| chain(&error)))
            };
            cell.get_or_init(asked).await.1.clone()
        });
        match timeout(PATIENCE, asked).await {
            Ok(told) => told?.map_err(anyhow::Error::msg),
            Err(_) => older.filter(|it| is_recent(it, now)).ok_or_else(|| Late.into()),
        }
    }

    async fn series(
        &self,
        scope: Scope<'_>,
        (since, now): (Since, Timestamp),
        (by, total): (By, Option<bool>),
    ) -> anyhow::Result<Arc<JournalQuery>> {
        let query = |from| SeriesQuery {
            topic: scope.topic.map(str::to_owned),
            event_subscription: scope.name.map(str::to_owned),
            from,
            step: Some(since.step),
            by: Some(by),
            total,
            ..SeriesQuery::default()
        };
        let of = |from| JournalQueryInput { series: Some(query(from)), ..Default::default() };
        self.ask(of, (since, now), usize::MAX).await
    }

    /// Reads what happened since then to all, or to one owner.
    pub(super) async fn traffic(
        &self,
        scope: Scope<'_>,
        since: Since,
        now: Timestamp,
    ) -> anyhow::Result<Traffic> {
        let answer = self.series(scope, (since, now), (By::All, None)).await?;
        let until = answer.known_until.map_or(now, |known| known.0.min(now));
        let entries = answer.series.as_deref().unwrap_or_default();
        let times = (self.begin(since, now), until);
        let kept_from = answer.begins.map(|kept| kept.0);
        let as_of = (now.since(until) > AS_OF_NOW).then(|| format!("As of {until}"));
        let gaps = as_of.into_iter().chain(answer.gaps()).collect();
        Ok(Traffic { kept_from, ..Traffic::of(entries, times, since.step, gaps) })
    }

    /// Reads the sums of each topic and of each event subscription since then.
    pub(super) async fn totals(
        &self,
        topic: Option<&str>,
        since: Since,
        now: Timestamp,
    ) -> anyhow::Result<Totals> {
        let scope = Scope { topic, name: None };
        let answer = self.series(scope, (since, now), (By::EventSubscription, Some(true))).await?;
        let owner = |entry: &SeriesEntry| {
            let of = |name: &Option<String>| name.as_deref().map(name::folded).unwrap_or_default();
            ((of(&entry.topic), of(&entry.event_subscription)), flow(entry))
        };
        let flows = answer.series.iter().flatten().map(owner).collect();
        Ok(Totals { flows, gaps: answer.gaps() })
    }

    /// Reads how many events of an event subscription wait, by the hour of their publish.
    pub(super) async fn waiting_by_hour(
        &self,
        topic: &str,
        name: &str,
        now: Timestamp,
    ) -> anyhow::Result<Vec<(Timestamp, u64)>> {
        let query = |from| LedgerQuery {
            topic: Some(topic.to_owned()),
            event_subscription: Some(name.to_owned()),
            from,
            ..LedgerQuery::default()
        };
        let of = |from| JournalQueryInput { ledger: Some(query(from)), ..Default::default() };
        let answer = self.ask(of, (Since::DAY, now), usize::MAX).await?;
        let hours = answer.ledger.iter().flatten().filter_map(|entry| {
            let waiting = u64::try_from(entry.waiting?).ok().filter(|waiting| *waiting > 0)?;
            Some((entry.publish_hour.0, waiting))
        });
        Ok(hours.collect())
    }

    /// Reads the newest attempts of an event subscription of the last day.
    pub(super) async fn newest(
        &self,
        (topic, name): (&str, &str),
        failed: bool,
        most: usize,
        now: Timestamp,
    ) -> anyhow::Result<Arc<JournalQuery>> {
        let query = |from| AttemptsQuery {
            topic: Some(topic.to_owned()),
            event_subscription: Some(name.to_owned()),
            from,
            failed: failed.then_some(true),
            ..AttemptsQuery::default()
        };
        let of = |from| JournalQueryInput { attempts: Some(query(from)), ..Default::default() };
        self.ask(of, (Since::DAY, now), most).await
    }
}

/// Names a question without its times: two ranges may have the same step.
fn key(question: &JournalQueryInput, since: Since, most: usize) -> serde_json::Result<String> {
    Ok(format!("{} {most} {}", since.value, serde_json::to_string(question)?))
}

fn is_recent(answer: &JournalQuery, now: Timestamp) -> bool {
    answer.known_until.is_some_and(|until| now.since(until.0) <= OLDER_MAX)
}

fn flow(entry: &SeriesEntry) -> Flow {
    let counts = &entry.counts;
    Flow {
        accepted: counts.topic.map_or(0, |topic| topic.accepted),
        unmatched: counts.topic.map_or(0, |topic| topic.unmatched),
        account: counts.event_subscription.as_deref().map(Into::into).unwrap_or_default(),
        failed: entry.failed_attempts.clone().unwrap_or_default(),
    }
}

fn add(sum: &mut Flow, more: &Flow) {
    sum.accepted = sum.accepted.saturating_add(more.accepted);
    sum.unmatched = sum.unmatched.saturating_add(more.unmatched);
    sum.account.add(&more.account);
    for (outcome, count) in &more.failed {
        let of = sum.failed.entry(outcome.clone()).or_default();
        *of = of.saturating_add(*count);
    }
}

/// Returns the events that were matched or redriven.
pub(super) fn came(account: &Account) -> u64 {
    account.matched.saturating_add(account.redriven)
}

pub(super) fn ended(account: &Account) -> u64 {
    [account.delivered, total(&account.dead_lettered), total(&account.dropped)]
        .into_iter()
        .fold(0, u64::saturating_add)
}

impl Traffic {
    fn of(
        entries: &[SeriesEntry],
        (begins, now): (Timestamp, Timestamp),
        step: Step,
        gaps: Vec<String>,
    ) -> Self {
        let step_ms = i64::from(step.minutes()) * 60_000;
        let index = |at: Timestamp| (at.as_millis() - begins.as_millis()).div_euclid(step_ms);
        let count = usize::try_from(index(now) + 1).unwrap_or(1);
        let mut steps = vec![Flow::default(); count];
        let mut total = Flow::default();
        // An older answer begins earlier.
        for entry in entries.iter().filter(|entry| entry.time.0 >= begins) {
            let flow = flow(entry);
            add(&mut total, &flow);
            // A clock that was set back leaves counts of times to come.
            if let Some(at) = usize::try_from(index(entry.time.0)).ok().filter(|at| *at < count) {
                add(&mut steps[at], &flow);
            }
        }
        Self {
            begins,
            step: Duration::from_millis(step_ms.unsigned_abs()),
            steps,
            total,
            gaps,
            kept_from: None,
        }
    }

    pub(super) fn each(&self, count: impl Fn(&Flow) -> u64) -> Vec<u64> {
        self.steps.iter().map(count).collect()
    }

    /// Returns what waited at the end of each step, from what waits now: what came less what ended, backwards.
    pub(super) fn waited(&self, now: Option<u64>) -> Vec<Option<u64>> {
        let Some(now) = now else { return Vec::new() };
        let mut waits = i128::from(now);
        let mut all = Vec::with_capacity(self.steps.len());
        for flow in self.steps.iter().rev() {
            all.push(u64::try_from(waits).ok());
            waits -= i128::from(came(&flow.account)) - i128::from(ended(&flow.account));
        }
        all.reverse();
        all
    }

    /// Returns the same in the longer steps of a picture's table.
    pub(super) fn in_rows(&self) -> Self {
        self.coarser(TABLE_ROWS)
    }

    /// Puts so many steps together that at most `most` are left.
    pub(super) fn coarser(&self, most: usize) -> Self {
        let together = self.steps.len().div_ceil(most.max(1)).max(1);
        let sum = |steps: &[Flow]| {
            let mut sum = Flow::default();
            steps.iter().for_each(|flow| add(&mut sum, flow));
            sum
        };
        let steps = self.steps.chunks(together).map(sum).collect();
        let step = self.step.saturating_mul(u32::try_from(together).unwrap_or(u32::MAX));
        Self { steps, step, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_rfc_3339(text).expect("a time")
    }

    fn entry(time: &str, matched: u64, delivered: u64) -> SeriesEntry {
        let none = serde_json::json!({"total": 0, "byReason": {}});
        serde_json::from_value(serde_json::json!({"time": time, "accepted": matched, "unmatched": 0,
            "matched": matched, "redriven": 0, "delivered": delivered, "deadLettered": none, "dropped": none,
            "failedAttempts": {"Busy": 2}, "latency": {"events": 0, "buckets": {}, "p50AtMostMs": null,
            "p95AtMostMs": null, "p99AtMostMs": null}}))
        .expect("an entry")
    }

    fn traffic() -> Traffic {
        let entries = [
            entry("2026-01-01T08:00:00Z", 10, 10),
            entry("2026-01-01T08:05:00Z", 10, 4),
            entry("2026-01-01T08:15:00Z", 0, 1),
        ];
        let times = (at("2026-01-01T08:00:00Z"), at("2026-01-01T08:17:00Z"));
        Traffic::of(&entries, times, Step::FiveMinutes, Vec::new())
    }

    #[test]
    fn a_range_begins_with_a_step_and_a_long_one_with_an_hour() {
        let now = at("2026-01-08T14:32:08Z");
        for (value, want, steps) in [
            ("15m", "2026-01-08T14:17:00.000Z", 16),
            ("1h", "2026-01-08T13:32:00.000Z", 61),
            ("<b>", "2026-01-08T08:00:00.000Z", 79),
            ("24h", "2026-01-07T14:00:00.000Z", 50),
            ("7d", "2026-01-01T12:00:00.000Z", 57),
        ] {
            let asked = SinceQuery { since: Some(value.to_owned()), ..SinceQuery::default() };
            let since = asked.since();
            assert_eq!(since.begin(now).to_iso_8601(), want);
            let traffic = Traffic::of(&[], (since.begin(now), now), since.step, Vec::new());
            assert_eq!(traffic.steps.len(), steps, "{value}");
        }
    }

    #[test]
    fn each_range_has_its_own_answers() {
        let keys = Since::ALL.map(|since| key(&JournalQueryInput::default(), since, 9).ok());
        assert_eq!(std::collections::BTreeSet::from(keys).len(), Since::ALL.len());
    }

    #[test]
    fn an_old_answer_is_not_shown_for_a_new_one() {
        let answer = gridpost_ops::testkit::documents::journal_query(&serde_json::json!({}));
        let mut answer: JournalQuery = serde_json::from_value(answer).expect("one");
        for (until, want) in [("08:00:00", true), ("07:50:00", true), ("07:49:59", false)] {
            answer.known_until = Some(at(&format!("2026-01-01T{until}Z")).into());
            assert_eq!(is_recent(&answer, at("2026-01-01T08:00:00Z")), want, "{until}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_from_when_it_came_and_then_until_the_next_one_is_there() {
        let answer = gridpost_ops::testkit::documents::journal_query(&serde_json::json!({}));
        let answer: Arc<JournalQuery> = Arc::new(serde_json::from_value(answer).expect("one"));
        let answers = Answers::default();
        let age = Duration::from_secs(9);
        let of = |from| answers.of("q".to_owned(), Timestamp::from_millis(from), age);
        let come = |kept: &Kept, told| kept.cell.set((Instant::now(), told)).expect("the first");
        let slow = of(1);
        tokio::time::advance(10 * age).await;
        assert!(Arc::ptr_eq(&slow.cell, &of(2).cell), "all wait for the question under way");
        come(&slow, Ok(answer));
        tokio::time::advance(age / 2).await;
        assert!(of(1).cell.get().is_some());
        tokio::time::advance(age).await;
        let next = of(1);
        assert!(next.cell.get().is_none() && next.older.is_some());
        come(&next, Err(String::new()));
        let again = of(1);
        assert!(again.cell.get().is_none() && again.older.is_some(), "a failure is not kept");
        tokio::time::advance(age + KEPT_ON_AWS).await;
        assert!(Arc::ptr_eq(&again.cell, &of(1).cell));
    }

    #[test]
    fn steps_without_counts_are_there_and_sums_are_those_of_the_whole() {
        let traffic = traffic();
        assert_eq!(traffic.each(|flow| flow.account.matched), [10, 10, 0, 0]);
        assert_eq!(traffic.total.account.delivered, 15);
        assert_eq!(traffic.total.failed["Busy"], 6);
        let sums: Vec<u64> = traffic.fates().iter().map(|one| one.values.iter().sum()).collect();
        assert_eq!(sums, [15, 6, 0, 0]);
        let spark = traffic.spark(crate::chart::Kind::Ok, |flow| flow.account.delivered);
        assert!(spark.into_string().contains("viewBox=\"0 0 3 28\""), "without what is not over");
        let coarse = traffic.coarser(2);
        assert_eq!(coarse.each(|flow| flow.account.delivered), [14, 1]);
        assert_eq!(coarse.step, Duration::from_secs(600));
    }

    #[test]
    fn what_waited_follows_from_what_waits() {
        let traffic = traffic();
        assert_eq!(traffic.waited(Some(7)), [2, 8, 8, 7].map(Some));
        assert_eq!(traffic.waited(Some(0)), [None, Some(1), Some(1), Some(0)]);
        assert_eq!(traffic.waited(None), []);
    }
}

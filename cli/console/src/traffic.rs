//! What happened in the last hours, step by step: the journal's series as pages draw them.
//!
//! All who look share the answers for some seconds, and one budget: on AWS an answer has a price.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gridpost_api::{
    health::Health,
    journal::{
        JournalQuery, SeriesEntry,
        query::{AttemptsQuery, JournalQueryInput, LedgerQuery, SeriesQuery},
    },
};
use gridpost_core::journal::{By, Flow, Step};
use gridpost_core::ledger::Account;
use gridpost_core::name;
use gridpost_core::time::Timestamp;
use gridpost_ops::failure::chain;
use maud::{Markup, html};
use serde::Deserialize;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

use super::Shared;
use super::chart::{self, Bars, Kind, Series};
use super::form::Look;
use super::kit;
use super::text::{self, number, visible};
use super::urls::with_query;

/// How long an answer is shared: on one machine it costs milliseconds, on AWS a query of the logs.
const KEPT_ON_ONE_MACHINE: Duration = Duration::from_secs(2);
const KEPT_ON_AWS: Duration = Duration::from_secs(5 * 60);

/// How long a page waits for the journal, which takes long on AWS alone.
const PATIENCE: Duration = Duration::from_secs(3);

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
pub(super) struct Totals(BTreeMap<(String, String), Flow>);

impl Totals {
    /// Returns the sums of an event subscription, or without a name what a topic itself counts.
    pub(super) fn of(&self, topic: &str, name: &str) -> Option<&Flow> {
        self.0.get(&(name::folded(topic), name::folded(name)))
    }

    /// Returns the sums of a topic together with its event subscriptions.
    pub(super) fn of_topic(&self, topic: &str) -> Flow {
        let topic = name::folded(topic);
        let mut sum = Flow::default();
        let own = self.0.iter().filter(|((of, _), _)| *of == topic);
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
    kept_from: Option<Timestamp>,
}

/// An answer of the journal, or why there is none.
type JournalAnswer = Result<Arc<JournalQuery>, String>;

/// Answers of the journal that are some seconds old, and questions under way, which all who ask wait for.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<HashMap<String, (Instant, Kept)>>);

type Kept = Arc<OnceCell<JournalAnswer>>;

impl Answers {
    fn cell(&self, key: String, kept: Duration) -> Kept {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|_, (at, _)| at.elapsed() < kept);
        Arc::clone(&answers.entry(key).or_insert_with(|| (Instant::now(), Arc::default())).1)
    }
}

impl Shared {
    /// Asks the journal, or takes an answer that it gave some seconds ago.
    async fn ask(
        &self,
        question: JournalQueryInput,
        most: usize,
    ) -> anyhow::Result<Arc<JournalQuery>> {
        let kept = if self.settings.target.is_dev() { KEPT_ON_ONE_MACHINE } else { KEPT_ON_AWS };
        let key = format!("{most} {}", serde_json::to_string(&question)?);
        let (cell, journal) = (self.answers.cell(key, kept), self.journal.clone());
        // Goes on although its page does not wait for it.
        let asked = tokio::spawn(async move {
            let asked = async || match journal.ask(question, most).await {
                Ok(answer) => Ok(Arc::new(answer)),
                Err(error) => Err(chain(&error)),
            };
            cell.get_or_init(asked).await.clone()
        });
        match timeout(PATIENCE, asked).await {
            Ok(told) => told?.map_err(anyhow::Error::msg),
            Err(_) => Err(anyhow::Error::msg(
                "The journal is still being read. This part follows by itself.",
            )),
        }
    }

    async fn series(
        &self,
        scope: Scope<'_>,
        (since, now): (Since, Timestamp),
        (by, total): (By, Option<bool>),
    ) -> anyhow::Result<Arc<JournalQuery>> {
        let query = SeriesQuery {
            topic: scope.topic.map(str::to_owned),
            event_subscription: scope.name.map(str::to_owned),
            from: Some(since.begin(now).into()),
            step: Some(since.step),
            by: Some(by),
            total,
            ..SeriesQuery::default()
        };
        let question = JournalQueryInput { series: Some(query), ..JournalQueryInput::default() };
        self.ask(question, usize::MAX).await
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
        let times = (since.begin(now), until);
        let kept_from = answer.begins.map(|kept| kept.0);
        Ok(Traffic { kept_from, ..Traffic::of(entries, times, since.step, answer.gaps()) })
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
        Ok(Totals(answer.series.iter().flatten().map(owner).collect()))
    }

    /// Reads how many events of an event subscription wait, by the hour of their publish.
    pub(super) async fn waiting_by_hour(
        &self,
        topic: &str,
        name: &str,
        now: Timestamp,
    ) -> anyhow::Result<Vec<(Timestamp, u64)>> {
        let query = LedgerQuery {
            topic: Some(topic.to_owned()),
            event_subscription: Some(name.to_owned()),
            from: Some(Since::DAY.begin(now).into()),
            ..LedgerQuery::default()
        };
        let question = JournalQueryInput { ledger: Some(query), ..JournalQueryInput::default() };
        let answer = self.ask(question, usize::MAX).await?;
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
        let query = AttemptsQuery {
            topic: Some(topic.to_owned()),
            event_subscription: Some(name.to_owned()),
            from: Some(Since::DAY.begin(now).into()),
            failed: failed.then_some(true),
            ..AttemptsQuery::default()
        };
        let question = JournalQueryInput { attempts: Some(query), ..JournalQueryInput::default() };
        self.ask(question, most).await
    }
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

/// Returns how many of these ended undelivered.
pub(super) fn sum(reasons: &BTreeMap<String, u64>) -> u64 {
    reasons.values().copied().fold(0, u64::saturating_add)
}

/// Returns the events that were matched or redriven.
fn came(account: &Account) -> u64 {
    account.matched.saturating_add(account.redriven)
}

/// Shows the parts of what came by what became of it.
pub(super) fn share(account: &Account) -> Markup {
    chart::mini(&[
        (Kind::Ok, account.delivered, "delivered"),
        (Kind::Warn, came(account).saturating_sub(ended(account)), "without an end"),
        (Kind::Dead, sum(&account.dead_lettered), "dead-lettered"),
        (Kind::Bad, sum(&account.dropped), "lost"),
    ])
}

fn ended(account: &Account) -> u64 {
    [account.delivered, sum(&account.dead_lettered), sum(&account.dropped)]
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
        for entry in entries {
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

    fn each(&self, count: impl Fn(&Flow) -> u64) -> Vec<u64> {
        self.steps.iter().map(count).collect()
    }

    /// Draws a count as a line, as far as it is known.
    pub(super) fn spark(&self, kind: Kind, count: impl Fn(&Flow) -> u64) -> Markup {
        let begin = |at: usize| {
            let at = i64::try_from(at).unwrap_or(i64::MAX);
            self.begins.as_millis().saturating_add(at.saturating_mul(self.step.as_millis() as i64))
        };
        let is_kept = |at| self.kept_from.is_none_or(|kept| begin(at) >= kept.as_millis());
        let each = self.steps.iter().enumerate();
        let known: Vec<_> = each.map(|(at, flow)| is_kept(at).then(|| count(flow))).collect();
        chart::spark(&known, kind)
    }

    /// Draws what waited.
    pub(super) fn waiting_spark(&self, now: Option<u64>) -> Markup {
        chart::spark(&self.waited(now), Kind::Warn)
    }

    /// Says what it counts of the last hour, where its steps tell.
    pub(super) fn last_hour(&self, count: impl Fn(&Flow) -> u64) -> Markup {
        let steps = usize::try_from(3_600 / self.step.as_secs().max(1)).unwrap_or(0);
        let is_told = (12..=self.steps.len()).contains(&steps);
        let counted = self.steps.iter().rev().take(steps).map(count).sum();
        html! { @if is_told { (number(counted)) " in the last hour" } }
    }

    /// Returns series of it as bars.
    pub(super) fn bars<'a>(&self, label: &'a str, series: &'a [Series]) -> Bars<'a> {
        Bars::of(label, series, self.begins, self.step)
    }

    /// Draws series of it as bars, with a table of the same in longer steps. A mark is a time.
    pub(super) fn figure(
        &self,
        (title, label): (&str, &str),
        beside: Option<Markup>,
        series: fn(&Self) -> Vec<Series>,
        mark: Option<Timestamp>,
    ) -> Markup {
        let coarse = self.in_rows();
        let (fine, rows) = (series(self), series(&coarse));
        let mut bars = self.bars(label, &fine);
        let steps = |ms: i64| ms as f64 / self.step.as_millis() as f64;
        bars.mark = mark.map(|at| steps(at.as_millis() - self.begins.as_millis()));
        let table = coarse.bars(label, &rows).table();
        let body =
            html! { @if beside.is_some() { (bars.legend()) } (bars.picture()) (self.gaps()) };
        kit::figure(title, beside.unwrap_or_else(|| bars.legend()), body, table)
    }

    /// Tells what is not in it.
    fn gaps(&self) -> Markup {
        html! { @for gap in &self.gaps { p.sm.m { (visible(gap)) } } }
    }

    /// Returns what waited at the end of each step, from what waits now: what came less what ended, backwards.
    fn waited(&self, now: Option<u64>) -> Vec<Option<u64>> {
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

    /// Returns what became of events, for bars: what ended in a step by its end, and by how much more came.
    pub(super) fn fates(&self) -> Vec<Series> {
        let series = |kind, name, count: fn(&Account) -> u64| {
            Series::of(kind, name, self.each(|flow| count(&flow.account)))
        };
        vec![
            series(Kind::Ok, "Delivered", |account| account.delivered),
            series(Kind::Warn, "More came than ended", |it| came(it).saturating_sub(ended(it))),
            series(Kind::Dead, "Dead-lettered", |account| sum(&account.dead_lettered)),
            series(Kind::Bad, "Lost", |account| sum(&account.dropped)),
        ]
    }

    /// Returns delivered events and failed attempts, for bars.
    pub(super) fn attempts(&self) -> Vec<Series> {
        let delivered = self.each(|flow| flow.account.delivered);
        let failed = self.each(|flow| sum(&flow.failed));
        vec![
            Series::of(Kind::Ok, "Delivered events", delivered),
            Series::of(Kind::Bad, "Failed attempts", failed),
        ]
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

/// A count, which may link to more about it; it has its colour where it counts anything.
pub(super) fn counted_tile(
    url: &str,
    kind: Option<Kind>,
    label: &str,
    traffic: &Traffic,
    count: fn(&Flow) -> u64,
) -> Markup {
    let events = count(&traffic.total);
    let spark = traffic.spark(kind.unwrap_or(Kind::Acc), count);
    let kind = kind.map(|kind| if events > 0 { kind } else { Kind::Off });
    let value = kit::unit(number(events), if kind.is_none() { "events" } else { "" });
    kit::tile_to(url, kind, label, value, traffic.last_hour(count), spark)
}

/// The part of what came that was delivered.
pub(super) fn delivered_tile(traffic: &Traffic) -> Markup {
    let account = &traffic.total.account;
    let (delivered, came) = (account.delivered, came(account));
    // Counts are of the time at which they were made: what is delivered now may have come before.
    let is_older = delivered > came;
    let value = if is_older { number(delivered) } else { text::percent(delivered, came) };
    let note = html! {
        @if is_older { (number(came)) " came meanwhile" } @else { (number(delivered)) " of " (number(came)) }
    };
    let spark = traffic.spark(Kind::Ok, |flow| flow.account.delivered);
    kit::tile(Kind::Ok, "Delivered", value, note, spark)
}

/// What came and has not ended by these healths, which may not be all, and how much of it was attempted.
pub(super) fn waiting_tile(
    url: &str,
    healths: &[&Health],
    is_whole: bool,
    traffic: Option<&Traffic>,
) -> Markup {
    let waiting: Option<u64> = healths.iter().map(|health| health.waiting_events).sum();
    let failed = healths.iter().map(|health| health.waiting_deliveries.count as u64).sum();
    let is_counted = is_whole && healths.iter().all(|health| health.waiting_deliveries.is_complete);
    let value = match waiting {
        Some(events) if is_whole => number(events),
        Some(events) => format!("> {}", number(events)),
        None => "not known".to_owned(),
    };
    let note = html! {
        @if !is_counted { "more than " }
        (text::counted(failed, "delivery has failed", "deliveries have failed"))
    };
    let spark = traffic.map(|traffic| traffic.waiting_spark(waiting)).unwrap_or_default();
    let kind = if waiting == Some(0) { Kind::Off } else { Kind::Warn };
    kit::tile_to(url, kind, "Waiting", value, note, spark)
}

/// What ended undelivered, each with the page about it. What is lost has a tile if there is any, or such a page.
pub(super) fn ended_tiles(letters: &str, lost: &str, traffic: &Traffic) -> Markup {
    let dropped = |flow: &Flow| sum(&flow.account.dropped);
    html! {
        (counted_tile(letters, Some(Kind::Dead), "Dead-lettered", traffic, |flow| sum(&flow.account.dead_lettered)))
        @if !lost.is_empty() || dropped(&traffic.total) > 0 {
            (counted_tile(lost, Some(Kind::Bad), "Lost", traffic, dropped))
        }
    }
}

/// Shows a count that may be nothing.
pub(super) fn or_none(count: u64) -> Markup {
    html! { @if count == 0 { "–" } @else { (number(count)) } }
}

/// The time from publish to delivery: percentiles are bounds.
pub(super) fn latency_tile(traffic: &Traffic) -> Markup {
    let latencies = &traffic.total.account.latencies;
    let [p50, p95, p99] = text::bounds(latencies);
    let note = html! { @if latencies.events() > 0 { "p50 " (p50) " · p99 " (p99) } };
    kit::tile(None, "Publish to delivery, p95", p95, note, "")
}

/// Bars of what became of events, and failed attempts by answer.
pub(super) fn charts(whose: &str, traffic: &Traffic) -> Markup {
    let title = "What became of events";
    let label = format!("{title} {whose}");
    let failed = &traffic.total.failed;
    let row =
        |(outcome, count): (&String, &u64)| (Kind::Warn, text::outcome(outcome), *count, None);
    let mut rows: Vec<_> = failed.iter().map(row).collect();
    rows.sort_by_key(|(_, _, count, _)| std::cmp::Reverse(*count));
    let in_all = html! { span.sm.m { (number(sum(failed))) " in all" } };
    html! {
        div.g.g21 {
            (traffic.figure((title, &label), None, Traffic::fates, None))
            (kit::card("Failed attempts by answer", in_all, html! {
                @if rows.is_empty() { p.m { "No attempt has failed." } } @else { (chart::breakdown(&rows)) }
            }))
        }
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
    fn steps_without_counts_are_there_and_sums_are_those_of_the_whole() {
        let traffic = traffic();
        assert_eq!(traffic.each(|flow| flow.account.matched), [10, 10, 0, 0]);
        assert_eq!(traffic.total.account.delivered, 15);
        assert_eq!(traffic.total.failed["Busy"], 6);
        let sums: Vec<u64> = traffic.fates().iter().map(|one| one.values.iter().sum()).collect();
        assert_eq!(sums, [15, 6, 0, 0]);
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

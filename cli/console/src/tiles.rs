//! What was counted, as numbers and pictures.

use std::time::Duration;

use gridpost_api::health::Health;
use gridpost_core::time::Timestamp;
use gridpost_core::{journal::Flow, ledger::Account};
use maud::{Markup, html};

use super::chart::{self, Bars, Kind, Series};
use super::kit;
use super::lists::One;
use super::text::{self, number};
use super::traffic::{Traffic, came, ended, total};

impl Traffic {
    /// Draws a count as a line, as far as it is known.
    pub(super) fn spark(&self, kind: Kind, count: impl Fn(&Flow) -> u64) -> Markup {
        // The last step is not over.
        let each = self.steps.iter().take(self.steps.len().saturating_sub(1));
        chart::spark(&self.kept(each.map(|flow| Some(count(flow))).collect()), kind)
    }

    /// Leaves out the steps of which nothing is kept.
    fn kept(&self, mut steps: Vec<Option<u64>>) -> Vec<Option<u64>> {
        let before = self.kept_from.map_or(Duration::ZERO, |kept| kept.since(self.begins));
        let count = before.as_millis().div_ceil(self.step.as_millis().max(1)) as usize;
        steps.iter_mut().take(count).for_each(|step| *step = None);
        steps
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
            html! { @if beside.is_some() { (bars.legend()) } (bars.picture()) (gaps(&self.gaps)) };
        kit::figure(title, beside.unwrap_or_else(|| bars.legend()), body, table)
    }

    /// Returns what became of events, for bars: what ended in a step by its end, and by how much more came.
    pub(super) fn fates(&self) -> Vec<Series> {
        let series = |kind, name, count: fn(&Account) -> u64| {
            Series::of(kind, name, self.each(|flow| count(&flow.account)))
        };
        vec![
            series(Kind::Ok, "Delivered", |account| account.delivered),
            series(Kind::Warn, "More came than ended", |it| came(it).saturating_sub(ended(it))),
            series(Kind::Dead, "Dead-lettered", |account| total(&account.dead_lettered)),
            series(Kind::Bad, "Lost", |account| total(&account.dropped)),
        ]
    }

    /// Returns delivered events and failed attempts, for bars.
    pub(super) fn attempts(&self) -> Vec<Series> {
        let delivered = self.each(|flow| flow.account.delivered);
        let failed = self.each(|flow| total(&flow.failed));
        vec![
            Series::of(Kind::Ok, "Delivered events", delivered),
            Series::of(Kind::Bad, "Failed attempts", failed),
        ]
    }
}

/// Tells what counts do not have.
pub(super) fn gaps(gaps: &[String]) -> Markup {
    html! { @for gap in gaps { p.sm.m { (text::sentence(gap)) } } }
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
    kit::tile(url, kind, label, value, traffic.last_hour(count), spark)
}

/// The part of what has ended that was delivered.
pub(super) fn delivered_tile(traffic: &Traffic) -> Markup {
    let account = &traffic.total.account;
    let (delivered, ended) = (account.delivered, ended(account));
    let note = html! {
        @if ended == 0 { "nothing has ended" }
        @else { "of what has ended: " (number(delivered)) " of " (number(ended)) }
    };
    let spark = traffic.spark(Kind::Ok, |flow| flow.account.delivered);
    kit::tile("", Kind::Ok, "Delivered", text::percent(delivered, ended), note, spark)
}

/// The events that have not ended by these healths, which may not be all, and the deliveries that have failed.
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
        Some(events) if !healths.is_empty() => format!("≥ {}", number(events)),
        _ => "not known".to_owned(),
    };
    let note = html! {
        @if is_whole || !healths.is_empty() {
            @if !is_whole { "at least " } @else if !is_counted { "more than " }
            (text::counted(failed, "delivery", "deliveries")) " retrying or parked"
        }
    };
    let waited = |traffic: &Traffic| traffic.kept(traffic.waited(waiting.filter(|_| is_whole)));
    let spark = traffic.map(|traffic| chart::spark(&waited(traffic), Kind::Warn));
    let kind = if waiting == Some(0) { Kind::Off } else { Kind::Warn };
    kit::tile(url, kind, "Waiting", value, note, spark.unwrap_or_default())
}

/// Events that ended undelivered, with the pages about them. Lost ones have a tile if there are any, or such a page.
pub(super) fn ended_tiles(letters: &str, lost: &str, traffic: &Traffic) -> Markup {
    let dropped = |flow: &Flow| total(&flow.account.dropped);
    let kept = |flow: &Flow| total(&flow.account.dead_lettered);
    html! {
        (counted_tile(letters, Some(Kind::Dead), "Dead-lettered", traffic, kept))
        @if !lost.is_empty() || dropped(&traffic.total) > 0 {
            (counted_tile(lost, Some(Kind::Bad), "Lost", traffic, dropped))
        }
    }
}

/// Shows the parts of what came by what became of it.
pub(super) fn share(account: &Account) -> Markup {
    if came(account) + ended(account) == 0 {
        return html! {};
    }
    chart::mini(&[
        (Kind::Ok, account.delivered, "delivered"),
        (Kind::Warn, came(account).saturating_sub(ended(account)), "without an end"),
        (Kind::Dead, total(&account.dead_lettered), "dead-lettered"),
        (Kind::Bad, total(&account.dropped), "lost"),
    ])
}

/// Shows how many events wait; where that is not known, the deliveries that do at least.
pub(super) fn waiting(one: &One) -> Markup {
    let events = one.health.waiting_events;
    html! { @if events.is_none() && one.backlog() > 0 { (one.held()) } @else { (kit::count(events)) } }
}

/// Shows what ended undelivered of the event subscription with that URL.
pub(super) fn undelivered(url: &str, account: Option<&Account>) -> Markup {
    let ended = account.map(|it| (total(&it.dead_lettered), total(&it.dropped)));
    html! {
        @if let Some((letters, lost)) = ended {
            @if letters > 0 { a href={ (url) "/dead-letters" } { (number(letters)) } }
            @if lost > 0 { span.t-bad { " " (number(lost)) " lost" } }
            @if letters + lost == 0 { (kit::count(0)) }
        }
    }
}

/// The time from publish to delivery: percentiles are bounds.
pub(super) fn latency_tile(traffic: &Traffic) -> Markup {
    let latencies = &traffic.total.account.latencies;
    let [p50, p95, p99] = text::bounds(latencies);
    let note = html! { @if latencies.events() > 0 { "p50 " (p50) " · p99 " (p99) } };
    kit::tile("", None, "Publish to delivery, p95", p95, note, "")
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
    let in_all = html! { span.sm.m { (number(total(failed))) " in all" } };
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
    use gridpost_ops::testkit::documents;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_known_is_no_number() {
        let zero = "<span class=\"m\">0</span>";
        for (events, failed, cell, told) in [
            (Some(0), 0, zero, "0 events"),
            (Some(20_000), 7, "20\u{202f}000", "20\u{202f}000 events"),
            (None, 7, "at least 7 deliveries", "at least 7 deliveries"),
            (None, 0, "–", "events"),
        ] {
            let health = json!({"waitingEvents": events, "waitingDeliveries": {"count": failed}});
            let health = serde_json::from_value(documents::health(&health)).expect("a health");
            let [topic, name] = ["t", "s"].map(str::to_owned);
            let one = One { topic, name, health, counted: None };
            assert_eq!(waiting(&one).into_string(), cell);
            assert_eq!(one.held(), told);
        }
        assert_eq!(undelivered("/u", None).into_string(), "");
        assert_eq!(undelivered("/u", Some(&Account::default())).into_string(), zero);
    }

    #[test]
    fn of_what_waits_where_not_all_is_known_no_more_is_told_than_is_known() {
        let health = json!({"waitingEvents": 7, "waitingDeliveries": {"count": 3}});
        let health: Health = serde_json::from_value(documents::health(&health)).expect("one");
        let shown = waiting_tile("", &[&health], false, None).into_string();
        assert!(shown.contains("≥ 7") && shown.contains("at least 3"), "{shown}");
        let shown = waiting_tile("", &[], false, None).into_string();
        assert!(shown.contains("not known") && !shown.contains("deliver"), "{shown}");
    }

    #[test]
    fn the_delivered_part_is_of_what_has_ended() {
        let account = Account { matched: 9, delivered: 2, ..Account::default() };
        let lost = Account { dropped: [("R".to_owned(), 2)].into(), ..account.clone() };
        for (account, percent, note) in [
            (Account { delivered: 0, ..account.clone() }, "–", "nothing has ended"),
            (account, "100 %", "of what has ended: 2 of 2"),
            (lost, "50.0 %", "of what has ended: 2 of 4"),
        ] {
            let total = Flow { account, ..Flow::default() };
            let (begins, step) = (Timestamp::from_millis(0), Duration::from_secs(60));
            let (steps, gaps) = (Vec::new(), Vec::new());
            let traffic = Traffic { begins, step, steps, total, gaps, kept_from: None };
            let shown = delivered_tile(&traffic).into_string();
            assert!(shown.contains(percent) && shown.contains(note), "{shown}");
        }
    }
}

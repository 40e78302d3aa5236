//! Where an event went: how it stands at each event subscription of its topic, as lanes, and its attempts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gridpost_api::delivery::{Attempt, DeliveryStatus};
use gridpost_api::health::Health;
use gridpost_api::schema::Time;
use gridpost_api::trial::{ExplainedSubscription, SubscriptionState};
use gridpost_core::journal::EntryKind;
use gridpost_core::time::Timestamp;
use gridpost_ops::attempt_lines::AttemptLine;
use gridpost_ops::explain::{EventDelivery, Explanation, ends_meanwhile};
use gridpost_ops::output::or_dash;
use maud::{Markup, html};

use crate::App;
use crate::attempts;
use crate::chart::{self, Kind, Lane, Mark, Point};
use crate::delivery::attempt_now;
use crate::kit;
use crate::sought::letters_query;
use crate::text::{self, visible};
use crate::urls::{part, subscription_url, with_query};

/// How an event stands at an event subscription, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Lost,
    DeadLettered,
    Ended,
    Ending,
    Waiting,
    HeldBack,
    Paused,
    Delivered,
    NotKnown,
    Filtered,
}

impl Standing {
    /// Returns its colour and word.
    fn shown(self) -> (Kind, &'static str) {
        match self {
            Self::Lost => (Kind::Bad, "Lost"),
            Self::DeadLettered => (Kind::Dead, "Dead-lettered"),
            Self::Ended => (Kind::Dead, "Ended"),
            Self::Ending => (Kind::Dead, "Ending"),
            Self::Waiting => (Kind::Warn, "Waiting"),
            Self::HeldBack => (Kind::Warn, "Held back"),
            Self::Paused => (Kind::Mute, "Paused"),
            Self::Delivered => (Kind::Ok, "Delivered"),
            Self::NotKnown => (Kind::Off, "Not known"),
            Self::Filtered => (Kind::Off, "Filtered"),
        }
    }
}

/// An event subscription, and what is known of the event there.
pub(super) struct Place<'a> {
    name: &'a str,
    /// In the order of time: a redrive sends it again.
    deliveries: Vec<&'a EventDelivery>,
    held: Option<&'a Health>,
    verdict: Option<&'a ExplainedSubscription>,
    /// In words.
    wants: &'a str,
}

/// Returns each event subscription once: those with a delivery first, those that do not want it last.
pub(super) fn places(of: &Explanation) -> Vec<Place<'_>> {
    let verdicts = of.verdicts.iter().flatten();
    let names = of.wants.iter().map(|(name, _)| name.as_str());
    let names = names.chain(of.deliveries.iter().map(|one| one.name.as_str()));
    let names = names.chain(verdicts.clone().map(|one| one.event_subscription.as_str()));
    let held: BTreeMap<_, _> =
        of.holding_back.iter().map(|one| (one.event_subscription.as_str(), &one.health)).collect();
    let names: BTreeSet<_> = names.chain(held.keys().copied()).collect();
    let place = |name| Place {
        name,
        deliveries: of.deliveries.iter().filter(|one| one.name == name).collect(),
        held: held.get(name).copied(),
        verdict: verdicts.clone().find(|one| one.event_subscription == name),
        wants: of.wants.iter().find(|(one, _)| one == name).map_or("", |(_, wants)| wants),
    };
    let mut places: Vec<_> = names.into_iter().map(place).collect();
    places.sort_by_key(|place| {
        (place.deliveries.is_empty(), place.standing().max(Standing::Delivered))
    });
    places
}

/// Returns when it was first published, if a delivery says so.
pub(super) fn published(of: &Explanation) -> Option<Time> {
    of.deliveries.iter().filter_map(published_of).min()
}

fn published_of(one: &EventDelivery) -> Option<Time> {
    let of_state = || one.state.as_ref().map(|state| state.delivery.publish_time);
    one.log.first().map(|line| line.publish_time).or_else(of_state)
}

impl Place<'_> {
    pub(super) fn standing(&self) -> Standing {
        let Some(last) = self.deliveries.last() else {
            return match (self.held, self.verdict) {
                (Some(health), _) if health.pause.is_some() => Standing::Paused,
                (Some(_), _) => Standing::HeldBack,
                (None, Some(one)) if !one.verdict.matches => Standing::Filtered,
                _ => Standing::NotKnown,
            };
        };
        let end = last.log.iter().rfind(|line| line.kind.is_end()).map(|line| line.kind);
        match (last.event_standing, end) {
            (Some(DeliveryStatus::Delivered), _) => Standing::Delivered,
            (Some(DeliveryStatus::Waiting), _) => Standing::Waiting,
            (_, Some(EntryKind::Dropped)) => Standing::Lost,
            (_, Some(EntryKind::DeadLettered)) => Standing::DeadLettered,
            (Some(DeliveryStatus::Ending), _) => Standing::Ending,
            (Some(DeliveryStatus::Ended), _) => Standing::Ended,
            (None, _) => Standing::NotKnown,
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        !self.deliveries.is_empty() || self.verdict.is_some_and(|one| one.verdict.matches)
    }

    fn lines(&self) -> impl Iterator<Item = &AttemptLine> {
        self.deliveries.iter().flat_map(|one| &one.log)
    }

    /// Returns how long after its publish it was delivered.
    pub(super) fn delivered_after(&self) -> Option<Duration> {
        let first = self.lines().find(|line| line.is_success())?;
        Some(first.time.0.since(first.publish_time.0))
    }

    /// The attempts that are known: those of the journal, else those that the delivery remembers.
    fn attempts(&self) -> Vec<(Time, Kind, String)> {
        let of_line = |line: &AttemptLine| {
            let kind = match line.kind {
                EntryKind::Failure => Kind::Bad,
                EntryKind::SuccessAfterEnd => Kind::Off,
                _ => Kind::Ok,
            };
            let met = text::met(line.outcome.as_deref().unwrap_or_default(), line.http_status_code);
            (line.time, kind, format!("{} {met}", line.label()))
        };
        let of_attempt = |one: &Attempt| {
            let kind = if one.outcome == "Delivered" { Kind::Ok } else { Kind::Bad };
            let met = text::met(&one.outcome, one.http_status_code);
            (one.start_time, kind, format!("#{} {met}", one.attempt))
        };
        let of = |one: &&EventDelivery| {
            let logged = one.log.iter().filter(|line| !line.kind.is_end());
            let logged: Vec<_> = logged.map(of_line).collect();
            match &one.state {
                Some(state) if logged.is_empty() && !one.is_divided => {
                    state.attempts.iter().map(of_attempt).collect()
                }
                _ => logged,
            }
        };
        self.deliveries.iter().flat_map(of).collect()
    }

    /// Returns the times at which it comes next and ends, as far as is known.
    fn next(&self, now: Timestamp) -> Option<(Time, Time)> {
        let state = self.deliveries.last()?.state.as_ref()?;
        let next = state.next.as_ref().filter(|_| self.standing() == Standing::Waiting)?;
        let due = next.endpoint_waits_until.or(next.paused_until).unwrap_or(next.not_before);
        Some((due.max(now.into()), next.expires))
    }

    fn points(&self, published: Time, now: Timestamp) -> Vec<Point> {
        let point = |at: Time, mark, told: String| Point {
            at: at.0.since(published.0).as_secs_f64(),
            mark,
            label: String::new(),
            told,
        };
        let attempts = self.attempts().into_iter();
        let mut points: Vec<_> =
            attempts.map(|(at, kind, told)| point(at, Mark::Dot(kind), told)).collect();
        let ends = self.lines().filter(|line| line.kind.is_end());
        points.extend(
            ends.map(|line| point(line.time, Mark::End, line.describe_fate().unwrap_or_default())),
        );
        if let Some((due, expires)) = self.next(now) {
            points.push(point(due, Mark::Next, "the next attempt, not before".to_owned()));
            points.push(point(expires, Mark::End, "its time-to-live ends".to_owned()));
        }
        let until =
            self.held.filter(|health| health.pause.is_none()).and_then(|health| health.until);
        points.extend(until.map(|until| {
            point(until, Mark::Next, "held back: the first attempt, not before".to_owned())
        }));
        points
    }

    /// Says why there are no points.
    fn why(&self) -> Markup {
        let refused = self.verdict.filter(|one| !one.verdict.matches);
        html! {
            @if let Some(one) = refused.filter(|_| self.deliveries.is_empty()) {
                @if one.state != SubscriptionState::Active {
                    "It is " (text::words(&one.state.to_string()).to_lowercase()) ". "
                }
                @for refusal in &one.verdict.refused_by {
                    @let path = refusal.path.trim_start_matches("filter.");
                    span.line { code { (visible(path)) } ": " (visible(&refusal.message)) }
                }
            } @else if let Some(health) = self.held {
                @if let Some(pause) = &health.pause {
                    "Paused " (text::time(pause.since)) @if let Some(by) = &pause.by { " by " (visible(by)) }
                    ", time-to-live " @if pause.time_to_live_runs { "runs" } @else { "stands still" } ". "
                } @else { "Nothing is attempted until " (text::time(health.until)) ". " }
                @if !self.is_wanted() { "If it wants the event, the" } @else { "The" } " event waits"
                @if let Some(pause) = &health.pause {
                    " until it is resumed, or until " (text::time(pause.until)) (ends_meanwhile(pause))
                }
                "."
            } @else if self.is_wanted() { "It wants the event. No attempt is known so far." }
            @else { "No attempt is known. As its filter is now: " (visible(self.wants)) "." }
        }
    }

    /// Says in some words what was tried.
    fn tried(&self) -> Markup {
        let Some(last) = self.deliveries.last() else {
            let told = match self.standing() {
                Standing::Filtered => "not wanted",
                Standing::NotKnown => "no attempt is known",
                _ => "no attempt yet",
            };
            return html! { span.sm.m { (told) } };
        };
        let attempts = self.attempts();
        let told = match &attempts[..] {
            [] => "no attempt before its end".to_owned(),
            [_] => "1 attempt".to_owned(),
            [(.., first), ..] => format!("{} attempts, first {first}", attempts.len()),
        };
        // A redrive keeps the time of the publish.
        let mut times = self.deliveries.iter().filter_map(|one| published_of(one));
        let first = times.next();
        let again = match times.any(|at| Some(at) != first) {
            true => "published more than once with this id",
            false if self.deliveries.len() > 1 => "sent again by a redrive",
            false => "",
        };
        let status = last.state.as_ref().map(|state| state.delivery.status.to_string());
        html! {
            span.cut.sm.m title=(told) { (told) }
            @if !again.is_empty() { span.sm.m.line { (again) } }
            @if last.is_divided {
                span.sm.m.line {
                    "The delivery's events went different ways; what was left of it: " (or_dash(status))
                }
            }
        }
    }

    /// Shows how it stands, and what can be done about it.
    fn stands(&self, app: &App, topic: &str, id: &str, now: Timestamp) -> Markup {
        let standing = self.standing();
        let (kind, word) = standing.shown();
        let url = |below: &str| subscription_url(topic, self.name, below);
        html! {
            (kit::pill(kind, word))
            " "
            span.sm.m {
                @match standing {
                    Standing::Delivered => @if let Some(after) = self.delivered_after() { (chart::duration(after)) },
                    Standing::Waiting => @if let Some((due, _)) = self.next(now) { (text::time(due)) },
                    Standing::HeldBack => (text::time(self.held.and_then(|health| health.until))),
                    Standing::DeadLettered | Standing::Ended => {
                        a href=(with_query(&url("/dead-letters"), &letters_query(id))) { "open" }
                        @if app.may_change() { " " a href=(with_query(&url("/redrive"), &letters_query(id))) { "redrive" } }
                    },
                    _ => {},
                }
            }
            @for one in &self.deliveries {
                @if let Some(state) = &one.state {
                    @let url = url(&format!("/deliveries/{}", part(&one.id)));
                    span.sm.line { a href=(url) { "Delivery " (one.id.get(..8).unwrap_or(&one.id)) } }
                    (attempt_now(app, &url, &state.delivery))
                }
            }
        }
    }

    fn lane(&self, app: &App, of: &Explanation, id: &str, now: Timestamp) -> Lane {
        let url = subscription_url(of.topic(), self.name, "");
        let points = published(of).map(|at| self.points(at, now)).unwrap_or_default();
        Lane {
            name: self.name.to_owned(),
            head: html! { a href=(url) { b { (text::soft(self.name)) } } " " (self.tried()) },
            why: points.is_empty().then(|| self.why()),
            points,
            standing: self.stands(app, of.topic(), id, now),
        }
    }
}

/// Counts what became of it.
pub(super) fn pills(all: &[&Explanation]) -> Markup {
    let mut counts: BTreeMap<_, u32> = BTreeMap::new();
    for place in all.iter().filter(|of| of.outcome().is_ok()).flat_map(|of| places(of)) {
        *counts.entry(place.standing()).or_default() += 1;
    }
    html! {
        @for (standing, count) in counts.range(..=Standing::Delivered) {
            @let (kind, word) = standing.shown();
            (kit::pill(kind, &format!("{count} {}", word.to_lowercase())))
        }
    }
}

pub(super) fn lanes(app: &App, of: &Explanation, id: &str, now: Timestamp) -> Markup {
    let lanes: Vec<_> = places(of).iter().map(|place| place.lane(app, of, id, now)).collect();
    let since = published(of).map(|at| now.since(at.0).as_secs_f64());
    let legend =
        [(Kind::Ok, "delivered", None), (Kind::Bad, "failed", None), (Kind::Dead, "ends", None)];
    let title = if of.outcome().is_ok() { "Where it went" } else { "Where it may be" };
    kit::flush(title, chart::legend(&legend), chart::lanes(&lanes, since))
}

/// Lists the attempts at all event subscriptions by time.
pub(super) fn attempts_of(of: &Explanation) -> Markup {
    let mut lines: Vec<_> = of.deliveries.iter().flat_map(|one| &one.log).collect();
    lines.sort_by_key(|line| line.time);
    let row = |line: &&AttemptLine| {
        let name = &line.event_subscription;
        let url = subscription_url(of.topic(), name, "");
        attempts::row(line, html! { a href=(url) { (name) } })
    };
    let rows: Vec<_> = lines.iter().map(row).collect();
    let title = format!("Attempts of this event in {}", of.topic());
    let table = kit::table(&title, &attempts::head("Event subscription"), &rows);
    html! { @if !rows.is_empty() { (kit::flush("Attempts", "", table)) } }
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::{Value, json};

    use super::*;

    fn delivery(standing: Option<DeliveryStatus>, lines: &[Value]) -> EventDelivery {
        let line = |patch: &Value| {
            AttemptLine(serde_json::from_value(documents::journal_entry(patch)).expect("an entry"))
        };
        EventDelivery {
            id: "d".to_owned(),
            name: "a".to_owned(),
            state: None,
            log: lines.iter().map(line).collect(),
            is_divided: false,
            event_standing: standing,
        }
    }

    fn place<'a>(deliveries: &'a [EventDelivery], held: Option<&'a Health>) -> Place<'a> {
        let deliveries = deliveries.iter().collect();
        Place { name: "a", deliveries, held, verdict: None, wants: "wants every event" }
    }

    /// Returns times and marks of the points of a place.
    fn points(place: &Place<'_>) -> Vec<(f64, Mark)> {
        let published = Timestamp::parse_rfc_3339("2026-01-01T00:00:00Z").expect("a time");
        let points = place.points(published.into(), published);
        points.iter().map(|one| (one.at, one.mark)).collect()
    }

    #[test]
    fn an_event_stands_as_its_last_delivery() {
        use DeliveryStatus::{Delivered, Ended, Ending, Waiting};
        let end = |kind: &str| vec![json!({}), json!({"kind": kind, "reason": "R"})];
        for (standing, lines, want) in [
            (Some(Delivered), vec![json!({"kind": "Success"})], Standing::Delivered),
            (Some(Waiting), vec![json!({})], Standing::Waiting),
            (Some(Ending), vec![], Standing::Ending),
            (Some(Ended), end("Dropped"), Standing::Lost),
            (Some(Ended), end("DeadLettered"), Standing::DeadLettered),
            (Some(Ended), end("Ending"), Standing::Ended),
            (None, vec![json!({})], Standing::NotKnown),
        ] {
            assert_eq!(place(&[delivery(standing, &lines)], None).standing(), want, "{lines:?}");
        }
        let publish = |at: &str| delivery(Some(Delivered), &[json!({"publishTime": at})]);
        let again = [delivery(Some(Ended), &end("DeadLettered")), delivery(Some(Delivered), &[])];
        let twice = [publish("2026-01-01T00:00:00Z"), publish("2026-01-01T00:00:01Z")];
        let state = documents::delivery(&json!({"status": "Delivered", "attempts": []}));
        let state = serde_json::from_value(state).expect("a delivery");
        let own = delivery(Some(Ended), &[]);
        let own = [EventDelivery { state: Some(state), is_divided: true, ..own }];
        for (deliveries, standing, told) in [
            (&again[..], Standing::Delivered, "sent again by a redrive"),
            (&twice, Standing::Delivered, "published more than once"),
            (&own, Standing::Ended, "what was left of it: Delivered"),
        ] {
            let place = place(deliveries, None);
            let tried = place.tried().into_string();
            assert!(place.standing() == standing && tried.contains(told), "{tried}");
        }
    }

    #[test]
    fn what_holds_an_event_back_is_told_with_until_when() {
        let (since, until) = ("2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z");
        let pause = json!({"since": since, "until": until, "by": "<me>", "timeToLiveRuns": true});
        let paused = ["by &lt;me&gt;, time-to-live runs", "resumed", "is over before"];
        let waits = ["If it wants the event", "is attempted until <time", "event waits"];
        let first = vec![(86_400.0, Mark::Next)];
        for (patch, standing, parts, comes) in [
            (json!({ "pause": pause }), Standing::Paused, paused, vec![]),
            (json!({ "until": until }), Standing::HeldBack, waits, first),
        ] {
            let health = serde_json::from_value(documents::health(&patch)).expect("a health");
            let place = place(&[], Some(&health));
            let told = place.why().into_string();
            assert_eq!((place.standing(), points(&place)), (standing, comes));
            for part in parts.into_iter().chain(["2026-01-02 00:00:00.000 UTC"]) {
                assert!(told.contains(part), "{part} is not in {told}");
            }
        }
    }

    #[test]
    fn a_lane_has_attempts_what_comes_and_the_end() {
        let at = |second: &str| format!("2026-01-01T00:00:{second}Z");
        let line = json!({"time": at("01"), "publishTime": at("00")});
        let mut waits = delivery(Some(DeliveryStatus::Waiting), &[line]);
        let state = documents::delivery(&json!({"publishTime": at("00"), "attempts": [], "next": {
            "attempt": 2, "notBefore": at("11"), "expires": "2026-01-01T01:00:00Z"}}));
        waits.state = Some(serde_json::from_value(state).expect("a delivery"));
        let waits = [waits];
        let place = place(&waits, None);
        let want = [(1.0, Mark::Dot(Kind::Bad)), (11.0, Mark::Next), (3_600.0, Mark::End)];
        assert_eq!(points(&place), want);
        assert_eq!(place.attempts()[0].2, "#1 503");
    }

    #[test]
    fn each_event_subscription_has_one_place_and_says_why_it_does_not_want_the_event() {
        let mut of = Explanation::noting("");
        let refused_by =
            json!([{"path": "filter.advancedFilters[0]", "found": 1, "message": "<1>"}]);
        let refused = |name: &str| {
            json!({"eventSubscription": name, "state": "Expired", "matches": false,
                "refusedBy": refused_by})
        };
        let verdicts = json!([refused("a"), refused("b")]);
        of.verdicts = serde_json::from_value(verdicts).expect("verdicts");
        of.wants = ["a", "b", "c"].map(|name| (name.to_owned(), "x".to_owned())).to_vec();
        of.deliveries = vec![delivery(Some(DeliveryStatus::Delivered), &[])];
        let places = places(&of);
        let found: Vec<_> = places.iter().map(|one| (one.name, one.standing())).collect();
        let want =
            [("a", Standing::Delivered), ("c", Standing::NotKnown), ("b", Standing::Filtered)];
        assert_eq!(found, want);
        let why = places[2].why().into_string();
        for part in ["It is expired. ", "<code>advancedFilters[0]</code>: &lt;1&gt;"] {
            assert!(why.contains(part), "{why}");
        }
        assert!(pills(&[&of]).into_string().contains("1 delivered"));
    }
}

//! Where an event went: how it stands at each event subscription of its topic, as lanes, and its attempts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use gridpost_api::delivery::{Attempt, DeliveryStatus, NextAttempt};
use gridpost_api::schema::Time;
use gridpost_api::subscription::EventSubscription;
use gridpost_api::trial::{ExplainedSubscription, SubscriptionState};
use gridpost_core::journal::EntryKind;
use gridpost_core::subscription::ProvisioningState;
use gridpost_core::time::Timestamp;
use gridpost_ops::attempt_lines::AttemptLine;
use gridpost_ops::explain::{EventDelivery, Explanation, HoldingBack};
use gridpost_ops::output::or_dash;
use maud::{Markup, html};

use crate::App;
use crate::attempts;
use crate::chart::{self, Kind, Lane, Mark, Point};
use crate::delivery::{attempt_now, due, due_at};
use crate::kit;
use crate::settings;
use crate::sought::letters_query;
use crate::standing;
use crate::text::{self, number, visible};
use crate::urls::{part, subscription_url, with_query};

/// Event subscriptions that are shown, the points that their lanes share, and the lanes together with the attempts
/// that are listed: names and responses are long, and a page is not.
const LANES_MAX: usize = 20;
const POINTS_MAX: usize = 120;
const PARTS_MAX: usize = 36;

/// Deliveries to which a lane links, and parts of a filter that it tells.
const LINKS_MAX: usize = 3;

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
    topic: &'a str,
    name: &'a str,
    /// In the order of time: a redrive sends it again.
    deliveries: Vec<&'a EventDelivery>,
    held: Option<&'a HoldingBack>,
    verdict: Option<&'a ExplainedSubscription>,
    /// Unless it is deleted.
    of: Option<&'a EventSubscription>,
}

/// Returns each event subscription once: those with a delivery first, those that do not want it last.
pub(super) fn places(of: &Explanation) -> Vec<Place<'_>> {
    let known: BTreeMap<_, _> = of.subscriptions.iter().map(|one| (&*one.name, one)).collect();
    // A deleted one has deliveries.
    let names = of.deliveries.iter().map(|one| &*one.name).chain(known.keys().copied());
    let names: BTreeSet<_> = names.collect();
    let place = |name| Place {
        topic: of.topic(),
        name,
        deliveries: of.deliveries.iter().filter(|one| one.name == name).collect(),
        held: of.holding_back.iter().find(|one| one.event_subscription == name),
        verdict: of.verdicts.iter().flatten().find(|one| one.event_subscription == name),
        of: known.get(name).copied(),
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
    /// Returns the worst standing of its publishes, each by its last delivery.
    pub(super) fn standing(&self) -> Standing {
        // A redrive keeps the time of the publish, and another publish with this id has its own.
        let of_publish = self.deliveries.iter().map(|one| (published_of(one), *one));
        let last: BTreeMap<_, _> = of_publish.collect();
        last.values().map(|one| Self::standing_of(one)).min().unwrap_or_else(|| {
            match (self.held, self.verdict) {
                (Some(held), _) if held.health.pause.is_some() => Standing::Paused,
                (Some(_), _) => Standing::HeldBack,
                (None, Some(one)) if !one.verdict.matches => Standing::Filtered,
                _ => Standing::NotKnown,
            }
        })
    }

    fn standing_of(one: &EventDelivery) -> Standing {
        let end = one.log.iter().rfind(|line| line.kind.is_end()).map(|line| line.kind);
        match (one.event_standing, end) {
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

    /// Returns the attempts of a delivery that are known: those of the journal, else those that it remembers.
    fn attempts(one: &EventDelivery) -> Vec<(Time, Kind, String)> {
        let shown = |at: Time, label: String, outcome: &str, status| {
            let met = text::met(outcome, status);
            (at, kit::answer_kind(outcome, status), format!("{label} {met}"))
        };
        let of_line = |line: &AttemptLine| {
            let outcome = line.outcome.as_deref().unwrap_or_default();
            shown(line.time, line.label(), outcome, line.http_status_code)
        };
        let of_state = |one: &Attempt| {
            shown(one.start_time, format!("#{}", one.attempt), &one.outcome, one.http_status_code)
        };
        let logged = one.log.iter().filter(|line| !line.kind.is_end());
        let logged: Vec<_> = logged.map(of_line).collect();
        match &one.state {
            Some(state) if logged.is_empty() && !one.is_divided => {
                state.attempts.iter().map(of_state).collect()
            }
            _ => logged,
        }
    }

    fn next(&self) -> Option<&NextAttempt> {
        let waits = |one: &&&EventDelivery| one.event_standing == Some(DeliveryStatus::Waiting);
        let mut waiting = self.deliveries.iter().rev().filter(waits);
        waiting.find_map(|one| one.state.as_ref()?.next.as_ref())
    }

    /// Returns the newest of what happened, that many at most, and what comes.
    fn points(&self, published: Time, most: usize, now: Timestamp) -> Vec<Point> {
        let point = |at: Time, mark, told: &str| {
            let (at, label) = (at.0.since(published.0).as_secs_f64(), String::new());
            Point { at, mark, label, told: told.to_owned() }
        };
        let attempts = self.deliveries.iter().flat_map(|one| Self::attempts(one));
        let attempts = attempts.map(|(at, kind, told)| point(at, Mark::Dot(kind), &told));
        let ends = self.lines().filter(|line| line.kind.is_end());
        let ends =
            ends.map(|line| point(line.time, Mark::End, &attempts::fate(line).unwrap_or_default()));
        let mut points: Vec<_> = attempts.chain(ends).collect();
        points.drain(..points.len().saturating_sub(most));
        if let Some(next) = self.next() {
            if let Some(due) = due(next, now) {
                points.push(point(due.max(now.into()), Mark::Next, "the next attempt, not before"));
            }
            points.push(point(next.expires, Mark::End, "its time-to-live ends"));
        }
        if let Some(until) = self.held_until() {
            points.push(point(until, Mark::Next, "held back: the first attempt, not before"));
        }
        points
    }

    /// Returns until when its endpoint gets nothing, where no pause is the reason.
    fn held_until(&self) -> Option<Time> {
        let health = self.held.map(|held| &held.health)?;
        health.until.filter(|_| health.pause.is_none())
    }

    /// Says why there are no points.
    fn why(&self) -> Markup {
        let refused = self.verdict.filter(|one| !one.verdict.matches);
        html! {
            @if let Some(one) = refused.filter(|_| self.deliveries.is_empty()) {
                @if one.state != SubscriptionState::Active {
                    "It is " (in_words(one.state)) ". "
                }
                @let refused_by = &one.verdict.refused_by;
                @for refusal in refused_by.iter().take(LINKS_MAX) {
                    @let path = refusal.path.trim_start_matches("filter.");
                    span.line { code { (visible(path)) } ": " (text::short(&refusal.message)) }
                }
                @if refused_by.len() > LINKS_MAX { (refused_by.len() - LINKS_MAX) " more" }
            } @else if let Some(health) = self.held.map(|held| &held.health) {
                @let until = health.pause.as_ref().map(|pause| pause.until).or(health.until);
                "Its endpoint gets nothing until " (text::time(until)) ": " (standing::why(health, None))
                ". If it wants the event, that waits."
            }
            @else if self.is_wanted() { "It wants the event. No attempt is known so far." }
            @else if let Some(of) = self.of {
                "No attempt is known. Its filter now: " (visible(&settings::filter(of))) "."
                @let state = of.properties.provisioning_state;
                @if state != ProvisioningState::Succeeded { " It gets none: it is " (in_words(state)) "." }
            }
        }
    }

    /// Says in some words what was tried.
    fn tried(&self) -> Markup {
        let attempts: Vec<_> = self.deliveries.iter().flat_map(|one| Self::attempts(one)).collect();
        let told = match &attempts[..] {
            [] if self.deliveries.is_empty() => String::new(),
            [] => "no attempt before its end".to_owned(),
            [_] => "1 attempt".to_owned(),
            [(.., first), ..] => format!("{} attempts, first {first}", attempts.len()),
        };
        // A redrive keeps the time of the publish.
        let times: BTreeSet<_> =
            self.deliveries.iter().filter_map(|one| published_of(one)).collect();
        let again = match (times.len(), self.deliveries.len()) {
            (2.., _) => "published more than once with this id",
            (_, 2..) => "sent again by a redrive",
            _ => "",
        };
        let divided = self.deliveries.last().filter(|last| last.is_divided);
        html! {
            @if !told.is_empty() { span.cut.sm.m title=(told) { (told) } }
            @if !again.is_empty() { span.sm.m.line { (again) } }
            @if let Some(last) = divided {
                @let status = last.state.as_ref().map(|state| state.delivery.status);
                span.sm.m.line {
                    "The delivery's events went different ways; what was left of it: " (or_dash(status))
                }
            }
        }
    }

    /// Shows how it stands, and what can be done about it.
    fn stands(&self, app: &App, id: &str, now: Timestamp) -> Markup {
        let standing = self.standing();
        let (kind, word) = standing.shown();
        let url = |below: &str| subscription_url(self.topic, self.name, below);
        let known = self.deliveries.iter().rev();
        let known = known.filter_map(|one| Some((&one.id, one.state.as_ref()?)));
        html! {
            (kit::pill(kind, word))
            " "
            span.sm.m {
                @match standing {
                    Standing::Delivered => @if let Some(after) = self.delivered_after() { (chart::duration(after)) },
                    Standing::Waiting => @if let Some(due) = self.next().and_then(|next| due(next, now)) { (due_at(due, now)) },
                    Standing::HeldBack => (text::time(self.held_until())),
                    Standing::DeadLettered | Standing::Ended => {
                        a href=(with_query(&url("/dead-letters"), &letters_query(id))) { "open" }
                        @if app.may_change() { " " a href=(with_query(&url("/redrive"), &letters_query(id))) { "redrive" } }
                    },
                    _ => {},
                }
            }
            @for (id, state) in known.take(LINKS_MAX) {
                @let url = url(&format!("/deliveries/{}", part(id)));
                span.sm.line { a href=(url) { "Delivery " (id.get(..8).unwrap_or(id)) } }
                (attempt_now(app, &url, &state.delivery))
            }
        }
    }

    fn lane(&self, app: &App, id: &str, points: Vec<Point>, now: Timestamp) -> Lane {
        let url = subscription_url(self.topic, self.name, "");
        Lane {
            name: self.name.to_owned(),
            head: html! { a href=(url) { b { (text::soft(self.name)) } } " " (self.tried()) },
            why: points.is_empty().then(|| self.why()),
            points,
            standing: self.stands(app, id, now),
        }
    }
}

fn in_words(state: impl Display) -> String {
    text::words(&state.to_string()).to_lowercase()
}

/// Counts what became of it, down to a standing.
pub(super) fn pills(places: &[Place<'_>], least: Standing) -> Markup {
    let mut counts: BTreeMap<_, u32> = BTreeMap::new();
    for place in places {
        *counts.entry(place.standing()).or_default() += 1;
    }
    html! {
        @for (standing, count) in counts.range(..=least) {
            @let (kind, word) = standing.shown();
            (kit::pill(kind, &format!("{count} {}", word.to_lowercase())))
        }
    }
}

pub(super) fn lanes(app: &App, of: &Explanation, id: &str, now: Timestamp) -> Markup {
    let published = published(of);
    let places = places(of);
    let (shown, rest) = places.split_at(places.len().min(LANES_MAX));
    let most = POINTS_MAX / shown.len().max(1);
    let points = |one: &Place<'_>| published.map(|at| one.points(at, most, now));
    let lane = |one: &Place<'_>| one.lane(app, id, points(one).unwrap_or_default(), now);
    let lanes: Vec<_> = shown.iter().map(lane).collect();
    let since = published.map(|at| now.since(at.0).as_secs_f64());
    let legend = [
        (Kind::Ok, "delivered"),
        (Kind::Warn, "failed"),
        (Kind::Bad, "refused"),
        (Kind::Dead, "ends"),
    ];
    let legend = chart::legend(&legend.map(|(kind, name)| (kind, name, None)));
    let title = if of.outcome().is_ok() { "Where it went" } else { "Where it may be" };
    kit::flush(
        title,
        legend,
        html! {
            (chart::lanes(&lanes, since))
            @if !rest.is_empty() { p.in { (rest.len()) " more: " (pills(rest, Standing::Filtered)) } }
        },
    )
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
    let lanes = places(of).len().min(LANES_MAX);
    let left = lines.len().saturating_sub(PARTS_MAX - lanes);
    let rows: Vec<_> = lines[left..].iter().map(row).collect();
    let title = format!("Attempts of this event in {}", of.topic());
    let table = kit::table(&title, &attempts::head("Event subscription"), &rows);
    let beside = html! { @if left > 0 { span.sm.m { (number(left as u64)) " earlier ones are not listed" } } };
    html! { @if !rows.is_empty() { (kit::flush("Attempts", beside, table)) } }
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

    fn place(deliveries: &[EventDelivery]) -> Place<'_> {
        let deliveries = deliveries.iter().collect();
        Place { topic: "t", name: "a", deliveries, held: None, verdict: None, of: None }
    }

    fn subscription(name: &str, patch: &Value) -> EventSubscription {
        serde_json::from_value(documents::subscription(name, patch)).expect("an event subscription")
    }

    #[test]
    fn an_event_stands_as_the_last_delivery_of_each_publish() {
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
            assert_eq!(place(&[delivery(standing, &lines)]).standing(), want, "{lines:?}");
        }
        // (publish of the second delivery, standing of both)
        for (second, want) in [("00", Standing::Delivered), ("09", Standing::Lost)] {
            let of = |second: &str, kind: &str| json!({"publishTime": format!("2026-01-01T00:00:{second}Z"), "kind": kind, "reason": "R"});
            let dropped = delivery(Some(Ended), &[of("00", "Dropped")]);
            let delivered = delivery(Some(Delivered), &[of(second, "Success")]);
            assert_eq!(place(&[dropped, delivered]).standing(), want, "{second}");
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
        let published = Timestamp::parse_rfc_3339(&at("00")).expect("a time");
        let points = place(&waits).points(published.into(), 9, published);
        let points: Vec<_> = points.iter().map(|one| (one.at, one.mark)).collect();
        let want = [(1.0, Mark::Dot(Kind::Warn)), (11.0, Mark::Next), (3_600.0, Mark::End)];
        assert_eq!((&points[..], &*Place::attempts(&waits[0])[0].2), (&want[..], "#1 503"));
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
        of.subscriptions = ["a", "b", "c"].map(|name| subscription(name, &json!({}))).to_vec();
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
        assert!(pills(&places, Standing::Delivered).into_string().contains("1 delivered"));
    }
}

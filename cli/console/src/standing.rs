//! How an event subscription stands: one word for it, why, and what that does to events.

use gridpost_api::health::{EndpointState, Health, NewEvents};
use gridpost_api::schema::Time;
use gridpost_core::ledger::Account;
use maud::{Markup, html};

use super::chart::Kind;
use super::kit;
use super::text::{self, visible};
use super::traffic::total;

/// The states, those that lose events first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It ends new events at once.
    EndsEvents,
    LosesSome,
    NotValidated,
    /// A wait holds new events back.
    Probation,
    DelayedDelivery,
    RefusesSome,
    Slow,
    Paused,
    Expired,
    Recovering,
    Healthy,
}

impl Standing {
    /// Judges a health, with what was counted lately.
    pub(super) fn of(health: &Health, counted: Option<&Account>) -> Self {
        let none = Account::default();
        let Account { dropped, dead_lettered, .. } = counted.unwrap_or(&none);
        match (health.new_events, health.state) {
            (NewEvents::Held, _) => Self::Paused,
            (_, EndpointState::NotValidated) => Self::NotValidated,
            (NewEvents::NotMatched, _) => Self::Expired,
            (NewEvents::Ends, _) => Self::EndsEvents,
            (_, EndpointState::Probation) => Self::Probation,
            (_, EndpointState::DelayedDelivery) => Self::DelayedDelivery,
            _ if total(dropped) > 0 => Self::LosesSome,
            (_, EndpointState::Recovering) => Self::Recovering,
            _ if health.slow.is_some() => Self::Slow,
            _ if total(dead_lettered) > 0 => Self::RefusesSome,
            _ => Self::Healthy,
        }
    }

    /// Returns its colour and word.
    fn shown(self) -> (Kind, &'static str) {
        match self {
            Self::EndsEvents => (Kind::Bad, "Probation"),
            Self::LosesSome => (Kind::Bad, "Loses some"),
            Self::NotValidated => (Kind::Bad, "Not validated"),
            Self::Expired => (Kind::Off, "Expired"),
            Self::Probation => (Kind::Warn, "Probation"),
            Self::DelayedDelivery => (Kind::Warn, "Delayed delivery"),
            Self::Paused => (Kind::Mute, "Paused"),
            Self::RefusesSome => (Kind::Dead, "Refuses some"),
            Self::Recovering => (Kind::Acc, "Recovering"),
            Self::Slow => (Kind::Warn, "Slow"),
            Self::Healthy => (Kind::Ok, "Healthy"),
        }
    }

    pub(super) fn kind(self) -> Kind {
        self.shown().0
    }

    /// Shows it. Where events were not counted, all that is known to be healthy is the endpoint.
    pub(super) fn pill(self, is_counted: bool) -> Markup {
        let (kind, word) = match self {
            Self::Healthy if !is_counted => (Kind::Off, "Endpoint healthy"),
            _ => self.shown(),
        };
        kit::pill(kind, word)
    }
}

/// Says what put the endpoint into this state.
pub(super) fn why(health: &Health, counted: Option<&Account>) -> Markup {
    let most = |reasons: &std::collections::BTreeMap<String, u64>| {
        let most = reasons.iter().filter(|(_, count)| **count > 0).max_by_key(|(_, count)| **count);
        most.map(|(reason, _)| text::reason(reason))
    };
    let lost = counted.and_then(|account| most(&account.dropped));
    let ended = counted.and_then(|account| most(&account.dead_lettered));
    html! {
        @if let Some(pause) = &health.pause {
            @if health.new_events != NewEvents::Held { "paused besides, " }
            @if let Some(by) = &pause.by { "by " (text::short(by)) ", " }
            @if pause.time_to_live_runs { "time-to-live runs" } @else { "time-to-live is paused too" }
        } @else if let Some(cause) = &health.cause {
            @if let Some(status) = cause.http_status_code { (status) " " }
            (text::words(&cause.outcome))
        } @else if let Some(reason) = lost { (visible(&reason)) }
        @else if let Some(slow) = &health.slow {
            "answers slowly"
            @if slow.requests_under_way > 0 { ", " (slow.requests_under_way) " under way" }
        } @else if let Some(reason) = ended { (visible(&reason)) }
    }
}

/// Whether events were lost that a dead-letter destination would have kept.
pub(super) fn lacks_place(counted: &Account) -> bool {
    const KEPT_NOWHERE: [&str; 3] = ["PurgedByOperator", "PayloadMissing", "SubscriptionDeleted"];
    let mut lost = counted.dropped.iter().filter(|(_, count)| **count > 0);
    lost.any(|(reason, _)| !KEPT_NOWHERE.contains(&reason.as_str()))
}

/// Says what becomes of an event that is published now, and when that may change.
pub(super) fn effect(health: &Health) -> Markup {
    let (class, what) = match health.new_events {
        NewEvents::Attempted if health.slow.is_some() => ("", "attempted, a few at a time"),
        NewEvents::Attempted => ("", "attempted"),
        NewEvents::Waits => ("t-warn", "held back"),
        NewEvents::Ends => ("t-dead", "ended at once"),
        NewEvents::Held => ("m2", "held, paused"),
        NewEvents::NotMatched => ("t-bad", "none comes"),
    };
    html! {
        @if class.is_empty() { (what) } @else { b class=(class) { (what) } }
        @if let (Some(pause), NewEvents::Held) = (&health.pause, health.new_events) { span.sm.m.cut { "until " (text::time(pause.until)) } }
        @else if let Some(probe) = health.next_probe {
            span.sm.m.cut { @if probe.delivery.is_some() { "a probe is under way" } @else { "next probe " (text::time(probe.not_before)) } }
        }
    }
}

/// Returns since when it is so.
pub(super) fn since(health: &Health) -> Markup {
    html! { @if let Some(at) = began(health) { (text::time(at)) } }
}

/// Returns when the state began: with a pause, else with the first failure.
pub(super) fn began(health: &Health) -> Option<Time> {
    let failing = health.failing_since.filter(|_| health.since.is_some());
    let pause = health.pause.as_ref().filter(|_| health.new_events == NewEvents::Held);
    pause.map(|pause| pause.since).or(failing).or(health.since)
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::{Value, json};

    use super::*;

    fn health(patch: &Value) -> Health {
        serde_json::from_value(documents::health(patch)).expect("a health")
    }

    #[test]
    fn a_standing_is_the_worst_of_what_is_known() {
        let account = |dropped: u64, letters: u64| Account {
            dropped: [("R".to_owned(), dropped)].into(),
            dead_lettered: [("R".to_owned(), letters)].into(),
            ..Account::default()
        };
        let pause = json!({"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z",
            "timeToLiveRuns": true});
        let state = |state: &str, events: &str| json!({"state": state, "newEvents": events});
        let paused = json!({"state": "Probation", "newEvents": "Held", "pause": pause});
        for (patch, counted, want) in [
            (json!({}), None, Standing::Healthy),
            (json!({}), Some(account(0, 0)), Standing::Healthy),
            (json!({}), Some(account(0, 1)), Standing::RefusesSome),
            (json!({}), Some(account(1, 1)), Standing::LosesSome),
            (json!({"state": "Recovering"}), Some(account(0, 1)), Standing::Recovering),
            (state("Probation", "Waits"), Some(account(1, 0)), Standing::Probation),
            (state("Probation", "Ends"), None, Standing::EndsEvents),
            (state("DelayedDelivery", "Waits"), None, Standing::DelayedDelivery),
            (paused, None, Standing::Paused),
            (state("NotValidated", "NotMatched"), None, Standing::NotValidated),
            (json!({"newEvents": "NotMatched"}), None, Standing::Expired),
            (json!({"slow": {"requestsUnderWay": 4}}), None, Standing::Slow),
        ] {
            assert_eq!(Standing::of(&health(&patch), counted.as_ref()), want, "{patch}");
        }
        assert!(Standing::EndsEvents < Standing::Probation && Standing::Slow < Standing::Healthy);
        let pills =
            [true, false].map(|is_counted| Standing::Healthy.pill(is_counted).into_string());
        assert!(pills[0].contains("pill ok") && !pills[1].contains("pill ok"), "{pills:?}");
    }

    #[test]
    fn a_loss_has_its_own_reason() {
        let slow = health(&json!({"slow": {"requestsUnderWay": 4}}));
        for (dropped, told, lacks) in [
            ("PurgedByOperator", "Purged by operator", false),
            ("TimeToLiveExceeded", "Time to live exceeded", true),
        ] {
            let dropped = [(dropped.to_owned(), 1)].into();
            let account = Account { dropped, ..Account::default() };
            assert_eq!(why(&slow, Some(&account)).into_string(), told);
            assert_eq!(lacks_place(&account), lacks, "{told}");
        }
    }

    #[test]
    fn what_has_expired_is_paused_besides() {
        let pause = json!({"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z", "by": "me",
            "timeToLiveRuns": true});
        for (events, reason, told, begins) in [
            ("Held", "by me, time-to-live runs", "until", true),
            ("NotMatched", "paused besides, by me, time-to-live runs", "none comes", false),
        ] {
            let health = health(&json!({"newEvents": events, "pause": pause}));
            assert_eq!(why(&health, None).into_string(), reason);
            let effect = effect(&health).into_string();
            assert!(effect.contains(told) && effect.contains("until") == begins, "{effect}");
            assert_eq!(began(&health).is_some(), begins);
        }
    }
}

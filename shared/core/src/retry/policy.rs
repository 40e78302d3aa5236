//! The retry policy of one event subscription.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    outcome::Outcome,
    profile::{DEFAULT_MIN_S, EndpointKind, ProfileName, Rule},
};

/// When to retry, and when to end. Readers of documents check the ranges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// The first included: 1 to the profile's most.
    pub max_attempts: u32,
    /// From the publish: 1 to the profile's most.
    pub time_to_live_minutes: u32,
    /// Overrides the profile's schedule: 1 to 30 rising offsets from the first attempt in seconds,
    /// at least 1 s, none beyond time-to-live. After the last, its last gap repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_s: Option<Vec<u32>>,
    #[serde(default, skip_serializing_if = "StatusRules::is_empty")]
    pub status_rules: StatusRules,
}

impl RetryPolicy {
    /// Returns the defaults of a profile: its most attempts and longest time-to-live.
    pub fn default_of(profile: ProfileName) -> Self {
        let profile = profile.profile();
        Self {
            max_attempts: profile.attempts_max,
            time_to_live_minutes: profile.time_to_live_minutes_max,
            schedule_s: None,
            status_rules: StatusRules::default(),
        }
    }

    /// Returns what follows a failure: the event subscription's row, or else the profile's.
    ///
    /// Its own schedule overrides the profile's minimum wait of 10 s, but no longer minimum.
    pub fn rule(
        &self,
        profile: ProfileName,
        kind: EndpointKind,
        status: Option<u16>,
        outcome: Outcome,
    ) -> Rule {
        // The endpoint has decided about this event; the status is that of the whole request.
        let status = match outcome {
            Outcome::EventRejected => return Rule::End,
            Outcome::EventFailed => None,
            _ => status,
        };
        if let Some(rule) = self.status_rules.rule(status, outcome) {
            return rule;
        }
        match profile.profile().rule(kind, status, outcome) {
            Rule::Retry { min_s } if min_s <= DEFAULT_MIN_S && self.schedule_s.is_some() => {
                Rule::Retry { min_s: 0 }
            }
            rule => rule,
        }
    }

    /// Returns the first step later than `elapsed_s` seconds after the first attempt.
    pub fn step_after(&self, profile: ProfileName, elapsed_s: f64) -> u64 {
        let profile = profile.profile();
        let (steps, gap) = match &self.schedule_s {
            Some(own) => (own.as_slice(), last_gap(own)),
            None => (profile.schedule_s, profile.then_every_s),
        };
        if let Some(step) = steps.iter().find(|step| f64::from(**step) > elapsed_s) {
            return u64::from(*step);
        }
        let last = steps.last().copied().unwrap_or(0);
        let gap = gap.max(1);
        let gaps = ((elapsed_s - f64::from(last)) / f64::from(gap)).floor() as u64 + 1;
        u64::from(last) + gaps * u64::from(gap)
    }
}

fn last_gap(steps: &[u32]) -> u32 {
    match steps {
        [] => 1,
        [only] => *only,
        [.., before, last] => last - before,
    }
}

/// An event subscription's rows of the status table, which precede the profile's.
///
/// The most specific row wins: a status (`404`), a class (`5xx`), then an outcome (`SocketError`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusRules {
    pub statuses: BTreeMap<u16, Rule>,
    /// By the status' first digit.
    pub classes: BTreeMap<u8, Rule>,
    pub outcomes: BTreeMap<Outcome, Rule>,
}

impl StatusRules {
    pub fn is_empty(&self) -> bool {
        self.statuses.is_empty() && self.classes.is_empty() && self.outcomes.is_empty()
    }

    fn rule(&self, status: Option<u16>, outcome: Outcome) -> Option<Rule> {
        let by_status = status.and_then(|status| self.statuses.get(&status));
        let class =
            || status.and_then(|status| self.classes.get(&u8::try_from(status / 100).unwrap_or(0)));
        by_status.or_else(class).or_else(|| self.outcomes.get(&outcome)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(schedule_s: Option<Vec<u32>>) -> RetryPolicy {
        RetryPolicy { schedule_s, ..RetryPolicy::default_of(ProfileName::Basic) }
    }

    #[test]
    fn steps_are_offsets_and_the_last_gap_repeats() {
        let table: [(Option<Vec<u32>>, ProfileName, f64, u64); 10] = [
            (None, ProfileName::Basic, 0.0, 10),
            (None, ProfileName::Basic, 10.0, 30),
            (None, ProfileName::Basic, 9.999, 10),
            (None, ProfileName::Basic, 86_400.0, 129_600),
            (None, ProfileName::Basic, 130_000.0, 172_800),
            (None, ProfileName::Namespace, 300.0, 600),
            (None, ProfileName::Namespace, 899.5, 900),
            (Some(vec![2]), ProfileName::Basic, 2.0, 4),
            (Some(vec![1, 3]), ProfileName::Basic, 3.0, 5),
            (Some(vec![1, 3]), ProfileName::Basic, 9.5, 11),
        ];
        for (own, profile, elapsed_s, want) in table {
            let step = policy(own.clone()).step_after(profile, elapsed_s);
            assert_eq!(step, want, "{own:?} {profile:?} after {elapsed_s}");
        }
    }

    #[test]
    fn the_most_specific_own_row_wins() {
        let wait = |min_s| Rule::Retry { min_s };
        let mut own = policy(None);
        own.status_rules.statuses.insert(404, Rule::End);
        own.status_rules.statuses.insert(502, wait(3));
        own.status_rules.classes.insert(5, wait(7));
        own.status_rules.outcomes.insert(Outcome::Busy, wait(60));
        own.status_rules.outcomes.insert(Outcome::SocketError, wait(1));
        let table = [
            (Some(404), Outcome::NotFound, Rule::End),
            (Some(410), Outcome::NotFound, wait(10)),
            (Some(502), Outcome::ServerError, wait(3)),
            (Some(503), Outcome::Busy, wait(7)),
            (Some(429), Outcome::Busy, wait(60)),
            (None, Outcome::SocketError, wait(1)),
            (None, Outcome::ResolutionError, wait(10)),
            (Some(400), Outcome::BadRequest, Rule::End),
        ];
        for (status, outcome, want) in table {
            let rule = own.rule(ProfileName::Basic, EndpointKind::Webhook, status, outcome);
            assert_eq!(rule, want, "{status:?} {outcome}");
        }
    }

    #[test]
    fn an_own_schedule_lifts_the_least_wait_alone() {
        let own = policy(Some(vec![1, 2]));
        let rule = |status| {
            own.rule(ProfileName::Basic, EndpointKind::Webhook, Some(status), Outcome::ServerError)
        };
        assert_eq!(rule(500), Rule::Retry { min_s: 0 });
        assert_eq!(rule(503), Rule::Retry { min_s: 30 });
    }
}

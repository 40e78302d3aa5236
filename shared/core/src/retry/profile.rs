//! Delivery profiles: the status tables and schedules of Event Grid's editions, as data.
//!
//! Source: Event Grid, "Message delivery and retry" for the basic tier (today and 2021) and
//! namespace topics. Where one contradicts itself, webhooks follow the stricter list.

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;

/// A named table of rules, chosen per topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[derive(Serialize, Deserialize, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum ProfileName {
    /// The basic tier as documented today. Default for custom topics.
    Basic,
    /// The basic tier as documented in 2020 and 2021: a webhook's 404 is final.
    Basic2021,
    /// Push delivery of namespace topics. Default for namespace topics.
    Namespace,
}

/// A column of the status table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndpointKind {
    Webhook,
    Resource,
}

/// The rule for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// Dead-lettered at once, or dropped.
    End,
    /// No sooner than `min_s` after the attempt ended.
    Retry { min_s: u32 },
}

/// A key of the status table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    Status(u16),
    /// Applies if there was no status.
    Outcome(Outcome),
}

/// One edition's rules.
#[derive(Debug)]
pub struct Profile {
    /// Rising offsets from the first attempt, in seconds.
    pub schedule_s: &'static [u32],
    /// The interval after the last step, in seconds.
    pub then_every_s: u32,
    /// Failures without a row are retried after [`DEFAULT_MIN_S`].
    pub webhook: &'static [(Row, Rule)],
    pub resource: &'static [(Row, Rule)],
    /// The most attempts an event subscription may ask for, and the default.
    pub attempts_max: u32,
    /// The longest time-to-live an event subscription may ask for, and the default.
    pub time_to_live_minutes_max: u32,
}

/// The minimum wait of every row that names no other.
pub const DEFAULT_MIN_S: u32 = 10;
const MINUTE: u32 = 60;
const HOUR: u32 = 60 * MINUTE;

const fn end(status: u16) -> (Row, Rule) {
    (Row::Status(status), Rule::End)
}

const fn at_least(status: u16, min_s: u32) -> (Row, Rule) {
    (Row::Status(status), Rule::Retry { min_s })
}

const fn end_without_status(outcome: Outcome) -> (Row, Rule) {
    (Row::Outcome(outcome), Rule::End)
}

/// 10 and 30 s; 1, 5, 10 and 30 min; 1, 3, 6, 12 and 24 h.
const BASIC_SCHEDULE_S: &[u32] =
    &[10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400];

const BASIC: Profile = Profile {
    schedule_s: BASIC_SCHEDULE_S,
    then_every_s: 12 * HOUR,
    webhook: &[
        end(400),
        end(401),
        end(403),
        at_least(404, 5 * MINUTE),
        at_least(408, 2 * MINUTE),
        end(413),
        at_least(503, 30),
    ],
    resource: &[
        end(400),
        at_least(401, 5 * MINUTE),
        end(403),
        at_least(404, 5 * MINUTE),
        at_least(408, 2 * MINUTE),
        end(413),
        at_least(503, 30),
    ],
    attempts_max: 30,
    time_to_live_minutes_max: 24 * 60,
};

const BASIC_2021: Profile = Profile {
    webhook: &[
        end(400),
        end(401),
        end(403),
        end(404),
        at_least(408, 2 * MINUTE),
        end(413),
        at_least(503, 30),
    ],
    ..BASIC
};

const NAMESPACE: Profile = Profile {
    schedule_s: &[10, 30, MINUTE, 5 * MINUTE],
    then_every_s: 5 * MINUTE,
    webhook: &[
        end(400),
        end(401),
        end(403),
        end(404),
        at_least(408, 2 * MINUTE),
        end(413),
        end(414),
        at_least(503, 30),
        end_without_status(Outcome::TimedOut),
        end_without_status(Outcome::SocketError),
        end_without_status(Outcome::Canceled),
    ],
    resource: &[
        end(400),
        at_least(401, 5 * MINUTE),
        end(403),
        at_least(404, 5 * MINUTE),
        at_least(408, 2 * MINUTE),
        end(413),
        end(414),
        at_least(503, 30),
    ],
    attempts_max: 10,
    time_to_live_minutes_max: 7 * 24 * 60,
};

impl ProfileName {
    pub fn profile(self) -> &'static Profile {
        match self {
            Self::Basic => &BASIC,
            Self::Basic2021 => &BASIC_2021,
            Self::Namespace => &NAMESPACE,
        }
    }
}

impl Profile {
    /// Returns what follows a failure with that status, if any, and outcome.
    pub fn rule(&self, kind: EndpointKind, status: Option<u16>, outcome: Outcome) -> Rule {
        let row = status.map_or(Row::Outcome(outcome), Row::Status);
        let rows = match kind {
            EndpointKind::Webhook => self.webhook,
            EndpointKind::Resource => self.resource,
        };
        let found = rows.iter().find(|(asked, _)| *asked == row);
        found.map_or(Rule::Retry { min_s: DEFAULT_MIN_S }, |(_, rule)| *rule)
    }
}

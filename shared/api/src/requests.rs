//! Requests that act on dead letters, redrive jobs, poison messages and parked deliveries.

use std::collections::BTreeSet;

use gridpost_core::{
    delivery::redrive::RedriveFilter, poison::ResendTarget, subscription::SubscriptionKey,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    document::{Code, Problem, Problems, read},
    schema::{Time, stand_in},
    subscription, topic,
};

/// The dead letters to send again, and how to send them.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedriveInput {
    /// Only those written at this time or later.
    pub from: Option<Time>,
    /// Only those written at this time or before.
    pub to: Option<Time>,
    pub reason: Option<String>,
    pub event_type: Option<String>,
    pub event_id: Option<String>,
    /// The event subscription that the events go to; their own by default.
    pub target: Option<RedriveTarget>,
    #[schema(minimum = 1, maximum = 1_000, default = 100)]
    pub events_per_second: Option<u32>,
    /// Events that were sent again this often are left out.
    #[schema(minimum = 1, maximum = 100, default = 3)]
    pub max_redrives: Option<u32>,
    /// Whether to send events that an earlier job has sent there.
    #[schema(default = false)]
    pub send_again: Option<bool>,
    /// Whether to count only.
    #[schema(default = false)]
    pub dry_run: Option<bool>,
}

/// The event subscription that events are sent to.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedriveTarget {
    /// The same topic by default.
    pub topic: Option<String>,
    /// The name of an event subscription.
    #[schema(required = true)]
    pub event_subscription: Option<String>,
}

impl RedriveInput {
    /// Reads a request that begins a job for an event subscription.
    pub fn read(document: &Value, own: &SubscriptionKey) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let given: Self = read(document, &mut problems);
        let target = given.target.iter();
        for (member, checked) in target.flat_map(|target| {
            let topic = target.topic.as_deref().unwrap_or(&own.topic);
            let name = target.event_subscription.as_deref();
            [
                ("topic", topic::check_name(topic)),
                ("eventSubscription", name.map_or(Ok(()), subscription::check_name)),
            ]
        }) {
            if let Err(Problem { code, rule, .. }) = checked {
                problems.add(code, format!("target.{member}"), rule);
            }
        }
        problems.or(Some(given))
    }

    /// Returns the filter that chooses the dead letters.
    pub fn filter(&self) -> RedriveFilter {
        filter(self.from, self.to, [&self.reason, &self.event_type, &self.event_id])
    }
}

fn filter(from: Option<Time>, to: Option<Time>, texts: [&Option<String>; 3]) -> RedriveFilter {
    let [reason, event_type, event_id] = texts.map(Clone::clone);
    let at = |time: Option<Time>| time.map(|Time(at)| at);
    RedriveFilter { from: at(from), to: at(to), reason, event_type, event_id }
}

/// How a redrive job goes on.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeInput {
    /// Its pace from now on; without it, the same as before.
    #[schema(minimum = 1, maximum = 1_000)]
    pub events_per_second: Option<u32>,
}

/// The dead letters to delete: objects all of whose dead letters are chosen.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PurgeDeadLettersInput {
    /// Only those written at this time or later.
    pub from: Option<Time>,
    /// Only those written at this time or before.
    pub to: Option<Time>,
    pub reason: Option<String>,
    pub event_type: Option<String>,
    pub event_id: Option<String>,
    /// Only those that a redrive has sent again.
    #[schema(value_type = Option<stand_in::True>)]
    pub redriven: Option<bool>,
    /// Must be true if no other member chooses, and only then.
    pub all: Option<bool>,
}

impl PurgeDeadLettersInput {
    /// Reads a request that deletes dead letters.
    pub fn read(document: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let given: Self = read(document, &mut problems);
        if given.redriven == Some(false) {
            let rule = "must be true or left out: to delete those alone that were not redriven is not \
                        offered";
            problems.add(Code::InvalidValue, "redriven", rule);
        }
        let is_all = given.filter().is_all() && given.redriven != Some(true);
        if given.all.unwrap_or(false) != is_all && problems.is_empty() {
            let rule = "must be true where neither from, to, reason, eventType, eventId nor redriven \
                        choose, and only there";
            problems.add(Code::InvalidValue, "all", rule);
        }
        problems.or(Some(given))
    }

    /// Returns the filter that chooses the dead letters.
    pub fn filter(&self) -> RedriveFilter {
        filter(self.from, self.to, [&self.reason, &self.event_type, &self.event_id])
    }
}

/// The poison messages to remove: those with these ids, or the next hundred.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PurgeInput {
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 100)]
    pub ids: Option<BTreeSet<String>>,
    /// True instead of ids.
    pub all: Option<bool>,
}

/// The poison messages to send back: those with these ids, or the next hundred.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResendInput {
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 100)]
    pub ids: Option<BTreeSet<String>>,
    /// True instead of ids.
    pub all: Option<bool>,
    /// For messages that can't be read; with ids alone.
    #[schema(value_type = Option<stand_in::ResendTarget>)]
    pub to: Option<ResendTarget>,
}

impl PurgeInput {
    /// Reads a request that removes poison messages.
    pub fn read(document: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let given: Self = read(document, &mut problems);
        check_ids(&given.ids, given.all, &mut problems);
        problems.or(Some(given))
    }
}

impl ResendInput {
    /// Reads a request that sends poison messages back.
    pub fn read(document: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let given: Self = read(document, &mut problems);
        check_ids(&given.ids, given.all, &mut problems);
        if given.all == Some(true) && given.to.is_some() {
            let rule =
                "goes with ids alone: what can't be read is to be looked at before it is sent";
            problems.add(Code::InvalidValue, "to", rule);
        }
        problems.or(Some(given))
    }
}

fn check_ids(ids: &Option<BTreeSet<String>>, all: Option<bool>, problems: &mut Problems) {
    if ids.is_some() == all.unwrap_or(false) && !problems.is_of("ids") {
        let rule = "is required, or else \"all\": true, and not both";
        problems.add(Code::InvalidValue, "ids", rule);
    }
}

/// The parked deliveries to change: those that match every member that is given.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParkedInput {
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 100)]
    pub ids: Option<BTreeSet<String>>,
    pub topic: Option<String>,
    pub event_subscription: Option<String>,
    /// True instead of the others.
    pub all: Option<bool>,
}

impl ParkedInput {
    /// Reads a request that releases or cancels parked deliveries.
    pub fn read(document: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let given: Self = read(document, &mut problems);
        let chooses =
            given.ids.is_some() || given.topic.is_some() || given.event_subscription.is_some();
        if given.all.unwrap_or(false) == chooses && problems.is_empty() {
            let rule = "must be true where neither ids nor topic nor eventSubscription choose, and \
                        only there";
            problems.add(Code::InvalidValue, "all", rule);
        }
        problems.or(Some(given))
    }
}

/// An event as it would be published.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainInput {
    /// An event as it would be published.
    #[schema(required = true)]
    pub event: Option<Value>,
}
/// Types that stand for requests in schemas: each has `all` or another choice.
pub mod choice {

    use crate::schema::stand_in::{all_or, stand_ins};

    stand_ins! {
        ParkedInput = all_or::<super::ParkedInput>(&["ids", "topic", "eventSubscription"]),
            with super::ParkedInput;
        PurgeDeadLettersInput = all_or::<super::PurgeDeadLettersInput>(
            &["from", "to", "reason", "eventType", "eventId", "redriven"]
        ), with super::PurgeDeadLettersInput;
        PurgeInput = all_or::<super::PurgeInput>(&["ids"]), with super::PurgeInput;
        ResendInput = all_or::<super::ResendInput>(&["ids"]), with super::ResendInput;
    }
}

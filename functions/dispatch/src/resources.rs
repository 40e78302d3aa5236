//! Attempts at AWS resources, which answer for each event.
//!
//! Events that were delivered, or ended for their own reason, are done; the rest goes on. The order
//! of effects allows repetition but no loss: dead letters and counts first, then the state, and the
//! successor last.

use async_trait::async_trait;
use futures::future::join_all;
use gridpost_core::{
    delivery::{
        partial::EventOutcome,
        resource_check::Finding,
        resource_outcome::status_of,
        resource_request::{self, Call, Entry, EventIndex},
    },
    retry::outcome::{Answer, Outcome, RESPONSE_WAIT},
    subscription::Resource,
};
use gridpost_ports::ResourceClient;

use crate::{Context, loaded::LoadedDelivery, response::AttemptResult};

const NONE_ALLOWED: &str =
    "this deployment may deliver to no AWS resource: set resource_destinations";

/// Refuses every AWS resource, for a deployment that may deliver to none.
#[derive(Clone, Copy, Debug)]
pub struct NoResources;

#[async_trait]
impl ResourceClient for NoResources {
    /// Events of an event subscription from before the setting changed wait for it to return, as for
    /// any disabled resource.
    async fn send(&self, resource: &Resource, entries: Vec<Entry>) -> Vec<Answer> {
        tracing::warn!(resource = %resource.arn, "{NONE_ALLOWED}");
        vec![Answer::without_status(Outcome::Disabled); entries.len()]
    }

    async fn check(&self, _: &Resource) -> Finding {
        Finding { outcome: Outcome::Disabled, says: NONE_ALLOWED.to_owned() }
    }
}

/// Makes the calls for deliveries that have had equally many attempts.
pub(crate) async fn attempt(
    context: &Context,
    deliveries: &[LoadedDelivery],
    resource: &Resource,
) -> Vec<AttemptResult> {
    let Some(first) = deliveries.first() else { return Vec::new() };
    let messages: Vec<_> = deliveries.iter().map(|loaded| &loaded.delivery).collect();
    let (subscription, made_before) = (first.subscription(), first.delivery.attempts.made);
    let now = context.clock.machine();
    let plan = resource_request::plan(subscription, resource, &messages, made_before, now);
    let mut results: Vec<Vec<EventOutcome>> = vec![Vec::new(); deliveries.len()];
    let mut note =
        |at: EventIndex, answer| results[at.delivery].push(EventOutcome::new(at.event, answer));
    plan.refused.into_iter().for_each(|(at, answer)| note(at, answer));
    let calls = plan.calls.into_iter().map(|call| send(context, resource, call));
    join_all(calls).await.into_iter().flatten().for_each(|(at, answer)| note(at, answer));
    results.iter_mut().for_each(|result| result.sort_unstable_by_key(|met| met.event));
    results.into_iter().map(AttemptResult::Each).collect()
}

/// Makes one call. These services send no late answers.
async fn send(context: &Context, resource: &Resource, call: Call) -> Vec<(EventIndex, Answer)> {
    let entries = call.entries.len();
    let sent = tokio::time::timeout(RESPONSE_WAIT, context.resources.send(resource, call.entries));
    let mut answers =
        sent.await.unwrap_or_else(|_| vec![Answer::without_status(Outcome::TimedOut); entries]);
    // The service may have refused an entry that its answer does not mention.
    let unknown = Answer::without_status(Outcome::ServerError);
    let status = status_of(Outcome::ServerError);
    answers.resize(entries, Answer { status, ..unknown });
    let places = call.places.into_iter().zip(answers);
    places.flat_map(|(places, answer)| places.into_iter().map(move |it| (it, answer))).collect()
}

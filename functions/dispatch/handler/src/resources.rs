//! Attempts at AWS resources, which answer for each event.
//!
//! What was delivered is done with, and so is what ended for a reason of its own; the rest goes on. The
//! order of effects can only repeat: ends are sent and deliveries counted first, then the state says what
//! is done with, and last comes the successor.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use gridpost_core::{
    delivery::{
        event_set::EventSet,
        partial::{self, Parted},
        resource_check::Finding,
        resource_outcome::status_of,
        resource_request::{self, Call, Entry, EventIndex},
    },
    retry::{
        EndReason,
        outcome::{Answer, Outcome, RESPONSE_WAIT},
    },
    subscription::{Endpoint, Resource},
    time::Timestamp,
};
use gridpost_ports::{PortError, ResourceClient};

use crate::{
    Context,
    attempt::{self, Made},
    payload,
    prepare::Work,
    record::Settled,
    settle,
};

/// What stands for the AWS resources in a deployment that has none.
#[derive(Clone, Copy, Debug)]
pub struct NoResources;

#[async_trait]
impl ResourceClient for NoResources {
    /// An event subscription outlives the setting that allowed it: its events wait for the setting to
    /// come back, as for any disabled resource.
    async fn send(&self, resource: &Resource, entries: Vec<Entry>) -> Vec<Answer> {
        tracing::warn!(
            resource = %resource.arn,
            "this deployment may deliver to no AWS resource: set resource_destinations",
        );
        vec![Answer::without_status(Outcome::Disabled); entries.len()]
    }

    async fn check(&self, _: &Resource) -> Finding {
        let says = "this deployment may deliver to no AWS resource: set resource_destinations";
        Finding { outcome: Outcome::Disabled, says: says.to_owned() }
    }
}

/// What every event of one delivery met, by position.
type Met = Vec<(usize, Answer)>;

/// Makes the calls for deliveries of one subscription that have had equally many attempts, and settles
/// them.
pub(crate) async fn attempt(context: &Context, works: Vec<Work>) -> Made {
    let nothing = Made { settled: Vec::new(), late: None };
    let Some(first) = works.first() else { return nothing };
    let subscription = Arc::clone(&first.subscription);
    let Endpoint::Resource(resource) = &subscription.endpoint else { return nothing };
    let made_before = first.delivery.attempts.made;
    let began_at = context.clock.now();
    let deliveries: Vec<_> = works.iter().map(|work| &work.delivery).collect();
    let plan = resource_request::plan(&subscription, resource, &deliveries, made_before, began_at);
    let mut met: Vec<Met> = vec![Vec::new(); works.len()];
    let mut note = |place: EventIndex, answer| met[place.delivery].push((place.event, answer));
    plan.refused.into_iter().for_each(|(place, answer)| note(place, answer));
    let calls = plan.calls.into_iter().map(|call| send(context, resource, call));
    join_all(calls).await.into_iter().flatten().for_each(|(place, answer)| note(place, answer));
    met.iter_mut().for_each(|met| met.sort_unstable_by_key(|(event, _)| *event));
    let times = (began_at, context.clock.now());

    let not_before = note_health(context, &works, &met, times).await;
    let settled = works.into_iter().zip(met).map(|(work, met)| async move {
        let record = work.record.clone();
        (record, settle_parts(context, work, &met, times, not_before).await)
    });
    Made { settled: join_all(settled).await, late: None }
}

/// Makes one call. An answer that does not come in time is none: these services have no late ones.
async fn send(context: &Context, resource: &Resource, call: Call) -> Vec<(EventIndex, Answer)> {
    let entries = call.entries.len();
    let sent = tokio::time::timeout(RESPONSE_WAIT, context.resources.send(resource, call.entries));
    let mut answers =
        sent.await.unwrap_or_else(|_| vec![Answer::without_status(Outcome::TimedOut); entries]);
    // An entry of which nothing was said may have been refused.
    let unknown = Answer {
        status: status_of(Outcome::ServerError),
        ..Answer::without_status(Outcome::ServerError)
    };
    answers.resize(entries, unknown);
    let places = call.places.into_iter().zip(answers);
    places.flat_map(|(places, answer)| places.into_iter().map(move |it| (it, answer))).collect()
}

/// Tells the endpoint's health what the calls came to; answers until when the endpoint waits.
///
/// An endpoint that takes some of the events works: what it refuses waits by its own rule alone. So a
/// stream with one hot shard is not stopped for all others.
async fn note_health(
    context: &Context,
    works: &[Work],
    met: &[Met],
    times: (Timestamp, Timestamp),
) -> Option<Timestamp> {
    let mut answers = met.iter().flatten().map(|(_, answer)| *answer);
    let delivered = answers.clone().find(|answer| answer.outcome == Outcome::Delivered);
    let answer = delivered.or_else(|| answers.next())?;
    if context.settings.latency_metrics {
        attempt::measure(context, works, answer, times);
    }
    if delivered.is_some() {
        attempt::succeed(context, works, times.0, times.1).await;
        return None;
    }
    attempt::note_failure(context, works, answer, times).await
}

async fn settle_parts(
    context: &Context,
    mut work: Work,
    met: &Met,
    times: (Timestamp, Timestamp),
    not_before: Option<Timestamp>,
) -> Settled {
    let parted = partial::part(work.rules(), met);
    let Some((answer, _)) = parted.rest else {
        let status = status_of(Outcome::Delivered);
        let answer = Answer { status, ..Answer::without_status(Outcome::Delivered) };
        return attempt::deliver(context, work, answer, times).await;
    };
    let Parted { delivered, ends, .. } = &parted;
    for (answer, events) in ends {
        end_part(context, &work, *answer, events, times.0).await?;
    }
    if !delivered.is_empty() {
        settle::count_part(context, &work, delivered.len());
    }
    work.delivery.done.add_all(&parted.done());
    attempt::fail(context, work, answer, times, not_before).await
}

/// Ends some events of a delivery for the reason of what they met.
async fn end_part(
    context: &Context,
    work: &Work,
    answer: Answer,
    events: &EventSet,
    began_at: Timestamp,
) -> Result<(), PortError> {
    let mut part = Work { delivery: work.delivery.part(events), ..work.clone() };
    part.delivery.attempts = work.delivery.attempts.with(began_at, answer.outcome, answer.status);
    let is_of_its_own = part.delivery.id != work.delivery.id;
    if is_of_its_own && part.delivery.events_bytes() > PART_BYTES_MAX {
        part.delivery = payload::set_apart(context, part.delivery).await?;
    }
    settle::end_part(context, &part, EndReason::not_retried(answer.outcome)).await
}

/// A part with an id of its own up to here fits any queue message, whatever its limit: 128 of at least 256 KiB.
const PART_BYTES_MAX: usize = 128 * 1_024;

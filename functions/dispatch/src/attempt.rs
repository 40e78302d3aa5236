//! The fourth step: makes one request and returns its result. It settles nothing.

use std::{pin::pin, time::Duration};

use gridpost_core::{
    delivery::{
        partial::EventOutcome,
        partial_results::{self, ResponseBody},
        request,
    },
    retry::outcome::{Answer, Outcome, RESPONSE_WAIT},
    secret::Secret,
    subscription::Endpoint,
};
use gridpost_ports::{Attempted, PlaceWait};

use crate::{
    Context, count,
    loaded::LoadedDelivery,
    resources,
    response::{AttemptResult, LateAnswer, Response},
    settle::ATTEMPT_MAX,
    slow_endpoint::{Lease, watched},
};

/// The longest time for connecting and settling, besides the wait for a response: no request starts
/// that could not be finished.
pub const BESIDES_RESPONSE: Duration = Duration::from_secs(14);
const _: () = assert!(ATTEMPT_MAX.as_secs() > RESPONSE_WAIT.as_secs() + BESIDES_RESPONSE.as_secs());

/// Sends one request, and records how fast it was answered. Returns `None` if it was not made, for a lack of
/// file descriptors.
pub async fn send(
    context: &Context,
    deliveries: &[LoadedDelivery],
    lease: Option<&Lease<'_>>,
) -> Option<(Response, Option<LateAnswer>)> {
    let waits = PlaceWait::default();
    let sent = {
        let mut request = pin!(waits.of(attempt(context, deliveries)));
        match lease {
            Some(lease) => lease.watched(&waits, request.as_mut()).await,
            None => watched(context, deliveries[0].subscription(), &waits, request.as_mut()).await,
        }?
    };
    if let Some(lease) = lease {
        lease.note(&sent.0);
    }
    if context.settings.latency_metrics {
        count::latency(context, deliveries, &sent.0);
    }
    Some(sent)
}

/// Makes the request. The deliveries have had equally many attempts.
async fn attempt(
    context: &Context,
    deliveries: &[LoadedDelivery],
) -> Option<(Response, Option<LateAnswer>)> {
    let began_at = context.clock.now();
    let (results, response_text, late) =
        match deliveries.first().map(|loaded| &loaded.subscription().endpoint) {
            Some(Endpoint::WebHook { url }) => post(context, deliveries, url).await?,
            Some(Endpoint::Resource(resource)) => {
                (resources::attempt(context, deliveries, resource).await, None, None)
            }
            None => (Vec::new(), None, None),
        };
    let began_at = began_at + context.clock.pace().to_clock(PlaceWait::current().so_far());
    Some((Response { times: (began_at, context.clock.now()), results, response_text }, late))
}

async fn post(
    context: &Context,
    deliveries: &[LoadedDelivery],
    url: &Secret,
) -> Option<(Vec<AttemptResult>, Option<String>, Option<LateAnswer>)> {
    let messages: Vec<_> = deliveries.iter().map(|loaded| &loaded.delivery).collect();
    let (subscription, made_before) = (deliveries[0].subscription(), messages[0].attempts.made);
    let (origin, now) = (&context.settings.origin, context.clock.machine());
    let request = request::build(subscription, url, &messages, made_before, origin, now);
    // Results of single events in a late response are not read: do not listen for one.
    let is_heard_late = !request.reads_results;
    let (answer, response_text, late) = match context.client.attempt(request).await {
        Attempted::Answered { answer, response_text, body } => {
            if let Some(body) = body
                && let Some(results) = results(deliveries, answer, &body)
            {
                return Some((results, response_text, None));
            }
            (answer, response_text, None)
        }
        Attempted::TimedOut { late } => {
            let late = is_heard_late.then_some(late);
            (Answer::without_status(Outcome::TimedOut), None, late)
        }
        Attempted::NotMade => return None,
    };
    Some((vec![AttemptResult::Whole(answer); deliveries.len()], response_text, late))
}

/// Reads the results of single events from an accepted response, if it has any.
fn results(
    deliveries: &[LoadedDelivery],
    answer: Answer,
    body: &ResponseBody,
) -> Option<Vec<AttemptResult>> {
    let events: Vec<_> = deliveries.iter().flat_map(|loaded| loaded.delivery.left()).collect();
    let events = events.iter().map(|(_, event)| *event);
    let mut answers = partial_results::read(body, answer, events)?.into_iter();
    let of_one = |loaded: &LoadedDelivery| {
        let places = loaded.delivery.left().map(|(place, _)| place);
        let met =
            places.zip(answers.by_ref()).map(|(place, answer)| EventOutcome::new(place, answer));
        AttemptResult::Each(met.collect())
    };
    Some(deliveries.iter().map(of_one).collect())
}

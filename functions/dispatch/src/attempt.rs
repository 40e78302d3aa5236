//! The fourth step: makes one request and returns its result. It settles nothing.

use std::{pin::pin, time::Duration};

use gridpost_core::{
    delivery::{
        partial::Met,
        partial_results::{self, ResponseBody},
        request,
    },
    retry::outcome::{Answer, Outcome},
    secret::Secret,
    subscription::Endpoint,
};
use gridpost_ports::Attempted;

use crate::{
    Context, count,
    in_hand::DeliveryInHand,
    lane::{Lease, watched},
    resources,
    response::{AttemptResult, LateAnswer, Response},
};

/// How long connecting and settling take at most, besides the wait for a response: no request is
/// started that could not be finished.
pub const BESIDES_RESPONSE: Duration = Duration::from_secs(12);

/// Sends one request, and records how fast it was answered.
pub async fn send(
    context: &Context,
    hands: &[DeliveryInHand],
    lease: Option<&Lease<'_>>,
) -> (Response, Option<LateAnswer>) {
    let sent = {
        let mut request = pin!(attempt(context, hands));
        match lease {
            Some(_) => request.await,
            None => watched(context, hands[0].subscription(), request.as_mut()).await,
        }
    };
    if let Some(lease) = lease {
        lease.note(&sent.0);
    }
    if context.settings.latency_metrics {
        count::latency(context, hands, &sent.0);
    }
    sent
}

/// Makes the request for deliveries of one event subscription that have had equally many attempts.
async fn attempt(context: &Context, hands: &[DeliveryInHand]) -> (Response, Option<LateAnswer>) {
    let began_at = context.clock.now();
    let (results, response_text, late) =
        match hands.first().map(|hand| &hand.subscription().endpoint) {
            Some(Endpoint::WebHook { url }) => post(context, hands, url).await,
            Some(Endpoint::Resource(resource)) => {
                (resources::attempt(context, hands, resource).await, None, None)
            }
            None => (Vec::new(), None, None),
        };
    (Response { times: (began_at, context.clock.now()), results, response_text }, late)
}

async fn post(
    context: &Context,
    hands: &[DeliveryInHand],
    url: &Secret,
) -> (Vec<AttemptResult>, Option<String>, Option<LateAnswer>) {
    let deliveries: Vec<_> = hands.iter().map(|hand| &hand.delivery).collect();
    let (subscription, made_before) = (hands[0].subscription(), deliveries[0].attempts.made);
    let (origin, now) = (&context.settings.origin, context.clock.machine());
    let request = request::build(subscription, url, &deliveries, made_before, origin, now);
    // What a late response would say about single events is not read, so none is listened for.
    let is_heard_late = !request.reads_results;
    let (answer, response_text, late) = match context.client.attempt(request).await {
        Attempted::Answered { answer, response_text, body } => {
            if let Some(body) = body
                && let Some(results) = results(hands, answer, &body)
            {
                return (results, response_text, None);
            }
            (answer, response_text, None)
        }
        Attempted::TimedOut { late } => {
            let late = is_heard_late.then_some(late);
            (Answer::without_status(Outcome::TimedOut), None, late)
        }
    };
    (vec![AttemptResult::Whole(answer); hands.len()], response_text, late)
}

/// What the body of an accepted response says about the events of its request, if anything.
fn results(
    hands: &[DeliveryInHand],
    answer: Answer,
    body: &ResponseBody,
) -> Option<Vec<AttemptResult>> {
    let events: Vec<_> = hands.iter().flat_map(|hand| hand.delivery.left()).collect();
    let events = events.iter().map(|(_, event)| *event);
    let mut answers = partial_results::read(body, answer, events)?.into_iter();
    let of_one = |hand: &DeliveryInHand| {
        let places = hand.delivery.left().map(|(place, _)| place);
        let met = places.zip(answers.by_ref()).map(|(place, answer)| Met::new(place, answer));
        AttemptResult::Each(met.collect())
    };
    Some(hands.iter().map(of_one).collect())
}

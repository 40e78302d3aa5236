//! The fourth step: makes one request and returns its result. It settles nothing.

use futures::future::BoxFuture;
use gridpost_core::{
    delivery::{
        partial::Met,
        partial_results::{self, ResponseBody},
        request,
        state::PartRecord,
    },
    retry::outcome::{Answer, Outcome},
    secret::Secret,
    subscription::Endpoint,
    time::Timestamp,
};
use gridpost_ports::Attempted;

use crate::{Context, in_hand::DeliveryInHand, resources};

/// The answers for the events of one delivery.
#[derive(Clone, Debug)]
pub enum AttemptResult {
    /// One answer for all events: a webhook's response covers its whole request.
    Whole(Answer),
    /// One answer per event: AWS services answer for each event, and webhooks may.
    Each(Vec<Met>),
    /// What the events have met in a batch that was split.
    Parts(Box<Parts>),
}

/// A delivery's part in a batch that was split.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    pub met: Vec<Met>,
    /// The requests that have carried some of its events, the first one for all of them.
    pub tries: Vec<Try>,
}

/// One request of several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Try {
    pub answer: Answer,
    /// When it began and ended.
    pub times: (Timestamp, Timestamp),
    /// Which attempt it was of the events in it, and how many of the delivery's those were.
    pub part: PartRecord,
}

impl AttemptResult {
    /// All answers, duplicates included.
    pub fn answers(&self) -> impl Iterator<Item = Answer> + Clone + '_ {
        let (whole, each) = match self {
            Self::Whole(answer) => (Some(*answer), [].as_slice()),
            Self::Each(each) => (None, each.as_slice()),
            Self::Parts(parts) => (None, parts.met.as_slice()),
        };
        whole.into_iter().chain(each.iter().map(|met| met.answer))
    }
}

/// The result of one request.
pub struct Response {
    /// When the request began and ended.
    pub times: (Timestamp, Timestamp),
    /// One result per delivery, in the order of the request.
    pub results: Vec<AttemptResult>,
    /// The beginning of a response that failed in whole or in part, escaped, if the deployment
    /// keeps it.
    pub response_text: Option<String>,
}

/// Resolves to the answer if it arrives after 30 s.
pub type LateAnswer = BoxFuture<'static, Option<Answer>>;

/// Makes the request for deliveries of one event subscription that have had equally many attempts.
pub async fn attempt(
    context: &Context,
    hands: &[DeliveryInHand],
) -> (Response, Option<LateAnswer>) {
    let began_at = context.clock.now();
    let (results, response_text, late) =
        match hands.first().map(|hand| &hand.subscription().endpoint) {
            Some(Endpoint::WebHook { url }) => post(context, hands, url, began_at).await,
            Some(Endpoint::Resource(resource)) => {
                (resources::attempt(context, hands, resource, began_at).await, None, None)
            }
            None => (Vec::new(), None, None),
        };
    (Response { times: (began_at, context.clock.now()), results, response_text }, late)
}

async fn post(
    context: &Context,
    hands: &[DeliveryInHand],
    url: &Secret,
    began_at: Timestamp,
) -> (Vec<AttemptResult>, Option<String>, Option<LateAnswer>) {
    let deliveries: Vec<_> = hands.iter().map(|hand| &hand.delivery).collect();
    let (subscription, made_before) = (hands[0].subscription(), deliveries[0].attempts.made);
    let origin = &context.settings.origin;
    let request = request::build(subscription, url, &deliveries, made_before, origin, began_at);
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

//! The fourth step: makes one request and says what came of it. It settles nothing.

use futures::future::BoxFuture;
use gridpost_core::{
    delivery::request,
    retry::outcome::{Answer, Outcome},
    secret::Secret,
    subscription::Endpoint,
    time::Timestamp,
};
use gridpost_ports::Attempted;

use crate::{Context, in_hand::DeliveryInHand, resources};

/// What the events of one delivery met.
#[derive(Clone, Debug)]
pub enum Met {
    /// All of them the same: one response decides for every event in a request.
    Whole(Answer),
    /// Each its own, by its position: services of AWS answer for each event.
    Each(Vec<(usize, Answer)>),
}

impl Met {
    /// What its events met, with repetitions.
    pub fn answers(&self) -> impl Iterator<Item = Answer> + Clone + '_ {
        let (whole, each) = match self {
            Self::Whole(answer) => (Some(*answer), [].as_slice()),
            Self::Each(each) => (None, each.as_slice()),
        };
        whole.into_iter().chain(each.iter().map(|(_, answer)| *answer))
    }
}

/// What one request came to.
pub struct Response {
    /// When it began, and when it was over.
    pub times: (Timestamp, Timestamp),
    /// What each of its deliveries met, in their order.
    pub met: Vec<Met>,
    /// How it began where it failed, escaped, where that is kept.
    pub said: Option<String>,
}

/// Resolves to an answer that comes after 30 s.
pub type LateAnswer = BoxFuture<'static, Option<Answer>>;

/// Makes the request for deliveries of one event subscription that have had equally many attempts.
pub async fn attempt(
    context: &Context,
    hands: &[DeliveryInHand],
) -> (Response, Option<LateAnswer>) {
    let began_at = context.clock.now();
    let (met, said, late) = match hands.first().map(|hand| &hand.subscription().endpoint) {
        Some(Endpoint::WebHook { url }) => post(context, hands, url, began_at).await,
        Some(Endpoint::Resource(resource)) => {
            (resources::attempt(context, hands, resource, began_at).await, None, None)
        }
        None => (Vec::new(), None, None),
    };
    (Response { times: (began_at, context.clock.now()), met, said }, late)
}

async fn post(
    context: &Context,
    hands: &[DeliveryInHand],
    url: &Secret,
    began_at: Timestamp,
) -> (Vec<Met>, Option<String>, Option<LateAnswer>) {
    let deliveries: Vec<_> = hands.iter().map(|hand| &hand.delivery).collect();
    let (subscription, made_before) = (hands[0].subscription(), deliveries[0].attempts.made);
    let origin = &context.settings.origin;
    let request = request::build(subscription, url, &deliveries, made_before, origin, began_at);
    let (answer, said, late) = match context.client.attempt(request).await {
        Attempted::Answered { answer, said } => (answer, said, None),
        Attempted::TimedOut { late } => {
            (Answer::without_status(Outcome::TimedOut), None, Some(late))
        }
    };
    (vec![Met::Whole(answer); hands.len()], said, late)
}

//! Tells an endpoint's health what a request came to.

use futures::FutureExt;
use gridpost_core::{
    error::chain,
    retry::{
        health::{Failed, Succeeded},
        outcome::{Answer, Outcome},
    },
    subscription::EventSubscription,
    time::Timestamp,
};

use crate::{Context, attempt::Response, count, health, in_hand::DeliveryInHand};

/// Notes what a request came to, once for all deliveries in it; answers until when the endpoint waits.
///
/// An endpoint that takes some of the events works: what it refuses waits by its own rule alone. So a
/// stream with one hot shard is not stopped for all others.
pub async fn note_response(
    context: &Context,
    hands: &[DeliveryInHand],
    response: &Response,
) -> Option<Timestamp> {
    let mut answers = response.met.iter().flat_map(|met| met.answers());
    let delivered = answers.clone().find(|answer| answer.outcome == Outcome::Delivered);
    let answer = delivered.or_else(|| answers.next())?;
    let (began_at, ended_at) = response.times;
    if delivered.is_some() {
        let asked_for = hands.iter().any(|hand| hand.resend_requested);
        let success = Succeeded { began_at, ended_at, asked_for };
        note_success(context, hands[0].subscription(), success).await;
        return None;
    }
    note_failure(context, &hands[0], answer, response.times).boxed().await
}

/// Notes a success, which on the happy path writes nothing.
pub async fn note_success(context: &Context, subscription: &EventSubscription, success: Succeeded) {
    let spread = health::spread(context, subscription, success.ended_at).await;
    let noted = context.healths.note_success(subscription, success, spread).await;
    if let Err(error) = noted {
        // The events are delivered all the same; the next success tells it again.
        let (key, error) = (&subscription.key, chain(&error));
        tracing::warn!(subscription = %key, %error, "failed to record a recovery");
    }
}

/// Where many attempts fail at once, some may find the health written by others every time. They go
/// on with what their own outcome asks for: the delivery's state is what must not be missing.
async fn note_failure(
    context: &Context,
    hand: &DeliveryInHand,
    answer: Answer,
    (began_at, ended_at): (Timestamp, Timestamp),
) -> Option<Timestamp> {
    let subscription = hand.subscription();
    let delivery = hand.delivery.id;
    let durations = &context.settings.probation;
    let failed = Failed { delivery, began_at, ended_at, answer, last_success_at: None };
    match context.healths.note_failure(subscription, durations, failed).await {
        Ok(health) => {
            if health.began_waiting_at(ended_at) {
                count::probation(context, &subscription.key, answer);
            }
            health.until()
        }
        Err(error) => {
            let (key, error) = (&subscription.key, chain(&error));
            tracing::warn!(subscription = %key, %error, "failed to record a failure");
            durations.of(answer.outcome).map(|wait| ended_at + wait)
        }
    }
}

//! Updates an endpoint's health with the result of a request.

use futures::FutureExt;
use gridpost_core::{
    error::chain,
    retry::{
        health::{FailedAttempt, SuccessfulAttempt},
        outcome::Answer,
    },
    subscription::EventSubscription,
    time::Timestamp,
};

use crate::{Context, count, health, loaded::LoadedDelivery, response::Response};

/// Records the result of a request, once for all its deliveries. Returns until when the endpoint
/// waits.
///
/// An endpoint that accepts the request or some of its events works: refused events wait alone, so
/// that one hot shard does not stop a whole stream.
pub async fn note_response(
    context: &Context,
    deliveries: &[LoadedDelivery],
    response: &Response,
) -> Option<Timestamp> {
    let mut answers = response.results.iter().flat_map(|result| result.answers());
    let delivered = answers.clone().find(|answer| answer.outcome.is_accepted());
    let answer = delivered.or_else(|| answers.next())?;
    let (began_at, ended_at) = response.times;
    if delivered.is_some() {
        let asked_for = deliveries.iter().any(|loaded| loaded.resend.is_some());
        let success = SuccessfulAttempt { began_at, ended_at, asked_for };
        note_success(context, deliveries[0].subscription(), success).await;
        return None;
    }
    note_failure(context, &deliveries[0], answer, response.times).boxed().await
}

/// Records a success, which writes nothing on the happy path.
pub async fn note_success(
    context: &Context,
    subscription: &EventSubscription,
    success: SuccessfulAttempt,
) {
    let spread = health::spread(context, subscription, success.ended_at).await;
    let noted = context.healths.note_success(subscription, success, spread).await;
    if let Err(error) = noted {
        // The events are delivered; the next success tries again.
        let (key, error) = (&subscription.key, chain(&error));
        tracing::warn!(subscription = %key, %error, "failed to record a recovery");
    }
}

/// Records a failure. Returns until when the endpoint waits; if others wrote the health first each
/// time, by this outcome alone.
pub async fn note_failure(
    context: &Context,
    loaded: &LoadedDelivery,
    answer: Answer,
    (began_at, ended_at): (Timestamp, Timestamp),
) -> Option<Timestamp> {
    let subscription = loaded.subscription();
    let delivery = loaded.delivery.id;
    let durations = &context.settings.probation;
    let failed = FailedAttempt { delivery, began_at, ended_at, answer, last_success_at: None };
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

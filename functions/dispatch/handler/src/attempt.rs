//! Makes one request for the deliveries that go out together, and decides about each of them.

use std::sync::Arc;

use gridpost_core::{
    delivery::{request, state::AttemptRecord},
    error::chain,
    metric::{self, of},
    retry::{
        self, Decision, Failure,
        health::Failed,
        outcome::{Answer, Outcome},
    },
    subscription::Endpoint,
    time::Timestamp,
};
use gridpost_ports::Attempted;

use crate::{
    Context, attempt_log, health,
    late::Late,
    prepare::Work,
    record::{Record, Settled},
    resources, settle,
};

/// What one request came to.
pub struct Made {
    /// What became of each record.
    pub settled: Vec<(Record, Settled)>,
    /// What is still to be listened for.
    pub late: Option<Late>,
}

/// Makes the request for deliveries of one subscription that have had equally many attempts, and
/// settles them: one response decides for every event in it.
pub async fn attempt(context: &Context, works: Vec<Work>) -> Made {
    let Some(first) = works.first() else { return Made { settled: Vec::new(), late: None } };
    let subscription = Arc::clone(&first.subscription);
    let url = match &subscription.endpoint {
        Endpoint::WebHook { url } => url,
        Endpoint::Resource(_) => return resources::attempt(context, works).await,
    };
    let deliveries: Vec<_> = works.iter().map(|work| &work.delivery).collect();
    let made_before = first.delivery.attempts.made;
    let origin = &context.settings.origin;
    let began_at = context.clock.now();
    let request = request::build(&subscription, url, &deliveries, made_before, origin, began_at);
    let (answer, late) = match context.client.attempt(request).await {
        Attempted::Answered(answer) => (answer, None),
        Attempted::TimedOut { late } => (Answer::without_status(Outcome::TimedOut), Some(late)),
    };
    let ended_at = context.clock.now();

    let times = (began_at, ended_at);
    if context.settings.latency_metrics {
        measure(context, &works, answer, times);
    }
    let not_before = match answer.outcome {
        Outcome::Delivered => {
            succeed(context, &works, began_at, ended_at).await;
            None
        }
        _ => note_failure(context, &works, answer, times).await,
    };
    let ids = works.iter().map(|work| work.delivery.id).collect();
    let late = late.map(|answer| Late { answer, ids, subscription, began_at });
    let settled = works.into_iter().map(|work| async move {
        let record = work.record.clone();
        let settled = match answer.outcome {
            Outcome::Delivered => deliver(context, work, answer, times).await,
            _ => fail(context, work, answer, times, not_before).await,
        };
        (record, settled)
    });
    Made { settled: futures::future::join_all(settled).await, late }
}

/// Settles a delivery whose events were all delivered.
pub(crate) async fn deliver(
    context: &Context,
    mut work: Work,
    answer: Answer,
    times: (Timestamp, Timestamp),
) -> Settled {
    if context.settings.log_successful_attempts || work.delivery.attempts.made > 0 {
        attempt_log::succeeded(&work, answer, times);
    }
    if work.revision > 0 {
        AttemptRecord::of(answer, times, None).add_to(&mut work.past);
    }
    settle::delivered(context, work).await
}

/// Notes how long the request took and, where it delivered, how long ago its events were published.
pub(crate) fn measure(
    context: &Context,
    works: &[Work],
    answer: Answer,
    (began_at, ended_at): (Timestamp, Timestamp),
) {
    let Some(work) = works.first() else { return };
    let whose = of(&work.subscription.key);
    let took = ended_at.since(began_at);
    context.meter.measure(metric::DESTINATION_PROCESSING_DURATION_IN_MS, &whose, took);
    for work in works.iter().filter(|_| answer.outcome == Outcome::Delivered) {
        let since_publish = ended_at.since(work.delivery.publish_time);
        context.meter.measure(metric::DELIVERY_LATENCY_IN_MS, &whose, since_publish);
    }
}

/// Tells the endpoint's health of a success, which on the happy path writes nothing.
pub async fn succeed(context: &Context, works: &[Work], began_at: Timestamp, now: Timestamp) {
    let Some(work) = works.first() else { return };
    let spread = health::spread(context, &work.subscription, now).await;
    let noted = context.healths.note_success(&work.subscription, began_at, now, spread).await;
    if let Err(error) = noted {
        // The events are delivered all the same; the next success tells it again.
        tracing::warn!(
            subscription = %work.subscription.key,
            error = %chain(&error),
            "a recovery was not noted",
        );
    }
}

/// Decides about a delivery that failed, and settles it.
pub(crate) async fn fail(
    context: &Context,
    mut work: Work,
    answer: Answer,
    (began_at, ended_at): (Timestamp, Timestamp),
    not_before: Option<Timestamp>,
) -> Settled {
    work.delivery.attempts = work.delivery.attempts.with(began_at, answer.outcome, answer.status);
    let failure = Failure {
        attempts: work.delivery.attempts.made,
        first_attempt_at: work.delivery.attempts.first_at.unwrap_or(began_at),
        ended_at,
        answer,
        not_before,
        expires_at: work.expires_at(),
    };
    let decision = retry::decide(work.rules(), failure, context.dice.roll());
    attempt_log::failed(&work, answer, (began_at, ended_at), decision);
    settle::count_failure(context, &work, answer);
    let because = match decision {
        Decision::Retry { because, .. } => Some(because),
        Decision::End(_) => None,
    };
    AttemptRecord::of(answer, (began_at, ended_at), because).add_to(&mut work.past);
    match decision {
        Decision::Retry { due, .. } => settle::retry(context, work, due).await,
        Decision::End(reason) => settle::end(context, work, reason).await,
    }
}

/// Tells the endpoint's health that a request failed, once for all deliveries in it; answers until
/// when the endpoint waits.
///
/// Where many attempts fail at once, some may find the health written by others every time. They go
/// on with what their own outcome asks for: the delivery's state is what must not be missing.
pub(crate) async fn note_failure(
    context: &Context,
    works: &[Work],
    answer: Answer,
    (began_at, ended_at): (Timestamp, Timestamp),
) -> Option<Timestamp> {
    let work = works.first()?;
    let delivery = work.delivery.id;
    let durations = &context.settings.probation;
    let failed = Failed { delivery, began_at, ended_at, answer, last_success_at: None };
    match context.healths.note_failure(&work.subscription, durations, failed).await {
        Ok(health) => {
            if health.began_waiting_at(ended_at) {
                settle::count_probation(context, work, answer);
            }
            health.until()
        }
        Err(error) => {
            tracing::warn!(
                subscription = %work.subscription.key,
                error = %chain(&error),
                "a failure was not noted in the endpoint's health",
            );
            durations.of(answer.outcome).map(|wait| ended_at + wait)
        }
    }
}

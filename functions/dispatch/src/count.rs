//! The metrics that dispatch writes.

use gridpost_core::{
    metric::{self, DROP_REASON, of},
    retry::{
        EndReason,
        outcome::{Answer, Outcome},
    },
    subscription::SubscriptionKey,
    time::Timestamp,
};

use crate::{
    Context,
    loaded::LoadedDelivery,
    response::{AttemptResult, Response},
};

pub fn delivered(context: &Context, key: &SubscriptionKey, published_at: Timestamp, events: u64) {
    let took = context.clock.now().since(published_at);
    context.meter.count_delivered(&of(key), published_at, took, events);
}

/// Counts events that were delivered before the rest of their delivery. They are counted before the
/// state is written: a crash in between delivers and counts them twice, and the reverse order would
/// lose the count.
pub fn delivered_part(context: &Context, loaded: &LoadedDelivery, events: usize) {
    let delivery = &loaded.delivery;
    delivered(context, &delivery.subscription, delivery.publish_time, events as u64);
    context.meter.flush(context.clock.now());
}

/// Counts events that end without a dead letter.
pub fn dropped(
    context: &Context,
    key: &SubscriptionKey,
    published_at: Timestamp,
    reason: EndReason,
    events: u64,
) {
    let reason = reason.to_string();
    let [topic, name] = of(key);
    let dimensions = [(DROP_REASON, reason.as_str()), topic, name];
    context.meter.count_events(metric::DROPPED_EVENT_COUNT, &dimensions, published_at, events);
}

pub fn failure(context: &Context, key: &SubscriptionKey, answer: Answer) {
    error(context, metric::DELIVERY_ATTEMPT_FAIL_COUNT, key, answer);
}

/// Counts the beginning of a probation or of delayed delivery.
pub fn probation(context: &Context, key: &SubscriptionKey, answer: Answer) {
    error(context, metric::PROBATION_COUNT, key, answer);
}

fn error(context: &Context, metric: &'static str, key: &SubscriptionKey, answer: Answer) {
    let error = answer.outcome.to_string();
    let [topic, name] = of(key);
    let dimensions = [("Error", error.as_str()), topic, name];
    context.meter.count(metric, &dimensions, 1);
}

/// Measures how long the request took and, for delivered events, the time since their publish.
pub fn latency(context: &Context, deliveries: &[LoadedDelivery], response: &Response) {
    let Some(first) = deliveries.first() else { return };
    let whose = of(&first.subscription().key);
    let (began_at, ended_at) = response.times;
    let took = ended_at.since(began_at);
    context.meter.measure(metric::DESTINATION_PROCESSING_DURATION_IN_MS, &whose, took);
    let is_delivered = |result: &AttemptResult| {
        result.answers().all(|answer| answer.outcome == Outcome::Delivered)
    };
    for (loaded, _) in
        deliveries.iter().zip(&response.results).filter(|(_, result)| is_delivered(result))
    {
        let since_publish = ended_at.since(loaded.delivery.publish_time);
        context.meter.measure(metric::DELIVERY_LATENCY_IN_MS, &whose, since_publish);
    }
}

//! The metrics that dispatch writes.

use gridpost_core::{
    journal::{Count, Counted, Owner},
    metric::{self, of},
    retry::outcome::{Answer, Outcome},
    subscription::SubscriptionKey,
};

use crate::{
    Context,
    loaded::LoadedDelivery,
    response::{AttemptResult, Response},
};

/// Counts a failed request for a part of a batch.
pub fn failure(context: &Context, loaded: &LoadedDelivery, answer: Answer) {
    let count = Count {
        owner: Owner::Subscription(loaded.subscription().key.clone()),
        publish_time: loaded.delivery.publish_time,
        counted: Counted::Failed(answer.outcome),
        events: 1,
        once: None,
    };
    context.journal.count(count, Some(&loaded.record.receipt));
}

/// Counts the beginning of a probation or of delayed delivery.
pub fn probation(context: &Context, key: &SubscriptionKey, answer: Answer) {
    let error = answer.outcome.to_string();
    let [topic, name] = of(key);
    let dimensions = [("Error", error.as_str()), topic, name];
    context.meter.count(metric::PROBATION_COUNT, &dimensions, 1);
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

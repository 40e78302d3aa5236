//! Names of metrics and their dimensions, which are Event Grid's.

use crate::subscription::SubscriptionKey;

pub const TOPIC: &str = "Topic";
pub const EVENT_SUBSCRIPTION_NAME: &str = "EventSubscriptionName";

/// The dimensions with users' names. CloudWatch charges for each of their values, so a deployment
/// has them only if it asks for them (`metrics_by_event_subscription`). Log lines always have them.
pub const NAMES: [&str; 2] = [TOPIC, EVENT_SUBSCRIPTION_NAME];
pub const DEAD_LETTER_REASON: &str = "DeadLetterReason";
pub const DROP_REASON: &str = "DropReason";

/// A property of the ledger's lines: the hour of the publish, too many values for a dimension.
pub const PUBLISH_HOUR: &str = "PublishHour";

/// A property of lines that count delivered events: their time since the publish, in buckets.
pub const LATENCY_MS: &str = "LatencyMs";

/// Returns the dimensions of an event subscription.
pub fn of(key: &SubscriptionKey) -> [(&'static str, &str); 2] {
    [(TOPIC, &key.topic), (EVENT_SUBSCRIPTION_NAME, &key.name)]
}

/// Accepted events, by `Topic`.
pub const PUBLISH_SUCCESS_COUNT: &str = "PublishSuccessCount";
/// Refused publish requests, by `ErrorType` and `Error`.
pub const PUBLISH_FAIL_COUNT: &str = "PublishFailCount";
/// Matched events, by `Topic` and `EventSubscriptionName`.
pub const MATCHED_EVENT_COUNT: &str = "MatchedEventCount";
/// Events without an event subscription, by `Topic`.
pub const UNMATCHED_EVENT_COUNT: &str = "UnmatchedEventCount";
/// Events delivered, by `Topic` and `EventSubscriptionName`.
pub const DELIVERY_SUCCESS_COUNT: &str = "DeliverySuccessCount";
/// Failed attempts, by `Error` (the outcome), `Topic` and `EventSubscriptionName`.
pub const DELIVERY_ATTEMPT_FAIL_COUNT: &str = "DeliveryAttemptFailCount";
/// Events stored as dead letters, by `DeadLetterReason`, `Topic` and `EventSubscriptionName`.
pub const DEAD_LETTERED_COUNT: &str = "DeadLetteredCount";
/// Events dropped, by `DropReason`, `Topic` and `EventSubscriptionName`.
pub const DROPPED_EVENT_COUNT: &str = "DroppedEventCount";
/// Dead letters sent again, by the target's `Topic` and `EventSubscriptionName`.
pub const REDRIVEN_EVENT_COUNT: &str = "RedrivenEventCount";
/// Messages moved to the poison queue, by `Queue`: a bug in Gridpost that needs an operator.
pub const POISON_COUNT: &str = "PoisonCount";
/// Messages of the dead-letter, fan-out and redrive queues that come back after a failure. They
/// have an alarm: SQS does not tell the age of messages received several times.
pub const KEPT_COUNT: &str = "KeptCount";
/// Messages of AWS sources that can't become events, moved to the source's poison queue.
pub const SOURCE_REFUSED_COUNT: &str = "SourceRefusedCount";
/// Messages of AWS sources that come back after a failure, by `Source`.
pub const SOURCE_KEPT_COUNT: &str = "SourceKeptCount";
/// Messages of AWS sources without an event (S3's test of a notification).
pub const SOURCE_IGNORED_COUNT: &str = "SourceIgnoredCount";
/// Parked waits.
pub const PARKED_COUNT: &str = "ParkedCount";
/// Parked deliveries that could not be sent when due: they need an operator.
pub const STUCK_PARKED_COUNT: &str = "StuckParkedCount";
/// Visibility changes that SQS refused.
pub const HIDE_FAIL_COUNT: &str = "HideFailCount";
/// Waits of endpoints that began: probations, delayed deliveries and failed probes.
pub const PROBATION_COUNT: &str = "ProbationCount";
/// Milliseconds from a publish request to its answer, by `Topic`.
pub const PUBLISH_SUCCESS_LATENCY_IN_MS: &str = "PublishSuccessLatencyInMs";
/// Milliseconds of attempts, by `Topic` and `EventSubscriptionName`.
pub const DESTINATION_PROCESSING_DURATION_IN_MS: &str = "DestinationProcessingDurationInMs";
/// Milliseconds from the publish to the end of the successful attempt.
pub const DELIVERY_LATENCY_IN_MS: &str = "DeliveryLatencyInMs";

/// All metrics with their dimensions, of which [`NAMES`] may be missing. Each is also written
/// without any: alarms can't search. Other dimensions only have constants as values.
pub const ALL: [(&str, &[&str]); 21] = {
    const OF_TOPIC: &[&str] = &[TOPIC];
    const OF_SUBSCRIPTION: &[&str] = &[TOPIC, EVENT_SUBSCRIPTION_NAME];
    const OF_ERROR: &[&str] = &["Error", TOPIC, EVENT_SUBSCRIPTION_NAME];
    [
        (PUBLISH_SUCCESS_COUNT, OF_TOPIC),
        (PUBLISH_FAIL_COUNT, &["ErrorType", "Error"]),
        (MATCHED_EVENT_COUNT, OF_SUBSCRIPTION),
        (UNMATCHED_EVENT_COUNT, OF_TOPIC),
        (DELIVERY_SUCCESS_COUNT, OF_SUBSCRIPTION),
        (DELIVERY_ATTEMPT_FAIL_COUNT, OF_ERROR),
        (DEAD_LETTERED_COUNT, &[DEAD_LETTER_REASON, TOPIC, EVENT_SUBSCRIPTION_NAME]),
        (DROPPED_EVENT_COUNT, &[DROP_REASON, TOPIC, EVENT_SUBSCRIPTION_NAME]),
        (REDRIVEN_EVENT_COUNT, OF_SUBSCRIPTION),
        (POISON_COUNT, &["Queue"]),
        (KEPT_COUNT, &[]),
        (SOURCE_REFUSED_COUNT, &["Reason"]),
        (SOURCE_KEPT_COUNT, &["Source"]),
        (SOURCE_IGNORED_COUNT, &[]),
        (PARKED_COUNT, &[]),
        (STUCK_PARKED_COUNT, &[]),
        (HIDE_FAIL_COUNT, &[]),
        (PROBATION_COUNT, OF_ERROR),
        (PUBLISH_SUCCESS_LATENCY_IN_MS, OF_TOPIC),
        (DESTINATION_PROCESSING_DURATION_IN_MS, OF_SUBSCRIPTION),
        (DELIVERY_LATENCY_IN_MS, OF_SUBSCRIPTION),
    ]
};

#[cfg(test)]
mod tests {
    #[test]
    fn every_metric_is_in_the_settings_page() {
        let page = include_str!("../../../docs/settings.md");
        for (name, dimensions) in super::ALL {
            let row = page.lines().find(|line| line.contains(&format!("`{name}`")));
            let row = row.unwrap_or_else(|| panic!("{name} is not in the page"));
            for dimension in dimensions {
                assert!(row.contains(&format!("`{dimension}`")), "{name}: {dimension}");
            }
        }
    }
}

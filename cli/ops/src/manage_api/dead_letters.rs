//! Dead letters of event subscriptions, and jobs that send them again.

use gridpost_api::{
    health::{Health, NewEvents},
    schema::Time,
};
use gridpost_core::time::Timestamp;

use crate::output::or_dash;

/// S3 tells times in whole seconds, and clocks differ a little.
const SETTLED_MS: i64 = 2_000;

/// Returns the end of the time that is counted and deleted: `to`, or so shortly before now that nothing more
/// is written in it.
pub fn end_of_count(to: Option<Time>, now: Timestamp) -> Time {
    let counted = Time(Timestamp::from_millis(now.as_millis() - SETTLED_MS));
    to.map_or(counted, |to| to.min(counted))
}

/// Says why not to send to an endpoint on a probation that ends events at once, and what to do.
pub fn refusal_by_probation(topic: &str, name: &str, health: &Health) -> Option<String> {
    let Health { new_events, until, cause, .. } = health;
    (*new_events == NewEvents::Ends).then(|| {
        format!(
            "{topic}/{name} is on probation until {} because of {}: each event sent now ends at once, as a \
             new dead letter. Mend the cause, test it (gridpost subscription send-test --topic {topic} --subscription \
             {name}) and end the probation (gridpost subscription health --topic {topic} --subscription \
             {name} --reset). --on-probation sends all the same.",
            or_dash(*until),
            or_dash(cause.as_ref().map(|cause| &cause.outcome))
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testkit::documents;

    #[test]
    fn nothing_is_sent_to_an_endpoint_that_ends_events_at_once() {
        let health = |new_events: &str| -> Health {
            let patch = json!({"newEvents": new_events, "until": "2026-01-01T00:05:00.000Z",
                "cause": {"outcome": "Unauthorized"}});
            serde_json::from_value(documents::health(&patch)).expect("whole")
        };
        for sent in ["Attempted", "Waits", "NotMatched"] {
            assert_eq!(refusal_by_probation("t", "u", &health(sent)), None, "{sent}");
        }
        let refused = refusal_by_probation("t", "u", &health("Ends")).expect("refused");
        for part in ["t/u", "until 2026-01-01T00:05:00.000Z", "Unauthorized", "--on-probation"] {
            assert!(refused.contains(part), "{part} is not in\n{refused}");
        }
    }
}

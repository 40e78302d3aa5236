//! What must be known before dead letters are sent again or deleted.

use gridpost_core::time::Timestamp;
use serde_json::Value;

use crate::{manage_api::dead_letters::LetterChoice, output::text_at};

/// S3 tells times in whole seconds, and clocks differ a little.
const SETTLED_MS: i64 = 2_000;

/// What is chosen ends where the count begins: what is written between the count and the deletion was
/// not counted, and stays.
pub fn until_counted(choice: LetterChoice, now: Timestamp) -> LetterChoice {
    let counted = Timestamp::from_millis(now.as_millis() - SETTLED_MS);
    let asked = choice.to.as_deref().map(Timestamp::parse_rfc_3339);
    match asked {
        // One that is no time is the server's to refuse.
        Some(None) => choice,
        Some(Some(asked)) if asked <= counted => choice,
        Some(Some(_)) | None => LetterChoice { to: Some(counted.to_iso_8601()), ..choice },
    }
}

/// What is wrong with sending to an endpoint on a probation that ends events at once, and what to do.
pub fn refusal_by_probation(topic: &str, name: &str, health: &Value) -> Option<String> {
    let at = |pointer| text_at(health, pointer);
    (health["newEvents"] == "Ends").then(|| {
        format!(
            "{topic}/{name} is on probation until {} because of {}: each event sent now ends at once, as a \
             new dead letter. Mend the cause, test it (gridpost subscription send-test --topic {topic} --name \
             {name}) and end the probation (gridpost subscription health --topic {topic} --name \
             {name} --reset). --on-probation sends all the same.",
            at("/until"),
            at("/cause/outcome")
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_sent_to_an_endpoint_that_ends_events_at_once() {
        let health = |new_events: &str| {
            json!({"newEvents": new_events, "until": "2026-01-01T00:05:00Z",
                "cause": {"outcome": "Unauthorized"}})
        };
        for sent in ["Attempted", "Waits", "NotMatched"] {
            assert_eq!(refusal_by_probation("t", "u", &health(sent)), None, "{sent}");
        }
        let refused = refusal_by_probation("t", "u", &health("Ends")).expect("refused");
        for part in ["t/u", "until 2026-01-01T00:05:00Z", "Unauthorized", "--on-probation"] {
            assert!(refused.contains(part), "{part} is not in\n{refused}");
        }
    }
}

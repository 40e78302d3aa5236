//! What `gridpost subscription health` prints.

use serde_json::Value;

use crate::output::{self, text_at};

/// A health in words: what it is, why, until when, and what that does to events.
pub(super) fn describe(topic: &str, name: &str, health: &Value) -> String {
    let at = |pointer| text_at(health, pointer);
    let row = |name: &str, value: String| [name.to_owned(), value];
    let mut rows = vec![
        row("event subscription", format!("{topic}/{name}")),
        row("state", at("/state").to_owned()),
        row("new events", effect(at("/newEvents")).to_owned()),
    ];
    if let Some(outcome) = health.pointer("/cause/outcome").and_then(Value::as_str) {
        let status = health.pointer("/cause/httpStatusCode").and_then(Value::as_u64);
        let status = status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
        rows.push(row("cause", format!("{outcome}{status}")));
        rows.push(row("since", at("/since").to_owned()));
        rows.push(row("until", at("/until").to_owned()));
        let probe = match health.pointer("/nextProbe/delivery").and_then(Value::as_str) {
            Some(delivery) => format!("under way, by delivery {delivery}"),
            None => format!("the first delivery that is due after {}", at("/nextProbe/notBefore")),
        };
        rows.push(row("next probe", probe));
    }
    for (name, pointer) in [("probation", "/probation"), ("delayed delivery", "/delayedDelivery")] {
        // One wait alone is the one that is told above.
        let both = health.get("probation").is_some() && health.get("delayedDelivery").is_some();
        if both {
            let until = text_at(health, &format!("{pointer}/until"));
            rows.push(row(name, format!("until {until}")));
        }
    }
    if let Some(slow) = health.get("slow") {
        rows.push(row("slow", slowness(slow)));
    }
    rows.push(row("failures in a row", health["failuresInRow"].to_string()));
    for (name, pointer) in
        [("last failure", "/lastFailureTime"), ("last recovery", "/recoveredTime")]
    {
        if health.pointer(pointer).is_some() {
            rows.push(row(name, at(pointer).to_owned()));
        }
    }
    rows.push(row("waiting deliveries", waiting(&health["waitingDeliveries"])));
    output::columns(&rows)
}

fn effect(effect: &str) -> &str {
    match effect {
        "Attempted" => "are attempted",
        "Waits" => "wait until a probe succeeds",
        "Ends" => "end at once with outcome Probation (dead letter, or drop without a destination)",
        other => other,
    }
}

fn slowness(slow: &Value) -> String {
    let most = slow["requestsAtMost"].as_u64().map(|most| format!(", {most} at most"));
    format!("{} requests under way{}", slow["requestsUnderWay"], most.unwrap_or_default())
}

fn waiting(waiting: &Value) -> String {
    let more = if waiting["isComplete"] == Value::Bool(false) { "more than " } else { "" };
    match waiting["oldestPublishTime"].as_str() {
        Some(oldest) => format!("{more}{}, the oldest published at {oldest}", waiting["count"]),
        None => format!("{more}{}", waiting["count"]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_health_is_told_in_words() {
        let health = json!({
            "state": "Probation", "newEvents": "Ends", "failuresInRow": 1,
            "cause": {"outcome": "Unauthorized", "httpStatusCode": 401},
            "since": "S", "until": "U", "nextProbe": {"notBefore": "U"}, "lastFailureTime": "L",
            "waitingDeliveries": {"count": 20000, "isComplete": false, "oldestPublishTime": "O"},
        });
        let text = describe("orders", "billing", &health);
        for part in [
            "orders/billing",
            "Probation",
            "end at once",
            "Unauthorized (HTTP 401)",
            "due after U",
            "more than 20000, the oldest published at O",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains("probation  ") && !text.contains("slow"), "{text}");
        let both = json!({
            "state": "DelayedDelivery", "newEvents": "Waits", "failuresInRow": 10,
            "cause": {"outcome": "TimedOut"}, "since": "S", "until": "D",
            "probation": {"since": "S", "until": "P"},
            "delayedDelivery": {"since": "S", "until": "D", "step": 1},
            "slow": {"until": "T", "requestsUnderWay": 7, "requestsAtMost": 50},
            "waitingDeliveries": {"count": 0, "isComplete": true},
        });
        let text = describe("orders", "billing", &both);
        for part in ["until P", "until D", "7 requests under way, 50 at most"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let healthy = json!({"state": "Healthy", "newEvents": "Attempted", "failuresInRow": 0,
            "waitingDeliveries": {"count": 0, "isComplete": true}});
        let text = describe("orders", "billing", &healthy);
        assert!(text.contains("are attempted") && !text.contains("cause"), "{text}");
    }
}

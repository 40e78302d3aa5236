//! `gridpost subscription health`: one endpoint in words, or all of them in a table.

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use crate::commands::if_there;
use crate::manage_api::ManageApi;
use crate::output::{self, text_at};

/// Requests for healths at the same time.
const AT_ONCE: usize = 8;

/// A topic's event subscriptions with their healths, by name; without one, deleted just now.
///
/// # Errors
///
/// A refusal by the server, or a transport failure.
pub(super) async fn of_topic(
    api: &ManageApi,
    topic: &str,
) -> anyhow::Result<Vec<(Value, Option<Value>)>> {
    let subscriptions = api.subscriptions(topic).await?;
    let with_health = async |subscription: Value| {
        let health = if_there(api.health(topic, text_at(&subscription, "/name")).await)?;
        anyhow::Ok((subscription, health))
    };
    stream::iter(subscriptions).map(with_health).buffered(AT_ONCE).try_collect().await
}

/// The health of an event subscription's endpoint.
pub(super) struct Health {
    topic: String,
    name: String,
    health: Value,
}

/// All healths, of a topic or of all topics.
///
/// # Errors
///
/// As above.
pub(super) async fn of_all(api: &ManageApi, topic: Option<&str>) -> anyhow::Result<Vec<Health>> {
    let topics = match topic {
        Some(topic) => vec![topic.to_owned()],
        None => api.topics().await?.iter().map(|one| text_at(one, "/name").to_owned()).collect(),
    };
    let mut found = Vec::new();
    for topic in topics {
        for (subscription, health) in of_topic(api, &topic).await? {
            let name = text_at(&subscription, "/name").to_owned();
            found.extend(health.map(|health| Health { topic: topic.clone(), name, health }));
        }
    }
    Ok(found)
}

/// All healths as JSON.
pub(super) fn document(all: &[Health]) -> Value {
    let one = |Health { topic, name, health }: &Health| json!({"topic": topic, "name": name, "health": health});
    json!({"value": all.iter().map(one).collect::<Value>()})
}

/// All healths for people, those in trouble first.
pub(super) fn table(all: &[Health]) -> String {
    if all.is_empty() {
        return "There is no event subscription.".to_owned();
    }
    let head = ["EVENT SUBSCRIPTION", "STATE", "NEW EVENTS", "CAUSE", "UNTIL", "WAITING"];
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by_key(|one| one.health["state"] == "Healthy");
    let row = |Health { topic, name, health }: &Health| {
        let at = |pointer| text_at(health, pointer).to_owned();
        let waiting = &health["waitingDeliveries"];
        let more = if waiting["isComplete"] == Value::Bool(false) { ">" } else { "" };
        let cause = match health.pointer("/cause/httpStatusCode").and_then(Value::as_u64) {
            Some(status) => format!("{} ({status})", at("/cause/outcome")),
            None => at("/cause/outcome"),
        };
        let effect = match text_at(health, "/newEvents") {
            "Attempted" => "attempted",
            "Waits" => "wait",
            "Ends" => "END AT ONCE",
            other => other,
        };
        let waiting = format!("{more}{}", waiting["count"]);
        [format!("{topic}/{name}"), at("/state"), effect.to_owned(), cause, at("/until"), waiting]
    };
    let rows = std::iter::once(head.map(str::to_owned)).chain(all.into_iter().map(row));
    output::columns(&rows.collect::<Vec<_>>())
}

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
            None if health.pointer("/waitingDeliveries/count") == Some(&json!(0)) => {
                format!(
                    "none waits: the next event after {} is the probe",
                    at("/nextProbe/notBefore")
                )
            }
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
        "Waits" => "wait until a probe succeeds; one of the events is the probe",
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
    use super::*;

    #[test]
    fn an_endpoint_that_nothing_waits_for_is_no_deadlock() {
        let health = |count| {
            json!({"state": "Probation", "newEvents": "Waits", "failuresInRow": 1,
            "cause": {"outcome": "Busy"}, "since": "S", "until": "U", "nextProbe": {"notBefore": "U"},
            "waitingDeliveries": {"count": count, "isComplete": true}})
        };
        let text = describe("orders", "billing", &health(0));
        assert!(text.contains("none waits: the next event after U is the probe"), "{text}");
        let text = describe("orders", "billing", &health(2));
        assert!(text.contains("the first delivery that is due after U"), "{text}");
    }

    #[test]
    fn what_is_in_trouble_stands_first() {
        let one = |name: &str, state: &str, effect: &str| Health {
            topic: "t".to_owned(),
            name: name.to_owned(),
            health: json!({"state": state, "newEvents": effect,
                "waitingDeliveries": {"count": 3, "isComplete": name == "a"}}),
        };
        let all = [one("a", "Healthy", "Attempted"), one("b", "Probation", "Ends")];
        let text = table(&all);
        let rows: Vec<_> = text.lines().collect();
        assert!(rows[1].starts_with("t/b") && rows[1].contains("END AT ONCE"), "{text}");
        assert!(rows[1].ends_with(">3") && rows[2].starts_with("t/a"), "{text}");
        assert_eq!(document(&all)["value"][1]["health"]["state"], "Probation");
    }

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

//! `gridpost subscription health`: one endpoint in words, or all of them in a table.

use std::collections::BTreeMap;

use gridpost_core::{ledger::Account, subscription::SubscriptionKey, time::Timestamp};
use serde_json::{Value, json};

use crate::{
    audit::{
        logs,
        report::{by_reason, total},
    },
    given::TimeSpan,
    latency,
    lookup::{self, wait_is_over},
    manage_api::ManageApi,
    output::{self, text_at},
    target::Target,
};

/// A topic's event subscriptions with their healths, by name; without one, deleted just now.
pub async fn of_topic(api: &ManageApi, topic: &str) -> anyhow::Result<Vec<(Value, Option<Value>)>> {
    let (all, healths) = tokio::try_join!(api.subscriptions(topic), api.healths(topic))?;
    Ok(joined(all, &healths))
}

/// Event subscriptions with those of the healths that are theirs.
pub fn joined(all: Vec<Value>, healths: &[Value]) -> Vec<(Value, Option<Value>)> {
    let by_name: BTreeMap<_, _> =
        healths.iter().map(|one| (text_at(one, "/name"), &one["health"])).collect();
    let with_health = |subscription: Value| {
        let health = by_name.get(text_at(&subscription, "/name")).map(|health| (*health).clone());
        (subscription, health)
    };
    all.into_iter().map(with_health).collect()
}

/// The health of an event subscription's endpoint.
pub struct Health {
    topic: String,
    name: String,
    health: Value,
    counted: Option<Account>,
}

impl Health {
    /// One of which nothing is counted.
    pub fn of(topic: String, name: String, health: Value) -> Self {
        Self { topic, name, health, counted: None }
    }

    /// Whether its endpoint is well and none of the counted events ended undelivered. An endpoint that
    /// refuses single events for good is healthy, and loses them.
    fn is_well(&self) -> bool {
        let ended = |account: &Account| total(&account.dropped) + total(&account.dead_lettered);
        self.health["state"] == "Healthy"
            && self.health["newEvents"] != "NotMatched"
            && self.counted.as_ref().is_none_or(|account| ended(account) == 0)
    }

    /// It as JSON: what manage answered, latencies and losses.
    pub fn document(&self) -> Value {
        let mut document = self.health.clone();
        if let Some(account) = &self.counted {
            document["latency"] = latency::document(&account.latencies);
            document["deadLettered"] = by_reason(&account.dead_lettered);
            document["dropped"] = by_reason(&account.dropped);
        }
        document
    }

    /// It in words, at a time of the deployment's clock.
    pub fn describe(&self, now: Timestamp) -> String {
        let Self { topic, name, health, counted } = self;
        let text = describe(topic, name, health, now);
        let Some(account) = counted else { return text };
        format!(
            "{text}\nlatency: {}\ndead-lettered: {}\nlost: {}",
            latency::told(&account.latencies),
            told_by_reason(&account.dead_lettered),
            told_by_reason(&account.dropped)
        )
    }
}

/// Adds what became of events that were published in that time.
pub async fn add_counts(
    all: &mut [Health],
    target: &Target,
    since: TimeSpan,
) -> anyhow::Result<()> {
    let ledger = logs::ended(target, since).await?;
    let totals = ledger.totals();
    for one in all {
        let key = SubscriptionKey { topic: one.topic.clone(), name: one.name.clone() };
        one.counted = Some(totals.get(&key).cloned().unwrap_or_default());
    }
    Ok(())
}

fn told_by_reason(reasons: &BTreeMap<String, u64>) -> String {
    let told: Vec<_> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    match told.len() {
        0 => "0".to_owned(),
        1 => told.concat(),
        _ => format!("{} ({})", total(reasons), told.join(", ")),
    }
}

/// All healths, of a topic or of all topics.
pub async fn of_all(api: &ManageApi, topic: Option<&str>) -> anyhow::Result<Vec<Health>> {
    let topics = match topic {
        Some(topic) => vec![lookup::spelled(api, topic).await],
        None => api.topics().await?.iter().map(|one| text_at(one, "/name").to_owned()).collect(),
    };
    let mut found = Vec::new();
    for topic in topics {
        for mut one in api.healths(&topic).await? {
            let name = text_at(&one, "/name").to_owned();
            found.push(Health::of(topic.clone(), name, one["health"].take()));
        }
    }
    Ok(found)
}

pub fn document(all: &[Health]) -> Value {
    let one =
        |one: &Health| json!({"topic": one.topic, "name": one.name, "health": one.document()});
    json!({"value": all.iter().map(one).collect::<Value>()})
}

/// All healths for people at a time of the deployment's clock, those in trouble first.
pub fn table(all: &[Health], now: Timestamp) -> String {
    if all.is_empty() {
        return "There is no event subscription.".to_owned();
    }
    let head = ["EVENT SUBSCRIPTION", "STATE", "NEW EVENTS", "CAUSE", "UNTIL", "WAITING"];
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by_key(|one| (one.is_well(), one.health.get("slow").is_none()));
    let row = |Health { topic, name, health, .. }: &Health| {
        let at = |pointer| text_at(health, pointer).to_owned();
        let waiting = &health["waitingDeliveries"];
        let more = if waiting["isComplete"] == Value::Bool(false) { ">" } else { "" };
        let cause = match health.pointer("/cause/httpStatusCode").and_then(Value::as_u64) {
            Some(status) => format!("{} ({status})", at("/cause/outcome")),
            None => at("/cause/outcome"),
        };
        let effect = match text_at(health, "/newEvents") {
            "Attempted" if health.get("slow").is_some() => "attempted, slow",
            "Attempted" => "attempted",
            "Waits" if wait_is_over(health, now) => "the next probes",
            "Waits" => "wait",
            "Ends" => "END AT ONCE",
            "Held" => "held: paused",
            "NotMatched" => "NONE COMES",
            other => other,
        };
        let waiting = format!("{more}{}", waiting["count"]);
        let until = until(health, now);
        [format!("{topic}/{name}"), at("/state"), effect.to_owned(), cause, until, waiting]
    };
    let rows = std::iter::once(head.map(str::to_owned)).chain(all.iter().map(|one| row(one)));
    let rows: Vec<_> = rows.collect();
    if all.iter().all(|one| one.counted.is_none()) {
        return output::columns(&rows);
    }
    let counts = |one: &&Health| {
        let account = one.counted.clone().unwrap_or_default();
        let [p50, p95, p99] = latency::cells(&account.latencies);
        let [letters, lost] =
            [&account.dead_lettered, &account.dropped].map(|it| total(it).to_string());
        [letters, lost, p50, p95, p99]
    };
    let [p50, p95, p99] = latency::HEAD;
    let head = ["DEAD-LETTERED", "LOST", p50, p95, p99].map(str::to_owned);
    let counted = std::iter::once(head).chain(all.iter().map(counts));
    let rows = rows.into_iter().zip(counted).map(|(row, counts)| {
        let ([whose, state, new, cause, until, waiting], [letters, lost, p50, p95, p99]) =
            (row, counts);
        [whose, state, new, cause, until, waiting, letters, lost, p50, p95, p99]
    });
    output::columns(&rows.collect::<Vec<_>>())
}

/// Until when nothing is attempted; where that is past, what comes next.
pub fn until(health: &Value, now: Timestamp) -> String {
    if !wait_is_over(health, now) {
        return text_at(health, "/until").to_owned();
    }
    let waits = health.pointer("/waitingDeliveries/count") != Some(&json!(0));
    let next = match health.pointer("/nextProbe/delivery") {
        Some(_) => "past: a probe is under way",
        None if waits => "past: the next delivery probes",
        None => "past: the next event probes",
    };
    next.to_owned()
}

/// A health in words: what it is, why, until when, and what that does to events.
fn describe(topic: &str, name: &str, health: &Value, now: Timestamp) -> String {
    let mut all = vec![["event subscription".to_owned(), format!("{topic}/{name}")]];
    all.extend(rows(health, now));
    output::columns(&all)
}

/// The same as names and values.
pub fn rows(health: &Value, now: Timestamp) -> Vec<[String; 2]> {
    let at = |pointer| text_at(health, pointer);
    let row = |name: &str, value: String| [name.to_owned(), value];
    let mut rows = vec![
        row("state", at("/state").to_owned()),
        row("new events", effect(at("/state"), at("/newEvents"))),
    ];
    rows.extend(super::show::reason(health.get("validation")));
    if let Some(pause) = health.get("pause") {
        rows.push(row("paused", super::pause::told(pause)));
    }
    if let Some(outcome) = health.pointer("/cause/outcome").and_then(Value::as_str) {
        let status = health.pointer("/cause/httpStatusCode").and_then(Value::as_u64);
        let status = status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
        rows.push(row("cause", format!("{outcome}{status}")));
        rows.push(row("since", at("/since").to_owned()));
        rows.push(row("until", at("/until").to_owned()));
        let probe = match health.pointer("/nextProbe/delivery").and_then(Value::as_str) {
            Some(delivery) => format!("under way, by delivery {delivery}"),
            None if wait_is_over(health, now) => until(health, now),
            None if health.pointer("/waitingDeliveries/count") == Some(&json!(0)) => {
                format!(
                    "no failed one waits: the next event after {}, or one held back until then, is the probe",
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
        rows.push(row("slow answers", slowness(slow)));
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
    rows
}

fn effect(state: &str, effect: &str) -> String {
    const ENDS: &str =
        "end at once with outcome Probation (dead letter, or drop without a destination)";
    let told = match (state, effect) {
        (_, "Attempted") => "are attempted",
        (_, "Waits") => "wait until a probe succeeds; one of the events is the probe",
        // Delayed delivery alone ends nothing.
        ("DelayedDelivery", "Ends") => return format!("{ENDS}, while the probation lasts"),
        (_, "Ends") => ENDS,
        (_, "Held") => "are held: it is paused (`gridpost subscription resume` ends that)",
        ("NotValidated", _) => {
            "none comes: its endpoint has not consented (`gridpost subscription show` says what is to be \
             done)"
        }
        (_, "NotMatched") => {
            "none comes: it has expired or was not validated (`gridpost subscription show` says)"
        }
        (_, other) => other,
    };
    told.to_owned()
}

fn slowness(slow: &Value) -> String {
    let most = slow["requestsAtMost"].as_u64().map(|most| format!(", {most} at most"));
    format!("{} requests under way{}", slow["requestsUnderWay"], most.unwrap_or_default())
}

pub fn waiting(waiting: &Value) -> String {
    let more = if waiting["isComplete"] == Value::Bool(false) { "more than " } else { "" };
    match waiting["oldestPublishTime"].as_str() {
        Some(oldest) => format!("{more}{}, the oldest published at {oldest}", waiting["count"]),
        None => format!("{more}{}", waiting["count"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21T08:00:00Z.
    const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_000);

    #[test]
    fn those_that_lose_events_stand_before_those_that_are_well() {
        let one = |name: &str, state: &str, lost: u64| {
            let health = json!({"state": state, "newEvents": "Attempted"});
            let mut one = Health::of("t".to_owned(), name.to_owned(), health);
            let dropped = BTreeMap::from([("R".to_owned(), lost)]);
            one.counted = Some(Account { dropped, ..Account::default() });
            one
        };
        let all =
            [one("well", "Healthy", 0), one("loses", "Healthy", 3), one("ill", "Probation", 0)];
        let text = table(&all, NOW);
        let names: Vec<_> =
            text.lines().skip(1).filter_map(|it| it.split_whitespace().next()).collect();
        assert_eq!(names, ["t/loses", "t/ill", "t/well"], "{text}");
    }

    #[test]
    fn once_the_wait_is_over_the_next_event_probes() {
        let health = |until: &str, count: u64| {
            json!({"state": "Probation", "newEvents": "Waits", "failuresInRow": 1,
                "cause": {"outcome": "Busy"}, "since": "S", "until": until,
                "nextProbe": {"notBefore": until},
                "waitingDeliveries": {"count": count, "isComplete": true}})
        };
        let (past, to_come) = ("2026-11-21T08:00:00.000Z", "2026-11-21T08:00:00.001Z");
        let under_way = json!({"until": past, "nextProbe": {"delivery": "d-1"}});
        for (health, want) in [
            (health(to_come, 0), to_come),
            (health(past, 0), "past: the next event probes"),
            (health(past, 2), "past: the next delivery probes"),
            (under_way, "past: a probe is under way"),
        ] {
            assert_eq!(until(&health, NOW), want, "{health}");
            let one = Health::of("t".to_owned(), "s".to_owned(), health);
            assert!(table(&[one], NOW).contains(want));
        }
        let text = describe("t", "s", &health(past, 0), NOW);
        assert!(text.contains("next probe          past: the next event probes"), "{text}");
    }

    #[test]
    fn an_endpoint_that_nothing_waits_for_is_no_deadlock() {
        let health = |count| {
            json!({"state": "Probation", "newEvents": "Waits", "failuresInRow": 1,
            "cause": {"outcome": "Busy"}, "since": "S", "until": "U", "nextProbe": {"notBefore": "U"},
            "waitingDeliveries": {"count": count, "isComplete": true}})
        };
        let text = describe("orders", "billing", &health(0), NOW);
        assert!(text.contains("no failed one waits: the next event after U, or one held back until then, is the probe"), "{text}");
        let text = describe("orders", "billing", &health(2), NOW);
        assert!(text.contains("the first delivery that is due after U"), "{text}");
    }

    #[test]
    fn what_is_in_trouble_stands_first() {
        let one = |name: &str, state: &str, effect: &str| Health {
            topic: "t".to_owned(),
            name: name.to_owned(),
            health: json!({"state": state, "newEvents": effect,
                "waitingDeliveries": {"count": 3, "isComplete": name == "a"}}),
            counted: None,
        };
        let mut all = [one("a", "Healthy", "Attempted"), one("b", "Probation", "Ends")];
        let text = table(&all, NOW);
        let rows: Vec<_> = text.lines().collect();
        assert!(rows[1].starts_with("t/b") && rows[1].contains("END AT ONCE"), "{text}");
        assert!(rows[1].ends_with(">3") && rows[2].starts_with("t/a"), "{text}");
        assert_eq!(document(&all)["value"][1]["health"]["state"], "Probation");
        let mut slow = one("z", "Healthy", "Attempted");
        slow.health["slow"] = json!({"requestsUnderWay": 7});
        let text = table(&[one("a", "Healthy", "Attempted"), slow], NOW);
        let first = text.lines().nth(1).unwrap_or_default();
        assert!(first.starts_with("t/z") && first.contains("attempted, slow"), "{text}");
        let text =
            table(&[one("a", "Healthy", "Attempted"), one("w", "Healthy", "NotMatched")], NOW);
        let first = text.lines().nth(1).unwrap_or_default();
        assert!(first.starts_with("t/w") && first.contains("NONE COMES"), "{text}");
        let told = one("w", "Healthy", "NotMatched").describe(NOW);
        assert!(told.contains("none comes: it has expired or was not validated"), "{told}");
        let mut account = Account::default();
        account.latencies.add(30, 2);
        account.dead_lettered = [("A".to_owned(), 4), ("B".to_owned(), 1)].into();
        account.dropped = [("C".to_owned(), 7)].into();
        (all[0].counted, all[1].counted) = (Some(account), Some(Account::default()));
        let text = table(&all, NOW);
        let rows: Vec<_> = text.lines().collect();
        assert!(rows[0].ends_with("P50       P95       P99"), "{text}");
        assert!(
            rows[1].ends_with("3        5              7     <= 50 ms  <= 50 ms  <= 50 ms"),
            "{text}"
        );
        assert!(rows[2].ends_with("0              0     -         -         -"), "{text}");
        assert_eq!(document(&all)["value"][0]["health"]["latency"]["p99AtMostMs"], 50);
        assert_eq!(document(&all)["value"][0]["health"]["deadLettered"]["total"], 5);
        assert_eq!(document(&all)["value"][0]["health"]["dropped"]["byReason"]["C"], 7);
        let told = all[0].describe(NOW);
        let want = "p99 <= 50 ms (of 2 events delivered)\ndead-lettered: 5 (4 A, 1 B)\nlost: 7 C";
        assert!(told.ends_with(want), "{told}");
    }

    #[test]
    fn a_health_is_told_in_words() {
        let health = json!({
            "state": "Probation", "newEvents": "Ends", "failuresInRow": 1,
            "cause": {"outcome": "Unauthorized", "httpStatusCode": 401},
            "since": "S", "until": "U", "nextProbe": {"notBefore": "U"}, "lastFailureTime": "L",
            "waitingDeliveries": {"count": 20000, "isComplete": false, "oldestPublishTime": "O"},
        });
        let text = describe("orders", "billing", &health, NOW);
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
        let ends = json!({"state": "DelayedDelivery", "newEvents": "Ends"});
        assert!(describe("t", "s", &ends, NOW).contains("while the probation lasts"));
        let text = describe("orders", "billing", &both, NOW);
        for part in ["until P", "until D", "7 requests under way, 50 at most"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let healthy = json!({"state": "Healthy", "newEvents": "Attempted", "failuresInRow": 0,
            "waitingDeliveries": {"count": 0, "isComplete": true}});
        let text = describe("orders", "billing", &healthy, NOW);
        assert!(text.contains("are attempted") && !text.contains("cause"), "{text}");
    }
}

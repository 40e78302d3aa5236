//! `gridpost subscription health`: one endpoint in words, or all of them in a table.

use std::{collections::BTreeMap, iter};

use gridpost_api::{
    health::{
        EndpointState, Health, NamedHealth, NewEvents, SlowEndpoint, WaitCause, WaitingDeliveries,
    },
    journal::{ReasonCounts, latency::LatencyDocument},
    schema::List,
    subscription::EventSubscription,
};
use gridpost_core::{ledger::Account, subscription::SubscriptionKey, time::Timestamp};
use serde::Serialize;

use crate::{
    audit::{counted, document::total},
    given::TimeSpan,
    journal::Journal,
    latency, lookup,
    manage_api::ManageApi,
    output::{self, or_dash},
    target::Target,
};

/// Reads a topic's event subscriptions with their healths; one that was deleted meanwhile has none.
pub async fn of_topic(
    api: &ManageApi,
    topic: &str,
) -> anyhow::Result<Vec<(EventSubscription, Option<Health>)>> {
    let (all, healths) = tokio::try_join!(api.subscriptions(topic), api.healths(topic))?;
    Ok(joined(all, healths))
}

/// Joins event subscriptions with their healths by name.
pub fn joined(
    all: Vec<EventSubscription>,
    healths: Vec<NamedHealth>,
) -> Vec<(EventSubscription, Option<Health>)> {
    let mut by_name: BTreeMap<_, _> =
        healths.into_iter().map(|NamedHealth { name, health }| (name, health)).collect();
    let with_health = |subscription: EventSubscription| {
        let health = by_name.remove(&subscription.name);
        (subscription, health)
    };
    all.into_iter().map(with_health).collect()
}

/// The health of an event subscription's endpoint, and the counts of its events where they were asked for.
#[derive(Debug)]
pub struct Report {
    topic: String,
    name: String,
    health: Health,
    counted: Option<Account>,
}

/// A report as `--json` prints it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportDocument<'r> {
    #[serde(flatten)]
    health: &'r Health,
    latency: Option<LatencyDocument>,
    dead_lettered: Option<ReasonCounts>,
    dropped: Option<ReasonCounts>,
}

#[derive(Serialize)]
struct NamedReport<'r> {
    topic: &'r str,
    name: &'r str,
    health: ReportDocument<'r>,
}

impl Report {
    /// Makes a report without counts.
    pub fn of(topic: String, name: String, health: Health) -> Self {
        Self { topic, name, health, counted: None }
    }

    /// Whether its endpoint is well and none of the counted events ended undelivered. An endpoint that
    /// refuses single events for good is healthy, and loses them.
    fn is_well(&self) -> bool {
        let ended = |account: &Account| total(&account.dropped) + total(&account.dead_lettered);
        self.health.state == EndpointState::Healthy
            && self.health.new_events != NewEvents::NotMatched
            && self.counted.as_ref().is_none_or(|account| ended(account) == 0)
    }

    /// Returns what `--json` prints: the health, latencies and losses.
    pub fn document(&self) -> ReportDocument<'_> {
        let counted = self.counted.as_ref();
        ReportDocument {
            health: &self.health,
            latency: counted.map(|account| (&account.latencies).into()),
            dead_lettered: counted.map(|account| (&account.dead_lettered).into()),
            dropped: counted.map(|account| (&account.dropped).into()),
        }
    }

    fn named(&self) -> NamedReport<'_> {
        NamedReport { topic: &self.topic, name: &self.name, health: self.document() }
    }

    /// Describes it in words, at a time of the deployment's clock.
    pub fn describe(&self, now: Timestamp) -> String {
        let Self { topic, name, health, counted } = self;
        let mut all = vec![["event subscription".to_owned(), format!("{topic}/{name}")]];
        all.extend(rows(health, now));
        let text = output::columns(&all);
        let Some(account) = counted else { return text };
        format!(
            "{text}\nlatency: {}\ndead-lettered: {}\nlost: {}",
            latency::told(&account.latencies),
            describe_reasons(&account.dead_lettered),
            describe_reasons(&account.dropped)
        )
    }

    /// Returns its cells in [`table`].
    fn cells(&self, now: Timestamp) -> [String; 6] {
        let Self { topic, name, health, .. } = self;
        let new_events = match health.new_events {
            NewEvents::Attempted if health.slow.is_some() => "attempted, slow",
            NewEvents::Attempted => "attempted",
            NewEvents::Waits if lookup::wait_is_over(health, now) => "the next probes",
            NewEvents::Waits => "wait",
            NewEvents::Ends => "END AT ONCE",
            NewEvents::Held => "held: paused",
            NewEvents::NotMatched => "NONE COMES",
        };
        let cause = health.cause.as_ref().map(|cause| describe_cause(cause, ""));
        let more = if health.waiting_deliveries.is_complete { "" } else { ">" };
        let failed = format!("{more}{}", health.waiting_deliveries.count);
        [
            format!("{topic}/{name}"),
            health.state.to_string(),
            new_events.to_owned(),
            or_dash(cause),
            until(health, now),
            with_all(health, &failed),
        ]
    }
}

/// Adds what became of events that were published in that time. Returns what is not known of them, in words.
pub async fn add_counts(
    all: &mut [Report],
    target: &Target,
    since: TimeSpan,
    max_dollars: Option<f64>,
) -> anyhow::Result<Vec<String>> {
    let journal = Journal::connect(target, max_dollars).await?;
    // Of one event subscription, its topic's ledger is enough.
    let topic = match &all[..] {
        [only] => Some(only.topic.clone()),
        _ => None,
    };
    let (ledger, gaps) = counted(&journal, target, topic.as_deref(), since).await?;
    let totals = ledger.totals();
    for one in all {
        let key = SubscriptionKey { topic: one.topic.clone(), name: one.name.clone() };
        one.counted = Some(totals.get(&key).cloned().unwrap_or_default());
    }
    Ok(gaps)
}

fn describe_reasons(reasons: &BTreeMap<String, u64>) -> String {
    let all: Vec<_> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    match all.len() {
        0 => "0".to_owned(),
        1 => all.concat(),
        _ => format!("{} ({})", total(reasons), all.join(", ")),
    }
}

/// Reads all healths, of a topic or of all topics.
pub async fn of_all(api: &ManageApi, topic: Option<&str>) -> anyhow::Result<Vec<Report>> {
    let topics = match topic {
        Some(topic) => vec![lookup::spelled(api, topic).await],
        None => api.topics().await?.into_iter().map(|topic| topic.name).collect(),
    };
    let mut found = Vec::new();
    for topic in topics {
        let healths = lookup::named(api, (&topic, None), api.healths(&topic).await).await?;
        let reports = healths.into_iter();
        found.extend(reports.map(|one| Report::of(topic.clone(), one.name, one.health)));
    }
    Ok(found)
}

/// Returns what `--json` prints of all.
pub fn document(all: &[Report]) -> impl Serialize {
    let value = all.iter().map(Report::named).collect::<Vec<_>>();
    List { value, next_link: None }
}

/// Lists all healths at a time of the deployment's clock, those in trouble first.
pub fn table(all: &[Report], now: Timestamp) -> String {
    if all.is_empty() {
        return "There is no event subscription.".to_owned();
    }
    let head = ["EVENT SUBSCRIPTION", "STATE", "NEW EVENTS", "CAUSE", "UNTIL", "WAITING"];
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by_key(|one| (one.is_well(), one.health.slow.is_none()));
    let rows = iter::once(head.map(str::to_owned)).chain(all.iter().map(|one| one.cells(now)));
    if all.iter().all(|one| one.counted.is_none()) {
        return output::columns(&rows.collect::<Vec<_>>());
    }
    let counts = |one: &&Report| {
        let account = one.counted.clone().unwrap_or_default();
        let [p50, p95, p99] = latency::cells(&account.latencies);
        let [letters, lost] =
            [&account.dead_lettered, &account.dropped].map(|it| total(it).to_string());
        [letters, lost, p50, p95, p99]
    };
    let [p50, p95, p99] = latency::HEAD;
    let head = ["DEAD-LETTERED", "LOST", p50, p95, p99].map(str::to_owned);
    let counted = iter::once(head).chain(all.iter().map(counts));
    let rows = rows.zip(counted).map(|(row, counts)| {
        let ([name, state, new, cause, until, waiting], [letters, lost, p50, p95, p99]) =
            (row, counts);
        [name, state, new, cause, until, waiting, letters, lost, p50, p95, p99]
    });
    output::columns(&rows.collect::<Vec<_>>())
}

/// Says until when nothing is attempted; where that is past, what comes next.
pub fn until(health: &Health, now: Timestamp) -> String {
    if !lookup::wait_is_over(health, now) {
        return or_dash(health.until);
    }
    let is_under_way = health.next_probe.is_some_and(|probe| probe.delivery.is_some());
    let next = match health.waiting_deliveries.count {
        _ if is_under_way => "past: a probe is under way",
        0 => "past: the next event probes",
        _ => "past: the next delivery probes",
    };
    next.to_owned()
}

/// Describes a health by names and values: what it is, why, until when, and what that does to events.
pub fn rows(health: &Health, now: Timestamp) -> Vec<[String; 2]> {
    let row = |name: &str, value: String| [name.to_owned(), value];
    let mut rows = vec![
        row("state", health.state.to_string()),
        row("new events", describe_new_events(health).to_owned()),
    ];
    rows.extend(super::show::reason(health.validation.as_ref()));
    if let Some(pause) = &health.pause {
        rows.push(row("paused", super::pause::told(pause)));
    }
    if let Some(cause) = &health.cause {
        rows.push(row("cause", describe_cause(cause, "HTTP ")));
        rows.push(row("since", or_dash(health.since)));
        rows.push(row("until", or_dash(health.until)));
        rows.push(row("next probe", describe_probe(health, now)));
    }
    // One wait alone is the one that is described above.
    if let (Some(probation), Some(delayed)) = (health.probation, health.delayed_delivery) {
        rows.push(row("probation", format!("until {}", probation.until)));
        rows.push(row("delayed delivery", format!("until {}", delayed.until)));
    }
    rows.extend(health.slow.map(|slow| row("slow answers", describe_slow(slow))));
    rows.push(row("failures in a row", health.failures_in_row.to_string()));
    let times =
        [("last failure", health.last_failure_time), ("last recovery", health.recovered_time)];
    rows.extend(times.into_iter().filter_map(|(name, at)| Some(row(name, at?.to_string()))));
    rows.extend(health.waiting_events.map(|events| row("waiting events", events.to_string())));
    rows.push(row("failed and waiting", failed(&health.waiting_deliveries)));
    rows
}

fn describe_cause(cause: &WaitCause, protocol: &str) -> String {
    let status = cause.http_status_code.map(|status| format!(" ({protocol}{status})"));
    format!("{}{}", cause.outcome, status.unwrap_or_default())
}

fn describe_probe(health: &Health, now: Timestamp) -> String {
    let not_before = or_dash(health.next_probe.map(|probe| probe.not_before));
    match health.next_probe.and_then(|probe| probe.delivery) {
        Some(delivery) => format!("under way, by delivery {delivery}"),
        None if lookup::wait_is_over(health, now) => until(health, now),
        None if health.waiting_deliveries.count == 0 => format!(
            "no failed one waits: the next event after {not_before}, or one held back until then, is the probe"
        ),
        None => format!("the first delivery that is due after {not_before}"),
    }
}

fn describe_new_events(health: &Health) -> &'static str {
    match (health.state, health.new_events) {
        (_, NewEvents::Attempted) => "are attempted",
        (_, NewEvents::Waits) => "wait until a probe succeeds; one of the events is the probe",
        // Delayed delivery alone ends nothing.
        (EndpointState::DelayedDelivery, NewEvents::Ends) => {
            "end at once with outcome Probation (dead letter, or drop without a destination), while the \
             probation lasts"
        }
        (_, NewEvents::Ends) => {
            "end at once with outcome Probation (dead letter, or drop without a destination)"
        }
        (_, NewEvents::Held) => "are held: it is paused (`gridpost subscription resume` ends that)",
        (EndpointState::NotValidated, NewEvents::NotMatched) => {
            "none comes: its endpoint has not consented (`gridpost subscription show` says what is to be \
             done)"
        }
        (_, NewEvents::NotMatched) => {
            "none comes: it has expired or was not validated (`gridpost subscription show` says)"
        }
    }
}

fn describe_slow(slow: SlowEndpoint) -> String {
    let most = slow.requests_at_most.map(|most| format!(", {most} at most"));
    format!("{} requests under way{}", slow.requests_under_way, most.unwrap_or_default())
}

/// Describes how many events wait, and how many deliveries have failed and wait, since when.
pub fn waiting(health: &Health) -> String {
    with_all(health, &failed(&health.waiting_deliveries))
}

/// Says how much waits in all, if that is known, besides how much has failed.
fn with_all(health: &Health, failed: &str) -> String {
    match health.waiting_events {
        Some(0) => "0".to_owned(),
        Some(events) => format!("{events} (failed: {failed})"),
        None => format!("failed: {failed}"),
    }
}

fn failed(waiting: &WaitingDeliveries) -> String {
    let WaitingDeliveries { count, is_complete, oldest_publish_time } = *waiting;
    let more = if is_complete { "" } else { "more than " };
    match oldest_publish_time {
        Some(oldest) => format!("{more}{count}, the oldest published at {oldest}"),
        None => format!("{more}{count}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::documents;

    /// 2026-11-21T08:00:00Z.
    const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_000);

    fn health(patch: &Value) -> Health {
        serde_json::from_value(documents::health(patch)).expect("a health")
    }

    fn report(name: &str, patch: &Value) -> Report {
        Report::of("t".to_owned(), name.to_owned(), health(patch))
    }

    fn json(document: impl Serialize) -> Value {
        serde_json::to_value(document).expect("JSON")
    }

    fn describe(patch: &Value) -> String {
        report("s", patch).describe(NOW)
    }

    #[test]
    fn those_that_lose_events_stand_before_those_that_are_well() {
        let one = |name: &str, state: &str, lost: u64| {
            let mut one = report(name, &json!({ "state": state }));
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
        let waits = |until: &str, count: u64| {
            json!({"state": "Probation", "newEvents": "Waits", "failuresInRow": 1,
                "cause": {"outcome": "Busy"}, "since": "2026-11-21T07:59:00.000Z", "until": until,
                "nextProbe": {"notBefore": until}, "waitingDeliveries": {"count": count}})
        };
        let (past, to_come) = ("2026-11-21T08:00:00.000Z", "2026-11-21T08:00:00.001Z");
        let delivery = "00000000-0000-0000-0000-000000000001";
        let under_way =
            json!({"until": past, "nextProbe": {"notBefore": past, "delivery": delivery}});
        for (patch, want) in [
            (waits(to_come, 0), to_come),
            (waits(past, 0), "past: the next event probes"),
            (waits(past, 2), "past: the next delivery probes"),
            (under_way, "past: a probe is under way"),
        ] {
            assert_eq!(until(&health(&patch), NOW), want, "{patch}");
            assert!(table(&[report("s", &patch)], NOW).contains(want));
        }
        let text = describe(&waits(past, 0));
        assert!(text.contains("next probe          past: the next event probes"), "{text}");
    }

    #[test]
    fn what_is_in_trouble_stands_first() {
        let one = |name: &str, state: &str, effect: &str| {
            let waiting = json!({"count": 3, "isComplete": name == "a"});
            let mut patch =
                json!({"state": state, "newEvents": effect, "waitingDeliveries": waiting});
            if name == "b" {
                patch["waitingEvents"] = json!(1_000);
            }
            report(name, &patch)
        };
        let mut all = [one("a", "Healthy", "Attempted"), one("b", "Probation", "Ends")];
        let text = table(&all, NOW);
        let rows: Vec<_> = text.lines().collect();
        assert!(rows[1].starts_with("t/b") && rows[1].contains("END AT ONCE"), "{text}");
        assert!(rows[1].ends_with("  1000 (failed: >3)"), "{text}");
        assert!(rows[2].starts_with("t/a") && rows[2].ends_with("  failed: 3"), "{text}");
        assert_eq!(json(document(&all))["value"][1]["health"]["state"], "Probation");
        let slow = report("z", &json!({"slow": {"requestsUnderWay": 7}}));
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
            rows[1].contains("  failed: 3")
                && rows[1].ends_with("  5              7     <= 50 ms  <= 50 ms  <= 50 ms"),
            "{text}"
        );
        assert!(rows[2].ends_with("0              0     -         -         -"), "{text}");
        let first = json(document(&all))["value"][0]["health"].take();
        assert_eq!(first["latency"]["p99AtMostMs"], 50);
        assert_eq!(first["deadLettered"]["total"], 5);
        assert_eq!(first["dropped"]["byReason"]["C"], 7);
        let told = all[0].describe(NOW);
        let want = "p99 <= 50 ms (of 2 events delivered)\ndead-lettered: 5 (4 A, 1 B)\nlost: 7 C";
        assert!(told.ends_with(want), "{told}");
    }

    #[test]
    fn a_health_is_told_in_words() {
        let at = |hour: u32| format!("2026-11-21T{hour}:00:00.000Z");
        let text = describe(&json!({
            "state": "Probation", "newEvents": "Ends", "failuresInRow": 1,
            "cause": {"outcome": "Unauthorized", "httpStatusCode": 401},
            "since": at(10), "until": at(11), "nextProbe": {"notBefore": at(11)}, "lastFailureTime": at(10),
            "waitingDeliveries": {"count": 20000, "isComplete": false, "oldestPublishTime": at(12)},
        }));
        for part in [
            "t/s",
            "Probation",
            "end at once",
            "Unauthorized (HTTP 401)",
            "due after 2026-11-21T11",
            "failed and waiting  more than 20000, the oldest published at 2026-11-21T12",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        for part in ["probation  ", "slow", "waiting events"] {
            assert!(!text.contains(part), "{part} is in\n{text}");
        }
        let text = describe(&json!({"waitingEvents": 7}));
        assert!(text.contains("waiting events      7\nfailed and waiting  0"), "{text}");
        let ends = json!({"state": "DelayedDelivery", "newEvents": "Ends"});
        assert!(describe(&ends).contains("while the probation lasts"));
        let text = describe(&json!({
            "state": "DelayedDelivery", "newEvents": "Waits", "failuresInRow": 10,
            "cause": {"outcome": "TimedOut"}, "since": at(10), "until": at(14),
            "probation": {"since": at(10), "until": at(13)},
            "delayedDelivery": {"since": at(10), "until": at(14), "step": 1},
            "slow": {"until": at(15), "requestsUnderWay": 7, "requestsAtMost": 50},
        }));
        for part in
            ["until 2026-11-21T13", "until 2026-11-21T14", "7 requests under way, 50 at most"]
        {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let text = describe(&json!({}));
        assert!(text.contains("are attempted") && !text.contains("cause"), "{text}");
    }
}

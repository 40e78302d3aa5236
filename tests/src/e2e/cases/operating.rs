//! How an operator sees and changes deliveries under way.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use gridpost_core::metric;
use gridpost_simulation::metric_line;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::e2e::{
    fixture::{CLOUD_EVENTS, EVENT_GRID, Fixture, SOON},
    inside::until,
    receiver::{Arrival, Reply, describe},
};

/// 404 puts the event subscription on probation for 5 min: its health says so and why. After a
/// reset the next event is attempted at once.
pub async fn an_endpoints_health_is_told_and_reset(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("health", EVENT_GRID).await?;
    let replies = [Reply::prompt(404), Reply::prompt(200)];
    let endpoint = topic.subscribe("all", &replies, json!({})).await?;
    let healthy = fixture.api.health(&topic.name, "all").await?;
    ensure!(healthy["state"] == "Healthy" && healthy["newEvents"] == "Attempted", "{healthy}");

    topic.publish(&[topic.plain_event("first")]).await?;
    endpoint.wait_for(1, SOON).await?;
    let is_seen = |health: &Value| {
        health["state"] == "Probation" && health["waitingDeliveries"]["count"] == 1
    };
    let health = fixture.health_when(&topic.name, "all", is_seen).await?;
    let cause = json!({"outcome": "NotFound", "httpStatusCode": 404});
    ensure!(health["cause"] == cause && health["newEvents"] == "Waits", "{health}");
    ensure!(health["failuresInRow"] == 1 && health["until"].is_string(), "{health}");

    let reset = fixture.api.reset_health(&topic.name, "all").await?;
    ensure!(reset["state"] == "Recovering" && reset["failuresInRow"] == 0, "{reset}");
    // Instances of dispatch keep a health for two seconds.
    sleep(Duration::from_secs(3)).await;
    topic.publish(&[topic.plain_event("second")]).await?;
    let attempts = endpoint.wait_for(2, SOON).await?;
    ensure!(attempts[1].ids() == ["second"], "{}", describe(&attempts));
    Ok(())
}

/// A failed attempt and the success after it are self-contained log lines; both contain the
/// publisher's trace, and both requests carried it to the endpoint.
pub async fn attempts_are_logged_with_their_trace(fixture: &Fixture) -> anyhow::Result<()> {
    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let topic = fixture.topic("traced", CLOUD_EVENTS).await?;
    let replies = [Reply::prompt(500), Reply::prompt(200)];
    let endpoint = topic.subscribe("all", &replies, json!({})).await?;
    let mut event = topic.plain_event("traced-1");
    event["traceparent"] = json!(TRACE);
    topic.publish(&[event]).await?;
    let attempts = endpoint.wait_for(2, 3 * SOON).await?;
    for attempt in &attempts {
        ensure!(attempt.header("traceparent") == TRACE, "{}", describe(&attempts));
    }
    let whose = format!("{}/all", topic.name);
    let lines = || attempt_lines(fixture, &whose);
    let lines = until("two attempts' lines", SOON, lines, |lines| lines.len() >= 2).await?;
    let seen = |line: &Value| {
        let ids = line["event_ids"] == "[\"traced-1\"]" && line["traceparent"] == TRACE;
        ids && line["duration_ms"].is_u64() && line["publish_time"].is_string()
    };
    ensure!(lines.iter().all(seen), "{lines:?}");
    let (failed, succeeded) = (&lines[0], &lines[1]);
    let of = |line: &Value, name: &str| line[name].clone();
    ensure!(
        of(failed, "attempt") == 1
            && of(failed, "status") == 500
            && of(failed, "decision") == "Retry"
            && ["Schedule", "LeastWait"].iter().any(|cause| of(failed, "because") == *cause)
            && of(failed, "due").is_string(),
        "{failed}"
    );
    ensure!(
        of(succeeded, "attempt") == 2 && of(succeeded, "decision") == "Delivered",
        "{succeeded}"
    );
    ensure!(failed["delivery.id"] == succeeded["delivery.id"], "{lines:?}");
    Ok(())
}

/// A delivery that waits for a minute after its second attempt is shown with both attempts and with
/// the next one; when resent, it is attempted now.
pub async fn a_delivery_is_shown_and_resent(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("resent", EVENT_GRID).await?;
    let policy = json!({"retryPolicy": {"schedule": [1, 7_200]}});
    let replies = [Reply::prompt(500), Reply::prompt(502), Reply::prompt(200)];
    let endpoint = topic.subscribe("all", &replies, policy).await?;
    topic.publish(&[topic.plain_event("first")]).await?;
    endpoint.wait_for(2, 2 * SOON).await?;
    let listed = || async {
        let mut found = None;
        let take = |one: &Value| {
            if one["deliveryAttempts"] == 2 {
                found = one["id"].as_str().map(str::to_owned);
            }
        };
        fixture.api.each_delivery(&topic.name, "all", take).await?;
        Ok(found)
    };
    let id = until("it, listed with two attempts", SOON, listed, Option::is_some).await?;
    let id = id.context("it was found")?;
    let shown = fixture.api.delivery(&topic.name, "all", &id).await?;
    let statuses: Vec<_> = (0..2).map(|n| shown["attempts"][n]["httpStatusCode"].clone()).collect();
    ensure!(statuses == [500, 502] && shown["next"]["because"] == "Schedule", "{shown}");
    ensure!(shown["next"]["attempt"] == 3, "{shown}");

    // The delivery is parked or hidden a moment after its wait was recorded.
    sleep(Duration::from_secs(2)).await;
    let done = fixture.api.resend(&topic.name, "all", &id).await?;
    ensure!(done["result"] == "Sent", "{done}");
    let attempts = endpoint.wait_for(3, 2 * SOON).await?;
    ensure!(attempts[2].header("aeg-delivery-count") == "2", "{}", describe(&attempts));
    let shown = || fixture.api.delivery(&topic.name, "all", &id);
    let is_delivered = |shown: &Value| shown["status"] == "Delivered";
    let shown = until("its delivery", SOON, shown, is_delivered).await?;
    ensure!(shown["attempts"][2]["outcome"] == "Delivered", "{shown}");
    Ok(())
}

/// One event subscription matches an event, another does not, and explain says why.
pub async fn an_event_is_explained(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("explained", EVENT_GRID).await?;
    topic.subscribe("all", &[Reply::prompt(200)], json!({})).await?;
    let filter = json!({"filter": {"subjectBeginsWith": "elsewhere"}});
    topic.subscribe("some", &[Reply::prompt(200)], filter).await?;
    let event = serde_json::value::RawValue::from_string(topic.plain_event("first").to_string())?;
    let explained = fixture.api.explain(&topic.name, &event).await?;
    let (all, some) = (&explained["value"][0], &explained["value"][1]);
    ensure!(all["eventSubscription"] == "all" && all["matches"] == true, "{explained}");
    let path = &some["refusedBy"][0]["path"];
    ensure!(some["matches"] == false && path == "filter.subjectBeginsWith", "{explained}");
    Ok(())
}

/// All metrics that the deployment's functions have written match the table, and they include a
/// delivery that fails, is retried and succeeds.
pub async fn metrics_are_those_of_the_table(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("metrics", EVENT_GRID).await?;
    let replies = [Reply::prompt(503), Reply::prompt(200)];
    let endpoint = topic.subscribe("all", &replies, json!({})).await?;
    let refusing = [Reply::prompt(400)];
    let filter = json!({"filter": {"subjectBeginsWith": "e2e"}});
    let dropped = topic.subscribe("drops", &refusing, filter).await?;
    topic.publish(&[topic.plain_event("first")]).await?;
    topic.publish(&[topic.event("second", "Gridpost.Test", "elsewhere")]).await?;
    dropped.wait_for(1, SOON).await?;
    // The first event, and, after ten seconds of probation and thirty of least wait, both.
    let answered =
        |attempts: &[Arrival]| attempts.iter().filter(|it| it.answered == Some(200)).count();
    endpoint.wait_until("both delivered", 4 * SOON, |attempts| answered(attempts) >= 2).await?;
    let wanted = [
        metric::PUBLISH_SUCCESS_COUNT,
        metric::MATCHED_EVENT_COUNT,
        metric::DELIVERY_SUCCESS_COUNT,
        metric::DELIVERY_ATTEMPT_FAIL_COUNT,
        metric::DROPPED_EVENT_COUNT,
        metric::PROBATION_COUNT,
        metric::PUBLISH_SUCCESS_LATENCY_IN_MS,
        metric::DESTINATION_PROCESSING_DURATION_IN_MS,
        metric::DELIVERY_LATENCY_IN_MS,
    ];
    let missing = || async {
        let mut seen = BTreeSet::new();
        for function in ["ingest", "dispatch", "dead-letter"] {
            for line in fixture.log_lines(function, "CloudWatchMetrics").await? {
                let name = metric_line::check(&line).map_err(anyhow::Error::msg)?;
                let is_own = line.contains(&format!("\"Topic\":\"{}\"", topic.name));
                seen.extend(name.filter(|_| is_own));
            }
        }
        Ok(wanted.into_iter().filter(|name| !seen.contains(*name)).collect::<Vec<_>>())
    };
    until("no line missing", SOON, missing, Vec::is_empty).await.map(drop)
}

/// The attempts of an event subscription, as dispatch logged them, by their number.
async fn attempt_lines(fixture: &Fixture, whose: &str) -> anyhow::Result<Vec<Value>> {
    let lines = fixture.log_lines("dispatch", whose).await?;
    let lines = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut lines: Vec<_> =
        lines.filter(|line| line["subscription"] == whose && line["attempt"].is_u64()).collect();
    lines.sort_by_key(|line| line["attempt"].as_u64());
    Ok(lines)
}

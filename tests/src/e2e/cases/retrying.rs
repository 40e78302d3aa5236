//! Failed attempts are repeated when they should be, and no more often.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use crate::e2e::{
    fixture::{EVENT_GRID, Fixture, SOON},
    receiver::{Reply, describe},
    schedule::{self, EARLY},
};

/// A webhook that answers 500 sees attempts at 0, 10, 30 and 60 s.
pub async fn a_failing_webhook_sees_the_schedule(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("failing", EVENT_GRID).await?;
    let endpoint = topic.subscribe("all", &[Reply::prompt(500)], json!({})).await?;
    topic.publish(&[topic.plain_event("fails")]).await?;
    let attempts = endpoint.wait_for(4, Duration::from_secs(90)).await?;
    schedule::check(&attempts, &[0, 10, 30, 60])?;
    // A retry is the same to the byte.
    ensure!(attempts.iter().all(|attempt| attempt.body == attempts[0].body), "a body changed");
    Ok(())
}

/// A webhook that answers 500 twice and then 200 is left alone afterwards.
pub async fn two_failures_then_success(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("twice", EVENT_GRID).await?;
    let replies = [Reply::prompt(500), Reply::prompt(500), Reply::prompt(200)];
    let endpoint = topic.subscribe("all", &replies, json!({})).await?;
    topic.publish(&[topic.plain_event("third-time")]).await?;
    let attempts = endpoint.wait_for(3, Duration::from_secs(60)).await?;
    schedule::check(&attempts, &[0, 10, 30])?;
    // The next step would be at 60 s.
    sleep_until(attempts[0].at + Duration::from_secs(68)).await;
    let attempts = endpoint.deliveries();
    ensure!(attempts.len() == 3, "attempts after the success:\n{}", describe(&attempts));
    Ok(())
}

/// `retryPolicy.schedule` replaces the profile's steps, and its last gap repeats.
pub async fn an_own_schedule_is_kept(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("own-schedule", EVENT_GRID).await?;
    let policy = json!({"retryPolicy": {"schedule": [1, 2, 3]}});
    let mut replies = vec![Reply::prompt(500); 8];
    replies.push(Reply::prompt(200));
    let endpoint = topic.subscribe("all", &replies, policy).await?;
    topic.publish(&[topic.plain_event("quick")]).await?;
    let attempts = endpoint.wait_for(9, Duration::from_secs(40)).await?;
    let counts: Vec<_> = attempts.iter().map(|a| a.header("aeg-delivery-count")).collect();
    ensure!(counts == ["0", "1", "2", "3", "4", "5", "6", "7", "8"], "{}", describe(&attempts));
    // Steps at 1, 2, 3, ... 8 s. Queues count in whole seconds: careless rounding up would skip
    // every other step, and then no attempt is nearer than two steps to the one before. A busy
    // machine lengthens some of the ways between attempts, hardly all.
    let last = attempts[8].at - attempts[0].at;
    ensure!(last + EARLY >= Duration::from_secs(8), "too early:\n{}", describe(&attempts));
    let gaps = attempts.windows(2).map(|pair| pair[1].at - pair[0].at);
    let kept = gaps.filter(|gap| *gap < Duration::from_millis(1_700)).count();
    ensure!(kept >= 3, "steps were passed over:\n{}", describe(&attempts));
    Ok(())
}

/// `maxDeliveryAttempts` is the number of attempts, and then the event ends.
pub async fn the_last_attempt_ends_delivery(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("max-attempts", EVENT_GRID).await?;
    let properties = json!({
        "retryPolicy": {"maxDeliveryAttempts": 3, "schedule": [1, 3]},
        "deadLetterDestination": topic.dead_letter_destination(),
    });
    let endpoint = topic.subscribe("three", &[Reply::prompt(500)], properties).await?;
    topic.publish(&[topic.plain_event("spent")]).await?;
    let objects = fixture.dead_letters(&topic.prefix(), 1).await;
    let attempts = endpoint.deliveries();
    let objects = objects.map_err(|err| err.context(describe(&attempts)))?;
    ensure!(attempts.len() == 3, "not three attempts:\n{}", describe(&attempts));
    let record = &objects[0].records[0];
    ensure!(record["deadLetterReason"] == "MaxDeliveryAttemptsExceeded", "{record}");
    ensure!(record["deliveryAttempts"] == 3 && record["lastHttpStatusCode"] == 500, "{record}");
    ensure!(record["lastDeliveryOutcome"] == "ServerError", "{record}");
    sleep(Duration::from_secs(5)).await;
    ensure!(endpoint.deliveries().len() == 3, "an attempt after the end");
    Ok(())
}

/// An answer of 200 after 35 s comes too late for its attempt, which counts as timed out, but takes
/// the delivery out of retry: no second request.
pub async fn a_late_success_cancels_the_retry(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("late", EVENT_GRID).await?;
    let replies = [Reply::late(200, 35), Reply::prompt(200)];
    let endpoint = topic.subscribe("all", &replies, json!({})).await?;
    topic.publish(&[topic.plain_event("late")]).await?;
    let first = endpoint.wait_for(1, SOON).await?;
    // It is queued at 30 s for the step at 60 s, plus at most 3 s of jitter and a second of rounding.
    let over = first[0].at + Duration::from_secs(72);
    sleep_until(over).await;
    let attempts = endpoint.deliveries();
    ensure!(attempts.len() == 1, "a second request after the success:\n{}", describe(&attempts));
    ensure!(attempts[0].answered == Some(200), "the connection was not kept open for 35 s");
    let noted =
        fixture.log_lines("dispatch", "attempt succeeded late and is taken out of retry").await?;
    // By its event, too, so that `explain` and `tail` tell of it.
    let names_event = |line: &String| line.contains(r#"[\"late\"]"#);
    ensure!(noted.iter().any(names_event), "the late success was not noticed: {noted:?}");
    // The endpoint is healthy again: new events go at once.
    let published = Instant::now();
    topic.publish(&[topic.plain_event("next")]).await?;
    let attempts = endpoint.wait_for(2, SOON).await?;
    ensure!(attempts[1].at - published < Duration::from_secs(9), "{}", describe(&attempts));
    Ok(())
}

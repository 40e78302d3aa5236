//! Dead letters are read, redriven and purged.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use gridpost_api::requests::PurgeDeadLettersInput;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    e2e::{
        fixture::{EVENT_GRID, Fixture, SOON, Topic},
        inside,
        receiver::{Arrival, Endpoint, Reply},
    },
    program,
};

/// Events of the small case.
const FEW: usize = 24;

/// Events of the outage.
const MANY: usize = 2_000;

/// The event subscription of both.
const NAME: &str = "billing";

/// The command line lists, counts and shows dead letters with their events, redrives them exactly
/// once, and purges them; the ledger closes.
pub async fn dead_letters_are_seen_sent_again_and_purged(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("redrive", EVENT_GRID).await?;
    let endpoint = refused(fixture, &topic, FEW, 6).await?;
    let all = PurgeDeadLettersInput::default();
    let listed = fixture.api.dead_letters(&topic.name, NAME, &all, 10).await?;
    let id = listed.first().and_then(|one| one["id"].as_str()).context("no id")?;
    let shown = fixture.api.dead_letter(&topic.name, NAME, id).await?;
    let event: Value = serde_json::from_str(shown["event"].as_str().unwrap_or_default())?;
    ensure!(event["id"] == shown["eventId"] && event["deadLetterReason"].is_null(), "{shown}");
    let reason = Some("UndeliverableDueToHttpBadRequest".to_owned());
    let other = PurgeDeadLettersInput { event_type: Some("none".to_owned()), ..all.clone() };
    ensure!(
        count(fixture, &topic, &PurgeDeadLettersInput { reason, ..all.clone() }).await? == FEW,
        "by reason"
    );
    ensure!(count(fixture, &topic, &other).await? == 0, "by type");
    let one = PurgeDeadLettersInput { event_id: Some("e-7".to_owned()), ..all.clone() };
    ensure!(count(fixture, &topic, &one).await? == 1, "by event");

    endpoint.answer(&[Reply::prompt(200)]);
    let arrived = endpoint.deliveries().len();
    redrive(fixture, &topic, &["--dry-run"]).await?;
    ensure!(endpoint.deliveries().len() == arrived, "a dry run sends nothing");
    redrive(fixture, &topic, &["--rate", "50"]).await?;
    all_arrive(&endpoint, arrived, FEW).await?;
    let again = redrive_jobs(fixture, &topic, &["--rate", "50"]).await?;
    ensure!(again["leftOut"]["sentBefore"] == FEW && again["redriven"] == 0, "{again:#}");
    let audit = super::audit::settled(fixture, &topic.name).await?;
    ensure!(audit["verdict"] == "balances", "{audit:#}");
    let account = &audit["eventSubscriptions"][0];
    ensure!(account["redriven"] == FEW && account["delivered"] == FEW, "{account:#}");

    let purged = fixture.api.purge_dead_letters(&topic.name, NAME).await?;
    ensure!(purged == FEW as u64, "{purged} were purged");
    ensure!(count(fixture, &topic, &all).await? == 0, "purged ones are gone");
    Ok(())
}

/// An endpoint dies, and its health says why; 2,000 events outlive their minute and become dead
/// letters. It comes back, and they are redriven. Meanwhile the redrive function is killed, and the
/// job is canceled and resumed. Everything arrives, and only events that were in flight at the kill
/// arrive twice; the ledger closes.
pub async fn an_outage_is_recovered_from(fixture: &Fixture) -> anyhow::Result<()> {
    const RATE: usize = 100;
    let topic = fixture.topic("outage", EVENT_GRID).await?;
    let down = json!({"retryPolicy": {"eventTimeToLiveInMinutes": 1}});
    let endpoint = subscribe(&topic, 503, 500, down).await?;
    publish(&topic, MANY, 500).await?;
    // The first failure holds back deliveries that were not attempted yet: these have no state.
    let is_waiting = |health: &Value| {
        health["state"] == "Probation" && health["waitingDeliveries"]["count"].as_u64() >= Some(1)
    };
    let health = fixture.health_when(&topic.name, NAME, is_waiting).await?;
    let cause = json!({"outcome": "Busy", "httpStatusCode": 503});
    ensure!(health["cause"] == cause && health["newEvents"] == "Waits", "{health:#}");
    dead_letters_are_written(fixture, &topic, MANY).await?;
    endpoint.answer(&[Reply::prompt(200)]);
    fixture.api.reset_health(&topic.name, NAME).await?;
    let before = endpoint.deliveries().len();
    let asked = json!({"eventsPerSecond": RATE});
    let begun = fixture.api.redrive(&topic.name, NAME, &asked).await?;
    let id = begun["id"].as_str().context("no id")?.to_owned();

    let is_under_way = |job: &Value| job["redriven"].as_u64().is_some_and(|sent| sent >= 300);
    wait_for(fixture, &topic, &id, is_under_way).await?;
    let killed = inside::kill(fixture.ground.home(), "gridpost-redrive");
    ensure!(killed > 0, "no process of redrive was there");
    wait_for(fixture, &topic, &id, |job| job["redriven"].as_u64() >= Some(800)).await?;
    let canceled = fixture.api.cancel_redrive(&topic.name, NAME, &id).await?;
    ensure!(canceled["status"] == "Canceled", "{canceled:#}");
    sleep(Duration::from_secs(5)).await;
    let still = fixture.api.redrive_job(&topic.name, NAME, &id).await?;
    ensure!(still["redriven"].as_u64() < Some(MANY as u64), "it did not stop: {still:#}");
    fixture.api.resume_redrive(&topic.name, NAME, &id).await?;
    let done = wait_for(fixture, &topic, &id, |job| job["status"] == "Completed").await?;
    ensure!(done["redriven"] == MANY && done["counted"] == MANY, "{done:#}");

    all_arrive(&endpoint, before, MANY).await?;
    let arrived: usize = endpoint.deliveries()[before..].iter().map(|it| it.ids().len()).sum();
    ensure!(arrived <= MANY + RATE / 2, "{arrived} arrived: more than a batch came twice");
    // A batch that came twice leaves no exact balance to wait for. If a busy machine missed a
    // response, the request is repeated after two minutes.
    let end = Instant::now() + Duration::from_secs(300);
    loop {
        let audit = fixture.audit(&topic.name, 0).await?;
        if audit["verdict"] == "balances" {
            return Ok(());
        }
        if Instant::now() >= end {
            anyhow::bail!("{audit:#}\n{}", attempts_of(fixture, &topic).await?);
        }
        sleep(Duration::from_secs(2)).await;
    }
}

/// The local stack's topic for dead letters gets events that say whose they are, where, how many
/// and why.
pub async fn a_topic_is_told_of_dead_letters(fixture: &Fixture) -> anyhow::Result<()> {
    const TOLD: &str = "dead-letters";
    let topic = fixture.topic("told", EVENT_GRID).await?;
    let subject = format!("/topics/{}/eventSubscriptions/{NAME}", topic.name);
    fixture.api.put_topic(TOLD, &json!({})).await?;
    let endpoint = fixture.receiver.endpoint("told", &[Reply::prompt(200)]);
    let document = json!({"properties": {
        "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": endpoint.url()}},
        "filter": {"subjectEndsWith": subject},
    }});
    fixture.api.put_subscription(TOLD, &topic.name, &document).await?;
    refused(fixture, &topic, 5, 5).await?;
    let arrived = endpoint.wait_for(1, 2 * SOON).await?;
    let event = arrived[0].events().into_iter().next().context("no event")?;
    let object = event["data"]["objectName"].as_str().context("no object")?;
    ensure!(object.starts_with(&format!("{}BILLING/", topic.prefix())), "{event:#}");
    ensure!(event["eventType"] == "Gridpost.DeadLettersWritten", "{event:#}");
    ensure!(event["data"]["eventCount"] == 5, "{event:#}");
    ensure!(
        event["data"]["reasons"] == json!({"UndeliverableDueToHttpBadRequest": 5}),
        "{event:#}"
    );
    Ok(())
}

/// Publishes events to an endpoint that answers 400, and waits for their dead letters.
async fn refused(
    fixture: &Fixture,
    topic: &Topic<'_>,
    events: usize,
    batch: usize,
) -> anyhow::Result<Endpoint> {
    let endpoint = subscribe(topic, 400, batch, json!({})).await?;
    publish(topic, events, batch).await?;
    dead_letters_are_written(fixture, topic, events).await?;
    Ok(endpoint)
}

/// An endpoint with that answer, batches of that size, and dead letters.
async fn subscribe(
    topic: &Topic<'_>,
    status: u16,
    batch: usize,
    mut properties: Value,
) -> anyhow::Result<Endpoint> {
    properties["deadLetterDestination"] = topic.dead_letter_destination();
    properties["destination"] =
        json!({"maxEventsPerBatch": batch, "preferredBatchSizeInKilobytes": 1_024});
    topic.subscribe(NAME, &[Reply::prompt(status)], properties).await
}

async fn publish(topic: &Topic<'_>, events: usize, batch: usize) -> anyhow::Result<()> {
    let all: Vec<_> = (0..events).map(|index| topic.plain_event(&format!("e-{index}"))).collect();
    for some in all.chunks(batch) {
        topic.publish(some).await?;
    }
    Ok(())
}

async fn dead_letters_are_written(
    fixture: &Fixture,
    topic: &Topic<'_>,
    events: usize,
) -> anyhow::Result<()> {
    let choice = PurgeDeadLettersInput::default();
    let (what, written) = (format!("{events} dead letters"), || count(fixture, topic, &choice));
    inside::until(&what, Duration::from_secs(300), written, |written| *written >= events).await?;
    // A redrive leaves out objects that were written in the two seconds before it.
    sleep(Duration::from_secs(3)).await;
    Ok(())
}

/// The failed attempts in dispatch's log.
async fn attempts_of(fixture: &Fixture, topic: &Topic<'_>) -> anyhow::Result<String> {
    let lines = fixture.log_lines("dispatch", &topic.name).await?;
    let failed = lines.iter().filter(|line| line.contains("attempt failed"));
    Ok(failed.map(String::as_str).collect::<Vec<_>>().join("\n"))
}

async fn count(
    fixture: &Fixture,
    topic: &Topic<'_>,
    choice: &PurgeDeadLettersInput,
) -> anyhow::Result<usize> {
    let events = fixture.api.count_dead_letters(&topic.name, NAME, choice).await?;
    Ok(usize::try_from(events)?)
}

/// Waits until this many different events have come in requests, starting with that one.
async fn all_arrive(endpoint: &Endpoint, first: usize, events: usize) -> anyhow::Result<()> {
    let what = format!("{events} events");
    let is_all = |arrivals: &[Arrival]| {
        let ids: BTreeSet<_> = arrivals.iter().skip(first).flat_map(|it| it.ids()).collect();
        ids.len() == events
    };
    endpoint.wait_until(&what, Duration::from_secs(240), is_all).await.map(drop)
}

/// Runs `gridpost dead-letter redrive` to its end.
async fn redrive(fixture: &Fixture, topic: &Topic<'_>, flags: &[&str]) -> anyhow::Result<()> {
    let mut command = tokio::process::Command::new(program::gridpost().await?);
    command.arg("--home").arg(fixture.ground.home().root());
    command.args(["--json", "dead-letter", "redrive", "--topic", &topic.name]);
    let ended =
        command.args(["--subscription", NAME]).args(flags).kill_on_drop(true).output().await?;
    let told = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "gridpost dead-letter redrive: {}: {told}", ended.status);
    Ok(())
}

/// Redrives, and returns the job.
async fn redrive_jobs(
    fixture: &Fixture,
    topic: &Topic<'_>,
    flags: &[&str],
) -> anyhow::Result<Value> {
    redrive(fixture, topic, flags).await?;
    let jobs = fixture.api.redrives(&topic.name, NAME).await?;
    jobs.into_iter().next().context("no job is listed")
}

/// Reads a job until it meets the condition.
async fn wait_for(
    fixture: &Fixture,
    topic: &Topic<'_>,
    id: &str,
    is_it: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    // A function that was killed holds its job for the rest of its invocation.
    let job = || fixture.api.redrive_job(&topic.name, NAME, id);
    inside::until("the job", Duration::from_secs(300), job, is_it).await
}

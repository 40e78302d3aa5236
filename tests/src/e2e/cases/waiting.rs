//! Messages that wait for an operator: poison messages and parked deliveries.

use anyhow::{Context, ensure};
use gridpost_api::requests::ParkedInput;
use gridpost_core::{
    delivery::{Delivery, dead_letter::Ended},
    event::DeliverySchema,
    retry::{EndReason, attempts::Attempts, profile::ProfileName},
    subscription::DeadLetterDestination,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::e2e::{
    fixture::{EVENT_GRID, Fixture, SOON, Topic},
    inside::until,
    receiver::{Reply, describe},
};

/// A message that dispatch cannot read goes to the poison queue, is listed with its origin, is sent
/// back only by name, and is purged. A readable message goes back to its queue and is delivered, or
/// written as a dead letter.
pub async fn poison_is_seen_sent_back_and_purged(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("poison", EVENT_GRID).await?;
    let policy = json!({"retryPolicy": {"schedule": [3_600]}});
    let replies = [Reply::prompt(500), Reply::prompt(200)];
    let endpoint = topic.subscribe("all", &replies, policy).await?;
    topic.publish(&[topic.plain_event("first")]).await?;
    endpoint.wait_for(1, SOON).await?;
    let copy = copy_of_queued(fixture, &topic).await?;
    fixture.send_to("poison", &copy.encode()).await?;
    fixture.send_to("poison", &json!(ended(fixture, &topic, &copy)).to_string()).await?;
    let rubbish = format!("rubbish of {}", topic.name);
    fixture.send_to("dispatch", &rubbish).await?;

    let is_delivery =
        |one: &Value| one["kind"] == "Delivery" && one["delivery"]["id"] == json!(copy.id);
    let delivery = wait_for(fixture, "the delivery", is_delivery).await?;
    let is_ended = |one: &Value| {
        one["kind"] == "EndedDelivery" && one["delivery"]["topic"] == json!(topic.name)
    };
    let ended = wait_for(fixture, "the ended delivery", is_ended).await?;
    let is_rubbish = |queue: &'static str| {
        move |one: &Value| one["kind"] == "Unreadable" && one["fromQueue"] == queue
    };
    let unreadable = wait_for(fixture, "the rubbish", is_rubbish("dispatch")).await?;
    let shown = fixture.api.poison_message(&unreadable).await?;
    ensure!(shown["body"] == json!(rubbish) && shown["movedBy"] == "Gridpost", "{shown}");

    let done = fixture.api.resend_poison(&[delivery, ended, unreadable.clone()], None).await?;
    let mut results: Vec<_> =
        done["value"].as_array().into_iter().flatten().map(|one| one["result"].clone()).collect();
    results.sort_by_key(Value::to_string);
    ensure!(results == ["Refused", "Resent", "Resent"], "{done}");
    let attempts = endpoint.wait_for(2, 2 * SOON).await?;
    ensure!(attempts[1].ids() == ["first"], "{}", describe(&attempts));
    let objects = fixture.dead_letters(&topic.prefix(), 1).await?;
    let record = &objects[0].records[0];
    ensure!(record["deadLetterReason"] == "TimeToLiveExceeded", "{record}");

    let done = fixture.api.resend_poison(&[unreadable], Some("retry")).await?;
    ensure!(done["value"][0]["to"] == "retry-0", "{done}");
    let again = wait_for(fixture, "the rubbish again", is_rubbish("retry-0")).await?;
    let done = fixture.api.purge_poison(std::slice::from_ref(&again)).await?;
    ensure!(done["value"][0]["result"] == "Purged", "{done}");
    let left = fixture.api.poison(100).await?;
    ensure!(!left.to_string().contains(&again), "it was purged and is there: {left}");
    let logged = fixture.log_lines("manage", &again).await?;
    ensure!(logged.iter().any(|line| line.contains("PurgedByOperator")), "{logged:?}");
    Ok(())
}

/// The delivery of this topic that waits for its retry, under another id and as if never attempted.
async fn copy_of_queued(fixture: &Fixture, topic: &Topic<'_>) -> anyhow::Result<Delivery> {
    let queued = || async {
        let bodies = fixture.queued_bodies().await?;
        let mut deliveries = bodies.iter().filter_map(|body| Delivery::decode(body).ok());
        Ok(deliveries.find(|it| it.subscription.topic == topic.name))
    };
    let found = until("the failed delivery in a queue", SOON, queued, Option::is_some).await?;
    found.map(|found| under(found, 1)).context("it was found")
}

/// Another delivery of the same events that has not been attempted.
fn under(mut delivery: Delivery, id: u128) -> Delivery {
    delivery.id = Uuid::from_u128(delivery.id.as_u128() ^ id);
    (delivery.due, delivery.attempts) = (None, Attempts::default());
    delivery
}

fn ended(fixture: &Fixture, topic: &Topic<'_>, delivery: &Delivery) -> Ended {
    let bucket = fixture.ground.connection.dead_letter_bucket.clone();
    Ended {
        delivery: under(delivery.clone(), 2),
        reason: EndReason::TimeToLiveExceeded,
        at: delivery.publish_time,
        destination: DeadLetterDestination { bucket, prefix: topic.prefix() },
        schema: DeliverySchema::EventGridSchema,
        mapping: None,
        profile: ProfileName::Basic,
        attributes: Vec::new(),
    }
}

/// Waits for a poison message that meets the condition, and returns its id.
async fn wait_for(
    fixture: &Fixture,
    what: &str,
    is_it: impl Fn(&Value) -> bool,
) -> anyhow::Result<String> {
    let all = |listed: &Value| listed["value"].as_array().cloned().unwrap_or_default();
    let listed = until(what, 2 * SOON, || fixture.api.poison(100), |it| all(it).iter().any(&is_it));
    let found = all(&listed.await?).into_iter().find(is_it);
    let id = found.and_then(|found| found["id"].as_str().map(str::to_owned));
    id.context("a message has an id")
}

/// A wait of an hour is parked (the stack parks every long one), listed, and ended early in both
/// ways: a released delivery is attempted, a canceled one becomes a dead letter.
pub async fn parked_deliveries_are_released_and_canceled(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("parked", EVENT_GRID).await?;
    let failing = [Reply::prompt(500), Reply::prompt(500), Reply::prompt(200)];
    let properties = json!({
        "retryPolicy": {"schedule": [1, 3_600]},
        "deadLetterDestination": topic.dead_letter_destination(),
    });
    let released = topic.subscribe("released", &failing, properties.clone()).await?;
    let canceled = topic.subscribe("canceled", &failing, properties).await?;
    topic.publish(&[topic.plain_event("waits")]).await?;

    let of = |subscription: Option<&str>| ParkedInput {
        topic: Some(topic.name.clone()),
        event_subscription: subscription.map(str::to_owned),
        ..ParkedInput::default()
    };
    let parked = wait_for_parked(fixture, &of(None), 2).await?;
    ensure!(
        parked.iter().all(|one| one["deliveryAttempts"] == 2 && one["events"] == 1),
        "{parked:?}"
    );
    let done = fixture.api.change_parked("release", &of(Some("released"))).await?;
    ensure!(done.len() == 1 && done[0]["result"] == "Released", "{done:?}");
    let attempts = released.wait_for(3, 2 * SOON).await?;
    ensure!(attempts[2].header("aeg-delivery-count") == "2", "{}", describe(&attempts));

    let left = wait_for_parked(fixture, &of(None), 1).await?;
    let id = left[0]["id"].as_str().context("a delivery has an id")?.to_owned();
    ensure!(left[0]["eventSubscription"] == "canceled", "{left:?}");
    let choice = ParkedInput { ids: Some([id].into()), ..ParkedInput::default() };
    let done = fixture.api.change_parked("cancel", &choice).await?;
    ensure!(done.len() == 1 && done[0]["result"] == "Canceled", "{done:?}");
    let objects = fixture.dead_letters(&topic.prefix(), 1).await?;
    let record = &objects[0].records[0];
    ensure!(record["deadLetterReason"] == "CanceledByOperator", "{record}");
    ensure!(record["deliveryAttempts"] == 2 && record["id"] == "waits", "{record}");
    ensure!(fixture.api.parked(&of(None)).await?.is_empty(), "something is still parked");
    let attempts = canceled.deliveries();
    ensure!(attempts.len() == 2, "attempted after it was canceled:\n{}", describe(&attempts));
    Ok(())
}

async fn wait_for_parked(
    fixture: &Fixture,
    choice: &ParkedInput,
    count: usize,
) -> anyhow::Result<Vec<Value>> {
    let what = format!("{count} parked deliveries");
    until(&what, 2 * SOON, || fixture.api.parked(choice), |parked| parked.len() == count).await
}

//! Terraform's view of the deployment.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use gridpost_api::requests::ParkedInput;
use serde_json::{Value, json};

use crate::e2e::{
    fixture::{EVENT_GRID, Fixture, SOON, refusal},
    inventory,
    receiver::{Reply, describe},
};

const MISREPORTS: &str = include_str!("../../../../infra/tests/emulator-misreports.json");

/// A plan after the apply changes nothing but what the emulator reports wrongly, by resource type
/// and attribute, exactly as `infra/tests/emulator-misreports.json` lists it.
pub async fn a_second_plan_shows_only_the_listed_misreports(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    let listed: Value = serde_json::from_str(MISREPORTS)?;
    let listed: BTreeMap<String, BTreeSet<String>> =
        serde_json::from_value(listed["updates"].clone()).context("the list of misreports")?;
    let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for change in fixture.ground.terraform()?.plan_changes().await? {
        let changed =
            || format!("{} would {:?}: {:?}", change.address, change.actions, change.attributes);
        ensure!(change.actions == ["update"], "{}", changed());
        seen.entry(change.resource_type).or_default().extend(change.attributes);
    }
    ensure!(seen == listed, "a second plan shows {seen:#?}, listed is {listed:#?}");
    Ok(())
}

/// The functions of this stack may only do what their roles allow: if an action is denied to a
/// role, its function can't do it. So every other case shows that the policies suffice.
pub async fn permissions_are_enforced(fixture: &Fixture) -> anyhow::Result<()> {
    fixture.api.poison(1).await?;
    fixture.deny("manage", "sqs:ReceiveMessage").await?;
    let refused = refusal(fixture.api.poison(1).await);
    fixture.deny_no_more("manage").await?;
    let refused = refused.context("the queue was read without the permission")?;
    ensure!(refused.status == 503 && refused.message.contains("sqs:ReceiveMessage"), "{refused}");
    fixture.api.poison(1).await.context("with the permission back")?;
    Ok(())
}

/// A denied call is refused, for several functions and services, and succeeds again once it is allowed: a scan of a table, a
/// message that is sent.
pub async fn a_denied_read_and_a_denied_send_are_refused(fixture: &Fixture) -> anyhow::Result<()> {
    let all = ParkedInput::default();
    fixture.deny("manage", "dynamodb:Scan").await?;
    let refused = refusal(fixture.api.parked(&all).await);
    fixture.deny_no_more("manage").await?;
    let refused = refused.context("the table was read without the permission")?;
    ensure!(refused.status == 503, "{refused}");
    fixture.api.parked(&all).await.context("with the permission back")?;

    let topic = fixture.topic("denied", EVENT_GRID).await?;
    let endpoint = topic.subscribe("all", &[Reply::prompt(200)], json!({})).await?;
    fixture.deny("ingest", "sqs:SendMessage").await?;
    let refused = topic.post(json!([topic.plain_event("denied-1")]).to_string()).await;
    fixture.deny_no_more("ingest").await?;
    let (status, body) = refused?;
    ensure!(status == 503, "a publish without the permission to send: {status}: {body}");
    topic.publish(&[topic.plain_event("denied-2")]).await.context("with the permission back")?;
    let arrived = endpoint.wait_for(1, SOON).await?;
    ensure!(arrived[0].ids() == ["denied-2"], "{}", describe(&arrived));
    Ok(())
}

/// `terraform destroy` removes everything that was deployed: nothing is left in Terraform's state
/// or in the emulator, from queues and tables to APIs and alarms.
pub async fn destroy_leaves_nothing(fixture: &Fixture) -> anyhow::Result<()> {
    if fixture.ground.is_kept() {
        return Ok(());
    }
    let before = fixture.ground.terraform_resources()?;
    ensure!(before.len() > 20, "there was nothing to destroy");
    let there = inventory::still_there(fixture, &before).await?;
    inventory::has_every_kind(&there)?;
    fixture.ground.terraform()?.destroy().await?;
    let left = fixture.ground.terraform_resources()?;
    let left: Vec<_> = left.iter().map(|r| format!("{}.{}", r["type"], r["name"])).collect();
    ensure!(left.is_empty(), "left in the state: {left:?}");
    let left = inventory::still_there(fixture, &before).await?;
    ensure!(left.is_empty(), "left in the emulator: {left:?}");
    Ok(())
}

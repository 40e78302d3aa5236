//! What Terraform says of the deployment.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::e2e::world::{World, refusal};

const MISREPORTS: &str = include_str!("../../../../infra/tests/emulator-misreports.json");

/// A plan after the apply changes nothing but what the emulator reports wrongly, by resource type
/// and attribute, exactly as `infra/tests/emulator-misreports.json` lists it.
///
/// # Errors
///
/// When it is not so. So for every case.
pub async fn a_second_plan_shows_only_the_listed_misreports(world: &World) -> anyhow::Result<()> {
    let listed: Value = serde_json::from_str(MISREPORTS)?;
    let listed: BTreeMap<String, BTreeSet<String>> =
        serde_json::from_value(listed["updates"].clone()).context("the list of misreports")?;
    let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for change in world.ground.terraform.plan_changes().await? {
        let changed =
            || format!("{} would {:?}: {:?}", change.address, change.actions, change.attributes);
        ensure!(change.actions == ["update"], "{}", changed());
        seen.entry(change.resource_type).or_default().extend(change.attributes);
    }
    ensure!(seen == listed, "a second plan shows {seen:#?}, listed is {listed:#?}");
    Ok(())
}

/// The functions of this stack may do what their roles allow and nothing else, so that every other
/// case shows that the policies suffice: what a role is denied, its function can't do.
///
/// # Errors
///
/// When it is not so.
pub async fn permissions_are_enforced(world: &World) -> anyhow::Result<()> {
    world.api.poison(1).await?;
    world.deny("manage", "sqs:ReceiveMessage").await?;
    let refused = refusal(world.api.poison(1).await);
    world.deny_no_more("manage").await?;
    let refused = refused.context("the queue was read without the permission")?;
    ensure!(refused.status == 503 && refused.message.contains("sqs:ReceiveMessage"), "{refused}");
    world.api.poison(1).await.context("with the permission back")?;
    Ok(())
}

/// `terraform destroy` removes everything that was deployed.
///
/// # Errors
///
/// When it is not so.
pub async fn destroy_leaves_nothing(world: &World) -> anyhow::Result<()> {
    if world.ground.is_kept() {
        return Ok(());
    }
    let before = world.ground.terraform_resources()?;
    ensure!(before.len() > 20, "there was nothing to destroy");
    world.ground.terraform.destroy().await?;
    let left = world.ground.terraform_resources()?;
    let left: Vec<_> = left.iter().map(|r| format!("{}.{}", r["type"], r["name"])).collect();
    ensure!(left.is_empty(), "left in the state: {left:?}");
    Ok(())
}

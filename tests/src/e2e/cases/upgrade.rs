//! Upgrades: a new version is rolled out while events flow.

use std::time::Duration;

use anyhow::{Context, ensure};
use gridpost_ops::given::TimeSpan;
use gridpost_ops::prober::{self, ProberOptions};
use gridpost_ops::progress::Progress;
use gridpost_stack::terraform::Terraform;
use serde_json::json;
use tokio::sync::oneshot;

use crate::e2e::fixture::Fixture;

/// `gridpost prober` finds every event while Terraform rolls out a version of the functions, and
/// then goes back to the previous one.
pub async fn a_new_version_loses_nothing(fixture: &Fixture) -> anyhow::Result<()> {
    // On AWS a version's first copies begin in a fraction of a second. Here they take seconds of two processors,
    // and each publish that comes meanwhile asks for another one: at 20 a second none was ever done.
    let options = ProberOptions {
        topic: None,
        rate: 5,
        lasts: TimeSpan(Duration::from_secs(600)),
        drain: TimeSpan(Duration::from_secs(120)),
        port: 0,
        endpoint: None,
    };
    let target = fixture.target()?;
    let (rolled, stop) = oneshot::channel();
    let rolling = async {
        let before = fixture.ground.terraform()?.clone();
        // Every function has this setting; changing it makes a version.
        let after = before.clone().with_variable("config_cache_ms", json!(1_500));
        let rolled_out = roll_out(&after).await.context("forward");
        let rolled_back = roll_out(&before).await.context("back");
        // A prober that ended early has printed why.
        let _ = rolled.send(());
        rolled_out.and(rolled_back)
    };
    let stopped = async { drop(stop.await) };
    let probing = prober::probe(&options, &target, Progress::silent(), stopped);
    let (rolled, probed) = tokio::join!(rolling, probing);
    rolled?;
    let probe = probed?;
    println!("upgrade: {}", probe.text().replace('\n', "; "));
    ensure!(probe.accepted() > 50, "too little was published: {}", probe.text());
    ensure!(probe.missing() == 0, "events are missing: {}", probe.text());
    Ok(())
}

async fn roll_out(terraform: &Terraform) -> anyhow::Result<()> {
    let progress = Progress::silent();
    terraform.prepare(&progress.step("terraform plan")).await?;
    terraform.apply(&progress.step("terraform apply")).await.map(drop)
}

//! The command line verifies a deployment, as after its first apply.

use std::future::pending;

use anyhow::{Context, ensure};
use clap::Parser;
use gridpost_cli::{
    arguments::{Arguments, Command},
    commands::verify,
    local::terraform::REGION,
};
use serde_json::Value;

use crate::e2e::world::{ACCOUNT, World};

/// The test plays the webhook, and the queue is the emulator's. The report does not claim steps
/// that only Lambda's own mapping can show. The topic of the run is gone at its end.
///
/// # Errors
///
/// When that does not hold.
pub async fn a_deployment_is_proven_with_a_queue(world: &World) -> anyhow::Result<()> {
    // A name that a local stack allows.
    let name = format!("local-verify-{}", world.run());
    world.queue(&name, &[]).await?;
    let home = world.ground.home().root().display().to_string();
    let queue = format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{name}");
    // The emulator takes seconds for calls that SQS answers at once; over 100 deliveries are stored
    // first.
    let words = [
        "gridpost",
        "verify",
        "--home",
        &home,
        "--queue",
        &queue,
        "--events",
        "10",
        "--fan-out",
        "5",
        "--fan-out-events",
        "24",
    ];
    let Arguments { command: Command::Verify(arguments), target, .. } =
        Arguments::try_parse_from(words)?
    else {
        anyhow::bail!("another command")
    };
    let report = verify::report(&arguments, &target, pending()).await?.document();
    let steps = report["steps"].as_array().context("no steps")?;
    ensure!(steps.len() == 9, "{report:#}");
    for step in steps {
        let want = if step["step"] == "visibility" { "notShown" } else { "shown" };
        ensure!(step["verdict"] == want, "{}: {report:#}", step["step"]);
    }
    let mut stages: Vec<_> = report["latencies"].as_array().into_iter().flatten().collect();
    stages.retain(|stage| stage["p50Ms"].as_f64().is_some_and(|took| took > 0.0));
    ensure!(stages.len() == 6, "{report:#}");
    let topic = report["topic"].as_str().context("no topic")?;
    let left = world.api.topics().await?;
    ensure!(left.iter().all(|one: &Value| one["name"] != topic), "{topic} is left behind");
    Ok(())
}

//! The command line verifies a deployment, as after its first apply.

use std::future::pending;

use anyhow::{Context, ensure};
use gridpost_ops::aws_api::REGION;
use gridpost_ops::verify::{self, VerifyOptions};
use serde_json::Value;

use crate::e2e::fixture::{ACCOUNT, Fixture};

/// The test plays the webhook, and the queue is the emulator's. The report does not claim steps
/// that only Lambda's own mapping can show. The topic of the run is gone at its end.
pub async fn a_deployment_is_proven_with_a_queue(fixture: &Fixture) -> anyhow::Result<()> {
    // A name that a local stack allows.
    let name = format!("local-verify-{}", fixture.run());
    fixture.queue(&name, &[]).await?;
    let queue = format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{name}");
    // The emulator takes seconds for calls that SQS answers at once; over 100 deliveries are stored
    // first.
    let options = VerifyOptions {
        queue: Some(queue),
        webhook: None,
        reports: None,
        dead_letter_bucket: None,
        only: Vec::new(),
        events: 10,
        fan_out: 5,
        fan_out_events: 24,
        remove_leftovers: false,
    };
    let report = verify::report(&options, &fixture.target()?, pending()).await?.document();
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
    let left = fixture.api.topics().await?;
    ensure!(left.iter().all(|one: &Value| one["name"] != topic), "{topic} is left behind");
    Ok(())
}

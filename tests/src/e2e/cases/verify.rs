//! The command line verifies a deployment, as after its first apply.

use std::future::pending;

use anyhow::ensure;
use gridpost_ops::aws_api::REGION;
use gridpost_ops::verify::{
    self, VerifyOptions,
    step::{Step, Verdict},
};

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
    let report = verify::report(&options, &fixture.target()?, pending()).await?;
    ensure!(report.results.len() == 9, "{report:#?}");
    for result in &report.results {
        let is_good = match &result.verdict {
            Verdict::Shown { .. } => result.step != Step::Visibility,
            Verdict::NotShown { .. } => result.step == Step::Visibility,
            Verdict::Failed { .. } => false,
        };
        ensure!(is_good, "{}: {report:#?}", result.step.name());
    }
    let stages = report.latencies.stages();
    let measured = stages.iter().filter(|stage| stage.p50_ms > 0.0).count();
    ensure!(measured == 6, "{report:#?}");
    let left = fixture.api.topics().await?;
    let topic = &report.topic;
    ensure!(left.iter().all(|one| one["name"] != **topic), "{topic} is left behind");
    Ok(())
}

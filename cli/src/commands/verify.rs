//! `gridpost verify`: publishes to a topic of its own, serves the endpoints, and reports what it saw.

use anyhow::anyhow;
use clap::{Args, builder::PossibleValue};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{commands::one_of, target::Common};
use gridpost_ops::{
    given::count_in,
    verify::{VerifyOptions, report, step::Step},
};

/// What to try it with.
#[derive(Args, Debug)]
pub struct VerifyArguments {
    /// ARN or URL of an SQS queue that resource_destinations allows and nothing else uses
    #[arg(long, value_name = "ARN")]
    queue: Option<String>,

    /// URL of the webhook that infra/modules/verify makes [default for a local stack: served by this
    /// command]
    #[arg(long, value_name = "URL", requires = "reports")]
    webhook: Option<String>,

    /// ARN or URL of the queue to which that webhook reports what it receives
    #[arg(long, value_name = "ARN", requires = "webhook")]
    reports: Option<String>,

    /// Bucket for dead letters (Terraform output `dead_letter_bucket`) [default for a local stack: its
    /// own]
    #[arg(long, value_name = "BUCKET")]
    dead_letter_bucket: Option<String>,

    /// Run only these steps, and those that they depend on
    #[arg(long, value_name = "STEP,…", value_delimiter = ',', value_parser = one_of(steps()))]
    only: Vec<Step>,

    /// Events to deliver one after another, to the webhook and to the queue
    #[arg(long, value_name = "COUNT", default_value = "50", value_parser = count_in::<u32>(1..=1_000))]
    events: u32,

    /// Event subscriptions in the fan-out step
    #[arg(long, value_name = "COUNT", default_value = "20", value_parser = count_in::<u32>(1..=100))]
    fan_out: u32,

    /// Events to publish at once in the fan-out step
    #[arg(long, value_name = "COUNT", default_value = "50", value_parser = count_in::<u32>(1..=500))]
    fan_out_events: u32,

    /// Remove what earlier runs left behind. Don't use it while another run is active
    #[arg(long)]
    remove_leftovers: bool,
}

fn steps() -> Vec<(PossibleValue, Step)> {
    let named = |step: &Step| (PossibleValue::new(step.name()).help(step.title()), *step);
    Step::ALL.iter().map(named).collect()
}

/// Fails with [`Misuse`] when nothing could be tried. It also fails when a check fails.
pub async fn run(arguments: VerifyArguments, common: &Common) -> anyhow::Result<()> {
    // From here on an interruption removes the topic.
    let mut stop = Stop::listen()?;
    let VerifyArguments { queue, webhook, reports, dead_letter_bucket, only, .. } = arguments;
    let VerifyArguments { events, fan_out, fan_out_events, remove_leftovers, .. } = arguments;
    let options = VerifyOptions {
        queue,
        webhook,
        reports,
        dead_letter_bucket,
        only,
        events,
        fan_out,
        fan_out_events,
        remove_leftovers,
    };
    let report = report(&options, &common.target.resolve()?, stop.asked()).await?;
    common.output.tell(&report.document(), |_| report.text());
    match report.failed() {
        0 => Ok(()),
        failed => Err(anyhow!("{failed} of {} steps failed", report.results.len())),
    }
}

struct Stop([Signal; 2]);

impl Stop {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self([signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?]))
    }

    async fn asked(&mut self) {
        let [interrupted, terminated] = &mut self.0;
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    }
}

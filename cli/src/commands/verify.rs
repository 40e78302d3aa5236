//! `gridpost verify`: publishes to a topic of its own, plays the endpoints, and says what it saw of a
//! deployment.

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{output::Output, target::TargetArguments};
use gridpost_ops::verify::{VerifyOptions, report, step::Step};

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
    #[arg(long, value_enum, value_name = "STEP,…", value_delimiter = ',')]
    only: Vec<StepArgument>,

    /// Events to deliver one after another, to the webhook and to the queue
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    events: u32,

    /// Event subscriptions in the fan-out step
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    fan_out: u32,

    /// Events to publish at once in the fan-out step
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    fan_out_events: u32,

    /// Remove what earlier runs left behind. Don't use it while another run is active
    #[arg(long)]
    remove_leftovers: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StepArgument {
    /// Events reach a webhook.
    Webhook,
    /// Events reach an SQS queue.
    Queue,
    /// A publish reaches many event subscriptions.
    FanOut,
    /// An event that no queue message carries arrives whole.
    Large,
    /// A webhook that fails sees the schedule.
    Retry,
    /// The event source mapping keeps the visibility timeouts that dispatch sets.
    Visibility,
    /// An event that is refused becomes a dead letter.
    DeadLetter,
    /// A dead letter is sent again.
    Redrive,
    /// An answer after 30 s takes the delivery out of retry.
    Late,
}

impl StepArgument {
    fn step(self) -> Step {
        match self {
            Self::Webhook => Step::Webhook,
            Self::Queue => Step::Queue,
            Self::FanOut => Step::FanOut,
            Self::Large => Step::Large,
            Self::Retry => Step::Retry,
            Self::Visibility => Step::Visibility,
            Self::DeadLetter => Step::DeadLetter,
            Self::Redrive => Step::Redrive,
            Self::Late => Step::Late,
        }
    }
}

impl VerifyArguments {
    fn options(&self) -> VerifyOptions {
        VerifyOptions {
            queue: self.queue.clone(),
            webhook: self.webhook.clone(),
            reports: self.reports.clone(),
            dead_letter_bucket: self.dead_letter_bucket.clone(),
            only: self.only.iter().map(|step| step.step()).collect(),
            events: self.events,
            fan_out: self.fan_out,
            fan_out_events: self.fan_out_events,
            remove_leftovers: self.remove_leftovers,
        }
    }
}

/// Fails with [`Misuse`] when nothing could be tried; or something was not as it should be.
pub async fn run(
    arguments: &VerifyArguments,
    target: &TargetArguments,
    output: Output,
) -> anyhow::Result<()> {
    // From here on an interruption removes the topic.
    let mut stop = Stop::listen()?;
    let report = report(&arguments.options(), &target.resolve()?, stop.asked()).await?;
    output.tell(&report.document(), |_| report.text());
    match report.failed() {
        0 => Ok(()),
        failed => Err(anyhow!("{failed} of {} steps failed", report.tried.len())),
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

//! `gridpost prober`: publishes numbered events, receives them, and says which are missing or came
//! twice; to be run while a deployment is upgraded.

use anyhow::anyhow;
use clap::Args;

use crate::{output, target::Common};
use gridpost_ops::{
    given::{TimeSpan, count_in},
    prober::{ProberOptions, probe},
    progress::Progress,
};

/// What to publish, and for how long.
#[derive(Args, Debug)]
pub struct ProberArguments {
    /// An existing topic [default: a temporary one, deleted at the end]
    #[arg(long)]
    topic: Option<String>,

    /// Events published per second, one in each request
    #[arg(long, value_name = "EVENTS", default_value = "10", value_parser = count_in::<u64>(1..=1_000))]
    rate: u64,

    /// How long to publish; Ctrl-C ends it earlier
    #[arg(long = "for", value_name = "TIME", default_value = "1m")]
    lasts: TimeSpan,

    /// How long to wait for accepted events that have not arrived
    #[arg(long, value_name = "TIME", default_value = "2m")]
    drain: TimeSpan,

    /// Port on 127.0.0.1 that receives the events (0: a free one)
    #[arg(long, default_value_t = 0)]
    port: u16,

    /// Public https URL that leads to that port, for a deployment on AWS [default: the port itself, for
    /// the local stack]
    #[arg(long, value_name = "URL", requires = "port")]
    endpoint: Option<String>,
}

/// Also fails when events are missing.
pub async fn run(arguments: ProberArguments, common: &Common) -> anyhow::Result<()> {
    let target = common.target.resolve()?;
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    let probe = probe(&arguments.options(), &target, Progress::on_stderr(), interrupted).await?;
    common.output.tell(&probe.document(), |_| probe.text());
    match probe.missing() {
        0 => Ok(()),
        missing => Err(anyhow!(
            "accepted and not arrived: {}. `gridpost audit` shows what the deployment knows of that",
            output::count(missing, "event")
        )),
    }
}

impl ProberArguments {
    fn options(self) -> ProberOptions {
        let Self { topic, rate, lasts, drain, port, endpoint } = self;
        ProberOptions { topic, rate, lasts, drain, port, endpoint }
    }
}

//! `gridpost explain`: what became of one event.

use std::path::PathBuf;

use clap::Args;

use crate::{
    commands::{Price, read_events},
    target::Common,
};
use gridpost_ops::{
    explain::{Explanation, Question, look_up},
    given::TimeSpan,
};

/// Which event.
#[derive(Args, Debug)]
pub struct ExplainArguments {
    /// The event's id
    id: String,

    /// The topic it was published to
    #[arg(long)]
    topic: String,

    /// The event as it was published: shows which event subscriptions do not match it, and why (`-`: standard
    /// input). Not needed if a dead letter has the event
    #[arg(long, value_name = "FILE")]
    event: Option<PathBuf>,

    /// Look for attempts in this time: 90m, 24h, 7d
    #[arg(long, value_name = "TIME", default_value = "24h")]
    since: TimeSpan,

    #[command(flatten)]
    price: Price,
}

/// Runs `gridpost explain`.
pub async fn run(arguments: ExplainArguments, common: &Common) -> anyhow::Result<()> {
    let target = common.target.resolve()?;
    let event = arguments.event.as_deref().map(read_events).transpose()?;
    let ExplainArguments { id, topic, since, price, .. } = arguments;
    let max_dollars = price.max_dollars;
    let question = Question { id, topic, since, max_dollars, ..Question::default() };
    let explanation = look_up(&target, question, event).await?;
    common.output.tell(&explanation, Explanation::text);
    explanation.outcome()
}

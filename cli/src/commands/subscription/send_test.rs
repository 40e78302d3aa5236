//! `gridpost subscription send-test` and `test-endpoint`: one event to one event subscription, and what
//! its endpoint answers.

use std::path::PathBuf;

use clap::Args;
use gridpost_api::trial::TestEventSent;
use serde_json::value::RawValue;

use crate::{
    commands::{SubscriptionArgs, read_events},
    output::Output,
};
use gridpost_ops::{
    clock, manage_api::ManageApi, publish::input_schema, subscription::send_test::made,
};

/// To which event subscription, and which event.
#[derive(Args, Debug)]
pub struct SendTestArguments {
    #[command(flatten)]
    named: SubscriptionArgs,

    /// The event as a publisher would send it (`-`: standard input) [default: one of type
    /// Gridpost.TestEvent]
    #[arg(long, value_name = "FILE")]
    event: Option<PathBuf>,
}

/// Runs `gridpost subscription send-test`, and tells what came of it by `told`. Also fails when the
/// endpoint did not accept the event.
pub(super) async fn run(
    arguments: &SendTestArguments,
    api: &ManageApi,
    output: Output,
    told: fn(&TestEventSent) -> String,
) -> anyhow::Result<()> {
    let SubscriptionArgs { topic, subscription: name } = &arguments.named;
    let event = match &arguments.event {
        Some(file) => read_events(file)?,
        None => {
            let schema = input_schema(&api.topic(topic).await?.document);
            RawValue::from_string(made(schema, clock::random_id())?.to_string())?
        }
    };
    let sent = api.send_test_event(topic, name, &event).await?;
    output.tell(&sent, told);
    let hint = match arguments.event {
        Some(_) => "",
        None => ". If it expects events of its own types, send one of them: --event FILE",
    };
    anyhow::ensure!(
        sent.outcome == "Delivered",
        "the endpoint did not accept the event: {}{hint}",
        sent.outcome
    );
    Ok(())
}

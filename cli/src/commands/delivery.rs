//! `gridpost delivery`: deliveries that have failed, listed, shown with every attempt, attempted now.

mod list;

use clap::{Args, Subcommand};
use gridpost_api::delivery::{ResendResult, Resent};

use self::list::{Chosen, find};
use crate::{
    commands::{Scope, SubscriptionArgs},
    output::or_dash,
    target::Common,
};
use gridpost_ops::{
    delivery::describe,
    given::{count_in, outcome_name},
};

/// What to do with deliveries that have failed.
#[derive(Subcommand, Debug)]
pub enum DeliveryCommand {
    /// List deliveries that have failed and not ended, by publish time
    List {
        /// Whose
        #[command(flatten)]
        scope: Scope,

        /// Only those whose last attempt had this outcome, such as Busy or TimedOut
        #[arg(long, value_name = "OUTCOME", value_parser = outcome_name)]
        outcome: Option<String>,

        /// How many at most, those that were published first; how many more there are is told
        #[arg(long, visible_alias = "top", value_name = "COUNT", default_value = "100",
            value_parser = count_in::<usize>(1..))]
        limit: usize,
    },
    /// Show one with every attempt, and what comes next
    Show(OneArguments),
    /// Attempt a waiting one now, whatever its wait and its endpoint's health
    Resend(OneArguments),
}

/// Which delivery.
#[derive(Args, Debug)]
pub struct OneArguments {
    /// Its id (`delivery list`, `explain` and `tail` print it)
    id: String,

    #[command(flatten)]
    of: SubscriptionArgs,
}

/// Runs `gridpost delivery`.
pub async fn run(command: DeliveryCommand, common: &Common) -> anyhow::Result<()> {
    let api = common.target.resolve()?.manage_api().await?;
    match command {
        DeliveryCommand::List { scope, outcome, limit } => {
            let chosen = Chosen { scope, outcome, limit };
            let found = find(&api, &chosen).await?;
            common
                .output
                .print(&found.document(), |_| found.text(chosen.scope.subscription.is_none()));
        }
        DeliveryCommand::Show(OneArguments {
            id,
            of: SubscriptionArgs { topic, subscription },
        }) => {
            common.output.print(&api.delivery(&topic, &subscription, &id).await?, describe);
        }
        DeliveryCommand::Resend(OneArguments {
            id,
            of: SubscriptionArgs { topic, subscription },
        }) => {
            let resent = api.resend(&topic, &subscription, &id).await?;
            common.output.print(&resent, describe_resent);
        }
    }
    Ok(())
}

fn describe_resent(resent: &Resent) -> String {
    let Resent { result, expected_by, message, .. } = resent;
    match result {
        ResendResult::Sent => "sent: it is attempted now".to_owned(),
        ResendResult::Requested => {
            let (message, by) = (or_dash(message.as_ref()), or_dash(*expected_by));
            format!("asked for; {message} About {by} at the latest.")
        }
    }
}

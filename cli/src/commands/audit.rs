//! `gridpost audit`: the ledger of a deployment, and whether it balances.

use clap::Args;

use crate::{
    commands::{Price, Scope},
    output::count,
    target::Common,
};
use gridpost_ops::{
    audit::{self, AuditOptions, verdict::Verdict},
    failure::Unfinished,
    given::{TimeSpan, span_or_seconds},
};

/// What to look at.
#[derive(Args, Debug)]
pub struct AuditArguments {
    #[command(flatten)]
    scope: Scope,

    /// Audit events published within this time, such as 90m, 24h or 7d; it starts on the hour
    #[arg(long, value_name = "TIME", default_value = "24h")]
    since: TimeSpan,

    /// Wait for up to this long until it balances: 30s, 5m; a bare number is seconds
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = span_or_seconds)]
    wait: TimeSpan,

    #[command(flatten)]
    price: Price,
}

impl AuditArguments {
    fn options(&self) -> AuditOptions {
        let Scope { topic, subscription } = self.scope.clone();
        let max_dollars = self.price.max_dollars;
        AuditOptions { topic, subscription, since: self.since, wait: self.wait.0, max_dollars }
    }
}

/// Also fails when it does not balance.
pub async fn run(arguments: &AuditArguments, common: &Common) -> anyhow::Result<()> {
    let audit = audit::look_until(&arguments.options(), &common.target.resolve()?).await?;
    common.output.tell(&audit.document(), |_| audit.text());
    outcome(audit.verdict())
}

/// Turns the verdict into the exit code: nothing open, something open, something missing.
fn outcome(verdict: Verdict) -> anyhow::Result<()> {
    match verdict {
        Verdict::Balances => Ok(()),
        Verdict::UnderWay { events } => {
            let events = count(events, "event");
            Err(Unfinished(format!("under way: {events} without a known end so far")).into())
        }
        Verdict::Missing { events } => Err(anyhow::anyhow!(
            "the ledger does not balance: {} without a known end, and no queue holds them",
            count(events, "event")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_is_no_success_and_no_failure() {
        let code = |verdict| match outcome(verdict) {
            Ok(()) => std::process::ExitCode::SUCCESS,
            Err(error) => gridpost_ops::failure::report(&error, false),
        };
        let table = [
            (Verdict::Balances, 0),
            (Verdict::Missing { events: 1 }, 1),
            (Verdict::UnderWay { events: 1 }, 3),
        ];
        for (verdict, want) in table {
            let want = std::process::ExitCode::from(want);
            assert_eq!(format!("{:?}", code(verdict)), format!("{want:?}"), "{verdict:?}");
        }
    }
}

//! The whole command line as types.

use clap::{Parser, Subcommand};

use crate::commands::{audit, cost, down, listen, publish, sas, schedule, subscription, topic, up};
use crate::target::TargetArguments;

/// Event-Grid-compatible event delivery on AWS: run it locally, manage it, publish, listen.
#[derive(Parser, Debug)]
#[command(name = "gridpost", version, about, propagate_version = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// Which deployment it is for.
    #[command(flatten)]
    pub target: TargetArguments,

    /// Print results, and errors, as JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Start the whole product on this machine and show that it delivers, retries and dead-letters
    Up(up::UpArguments),
    /// Say what of the local stack runs, where, and with which topics
    Status,
    /// Stop the local stack and remove everything but caches
    Down(down::DownArguments),
    /// Create, update, list, show or delete topics, show or replace their keys
    #[command(subcommand)]
    Topic(topic::TopicCommand),
    /// Create, update, show, list or delete event subscriptions
    #[command(subcommand)]
    Subscription(subscription::SubscriptionCommand),
    /// Publish an event
    Publish(publish::PublishArguments),
    /// Make a SAS token from a topic key (offline)
    Sas(sas::SasArguments),
    /// Balance what was published against what became of it
    Audit(audit::AuditArguments),
    /// Be an endpoint: print what arrives and answer as told
    Listen(listen::ListenArguments),
    /// Print the timeline of a retry policy before it is saved (offline)
    Schedule(schedule::ScheduleArguments),
    /// Reckon what a million delivered events cost, beside other services (offline)
    Cost(cost::CostArguments),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_documented_lines_parse() {
        for line in [
            "up",
            "up --no-demo",
            "status --json",
            "down --purge",
            "topic create orders --schema CloudEventSchemaV1_0",
            "topic create orders --kind namespace",
            "topic create orders --input-schema CustomEventSchema --mapping mapping.json",
            "sas --resource https://a/topics/orders/api/events --key K --lasts 24h",
            "sas --resource https://a/topics/orders --key K --until 2030-01-01T00:00:00Z --json",
            "topic keys orders --regenerate key1 --json",
            "cost --front-door function-url --events-per-publish 10 --json",
            "subscription create --topic demo --name s1 --endpoint http://127.0.0.1:9000/hook \
             --dead-letter-bucket B --max-attempts 5 --ttl 30m",
            "subscription create --topic demo --name s1 --file s1.json",
            "topic update orders --disable-local-auth true --if-match \"abc\"",
            "topic regenerate-key orders key2",
            "topic delete orders --if-match \"abc\"",
            "subscription update --topic demo --name s1 --labels a,b --json",
            "subscription update --topic demo --name s1 --file patch.json --if-match \"abc\"",
            "subscription delete --topic demo --name s1 --if-match \"abc\"",
            "subscription create --topic demo --name s1 --endpoint https://e --header A=b --sign \
             --secret-header S=t --dynamic-header D=data.k",
            "subscription secrets --topic demo --name s1 --rotate --overlap 60",
            "subscription test --topic demo --name s1 --events events.json --json",
            "subscription test --topic demo --file s1.json --events -",
            "subscription test --schema CloudEventSchemaV1_0 --file s1.json --events events.json",
            "subscription list --topic demo --manage-url https://a.execute-api.eu-north-1.amazonaws.com",
            "publish --topic demo --type T --subject S --data @event.json",
            "publish --topic demo --file body.json --key K",
            "schedule --profile basic --ttl 30m --max-attempts 10 --responses 500,408,200 --json",
            "schedule --endpoint resource --schedule 1,2,3 --status-rule 404=60 --jitter",
            "audit",
            "audit --topic demo --subscription s1 --since 90m --wait 30 --json",
            "audit --name-prefix events --manage-url https://a.execute-api.eu-north-1.amazonaws.com",
            "listen --port 9000 --answer 500,500,200 --delay 2s",
        ] {
            let words = std::iter::once("gridpost").chain(line.split_whitespace());
            assert!(Arguments::try_parse_from(words).is_ok(), "{line}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for line in [
            "subscription create --topic demo --name s1",
            "subscription create --topic demo --name s1 --endpoint http://e --file s1.json",
            "subscription create --topic demo --name s1 --endpoint http://e --ttl 30s",
            "subscription create --topic demo --name s1 --endpoint http://e --dead-letter-prefix p",
            "subscription test --topic demo --events events.json",
            "subscription test --schema EventGridSchema --name s1 --events events.json",
            "subscription test --file s1.json --events events.json",
            "publish --topic demo --file body.json --data {}",
            "topic create orders --file t.json --mapping mapping.json",
            "sas --key K",
            "listen --answer teapot",
            "audit --subscription s1",
            "topic update orders",
            "topic regenerate-key orders key3",
            "subscription update --topic demo --name s1",
            "subscription update --topic demo --name s1 --file p.json --labels a",
        ] {
            let words = std::iter::once("gridpost").chain(line.split_whitespace());
            assert!(Arguments::try_parse_from(words).is_err(), "{line}");
        }
    }
}

//! The whole command line as types.

use std::{env, process};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, parser::ValueSource};

use crate::{
    commands::{
        apply, audit, console, cost, dead_letter, delivery, deployment, dev, doctor, down, explain,
        export, listen, parked, poison, prober, publish, rollout, sas, schedule, serve,
        subscription, tail, token, topic, up, verify, wait, watch,
    },
    target::{EVERYWHERE, TargetFlags, without_environment},
};
use gridpost_ops::output;

/// The exit codes that programs may rely on.
const EXIT_CODES: &str = "\
Results go to standard output, all else to standard error. With --json, results and errors are JSON, except usage errors; progress stays text.
Exit codes: 0 done, 1 failed or refused, 2 usage error, 3 not finished (audit: events under way;
explain: nothing known so far; wait: not in time; subscription create, update and apply: an endpoint has
yet to consent; apply --dry-run --exit-code: something would change).
`gridpost COMMAND --help` has examples.

When events are missing or late, ask in this order:
  gridpost subscription health --since 1h         endpoints in trouble, and losses
  gridpost audit --since 1h                       what became of all events
  gridpost tail --failed --since 1h --no-follow   each failed attempt, with its answer
  gridpost explain ID --topic TOPIC               one event: who wants it, each attempt, what follows";

/// Event-Grid-compatible event delivery on AWS: run it locally, manage it, publish, listen.
#[derive(Parser, Debug)]
#[command(name = "gridpost", version, about, propagate_version = true, after_help = EXIT_CODES)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// Which deployment it is for.
    #[command(flatten)]
    pub target: TargetFlags,

    /// Print results, and errors, as JSON
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub json: bool,
}

impl Arguments {
    /// Reads the program's command line. One that is not understood ends the program with exit code 2.
    pub fn read() -> Self {
        let line = serve::with_file(&command(), env::args_os().collect());
        let line = line.unwrap_or_else(|misuse| {
            refuse(&command().error(clap::error::ErrorKind::InvalidValue, misuse))
        });
        let matches = command().try_get_matches_from(line);
        let matches =
            matches.unwrap_or_else(|error| refuse(&without_environment(error, command())));
        Self::of(&matches).unwrap_or_else(|error| refuse(&error))
    }

    fn of(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let mut read = Self::from_arg_matches(matches)?;
        read.target.prefer(|flag| matches.value_source(flag) == Some(ValueSource::CommandLine));
        Ok(read)
    }
}

/// Prints a usage error and ends the program. The error may quote an argument that came from somebody
/// else, so control characters in it are escaped.
fn refuse(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    if !text.contains(output::hides) {
        error.exit();
    }
    output::note(text.trim_end());
    process::exit(error.exit_code())
}

/// The command line with its examples.
pub fn command() -> clap::Command {
    let command = serve::taking_flags_again(Arguments::command());
    examples().fold(command, |command, (name, lines)| {
        let examples = format!("Examples:\n  gridpost {}", lines.join("\n  gridpost "));
        command.mut_subcommand(name, |command| command.after_help(examples))
    })
}

/// Each command with the examples that its `--help` shows: a paragraph that begins with its name.
fn examples() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    include_str!("examples.txt").split("\n\n").filter_map(|paragraph| {
        Some((paragraph.split_whitespace().next()?, paragraph.lines().collect()))
    })
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the whole product in this process and show that it delivers, retries and dead-letters
    Dev(dev::DevArguments),
    /// Run the whole product in this process, for production on one machine
    Serve(Box<serve::ServeArguments>),
    /// Make, list and revoke tokens for the manage API of `gridpost serve`
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Fail unless the process of `gridpost serve` takes publishes, for containers
    Healthcheck(serve::Place),
    /// Start the whole product as it runs on AWS, on an emulator on this machine
    Up(up::UpArguments),
    /// Run the functions from source beside the local stack, and rebuild them when a file changes
    Watch(watch::WatchArguments),
    /// Show which parts of the local stack run, where, and with which topics
    Status,
    /// Stop the local stack and remove everything but caches
    Down(down::DownArguments),
    /// Create, update, list, show or delete topics, show or replace their keys
    #[command(subcommand)]
    Topic(topic::TopicCommand),
    /// Create, update, show, list, pause, resume or delete event subscriptions
    #[command(subcommand)]
    Subscription(subscription::SubscriptionCommand),
    /// List, count, show, export, redrive or delete dead letters
    #[command(subcommand)]
    DeadLetter(dead_letter::DeadLetterCommand),
    /// `dead-letter redrive`, where people look for it first
    #[command(hide = true)]
    Redrive(Box<dead_letter::redrive::RedriveArguments>),
    /// Show, send back or remove messages that Gridpost's own code could not settle
    #[command(subcommand)]
    Poison(poison::PoisonCommand),
    /// List, release or cancel parked deliveries, which wait for long
    #[command(subcommand)]
    Parked(parked::ParkedCommand),
    /// List and show deliveries that have failed, or resend one now
    #[command(subcommand)]
    Delivery(delivery::DeliveryCommand),
    /// Inspect and operate a deployment in the browser, served on this machine
    Console(console::ConsoleArguments),
    /// Explain an event: which event subscriptions match it, what was attempted, and what comes next
    Explain(explain::ExplainArguments),
    /// Follow attempts as they are made
    Tail(tail::TailArguments),
    /// Wait until `gridpost dev` has delivered or dead-lettered a number of events
    Wait(wait::WaitArguments),
    /// Export topics and event subscriptions as one file, or as Terraform, for another deployment
    Export(export::ExportArguments),
    /// Create or replace the topics and event subscriptions that a file declares
    Apply(apply::ApplyArguments),
    /// Publish an event
    Publish(publish::PublishArguments),
    /// Make a SAS token from a topic key (offline)
    Sas(sas::SasArguments),
    /// Check that every published event was delivered, dead-lettered or dropped, or is still waiting
    Audit(audit::AuditArguments),
    /// Publish numbered events, receive them, and report missing ones: run it during an upgrade
    Prober(prober::ProberArguments),
    /// Shift the functions to their newest versions in steps, and back if an alarm goes off (untested on AWS)
    ///
    /// Needs versions = true and rollout = true in Terraform; docs/upgrades.md explains both. Ctrl-C reverts
    /// the rollout. So far it has only been tested on fakes, not on AWS.
    Rollout(rollout::RolloutArguments),
    /// Remember deployments by name, for --deployment
    #[command(subcommand)]
    Deployment(deployment::DeploymentCommand),
    /// Print a script that completes commands and flags in a shell
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Be an endpoint: print what arrives and answer as told
    Listen(listen::ListenArguments),
    /// Print the timeline of a retry policy before it is saved (offline)
    Schedule(schedule::ScheduleArguments),
    /// Estimate the cost of a million delivered events, or a deployment's monthly bill (offline)
    Cost(cost::CostArguments),
    /// Find what AWS would refuse in a Terraform plan, before you apply it
    Doctor(doctor::DoctorArguments),
    /// Test that a deployment delivers, retries and dead-letters, with a temporary topic and its own
    /// endpoints
    Verify(verify::VerifyArguments),
}

#[cfg(test)]
mod tests {
    use std::{any::TypeId, collections::BTreeSet, num::NonZeroUsize, time::Duration};

    use clap::error::ErrorKind;
    use gridpost_ops::given::TimeSpan;

    use super::*;

    /// `purge --deployment staging` in a shell of production must not purge production.
    #[test]
    fn the_command_line_chooses_before_the_environment() {
        let target = |line: &str| {
            // As their variables would.
            let command = [
                ("manage_url", "env-manage-url"),
                ("publish_url", "env-publish-url"),
                ("deployment", "env-deployment"),
                ("name_prefix", "env-name-prefix"),
                ("home", "env-home"),
            ]
            .into_iter()
            .fold(command(), |command, (id, value)| {
                command.mut_arg(id, |it| it.env(None::<&str>).default_value(value))
            });
            let words = std::iter::once("gridpost").chain(line.split_whitespace());
            let found = command.try_get_matches_from(words).expect("a command line");
            Arguments::of(&found).expect("it is understood").target
        };
        let some = |text: &str| Some(text.to_owned());
        let staging = target("topic list --deployment staging");
        assert_eq!(staging.deployment, some("staging"));
        assert_eq!(
            (staging.manage_url, staging.publish_url, staging.name_prefix),
            (None, None, None)
        );
        let here = target("--home x topic list --name-prefix p");
        assert_eq!((here.deployment, here.manage_url, here.name_prefix), (None, None, some("p")));
        let by_url = target("topic list --manage-url https://m.example");
        assert_eq!(by_url.manage_url, some("https://m.example"));
        assert_eq!(
            (by_url.publish_url, by_url.deployment),
            (some("env-publish-url"), some("env-deployment"))
        );
        assert_eq!(target("topic list").manage_url, some("env-manage-url"));
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn the_documented_lines_parse() {
        for line in [
            "up",
            "up --no-demo",
            "up --release",
            "dev --port 0 --memory --speed 60 --quiet",
            "dev --data /tmp/d --sync full --config topics.toml --logs --journal-max 2G",
            "wait --topic orders --subscription billing --delivered 10 --dead-lettered 1 --timeout 30s",
            "dev --tls",
            "export --topic orders --topic billing --with-secrets --json",
            "export --terraform infra --module ../gridpost/infra --deployment prod",
            "apply topics.json",
            "apply topics.json --dry-run --exit-code --prune",
            "apply topics.json --prune-topics --yes",
            "export --with-demo",
            "apply topics.toml --bucket gridpost=letters --bucket other=letters --json",
            "watch --port 9002",
            "status --json",
            "down --purge",
            "topic create orders --schema CloudEventSchemaV1_0",
            "topic create orders --kind namespace",
            "topic create orders --idempotency-window 300",
            "topic update orders --idempotency-window 0",
            "topic create orders --input-schema CustomEventSchema --mapping mapping.json",
            "sas --resource https://a/topics/orders/api/events --key K --lasts 24h",
            "sas --resource https://a/topics/orders --key K --until 2030-01-01T00:00:00Z --json",
            "topic keys orders --regenerate key1 --json",
            "cost --front-door function-url --events-per-publish 10 --json",
            "cost month --topics 10 --event-subscriptions 50 --events 1000000 --dashboard --json",
            "cost month --events 1.5M --topics 1k",
            "cost --sqs-ms 0.5 --endpoint-ms 1s",
            "cost month --hanging 1 --alarms all --kms-keys 2 --tracing",
            "doctor --plan plan.json --account-concurrency 10 --json",
            "doctor --plan plan.json --account",
            "verify",
            "verify --queue arn:aws:sqs:eu-central-1:123456789012:probe --json",
            "verify --webhook https://a/?token=t --reports https://sqs/1/r --dead-letter-bucket b",
            "verify --only retry,dead-letter --events 10 --fan-out 5 --fan-out-events 10",
            "verify --remove-leftovers",
            "subscription create --topic demo --subscription s1 --endpoint http://127.0.0.1:9000/hook \
             --dead-letter-bucket B --max-attempts 5 --ttl 30m",
            "subscription create --topic demo --subscription s1 --file s1.json",
            "subscription create --topic demo --subscription s1 --file s1.json --replace",
            "topic update orders --disable-local-auth true --if-match \"abc\"",
            "topic regenerate-key orders key2",
            "topic delete orders --if-match \"abc\"",
            "subscription update --topic demo --subscription s1 --labels a,b --json",
            "subscription update --topic demo --subscription s1 --file patch.json --if-match \"abc\"",
            "subscription delete --topic demo --subscription s1 --if-match \"abc\"",
            "subscription create --topic demo --subscription s1 --resource arn:aws:sqs:eu-central-1:123456789012:q \
             --message-group-id g",
            "subscription create --topic demo --subscription s1 --endpoint https://e --header A=b --sign \
             --secret-header S=t --dynamic-header D=data.k",
            "subscription secrets --topic demo --subscription s1 --rotate --overlap 60",
            "subscription pause --topic demo --subscription s1 --time-to-live-stops",
            "subscription pause --topic demo --subscription s1 --time-to-live-runs --json",
            "subscription resume --topic demo --subscription s1",
            "subscription health --topic demo --subscription s1 --json",
            "subscription health --topic demo --subscription s1 --reset",
            "subscription health",
            "subscription health --topic demo --json",
            "subscription health --since 24h",
            "subscription health --topic demo --subscription s1 --since 90m",
            "subscription show --topic demo --subscription s1",
            "dead-letter list --topic demo --subscription s1",
            "tail --topic demo --subscription s1",
            "audit --topic demo --subscription s1",
            "parked list --subscription s1",
            "subscription send-test --topic demo --subscription s1",
            "subscription send-test --topic demo --subscription s1 --event event.json --json",
            "subscription test-endpoint --topic demo --subscription s1 --json",
            "subscription test --topic demo --subscription s1 --events events.json --json",
            "subscription test --topic demo --file s1.json --events -",
            "subscription test --schema CloudEventSchemaV1_0 --file s1.json --events events.json",
            "subscription list --topic demo --manage-url https://a.execute-api.eu-north-1.amazonaws.com",
            "publish --topic demo --type T --subject S --data @event.json",
            "publish --topic demo --file body.json --key K",
            "schedule --profile basic --ttl 30m --max-attempts 10 --responses 500,408,200 --json",
            "schedule --topic demo --subscription s1 --responses 500,200",
            "schedule --responses 503 --retry-after 120",
            "schedule --answer 503 --retry-after 2m --schedule 10,5m --probation Busy=1m",
            "schedule --endpoint resource --schedule 1,2,3 --status-rule 404=60 --jitter",
            "delivery list --topic demo --subscription s1 --outcome Busy --json",
            "delivery list",
            "delivery list --limit 5",
            "delivery list --topic demo --outcome Busy --json",
            "delivery show 3f2504e0-4f89-41d3-9a0c-0305e82c3301 --topic demo --subscription s1",
            "delivery resend 3f2504e0-4f89-41d3-9a0c-0305e82c3301 --topic demo --subscription s1",
            "explain order-4711 --topic demo",
            "explain order-4711 --topic demo --event event.json --since 7d --json",
            "console",
            "console --deployment prod --read-only --port 0 --no-browser --json",
            "tail",
            "tail --topic demo --subscription s1 --outcome Busy --outcome TimedOut --since 10m",
            "tail --failed --name-prefix events --json",
            "audit",
            "audit --topic demo --subscription s1 --since 90m --wait 30 --json",
            "audit --wait 1m",
            "audit --name-prefix events --manage-url https://a.execute-api.eu-north-1.amazonaws.com",
            "listen --port 9000 --answer 500,500,200 --delay 2s",
            "dead-letter list",
            "dead-letter list --topic demo --since 2h --reason TimeToLiveExceeded --top 5 --json",
            "dead-letter count --topic demo --subscription s1 --from 2026-01-01T00:00:00Z --type T",
            "dead-letter show 2026-1-1-0-3f2504e0-4f89-41d3-9a0c-0305e82c3301-0 --topic demo \
             --subscription s1",
            "dead-letter redrive --topic demo",
            "dead-letter redrive --topic demo --subscription s1 --to-subscription s2 --to-topic other \
             --rate 50 --max-redrives 5 --again --since 1d",
            "dead-letter redrive --topic demo --subscription s1 --dry-run --detach",
            "dead-letter redrive --topic demo --subscription s1 --resume 3f2504e0",
            "dead-letter redrive --topic demo --subscription s1 --follow 3f2504e0 --json",
            "dead-letter redrives --topic demo --subscription s1",
            "dead-letter cancel 3f2504e0 --topic demo --subscription s1",
            "dead-letter purge --topic demo --to 2026-01-01T00:00:00Z --yes",
            "dead-letter purge --all --redriven --dry-run",
            "dead-letter count --topic demo --open",
            "dead-letter summary",
            "dead-letter summary --topic demo --open --since 7d --top 500 --json",
            "dead-letter export --topic demo --open --since 7d --to-file letters.jsonl",
            "dead-letter redrive --topic demo --subscription s1 --resume 3f2504e0 --rate 7",
            "redrive --topic demo --subscription s1 --dry-run",
            "topic delete orders --yes",
            "subscription delete --topic demo --subscription s1 --yes",
            "parked cancel --all --yes",
            "poison list --top 20 --json",
            "poison show 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
            "poison resend --all",
            "poison resend 3f2504e0 4f890c0c --to retry",
            "poison purge 3f2504e0 --yes",
            "poison purge --all --yes",
            "parked list --topic orders --subscription s1",
            "parked release 3f2504e0 4f890c0c",
            "parked release --topic orders",
            "parked cancel --subscription s1",
            "parked cancel --all",
            "prober --topic demo --rate 100 --for 30s --drain 1m --json",
            "rollout --step 10 --every 5 --dry-run --json",
            "rollout --every 1.5h",
            "rollout --function dispatch --function ingest=7 --ignore-alarm dead-letters --unwatched",
            "rollout --revert --deployment prod",
            "deployment add prod --manage-url https://a --name-prefix events --aws-profile p",
            "deployment remove prod",
            "topic list --deployment prod",
            "completion zsh",
        ] {
            let words = std::iter::once("gridpost").chain(line.split_whitespace());
            assert!(Arguments::try_parse_from(words).is_ok(), "{line}");
        }
    }

    /// Words as a shell makes them of a line, as far as examples need it.
    fn words(line: &str) -> Vec<String> {
        let line = line.split(" > ").next().unwrap_or_default();
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for character in line.chars() {
            match character {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                _ => words.last_mut().expect("there is one").push(character),
            }
        }
        words
    }

    #[test]
    fn every_command_has_examples_that_parse() {
        let commands = Arguments::command();
        for command in commands.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let of_it = examples().find(|(found, _)| *found == name);
            let (_, lines) = of_it.unwrap_or_else(|| panic!("{name} has no examples"));
            for line in lines {
                let parsed = Arguments::try_parse_from(words(&format!("gridpost {line}")));
                assert!(parsed.is_ok(), "{line}: {}", parsed.expect_err("refused"));
            }
        }
    }

    /// The commands of a page for people with an account of AWS, which no test can run.
    #[test]
    fn the_first_week_has_commands_that_parse() {
        let page = include_str!("../../docs/first-week-on-aws.md").replace("\\\n", "");
        let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        let lines = blocks.flat_map(str::lines).filter(|line| line.starts_with("gridpost "));
        let mut count = 0;
        for line in lines {
            // A shell would put in a queue's ARN and a bucket's name.
            let given = line.replace("$ARGUMENTS", "--queue arn:aws:sqs:eu-central-1:1:q");
            let given = match given.split_once("\"$(") {
                Some((before, rest)) => {
                    let (_, after) = rest.split_once(")\"").expect("it ends");
                    format!("{before}name{after}")
                }
                None => given,
            };
            let parsed = Arguments::try_parse_from(words(&given));
            assert!(parsed.is_ok(), "{line}: {}", parsed.expect_err("refused"));
            count += 1;
        }
        assert!(count > 8, "{count} commands");
    }

    /// Each flag of each command: the words that lead to the command, and the flag.
    fn flags(command: &clap::Command, words: &str) -> Vec<(String, clap::Arg)> {
        let own = command.get_arguments().filter(|flag| flag.get_long().is_some());
        let mut all: Vec<_> = own.map(|flag| (words.to_owned(), flag.clone())).collect();
        for command in command.get_subcommands() {
            all.extend(flags(command, &format!("{words} {}", command.get_name())));
        }
        all
    }

    #[test]
    fn each_time_and_each_count_is_read_by_the_one_reader() {
        const NUMBERS: [TypeId; 8] = [
            TypeId::of::<u8>(),
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
            TypeId::of::<f64>(),
            TypeId::of::<NonZeroUsize>(),
            TypeId::of::<Duration>(),
        ];
        let (mut times, mut counts) = (0, 0);
        for (words, flag) in flags(&Arguments::command(), "gridpost") {
            let name = flag.get_long().unwrap_or_default();
            let value = flag.get_value_names().unwrap_or_default().join("");
            let is_time = ["TIME", "TIME,…"].contains(&value.as_str());
            let kind = flag.get_value_parser().type_id();
            assert!(is_time || kind != TypeId::of::<TimeSpan>(), "{words} --{name} {value}");
            // Ports are no counts, and the others have fractions.
            let is_other = ["port", "failing", "hanging", "max-dollars"].contains(&name);
            let is_number = NUMBERS.iter().any(|number| kind == *number);
            let is_named = ["COUNT", "KILOBYTES"].contains(&value.as_str());
            let is_count = (is_number || is_named) && !is_other && !is_time;
            if !is_time && !is_count {
                continue;
            }
            let refused = |given: &str| {
                let line = format!("{words} --{name}={given}");
                let told = Arguments::try_parse_from(line.split(' ')).expect_err(&line);
                assert_eq!(told.kind(), ErrorKind::ValueValidation, "{line}: {told}");
                told.to_string()
            };
            let (want, seen) = match is_time {
                true => ("`10X` is not a time: write 500ms, 2s, 10m, 24h or 7d", &mut times),
                false => ("`10X` is no count: write 500, 10k, 2M or 1.5G", &mut counts),
            };
            *seen += 1;
            let told = refused("10X");
            assert!(told.contains(want), "{words} --{name}: {told}");
            // What a bare number means is said in the help.
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            if is_time && !help.contains("bare number") {
                assert!(refused("10").contains("write 10s, 10m, 10h or 10d"), "{words} --{name}");
            }
        }
        assert!(times > 15 && counts > 25, "{times} times, {counts} counts");
    }

    #[test]
    fn one_thing_has_one_name_and_shows_the_other() {
        let names = [
            ("subscription", "name"),
            ("limit", "top"),
            ("answer", "responses"),
            ("input-schema", "schema"),
            ("delivery-profile", "profile"),
            ("no-demo", "quiet"),
        ];
        let mut seen = BTreeSet::new();
        for (words, flag) in flags(&Arguments::command(), "gridpost") {
            let name = flag.get_long().unwrap_or_default();
            let shown = flag.get_visible_aliases().unwrap_or_default();
            assert_eq!(flag.get_all_aliases().unwrap_or_default(), shown, "{words} --{name}");
            for (one, other) in names {
                assert_ne!(name, other, "{words}: it is --{one}");
                if name == one {
                    assert_eq!(shown, [other], "{words} --{name}");
                    seen.insert(one);
                }
            }
        }
        assert_eq!(seen.len(), names.len());
    }

    #[test]
    fn what_is_missing_is_named_with_all_that_would_do() {
        // (line, what must be named)
        let table: [(&str, &[&str]); 6] = [
            ("dead-letter purge --yes", &["--topic", "--all"]),
            ("wait --topic orders", &["--delivered", "--dead-lettered"]),
            (
                "subscription create --topic demo --subscription s1",
                &["--endpoint", "--resource", "--file"],
            ),
            ("parked release", &["ID", "--topic", "--subscription", "--all"]),
            ("parked cancel --yes", &["ID", "--topic", "--subscription", "--all"]),
            ("topic update orders", &["--disable-local-auth", "--delivery-profile", "--file"]),
        ];
        for (line, want) in table {
            let words = std::iter::once("gridpost").chain(line.split_whitespace());
            let told = Arguments::try_parse_from(words).expect_err(line).to_string();
            let told = told.split("Usage:").next().unwrap_or_default();
            for part in want {
                assert!(told.contains(part), "{line}: {part} in {told}");
            }
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for line in [
            "subscription create --topic demo --subscription s1",
            "subscription create --topic demo --subscription s1 --endpoint http://e --file s1.json",
            "subscription create --topic demo --subscription s1 --resource arn:aws:s3:::b",
            "subscription create --topic demo --subscription s1 --endpoint http://e --message-group-id g",
            "subscription create --topic demo --subscription s1 --endpoint http://e \
             --resource arn:aws:sqs:eu-central-1:123456789012:q",
            "subscription create --topic demo --subscription s1 --endpoint http://e --ttl 30s",
            "subscription create --topic demo --subscription s1 --endpoint http://e --dead-letter-prefix p",
            "subscription test --topic demo --events events.json",
            "subscription test --schema EventGridSchema --subscription s1 --events events.json",
            "subscription test --file s1.json --events events.json",
            "publish --topic demo --file body.json --data {}",
            "topic create orders --file t.json --mapping mapping.json",
            "sas --key K",
            "listen --answer teapot",
            "apply topics.json --exit-code",
            "export --topic demo --with-demo",
            "dev --speed 0",
            "dev --speed 601",
            "dev --memory --data d",
            "wait --topic orders",
            "wait --delivered 1",
            "audit --subscription s1",
            "delivery resend --topic demo --subscription s1",
            "delivery list --subscription s1",
            "explain order-4711",
            "tail --subscription s1",
            "tail --failed --outcome Delivered",
            "tail --outcome Foo",
            "delivery list --topic demo --subscription s1 --outcome Foo",
            "delivery list --limit 0",
            "dead-letter list --reason Foo",
            "dead-letter list --subscription s1",
            "dead-letter show i --topic demo",
            "dead-letter redrive",
            "dead-letter redrive --topic demo --resume 3f2504e0",
            "dead-letter redrive --topic demo --subscription s --resume 3f2504e0 --dry-run",
            "dead-letter redrive --topic demo --to-subscription s2",
            "dead-letter redrive --topic demo --subscription s --resume 3f2504e0 --max-redrives 9",
            "dead-letter redrive --topic demo --subscription s --rate 0",
            "dead-letter redrive --topic demo --subscription s --rate 1001",
            "dead-letter redrive --topic demo --subscription s --max-redrives 101",
            "dead-letter purge --yes",
            "dead-letter export --topic demo",
            "dead-letter list --open --redriven",
            "dead-letter list --from 2026-01-01T00:00:00Z --since 1h",
            "poison list --top 101",
            "poison resend",
            "poison resend m-1 --all",
            "poison resend --all --to retry",
            "poison resend m-1 --to dispatch",
            "poison purge",
            "parked release",
            "parked cancel --all --topic t",
            "parked release m-1 --all",
            "prober --rate 0",
            "prober --endpoint https://e --for 10",
            "rollout --step 0",
            "rollout --step 101",
            "rollout --every 0",
            "rollout --every 25h",
            "tail --since 10",
            "rollout --function emit",
            "rollout --function dispatch=newest",
            "rollout --revert --step 10",
            "completion tcsh",
            "deployment add",
            "topic update orders",
            "topic regenerate-key orders key3",
            "subscription update --topic demo --subscription s1",
            "subscription health --subscription s1",
            "subscription health --topic demo --reset",
            "subscription health --topic demo --subscription s1 --reset --since 1h",
            "subscription update --topic demo --subscription s1 --file p.json --labels a",
        ] {
            let words = std::iter::once("gridpost").chain(line.split_whitespace());
            assert!(Arguments::try_parse_from(words).is_err(), "{line}");
        }
    }
}

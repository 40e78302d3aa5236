//! `gridpost subscription`: create, update, show, list, delete; health, secrets, tests of filters.

pub mod made;
mod send_test;
mod test;
mod update;

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use gridpost_api::{
    client::Tagged,
    health::{Health, WaitingDeliveries},
    subscription::{
        EventSubscription,
        signing::{RotateInput, SigningSecrets},
    },
    topic::Topic,
};
use gridpost_core::retry::profile::ProfileName;
use serde_json::Value;

use crate::{
    commands::{Deletion, Price, Scope, SubscriptionArgs, has_member, read_document},
    document::SettingFlags,
    output::{self, Output, or_dash},
    target::{Common, Target},
};
use gridpost_ops::{
    failure::{Misuse, Refusal},
    given::{TimeSpan, whole_seconds},
    lookup::{if_there, named},
    manage_api::ManageApi,
    schedule::delay_warning_of,
    subscription::{
        health::{self, Report},
        holds_back, pause,
        send_test::{explained, told},
        show::{self, awaited, describe},
        warnings,
    },
};

/// What to do with event subscriptions.
#[derive(Subcommand, Debug)]
pub enum SubscriptionCommand {
    /// Create an event subscription; --replace replaces the one of that name
    Create(Box<CreateArguments>),
    /// Change some settings of an event subscription
    Update(Box<update::UpdateArguments>),
    /// Show one event subscription
    Show(SubscriptionArgs),
    /// List the event subscriptions of a topic
    List {
        /// The topic
        #[arg(long)]
        topic: String,
    },
    /// Delete an event subscription
    Delete {
        /// Which event subscription
        #[command(flatten)]
        named: SubscriptionArgs,
        /// Only if the event subscription still has this ETag (`subscription show` prints it)
        #[arg(long, value_name = "ETAG")]
        if_match: Option<String>,
        /// Confirm that it is given up
        #[arg(long)]
        yes: bool,
    },
    /// Pause it: events are matched and held, and nothing is attempted until it is resumed
    #[command(group(ArgGroup::new("life").required(true).args(["time_to_live_runs", "time_to_live_stops"])))]
    Pause {
        /// Which event subscription
        #[command(flatten)]
        named: SubscriptionArgs,

        /// Time-to-live goes on meanwhile: what is held ends when it is over
        #[arg(long)]
        time_to_live_runs: bool,

        /// Time-to-live stands still meanwhile: what is held keeps what it has left
        #[arg(long)]
        time_to_live_stops: bool,
    },
    /// Resume it: what was held comes back, the first of it within a minute
    Resume(SubscriptionArgs),
    /// Show the secrets with which requests are signed, or make a new one
    Secrets {
        /// Whose
        #[command(flatten)]
        named: SubscriptionArgs,

        /// Make a new secret; the one until now stays valid for the overlap
        #[arg(long)]
        rotate: bool,

        /// How long, 0s to 7d [default: 1d]; a bare number is seconds
        #[arg(long, value_name = "TIME", requires = "rotate", value_parser = whole_seconds)]
        overlap: Option<u32>,
    },
    /// Show endpoint health, cause and next probe: of one, of all of a topic, or of all
    Health {
        /// Whose
        #[command(flatten)]
        scope: Scope,

        /// End its probation or delayed delivery, and its row of failures
        #[arg(long, requires = "subscription")]
        reset: bool,

        /// Also what became of events published since so long, from the beginning of that hour on: 90m,
        /// 24h, 7d. How long they took until they were delivered, and how many were dead-lettered or
        /// dropped
        #[arg(long, value_name = "TIME", conflicts_with = "reset")]
        since: Option<TimeSpan>,

        #[command(flatten)]
        price: Price,
    },
    /// Send one event to this event subscription alone, and tell what its endpoint answers
    SendTest(send_test::SendTestArguments),
    /// Try the endpoint once, as deliveries would, and tell which step failed (name, connection, TLS,
    /// token or certificate, answer) and what to do
    TestEndpoint(send_test::SendTestArguments),
    /// Say whether a filter wants sample events, and which part of it refuses them
    Test(test::TestArguments),
}

/// What to create, from flags or from a document.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("what").required(true).args(["endpoint", "resource", "file"])))]
pub struct CreateArguments {
    #[command(flatten)]
    named: SubscriptionArgs,

    /// The event subscription as a JSON document, in Event Grid's ARM shape (`-`: standard input)
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    settings: SettingFlags<true>,

    /// If there is one of that name, replace it whole: what is not named is set to its default
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    consent: made::ConsentFlags,
}

impl CreateArguments {
    async fn document(&self, api: &ManageApi) -> anyhow::Result<Value> {
        if let Some(file) = &self.file {
            return read_document(file);
        }
        let profile = match self.settings.need_profile() {
            true => delivery_profile(&api.topic(&self.named.topic).await?.document),
            false => ProfileName::Basic,
        };
        Ok(self.settings.document(profile)?.into_properties())
    }
}

/// Returns a topic's delivery profile.
fn delivery_profile(topic: &Topic) -> ProfileName {
    topic.properties.settings.delivery_profile.unwrap_or(ProfileName::Basic)
}

/// Runs `gridpost subscription`.
pub async fn run(command: SubscriptionCommand, common: &Common) -> anyhow::Result<()> {
    if let SubscriptionCommand::Test(arguments) = command {
        return test::run(arguments, common).await;
    }
    let resolved = common.target.resolve()?;
    let api = resolved.manage_api().await?;
    match command {
        SubscriptionCommand::Test(_) => {}
        SubscriptionCommand::SendTest(arguments) => {
            send_test::run(&arguments, &api, common.output, told).await?;
        }
        SubscriptionCommand::TestEndpoint(arguments) => {
            send_test::run(&arguments, &api, common.output, explained).await?;
        }
        SubscriptionCommand::Health {
            scope: Scope { topic, subscription: None },
            since,
            price,
            ..
        } => {
            show_healths(
                &api,
                &resolved,
                topic.as_deref(),
                since.map(|since| (since, price)),
                common.output,
            )
            .await?;
        }
        SubscriptionCommand::Health {
            scope: Scope { topic, subscription: Some(name) },
            reset,
            since,
            price,
        } => {
            let key = (topic.unwrap_or_default(), name);
            show_health(
                &api,
                &resolved,
                key,
                reset,
                since.map(|since| (since, price)),
                common.output,
            )
            .await?;
        }
        SubscriptionCommand::Pause { named, time_to_live_runs, time_to_live_stops: _ } => {
            let SubscriptionArgs { topic, subscription: name } = named;
            let standing = api.pause(&topic, &name, time_to_live_runs).await?;
            common.output.print(&standing, pause::describe);
        }
        SubscriptionCommand::Resume(SubscriptionArgs { topic, subscription: name }) => {
            common.output.print(&api.resume(&topic, &name).await?, pause::describe);
        }
        SubscriptionCommand::Secrets {
            named: SubscriptionArgs { topic, subscription: name },
            rotate,
            overlap,
        } => {
            let secrets = match rotate {
                true => {
                    let input = RotateInput { overlap_in_seconds: overlap };
                    api.rotate_signing_secret(&topic, &name, &input).await?
                }
                false => api.signing_secrets(&topic, &name).await?,
            };
            common.output.print(&secrets, describe_secrets);
        }
        SubscriptionCommand::Create(create) => {
            let made = make(&create, &api).await?;
            let done = if made.is_new { "created" } else { "replaced" };
            warn_of_waits(&made);
            made::warn_of_unmatched(&api, &made).await;
            common.output.tell(&made, |made| format!("{done}\n{}", describe(made)));
            create.consent.check_one(&made)?;
        }
        SubscriptionCommand::Update(arguments) => change(&arguments, api, common.output).await?,
        SubscriptionCommand::Show(SubscriptionArgs { topic, subscription: name }) => {
            let subscription = api.subscription(&topic, &name).await?;
            common.output.print(&subscription, describe);
            made::warn_of_unmatched(&api, &subscription).await;
        }
        SubscriptionCommand::List { topic } => list(&topic, &api, common.output).await?,
        SubscriptionCommand::Delete { named, if_match, yes } => {
            delete(&named, if_match, yes, api, common.output).await?;
        }
    }
    Ok(())
}

async fn show_healths(
    api: &ManageApi,
    target: &Target,
    topic: Option<&str>,
    since: Option<(TimeSpan, Price)>,
    output: Output,
) -> anyhow::Result<()> {
    let mut all = health::of_all(api, topic).await?;
    if let Some((since, Price { max_dollars })) = since {
        note_gaps(&health::add_counts(&mut all, target, since, max_dollars).await?);
    }
    let now = target.now().await?;
    output.print(&health::document(&all), |_| health::table(&all, now));
    Ok(())
}

fn note_gaps(gaps: &[String]) {
    gaps.iter().for_each(|gap| output::note(&format!("! {gap}")));
}

async fn show_health(
    api: &ManageApi,
    target: &Target,
    (topic, name): (String, String),
    reset: bool,
    since: Option<(TimeSpan, Price)>,
    output: Output,
) -> anyhow::Result<()> {
    let health = match reset {
        true => api.reset_health(&topic, &name).await,
        false => api.health(&topic, &name).await,
    };
    let health = named(api, (&topic, Some(&name)), health).await?;
    let whose = SubscriptionArgs::named(api, &topic, &name).await;
    let mut one = Report::of(whose.topic, whose.subscription, health);
    if let Some((since, Price { max_dollars })) = since {
        let one = std::slice::from_mut(&mut one);
        note_gaps(&health::add_counts(one, target, since, max_dollars).await?);
    }
    let now = target.now().await?;
    output.print(&one.document(), |_| one.describe(now));
    Ok(())
}

async fn change(
    arguments: &update::UpdateArguments,
    api: ManageApi,
    output: Output,
) -> anyhow::Result<()> {
    let SubscriptionArgs { topic, subscription: name } = &arguments.named;
    let update::Patch { document, etag } = arguments.patch(&api).await?;
    let changed = api.clone().only_if(etag).patch_subscription(topic, name, &document).await?;
    // A change of its URL is all that asks the endpoint: a header with a wrong secret shows later.
    let test = match has_member(&document, "destination") && awaited(&changed).is_none() {
        true => format!(
            "\n\ntest it: gridpost subscription send-test --topic {topic} --subscription {name}"
        ),
        false => String::new(),
    };
    if has_member(&document, "retryPolicy") {
        warn_of_waits(&changed);
    }
    made::warn_of_unmatched(&api, &changed).await;
    output.tell(&changed, |changed| format!("updated\n{}{test}", describe(changed)));
    arguments.consent.check_one(&changed)?;
    Ok(())
}

async fn list(topic: &str, api: &ManageApi, output: Output) -> anyhow::Result<()> {
    // Programs ask for healths by themselves: each is a request of its own.
    let all = match output.is_json() {
        true => api.subscriptions(topic).await?.into_iter().map(|one| (one, None)).collect(),
        false => health::of_topic(api, topic).await?,
    };
    let subscriptions: Vec<_> = all.iter().map(|(subscription, _)| subscription).collect();
    output.print_list(&subscriptions, |_| show::list(topic, &all));
    Ok(())
}

async fn delete(
    SubscriptionArgs { topic, subscription: name }: &SubscriptionArgs,
    if_match: Option<String>,
    yes: bool,
    api: ManageApi,
    output: Output,
) -> anyhow::Result<()> {
    if !yes && let Some(health) = if_there(api.health(topic, name).await)? {
        return Err(Misuse(consent(topic, name, &health)).into());
    }
    let was_there = api.only_if(if_match).delete_subscription(topic, name).await?;
    let deletion = Deletion::new(topic, Some(name), was_there);
    output.print(&deletion, |it| {
        format!("event subscription {name} of topic {topic} {}", it.describe())
    });
    Ok(())
}

/// Says beside the answer where events may end without an attempt.
fn warn_of_waits(subscription: &EventSubscription) {
    warnings::print(delay_warning_of(subscription));
}

/// Creates an event subscription; one that is there is replaced only where that was asked for.
async fn make(
    create: &CreateArguments,
    api: &ManageApi,
) -> anyhow::Result<Tagged<EventSubscription>> {
    let SubscriptionArgs { topic, subscription: name } = &create.named;
    let document = create.document(api).await?;
    if create.replace {
        return api.put_subscription(topic, name, &document).await;
    }
    let made = api.clone().only_new().put_subscription(topic, name, &document).await;
    made.map_err(|error| match error.downcast_ref::<Refusal>() {
        Some(refusal) if refusal.status == 412 => error.context(format!(
            "the event subscription {name} of topic {topic} is there already, and stays as it is (an earlier \
             try may have made it: `gridpost subscription show --topic {topic} --subscription {name}`). `gridpost \
             subscription update --topic {topic} --subscription {name}` changes single settings and keeps the others; \
             --replace replaces it whole"
        )),
        _ => error,
    })
}

fn consent(topic: &str, name: &str, health: &Health) -> String {
    let WaitingDeliveries { count, is_complete, .. } = health.waiting_deliveries;
    let more = if is_complete { "" } else { "more than " };
    let lost = match (health.waiting_events, count) {
        (Some(events), _) => format!("all events that wait ({events}) are lost"),
        (None, 1) => "the events of 1 delivery that has failed and waits are lost".to_owned(),
        (None, _) => {
            format!("the events of {more}{count} deliveries that have failed and wait are lost")
        }
    };
    let is_whole = health.waiting_events.is_some() || !holds_back(health);
    let held = if is_whole { "" } else { HELD_BACK };
    format!(
        "This permanently deletes the event subscription {name} of topic {topic}; {lost}{held}. Repeat with \
         --yes."
    )
}

/// The part of a deletion's warning about deliveries that were never attempted.
const HELD_BACK: &str = ", and with them all that is held back before its first attempt, which is not \
     counted here (`gridpost parked list` shows what is parked)";

fn describe_secrets(secrets: &SigningSecrets) -> String {
    let SigningSecrets { secret, previous_secret, previous_secret_valid_until } = secrets;
    let row = |name: &str, text: String| [name.to_owned(), text];
    output::columns(&[
        row("secret", secret.expose().to_owned()),
        row("previous secret", or_dash(previous_secret.as_ref().map(|secret| secret.expose()))),
        row("valid until", or_dash(*previous_secret_valid_until)),
    ])
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::json;

    use super::*;

    fn health(patch: &Value) -> Health {
        serde_json::from_value(documents::health(patch)).expect("whole")
    }

    #[test]
    fn a_deletion_says_what_is_lost_with_it() {
        let health = health(&json!({"waitingDeliveries": {"count": 20_000, "isComplete": false}}));
        let told = consent("orders", "billing", &health);
        assert!(told.contains("event subscription billing of topic orders"), "{told}");
        assert!(
            told.contains(
                "the events of more than 20000 deliveries that have failed and wait are lost"
            ),
            "{told}"
        );
        assert!(told.ends_with("Repeat with --yes.") && !told.contains("held back"), "{told}");
        let known = json!({"waitingEvents": 1_000, "newEvents": "Waits"});
        let told = consent("orders", "billing", &self::health(&known));
        assert!(told.contains("; all events that wait (1000) are lost. Repeat"), "{told}");
    }

    #[test]
    fn a_deletion_says_that_what_is_held_back_goes_uncounted() {
        let pause = json!({"pause": {"since": "2026-01-01T00:00:00Z",
            "until": "2026-01-02T00:00:00Z", "timeToLiveRuns": true}});
        let table = [
            (health(&json!({"newEvents": "Attempted"})), false),
            (health(&json!({"newEvents": "Waits"})), true),
            (health(&json!({"newEvents": "Held"})), true),
            (health(&pause), true),
        ];
        for (health, want) in table {
            let told = consent("orders", "billing", &health);
            assert_eq!(told.contains("all that is held back"), want, "{told}");
        }
    }
}

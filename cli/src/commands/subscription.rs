//! `gridpost subscription`: create, update, show, list, delete; health, secrets, tests of filters.

mod health;
mod test;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use gridpost_core::retry::profile::ProfileName;
use serde_json::{Value, json};

use crate::commands::read_document;
use crate::document::SubscriptionFlags;
use crate::manage_api::ManageApi;
use crate::output::{self, Output, text_at};
use crate::target::TargetArguments;

/// What to do with event subscriptions.
#[derive(Subcommand, Debug)]
pub enum SubscriptionCommand {
    /// Create an event subscription, or replace the one of that name
    Create(Box<CreateArguments>),
    /// Change some settings of an event subscription
    Update(UpdateArguments),
    /// Show one event subscription
    Show(NamedArguments),
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
        named: NamedArguments,
        /// Only if the event subscription still has this ETag (`subscription show` prints it)
        #[arg(long, value_name = "ETAG")]
        if_match: Option<String>,
    },
    /// Show the secrets with which requests are signed, or make a new one
    Secrets {
        /// Whose
        #[command(flatten)]
        named: NamedArguments,

        /// Make a new secret; the one until now stays valid for the overlap
        #[arg(long)]
        rotate: bool,

        /// How long, in seconds, 0 to 604800 (default 86400)
        #[arg(long, value_name = "SECONDS", requires = "rotate")]
        overlap: Option<u32>,
    },
    /// Say whether the endpoint is asked at all, why not, and until when
    Health {
        /// Whose
        #[command(flatten)]
        named: NamedArguments,

        /// End its probation or delayed delivery, and its row of failures
        #[arg(long)]
        reset: bool,
    },
    /// Say whether a filter wants sample events, and which part of it refuses them
    Test(test::TestArguments),
}

/// Which event subscription.
#[derive(Args, Debug)]
pub struct NamedArguments {
    /// The topic
    #[arg(long)]
    topic: String,

    /// The event subscription: 2 to 64 letters, digits and hyphens
    #[arg(long)]
    name: String,
}

/// What to create, from flags or from a document.
#[derive(Args, Debug)]
pub struct CreateArguments {
    #[command(flatten)]
    named: NamedArguments,

    /// The event subscription as a JSON document, in Event Grid's ARM shape (`-`: standard input)
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    flags: SubscriptionFlags,
}

/// What to change of an event subscription.
#[derive(Args, Debug)]
pub struct UpdateArguments {
    #[command(flatten)]
    named: NamedArguments,

    /// URL that receives the events; it is asked for its consent
    #[arg(long, value_name = "URL", required_unless_present_any = ["labels", "expires", "file"])]
    endpoint: Option<String>,

    /// All labels
    #[arg(long, value_name = "LABEL,…", value_delimiter = ',')]
    labels: Vec<String>,

    /// From then on it matches nothing: 2030-01-01T00:00:00Z
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,

    /// The patch as a JSON document: members that it names change, null is the default (`-`: standard input)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["endpoint", "labels", "expires"])]
    file: Option<PathBuf>,

    /// Only if the event subscription still has this ETag (`subscription show` prints it)
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
}

impl UpdateArguments {
    fn patch(&self) -> anyhow::Result<Value> {
        if let Some(file) = &self.file {
            return read_document(file);
        }
        let mut patch = json!({});
        if let Some(url) = &self.endpoint {
            patch["destination"] = json!({"properties": {"endpointUrl": url}});
        }
        if !self.labels.is_empty() {
            patch["labels"] = json!(self.labels);
        }
        if let Some(at) = &self.expires {
            patch["expirationTimeUtc"] = json!(at);
        }
        Ok(patch)
    }
}

impl CreateArguments {
    async fn document(&self, api: &ManageApi) -> anyhow::Result<Value> {
        let Some(file) = &self.file else {
            let profile = match self.flags.have_limits() {
                true => delivery_profile(&api.topic(&self.named.topic).await?),
                false => ProfileName::Basic,
            };
            return Ok(self.flags.to_document(profile));
        };
        read_document(file)
    }
}

/// A topic's delivery profile; one that this program does not know is taken for the default.
fn delivery_profile(topic: &Value) -> ProfileName {
    let named = topic.pointer("/properties/deliveryProfile").cloned().unwrap_or_default();
    serde_json::from_value(named).unwrap_or(ProfileName::Basic)
}

/// Runs `gridpost subscription`.
///
/// # Errors
///
/// A refusal by the server, a misuse, or a transport failure.
pub async fn run(
    command: SubscriptionCommand,
    target: &TargetArguments,
    output: Output,
) -> anyhow::Result<()> {
    if let SubscriptionCommand::Test(arguments) = command {
        return test::run(arguments, target, output).await;
    }
    let api = target.resolve()?.manage_api().await?;
    match command {
        SubscriptionCommand::Test(_) => {}
        SubscriptionCommand::Health { named: NamedArguments { topic, name }, reset } => {
            let health = match reset {
                true => api.reset_health(&topic, &name).await?,
                false => api.health(&topic, &name).await?,
            };
            output.print(&health, |health| health::describe(&topic, &name, health));
        }
        SubscriptionCommand::Secrets { named: NamedArguments { topic, name }, rotate, overlap } => {
            let secrets = match rotate {
                true => api.rotate_signing_secret(&topic, &name, overlap).await?,
                false => api.signing_secrets(&topic, &name).await?,
            };
            output.print(&secrets, describe_secrets);
        }
        SubscriptionCommand::Create(create) => {
            let NamedArguments { topic, name } = &create.named;
            let reply = api.put_subscription(topic, name, &create.document(&api).await?).await?;
            let done = if reply.status == 201 { "created" } else { "updated" };
            output.print_tagged(&reply, |document| format!("{done}\n{}", describe(document)));
        }
        SubscriptionCommand::Update(update) => {
            let NamedArguments { topic, name } = &update.named;
            let api = api.only_if(update.if_match.clone());
            let reply = api.patch_subscription(topic, name, &update.patch()?).await?;
            output.print_tagged(&reply, |document| format!("updated\n{}", describe(document)));
        }
        SubscriptionCommand::Show(NamedArguments { topic, name }) => {
            output.print_tagged(&api.read_subscription(&topic, &name).await?, describe);
        }
        SubscriptionCommand::List { topic } => {
            let subscriptions = api.subscriptions(&topic).await?;
            output.print(&json!({ "value": subscriptions }), |_| list(&topic, &subscriptions));
        }
        SubscriptionCommand::Delete { named: NamedArguments { topic, name }, if_match } => {
            let reply = api.only_if(if_match).delete_subscription(&topic, &name).await?;
            let done = if reply.status == 204 { "was not there" } else { "deleted" };
            let document = json!({"topic": topic, "name": name, "status": reply.status});
            output
                .print(&document, |_| format!("event subscription {name} of topic {topic} {done}"));
        }
    }
    Ok(())
}

/// The destination as a user knows it; a webhook's URL is shown without its query, which is a secret.
fn destination(subscription: &Value) -> String {
    let at = |member: &str| {
        let pointer = format!("/properties/destination/properties/{member}");
        subscription.pointer(&pointer).and_then(Value::as_str)
    };
    at("endpointBaseUrl").or(at("endpointUrl")).or(at("resourceId")).unwrap_or("-").to_owned()
}

/// A number of a document by its pointer.
fn number_at(document: &Value, pointer: &str) -> String {
    document.pointer(pointer).map_or_else(|| "-".to_owned(), Value::to_string)
}

fn describe(subscription: &Value) -> String {
    let at = |pointer| text_at(subscription, pointer).to_owned();
    let types =
        subscription.pointer("/properties/filter/includedEventTypes").and_then(Value::as_array);
    let types =
        types.map(|types| types.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "));
    let dead_letter = match at("/properties/deadLetterDestination/properties/bucketName") {
        none if none == "-" => "none: undeliverable events are dropped".to_owned(),
        bucket => format!(
            "s3://{bucket}/{}",
            match at("/properties/deadLetterDestination/properties/prefix") {
                none if none == "-" => String::new(),
                prefix => prefix,
            }
        ),
    };
    let policy = format!(
        "{} attempts, {} minutes",
        number_at(subscription, "/properties/retryPolicy/maxDeliveryAttempts"),
        number_at(subscription, "/properties/retryPolicy/eventTimeToLiveInMinutes"),
    );
    let row = |name: &str, value: String| [name.to_owned(), value];
    output::columns(&[
        row("event subscription", at("/name")),
        row("etag", at("/etag")),
        row("state", state(&at("/properties/provisioningState"))),
        row("endpoint", destination(subscription)),
        row(
            "event types",
            types.filter(|types| !types.is_empty()).unwrap_or_else(|| "all".to_owned()),
        ),
        row("delivery schema", at("/properties/eventDeliverySchema")),
        row("retry policy", policy),
        row("dead letters", dead_letter),
    ])
}

/// What a state asks for.
fn state(name: &str) -> String {
    match name {
        "AwaitingManualAction" => {
            "AwaitingManualAction: no events flow until the validation URL that the endpoint was sent has been \
             opened, within 10 minutes"
                .to_owned()
        }
        "Failed" => {
            "Failed: the endpoint was not validated within 10 minutes; create it again".to_owned()
        }
        other => other.to_owned(),
    }
}

fn describe_secrets(secrets: &Value) -> String {
    let row = |name: &str, pointer: &str| [name.to_owned(), text_at(secrets, pointer).to_owned()];
    output::columns(&[
        row("secret", "/secret"),
        row("previous secret", "/previousSecret"),
        row("valid until", "/previousSecretValidUntil"),
    ])
}

fn list(topic: &str, subscriptions: &[Value]) -> String {
    if subscriptions.is_empty() {
        return format!(
            "no event subscriptions; create one: gridpost subscription create --topic {topic} --name <name> --endpoint <url>"
        );
    }
    let row = |subscription: &Value| {
        let at = |pointer| text_at(subscription, pointer).to_owned();
        [at("/name"), at("/properties/provisioningState"), destination(subscription)]
    };
    let head = ["EVENT SUBSCRIPTION", "STATE", "ENDPOINT"].map(str::to_owned);
    output::columns(&std::iter::once(head).chain(subscriptions.iter().map(row)).collect::<Vec<_>>())
}

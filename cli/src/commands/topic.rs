//! `gridpost topic`: create, update, list, show, delete, keys.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use gridpost_api::topic::{AccessKey, Keys};
use serde_json::{Value, json};

use crate::{
    commands::read_document,
    output::{self, text_at},
    target::{Common, replace_key},
};
use gridpost_ops::{
    failure::{Misuse, Refusal},
    given::whole_seconds,
    manage_api::ManageApi,
    subscription::warnings,
};

/// What to do with topics.
#[derive(Subcommand, Debug)]
pub enum TopicCommand {
    /// Create a topic, or replace all settings of the one of that name
    ///
    /// Refused where that would set back a setting of an existing topic that is not named: `topic
    /// update` changes some settings and keeps the others.
    Create(CreateArguments),
    /// Change some settings of a topic
    Update(UpdateArguments),
    /// List all topics
    List,
    /// Show one topic
    Show {
        /// The topic
        topic: String,
    },
    /// Delete a topic and its event subscriptions
    Delete {
        /// The topic
        topic: String,
        /// Only if the topic still has this ETag (`topic show` prints it)
        #[arg(long, value_name = "ETAG")]
        if_match: Option<String>,
        /// Confirm that it is given up
        #[arg(long)]
        yes: bool,
    },
    /// Replace one key by a new one; the other stays valid
    RegenerateKey {
        /// The topic
        topic: String,
        /// Which key
        #[arg(value_parser = ["key1", "key2"])]
        key: String,
    },
    /// Show the two keys that publishers authenticate with
    Keys {
        /// The topic
        topic: String,
        /// Replace this key by a new one first
        #[arg(long, value_name = "KEY", value_parser = ["key1", "key2"])]
        regenerate: Option<String>,
    },
}

/// Flags that describe a topic.
#[derive(Args, Debug)]
pub struct CreateArguments {
    /// The topic: 3 to 50 letters, digits and hyphens
    topic: String,

    /// Schema of the events that publishers send: EventGridSchema, CloudEventSchemaV1_0, CustomEventSchema
    /// [default: EventGridSchema; CloudEventSchemaV1_0 for namespace]
    #[arg(long, visible_alias = "schema", value_name = "SCHEMA", conflicts_with = "file")]
    input_schema: Option<String>,

    /// What is what in events of CustomEventSchema: Event Grid's inputSchemaMapping as a JSON document
    /// (`-`: standard input)
    #[arg(long, value_name = "FILE", requires = "input_schema", conflicts_with = "file")]
    mapping: Option<PathBuf>,

    /// `custom` or `namespace`
    #[arg(long, default_value = "custom", conflicts_with = "file")]
    kind: String,

    /// Refuse keys and SAS tokens
    #[arg(long, conflicts_with = "file")]
    disable_local_auth: bool,

    /// Answer a publish that is repeated under its `Idempotency-Key` (or `x-ms-client-request-id`) within
    /// this time as the first one, and deliver it once: 1m to 24h; a bare number is seconds [default: keys are
    /// not heeded]
    #[arg(long, value_name = "TIME", value_parser = whole_seconds, conflicts_with = "file")]
    idempotency_window: Option<u32>,

    /// The topic as a JSON document (`-`: standard input)
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// What to change of a topic.
#[derive(Args, Debug)]
#[command(group(
    ArgGroup::new("change")
        .required(true)
        .multiple(true)
        .args(["disable_local_auth", "delivery_profile", "idempotency_window", "file"])
))]
pub struct UpdateArguments {
    /// The topic
    topic: String,

    /// Whether keys and SAS tokens are refused
    #[arg(long, value_name = "BOOL")]
    disable_local_auth: Option<bool>,

    /// `basic`, `basic2021` or `namespace`
    #[arg(long, visible_alias = "profile", value_name = "PROFILE")]
    delivery_profile: Option<String>,

    /// How long a publish is recognised that is repeated under its key: 1m to 24h; 0: keys are not heeded; a
    /// bare number is seconds
    #[arg(long, value_name = "TIME", value_parser = whole_seconds)]
    idempotency_window: Option<u32>,

    /// The patch as a JSON document: members that it names change, null is the default (`-`: standard input)
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["disable_local_auth", "delivery_profile", "idempotency_window"]
    )]
    file: Option<PathBuf>,

    /// Only if the topic still has this ETag (`topic show` prints it)
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
}

impl UpdateArguments {
    fn patch(&self) -> anyhow::Result<Value> {
        if let Some(file) = &self.file {
            return read_document(file);
        }
        let mut properties = json!({});
        if let Some(disabled) = self.disable_local_auth {
            properties["disableLocalAuth"] = json!(disabled);
        }
        if let Some(profile) = &self.delivery_profile {
            properties["deliveryProfile"] = json!(profile);
        }
        if let Some(seconds) = self.idempotency_window {
            properties["idempotency"] = match seconds {
                0 => Value::Null,
                _ => json!({"windowInSeconds": seconds}),
            };
        }
        Ok(json!({ "properties": properties }))
    }
}

impl CreateArguments {
    fn document(&self) -> anyhow::Result<Value> {
        let Some(file) = &self.file else {
            let mut properties = json!({});
            if let Some(schema) = &self.input_schema {
                properties["inputSchema"] = json!(schema);
            }
            if let Some(file) = &self.mapping {
                properties["inputSchemaMapping"] = read_document(file)?;
            }
            if self.disable_local_auth {
                properties["disableLocalAuth"] = json!(true);
            }
            if let Some(seconds) = self.idempotency_window {
                properties["idempotency"] = json!({"windowInSeconds": seconds});
            }
            return Ok(json!({"kind": self.kind, "properties": properties}));
        };
        read_document(file)
    }
}

/// Runs `gridpost topic`.
pub async fn run(command: TopicCommand, common: &Common) -> anyhow::Result<()> {
    let target = common.target.resolve()?;
    let api = target.manage_api().await?;
    match command {
        TopicCommand::Create(create) => {
            let document = create.document()?;
            keeps_the_rest(&create.topic, existing(&api, &create.topic).await?, &document)?;
            let reply = api.put_topic(&create.topic, &document).await?;
            let done = if reply.status == 201 { "created" } else { "updated" };
            warnings::print(warnings::unmapped(&reply.document));
            common.output.print_tagged(&reply, |topic| format!("{done}\n{}", describe(topic)));
        }
        TopicCommand::Update(update) => {
            let api = api.only_if(update.if_match.clone());
            let reply = api.patch_topic(&update.topic, &update.patch()?).await?;
            warnings::print(warnings::unmapped(&reply.document));
            common.output.print_tagged(&reply, |topic| format!("updated\n{}", describe(topic)));
        }
        TopicCommand::List => {
            let topics = api.topics().await?;
            common.output.print(&json!({ "value": topics }), |_| list(&topics));
        }
        TopicCommand::Show { topic } => {
            common.output.print_tagged(&api.read_topic(&topic).await?, describe);
        }
        TopicCommand::Delete { topic, if_match, yes } => {
            if !yes && api.find_topic(&topic).await?.is_some() {
                return Err(Misuse(consent(&topic, &api.subscriptions(&topic).await?)).into());
            }
            let reply = api.only_if(if_match).delete_topic(&topic).await?;
            let done = if reply.status == 204 { "was not there" } else { "deleted" };
            let document = json!({"topic": topic, "status": reply.status});
            common.output.print(&document, |_| format!("topic {topic} {done}"));
        }
        TopicCommand::Keys { topic, regenerate } => {
            let keys = match regenerate {
                Some(key) => replace_key(&api, &target, &topic, access_key(&key)?).await?,
                None => api.api.keys(&topic).await?,
            };
            common.output.print(&keys, write_keys);
        }
        TopicCommand::RegenerateKey { topic, key } => {
            let keys = replace_key(&api, &target, &topic, access_key(&key)?).await?;
            common.output.print(&keys, write_keys);
        }
    }
    Ok(())
}

/// The topic that is there already, as far as this identity may read it and the name is one.
async fn existing(api: &ManageApi, topic: &str) -> anyhow::Result<Option<Value>> {
    match api.find_topic(topic).await {
        // The request that follows says more of a name that is refused.
        Err(error)
            if error.downcast_ref::<Refusal>().is_some_and(|it| matches!(it.status, 400 | 403)) =>
        {
            Ok(None)
        }
        found => found,
    }
}

/// Refuses a document that would undo settings of an existing topic without naming them: access
/// that was shut would be open again.
fn keeps_the_rest(topic: &str, existing: Option<Value>, document: &Value) -> anyhow::Result<()> {
    let undone = existing.map(|existing| undone(&existing, document)).unwrap_or_default();
    anyhow::ensure!(
        undone.is_empty(),
        "the topic {topic} is there already, and `topic create` sets back what it does not name: {}. \
         `gridpost topic update {topic}` changes some settings and keeps the others; to replace them all, \
         name each by --file.",
        undone.join(", ")
    );
    Ok(())
}

/// Lists the settings of an existing topic that differ from the default and are not named: from
/// what to what each changes.
fn undone(existing: &Value, document: &Value) -> Vec<String> {
    let is_namespace = existing["kind"] == "namespace";
    let defaults = [
        ("disableLocalAuth", json!(false)),
        ("deliveryProfile", json!(if is_namespace { "namespace" } else { "basic" })),
        ("inputSchemaMapping", Value::Null),
        ("idempotency", Value::Null),
    ];
    let change = |(name, default): (&str, Value)| {
        let has = existing["properties"].get(name)?;
        // Documents of Azure's tools have no properties.
        let is_named = document["properties"].get(name).or(document.get(name)).is_some();
        let to = if default.is_null() { "none".to_owned() } else { default.to_string() };
        (*has != default && !is_named).then(|| format!("{name} from {has} to {to}"))
    };
    defaults.into_iter().filter_map(change).collect()
}

fn consent(topic: &str, subscriptions: &[Value]) -> String {
    let names: Vec<_> = subscriptions.iter().map(|one| text_at(one, "/name")).collect();
    let names = match names.is_empty() {
        true => String::new(),
        false => format!(" ({})", names.join(", ")),
    };
    format!(
        "This permanently deletes the topic {topic} with its keys and {}{names}; deliveries under way are \
         lost. Repeat with --yes.",
        output::count(subscriptions.len() as u64, "event subscription")
    )
}

fn access_key(name: &str) -> anyhow::Result<AccessKey> {
    Ok(serde_json::from_value(name.into())?)
}

fn write_keys(keys: &Keys) -> String {
    format!("key1  {}\nkey2  {}", keys.key1.expose(), keys.key2.expose())
}

fn describe(topic: &Value) -> String {
    let at = |pointer| text_at(topic, pointer).to_owned();
    output::columns(&[
        ["topic".to_owned(), at("/name")],
        ["kind".to_owned(), at("/kind")],
        ["input schema".to_owned(), at("/properties/inputSchema")],
        ["delivery profile".to_owned(), at("/properties/deliveryProfile")],
        ["keys and SAS".to_owned(), key_access(topic).to_owned()],
        ["repeated publishes".to_owned(), repeats(topic)],
        ["endpoint".to_owned(), at("/properties/endpoint")],
        ["state".to_owned(), at("/properties/provisioningState")],
        ["etag".to_owned(), at("/etag")],
    ])
}

fn key_access(topic: &Value) -> &'static str {
    match topic.pointer("/properties/disableLocalAuth").and_then(Value::as_bool) {
        Some(true) => "refused (disableLocalAuth true)",
        Some(false) => "accepted (disableLocalAuth false)",
        None => "-",
    }
}

fn repeats(topic: &Value) -> String {
    match topic.pointer("/properties/idempotency/windowInSeconds").and_then(Value::as_u64) {
        Some(seconds) => format!("delivered once, by their key, for {seconds} s"),
        None => "delivered again (no idempotency)".to_owned(),
    }
}

fn list(topics: &[Value]) -> String {
    if topics.is_empty() {
        return "no topics; create one: gridpost topic create <name>".to_owned();
    }
    let row = |topic: &Value| {
        ["/name", "/kind", "/properties/inputSchema", "/properties/endpoint"]
            .map(|pointer| text_at(topic, pointer).to_owned())
    };
    let head = ["TOPIC", "KIND", "INPUT SCHEMA", "ENDPOINT"];
    output::table(head, topics.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_is_not_undone() {
        let topic = |kind: &str, properties: Value| json!({"kind": kind, "properties": properties});
        let plain = json!({"disableLocalAuth": false, "deliveryProfile": "basic"});
        let space = json!({"disableLocalAuth": false, "deliveryProfile": "namespace"});
        let shut = json!({"disableLocalAuth": true, "deliveryProfile": "basic2021"});
        let mapped = json!({"inputSchemaMapping": {"inputSchemaMappingType": "Json"}});
        let profile = "deliveryProfile from \"basic2021\" to \"basic\"";
        let all = format!("disableLocalAuth from true to false, {profile}");
        // (the topic, what is named, what would be undone)
        let table = [
            (topic("custom", plain), json!({}), ""),
            (topic("namespace", space), json!({}), ""),
            (topic("custom", shut.clone()), json!({}), all.as_str()),
            (topic("custom", shut.clone()), json!({"disableLocalAuth": true}), profile),
            (topic("custom", shut.clone()), shut, ""),
            (
                topic("custom", mapped.clone()),
                json!({"inputSchema": "CustomEventSchema"}),
                "inputSchemaMapping from {\"inputSchemaMappingType\":\"Json\"} to none",
            ),
            (topic("custom", mapped.clone()), mapped, ""),
        ];
        for (existing, named, want) in table {
            let document = json!({"kind": "custom", "properties": named});
            assert_eq!(undone(&existing, &document).join(", "), want, "{existing} {document}");
            assert_eq!(undone(&existing, &named).join(", "), want, "{existing}, flat: {named}");
            let kept = keeps_the_rest("orders", Some(existing), &document);
            assert_eq!(kept.is_ok(), want.is_empty(), "{document}");
            if let Err(refused) = kept {
                let refused = refused.to_string();
                assert!(refused.contains("`gridpost topic update orders`"), "{refused}");
            }
        }
        assert!(keeps_the_rest("orders", None, &json!({})).is_ok());
    }

    #[test]
    fn a_topic_tells_who_may_publish_and_by_which_rules() {
        let topic = json!({"name": "orders",
            "properties": {"disableLocalAuth": true, "deliveryProfile": "basic2021"}});
        let text = describe(&topic);
        assert!(text.contains("disableLocalAuth true") && text.contains("basic2021"), "{text}");
    }

    #[test]
    fn a_deletion_says_what_goes_with_it() {
        let told = consent("orders", &[json!({"name": "a"}), json!({"name": "b"})]);
        assert!(
            told.contains("topic orders with its keys and 2 event subscriptions (a, b)"),
            "{told}"
        );
        assert!(told.ends_with("Repeat with --yes."), "{told}");
    }
}

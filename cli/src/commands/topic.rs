//! `gridpost topic`: create, update, list, show, delete, keys.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use gridpost_api::{
    client::Tagged,
    subscription::EventSubscription,
    topic::{self, AccessKey, IdempotencySettings, Keys, Topic, TopicSettings},
};
use gridpost_core::{
    retry::profile::ProfileName,
    topic::{InputSchema, Kind},
};
use serde::Serialize;
use serde_json::Value;

use super::{Deletion, has_member, one_of, one_of_names, read_document};
use crate::{
    output::{self, or_dash},
    target::{Common, replace_key},
};
use gridpost_ops::{
    failure::{Misuse, Refusal},
    given::whole_seconds,
    lookup::if_there,
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
        #[arg(value_parser = one_of(KEYS.to_vec()))]
        key: AccessKey,
    },
    /// Show the two keys that publishers authenticate with
    Keys {
        /// The topic
        topic: String,
        /// Replace this key by a new one first
        #[arg(long, value_name = "KEY", value_parser = one_of(KEYS.to_vec()))]
        regenerate: Option<AccessKey>,
    },
}

const KEYS: [(&str, AccessKey); 2] = [("key1", AccessKey::Key1), ("key2", AccessKey::Key2)];

/// Flags that describe a topic.
#[derive(Args, Debug)]
pub struct CreateArguments {
    /// The topic: 3 to 50 letters, digits and hyphens
    topic: String,

    /// Schema of the events that publishers send [default: EventGridSchema; CloudEventSchemaV1_0 for
    /// namespace]
    #[arg(long, visible_alias = "schema", value_name = "SCHEMA", conflicts_with = "file",
        value_parser = one_of_names::<InputSchema>(), ignore_case = true)]
    input_schema: Option<InputSchema>,

    /// What is what in events of CustomEventSchema: Event Grid's inputSchemaMapping as a JSON document
    /// (`-`: standard input)
    #[arg(long, value_name = "FILE", requires = "input_schema", conflicts_with = "file")]
    mapping: Option<PathBuf>,

    /// The kind of Event Grid's topics that it is like
    #[arg(long, default_value = "custom", conflicts_with = "file",
        value_parser = one_of_names::<Kind>(), ignore_case = true)]
    kind: Kind,

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

    /// The table of rules by which events are delivered
    #[arg(long, visible_alias = "profile", value_name = "PROFILE",
        value_parser = one_of_names::<ProfileName>(), ignore_case = true)]
    delivery_profile: Option<ProfileName>,

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

/// A topic's document, or a patch of one, as flags give it.
#[serde_with::skip_serializing_none]
#[derive(Serialize)]
struct Document {
    kind: Option<Kind>,
    properties: Properties,
}

#[serde_with::skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    #[serde(flatten)]
    settings: TopicSettings,
    /// The file's content, unchecked: the server reports every problem in it.
    input_schema_mapping: Option<Value>,
    /// Null restores the default.
    idempotency: Option<Option<IdempotencySettings>>,
}

fn idempotency(seconds: u32) -> IdempotencySettings {
    IdempotencySettings { window_in_seconds: Some(seconds) }
}

impl UpdateArguments {
    fn patch(&self) -> anyhow::Result<Value> {
        if let Some(file) = &self.file {
            return read_document(file);
        }
        let settings = TopicSettings {
            disable_local_auth: self.disable_local_auth,
            delivery_profile: self.delivery_profile,
            ..TopicSettings::default()
        };
        let idempotency =
            self.idempotency_window.map(|window| (window > 0).then(|| idempotency(window)));
        let properties = Properties { settings, input_schema_mapping: None, idempotency };
        Ok(serde_json::to_value(Document { kind: None, properties })?)
    }
}

impl CreateArguments {
    fn document(&self) -> anyhow::Result<Value> {
        if let Some(file) = &self.file {
            return read_document(file);
        }
        let settings = TopicSettings {
            input_schema: self.input_schema,
            disable_local_auth: self.disable_local_auth.then_some(true),
            idempotency: self.idempotency_window.map(idempotency),
            ..TopicSettings::default()
        };
        let input_schema_mapping = self.mapping.as_deref().map(read_document).transpose()?;
        let properties = Properties { settings, input_schema_mapping, idempotency: None };
        Ok(serde_json::to_value(Document { kind: Some(self.kind), properties })?)
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
            let topic = api.put_topic(&create.topic, &document).await?;
            let done = if topic.is_new { "created" } else { "updated" };
            warnings::print(warnings::unmapped(&topic.document));
            common.output.print(&topic, |topic| format!("{done}\n{}", describe(topic)));
        }
        TopicCommand::Update(update) => {
            let api = api.only_if(update.if_match.clone());
            let topic = api.patch_topic(&update.topic, &update.patch()?).await?;
            warnings::print(warnings::unmapped(&topic.document));
            common.output.print(&topic, |topic| format!("updated\n{}", describe(topic)));
        }
        TopicCommand::List => {
            common.output.print_list(&api.topics().await?, list);
        }
        TopicCommand::Show { topic } => {
            common.output.print(&api.topic(&topic).await?, describe);
        }
        TopicCommand::Delete { topic, if_match, yes } => {
            if !yes && if_there(api.topic(&topic).await)?.is_some() {
                return Err(Misuse(consent(&topic, &api.subscriptions(&topic).await?)).into());
            }
            let was_there = api.only_if(if_match).delete_topic(&topic).await?;
            let deletion = Deletion::new(&topic, None, was_there);
            common.output.print(&deletion, |it| format!("topic {topic} {}", it.describe()));
        }
        TopicCommand::Keys { topic, regenerate } => {
            let keys = match regenerate {
                Some(key) => replace_key(&api, &target, &topic, key).await?,
                None => api.keys(&topic).await?,
            };
            common.output.print(&keys, write_keys);
        }
        TopicCommand::RegenerateKey { topic, key } => {
            let keys = replace_key(&api, &target, &topic, key).await?;
            common.output.print(&keys, write_keys);
        }
    }
    Ok(())
}

/// Reads a topic of that name, as far as there is one that this identity may read.
async fn existing(api: &ManageApi, topic: &str) -> anyhow::Result<Option<Topic>> {
    match if_there(api.topic(topic).await) {
        // The request that follows says more of a name that is refused.
        Err(error)
            if error.downcast_ref::<Refusal>().is_some_and(|it| matches!(it.status, 400 | 403)) =>
        {
            Ok(None)
        }
        found => Ok(found?.map(|found| found.document)),
    }
}

/// Refuses a document that would undo settings of an existing topic without naming them: access
/// that was shut would be open again.
fn keeps_the_rest(topic: &str, existing: Option<Topic>, document: &Value) -> anyhow::Result<()> {
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
fn undone(existing: &Topic, document: &Value) -> Vec<String> {
    let has = existing.properties.settings.clone();
    let default = topic::defaults(existing.kind);
    let profile = default.delivery_profile;
    let settings = [
        ("disableLocalAuth", text(has.disable_local_auth.filter(|it| *it)), text(Some(false))),
        (
            "deliveryProfile",
            text(has.delivery_profile.filter(|it| *it != profile)),
            text(Some(profile)),
        ),
        ("inputSchemaMapping", text(has.input_schema_mapping), None),
        ("idempotency", text(has.idempotency), None),
    ];
    let undone = settings.into_iter().filter(|(name, ..)| !has_member(document, name));
    let change = |(name, from, to): (&str, Option<String>, Option<String>)| {
        Some(format!("{name} from {} to {}", from?, to.as_deref().unwrap_or("none")))
    };
    undone.filter_map(change).collect()
}

fn text(setting: Option<impl Serialize>) -> Option<String> {
    serde_json::to_string(&setting?).ok()
}

fn consent(topic: &str, subscriptions: &[EventSubscription]) -> String {
    let names: Vec<_> = subscriptions.iter().map(|one| one.name.as_str()).collect();
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

fn write_keys(keys: &Keys) -> String {
    format!("key1  {}\nkey2  {}", keys.key1.expose(), keys.key2.expose())
}

fn describe(topic: &Tagged<Topic>) -> String {
    let Topic { name, kind, properties, .. } = &topic.document;
    let settings = &properties.settings;
    let row = |name: &str, text: String| [name.to_owned(), text];
    output::columns(&[
        row("topic", name.clone()),
        row("kind", kind_name(*kind)),
        row("input schema", schema_name(settings)),
        row("delivery profile", or_dash(settings.delivery_profile.map(<&str>::from))),
        row("keys and SAS", key_access(settings).to_owned()),
        row("repeated publishes", repeats(settings)),
        row("endpoint", properties.endpoint.clone()),
        row("state", properties.provisioning_state.clone()),
        row("etag", or_dash(topic.etag.as_ref())),
    ])
}

fn kind_name(kind: Kind) -> String {
    <&str>::from(kind).to_owned()
}

fn schema_name(settings: &TopicSettings) -> String {
    or_dash(settings.input_schema.map(<&str>::from))
}

fn key_access(settings: &TopicSettings) -> &'static str {
    match settings.disable_local_auth {
        Some(true) => "refused (disableLocalAuth true)",
        Some(false) => "accepted (disableLocalAuth false)",
        None => "-",
    }
}

fn repeats(settings: &TopicSettings) -> String {
    match settings.idempotency.as_ref().and_then(|it| it.window_in_seconds) {
        Some(seconds) => format!("delivered once, by their key, for {seconds} s"),
        None => "delivered again (no idempotency)".to_owned(),
    }
}

fn list(topics: &[Topic]) -> String {
    if topics.is_empty() {
        return "no topics; create one: gridpost topic create <name>".to_owned();
    }
    let row = |Topic { name, kind, properties, .. }: &Topic| {
        let schema = schema_name(&properties.settings);
        [name.clone(), kind_name(*kind), schema, properties.endpoint.clone()]
    };
    output::table(["TOPIC", "KIND", "INPUT SCHEMA", "ENDPOINT"], topics.iter().map(row))
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::json;

    use super::*;

    fn topic(kind: &str, properties: &Value) -> Topic {
        let patch = json!({"kind": kind, "properties": properties});
        serde_json::from_value(documents::topic("orders", &patch)).expect("whole")
    }

    #[test]
    fn what_is_not_named_is_not_undone() {
        let plain = json!({"disableLocalAuth": false, "deliveryProfile": "basic"});
        let space = json!({"disableLocalAuth": false, "deliveryProfile": "namespace"});
        let shut = json!({"disableLocalAuth": true, "deliveryProfile": "basic2021"});
        let mapped = json!({"inputSchemaMapping":
            {"inputSchemaMappingType": "Json", "properties": {"id": {"sourceField": "a"}}}});
        let profile = "deliveryProfile from \"basic2021\" to \"basic\"";
        let all = format!("disableLocalAuth from true to false, {profile}");
        // (the topic, what is named, what would be undone)
        let table = [
            (topic("custom", &plain), json!({}), ""),
            (topic("namespace", &space), json!({}), ""),
            (topic("custom", &shut), json!({}), all.as_str()),
            (topic("custom", &shut), json!({"disableLocalAuth": true}), profile),
            (topic("custom", &shut), shut, ""),
            (
                topic("custom", &mapped),
                json!({"inputSchema": "CustomEventSchema"}),
                "inputSchemaMapping from {\"inputSchemaMappingType\":\"Json\",\"properties\":{\"id\":\
                 {\"sourceField\":\"a\"}}} to none",
            ),
            (topic("custom", &mapped), mapped, ""),
        ];
        for (existing, named, want) in table {
            let document = json!({"kind": "custom", "properties": named});
            assert_eq!(undone(&existing, &document).join(", "), want, "{existing:?} {document}");
            assert_eq!(undone(&existing, &named).join(", "), want, "{existing:?}, flat: {named}");
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
        let properties = json!({"disableLocalAuth": true, "deliveryProfile": "basic2021"});
        let document = topic("custom", &properties);
        let text = describe(&Tagged { document, is_new: false, etag: None });
        assert!(text.contains("disableLocalAuth true") && text.contains("basic2021"), "{text}");
    }

    #[test]
    fn a_deletion_says_what_goes_with_it() {
        let named = |name: &str| {
            serde_json::from_value(documents::subscription(name, &json!({}))).expect("whole")
        };
        let told = consent("orders", &[named("a"), named("b")]);
        assert!(
            told.contains("topic orders with its keys and 2 event subscriptions (a, b)"),
            "{told}"
        );
        assert!(told.ends_with("Repeat with --yes."), "{told}");
    }
}

//! `gridpost subscription update`: a patch out of flags. What has several parts, headers and filters, is
//! read first, so that the parts that no flag names stay.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Command, Id};
use serde_json::{Map, Value, json};

use super::{delivery_profile, made::ConsentFlags};
use crate::{
    commands::{SubscriptionArgs, read_document},
    document::{AuthenticationFlags, SettingFlags, retry_limits},
    output::text_at,
};
use gridpost_ops::{failure::Misuse, manage_api::ManageApi};

/// The flags of which one must be given, beside those of the settings.
const CHANGES: [&str; 8] = [
    "endpoint",
    "labels",
    "expires",
    "file",
    "remove_headers",
    "no_dead_letter",
    "no_labels",
    "no_authentication",
];

fn changes() -> impl Iterator<Item = Id> {
    CHANGES.into_iter().map(Id::from).chain(flags_of::<SettingFlags>())
}

fn flags_of<T: Args>() -> Vec<Id> {
    T::augment_args(Command::new("")).get_arguments().map(|flag| flag.get_id().clone()).collect()
}

/// What to change of an event subscription.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("change").required(true).multiple(true).args(changes())))]
pub struct UpdateArguments {
    #[command(flatten)]
    pub(super) named: SubscriptionArgs,

    /// URL that receives the events; it is asked for its consent
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,

    /// All labels
    #[arg(long, value_name = "LABEL,…", value_delimiter = ',')]
    labels: Vec<String>,

    /// Take all labels away
    #[arg(long, conflicts_with_all = ["labels", "file"])]
    no_labels: bool,

    /// From then on it matches nothing: 2030-01-01T00:00:00Z
    #[arg(long, value_name = "DATE-TIME")]
    expires: Option<String>,

    #[command(flatten)]
    settings: SettingFlags,

    /// Take this header away; may be given several times. Headers that no flag names stay
    #[arg(long = "remove-header", value_name = "NAME", conflicts_with = "file")]
    remove_headers: Vec<String>,

    /// Authenticate requests no longer
    #[arg(long, conflicts_with_all = flags_of::<AuthenticationFlags>(), conflicts_with = "file")]
    no_authentication: bool,

    /// Store no dead letters from now on: what ends undelivered is lost
    #[arg(long, conflicts_with_all = ["dead_letter_bucket", "file"])]
    no_dead_letter: bool,

    /// The patch as a JSON document: members that it names change, null is the default (`-`: standard input)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["endpoint", "labels", "expires"])]
    file: Option<PathBuf>,

    /// Only if the event subscription still has this ETag (`subscription show` prints it)
    #[arg(long, value_name = "ETAG")]
    pub(super) if_match: Option<String>,

    #[command(flatten)]
    pub(super) consent: ConsentFlags,
}

/// A patch, and the `ETag` of what it was made for.
pub(super) struct Patch {
    pub(super) document: Value,
    pub(super) etag: Option<String>,
}

impl UpdateArguments {
    /// The patch. Fails with [`Misuse`] where a header is to be removed that does not exist.
    pub(super) async fn patch(&self, api: &ManageApi) -> anyhow::Result<Patch> {
        if let Some(file) = &self.file {
            return Ok(Patch { document: read_document(file)?, etag: self.if_match.clone() });
        }
        self.settings.authentication.check()?;
        let SubscriptionArgs { topic, subscription: name } = &self.named;
        let (mut current, mut etag, mut topic_document) =
            (json!({}), self.if_match.clone(), json!({}));
        if self.has_parts() {
            let read = api.read_subscription(topic, name).await?;
            (current, etag) = (read.document, etag.or(read.etag));
            self.check_removed(&current)?;
        }
        if self.settings.have_limits() {
            topic_document = api.topic(topic).await?;
        }
        Ok(Patch { document: self.patch_of(&current, &topic_document), etag })
    }

    /// Whether what is there now must be known.
    fn has_parts(&self) -> bool {
        let headers = !self.settings.attributes().is_empty() || !self.remove_headers.is_empty();
        headers || !self.settings.filter().is_empty() || self.settings.authentication.name_type()
    }

    /// A misspelt header must not stay in silence: it may hold a secret.
    fn check_removed(&self, current: &Value) -> Result<(), Misuse> {
        let all: Vec<_> = headers_of(current).iter().map(|one| text_at(one, "/name")).collect();
        let is_there = |name: &&String| all.iter().any(|own| own.eq_ignore_ascii_case(name));
        let Some(missing) = self.remove_headers.iter().find(|name| !is_there(name)) else {
            return Ok(());
        };
        let all = if all.is_empty() { "no headers".to_owned() } else { all.join(", ") };
        Err(Misuse(format!(
            "--remove-header: there is no header `{missing}`; the event subscription has {all}"
        )))
    }

    fn patch_of(&self, current: &Value, topic: &Value) -> Value {
        let settings = &self.settings;
        let mut destination = settings.batching();
        if let Some(url) = &self.endpoint {
            destination.insert("endpointUrl".to_owned(), json!(url));
        }
        let stored = current.pointer("/properties/destination/properties/authentication");
        let stored = stored.unwrap_or(&Value::Null);
        if let Some(authentication) = settings.authentication.authentication_beside(stored) {
            destination.insert("authentication".to_owned(), authentication);
        }
        if self.no_authentication {
            destination.insert("authentication".to_owned(), Value::Null);
        }
        let is_changed = !settings.attributes().is_empty() || !self.remove_headers.is_empty();
        if is_changed {
            let headers = self.headers(current);
            destination.insert("deliveryAttributeMappings".to_owned(), json!(headers));
        }
        let mut filter = settings.filter();
        if !filter.is_empty() {
            let before = current.pointer("/properties/filter").and_then(Value::as_object);
            let mut whole = before.cloned().unwrap_or_default();
            whole.append(&mut filter);
            filter = whole;
        }
        let limits = match settings.have_limits() {
            true => retry_limits(delivery_profile(topic), settings.max_attempts, settings.ttl),
            false => Map::new(),
        };
        let mut patch = Value::Object(settings.others());
        if !destination.is_empty() {
            patch["destination"] = json!({"properties": destination});
        }
        for (name, group) in [("filter", filter), ("retryPolicy", limits)] {
            if !group.is_empty() {
                patch[name] = Value::Object(group);
            }
        }
        if self.no_dead_letter {
            patch["deadLetterDestination"] = Value::Null;
        }
        if !self.labels.is_empty() || self.no_labels {
            patch["labels"] = json!(self.labels);
        }
        if let Some(at) = &self.expires {
            patch["expirationTimeUtc"] = json!(at);
        }
        patch
    }

    /// All headers that it will have: those that no flag names as they are, secrets without their value.
    fn headers(&self, current: &Value) -> Vec<Value> {
        let given = self.settings.attributes();
        let named = |one: &Value, name: &str| {
            one["name"].as_str().is_some_and(|own| own.eq_ignore_ascii_case(name))
        };
        let is_replaced = |one: &Value| {
            let replaced = given.iter().filter_map(|new| new["name"].as_str());
            let removed = self.remove_headers.iter().map(String::as_str);
            replaced.chain(removed).any(|name| named(one, name))
        };
        let before = headers_of(current).iter();
        let mut all: Vec<_> = before.filter(|one| !is_replaced(one)).cloned().collect();
        all.extend(given.iter().cloned());
        all
    }
}

fn headers_of(current: &Value) -> &[Value] {
    let place = "/properties/destination/properties/deliveryAttributeMappings";
    current.pointer(place).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: UpdateArguments,
    }

    fn patch(line: &str, current: &Value) -> Value {
        let words = format!("update --topic t --subscription s {line}");
        let parsed = Line::try_parse_from(words.split_whitespace());
        let arguments = parsed.unwrap_or_else(|error| panic!("{line}: {error}")).arguments;
        arguments.patch_of(current, &json!({"properties": {"deliveryProfile": "namespace"}}))
    }

    #[test]
    fn what_create_sets_update_changes_and_the_rest_stays() {
        let secret = json!({"name": "X-Key", "type": "Static", "properties": {"isSecret": true}});
        let plain = json!({"name": "X-A", "type": "Static", "properties": {"value": "1", "isSecret": false}});
        let current = json!({"properties": {
            "filter": {"subjectBeginsWith": "/a", "includedEventTypes": ["T"]},
            "destination": {"properties": {"deliveryAttributeMappings": [secret, plain]}},
        }});
        let new = json!({"name": "x-a", "type": "Static", "properties": {"value": "2", "isSecret": true}});
        let headers = |list: Value| json!({"destination": {"properties": {"deliveryAttributeMappings": list}}});
        let table = [
            ("--secret-header x-a=2", headers(json!([secret, new]))),
            ("--remove-header x-key", headers(json!([plain]))),
            (
                "--subject-ends-with z",
                json!({"filter": {
                "subjectBeginsWith": "/a", "includedEventTypes": ["T"], "subjectEndsWith": "z"}}),
            ),
            (
                "--dead-letter-bucket b --dead-letter-prefix p",
                json!({"deadLetterDestination":
                {"endpointType": "S3Bucket", "properties": {"bucketName": "b", "prefix": "p"}}}),
            ),
            ("--no-dead-letter", json!({"deadLetterDestination": null})),
            ("--max-attempts 3", json!({"retryPolicy": {"maxDeliveryCount": 3}})),
            (
                "--max-events-per-batch 9 --endpoint https://e",
                json!({"destination": {"properties":
                {"maxEventsPerBatch": 9, "endpointUrl": "https://e"}}}),
            ),
            ("--probation-policy Delay", json!({"probationPolicy": "Delay"})),
            ("--labels a,b --expires T", json!({"labels": ["a", "b"], "expirationTimeUtc": "T"})),
            (
                "--no-labels --sign",
                json!({"labels": [], "signing": {"scheme": "StandardWebhooks"}}),
            ),
        ];
        for (line, want) in table {
            assert_eq!(patch(line, &current), want, "{line}");
        }
    }

    #[test]
    fn a_header_that_does_not_exist_is_not_removed_in_silence() {
        let headers = json!([{"name": "X-Key"}, {"name": "X-A"}]);
        let current = json!({"properties": {"destination": {"properties": {
            "deliveryAttributeMappings": headers}}}});
        // (the flags, what is there, what is missing)
        let table = [
            ("--remove-header x-key --remove-header X-A", &current, None),
            ("--remove-header x-key --remove-header Nope", &current, Some("`Nope`")),
            ("--remove-header Nope", &Value::Null, Some("no headers")),
        ];
        for (line, current, want) in table {
            let words = format!("update --topic t --subscription s {line}");
            let parsed = Line::try_parse_from(words.split_whitespace()).expect("it parses");
            let told = parsed.arguments.check_removed(current).err().map(|refused| refused.0);
            let is_told = |part: &str| told.as_ref().is_some_and(|told| told.contains(part));
            assert!(want.map_or(told.is_none(), is_told), "{line}: {told:?}");
        }
    }

    /// A flag that is missing in the lists could not be given alone.
    #[test]
    fn every_flag_that_changes_something_is_a_change() {
        const NO_CHANGE: [&str; 4] = ["topic", "subscription", "if_match", "no_wait"];
        let command = Line::command();
        let all = command.get_arguments().map(|flag| flag.get_id().to_string());
        let all: BTreeSet<_> = all.filter(|id| !NO_CHANGE.contains(&id.as_str())).collect();
        assert_eq!(changes().map(|id| id.to_string()).collect::<BTreeSet<_>>(), all);
        assert_eq!(changes().count(), all.len(), "each in one list");
    }

    #[test]
    fn an_update_of_nothing_is_refused() {
        for line in
            ["update --topic t --subscription s", "update --topic t --subscription s --if-match e"]
        {
            assert!(Line::try_parse_from(line.split_whitespace()).is_err(), "{line}");
        }
    }
}

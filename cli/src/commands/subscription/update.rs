//! `gridpost subscription update`: a patch out of flags. What has several parts, headers and filters, is
//! read first, so that the parts that no flag names stay.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Command, Id};
use gridpost_api::settings::Document;
use gridpost_core::retry::profile::ProfileName;
use gridpost_ops::manage_api::ManageApi;
use serde_json::Value;

use super::{delivery_profile, made::ConsentFlags};
use crate::{
    commands::{SubscriptionArgs, read_document},
    document::SettingFlags,
};

/// The flags of which one must be given.
fn changes() -> impl Iterator<Item = Id> {
    let flags = SettingFlags::<false>::augment_args(Command::new(""));
    let flags: Vec<_> = flags.get_arguments().map(|flag| flag.get_id().clone()).collect();
    flags.into_iter().chain([Id::from("file")])
}

/// What to change of an event subscription.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("change").required(true).multiple(true).args(changes())))]
pub struct UpdateArguments {
    #[command(flatten)]
    pub(super) named: SubscriptionArgs,

    #[command(flatten)]
    settings: SettingFlags<false>,

    /// The patch as a JSON document: members that it names change, null is the default (`-`: standard input)
    #[arg(long, value_name = "FILE")]
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
    pub(super) async fn patch(&self, api: &ManageApi) -> anyhow::Result<Patch> {
        let mut etag = self.if_match.clone();
        if let Some(file) = &self.file {
            return Ok(Patch { document: read_document(file)?, etag });
        }
        let SubscriptionArgs { topic, subscription: name } = &self.named;
        let mut current = Document::default();
        if self.settings.need_current() {
            let read = api.subscription(topic, name).await?;
            (current, etag) = (Document::of(&read.document), etag.or(read.etag));
        }
        let profile = match self.settings.need_profile() {
            true => delivery_profile(&api.topic(topic).await?.document),
            false => ProfileName::Basic,
        };
        let document = self.settings.patch(&current, profile)?.into_properties();
        Ok(Patch { document, etag })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory, Parser};
    use serde_json::json;

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
        let patch = arguments.settings.patch(&Document::of(current), ProfileName::Namespace);
        patch.expect("a patch").into_properties()
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
                json!({"labels": null, "signing": {"scheme": "StandardWebhooks"}}),
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
            let patch = parsed.arguments.settings.patch(&Document::of(current), ProfileName::Basic);
            let told = patch.err().map(|refused| refused.0);
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

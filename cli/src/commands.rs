//! One file per command.

pub mod apply;
pub mod audit;
pub mod completion;
pub mod console;
pub mod cost;
pub mod dead_letter;
pub mod delivery;
pub mod deployment;
pub mod dev;
pub mod doctor;
pub mod down;
pub mod explain;
pub mod export;
pub mod listen;
pub mod parked;
pub mod poison;
pub mod prober;
mod process;
pub mod publish;
pub mod rollout;
pub mod sas;
pub mod schedule;
pub mod serve;
pub mod status;
pub mod subscription;
pub mod tail;
pub mod token;
pub mod topic;
pub mod up;
pub mod verify;
pub mod wait;
pub mod watch;

use std::{fmt, path::Path};

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use gridpost_api::subscription::EventSubscription;
use serde::{
    Serialize,
    de::{
        DeserializeOwned, IntoDeserializer,
        value::{Error as ValueError, StrDeserializer},
    },
};
use serde_json::{Value, value::RawValue};
use strum::VariantNames;

use gridpost_ops::{
    failure::Misuse,
    files,
    given::read_json,
    lookup::{if_there, spelled},
    manage_api::ManageApi,
};

/// An event subscription.
#[derive(Args, Clone, Debug, Serialize)]
pub struct SubscriptionArgs {
    /// Topic of the event subscription
    #[arg(long, value_name = "NAME")]
    topic: String,

    /// The event subscription
    #[arg(long, visible_alias = "name", value_name = "NAME")]
    #[serde(rename = "eventSubscription")]
    subscription: String,
}

impl fmt::Display for SubscriptionArgs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.topic, self.subscription)
    }
}

/// A document, with the event subscription that it belongs to.
#[derive(Clone, Debug, Serialize)]
struct Owned<D> {
    #[serde(flatten)]
    document: D,
    #[serde(flatten)]
    owner: SubscriptionArgs,
}

/// Which event subscriptions: all, those of a topic, or one of them.
#[derive(Args, Clone, Debug, Default)]
pub struct Scope {
    /// Only this topic [default: all topics]
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,

    /// Only this event subscription of the topic [default: all]
    #[arg(long, visible_alias = "name", value_name = "NAME", requires = "topic")]
    subscription: Option<String>,
}

/// The most that the journal's answers may cost.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Price {
    /// On AWS, read logs for this many U.S. dollars at most (default 0.10)
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    pub max_dollars: Option<f64>,
}

fn dollars(given: &str) -> Result<f64, String> {
    let dollars = given.parse().ok().filter(|it: &f64| it.is_finite() && *it >= 0.0);
    dollars.ok_or_else(|| "must be a number of at least 0".to_owned())
}

impl SubscriptionArgs {
    /// Returns the names as they were created, or as given if the event subscription can't be read:
    /// the next request for it fails with the reason.
    async fn named(api: &ManageApi, topic: &str, subscription: &str) -> Self {
        let found = api.subscription(topic, subscription).await.ok();
        let id = found.as_ref().map_or("", |found| &found.document.id);
        let names =
            id.strip_prefix("/topics/").and_then(|id| id.split_once("/eventSubscriptions/"));
        let (topic, subscription) = names.unwrap_or((topic, subscription));
        Self { topic: topic.to_owned(), subscription: subscription.to_owned() }
    }
}

/// Returns the named event subscription, whatever it is; otherwise those of the topic, or of all topics,
/// for which `is_wanted`.
async fn whose(
    api: &ManageApi,
    topic: Option<&str>,
    subscription: Option<&str>,
    is_wanted: impl Fn(&EventSubscription) -> bool,
) -> anyhow::Result<Vec<SubscriptionArgs>> {
    if let (Some(topic), Some(subscription)) = (topic, subscription) {
        return Ok(vec![SubscriptionArgs::named(api, topic, subscription).await]);
    }
    let mut found = Vec::new();
    for name in topic_names(api, topic).await? {
        let all = api.subscriptions(&name).await;
        // It may have been deleted since the topics were listed.
        let all = if topic.is_some() { Some(all?) } else { if_there(all)? };
        let wanted = all.unwrap_or_default().into_iter().filter(&is_wanted);
        found.extend(
            wanted.map(|one| SubscriptionArgs { topic: name.clone(), subscription: one.name }),
        );
    }
    Ok(found)
}

/// Returns the name of the topic as it was created, or the names of all topics.
async fn topic_names(api: &ManageApi, topic: Option<&str>) -> anyhow::Result<Vec<String>> {
    match topic {
        Some(topic) => Ok(vec![spelled(api, topic).await]),
        None => Ok(api.topics().await?.into_iter().map(|topic| topic.name).collect()),
    }
}

/// Makes a parser that takes one of these words and returns the value beside it.
fn one_of<W, T>(values: Vec<(W, T)>) -> impl TypedValueParser<Value = T>
where
    W: Into<PossibleValue>,
    T: Clone + Send + Sync + 'static,
{
    let (words, values): (Vec<PossibleValue>, Vec<T>) =
        values.into_iter().map(|(word, value)| (word.into(), value)).unzip();
    let known = words.clone();
    PossibleValuesParser::new(words).try_map(move |given| {
        let found = known.iter().position(|word| word.matches(&given, false));
        found.map(|index| values[index].clone()).ok_or("no such word")
    })
}

/// Makes a parser of the names that the resource API has for values of a type.
fn one_of_names<T>() -> impl TypedValueParser<Value = T>
where
    T: VariantNames + DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(T::VARIANTS).try_map(|given| {
        let name = T::VARIANTS.iter().find(|name| name.eq_ignore_ascii_case(&given));
        let name: StrDeserializer<'_, ValueError> = name.copied().unwrap_or("").into_deserializer();
        T::deserialize(name)
    })
}

/// The answer of a deletion.
#[serde_with::skip_serializing_none]
#[derive(Serialize)]
struct Deletion<'d> {
    topic: &'d str,
    name: Option<&'d str>,
    /// 200, or 204 where there was nothing to delete.
    status: u16,
}

impl<'d> Deletion<'d> {
    fn new(topic: &'d str, name: Option<&'d str>, was_there: bool) -> Self {
        Self { topic, name, status: if was_there { 200 } else { 204 } }
    }

    fn describe(&self) -> &'static str {
        if self.status == 204 { "was not there" } else { "deleted" }
    }
}

/// Whether a document names a setting, at its top or in its `properties`.
fn has_member(document: &Value, name: &str) -> bool {
    [Some(document), document.get("properties")]
        .into_iter()
        .flatten()
        .any(|it| it.get(name).is_some())
}

/// Reads a JSON document from a file, or from standard input when it is called `-`. Fails with
/// [`Misuse`] when it is not JSON, or a member stands twice.
fn read_document(path: &Path) -> anyhow::Result<Value> {
    read_json(files::text(path)?.as_bytes())
        .map_err(|problem| Misuse(format!("{} is refused: {problem}", path.display())).into())
}

/// Reads events from a file, or from standard input when it is called `-`, as the text that they are.
fn read_events(path: &Path) -> anyhow::Result<Box<RawValue>> {
    serde_json::from_str(&files::text(path)?)
        .map_err(|error| Misuse(format!("{} is not JSON: {error}", path.display())).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_setting_is_named_in_either_form() {
        let policy = json!({"retryPolicy": null});
        for document in [json!({"properties": policy}), policy] {
            assert!(has_member(&document, "retryPolicy"), "{document}");
            assert!(!has_member(&document, "labels"), "{document}");
        }
    }

    #[test]
    fn a_document_with_a_member_twice_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("d.json");
        for (text, want) in [
            (r#"{"p":{"labels":[],"labels":["x"]}}"#, "member \"labels\" stands twice at line 1"),
            ("{", "EOF while parsing an object"),
        ] {
            std::fs::write(&path, text).expect("written");
            let refused = read_document(&path).expect_err(text);
            assert!(refused.is::<Misuse>(), "{refused}");
            let want = format!("{} is refused: {want}", path.display());
            assert!(refused.to_string().starts_with(&want), "{refused}");
        }
    }
}

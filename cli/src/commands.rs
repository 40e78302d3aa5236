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
pub mod publish;
pub mod rollout;
pub mod sas;
pub mod schedule;
pub mod status;
pub mod subscription;
pub mod tail;
pub mod topic;
pub mod up;
pub mod verify;
pub mod wait;
pub mod watch;

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use clap::Args;
use gridpost_core::time::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::document::read_json;
use crate::failure::{Misuse, Refusal};
use crate::manage_api::ManageApi;
use crate::output::text_at;

/// An event subscription.
#[derive(Args, Clone, Debug)]
pub struct Whose {
    /// Topic of the event subscription
    #[arg(long, value_name = "NAME")]
    topic: String,

    /// The event subscription
    #[arg(long, alias = "name", value_name = "NAME")]
    subscription: String,
}

/// The event subscriptions that are meant: the named one, whatever it is; else those of the topic, or of
/// all topics, that `is_wanted` says of their documents.
async fn whose(
    api: &ManageApi,
    topic: Option<&str>,
    subscription: Option<&str>,
    is_wanted: impl Fn(&Value) -> bool,
) -> anyhow::Result<Vec<Whose>> {
    if let (Some(topic), Some(subscription)) = (topic, subscription) {
        let (topic, subscription) = (topic.to_owned(), subscription.to_owned());
        return Ok(vec![Whose { topic, subscription }]);
    }
    let topics = match topic {
        Some(topic) => vec![topic.to_owned()],
        None => api.topics().await?.iter().map(|one| text_at(one, "/name").to_owned()).collect(),
    };
    let mut found = Vec::new();
    for topic_name in topics {
        let all = api.subscriptions(&topic_name).await;
        // It may have been deleted since the topics were listed.
        let all = if topic.is_some() { Some(all?) } else { if_there(all)? };
        for one in all.unwrap_or_default().iter().filter(|one| is_wanted(one)) {
            let subscription = text_at(one, "/name").to_owned();
            found.push(Whose { topic: topic_name.clone(), subscription });
        }
    }
    Ok(found)
}

/// Reads a file, or standard input when it is called `-`.
fn read_input(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path != Path::new("-") {
        return std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()));
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
    Ok(bytes)
}

/// Reads a JSON document from a file, or from standard input when it is called `-`.
///
/// # Errors
///
/// [`Misuse`] when it is no JSON, or a member stands twice; or it can't be read.
fn read_document(path: &Path) -> anyhow::Result<Value> {
    read_json(&read_input(path)?)
        .map_err(|problem| Misuse(format!("{} is refused: {problem}", path.display())).into())
}

/// Reads events from a file, or from standard input when it is called `-`, as the text that they are.
fn read_events(path: &Path) -> anyhow::Result<Box<RawValue>> {
    serde_json::from_slice(&read_input(path)?)
        .map_err(|error| Misuse(format!("{} is no JSON document: {error}", path.display())).into())
}

/// Names that an error lists at most.
const NAMES_TOLD_MAX: usize = 10;

/// A name that does not exist, with the one that may be meant, or those that there are.
fn no_such<N: AsRef<str>>(what: &str, name: &str, known: impl IntoIterator<Item = N>) -> Misuse {
    let known: Vec<_> = known.into_iter().collect();
    let near = known.iter().map(AsRef::as_ref).find(|it| is_near(name, it));
    let hint = match (near, known.len()) {
        (Some(near), _) => format!("did you mean {near}?"),
        (None, 0) => "there is not a single one".to_owned(),
        (None, count) => {
            let some = known.iter().map(AsRef::as_ref).take(NAMES_TOLD_MAX);
            let more = if count > NAMES_TOLD_MAX { ", …" } else { "" };
            format!("there are {}{more}", some.collect::<Vec<_>>().join(", "))
        }
    };
    Misuse(format!("there is no {what} `{name}`: {hint}"))
}

/// Refuses a topic that does not exist, or an event subscription of it; one without a topic is looked for
/// in all of them.
///
/// # Errors
///
/// [`Misuse`], which says what there is; or a refusal by the server.
async fn check_exists(
    api: &ManageApi,
    topic: Option<&str>,
    subscription: Option<&str>,
) -> anyhow::Result<()> {
    let topics = api.topics().await?;
    let topics: Vec<_> = topics.iter().map(|topic| text_at(topic, "/name")).collect();
    if let Some(topic) = topic.filter(|topic| !topics.contains(topic)) {
        return Err(no_such("topic", topic, topics).into());
    }
    let Some(subscription) = subscription else { return Ok(()) };
    let mut known = Vec::new();
    for topic in topics.into_iter().filter(|name| topic.is_none_or(|wanted| wanted == *name)) {
        let found = api.subscriptions(topic).await?;
        known.extend(found.iter().map(|one| text_at(one, "/name").to_owned()));
    }
    match known.iter().any(|name| name == subscription) {
        true => Ok(()),
        false => Err(no_such("event subscription", subscription, known).into()),
    }
}

/// What was answered; `None` where it does not exist.
pub(crate) fn if_there<T>(answer: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
    match answer {
        Err(error) if error.downcast_ref::<Refusal>().is_some_and(|it| it.status == 404) => {
            Ok(None)
        }
        answer => answer.map(Some),
    }
}

/// Whether one name is the other one with two letters changed, added or left out at most.
fn is_near(name: &str, other: &str) -> bool {
    let other: Vec<_> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in name.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (at, wanted) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *wanted);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row.last().is_some_and(|distance| *distance <= 2)
}

/// Whether the time is past until which an endpoint gets nothing: the next delivery is the probe.
fn wait_is_over(health: &Value, now: Timestamp) -> bool {
    let until = health["until"].as_str().and_then(Timestamp::parse_rfc_3339);
    until.is_some_and(|until| until <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_name_that_does_not_exist_leads_to_one_that_does() {
        let table: [(&str, &[&str], &str); 5] = [
            ("order", &["shop", "orders"], "did you mean orders?"),
            ("bilin", &["billing"], "did you mean billing?"),
            ("x", &["orders", "shop"], "there are orders, shop"),
            ("x", &[], "there is not a single one"),
            ("", &["orders"], "there are orders"),
        ];
        for (name, known, want) in table {
            let told = no_such("topic", name, known).to_string();
            assert_eq!(told, format!("there is no topic `{name}`: {want}"));
        }
    }
}

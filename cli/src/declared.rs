//! Topics and event subscriptions that a file declares, made by the manage API.
//!
//! Topics are members of `topics` by their names, each the document of `PUT /topics/{topic}`,
//! with its event subscriptions by their names in `eventSubscriptions`, each the document of its
//! own PUT. [`export`] writes such a file, [`secrets`] fills in what must not be in it.

pub mod export;
pub mod secrets;
mod terraform;
pub(crate) mod trial;

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Map, Value};

use crate::document::read_json;
use crate::failure::{self, Misuse, Refusal};
use crate::manage_api::ManageApi;

pub use terraform::Root;

/// What a file declares, and what of it could not be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declared {
    topics: Vec<Topic>,
    problems: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Topic {
    name: String,
    document: Value,
    subscriptions: Map<String, Value>,
}

/// How much was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Topics that are there now.
    pub topics: usize,
    /// Event subscriptions that are there now.
    pub subscriptions: usize,
    /// How many of both were not there before.
    pub new: usize,
}

impl Declared {
    /// Reads a file: TOML by its ending, else JSON. The environment fills in its secrets.
    ///
    /// # Errors
    ///
    /// [`Misuse`] when it is neither; or it can't be read. What else is wrong with it is told by
    /// [`make`](Self::make), with what the manage API refuses.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path);
        let text = text.with_context(|| format!("{} cannot be read", path.display()))?;
        let ending = path.extension().and_then(OsStr::to_str);
        let is_toml = ending == Some("toml");
        let hint = match ending {
            Some("toml" | "json") => "",
            _ => "\nA file is TOML where its name ends with .toml, and JSON otherwise.",
        };
        let document: Result<Value, String> = match is_toml {
            true => toml::from_str(&text).map_err(|error| error.to_string()),
            false => read_json(text.as_bytes()),
        };
        let refused = |problem: String| {
            let problem = problem.trim_end();
            Misuse(format!("{} is refused:\n  {problem}{hint}", path.display()))
        };
        let document = document.map_err(refused)?;
        Ok(Self::of(document, |name| env::var(name).ok()))
    }

    fn of(document: Value, known: impl Fn(&str) -> Option<String>) -> Self {
        let mut problems = Vec::new();
        let mut topics = Vec::new();
        for (member, value) in object(document, "the document", &mut problems) {
            if member != "topics" {
                problems.push(format!("{member}: there is no such member; topics is all there is"));
                continue;
            }
            for (name, document) in object(value, "topics", &mut problems) {
                let path = format!("topics.{name}");
                let mut document = object(document, &path, &mut problems);
                let own =
                    document.remove("eventSubscriptions").unwrap_or(Value::Object(Map::new()));
                let path = format!("{path}.eventSubscriptions");
                let mut subscriptions = object(own, &path, &mut problems);
                // Without its secret one is not made at all: the placeholder would be the secret.
                subscriptions.retain(|name, subscription| {
                    let missing = secrets::fill(subscription, &known);
                    problems.extend(missing.iter().map(|missing| {
                        format!("{path}.{name}: it needs the environment variable {missing}")
                    }));
                    missing.is_empty()
                });
                let document = Value::Object(document);
                topics.push(Topic { name, document, subscriptions });
            }
        }
        Self { topics, problems }
    }

    /// Lets dead letters go to other buckets than those that the file names.
    ///
    /// # Errors
    ///
    /// [`Misuse`] names a bucket that the file does not have: misspelt, it would keep its name.
    pub fn with_buckets(mut self, other: &[(String, String)]) -> Result<Self, Misuse> {
        let mut found = BTreeSet::new();
        for topic in &mut self.topics {
            for subscription in topic.subscriptions.values_mut() {
                rename_buckets(subscription, other, &mut found);
            }
        }
        match other.iter().find(|(from, _)| !found.contains(from.as_str())) {
            None => Ok(self),
            Some((from, _)) => Err(Misuse(format!(
                "--bucket: no dead-letter destination of the file has `{from}`"
            ))),
        }
    }

    /// Creates or replaces all of it. What is refused keeps nothing else from being made; the event
    /// subscriptions of a topic that is refused are judged as far as that needs no topic.
    ///
    /// # Errors
    ///
    /// Every problem, by what has it: [`Misuse`] where some of the file could not be read. A
    /// transport failure ends it.
    pub async fn make(&self, api: &ManageApi) -> anyhow::Result<Made> {
        let mut problems = self.problems.clone();
        let mut made = Made::default();
        for topic in &self.topics {
            let path = format!("topics.{}", topic.name);
            match api.put_topic(&topic.name, &topic.document).await {
                Ok(reply) => {
                    made.topics += 1;
                    made.new += usize::from(reply.status == 201);
                    made_subscriptions(topic, api, &mut made, &mut problems).await?;
                }
                Err(error) => {
                    problems.extend(of_refused(topic, told(&path, error)?));
                    problems.extend(trial::problems(topic));
                }
            }
        }
        if problems.is_empty() {
            return Ok(made);
        }
        let told = format!("what the file declares is refused:\n  {}", problems.join("\n  "));
        match self.problems.is_empty() {
            true => bail!(told),
            false => Err(Misuse(told).into()),
        }
    }
}

async fn made_subscriptions(
    topic: &Topic,
    api: &ManageApi,
    made: &mut Made,
    problems: &mut Vec<String>,
) -> anyhow::Result<()> {
    for (name, document) in &topic.subscriptions {
        match api.put_subscription(&topic.name, name, document).await {
            Ok(reply) => {
                made.subscriptions += 1;
                made.new += usize::from(reply.status == 201);
            }
            Err(error) => problems.extend(told(&path_of(topic, name), error)?),
        }
    }
    Ok(())
}

/// What the manage API said of a refused topic, and what else its document has: a name that is refused
/// keeps the API from reading the document.
fn of_refused(topic: &Topic, told: Vec<String>) -> Vec<String> {
    let of_document = trial::of_document(topic);
    let more: Vec<_> = of_document.into_iter().filter(|found| !told.contains(found)).collect();
    told.into_iter().chain(more).map(with_own_member).collect()
}

/// The documents of topics have no event subscriptions; those of a file do.
fn with_own_member(problem: String) -> String {
    match problem.ends_with("; members here are kind, properties") {
        true => format!("{problem}, eventSubscriptions"),
        false => problem,
    }
}

fn path_of(topic: &Topic, subscription: &str) -> String {
    format!("topics.{}.eventSubscriptions.{subscription}", topic.name)
}

fn object(value: Value, path: &str, problems: &mut Vec<String>) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => {
            problems.push(format!("{path}: must be an object"));
            Map::new()
        }
    }
}

/// In whichever of its forms a document names them.
fn rename_buckets<'o>(
    document: &mut Value,
    other: &'o [(String, String)],
    found: &mut BTreeSet<&'o str>,
) {
    match document {
        Value::Object(members) => {
            for (member, value) in members {
                let renamed = other.iter().find(|(from, _)| *value == from.as_str());
                match renamed.filter(|_| member == "bucketName") {
                    Some((from, to)) => {
                        found.insert(from);
                        *value = to.as_str().into();
                    }
                    None => rename_buckets(value, other, found),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|one| rename_buckets(one, other, found)),
        _ => {}
    }
}

/// Each problem of a refusal, behind what was refused.
///
/// # Errors
///
/// What is no refusal: whatever follows would fail in the same way. But for a name that fits no
/// path.
fn told(path: &str, error: anyhow::Error) -> anyhow::Result<Vec<String>> {
    if error.is::<Misuse>() {
        return Ok(vec![format!("{path}: {}", failure::chain(&error))]);
    }
    match error.downcast_ref::<Refusal>() {
        Some(refusal) if !refusal.details.is_empty() => {
            Ok(refusal.details.iter().map(|detail| format!("{path}: {}", detail.message)).collect())
        }
        Some(refusal) => Ok(vec![format!("{path}: {}", refusal.message)]),
        None => Err(error.context(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manage_api::fake::FakeApi;

    #[test]
    fn toml_and_json_declare_the_same() {
        let folder = tempfile::tempdir().expect("folder");
        let read = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("written");
            Declared::read(&path)
        };
        let toml = r#"
            [topics.orders.properties]
            inputSchema = "CloudEventSchemaV1_0"
            [topics.orders.eventSubscriptions.billing.properties]
            destination = { endpointType = "WebHook", properties = { endpointUrl = "http://localhost:1/" } }
            [topics.plain]
        "#;
        let destination = json!({"endpointType": "WebHook", "properties": {"endpointUrl": "http://localhost:1/"}});
        let document = json!({"topics": {
            "orders": {
                "properties": {"inputSchema": "CloudEventSchemaV1_0"},
                "eventSubscriptions": {"billing": {"properties": {"destination": destination}}},
            },
            "plain": {},
        }});
        let of_toml = read("d.toml", toml).expect("read");
        assert_eq!(of_toml, read("d.json", &document.to_string()).expect("read"));
        assert_eq!(of_toml.topics.len(), 2);
        let orders = &of_toml.topics[0];
        assert_eq!(orders.document, json!({"properties": {"inputSchema": "CloudEventSchemaV1_0"}}));
        assert!(orders.subscriptions.contains_key("billing"));
        for (name, text, member) in [
            ("f.json", r#"{"topics": {"orders": {}, "orders": {"kind": "custom"}}}"#, "\"orders\""),
            ("f.toml", "[topics.orders]\n[topics.orders]", "orders"),
        ] {
            let refused = read(name, text).expect_err("twice");
            assert!(refused.is::<Misuse>(), "{name}");
            assert!(refused.to_string().contains(member), "{refused}");
        }
        // (name, text, whether the formats are told)
        for (name, text, is_told) in [
            ("e.toml", "topics =", false),
            ("e.json", "{", false),
            ("e", "topics = {}", true),
            ("e.yaml", "topics:\n  orders: {}", true),
        ] {
            let refused = read(name, text).expect_err("refused");
            assert!(refused.is::<Misuse>(), "{name}");
            assert_eq!(refused.to_string().contains("ends with .toml"), is_told, "{name}");
        }
    }

    #[tokio::test]
    async fn problems_of_all_levels_are_told_at_once() {
        let refusal = |message: &str| {
            json!({"error": {"code": "BadRequest", "message": "no",
            "details": [{"code": "InvalidValue", "message": message}]}})
        };
        let api = FakeApi::answering(&[
            ("PUT /topics/fine ", 201, json!({})),
            ("PUT /topics/fine/eventSubscriptions/good ", 400, refusal("it was asked for")),
            ("PUT /topics/fine/eventSubscriptions/bad ", 400, refusal("its endpoint refuses")),
            ("PUT /topics/bad ", 400, refusal("its kind is unknown")),
        ])
        .await;
        let api = ManageApi::connect(&api.url()).await.expect("a client");
        let secret = json!({"properties": {"destination": {"properties": {
            "endpointUrl": "https://e/?${UNKNOWN}"}}}});
        let document = json!({
            "topics": {
                "a": 1,
                "b": {"eventSubscriptions": []},
                "fine": {"eventSubscriptions": {"good": secret, "bad": {}}},
                "bad": {"eventSubscriptions": {"s": {"properties": {"labels": 1}}}},
                "o/k": {"properties": {"inputSchema": "Xml"}, "subscriptions": {}},
            },
            "subs": {},
        });
        let error = Declared::of(document, |_| None).make(&api).await.expect_err("problems");
        assert!(error.is::<Misuse>());
        let told = error.to_string();
        for part in [
            "topics.a: must be an object",
            "topics.b.eventSubscriptions: must be an object",
            "subs: there is no such member",
            "eventSubscriptions.good: it needs the environment variable UNKNOWN",
            "topics.fine.eventSubscriptions.bad: its endpoint refuses",
            "topics.bad: its kind is unknown",
            "topics.bad.eventSubscriptions.s: properties.labels must be",
            "topics.bad.eventSubscriptions.s: properties.destination",
            "topics.o/k: `o/k` is no name",
            "topics.o/k: properties.inputSchema must be",
            "topics.o/k: subscriptions is not known; members here are kind, properties, \
             eventSubscriptions",
        ] {
            assert!(told.contains(part), "{part} in {told}");
        }
        assert!(!told.contains("it was asked for"), "{told}");
    }

    #[tokio::test]
    async fn what_is_new_is_counted_and_buckets_are_renamed() {
        let api = FakeApi::answering(&[
            ("PUT /topics/a ", 201, json!({})),
            ("PUT /topics/a/eventSubscriptions/s ", 201, json!({})),
            ("PUT /topics/b ", 200, json!({})),
        ])
        .await;
        let api = ManageApi::connect(&api.url()).await.expect("a client");
        let dead_letters = json!({"properties": {"bucketName": "gridpost", "prefix": "gridpost"}});
        let document = json!({"topics": {"a": {"eventSubscriptions": {"s": {"properties": {
            "deadLetterDestination": dead_letters, "labels": ["gridpost"]}}}}, "b": {}}});
        let declared = Declared::of(document, |_| None);
        let made = declared.make(&api).await.expect("made");
        assert_eq!(made, Made { topics: 2, subscriptions: 1, new: 2 });

        let other = [("gridpost".to_owned(), "letters".to_owned())];
        let misspelt = [("lettres".to_owned(), "x".to_owned())];
        assert!(declared.clone().with_buckets(&misspelt).is_err(), "it would keep its name");
        let renamed = declared.with_buckets(&other).expect("it is there");
        let properties = &renamed.topics[0].subscriptions["s"]["properties"];
        let want = json!({"properties": {"bucketName": "letters", "prefix": "gridpost"}});
        assert_eq!(
            (&properties["deadLetterDestination"], &properties["labels"]),
            (&want, &json!(["gridpost"]))
        );
    }
}

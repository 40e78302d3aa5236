//! Topics and event subscriptions that a file declares, made by the manage API.
//!
//! Topics are members of `topics` by their names, each the document of `PUT /topics/{topic}`,
//! with its event subscriptions by their names in `eventSubscriptions`, each the document of its
//! own PUT. [`export`] writes such a file, [`secrets`] fills in what must not be in it.

mod changes;
pub mod export;
mod made;
mod plan;
mod prune;
pub mod secrets;
mod terraform;
pub mod trial;

use std::{collections::BTreeSet, env, ffi::OsStr, path::Path};

use gridpost_api::{client::ClientError, topic};
use gridpost_core::name;
use serde_json::{Map, Value};

use crate::{
    failure::{self, InPart, Misuse, Refusal},
    files,
    given::read_json,
    manage_api::ManageApi,
    subscription::{show, warnings},
};

pub use made::{Made, MadeReport, Outcome};
pub use prune::{Prune, Pruned};
pub use terraform::Root;

/// The topics of a file, and what of it could not be read.
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

impl Declared {
    /// Reads a file: TOML by its ending, otherwise JSON. The environment fills in its secrets. Fails with
    /// [`Misuse`] when it is neither; [`make`](Self::make) reports what else is wrong with it.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = files::text(path)?;
        let ending = path.extension().and_then(OsStr::to_str);
        let is_toml = ending == Some("toml");
        let hint = match ending {
            Some("toml" | "json") => "",
            _ => "\nA file is TOML where its name ends with .toml, and JSON otherwise.",
        };
        let document: Result<Value, String> = match is_toml {
            true => toml::from_str(&text).map(of_toml).map_err(|error| error.to_string()),
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
            let all = object(value, "topics", &mut problems);
            let twice = named_twice(&all);
            for (name, document) in all {
                let path = format!("topics.{name}");
                if twice.contains(&name::folded(&name)) {
                    problems.push(in_other_spelling(&path));
                    continue;
                }
                // An empty document would make the topic all the same, or replace it.
                if !document.is_object() {
                    problems.push(must_be_object(&path));
                    continue;
                }
                let mut document = object(document, &path, &mut problems);
                let own =
                    document.remove("eventSubscriptions").unwrap_or(Value::Object(Map::new()));
                let path = format!("{path}.eventSubscriptions");
                let mut subscriptions = object(own, &path, &mut problems);
                let twice = named_twice(&subscriptions);
                // Without its secret one is not made at all: the placeholder would be the secret.
                subscriptions.retain(|name, subscription| {
                    if twice.contains(&name::folded(name)) {
                        problems.push(in_other_spelling(&format!("{path}.{name}")));
                        return false;
                    }
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

    /// Replaces names of dead-letter buckets. Fails with [`Misuse`] for a name that the file does not have:
    /// a misspelt one would replace nothing.
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

    /// Creates or replaces all of it. A refusal stops nothing else; the event subscriptions of a refused topic
    /// are checked as far as that needs no topic. A transport failure ends it. Fails with [`InPart`], which
    /// has every problem by its path, and is a misuse if some of the file could not be read.
    pub async fn make(&self, api: &ManageApi) -> anyhow::Result<Made> {
        let mut problems = self.problems.clone();
        let mut made = Made::default();
        let broken = self.make_each(api, &mut made, &mut problems).await.err();
        let is_broken = broken.is_some();
        let is_misuse = !is_broken && !self.problems.is_empty();
        if let Some(broken) = broken {
            if made.topics == 0 && problems.is_empty() {
                return Err(broken);
            }
            let told = failure::chain(&broken);
            problems.push(format!("{told}; it may be applied, and the rest was not tried"));
        }
        if problems.is_empty() {
            return Ok(made);
        }
        let (message, members) = made.in_part(&problems, is_broken);
        Err(InPart { message, members, is_misuse }.into())
    }

    async fn make_each(
        &self,
        api: &ManageApi,
        made: &mut Made,
        problems: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        for topic in &self.topics {
            let path = path_of_topic(topic);
            // What can't be read may be written all the same.
            let before = api.topic(&topic.name).await.ok();
            match api.put_topic(&topic.name, &topic.document).await {
                Ok(reply) => {
                    made.topics += 1;
                    made.warn(&path, warnings::unmapped(&reply.document));
                    made.outcomes.push((path, Outcome::of(before.as_ref(), &reply)));
                    made_subscriptions((topic, &reply.document), api, made, problems).await?;
                }
                Err(error) => {
                    problems.extend(of_refused(topic, told(&path, error)?));
                    problems.extend(trial::problems(topic));
                    if !topic.subscriptions.is_empty() {
                        problems.push(format!("{path}: its event subscriptions were not tried"));
                    }
                }
            }
        }
        Ok(())
    }
}

async fn made_subscriptions(
    (topic, read): (&Topic, &topic::Topic),
    api: &ManageApi,
    made: &mut Made,
    problems: &mut Vec<String>,
) -> anyhow::Result<()> {
    for (name, document) in &topic.subscriptions {
        let before = api.subscription(&topic.name, name).await.ok();
        match api.put_subscription(&topic.name, name, document).await {
            Ok(reply) => {
                let path = path_of(topic, name);
                made.subscriptions += 1;
                made.awaited.extend(show::awaited(&reply.document));
                made.warn(&path, warnings::unmatched(read, &reply.document));
                made.outcomes.push((path, Outcome::of(before.as_ref(), &reply)));
            }
            Err(error) => problems.extend(told(&path_of(topic, name), error)?),
        }
    }
    Ok(())
}

/// Lists the problems of a refused topic: those that the manage API named, and others of its document, which
/// the API does not read if it refuses the name.
fn of_refused(topic: &Topic, told: Vec<String>) -> Vec<String> {
    let of_document = trial::of_document(topic);
    let more: Vec<_> = of_document.into_iter().filter(|found| !told.contains(found)).collect();
    told.into_iter().chain(more).map(with_own_member).collect()
}

/// Adds the member that topics have in files, and not in requests.
fn with_own_member(problem: String) -> String {
    match problem.ends_with("; members here are kind, properties") {
        true => format!("{problem}, eventSubscriptions"),
        false => problem,
    }
}

/// Returns the folded names that a file declares in several spellings: one would replace the other.
fn named_twice(members: &Map<String, Value>) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    members
        .keys()
        .map(|name| name::folded(name))
        .filter(|name| !seen.insert(name.clone()))
        .collect()
}

/// Returns the document that a TOML file is. Its dates become texts, as JSON has them.
fn of_toml(value: toml::Value) -> Value {
    match value {
        toml::Value::Datetime(at) => at.to_string().into(),
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Array(all) => all.into_iter().map(of_toml).collect(),
        toml::Value::Table(all) => {
            all.into_iter().map(|(name, value)| (name, of_toml(value))).collect()
        }
    }
}

fn in_other_spelling(path: &str) -> String {
    format!("{path}: the file has this name in another spelling, too; keep one of them")
}

fn path_of_topic(topic: &Topic) -> String {
    format!("topics.{}", topic.name)
}

fn path_of(topic: &Topic, subscription: &str) -> String {
    format!("topics.{}.eventSubscriptions.{subscription}", topic.name)
}

fn object(value: Value, path: &str, problems: &mut Vec<String>) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => {
            problems.push(must_be_object(path));
            Map::new()
        }
    }
}

fn must_be_object(path: &str) -> String {
    format!("{path}: must be an object")
}

/// Renames buckets in a document of any form; adds the names that it had to `found`.
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

/// Lists the problems of a refusal by the path of what was refused. Fails with any other error: whatever
/// follows would fail in the same way.
fn told(path: &str, error: anyhow::Error) -> anyhow::Result<Vec<String>> {
    if matches!(error.downcast_ref(), Some(ClientError::Name(_))) {
        return Ok(vec![format!("{path}: {}", failure::chain(&error))]);
    }
    match error.downcast_ref::<Refusal>() {
        Some(refusal) if !refusal.details.is_empty() => {
            let told = refusal.details.iter().map(|detail| of_one(&detail.message));
            Ok(told.map(|message| format!("{path}: {message}")).collect())
        }
        Some(refusal) => Ok(vec![format!("{path}: {}", of_one(&refusal.message))]),
        None => Err(error.context(path.to_owned())),
    }
}

/// Takes off a sentence that is true of one resource, and not of the whole file.
fn of_one(message: &str) -> &str {
    message.strip_suffix(" Nothing was stored.").unwrap_or(message)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::testkit::{FakeApi, documents};

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
            expirationTimeUtc = 2030-01-01 00:00:00Z
            [topics.plain]
        "#;
        let destination = json!({"endpointType": "WebHook", "properties": {"endpointUrl": "http://localhost:1/"}});
        let properties =
            json!({"destination": destination, "expirationTimeUtc": "2030-01-01T00:00:00Z"});
        let document = json!({"topics": {
            "orders": {
                "properties": {"inputSchema": "CloudEventSchemaV1_0"},
                "eventSubscriptions": {"billing": {"properties": properties}},
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

    #[test]
    fn another_spelling_is_no_other_name() {
        let document = json!({"topics": {
            "Orders": {"eventSubscriptions": {"one": {}}},
            "Shop": {"eventSubscriptions": {"Billing": {}, "audit": {}, "bILLING": {}}},
            "orders": {},
            "other": {"eventSubscriptions": {"billing": {}}},
        }});
        let Declared { topics, problems } = Declared::of(document, |_| None);
        let kept: Vec<_> = topics.iter().map(|topic| topic.name.as_str()).collect();
        assert_eq!(kept, ["Shop", "other"], "what is refused is not applied");
        assert!(topics[0].subscriptions.keys().eq(["audit"]));
        let own = "topics.Shop.eventSubscriptions";
        let paths = [
            "topics.Orders",
            &format!("{own}.Billing"),
            &format!("{own}.bILLING"),
            "topics.orders",
        ];
        assert_eq!(problems, paths.map(in_other_spelling));
    }

    #[tokio::test]
    async fn problems_of_all_levels_are_told_at_once() {
        let refusal = |message: &str| {
            json!({"error": {"code": "BadRequest", "message": "no",
            "details": [{"code": "InvalidValue", "message": message}]}})
        };
        let api = FakeApi::answering(&[
            ("PUT /topics/fine ", 201, documents::topic("fine", &json!({}))),
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
        assert!(error.downcast_ref::<InPart>().is_some_and(|it| it.is_misuse));
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
            "topics.o/k: `o/k` is not a name",
            "topics.o/k: properties.inputSchema must be",
            "topics.o/k: subscriptions is not known; members here are kind, properties, \
             eventSubscriptions",
        ] {
            assert!(told.contains(part), "{part} in {told}");
        }
        assert!(!told.contains("it was asked for"), "{told}");
        // It is no object: an empty one would be answered with a 500 here.
        assert_eq!(told.matches("topics.a:").count(), 1, "{told}");
    }

    /// `b` is refused by its endpoint, `late` gets an answer that is no HTTP.
    #[tokio::test]
    async fn what_was_made_is_told_before_what_was_refused() {
        let refusal = json!({"error": {"code": "BadRequest", "message": "no", "details": [
            {"code": "Endpoint validation", "message": "It failed: busy. Nothing was stored."}]}});
        let api = FakeApi::answering(&[
            ("PUT /topics/a ", 201, documents::topic("a", &json!({}))),
            ("PUT /topics/a/eventSubscriptions/b ", 400, refusal.clone()),
            ("PUT /topics/a/eventSubscriptions/c ", 200, documents::subscription("c", &json!({}))),
            ("PUT /topics/bad ", 400, refusal),
            ("PUT /topics/late ", 0, json!({})),
        ])
        .await;
        let api = ManageApi::connect(&api.url()).await.expect("a client");
        let refused = async |document: Value| {
            let error = Declared::of(document, |_| None).make(&api).await.expect_err("refused");
            error.downcast::<InPart>().expect("told with what was made")
        };

        let topics = json!({"a": {"eventSubscriptions": {"b": {}, "c": {}}}});
        let part = refused(json!({ "topics": topics })).await;
        assert_eq!(
            part.message,
            "the file was applied in part: 1 topic and 1 event subscription, 1 of them new\n  \
             created: topics.a\n  \
             replaced (what was there could not be read): topics.a.eventSubscriptions.c\n\
             refused:\n  topics.a.eventSubscriptions.b: It failed: busy."
        );
        let members = json!({
            "topics": 1, "eventSubscriptions": 1, "new": 1,
            "created": ["topics.a"], "replaced": ["topics.a.eventSubscriptions.c"],
            "changed": [], "unchanged": [], "deleted": [],
            "refused": ["topics.a.eventSubscriptions.b: It failed: busy."],
        });
        assert_eq!((Value::Object(part.members), part.is_misuse), (members, false));

        let all = refused(json!({"topics": {"bad": {}}})).await;
        assert_eq!(
            all.message,
            "what the file declares is refused, and nothing of it was applied:\n  topics.bad: It failed: busy."
        );

        let both = refused(json!({"topics": {"bad": {}, "late": {}}})).await.message;
        assert!(both.starts_with("the file was applied in part: 0 topics"), "{both}");

        let cut = refused(json!({"topics": {"a": {}, "late": {}}})).await;
        assert!(cut.message.contains("\n  created: topics.a\nrefused:\n  topics.late: "), "{cut}");
        assert!(cut.message.ends_with("; it may be applied, and the rest was not tried"), "{cut}");
    }

    #[tokio::test]
    async fn what_is_new_is_counted_and_buckets_are_renamed() {
        let api = FakeApi::answering(&[
            ("PUT /topics/a ", 201, documents::topic("a", &json!({}))),
            ("PUT /topics/a/eventSubscriptions/s ", 201, documents::subscription("s", &json!({}))),
            ("PUT /topics/b ", 200, documents::topic("b", &json!({}))),
        ])
        .await;
        let api = ManageApi::connect(&api.url()).await.expect("a client");
        let dead_letters = json!({"properties": {"bucketName": "gridpost", "prefix": "gridpost"}});
        let document = json!({"topics": {"a": {"eventSubscriptions": {"s": {"properties": {
            "deadLetterDestination": dead_letters, "labels": ["gridpost"]}}}}, "b": {}}});
        let declared = Declared::of(document, |_| None);
        let made = declared.make(&api).await.expect("made");
        let outcomes = [
            ("topics.a", Outcome::Created),
            ("topics.a.eventSubscriptions.s", Outcome::Created),
            ("topics.b", Outcome::Replaced),
        ];
        let outcomes = outcomes.map(|(path, outcome)| (path.to_owned(), outcome)).into();
        assert_eq!(made, Made { topics: 2, subscriptions: 1, outcomes, ..Made::default() });
        assert_eq!(made.told(), "2 topics and 1 event subscription, 2 of them new");

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

//! Topics and event subscriptions that a file declares, made by the manage API.
//!
//! Topics are members of `topics` by their names, each the document of `PUT /topics/{topic}`, with its
//! event subscriptions by their names in `eventSubscriptions`, each the document of its own PUT.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Map, Value};

use crate::failure::{self, Misuse, Refusal};
use crate::manage_api::ManageApi;

/// What a file declares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declared {
    topics: Vec<Topic>,
}

#[derive(Clone, Debug, PartialEq)]
struct Topic {
    name: String,
    document: Value,
    subscriptions: Map<String, Value>,
}

impl Declared {
    /// Reads a file: TOML by its ending, else JSON.
    ///
    /// # Errors
    ///
    /// [`Misuse`] with every problem of it; or it can't be read.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path);
        let text = text.with_context(|| format!("{} cannot be read", path.display()))?;
        let is_toml = path.extension().is_some_and(|ending| ending == "toml");
        let document: Result<Value, String> = match is_toml {
            true => toml::from_str(&text).map_err(|error| error.to_string()),
            false => serde_json::from_str(&text).map_err(|error| error.to_string()),
        };
        let declared = document.map_err(|problem| vec![problem]).and_then(Self::of);
        declared.map_err(|problems| {
            Misuse(format!("{} is refused:\n  {}", path.display(), problems.join("\n  "))).into()
        })
    }

    fn of(document: Value) -> Result<Self, Vec<String>> {
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
                let subscriptions = object(own, &path, &mut problems);
                let document = Value::Object(document);
                topics.push(Topic { name, document, subscriptions });
            }
        }
        if problems.is_empty() { Ok(Self { topics }) } else { Err(problems) }
    }

    /// Creates or replaces all of it. What is refused keeps nothing else from being made.
    ///
    /// # Errors
    ///
    /// Every refusal, by what was refused; or a transport failure.
    pub async fn make(&self, api: &ManageApi) -> anyhow::Result<()> {
        let mut problems = Vec::new();
        for Topic { name, document, subscriptions } in &self.topics {
            let path = format!("topics.{name}");
            if let Err(error) = api.put_topic(name, document).await {
                problems.extend(told(&path, &error));
                continue;
            }
            for (own, document) in subscriptions {
                if let Err(error) = api.put_subscription(name, own, document).await {
                    problems.extend(told(&format!("{path}.eventSubscriptions.{own}"), &error));
                }
            }
        }
        if !problems.is_empty() {
            bail!("what the file declares is refused:\n  {}", problems.join("\n  "));
        }
        Ok(())
    }
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

/// Each problem of a refusal, behind what was refused.
fn told(path: &str, error: &anyhow::Error) -> Vec<String> {
    match error.downcast_ref::<Refusal>() {
        Some(refusal) if !refusal.details.is_empty() => {
            refusal.details.iter().map(|detail| format!("{path}: {}", detail.message)).collect()
        }
        Some(refusal) => vec![format!("{path}: {}", refusal.message)],
        None => vec![format!("{path}: {}", failure::chain(error))],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        for (name, text) in [("e.toml", "topics ="), ("e.json", "{"), ("e", "topics = {}")] {
            assert!(read(name, text).expect_err("refused").is::<Misuse>(), "{name}");
        }
    }

    #[test]
    fn every_problem_of_a_file_is_told() {
        let document = json!({"topics": {"a": 1, "b": {"eventSubscriptions": []}}, "subs": {}});
        let problems = Declared::of(document).expect_err("problems");
        assert_eq!(problems.len(), 3, "{problems:?}");
        for part in ["topics.a:", "topics.b.eventSubscriptions:", "subs:"] {
            assert!(
                problems.iter().any(|problem| problem.starts_with(part)),
                "{part} {problems:?}"
            );
        }
        assert!(Declared::of(json!([])).is_err());
    }
}

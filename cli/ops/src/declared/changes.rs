//! Differences between two reads of a resource, member by member, without secrets.

use std::collections::BTreeSet;

use gridpost_api::{
    subscription::{Destination, EventSubscription, EventSubscriptionInput, base_url},
    topic::{Topic, TopicInput},
};
use gridpost_core::secret::Secret;
use serde::Serialize;
use serde_json::{Map, Value};

/// A member that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    member: String,
    #[serde(flatten)]
    values: Values,
}

/// The values of a member before and after; none if they differ only in a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Values {
    Shown {
        from: Value,
        to: Value,
    },
    #[serde(rename_all = "camelCase")]
    Hidden {
        is_secret: bool,
    },
}

impl Values {
    const HIDDEN: Self = Self::Hidden { is_secret: true };
}

impl Change {
    /// Notes that a secret changed, of which reads do not show which.
    pub(super) fn of_a_secret() -> Self {
        Self { member: "properties".to_owned(), values: Values::HIDDEN }
    }

    /// Describes it for people.
    pub fn told(&self) -> String {
        let text = |value: &Value| match value {
            Value::Null => "none".to_owned(),
            value => value.to_string(),
        };
        match &self.values {
            Values::Shown { from, to } => {
                format!("{}: {} -> {}", self.member, text(from), text(to))
            }
            Values::Hidden { .. } => format!("{}: changed (secret)", self.member),
        }
    }
}

/// A resource, as a read shows it.
pub(super) trait Resource {
    /// Returns what documents set of it.
    fn settings(&self) -> impl Serialize;
}

impl Resource for Topic {
    fn settings(&self) -> impl Serialize {
        let settings = self.properties.settings.clone();
        TopicInput { kind: Some(self.kind), properties: Some(settings) }
    }
}

impl Resource for EventSubscription {
    fn settings(&self) -> impl Serialize {
        let mut settings = self.properties.settings.clone();
        if let Some(signing) = &mut settings.signing {
            signing.previous_secret_valid_until = None;
        }
        if let Some(Destination::WebHook(webhook)) = &mut settings.destination {
            let base = webhook.endpoint_base_url.take();
            webhook.endpoint_url = webhook.endpoint_url.take().or(base.map(Secret::new));
        }
        EventSubscriptionInput { properties: Some(settings) }
    }
}

/// Compares two reads of a resource. Their webhooks have `endpointBaseUrl`, or `endpointUrl` where the
/// whole URL was read.
pub(super) fn between<R: Resource>(before: &R, after: &R) -> Vec<Change> {
    let mut found = Vec::new();
    let of = |read: &R| serde_json::to_value(read.settings()).unwrap_or_default();
    compare("", &of(before), &of(after), &mut found);
    found
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<Change>) {
    if let (Value::Object(old), Value::Object(new)) = (before, after) {
        let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
        for name in names {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let of = |members: &Map<String, Value>| members.get(name).cloned().unwrap_or_default();
            compare(&path, &of(old), &of(new), found);
        }
    } else if before != after {
        let is_url = path.ends_with(".endpointUrl");
        let [from, to] = [before, after].map(|value| shown(value, is_url));
        let values = if from == to { Values::HIDDEN } else { Values::Shown { from, to } };
        found.push(Change { member: path.to_owned(), values });
    }
}

/// Returns the value without its secrets: the query of a URL, and the values of secret headers.
fn shown(value: &Value, is_url: bool) -> Value {
    match value {
        Value::String(url) if is_url => base_url(url).into(),
        Value::Object(members) => {
            let mut members = members.clone();
            let is_secret = members.get("isSecret") == Some(&Value::Bool(true));
            for (name, value) in &mut members {
                *value = match is_secret && name == "value" {
                    true => "(secret)".into(),
                    false => shown(value, name == "endpointUrl"),
                };
            }
            Value::Object(members)
        }
        Value::Array(values) => values.iter().map(|value| shown(value, false)).collect(),
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testkit::documents;

    fn read(url: &str, headers: &Value, more: &Value) -> EventSubscription {
        let mut read = documents::subscription(
            "s",
            &json!({"properties": {"labels": ["a"], "destination": {"properties": {
                "endpointBaseUrl": null, "endpointUrl": url, "deliveryAttributeMappings": headers}}}}),
        );
        gridpost_api::document::merge(&mut read, more);
        serde_json::from_value(read).expect("whole")
    }

    #[test]
    fn members_that_differ_are_told_without_secrets() {
        let header = |value: &str| {
            json!([{"name": "X", "type": "Static",
                "properties": {"isSecret": true, "value": value}}])
        };
        let (s1, s2) = (header("s1"), header("s2"));
        let of = |more: Value| read("https://e/a?k=1", &s1, &json!({"properties": more}));
        let before = of(json!({}));
        let destination = "properties.destination.properties";
        let at = "2026-01-01T00:00:00.000Z";
        let pause = json!({"since": at, "until": at, "timeToLiveRuns": true});
        let bucket =
            json!({"endpointType": "S3Bucket", "properties": {"bucketName": "b", "prefix": "p"}});
        for (after, want) in [
            (of(json!({"provisioningState": "AwaitingManualAction", "pause": pause})), vec![]),
            (of(json!({"deadLetterDestination": null})), vec![]),
            (
                of(json!({"labels": ["a", "b"]})),
                vec![r#"properties.labels: ["a"] -> ["a","b"]"#.to_owned()],
            ),
            (
                of(json!({"deadLetterDestination": bucket, "labels": null})),
                vec![
                    format!("properties.deadLetterDestination: none -> {bucket}"),
                    r#"properties.labels: ["a"] -> none"#.to_owned(),
                ],
            ),
            (
                read("https://e/a?k=2", &s2, &json!({})),
                vec![
                    format!("{destination}.deliveryAttributeMappings: changed (secret)"),
                    format!("{destination}.endpointUrl: changed (secret)"),
                ],
            ),
            (
                read("https://e/b?k=2", &s1, &json!({})),
                vec![format!(r#"{destination}.endpointUrl: "https://e/a" -> "https://e/b""#)],
            ),
            (
                read("https://e/a?k=1", &json!([]), &json!({})),
                vec![format!(
                    "{destination}.deliveryAttributeMappings: \
                     [{{\"name\":\"X\",\"properties\":{{\"isSecret\":true,\"value\":\"(secret)\"}},\
                     \"type\":\"Static\"}}] -> []"
                )],
            ),
        ] {
            let told: Vec<_> = between(&before, &after).iter().map(Change::told).collect();
            assert_eq!(told, want, "{after:?}");
        }
        let topic = |patch: Value| -> Topic {
            serde_json::from_value(documents::topic("t", &patch)).expect("whole")
        };
        let namespace =
            topic(json!({"kind": "namespace", "properties": {"endpoint": "https://e"}}));
        let told: Vec<_> =
            between(&topic(json!({})), &namespace).iter().map(Change::told).collect();
        assert_eq!(told, [r#"kind: "custom" -> "namespace""#]);
    }
}

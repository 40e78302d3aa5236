//! What differs between two documents of a resource, member by member, without secrets.

use std::collections::BTreeSet;

use gridpost_api::subscription::base_url;
use serde_json::{Map, Value, json};

use super::export::own;

/// A member that differs. A change that only secrets show has neither value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    member: String,
    values: Option<[Value; 2]>,
}

impl Change {
    /// A secret changed, and reads do not show which.
    pub(super) fn of_a_secret() -> Self {
        Self { member: "properties".to_owned(), values: None }
    }

    /// The change, for programs.
    pub fn document(&self) -> Value {
        match &self.values {
            Some([from, to]) => json!({"member": self.member, "from": from, "to": to}),
            None => json!({"member": self.member, "isSecret": true}),
        }
    }

    /// The change, for people.
    pub fn told(&self) -> String {
        let text = |value: &Value| match value {
            Value::Null => "none".to_owned(),
            value => value.to_string(),
        };
        match &self.values {
            Some([from, to]) => format!("{}: {} -> {}", self.member, text(from), text(to)),
            None => format!("{}: changed (secret)", self.member),
        }
    }
}

/// The settings that differ between two reads of a resource. Their webhooks have `endpointBaseUrl`, or
/// `endpointUrl` where the whole URL was read.
pub(super) fn between(before: &Value, after: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    compare("", &settings(before), &settings(after), &mut found);
    found
}

/// The part of a read that documents set.
fn settings(read: &Value) -> Value {
    let mut properties = own(read["properties"].clone());
    if let Some(signing) = properties.get_mut("signing").and_then(Value::as_object_mut) {
        signing.retain(|name, _| name == "scheme");
    }
    let destination = properties.pointer_mut("/destination/properties");
    if let Some(members) = destination.and_then(Value::as_object_mut) {
        let base = members.remove("endpointBaseUrl").unwrap_or_default();
        members.entry("endpointUrl").or_insert(base);
    }
    json!({"kind": read["kind"], "properties": properties})
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
        let values = [before, after].map(|value| shown(value, is_url));
        let is_secret = values[0] == values[1];
        found.push(Change { member: path.to_owned(), values: (!is_secret).then_some(values) });
    }
}

/// The value without its secrets: the query of a URL, and the values of secret headers.
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
    use super::*;

    fn read(url: &str, headers: Value, more: Value) -> Value {
        let mut read = json!({"id": "i", "name": "s", "properties": {
            "provisioningState": "Succeeded", "topic": "/topics/t", "labels": ["a"],
            "destination": {"endpointType": "WebHook", "properties": {
                "endpointUrl": url, "deliveryAttributeMappings": headers}},
        }});
        gridpost_api::document::merge(&mut read, &more);
        read
    }

    #[test]
    fn members_that_differ_are_told_without_secrets() {
        let header = |value: &str| {
            json!([{"name": "X", "type": "Static",
                "properties": {"isSecret": true, "value": value}}])
        };
        let of = |more: Value| read("https://e/a?k=1", header("s1"), json!({"properties": more}));
        let before = of(json!({}));
        let destination = "properties.destination.properties";
        for (after, want) in [
            (of(json!({"provisioningState": "AwaitingManualAction", "pause": {}})), vec![]),
            (of(json!({"deadLetterDestination": null})), vec![]),
            (
                of(json!({"labels": ["a", "b"]})),
                vec![r#"properties.labels: ["a"] -> ["a","b"]"#.to_owned()],
            ),
            (
                of(json!({"deadLetterDestination": {"endpointType": "S3Bucket"}, "labels": null})),
                vec![
                    r#"properties.deadLetterDestination: none -> {"endpointType":"S3Bucket"}"#
                        .to_owned(),
                    r#"properties.labels: ["a"] -> none"#.to_owned(),
                ],
            ),
            (
                read("https://e/a?k=2", header("s2"), json!({})),
                vec![
                    format!("{destination}.deliveryAttributeMappings: changed (secret)"),
                    format!("{destination}.endpointUrl: changed (secret)"),
                ],
            ),
            (
                read("https://e/b?k=2", header("s1"), json!({"kind": "k"})),
                vec![
                    r#"kind: none -> "k""#.to_owned(),
                    format!(r#"{destination}.endpointUrl: "https://e/a" -> "https://e/b""#),
                ],
            ),
            (
                read("https://e/a?k=1", json!([]), json!({})),
                vec![format!(
                    "{destination}.deliveryAttributeMappings: \
                     [{{\"name\":\"X\",\"properties\":{{\"isSecret\":true,\"value\":\"(secret)\"}},\
                     \"type\":\"Static\"}}] -> []"
                )],
            ),
        ] {
            let told: Vec<_> = between(&before, &after).iter().map(Change::told).collect();
            assert_eq!(told, want, "{after}");
        }
    }
}

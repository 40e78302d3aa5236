//! An event subscription's document as fields, and back. What the fields do not change stays as it was,
//! and what they can't mean stays a text: the API refuses it in its own words.

pub(super) mod authentication;
mod rows;
pub(super) mod view;

use gridpost_core::subscription::ResourceKind;
use serde_json::{Map, Value, json};

use super::form::placed::Placed;
use super::form::{Asked, Fields, Posted, lines, meant, meant_lines, meant_value, written};
use gridpost_ops::failure::Refusal;

/// Lists that have rows: the field that a new row begins with, and those that are empty in a row which
/// says nothing.
pub(super) const LISTS: [(&str, &str, &[&str]); 3] = [
    ("filter.advancedFilters", "key", &["key", "values"]),
    ("retryPolicy.statusRules", "which", &["which", "seconds"]),
    ("destination.deliveryAttributeMappings", "name", &["name", "value", "sourceField"]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Flag,
    Lines,
    Steps,
    Filters,
    Rules,
    Attributes,
    Key,
    Letters,
    Signing,
    Authentication,
}

/// The members of `properties`, but for the destination.
const MEMBERS: [(&str, Kind); 18] = [
    ("filter.includedEventTypes", Kind::Lines),
    ("filter.subjectBeginsWith", Kind::Text),
    ("filter.subjectEndsWith", Kind::Text),
    ("filter.isSubjectCaseSensitive", Kind::Flag),
    ("filter.advancedFilters", Kind::Filters),
    ("filter.enableAdvancedFilteringOnArrays", Kind::Flag),
    (SCHEMA, Kind::Text),
    ("retryPolicy.maxDeliveryAttempts", Kind::Number),
    ("retryPolicy.eventTimeToLiveInMinutes", Kind::Number),
    ("retryPolicy.maxDeliveryCount", Kind::Number),
    ("retryPolicy.eventTimeToLive", Kind::Text),
    ("retryPolicy.schedule", Kind::Steps),
    ("retryPolicy.statusRules", Kind::Rules),
    ("probationPolicy", Kind::Text),
    ("deadLetterDestination", Kind::Letters),
    ("signing", Kind::Signing),
    ("labels", Kind::Lines),
    ("expirationTimeUtc", Kind::Text),
];

/// What can't be changed after the event subscription is made.
const SCHEMA: &str = "eventDeliverySchema";

pub(super) const TYPE: &str = "destination.endpointType";

/// Those of a destination's `properties`, and the types that have them.
const OF_DESTINATION: [(&str, Kind, &[&str]); 12] = [
    ("endpointUrl", Kind::Text, &["WebHook"]),
    ("resourceId", Kind::Text, &RESOURCES),
    ("messageGroupId", Kind::Key, &["SqsQueue", "SnsTopic"]),
    ("partitionKey", Kind::Key, &["KinesisStream"]),
    ("maxEventsPerBatch", Kind::Number, &["WebHook", "LambdaFunction"]),
    ("preferredBatchSizeInKilobytes", Kind::Number, &["WebHook", "LambdaFunction"]),
    ("onBatchFailure", Kind::Text, &["WebHook"]),
    ("partialResults", Kind::Flag, &["WebHook"]),
    (
        "deliveryAttributeMappings",
        Kind::Attributes,
        &["WebHook", "LambdaFunction", "SqsQueue", "SnsTopic"],
    ),
    (authentication::NAME, Kind::Authentication, &["WebHook"]),
    ("azureActiveDirectoryTenantId", Kind::Text, &["WebHook"]),
    ("azureActiveDirectoryApplicationIdOrUri", Kind::Text, &["WebHook"]),
];

const RESOURCES: [&str; 5] =
    ["LambdaFunction", "SqsQueue", "SnsTopic", "KinesisStream", "EventBridgeBus"];

fn of_type(kind: &str) -> impl Iterator<Item = (&'static str, Kind)> + use<'_> {
    let is_of = move |(.., types): &&(&str, Kind, &[&str])| types.contains(&kind);
    OF_DESTINATION.iter().filter(is_of).map(|(name, kind, _)| (*name, *kind))
}

pub(super) fn has(kind: &str, member: &str) -> bool {
    of_type(kind).any(|(name, _)| name == member)
}

fn types() -> Vec<(&'static str, &'static str)> {
    let resource = ResourceKind::ALL.map(|(name, _)| (name, name));
    std::iter::once(("WebHook", "WebHook: an https endpoint")).chain(resource).collect()
}

pub(super) fn fields_of(document: &Value) -> Fields {
    let properties = &document["properties"];
    let mut fields = Fields::default();
    for (name, kind) in MEMBERS {
        kind.show(at(properties, name), name, &mut fields);
    }
    let destination = &properties["destination"];
    let kind = destination["endpointType"].as_str().unwrap_or_default();
    fields.set(TYPE, kind);
    for (name, kind) in of_type(kind) {
        kind.show(&destination["properties"][name], &format!("destination.{name}"), &mut fields);
    }
    fields
}

pub(super) fn fields_of_new() -> Fields {
    let mut fields = Fields::default();
    fields.set(TYPE, "WebHook");
    fields
}

pub(super) fn placed(refusal: &Refusal, fields: &Fields) -> Placed {
    let mut problems = Placed::of(refusal);
    problems.rename(|path| rows::field_of_rule(fields, path));
    if refusal.code == "Endpoint validation" {
        let member = if fields.get(TYPE) == "WebHook" { "endpointUrl" } else { "resourceId" };
        problems.add(&format!("destination.{member}"), refusal.message.clone());
    }
    problems
}

/// Does what a button asks for that changes the form alone: the field that has the focus then. None where
/// the form is to be saved.
pub(super) fn arranged(posted: &mut Posted) -> Option<String> {
    let before = posted.made.was().map(|was| fields_of(&was)).unwrap_or_default();
    let fields = &mut posted.fields;
    let list = |name: &str| LISTS.iter().find(|(list, ..)| *list == name);
    let focus = match &posted.asked {
        Asked::Add(name) => {
            let Some((list, first, _)) = list(name) else { return Some(String::new()) };
            let row = fields.rows(list);
            fields.add(list, first);
            if *list == "filter.advancedFilters" {
                fields.set(format!("{list}.{row}.operatorType"), "StringIn");
            }
            format!("{list}.{row}.{first}")
        }
        Asked::Remove(name, row) => {
            let Some((list, ..)) = list(name) else { return Some(String::new()) };
            fields.keep_rows(list, |_, other| other != *row);
            (*list).to_owned()
        }
        // The fields of another type than the one that was chosen say nothing of it.
        Asked::Save if are_all_shown(fields) => {
            for (list, _, members) in LISTS {
                fields.keep_rows(list, |fields, row| !fields.is_blank(list, row, members));
            }
            return None;
        }
        Asked::Save | Asked::Choose => {
            let kind = fields.get(TYPE).to_owned();
            if fields.get("destination.shown") == kind {
                return Some(authentication::TYPE.to_owned());
            }
            if before.get(TYPE) == kind && fields.get("destination.shown") != kind {
                // The other type's fields were not on the page: as they are saved they are not lost.
                for (name, _) in of_type(&kind) {
                    fields.fill(&before, &format!("destination.{name}"));
                }
            }
            let kind = kind.as_str();
            let first = if has(kind, "endpointUrl") { "endpointUrl" } else { "resourceId" };
            format!("destination.{first}")
        }
    };
    Some(focus)
}

fn are_all_shown(fields: &Fields) -> bool {
    use authentication::{SHOWN, TYPE as BY};
    fields.get("destination.shown") == fields.get(TYPE) && fields.get(SHOWN) == fields.get(BY)
}

/// The document that was, with what the fields change; and what they say that no document can.
pub(super) fn document(fields: &Fields, was: &Value, is_new: bool) -> (Value, Placed) {
    let before = fields_of(was);
    let (mut document, mut problems) = (was.clone(), Placed::default());
    if !document["properties"].is_object() {
        document = json!({"properties": {}});
    }
    let properties = &mut document["properties"];
    for (name, kind) in MEMBERS.iter().filter(|(name, _)| is_new || *name != SCHEMA) {
        if !fields.is_same(&before, name) {
            put(properties, name, kind.meant(fields, name, &mut problems));
        }
    }
    let (now, until_now) = (fields.get(TYPE), before.get(TYPE));
    let is_other = now != until_now;
    if is_other {
        properties["destination"] = json!({"endpointType": now, "properties": {}});
    }
    for (name, kind) in of_type(now) {
        let field = format!("destination.{name}");
        let is_kept = !is_other && is_same(fields, &before, name, &field);
        if !is_kept {
            let value = kind.meant(fields, &field, &mut problems);
            put(&mut properties["destination"], &format!("properties.{name}"), value);
        }
    }
    (document, problems)
}

fn is_same(fields: &Fields, before: &Fields, name: &str, field: &str) -> bool {
    match name {
        // What says which fields are on the page is no change.
        authentication::NAME => authentication::given(fields) == authentication::given(before),
        _ => fields.is_same(before, field),
    }
}

fn at<'v>(document: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(document, |value, name| &value[name])
}

/// Sets a member, or removes it; objects above it are made where they are missing.
fn put(document: &mut Value, path: &str, value: Option<Value>) {
    if !document.is_object() {
        if value.is_none() {
            return;
        }
        *document = Value::Object(Map::new());
    }
    let Some(members) = document.as_object_mut() else { return };
    match (path.split_once('.'), value) {
        (Some((name, below)), value) => {
            put(members.entry(name).or_insert(Value::Null), below, value);
        }
        (None, Some(value)) => {
            members.insert(path.to_owned(), value);
        }
        (None, None) => {
            members.remove(path);
        }
    }
}

impl Kind {
    fn show(self, value: &Value, name: &str, fields: &mut Fields) {
        match (self, value) {
            (_, Value::Null) => {}
            (Self::Text, Value::String(text)) if text.is_empty() => {}
            (Self::Text, Value::String(text)) => fields.set(name, written(text)),
            (Self::Number, Value::String(text)) => fields.set(name, text),
            (Self::Flag, value) => fields.tick(name, *value == Value::Bool(true)),
            (Self::Lines, value) => fields.set(name, lines(value)),
            (Self::Steps, Value::Array(steps)) => {
                let steps: Vec<_> = steps.iter().map(rows::plain).collect();
                fields.set(name, steps.join(", "));
            }
            (Self::Filters, value) => rows::show_filters(value, name, fields),
            (Self::Rules, value) => rows::show_rules(value, name, fields),
            (Self::Attributes, value) => rows::show_attributes(value, name, fields),
            (Self::Key, value) => rows::show_key(value, name, fields),
            (Self::Letters, value) => {
                for member in ["bucketName", "prefix"] {
                    let field = format!("{name}.{member}");
                    Self::Text.show(&value["properties"][member], &field, fields);
                }
            }
            (Self::Signing, value) => fields.tick(name, value.is_object()),
            (Self::Authentication, value) => authentication::show(value, fields),
            (Self::Text | Self::Number | Self::Steps, other) => fields.set(name, other.to_string()),
        }
    }

    /// The member that its fields mean; none where they are empty.
    fn meant(self, fields: &Fields, name: &str, problems: &mut Placed) -> Option<Value> {
        let text = fields.get(name).trim();
        let given = (!text.is_empty()).then_some(text);
        match self {
            Self::Text => given.map(|text| Value::from(meant(text))),
            Self::Number => given.map(meant_value),
            Self::Flag => fields.is_on(name).then_some(Value::Bool(true)),
            Self::Lines => meant_lines(text).map(Value::from),
            Self::Steps => given.map(|text| {
                let steps = text.split([',', ' ', '\n']).filter(|step| !step.is_empty());
                steps.map(meant_value).collect()
            }),
            Self::Filters => rows::filters(fields, name),
            Self::Rules => rows::rules(fields, name, problems),
            Self::Attributes => rows::attributes(fields, name),
            Self::Key => rows::key(fields, name, problems),
            Self::Letters => {
                let mut bucket = Map::new();
                for member in ["bucketName", "prefix"] {
                    let field = format!("{name}.{member}");
                    let value = Self::Text.meant(fields, &field, problems);
                    bucket.extend(value.map(|value| (member.to_owned(), value)));
                }
                let is_given = !bucket.is_empty();
                is_given.then(|| json!({"endpointType": "S3Bucket", "properties": bucket}))
            }
            Self::Authentication => authentication::given(fields),
            Self::Signing => fields.is_on(name).then(|| json!({"scheme": "StandardWebhooks"})),
        }
    }
}

#[cfg(test)]
mod tests;

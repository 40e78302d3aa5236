//! Documents of event subscriptions, as PUT and PATCH read them.

use gridpost_api::{
    document::{self, Problems, parse},
    error::Error,
    subscription,
};
use gridpost_core::{
    endpoint::Allowed,
    retry::profile::ProfileName,
    subscription::EventSubscription,
    topic::{InputSchema, Kind, Topic},
};
use serde_json::{Value, json};

use super::publish::{NOW, stored, topic};

/// A document, for topics of every kind, schema and profile: by itself, and as a patch of an event
/// subscription that has everything.
pub(crate) fn document(input: &[u8]) {
    let document = match parse(input) {
        Ok(document) => document,
        Err(error) => return assert!(error.to_string().len() < 1_000),
    };
    let other = disguised(&document);
    for topic in topics() {
        let put = read(&topic, &document, None);
        is_the_same(&topic, &put, &read(&topic, &other, None));
        match put {
            Ok(made) => reads_back(&topic, &document, &made),
            Err(problems) => told(&problems),
        }
        let existing = read(&topic, &everything(&topic), None).expect("a valid document");
        let patched = patch(&topic, &document, &existing);
        is_the_same(&topic, &patched, &patch(&topic, &other, &existing));
        match patched {
            Ok(made) => {
                let again = patch(&topic, &document, &made).expect("a patch fits what it has made");
                assert_eq!(again, made, "a patch says how things are to be");
                reads_back(&topic, &json!({}), &made);
            }
            Err(problems) => told(&problems),
        }
    }
}

fn topics() -> [Topic; 5] {
    use InputSchema::{CloudEventSchemaV1_0, CustomEventSchema, EventGridSchema};
    let of = |schema, kind, delivery_profile| Topic { kind, delivery_profile, ..topic(schema) };
    [
        of(EventGridSchema, Kind::Custom, ProfileName::Basic),
        of(CloudEventSchemaV1_0, Kind::Custom, ProfileName::Basic2021),
        of(CustomEventSchema, Kind::Custom, ProfileName::Basic),
        of(CloudEventSchemaV1_0, Kind::Namespace, ProfileName::Namespace),
        of(CloudEventSchemaV1_0, Kind::Namespace, ProfileName::Basic),
    ]
}

/// A document with a value at every member that has a default.
fn everything(topic: &Topic) -> Value {
    let attribute = |name: &str, value: &str, is_secret: bool| json!({"name": name, "type": "Static", "properties": {"value": value, "isSecret": is_secret}});
    let mut document = json!({"properties": {
        "destination": {"endpointType": "WebHook", "properties": {
            "endpointUrl": "https://example.com/hook?code=hidden",
            "maxEventsPerBatch": 10,
            "preferredBatchSizeInKilobytes": 128,
            "onBatchFailure": "Bisect",
            "partialResults": true,
            "deliveryAttributeMappings": [
                attribute("X-A", "shown", false),
                attribute("Authorization", "hidden", true),
                {"name": "X-D", "type": "Dynamic", "properties": {"sourceField": "data.key"}},
            ],
        }},
        "filter": {
            "includedEventTypes": ["T"],
            "subjectBeginsWith": "/a",
            "subjectEndsWith": ".jpg",
            "isSubjectCaseSensitive": true,
            "enableAdvancedFilteringOnArrays": true,
            "advancedFilters": [{"operatorType": "NumberIn", "key": "data.n", "values": [0.1]}],
        },
        "retryPolicy": {"schedule": [1, 60], "statusRules": {"404": "deadLetter"}},
        "probationPolicy": "Delay",
        "deadLetterDestination": {
            "endpointType": "S3Bucket",
            "properties": {"bucketName": "dead-letters", "prefix": "p/"},
        },
        "labels": ["l"],
        "expirationTimeUtc": "2030-01-01T00:00:00.5Z",
        "signing": {"scheme": "StandardWebhooks"},
    }});
    let limits = match topic.delivery_profile {
        ProfileName::Namespace => json!({"maxDeliveryCount": 3, "eventTimeToLive": "PT20M"}),
        ProfileName::Basic | ProfileName::Basic2021 => {
            json!({"maxDeliveryAttempts": 3, "eventTimeToLiveInMinutes": 20})
        }
    };
    document::merge(&mut document["properties"]["retryPolicy"], &limits);
    document
}

fn context<'a>(
    topic: &'a Topic,
    existing: Option<&'a EventSubscription>,
    allowed: &'a Allowed,
) -> subscription::Context<'a> {
    subscription::Context { topic, existing, now: NOW, allowed }
}

fn read(
    topic: &Topic,
    document: &Value,
    existing: Option<&EventSubscription>,
) -> Result<EventSubscription, Problems> {
    let settings = subscription::read(document, &context(topic, existing, &Allowed::default()))?;
    Ok(made(topic, settings))
}

fn patch(
    topic: &Topic,
    patch: &Value,
    existing: &EventSubscription,
) -> Result<EventSubscription, Problems> {
    let allowed = Allowed::default();
    let context = context(topic, Some(existing), &allowed);
    Ok(made(topic, subscription::read_patch(patch, existing, &context)?))
}

fn made(topic: &Topic, mut settings: subscription::Settings) -> EventSubscription {
    settings.make_secret(|| [7; 32]);
    stored(topic, settings)
}

/// An event subscription made of a document stays the same: written and read back, patched by
/// nothing, and patched by the document itself.
fn reads_back(topic: &Topic, document: &Value, made: &EventSubscription) {
    let written = json!(subscription::write(made, topic.delivery_profile));
    let read = read(topic, &written, Some(made)).expect("what a read answers can be written back");
    assert_eq!(read, *made);
    assert_eq!(json!(subscription::write(&read, topic.delivery_profile)), written);
    for change in [&json!({}), document] {
        let patched = patch(topic, change, made).expect("a change that changes nothing");
        assert_eq!(patched, *made);
    }
    let text = serde_json::to_string(made).expect("a table's item");
    let stored: EventSubscription = serde_json::from_str(&text).expect("what was stored");
    assert_eq!(stored, *made);
}

/// A refusal lists problems, and stays readable.
fn told(problems: &Problems) {
    assert!(!problems.is_empty());
    for problem in problems.iter() {
        assert!(!problem.path.is_empty() && !problem.rule.is_empty());
        assert!(problem.to_string().len() < 2_500, "{problem}");
    }
    assert!(problems.to_string().len() < 3_000, "{problems}");
    assert_eq!(Error::from(problems).error.details.len(), problems.iter().count());
}

/// Whether nobody can tell two documents apart that differ in secrets alone: neither by the answer of
/// a read, nor by a log, nor by the problems.
fn is_the_same(
    topic: &Topic,
    one: &Result<EventSubscription, Problems>,
    other: &Result<EventSubscription, Problems>,
) {
    let shown = |made: &Result<EventSubscription, Problems>| match made {
        Ok(made) => Ok((subscription::write(made, topic.delivery_profile), format!("{made:?}"))),
        Err(problems) => Err(problems.clone()),
    };
    assert_eq!(shown(one), shown(other), "a secret shows");
}

/// Returns the document with other letters and digits in its secrets: the URL's query, and secret
/// attributes.
fn disguised(document: &Value) -> Value {
    let mut other = document.clone();
    for outer in ["/properties", ""] {
        for inner in ["", "/deliveryConfiguration/push"] {
            // Azure's tools print a destination without properties.
            for place in ["/destination/properties", "/destination"] {
                if let Some(webhook) = other.pointer_mut(&format!("{outer}{inner}{place}")) {
                    disguise(webhook);
                }
            }
        }
    }
    other
}

fn disguise(webhook: &mut Value) {
    if let Some(Value::String(url)) = webhook.get_mut("endpointUrl")
        && let Some((base, query)) = url.split_once('?')
    {
        *url = format!("{base}?{}", turned(query));
    }
    let mut place = "/deliveryAttributeMappings/value";
    if webhook.pointer(place).is_none() {
        place = "/deliveryAttributeMappings";
    }
    let attributes = webhook.pointer_mut(place).and_then(Value::as_array_mut);
    for attribute in attributes.into_iter().flatten() {
        let is_flat = attribute.get("properties").is_none();
        let properties = if is_flat { Some(attribute) } else { attribute.get_mut("properties") };
        let Some(properties) = properties else { continue };
        if properties.get("isSecret") != Some(&Value::Bool(true)) {
            continue;
        }
        if let Some(Value::String(value)) = properties.get_mut("value") {
            *value = turned(value);
        }
    }
}

/// Every letter and digit is the next one.
fn turned(text: &str) -> String {
    let turn = |char: char| match char {
        'z' => 'a',
        'Z' => 'A',
        '9' => '0',
        'a'..='y' | 'A'..='Y' | '0'..='8' => char::from(char as u8 + 1),
        other => other,
    };
    text.chars().map(turn).collect()
}

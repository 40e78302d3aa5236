//! Prints event subscriptions for `gridpost subscription show` and `list`: everything that a read
//! shows.

use gridpost_api::{
    client::Tagged,
    health::Health,
    settings::Document,
    subscription::{AwaitedValidation, Destination, EventSubscription},
};
use gridpost_core::subscription::ProvisioningState;
use serde_json::Value;

use crate::output::{self, or_dash};

const HEADERS: &str = "destination.deliveryAttributeMappings";

/// Describes an event subscription.
pub fn describe(subscription: &Tagged<EventSubscription>) -> String {
    output::columns(&rows(subscription))
}

/// Describes it by names and values.
pub fn rows(subscription: &Tagged<EventSubscription>) -> Vec<[String; 2]> {
    let Tagged { document, etag, .. } = subscription;
    let properties = &document.properties;
    let mut settings = Document::of(document);
    let headers: Vec<_> = (0..settings.rows(HEADERS)).map(|row| header(&settings, row)).collect();
    // What has a row of its own is not shown again with all others.
    let shown = ["provisioningState", "validation", "pause"];
    let shown = shown.into_iter().chain(ENDPOINTS).chain([HEADERS]);
    shown.for_each(|path| drop(settings.take(path)));
    let mut take = |path: &str| settings.take(path).join(", ");
    let mut rows = vec![
        row("event subscription", document.name.clone()),
        row("etag", or_dash(etag.as_ref())),
        row("created", document.system_data.created_at.to_string()),
        row("last changed", document.system_data.last_modified_at.to_string()),
        row("state", describe_state(properties.provisioning_state).to_owned()),
    ];
    rows.extend(reason(properties.validation.as_ref()));
    rows.push(row("endpoint", destination(document)));
    rows.extend([
        row("event types", or(take("filter.includedEventTypes"), "all")),
        row("delivery schema", or(take("eventDeliverySchema"), "-")),
        row("retry policy", limits(&mut take)),
        row("dead letters", dead_letters(&mut take)),
    ]);
    if let Some(pause) = &properties.pause {
        rows.push(row("paused", super::pause::told(pause)));
        rows.push(row("pause ends by", pause.until.to_string()));
    }
    let filters = settings.take("filter.advancedFilters").into_iter();
    rows.extend(filters.map(|filter| row("filter", filter)));
    rows.extend(headers.into_iter().map(|header| row("header", header)));
    others(&mut rows, "", &settings.into_properties());
    rows
}

/// The settings that say where an endpoint is.
const ENDPOINTS: [&str; 3] =
    ["destination.endpointBaseUrl", "destination.endpointUrl", "destination.resourceId"];

fn or(text: String, none: &str) -> String {
    if text.is_empty() { none.to_owned() } else { text }
}

fn row(name: &str, value: String) -> [String; 2] {
    [name.to_owned(), value]
}

/// Describes a header of every request, without a secret's value.
fn header(settings: &Document, row: usize) -> String {
    let at = |member: &str| settings.text(&format!("{HEADERS}.{row}.{member}"));
    let (name, field) = (at("name"), at("sourceField"));
    match at("isSecret").as_str() {
        _ if !field.is_empty() => format!("{name} = the event's {field}"),
        "true" => format!("{name} (secret)"),
        _ => format!("{name} = {}", at("value")),
    }
}

/// Adds settings, labelled by the words of their paths. Null, false and empty values are left out.
fn others(rows: &mut Vec<[String; 2]>, path: &str, value: &Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                others(rows, &format!("{path}/{name}"), member);
            }
        }
        Value::Null | Value::Bool(false) => {}
        Value::String(text) if text.is_empty() => {}
        Value::Array(elements) if elements.is_empty() => {}
        value => {
            let parts = path.split('/').filter(|part| !matches!(*part, "" | "properties"));
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            rows.push([parts.map(words).collect::<Vec<_>>().join(" "), text]);
        }
    }
}

/// Returns the words of a member's name: `maxEventsPerBatch` is `max events per batch`. Names that do not
/// begin with a small letter, such as outcomes, stay whole.
pub(crate) fn words(name: &str) -> String {
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        return name.to_owned();
    }
    let mut words = String::with_capacity(name.len() + 8);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// Returns the destination as a user knows it; a webhook's URL without its query, which is a secret.
pub fn destination(subscription: &EventSubscription) -> String {
    let destination = &subscription.properties.settings.destination;
    or_dash(destination.as_ref().and_then(Destination::place))
}

fn limits(take: &mut impl FnMut(&str) -> String) -> String {
    let mut both = |names: [&str; 2]| names.map(|name| take(&format!("retryPolicy.{name}")));
    let [attempts, minutes] = both(["maxDeliveryAttempts", "eventTimeToLiveInMinutes"]);
    let [count, span] = both(["maxDeliveryCount", "eventTimeToLive"]);
    match count.is_empty() {
        true => format!("{} attempts, {} minutes", or(attempts, "-"), or(minutes, "-")),
        false => format!("{count} attempts, {span}"),
    }
}

fn dead_letters(take: &mut impl FnMut(&str) -> String) -> String {
    let [bucket, prefix] =
        ["bucketName", "prefix"].map(|name| take(&format!("deadLetterDestination.{name}")));
    match bucket.is_empty() {
        true => "none: an event that ends undelivered is dropped".to_owned(),
        false => format!("s3://{bucket}/{prefix}"),
    }
}

/// Returns a row that says why the endpoint's answer to the handshake was no consent.
pub(super) fn reason(validation: Option<&AwaitedValidation>) -> Option<[String; 2]> {
    Some(row("not validated", validation?.reason.clone()?))
}

/// Says that no event goes to the endpoint until it consents, with the reason and what to do; `None`
/// if it has consented.
pub fn awaited(subscription: &EventSubscription) -> Option<String> {
    let EventSubscription { name, properties, .. } = subscription;
    if properties.provisioning_state != ProvisioningState::AwaitingManualAction {
        return None;
    }
    let validation = properties.validation.as_ref();
    let because = validation.and_then(|validation| validation.reason.as_ref());
    let because = because.map(|why| format!(": {why}")).unwrap_or_default();
    let topic = properties.topic.trim_start_matches("/topics/");
    Some(format!(
        "No event goes to {} until it has consented{because}.\nMend its answer and have it asked again \
         (`gridpost subscription update --topic {topic} --subscription {name} --endpoint URL`), or open the \
         validation URL that it was sent, which its log may have, before {}.",
        destination(subscription),
        or_dash(validation.map(|validation| validation.until)),
    ))
}

fn describe_state(state: ProvisioningState) -> &'static str {
    match state {
        ProvisioningState::Succeeded => "Succeeded",
        ProvisioningState::AwaitingManualAction => {
            "AwaitingManualAction: no events flow until the validation URL that the endpoint was sent has been \
             opened, within 10 minutes"
        }
        ProvisioningState::Failed => {
            "Failed: the endpoint was not validated within 10 minutes; `subscription update --endpoint URL` \
             asks it again"
        }
    }
}

/// Lists the event subscriptions of a topic, each with the health of its endpoint, where that is known.
pub fn list(topic: &str, subscriptions: &[(EventSubscription, Option<Health>)]) -> String {
    if subscriptions.is_empty() {
        return format!(
            "no event subscriptions; create one: gridpost subscription create --topic {topic} --subscription <name> --endpoint <url>"
        );
    }
    let row = |(subscription, health): &(EventSubscription, Option<Health>)| {
        let state = subscription.properties.provisioning_state.to_string();
        let health = or_dash(health.as_ref().map(|health| health.state));
        [subscription.name.clone(), state, health, destination(subscription)]
    };
    let head = ["EVENT SUBSCRIPTION", "STATE", "HEALTH", "ENDPOINT"];
    output::table(head, subscriptions.iter().map(row))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testkit::documents;

    /// Every text and number of a document.
    fn leaves(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => members.values().for_each(|member| leaves(member, found)),
            Value::Array(elements) => elements.iter().for_each(|one| leaves(one, found)),
            Value::String(text) => found.push(text.clone()),
            Value::Number(number) => found.push(number.to_string()),
            Value::Bool(_) | Value::Null => {}
        }
    }

    #[test]
    fn everything_is_shown_but_secrets() {
        let mut subscription = json!({"id": "/topics/orders/eventSubscriptions/billing", "name": "billing",
            "type": "Gridpost/topics/eventSubscriptions", "properties": {
            "topic": "/topics/orders", "provisioningState": "Succeeded",
            "eventDeliverySchema": "EventGridSchema",
            "destination": {"endpointType": "WebHook", "properties": {
                "endpointBaseUrl": "https://e.example/hook", "maxEventsPerBatch": 77,
                "preferredBatchSizeInKilobytes": 64,
                "deliveryAttributeMappings": [
                    {"name": "X-Plain", "type": "Static", "properties": {"value": "shown", "isSecret": false}},
                    {"name": "X-Field", "type": "Dynamic", "properties": {"sourceField": "data.k"}},
                ]}},
            "filter": {"subjectBeginsWith": "/begin", "subjectEndsWith": "end",
                "includedEventTypes": ["Type.A"], "isSubjectCaseSensitive": true,
                "advancedFilters": [
                    {"operatorType": "NumberIn", "key": "data.n", "values": [13, 17]}]},
            "retryPolicy": {"maxDeliveryAttempts": 5, "eventTimeToLiveInMinutes": 99,
                "schedule": [11, 12], "statusRules": {"404": "deadLetter"}},
            "probationPolicy": "Delay",
            "signing": {"scheme": "StandardWebhooks", "previousSecretValidUntil": null},
            "deadLetterDestination": {"endpointType": "S3Bucket",
                "properties": {"bucketName": "letters", "prefix": "dead/"}},
            "labels": ["l-1"], "expirationTimeUtc": "2030-01-01T00:00:00.000Z", "allowedRate": 120,
        }, "systemData": {
            "createdAt": "2026-01-02T03:04:05.000Z", "lastModifiedAt": "2026-02-03T04:05:06.000Z",
        }});
        let describe = |subscription: &Value| {
            let document = serde_json::from_value(subscription.clone()).expect("whole");
            describe(&Tagged { document, is_new: false, etag: Some("tag-1".to_owned()) })
        };
        let text = describe(&subscription);
        let mut wanted = vec!["billing".to_owned(), "tag-1".to_owned()];
        leaves(&subscription["properties"], &mut wanted);
        leaves(&subscription["systemData"], &mut wanted);
        // What kind a header is shows in how it is written.
        for leaf in wanted.iter().filter(|leaf| !matches!(leaf.as_str(), "Static" | "Dynamic")) {
            assert!(text.contains(leaf.as_str()), "{leaf} is not in\n{text}");
        }
        for label in [
            "filter is subject case sensitive ",
            "filter subject begins with ",
            "destination max events per batch ",
            "retry policy status rules 404 ",
            "expiration time utc ",
        ] {
            assert!(text.contains(label), "{label} is not in\n{text}");
        }
        let labels = text.lines().filter_map(|line| line.split("  ").next());
        labels.for_each(|label| assert!(!label.contains('.'), "{label} is a path"));
        let secret = json!([{"name": "X-Key", "type": "Static", "properties": {"isSecret": true}}]);
        subscription["properties"]["destination"]["properties"]["deliveryAttributeMappings"] =
            secret;
        assert!(describe(&subscription).contains("X-Key (secret)"));
        subscription["properties"]["deadLetterDestination"] = Value::Null;
        assert!(
            describe(&subscription).contains("none: an event that ends undelivered is dropped")
        );
    }

    #[test]
    fn a_list_says_how_healthy_endpoints_are() {
        let webhook = json!({"endpointBaseUrl": "https://e"});
        let patch = json!({"properties": {"destination": {"properties": webhook}}});
        let one: EventSubscription =
            serde_json::from_value(documents::subscription("a", &patch)).expect("whole");
        let health = documents::health(&json!({"state": "Probation"}));
        let health = serde_json::from_value(health).expect("whole");
        let text = list("t", &[(one.clone(), Some(health)), (one, None)]);
        let rows: Vec<Vec<_>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["a", "Succeeded", "Probation", "https://e"]);
        assert_eq!(rows[1][2], "-");
    }
}

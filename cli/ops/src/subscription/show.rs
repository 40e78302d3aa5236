//! What `gridpost subscription show` and `list` print: everything that a read shows.

use gridpost_api::settings::Document;
use serde_json::Value;

use crate::output::{self, text_at};

const HEADERS: &str = "destination.deliveryAttributeMappings";

/// An event subscription for people.
pub fn describe(subscription: &Value) -> String {
    output::columns(&rows(subscription))
}

/// The same as names and values.
pub fn rows(subscription: &Value) -> Vec<[String; 2]> {
    let mut settings = Document::of(subscription);
    let headers: Vec<_> = (0..settings.rows(HEADERS)).map(|row| header(&settings, row)).collect();
    settings.take(HEADERS);
    // What has a row of its own is not told again with all others.
    let mut take = |path: &str| settings.take(path).join(", ");
    let at = |pointer| text_at(subscription, pointer).to_owned();
    let mut rows = vec![
        row("event subscription", at("/name")),
        row("etag", at("/etag")),
        row("state", state(&or(take("provisioningState"), "-"))),
    ];
    rows.extend(reason(subscription.pointer("/properties/validation")));
    rows.push(row("endpoint", destination(subscription)));
    for path in [
        "validation",
        "destination.endpointBaseUrl",
        "destination.endpointUrl",
        "destination.resourceId",
    ] {
        take(path);
    }
    rows.extend([
        row("event types", or(take("filter.includedEventTypes"), "all")),
        row("delivery schema", or(take("eventDeliverySchema"), "-")),
        row("retry policy", limits(&mut take)),
        row("dead letters", dead_letters(&mut take)),
    ]);
    if let Some(pause) = subscription.pointer("/properties/pause").filter(|it| it.is_object()) {
        rows.push(row("paused", super::pause::told(pause)));
        rows.push(row("pause ends by", text_at(pause, "/until").to_owned()));
        take("pause");
    }
    let filters = settings.take("filter.advancedFilters").into_iter();
    rows.extend(filters.map(|filter| row("filter", filter)));
    rows.extend(headers.into_iter().map(|header| row("header", header)));
    others(&mut rows, "", &settings.into_properties());
    rows
}

fn or(text: String, none: &str) -> String {
    if text.is_empty() { none.to_owned() } else { text }
}

fn row(name: &str, value: String) -> [String; 2] {
    [name.to_owned(), value]
}

/// A header of every request, without a secret's value.
fn header(settings: &Document, row: usize) -> String {
    let at = |member: &str| settings.text(&format!("{HEADERS}.{row}.{member}"));
    let (name, field) = (at("name"), at("sourceField"));
    match at("isSecret").as_str() {
        _ if !field.is_empty() => format!("{name} = the event's {field}"),
        "true" => format!("{name} (secret)"),
        _ => format!("{name} = {}", at("value")),
    }
}

/// Settings, labelled by the words of their paths. Null, false and empty
/// values are left out.
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

/// The words of a member's name: `maxEventsPerBatch` is `max events per batch`. Names that begin otherwise,
/// such as outcomes, are whole.
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

/// The destination as a user knows it; a webhook's URL is shown without its query, which is a secret.
pub fn destination(subscription: &Value) -> String {
    let settings = Document::of(subscription);
    let members = ["endpointBaseUrl", "endpointUrl", "resourceId"];
    let mut texts = members.iter().map(|member| settings.text(&format!("destination.{member}")));
    texts.find(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned())
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

/// Why the endpoint's answer to the handshake was no consent, as a row.
pub(super) fn reason(validation: Option<&Value>) -> Option<[String; 2]> {
    let reason = validation?.get("reason")?.as_str()?;
    Some(row("not validated", reason.to_owned()))
}

/// Says that no event goes to the endpoint until it consents, with the reason and what to do; `None`
/// if it has consented.
pub fn awaited(subscription: &Value) -> Option<String> {
    let at = |pointer| text_at(subscription, pointer);
    if at("/properties/provisioningState") != "AwaitingManualAction" {
        return None;
    }
    let validation = subscription.pointer("/properties/validation").unwrap_or(&Value::Null);
    let because = validation["reason"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
    let topic = at("/properties/topic").trim_start_matches("/topics/");
    Some(format!(
        "No event goes to {} until it has consented{because}.\nMend its answer and have it asked again \
         (`gridpost subscription update --topic {topic} --subscription {} --endpoint URL`), or open the validation \
         URL that it was sent, which its log may have, before {}.",
        destination(subscription),
        at("/name"),
        text_at(validation, "/until"),
    ))
}

fn state(name: &str) -> String {
    match name {
        "AwaitingManualAction" => {
            "AwaitingManualAction: no events flow until the validation URL that the endpoint was sent has been \
             opened, within 10 minutes"
                .to_owned()
        }
        "Failed" => {
            "Failed: the endpoint was not validated within 10 minutes; `subscription update --endpoint URL` \
             asks it again".to_owned()
        }
        other => other.to_owned(),
    }
}

/// The event subscriptions of a topic, each with the health of its endpoint, where that is known.
pub fn list(topic: &str, subscriptions: &[(Value, Option<Value>)]) -> String {
    if subscriptions.is_empty() {
        return format!(
            "no event subscriptions; create one: gridpost subscription create --topic {topic} --subscription <name> --endpoint <url>"
        );
    }
    let row = |(subscription, health): &(Value, Option<Value>)| {
        let at = |pointer| text_at(subscription, pointer).to_owned();
        let health = health.as_ref().map_or("-", |health| text_at(health, "/state"));
        let state = at("/properties/provisioningState");
        [at("/name"), state, health.to_owned(), destination(subscription)]
    };
    let head = ["EVENT SUBSCRIPTION", "STATE", "HEALTH", "ENDPOINT"];
    output::table(head, subscriptions.iter().map(row))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        let mut subscription = json!({"name": "billing", "etag": "tag-1", "properties": {
            "provisioningState": "Succeeded",
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
            "labels": ["l-1"], "expirationTimeUtc": "2030-01-01T00:00:00Z", "allowedRate": 120,
        }});
        let text = describe(&subscription);
        let mut wanted = Vec::new();
        leaves(&subscription, &mut wanted);
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
        let one = json!({"name": "a", "properties": {"provisioningState": "Succeeded",
            "destination": {"properties": {"endpointBaseUrl": "https://e"}}}});
        let text = list("t", &[(one.clone(), Some(json!({"state": "Probation"}))), (one, None)]);
        let rows: Vec<Vec<_>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["a", "Succeeded", "Probation", "https://e"]);
        assert_eq!(rows[1][2], "-");
    }
}

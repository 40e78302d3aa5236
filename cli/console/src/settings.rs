//! The settings of an event subscription in words: those that are set, by what they are about.

use std::time::Duration;

use gridpost_api::{
    settings::{Document, Kind, SETTINGS, Setting, of_rows},
    subscription::EventSubscription,
};
use maud::{Markup, html};

use super::{chart, kit, text};

/// A group: its name, and its first line.
type Group = (&'static str, fn(&mut Document) -> String);

const GROUPS: [Group; 5] = [
    ("Endpoint", endpoint),
    ("Filter", |_| String::new()),
    ("Retry", retry),
    ("Dead letters", dead_letters),
    ("Delivery", |settings| take(settings, "eventDeliverySchema")),
];

/// Returns the place of a setting's group; all that have no group of their own are in the last one.
pub(super) fn group_of(setting: &Setting) -> usize {
    match setting.path.split('.').next().unwrap_or_default() {
        "destination" => 0,
        "filter" => FILTER,
        "retryPolicy" | "probationPolicy" => 2,
        "deadLetterDestination" => 3,
        _ => GROUPS.len() - 1,
    }
}

/// The group of the filter, and what it says where that is empty.
const FILTER: usize = 1;
const ALL_EVENTS: &str = "all events";

/// Lists them, with the times of the event subscription.
pub(super) fn list(document: &EventSubscription) -> Markup {
    let mut settings = Document::of(document);
    let group = |(at, (name, first)): (usize, Group)| {
        let first = Some(first(&mut settings)).filter(|first| !first.is_empty());
        let mut lines: Vec<_> = first.into_iter().chain(lines_of(at, &settings)).collect();
        if lines.is_empty() {
            lines.push(ALL_EVENTS.to_owned());
        }
        (name, html! { @for line in &lines { span.line { (text::time_or_text(line)) } } })
    };
    let mut rows: Vec<_> = GROUPS.into_iter().enumerate().map(group).collect();
    rows.push(("Created", text::time(document.system_data.created_at)));
    rows.push(("Last changed", text::time(document.system_data.last_modified_at)));
    kit::kv(&rows)
}

/// Says in a few words which events it wants.
pub(super) fn filter(document: &EventSubscription) -> String {
    let lines = lines_of(FILTER, &Document::of(document)).join("; ");
    match lines.is_empty() {
        true => ALL_EVENTS.to_owned(),
        false => text::short(&lines.replace("Event types: ", "")),
    }
}

/// Returns the lines of a group.
fn lines_of(group: usize, settings: &Document) -> Vec<String> {
    let own = SETTINGS.iter().filter(|one| one.list().is_none() && group_of(one) == group);
    own.flat_map(|one| lines(one, settings)).collect()
}

/// Says what a setting is, in a line for each row; nothing where it is not set, or as it is by default.
fn lines(setting: &Setting, settings: &Document) -> Vec<String> {
    let label = match setting.path {
        "destination.authentication.type" => "Authentication",
        _ => short(setting),
    };
    if label.is_empty() {
        return Vec::new();
    }
    if setting.kind == Kind::Rows {
        let row = |row: usize| {
            let told = |one: &Setting| {
                said(one, settings, &format!("{}.{row}.{}", setting.path, one.name()))
            };
            let members: Vec<_> =
                of_rows(setting.path).filter(|one| !one.is_type()).filter_map(told).collect();
            let (first, rest) = members.split_first()?;
            Some(format!("{first}: {}", rest.join(" ")))
        };
        return (0..settings.rows(setting.path)).filter_map(row).collect();
    }
    let told = said(setting, settings, setting.path);
    let line = |told: String| if told == label { told } else { format!("{label}: {told}") };
    told.map(line).into_iter().collect()
}

/// Returns a label without what only its form needs.
fn short(setting: &Setting) -> &'static str {
    setting.label.split([',', ':', '(']).next().unwrap_or_default().trim()
}

fn said(setting: &Setting, settings: &Document, path: &str) -> Option<String> {
    let text = settings.texts(path).join(", ");
    let is_default = setting.default().is_some_and(|default| default.replace(',', "") == text);
    let is_off = match setting.kind {
        Kind::Flag | Kind::Switch => text == "false",
        // All event types.
        _ => setting.path == "filter.includedEventTypes" && text == "All",
    };
    if is_default || is_off || text.is_empty() {
        return None;
    }
    Some(match setting.kind {
        Kind::Flag | Kind::Switch => short(setting).to_owned(),
        Kind::Pem => "given".to_owned(),
        Kind::Choice => {
            let word = setting.words.iter().find(|(name, _)| *name == text);
            word.map_or_else(|| text::words(&text).to_lowercase(), |(_, word)| (*word).to_owned())
        }
        _ if setting.name() == "sourceField" => format!("{text} of the event"),
        _ => text::short(&text),
    })
}

fn take(settings: &mut Document, path: &str) -> String {
    settings.take(path).join(", ")
}

fn endpoint(settings: &mut Document) -> String {
    // The page has it beside its title.
    take(settings, "destination.resourceId");
    let kind = match take(settings, "destination.endpointType").as_str() {
        "WebHook" => "Webhook".to_owned(),
        other => text::words(other).replace("Sqs", "SQS").replace("Sns", "SNS"),
    };
    match take(settings, "destination.maxEventsPerBatch").parse() {
        Ok(most) => format!("{kind}, at most {} a request", text::counted(most, "event", "events")),
        Err(_) => kind,
    }
}

fn retry(settings: &mut Document) -> String {
    let mut either = |names: [&str; 2]| {
        names.map(|name| take(settings, &format!("retryPolicy.{name}"))).concat()
    };
    let attempts = either(["maxDeliveryAttempts", "maxDeliveryCount"]);
    let time_to_live = either(["eventTimeToLiveInMinutes", "eventTimeToLive"]);
    let span = |minutes: u64| chart::duration(Duration::from_secs(60 * minutes));
    let time_to_live = time_to_live.parse().map_or(time_to_live, span);
    format!("{attempts} attempts, {time_to_live}")
}

fn dead_letters(settings: &mut Document) -> String {
    let [bucket, prefix] = ["bucketName", "prefix"]
        .map(|name| take(settings, &format!("deadLetterDestination.{name}")));
    match bucket.is_empty() {
        true => "none: what ends undelivered is lost".to_owned(),
        false => format!("s3://{bucket}/{prefix}"),
    }
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_set_is_said_and_defaults_are_not() {
        let listed = |patch| {
            let document = documents::subscription("s", &json!({ "properties": patch }));
            let document = serde_json::from_value(document).expect("an event subscription");
            (list(&document).into_string().replace("<wbr>", ""), filter(&document))
        };
        let (plain, all) = listed(json!({"destination": {"properties": {"maxEventsPerBatch": 1,
            "preferredBatchSizeInKilobytes": 64}}, "probationPolicy": "EventGrid",
            "retryPolicy": {"maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 1440}}));
        for part in
            ["Webhook, at most 1 event a request", "all events", "30 attempts, 24 h", "is lost"]
        {
            assert!(plain.contains(part), "{part} is not in {plain}");
        }
        assert_eq!(all, "all events");
        for part in ["64", "robation", "etag"] {
            assert!(!plain.contains(part), "{part} is in {plain}");
        }
        let headers = json!([
            {"name": "X-All", "type": "Static", "properties": {"value": "All", "isSecret": false}},
            {"name": "X-Env", "type": "Static", "properties": {"value": "<prod>", "isSecret": false}},
            {"name": "X-Key", "type": "Static", "properties": {"isSecret": true}},
            {"name": "X-Of", "type": "Dynamic", "properties": {"sourceField": "data.k"}}]);
        let filters = json!([{"operatorType": "NumberGreaterThan", "key": "data.n", "value": 200},
            {"operatorType": "BoolEquals", "key": "data.b", "value": false},
            {"operatorType": "StringIn", "key": "data.s", "values": ["s".repeat(1_000)]}]);
        let (full, some) = listed(json!({"destination": {"properties": {"maxEventsPerBatch": 77,
            "preferredBatchSizeInKilobytes": 128, "deliveryAttributeMappings": headers}},
            "filter": {"subjectBeginsWith": "/begin", "includedEventTypes": ["A", "B"], "advancedFilters": filters},
            "retryPolicy": {"maxDeliveryAttempts": 5, "eventTimeToLiveInMinutes": 90, "schedule": [11, 12],
                "statusRules": {"404": "deadLetter", "5xx": {"retryAfterSeconds": 10}}},
            "probationPolicy": "Delay", "signing": {"scheme": "StandardWebhooks"}, "labels": ["l-1"],
            "deadLetterDestination": {"endpointType": "S3Bucket",
                "properties": {"bucketName": "letters", "prefix": "dead/"}}}));
        let want = "A, B; Subject begins with: /begin; data.n: number greater than 200; \
                    data.b: bool equals false; data.s: string in sssssss…";
        assert_eq!(some, want);
        for part in [
            "at most 77 events a request",
            "Preferred size of a request in kilobytes: 128",
            "X-Env: &lt;prod&gt;",
            "X-All: All",
            "data.b: bool equals false",
            &format!("data.s: string in {}…<", "s".repeat(120)),
            "X-Key: Secret",
            "X-Of: data.k of the event",
            "Event types: A, B",
            "Subject begins with: /begin",
            "data.n: number greater than 200",
            "Own schedule: 11, 12",
            "404: ends the delivery",
            "5xx: is tried again, at the soonest after 10",
            "Events that meet a probation caused by a client error: wait",
            "Sign requests by Standard Webhooks",
            "s3://letters/dead/",
        ] {
            assert!(full.contains(part), "{part} is not in {full}");
        }
    }
}

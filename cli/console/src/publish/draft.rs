//! An event that is not published yet: made of the form's fields, and checked as a publish would be.

use std::collections::BTreeMap;

use gridpost_api::topic::{self, Topic as TopicDocument};
use gridpost_api::trial::sample;
use gridpost_core::event::ParseError;
use gridpost_core::publish::PublishError;
use gridpost_core::subscription::Filter;
use gridpost_core::topic::{InputSchema, Topic};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::form::{Fields, meant, placed::Placed, written};
use gridpost_ops::{
    clock, declared::trial, failure::Misuse, publish::input_schema, subscription::send_test,
};

/// The fields that have a whole event, and the schema that the form was made for.
pub(super) const WHOLE: &str = "event";
pub(super) const SCHEMA: &str = "made.schema";

#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) hint: &'static str,
    /// Whether it is sent where it is empty, too: it is refused then, or means something.
    is_always: bool,
    pub(super) is_json: bool,
}

const fn text(name: &'static str, label: &'static str, hint: &'static str) -> Member {
    Member { name, label, hint, is_always: true, is_json: false }
}

const fn optional(name: &'static str, label: &'static str, hint: &'static str) -> Member {
    Member { is_always: false, ..text(name, label, hint) }
}

const DATA: Member =
    Member { is_json: true, ..optional("data", "Data", "Any JSON; empty: the event has none.") };

const OF_EVENT_GRID: [Member; 6] = [
    text("eventType", "Event type", ""),
    text("subject", "Subject", ""),
    DATA,
    text("id", "Id", "One that was never used finds its deliveries."),
    text("eventTime", "Event time", "RFC 3339, such as 2026-01-31T08:00:00Z."),
    optional("dataVersion", "Data version", ""),
];

const OF_CLOUD_EVENTS: [Member; 8] = [
    text("type", "Type", ""),
    optional("subject", "Subject", ""),
    DATA,
    text("id", "Id", "One that was never used finds its deliveries."),
    text("source", "Source", "A URI or a path, such as /shop."),
    optional("time", "Time", "RFC 3339, such as 2026-01-31T08:00:00Z."),
    optional("dataschema", "Data schema", "An absolute URI."),
    optional("datacontenttype", "Data content type", "application/json where empty."),
];

/// The members of events of that schema; none where they are the publisher's own.
pub(super) fn members(schema: &str) -> &'static [Member] {
    match schema {
        "EventGridSchema" => &OF_EVENT_GRID,
        "CloudEventSchemaV1_0" => &OF_CLOUD_EVENTS,
        _ => &[],
    }
}

pub(super) fn field(member: &str) -> String {
    format!("field.{member}")
}

/// Makes a form of a sample event.
pub(super) fn fields(schema: InputSchema) -> Fields {
    let (sample, schema) = (made(schema), <&str>::from(schema));
    let mut fields = Fields::default();
    fields.set(SCHEMA, schema);
    for member in members(schema) {
        match &sample[member.name] {
            Value::Null => {}
            Value::String(text) if !member.is_json => fields.set(field(member.name), written(text)),
            value => fields.set(field(member.name), value.to_string()),
        }
    }
    fields
}

fn made(schema: InputSchema) -> Value {
    send_test::made(schema, clock::random_id()).unwrap_or_default()
}

#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) text: String,
    pub(super) problems: Placed,
}

fn topic_of(document: &TopicDocument) -> anyhow::Result<Topic> {
    let settings = topic::read(&serde_json::to_value(document)?);
    let settings = settings.map_err(|problems| Misuse(problems.to_string()))?;
    Ok(trial::unsaved(&document.name, settings))
}

impl Draft {
    /// Reads what was typed: a whole event as JSON, or its members. The reader is ingest's.
    pub(super) fn of(document: &TopicDocument, typed: &Fields) -> anyhow::Result<Self> {
        let topic = topic_of(document)?;
        if typed.has(WHOLE) {
            return Ok(Self::whole(&topic, typed.get(WHOLE).trim()));
        }
        let schema = input_schema(document);
        let (takes, made_for) = (<&str>::from(schema), typed.get(SCHEMA));
        if !made_for.is_empty() && made_for != takes {
            let told = format!(
                "The topic takes {takes}, the form is for {made_for}: open its page again."
            );
            return Err(Misuse(told).into());
        }
        let mut draft = Self::default();
        let mut values = values(schema, typed, &mut draft.problems);
        draft.text = serde_json::to_string(&values)?;
        let sample = made(schema);
        // A reader names the first problem. With what is right in its place, it names the next.
        for _ in 0..=values.len() {
            let Err(error) = check(&topic, &serde_json::to_string(&values)?) else { break };
            let PublishError::Body(ParseError::Member { violation, .. }) = &error else {
                draft.problems.add("", error.to_string());
                break;
            };
            let name = violation.member.clone();
            draft.problems.add(&field(&name), format!("{name} {}", violation.rule));
            match &sample[&name] {
                Value::Null => values.remove(&name),
                value => values.insert(name, to_raw_value(value)?),
            };
        }
        Ok(draft)
    }

    fn whole(topic: &Topic, text: &str) -> Self {
        let mut problems = Placed::default();
        let read: Result<&RawValue, _> = serde_json::from_str(text);
        match read {
            Err(error) => problems.add(WHOLE, format!("That is not JSON: {error} of the text")),
            Ok(_) => {
                if let Err(error) = check(topic, text) {
                    problems.add(WHOLE, error.to_string());
                }
            }
        }
        Self { text: text.to_owned(), problems }
    }
}

fn check(topic: &Topic, text: &str) -> Result<(), PublishError> {
    sample::test_text(topic, &Filter::default(), text).map(drop)
}

/// Returns the members that were typed, with the text of each as it is.
fn values(
    schema: InputSchema,
    typed: &Fields,
    problems: &mut Placed,
) -> BTreeMap<String, Box<RawValue>> {
    let is_cloud_event = schema == InputSchema::CloudEventSchemaV1_0;
    let version = is_cloud_event.then(|| ("specversion".to_owned(), to_raw_value("1.0")));
    let mut given: Vec<_> = version.into_iter().collect();
    for member in members(schema.into()) {
        let text = typed.get(&field(member.name)).trim();
        if member.is_always || !text.is_empty() {
            let value = if member.is_json {
                serde_json::from_str(text)
            } else {
                to_raw_value(&meant(text))
            };
            given.push((member.name.to_owned(), value));
        }
    }
    let mut read = |(name, value): (String, serde_json::Result<Box<RawValue>>)| {
        let told =
            |error| problems.add(&field(&name), format!("{name} is not JSON: {error} of the text"));
        Some((name.clone(), value.map_err(told).ok()?))
    };
    given.into_iter().filter_map(&mut read).collect()
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::json;

    use super::*;

    const EVENT_GRID: InputSchema = InputSchema::EventGridSchema;
    const CLOUD_EVENTS: InputSchema = InputSchema::CloudEventSchemaV1_0;
    const OWN: InputSchema = InputSchema::CustomEventSchema;

    fn topic(schema: InputSchema) -> TopicDocument {
        let document = documents::topic("orders", &json!({"properties": {"inputSchema": schema}}));
        serde_json::from_value(document).expect("a topic")
    }

    #[test]
    fn every_problem_is_at_its_field() {
        // A schema, what is typed in place of the sample, and the fields with problems.
        let table: [(_, &[_], &[_]); 4] = [
            (EVENT_GRID, &[], &[]),
            (CLOUD_EVENTS, &[], &[]),
            (
                EVENT_GRID,
                &[("eventTime", "soon"), ("data", "{"), ("id", "\"\"")],
                &["data", "id", "eventTime"],
            ),
            (CLOUD_EVENTS, &[("time", "soon")], &["time"]),
        ];
        for (schema, typed, want) in table {
            let mut fields = fields(schema);
            typed.iter().for_each(|(name, text)| fields.set(field(name), *text));
            let draft = Draft::of(&topic(schema), &fields).expect("a topic");
            let names = members(schema.into()).iter().map(|member| member.name);
            let is_wrong = |name: &&str| !draft.problems.at(&field(name), name).is_empty();
            let wrong: Vec<_> = names.filter(is_wrong).collect();
            assert_eq!(
                (wrong, draft.problems.all().len()),
                (want.to_vec(), want.len()),
                "{typed:?}"
            );
        }
    }

    #[test]
    fn a_form_of_another_schema_is_refused() {
        for (schema, is_taken) in [(OWN, false), (CLOUD_EVENTS, false), (EVENT_GRID, true)] {
            assert_eq!(Draft::of(&topic(schema), &fields(EVENT_GRID)).is_ok(), is_taken);
        }
    }

    #[test]
    fn a_number_stays_as_it_was_typed() {
        let mut fields = fields(EVENT_GRID);
        fields.set("field.data", "{\"a\": 1.50, \"a\": 12345678901234567890}");
        let draft = Draft::of(&topic(EVENT_GRID), &fields).expect("a topic");
        assert!(draft.text.contains("1.50") && draft.text.contains("12345678901234567890"));
    }

    #[test]
    fn a_whole_event_is_checked_as_it_is() {
        let of = |schema: InputSchema, text: &str| {
            let mut fields = Fields::default();
            fields.set(WHOLE, text);
            Draft::of(&topic(schema), &fields).expect("a topic").problems.is_empty()
        };
        assert!(of(OWN, "{\"a\": 1}") && of(OWN, " [{}]"));
        assert!(!of(OWN, "{") && !of(OWN, "1"));
        assert!(!of(EVENT_GRID, "{}"));
    }
}

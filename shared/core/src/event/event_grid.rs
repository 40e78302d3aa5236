//! Event Grid's own schema: reading, stamping, and writing as a CloudEvent.
//!
//! Source: Event Grid, "Event schema" and "CloudEvents v1.0 schema with Azure Event Grid".

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{
    EVENTS_MAX, Form, Object, ParseError, ParsedEvent, Shape, Violation, date_time, filled_string,
    json_string, members, read, string,
};
use crate::name;

/// What [`ParsedEvent`] lacks for stamps and conversion.
#[derive(Debug)]
pub(super) struct Envelope<'a> {
    event_type: &'a RawValue,
    subject: &'a RawValue,
    /// In RFC 3339 form.
    event_time: Cow<'a, str>,
    data: Option<&'a RawValue>,
    topic_given: bool,
    metadata_version_given: bool,
    data_version_given: bool,
}

/// Reads a publish to the topic with that id, always an array. The first refused event fails it. An
/// unknown member is refused as in Event Grid: no misspelling is lost silently.
pub fn parse<'a>(body: &'a [u8], topic_id: &'a str) -> Result<Vec<ParsedEvent<'a>>, ParseError> {
    read(body, Shape::Array, EVENTS_MAX, |object| event(object, topic_id))
}

const MEMBERS: [&str; 8] =
    ["id", "subject", "eventType", "eventTime", "data", "dataVersion", "topic", "metadataVersion"];

const NULLABLE: [&str; 3] = ["topic", "dataVersion", "metadataVersion"];

fn is_number(value: &RawValue) -> bool {
    matches!(value.get().as_bytes(), [b'-' | b'0'..=b'9', ..])
}

/// Returns whether an optional member is null, which serializers mean as absent.
fn is_left_out(name: &str, value: &RawValue) -> bool {
    NULLABLE.contains(&name) && value.get() == "null"
}

/// Rewrites an event's text without nulls, with a string as id and the topic's name as created.
fn rewritten(text: &str, topic_id: &str) -> String {
    let members = members(text).unwrap_or_default();
    let members = members.iter().filter(|(name, value)| !is_left_out(name, value));
    let members = members.map(|(name, value)| match &**name {
        "id" if is_number(value) => format!(r#""id":"{value}""#),
        "topic" => format!(r#""topic":{}"#, json_string(topic_id)),
        name => format!("{}:{value}", json_string(name)),
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

const UNKNOWN: &str = "is unknown; EventGridSchema has id, subject, eventType, eventTime, data, \
                       dataVersion, topic and metadataVersion";

fn event<'a>(object: Object<'a>, topic_id: &'a str) -> Result<ParsedEvent<'a>, Violation> {
    if let Some((name, _)) = object.members.iter().find(|(name, _)| !MEMBERS.contains(&&**name)) {
        return Err(Violation::new(name, UNKNOWN));
    }
    let optional = |name| {
        let value = object.member(name)?;
        Ok(value.filter(|value| !is_left_out(name, value)))
    };
    let id = object.required("id")?;
    let subject = object.required("subject")?;
    let event_type = object.required("eventType")?;
    let event_time = object.required("eventTime")?;
    let data = object.member("data")?;
    let topic = must_equal(optional("topic")?, "topic", topic_id)?;
    let metadata_version =
        must_equal(optional("metadataVersion")?, "metadataVersion", METADATA_VERSION)?;
    let data_version = optional("dataVersion")?.map(|value| string(value, "dataVersion"));
    let data_version = data_version.transpose()?;
    let has_nulls = object.members.iter().any(|(name, value)| is_left_out(name, value));
    let is_rewritten =
        has_nulls || is_number(id) || topic.as_ref().is_some_and(|topic| topic != topic_id);
    Ok(ParsedEvent {
        // A number is taken as its text. Source: Event Grid, "Send custom events to web endpoint
        // using PowerShell", whose script sends `Get-Random`'s.
        id: if is_number(id) { Cow::Borrowed(id.get()) } else { filled_string(id, "id")? },
        subject: string(subject, "subject")?,
        event_type: filled_string(event_type, "eventType")?,
        source: Cow::Borrowed(topic_id),
        text: match is_rewritten {
            true => Cow::Owned(rewritten(object.text, topic_id)),
            false => Cow::Borrowed(object.text),
        },
        form: Form::EventGrid(Envelope {
            event_type,
            subject,
            event_time: time(event_time)?,
            data,
            topic_given: topic.is_some(),
            metadata_version_given: metadata_version.is_some(),
            data_version_given: data_version.is_some(),
        }),
        data_version: data_version.unwrap_or_default(),
    })
}

const METADATA_VERSION: &str = "1";

/// Reads a member that the service stamps: it must equal the stamp, in any case.
fn must_equal<'a>(
    value: Option<&'a RawValue>,
    member: &str,
    want: &str,
) -> Result<Option<Cow<'a, str>>, Violation> {
    let given = value.map(|value| string(value, member)).transpose()?;
    match given.as_ref().is_none_or(|given| name::is_same(given, want)) {
        true => Ok(given),
        false => Err(Violation::new(member, format!("must be \"{want}\" or left out"))),
    }
}

fn time(value: &RawValue) -> Result<Cow<'_, str>, Violation> {
    let text = string(value, "eventTime")?;
    let rfc_3339 = match text {
        Cow::Borrowed(text) => date_time::to_rfc_3339(text),
        Cow::Owned(text) => date_time::to_rfc_3339(&text).map(|time| Cow::Owned(time.into_owned())),
    };
    rfc_3339.ok_or_else(|| {
        Violation::new("eventTime", "must be a date-time such as 2026-01-31T08:00:00Z")
    })
}

/// Appends missing stamps to the publisher's text.
pub(super) fn stamped(event: &ParsedEvent<'_>, envelope: &Envelope<'_>) -> String {
    // It has members, so a comma follows.
    let mut text = event.text.to_string();
    assert_eq!(text.pop(), Some('}'), "an object ends with a brace");
    if !envelope.topic_given {
        text.push_str(&format!(r#","topic":{}"#, json_string(&event.source)));
    }
    if !envelope.data_version_given {
        text.push_str(r#","dataVersion":"""#);
    }
    if !envelope.metadata_version_given {
        text.push_str(&format!(r#","metadataVersion":"{METADATA_VERSION}""#));
    }
    text.push('}');
    text
}

/// Converts the event to a CloudEvent. `dataVersion` becomes the fragment of `dataschema`; an empty
/// subject, which CloudEvents does not allow, is left out.
pub(super) fn to_cloud_event(event: &ParsedEvent<'_>, envelope: &Envelope<'_>) -> String {
    let mut text = format!(
        r#"{{"specversion":"1.0","id":{},"source":{},"type":{},"time":{}"#,
        json_string(&event.id),
        json_string(&event.source),
        envelope.event_type,
        json_string(&envelope.event_time),
    );
    if !event.subject.is_empty() {
        text.push_str(&format!(r#","subject":{}"#, envelope.subject));
    }
    let data_schema = format!("#{}", event.data_version);
    text.push_str(&format!(r#","dataschema":{}"#, json_string(&data_schema)));
    if let Some(data) = envelope.data {
        text.push_str(r#","data":"#);
        text.push_str(data.get());
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests;

//! Events of a publisher's own schema: the topic's mapping names the members for Event Grid's
//! envelope. They are delivered as they came, or as the data of an event in another schema.
//!
//! Source: Event Grid, "Map custom fields to Event Grid schema".

use std::borrow::Cow;

use uuid::Uuid;

use super::{
    EVENTS_MAX, Form, Object, ParseError, ParsedEvent, Shape, Violation, date_time, json_string,
    read,
};
use crate::{
    event::mapping::{EVENT_TYPE_DEFAULT, Field, InputSchemaMapping},
    time::Timestamp,
};

/// Stamps for events that lack an id or a time.
pub struct Stamps<'s> {
    pub now: Timestamp,
    pub id: &'s mut dyn FnMut() -> Uuid,
}

/// Reads a publish to the topic with that id and mapping: an object or an array of objects. The
/// first event without a usable mapped member fails the whole body.
pub fn parse<'a>(
    body: &'a [u8],
    topic_id: &'a str,
    mapping: Option<&InputSchemaMapping>,
    mut stamps: Stamps<'_>,
) -> Result<Vec<ParsedEvent<'a>>, ParseError> {
    let unmapped = InputSchemaMapping::default();
    let mapping = mapping.unwrap_or(&unmapped);
    read(body, Shape::ArrayOrObject, EVENTS_MAX, |object| {
        event(&object, topic_id, mapping, &mut stamps)
    })
}

fn event<'a>(
    object: &Object<'a>,
    topic_id: &'a str,
    mapping: &InputSchemaMapping,
    stamps: &mut Stamps<'_>,
) -> Result<ParsedEvent<'a>, Violation> {
    let source =
        |name: &Option<String>| name.as_ref().map_or(Ok(None), |name| member(object, name));
    let id = source(&mapping.id)?.filter(|id| !id.is_empty());
    let topic = source(&mapping.topic)?.filter(|topic| !topic.is_empty());
    let event_time = match (source(&mapping.event_time)?, &mapping.event_time) {
        (Some(time), Some(name)) => {
            let time = date_time::to_rfc_3339(&time).map(Cow::into_owned);
            time.ok_or_else(|| {
                let rule = "must be a date-time such as 2026-01-31T08:00:00Z: it is mapped to \
                            eventTime";
                Violation::new(name, rule)
            })?
        }
        _ => stamps.now.to_iso_8601(),
    };
    let event_type = field(object, &mapping.event_type, "eventType", EVENT_TYPE_DEFAULT)?;
    if event_type.is_empty() {
        let name = mapping.event_type.source_field.as_deref().unwrap_or("eventType");
        return Err(Violation::new(name, "must not be empty: it is mapped to eventType"));
    }
    Ok(ParsedEvent {
        id: id.unwrap_or_else(|| (stamps.id)().to_string().into()),
        event_type,
        subject: field(object, &mapping.subject, "subject", "")?,
        source: topic.unwrap_or(Cow::Borrowed(topic_id)),
        data_version: field(object, &mapping.data_version, "dataVersion", "")?,
        text: Cow::Borrowed(object.text),
        form: Form::Custom { event_time },
    })
}

/// Returns a member of the envelope; `unmapped` is its value without a mapping.
fn field<'a>(
    object: &Object<'a>,
    field: &Field,
    mapped_to: &str,
    unmapped: &'static str,
) -> Result<Cow<'a, str>, Violation> {
    let Field { source_field, default_value } = field;
    let given = source_field.as_ref().map_or(Ok(None), |name| member(object, name))?;
    match (given, default_value, source_field) {
        (Some(given), Some(default), _) if given.is_empty() => Ok(Cow::Owned(default.clone())),
        (Some(given), _, _) => Ok(given),
        (None, Some(default), _) => Ok(Cow::Owned(default.clone())),
        (None, None, None) => Ok(Cow::Borrowed(unmapped)),
        (None, None, Some(name)) => {
            let rule = format!("is required: it is mapped to {mapped_to}, which has no default");
            Err(Violation::new(name, rule))
        }
    }
}

/// Returns the text of a top-level member, as spelled; `None` for null.
fn member<'a>(object: &Object<'a>, name: &str) -> Result<Option<Cow<'a, str>>, Violation> {
    let Some(value) = object.member(name)? else { return Ok(None) };
    match value.get().as_bytes().first() {
        Some(b'"') => super::string(value, name).map(Some),
        Some(b'n') => Ok(None),
        Some(b'{' | b'[') => {
            let rule = "must be a string, a number or a boolean: it is mapped to a member of Event \
                        Grid's envelope";
            Err(Violation::new(name, rule))
        }
        _ => Ok(Some(Cow::Borrowed(value.get()))),
    }
}

/// Writes the event in Event Grid's schema: a mapped envelope, the event as data.
pub(super) fn to_event_grid(event: &ParsedEvent<'_>, event_time: &str) -> String {
    format!("{}{}}}", envelope(event, event_time), event.text)
}

/// Writes Event Grid's envelope, up to the value of `data`.
fn envelope(event: &ParsedEvent<'_>, event_time: &str) -> String {
    format!(
        concat!(
            r#"{{"id":{},"topic":{},"subject":{},"eventType":{},"eventTime":{},"dataVersion":{},"#,
            r#""metadataVersion":"1","data":"#,
        ),
        json_string(&event.id),
        json_string(&event.source),
        json_string(&event.subject),
        json_string(&event.event_type),
        json_string(event_time),
        json_string(&event.data_version),
    )
}

/// Writes the event as a CloudEvent: a converted envelope, the event as data.
pub(super) fn to_cloud_event(event: &ParsedEvent<'_>, event_time: &str) -> String {
    let subject = match &*event.subject {
        "" => String::new(),
        subject => format!(r#","subject":{}"#, json_string(subject)),
    };
    format!(
        r#"{{"specversion":"1.0","id":{},"source":{},"type":{},"time":{}{subject},"dataschema":{},"data":{}}}"#,
        json_string(&event.id),
        json_string(&event.source),
        json_string(&event.event_type),
        json_string(event_time),
        json_string(&format!("#{}", event.data_version)),
        event.text,
    )
}

/// Puts an event that was accepted earlier into the envelope of a dead letter. If the mapping has
/// changed since and no longer fits, the envelope is that of an unmapped event.
pub fn enveloped(
    text: &str,
    topic_id: &str,
    mapping: Option<&InputSchemaMapping>,
    now: Timestamp,
    id: Uuid,
) -> String {
    let read = |mapping| {
        let stamps = Stamps { now, id: &mut || id };
        parse(text.as_bytes(), topic_id, mapping, stamps).ok().and_then(|mut all| all.pop())
    };
    match read(mapping).or_else(|| read(None)) {
        Some(event) => match &event.form {
            Form::Custom { event_time } => to_event_grid(&event, event_time),
            Form::EventGrid(_) | Form::CloudEvents { .. } => event.text.into_owned(),
        },
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;

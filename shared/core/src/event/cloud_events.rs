//! CloudEvents 1.0 in JSON, alone or in a batch; [`binary`] rewrites the third form.
//!
//! Source: CloudEvents 1.0.2, "Core specification" and "JSON event format". Its naming convention
//! says that names "SHOULD NOT exceed 20 characters": longer ones are sent, and accepted.

pub mod binary;

use std::{borrow::Cow, collections::HashSet};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::value::RawValue;

use super::{
    EVENTS_MAX, Form, GIVEN_TWICE, Member, Object, ParseError, ParsedEvent, Shape, Violation,
    date_time, filled_string, read, string,
};
use crate::trace::{TRACE_PARENT, TraceParent};

const NO_NAME: &str = "can't be an extension attribute: names are of a-z and 0-9 alone";

/// Reads a publish in CloudEvents 1.0: an event, or an array of events, under either content type,
/// because the Azure SDKs send both ways. The first refused event fails the whole body.
pub fn parse(body: &[u8]) -> Result<Vec<ParsedEvent<'_>>, ParseError> {
    parse_up_to(body, EVENTS_MAX)
}

/// Reads at most `events_max` events.
pub fn parse_up_to(body: &[u8], events_max: usize) -> Result<Vec<ParsedEvent<'_>>, ParseError> {
    read(body, Shape::ArrayOrObject, events_max, event)
}

/// The members that are not extension attributes.
const MEMBERS: [&str; 10] = [
    "id",
    "source",
    "specversion",
    "type",
    "time",
    "subject",
    "datacontenttype",
    "dataschema",
    "data",
    "data_base64",
];

/// Checks the names of all members, and the values of extension attributes.
fn check_members(members: &[Member<'_>]) -> Result<(), Violation> {
    let mut names = HashSet::with_capacity(members.len());
    for (name, value) in members {
        if !MEMBERS.contains(&&**name) {
            check_extension(name, value)?;
        }
        if !names.insert(name) {
            return Err(Violation::new(name, GIVEN_TWICE));
        }
    }
    Ok(())
}

fn check_extension(name: &str, value: &RawValue) -> Result<(), Violation> {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if name.is_empty() || !name.bytes().all(legal) {
        return Err(Violation::new(name, NO_NAME));
    }
    match value.get().as_bytes().first() {
        Some(b'{' | b'[') => {
            Err(Violation::new(name, "must be a string, a whole number, a boolean or null"))
        }
        Some(b'"') => check_characters(name, &string(value, name)?),
        // CloudEvents' integers have neither fraction nor exponent.
        Some(b'-' | b'0'..=b'9') if value.get().parse::<i32>().is_err() => {
            let rule = "must be a whole number from -2147483648 to 2147483647, or a string";
            Err(Violation::new(name, rule))
        }
        _ => Ok(()),
    }
}

/// Returns whether attributes may have a character.
pub(crate) fn is_for_attributes(character: char) -> bool {
    let code = u32::from(character);
    let is_none = matches!(code, 0xfdd0..=0xfdef) || code & 0xfffe == 0xfffe;
    !character.is_control() && !is_none
}

fn check_characters(name: &str, text: &str) -> Result<(), Violation> {
    if !text.chars().all(is_for_attributes) {
        let rule = "must not have control characters or code points that are no characters";
        return Err(Violation::new(name, rule));
    }
    Ok(())
}

fn attribute<'a>(value: &'a RawValue, name: &str) -> Result<Cow<'a, str>, Violation> {
    let text = filled_string(value, name)?;
    check_characters(name, &text).map(|()| text)
}

/// Checks a type and a subtype, both tokens, but no parameters. Source: RFC 2045, 5.1; RFC 2046.
fn check_media_type(value: Option<&RawValue>) -> Result<(), Violation> {
    const NAME: &str = "datacontenttype";
    let Some(text) = optional(value, NAME)? else { return Ok(()) };
    let token = |text: &str| {
        let legal = |byte: u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte);
        !text.is_empty() && text.bytes().all(legal)
    };
    let essence = text.split(';').next().unwrap_or_default().trim();
    match essence.split_once('/') {
        Some((kind, subtype)) if token(kind) && token(subtype) => Ok(()),
        _ => Err(Violation::new(NAME, "must be a media type such as application/json")),
    }
}

/// Reads the trace of an extension attribute: a string without escapes.
fn trace_parent(value: &RawValue) -> Option<TraceParent> {
    TraceParent::parse(value.get().strip_prefix('"')?.strip_suffix('"')?)
}

/// Explains a name that no attribute can have: the event is probably of another schema.
fn with_cause(found: Violation, object: &Object<'_>) -> Violation {
    if found.rule != NO_NAME || object.members.iter().any(|(name, _)| name == "specversion") {
        return found;
    }
    let cause =
        "the topic takes CloudEvents 1.0, and without 'specversion' the event is no CloudEvent";
    Violation { rule: format!("{NO_NAME}; {cause}").into(), ..found }
}

fn event(object: Object<'_>) -> Result<ParsedEvent<'_>, Violation> {
    check_members(&object.members).map_err(|found| with_cause(found, &object))?;
    let id = object.required("id")?;
    let source = object.required("source")?;
    let event_type = object.required("type")?;
    if string(object.required("specversion")?, "specversion")? != "1.0" {
        return Err(Violation::new("specversion", "must be \"1.0\""));
    }
    check_time(object.member("time")?)?;
    check_data(object.member("data")?, object.member("data_base64")?)?;
    check_media_type(object.member("datacontenttype")?)?;
    optional(object.member("dataschema")?, "dataschema")?;
    Ok(ParsedEvent {
        id: attribute(id, "id")?,
        source: attribute(source, "source")?,
        event_type: attribute(event_type, "type")?,
        subject: optional(object.member("subject")?, "subject")?.unwrap_or_default(),
        data_version: Cow::Borrowed(""),
        text: Cow::Borrowed(object.text),
        form: Form::CloudEvents {
            trace_parent: object.member(TRACE_PARENT)?.and_then(trace_parent),
        },
    })
}

fn unless_null(value: Option<&RawValue>) -> Option<&RawValue> {
    value.filter(|value| value.get() != "null")
}

fn optional<'a>(
    value: Option<&'a RawValue>,
    name: &str,
) -> Result<Option<Cow<'a, str>>, Violation> {
    unless_null(value).map(|value| attribute(value, name)).transpose()
}

fn check_time(value: Option<&RawValue>) -> Result<(), Violation> {
    match optional(value, "time")? {
        Some(time) if !date_time::is_rfc_3339(&time) => {
            let rule = "must be an RFC 3339 date-time such as 2026-01-31T08:00:00Z";
            Err(Violation::new("time", rule))
        }
        _ => Ok(()),
    }
}

fn check_data(data: Option<&RawValue>, data_base64: Option<&RawValue>) -> Result<(), Violation> {
    let Some(data_base64) = unless_null(data_base64) else { return Ok(()) };
    if unless_null(data).is_some() {
        return Err(Violation::new("data_base64", "must not stand beside 'data'"));
    }
    match STANDARD.decode(string(data_base64, "data_base64")?.as_bytes()) {
        Ok(_) => Ok(()),
        Err(_) => Err(Violation::new("data_base64", "must be base64 (RFC 4648, section 4)")),
    }
}

#[cfg(test)]
mod tests;

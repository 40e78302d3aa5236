//! Events and their wire schemas.
//!
//! Only members of the envelope are parsed; `data` is only checked to be JSON. Texts go on byte for
//! byte as the publisher wrote them, with Event Grid's stamps appended.
//!
//! Source: Event Grid, "Event schema" and "CloudEvents v1.0 schema with Azure Event Grid";
//! CloudEvents 1.0.2, "JSON event format".

pub mod cloud_events;
pub mod custom;
pub mod event_grid;
pub mod lookup;
pub mod mapping;

pub(crate) mod date_time;
mod reader;

use std::borrow::Cow;

pub(crate) use reader::{Member, members, string as string_of};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::trace::TraceParent;

/// The schema in which events are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, strum::EnumString, strum::IntoStaticStr, strum::VariantNames)]
pub enum DeliverySchema {
    /// Always an array.
    EventGridSchema,
    /// CloudEvents 1.0 in JSON: one object, or an array if batching is on.
    CloudEventSchemaV1_0,
    /// The publisher's own schema, as it came, always an array.
    CustomInputSchema,
}

/// The most events in one publish to a custom topic. Source: Event Grid, "Quotas and limits".
pub const EVENTS_MAX: usize = 5_000;

/// The same for a namespace topic.
pub const NAMESPACE_EVENTS_MAX: usize = 1_000;

/// One event of a publish request, checked against its schema.
#[derive(Debug)]
pub struct ParsedEvent<'a> {
    pub id: Cow<'a, str>,
    pub event_type: Cow<'a, str>,
    /// Empty if it has none.
    pub subject: Cow<'a, str>,
    /// `source` of a CloudEvent; otherwise the topic's id, unless a mapping gives another.
    pub source: Cow<'a, str>,
    /// Of Event Grid's schema; empty if it has none.
    pub data_version: Cow<'a, str>,
    /// As the publisher wrote it. In Event Grid's schema, optional members that are null are left
    /// out, and a numeric id becomes a string.
    pub text: Cow<'a, str>,
    form: Form<'a>,
}

#[derive(Debug)]
enum Form<'a> {
    EventGrid(event_grid::Envelope<'a>),
    CloudEvents {
        /// Its extension attribute.
        trace_parent: Option<TraceParent>,
    },
    Custom {
        /// In RFC 3339 form.
        event_time: String,
    },
}

impl ParsedEvent<'_> {
    /// Returns the trace that a CloudEvent names.
    pub fn trace_parent(&self) -> Option<TraceParent> {
        match self.form {
            Form::CloudEvents { trace_parent } => trace_parent,
            Form::EventGrid(_) | Form::Custom { .. } => None,
        }
    }

    /// Returns the time that a mapping gives, in RFC 3339 form.
    pub(crate) fn mapped_time(&self) -> Option<&str> {
        match &self.form {
            Form::Custom { event_time } => Some(event_time),
            Form::EventGrid(_) | Form::CloudEvents { .. } => None,
        }
    }

    /// Writes the event as JSON in a delivery schema.
    ///
    /// An event of Event Grid's schema gets its stamps, or becomes a CloudEvent. One of a
    /// publisher's own schema goes out as it came, or as data. A CloudEvent goes out as it came.
    /// Other combinations are refused when event subscriptions are created.
    pub fn in_schema(&self, schema: DeliverySchema) -> String {
        match (&self.form, schema) {
            (Form::EventGrid(envelope), DeliverySchema::CloudEventSchemaV1_0) => {
                event_grid::to_cloud_event(self, envelope)
            }
            (Form::EventGrid(envelope), _) => event_grid::stamped(self, envelope),
            (Form::Custom { event_time }, DeliverySchema::EventGridSchema) => {
                custom::to_event_grid(self, event_time)
            }
            (Form::Custom { event_time }, DeliverySchema::CloudEventSchemaV1_0) => {
                custom::to_cloud_event(self, event_time)
            }
            (Form::Custom { .. }, DeliverySchema::CustomInputSchema)
            | (Form::CloudEvents { .. }, _) => self.text.to_string(),
        }
    }
}

/// Why a publish body was refused as a whole. Events are counted from 0.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("the body is not UTF-8 from byte {offset} on; JSON must be")]
    NotUtf8 {
        /// The first invalid byte, from 0.
        offset: usize,
    },
    #[error("the body must be {expected}, but it begins with {found}")]
    Shape { expected: &'static str, found: &'static str },
    /// Something is wrong between or after the events.
    #[error("the body is not valid JSON: expected {expected} at byte {offset}, found {found}")]
    Punctuation {
        expected: &'static str,
        found: &'static str,
        /// In bytes of the body, from 0.
        offset: usize,
    },
    #[error("the event at index {index} is not valid JSON: {reason} (counted within the event)")]
    NotJson {
        index: usize,
        /// The JSON parser's, with line and column.
        reason: String,
    },
    #[error("the event at index {index} must be a JSON object, but it begins with {found}")]
    NotAnObject { index: usize, found: &'static str },
    #[error("the event at index {index}: member '{}' {}", .violation.member, .violation.rule)]
    Member { index: usize, violation: Violation },
    #[error("the body has more than {limit} events; send them in several requests")]
    TooManyEvents { limit: usize },
    #[error("the event at index 0: header '{name}' {rule}")]
    Header {
        name: String,
        /// The end of a sentence.
        rule: &'static str,
    },
}

/// A member that breaks a rule of its schema.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    /// Shortened.
    pub member: String,
    /// The end of a sentence: `must be a string`.
    pub rule: Cow<'static, str>,
}

const NAME_SHOWN_MAX: usize = 64;

impl Violation {
    fn new(member: &str, rule: impl Into<Cow<'static, str>>) -> Self {
        let mut shown: String = member.chars().take(NAME_SHOWN_MAX).collect();
        if shown.len() < member.len() {
            shown.push('…');
        }
        Self { member: shown, rule: rule.into() }
    }
}

fn json_string(text: &str) -> String {
    serde_json::to_string(text).expect("a string is JSON")
}

const GIVEN_TWICE: &str = "is given twice";

fn string<'a>(value: &'a RawValue, member: &str) -> Result<Cow<'a, str>, Violation> {
    let rule = if value.get().starts_with('"') {
        "must be a string of whole Unicode characters; it has half of a surrogate pair"
    } else {
        "must be a string"
    };
    reader::string(value).ok_or_else(|| Violation::new(member, rule))
}

fn filled_string<'a>(value: &'a RawValue, member: &str) -> Result<Cow<'a, str>, Violation> {
    let text = string(value, member)?;
    if text.is_empty() { Err(Violation::new(member, "must not be empty")) } else { Ok(text) }
}

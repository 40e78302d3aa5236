//! Events and their wire schemas.
//!
//! A publish body is read from its raw text: the envelope's members are parsed, `data` is only
//! checked to be JSON, and every text passed on is the publisher's own, byte for byte. Event Grid's
//! stamps are added to that text, never written into it.
//!
//! Source: Event Grid, "Event schema" and "CloudEvents v1.0 schema with Azure Event Grid";
//! CloudEvents 1.0.2, "JSON event format".

pub mod cloud_events;
pub mod custom;
pub mod event_grid;
pub mod lookup;
pub mod mapping;
pub mod notation;

pub(crate) mod date_time;
mod reader;

use std::borrow::Cow;

pub(crate) use reader::{Member, members, string as string_of};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::trace::TraceParent;

/// The schema in which events are delivered.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
pub enum DeliverySchema {
    /// Event Grid's own schema, always an array.
    EventGridSchema,
    /// CloudEvents 1.0 in JSON: one object, or an array where batching is on.
    CloudEventSchemaV1_0,
    /// The publisher's own schema, as it came, always an array.
    CustomInputSchema,
}

/// Most events in one publish request to a custom topic. Source: Event Grid, "Quotas and limits".
pub const EVENTS_MAX: usize = 5_000;

/// Most events in one publish request to a namespace topic. Source: Event Grid, "Quotas and limits".
pub const NAMESPACE_EVENTS_MAX: usize = 1_000;

/// One event of a publish request, checked against its schema.
#[derive(Debug)]
pub struct ParsedEvent<'a> {
    pub id: Cow<'a, str>,
    /// Its type, for filters.
    pub event_type: Cow<'a, str>,
    /// Its subject, for filters; empty if it has none.
    pub subject: Cow<'a, str>,
    /// Its source: `source` of a CloudEvent; otherwise the topic's id, unless the mapping of a
    /// publisher's own schema says otherwise.
    pub source: Cow<'a, str>,
    /// `dataVersion` of Event Grid's schema; empty if it has none.
    pub data_version: Cow<'a, str>,
    /// The event as the publisher wrote it. In Event Grid's schema, optional members that are null are
    /// left out, and a numeric id becomes a string.
    pub text: Cow<'a, str>,
    form: Form<'a>,
}

/// The parts that only one schema has.
#[derive(Debug)]
enum Form<'a> {
    EventGrid(event_grid::Envelope<'a>),
    CloudEvents {
        /// Its extension attribute of that name.
        trace_parent: Option<TraceParent>,
    },
    Custom {
        /// In RFC 3339 form.
        event_time: String,
    },
}

impl ParsedEvent<'_> {
    /// The trace that it names; only CloudEvents can.
    pub fn trace_parent(&self) -> Option<TraceParent> {
        match self.form {
            Form::CloudEvents { trace_parent } => trace_parent,
            Form::EventGrid(_) | Form::Custom { .. } => None,
        }
    }

    /// The time that a mapping gives an event of a publisher's own schema, in RFC 3339 form.
    pub(crate) fn mapped_time(&self) -> Option<&str> {
        match &self.form {
            Form::Custom { event_time } => Some(event_time),
            Form::EventGrid(_) | Form::CloudEvents { .. } => None,
        }
    }

    /// The event as JSON in that delivery schema.
    ///
    /// An event of Event Grid's schema gets its stamps, or becomes a CloudEvent if the subscription
    /// asks for one. An event of a publisher's own schema goes out as it came, or as the data of an
    /// event in either schema. A CloudEvent goes out as it came. Subscriptions that ask for
    /// anything else are refused at creation.
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

/// Why a publish body was refused as a whole. Events are counted from 0, as JSON arrays are.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// JSON is UTF-8.
    #[error("the body is not UTF-8 from byte {offset} on; JSON must be")]
    NotUtf8 {
        /// The first invalid byte, counted from 0.
        offset: usize,
    },
    /// The body is not the kind of value that holds events.
    #[error("the body must be {expected}, but it begins with {found}")]
    Shape { expected: &'static str, found: &'static str },
    /// Something is wrong between or after the events.
    #[error("the body is not valid JSON: expected {expected} at byte {offset}, found {found}")]
    Punctuation {
        expected: &'static str,
        found: &'static str,
        /// Where, in bytes of the body, counted from 0.
        offset: usize,
    },
    /// An event can't be read.
    #[error("the event at index {index} is not valid JSON: {reason} (counted within the event)")]
    NotJson {
        index: usize,
        /// What the JSON parser says, with line and column.
        reason: String,
    },
    /// An event is not an object.
    #[error("the event at index {index} must be a JSON object, but it begins with {found}")]
    NotAnObject { index: usize, found: &'static str },
    /// A member breaks a rule of the schema.
    #[error("the event at index {index}: member '{}' {}", .violation.member, .violation.rule)]
    Member { index: usize, violation: Violation },
    /// More events than one request may carry.
    #[error("the body has more than {limit} events; send them in several requests")]
    TooManyEvents {
        /// How many one request may carry.
        limit: usize,
    },
    /// A header of a binary CloudEvent breaks a rule.
    #[error("the event at index 0: header '{name}' {rule}")]
    Header {
        name: String,
        /// The rule, as the end of a sentence.
        rule: &'static str,
    },
}

/// A member that breaks a rule of its schema.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    /// The member's name, shortened.
    pub member: String,
    /// The rule, as the end of a sentence: `must be a string`.
    pub rule: Cow<'static, str>,
}

/// The most characters of a member's name that an error repeats.
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

/// Stores a member's value, unless the member was given before.
fn fill<'a>(
    place: &mut Option<&'a RawValue>,
    member: &str,
    value: &'a RawValue,
) -> Result<(), Violation> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Violation::new(member, GIVEN_TWICE)),
    }
}

const GIVEN_TWICE: &str = "is given twice";

fn required<'a>(value: Option<&'a RawValue>, member: &str) -> Result<&'a RawValue, Violation> {
    value.ok_or_else(|| Violation::new(member, "is required"))
}

/// The text of a member that must be a string.
fn string<'a>(value: &'a RawValue, member: &str) -> Result<Cow<'a, str>, Violation> {
    let rule = if value.get().starts_with('"') {
        "must be a string of whole Unicode characters; it has half of a surrogate pair"
    } else {
        "must be a string"
    };
    reader::string(value).ok_or_else(|| Violation::new(member, rule))
}

/// The text of a member that must be a non-empty string.
fn filled_string<'a>(value: &'a RawValue, member: &str) -> Result<Cow<'a, str>, Violation> {
    let text = string(value, member)?;
    if text.is_empty() { Err(Violation::new(member, "must not be empty")) } else { Ok(text) }
}

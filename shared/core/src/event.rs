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

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor},
};
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

/// Most events of a publish to a namespace topic.
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

/// The reason why a publish body was refused as a whole. Events are counted from 0.
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
    string_of(value).ok_or_else(|| Violation::new(member, rule))
}

fn filled_string<'a>(value: &'a RawValue, member: &str) -> Result<Cow<'a, str>, Violation> {
    let text = string(value, member)?;
    if text.is_empty() { Err(Violation::new(member, "must not be empty")) } else { Ok(text) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Array,
    /// An array of events, or a single event.
    ArrayOrObject,
}

/// One event: its text, and its members, their names unescaped.
struct Object<'a> {
    text: &'a str,
    members: Vec<Member<'a>>,
}

impl<'a> Object<'a> {
    /// Returns a member's value. Fails if it is given twice.
    fn member(&self, name: &str) -> Result<Option<&'a RawValue>, Violation> {
        let mut named = self.members.iter().filter(|(given, _)| given == name);
        match (named.next(), named.next()) {
            (_, Some(_)) => Err(Violation::new(name, GIVEN_TWICE)),
            (member, None) => Ok(member.map(|(_, value)| *value)),
        }
    }

    fn required(&self, name: &str) -> Result<&'a RawValue, Violation> {
        self.member(name)?.ok_or_else(|| Violation::new(name, "is required"))
    }
}

/// Reads the events of a body in order, until one is refused or there are more than `events_max`.
fn read<'a, T>(
    body: &'a [u8],
    shape: Shape,
    events_max: usize,
    mut parse: impl FnMut(Object<'a>) -> Result<T, Violation>,
) -> Result<Vec<T>, ParseError> {
    let mut cursor = Cursor::new(body)?;
    let mut events = Vec::new();
    let mut next = |cursor: &mut Cursor<'a>| {
        let index = events.len();
        if index == events_max {
            return Err(ParseError::TooManyEvents { limit: events_max });
        }
        let object = cursor.object(index)?;
        events.push(parse(object).map_err(|violation| ParseError::Member { index, violation })?);
        Ok(())
    };
    match (cursor.peek(), shape) {
        (Some(b'['), _) => cursor.array(&mut next)?,
        (Some(b'{'), Shape::ArrayOrObject) => next(&mut cursor)?,
        (found, _) => {
            return Err(ParseError::Shape { expected: shape.name(), found: begin_of(found) });
        }
    }
    match cursor.peek() {
        None => Ok(events),
        Some(_) => Err(cursor.punctuation("the end of the body")),
    }
}

/// Returns the text of a JSON string; `None` for another value and for half of a surrogate pair.
pub(crate) fn string_of(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(value.get()).ok().map(|text| text.0)
}

/// Borrowed if it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Self::Array => "an array of events",
            Self::ArrayOrObject => "an event or an array of events",
        }
    }
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(body: &'a [u8]) -> Result<Self, ParseError> {
        let not_utf8 =
            |error: std::str::Utf8Error| ParseError::NotUtf8 { offset: error.valid_up_to() };
        let text = std::str::from_utf8(body).map_err(not_utf8)?;
        // RFC 8259, section 8.1: a parser may ignore a byte order mark. Windows tools write one.
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Ok(Self { text, at })
    }

    /// Moves to the next byte that is not whitespace.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().take_while(|byte| blank(byte)).count();
        self.text.as_bytes().get(self.at).copied()
    }

    /// Calls `next` for each element of the array at the cursor.
    fn array(
        &mut self,
        next: &mut impl FnMut(&mut Self) -> Result<(), ParseError>,
    ) -> Result<(), ParseError> {
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            next(self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.punctuation("',' or ']'")),
            }
        }
    }

    fn object(&mut self, index: usize) -> Result<Object<'a>, ParseError> {
        match self.peek() {
            Some(b'{') => {}
            Some(b']' | b'}' | b',' | b':') | None => return Err(self.punctuation("an event")),
            found => return Err(ParseError::NotAnObject { index, found: begin_of(found) }),
        }
        let rest = &self.text[self.at..];
        // A stream stops after the object and knows where.
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Members<'a>>();
        match stream.next() {
            Some(Ok(Members(members))) => {
                let length = stream.byte_offset();
                self.at += length;
                Ok(Object { text: &rest[..length], members })
            }
            Some(Err(error)) => Err(ParseError::NotJson { index, reason: error.to_string() }),
            None => Err(self.punctuation("an event")),
        }
    }

    fn punctuation(&mut self, expected: &'static str) -> ParseError {
        let found = begin_of(self.peek());
        ParseError::Punctuation { expected, found, offset: self.at }
    }
}

fn begin_of(first: Option<u8>) -> &'static str {
    match first {
        None => "nothing",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b'-' | b'0'..=b'9') => "a number",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        Some(b',') => "','",
        Some(b':') => "':'",
        Some(b']') => "']'",
        Some(b'}') => "'}'",
        Some(_) => "something that is not JSON",
    }
}

/// Returns an object's members in order. A value's text is a slice of the object's.
pub(crate) fn members(object: &str) -> Result<Vec<Member<'_>>, serde_json::Error> {
    serde_json::from_str::<Members<'_>>(object).map(|members| members.0)
}

/// The name and value of an object's member.
pub(crate) type Member<'a> = (Cow<'a, str>, &'a RawValue);

/// In order, with duplicates.
struct Members<'a>(Vec<Member<'a>>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(8);
                while let Some((Text(name), value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

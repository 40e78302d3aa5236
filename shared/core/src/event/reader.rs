//! Reads a publish body event by event, in one pass.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{GIVEN_TWICE, ParseError, Violation};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Array,
    /// An array of events, or a single event.
    ArrayOrObject,
}

/// One event: its text, and its members, their names unescaped.
pub(super) struct Object<'a> {
    pub(super) text: &'a str,
    pub(super) members: Vec<Member<'a>>,
}

impl<'a> Object<'a> {
    /// Returns a member's value. Fails if it is given twice.
    pub(super) fn member(&self, name: &str) -> Result<Option<&'a RawValue>, Violation> {
        let mut named = self.members.iter().filter(|(given, _)| given == name);
        match (named.next(), named.next()) {
            (_, Some(_)) => Err(Violation::new(name, GIVEN_TWICE)),
            (member, None) => Ok(member.map(|(_, value)| *value)),
        }
    }

    pub(super) fn required(&self, name: &str) -> Result<&'a RawValue, Violation> {
        self.member(name)?.ok_or_else(|| Violation::new(name, "is required"))
    }
}

/// Reads the events of a body in order, until one is refused or there are more than `events_max`.
pub(super) fn read<'a, T>(
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
        (found, _) => return Err(ParseError::Shape { expected: shape.name(), found: name(found) }),
    }
    match cursor.peek() {
        None => Ok(events),
        Some(_) => Err(cursor.punctuation("the end of the body")),
    }
}

/// Returns the text of a JSON string; `None` for another value and for half of a surrogate pair.
pub(crate) fn string(value: &RawValue) -> Option<Cow<'_, str>> {
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
            found => return Err(ParseError::NotAnObject { index, found: name(found) }),
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
        let found = name(self.peek());
        ParseError::Punctuation { expected, found, offset: self.at }
    }
}

fn name(first: Option<u8>) -> &'static str {
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

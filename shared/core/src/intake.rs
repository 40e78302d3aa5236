//! Turns messages of AWS services into events of a topic. A message comes from outside and is read
//! strictly; the [`Source`] that says what it means comes from Terraform.
//!
//! A message holds several events (S3's notifications), one, or none (S3's test event). They are
//! written in the topic's schema and read as any publish, so they obey the same rules.

mod event_bridge;
mod s3;

use std::{borrow::Cow, str::FromStr};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{
    delivery::hashed_id, event::cloud_events::is_for_attributes, publish::idempotency::digest,
    text::quoted, time::Timestamp, topic::InputSchema,
};

/// A source of events: a queue and how its messages become events of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    /// For logs.
    pub name: String,
    pub topic: String,
    pub queue_arn: String,
    /// For events that have none.
    pub source: String,
    /// For events that have none.
    pub event_type: String,
    pub envelope: Envelope,
    pub carries: Carries,
    pub content: Content,
    /// Whether events about objects of S3 become Event Grid's events about blobs.
    pub blobs: bool,
}

/// The wrapping of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Envelope {
    None,
    /// SNS without raw message delivery.
    Sns,
}

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Carries {
    /// An application's message: the data of one event.
    Messages,
    EventBridge,
    S3,
}

/// The format of an application's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Content {
    /// JSON if possible, otherwise text.
    Auto,
    Text,
    Base64,
}

/// Not a source.
#[derive(Debug, thiserror::Error)]
#[error("it is no source as infra/modules/aws-source writes it: {0}")]
pub struct SourceError(serde_json::Error);

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        serde_json::from_str(text).map_err(SourceError)
    }
}

/// A message of a source's queue.
#[derive(Clone, Copy, Debug)]
pub struct Message<'m> {
    /// SQS's, the same at each receive.
    pub id: &'m str,
    pub body: &'m str,
    pub sent_at: Timestamp,
}

/// The content of a message.
#[derive(Debug)]
pub enum Mapped<'m> {
    Events(Vec<Event<'m>>),
    /// S3's test of a new notification.
    TestEvent,
}

/// An event of an AWS service, not yet in a topic's schema.
#[derive(Debug)]
pub struct Event<'m> {
    /// The service's, or derived from the content: the same however often the event comes.
    pub id: Cow<'m, str>,
    pub source: Cow<'m, str>,
    pub event_type: Cow<'m, str>,
    /// May be empty.
    pub subject: String,
    pub time: Cow<'m, str>,
    pub data: Data<'m>,
}

/// The data of an event.
#[derive(Debug)]
pub enum Data<'m> {
    Json(Cow<'m, RawValue>),
    Text(Cow<'m, str>),
    /// As it came.
    Base64(Cow<'m, str>),
}

/// The reason why a message can't become events. Repeating it would not help.
#[derive(Debug, thiserror::Error)]
pub enum Unmappable {
    #[error("{what} must be a JSON object, but it begins with {found}")]
    NotAnObject { what: &'static str, found: String },
    /// A member is missing, duplicate, or of another type.
    #[error("the body is not {what}: {reason}")]
    Form { what: &'static str, reason: String },
    #[error(
        "SNS sent a message of type {kind}, not a Notification; to confirm a subscription, open the \
         message's SubscribeURL"
    )]
    OtherThanNotification { kind: String },
    #[error("the notification has no Records")]
    NoRecords,
    #[error("the message must be base64 (content = \"BASE64\")")]
    Base64(#[source] base64::DecodeError),
    /// A topic of a publisher's own schema only takes objects.
    #[error(
        "the data of the message must be a JSON object, because the topic's input schema is CustomEventSchema"
    )]
    NoCustomEvent,
}

/// Reads the events of a message.
pub fn map<'m>(source: &'m Source, message: &Message<'m>) -> Result<Mapped<'m>, Unmappable> {
    let content = unwrapped(source, message)?;
    let events = match source.carries {
        Carries::Messages => vec![content.into_event(source)?],
        Carries::EventBridge => vec![event_bridge::event(&content.text, source.blobs)?],
        Carries::S3 => match s3::events(&content.text, source.blobs)? {
            Some(events) => events,
            None => return Ok(Mapped::TestEvent),
        },
    };
    Ok(Mapped::Events(events))
}

const NOTIFICATION: &str = "Notification";

/// A part of an SNS notification. Its signature is not checked: the queue admits the topic alone.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Notification<'m> {
    #[serde(borrow, rename = "Type", default)]
    kind: Option<Cow<'m, str>>,
    #[serde(borrow)]
    message_id: Cow<'m, str>,
    #[serde(borrow)]
    topic_arn: Cow<'m, str>,
    #[serde(borrow)]
    message: Cow<'m, str>,
    #[serde(borrow)]
    timestamp: Cow<'m, str>,
    #[serde(borrow, default)]
    subject: Option<Cow<'m, str>>,
}

struct Unwrapped<'m> {
    id: Cow<'m, str>,
    source: Cow<'m, str>,
    subject: String,
    time: Cow<'m, str>,
    text: Cow<'m, str>,
}

/// Takes a message out of its envelope.
fn unwrapped<'m>(source: &'m Source, message: &Message<'m>) -> Result<Unwrapped<'m>, Unmappable> {
    match source.envelope {
        Envelope::None => Ok(Unwrapped {
            id: message.id.into(),
            source: Cow::Borrowed(&source.source),
            subject: String::new(),
            time: message.sent_at.to_iso_8601().into(),
            text: message.body.into(),
        }),
        Envelope::Sns => {
            let found: Notification<'m> = object(message.body, "a notification of SNS")?;
            // A topic of another account asks for a confirmation here: only the message says where.
            if let Some(kind) = found.kind.filter(|kind| kind != NOTIFICATION) {
                return Err(Unmappable::OtherThanNotification { kind: quoted(&kind) });
            }
            Ok(Unwrapped {
                id: found.message_id,
                source: found.topic_arn,
                subject: attribute(found.subject.as_deref().unwrap_or_default()),
                time: found.timestamp,
                text: found.message,
            })
        }
    }
}

impl<'m> Unwrapped<'m> {
    /// Makes an event with the message as data.
    fn into_event(self, source: &'m Source) -> Result<Event<'m>, Unmappable> {
        Ok(Event {
            data: data(self.text, source.content)?,
            id: self.id,
            source: self.source,
            event_type: Cow::Borrowed(&source.event_type),
            subject: self.subject,
            time: self.time,
        })
    }
}

fn data(text: Cow<'_, str>, form: Content) -> Result<Data<'_>, Unmappable> {
    match form {
        Content::Auto => Ok(match is_json(&text) {
            true => Data::Json(raw(text)),
            false => Data::Text(text),
        }),
        Content::Text => Ok(Data::Text(text)),
        Content::Base64 => match STANDARD.decode(&*text) {
            Ok(_) => Ok(Data::Base64(text)),
            Err(error) => Err(Unmappable::Base64(error)),
        },
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

fn raw(text: Cow<'_, str>) -> Cow<'_, RawValue> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(serde_json::from_str(text).expect("it is JSON")),
        Cow::Owned(text) => {
            let value: &RawValue = serde_json::from_str(&text).expect("it is JSON");
            Cow::Owned(value.to_owned())
        }
    }
}

/// Writes events as the body of a publish to a topic of that schema.
pub fn body(events: &[Event<'_>], schema: InputSchema) -> Result<String, Unmappable> {
    let mut body = String::from("[");
    for event in events {
        if body.len() > 1 {
            body.push(',');
        }
        match schema {
            InputSchema::CloudEventSchemaV1_0 => body.push_str(&json(&event.as_cloud_event())),
            InputSchema::EventGridSchema => body.push_str(&json(&event.as_event_grid())),
            InputSchema::CustomEventSchema => body.push_str(event.as_custom()?),
        }
    }
    body.push(']');
    Ok(body)
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and JSON are JSON")
}

/// Derives an id from texts.
pub fn id_from<'t>(texts: impl IntoIterator<Item = &'t str>) -> Uuid {
    hashed_id(digest(texts.into_iter().map(str::as_bytes)))
}

#[derive(Serialize)]
struct CloudEvent<'e> {
    specversion: &'static str,
    id: &'e str,
    source: &'e str,
    #[serde(rename = "type")]
    event_type: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    subject: &'e str,
    time: &'e str,
    datacontenttype: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Cow<'e, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_base64: Option<&'e str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventGridEvent<'e> {
    id: &'e str,
    subject: &'e str,
    event_type: &'e str,
    event_time: &'e str,
    data: Cow<'e, RawValue>,
    data_version: &'static str,
}

impl Event<'_> {
    /// Owns its text, for a message that was in an envelope.
    fn into_owned(self) -> Event<'static> {
        fn owned(text: Cow<'_, str>) -> Cow<'static, str> {
            Cow::Owned(text.into_owned())
        }
        Event {
            id: owned(self.id),
            source: owned(self.source),
            event_type: owned(self.event_type),
            subject: self.subject,
            time: owned(self.time),
            data: match self.data {
                Data::Json(value) => Data::Json(Cow::Owned(value.into_owned())),
                Data::Text(text) => Data::Text(owned(text)),
                Data::Base64(text) => Data::Base64(owned(text)),
            },
        }
    }

    /// Returns an id for topics whose events have none.
    pub fn uuid(&self) -> Uuid {
        id_from([&*self.source, &*self.id])
    }

    fn as_cloud_event(&self) -> CloudEvent<'_> {
        let (content_type, data, data_base64) = match &self.data {
            Data::Json(value) => ("application/json", Some(Cow::Borrowed(&**value)), None),
            Data::Text(text) => ("text/plain; charset=utf-8", Some(string(text)), None),
            Data::Base64(text) => ("application/octet-stream", None, Some(&**text)),
        };
        CloudEvent {
            specversion: "1.0",
            id: &self.id,
            source: &self.source,
            event_type: &self.event_type,
            subject: &self.subject,
            time: &self.time,
            datacontenttype: content_type,
            data,
            data_base64,
        }
    }

    /// Event Grid's schema has no binary data: it stays a string in base64.
    fn as_event_grid(&self) -> EventGridEvent<'_> {
        EventGridEvent {
            id: &self.id,
            subject: &self.subject,
            event_type: &self.event_type,
            event_time: &self.time,
            data: match &self.data {
                Data::Json(value) => Cow::Borrowed(&**value),
                Data::Text(text) | Data::Base64(text) => string(text),
            },
            data_version: "",
        }
    }

    fn as_custom(&self) -> Result<&str, Unmappable> {
        match &self.data {
            Data::Json(value) if value.get().starts_with('{') => Ok(value.get()),
            _ => Err(Unmappable::NoCustomEvent),
        }
    }
}

fn string(text: &str) -> Cow<'static, RawValue> {
    Cow::Owned(serde_json::value::to_raw_value(text).expect("a string is JSON"))
}

/// Reads a JSON object. Arrays are refused: serde would read them as the members in order.
fn object<'m, T: Deserialize<'m>>(text: &'m str, what: &'static str) -> Result<T, Unmappable> {
    let found = text.trim_ascii_start();
    if !found.starts_with('{') {
        let found = found.chars().next().map_or("nothing".to_owned(), |first| format!("{first:?}"));
        return Err(Unmappable::NotAnObject { what, found });
    }
    serde_json::from_str(text).map_err(|error| Unmappable::Form { what, reason: reason(&error) })
}

/// Describes an error without values of the event, which are not logged.
fn reason(error: &serde_json::Error) -> String {
    let said = error.to_string();
    match said.starts_with("invalid ") {
        false => said,
        true => {
            let (line, column) = (error.line(), error.column());
            format!("a member has another type at line {line} column {column}")
        }
    }
}

/// Percent-encodes characters that CloudEvents' attributes can't have: keys of S3 may have any.
fn attribute(text: &str) -> String {
    let mut legal = String::with_capacity(text.len());
    for character in text.chars() {
        if is_for_attributes(character) {
            legal.push(character);
            continue;
        }
        let mut bytes = [0; 4];
        for byte in character.encode_utf8(&mut bytes).bytes() {
            legal.push_str(&format!("%{byte:02X}"));
        }
    }
    legal
}

#[cfg(test)]
mod tests;

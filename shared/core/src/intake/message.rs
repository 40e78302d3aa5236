//! Takes messages out of what SQS delivers: the body, or what SNS wraps.
//!
//! Source: Amazon SNS developer guide, "Amazon SNS message formats", on SQS.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::text::quoted;

use super::{
    Content as Form, Data, Envelope, Event, Message, Source, Unmappable, attribute, object,
};

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

pub(super) struct Content<'m> {
    id: Cow<'m, str>,
    source: Cow<'m, str>,
    subject: String,
    time: Cow<'m, str>,
    pub(super) text: Cow<'m, str>,
}

/// Takes a message out of its envelope.
pub(super) fn content<'m>(
    source: &'m Source,
    message: &Message<'m>,
) -> Result<Content<'m>, Unmappable> {
    match source.envelope {
        Envelope::None => Ok(Content {
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
            Ok(Content {
                id: found.message_id,
                source: found.topic_arn,
                subject: attribute(found.subject.as_deref().unwrap_or_default()),
                time: found.timestamp,
                text: found.message,
            })
        }
    }
}

impl<'m> Content<'m> {
    /// Makes an event with the message as data.
    pub(super) fn into_event(self, source: &'m Source) -> Result<Event<'m>, Unmappable> {
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

fn data(text: Cow<'_, str>, form: Form) -> Result<Data<'_>, Unmappable> {
    match form {
        Form::Auto => Ok(match is_json(&text) {
            true => Data::Json(raw(text)),
            false => Data::Text(text),
        }),
        Form::Text => Ok(Data::Text(text)),
        Form::Base64 => match STANDARD.decode(&*text) {
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

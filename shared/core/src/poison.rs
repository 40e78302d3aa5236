//! Messages in the poison queue: what they are, where they came from, and where they may go.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    delivery::{DecodeError, Delivery, dead_letter::Ended, queue::Queue},
    error::chain,
    publish::fan_out::{self, Piece},
    time::Timestamp,
};

/// The prefix of the fair-queue group that records a message's origin.
const GROUP_PREFIX: &str = "poison:";

/// Returns the fair-queue group of a message that our code moves. Only the group can record the
/// origin without adding to the size: a message that fills its queue must also fit this one.
pub fn group(from: Queue) -> String {
    format!("{GROUP_PREFIX}{from}")
}

/// A message of the poison queue, as it was received.
#[derive(Clone, Debug)]
pub struct Poisoned {
    /// SQS's, new for a message that is sent back.
    pub id: String,
    pub receipt: String,
    pub body: String,
    /// By our code to this queue or, if SQS moved it, to the queue before.
    pub sent_at: Timestamp,
    /// By operators too.
    pub receive_count: u32,
    /// The name in SQS of the queue that SQS moved it from.
    pub moved_from: Option<String>,
    pub group: Option<String>,
}

/// The party that moved a message into the poison queue, and the queue it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Never settled in 1,000 receives. The queue's name in SQS.
    Sqs(String),
    /// Unreadable. The queue's role, such as `retry-0`.
    Gridpost(String),
    Unknown,
}

impl Poisoned {
    pub fn origin(&self) -> Origin {
        if let Some(queue) = &self.moved_from {
            return Origin::Sqs(queue.clone());
        }
        let noted = self.group.as_deref().and_then(|group| group.strip_prefix(GROUP_PREFIX));
        noted.map_or(Origin::Unknown, |queue| Origin::Gridpost(queue.to_owned()))
    }
}

#[derive(Clone, Debug)]
pub enum Content {
    Delivery(Box<Delivery>),
    Ended(Box<Ended>),
    /// A piece of a stored publish.
    FanOut(Piece),
    /// Says why.
    Unreadable(String),
}

impl Content {
    /// Reads a message's body as far as possible.
    pub fn of(body: &str) -> Self {
        let not_a_delivery = match Delivery::decode(body) {
            Ok(delivery) => return Self::Delivery(Box::new(delivery)),
            Err(error) => error,
        };
        // Of all forms' errors, report that of the likeliest.
        match Ended::decode(body) {
            Ok(ended) => return Self::Ended(Box::new(ended)),
            Err(DecodeError::NotEnded(_)) => {}
            Err(error) => return Self::Unreadable(chain(&error)),
        }
        match Piece::decode(body) {
            Ok(piece) => Self::FanOut(piece),
            Err(fan_out::DecodeError::Form(..)) => Self::Unreadable(chain(&not_a_delivery)),
            Err(error) => Self::Unreadable(chain(&error)),
        }
    }

    /// Returns its delivery, ended or not.
    pub fn delivery(&self) -> Option<&Delivery> {
        match self {
            Self::Delivery(delivery) => Some(delivery),
            Self::Ended(ended) => Some(&ended.delivery),
            Self::FanOut(_) | Self::Unreadable(_) => None,
        }
    }

    pub fn delivery_id(&self) -> Option<Uuid> {
        self.delivery().map(|delivery| delivery.id)
    }
}

/// The queue that a poison message may be sent to. Not the dispatch queue: first attempts read no
/// state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[derive(Serialize, Deserialize, strum::Display, strum::EnumString, strum::VariantNames)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum ResendTarget {
    Retry,
    DeadLetter,
    FanOut,
}

/// The reason why a message was not sent back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotResendable {
    #[error(
        "it can't be read ({0}), so nothing says where it belongs; look at it, and name the queue with \
         \"to\" where it is sound and only a newer version reads it, or purge it"
    )]
    Unreadable(String),
    #[error("it is {what}, which goes to {queue} alone; leave out \"to\"")]
    Elsewhere { what: &'static str, queue: Queue },
}

/// Returns the queue that a message goes back to: a delivery to its retry queue, where its state is
/// read before it is attempted; an ended one to the dead-letter queue; a piece of a publish to the
/// fan-out queue; an unreadable one to the queue named by `to`.
pub fn resend_queue(
    content: &Content,
    to: Option<ResendTarget>,
    shards: usize,
) -> Result<Queue, NotResendable> {
    use ResendTarget::{DeadLetter, FanOut, Retry};
    let (own, queue, what) = match content {
        Content::Unreadable(why) => {
            return match to.ok_or_else(|| NotResendable::Unreadable(why.clone()))? {
                Retry => Ok(Queue::Retry(0)),
                DeadLetter => Ok(Queue::DeadLetter),
                FanOut => Ok(Queue::FanOut),
            };
        }
        Content::Delivery(delivery) => (Retry, delivery.retry_queue(shards), "a delivery"),
        Content::Ended(_) => (DeadLetter, Queue::DeadLetter, "an ended delivery"),
        Content::FanOut(_) => (FanOut, Queue::FanOut, "a piece of a publish"),
    };
    match to {
        Some(to) if to != own => Err(NotResendable::Elsewhere { what, queue }),
        _ => Ok(queue),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::RawValue};

    use super::*;
    use crate::{
        event::DeliverySchema,
        retry::{EndReason, profile::ProfileName},
        subscription::{DeadLetterDestination, SubscriptionKey},
    };

    fn delivery() -> Delivery {
        Delivery::new(
            Uuid::from_u128(7),
            SubscriptionKey { topic: "t".to_owned(), name: "s".to_owned() },
            Uuid::from_u128(6),
            Timestamp::from_millis(1),
            String::new(),
            vec![RawValue::from_string("{}".to_owned()).expect("JSON")],
        )
    }

    fn ended() -> String {
        let ended = Ended {
            delivery: delivery(),
            reason: EndReason::TimeToLiveExceeded,
            at: Timestamp::from_millis(2),
            destination: DeadLetterDestination { bucket: "b".to_owned(), prefix: String::new() },
            schema: DeliverySchema::EventGridSchema,
            mapping: None,
            profile: ProfileName::Basic,
            attributes: Vec::new(),
        };
        json!(ended).to_string()
    }

    const PIECE: &str =
        r#"{"v":1,"publish":"00000000-0000-0000-0000-000000000009","from":[0,0],"to":[3,0]}"#;

    fn kind(content: &Content) -> (&'static str, &str) {
        match content {
            Content::Delivery(_) => ("delivery", ""),
            Content::Ended(_) => ("ended", ""),
            Content::FanOut(_) => ("piece", ""),
            Content::Unreadable(why) => ("unreadable", why),
        }
    }

    #[test]
    fn content_table() {
        let (delivery, ended) = (delivery().encode(), ended());
        let table = [
            (delivery.clone(), "delivery", ""),
            (delivery.replace("\"v\":1", "\"v\":3"), "unreadable", "the message has version 3"),
            (delivery.replace("[{}]", "[]"), "unreadable", "the delivery 00000000-"),
            (ended.clone(), "ended", ""),
            (ended.replace("\"v\":1", "\"v\":3"), "unreadable", "the message has version 3"),
            (ended.replace("[{}]", "[]"), "unreadable", "the delivery 00000000-"),
            (
                ended.replace("\"TimeTo", "\"Time-to"),
                "unreadable",
                "the message is not a delivery: ",
            ),
            (PIECE.to_owned(), "piece", ""),
            (PIECE.replace("\"v\":1", "\"v\":3"), "unreadable", "it has version 3"),
            ("{}".to_owned(), "unreadable", "the message is not a delivery: missing field"),
            ("rubbish".to_owned(), "unreadable", "the message is not a delivery: expected value"),
            (String::new(), "unreadable", "the message is not a delivery: EOF"),
            ("[".repeat(100_000), "unreadable", "the message is not a delivery: "),
        ];
        for (body, want, why) in table {
            let content = Content::of(&body);
            let found = kind(&content);
            let start: String = body.chars().take(100).collect();
            assert!(found.0 == want && found.1.starts_with(why), "{start}: {found:?}");
        }
    }

    #[test]
    fn resend_queue_table() {
        let readable = Content::Delivery(Box::new(delivery()));
        let ended = Content::of(&ended());
        let unreadable = Content::Unreadable("no".to_owned());
        let piece = Content::of(PIECE);
        let (retry, dead_letter) = (Some(ResendTarget::Retry), Some(ResendTarget::DeadLetter));
        let table = [
            ("a delivery", &readable, None, Ok(Queue::Retry(2))),
            ("a delivery, named", &readable, retry, Ok(Queue::Retry(2))),
            ("a delivery elsewhere", &readable, dead_letter, Err("goes to retry-2 alone")),
            ("an ended one", &ended, None, Ok(Queue::DeadLetter)),
            ("an ended one, named", &ended, dead_letter, Ok(Queue::DeadLetter)),
            ("an ended one elsewhere", &ended, retry, Err("goes to dead-letter alone")),
            ("a piece", &piece, None, Ok(Queue::FanOut)),
            ("a piece, named", &piece, Some(ResendTarget::FanOut), Ok(Queue::FanOut)),
            ("a piece elsewhere", &piece, retry, Err("goes to fan-out alone")),
            ("an unreadable piece", &unreadable, Some(ResendTarget::FanOut), Ok(Queue::FanOut)),
            ("an unreadable one", &unreadable, None, Err("it can't be read (no)")),
            ("an unreadable one, named", &unreadable, retry, Ok(Queue::Retry(0))),
            ("an unreadable one elsewhere", &unreadable, dead_letter, Ok(Queue::DeadLetter)),
        ];
        for (row, content, to, want) in table {
            match (resend_queue(content, to, 4), want) {
                (Ok(queue), Ok(want)) => assert_eq!(queue, want, "{row}"),
                (Err(refused), Err(want)) => {
                    assert!(refused.to_string().contains(want), "{row}: {refused}");
                }
                (found, _) => panic!("{row}: {found:?}"),
            }
        }
    }

    #[test]
    fn origin_table() {
        let group = |group: &str| Some(group.to_owned());
        let sqs = || Some("gridpost-retry-1".to_owned());
        let table = [
            (None, Some(super::group(Queue::Retry(1))), Origin::Gridpost("retry-1".to_owned())),
            (
                None,
                Some(super::group(Queue::DeadLetter)),
                Origin::Gridpost("dead-letter".to_owned()),
            ),
            (sqs(), group("t/s"), Origin::Sqs("gridpost-retry-1".to_owned())),
            (None, group("t/s"), Origin::Unknown),
            (None, None, Origin::Unknown),
        ];
        for (moved_from, group, want) in table {
            let message = Poisoned {
                id: String::new(),
                receipt: String::new(),
                body: String::new(),
                sent_at: Timestamp::default(),
                receive_count: 1,
                moved_from,
                group,
            };
            assert_eq!(message.origin(), want);
        }
    }
}

//! Claim check: what is too large for a message lies in the payload bucket, and the message only
//! says so.
//!
//! One object belongs to one delivery. It is stored before the message that needs it is sent, and
//! emptied after the delivery's end: an empty object tells late copies of the message that nothing
//! is left to do, where a missing one would mean that events were lost.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

/// What a message says of the events that lie in the payload bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// How many they are, at least one.
    pub events: u32,
}

/// What the payload bucket holds of a delivery.
#[derive(Debug)]
pub enum Payload {
    /// Its events.
    Events(Vec<Box<RawValue>>),
    /// Nothing any more: the delivery has ended.
    Ended,
}

/// The object that says that its delivery has ended.
pub const ENDED: &[u8] = b"";

/// The name of a delivery's object.
pub fn key(delivery: Uuid) -> String {
    format!("deliveries/{delivery}")
}

/// The object of these events: a JSON array of them, byte for byte.
pub fn encode(events: &[Box<RawValue>]) -> Vec<u8> {
    serde_json::to_vec(events).expect("raw JSON values are JSON")
}

/// Reads an object.
///
/// # Errors
///
/// It is neither empty nor a JSON array.
pub fn decode(object: &[u8]) -> Result<Payload, serde_json::Error> {
    if object == ENDED {
        return Ok(Payload::Ended);
    }
    serde_json::from_slice(object).map(Payload::Events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_kept_byte_for_byte() {
        let texts = [r#"{ "a" : 1.50 }"#, "{\"b\":\"\u{ffff}\"}"];
        let events = texts.map(|text| RawValue::from_string(text.to_owned()).expect("JSON"));
        let Payload::Events(read) = decode(&encode(&events)).expect("an array") else {
            panic!("they are events");
        };
        assert_eq!(read.iter().map(|event| event.get()).collect::<Vec<_>>(), texts);
    }

    #[test]
    fn an_empty_object_is_an_end_and_rubbish_an_error() {
        assert!(matches!(decode(ENDED), Ok(Payload::Ended)));
        assert!(decode(b"[{").is_err());
        assert!(decode(b"{}").is_err());
    }
}

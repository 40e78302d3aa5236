//! Claim check: events too large for a message are stored in the payload bucket.
//!
//! Each delivery has one object, stored before the message is sent and emptied after its end: an
//! empty object tells late copies that nothing is left to do, a missing one means lost events.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

/// A message's reference to its events in the payload bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// At least 1.
    pub events: u32,
}

/// The content of a delivery's object.
#[derive(Debug)]
pub enum Payload {
    Events(Vec<Box<RawValue>>),
    /// The delivery has ended.
    Ended,
}

/// The object of a delivery that has ended.
pub const ENDED: &[u8] = b"";

/// Returns the name of a delivery's object in the payload bucket.
pub fn key(delivery: Uuid) -> String {
    format!("deliveries/{delivery}")
}

/// Encodes events as a JSON array, byte for byte.
pub fn encode(events: &[Box<RawValue>]) -> Vec<u8> {
    serde_json::to_vec(events).expect("raw JSON values are JSON")
}

/// Reads an object. Fails if it is neither empty nor a JSON array.
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

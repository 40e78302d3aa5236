//! The payload by which a mapping invokes a function, as Lambda counts it.

use gridpost_testkit::queue::Received;

/// The largest payload of an invocation, in bytes: a batch ends before it.
/// Source: AWS Lambda developer guide, "Batching behavior".
pub(super) const PAYLOAD_BYTES_MAX: usize = 6 * 1_024 * 1_024;

/// What a record has besides its body: ids, a receipt handle of some 400 characters, digest, attributes,
/// the queue's ARN, and the names of all that. Source: AWS Lambda developer guide, "Using Lambda with
/// Amazon SQS", the example of an event.
const RECORD_BYTES: usize = 1_000;

/// Returns the bytes of a batch's payload. Bodies are texts in JSON: what has quotes is longer there.
pub(super) fn bytes(all: &[Received]) -> usize {
    all.iter().map(|message| RECORD_BYTES + json_bytes(&message.body)).sum()
}

/// Returns the bytes of a text as JSON, with its quotes.
fn json_bytes(text: &str) -> usize {
    let of = |byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..=31 => 6,
        _ => 1,
    };
    2 + text.bytes().map(of).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use gridpost_core::time::Timestamp;
    use gridpost_testkit::queue::Carried;

    use super::*;

    #[test]
    fn a_text_is_as_long_as_json_makes_it() {
        let all: String = (0..=255).filter_map(char::from_u32).collect();
        for text in ["", "a", r#"{"id":"1","data":"\\u0000"}"#, "\t\r\n", &all] {
            let want = serde_json::to_string(text).expect("JSON").len();
            assert_eq!(json_bytes(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_batch_of_quotes_is_full_before_its_bodies_are() {
        let message = |body: &str| Received {
            message_id: String::new(),
            receipt: String::new(),
            body: body.to_owned(),
            count: 1,
            at: Timestamp::from_millis(0),
            carried: Carried::default(),
        };
        let batch = |body: &str, count: usize| bytes(&vec![message(body); count]);
        // Of 262,144 bytes each, as large as messages are by default.
        let (plain, quotes) = ("x".repeat(262_144), "\"".repeat(262_144));
        assert!(batch(&plain, 23) < PAYLOAD_BYTES_MAX && batch(&plain, 24) > PAYLOAD_BYTES_MAX);
        assert!(batch(&quotes, 11) < PAYLOAD_BYTES_MAX && batch(&quotes, 12) > PAYLOAD_BYTES_MAX);
        assert!(batch("", 10_000) > PAYLOAD_BYTES_MAX, "records have more than bodies");
    }
}

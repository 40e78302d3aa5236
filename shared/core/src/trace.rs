//! Trace context: the publisher's trace, passed on unchanged.
//!
//! Source: W3C, "Trace Context", section 3.2; CloudEvents, "Distributed tracing extension".

use std::{fmt, str::FromStr};

use serde_with::{DeserializeFromStr, SerializeDisplay};

/// The HTTP header, and the extension attribute of CloudEvents.
pub const TRACE_PARENT: &str = "traceparent";

/// `version-trace-parent-flags`, in hexadecimal digits.
pub const TRACE_PARENT_CHARS: usize = 55;

/// A `traceparent` of version 00. Later versions begin with the same form; longer ones are refused.
#[derive(Clone, Copy, PartialEq, Eq, SerializeDisplay, DeserializeFromStr)]
pub struct TraceParent([u8; TRACE_PARENT_CHARS]);

impl TraceParent {
    /// Returns `None` if malformed: a receiver must not pass that on.
    pub fn parse(text: &str) -> Option<Self> {
        const DASHES: [usize; 3] = [2, 35, 52];
        let bytes: [u8; TRACE_PARENT_CHARS] = text.as_bytes().try_into().ok()?;
        let is_legal = |(position, byte): (usize, &u8)| match DASHES.contains(&position) {
            true => *byte == b'-',
            false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        };
        let is_zero = |digits: &[u8]| digits.iter().all(|digit| *digit == b'0');
        let legal = bytes.iter().enumerate().all(is_legal)
            && bytes[..2] != *b"ff"
            && !is_zero(&bytes[3..35])
            && !is_zero(&bytes[36..52]);
        legal.then_some(Self(bytes))
    }
}

impl FromStr for TraceParent {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text).ok_or("this is not a traceparent")
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(std::str::from_utf8(&self.0).expect("made of ASCII"))
    }
}

impl fmt::Debug for TraceParent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_parent_table() {
        let sound = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        for text in [sound, &sound.replacen("00", "cc", 1), &sound.replace("-01", "-ff")] {
            let read = TraceParent::parse(text).expect(text);
            assert_eq!(read.to_string(), text);
            let json = serde_json::to_string(&read).expect("JSON");
            assert_eq!(serde_json::from_str::<TraceParent>(&json).expect("read back"), read);
        }
        for text in [
            "",
            "00",
            &sound.to_uppercase(),
            &sound.replacen("00", "ff", 1),
            &sound.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &sound.replace("b7ad6b7169203331", &"0".repeat(16)),
            &sound.replacen('-', "_", 1),
            &sound[..54],
            &format!("{sound}-more"),
            &sound.replace("-01", "-0ä"),
            &sound.replace("-01", "-0\n"),
        ] {
            assert_eq!(TraceParent::parse(text), None, "{text}");
        }
    }
}

//! Turns the first bytes of a failed response into text that is safe in logs, states and terminals.

use std::str::FromStr;

/// The most bytes of a response that a deployment may keep with an attempt.
pub const RESPONSE_TEXT_BYTES_MAX: usize = 1_024;

/// How many bytes of a failed response are kept: 0 (the default) to [`RESPONSE_TEXT_BYTES_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseBytes(usize);

impl ResponseBytes {
    /// The largest value.
    pub const MAX: Self = Self(RESPONSE_TEXT_BYTES_MAX);

    pub fn get(self) -> usize {
        self.0
    }
}

/// A text that is not a number in range.
#[derive(Debug, thiserror::Error)]
#[error("it must be a number from 0 to {RESPONSE_TEXT_BYTES_MAX}")]
pub struct NotInRange;

impl FromStr for ResponseBytes {
    type Err = NotInRange;

    fn from_str(text: &str) -> Result<Self, NotInRange> {
        let bytes = text.parse().map_err(|_| NotInRange)?;
        if bytes > RESPONSE_TEXT_BYTES_MAX { Err(NotInRange) } else { Ok(Self(bytes)) }
    }
}

/// Returns the beginning of a body as text of at most `most` bytes; `None` if that is empty.
///
/// Control characters, line ends, backslashes and invisible characters (such as marks that reverse
/// text) are escaped as in Rust: the text is one line, and can't imitate another. Each run of bytes
/// that are not UTF-8 becomes one `U+FFFD`; a character cut by the end is left out.
pub fn response_text(body: &[u8], most: ResponseBytes) -> Option<String> {
    let mut text = String::new();
    let mut chunks = body.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        let broken = !chunk.invalid().is_empty() && chunks.peek().is_some();
        for character in chunk.valid().chars().chain(broken.then_some(char::REPLACEMENT_CHARACTER))
        {
            let escaped = escaped(character);
            if text.len() + escaped.len() > most.0 {
                return Some(text).filter(|text| !text.is_empty());
            }
            text.push_str(&escaped);
        }
    }
    Some(text).filter(|text| !text.is_empty())
}

fn escaped(character: char) -> String {
    match character {
        // Bodies are often JSON, and quotation marks do no harm.
        '"' | '\'' => character.to_string(),
        other => other.escape_debug().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_short_and_one_harmless_line() {
        let whole: &[u8] = "{\"error\":\"größer\"}".as_bytes();
        // body, most bytes, what is kept
        let table: [(&[u8], usize, Option<&str>); 13] = [
            (b"", 100, None),
            (b"no such order", 0, None),
            (b"no such order", 7, Some("no such")),
            (whole, 100, Some("{\"error\":\"größer\"}")),
            (b"a\r\n{\"level\":\"ERROR\"}", 100, Some(r#"a\r\n{"level":"ERROR"}"#)),
            (b"\x1b[2J\x07\0", 100, Some(r"\u{1b}[2J\u{7}\0")),
            (b"C:\\n", 100, Some(r"C:\\n")),
            ("a\u{202e}b\u{2028}c\u{85}".as_bytes(), 100, Some(r"a\u{202e}b\u{2028}c\u{85}")),
            (b"a\xff\xfeb", 100, Some("a\u{fffd}\u{fffd}b")),
            // Cut inside a character, and inside an escape.
            ("ö".as_bytes().split_at(1).0, 100, None),
            ("aö".as_bytes(), 2, Some("a")),
            (b"ab\n", 3, Some("ab")),
            (b"\x1b", 3, None),
        ];
        for (body, most, want) in table {
            let kept = response_text(body, ResponseBytes(most));
            assert_eq!(kept.as_deref(), want, "{body:?}");
            assert!(kept.unwrap_or_default().len() <= most, "{body:?}");
        }
        let every: String = ('\0'..='\u{fff}').chain('\u{1ff0}'..='\u{20ff}').collect();
        let kept = response_text(every.as_bytes(), ResponseBytes(usize::MAX)).expect("a text");
        assert!(!kept.contains(|one: char| one.is_control()));
    }

    #[test]
    fn at_most_a_kilobyte_is_kept() {
        let table =
            [("0", Some(0)), ("1024", Some(1_024)), ("1025", None), ("-1", None), ("", None)];
        for (text, want) in table {
            assert_eq!(text.parse::<ResponseBytes>().ok().map(ResponseBytes::get), want, "{text}");
        }
        assert_eq!(ResponseBytes::default().get(), 0);
    }
}

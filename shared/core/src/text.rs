//! Words of messages: given texts, types and lists of names.

use serde_json::Value;

/// The most characters of the user's text that a message repeats.
pub const SHOWN_MAX: usize = 64;

/// Quotes the user's text for a message: shortened, with quotes and control characters escaped.
pub fn quoted(text: &str) -> String {
    let mut head: String = text.chars().take(SHOWN_MAX).collect();
    if head.len() < text.len() {
        head.push('…');
    }
    format!("{head:?}")
}

/// Writes `'a', 'b' or 'c'`.
pub fn one_of(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => format!("'{only}'"),
        [head @ .., last] => format!("'{}' or '{last}'", head.join("', '")),
    }
}

/// Returns the JSON type of a value, for a message.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
/// Whether a text matches a pattern, in which `*` means any characters.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

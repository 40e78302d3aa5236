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

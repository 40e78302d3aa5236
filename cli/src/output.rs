//! Results go to standard output, as text for people or as JSON for programs; all else goes to
//! standard error.

use std::io::{self, Write};

use serde_json::Value;

/// How a command prints its result.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
}

impl Output {
    /// JSON when `json`, else text.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether the result is wanted as JSON.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Prints `document` as JSON, or what `text` makes of it.
    pub fn print(self, document: &Value, text: impl FnOnce(&Value) -> String) {
        if self.json { line(&pretty(document)) } else { line(&text(document)) }
    }
}

/// Prints one line, or several, to standard output. A reader that went away (`| head`) ends it quietly.
pub fn line(text: &str) {
    if writeln!(io::stdout(), "{text}").is_err() {
        std::process::exit(0);
    }
}

/// JSON with two-space indents.
pub fn pretty(document: &Value) -> String {
    serde_json::to_string_pretty(document).unwrap_or_else(|_| document.to_string())
}

/// Lines `rows` up in columns, the last one ragged; empty when there are none.
pub fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A string member of a JSON document by its pointer, `-` when there is none.
pub fn text_at<'a>(document: &'a Value, pointer: &str) -> &'a str {
    document.pointer(pointer).and_then(Value::as_str).unwrap_or("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "bb", "c"], ["aaa", "b", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows), "a    bb  c\naaa  b");
    }
}

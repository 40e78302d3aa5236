//! Results go to standard output, as text for people or as JSON for programs; all else goes to
//! standard error. Nothing that others sent controls a terminal: all that is written goes through
//! [`shown`].

use std::{
    array,
    fmt::Display,
    io::{self, Write},
};

pub use gridpost_core::terminal::{hides, in_line, shown};
use serde::Serialize;

/// Prints one line, or several, to standard error. A reader that went away changes nothing: what is being
/// done may be a way back, and the exit code says what came of it.
pub fn note(text: &str) {
    let _ = written(&mut io::stderr(), &format!("{text}\n"));
}

/// Prints one line, or several, to standard output, for a command whose exit code says more: a reader
/// that went away does not change it.
pub fn tell(text: String) {
    if let Err(error) = written(&mut io::stdout(), &(text + "\n")) {
        give_up_unless_left(&error);
    }
}

/// Prints one line, or several, to standard output. A reader that went away (`| head`) ends it quietly.
pub fn line(text: &str) {
    self::text(&format!("{text}\n"));
}

/// Prints a text without a line break at its end, in the same way.
pub fn text(text: &str) {
    if let Err(error) = written(&mut io::stdout(), text) {
        give_up_unless_left(&error);
        std::process::exit(0);
    }
}

fn written(to: &mut impl Write, text: &str) -> io::Result<()> {
    to.write_all(shown(text).as_bytes()).and_then(|()| to.flush())
}

/// A reader may leave early. Anything else, a full disk, has cut what was asked for: the program ends.
fn give_up_unless_left(error: &io::Error) {
    if !is_left(error) {
        note(&format!("error: the result could not be written: {error}"));
        std::process::exit(1);
    }
}

fn is_left(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Writes a document as JSON with two-space indents.
pub fn pretty(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document).unwrap_or_default()
}

/// JSON text with two-space indents and everything else as it was: order, numbers, escapes. None when
/// it is not JSON.
pub fn indented(json: &str) -> Option<String> {
    serde_json::from_str::<serde::de::IgnoredAny>(json).ok()?;
    let mut text = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut is_escaped) = (0, false, false);
    let mut characters = json.chars().filter(|c| *c >= ' ').peekable();
    while let Some(character) = characters.next() {
        if in_string {
            text.push(character);
            in_string = is_escaped || character != '"';
            is_escaped = character == '\\' && !is_escaped;
            continue;
        }
        match character {
            '[' | '{' => {
                while characters.next_if_eq(&' ').is_some() {}
                text.push(character);
                match characters.next_if(|next| matches!(next, ']' | '}')) {
                    Some(closing) => text.push(closing),
                    None => {
                        depth += 1;
                        break_line(&mut text, depth);
                    }
                }
            }
            ']' | '}' => {
                depth -= 1;
                break_line(&mut text, depth);
                text.push(character);
            }
            ',' => {
                text.push(',');
                break_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            ' ' => {}
            _ => {
                in_string = character == '"';
                text.push(character);
            }
        }
    }
    Some(text)
}

fn break_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

/// Lines rows up in columns below their names.
pub fn table<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let head = std::iter::once(head.map(str::to_owned));
    columns(&head.chain(rows).collect::<Vec<_>>())
}

/// Most characters of a cell, but for the last of a row: whatever else is known has all of it with
/// `--json`.
const CELL_CHARS_MAX: usize = 100;

/// A text as a cell of a table.
fn cell(text: &str, is_last: bool) -> String {
    let text = in_line(text);
    match text.char_indices().nth(CELL_CHARS_MAX) {
        Some((end, _)) if !is_last => format!("{}…", &text[..end]),
        _ => text.into_owned(),
    }
}

/// Formats `rows` as aligned columns; without rows the text is empty. Cells are cut at
/// [`CELL_CHARS_MAX`] characters, except in the last column.
pub fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let rows: Vec<[String; N]> = rows
        .iter()
        .map(|row| array::from_fn(|column| cell(&row[column], column + 1 == N)))
        .collect();
    let mut widths = [0; N];
    for row in &rows {
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

/// A number of things: `1 event`, `2 events`.
pub fn count(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Writes a value, or `-` if it is missing.
pub fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A text as one word of a shell. One with characters that do not show is written by their numbers, as
/// bash and zsh read them, so that what is copied is what was seen.
pub fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    if !text.contains(|c: char| hides(c) || c.is_control()) {
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    let escaped = |c: char| match c {
        '\'' | '\\' => format!("\\{c}"),
        c if hides(c) || c.is_control() => format!("\\U{:08x}", u32::from(c)),
        c => c.to_string(),
    };
    format!("$'{}'", text.chars().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indenting_changes_nothing_else() {
        for (json, want) in [
            (
                r#"{"z":1.0,"a":[1,{}],"e":[ ]}"#,
                "{\n  \"z\": 1.0,\n  \"a\": [\n    1,\n    {}\n  ],\n  \"e\": []\n}",
            ),
            ("[ \n1 ,\t2]", "[\n  1,\n  2\n]"),
            (
                r#"["a: \"{b},", "\\", 12345678901234567890]"#,
                "[\n  \"a: \\\"{b},\",\n  \"\\\\\",\n  12345678901234567890\n]",
            ),
            ("null", "null"),
        ] {
            assert_eq!(indented(json).as_deref(), Some(want), "{json}");
        }
        assert_eq!(indented("{\"a\":"), None);
    }

    #[test]
    fn nothing_that_is_written_controls_a_terminal() {
        let mut to = Vec::new();
        written(&mut to, "id x\u{1b}[1A\u{1b}[2Kfine\u{9b}2J\u{202e}\n").expect("written");
        assert_eq!(to, b"id x\\u001b[1A\\u001b[2Kfine\\u009b2J\\u202e\n");
        let rows = [["a\nb".to_owned(), "c".to_owned()], ["d".to_owned(), "e".to_owned()]];
        assert_eq!(columns(&rows), "a\\u000ab  c\nd         e");
        let long = "x".repeat(5_000);
        let rows = [[long.clone(), long.clone()], ["y".to_owned(), "z".to_owned()]];
        let lines = columns(&rows);
        assert!(lines.starts_with(&format!("{}…  {long}\n", &long[..100])));
        assert!(lines.lines().last().is_some_and(|line| line.chars().count() == 101 + 2 + 1));
    }

    #[test]
    fn a_reader_that_went_away_is_no_panic() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        written(&mut writer, "a line\n").expect("written");
        drop(reader);
        let left = written(&mut writer, &"x".repeat(100_000)).expect_err("it has no reader");
        assert!(is_left(&left), "{left}");
    }

    /// `gridpost export > topics.json` on a full disk must not look like an export.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_no_reader_that_went_away() {
        let mut full = std::fs::File::options().write(true).open("/dev/full").expect("it is there");
        let error = written(&mut full, "a line\n").expect_err("it is full");
        assert!(!is_left(&error), "{error}");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "bb", "c"], ["aaa", "b", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows), "a    bb  c\naaa  b");
    }
}

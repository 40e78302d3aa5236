//! Escapes untrusted text for terminals, so that it can't move the cursor, reorder or hide text.
//!
//! Source: ECMA-48 (C0 and C1 control functions, OSC); Unicode Standard Annex 9 (bidirectional
//! formatting characters); CVE-2021-25743 is such a fault of another tool.

use std::{borrow::Cow, fmt::Write};

/// Returns whether a character controls a terminal, reorders text, or is invisible. Line breaks and
/// tabs do not count, nor do joiners, which words and emoji need.
pub fn hides(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(
            c,
            '\u{00ad}'
                | '\u{034f}'
                | '\u{061c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Escapes a text but keeps its line breaks. The escapes are JSON's, so JSON keeps its meaning.
pub fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, hides)
}

/// Escapes a part of a line, including line breaks and tabs.
pub fn in_line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| hides(c) || matches!(c, '\t' | '\n'))
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(shown, "\\u{unit:04x}").expect("a string takes it");
            }
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_controls_a_terminal_is_written_by_its_number() {
        let table = [
            ("plain, é and \u{1f600}\n", "plain, é and \u{1f600}\n"),
            (
                "\u{1f469}\u{200d}\u{1f4bb} می\u{200c}خواهم",
                "\u{1f469}\u{200d}\u{1f4bb} می\u{200c}خواهم",
            ),
            ("x\u{1b}[1A\u{1b}[2Kfine", "x\\u001b[1A\\u001b[2Kfine"),
            ("\u{1b}]0;title\u{7}", "\\u001b]0;title\\u0007"),
            ("\u{9b}2J\u{9d}8;;http://e\u{9c}", "\\u009b2J\\u009d8;;http://e\\u009c"),
            ("a\rb\u{8}\u{7f}\tc", "a\\u000db\\u0008\\u007f\tc"),
            ("\u{202e}gnp.exe\u{2066}\u{2069}", "\\u202egnp.exe\\u2066\\u2069"),
            ("\u{feff}\u{200b}\u{61c}", "\\ufeff\\u200b\\u061c"),
            ("\u{e0041}", "\\udb40\\udc41"),
        ];
        for (text, want) in table {
            assert_eq!(shown(text), want, "{text:?}");
        }
        assert_eq!(in_line("a\nb\tc"), "a\\u000ab\\u0009c");
    }

    proptest! {
        #[test]
        fn no_control_byte_is_shown_and_json_stays_what_it_is(text: String) {
            prop_assert!(!shown(&text).contains(hides));
            prop_assert!(!in_line(&text).contains(|c: char| c.is_control() || hides(c)));
            let json = serde_json::to_string(&text).expect("JSON");
            let read: String = serde_json::from_str(&shown(&json)).expect("JSON");
            prop_assert_eq!(read, text);
        }
    }
}

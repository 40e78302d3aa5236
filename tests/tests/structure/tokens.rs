//! Splits Rust code into its words and signs.

/// Returns the words and signs of code. A string is one token that begins with `"`; comments,
/// characters and lifetimes are none.
pub(crate) fn tokens(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let word = rest.strip_prefix("r#").unwrap_or(rest);
        let word = &word[..end_of_word(word)];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            end_of_comment(rest)
        } else if let Some((text, length)) = string(rest) {
            found.push(format!("\"{text}"));
            length
        } else if first == '\'' {
            end_of_character(rest)
        } else if !word.is_empty() {
            found.push(word.to_owned());
            word.len() + if rest.starts_with("r#") { 2 } else { 0 }
        } else {
            let length = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            found.extend((!first.is_whitespace()).then(|| rest[..length].to_owned()));
            length
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    found
}

/// Tells whether a token is a name or a keyword.
pub(crate) fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn end_of_word(code: &str) -> usize {
    code.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(code.len())
}

/// Returns how long a comment is, with those inside it.
fn end_of_comment(code: &str) -> usize {
    let (mut at, mut depth) = (0, 0);
    while let Some(found) = code[at..].find(['/', '*']) {
        at += found;
        let is_mark = code[at..].starts_with("/*") || code[at..].starts_with("*/");
        if is_mark {
            depth += if code[at..].starts_with('/') { 1 } else { -1 };
        }
        at += if is_mark { 2 } else { 1 };
        if depth == 0 {
            return at;
        }
    }
    code.len()
}

/// Returns how long a character or a lifetime is.
fn end_of_character(code: &str) -> usize {
    let text = &code[1..];
    if text.starts_with('\\') || text.chars().nth(1) == Some('\'') {
        end_of_quote(text, '\'') + 2
    } else {
        end_of_word(text) + 1
    }
}

/// Returns what a string in any of its forms says, and how long it is.
fn string(code: &str) -> Option<(&str, usize)> {
    let start = code.trim_start_matches(['b', 'c', 'r']);
    let is_raw = code[..code.len() - start.len()].contains('r');
    let hashes = if is_raw { start.len() - start.trim_start_matches('#').len() } else { 0 };
    let text = start[hashes..].strip_prefix('"')?;
    let end = if is_raw {
        text.find(&format!("\"{}", &start[..hashes])).unwrap_or(text.len())
    } else {
        end_of_quote(text, '"')
    };
    Some((&text[..end], code.len() - text.len() + end + 1 + hashes))
}

/// Returns where the quote ends that has begun before `text`.
fn end_of_quote(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let is_end = |c: char| {
        let ends = c == quote && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    };
    text.find(is_end).unwrap_or(text.len())
}

#[test]
fn code_is_split_into_words_and_signs() {
    for (code, expected) in [
        ("use crate::a::{b, c};", "use crate :: a :: { b , c } ;"),
        ("r#type::r#x.ä_1", "type :: x . ä_1"),
        // Comments.
        ("a // \"b\n/// c\nd", "a d"),
        ("a /* b /* c */ d */ e", "a e"),
        ("a /*/ b */ c /***/ d /**/ e", "a c d e"),
        ("a / b * c", "a / b * c"),
        ("a /* never ends", "a"),
        // Strings.
        (r#"a("b // c", "d\"e", "\\")"#, r#"a ( "b // c , "d\"e , "\\ )"#),
        (r###"r"a\" b r#"c"d"# r##"e"#"## f"###, r###""a\ b "c"d "e"# f"###),
        (r###"b"a" br#"b"# c"c" cr"d""###, r#""a "b "c "d"#),
        ("\"a\nb\" c", "\"a\nb c"),
        // Characters and lifetimes.
        (r#"a '"' b '\'' c '\\' d '\u{41}' e"#, "a b c d e"),
        ("'/' '/' a", "a"),
        ("&'a str, 'static, 'é', <'_>", "& str , , , < >"),
        ("loop 'a: { break 'a }", "loop : { break }"),
    ] {
        assert_eq!(tokens(code).join(" "), expected, "{code}");
    }
}

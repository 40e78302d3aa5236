//! Forms of documents: each member has a field, which is named by the member's path. Rows of lists are
//! added and removed by buttons that send the form, so they need no script.

pub(super) mod placed;
pub(super) mod view;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::made::Made;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(BTreeMap<String, String>);

#[derive(Debug)]
pub(super) struct Posted {
    pub(super) fields: Fields,
    pub(super) made: Made,
    /// The button that changes the form alone: `add LIST`, `remove LIST ROW` or `choose`; empty where the form
    /// is to be saved.
    pub(super) button: String,
}

impl Posted {
    pub(super) fn of(pairs: Vec<(String, String)>) -> Self {
        let mut all: BTreeMap<_, _> = pairs.into_iter().collect();
        all.remove("csrf");
        let [etag, was, button] =
            ["etag", "was", "do"].map(|name| all.remove(name).unwrap_or_default());
        // Forms have two characters at the end of a line.
        let text = |(name, value): (String, String)| (name, value.replace("\r\n", "\n"));
        // No page has a row with such a number.
        let is_row = |part: &str| part.parse().is_ok_and(|row: usize| row < ROWS_MAX);
        let is_plain = |(name, _): &(String, String)| {
            !name
                .split('.')
                .any(|part| part.bytes().all(|byte| byte.is_ascii_digit()) && !is_row(part))
        };
        let fields = Fields(all.into_iter().filter(is_plain).map(text).collect());
        Self { fields, made: Made::sent(etag, was), button }
    }
}

impl Fields {
    /// A field's text; empty where the form has no such field.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name) == "yes"
    }

    pub(super) fn set(&mut self, name: impl Into<String>, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.0.insert(name.into(), text);
        }
    }

    /// Empties a field, or a list of them, as a form does that is sent without it.
    pub(super) fn clear(&mut self, name: &str) {
        self.0.retain(|known, _| !is_of(known, name));
    }

    pub(super) fn tick(&mut self, name: impl Into<String>, is_on: bool) {
        self.set(name, if is_on { "yes" } else { "" });
    }

    /// The fields of a member, or of a list of them.
    fn of(&self, name: &str) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter().filter(move |(known, _)| is_of(known, name))
    }

    /// Whether a member, or a list of them, has the same text in both, where an empty one is as good as
    /// none.
    pub(super) fn is_same(&self, other: &Self, name: &str) -> bool {
        let [mine, others] =
            [self, other].map(|all| all.of(name).filter(|(_, text)| !text.is_empty()));
        mine.eq(others)
    }

    /// Takes a member, or a list of them, from another form where this one has nothing of it.
    pub(super) fn fill(&mut self, other: &Self, name: &str) {
        if self.of(name).next().is_none() {
            self.0.extend(other.of(name).map(|(name, text)| (name.clone(), text.clone())));
        }
    }

    pub(super) fn rows(&self, list: &str) -> usize {
        let below = format!("{list}.");
        let index = |name: &String| name.strip_prefix(&below)?.split('.').next()?.parse().ok();
        self.0.keys().filter_map(index).max().map_or(0, |last: usize| last.saturating_add(1))
    }

    /// Adds a row; `member` is a field of it.
    pub(super) fn add(&mut self, list: &str, member: &str) {
        let row = self.rows(list);
        self.0.insert(format!("{list}.{row}.{member}"), String::new());
    }

    /// Takes rows out of a list; those behind them move up.
    pub(super) fn keep_rows(&mut self, list: &str, is_kept: impl Fn(&Self, usize) -> bool) {
        // An index that no page has would make this long.
        let rows = self.rows(list).min(ROWS_MAX);
        let kept: Vec<_> = (0..rows).filter(|row| is_kept(self, *row)).collect();
        let below = format!("{list}.");
        let (of_list, others): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.0).into_iter().partition(|(name, _)| name.starts_with(&below));
        self.0 = others;
        for (name, text) in of_list {
            let Some((row, member)) = name[below.len()..].split_once('.') else { continue };
            let place = kept.iter().position(|kept| Some(*kept) == row.parse().ok());
            if let Some(place) = place {
                self.0.insert(format!("{list}.{place}.{member}"), text);
            }
        }
    }

    pub(super) fn is_blank(&self, list: &str, row: usize, members: &[&str]) -> bool {
        members.iter().all(|member| self.get(&format!("{list}.{row}.{member}")).trim().is_empty())
    }
}

/// Whether a field is of that name, or within it.
fn is_of(field: &str, name: &str) -> bool {
    field.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// More rows than any list may have.
const ROWS_MAX: usize = 500;

/// A text as a field has it. One that a field would change, or could not show, is written as JSON.
pub(super) fn written(text: &str) -> String {
    let is_plain = !text.starts_with('"')
        && text.trim() == text
        && super::text::visible(text) == text
        && !text.contains(['\n', '\t'])
        && !text.is_empty();
    match is_plain {
        true => text.to_owned(),
        false => super::text::visible_json(&Value::from(text).to_string()),
    }
}

pub(super) fn meant(field: &str) -> String {
    let field = field.trim();
    let json = Some(field).filter(|field| field.starts_with('"'));
    json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_else(|| field.to_owned())
}

/// The query that every page may have: which page of a list, and what was just done.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Look {
    pub(super) after: Option<String>,
    pub(super) done: Option<String>,
}

/// Returns the text without space around it, unless it is empty.
pub(super) fn given(text: Option<&String>) -> Option<String> {
    text.map(|text| text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posted(pairs: &[(&str, &str)]) -> Posted {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Posted::of(pairs.iter().map(pair).collect())
    }

    #[test]
    fn rows_are_added_and_removed_by_buttons() {
        let form = [("l.0.k", "a"), ("l.1.k", "b"), ("l.2.k", ""), ("l.2.o", "x"), ("m", "1\r\n2")];
        let button = |value| posted(&[&form[..], &[("do", value), ("csrf", "t")]].concat());
        let Posted { mut fields, button, .. } = button("add l");
        assert_eq!((&*button, fields.rows("l"), fields.get("m")), ("add l", 3, "1\n2"));
        assert_eq!(fields.get("csrf"), "");
        fields.add("l", "k");
        assert_eq!((fields.rows("l"), fields.rows("other")), (4, 0));
        fields.keep_rows("l", |fields, row| !fields.is_blank("l", row, &["k"]));
        assert_eq!(fields.rows("l"), 2);
        fields.keep_rows("l", |_, row| row != 0);
        assert_eq!((fields.rows("l"), fields.get("l.0.k")), (1, "b"));
        for row in ["18446744073709551615", "18446744073709551616", "4000000000", "500"] {
            let hostile = posted(&[(&format!("l.{row}.k"), "a")]).fields;
            assert_eq!(hostile.rows("l"), 0, "{row}");
        }
        assert_eq!(posted(&[("l.499.k", "a")]).fields.rows("l"), 500);
    }

    #[test]
    fn every_text_comes_back_as_it_was() {
        for text in ["a", "", " a", "\"", "a\nb", "\u{202e}x", "a\tb", "\u{1f600}", "\"a\"", "\\"] {
            let field = written(text);
            assert_eq!(meant(&field), text, "{field}");
            assert!(!field.contains('\n') && super::super::text::visible(&field) == field);
        }
    }

    #[test]
    fn an_empty_field_is_as_good_as_none() {
        let of = |pairs: &[(&str, &str)]| posted(pairs).fields;
        assert!(of(&[("a", "")]).is_same(&of(&[]), "a"));
        assert!(of(&[("a.0.b", "1")]).is_same(&of(&[("a.0.b", "1"), ("c", "2")]), "a"));
        assert!(!of(&[("a.0.b", "1")]).is_same(&of(&[]), "a"));
        assert!(of(&[("ab", "1")]).is_same(&of(&[]), "a"));
    }
}

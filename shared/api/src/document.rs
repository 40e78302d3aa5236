//! JSON documents of the resource API and their problems: all are listed at once, each with its path
//! and the rule that it breaks.

pub(crate) mod azure;
mod parse;
pub(crate) mod read;

use std::{
    fmt::{self, Display},
    ops::RangeInclusive,
};

use gridpost_core::text::SHOWN_MAX;
pub use gridpost_core::text::{kind, one_of, quoted};
use serde_json::{Map, Value};
use utoipa::ToSchema;

pub use parse::{NotJson, parse, parse_around};
pub(crate) use read::{flag, read_at};
pub use read::{read, read_whole};

/// The kind of rule that a member breaks. Its name is the `code` of an error's detail.
#[derive(strum::Display, Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[schema(as = ProblemCode)]
pub enum Code {
    UnknownMember,
    /// Event Grid has the member or value; this deployment does not support it yet.
    NotSupportedYet,
    /// A member without a default is missing.
    MissingMember,
    /// The value is of another JSON type.
    WrongType,
    /// A number, length or count outside its range.
    OutOfRange,
    /// The value breaks another rule of its member.
    InvalidValue,
    /// The value does not go with what exists.
    Conflict,
}

/// One problem of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind of rule that is broken.
    pub code: Code,
    /// Where: a JSON path without its `$.`, such as `properties.labels[2]`; `$` is the document.
    pub path: String,
    /// The rule, and what was found.
    pub rule: String,
}

impl Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.path, self.rule)
    }
}

/// Problems beyond this number are counted but not listed: an answer stays readable, and far below
/// the size that a function may return.
const LISTED_MAX: usize = 100;

/// Every problem of a document, in the order it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    listed: Vec<Problem>,
    unlisted: usize,
}

impl Problems {
    pub fn add(&mut self, code: Code, path: impl Into<String>, rule: impl Into<String>) {
        if self.listed.len() < LISTED_MAX {
            self.listed.push(Problem { code, path: path.into(), rule: rule.into() });
        } else {
            self.unlisted += 1;
        }
    }

    pub fn add_all(&mut self, others: Self) {
        self.unlisted += others.unlisted;
        for Problem { code, path, rule } in others.listed {
            self.add(code, path, rule);
        }
    }

    /// Whether the part at that path, or a part of it, has a problem.
    pub(crate) fn is_of(&self, path: &str) -> bool {
        self.listed.iter().any(|problem| {
            let rest = problem.path.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// Returns a place in the document; the document itself has an empty path.
    pub(crate) fn at(&mut self, path: &str) -> At<'_> {
        At { path: path.to_owned(), problems: self }
    }

    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// The problems, at most 100 of them.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.listed.iter()
    }

    /// The value, if it was read whole and without a problem.
    pub fn or<T>(self, read: Option<T>) -> Result<T, Self> {
        read.filter(|_| self.is_empty()).ok_or(self)
    }
}

/// A place in a document, and where to list the problems of what stands there.
pub(crate) struct At<'p> {
    pub(crate) path: String,
    problems: &'p mut Problems,
}

impl At<'_> {
    pub(crate) fn member(&mut self, name: &str) -> At<'_> {
        At { path: path_of_member(&self.path, name), problems: self.problems }
    }

    pub(crate) fn element(&mut self, index: usize) -> At<'_> {
        At { path: format!("{}[{index}]", self.path), problems: self.problems }
    }

    pub(crate) fn add(&mut self, code: Code, rule: impl Into<String>) {
        let path = if self.path.is_empty() { "$" } else { &self.path };
        self.problems.add(code, path, rule);
    }

    /// Adds that a value breaks a rule of its own.
    pub(crate) fn invalid(&mut self, rule: impl Into<String>) {
        self.add(Code::InvalidValue, rule);
    }

    /// Adds that a member is missing, unless it is there and breaks another rule.
    pub(crate) fn require(&mut self, rule: impl Into<String>) {
        if !self.is_broken() {
            self.add(Code::MissingMember, rule);
        }
    }

    /// Whether this part, or a part of it, has a problem.
    pub(crate) fn is_broken(&self) -> bool {
        self.problems.is_of(&self.path)
    }
}

impl Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.listed.as_slice() {
            [only] => write!(formatter, "The document has a problem: {only}."),
            all => {
                let count = all.len() + self.unlisted;
                write!(formatter, "The document has {count} problems, listed in details")?;
                match self.unlisted {
                    0 => write!(formatter, "."),
                    more => write!(formatter, " but for the last {more}."),
                }
            }
        }
    }
}

/// Checks a resource's name: its length, and `[A-Za-z0-9-]`. `what` names it in the message.
pub fn check_name(name: &str, what: &str, length: RangeInclusive<usize>) -> Result<(), Problem> {
    let of_the_alphabet = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if of_the_alphabet && length.contains(&name.len()) {
        return Ok(());
    }
    let (from, to) = length.into_inner();
    let rule = format!(
        "must be {from} to {to} of A-Z, a-z, 0-9 and '-', as {what}, but is {}",
        quoted(name)
    );
    Err(Problem { code: Code::InvalidValue, path: "name".to_owned(), rule })
}

/// Returns a text as it is, and any other value as JSON.
pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads a number, or true or false. Anything else stays a text, which the API refuses in its words.
pub fn literal(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => text.trim().into(),
    }
}

pub(crate) fn path_of_member(path: &str, name: &str) -> String {
    let plain = name.len() <= SHOWN_MAX
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|char| char.is_ascii_alphanumeric());
    match (path.is_empty(), plain) {
        (true, true) => name.to_owned(),
        (false, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}[{}]", quoted(name)),
    }
}

/// Merges a patch into a document: members of objects are merged one by one, `null` removes a
/// member, every other value takes the place of what was there.
///
/// The depth of recursion is that of the patch, which [`parse()`] bounds.
///
/// Source: RFC 7396, "JSON Merge Patch", section 2.
pub fn merge(document: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *document = patch.clone();
        return;
    };
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let Value::Object(members) = document else { return };
    for (name, change) in changes {
        match change {
            Value::Null => {
                members.remove(name);
            }
            change => merge(members.entry(name.as_str()).or_insert(Value::Null), change),
        }
    }
}

/// Makes the patch that [`merge`] needs to make `new` of `old`; an empty object where they are the same.
pub fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch = Map::new();
    for (name, value) in new.iter().filter(|(name, value)| old.get(*name) != Some(*value)) {
        let change = old.get(name).map_or_else(|| value.clone(), |old| difference(old, value));
        patch.insert(name.clone(), change);
    }
    let removed = old.keys().filter(|name| !new.contains_key(*name));
    patch.extend(removed.map(|name| (name.clone(), Value::Null)));
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_flood_of_problems_is_counted() {
        let mut problems = Problems::default();
        for index in 0..130 {
            problems.add(Code::UnknownMember, format!("m{index}"), "is not known");
        }
        assert_eq!(problems.iter().count(), LISTED_MAX);
        let message = problems.to_string();
        let want = "The document has 130 problems, listed in details but for the last 30.";
        assert_eq!(message, want);
    }

    /// The cases of RFC 7396, appendix A.
    #[test]
    fn documents_are_merged_as_the_rfc_says() {
        let table = [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a":"b"}), json!(["c"]), json!(["c"])),
            (json!({"a":"foo"}), json!(null), json!(null)),
            (json!({"a":"foo"}), json!("bar"), json!("bar")),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ];
        for (mut document, patch, want) in table {
            merge(&mut document, &patch);
            assert_eq!(document, want, "{patch}");
        }
    }

    #[test]
    fn only_what_was_changed_is_in_the_patch() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "f": "x"});
        let new = json!({"a": 1, "b": {"c": 3, "d": 2}, "e": [1, 2], "g": true});
        let want = json!({"b": {"c": 3}, "e": [1, 2], "f": null, "g": true});
        assert_eq!(difference(&old, &new), want);
        assert_eq!(difference(&old, &old), json!({}));
        assert_eq!(difference(&json!({"a": {"b": 1}}), &json!({"a": 2})), json!({"a": 2}));
    }
}

//! JSON documents of the resource API and their problems: all are listed at once, each with its path
//! and the rule that it breaks.

pub(crate) mod azure;
mod merge;
mod parse;
pub(crate) mod read;

use std::{
    fmt::{self, Display},
    ops::RangeInclusive,
};

use gridpost_core::text::SHOWN_MAX;
pub use gridpost_core::text::{kind, one_of, quoted};
use serde_json::Value;
use utoipa::ToSchema;

pub use merge::merge;
pub use parse::{NotJson, parse, parse_around};
pub use read::read;
pub(crate) use read::{flag, read_at};

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
    /// What kind of rule is broken.
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

    /// Whether one of them is of the part at that path, or of a part of it.
    pub(crate) fn is_of(&self, path: &str) -> bool {
        self.listed.iter().any(|problem| {
            let rest = problem.path.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// Adds that a member is missing, unless it is there and breaks another rule.
    pub(crate) fn require(&mut self, path: &str, rule: &str) {
        if !self.is_of(path) {
            self.add(Code::MissingMember, path, rule);
        }
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

/// Returns a text as it is, and what is none as JSON.
pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads a number, or true or false. What is neither stays a text, which the API refuses in its words.
pub(crate) fn literal(text: &str) -> Value {
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

#[cfg(test)]
mod tests {
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
}

//! Reads JSON documents of the resource API member by member, so that every problem is listed at
//! once, each with its path and the rule that it breaks.

pub(crate) mod azure;
mod merge;
mod parse;
mod read;

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    ops::RangeInclusive,
};

use gridpost_core::text::SHOWN_MAX;
pub use gridpost_core::text::{kind, name_of, one_of, quoted};
use serde_json::{Map, Value, json};

pub use merge::merge;
pub use parse::{NotJson, parse, parse_around};
pub use read::read;
pub(crate) use read::read_at;

/// The kind of rule that a member breaks. Its name is the `code` of an error's detail.
#[derive(strum::Display, Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Whether something could not be read, or is not allowed: more than a limit.
    are_more_than_limits: bool,
}

impl Problems {
    pub fn add(&mut self, code: Code, path: impl Into<String>, rule: impl Into<String>) {
        self.are_more_than_limits |= code != Code::OutOfRange;
        if self.listed.len() < LISTED_MAX {
            self.listed.push(Problem { code, path: path.into(), rule: rule.into() });
        } else {
            self.unlisted += 1;
        }
    }

    /// Whether all that is wrong is a value or a number of values beyond a limit: everything could be read.
    pub fn are_limits(&self) -> bool {
        !self.are_more_than_limits
    }

    pub fn add_all(&mut self, others: Self) {
        self.unlisted += others.unlisted;
        self.are_more_than_limits |= others.are_more_than_limits;
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

    /// The problems as the body of an error, in Event Grid's shape. `target` is the path.
    pub fn to_error(&self) -> Value {
        let details = self.iter().map(|problem| {
            let Problem { code, path, .. } = problem;
            json!({"code": code.to_string(), "target": path, "message": problem.to_string()})
        });
        json!({"error": {
            "code": "InvalidRequest",
            "message": self.to_string(),
            "details": details.collect::<Vec<_>>(),
        }})
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

/// An object of a document while its members are read. A member that is `null` counts as absent, as
/// in Event Grid's own documents.
#[derive(Debug)]
pub struct Object<'d> {
    path: String,
    members: &'d Map<String, Value>,
    /// The members that were read; whether to list them as known when another is unknown.
    asked: BTreeMap<&'static str, bool>,
}

impl<'d> Object<'d> {
    pub fn root(document: &'d Value, problems: &mut Problems) -> Option<Self> {
        Self::at(String::new(), document, problems)
    }

    /// The object at that path of a document.
    pub fn at(path: String, value: &'d Value, problems: &mut Problems) -> Option<Self> {
        if let Value::Object(members) = value {
            return Some(Self { path, members, asked: BTreeMap::new() });
        }
        let path = if path.is_empty() { "$".to_owned() } else { path };
        problems.add(Code::WrongType, path, format!("must be an object, but is {}", kind(value)));
        None
    }

    pub fn path_of(&self, name: &str) -> String {
        path_of_member(&self.path, name)
    }

    /// Whether a member is there and not `null`.
    pub fn has(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|value| !value.is_null())
    }

    /// All members with their paths, where their names are the user's own.
    pub fn entries(&self) -> impl Iterator<Item = (&'d String, String, &'d Value)> {
        let path = self.path.clone();
        let there = self.members.iter().filter(|(_, value)| !value.is_null());
        there.map(move |(name, value)| (name, path_of_member(&path, name), value))
    }

    pub fn value(&mut self, name: &'static str) -> Option<&'d Value> {
        self.asked.insert(name, true);
        self.members.get(name).filter(|value| !value.is_null())
    }

    /// Members that only reads return. They are accepted and ignored, so that what a read returned
    /// can be written back.
    pub fn ignore(&mut self, names: &[&'static str]) {
        self.asked.extend(names.iter().map(|name| (*name, false)));
    }

    /// A member of Event Grid's that this deployment does not support yet. A value that asks for
    /// nothing is accepted, because Event Grid's reads include it.
    pub fn not_yet(
        &mut self,
        name: &'static str,
        asks_for_nothing: impl Fn(&Value) -> bool,
        instead: &str,
        problems: &mut Problems,
    ) {
        self.asked.insert(name, false);
        let value = self.members.get(name).filter(|value| !value.is_null());
        let Some(value) = value.filter(|value| !asks_for_nothing(value)) else { return };
        let found = value.as_str().map(|text| format!("{}, which is ", quoted(text)));
        let found = found.unwrap_or_default();
        let rule = format!("is {found}not supported yet by this deployment; {instead}");
        problems.add(Code::NotSupportedYet, self.path_of(name), rule);
    }

    /// The value of a member that has no default; `what` names it.
    pub fn required(
        &mut self,
        name: &'static str,
        what: &str,
        problems: &mut Problems,
    ) -> Option<&'d Value> {
        let value = self.value(name);
        if value.is_none() {
            problems.add(Code::MissingMember, self.path_of(name), format!("is required: {what}"));
        }
        value
    }

    /// A member that is an object.
    pub fn object(&mut self, name: &'static str, problems: &mut Problems) -> Option<Object<'d>> {
        let path = self.path_of(name);
        self.value(name).and_then(|value| Self::at(path, value, problems))
    }

    /// A member that is an object and has no default; `what` names it.
    pub fn required_object(
        &mut self,
        name: &'static str,
        what: &str,
        problems: &mut Problems,
    ) -> Option<Object<'d>> {
        self.required(name, what, problems).and_then(|_| self.object(name, problems))
    }

    /// A member that is a string.
    pub fn text(&mut self, name: &'static str, problems: &mut Problems) -> Option<&'d str> {
        let path = self.path_of(name);
        self.value(name).and_then(|value| text(value, &path, problems))
    }

    /// A member that is a string and has no default; `what` names it.
    pub fn required_text(
        &mut self,
        name: &'static str,
        what: &str,
        problems: &mut Problems,
    ) -> Option<&'d str> {
        self.required(name, what, problems).and_then(|_| self.text(name, problems))
    }

    /// A member that is `true` or `false`, by default `false`.
    pub fn flag(&mut self, name: &'static str, problems: &mut Problems) -> bool {
        let path = self.path_of(name);
        let Some(value) = self.value(name) else { return false };
        flag(value).unwrap_or_else(|| {
            let rule = format!("must be true or false (default false), but is {}", kind(value));
            problems.add(Code::WrongType, path, rule);
            false
        })
    }

    /// A member that is a whole number in a range, or its default. A value that breaks the rule is
    /// reported, and read as the default.
    pub fn whole(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u32>,
        default: u32,
        problems: &mut Problems,
    ) -> u32 {
        let path = self.path_of(name);
        let note = format!(" (default {default})");
        let value = self.value(name);
        value.and_then(|value| whole(value, &path, range, &note, problems)).unwrap_or(default)
    }

    /// A member that is one of several names, in any case, if it is there.
    pub fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[(&str, T)],
        default: Option<&str>,
        problems: &mut Problems,
    ) -> Option<T> {
        let path = self.path_of(name);
        let given = self.text(name, problems)?;
        if let Some((_, choice)) = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(given))
        {
            return Some(*choice);
        }
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        let default = default.map(|default| format!(" (default {default})")).unwrap_or_default();
        let rule = format!("must be {}{default}, but is {}", one_of(&names), quoted(given));
        problems.add(Code::InvalidValue, path, rule);
        None
    }

    /// A member that is a list: its elements with their paths.
    pub fn list(
        &mut self,
        name: &'static str,
        problems: &mut Problems,
    ) -> Option<Vec<(String, &'d Value)>> {
        let path = self.path_of(name);
        match self.value(name)? {
            Value::Array(elements) => {
                let at = |(index, value)| (format!("{path}[{index}]"), value);
                Some(elements.iter().enumerate().map(at).collect())
            }
            other => {
                let rule = format!("must be an array, but is {}", kind(other));
                problems.add(Code::WrongType, path, rule);
                None
            }
        }
    }

    /// Ends the reading: members that were never read are unknown.
    pub fn finish(self, problems: &mut Problems) {
        let known = self.asked.iter().filter(|(_, named)| **named).map(|(name, _)| *name);
        let known: Vec<_> = known.collect();
        for (name, value) in self.members {
            if !self.asked.contains_key(name.as_str()) && !value.is_null() {
                let rule = format!("is not known; members here are {}", known.join(", "));
                problems.add(Code::UnknownMember, self.path_of(name), rule);
            }
        }
    }
}

/// A boolean. Microsoft's own samples write it as a string, too, in any case.
pub fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

pub fn text<'d>(value: &'d Value, path: &str, problems: &mut Problems) -> Option<&'d str> {
    if value.is_string() {
        return value.as_str();
    }
    problems.add(Code::WrongType, path, format!("must be a string, but is {}", kind(value)));
    None
}

/// A whole number in a range; `30.0` is one, as in JSON Schema. `note` follows the range, such as `
/// (default 30)`.
pub fn whole(
    value: &Value,
    path: &str,
    range: RangeInclusive<u32>,
    note: &str,
    problems: &mut Problems,
) -> Option<u32> {
    let given = value.as_u64().or_else(|| value.as_f64().and_then(whole_part));
    let given = given.and_then(|number| u32::try_from(number).ok());
    if let Some(number) = given.filter(|number| range.contains(number)) {
        return Some(number);
    }
    let code = if value.is_number() { Code::OutOfRange } else { Code::WrongType };
    let (from, to) = range.into_inner();
    let found = if value.is_number() { value.to_string() } else { kind(value).to_owned() };
    problems.add(
        code,
        path,
        format!("must be a whole number from {from} to {to}{note}, but is {found}"),
    );
    None
}

/// The number as an integer, if it has no fraction and is not below 0.
fn whole_part(number: f64) -> Option<u64> {
    // A cast ends at the bounds of the integers, which no range reaches.
    (number >= 0.0 && number.fract() == 0.0).then_some(number as u64)
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
    fn all_problems_are_listed_with_their_paths() {
        let long = "l".repeat(65);
        let document = json!({"a": {"n": 11, "x y": 1, "z": null}, "t": 5, "c": "dead", long: 1});
        let mut problems = Problems::default();
        let mut root = Object::root(&document, &mut problems).expect("an object");
        let mut inner = root.object("a", &mut problems).expect("an object");
        assert_eq!(inner.whole("n", 1..=10, 7, &mut problems), 7);
        inner.finish(&mut problems);
        assert_eq!(root.text("t", &mut problems), None);
        let choices = [("left", 1), ("right", 2)];
        assert_eq!(root.choice("c", &choices, Some("left"), &mut problems), None);
        assert!(root.required_object("o", "an object", &mut problems).is_none());
        root.finish(&mut problems);
        let listed: Vec<_> = problems.iter().map(ToString::to_string).collect();
        let want = [
            "a.n must be a whole number from 1 to 10 (default 7), but is 11",
            "a[\"x y\"] is not known; members here are n",
            "t must be a string, but is a number",
            "c must be 'left' or 'right' (default left), but is \"dead\"",
            "o is required: an object",
            &format!("[\"{}…\"] is not known; members here are a, c, o, t", "l".repeat(64)),
        ];
        assert_eq!(listed, want);
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_fraction_of_nothing() {
        for (value, want) in [
            (json!(7), Some(7)),
            (json!(7.0), Some(7)),
            (json!(70e-1), Some(7)),
            (json!(-0.0), Some(0)),
            (json!(7.5), None),
            (json!(-7.0), None),
            (json!(1e300), None),
            (json!("7"), None),
        ] {
            let mut problems = Problems::default();
            assert_eq!(whole(&value, "n", 0..=10, "", &mut problems), want, "{value}");
            assert_eq!(problems.or(want).is_ok(), want.is_some(), "{value}");
        }
    }

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

//! What the schemas of the types say of settings.

use std::sync::LazyLock;

use serde_json::Value;

use super::{Kind, Setting, pointer};
use crate::{
    document::read::{Reader, names_of},
    subscription::{EventSubscriptionSettings, filter::advanced},
};

static SCHEMA: LazyLock<(Reader, Value)> = LazyLock::new(Reader::of::<EventSubscriptionSettings>);

/// Returns the schemas of a path's setting, without references: one for each type that has it.
pub(super) fn schemas(path: &str) -> Vec<&'static Value> {
    let (reader, whole) = &*SCHEMA;
    let pointer = pointer(path);
    let mut found = vec![whole];
    for name in pointer.split('/').skip(1) {
        let forms = found.into_iter().flat_map(|schema| reader.variants(schema));
        let parts = forms.map(|form| match name {
            "*" => &form["items"],
            name => &form["properties"][name],
        });
        found = parts.filter(|schema| !schema.is_null()).collect();
    }
    found
}

/// Returns the names that a choice is among.
pub(super) fn names(path: &str) -> Vec<&'static str> {
    let (reader, _) = &*SCHEMA;
    let mut names: Vec<&str> = Vec::new();
    for name in schemas(path).into_iter().flat_map(|schema| names_of(reader.resolve(schema))) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Writes a number as people read it: 1,440.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut written = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            written.push(',');
        }
        written.push(digit);
    }
    written
}

impl Setting {
    /// Whether the object that has it is of the one type that there is.
    pub(super) fn has_one_type(&self) -> bool {
        self.type_path().is_some_and(|of_type| names(&of_type).len() == 1)
    }

    /// Returns what a keyword of its schema says.
    fn keyword(&self, keyword: &str) -> &'static Value {
        let (reader, _) = &*SCHEMA;
        let found = schemas(self.path).into_iter();
        let said = found.map(|schema| match &schema[keyword] {
            Value::Null => &reader.resolve(schema)[keyword],
            own => own,
        });
        said.into_iter().find(|said| !said.is_null()).unwrap_or(&Value::Null)
    }

    /// Returns its default, where it has one that is not another setting's.
    pub fn default(&self) -> Option<String> {
        match self.keyword("default") {
            Value::Null => None,
            Value::String(name) => Some(name.clone()),
            other => Some(other.as_u64().map_or_else(|| other.to_string(), grouped)),
        }
    }

    /// Returns its range: of numbers, characters or elements.
    pub fn range(&self) -> Option<String> {
        let bound = |keyword: &str| self.keyword(keyword).as_u64().map(grouped);
        if let Some(most) = bound("maximum") {
            return Some(format!("{} to {most}", bound("minimum").unwrap_or("0".to_owned())));
        }
        let characters = bound("maxLength").map(|most| format!("at most {most} characters"));
        characters.or_else(|| Some(format!("at most {}", bound("maxItems")?)))
    }

    /// Returns what a form says of it.
    pub fn hint(&self) -> String {
        let range = match self.kind {
            Kind::Number | Kind::Minutes => self.range(),
            _ => None,
        };
        let empty = self.default().map(|default| format!("; {default} where empty"));
        let range = range.map(|range| format!("{range}{}.", empty.unwrap_or_default()));
        let parts = range.as_deref().into_iter().chain([self.hint]);
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the names of a choice, each with what it is. The empty name stands for none, where it may
    /// be left out.
    pub fn choices(&self) -> Vec<(&'static str, String)> {
        let word = |name: &str| self.words.iter().find(|(known, _)| *known == name);
        let none = word("").map(|(_, word)| (*word).to_owned());
        let none = none.or_else(|| Some(format!("{}, the default", self.default()?)));
        let told = |name: &'static str| match word(name).map(|(_, word)| *word) {
            Some(word) => (name, format!("{name}: {word}")),
            None if self.name() == "operatorType" => {
                (name, format!("{name}: {}", advanced::operands_of(name)))
            }
            None => (name, name.to_owned()),
        };
        let mut names = names(self.path);
        if names.is_empty() {
            names = self.words.iter().map(|(name, _)| *name).collect();
        }
        none.map(|none| ("", none)).into_iter().chain(names.into_iter().map(told)).collect()
    }
}

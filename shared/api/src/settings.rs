//! The settings of event subscriptions and of topics in tables, from which flags, fields of forms, what an export
//! leaves to variables, and the reference page come. Ranges, defaults and choices are those of the schemas.

mod document;
mod table;

use std::sync::LazyLock;

use serde_json::Value;

pub use self::{
    document::Document,
    table::{SETTINGS, TOPIC_SETTINGS},
};
use crate::{
    document::read::{Reader, names_of},
    subscription::{EventSubscriptionSettings, filter::advanced},
    topic::TopicSettings,
};

/// How a setting is given as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Texts,
    Number,
    Numbers,
    /// A span of time in minutes.
    Minutes,
    /// A span of time in minutes, as an ISO 8601 duration.
    Duration,
    Flag,
    /// An object that is there or not.
    Switch,
    /// One of the names in the schema.
    Choice,
    /// The ARN of an AWS resource.
    Arn,
    /// A URL, of which no read shows the query.
    Url,
    Pem,
    /// A text that no read shows.
    Secret,
    /// PEM that no read shows.
    SecretPem,
    /// The operands of an advanced filter, one in a line.
    Operands,
    /// A list of objects.
    Rows,
}

/// A further property of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Event Grid does not have it.
    Ours,
    /// Its flag is for creation alone.
    OnCreation,
    /// Its flag is for changes alone.
    OnChange,
    /// Its flag says of which type the object is that has it.
    Selects,
    /// It stays where flags describe another object of that type.
    Stays,
    /// Its flag may stand without a value.
    Optional,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub kind: Kind,
    /// Where it stands below `properties`, without the objects that are called so. `*` is the number of
    /// a row.
    pub path: &'static str,
    /// Its label in a form; empty where a form has no field for it.
    pub label: &'static str,
    /// Its hint in a form, without the range; see [`Setting::hint`].
    hint: &'static str,
    /// An example of its text; of a list, what an element is called.
    pub example: &'static str,
    /// The types of the object around it, or the delivery profiles, that have it; empty: all.
    pub of: &'static [&'static str],
    /// The meaning of each choice, by its name. The empty name means "not set".
    pub words: &'static [(&'static str, &'static str)],
    /// Its flag and the name of the flag's value. Settings of several profiles or types may share one.
    flag: &'static str,
    /// The help of its flag; empty where another setting's row has it.
    pub help: &'static str,
    /// Flags that must not be given beside its own.
    pub excludes: &'static [&'static str],
    /// A flag without which its own must not be given.
    pub requires: Option<&'static str>,
    /// A setting that its flag sets, too, with the text.
    pub with: Option<(&'static str, &'static str)>,
    /// The flag that takes it away, and its help.
    pub removal: Option<(&'static str, &'static str)>,
    marks: &'static [Mark],
}

/// Returns the settings of event subscriptions and of topics. No two have the same path.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().chain(TOPIC_SETTINGS)
}

/// Returns the setting at a path, in which numbers of rows may stand for `*`.
pub fn setting(path: &str) -> Option<&'static Setting> {
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = path.split('.').map(|part| if is_number(part) { "*" } else { part });
    let path = parts.collect::<Vec<_>>().join(".");
    all().find(|setting| setting.path == path)
}

/// Returns the settings in the rows of a list.
pub fn of_rows(list: &str) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |one| one.list() == Some(list))
}

/// Returns the settings that the flag of that name sets: one, or one for each profile or type.
pub fn of_flag(name: &str) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |one| one.flag().is_some_and(|(flag, _)| flag == name))
}

/// Objects that have their members in an object `properties`, beside their type.
const TYPED: [&str; 8] = [
    "destination",
    "authentication",
    "clientAssertion",
    "deadLetterDestination",
    "deliveryAttributeMappings",
    "messageGroupId",
    "partitionKey",
    "inputSchemaMapping",
];

/// Members that say of which type the object around them is.
const TYPES: [&str; 3] = ["type", "endpointType", "inputSchemaMappingType"];

/// Returns where a setting stands below `properties`.
fn pointer(path: &str) -> String {
    let mut pointer = String::new();
    let mut is_typed = false;
    for part in path.split('.') {
        let is_row = part == "*" || part.parse::<usize>().is_ok();
        if is_typed && !is_row && part != "name" && !TYPES.contains(&part) {
            pointer.push_str("/properties");
        }
        pointer.push('/');
        pointer.push_str(part);
        is_typed = TYPED.contains(&part) || is_typed && is_row;
    }
    pointer
}

impl Setting {
    /// Whether it has that mark.
    pub fn is(&self, mark: Mark) -> bool {
        self.marks.contains(&mark)
    }

    /// Whether no read shows it.
    pub fn is_secret(&self) -> bool {
        matches!(self.kind, Kind::Secret | Kind::SecretPem)
    }

    /// Returns the name of its flag, and of the flag's value.
    pub fn flag(&self) -> Option<(&'static str, &'static str)> {
        let flag = self.flag.split_once(' ').unwrap_or((self.flag, ""));
        (!self.flag.is_empty()).then_some(flag)
    }

    /// Returns its own name.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    /// Returns the list that has it in its rows.
    pub fn list(&self) -> Option<&'static str> {
        self.path.split_once(".*").map(|(list, _)| list)
    }

    /// Whether it says of which type the object around it is.
    pub fn is_type(&self) -> bool {
        TYPES.contains(&self.name())
    }

    /// Returns the path of the part that is removed with it: a type takes its object along.
    pub fn whole(&self) -> &'static str {
        let object = self.path.rsplit_once('.').filter(|_| self.is_type());
        object.map_or(self.path, |(object, _)| object)
    }

    /// Returns the path of the type of the object that has it.
    pub fn type_path(&self) -> Option<String> {
        let (mut object, _) = self.path.rsplit_once('.')?;
        if self.is_type() {
            (object, _) = object.trim_end_matches(".*").rsplit_once('.')?;
        }
        let name = |object: &'static str| object.trim_end_matches(".*").rsplit('.').next();
        while !TYPED.contains(&name(object)?) {
            (object, _) = object.rsplit_once('.')?;
        }
        let of_type = match name(object)? {
            "destination" | "deadLetterDestination" => "endpointType",
            "inputSchemaMapping" => "inputSchemaMappingType",
            _ => "type",
        };
        Some(format!("{object}.{of_type}"))
    }

    /// Whether an object of its type has it; `type_of` returns the text at a path.
    pub fn is_of(&self, type_of: &impl Fn(&str) -> String) -> bool {
        let Some(path) = self.type_path() else { return true };
        let is_any = self.of.is_empty() || self.has_one_type();
        let is_own = is_any || self.of.contains(&type_of(&path).as_str());
        is_own && setting(&path).is_none_or(|of_type| of_type.is_of(type_of))
    }

    /// Whether event subscriptions of topics with that delivery profile have it.
    pub fn is_of_profile(&self, profile: &str) -> bool {
        self.type_path().is_some() || self.of.is_empty() || self.of.contains(&profile)
    }
}

type Schema = LazyLock<(Reader, Value)>;

static OF_TOPICS: Schema = LazyLock::new(Reader::of::<TopicSettings>);
static OF_SUBSCRIPTIONS: Schema = LazyLock::new(Reader::of::<EventSubscriptionSettings>);

/// Returns the schema of the document that has a path.
fn schema_of(path: &str) -> &'static (Reader, Value) {
    let member = path.split('.').next().unwrap_or_default();
    let is_of_topic = OF_TOPICS.1["properties"].get(member).is_some();
    if is_of_topic { &OF_TOPICS } else { &OF_SUBSCRIPTIONS }
}

/// Returns the schemas of a path's setting, without references: one for each type that has it.
fn schemas(path: &str) -> Vec<&'static Value> {
    let (reader, whole) = schema_of(path);
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
fn names(path: &str) -> Vec<&'static str> {
    let (reader, _) = schema_of(path);
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
    fn has_one_type(&self) -> bool {
        self.type_path().is_some_and(|of_type| names(&of_type).len() == 1)
    }

    /// Returns a keyword of its schema.
    fn keyword(&self, keyword: &str) -> &'static Value {
        let (reader, _) = schema_of(self.path);
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

    /// Returns its hint in a form.
    pub fn hint(&self) -> String {
        let range = match self.kind {
            Kind::Number | Kind::Minutes => self.range(),
            _ => None,
        };
        // A hint may say itself what an empty field means.
        let default = self.default().filter(|_| !self.hint.contains("Empty:"));
        let empty = default.map(|default| format!("; {default} where empty"));
        let range = range.map(|range| format!("{range}{}.", empty.unwrap_or_default()));
        let parts = range.as_deref().into_iter().chain([self.hint]);
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the names of a choice, each with its meaning. The empty name means "not set", where
    /// the setting may be left out.
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

#[cfg(test)]
mod tests;

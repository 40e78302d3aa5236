//! The settings of an event subscription in one table, from which flags, fields of forms, what an export
//! leaves to variables, and the reference page come. Ranges, defaults and choices are those of the schemas.

mod document;
mod schema;
mod table;

pub use self::{document::Document, table::SETTINGS};

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

/// What else is true of a setting.
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
    /// What a form calls it; empty where a form has no field for it.
    pub label: &'static str,
    /// What a form says beside the range; see [`Setting::hint`].
    hint: &'static str,
    /// An example of its text; of a list, what an element is called.
    pub example: &'static str,
    /// The types of the object around it, or the delivery profiles, that have it; empty: all.
    pub of: &'static [&'static str],
    /// What choices are, by their names. The empty name stands for none.
    pub words: &'static [(&'static str, &'static str)],
    /// Its flag and what that calls its value. Settings of several profiles or types may share one.
    flag: &'static str,
    /// What its flag does; empty where another setting's row says so.
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

/// Returns the setting at a path, in which numbers of rows may stand for `*`.
pub fn setting(path: &str) -> Option<&'static Setting> {
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = path.split('.').map(|part| if is_number(part) { "*" } else { part });
    let path = parts.collect::<Vec<_>>().join(".");
    SETTINGS.iter().find(|setting| setting.path == path)
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
const TYPED: [&str; 7] = [
    "destination",
    "authentication",
    "clientAssertion",
    "deadLetterDestination",
    "deliveryAttributeMappings",
    "messageGroupId",
    "partitionKey",
];

/// Returns where a setting stands below `properties`.
fn pointer(path: &str) -> String {
    let mut pointer = String::new();
    let mut is_typed = false;
    for part in path.split('.') {
        let is_row = part == "*" || part.parse::<usize>().is_ok();
        if is_typed && !is_row && !matches!(part, "type" | "endpointType" | "name") {
            pointer.push_str("/properties");
        }
        pointer.push('/');
        pointer.push_str(part);
        is_typed = TYPED.contains(&part) || is_typed && is_row;
    }
    pointer
}

impl Setting {
    /// Whether that is true of it.
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
        matches!(self.name(), "type" | "endpointType")
    }

    /// Returns the path of what goes where it is taken away: a type takes its object along.
    pub fn whole(&self) -> &'static str {
        let object = self.path.rsplit_once('.').filter(|_| self.is_type());
        object.map_or(self.path, |(object, _)| object)
    }

    /// Returns the path of what says of which type the object is that has it.
    pub fn type_path(&self) -> Option<String> {
        let (mut object, _) = self.path.rsplit_once('.')?;
        if self.is_type() {
            (object, _) = object.trim_end_matches(".*").rsplit_once('.')?;
        }
        let name = object.trim_end_matches(".*").rsplit('.').next()?;
        let is_endpoint = matches!(name, "destination" | "deadLetterDestination");
        let of_type = if is_endpoint { "endpointType" } else { "type" };
        TYPED.contains(&name).then(|| format!("{object}.{of_type}"))
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

#[cfg(test)]
mod tests;

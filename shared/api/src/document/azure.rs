//! Documents as Azure's tools print them and Microsoft's pages show them, brought into the one form
//! that is read.
//!
//! A document of Azure's resource manager has the members of a resource, and its settings in
//! `properties`; so do the parts of it that have a type. `az` and Microsoft's SDKs print the same
//! without `properties`. Source: azure-mgmt-eventgrid, `_attribute_map` of its models.

use std::mem;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{Code, Problems, path_of_member, quoted, read_at};

const PROPERTIES: &str = "properties";

/// Members of a resource that only reads return, or that say where Azure or a template has it. They
/// are ignored, so that what a read returned can be written back.
pub(crate) const ENVELOPE: [&str; 16] = [
    "apiVersion",
    "comments",
    "dependsOn",
    "etag",
    "extendedLocation",
    "id",
    "location",
    "metadata",
    "name",
    "resourceGroup",
    "scope",
    "sku",
    "systemData",
    "tags",
    "type",
    "zones",
];

/// Members of templates that stand for more than one document.
const OF_TEMPLATES: [NotSupported; 3] = [
    ("condition", is_nothing, "leave the resource out, or leave out its condition"),
    ("copy", is_nothing, "write a document for each resource"),
    ("resources", is_nothing, "write each resource as a document of its own"),
];

/// Whether a value of a template's member asks for nothing.
fn is_nothing(value: &Value) -> bool {
    is_empty(value) || *value == true
}

/// A type of Azure's, in lower case.
fn type_of_azure(value: &Value) -> Option<String> {
    let name = value.as_str()?.to_ascii_lowercase();
    name.starts_with("microsoft.").then_some(name)
}

/// Whether a value asks for nothing: an empty list, object or text.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// A member of Event Grid's that nothing here goes by: which values of it ask for nothing, and what to
/// write instead of the others.
pub(crate) type NotSupported = (&'static str, fn(&Value) -> bool, &'static str);

/// A document that is brought into the form that is read.
#[derive(Debug)]
pub(crate) struct Form {
    document: Value,
    /// Where parts are now, and where they were.
    moved: Vec<(String, String)>,
    /// Which texts are expressions of a template, if any are.
    is_expression: Option<fn(&str) -> bool>,
    problems: Problems,
    /// Parts of which no further problems are listed: what stands in their place is refused.
    silent: Vec<String>,
}

impl Form {
    /// Begins with a document as it was given. `is_flat` says whether its settings are among the
    /// members of the resource, of which `own` are some; it is asked only where there are no
    /// `properties`.
    pub(crate) fn of(
        document: &Value,
        own: &[&str],
        is_flat: impl FnOnce(&Map<String, Value>) -> bool,
    ) -> Self {
        let mut form = Self {
            document: document.clone(),
            moved: Vec::new(),
            is_expression: None,
            problems: Problems::default(),
            silent: Vec::new(),
        };
        if form.document.as_object().is_some_and(is_flat) {
            let of_templates = OF_TEMPLATES.map(|(name, ..)| name);
            form.wrap("", &[&ENVELOPE[..], &of_templates, own].concat());
        }
        form.is_expression = expressions_of(&form.document);
        form
    }

    /// Puts the members of the object at a JSON pointer into `properties`, except its `own`, where it
    /// has other ones and no `properties`.
    pub(crate) fn wrap(&mut self, pointer: &str, own: &[&str]) {
        let Some(members) = self.members(pointer) else { return };
        let is_own = |name: &str| own.contains(&name);
        let has_others = members.keys().any(|name| name != PROPERTIES && !is_own(name));
        if !has_others || members.get(PROPERTIES).is_some_and(|value| !value.is_null()) {
            return;
        }
        members.remove(PROPERTIES);
        let (mut all, rest): (Map<_, _>, Map<_, _>) =
            mem::take(members).into_iter().partition(|(name, _)| is_own(name));
        all.insert(PROPERTIES.to_owned(), Value::Object(rest));
        *members = all;
        self.moved.push((path_of(&format!("{pointer}/{PROPERTIES}")), path_of(pointer)));
    }

    /// Does the same to each object of a list. `az` may print the list as the `value` of an object.
    pub(crate) fn wrap_each(&mut self, pointer: &str, own: &[&str]) {
        let value = format!("{pointer}/value");
        if self.document.pointer(&value).is_some_and(Value::is_array) {
            let list = self.document.pointer_mut(&value).map(Value::take);
            if let Some((place, list)) = self.document.pointer_mut(pointer).zip(list) {
                *place = list;
                self.moved(pointer, &value);
            }
        }
        let count = self.document.pointer(pointer).and_then(Value::as_array).map_or(0, Vec::len);
        (0..count).for_each(|index| self.wrap(&format!("{pointer}/{index}"), own));
    }

    /// Takes the envelope of a resource out. `is_own` gets a type of Azure's in lower case and says
    /// whether it is a type of this resource.
    pub(crate) fn take_envelope(&mut self, is_own: fn(&str) -> bool) {
        let of_azure = self.document.get("type").and_then(type_of_azure);
        if of_azure.is_some_and(|name| !is_own(&name)) {
            let of_others: NotSupported =
                ("type", |_| false, "this is the document of another kind of resource");
            self.refuse("", &[of_others]);
        }
        self.refuse("", &OF_TEMPLATES);
        self.take("", &ENVELOPE);
    }

    /// Takes members out of the object at a JSON pointer: they are accepted and ignored.
    pub(crate) fn take(&mut self, pointer: &str, names: &[&str]) {
        if let Some(members) = self.members(pointer) {
            members.retain(|name, _| !names.contains(&name.as_str()));
        }
    }

    /// Takes members out that this deployment does not support. A value that asks for nothing is
    /// accepted, because Event Grid's reads include it.
    pub(crate) fn refuse(&mut self, pointer: &str, names: &[NotSupported]) {
        for (name, asks_for_nothing, instead) in names {
            let value = self.members(pointer).and_then(|members| members.remove(*name));
            let value = value.filter(|value| !value.is_null() && !asks_for_nothing(value));
            let Some(value) = value else { continue };
            let found = value.as_str().map(|text| format!("{}, which is ", quoted(text)));
            let found = found.unwrap_or_default();
            let rule = format!("is {found}not supported yet by this deployment; {instead}");
            self.add(Code::NotSupportedYet, &format!("{pointer}/{name}"), rule);
        }
    }

    /// Adds a problem of the part at a JSON pointer.
    pub(crate) fn add(&mut self, code: Code, pointer: &str, rule: impl Into<String>) {
        let path = self.as_given(&path_of(pointer));
        self.problems.add(code, path, rule);
    }

    /// Takes the member at a JSON pointer out, and reads it as `T`; `None` if there is none.
    pub(crate) fn take_as<T: ToSchema + DeserializeOwned + Default>(
        &mut self,
        pointer: &str,
    ) -> Option<T> {
        let (parent, name) = pointer.rsplit_once('/')?;
        let part = self.members(parent)?.remove(name).filter(|part| !part.is_null())?;
        let path = self.as_given(&path_of(pointer));
        Some(read_at(&part, &mut self.problems.at(&path)))
    }

    /// Lists no further problem of the part at a JSON pointer.
    pub(crate) fn silence(&mut self, pointer: &str) {
        self.silent.push(path_of(pointer));
    }

    /// Moves the part at one JSON pointer to another, which has none.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        let place = |pointer: &str| {
            let (parent, name) = pointer.rsplit_once('/')?;
            Some((parent.to_owned(), name.to_owned()))
        };
        let Some(((from_parent, from_name), (to_parent, to_name))) = place(from).zip(place(to))
        else {
            return;
        };
        let part = self.members(&from_parent).and_then(|members| members.remove(&from_name));
        if let Some((part, members)) = part.zip(self.members(&to_parent)) {
            members.insert(to_name, part);
            self.moved(to, from);
        }
    }

    /// Notes that the part at one JSON pointer stood at another.
    pub(crate) fn moved(&mut self, now: &str, before: &str) {
        self.moved.push((path_of(now), path_of(before)));
    }

    /// Names a part of the document by where it was.
    fn as_given(&self, path: &str) -> String {
        let mut path = path.to_owned();
        for (now, before) in self.moved.iter().rev() {
            let rest = path.strip_prefix(now.as_str());
            let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
            path = match rest {
                Some(rest) if before.is_empty() => rest.trim_start_matches('.').to_owned(),
                Some(rest) => format!("{before}{rest}"),
                None => path,
            };
        }
        path
    }

    /// Returns the members of the object at a JSON pointer.
    pub(crate) fn members(&mut self, pointer: &str) -> Option<&mut Map<String, Value>> {
        self.document.pointer_mut(pointer)?.as_object_mut()
    }

    /// Returns the document in the form that is read.
    pub(crate) fn document(&self) -> &Value {
        &self.document
    }

    /// Reads the document. Problems have the paths of the document as it was given.
    pub(crate) fn read<T>(
        self,
        read: impl FnOnce(&Value, &mut Problems) -> Option<T>,
    ) -> Result<T, Problems> {
        let mut others = Problems::default();
        let settings = self.document.get(PROPERTIES).unwrap_or(&Value::Null);
        if let Some(is_one) = self.is_expression {
            find_expressions(settings, PROPERTIES, is_one, &mut others);
        }
        let mut problems = Problems::default();
        let read = read(&self.document, &mut problems);
        // A part that is wrong in two ways, such as an expression, is listed once.
        problems.listed.retain(|one| {
            !self.silent.contains(&one.path) && others.iter().all(|other| one.path != other.path)
        });
        others.add_all(problems);
        for problem in &mut others.listed {
            problem.path = self.as_given(&problem.path);
        }
        others.listed.retain(|one| self.problems.iter().all(|other| one.path != other.path));
        let mut problems = self.problems;
        problems.add_all(others);
        problems.or(read)
    }
}

/// Refuses expressions of templates: taken literally, they would silently match nothing.
fn find_expressions(value: &Value, path: &str, is_one: fn(&str) -> bool, problems: &mut Problems) {
    match value {
        Value::String(text) if is_one(text) => {
            // It is not repeated: it may hold a secret.
            let rule = match text.starts_with("[[") {
                true => "begins with [[, which stands for [ in a template: write the text itself",
                false => {
                    "is an expression of a template ([…]), which is not evaluated: write its value"
                }
            };
            problems.add(Code::InvalidValue, path, rule);
        }
        Value::Array(all) => all.iter().enumerate().for_each(|(index, one)| {
            find_expressions(one, &format!("{path}[{index}]"), is_one, problems);
        }),
        Value::Object(members) => members.iter().for_each(|(name, one)| {
            find_expressions(one, &path_of_member(path, name), is_one, problems);
        }),
        _ => {}
    }
}

/// Whether a template computes a text, or escapes it. Source: Azure Resource Manager, "Syntax and
/// expressions in ARM templates".
fn is_bracketed(text: &str) -> bool {
    text.starts_with('[') && text.ends_with(']')
}

/// Whether a text calls a function of a template: in a document that has lost its `apiVersion`, other
/// texts in brackets may be meant.
fn is_call(text: &str) -> bool {
    let name = text.strip_prefix('[').and_then(|rest| rest.split_once('('));
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric());
    text.ends_with(']') && name.is_some_and(|(name, _)| is_name(name))
}

/// Returns which texts of a document are expressions.
fn expressions_of(document: &Value) -> Option<fn(&str) -> bool> {
    if document.get("apiVersion").is_some_and(|version| !version.is_null()) {
        return Some(is_bracketed);
    }
    is_of_azure(document).then_some(is_call as fn(&str) -> bool)
}

/// Whether a document has the type of a resource of Azure's, or a template's expression beside its
/// settings.
fn is_of_azure(document: &Value) -> bool {
    let members = document.as_object().into_iter().flatten();
    let mut others = members.filter(|(name, _)| *name != PROPERTIES).map(|(_, value)| value);
    document.get("type").is_some_and(|name| type_of_azure(name).is_some())
        || others.any(|value| match value {
            Value::Array(all) => all.iter().filter_map(Value::as_str).any(is_call),
            value => value.as_str().is_some_and(is_call),
        })
}

/// `/a/0/b` as `a[0].b`.
fn path_of(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        path = match part.parse::<usize>() {
            Ok(index) => format!("{path}[{index}]"),
            Err(_) => path_of_member(&path, part),
        };
    }
    path
}

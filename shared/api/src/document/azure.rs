//! Documents as Azure's tools print them and Microsoft's pages show them, brought into the one form
//! that is read.
//!
//! A document of Azure's resource manager has the members of a resource, and its settings in
//! `properties`; so do the parts of it that have a type. `az` and Microsoft's SDKs print the same
//! without `properties`. Source: azure-mgmt-eventgrid, `_attribute_map` of its models.

use std::{borrow::Cow, mem};

use serde_json::{Map, Value};

use super::{Code, Object, Problems, path_of_member};

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
const OF_TEMPLATES: [(&str, &str); 3] = [
    ("condition", "leave the resource out, or leave out its condition"),
    ("copy", "write a document for each resource"),
    ("resources", "write each resource as a document of its own"),
];

/// Begins to read a resource: its members other than its settings. `is_own` gets a type of Azure's in
/// lower case and says whether it is a type of this resource.
pub(crate) fn read_envelope(
    root: &mut Object<'_>,
    is_own: impl Fn(&str) -> bool,
    problems: &mut Problems,
) {
    let is_taken = |value: &Value| type_of_azure(value).is_none_or(|name| is_own(&name));
    root.not_yet("type", is_taken, "this is the document of another kind of resource", problems);
    root.ignore(&ENVELOPE);
    for (name, instead) in OF_TEMPLATES {
        root.not_yet(name, |value| is_empty(value) || *value == true, instead, problems);
    }
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

/// A document in the form that is read.
#[derive(Debug)]
pub(crate) struct Form<'d> {
    document: Cow<'d, Value>,
    /// The paths of `properties` that the document does not have.
    added: Vec<String>,
}

impl<'d> Form<'d> {
    /// Begins with a document as it was given. `is_flat` says whether its settings are among the
    /// members of the resource, of which `own` are some; it is asked only where there are no
    /// `properties`.
    pub(crate) fn of(
        document: &'d Value,
        own: &[&str],
        is_flat: impl FnOnce(&Map<String, Value>) -> bool,
    ) -> Self {
        let mut form = Self { document: Cow::Borrowed(document), added: Vec::new() };
        if document.as_object().is_some_and(is_flat) {
            let of_templates = OF_TEMPLATES.map(|(name, _)| name);
            form.wrap("", &[&ENVELOPE[..], &of_templates, own].concat());
        }
        form
    }

    /// Puts the members of the object at a JSON pointer into `properties`, except its `own`, where it
    /// has other ones and no `properties`.
    pub(crate) fn wrap(&mut self, pointer: &str, own: &[&str]) {
        let is_flat = |members: &Map<String, Value>| {
            members.get(PROPERTIES).is_none_or(Value::is_null)
                && members.keys().any(|name| name != PROPERTIES && !own.contains(&name.as_str()))
        };
        let found = self.document.pointer(pointer).and_then(Value::as_object);
        if !found.is_some_and(is_flat) {
            return;
        }
        if let Some(Value::Object(members)) = self.document.to_mut().pointer_mut(pointer) {
            members.remove(PROPERTIES);
            let (mut all, rest): (Map<_, _>, Map<_, _>) =
                mem::take(members).into_iter().partition(|(name, _)| own.contains(&&**name));
            all.insert(PROPERTIES.to_owned(), Value::Object(rest));
            *members = all;
            self.added.push(path_of(&format!("{pointer}/{PROPERTIES}")));
        }
    }

    /// Does the same to each object of a list. `az` may print the list as the `value` of an object.
    pub(crate) fn wrap_each(&mut self, pointer: &str, own: &[&str]) {
        let value = format!("{pointer}/value");
        if self.document.pointer(&value).is_some_and(Value::is_array) {
            let document = self.document.to_mut();
            let list = document.pointer_mut(&value).map(Value::take);
            if let Some((place, list)) = document.pointer_mut(pointer).zip(list) {
                *place = list;
            }
        }
        let count = self.document.pointer(pointer).and_then(Value::as_array).map_or(0, Vec::len);
        (0..count).for_each(|index| self.wrap(&format!("{pointer}/{index}"), own));
    }

    /// The document in the form that is read.
    pub(crate) fn document(&self) -> &Value {
        &self.document
    }

    /// Reads the document. Problems have the paths of the document as it was given.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Value) -> Result<T, Problems>,
    ) -> Result<T, Problems> {
        let mut problems = Problems::default();
        let settings = self.document.get(PROPERTIES).unwrap_or(&Value::Null);
        if self.document.get("apiVersion").is_some_and(|version| !version.is_null()) {
            find_expressions(settings, PROPERTIES, is_bracketed, &mut problems);
        } else if is_of_azure(&self.document) {
            find_expressions(settings, PROPERTIES, is_call, &mut problems);
        }
        let read = match read(&self.document) {
            Ok(read) => Some(read),
            Err(mut others) => {
                // What an expression breaks, too, is not worth a second line.
                others.listed.retain(|other| problems.iter().all(|one| one.path != other.path));
                problems.add_all(others);
                None
            }
        };
        for problem in &mut problems.listed {
            self.as_given(&mut problem.path);
        }
        problems.or(read)
    }

    /// Takes what was added out of a path.
    fn as_given(&self, path: &mut String) {
        // The inner ones first: they begin with the outer ones.
        for added in self.added.iter().rev() {
            let Some(rest) = path.strip_prefix(added) else { continue };
            let Some(outer) = added.strip_suffix(PROPERTIES) else { continue };
            // A member with an odd name is in brackets, without a dot.
            match rest.strip_prefix('.') {
                Some(rest) => *path = format!("{outer}{rest}"),
                None if rest.starts_with('[') => {
                    *path = format!("{}{rest}", outer.trim_end_matches('.'));
                }
                None => {}
            }
        }
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

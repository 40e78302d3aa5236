//! Reads documents as types. The rules in the schema of a type are checked, and every problem is listed
//! with its path; members that break a rule are left out, so that the rest is read too.
//!
//! serde alone stops at the first problem.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{At, Code, Problems, kind, one_of, quoted};
use crate::schema::Time;

/// Reads a whole document as `T`. Members that are not there, are null or break a rule have their
/// defaults; whether that matters is said by the problems.
pub fn read<T: ToSchema + DeserializeOwned + Default>(
    document: &Value,
    problems: &mut Problems,
) -> T {
    read_at(document, &mut problems.at(""))
}

/// Reads a whole document as `T`, or returns its problems.
pub fn read_whole<T: ToSchema + DeserializeOwned + Default>(
    document: &Value,
) -> Result<T, Problems> {
    let mut problems = Problems::default();
    let read = read(document, &mut problems);
    problems.or(Some(read))
}

/// Reads a part of a document as `T`.
pub(crate) fn read_at<T: ToSchema + DeserializeOwned + Default>(
    part: &Value,
    at: &mut At<'_>,
) -> T {
    let (reader, schema) = Reader::of::<T>();
    let Some(read) = reader.read(&schema, part, at) else {
        return T::default();
    };
    serde_json::from_value(read).unwrap_or_else(|error| {
        at.invalid(error.to_string());
        T::default()
    })
}

/// The schemas that others refer to, by name.
pub(crate) struct Reader {
    schemas: BTreeMap<String, Value>,
}

impl Reader {
    /// Returns the reader of a type, and its schema.
    pub(crate) fn of<T: ToSchema>() -> (Self, Value) {
        let mut schemas = Vec::new();
        T::schemas(&mut schemas);
        let json = |schema| serde_json::to_value(schema).unwrap_or_default();
        let schemas = schemas.into_iter().map(|(name, schema)| (name, json(schema))).collect();
        (Self { schemas }, serde_json::to_value(T::schema()).unwrap_or_default())
    }

    /// Returns the schema itself: not a reference to it, and without the alternative null.
    pub(crate) fn resolve<'s>(&'s self, schema: &'s Value) -> &'s Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap_or_default();
            return self.schemas.get(name).map_or(schema, |schema| self.resolve(schema));
        }
        match schema["oneOf"].as_array().map(Vec::as_slice) {
            Some([one, null] | [null, one]) if null["type"] == "null" => self.resolve(one),
            _ => schema,
        }
    }

    /// Returns the value in the form that serde takes; `None` if it breaks a rule.
    fn read(&self, schema: &Value, value: &Value, at: &mut At<'_>) -> Option<Value> {
        let default = &schema["default"];
        let schema = self.resolve(schema);
        let mut wrong_type = |expected: &str| {
            at.add(Code::WrongType, format!("must be {expected}, but is {}", kind(value)));
            None
        };
        match (type_of(schema), value) {
            ("object", Value::Object(members)) => {
                Some(Value::Object(self.read_members(schema, members, at)))
            }
            ("object", _) => wrong_type("an object"),
            ("array", Value::Array(elements)) => self.read_elements(schema, elements, at),
            ("array", _) => wrong_type("an array"),
            ("string", Value::String(text)) => read_text(schema, default, text, at),
            ("string", _) => wrong_type("a string"),
            ("integer", value) => read_number(schema, default, value, at),
            ("number", value) if schema["minimum"].is_number() => read_real(schema, value, at),
            ("boolean", value) => match flag(value) {
                Some(flag) => Some(Value::Bool(flag)),
                None => wrong_type(&format!("true or false{}", default_note(default))),
            },
            _ => match (self.tagged(schema), value) {
                (Some((tag, variants)), Value::Object(members)) => {
                    self.read_variant(tag, &variants, members, at)
                }
                (Some(_), _) => wrong_type("an object"),
                (None, value) => Some(value.clone()),
            },
        }
    }

    fn read_members(
        &self,
        schema: &Value,
        given: &Map<String, Value>,
        at: &mut At<'_>,
    ) -> Map<String, Value> {
        let known = schema["properties"].as_object();
        let others = match known {
            Some(_) => schema.get("additionalProperties").filter(|others| others.is_object()),
            None => schema.get("additionalProperties").or(Some(&Value::Null)),
        };
        let mut read = Map::new();
        for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
            let at = &mut at.member(name);
            let Some(schema) = known.and_then(|known| known.get(name)).or(others) else {
                let settable = known.into_iter().flatten();
                let settable = settable.filter(|(_, schema)| schema["readOnly"] != true);
                let settable: Vec<_> = settable.map(|(name, _)| name.as_str()).collect();
                let rule = format!("is not known; members here are {}", settable.join(", "));
                at.add(Code::UnknownMember, rule);
                continue;
            };
            // Members that only reads return may be written back.
            if schema["readOnly"] != true
                && let Some(value) = self.read(schema, value, at)
            {
                read.insert(name.clone(), value);
            }
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if given.get(name).is_none_or(Value::is_null) {
                let what = known.and_then(|known| known.get(name)).map(|schema| self.what(schema));
                let rule = format!("is required: {}", what.unwrap_or_default());
                at.member(name).add(Code::MissingMember, rule);
            }
        }
        read
    }

    /// Says what a member is, for a message that it is missing.
    fn what(&self, schema: &Value) -> String {
        let own = schema["description"].as_str().or(schema["oneOf"][0]["description"].as_str());
        let schema = self.resolve(schema);
        let names = names_of(schema);
        let Some(text) = own.or(schema["description"].as_str().filter(|_| names.is_empty())) else {
            return one_of(&names);
        };
        let text = text.trim_end_matches('.').replace('\n', " ");
        let first = text.chars().next().map(|first| first.to_ascii_lowercase());
        first.into_iter().chain(text.chars().skip(1)).collect()
    }

    fn read_elements(&self, schema: &Value, elements: &[Value], at: &mut At<'_>) -> Option<Value> {
        if let Some(range) = broken_range(schema, "Items", elements.len()) {
            let what = elements_of(&at.path);
            let rule = format!("must have {range} {what}, but has {}", elements.len());
            at.add(Code::OutOfRange, rule);
            return None;
        }
        let read = elements.iter().enumerate().filter_map(|(index, element)| {
            self.read(&schema["items"], element, &mut at.element(index))
        });
        Some(read.collect())
    }

    /// Returns the forms of a value: the schema itself, where it has but one.
    pub(crate) fn variants<'s>(&'s self, schema: &'s Value) -> Vec<&'s Value> {
        let schema = self.resolve(schema);
        let several = schema["oneOf"].as_array().into_iter().flatten();
        let several: Vec<_> = several.map(|variant| self.resolve(variant)).collect();
        if several.is_empty() { vec![schema] } else { several }
    }

    /// Returns the forms that a value may have, and the member whose name tells them apart.
    fn tagged<'s>(&'s self, schema: &'s Value) -> Option<(&'s str, Vec<&'s Value>)> {
        let variants = schema["oneOf"].as_array()?.iter().map(|variant| self.resolve(variant));
        let variants: Vec<_> = variants.collect();
        let members = variants.first()?["properties"].as_object()?;
        let (tag, _) = members.iter().find(|(_, member)| !names_of(member).is_empty())?;
        Some((tag, variants))
    }

    /// Reads one of several forms.
    fn read_variant(
        &self,
        tag: &str,
        variants: &[&Value],
        given: &Map<String, Value>,
        at: &mut At<'_>,
    ) -> Option<Value> {
        let names: Vec<_> =
            variants.iter().flat_map(|variant| names_of(&variant["properties"][tag])).collect();
        let given_name = match given.get(tag) {
            None | Some(Value::Null) => {
                let rule = format!("is required: {}", one_of(&names));
                at.member(tag).add(Code::MissingMember, rule);
                return None;
            }
            Some(Value::String(name)) => name,
            Some(other) => {
                let rule = format!("must be a string, but is {}", kind(other));
                at.member(tag).add(Code::WrongType, rule);
                return None;
            }
        };
        let is_named = |variant: &&&Value| {
            let names = names_of(&variant["properties"][tag]);
            names.iter().any(|name| name.eq_ignore_ascii_case(given_name))
        };
        let Some(variant) = variants.iter().find(is_named) else {
            let rule = format!("must be {}, but is {}", one_of(&names), quoted(given_name));
            at.member(tag).invalid(rule);
            return None;
        };
        let read = self.read_members(variant, given, at);
        let required = variant["required"].as_array().into_iter().flatten();
        let is_whole = required.filter_map(Value::as_str).all(|name| read.contains_key(name));
        is_whole.then_some(Value::Object(read))
    }
}

/// Returns the names that a schema allows; none where it allows any text.
pub(crate) fn names_of(schema: &Value) -> Vec<&str> {
    schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns the type of a schema, beside null; empty where it has none.
fn type_of(schema: &Value) -> &str {
    match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        one => one.as_str(),
    }
    .unwrap_or_default()
}

/// Returns what the elements of a list are, by its name: `delivery attributes`.
fn elements_of(path: &str) -> String {
    let name = path.rsplit('.').next().unwrap_or_default();
    let word = |c: char| match c {
        c if c.is_ascii_uppercase() => format!(" {}", c.to_ascii_lowercase()),
        c => c.to_string(),
    };
    match name.ends_with('s') {
        true => name.chars().map(word).collect(),
        false => "elements".to_owned(),
    }
}

fn default_note(default: &Value) -> String {
    match default {
        Value::Null => String::new(),
        Value::String(name) => format!(" (default {name})"),
        other => format!(" (default {other})"),
    }
}

fn read_text(schema: &Value, default: &Value, text: &str, at: &mut At<'_>) -> Option<Value> {
    let names = names_of(schema);
    if !names.is_empty() {
        // Event Grid's own clients write names in any case.
        let name = names.iter().find(|name| name.eq_ignore_ascii_case(text));
        if name.is_none() {
            let (names, note) = (one_of(&names), default_note(default));
            let rule = format!("must be {names}{note}, but is {}", quoted(text));
            at.invalid(rule);
        }
        return name.map(|name| Value::from(*name));
    }
    if schema["format"] == "date-time" && text.parse::<Time>().is_err() {
        let rule = format!(
            "must be a date and time of RFC 3339, such as 2030-01-01T00:00:00Z, but is {}",
            quoted(text)
        );
        at.invalid(rule);
        return None;
    }
    let chars = text.chars().count();
    if let Some(range) = broken_range(schema, "Length", chars) {
        // The text is not repeated: it may be a secret.
        let rule = format!("must have {range} characters, but has {chars}");
        at.add(Code::OutOfRange, rule);
        return None;
    }
    Some(Value::from(text))
}

/// Returns the range of a length or a number of elements, for a message, where `count` is outside.
fn broken_range(schema: &Value, what: &str, count: usize) -> Option<String> {
    let bound = |name: &str| schema[format!("{name}{what}")].as_u64();
    let (least, most) = (bound("min").unwrap_or(0), bound("max").unwrap_or(u64::MAX));
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    if (least..=most).contains(&count) {
        return None;
    }
    Some(match (least, most) {
        (0, most) => format!("at most {most}"),
        (least, u64::MAX) => format!("at least {least}"),
        (least, most) => format!("{least} to {most}"),
    })
}

/// Reads a whole number; `30.0` is one, as in JSON Schema.
fn read_number(schema: &Value, default: &Value, value: &Value, at: &mut At<'_>) -> Option<Value> {
    let (least, most) = (schema["minimum"].as_u64().unwrap_or(0), schema["maximum"].as_u64());
    // A cast ends at the bounds of the integers, which no range reaches.
    let whole_part =
        |number: f64| (number >= 0.0 && number.fract() == 0.0).then_some(number as u64);
    let given = value.as_u64().or_else(|| value.as_f64().and_then(whole_part));
    if let Some(number) = given.filter(|number| (least..=most.unwrap_or(u64::MAX)).contains(number))
    {
        return Some(number.into());
    }
    let code = if value.is_number() { Code::OutOfRange } else { Code::WrongType };
    let found = if value.is_number() { value.to_string() } else { kind(value).to_owned() };
    let range = match most {
        Some(most) => format!("from {least} to {most}"),
        None => format!("of at least {least}"),
    };
    let note = default_note(default);
    at.add(code, format!("must be a whole number {range}{note}, but is {found}"));
    None
}

/// Reads a number that has a least value.
fn read_real(schema: &Value, value: &Value, at: &mut At<'_>) -> Option<Value> {
    let least = schema["minimum"].as_f64().unwrap_or_default();
    let Some(given) = value.as_f64() else {
        at.add(Code::WrongType, format!("must be a number, but is {}", kind(value)));
        return None;
    };
    if given < least {
        at.add(Code::OutOfRange, format!("must be at least {least}, but is {value}"));
        return None;
    }
    Some(value.clone())
}

/// Reads a boolean. Microsoft's own samples write it as a string, too, in any case.
pub(crate) fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use gridpost_core::{event::DeliverySchema, secret::Secret};
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;
    use crate::schema::stand_in;

    /// A part.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "camelCase", default)]
    struct Part {
        #[schema(minimum = 1, maximum = 10, default = 7)]
        count: Option<u32>,
    }

    /// One of two forms.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
    #[serde(tag = "kind", content = "properties")]
    enum Form {
        Left(Part),
        Right(Part),
    }

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "camelCase", default)]
    struct Whole {
        /// An object with `count`.
        #[schema(required = true)]
        part: Option<Part>,
        /// In which schema.
        #[schema(value_type = Option<stand_in::DeliverySchema>, default = "EventGridSchema")]
        delivery_schema: Option<DeliverySchema>,
        form: Option<Form>,
        #[schema(min_length = 1, max_length = 3, value_type = Option<String>)]
        secret: Option<Secret>,
        is_on: Option<bool>,
        at: Option<Time>,
        #[schema(max_items = 2)]
        labels: Option<Vec<String>>,
        /// Where it is.
        #[schema(read_only)]
        id: Option<String>,
    }

    #[test]
    fn what_breaks_a_rule_is_named_and_the_rest_is_read() {
        let document = json!({
            "part": {"count": 11, "x": 1},
            "deliverySchema": "eventgridschema",
            "form": {"kind": "left", "properties": {"count": 3.0}},
            "secret": "abcd",
            "isOn": "TRUE",
            "at": "2030-01-01T00:00:00Z",
            "labels": [5, "a"],
            "id": "x",
            "x y": null,
            "": 0,
        });
        let mut problems = Problems::default();
        let read: Whole = read(&document, &mut problems);
        let want = Whole {
            part: Some(Part { count: None }),
            delivery_schema: Some(DeliverySchema::EventGridSchema),
            form: Some(Form::Left(Part { count: Some(3) })),
            is_on: Some(true),
            at: "2030-01-01T00:00:00Z".parse().ok(),
            labels: Some(vec!["a".to_owned()]),
            ..Whole::default()
        };
        assert_eq!(read, want);
        let listed: Vec<_> = problems.iter().map(ToString::to_string).collect();
        let want = [
            "[\"\"] is not known; members here are at, deliverySchema, form, isOn, labels, part, secret",
            "labels[0] must be a string, but is a number",
            "part.count must be a whole number from 1 to 10 (default 7), but is 11",
            "part.x is not known; members here are count",
            "secret must have 1 to 3 characters, but has 4",
        ];
        assert_eq!(listed, want);
    }

    #[test]
    fn each_rule_has_its_message() {
        let part = json!({});
        let table = [
            (json!([]), "$ must be an object, but is an array"),
            (json!({}), "part is required: an object with `count`"),
            (json!({"part": 1}), "part must be an object, but is a number"),
            (
                json!({"part": {"count": "1"}}),
                "part.count must be a whole number from 1 to 10 (default 7), but is a string",
            ),
            (
                json!({"part": part, "deliverySchema": "Xml"}),
                "deliverySchema must be 'EventGridSchema', 'CloudEventSchemaV1_0' or \
                 'CustomInputSchema' (default EventGridSchema), but is \"Xml\"",
            ),
            (json!({"part": part, "form": 1}), "form must be an object, but is a number"),
            (json!({"part": part, "form": {}}), "form.kind is required: 'Left' or 'Right'"),
            (
                json!({"part": part, "form": {"kind": "Up"}}),
                "form.kind must be 'Left' or 'Right', but is \"Up\"",
            ),
            (
                json!({"part": part, "form": {"kind": "Left"}}),
                "form.properties is required: a part",
            ),
            (json!({"part": part, "isOn": 1}), "isOn must be true or false, but is a number"),
            (
                json!({"part": part, "at": "noon"}),
                "at must be a date and time of RFC 3339, such as 2030-01-01T00:00:00Z, but is \"noon\"",
            ),
            (
                json!({"part": part, "labels": ["a", "b", "c"]}),
                "labels must have at most 2 labels, but has 3",
            ),
        ];
        for (document, want) in table {
            let mut problems = Problems::default();
            read::<Whole>(&document, &mut problems);
            let listed: Vec<_> = problems.iter().map(ToString::to_string).collect();
            assert_eq!(listed, [want], "{document}");
        }
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_fraction_of_nothing() {
        for (value, want) in [
            (json!(7), Some(7)),
            (json!(7.0), Some(7)),
            (json!(70e-1), Some(7)),
            (json!(-0.0), None),
            (json!(7.5), None),
            (json!(-7.0), None),
            (json!(1e300), None),
            (json!("7"), None),
        ] {
            let mut problems = Problems::default();
            let Part { count } = read(&json!({"count": value}), &mut problems);
            assert_eq!((count, problems.is_empty()), (want, want.is_some()), "{value}");
        }
    }
}

//! Filters as Event Grid's documentation describes them, with one loop for each operator: slow, but
//! simple enough to check against the documentation. Tests compare the compiled filters with them.

use std::collections::BTreeMap;

use gridpost_core::{event::ParsedEvent, topic::InputSchema};
use serde_json::{Value, value::RawValue};

/// The paths of the parts of a filter's document that refuse an event of a topic with that schema;
/// empty if the filter matches. Operators have the names that reads give them. `None` if the event
/// can't be read into plain values: it is too deep, or has a number beyond the machine's range.
pub fn refused_by(
    filter: &Value,
    schema: InputSchema,
    event: &ParsedEvent<'_>,
) -> Option<Vec<String>> {
    let is_of_a_type = match &filter["includedEventTypes"] {
        Value::Array(types) => types.iter().any(|name| *name == *event.event_type),
        _ => true,
    };
    let cased = |text: &str| -> Vec<char> {
        let is_case_sensitive = filter["isSubjectCaseSensitive"] == true;
        text.chars().map(|char| if is_case_sensitive { char } else { upper(char) }).collect()
    };
    let subject = cased(&event.subject);
    let part = |name: &str| cased(filter[name].as_str().unwrap_or_default());
    let mut refused = Vec::new();
    let mut note = |holds: bool, name: String| refused.extend((!holds).then_some(name));
    note(is_of_a_type, "includedEventTypes".to_owned());
    note(subject.starts_with(&part("subjectBeginsWith")), "subjectBeginsWith".to_owned());
    note(subject.ends_with(&part("subjectEndsWith")), "subjectEndsWith".to_owned());
    let event = Event::read(schema, event)?;
    let looks_into_arrays = filter["enableAdvancedFilteringOnArrays"] == true;
    let filters = filter["advancedFilters"].as_array().expect("an array");
    for (index, filter) in filters.iter().enumerate() {
        let (operator, key) = names(filter);
        let holds = one(filter, looks_into_arrays, event.at(operator, key).as_ref());
        note(holds, format!("advancedFilters[{index}]"));
    }
    Some(refused)
}

/// An event, member by member.
struct Event<'e> {
    schema: InputSchema,
    event: &'e ParsedEvent<'e>,
    values: BTreeMap<String, Value>,
    /// The texts as they were written.
    texts: BTreeMap<String, String>,
}

impl<'e> Event<'e> {
    fn read(schema: InputSchema, event: &'e ParsedEvent<'e>) -> Option<Self> {
        let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&event.text).ok()?;
        let texts: BTreeMap<_, _> =
            members.into_iter().map(|(name, text)| (name, text.get().to_owned())).collect();
        let value = |(name, text): (&String, &String)| {
            Some((name.clone(), serde_json::from_str(text).ok()?))
        };
        let values = texts.iter().map(value).collect::<Option<_>>()?;
        Some(Self { schema, event, values, texts })
    }

    /// The value at a key, for that operator. The data of a publisher's own event is the event itself,
    /// unless it has `data`.
    fn at(&self, operator: &str, key: &str) -> Option<Value> {
        let inside = || {
            let is_own = self.schema == InputSchema::CustomEventSchema;
            let rest = key.strip_prefix("data.").filter(|_| is_own)?;
            self.at_path(operator, rest)
        };
        self.at_path(operator, key).or_else(inside)
    }

    fn at_path(&self, operator: &str, key: &str) -> Option<Value> {
        let mut names = key.split('.');
        let first = self.envelope_name(names.next().expect("a name"));
        let is_in_the_envelope = !key.contains('.');
        let Some(value) = self.values.get(&first) else {
            return self.stamp(&first).filter(|_| is_in_the_envelope).map(Value::from);
        };
        let is_attribute = self.schema == InputSchema::CloudEventSchemaV1_0
            && is_in_the_envelope
            && first != "data"
            && (value.is_number() || value.is_boolean());
        if is_attribute && operator.starts_with("String") {
            return Some(Value::from(self.texts[&first].as_str()));
        }
        names.try_fold(value, |value, name| value.as_object()?.get(name)).cloned()
    }

    /// The envelope's names are case-insensitive.
    fn envelope_name(&self, name: &str) -> String {
        const EVENT_GRID: &str =
            "id topic subject eventType eventTime data dataVersion metadataVersion";
        match self.schema {
            InputSchema::EventGridSchema => {
                let mut known = EVENT_GRID.split(' ');
                known.find(|known| known.eq_ignore_ascii_case(name)).unwrap_or(name).to_owned()
            }
            InputSchema::CloudEventSchemaV1_0 => name.to_ascii_lowercase(),
            InputSchema::CustomEventSchema => name.to_owned(),
        }
    }

    /// Values that ingest adds to an event without them.
    fn stamp(&self, name: &str) -> Option<&str> {
        match (self.schema, name) {
            (InputSchema::EventGridSchema, "topic") => Some(&self.event.source),
            (InputSchema::EventGridSchema, "dataVersion") => Some(""),
            (InputSchema::EventGridSchema, "metadataVersion") => Some("1"),
            _ => None,
        }
    }
}

fn names(filter: &Value) -> (&str, &str) {
    let name = |member: &str| filter[member].as_str().expect("a name");
    (name("operatorType"), name("key"))
}

fn one(filter: &Value, looks_into_arrays: bool, found: Option<&Value>) -> bool {
    let (operator, _) = names(filter);
    let found = found.filter(|value| !value.is_null());
    match (operator, found) {
        ("IsNullOrUndefined", found) => return found.is_none(),
        ("IsNotNull", found) => return found.is_some(),
        ("NumberNotIn" | "NumberNotInRange" | "StringNotIn", None) => return true,
        (_, None) => return false,
        _ => {}
    }
    let found = found.expect("there");
    let (is_negative, operator) = match operator.split_once("Not") {
        Some((kind, rest)) => (true, format!("{kind}{rest}")),
        None => (false, operator.to_owned()),
    };
    let elements = match found {
        Value::Array(elements) if looks_into_arrays => elements.clone(),
        Value::Array(_) => return false,
        scalar => vec![scalar.clone()],
    };
    let of_the_type: Vec<_> = elements.iter().filter(|value| has_type(&operator, value)).collect();
    if !elements.is_empty() && of_the_type.is_empty() {
        return false;
    }
    let wanted = match filter.get("values") {
        Some(values) => values.as_array().expect("an array").clone(),
        None => vec![filter["value"].clone()],
    };
    let hit = of_the_type
        .iter()
        .any(|value| wanted.iter().any(|wanted| compare(&operator, value, wanted)));
    hit != is_negative
}

fn has_type(operator: &str, value: &Value) -> bool {
    match operator {
        name if name.starts_with("Number") => value.is_number(),
        name if name.starts_with("String") => value.is_string(),
        _ => value.is_boolean(),
    }
}

fn compare(operator: &str, value: &Value, wanted: &Value) -> bool {
    let number = |value: &Value| value.as_f64().expect("a number");
    let text = |value: &Value| -> Vec<char> {
        let text = value.as_str().expect("a string");
        text.chars().map(upper).collect()
    };
    match operator {
        "NumberIn" => number(value) == number(wanted),
        "NumberLessThan" => number(value) < number(wanted),
        "NumberLessThanOrEquals" => number(value) <= number(wanted),
        "NumberGreaterThan" => number(value) > number(wanted),
        "NumberGreaterThanOrEquals" => number(value) >= number(wanted),
        "NumberInRange" => (number(&wanted[0])..=number(&wanted[1])).contains(&number(value)),
        "BoolEquals" => value == wanted,
        "StringIn" => text(value) == text(wanted),
        "StringBeginsWith" => text(value).starts_with(&text(wanted)),
        "StringEndsWith" => text(value).ends_with(&text(wanted)),
        "StringContains" => {
            let (value, wanted) = (text(value), text(wanted));
            (0..=value.len()).any(|at| value[at..].starts_with(&wanted))
        }
        other => panic!("no operator: {other}"),
    }
}

/// A character's upper case, if that is a single character.
fn upper(character: char) -> char {
    let upper: Vec<_> = character.to_uppercase().collect();
    if let [only] = upper.as_slice() { *only } else { character }
}

//! Advanced filters as Event Grid's documentation tells them, one loop for each operator: slow, and
//! plain enough to be read against it. The compiled filters are compared with it.

use serde_json::Value;

/// Whether every advanced filter of a document holds for `data` of an event, where keys begin with
/// `data`.
pub fn holds(filters: &Value, looks_into_arrays: bool, data: &Value) -> bool {
    let filters = filters.as_array().expect("an array");
    filters.iter().all(|filter| one(filter, looks_into_arrays, data))
}

fn one(filter: &Value, looks_into_arrays: bool, data: &Value) -> bool {
    let operator = filter["operatorType"].as_str().expect("a name");
    let key = filter["key"].as_str().expect("a key");
    let mut found = Some(data);
    for name in key.split('.').skip(1) {
        found = found.and_then(|value| value.as_object()).and_then(|object| object.get(name));
    }
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

/// A character's upper case, where that is one character.
fn upper(character: char) -> char {
    let upper: Vec<_> = character.to_uppercase().collect();
    if let [only] = upper.as_slice() { *only } else { character }
}

//! Members that have several fields: advanced filters, own rules for statuses, delivery attributes, message
//! groups and partition keys.

use serde_json::{Map, Value, json};

use crate::form::{Fields, meant, meant_lines, meant_value, placed::Placed, written};

pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), written)
}

fn elements(list: &Value) -> impl Iterator<Item = (usize, &Value)> {
    list.as_array().into_iter().flatten().enumerate()
}

pub(super) fn show_filters(list: &Value, name: &str, fields: &mut Fields) {
    for (row, filter) in elements(list) {
        let field = |member: &str| format!("{name}.{row}.{member}");
        fields.set(field("operatorType"), plain(&filter["operatorType"]));
        fields.set(field("key"), plain(&filter["key"]));
        let line = |value: &Value| match value {
            Value::Array(pair) => pair.iter().map(plain).collect::<Vec<_>>().join(", "),
            value => plain(value),
        };
        let values = match (&filter["value"], &filter["values"]) {
            (Value::Null, Value::Array(values)) => {
                values.iter().map(line).collect::<Vec<_>>().join("\n")
            }
            (Value::Null, _) => String::new(),
            (value, _) => plain(value),
        };
        fields.set(field("values"), values);
    }
}

pub(super) fn filters(fields: &Fields, name: &str) -> Option<Value> {
    let filter = |row: usize| {
        let field = |member: &str| fields.get(&format!("{name}.{row}.{member}"));
        let operator = field("operatorType");
        let mut filter = json!({"operatorType": operator, "key": meant(field("key"))});
        if let Some((member, value)) = values(operator, field("values")) {
            filter[member] = value;
        }
        filter
    };
    let rows = fields.rows(name);
    (rows > 0).then(|| (0..rows).map(filter).collect())
}

fn values(operator: &str, text: &str) -> Option<(&'static str, Value)> {
    let text = text.trim();
    let numbers = |text: &str| -> Value {
        let parts = text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty());
        parts.map(meant_value).collect()
    };
    Some(match operator {
        _ if text.is_empty() => return None,
        "BoolEquals"
        | "NumberLessThan"
        | "NumberLessThanOrEquals"
        | "NumberGreaterThan"
        | "NumberGreaterThanOrEquals" => ("value", meant_value(text)),
        "NumberIn" | "NumberNotIn" => ("values", numbers(text)),
        "NumberInRange" | "NumberNotInRange" => {
            ("values", text.lines().filter(|line| !line.trim().is_empty()).map(numbers).collect())
        }
        _ => ("values", json!(meant_lines(text))),
    })
}

pub(super) fn show_rules(rules: &Value, name: &str, fields: &mut Fields) {
    for (row, (which, rule)) in rules.as_object().into_iter().flatten().enumerate() {
        let field = |member: &str| format!("{name}.{row}.{member}");
        fields.set(field("which"), written(which));
        match rule {
            Value::Object(_) => {
                fields.set(field("action"), RETRY);
                fields.set(field("seconds"), plain(&rule["retryAfterSeconds"]));
            }
            end => fields.set(field("action"), plain(end)),
        }
    }
}

/// What a rule does beside `deadLetter`.
pub(super) const RETRY: &str = "retry";

pub(super) fn rules(fields: &Fields, name: &str, problems: &mut Placed) -> Option<Value> {
    let mut rules = Map::new();
    for row in 0..fields.rows(name) {
        let field = |member: &str| format!("{name}.{row}.{member}");
        let which = meant(fields.get(&field("which")));
        let rule = match fields.get(&field("action")) {
            RETRY => json!({"retryAfterSeconds": meant_value(fields.get(&field("seconds")))}),
            other => json!(other),
        };
        if rules.insert(which.clone(), rule).is_some() {
            let told =
                format!("{which} has a rule already: each status, class or outcome can have one");
            problems.add(&field("which"), told);
        }
    }
    (!rules.is_empty()).then_some(Value::Object(rules))
}

/// The field of a problem of a rule, which the API names by the rule's name.
pub(crate) fn field_of_rule(fields: &Fields, path: &str) -> Option<String> {
    const NAME: &str = "retryPolicy.statusRules";
    let rest = path.strip_prefix(NAME)?.strip_prefix('.')?;
    let is_named = |row: &usize| {
        let which = meant(fields.get(&format!("{NAME}.{row}.which")));
        rest == which || rest.strip_prefix(&which).is_some_and(|below| below.starts_with('.'))
    };
    let row = (0..fields.rows(NAME)).find(is_named)?;
    let member = if rest.ends_with(".retryAfterSeconds") { "seconds" } else { "which" };
    Some(format!("{NAME}.{row}.{member}"))
}

pub(super) fn show_attributes(list: &Value, name: &str, fields: &mut Fields) {
    for (row, attribute) in elements(list) {
        let field = |member: &str| format!("{name}.{row}.{member}");
        let properties = &attribute["properties"];
        fields.set(field("name"), plain(&attribute["name"]));
        fields.set(field("type"), plain(&attribute["type"]));
        for member in ["value", "sourceField"] {
            if !properties[member].is_null() {
                fields.set(field(member), plain(&properties[member]));
            }
        }
        fields.tick(field("isSecret"), properties["isSecret"] == true);
    }
}

pub(super) fn attributes(fields: &Fields, name: &str) -> Option<Value> {
    let attribute = |row: usize| {
        let field = |member: &str| fields.get(&format!("{name}.{row}.{member}"));
        let is_secret = fields.is_on(&format!("{name}.{row}.isSecret"));
        let (kind, properties) = match (field("type"), field("value").trim()) {
            ("Dynamic", _) => ("Dynamic", json!({"sourceField": meant(field("sourceField"))})),
            // A secret without its value keeps the one that is stored.
            (kind, "") if is_secret => (kind, json!({"isSecret": true})),
            (kind, value) => (kind, json!({"value": meant(value), "isSecret": is_secret})),
        };
        json!({"name": meant(field("name")), "type": kind, "properties": properties})
    };
    let rows = fields.rows(name);
    (rows > 0).then(|| (0..rows).map(attribute).collect())
}

pub(super) fn show_key(key: &Value, name: &str, fields: &mut Fields) {
    let (kind, text) = match key {
        Value::String(_) => ("Static".to_owned(), key),
        key if key["type"] == "Dynamic" => (plain(&key["type"]), &key["properties"]["sourceField"]),
        key => (plain(&key["type"]), &key["properties"]["value"]),
    };
    fields.set(format!("{name}.kind"), kind);
    if !text.is_null() {
        fields.set(format!("{name}.text"), plain(text));
    }
}

pub(super) fn key(fields: &Fields, name: &str, problems: &mut Placed) -> Option<Value> {
    let [kind, text] = ["kind", "text"].map(|member| fields.get(&format!("{name}.{member}")));
    match (kind, text.trim()) {
        ("", "") => None,
        // What the text was a moment ago, a path or the key itself, is not known: nothing is guessed.
        ("", _) => {
            problems.add(&format!("{name}.text"), "choose what this text is, or empty it");
            None
        }
        ("Dynamic", path) => {
            Some(json!({"type": "Dynamic", "properties": {"sourceField": meant(path)}}))
        }
        (_, text) => Some(json!({"type": "Static", "properties": {"value": meant(text)}})),
    }
}

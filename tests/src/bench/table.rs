//! Tables like DynamoDB's, for the calls and conditions that the functions use.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
};

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Most bytes of a page of a query. Source: Amazon DynamoDB developer guide, "Query".
const PAGE_BYTES_MAX: usize = 1_048_576;

type Item = Map<String, Value>;

/// By table, partition key and sort key.
type Items = HashMap<String, BTreeMap<(String, String), Item>>;

/// All tables.
#[derive(Debug, Default)]
pub struct Tables {
    items: Mutex<Items>,
}

/// An error of the service: its type and what it says.
pub type Refusal = (&'static str, String);

/// The members of the calls.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Call {
    table_name: String,
    key: Item,
    item: Item,
    condition_expression: Option<String>,
    key_condition_expression: Option<String>,
    expression_attribute_values: Item,
    exclusive_start_key: Option<Item>,
}

impl Tables {
    /// Puts an item directly, without a call of a function.
    pub fn put(&self, table: &str, item: Value) {
        let Value::Object(item) = item else { return };
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        items.entry(table.to_owned()).or_default().insert(key_of(&item), item);
    }

    /// Answers a call by its name.
    pub fn call(&self, name: &str, body: &[u8]) -> Result<Value, Refusal> {
        let call: Call =
            serde_json::from_slice(body).map_err(|error| invalid(&error.to_string()))?;
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let table = items.entry(call.table_name.clone()).or_default();
        match name {
            "GetItem" => {
                let found = table.get(&key_of(&call.key));
                Ok(found.map_or_else(|| json!({}), |item| json!({ "Item": item })))
            }
            "Query" => query(table, &call),
            "PutItem" => {
                let key = key_of(&call.item);
                check(table.get(&key), &call)?;
                table.insert(key, call.item);
                Ok(json!({}))
            }
            "DeleteItem" => {
                let key = key_of(&call.key);
                check(table.get(&key), &call)?;
                table.remove(&key);
                Ok(json!({}))
            }
            _ => Err(invalid(&format!("the stand-in has no call {name}"))),
        }
    }
}

fn invalid(reason: &str) -> Refusal {
    ("ValidationException", reason.to_owned())
}

fn key_of(item: &Item) -> (String, String) {
    let text = |name: &str| item.get(name).and_then(|value| value["S"].as_str()).unwrap_or("");
    (text("pk").to_owned(), text("sk").to_owned())
}

/// One partition in the order of its sort keys, page by page.
fn query(table: &BTreeMap<(String, String), Item>, call: &Call) -> Result<Value, Refusal> {
    let condition = call.key_condition_expression.as_deref().unwrap_or_default();
    let unknown = || invalid(&format!("the stand-in can't query by '{condition}'"));
    let text_of = |name: &str| {
        let value = call.expression_attribute_values.get(name);
        value.and_then(|value| value["S"].as_str()).ok_or_else(unknown)
    };
    let (of, begins) = match condition.split_once(" AND begins_with(sk, ") {
        Some((of, name)) => (of, text_of(name.strip_suffix(')').unwrap_or_default())?),
        None => (condition, ""),
    };
    let Some(("pk", name)) = of.split_once(" = ") else { return Err(unknown()) };
    let pk = text_of(name)?;
    let after = call.exclusive_start_key.as_ref().map(key_of);
    let first = (pk.to_owned(), String::new());
    let mut bytes = 0;
    let mut found: Vec<&Item> = Vec::new();
    let mut last = None;
    let partition = table.range(first..).take_while(|((partition, _), _)| partition == pk);
    let rest = partition
        .filter(|((_, sk), _)| sk.starts_with(begins))
        .filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
    for ((_, sk), item) in rest {
        if bytes >= PAGE_BYTES_MAX {
            break;
        }
        let texts = item.values().filter_map(|value| value["S"].as_str());
        bytes += texts.map(str::len).sum::<usize>();
        last = Some(sk);
        found.push(item);
    }
    let mut answer = json!({ "Count": found.len(), "Items": found });
    if bytes >= PAGE_BYTES_MAX {
        answer["LastEvaluatedKey"] = json!({ "pk": { "S": pk }, "sk": { "S": last } });
    }
    Ok(answer)
}

/// Checks the condition of a write: comparisons for equality and (non-)existence, joined by `AND`.
fn check(stored: Option<&Item>, call: &Call) -> Result<(), Refusal> {
    let Some(condition) = &call.condition_expression else { return Ok(()) };
    let attribute = |name: &str| stored.and_then(|item| item.get(name.trim()));
    let inside = |text: &str, function: &str| -> Option<String> {
        text.strip_prefix(function)?.strip_suffix(')').map(str::to_owned)
    };
    for part in condition.split(" AND ") {
        let part = part.trim();
        let holds = if let Some(name) = inside(part, "attribute_not_exists(") {
            attribute(&name).is_none()
        } else if let Some(name) = inside(part, "attribute_exists(") {
            attribute(&name).is_some()
        } else if let Some((name, value)) = part.split_once(" = ") {
            let value = call.expression_attribute_values.get(value.trim());
            value.is_some() && attribute(name) == value
        } else {
            return Err(invalid(&format!("the stand-in has no condition '{part}'")));
        };
        if !holds {
            let said = "The conditional request failed".to_owned();
            return Err(("ConditionalCheckFailedException", said));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(tables: &Tables, condition: Option<&str>, revision: &str, old: &str) -> &'static str {
        let mut call = json!({
            "TableName": "t",
            "Item": { "pk": { "S": "p" }, "sk": { "S": "s" }, "revision": { "N": revision } },
        });
        if let Some(condition) = condition {
            call["ConditionExpression"] = json!(condition);
            call["ExpressionAttributeValues"] = json!({ ":revision": { "N": old } });
        }
        let put = tables.call("PutItem", call.to_string().as_bytes());
        put.map_or_else(|(code, _)| code, |_| "written")
    }

    #[test]
    fn writes_hold_their_conditions() {
        let tables = Tables::default();
        let (none, same) = (Some("attribute_not_exists(pk)"), Some("revision = :revision"));
        let lost = "ConditionalCheckFailedException";
        let table = [
            (same, "1", "1", lost),
            (none, "1", "", "written"),
            (none, "1", "", lost),
            (same, "2", "1", "written"),
            (same, "2", "1", lost),
            (Some("attribute_exists(pk) AND revision = :revision"), "3", "2", "written"),
            (None, "9", "", "written"),
            (Some("size(pk) > :revision"), "9", "9", "ValidationException"),
        ];
        for (condition, revision, old, want) in table {
            assert_eq!(put(&tables, condition, revision, old), want, "{condition:?} {revision}");
        }
    }

    #[test]
    fn a_query_goes_through_its_partition_page_by_page() {
        let tables = Tables::default();
        let long = "x".repeat(PAGE_BYTES_MAX / 2 + 1);
        for (pk, sk) in [("p", "1"), ("p", "2"), ("p", "3"), ("q", "1")] {
            let item = json!({ "pk": { "S": pk }, "sk": { "S": sk }, "document": { "S": long } });
            tables.put("t", item);
        }
        let mut call = json!({
            "TableName": "t",
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": { ":pk": { "S": "p" } },
        });
        let mut counts = Vec::new();
        loop {
            let page = tables.call("Query", call.to_string().as_bytes()).expect("a page");
            counts.push(page["Count"].as_u64().expect("a count"));
            if page["LastEvaluatedKey"].is_null() {
                break;
            }
            call["ExclusiveStartKey"] = page["LastEvaluatedKey"].clone();
        }
        assert_eq!(counts, [2, 1]);
    }
}

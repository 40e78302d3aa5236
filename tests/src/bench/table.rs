//! Tables like DynamoDB's, for the calls and conditions that the functions use.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
};

use serde::Deserialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

/// Most bytes of a page of a query. Source: Amazon DynamoDB developer guide, "Query".
const PAGE_BYTES_MAX: usize = 1_048_576;

/// Most writes of a batch. Source: DynamoDB API reference, `BatchWriteItem`.
const WRITES_MAX: usize = 25;

/// An error of the service: its type and what it says.
pub type Refusal = (&'static str, String);

/// A table, partition key and sort key.
type Place = [String; 3];

/// All tables. Items are kept as they are sent.
#[derive(Debug, Default)]
pub struct Tables {
    items: BTreeMap<Place, Box<RawValue>>,
}

/// The members of the calls.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Call {
    table_name: String,
    key: Attributes,
    item: Box<RawValue>,
    condition_expression: Option<String>,
    key_condition_expression: String,
    expression_attribute_values: HashMap<String, Scalar>,
    exclusive_start_key: Option<Attributes>,
    limit: Option<usize>,
    request_items: HashMap<String, Vec<Write>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Write {
    delete_request: Delete,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Delete {
    key: Attributes,
}

/// The attributes of an item that calls ask for.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Attributes {
    pk: Scalar,
    sk: Scalar,
    revision: Option<Scalar>,
}

/// A text or a number.
#[derive(Default, Deserialize, PartialEq, Eq)]
struct Scalar {
    #[serde(alias = "S", alias = "N")]
    value: String,
}

impl Attributes {
    fn of(item: &RawValue) -> Result<Self, Refusal> {
        serde_json::from_str(item.get()).map_err(invalid)
    }

    fn place(self, table: &str) -> Place {
        [table.to_owned(), self.pk.value, self.sk.value]
    }
}

fn invalid(reason: impl ToString) -> Refusal {
    ("ValidationException", reason.to_string())
}

impl Tables {
    /// How many items a table has.
    pub fn count(&self, table: &str) -> usize {
        self.items.keys().filter(|[of, ..]| of == table).count()
    }

    /// Puts an item directly, without a call of a function: a document at its first revision, with
    /// `further` attributes.
    pub fn put(
        &mut self,
        table: &str,
        [pk, sk]: [String; 2],
        document: String,
        further: &Value,
    ) -> serde_json::Result<()> {
        let mut item = further.clone();
        item["revision"] = json!({ "N": "1" });
        for (name, text) in [("pk", &pk), ("sk", &sk), ("document", &document)] {
            item[name] = json!({ "S": text });
        }
        self.items.insert([table.to_owned(), pk, sk], to_raw_value(&item)?);
        Ok(())
    }

    /// Answers a call by its name.
    pub fn call(&mut self, name: &str, body: &[u8]) -> Result<String, Refusal> {
        let call: Call = serde_json::from_slice(body).map_err(invalid)?;
        match name {
            "GetItem" => {
                let found = self.items.get(&call.key.place(&call.table_name));
                Ok(found.map_or("{}".to_owned(), |item| format!(r#"{{"Item":{item}}}"#)))
            }
            "Query" => self.query(call),
            "PutItem" => self.put_item(call),
            "BatchWriteItem" if call.request_items.values().flatten().count() <= WRITES_MAX => {
                for (table, writes) in call.request_items {
                    for write in writes {
                        self.items.remove(&write.delete_request.key.place(&table));
                    }
                }
                Ok(r#"{"UnprocessedItems":{}}"#.to_owned())
            }
            _ => Err(invalid(format!("the stand-in has no call {name}, or it is too large"))),
        }
    }

    fn put_item(&mut self, call: Call) -> Result<String, Refusal> {
        let place = Attributes::of(&call.item)?.place(&call.table_name);
        let stored = self.items.get(&place).map(|item| Attributes::of(item)).transpose()?;
        let holds = match call.condition_expression.as_deref() {
            None => true,
            Some("attribute_not_exists(pk)") => stored.is_none(),
            Some("revision = :revision") => stored.is_some_and(|stored| {
                stored.revision.as_ref() == call.expression_attribute_values.get(":revision")
            }),
            Some(other) => return Err(invalid(format!("the stand-in has no condition {other}"))),
        };
        if !holds {
            let said = "The conditional request failed".to_owned();
            return Err(("ConditionalCheckFailedException", said));
        }
        self.items.insert(place, call.item);
        Ok("{}".to_owned())
    }

    /// One partition in the order of its sort keys, page by page.
    fn query(&self, mut call: Call) -> Result<String, Refusal> {
        let mut value =
            |name| call.expression_attribute_values.remove(name).unwrap_or_default().value;
        let (pk, begins) = match call.key_condition_expression.as_str() {
            "pk = :pk" => (value(":pk"), String::new()),
            "pk = :pk AND begins_with(sk, :subscription)" => (value(":pk"), value(":subscription")),
            other => return Err(invalid(format!("the stand-in can't query by '{other}'"))),
        };
        let from = match call.exclusive_start_key {
            Some(after) => Bound::Excluded(after.place(&call.table_name)),
            None => Bound::Included([call.table_name.clone(), pk.clone(), begins.clone()]),
        };
        let (mut bytes, mut found) = (0, Vec::new());
        let mut next = None;
        for ([table, of, sk], item) in self.items.range((from, Bound::Unbounded)) {
            if *table != call.table_name || *of != pk || !sk.starts_with(&begins) {
                break;
            }
            bytes += item.get().len();
            found.push(item.get());
            if bytes >= PAGE_BYTES_MAX || call.limit == Some(found.len()) {
                next = Some(json!({ "pk": { "S": pk }, "sk": { "S": sk } }));
                break;
            }
        }
        let next = next.map(|next| format!(r#","LastEvaluatedKey":{next}"#)).unwrap_or_default();
        Ok(format!(r#"{{"Count":{},"Items":[{}]{next}}}"#, found.len(), found.join(",")))
    }
}

//! The request of `eventSubscriptions:test`: sample events, and a filter given by a document or by
//! the name of an event subscription.

use gridpost_core::subscription::Filter;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{check_name, read_filter};
use crate::document::{Code, Problems, read as read_as};

/// Sample events, and the filter to test them against.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TestInput {
    /// The sample events, an array, as a publisher would send them.
    #[schema(required = true)]
    pub events: Option<Value>,
    /// The name of an existing event subscription whose filter is tested.
    pub name: Option<String>,
    /// A document's properties; the filter alone is looked at.
    #[schema(additional_properties)]
    pub properties: Option<Map<String, Value>>,
}

/// The filter to test.
#[derive(Clone, Debug, PartialEq)]
pub enum Of {
    /// The filter of the event subscription with this name.
    Named(String),
    Document(Filter),
}

/// Reads `{"name"}` or `{"properties"}`, with `"events"`. Only the filter of the properties is
/// read, so that a whole document may be given.
pub fn read(document: &Value) -> Result<Of, Problems> {
    let mut problems = Problems::default();
    let mut document = document.clone();
    if let Some(members) = document.as_object_mut() {
        members.retain(|name, _| !["id", "type", "systemData"].contains(&name.as_str()));
    }
    let TestInput { name, properties, .. } = read_as(&document, &mut problems);
    let of = match (properties, name) {
        (Some(properties), _) => match read_filter(&Value::Object(properties)) {
            Ok(filter) => Some(Of::Document(filter)),
            Err(others) => {
                problems.add_all(others);
                None
            }
        },
        (None, Some(name)) => {
            if let Err(problem) = check_name(&name) {
                problems.add(problem.code, problem.path, problem.rule);
            }
            Some(Of::Named(name))
        }
        (None, None) => {
            if problems.is_empty() || document.is_object() && !problems.is_of("properties") {
                let rule = "is required: a document's properties with their filter, or name instead \
                            for that of an event subscription";
                problems.add(Code::MissingMember, "properties", rule);
            }
            None
        }
    };
    problems.or(of)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn samples_are_read_or_refused() {
        let document = json!({"name": "s1", "events": []});
        assert_eq!(read(&document).expect("a sample"), Of::Named("s1".to_owned()));
        let document = json!({"name": "s1", "events": {}, "properties": {"destination": 5}});
        assert_eq!(read(&document).expect("a sample"), Of::Document(Filter::default()));
        let table = [
            (json!([]), "$", Code::WrongType),
            (json!({"name": "s1"}), "events", Code::MissingMember),
            (json!({"name": "?", "events": []}), "name", Code::InvalidValue),
            (json!({"name": 5, "properties": {}, "events": []}), "name", Code::WrongType),
            (json!({"events": []}), "properties", Code::MissingMember),
            (json!({"events": [], "name": "s1", "event": {}}), "event", Code::UnknownMember),
            (
                json!({"events": [], "properties": {"filter": {"subjectBeginsWith": 1}}}),
                "properties.filter.subjectBeginsWith",
                Code::WrongType,
            ),
        ];
        for (document, path, code) in table {
            let problems = read(&document).expect_err("refused");
            let found: Vec<_> = problems.iter().map(|one| (&*one.path, one.code)).collect();
            assert_eq!(found, [(path, code)], "{document}");
        }
    }
}

//! The request of `eventSubscriptions:test`: sample events, and a filter given by a document or by
//! the name of an event subscription.

use gridpost_core::{subscription::Filter, topic::Kind};
use serde_json::Value;

use super::{check_name, filter};
use crate::document::{Code, Object, Problems};

/// A filter and sample events to test.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'d> {
    pub of: Of<'d>,
    /// The events, an array or one by itself.
    pub events: &'d Value,
}

/// Whose filter is tested.
#[derive(Clone, Debug, PartialEq)]
pub enum Of<'d> {
    /// That of the event subscription of this name.
    Named(&'d str),
    Document(Filter),
}

/// Reads `{"name"}` or `{"properties"}`, with `"events"`. Only the filter of the properties is
/// read, so that a whole document may be given.
pub fn read(document: &Value) -> Result<Sample<'_>, Problems> {
    let mut problems = Problems::default();
    let sample = Object::root(document, &mut problems).and_then(|mut root| {
        root.ignore(&["id", "type", "systemData"]);
        let events = root.required("events", "the sample events, an array", &mut problems);
        let name = root.text("name", &mut problems);
        let properties = root.object("properties", &mut problems);
        let of = match (properties, name) {
            (Some(mut properties), _) => {
                // Both forms of a filter, whatever the topic's kind.
                Some(Of::Document(filter::read(
                    &mut properties,
                    Kind::Namespace,
                    None,
                    &mut problems,
                )))
            }
            (None, Some(name)) => {
                if let Err(problem) = check_name(name) {
                    problems.add(problem.code, problem.path, problem.rule);
                }
                Some(Of::Named(name))
            }
            (None, None) => {
                let rule = "is required: a document's properties with their filter, or name instead \
                            for that of an event subscription";
                problems.add(Code::MissingMember, root.path_of("properties"), rule);
                None
            }
        };
        root.finish(&mut problems);
        Some(Sample { of: of?, events: events? })
    });
    problems.or(sample)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn samples_are_read_or_refused() {
        let document = json!({"name": "s1", "events": []});
        assert_eq!(read(&document).expect("a sample").of, Of::Named("s1"));
        let document = json!({"name": "s1", "events": {}, "properties": {"destination": 5}});
        assert_eq!(read(&document).expect("a sample").of, Of::Document(Filter::default()));
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

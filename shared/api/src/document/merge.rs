//! Merges a patch into a document.

use serde_json::{Map, Value};

/// Merges a patch into a document: members of objects are merged one by one, `null` removes a
/// member, every other value takes the place of what was there.
///
/// The depth of recursion is that of the patch, which [`super::parse`] bounds.
///
/// Source: RFC 7396, "JSON Merge Patch", section 2.
pub fn merge(document: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *document = patch.clone();
        return;
    };
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let Value::Object(members) = document else { return };
    for (name, change) in changes {
        match change {
            Value::Null => {
                members.remove(name);
            }
            change => merge(members.entry(name.as_str()).or_insert(Value::Null), change),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The cases of RFC 7396, appendix A.
    #[test]
    fn documents_are_merged_as_the_rfc_says() {
        let table = [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a":"b"}), json!(["c"]), json!(["c"])),
            (json!({"a":"foo"}), json!(null), json!(null)),
            (json!({"a":"foo"}), json!("bar"), json!("bar")),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ];
        for (mut document, patch, want) in table {
            merge(&mut document, &patch);
            assert_eq!(document, want, "{patch}");
        }
    }
}

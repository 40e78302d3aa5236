//! Makes a JSON merge patch of the changes in a document, and shows a document with its problems at
//! their places.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::page;
use gridpost_ops::failure::Detail;

/// The merge patch (RFC 7396) that makes `new` of `old`; an empty object where they are the same.
pub(super) fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch = Map::new();
    for (name, value) in new {
        match old.get(name) {
            Some(before) if before == value => {}
            Some(before) => {
                patch.insert(name.clone(), difference(before, value));
            }
            None => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    Value::Object(patch)
}

/// Returns whether a patch changes nothing.
pub(super) fn is_empty(patch: &Value) -> bool {
    patch.as_object().is_some_and(Map::is_empty)
}

/// The patch of an event subscription. A filter, and a destination of another type, take the place of the
/// whole of what was there, so what stays of them is sent, too.
pub(super) fn of_subscription(old: &Value, new: &Value) -> Value {
    let mut patch = difference(old, new);
    let Some(changed) = patch.get_mut("properties").and_then(Value::as_object_mut) else {
        return patch;
    };
    let is_other_type = changed
        .get("destination")
        .is_some_and(|destination| destination.get("endpointType").is_some());
    for (member, is_whole) in [("filter", true), ("destination", is_other_type)] {
        if changed.contains_key(member) && is_whole {
            changed.insert(member.to_owned(), new["properties"][member].clone());
        }
    }
    // So does an authentication of another type.
    let place = "/destination/properties/authentication";
    let authentication = changed
        .get_mut("destination")
        .and_then(|destination| destination.get_mut("properties")?.get_mut("authentication"));
    if let Some(authentication) = authentication.filter(|it| it.get("type").is_some()) {
        *authentication = new["properties"].pointer(place).cloned().unwrap_or_default();
    }
    patch
}

/// A document, line by line, with each problem below the line of its member.
pub(super) fn annotated(document: &Value, problems: &[Detail]) -> Markup {
    let mut lines = Vec::new();
    write(document, "", "", "", &mut lines);
    let is_placed =
        |one: &&Detail| lines.iter().any(|(path, _)| is_at(one.target.as_deref(), path));
    html! {
        @let elsewhere: Vec<_> = problems.iter().filter(|one| !is_placed(one)).collect();
        @if !elsewhere.is_empty() {
            ul { @for one in elsewhere {
                li { @if let Some(target) = &one.target { code { (target) } ": " } (one.message) }
            } }
        }
        pre id="text-problems" role="region" aria-label="The document with its problems" tabindex="0" {
            @for (path, line) in &lines {
                (page::visible(line)) "\n"
                @for one in problems.iter().filter(|one| !path.is_empty() && is_at(one.target.as_deref(), path)) {
                    strong.bad { "  ↑ " (page::visible(&one.message)) "\n" }
                }
            }
        }
    }
}

/// Whether a problem's target is that path. The API writes `properties.a.b[0]`, some with `$.` before it.
fn is_at(target: Option<&str>, path: &str) -> bool {
    target.map(|target| target.trim_start_matches("$.")) == Some(path)
}

/// Lines of a document with the path of the member that begins in each.
fn write(value: &Value, path: &str, indent: &str, name: &str, lines: &mut Vec<(String, String)>) {
    let deeper = format!("{indent}  ");
    let open = |open: &str, lines: &mut Vec<_>| {
        lines.push((path.to_owned(), format!("{indent}{name}{open}")));
    };
    match value {
        Value::Object(members) if !members.is_empty() => {
            open("{", lines);
            for (member, value) in members {
                let below =
                    if path.is_empty() { member.clone() } else { format!("{path}.{member}") };
                write(
                    value,
                    &below,
                    &deeper,
                    &format!("{}: ", Value::from(member.as_str())),
                    lines,
                );
            }
            lines.push((String::new(), format!("{indent}}}")));
        }
        Value::Array(elements) if !elements.is_empty() => {
            open("[", lines);
            for (index, value) in elements.iter().enumerate() {
                write(value, &format!("{path}[{index}]"), &deeper, "", lines);
            }
            lines.push((String::new(), format!("{indent}]")));
        }
        value => open(&value.to_string(), lines),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_changed_is_in_the_patch() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "f": "x"});
        let new = json!({"a": 1, "b": {"c": 3, "d": 2}, "e": [1, 2], "g": true});
        let want = json!({"b": {"c": 3}, "e": [1, 2], "f": null, "g": true});
        assert_eq!(difference(&old, &new), want);
        assert_eq!(difference(&old, &old), json!({}));
        assert_eq!(difference(&json!({"a": {"b": 1}}), &json!({"a": 2})), json!({"a": 2}));
    }

    #[test]
    fn what_takes_the_place_of_the_whole_is_sent_whole() {
        let filter = json!({"includedEventTypes": ["A"], "subjectBeginsWith": "/a"});
        let hook = |url: &str| json!({"endpointType": "WebHook", "properties": {"endpointBaseUrl": url, "maxEventsPerBatch": 9}});
        let of = |filter: &Value, destination: Value| json!({"properties": {"filter": filter, "destination": destination}});
        let old = of(&filter, hook("a"));
        let mut other = filter.clone();
        other["subjectBeginsWith"] = json!("/b");
        let patch = of_subscription(&old, &of(&other, hook("a")));
        assert_eq!(patch, json!({"properties": {"filter": other}}));
        let patch = of_subscription(&old, &of(&filter, hook("b")));
        let want = json!({"destination": {"properties": {"endpointBaseUrl": "b"}}});
        assert_eq!(patch["properties"], want);
        let queue = json!({"endpointType": "SqsQueue", "properties": {"maxEventsPerBatch": 9}});
        let patch = of_subscription(&old, &of(&filter, queue.clone()));
        assert_eq!(patch["properties"]["destination"], queue);
        assert_eq!(of_subscription(&old, &old), json!({}));
    }

    #[test]
    fn a_problem_stands_below_its_line() {
        let document = json!({"properties": {"filter": {"list": [{"key": "<b>"}]}}});
        let detail = |target: &str, message: &str| Detail {
            code: "C".to_owned(),
            message: message.to_owned(),
            target: Some(target.to_owned()),
        };
        let problems = [
            detail("properties.filter.list[0].key", "no such key"),
            detail("properties.x", "what?"),
        ];
        let shown = annotated(&document, &problems).into_string();
        assert!(
            shown.contains("&lt;b&gt;&quot;\n<strong class=\"bad\">  ↑ no such key"),
            "{shown}"
        );
        assert!(shown.contains("<li><code>properties.x</code>: what?</li>"), "{shown}");
    }
}

//! Events of simulated publishers: what identifies each, and whether it arrived as it was sent.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// The members read from an event.
#[derive(Deserialize)]
struct Named<'e> {
    id: String,
    #[serde(borrow)]
    data: Option<&'e RawValue>,
}

/// Data with a mark.
#[derive(Deserialize)]
struct Marked {
    mark: String,
}

/// Returns an event's identity: the mark in its data if it has one, otherwise its id. Ids may be
/// equal: a publisher that repeats a publish sends the same.
pub fn name(text: &str) -> serde_json::Result<String> {
    let Named { id, data } = serde_json::from_str(text)?;
    let data = data.map(RawValue::get).filter(|data| data.starts_with('{'));
    let marked = data.and_then(|data| serde_json::from_str::<Marked>(data).ok());
    Ok(marked.map_or(id, |marked| marked.mark))
}

/// Its id, whatever its data.
pub fn id(text: &str) -> Option<String> {
    serde_json::from_str::<Named<'_>>(text).ok().map(|named| named.id)
}

/// Returns a parsed event's identity, as [`name`].
pub fn name_of(event: &Value) -> String {
    let mark = event["data"]["mark"].as_str();
    mark.or(event["id"].as_str()).unwrap_or_default().to_owned()
}

/// A member of a published event whose text differs where it was sent; `None` if all are the same.
/// Members may have been added.
pub fn changed(published: &str, sent: &str) -> Option<String> {
    let members = |text| serde_json::from_str::<BTreeMap<String, &RawValue>>(text).ok();
    let (Some(before), Some(after)) = (members(published), members(sent)) else {
        return Some("all of it".to_owned());
    };
    let is_same = |name: &String, text: &RawValue| {
        after.get(name).is_some_and(|found| found.get() == text.get())
    };
    before.iter().find(|(name, text)| !is_same(name, text)).map(|(name, _)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_an_event_before_its_id() {
        for (text, want) in [
            (r#"{"id":"1","data":{"mark":"m"}}"#, "m"),
            (r#"{"id":"1","data":{"mark":5}}"#, "1"),
            (r#"{"id":"1","data":"mark"}"#, "1"),
            (r#"{"id":"1"}"#, "1"),
        ] {
            assert_eq!(name(text).expect("an event"), want, "{text}");
            assert_eq!(name_of(&serde_json::from_str(text).expect("JSON")), want, "{text}");
        }
    }

    #[test]
    fn every_member_that_was_published_is_compared_as_text() {
        let published = r#"{"id":"1","data":{"n":1.0}}"#;
        for (sent, want) in [
            (r#"{"data":{"n":1.0},"id":"1","topic":"t"}"#, None),
            (r#"{"data":{"n":1},"id":"1"}"#, Some("data")),
            (r#"{"data":{"n":1.0}}"#, Some("id")),
            ("{", Some("all of it")),
        ] {
            assert_eq!(changed(published, sent).as_deref(), want, "{sent}");
        }
    }
}

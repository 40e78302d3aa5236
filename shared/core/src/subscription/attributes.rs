//! Delivery attributes: the user's own headers on every request to the endpoint.
//!
//! Source: Event Grid, "Custom delivery properties".

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    event::lookup::{Paths, text_of},
    secret::Secret,
};

/// The most delivery attributes of one event subscription. Source: as above.
pub const ATTRIBUTES_MAX: usize = 10;

/// The most bytes of a value. Source: as above.
pub const VALUE_BYTES_MAX: usize = 4_096;

/// One delivery attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryAttribute {
    /// As the user wrote it.
    pub name: String,
    pub value: AttributeValue,
}

/// The source of a delivery attribute's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum AttributeValue {
    Static {
        value: String,
    },
    /// Never shown by a read.
    Secret {
        value: Secret,
    },
    /// A value of the delivered event.
    Dynamic {
        /// Names of members with dots between them, such as `data.key`.
        source_field: String,
    },
}

impl DeliveryAttribute {
    /// Returns whether reads and dead letters must not show the value.
    pub fn is_secret(&self) -> bool {
        matches!(self.value, AttributeValue::Secret { .. })
    }
}

/// Returns the headers of a request that carries these events, given as JSON.
///
/// A header applies to its whole request: it is left out if the events give a dynamic attribute
/// different values, none, or an unusable one. Without dynamic ones, no event is parsed.
pub fn headers<'e>(
    attributes: &[DeliveryAttribute],
    events: impl Iterator<Item = &'e str> + Clone,
) -> Vec<(String, Secret)> {
    let dynamic = dynamic_values(attributes, events);
    let header = |attribute: &DeliveryAttribute| {
        let value = match &attribute.value {
            AttributeValue::Static { value } => Secret::new(value.as_str()),
            AttributeValue::Secret { value } => value.clone(),
            AttributeValue::Dynamic { .. } => Secret::new(dynamic.get(attribute.name.as_str())?),
        };
        Some((attribute.name.clone(), value))
    };
    attributes.iter().filter_map(header).collect()
}

/// Returns the headers that do not depend on events, for a request for consent.
pub fn fixed_headers(attributes: &[DeliveryAttribute]) -> Vec<(String, Secret)> {
    let is_fixed =
        |attribute: &&DeliveryAttribute| !matches!(attribute.value, AttributeValue::Dynamic { .. });
    let fixed: Vec<_> = attributes.iter().filter(is_fixed).cloned().collect();
    headers(&fixed, std::iter::empty())
}

/// Returns the attributes for an event's dead letter: names and values, without secrets.
pub fn shown_values(attributes: &[DeliveryAttribute], event: &str) -> BTreeMap<String, String> {
    let shown: Vec<_> = attributes.iter().filter(|one| !one.is_secret()).cloned().collect();
    let headers = headers(&shown, std::iter::once(event)).into_iter();
    headers.map(|(name, value)| (name, value.expose().to_owned())).collect()
}

fn dynamic_values<'a, 'e>(
    attributes: &'a [DeliveryAttribute],
    mut events: impl Iterator<Item = &'e str>,
) -> BTreeMap<&'a str, String> {
    let mut paths = Paths::default();
    let mut places = Vec::new();
    for attribute in attributes {
        if let AttributeValue::Dynamic { source_field } = &attribute.value {
            places.push((attribute.name.as_str(), paths.add(source_field.split('.'))));
        }
    }
    let mut values = BTreeMap::new();
    if places.is_empty() {
        return values;
    }
    let Some(first) = events.next() else { return values };
    let of = |event: &str| -> Vec<Option<String>> {
        let found = paths.walk(event);
        places.iter().map(|(_, place)| found.at(*place).and_then(header_value)).collect()
    };
    let mut agreed = of(first);
    for event in events {
        for (agreed, value) in agreed.iter_mut().zip(of(event)) {
            if *agreed != value {
                *agreed = None;
            }
        }
    }
    for ((name, _), value) in places.iter().zip(agreed) {
        values.extend(value.map(|value| (*name, value)));
    }
    values
}

/// Returns a string, number or boolean that a header can carry, trimmed (RFC 9110, section 5.5).
fn header_value(json: &str) -> Option<String> {
    let text = match json.as_bytes().first()? {
        b'"' => text_of(json).into_owned(),
        b't' | b'f' | b'-' | b'0'..=b'9' => json.to_owned(),
        _ => return None,
    };
    let value = text.trim_matches([' ', '\t']);
    (value.len() <= VALUE_BYTES_MAX && is_header_value(value)).then(|| value.to_owned())
}

/// Returns whether a header can carry a text: printable ASCII; spaces and tabs only inside.
pub fn is_header_value(text: &str) -> bool {
    let legal = |byte: u8| matches!(byte, b' '..=b'~' | b'\t');
    text.bytes().all(legal) && text.trim() == text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(name: &str, value: AttributeValue) -> DeliveryAttribute {
        DeliveryAttribute { name: name.to_owned(), value }
    }

    fn dynamic(name: &str, source_field: &str) -> DeliveryAttribute {
        attribute(name, AttributeValue::Dynamic { source_field: source_field.to_owned() })
    }

    fn shown(headers: Vec<(String, Secret)>) -> Vec<String> {
        headers.iter().map(|(name, value)| format!("{name}: {}", value.expose())).collect()
    }

    #[test]
    fn dynamic_value_table() {
        let long = format!(r#"{{"k":"{}"}}"#, "a".repeat(4_097));
        let longest_value = "a".repeat(4_096);
        let longest = format!(r#"{{"k":"{longest_value}"}}"#);
        let longest_spaced = format!(r#"{{"k":" {longest_value} "}}"#);
        let table: Vec<(&str, Vec<&str>, Option<&str>)> = vec![
            ("a string", vec![r#"{"k":"v"}"#], Some("v")),
            ("escapes", vec![r#"{"k":"a\u0062\t\"c"}"#], Some("ab\t\"c")),
            ("digits stay", vec![r#"{"k":1.50}"#], Some("1.50")),
            ("a boolean", vec![r#"{"k":true}"#], Some("true")),
            ("empty", vec![r#"{"k":""}"#], Some("")),
            ("null", vec![r#"{"k":null}"#], None),
            ("an array", vec![r#"{"k":["v"]}"#], None),
            ("an object", vec![r#"{"k":{"k":"v"}}"#], None),
            ("missing", vec![r#"{"K":"v"}"#], None),
            ("spaces within", vec![r#"{"k":"a  b"}"#], Some("a  b")),
            ("a space at its end", vec![r#"{"k":"a "}"#], Some("a")),
            ("spaces and tabs at its ends", vec![r#"{"k":"\t  a\tb \t"}"#], Some("a\tb")),
            ("nothing but space", vec![r#"{"k":" \t "}"#], Some("")),
            ("a line break", vec![r#"{"k":"a\r\nx-b: c"}"#], None),
            ("a line break at its end", vec![r#"{"k":"a\n"}"#], None),
            ("a form feed at its end", vec![r#"{"k":"a\f"}"#], None),
            ("NUL", vec![r#"{"k":"a\u0000"}"#], None),
            ("DEL", vec!["{\"k\":\"a\u{7f}\"}"], None),
            ("beyond ASCII", vec![r#"{"k":"größe"}"#], None),
            ("obsolete text of RFC 9110", vec![r#"{"k":"a\u0080\u00ff"}"#], None),
            ("a space that is not ASCII's at its end", vec![r#"{"k":"a\u00a0"}"#], None),
            ("as long as may be", vec![&longest], Some(&longest_value)),
            ("as long, and spaces", vec![&longest_spaced], Some(&longest_value)),
            ("too long", vec![&long], None),
            ("a batch that differs in spaces", vec![r#"{"k":"v"}"#, r#"{"k":" v "}"#], Some("v")),
            ("a batch that agrees", vec![r#"{"k":"v"}"#, r#"{"k":"v"}"#], Some("v")),
            ("a batch that does not", vec![r#"{"k":"v"}"#, r#"{"k":"w"}"#], None),
            ("nor with the first again", vec![r#"{"k":1}"#, r#"{"k":2}"#, r#"{"k":1}"#], None),
            ("a batch where one has none", vec![r#"{"k":"v"}"#, "{}"], None),
        ];
        for (row, events, want) in table {
            let got = headers(&[dynamic("X-K", "k")], events.into_iter());
            let want: Vec<_> = want.iter().map(|value| format!("X-K: {value}")).collect();
            assert_eq!(shown(got), want, "{row}");
        }
    }

    #[test]
    fn attributes_keep_their_order_and_secrets_stay_out_of_dead_letters() {
        let all = [
            attribute("X-S", AttributeValue::Static { value: "s".to_owned() }),
            dynamic("X-D", "data.d"),
            attribute("Authorization", AttributeValue::Secret { value: Secret::new("hush") }),
        ];
        let event = r#"{"data":{"d":7}}"#;
        let sent = headers(&all, std::iter::once(event));
        assert_eq!(shown(sent), ["X-S: s", "X-D: 7", "Authorization: hush"]);
        assert_eq!(shown(fixed_headers(&all)), ["X-S: s", "Authorization: hush"]);
        let kept = shown_values(&all, event);
        let want = [("X-D", "7"), ("X-S", "s")];
        assert_eq!(kept, want.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert!(!format!("{all:?}").contains("hush"));
    }
}

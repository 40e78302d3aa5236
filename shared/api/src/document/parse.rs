//! Parses JSON text. A duplicate member is refused: whichever one counted, the writer may have
//! meant the other.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value, value::RawValue};

use super::quoted;

/// The text is not JSON. The cause says where.
#[derive(Debug, thiserror::Error)]
#[error("the body is not a JSON document")]
pub struct NotJson(#[source] serde_json::Error);

/// Reads a JSON document.
pub fn parse(text: &[u8]) -> Result<Value, NotJson> {
    serde_json::from_slice::<Strict>(text).map(|Strict(value)| value).map_err(NotJson)
}

/// Parses a JSON document in which one member is another party's JSON: that member is returned as
/// its text, and the rules of documents do not apply inside. In the value it is an empty array, or
/// null if it is null.
pub fn parse_around<'t>(
    text: &'t [u8],
    member: &str,
) -> Result<(Value, Option<&'t RawValue>), NotJson> {
    if !text.trim_ascii_start().starts_with(b"{") {
        return parse(text).map(|value| (value, None));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let read = deserializer.deserialize_map(Around { member });
    let read = read.and_then(|read| deserializer.end().map(|()| read));
    read.map_err(NotJson)
}

struct Around<'m> {
    member: &'m str,
}

impl<'de> Visitor<'de> for Around<'_> {
    type Value = (Value, Option<&'de RawValue>);

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let (mut members, mut raw) = (Map::new(), None);
        while let Some(name) = entries.next_key::<String>()? {
            refuse_twice(&members, &name)?;
            let value = if name == self.member {
                let text: &RawValue = entries.next_value()?;
                raw = Some(text);
                if text.get() == "null" { Value::Null } else { Value::Array(Vec::new()) }
            } else {
                let Strict(value) = entries.next_value()?;
                value
            };
            members.insert(name, value);
        }
        Ok((Value::Object(members), raw))
    }
}

fn refuse_twice<E: Error>(members: &Map<String, Value>, name: &str) -> Result<(), E> {
    if members.contains_key(name) {
        return Err(E::custom(format!("member {} stands twice", quoted(name))));
    }
    Ok(())
}

/// A value whose objects have no duplicate members.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Strict(element)) = elements.next_element()? {
            all.push(element);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some((name, Strict(value))) = entries.next_entry::<String, _>()? {
            refuse_twice(&members, &name)?;
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridpost_core::error::chain;

    #[test]
    fn documents_are_read_like_any_json() {
        for text in ["null", "[1,-2,0.5,true,\"é\"]", "{\"a\":{\"b\":[]},\"c\":null}", " 1 "] {
            let want: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(parse(text.as_bytes()).expect("JSON"), want, "{text}");
        }
    }

    #[test]
    fn one_member_may_stay_as_it_is() {
        let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
        for raw in ["[{\"a\":1,\"a\":2}]", "1e400", " {} ", "null", &deep] {
            let text = format!(r#"{{"name":"s","events":{raw},"x":[1]}}"#);
            let (value, found) = parse_around(text.as_bytes(), "events").expect("JSON");
            assert_eq!(found.map(RawValue::get), Some(raw.trim()));
            assert_eq!((&value["name"], &value["x"][0]), (&"s".into(), &1.into()));
            assert_eq!(value["events"].is_null(), raw == "null");
        }
        let (value, found) = parse_around(b" [5] ", "events").expect("JSON");
        assert!(found.is_none() && value[0] == 5);
        let table: [&[u8]; 6] = [
            b"{\"events\":[],\"events\":[]}",
            b"{\"a\":1,\"a\":[]}",
            b"{\"a\":{\"b\":1,\"b\":1}}",
            b"{\"events\":[}",
            b"{} {}",
            b"{\"events\":\"\xff\"}",
        ];
        for text in table {
            assert!(parse_around(text, "events").is_err(), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn what_is_not_json_is_refused_with_its_place() {
        let table: [(&[u8], &str); 6] = [
            (b"", "EOF while parsing a value at line 1 column 0"),
            (b"{\"a\":1,\n\"a\":2}", "member \"a\" stands twice at line 2 column 6"),
            (b"{'a':1}", "key must be a string at line 1 column 2"),
            (b"{} {}", "trailing characters at line 1 column 4"),
            (b"\"\xff\"", "invalid unicode code point at line 1 column 2"),
            (&[b'['; 200], "recursion limit exceeded at line 1 column 128"),
        ];
        for (text, want) in table {
            let error = parse(text).expect_err("not JSON");
            let got = chain(&error);
            assert_eq!(got, format!("the body is not a JSON document: {want}"));
        }
    }
}

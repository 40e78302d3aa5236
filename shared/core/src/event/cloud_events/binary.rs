//! CloudEvents in binary mode: attributes in `ce-*` headers, data as the body.
//!
//! The event is rewritten in structured form and then read like any other. JSON data stay as they
//! were sent; text becomes a JSON string, anything else base64.
//!
//! Source: CloudEvents 1.0.2, "HTTP protocol binding", section 3.1, and "JSON event format",
//! section 3.1; Event Grid, "CloudEvents support in Azure Event Grid namespaces".

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use percent_encoding::percent_decode;
use serde_json::value::RawValue;

use crate::event::{ParseError, json_string};

const PREFIX: &str = "ce-";
const REQUIRED: [&str; 4] = ["ce-specversion", "ce-id", "ce-source", "ce-type"];

/// Returns whether a request has an event's attributes in its headers.
pub fn is_binary(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with(PREFIX))
}

/// Rewrites an event in structured form, still unchecked. Fails for unusable headers or data.
pub fn to_structured(headers: &HeaderMap, body: &[u8]) -> Result<String, ParseError> {
    for name in REQUIRED {
        if !headers.contains_key(name) {
            return Err(refused(name, "is required of a CloudEvent in binary mode"));
        }
    }
    let mut text = String::from("{");
    let attributes = headers.keys().filter(|name| name.as_str().starts_with(PREFIX));
    for name in attributes {
        let attribute = &name.as_str()[PREFIX.len()..];
        let Some(value) = only(headers, name.as_str())? else { continue };
        let value = attribute_of(name, value)?;
        text.push_str(&format!("{}:{},", json_string(attribute), json_string(&value)));
    }
    let content_type = only(headers, CONTENT_TYPE.as_str())?.map(HeaderValue::to_str).transpose();
    let content_type =
        content_type.map_err(|_| refused("content-type", "must be of visible ASCII"))?;
    if let Some(content_type) = content_type {
        text.push_str(&format!(r#""datacontenttype":{},"#, json_string(content_type)));
    }
    push_data(&mut text, content_type, body)?;
    // Each required attribute was followed by a comma.
    if text.ends_with(',') {
        text.pop();
    }
    text.push('}');
    Ok(text)
}

/// Returns a header's value; an empty one counts as absent. Fails if it is given twice.
pub(crate) fn only<'h>(
    headers: &'h HeaderMap,
    name: &str,
) -> Result<Option<&'h HeaderValue>, ParseError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(refused(name, "is given twice")),
    }
}

/// Returns an attribute's value, without quotes around it and percent-decoded once.
fn attribute_of(name: &HeaderName, value: &HeaderValue) -> Result<String, ParseError> {
    match name.as_str() {
        "ce-datacontenttype" => {
            return Err(refused("ce-datacontenttype", "must be left out: it is Content-Type"));
        }
        data @ ("ce-data" | "ce-data_base64") => {
            return Err(refused(data, "must be left out: data are the body"));
        }
        _ => {}
    }
    let bytes = value.as_bytes();
    let quoted = bytes.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let unquoted = quoted.map(unescaped);
    let text = percent_decode(unquoted.as_deref().unwrap_or(bytes)).decode_utf8();
    let text = text.map_err(|_| refused(name.as_str(), "must be percent-encoded UTF-8"))?;
    Ok(text.into_owned())
}

fn unescaped(inside: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(inside.len());
    let mut rest = inside.iter();
    while let Some(byte) = rest.next() {
        bytes.push(if *byte == b'\\' { *rest.next().unwrap_or(byte) } else { *byte });
    }
    bytes
}

/// How the structured form holds data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    /// As JSON if possible: clients that take JSON for granted send no content type.
    Unnamed,
    Text,
    Bytes,
}

impl Form {
    fn of(content_type: Option<&str>) -> Self {
        let Some(content_type) = content_type else { return Self::Unnamed };
        let lower = content_type.to_ascii_lowercase();
        let (media_type, parameters) = lower.split_once(';').unwrap_or((&lower, ""));
        let media_type = media_type.trim();
        let (kind, subtype) = media_type.split_once('/').unwrap_or(("", media_type));
        let is = |name: &str| {
            let suffix = subtype.strip_suffix(name);
            suffix.is_some_and(|head| head.is_empty() || head.ends_with('+'))
        };
        let charset = parameters.split(';').find_map(|one| one.trim().strip_prefix("charset="));
        let charset = charset.map(|charset| charset.trim_matches('"'));
        if is("json") {
            Self::Json
        } else if (kind == "text" || is("xml"))
            && charset.is_none_or(|charset| matches!(charset, "utf-8" | "utf8" | "us-ascii"))
        {
            Self::Text
        } else {
            Self::Bytes
        }
    }
}

fn push_data(text: &mut String, content_type: Option<&str>, body: &[u8]) -> Result<(), ParseError> {
    if body.is_empty() {
        return Ok(());
    }
    let form = Form::of(content_type);
    if matches!(form, Form::Json | Form::Unnamed) {
        let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
        match serde_json::from_slice::<&RawValue>(body) {
            Ok(data) => {
                text.push_str(r#""data":"#);
                text.push_str(data.get());
                return Ok(());
            }
            Err(error) if form == Form::Json => {
                return Err(ParseError::NotJson { index: 0, reason: error.to_string() });
            }
            Err(_) => {}
        }
    }
    match std::str::from_utf8(body) {
        Ok(data) if form == Form::Text => {
            text.push_str(&format!(r#""data":{}"#, json_string(data)));
        }
        _ => text.push_str(&format!(r#""data_base64":"{}""#, STANDARD.encode(body))),
    }
    Ok(())
}

fn refused(name: &str, rule: &'static str) -> ParseError {
    ParseError::Header { name: name.to_owned(), rule }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::cloud_events::parse;

    const LEAST: [(&str, &str); 4] =
        [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "T")];

    fn headers(more: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in LEAST.iter().chain(more) {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        headers
    }

    #[test]
    fn data_stand_by_their_content_type() {
        let table: [(&str, &[u8], &str); 15] = [
            ("application/json", br#"{ "n": 1.50 }"#, r#","data":{ "n": 1.50 }"#),
            ("application/json; charset=utf-8", b" 7 ", r#","data":7"#),
            ("application/vnd.x+json", b"\xef\xbb\xbfnull", r#","data":null"#),
            ("text/json", b"[]", r#","data":[]"#),
            ("text/plain", "hé\"".as_bytes(), r#","data":"hé\"""#),
            ("text/plain;charset=\"UTF-8\"", b"x", r#","data":"x""#),
            ("text/plain; charset=iso-8859-1", b"h\xe9", r#","data_base64":"aOk=""#),
            ("text/plain", b"h\xe9", r#","data_base64":"aOk=""#),
            ("application/soap+xml", b"<x/>", r#","data":"<x/>""#),
            ("application/octet-stream", b"\x00\xff", r#","data_base64":"AP8=""#),
            ("application/notjson", b"{}", r#","data_base64":"e30=""#),
            ("", br#"{"a":1}"#, r#","data":{"a":1}"#),
            ("", b"a=1", r#","data_base64":"YT0x""#),
            ("application/json", b"", ""),
            ("", b"", ""),
        ];
        for (content_type, body, want) in table {
            let given = [("content-type", content_type)];
            let headers = headers(if content_type.is_empty() { &[] } else { &given });
            let text = to_structured(&headers, body).expect(content_type);
            let kept = match content_type {
                "" => String::new(),
                kept => format!(r#","datacontenttype":{}"#, json_string(kept)),
            };
            let least = r#"{"specversion":"1.0","id":"1","source":"/s","type":"T""#;
            assert_eq!(text, format!("{least}{kept}{want}}}"), "{content_type}");
            let events = parse(text.as_bytes()).expect("a CloudEvent");
            assert_eq!(events[0].text, text);
        }
    }

    #[test]
    fn attributes_are_unquoted_and_decoded_once() {
        let table = [
            ("caf%C3%A9", "café"),
            ("caf%c3%a9", "café"),
            ("100%25", "100%"),
            ("%2525", "%25"),
            ("50% off", "50% off"),
            ("\"a b\"", "a b"),
            (r#""a \"b\" \\""#, r#"a "b" \"#),
            ("%22a%22", "\"a\""),
            ("€", "€"),
        ];
        for (value, want) in table {
            let text = to_structured(&headers(&[("ce-subject", value)]), b"").expect(value);
            assert_eq!(parse(text.as_bytes()).expect("an event")[0].subject, want, "{value}");
        }
        let text = to_structured(&headers(&[("ce-myext", "7"), ("x-other", "8")]), b"");
        let text = text.expect("an event");
        assert!(text.contains(r#""myext":"7""#) && !text.contains("other"), "{text}");
    }

    #[test]
    fn what_no_attribute_may_have_is_refused_by_header_too() {
        for (header, want) in [
            (("ce-subject", "a%0Ab"), "'subject' must not have control characters"),
            (("ce-subject", "%00"), "'subject' must not have control characters"),
            (("ce-ext", "%C2%85"), "'ext' must not have control characters"),
            (("ce-ext", "%EF%BF%BE"), "'ext' must not have control characters"),
            (("content-type", "json"), "'datacontenttype' must be a media type"),
        ] {
            let text = to_structured(&headers(&[header]), b"").expect("a structured event");
            let error = parse(text.as_bytes()).expect_err(want).to_string();
            assert!(error.contains(want), "{header:?}: {error}");
        }
    }

    #[test]
    fn refused_headers_and_data() {
        let json = ("content-type", "application/json");
        type Row<'a> = (&'a [(&'a str, &'a str)], &'a [u8], &'a str);
        let table: [Row<'_>; 7] = [
            (&[("ce-id", "2")], b"", "header 'ce-id' is given twice"),
            (&[("content-type", "a/b"), ("content-type", "a/c")], b"", "'content-type' is given"),
            (&[("ce-subject", "%ff")], b"", "header 'ce-subject' must be percent-encoded UTF-8"),
            (&[("ce-datacontenttype", "a/b")], b"", "must be left out: it is Content-Type"),
            (&[("ce-data", "1")], b"", "must be left out: data are the body"),
            (&[("ce-data_base64", "MQ==")], b"", "must be left out: data are the body"),
            (&[json], b"{", "index 0 is not valid JSON: EOF"),
        ];
        for (more, body, want) in table {
            let error = to_structured(&headers(more), body).expect_err(want).to_string();
            assert!(error.contains(want), "{error}");
        }
        for name in REQUIRED {
            let mut headers = headers(&[]);
            headers.remove(name);
            let error = to_structured(&headers, b"").expect_err(name).to_string();
            assert_eq!(
                error,
                format!(
                    "the event at index 0: header '{name}' is required of a CloudEvent in binary mode"
                ),
            );
        }
    }
}

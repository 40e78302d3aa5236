//! Judges an endpoint's answer to a request for its consent, and says what is wrong with it.
//!
//! A body is never repeated: an endpoint that echoes its request would show the validation URL,
//! which is the proof, to whoever creates the event subscription.
//!
//! Source: Event Grid, "Endpoint validation with Event Grid event schema" and "with CloudEvents
//! schema"; CloudEvents, "HTTP 1.1 Web Hooks", section 4.

use std::{fmt, num::NonZeroU32, str};

use http::HeaderMap;
use serde_json::{Map, Value};

use super::probe;
use crate::{
    subscription::Authentication,
    text::{kind, quoted},
};

const MEMBER: &str = "validationResponse";
const ALLOWED_ORIGIN: &str = "WebHook-Allowed-Origin";

/// The proof that an answer must contain.
#[derive(Clone, Copy, Debug)]
pub enum Proof<'p> {
    /// In the body, after an event of Event Grid's schema.
    Code(&'p str),
    /// In a header, after `OPTIONS`, as for CloudEvents.
    Origin(&'p str),
}

/// An endpoint's answer.
#[derive(Clone, Copy, Debug)]
pub struct Response<'r> {
    pub status: u16,
    pub headers: &'r HeaderMap,
    pub body: &'r [u8],
}

/// The meaning of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    Consent,
    /// The endpoint may still consent, by the validation URL.
    Silence(NoConsent),
    Refusal(NoConsent),
}

/// The reason why an answer is not consent: a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoConsent {
    pub received: String,
    pub expected: String,
    /// The action to take, if the expected answer does not say it.
    pub advice: Option<String>,
}

impl fmt::Display for NoConsent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { received, expected, advice } = self;
        write!(formatter, "it answered {received}; expected {expected}")?;
        match advice {
            Some(advice) => write!(formatter, ". {}", advice.trim_end_matches('.')),
            None => Ok(()),
        }
    }
}

/// Judges an answer to a request that was authenticated that way.
pub fn judge(
    proof: Proof<'_>,
    authentication: Option<&Authentication>,
    response: Response<'_>,
) -> Judgement {
    let Response { status, headers, body } = response;
    let is_success = match proof {
        Proof::Code(_) => status == 200,
        Proof::Origin(_) => (200..=299).contains(&status),
    };
    let no_consent = |received: String| {
        let expected = expected(proof);
        let advice = advice(proof, status, authentication).filter(|_| !is_success);
        NoConsent { received: format!("status {status}{received}"), expected, advice }
    };
    if !is_success {
        return Judgement::Refusal(no_consent(String::new()));
    }
    match proof {
        Proof::Code(code) => match given_code(body) {
            Some(given) if given == code => Judgement::Consent,
            Some(given) => {
                let what = format!(" with another {MEMBER}{}", other_code(&given, code));
                Judgement::Refusal(no_consent(what))
            }
            None => Judgement::Silence(no_consent(format!(" with {}", no_code(response, code)))),
        },
        Proof::Origin(origin) => match header(headers, ALLOWED_ORIGIN).as_deref() {
            Some("*") => Judgement::Consent,
            Some(allowed) if allowed.eq_ignore_ascii_case(origin) => Judgement::Consent,
            Some(other) => {
                let what = format!(" with {ALLOWED_ORIGIN}: {}", quoted(other));
                Judgement::Refusal(no_consent(what))
            }
            None => Judgement::Silence(no_consent(no_origin(response))),
        },
    }
}

/// Describes the consent that is expected.
pub fn expected(proof: Proof<'_>) -> String {
    match proof {
        Proof::Code(_) => {
            format!("status 200 with the body {{\"{MEMBER}\": \"<the event's validationCode>\"}}")
        }
        Proof::Origin(origin) => {
            format!("status 2xx with the header {ALLOWED_ORIGIN}: {origin} (or *)")
        }
    }
}

fn advice(
    proof: Proof<'_>,
    status: u16,
    authentication: Option<&Authentication>,
) -> Option<String> {
    let method = match proof {
        Proof::Code(_) => "POST",
        Proof::Origin(_) => "OPTIONS",
    };
    match status {
        404 | 405 => Some(format!("Check the path in endpointUrl: nothing there takes {method}")),
        429 | 503 => Some("The endpoint is busy: try again later".to_owned()),
        300..=399 | 401 | 403 | 500..=599 => {
            Some(probe::advice_on(Some(status), authentication).to_owned())
        }
        _ => None,
    }
}

/// Returns the requests per minute that `WebHook-Allowed-Rate` allows; `None` if it is not a number.
///
/// Source: CloudEvents, "HTTP 1.1 Web Hooks", section 4.2.2.
pub fn allowed_rate(headers: &HeaderMap) -> Option<NonZeroU32> {
    header(headers, "WebHook-Allowed-Rate")?.parse().ok()
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
}

fn given_code(body: &[u8]) -> Option<String> {
    let mut body = serde_json::from_slice::<Value>(body).ok()?;
    match body.get_mut(MEMBER)?.take() {
        Value::String(given) => Some(given),
        _ => None,
    }
}

fn other_code(given: &str, code: &str) -> &'static str {
    match given.to_ascii_uppercase() {
        upper if upper == code => {
            ": it is the event's id, or in lower case; the code is data.validationCode, unchanged"
        }
        upper if upper.contains(code) => {
            ": there is more than the code in it, which is data.validationCode alone"
        }
        upper if upper.is_empty() => ": it is empty",
        _ => "",
    }
}

fn no_code(response: Response<'_>, code: &str) -> String {
    let Response { headers, body, .. } = response;
    let encoding = header(headers, "Content-Encoding").unwrap_or_default();
    if body.is_empty() {
        return "an empty body".to_owned();
    }
    let is_gzip = body.starts_with(&[0x1f, 0x8b]);
    if is_gzip || !(encoding.is_empty() || encoding.eq_ignore_ascii_case("identity")) {
        let how = if encoding.is_empty() { "gzip" } else { &encoding };
        return format!("a body that is compressed ({}), which no request asks for", quoted(how));
    }
    if let Some(what) = not_utf_8(body) {
        return what.to_owned();
    }
    let has_code = String::from_utf8_lossy(body).to_ascii_uppercase().contains(code);
    match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => no_member(&members, has_code),
        Ok(Value::Array(_)) => "an array, not one object".to_owned(),
        Ok(Value::String(text)) if serde_json::from_str::<Value>(&text).is_ok() => {
            "JSON inside a JSON string, not an object: it was encoded twice".to_owned()
        }
        Ok(Value::String(_)) if has_code => "the code as a string, not an object".to_owned(),
        Ok(other) => format!("{}, not an object", kind(&other)),
        Err(_) if body.trim_ascii_start().starts_with(b"<") => {
            "HTML or XML, not JSON: something other than the receiver may have answered".to_owned()
        }
        Err(_) if has_code => "the code in a body that is not JSON".to_owned(),
        Err(error) => format!("a body that is not JSON ({error})"),
    }
}

fn not_utf_8(body: &[u8]) -> Option<&'static str> {
    match body {
        [0xef, 0xbb, 0xbf, ..] => Some("a byte order mark before the JSON, which must have none"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..] => {
            Some("a body in UTF-16 or UTF-32; JSON is sent in UTF-8")
        }
        body if str::from_utf8(body).is_err() => Some("a body that is not UTF-8"),
        _ => None,
    }
}

fn no_member(members: &Map<String, Value>, has_code: bool) -> String {
    let resembles = |name: &&String| {
        let letters = name.chars().filter(char::is_ascii_alphabetic);
        letters.collect::<String>().eq_ignore_ascii_case(MEMBER)
    };
    if let Some(value) = members.get(MEMBER) {
        return format!("a {MEMBER} that is {}, not a string", kind(value));
    }
    if let Some(name) = members.keys().find(resembles) {
        let name = quoted(name);
        return format!("the member {name} instead of \"{MEMBER}\": case and spelling count");
    }
    if members.values().any(has_member_inside) {
        return format!("{MEMBER} inside of another member, not at the top of the body");
    }
    match has_code {
        true => format!("the code, but not as the member {MEMBER}"),
        false => format!("an object without {MEMBER}"),
    }
}

/// Returns whether the member is inside a value, or inside JSON in a string.
fn has_member_inside(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            members.contains_key(MEMBER) || members.values().any(has_member_inside)
        }
        Value::Array(elements) => elements.iter().any(has_member_inside),
        Value::String(text) => text.contains(&format!("\"{MEMBER}\"")),
        _ => false,
    }
}

fn no_origin(Response { headers, body, .. }: Response<'_>) -> String {
    let resembles = |name: &&str| name.replace(['-', '_'], "").contains("allowedorigin");
    let like = headers.keys().map(http::HeaderName::as_str).find(resembles);
    let why = if let Some(name) = like {
        format!("; {} is another header", quoted(name))
    } else if headers.contains_key(http::header::ACCESS_CONTROL_ALLOW_ORIGIN) {
        "; Access-Control-Allow-Origin is for browsers".to_owned()
    } else if String::from_utf8_lossy(body).contains(MEMBER) {
        format!("; {MEMBER} answers the handshake of Event Grid's schema")
    } else if headers.contains_key(http::header::ALLOW) {
        "; it has Allow, so a framework or proxy may have answered OPTIONS by itself".to_owned()
    } else {
        String::new()
    };
    format!(" without the header {ALLOWED_ORIGIN}{why}")
}

#[cfg(test)]
mod tests;

//! SAS tokens: `r=<resource>&e=<expiry>&s=<signature>`, each value percent-encoded.
//!
//! A publisher signs the first two members with one of the topic's keys. The signature is verified
//! over the text as it came: encoders differ (`%2f` or `%2F`, `+` or `%20`).
//!
//! Source: Event Grid, "Authenticate publishing clients with access keys and shared access
//! signatures", and the tokens that Azure's SDKs make (`tests/conformance/sas_tokens.json`).

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::percent_decode_str;
use sha2::Sha256;

use crate::{event::date_time, text::quoted, time::Timestamp};

/// A token that is read but not verified. It never prints.
pub struct Token<'a> {
    signed: &'a str,
    signature: Vec<u8>,
    resource: String,
    expires_at: Timestamp,
}

impl fmt::Debug for Token<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

/// The reason why a token was refused. No variant repeats the signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error(
        "the SAS token {0}; a token is r=<resource URL>&e=<expiry>&s=<signature>, each value \
         percent-encoded"
    )]
    Malformed(&'static str),
    #[error(
        "the SAS token's expiry {0} is not a date and time; write it in UTC, such as \
         2030-01-01T00:00:00Z, '2030-01-01 00:00:00+00:00' or '1/1/2030 12:00:00 AM'"
    )]
    Expiry(String),
    #[error(
        "the SAS token's signature was made with none of the topic's two keys, or the token was \
         changed since"
    )]
    Signature,
    #[error("the SAS token expired at {0}; make a new one")]
    Expired(Timestamp),
    #[error(
        "the SAS token is for {given}, and this request is for {asked}; its resource must be that \
         URL or the beginning of it"
    )]
    OtherResource {
        /// The token's resource, shortened, without its query.
        given: String,
        asked: String,
    },
}

impl<'a> Token<'a> {
    /// Reads a token.
    pub fn parse(text: &'a str) -> Result<Self, TokenError> {
        use TokenError::Malformed;
        let mut members = text.split('&');
        let mut next = |prefix: &str| members.next().and_then(|member| member.strip_prefix(prefix));
        let resource = next("r=").ok_or(Malformed("does not begin with 'r='"))?;
        let expiry = next("e=").ok_or(Malformed("has no '&e=' after its resource"))?;
        let signature = next("s=").ok_or(Malformed("has no '&s=' after its expiry"))?;
        if members.next().is_some() {
            return Err(Malformed("has more than its three members"));
        }
        let resource = percent_decode_str(resource).decode_utf8();
        let resource = resource.map_err(|_| Malformed("has a resource that is not UTF-8"))?;
        // Form encoders write a space as a plus sign, and none leaves a plus sign as it is.
        let expiry = expiry.replace('+', " ");
        let expiry = percent_decode_str(&expiry).decode_utf8_lossy();
        let signature: Vec<u8> = percent_decode_str(signature).collect();
        let signature = STANDARD
            .decode(signature)
            .map_err(|_| Malformed("has a signature that is not base64"))?;
        Ok(Self {
            signed: &text[..text.rfind("&s=").unwrap_or(0)],
            signature,
            resource: resource.into_owned(),
            expires_at: time_of(&expiry).ok_or_else(|| TokenError::Expiry(quoted(&expiry)))?,
        })
    }

    /// Returns whether it was signed with that key, in constant time.
    pub fn is_signed_with(&self, key: &str) -> bool {
        let Ok(key) = STANDARD.decode(key) else { return false };
        let Ok(mac) = Hmac::<Sha256>::new_from_slice(&key) else { return false };
        mac.chain_update(self.signed).verify_slice(&self.signature).is_ok()
    }

    /// Checks that it has not expired, and is for this resource (`/topics/orders/api/events`) or
    /// the requested path, which may begin with a stage or a proxy's prefix.
    ///
    /// A token is good for every URL that begins with its resource, in whole segments. Scheme and
    /// host are not compared: a deployment has several (custom domains, proxies), and the key
    /// belongs to one topic anyway. Nor is the query: SDKs add one that differs from the request's.
    pub fn check(&self, resource: &str, path: &str, now: Timestamp) -> Result<(), TokenError> {
        if self.expires_at <= now {
            return Err(TokenError::Expired(self.expires_at));
        }
        let url = self.resource.split(['?', '#']).next().unwrap_or_default();
        let behind_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
        let given = behind_scheme.find('/').map_or("", |at| &behind_scheme[at..]);
        let given = percent_decode_str(given.trim_end_matches('/')).decode_utf8_lossy();
        let path = percent_decode_str(path).decode_utf8_lossy();
        let own = |at: usize| begins(resource, &given[at..]);
        if begins(&path, &given) || given.match_indices("/topics/").any(|(at, _)| own(at)) {
            return Ok(());
        }
        Err(TokenError::OtherResource { given: quoted(url), asked: resource.to_owned() })
    }
}

/// Returns whether a path begins with these whole segments, in any case; a colon also ends one.
fn begins(path: &str, head: &str) -> bool {
    let Some((start, rest)) = path.split_at_checked(head.len()) else { return false };
    start.eq_ignore_ascii_case(head) && (rest.is_empty() || rest.starts_with(['/', ':']))
}

/// Reads an expiry, UTC by default: as Python writes it (with a space or a `T`, with or without
/// offset), or as JavaScript's SDK and .NET do in American English.
fn time_of(text: &str) -> Option<Timestamp> {
    if text.contains('/') {
        return american(text);
    }
    let (date, time) = text.split_once([' ', 'T'])?;
    Timestamp::parse_rfc_3339(&date_time::to_rfc_3339(&format!("{date}T{time}"))?)
}

/// Reads .NET's `1/31/2030 12:00:00 AM` or `1/31/2030 12:00:00 AM +00:00`. Newer locale data has a
/// narrow no-break space before `AM`, or no space; Java may write it in lower case.
fn american(text: &str) -> Option<Timestamp> {
    let text = text.replace(['\u{202f}', '\u{a0}'], " ");
    let (date, rest) = text.split_once(' ')?;
    let (time, rest) = rest.split_at(rest.find(|one: char| one.is_ascii_alphabetic())?);
    let (half, offset) = rest.split_at_checked(2)?;
    let [month, day, year] = numbers(date, '/')?;
    let [hour, minute, second] = numbers(time.strip_suffix(' ').unwrap_or(time), ':')?;
    let afternoon = match half.to_ascii_uppercase().as_str() {
        "AM" => 0,
        "PM" => 12,
        _ => return None,
    };
    let offset = match offset.strip_prefix(' ') {
        Some(offset) => offset.starts_with(['+', '-']).then_some(offset)?,
        None => offset.is_empty().then_some("Z")?,
    };
    if !(1..=12).contains(&hour) {
        return None;
    }
    let hour = hour % 12 + afternoon;
    let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{offset}");
    Timestamp::parse_rfc_3339(&text)
}

fn numbers(text: &str, between: char) -> Option<[u16; 3]> {
    let number = |text: &str| {
        let digits =
            (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    let mut all = text.split(between).map(number);
    let three = [all.next()??, all.next()??, all.next()??];
    all.next().is_none().then_some(three)
}

/// Makes a token as the SDK for Python does. `None` if the key is not base64.
pub fn sign(resource: &str, expires_at: Timestamp, key: &str) -> Option<String> {
    let encoded = |text: &str| {
        percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
    };
    let expiry = expires_at.to_iso_8601();
    let signed = format!("r={}&e={}", encoded(resource), encoded(&expiry));
    let mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(key).ok()?).ok()?;
    let signature = mac.chain_update(&signed).finalize().into_bytes();
    Some(format!("{signed}&s={}", encoded(&STANDARD.encode(signature))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_table() {
        let table = [
            ("2030-01-01 00:00:00+00:00", Some("2030-01-01T00:00:00.000Z")),
            ("2030-01-01 00:00:00.123456+00:00", Some("2030-01-01T00:00:00.123Z")),
            ("2030-01-01T00:00:00", Some("2030-01-01T00:00:00.000Z")),
            ("2030-01-01T00:00:00.5", Some("2030-01-01T00:00:00.500Z")),
            ("2030-01-01T02:00:00+02:00", Some("2030-01-01T00:00:00.000Z")),
            ("2030-01-01T00:00:00Z", Some("2030-01-01T00:00:00.000Z")),
            ("9999-12-31T23:59:59-01:00", Some("9999-12-31T23:59:59.999Z")),
            ("0000-01-01T00:00:00+01:00", Some("0000-01-01T00:00:00.000Z")),
            ("1/1/2030 12:00:00 AM", Some("2030-01-01T00:00:00.000Z")),
            ("1/1/2030 12:00:01 PM", Some("2030-01-01T12:00:01.000Z")),
            ("12/31/2029 11:59:59 PM", Some("2029-12-31T23:59:59.000Z")),
            ("01/02/2030 01:02:03 AM", Some("2030-01-02T01:02:03.000Z")),
            ("1/1/2030 12:00:00 AM +00:00", Some("2030-01-01T00:00:00.000Z")),
            ("1/1/2030 2:00:00 AM +02:00", Some("2030-01-01T00:00:00.000Z")),
            ("12/31/2029 6:00:00 PM -06:00", Some("2030-01-01T00:00:00.000Z")),
            ("1/1/2030 12:00:00\u{202f}AM", Some("2030-01-01T00:00:00.000Z")),
            ("1/1/2030 12:00:00\u{202f}AM +00:00", Some("2030-01-01T00:00:00.000Z")),
            ("1/1/2030 12:00:00\u{a0}PM", Some("2030-01-01T12:00:00.000Z")),
            ("1/1/2030 12:00:00AM", Some("2030-01-01T00:00:00.000Z")),
            ("1/1/2030 12:00:00 pm", Some("2030-01-01T12:00:00.000Z")),
            ("1/1/2030 12:00:00 AM 00:00", None),
            ("1/1/2030 12:00:00 AM +25:00", None),
            ("1/1/2030 12:00:00 AM+00:00", None),
            ("1/1/2030 12:00:00 A", None),
            ("1/1/2030 12:00:00 \u{e9}M", None),
            ("31/1/2030 12:00:00 AM", None),
            ("1/1/2030 13:00:00 PM", None),
            ("1/1/2030 0:00:00 AM", None),
            ("1/1/2030 12:00:00", None),
            ("1/1/2030 12:00:00 AM UTC", None),
            ("1/1/2030/1 12:00:00 AM", None),
            ("1/+1/2030 12:00:00 AM", None),
            ("2/30/2030 12:00:00 AM", None),
            ("2030-01-01", None),
            ("2030-02-30 00:00:00", None),
            ("1893456000", None),
            ("", None),
            ("é", None),
        ];
        for (text, want) in table {
            assert_eq!(time_of(text).map(Timestamp::to_iso_8601).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn resource_table() {
        let (resource, now) = ("/topics/orders/api/events", Timestamp::from_millis(0));
        let table = [
            ("https://a.example/topics/orders/api/events", true),
            ("https://a.example/topics/orders/api/events?apiVersion=2018-01-01", true),
            ("http://127.0.0.1:4566/topics/orders/api/events/", true),
            ("HTTPS://A.example/topics/orders/api", true),
            ("https://a.example/topics/orders", true),
            ("https://a.example/", true),
            ("https://a.example", true),
            ("a.example/topics/orders", true),
            ("https://a.example/_aws/execute-api/x/$default/topics/orders/api/events", true),
            ("https://a.example/prod", true),
            ("https://a.example/topics/order", false),
            ("https://a.example/topics/orders2", false),
            ("https://a.example/topics/Orders/API/events", true),
            ("https://a.example/topics/ORDER", false),
            ("https://a.example/topics/orders/api/events/more", false),
            ("https://a.example/topics/orders:publish", false),
            ("https://a.example/api/events", false),
            ("https://a.example/topic", false),
        ];
        for (given, want) in table {
            let token = Token {
                signed: "",
                signature: Vec::new(),
                resource: given.to_owned(),
                expires_at: Timestamp::from_millis(1),
            };
            let got = token.check(resource, "/prod/topics/orders/api/events", now);
            assert_eq!(got.is_ok(), want, "{given}: {got:?}");
        }
        let namespace = Token {
            signed: "",
            signature: Vec::new(),
            resource: "https://a/topics/t%C3%B3pic".to_owned(),
            expires_at: Timestamp::from_millis(1),
        };
        assert_eq!(namespace.check("/topics/tópic:publish", "/topics/tópic:publish", now), Ok(()));
    }

    #[test]
    fn malformed_tokens() {
        let table = [
            ("", "does not begin with 'r='"),
            ("e=1&r=2&s=3", "does not begin with 'r='"),
            ("r=a", "has no '&e='"),
            ("r=a&s=b", "has no '&e='"),
            ("r=a&e=2030-01-01T00%3A00%3A00Z", "has no '&s='"),
            ("r=a&e=2030-01-01T00%3A00%3A00Z&s=AA%3D%3D&x=1", "more than its three members"),
            ("r=%FF&e=2030-01-01T00%3A00%3A00Z&s=AA%3D%3D", "resource that is not UTF-8"),
            ("r=a&e=2030-01-01T00%3A00%3A00Z&s=!", "signature that is not base64"),
            ("r=a&e=tomorrow&s=AA%3D%3D", "expiry \"tomorrow\" is not a date and time"),
        ];
        for (text, want) in table {
            let error = Token::parse(text).expect_err(text).to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
        let token = Token::parse("r=a&e=2030-01-01T00%3A00%3A00Z&s=AA%3D%3D").expect("readable");
        assert!(!token.is_signed_with("no base64") && !token.is_signed_with("a2V5MQ=="));
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn what_is_signed_here_is_good_here() {
        let expires_at = Timestamp::from_millis(10_000);
        let text = sign("https://a/topics/t1?x=é", expires_at, "a2V5MQ==").expect("a token");
        let token = Token::parse(&text).expect("readable");
        assert!(token.is_signed_with("a2V5MQ==") && !token.is_signed_with("a2V5Mg=="));
        let check = |millis| token.check("/topics/t1:publish", "", Timestamp::from_millis(millis));
        assert_eq!(check(9_999), Ok(()));
        assert_eq!(check(10_000), Err(TokenError::Expired(expires_at)));
        assert_eq!(sign("https://a", expires_at, "no base64"), None);
    }
}

//! Decides whether a publisher may publish to a topic.

use http::{HeaderMap, header::AUTHORIZATION};
use percent_encoding::percent_decode_str;
use subtle::ConstantTimeEq;

use super::{
    PublishError,
    sas::{Token, TokenError},
};
use crate::{
    time::Timestamp,
    topic::{AccessKeys, Topic},
};

/// The header and the query parameter of an access key.
pub const KEY: &str = "aeg-sas-key";

/// The header of a SAS token.
pub const TOKEN: &str = "aeg-sas-token";

/// The parts of a request that authentication needs.
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    pub headers: &'a HeaderMap,
    /// Raw, without its question mark.
    pub query: &'a str,
    pub path: &'a str,
    /// `/topics/orders/api/events` or `/topics/orders:publish`.
    pub resource: &'a str,
}

/// A well-formed access key or SAS token.
pub struct Credentials(Proof);

enum Proof {
    Key(Vec<u8>),
    Token(Vec<u8>),
}

/// An access key has 44 characters; a much longer text can't be one.
const KEY_BYTES_MAX: usize = 256;

impl Credentials {
    /// Reads a request's credentials. Missing or malformed ones are refused before the topic is
    /// read. Errors never repeat a key or a signature.
    pub fn of(asked: &AccessRequest<'_>) -> Result<Self, PublishError> {
        let proof = proof(asked)?;
        match &proof {
            Proof::Key(key) => {
                let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
                if key.len() > KEY_BYTES_MAX || !key.iter().all(is_digit) {
                    return Err(PublishError::KeyRefused);
                }
            }
            Proof::Token(text) => drop(token(text)?),
        }
        Ok(Self(proof))
    }
}

fn token(text: &[u8]) -> Result<Token<'_>, TokenError> {
    Token::parse(std::str::from_utf8(text).map_err(|_| TokenError::Malformed("is not UTF-8"))?)
}

/// Admits a request with one of the topic's two access keys, or a SAS token made with one of them.
///
/// A key comes in `aeg-sas-key`, in `Authorization: SharedAccessKey` or, if no header has
/// credentials, in the query; a token in `aeg-sas-token` or `Authorization: SharedAccessSignature`.
/// Duplicate credentials are refused, so that it is always clear which ones count. All comparisons
/// take constant time, and errors never repeat a key or a signature.
///
/// Source: Event Grid, "Authenticate publishing clients with access keys".
pub fn authenticate(
    topic: &Topic,
    keys: &AccessKeys,
    Credentials(shown): &Credentials,
    asked: &AccessRequest<'_>,
    now: Timestamp,
) -> Result<(), PublishError> {
    if topic.disable_local_auth {
        return Err(PublishError::LocalAuthDisabled);
    }
    // Both keys are always compared, so that time does not tell which one matched.
    let AccessKeys([first, second]) = keys;
    match shown {
        Proof::Key(given) => {
            let equal =
                given.ct_eq(first.expose().as_bytes()) | given.ct_eq(second.expose().as_bytes());
            if bool::from(equal) { Ok(()) } else { Err(PublishError::KeyRefused) }
        }
        Proof::Token(text) => {
            let token = token(text)?;
            let signed = [first, second].map(|key| token.is_signed_with(key.expose()));
            if signed == [false, false] {
                return Err(TokenError::Signature.into());
            }
            Ok(token.check(asked.resource, asked.path, now)?)
        }
    }
}

fn proof(asked: &AccessRequest<'_>) -> Result<Proof, PublishError> {
    let key = header(asked.headers, KEY)?.map(Proof::Key);
    let token = header(asked.headers, TOKEN)?.map(Proof::Token);
    let authorization = authorization(asked.headers)?;
    let unsupported = authorization.is_none() && asked.headers.contains_key(AUTHORIZATION);
    let mut given = [key, token, authorization].into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(_), Some(_)) => {
            let given = "two of the headers aeg-sas-key, aeg-sas-token and authorization";
            return Err(PublishError::CredentialsTwice { given });
        }
        (Some(given), None) => return Ok(given),
        (None, _) => {}
    }
    match parameter(asked.query, KEY)? {
        Some(key) => Ok(Proof::Key(key)),
        None if unsupported => Err(PublishError::CredentialsUnsupported { given: "authorization" }),
        None if parameter(asked.query, TOKEN)?.is_some() => {
            Err(PublishError::CredentialsUnsupported { given: "the query's aeg-sas-token" })
        }
        None => Err(PublishError::CredentialsMissing),
    }
}

/// Returns a header's value, if not empty. API Gateway joins several with commas: no key has one.
fn header(headers: &HeaderMap, name: &'static str) -> Result<Option<Vec<u8>>, PublishError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() || value.as_bytes().contains(&b',') {
        return Err(PublishError::CredentialsTwice { given: name });
    }
    Ok(Some(value.as_bytes().to_vec()).filter(|value| !value.is_empty()))
}

/// Reads credentials in `Authorization`. A scheme that is not Event Grid's may be a proxy's.
fn authorization(headers: &HeaderMap) -> Result<Option<Proof>, PublishError> {
    let Some(first) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let bytes = first.as_bytes();
    let end = bytes.iter().position(|byte| *byte == b' ').unwrap_or(bytes.len());
    let (scheme, value) = bytes.split_at(end);
    let credentials = match scheme.to_ascii_lowercase().as_slice() {
        b"sharedaccesskey" => Proof::Key,
        b"sharedaccesssignature" => Proof::Token,
        _ => return Ok(None),
    };
    header(headers, "authorization")?;
    Ok(Some(credentials(value.trim_ascii().to_vec())))
}

/// Returns a query parameter, if not empty. A plus sign stays: it is a digit of base64.
fn parameter(query: &str, name: &'static str) -> Result<Option<Vec<u8>>, PublishError> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut named = pairs.filter(|(key, _)| percent_decode_str(key).eq(name.bytes()));
    let value = named.next().map(|(_, value)| percent_decode_str(value).collect::<Vec<_>>());
    if named.next().is_some() {
        return Err(PublishError::CredentialsTwice { given: "the query's aeg-sas-key" });
    }
    Ok(value.filter(|value| !value.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        publish::sas,
        retry::profile::ProfileName,
        secret::Secret,
        time::Timestamp,
        topic::{InputSchema, Kind},
    };

    fn topic(disable_local_auth: bool) -> Topic {
        Topic {
            name: "orders".to_owned(),
            kind: Kind::Custom,
            input_schema: InputSchema::EventGridSchema,
            input_schema_mapping: None,
            disable_local_auth,
            delivery_profile: ProfileName::Basic,
            idempotency: None,
            etag: uuid::Uuid::nil(),
            created_at: Timestamp::from_millis(0),
            revision: 1,
            changes: Default::default(),
        }
    }

    fn keys() -> AccessKeys {
        AccessKeys([Secret::new("a2V5+MQ/=="), Secret::new("second==")])
    }

    fn authenticate(
        topic: &Topic,
        keys: &AccessKeys,
        asked: &AccessRequest<'_>,
        now: Timestamp,
    ) -> Result<(), PublishError> {
        super::authenticate(topic, keys, &Credentials::of(asked)?, asked, now)
    }

    #[test]
    fn authentication_table() {
        let table = [
            ("first key", "aeg-sas-key", "a2V5+MQ/==", "", "ok"),
            ("second key", "aeg-sas-key", "second==", "", "ok"),
            ("key in the query", "", "", "api-version=2018-01-01&aeg-sas-key=second==", "ok"),
            ("key in the query, encoded", "", "", "aeg-sas-key=a2V5%2BMQ%2F%3D%3D", "ok"),
            ("key in the query, its plus sign not encoded", "", "", "aeg-sas-key=a2V5+MQ/==", "ok"),
            ("the header goes first", "aeg-sas-key", "no", "aeg-sas-key=second==", "KeyRefused"),
            ("no key", "", "", "api-version=2018-01-01", "CredentialsMissing"),
            ("empty key", "aeg-sas-key", "", "", "CredentialsMissing"),
            ("empty key in the query", "", "", "aeg-sas-key=", "CredentialsMissing"),
            ("two keys in one header", "aeg-sas-key", "second==,second==", "", "CredentialsTwice"),
            (
                "two keys in the query",
                "",
                "",
                "aeg-sas-key=second==&aeg-sas-key=second==",
                "CredentialsTwice",
            ),
            ("wrong key", "aeg-sas-key", "a2V5+MQ/=!", "", "KeyRefused"),
            ("a part of the key", "aeg-sas-key", "a2V5+MQ/", "", "KeyRefused"),
            ("more than the key", "aeg-sas-key", "second===", "", "KeyRefused"),
            ("both keys", "aeg-sas-key", "a2V5+MQ/==second==", "", "KeyRefused"),
            ("another case", "aeg-sas-key", "SECOND==", "", "KeyRefused"),
            ("another parameter", "", "", "key=second==", "CredentialsMissing"),
            (
                "key as namespace clients send it",
                "authorization",
                "SharedAccessKey second==",
                "",
                "ok",
            ),
            ("its scheme in another case", "authorization", "sharedaccesskey  second==", "", "ok"),
            ("wrong key of a namespace", "authorization", "SharedAccessKey no", "", "KeyRefused"),
            ("no key of a namespace", "authorization", "SharedAccessKey", "", "KeyRefused"),
            (
                "two of them",
                "authorization",
                "SharedAccessKey a,SharedAccessKey b",
                "",
                "CredentialsTwice",
            ),
            ("no token", "aeg-sas-token", "r=x&e=y&s=z", "", "TokenMalformed"),
            ("no token either", "authorization", "SharedAccessSignature x", "", "TokenMalformed"),
            ("token in the query", "", "", "aeg-sas-token=r", "CredentialsUnsupported"),
            ("bearer", "authorization", "Bearer ey", "", "CredentialsUnsupported"),
            (
                "AWS",
                "authorization",
                "AWS4-HMAC-SHA256 Credential=a, Signature=b",
                "",
                "CredentialsUnsupported",
            ),
            (
                "a proxy's own, beside a key",
                "authorization",
                "Basic eA==",
                "aeg-sas-key=second==",
                "ok",
            ),
        ];
        for (row, header, value, query, want) in table {
            let mut headers = HeaderMap::new();
            if !header.is_empty() {
                headers.insert(header, value.parse().expect("a value"));
            }
            let got = authenticate(&topic(false), &keys(), &asked(&headers, query), now());
            assert_eq!(got.as_ref().map_or_else(PublishError::detail, |()| "ok"), want, "{row}");
            if let Err(error) = got {
                assert_eq!((error.status(), error.code()), (401, "Unauthorized"), "{row}");
                assert!(!error.to_json().contains("second=="), "{row}: {}", error.to_json());
            }
        }
    }

    #[test]
    fn a_topic_without_local_authentication_refuses_its_keys() {
        for query in ["aeg-sas-key=second==", "aeg-sas-key=no"] {
            let refused =
                authenticate(&topic(true), &keys(), &asked(&HeaderMap::new(), query), now());
            assert_eq!(refused.expect_err("refused").detail(), "LocalAuthDisabled");
        }
    }

    fn now() -> Timestamp {
        Timestamp::from_millis(1_795_248_000_123)
    }

    fn asked<'a>(headers: &'a HeaderMap, query: &'a str) -> AccessRequest<'a> {
        let path = "/topics/orders/api/events";
        AccessRequest { headers, query, path, resource: path }
    }

    #[test]
    fn what_no_topic_could_take_is_refused_before_any_is_known() {
        let long = "a".repeat(KEY_BYTES_MAX + 1);
        let table = [
            ("", "", "CredentialsMissing"),
            ("aeg-sas-key", "not base64!", "KeyRefused"),
            ("aeg-sas-key", &long, "KeyRefused"),
            ("aeg-sas-key", "second==", "ok"),
            ("aeg-sas-key", "a2V5", "ok"),
            ("aeg-sas-token", "r=x&e=y&s=z", "TokenMalformed"),
            ("authorization", "Bearer ey", "CredentialsUnsupported"),
        ];
        for (header, value, want) in table {
            let mut headers = HeaderMap::new();
            if !header.is_empty() {
                headers.insert(header, value.parse().expect("a value"));
            }
            let shown = Credentials::of(&asked(&headers, ""));
            let got = shown.as_ref().map_or_else(PublishError::detail, |_| "ok");
            assert_eq!(got, want, "{header}: {value}");
        }
    }

    #[test]
    fn credentials_in_two_headers_are_refused() {
        let table = [
            vec![("aeg-sas-key", "second=="), ("aeg-sas-key", "second==")],
            vec![("aeg-sas-key", "second=="), ("aeg-sas-token", "r")],
            vec![("aeg-sas-key", "second=="), ("authorization", "SharedAccessKey second==")],
            vec![("aeg-sas-token", "r"), ("authorization", "SharedAccessSignature r")],
            vec![
                ("authorization", "SharedAccessKey second=="),
                ("authorization", "SharedAccessKey second=="),
            ],
        ];
        for pairs in table {
            let mut headers = HeaderMap::new();
            for (name, value) in &pairs {
                headers.append(*name, value.parse().expect("a value"));
            }
            let got = authenticate(&topic(false), &keys(), &asked(&headers, ""), now())
                .expect_err("refused");
            assert_eq!(got.detail(), "CredentialsTwice", "{pairs:?}");
        }
    }

    #[test]
    fn tokens_of_either_key_in_either_header() {
        let key = "a2V5+MQ/==";
        let keys = [key, "c2Vjb25k"];
        let (topic, stored) = (topic(false), AccessKeys(keys.map(Secret::new)));
        let day = std::time::Duration::from_secs(86_400);
        let url = "https://a.example/topics/orders/api/events";
        let token = |resource: &str, key: &str, days: i64| {
            let at = now().as_millis() + days * i64::try_from(day.as_millis()).expect("short");
            sas::sign(resource, Timestamp::from_millis(at), key).expect("a token")
        };
        let good = token(url, keys[1], 1);
        let table = [
            ("good", good.clone(), "ok"),
            ("for the whole topic", token("https://a.example/topics/orders", keys[1], 1), "ok"),
            ("another key's", token(url, "bm8=", 1), "TokenRefused"),
            ("expired", token(url, keys[1], -1), "TokenExpired"),
            ("changed", good.replace("orders", "order"), "TokenRefused"),
            (
                "for another topic",
                token("https://a.example/topics/other", keys[1], 1),
                "TokenForOtherResource",
            ),
            ("cut", good[..good.len() - 9].to_owned(), "TokenMalformed"),
        ];
        for (row, text, want) in table {
            for (name, value) in [
                ("aeg-sas-token", text.clone()),
                ("authorization", format!("SharedAccessSignature {text}")),
            ] {
                let mut headers = HeaderMap::new();
                headers.insert(name, value.parse().expect("a value"));
                let got = authenticate(&topic, &stored, &asked(&headers, ""), now());
                let detail = got.as_ref().map_or_else(PublishError::detail, |()| "ok");
                assert_eq!(detail, want, "{row} in {name}");
                if let Err(error) = got {
                    let signature = text.rsplit("s=").next().expect("a signature");
                    assert_eq!(error.status(), 401, "{row}");
                    assert!(!error.to_json().contains(signature), "{row}: {error}");
                }
            }
        }
    }
}

//! May this publisher publish to this topic?

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use subtle::ConstantTimeEq;

use super::PublishError;
use crate::topic::Topic;

/// The header, and the query parameter, that carry an access key.
pub const KEY: &str = "aeg-sas-key";

/// The query parameter and headers of credentials that Event Grid knows and this does not.
const UNSUPPORTED: [&str; 2] = ["aeg-sas-token", "authorization"];

/// Lets a request pass that carries one of the topic's two access keys, in the header or, where
/// there is none, in the query (raw, without its question mark).
///
/// Keys are compared as the text they are, in a time that does not depend on where they differ.
///
/// Source: Event Grid, "Authenticate publishing clients with access keys".
///
/// # Errors
///
/// [`PublishError`] with status 401. It never repeats a key.
pub fn authenticate(topic: &Topic, headers: &HeaderMap, query: &str) -> Result<(), PublishError> {
    let given = match headers.get(KEY) {
        Some(value) => Some(value.as_bytes().to_vec()),
        None => parameter(query, KEY),
    };
    let Some(given) = given.filter(|key| !key.is_empty()) else {
        return Err(unauthenticated(headers, query));
    };
    if topic.disable_local_auth {
        return Err(PublishError::LocalAuthDisabled);
    }
    // Both are compared whatever the first says, so that time does not tell which one matched.
    let [first, second] = &topic.keys;
    let equal = given.ct_eq(first.expose().as_bytes()) | given.ct_eq(second.expose().as_bytes());
    if bool::from(equal) { Ok(()) } else { Err(PublishError::KeyRefused) }
}

fn unauthenticated(headers: &HeaderMap, query: &str) -> PublishError {
    let given = |name: &&str| headers.contains_key(*name) || parameter(query, name).is_some();
    match UNSUPPORTED.into_iter().find(given) {
        Some(given) => PublishError::CredentialsUnsupported { given },
        None => PublishError::KeyMissing,
    }
}

/// A parameter of a query. A plus sign stays one: it is a digit of base64, which has no spaces.
fn parameter(query: &str, name: &str) -> Option<Vec<u8>> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut named = pairs.filter(|(key, _)| percent_decode_str(key).eq(name.bytes()));
    named.next().map(|(_, value)| percent_decode_str(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        delivery::profile::ProfileName,
        secret::Secret,
        time::Timestamp,
        topic::{InputSchema, Kind},
    };

    fn topic(disable_local_auth: bool) -> Topic {
        Topic {
            name: "orders".to_owned(),
            kind: Kind::Custom,
            input_schema: InputSchema::EventGridSchema,
            disable_local_auth,
            delivery_profile: ProfileName::Basic,
            keys: [Secret::new("a2V5+MQ/=="), Secret::new("second==")],
            created_at: Timestamp::from_millis(0),
            revision: 1,
        }
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
            ("no key", "", "", "api-version=2018-01-01", "KeyMissing"),
            ("empty key", "aeg-sas-key", "", "", "KeyMissing"),
            ("empty key in the query", "", "", "aeg-sas-key=", "KeyMissing"),
            ("wrong key", "aeg-sas-key", "a2V5+MQ/=!", "", "KeyRefused"),
            ("a part of the key", "aeg-sas-key", "a2V5+MQ/", "", "KeyRefused"),
            ("more than the key", "aeg-sas-key", "second===", "", "KeyRefused"),
            ("both keys", "aeg-sas-key", "a2V5+MQ/==second==", "", "KeyRefused"),
            ("another case", "aeg-sas-key", "SECOND==", "", "KeyRefused"),
            ("another parameter", "", "", "key=second==", "KeyMissing"),
            ("token", "aeg-sas-token", "r=x&e=y&s=z", "", "CredentialsUnsupported"),
            ("token in the query", "", "", "aeg-sas-token=r", "CredentialsUnsupported"),
            (
                "key of a namespace",
                "authorization",
                "SharedAccessKey second==",
                "",
                "CredentialsUnsupported",
            ),
        ];
        for (row, header, value, query, want) in table {
            let mut headers = HeaderMap::new();
            if !header.is_empty() {
                headers.insert(header, value.parse().expect("a value"));
            }
            let got = authenticate(&topic(false), &headers, query);
            assert_eq!(got.as_ref().map_or_else(PublishError::detail, |()| "ok"), want, "{row}");
            if let Err(error) = got {
                assert_eq!((error.status(), error.code()), (401, "Unauthorized"), "{row}");
                assert!(!error.to_json().contains("second=="), "{row}: {}", error.to_json());
            }
        }
    }

    #[test]
    fn a_topic_without_local_authentication_refuses_its_keys() {
        let refused = authenticate(&topic(true), &HeaderMap::new(), "aeg-sas-key=second==");
        assert_eq!(refused.expect_err("refused").detail(), "LocalAuthDisabled");
    }
}

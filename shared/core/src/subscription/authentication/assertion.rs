//! The assertion that a client signs, instead of sending a secret: `private_key_jwt`.
//!
//! Source: OpenID Connect Core 1.0, section 9; RFC 7523, 2.2 and 3; RFC 7515, 3.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{secret::Secret, time::Timestamp};

/// How long an assertion is valid. It is used at once: the rest is for clocks that differ.
pub const LIFE: Duration = Duration::from_secs(120);

/// A signature algorithm, by the kind of the key. Source: RFC 7518, section 3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA, PKCS #1 v1.5 with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
        }
    }
}

/// The claims of an assertion.
#[derive(Clone, Copy, Debug)]
pub struct Assertion<'a> {
    pub client_id: &'a str,
    pub key_id: Option<&'a str>,
    pub audience: &'a str,
    /// Unique.
    pub id: Uuid,
    pub now: Timestamp,
}

impl Assertion<'_> {
    /// Returns the text to sign.
    pub fn unsigned(&self, algorithm: Algorithm) -> String {
        let mut header = Map::new();
        header.insert("alg".to_owned(), json!(algorithm.name()));
        header.insert("typ".to_owned(), json!("JWT"));
        if let Some(key_id) = self.key_id {
            header.insert("kid".to_owned(), json!(key_id));
        }
        let issued_at = self.now.as_seconds();
        let claims = json!({
            "iss": self.client_id, "sub": self.client_id, "aud": self.audience, "jti": self.id,
            "iat": issued_at, "exp": (self.now + LIFE).as_seconds(),
        });
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}", part(Value::Object(header)), part(claims))
    }
}

/// Joins the text and its signature.
pub fn signed(unsigned: &str, signature: &[u8]) -> Secret {
    Secret::new(format!("{unsigned}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(part: &str) -> Value {
        let bytes = URL_SAFE_NO_PAD.decode(part).expect("base64url");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    #[test]
    fn an_assertion_says_who_asks_and_for_how_long() {
        let now = Timestamp::from_millis(1_700_000_000_999);
        let id = Uuid::from_u128(7);
        let table = [
            (Algorithm::Rs256, None, json!({"alg": "RS256", "typ": "JWT"})),
            (Algorithm::Es256, Some("k/1"), json!({"alg": "ES256", "typ": "JWT", "kid": "k/1"})),
        ];
        for (algorithm, key_id, header) in table {
            let audience = "https://id.example/token";
            let assertion = Assertion { client_id: "c", key_id, audience, id, now };
            let whole = signed(&assertion.unsigned(algorithm), &[0xff, 0xfe]);
            let parts: Vec<_> = whole.expose().split('.').collect();
            assert_eq!(decoded(parts[0]), header);
            let claims = json!({"iss": "c", "sub": "c", "aud": "https://id.example/token",
                "jti": id, "iat": 1_700_000_000, "exp": 1_700_000_120});
            assert_eq!(decoded(parts[1]), claims);
            assert_eq!(parts[2..], ["__4"]);
        }
    }
}

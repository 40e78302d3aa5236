//! Signs requests, so that an endpoint can tell who sends them.
//!
//! Source: Standard Webhooks 1.0, <https://www.standardwebhooks.com>, "Signature scheme".

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::{secret::Secret, time::Timestamp};

/// Source: as above, "Signing secret".
const PREFIX: &str = "whsec_";

/// How long a replaced secret stays valid by default.
pub const OVERLAP_DEFAULT: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest that a replaced secret may stay valid.
pub const OVERLAP_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The secrets that sign an event subscription's requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signing {
    /// `whsec_` and 32 bytes in base64.
    pub secret: Secret,
    /// The replaced secret, while receivers switch over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Previous>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Previous {
    pub secret: Secret,
    /// Until then, requests are also signed with it.
    pub valid_until: Timestamp,
}

impl Signing {
    /// Creates a secret of these unguessable bytes.
    pub fn new(key: [u8; 32]) -> Self {
        Self { secret: Secret::new(format!("{PREFIX}{}", STANDARD.encode(key))), previous: None }
    }

    /// Replaces the secret. The current one stays valid until then, the one before it is dropped.
    #[must_use]
    pub fn rotated(&self, key: [u8; 32], valid_until: Timestamp) -> Self {
        let previous = Previous { secret: self.secret.clone(), valid_until };
        Self { previous: Some(previous), ..Self::new(key) }
    }

    /// Returns the headers that sign a request.
    pub fn headers(&self, id: String, now: Timestamp, body: &[u8]) -> [(&'static str, String); 3] {
        [
            ("webhook-signature", self.signatures(&id, now, body)),
            ("webhook-id", id),
            ("webhook-timestamp", seconds(now).to_string()),
        ]
    }

    /// Returns `webhook-signature`: one signature for each valid secret, the newest first.
    pub fn signatures(&self, id: &str, now: Timestamp, body: &[u8]) -> String {
        let previous = self.previous.iter().filter(|previous| now < previous.valid_until);
        let secrets = std::iter::once(&self.secret).chain(previous.map(|one| &one.secret));
        let all: Vec<_> =
            secrets.filter_map(|secret| sign(secret, id, seconds(now), body)).collect();
        all.join(" ")
    }
}

/// Returns `webhook-timestamp`: seconds since the Unix epoch.
pub fn seconds(now: Timestamp) -> i64 {
    now.as_millis().div_euclid(1_000)
}

/// Returns `None` if the secret is malformed.
fn sign(secret: &Secret, id: &str, seconds: i64, body: &[u8]) -> Option<String> {
    let key = STANDARD.decode(secret.expose().strip_prefix(PREFIX)?).ok()?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(body);
    Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTOR: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    /// The example of the specification's own libraries.
    #[test]
    fn the_published_vector_is_met() {
        let signing = Signing {
            secret: Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
            previous: None,
        };
        let at = Timestamp::from_millis(1_614_265_330_999);
        let got =
            signing.signatures("msg_p5jXN8AQM9LWM0D4loKWxJek", at, br#"{"test": 2432232314}"#);
        assert_eq!(got, VECTOR);
        assert_eq!(seconds(at), 1_614_265_330);
    }

    #[test]
    fn both_secrets_sign_while_both_are_valid() {
        let until = Timestamp::from_millis(10_000);
        let old = Signing::new([1; 32]);
        let new = old.rotated([2; 32], until);
        let at = Timestamp::from_millis;
        let sign = |signing: &Signing, millis| signing.signatures("id", at(millis), b"[]");
        let both = sign(&new, 9_999);
        let [first, second] = both.split(' ').collect::<Vec<_>>()[..] else { panic!("{both}") };
        assert_eq!(first, sign(&Signing::new([2; 32]), 9_999));
        assert_eq!(second, sign(&old, 9_999));
        assert_eq!(sign(&new, 10_000), sign(&Signing::new([2; 32]), 10_000));
        let again = new.rotated([3; 32], until);
        assert_eq!(again.previous.map(|previous| previous.secret), Some(new.secret));
        assert!(old.secret.expose().starts_with("whsec_") && old.secret.expose().len() == 50);
    }

    #[test]
    fn what_is_signed_can_not_be_changed() {
        let signing = Signing::new([7; 32]);
        let at = Timestamp::from_millis(5_000);
        let sign = |id, at, body| signing.signatures(id, at, body);
        let signature = sign("id", at, b"body");
        for other in [
            sign("ie", at, b"body"),
            sign("id", Timestamp::from_millis(6_000), b"body"),
            sign("id", at, b"bodz"),
        ] {
            assert_ne!(other, signature);
        }
    }
}

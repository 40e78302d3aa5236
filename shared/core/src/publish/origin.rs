//! Decides whether a request came through the content delivery network in front of the publish API.

use std::str::FromStr;

use http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::PublishError;

/// The header in which the network shows its secret.
pub const ORIGIN_SECRET: &str = "x-gridpost-origin-secret";

/// SHA-256 digests of the secrets that the network may send, at most two; none lets every request
/// pass.
///
/// The digest of a random secret does not tell the secret, so it may stand in a function's
/// environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginSecrets(Vec<[u8; 32]>);

/// A setting that does not list digests. It never repeats the setting, which may be a secret by
/// mistake.
#[derive(Debug, thiserror::Error)]
#[error("must be one or two SHA-256 digests of 64 hexadecimal digits, with a comma between them")]
pub struct OriginSecretsError;

impl FromStr for OriginSecrets {
    type Err = OriginSecretsError;

    fn from_str(text: &str) -> Result<Self, OriginSecretsError> {
        let digests: Option<Vec<_>> = text.split(',').map(digest).collect();
        match digests {
            Some(digests) if digests.len() <= 2 => Ok(Self(digests)),
            _ => Err(OriginSecretsError),
        }
    }
}

impl OriginSecrets {
    /// Refuses a request that does not show one of the secrets exactly once. Takes the same time
    /// whichever secret it shows, and for every wrong one of the same length.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), PublishError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut given = headers.get_all(ORIGIN_SECRET).iter();
        let only = given.next().filter(|_| given.next().is_none());
        let shown: [u8; 32] = Sha256::digest(only.map_or(&[][..], HeaderValue::as_bytes)).into();
        let is_one = self.0.iter().fold(Choice::from(0), |found, one| found | shown.ct_eq(one));
        if bool::from(is_one) { Ok(()) } else { Err(PublishError::OriginRefused) }
    }
}

fn digest(text: &str) -> Option<[u8; 32]> {
    let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut digest = [0; 32];
    for (index, byte) in digest.iter_mut().enumerate().take_while(|_| is_hex) {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    is_hex.then_some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source of the digests: `printf %s first | sha256sum`.
    const FIRST: &str = "a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e";
    const SECOND: &str = "16367aacb67a4a017c8da8ab95682ccb390863780f7114dda0a0e0c55644c7c4";

    fn headers(values: &[&'static str]) -> HeaderMap {
        let pair = |value: &&'static str| {
            (ORIGIN_SECRET.parse().expect("a name"), HeaderValue::from_static(value))
        };
        values.iter().map(pair).collect()
    }

    #[test]
    fn only_a_named_secret_passes() {
        let both: OriginSecrets = format!("{FIRST},{SECOND}").parse().expect("two digests");
        let one: OriginSecrets = FIRST.to_uppercase().parse().expect("a digest");
        let none = OriginSecrets::default();
        let table: [(&[&str], [bool; 3]); 7] = [
            (&["first"], [true, true, true]),
            (&["second"], [true, false, true]),
            (&["first", "second"], [false, false, true]),
            (&["first,second"], [false, false, true]),
            (&["third"], [false, false, true]),
            (&[FIRST], [false, false, true]),
            (&[], [false, false, true]),
        ];
        for (given, want) in table {
            let passes = [&both, &one, &none].map(|of| of.check(&headers(given)).is_ok());
            assert_eq!(passes, want, "{given:?}");
        }
        let nothing: String = Sha256::digest("").iter().map(|byte| format!("{byte:02x}")).collect();
        let of_nothing: OriginSecrets = nothing.parse().expect("a digest");
        assert!(of_nothing.check(&headers(&["first"])).is_err());
    }

    #[test]
    fn a_secret_in_place_of_its_digest_is_not_repeated() {
        let three = [FIRST, SECOND, FIRST].join(",");
        for text in ["", "first", ",", &FIRST[1..], &three, &"é".repeat(32)] {
            let refused = text.parse::<OriginSecrets>().expect_err(text).to_string();
            assert!(refused.contains("64 hexadecimal digits") && !refused.contains("first"));
        }
    }
}

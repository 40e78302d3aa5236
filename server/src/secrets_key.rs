//! The key for secrets at rest: AES-256-GCM.

use std::{fmt, sync::Arc};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey},
    digest::{SHA256, digest},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use gridpost_embedded::{SEALED, Seal};

/// The fewest characters of a key's text: 32 random bytes have 43 in base64.
const KEY_CHARS_MIN: usize = 43;

/// Keys for secrets: the first encrypts, and all decrypt.
#[derive(Clone)]
pub struct SecretsKeys(Arc<[RandomizedNonceKey]>);

/// A key is too short to be random bytes.
#[derive(Debug, thiserror::Error)]
#[error(
    "a key has at least {KEY_CHARS_MIN} characters, as `openssl rand -base64 32` prints it, and this one has {0}"
)]
pub struct KeyError(usize);

impl SecretsKeys {
    /// Reads the keys in a text, one a line.
    pub fn of(text: &str) -> Result<Self, KeyError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let key = |text: &str| {
            let key = digest(&SHA256, text.as_bytes());
            let is_random = text.chars().count() >= KEY_CHARS_MIN;
            let key = RandomizedNonceKey::new(&AES_256_GCM, key.as_ref()).ok();
            key.filter(|_| is_random).ok_or(KeyError(text.chars().count()))
        };
        let keys: Arc<[_]> = lines.map(key).collect::<Result<_, _>>()?;
        if keys.is_empty() { Err(KeyError(0)) } else { Ok(Self(keys)) }
    }
}

impl Seal for SecretsKeys {
    fn seal(&self, row: &str, text: &str) -> Option<String> {
        let mut bytes = text.as_bytes().to_vec();
        let nonce = self.0.first()?.seal_in_place_append_tag(Aad::from(row), &mut bytes).ok()?;
        Some(format!("{SEALED}{}", BASE64_STANDARD.encode([nonce.as_ref(), &bytes[..]].concat())))
    }

    fn open(&self, row: &str, sealed: &str) -> Option<(usize, String)> {
        let bytes = BASE64_STANDARD.decode(sealed.strip_prefix(SEALED)?).ok()?;
        let (nonce, rest) = bytes.split_at_checked(NONCE_LEN)?;
        self.0.iter().enumerate().find_map(|(number, key)| {
            let (nonce, mut rest) = (Nonce::try_assume_unique_for_key(nonce).ok()?, rest.to_vec());
            let opened = key.open_in_place(nonce, Aad::from(row), &mut rest).ok()?;
            Some((number, str::from_utf8(opened).ok()?.to_owned()))
        })
    }
}

impl fmt::Debug for SecretsKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretsKeys(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(letter: char) -> String {
        String::from(letter).repeat(KEY_CHARS_MIN)
    }

    fn keys(letters: &[char]) -> SecretsKeys {
        let lines: Vec<_> = letters.iter().map(|letter| key(*letter)).collect();
        SecretsKeys::of(&lines.join("\n")).expect("keys")
    }

    #[test]
    fn what_is_sealed_opens_in_its_row_under_its_key_alone() {
        let (a, text) = (keys(&['a']), "{\"key1\":\"hush\"}");
        let sealed = a.seal("orders", text).expect("sealed");
        assert!(sealed.starts_with(SEALED) && !sealed.contains("hush"));
        assert_ne!(a.seal("orders", text).expect("sealed"), sealed, "a nonce");
        for (keys, row, want) in [
            (&a, "orders", Some(0)),
            (&keys(&['b', 'a']), "orders", Some(1)),
            (&keys(&['b']), "orders", None),
            (&a, "billing", None),
        ] {
            let opened = keys.open(row, &sealed);
            assert_eq!(opened, want.map(|number| (number, text.to_owned())), "{row}");
        }
        for cut in [SEALED, "sealed:?", "{}", &sealed[..sealed.len() - 4]] {
            assert_eq!(a.open("orders", cut), None, "{cut}");
        }
    }

    #[test]
    fn a_key_that_a_person_has_thought_up_is_refused() {
        for text in ["", "\n", "secret", &key('a')[1..]] {
            assert!(SecretsKeys::of(text).is_err(), "{text}");
        }
        assert_eq!(format!("{:?}", keys(&['a'])), "SecretsKeys(…)");
    }
}

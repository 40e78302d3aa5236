//! Secrets at rest: topics' keys and event subscriptions' secrets, encrypted by AES-256-GCM under a key that the
//! database does not have.

use std::{fmt, sync::Arc};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey},
    digest::{SHA256, digest},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use rusqlite::Connection;

use crate::options::OpenError;

/// The fewest characters of a key's text: 32 random bytes have 43 in base64.
const KEY_CHARS_MIN: usize = 43;

/// How a sealed text begins. JSON can't.
const MARK: &str = "sealed:";

/// The tables with secrets: the column, and an expression for the row that it is bound to.
const TABLES: [(&str, &str, &str); 2] = [
    ("access_keys", "document", "lower(topic)"),
    ("subscriptions", "secrets", "lower(topic) || '/' || lower(name)"),
];

/// Encrypts secrets before they are written, and decrypts them when they are read.
#[derive(Clone)]
pub struct Sealer(Arc<[RandomizedNonceKey]>);

/// A key is too short to be random bytes.
#[derive(Debug, thiserror::Error)]
#[error(
    "a key has at least {KEY_CHARS_MIN} characters, as `openssl rand -base64 32` prints it, and this one has {0}"
)]
pub struct KeyError(usize);

/// A sealed text can't be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SealError {
    #[error("it is encrypted, and no key is given")]
    NoKey,
    #[error("it is encrypted under another key, or was changed")]
    OtherKey,
}

impl Sealer {
    /// Makes one of the keys in a text, one a line: the first encrypts, and all decrypt.
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

    fn seal(&self, row: &str, text: &str) -> Option<String> {
        let mut bytes = text.as_bytes().to_vec();
        let nonce = self.0.first()?.seal_in_place_append_tag(Aad::from(row), &mut bytes).ok()?;
        Some(format!("{MARK}{}", BASE64_STANDARD.encode([nonce.as_ref(), &bytes[..]].concat())))
    }

    /// Decrypts a text. Returns it with the number of the key.
    fn open(&self, row: &str, sealed: &str) -> Option<(usize, String)> {
        let bytes = BASE64_STANDARD.decode(sealed.strip_prefix(MARK)?).ok()?;
        let (nonce, rest) = bytes.split_at_checked(aws_lc_rs::aead::NONCE_LEN)?;
        self.0.iter().enumerate().find_map(|(number, key)| {
            let (nonce, mut rest) = (Nonce::try_assume_unique_for_key(nonce).ok()?, rest.to_vec());
            let opened = key.open_in_place(nonce, Aad::from(row), &mut rest).ok()?;
            Some((number, str::from_utf8(opened).ok()?.to_owned()))
        })
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sealer(…)")
    }
}

/// Encrypts a text for a row, if there is a key.
pub(crate) fn sealed(sealer: Option<&Sealer>, row: &str, text: String) -> String {
    // With a whole key, encrypting does not fail.
    sealer.and_then(|sealer| sealer.seal(row, &text)).unwrap_or(text)
}

/// Decrypts the text of a row, if it is encrypted.
pub(crate) fn opened(
    sealer: Option<&Sealer>,
    row: &str,
    text: String,
) -> Result<String, SealError> {
    match (text.starts_with(MARK), sealer) {
        (false, _) => Ok(text),
        (true, None) => Err(SealError::NoKey),
        (true, Some(sealer)) => match sealer.open(row, &text) {
            Some((_, text)) => Ok(text),
            None => Err(SealError::OtherKey),
        },
    }
}

/// Encrypts what is not, or is under another key than the first. Fails if there is no key for something.
pub(crate) fn seal_all(
    connection: &Connection,
    sealer: Option<&Sealer>,
    folder: &std::path::Path,
) -> Result<(), OpenError> {
    // What was written in clear is not left in unused pages.
    connection.pragma_update(None, "secure_delete", true)?;
    for (table, column, row) in TABLES {
        let select = format!("SELECT rowid, {row}, {column} FROM {table} WHERE {column} NOT NULL");
        let update = format!("UPDATE {table} SET {column} = ?2 WHERE rowid = ?1");
        let mut select = connection.prepare(&select)?;
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let rows: Vec<(i64, String, String)> = rows.collect::<Result<_, _>>()?;
        for (id, row, text) in rows {
            let number = match (text.starts_with(MARK), sealer) {
                (true, Some(sealer)) => sealer.open(&row, &text).map(|(number, _)| number),
                _ => None,
            };
            if number == Some(0) {
                continue;
            }
            let clear = opened(sealer, &row, text).map_err(|why| OpenError::Sealed {
                folder: folder.to_owned(),
                of: row.clone(),
                why: why.to_string(),
            })?;
            if let Some(sealed) = sealer.and_then(|sealer| sealer.seal(&row, &clear)) {
                connection.execute(&update, (id, sealed))?;
            }
        }
    }
    connection.pragma_update(None, "secure_delete", false)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(letter: char) -> String {
        String::from(letter).repeat(KEY_CHARS_MIN)
    }

    fn sealer(keys: &[char]) -> Sealer {
        let lines: Vec<_> = keys.iter().map(|letter| key(*letter)).collect();
        Sealer::of(&lines.join("\n")).expect("keys")
    }

    #[test]
    fn what_is_sealed_opens_in_its_row_under_its_key_alone() {
        let (a, b) = (sealer(&['a']), sealer(&['b']));
        let text = sealed(Some(&a), "orders", "{\"key1\":\"hush\"}".to_owned());
        assert!(text.starts_with(MARK) && !text.contains("hush"));
        assert_ne!(text, sealed(Some(&a), "orders", "{\"key1\":\"hush\"}".to_owned()), "a nonce");
        let both = sealer(&['b', 'a']);
        for (who, row, is_open) in [
            (Some(&a), "orders", true),
            (Some(&both), "orders", true),
            (Some(&b), "orders", false),
            (Some(&a), "billing", false),
            (None, "orders", false),
        ] {
            assert_eq!(opened(who, row, text.clone()).is_ok(), is_open, "{row}");
        }
        for cut in [MARK, "sealed:?", &text[..text.len() - 4]] {
            assert!(opened(Some(&a), "orders", cut.to_owned()).is_err(), "{cut}");
        }
        assert_eq!(opened(Some(&a), "orders", "{}".to_owned()).expect("clear"), "{}");
    }

    #[test]
    fn a_key_that_a_person_has_thought_up_is_refused() {
        for text in ["", "\n", "secret", &key('a')[1..]] {
            assert!(Sealer::of(text).is_err(), "{text}");
        }
        assert_eq!(format!("{:?}", sealer(&['a'])), "Sealer(…)");
    }

    #[test]
    fn rows_are_sealed_again_under_the_first_key() {
        let connection = Connection::open_in_memory().expect("a database");
        connection.execute_batch(include_str!("schema.sql")).expect("tables");
        let insert = "INSERT INTO access_keys VALUES ('Orders', 1, '{\"key1\":\"hush\"}');
            INSERT INTO subscriptions VALUES ('Orders', 'S', 1, '{}', '{\"a\":\"hush\"}'), ('Orders', 'T', 1, '{}', NULL)";
        connection.execute_batch(insert).expect("rows");
        let folder = std::path::Path::new("folder");
        let all = |sealer: Option<&Sealer>| seal_all(&connection, sealer, folder);
        let texts = || {
            let select = "SELECT document FROM access_keys UNION ALL \
                          SELECT secrets FROM subscriptions WHERE secrets NOT NULL";
            let mut select = connection.prepare(select).expect("a statement");
            let rows = select.query_map([], |row| row.get::<_, String>(0)).expect("rows");
            rows.map(|row| row.expect("a text")).collect::<Vec<_>>()
        };
        all(None).expect("nothing is sealed");
        all(Some(&sealer(&['a']))).expect("sealed");
        let first = texts();
        assert!(first.iter().all(|text| text.starts_with(MARK)), "{first:?}");
        all(Some(&sealer(&['a']))).expect("left as they are");
        assert_eq!(texts(), first);
        all(Some(&sealer(&['b', 'a']))).expect("under the new one");
        all(Some(&sealer(&['b']))).expect("the old one is not needed any more");
        for other in [None, Some(sealer(&['a']))] {
            let refused = all(other.as_ref()).expect_err("no key for it").to_string();
            assert!(refused.contains("orders") && !refused.contains("hush"), "{refused}");
        }
    }
}

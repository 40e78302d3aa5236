//! Who may do what by a token, where no cloud says it: roles and scopes. On AWS, IAM policies do.

use std::{fmt, str::FromStr};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    name::folded,
    secret::Secret,
    text::{matches, quoted},
    time::Timestamp,
};

/// The role of a token. Each role allows all that those before it allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[derive(strum::Display, strum::EnumString, strum::VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Role {
    /// Sees everything but keys and secrets.
    Read,
    /// Decides what becomes of deliveries: pauses, attempts, redrives, purges, tests.
    Operator,
    /// Makes and changes topics and event subscriptions, and sees their keys and secrets.
    Admin,
}

/// The topics that a token is for, by names in which `*` means any characters. Empty: all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scope(Vec<String>);

impl Scope {
    /// Whether it has all topics.
    pub fn is_whole(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it has that topic, in any spelling.
    pub fn has(&self, topic: &str) -> bool {
        let topic = folded(topic);
        self.is_whole() || self.0.iter().any(|pattern| matches(pattern, &topic))
    }
}

/// A pattern that no topic's name can match.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` matches no topic: write names of letters, digits, - and *, with commas between them"
)]
pub struct ScopeError(String);

impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '*');
        let read = |pattern: &str| match !pattern.is_empty() && pattern.chars().all(fits) {
            true => Ok(folded(pattern)),
            false => Err(ScopeError(pattern.to_owned())),
        };
        let patterns: Vec<_> =
            text.split(',').map(|pattern| read(pattern.trim())).collect::<Result<_, _>>()?;
        let is_whole = patterns.iter().any(|pattern| pattern == "*");
        Ok(Self(if is_whole { Vec::new() } else { patterns }))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_whole() {
            true => formatter.write_str("*"),
            false => formatter.write_str(&self.0.join(",")),
        }
    }
}

/// The role and the topics of a request's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub role: Role,
    pub topics: Scope,
}

/// A token as it is stored: by its hash, not its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Unique, and in the log of what it changes.
    pub name: String,
    pub hash: TokenHash,
    pub role: Role,
    #[serde(default, skip_serializing_if = "Scope::is_whole")]
    pub topics: Scope,
    pub created_at: Timestamp,
}

/// The SHA-256 of a token: 256 random bits need no salt.
pub type TokenHash = [u8; 32];

/// The prefix of tokens, by which scanners of repositories find them.
const PREFIX: &str = "gridpost_";

/// Writes 256 random bits as a token.
pub fn token_of(random: [u8; 32]) -> Secret {
    Secret::new(format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(random)))
}

/// Returns the hash of a token that a request has.
pub fn hash_of(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

/// A name that no token can have.
#[derive(Debug, thiserror::Error)]
#[error("{0} can't be the name of a token: it has 1 to 64 letters, digits, -, _ and .")]
pub struct TokenNameError(String);

/// Refuses a name that no token can have.
pub fn check_token_name(name: &str) -> Result<(), TokenNameError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match (1..=64).contains(&name.len()) && name.chars().all(fits) {
        true => Ok(()),
        false => Err(TokenNameError(quoted(name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_has_the_topics_that_its_patterns_match() {
        let table = [
            ("orders", "orders", true),
            ("orders", "ORDERS", true),
            ("Orders", "orders", true),
            ("orders", "orders-eu", false),
            ("acme-*", "acme-orders", true),
            ("acme-*", "acme", false),
            ("acme-*", "not-acme-orders", false),
            ("*-orders", "acme-orders", true),
            ("acme-*,beta-*", "beta-1", true),
            ("acme-*, beta-*", "gamma-1", false),
            ("*", "anything", true),
            ("acme-*,*", "anything", true),
        ];
        for (text, topic, want) in table {
            let scope: Scope = text.parse().expect("a scope");
            assert_eq!(scope.has(topic), want, "{scope} {topic}");
            assert_eq!(scope.is_whole(), topic == "anything", "{text}");
        }
    }

    #[test]
    fn a_scope_that_could_be_taken_for_all_topics_is_refused() {
        for text in ["", " ", "a,,b", "a,", "a b", "a/b", "a_b", "a.*", "\u{e9}*"] {
            let refused = text.parse::<Scope>().expect_err(text).to_string();
            assert!(refused.contains("matches no topic"), "{refused}");
        }
    }

    #[test]
    fn tokens_are_stored_without_their_secrets() {
        let secret = token_of([255; 32]);
        assert_eq!(secret.expose(), format!("gridpost_{}8", "_".repeat(42)));
        let token = Token {
            name: "ci".to_owned(),
            hash: hash_of(secret.expose()),
            role: Role::Read,
            topics: "acme-*".parse().expect("a scope"),
            created_at: Timestamp::from_millis(0),
        };
        let stored = serde_json::to_string(&token).expect("JSON");
        assert!(!stored.contains(&secret.expose()[20..]), "{stored}");
        assert_eq!(serde_json::from_str::<Token>(&stored).expect("a token"), token);
        assert_ne!(hash_of("a"), hash_of("b"));
    }

    #[test]
    fn names_of_tokens_can_be_logged_and_typed() {
        for (name, is_fit) in [
            ("ci", true),
            ("team-a_b.1", true),
            (&*"a".repeat(64), true),
            (&*"a".repeat(65), false),
            ("", false),
            ("a b", false),
            ("a/b", false),
            ("a\nb", false),
            ("\u{e9}", false),
        ] {
            assert_eq!(check_token_name(name).is_ok(), is_fit, "{name}");
        }
    }

    #[test]
    fn a_role_has_what_those_before_it_have() {
        assert!(Role::Read < Role::Operator && Role::Operator < Role::Admin);
        for role in ["read", "operator", "admin"] {
            assert_eq!(role.parse::<Role>().expect("a role").to_string(), role);
        }
        assert!("Admin".parse::<Role>().is_err() && "".parse::<Role>().is_err());
    }
}

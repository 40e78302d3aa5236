//! Tokens of a deployment on one machine.

use gridpost_core::{
    access::{self, Role},
    secret::Secret,
};
use serde::{Deserialize, Serialize};

use crate::schema::{List, Time};

/// A token to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenInput {
    pub name: String,
    pub role: Role,
    /// Patterns of topics' names with commas between them; all topics if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topics: Option<String>,
}

/// A token without its secret, which is shown once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    pub name: String,
    pub role: Role,
    /// `*` is all.
    pub topics: String,
    pub created_time: Time,
}

impl From<&access::Token> for Token {
    fn from(token: &access::Token) -> Self {
        let access::Token { name, role, topics, created_at, .. } = token;
        let (name, topics) = (name.clone(), topics.to_string());
        Self { name, role: *role, topics, created_time: (*created_at).into() }
    }
}

/// A token that was just made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewToken {
    #[serde(flatten)]
    pub about: Token,
    #[serde(serialize_with = "exposed")]
    pub token: Secret,
}

fn exposed<S: serde::Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}

/// All tokens.
pub type TokenList = List<Token>;

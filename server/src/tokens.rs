//! Tokens of the manage API: made, listed and revoked by the folder's socket, and in force at once.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

use gridpost_api::{
    error::{Error, ErrorCode},
    schema::List,
    token::{self, NewToken, TokenInput},
};
use gridpost_core::{
    access::{Grant, Scope, Token, TokenHash, check_token_name, hash_of, token_of},
    time::Timestamp,
};
use gridpost_embedded::{Embedded, Options as StoreOptions, Sync, Tables};
use gridpost_ports::{Clock, Dice, PortError, Saved};
use gridpost_runtime::system::{SystemClock, SystemDice};
use hyper::{HeaderMap, Method, StatusCode, header};
use serde::Serialize;
use serde_json::Value;

use crate::{StartError, secrets_key::SecretsKeys};

/// The path of the tokens, on the socket alone.
pub(crate) const PATH: &str = "/tokens";

/// The most tokens: all of them are in memory.
const TOKENS_MAX: usize = 10_000;

/// The tokens of a folder.
pub(crate) struct Tokens {
    tables: Arc<Tables>,
    known: RwLock<HashMap<TokenHash, Arc<Token>>>,
}

/// A status and a document.
pub(crate) type Answer = (StatusCode, Value);

impl Tokens {
    /// Reads all tokens.
    pub(crate) fn open(tables: Arc<Tables>) -> Result<Self, PortError> {
        let known = tables.tokens()?.into_iter().map(|token| (token.hash, Arc::new(token)));
        Ok(Self { known: RwLock::new(known.collect()), tables })
    }

    /// Returns the token of a request, if it has one that is known.
    pub(crate) fn bearer(&self, headers: &HeaderMap) -> Option<Arc<Token>> {
        let mut all = headers.get_all(header::AUTHORIZATION).iter();
        let (given, None) = (all.next()?.to_str().ok()?, all.next()) else { return None };
        let (scheme, token) = given.split_once(' ')?;
        // Looked up by its hash: the time that takes says nothing of the token.
        let hash = hash_of(token.trim());
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&hash).filter(|_| scheme.eq_ignore_ascii_case("bearer")).cloned()
    }

    /// Answers a request for the tokens; `rest` is what is behind their path.
    pub(crate) async fn answer(
        &self,
        (method, rest): (&Method, &str),
        body: &[u8],
        (now, dice): (Timestamp, &dyn Dice),
    ) -> Answer {
        let answered = match (method.as_str(), rest.strip_prefix('/')) {
            ("GET", None) => Ok(self.list()),
            ("POST", None) => self.create(body, now, dice).await,
            ("DELETE", Some(name)) => self.revoke(name).await,
            _ => Ok(refusal(404, ErrorCode::ResourceNotFound, "There is nothing here.")),
        };
        answered.unwrap_or_else(|error| {
            tracing::warn!(%error, "a token was not written");
            refusal(503, ErrorCode::ServiceUnavailable, "The write failed. Try again.")
        })
    }

    fn list(&self) -> Answer {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut value: Vec<_> = known.values().map(|one| token::Token::from(&**one)).collect();
        value.sort_by(|one, other| one.name.cmp(&other.name));
        (StatusCode::OK, document(&List { value, next_link: None }))
    }

    async fn create(
        &self,
        body: &[u8],
        now: Timestamp,
        dice: &dyn Dice,
    ) -> Result<Answer, PortError> {
        let (name, grant) = match read(body) {
            Ok(read) => read,
            Err(problem) => return Ok(refusal(400, ErrorCode::InvalidRequest, &problem)),
        };
        if self.known.read().unwrap_or_else(PoisonError::into_inner).len() >= TOKENS_MAX {
            let message = format!("There are {TOKENS_MAX} tokens, the most. Revoke some.");
            return Ok(refusal(409, ErrorCode::Conflict, &message));
        }
        let secret = token_of(dice.key());
        let Grant { role, topics } = grant;
        let token = Token { name, hash: hash_of(secret.expose()), role, topics, created_at: now };
        if self.tables.add_token(&token).await? == Saved::Conflict {
            let message = format!("There is a token {} already: revoke it first.", token.name);
            return Ok(refusal(409, ErrorCode::Conflict, &message));
        }
        let about = (&token).into();
        tracing::info!(token = token.name, role = %token.role, topics = %token.topics, "a token is made");
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(token.hash, Arc::new(token));
        Ok((StatusCode::CREATED, document(&NewToken { about, token: secret })))
    }

    async fn revoke(&self, name: &str) -> Result<Answer, PortError> {
        // First in memory: a token whose row could not be deleted is refused until the next start.
        let is_other = |token: &Token| !token.name.eq_ignore_ascii_case(name);
        self.known
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, token| is_other(token));
        if self.tables.delete_token(name).await? == Saved::Conflict {
            let message = format!("There is no token {name:?}.");
            return Ok(refusal(404, ErrorCode::ResourceNotFound, &message));
        }
        tracing::info!(token = name, "a token is revoked");
        Ok((StatusCode::OK, Value::Null))
    }
}

/// Reads a token to be made. Fails with the problem.
fn read(body: &[u8]) -> Result<(String, Grant), String> {
    let input: TokenInput = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let TokenInput { name, role, topics } = input;
    check_token_name(&name).map_err(|error| error.to_string())?;
    let topics = topics.map_or(Ok(Scope::default()), |topics| topics.parse());
    Ok((name, Grant { role, topics: topics.map_err(|error| error.to_string())? }))
}

/// The tokens of a folder that no process has open.
pub struct FolderTokens {
    tokens: Tokens,
    store: Embedded,
}

impl FolderTokens {
    /// Opens a folder, creating it if necessary. Fails if another process has it.
    pub fn open(folder: &Path, keys: SecretsKeys) -> Result<Self, StartError> {
        let options = StoreOptions {
            folder: Some(folder.to_owned()),
            sync: Sync::Full,
            sealer: Some(Arc::new(keys)),
            ..StoreOptions::default()
        };
        let store = Embedded::open(options, Arc::new(SystemClock))?;
        let tokens = Tokens::open(store.tables()).map_err(StartError::Tokens)?;
        Ok(Self { tokens, store })
    }

    /// Answers as the socket of a process does: a status and a document. `rest` is what is behind `/tokens`.
    pub async fn answer(&self, method: &Method, rest: &str, body: &[u8]) -> (u16, Value) {
        let with = (SystemClock.now(), &SystemDice as &dyn Dice);
        let (status, document) = self.tokens.answer((method, rest), body, with).await;
        (status.as_u16(), document)
    }

    /// Closes the folder.
    pub async fn close(self) {
        self.store.close().await;
    }
}

fn refusal(status: u16, code: ErrorCode, message: &str) -> Answer {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, document(&Error::new(code, message)))
}

fn document(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use gridpost_core::access::Role;
    use gridpost_embedded::Options;
    use hyper::header::HeaderValue;
    use serde_json::json;

    use super::*;

    struct Fixture(Tokens, Embedded);

    impl Fixture {
        fn new() -> Self {
            let store = Embedded::open(Options::default(), Arc::new(SystemClock)).expect("opened");
            Self(Tokens::open(store.tables()).expect("read"), store)
        }

        async fn send(&self, method: Method, rest: &str, document: &Value) -> (u16, Value) {
            let body = document.to_string();
            let with = (Timestamp::default(), &SystemDice as &dyn Dice);
            let (status, answer) = self.0.answer((&method, rest), body.as_bytes(), with).await;
            (status.as_u16(), answer)
        }

        fn bearer(&self, authorization: &[&str]) -> Option<Arc<Token>> {
            let values = authorization.iter().map(|value| {
                (header::AUTHORIZATION, HeaderValue::from_str(value).expect("a value"))
            });
            let mut headers = HeaderMap::new();
            values.for_each(|(name, value)| _ = headers.append(name, value));
            self.0.bearer(&headers)
        }
    }

    #[tokio::test]
    async fn a_token_is_shown_once_and_counts_until_it_is_revoked() {
        let fixture = Fixture::new();
        let input = json!({"name": "ci", "role": "operator", "topics": "acme-*"});
        let (status, made) = fixture.send(Method::POST, "", &input).await;
        assert_eq!((status, &made["topics"]), (201, &json!("acme-*")));
        let token = made["token"].as_str().expect("a token").to_owned();
        let known = fixture.bearer(&[&format!("Bearer {token}")]).expect("known");
        assert_eq!((&*known.name, known.role), ("ci", Role::Operator));
        assert!(fixture.bearer(&[&format!("bearer {token}")]).is_some());
        for refused in [
            &[][..],
            &[""],
            &["Bearer"],
            &["Bearer "],
            &[&token],
            &[&format!("Basic {token}")],
            &[&format!("Bearer {}", token.to_uppercase())],
            &[&format!("Bearer {token}"), "Bearer x"],
        ] {
            assert!(fixture.bearer(refused).is_none(), "{refused:?}");
        }
        let (_, list) = fixture.send(Method::GET, "", &Value::Null).await;
        assert_eq!(list["value"][0]["name"], "ci");
        assert!(!list.to_string().contains(&token));
        assert_eq!(fixture.send(Method::POST, "", &input).await.0, 409);
        // The next process knows it, too.
        let again = Tokens::open(fixture.1.tables()).expect("read");
        assert_eq!(again.known.read().expect("no panic").len(), 1);
        assert_eq!(fixture.send(Method::DELETE, "/CI", &Value::Null).await.0, 200);
        assert!(fixture.bearer(&[&format!("Bearer {token}")]).is_none());
        assert_eq!(fixture.send(Method::DELETE, "/ci", &Value::Null).await.0, 404);
    }

    #[tokio::test]
    async fn a_token_that_would_allow_more_than_it_says_is_not_made() {
        let fixture = Fixture::new();
        for (input, problem) in [
            (json!({"name": "a"}), "role"),
            (json!({"name": "a", "role": "root"}), "`read`, `operator`, `admin`"),
            (json!({"name": "", "role": "read"}), "the name of a token"),
            (json!({"name": "a", "role": "read", "topics": ""}), "matches no topic"),
            (json!({"name": "a", "role": "read", "topic": "x"}), "unknown field"),
        ] {
            let (status, answer) = fixture.send(Method::POST, "", &input).await;
            assert_eq!(status, 400, "{input}");
            assert!(answer.to_string().contains(problem), "{answer}");
        }
        let (_, list) = fixture.send(Method::GET, "", &Value::Null).await;
        assert_eq!(list["value"], json!([]));
    }
}

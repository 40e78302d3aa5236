//! The tokens in memory.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::lock::Mutex as Turn;
use gridpost_core::{
    endpoint::secrets::ClientSecrets,
    secret::Secret,
    subscription::{
        Authentication,
        authentication::{
            ClientCredentials, ClientSecret, Grant, SentBy,
            assertion::Assertion,
            token::{self, NoToken, Token, TokenRequest},
        },
    },
    time::Timestamp,
};

use super::{SecretReader, Signer};
use crate::{Clock, Dice, HandshakeClient, HandshakeRequest};

/// How long a token endpoint may take for its whole answer.
pub const TOKEN_WAIT: Duration = Duration::from_secs(10);

/// For how long a failure is the answer for those who come after it, so that a token endpoint that is
/// down is not asked for each event.
const FAILURE_KEPT_FOR: Duration = Duration::from_secs(2);

/// The most authentications whose tokens are kept.
const KEPT_MAX: usize = 1_024;

/// The tokens of all event subscriptions that one process has asked for.
pub struct Tokens {
    client: Arc<dyn HandshakeClient>,
    secrets: Arc<dyn SecretReader>,
    allowed: ClientSecrets,
    clock: Arc<dyn Clock>,
    /// Signs for clients that have a private key.
    signing: Option<(Arc<dyn Signer>, Arc<dyn Dice>)>,
    kept: Mutex<HashMap<Authentication, Arc<Place>>>,
}

/// One authentication's token.
#[derive(Default)]
struct Place {
    last: Mutex<Last>,
    /// Held by the one who asks for a token. Others wait for it.
    turn: Turn<()>,
}

/// What came of asking, last.
#[derive(Clone, Default)]
enum Last {
    #[default]
    Nothing,
    Token(Token),
    Failure(NoToken, Timestamp),
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Place {
    /// The last result, if it answers a request of `asked_at`: a token that is fresh, or what
    /// came of asking since then.
    fn answer(&self, asked_at: Timestamp, now: Timestamp) -> Option<Result<Token, NoToken>> {
        match &*open(&self.last) {
            Last::Nothing => None,
            Last::Token(token) => {
                let is_for_it = token.is_fresh(now) || token.fetched_at > asked_at;
                is_for_it.then(|| Ok(token.clone()))
            }
            Last::Failure(error, at) => {
                let is_new = *at >= asked_at || now.since(*at) < FAILURE_KEPT_FOR;
                is_new.then(|| Err(error.clone()))
            }
        }
    }

    /// Forgets that token, unless it is another's turn already.
    fn forget(&self, token: &Token) {
        let mut last = open(&self.last);
        if matches!(&*last, Last::Token(kept) if kept == token) {
            *last = Last::Nothing;
        }
    }
}

impl Tokens {
    /// Tokens that are asked for by `client`, with secrets that `allowed` names.
    pub fn new(
        client: Arc<dyn HandshakeClient>,
        secrets: Arc<dyn SecretReader>,
        allowed: ClientSecrets,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { client, secrets, allowed, clock, signing: None, kept: Mutex::default() }
    }

    /// The same, where clients may have private keys: `signer` signs, with ids from `dice`.
    #[must_use]
    pub fn signing(self, signer: Arc<dyn Signer>, dice: Arc<dyn Dice>) -> Self {
        Self { signing: Some((signer, dice)), ..self }
    }

    /// A token to send a request with.
    ///
    /// # Errors
    ///
    /// [`NoToken`] says what failed.
    pub async fn get(&self, by: &Authentication) -> Result<Token, NoToken> {
        let asked_at = self.clock.now();
        let place = self.place(by);
        if let Some(answer) = place.answer(asked_at, asked_at) {
            return answer;
        }
        let _turn = place.turn.lock().await;
        // The one before may have brought it.
        if let Some(answer) = place.answer(asked_at, self.clock.now()) {
            return answer;
        }
        let fetched = self.fetch(by).await;
        *open(&place.last) = match &fetched {
            Ok(token) => Last::Token(token.clone()),
            Err(error) => Last::Failure(error.clone(), self.clock.now()),
        };
        fetched
    }

    /// A token other than one that the endpoint has refused.
    ///
    /// # Errors
    ///
    /// [`NoToken`] says what failed.
    pub async fn instead_of(&self, by: &Authentication, refused: &Token) -> Result<Token, NoToken> {
        self.forget(by, refused);
        self.get(by).await
    }

    /// Forgets a token that an endpoint has refused, if it is still the one that is kept.
    pub fn forget(&self, by: &Authentication, refused: &Token) {
        self.place(by).forget(refused);
    }

    fn place(&self, by: &Authentication) -> Arc<Place> {
        let mut kept = open(&self.kept);
        if let Some(place) = kept.get(by) {
            return Arc::clone(place);
        }
        if kept.len() >= KEPT_MAX {
            // Those under way stay: others would not find them, and ask as well.
            kept.retain(|_, place| Arc::strong_count(place) > 1);
        }
        Arc::clone(kept.entry(by.clone()).or_default())
    }

    async fn fetch(&self, by: &Authentication) -> Result<Token, NoToken> {
        match by {
            Authentication::ClientCredentials(by) => self.fetch_by(by).await,
            // Its connection proves it: the client below asks for no token.
            Authentication::ClientCertificate(_) => {
                Err(NoToken::NoSecret("a client certificate has no token".to_owned()))
            }
        }
    }

    async fn fetch_by(&self, by: &ClientCredentials) -> Result<Token, NoToken> {
        let no_secret = |why: String| NoToken::NoSecret(why);
        let (id, secret) =
            by.client(&self.allowed).map_err(|refused| no_secret(format!("it {refused}")))?;
        let secret = match secret {
            ClientSecret::Inline { value } => value,
            ClientSecret::Reference { name } => {
                let read = self.secrets.read(&name).await;
                read.map_err(|error| no_secret(error.to_string()))?
            }
        };
        let secret = self.proof(&by.grant, &id, secret)?;
        let asked = request(token::request(&by.grant, &id, &secret));
        let answered = self.client.exchange(asked).await;
        let answered = answered.map_err(|error| NoToken::NoAnswer(error.to_string()))?;
        token::read(answered.status, &answered.body, self.clock.now())
    }
}

impl Tokens {
    /// What a client sends to prove who it is: its secret, or what it signs by that.
    fn proof(&self, grant: &Grant, client_id: &str, secret: Secret) -> Result<Secret, NoToken> {
        let signed = match grant {
            Grant::OAuth2 {
                token_url,
                sent_by: SentBy::PrivateKeyJwt { key_id, audience },
                ..
            } => Some((token_url, key_id, audience)),
            _ => None,
        };
        let Some((token_url, key_id, audience)) = signed else {
            // A reference may be to a key that is for signatures or certificates: those are never sent.
            if secret.expose().contains(" PRIVATE KEY-----") {
                return Err(NoToken::NoSecret("it is a private key, which is not sent".to_owned()));
            }
            return Ok(secret);
        };
        let Some((signer, dice)) = &self.signing else {
            return Err(NoToken::NotSigned("signs nothing in this program".to_owned()));
        };
        let assertion = Assertion {
            client_id,
            key_id: key_id.as_deref(),
            audience: audience.as_ref().unwrap_or(token_url),
            id: dice.id(),
            now: self.clock.now(),
        };
        let signed = signer.sign(&secret, &|algorithm| assertion.unsigned(algorithm));
        signed.map_err(NoToken::NotSigned)
    }
}

fn request(asked: TokenRequest) -> HandshakeRequest {
    let TokenRequest { url, authorization, body } = asked;
    let name = |value: Secret| ("authorization".to_owned(), value);
    HandshakeRequest {
        method: http::Method::POST,
        url,
        headers: vec![
            ("content-type", "application/x-www-form-urlencoded".to_owned()),
            ("accept", "application/json".to_owned()),
        ],
        attributes: authorization.map(name).into_iter().collect(),
        body: body.expose().as_bytes().to_vec(),
        authentication: None,
        wait: TOKEN_WAIT,
    }
}

//! Authenticates requests to endpoints, by tokens or signatures.
//!
//! A token is fetched when the first request needs it, and kept until shortly before it expires. The
//! token endpoint is as untrusted as an endpoint, and is called by the same client: through the
//! address guard, without redirects, within bounds of time and size.
//!
//! If an endpoint answers 401 to a token older than a minute, which may be revoked, the request is sent
//! once more with a new one. A failure to get a token is the outcome `EndpointAuthenticationFailed`,
//! because the endpoint was not asked.
//!
//! Signatures are made for each request, so a refusal of one counts at once. Only hosts that the
//! deployment names get signatures or AWS tokens.

mod kept;
mod tokens;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::BoxFuture;
use gridpost_core::{
    delivery::{
        probe::{Failure, Stage},
        request::Request,
    },
    retry::{
        outcome::{Answer, Outcome},
        response_text::{ResponseBytes, response_text},
    },
    secret::Secret,
    subscription::{
        Authentication,
        authentication::{
            SigV4, WebIdentity,
            assertion::Algorithm,
            token::{NoToken, Token},
        },
    },
};
use tokio::time::{Instant, timeout};

use crate::{
    Attempted, EndpointClient, HandshakeClient, HandshakeError, HandshakeRequest,
    HandshakeResponse, PortError, Probed, Result,
};

pub use kept::{Kept, Lasting};
pub use tokens::{TOKEN_WAIT, Tokens};

/// How soon an endpoint must refuse a token for a second try: a delivery's place in an invocation
/// does not last longer.
pub const REFUSED_WITHIN: Duration = Duration::from_secs(5);

/// How long after its start an attempt may wait for a token. With connecting and the response this
/// stays below a probe's claim.
pub const AUTHENTICATED_WITHIN: Duration = Duration::from_secs(15);

/// How long a secret may take to be read.
pub const SECRET_WAIT: Duration = Duration::from_secs(5);

/// Reads secrets that are stored elsewhere.
#[async_trait]
pub trait SecretReader: Send + Sync {
    /// Reads a secret within [`SECRET_WAIT`].
    async fn read(&self, name: &str) -> Result<Secret>;
}

/// Refuses to read secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSecrets;

#[async_trait]
impl SecretReader for NoSecrets {
    async fn read(&self, _name: &str) -> Result<Secret> {
        Err(PortError::new("reading a secret", "this program reads none"))
    }
}

/// A request to sign.
#[derive(Clone, Copy)]
pub struct Unsigned<'a> {
    pub method: &'a str,
    pub url: &'a str,
    pub content_type: Option<&'a str>,
    pub body: &'a [u8],
}

/// Proves who the program is, or which role it has assumed. Callers check what may be proven to whom.
#[async_trait]
pub trait AwsIdentity: Send + Sync {
    /// Returns the headers that sign a request.
    async fn signature(
        &self,
        by: &SigV4,
        request: Unsigned<'_>,
    ) -> Result<Vec<(String, Secret)>, NoToken>;

    /// Fetches a token that says who the program is, and how long it lives.
    async fn token(&self, of: &WebIdentity) -> Result<(Secret, Duration), NoToken>;

    /// Notes that an endpoint refused a signature: the credentials may be revoked.
    fn is_refused(&self, by: &SigV4);
}

/// Signs the assertions of a token endpoint's client.
pub trait Signer: Send + Sync {
    /// Returns `unsigned`, for the algorithm of that private key (PEM), with its signature. The error
    /// follows the words "the private key", and has nothing of it.
    fn sign(&self, key: &Secret, unsigned: &dyn Fn(Algorithm) -> String) -> Result<Secret, String>;
}

/// A client that adds tokens and signatures to requests.
pub struct Authenticated<C> {
    client: C,
    tokens: Arc<Tokens>,
}

impl<C> Authenticated<C> {
    pub fn new(client: C, tokens: Arc<Tokens>) -> Self {
        Self { client, tokens }
    }
}

fn with(mut request: Request, token: &Token) -> Request {
    request.attributes.push(header(token));
    request
}

fn header(token: &Token) -> (String, Secret) {
    ("authorization".to_owned(), token.header())
}

/// The result of an attempt that gets no token. Its text may quote the token endpoint.
fn failed(error: &NoToken) -> Attempted {
    if *error == NoToken::NotAsked {
        return Attempted::NotMade;
    }
    let answer = Answer::without_status(Outcome::EndpointAuthenticationFailed);
    let response_text = response_text(error.to_string().as_bytes(), ResponseBytes::MAX);
    Attempted::Answered { answer, response_text, body: None }
}

fn unsigned<'a>(
    method: &'a str,
    url: &'a Secret,
    headers: &'a [(&'static str, String)],
    body: &'a [u8],
) -> Unsigned<'a> {
    let content_type = headers.iter().find(|(name, _)| *name == "content-type");
    let content_type = content_type.map(|(_, value)| value.as_str());
    Unsigned { method, url: url.expose(), content_type, body }
}

fn status_of(attempted: &Attempted) -> Option<u16> {
    match attempted {
        Attempted::Answered { answer, .. } => answer.status,
        Attempted::TimedOut { .. } | Attempted::NotMade => None,
    }
}

fn is_refused(attempted: &Attempted) -> bool {
    status_of(attempted) == Some(401)
}

impl<C> Authenticated<C> {
    fn note(&self, status: Option<u16>, by: &SigV4) {
        if matches!(status, Some(401 | 403)) {
            self.tokens.is_refused(by);
        }
    }

    /// Returns a token, other than the refused one if there is one.
    async fn token(
        &self,
        by: &Authentication,
        refused: Option<&Token>,
        wait: Duration,
    ) -> Result<Token, NoToken> {
        let got = async {
            match refused {
                None => self.tokens.get(by).await,
                Some(refused) => self.tokens.instead_of(by, refused).await,
            }
        };
        timeout(wait, got).await.unwrap_or_else(|_| Err(none_in_time(by, wait)))
    }
}

impl<C: EndpointClient> Authenticated<C> {
    async fn authenticated(&self, request: Request, by: &Authentication) -> Attempted {
        if let Err(refused) = self.tokens.check(by, &request.url) {
            return failed(&refused);
        }
        match by {
            Authentication::AwsSigV4(signing) => self.signed(request, signing).await,
            _ => self.bearing(request, by).await,
        }
    }

    async fn signed(&self, request: Request, by: &SigV4) -> Attempted {
        match self.with_signature(request, by, AUTHENTICATED_WITHIN).await {
            Ok(request) => {
                let attempted = self.client.attempt(request).await;
                self.note(status_of(&attempted), by);
                attempted
            }
            Err(error) => failed(&error),
        }
    }

    async fn with_signature(
        &self,
        mut request: Request,
        by: &SigV4,
        wait: Duration,
    ) -> Result<Request, NoToken> {
        let parts = unsigned("POST", &request.url, &request.headers, &request.body);
        let signature = self.tokens.signature(by, parts);
        let signed = timeout(wait, signature).await;
        request.attributes.extend(signed.map_err(|_| no_credentials_in_time(wait))??);
        Ok(request)
    }

    async fn bearing(&self, request: Request, by: &Authentication) -> Attempted {
        let began_at = Instant::now();
        let token = match self.token(by, None, AUTHENTICATED_WITHIN).await {
            Ok(token) => token,
            Err(error) => return failed(&error),
        };
        let again = request.clone();
        let sent_at = Instant::now();
        let attempted = self.client.attempt(with(request, &token)).await;
        if !is_refused(&attempted) || self.tokens.is_new(&token) {
            return attempted;
        }
        let took = sent_at.elapsed();
        let left = AUTHENTICATED_WITHIN.saturating_sub(began_at.elapsed());
        if took > REFUSED_WITHIN || left.is_zero() {
            // It may be revoked: the next attempt finds out, with a new one.
            self.tokens.forget(by, &token);
            return failed(&NoToken::RefusedLate(took));
        }
        let second = match self.token(by, Some(&token), left).await {
            Ok(token) => self.client.attempt(with(again, &token)).await,
            Err(error) => failed(&error),
        };
        // The first request was made.
        if matches!(second, Attempted::NotMade) { attempted } else { second }
    }

    async fn probed(&self, request: Request, by: &Authentication, until: Instant) -> Probed {
        let wait = || until.saturating_duration_since(Instant::now()).min(AUTHENTICATED_WITHIN);
        if let Err(refused) = self.tokens.check(by, &request.url) {
            return no_token(&refused);
        }
        if let Authentication::AwsSigV4(by) = by {
            return match self.with_signature(request, by, wait()).await {
                Ok(request) => {
                    let probed = self.client.probe(request, until).await;
                    self.note(status_of(&probed.attempted), by);
                    probed
                }
                Err(error) => no_token(&error),
            };
        }
        let token = match self.token(by, None, wait()).await {
            Ok(token) => token,
            Err(error) => return no_token(&error),
        };
        let probed = self.client.probe(with(request.clone(), &token), until).await;
        // Without time for another token, the refusal is the result.
        if !is_refused(&probed.attempted) || self.tokens.is_new(&token) || wait().is_zero() {
            return probed;
        }
        match self.token(by, Some(&token), wait()).await {
            Ok(token) => self.client.probe(with(request, &token), until).await,
            Err(error) => no_token(&error),
        }
    }
}

/// Whether the client proves it by the connection.
fn is_shown(by: &Authentication) -> bool {
    matches!(by, Authentication::ClientCertificate(_))
}

fn none_in_time(by: &Authentication, wait: Duration) -> NoToken {
    match by {
        Authentication::AwsWebIdentity(_) => {
            NoToken::Aws(format!("AWS gave no token within {} s", wait.as_secs()))
        }
        _ => NoToken::NoAnswer(format!("none within {} s", wait.as_secs())),
    }
}

fn no_credentials_in_time(wait: Duration) -> NoToken {
    NoToken::Aws(format!("AWS gave no credentials within {} s", wait.as_secs()))
}

impl<C: EndpointClient> EndpointClient for Authenticated<C> {
    // Without `async_trait`, so that requests without authentication allocate no second future.
    fn attempt<'a, 'b>(&'a self, request: Request) -> BoxFuture<'b, Attempted>
    where
        'a: 'b,
        Self: 'b,
    {
        match request.authentication.clone().filter(|by| !is_shown(by)) {
            None => self.client.attempt(request),
            Some(by) => Box::pin(async move { self.authenticated(request, &by).await }),
        }
    }

    fn probe<'a, 'b>(&'a self, request: Request, until: Instant) -> BoxFuture<'b, Probed>
    where
        'a: 'b,
        Self: 'b,
    {
        match request.authentication.clone().filter(|by| !is_shown(by)) {
            None => self.client.probe(request, until),
            Some(by) => Box::pin(async move { self.probed(request, &by, until).await }),
        }
    }
}

fn no_token(error: &NoToken) -> Probed {
    let failure = Failure::at(Stage::of(error), error.to_string());
    Probed { attempted: failed(error), failure: Some(failure) }
}

impl<C: HandshakeClient> Authenticated<C> {
    async fn asked(
        &self,
        mut request: HandshakeRequest,
        by: &Authentication,
    ) -> Result<HandshakeResponse, HandshakeError> {
        self.tokens.check(by, &request.url).map_err(unauthenticated)?;
        let began_at = Instant::now();
        let whole = request.wait;
        if let Authentication::AwsSigV4(by) = by {
            let (method, url) = (request.method.as_str(), &request.url);
            let parts = unsigned(method, url, &request.headers, &request.body);
            let wait = whole.min(AUTHENTICATED_WITHIN);
            let signed = timeout(wait, self.tokens.signature(by, parts)).await;
            let signed = signed.unwrap_or_else(|_| Err(no_credentials_in_time(wait)));
            request.attributes.extend(signed.map_err(unauthenticated)?);
            request.wait = left(began_at, whole)?;
            let answered = self.client.exchange(request).await?;
            self.note(Some(answered.status), by);
            return Ok(answered);
        }
        let token = self.token(by, None, whole.min(AUTHENTICATED_WITHIN)).await;
        let token = token.map_err(unauthenticated)?;
        let mut again = request.clone();
        request.wait = left(began_at, whole)?;
        request.attributes.push(header(&token));
        let answered = self.client.exchange(request).await?;
        if answered.status != 401 || self.tokens.is_new(&token) {
            return Ok(answered);
        }
        let wait = left(began_at, whole)?.min(AUTHENTICATED_WITHIN);
        let token = self.token(by, Some(&token), wait).await;
        let token = token.map_err(unauthenticated)?;
        again.wait = left(began_at, whole)?;
        again.attributes.push(header(&token));
        self.client.exchange(again).await
    }
}

fn unauthenticated(error: NoToken) -> HandshakeError {
    match error {
        NoToken::NotAsked => HandshakeError::NotMade,
        error => HandshakeError::Unauthenticated(error),
    }
}

fn left(began_at: Instant, whole: Duration) -> Result<Duration, HandshakeError> {
    let left = whole.saturating_sub(began_at.elapsed());
    if left.is_zero() { Err(HandshakeError::TimedOut(whole)) } else { Ok(left) }
}

#[async_trait]
impl<C: HandshakeClient> HandshakeClient for Authenticated<C> {
    async fn exchange(
        &self,
        request: HandshakeRequest,
    ) -> Result<HandshakeResponse, HandshakeError> {
        match request.authentication.clone().filter(|by| !is_shown(by)) {
            None => self.client.exchange(request).await,
            // Each step has its own time limit and error.
            Some(by) => self.asked(request, &by).await,
        }
    }
}

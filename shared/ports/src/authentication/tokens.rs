//! The cached tokens, and identities that are proven without tokens.

use std::{sync::Arc, time::Duration};

use gridpost_core::{
    endpoint::{identities::Identities, secrets::ClientSecrets},
    secret::Secret,
    subscription::{
        Authentication,
        authentication::{
            ClientCredentials, ClientSecret, Grant, SentBy, SigV4,
            assertion::Assertion,
            token::{self, NoToken, Proof, Token, TokenRequest},
        },
    },
};

use super::{AwsIdentity, Kept, SecretReader, Signer, Unsigned};
use crate::{Clock, Dice, HandshakeClient, HandshakeError, HandshakeRequest};

/// How long a token endpoint may take for its whole response.
pub const TOKEN_WAIT: Duration = Duration::from_secs(10);

/// From this age on, a refused token may be revoked and is replaced. An endpoint that refuses
/// everything must not cause a token request each time.
const SUSPECT_AFTER: Duration = Duration::from_secs(60);

/// The tokens that this process has fetched, for all event subscriptions.
pub struct Tokens {
    client: Arc<dyn HandshakeClient>,
    secrets: Arc<dyn SecretReader>,
    allowed: ClientSecrets,
    /// Without it, the program proves no identity of AWS.
    aws: Option<Arc<dyn AwsIdentity>>,
    identities: Identities,
    clock: Arc<dyn Clock>,
    signing: Option<(Arc<dyn Signer>, Arc<dyn Dice>)>,
    kept: Kept<Authentication, Token>,
}

impl Tokens {
    /// Fetches tokens through `client`, with secrets that `allowed` names.
    pub fn new(
        client: Arc<dyn HandshakeClient>,
        secrets: Arc<dyn SecretReader>,
        allowed: ClientSecrets,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let kept = Kept::new(Arc::clone(&clock));
        let identities = Identities::default();
        Self { client, secrets, allowed, aws: None, identities, clock, signing: None, kept }
    }

    /// Lets clients have private keys: `signer` signs, with ids from `dice`.
    #[must_use]
    pub fn signing(self, signer: Arc<dyn Signer>, dice: Arc<dyn Dice>) -> Self {
        Self { signing: Some((signer, dice)), ..self }
    }

    /// Proves AWS identities, too, where `identities` names them.
    #[must_use]
    pub fn proving(self, aws: Arc<dyn AwsIdentity>, identities: Identities) -> Self {
        Self { aws: Some(aws), identities, ..self }
    }

    /// Checks whether requests to that URL may be authenticated this way.
    pub fn check(&self, by: &Authentication, url: &Secret) -> Result<(), NoToken> {
        by.check(url.expose(), &self.identities).map_err(NoToken::NotNamed)
    }

    /// Returns a token to send a request with.
    pub async fn get(&self, by: &Authentication) -> Result<Token, NoToken> {
        self.kept.get(by, || self.fetch(by)).await
    }

    /// Returns whether a token is so new that an endpoint's refusal of it counts.
    pub fn is_new(&self, token: &Token) -> bool {
        let now = self.clock.now();
        // A short-lived one may have expired by now.
        now.since(token.fetched_at) <= SUSPECT_AFTER && token.is_fresh(now)
    }

    /// Returns a token other than the refused one.
    pub async fn instead_of(&self, by: &Authentication, refused: &Token) -> Result<Token, NoToken> {
        self.forget(by, refused);
        let token = self.get(by).await?;
        if token == *refused { Err(NoToken::NoOther) } else { Ok(token) }
    }

    /// Forgets a token that an endpoint has refused, if it is still cached.
    pub fn forget(&self, by: &Authentication, refused: &Token) {
        self.kept.forget_if(by, |kept| kept == refused);
    }

    /// Returns the headers that sign a request.
    pub async fn signature(
        &self,
        by: &SigV4,
        request: Unsigned<'_>,
    ) -> Result<Vec<(String, Secret)>, NoToken> {
        self.aws()?.signature(by, request).await
    }

    /// Notes that an endpoint has refused a signature.
    pub fn is_refused(&self, by: &SigV4) {
        if let Some(aws) = &self.aws {
            aws.is_refused(by);
        }
    }

    fn aws(&self) -> Result<&dyn AwsIdentity, NoToken> {
        let none = || NoToken::Aws("this program proves no identity of AWS".to_owned());
        self.aws.as_deref().ok_or_else(none)
    }

    async fn fetch(&self, by: &Authentication) -> Result<Token, NoToken> {
        match by {
            Authentication::ClientCredentials(by) => self.fetch_by(by).await,
            Authentication::AwsWebIdentity(identity) => {
                let (value, life) = self.aws()?.token(identity).await?;
                let token = Token::new(value.expose(), life, self.clock.now());
                token.map_err(|why| NoToken::Aws(format!("AWS's token can't be used: {why}")))
            }
            Authentication::AwsSigV4(_) => Err(NoToken::Aws("it is no token".to_owned())),
            // The connection proves it: the client asks for no token.
            Authentication::ClientCertificate(_) => {
                Err(NoToken::NoSecret("a client certificate has no token".to_owned()))
            }
        }
    }

    async fn fetch_by(&self, by: &ClientCredentials) -> Result<Token, NoToken> {
        let client = by.client(&self.allowed);
        let (id, secret) = client.map_err(|refused| NoToken::NoSecret(format!("it {refused}")))?;
        let proof = match secret {
            ClientSecret::Inline { value } => self.proof(&by.grant, &id, value)?,
            ClientSecret::Reference { name } => {
                let read = self.secrets.read(&name).await;
                let value = read.map_err(|error| NoToken::NoSecret(error.to_string()))?;
                self.proof(&by.grant, &id, value)?
            }
            ClientSecret::AwsWebIdentity(identity) => {
                Proof::Assertion(self.aws()?.token(&identity).await?.0)
            }
        };
        let asked = request(token::request(&by.grant, &id, &proof), &proof);
        let answered = self.client.exchange(asked).await;
        let answered = answered.map_err(|error| match error {
            HandshakeError::NotMade => NoToken::NotAsked,
            error => NoToken::NoAnswer(error.to_string()),
        })?;
        token::read(answered.status, &answered.body, self.clock.now())
    }

    /// Returns what a client sends to prove who it is: its secret, or an assertion signed with it.
    fn proof(&self, grant: &Grant, client_id: &str, secret: Secret) -> Result<Proof, NoToken> {
        let Grant::OAuth2 {
            token_url, sent_by: SentBy::PrivateKeyJwt { key_id, audience }, ..
        } = grant
        else {
            // A reference may be to a key that is for signatures or certificates: those are never sent.
            if secret.expose().contains(" PRIVATE KEY-----") {
                return Err(NoToken::NoSecret("it is a private key, which is not sent".to_owned()));
            }
            return Ok(Proof::Secret(secret));
        };
        let Some((signer, dice)) = &self.signing else {
            return Err(NoToken::NotSigned("signs nothing in this program".to_owned()));
        };
        let assertion = Assertion {
            client_id,
            key_id: key_id.as_deref(),
            audience: audience.as_ref().unwrap_or(token_url),
            id: dice.id(),
            now: self.clock.machine(),
        };
        let signed = signer.sign(&secret, &|algorithm| assertion.unsigned(algorithm));
        signed.map(Proof::Assertion).map_err(NoToken::NotSigned)
    }
}

fn request(asked: TokenRequest, proof: &Proof) -> HandshakeRequest {
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
        // A server may take an assertion only once.
        is_sent_once: matches!(proof, Proof::Assertion(_)),
        wait: TOKEN_WAIT,
    }
}

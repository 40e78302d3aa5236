//! Clients that ask for tokens.

use gridpost_core::{
    pem,
    secret::Secret,
    subscription::authentication::{
        Authentication as Stored, Client, ClientCredentials, ClientSecret, Grant, SentBy,
    },
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    super::{super::Context, WebHook, attributes::HIDDEN, check_url},
    Authentication, Endpoint, SECRET_BYTES_MAX,
    aws::ClientAssertion,
    check_size, check_text,
};
use crate::document::At;

pub(super) const TENANT_IS: &str = "the tenant's id, or a domain of it";
pub(super) const APPLICATION_IS: &str = "the id or the URI of the endpoint's application";

/// The members of what a client proves itself by: with the value, or with its name.
type Names = [&'static str; 2];

const SECRET: Names = ["clientSecret", "clientSecretReference"];
const KEY: Names = ["privateKey", "privateKeyReference"];

const ASSERTION: &str = "clientAssertion";

/// An object with tokenUrl, clientId and clientSecret or another proof.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2 {
    /// The https URL of the token endpoint.
    #[schema(required = true, max_length = 2_048)]
    pub token_url: Option<String>,
    #[schema(min_length = 1, max_length = 1_024)]
    pub scope: Option<String>,
    #[schema(min_length = 1, max_length = 1_024)]
    pub audience: Option<String>,
    /// How the client proves itself.
    #[schema(default = "Post")]
    pub client_authentication: Option<ClientAuthentication>,
    /// With PrivateKeyJwt: the kid of the assertion.
    #[schema(min_length = 1, max_length = 1_024)]
    pub key_id: Option<String>,
    /// With PrivateKeyJwt: the aud of the assertion; the token URL unless given.
    #[schema(min_length = 1, max_length = 1_024)]
    pub assertion_audience: Option<String>,
    /// The client's id.
    #[schema(required = true, min_length = 1, max_length = 1_024)]
    pub client_id: Option<String>,
    /// Never read back. Left out, it keeps the stored one while the token URL and the endpoint's
    /// scheme, host and port stay.
    #[schema(value_type = Option<String>)]
    pub client_secret: Option<Secret>,
    /// Instead of clientSecret: an ARN that the deployment's endpoint_secrets names.
    pub client_secret_reference: Option<String>,
    /// With PrivateKeyJwt, instead of clientSecret: PEM without a passphrase, RSA or P-256. Never read
    /// back; left out, it keeps the stored one as clientSecret does.
    #[schema(value_type = Option<String>)]
    pub private_key: Option<Secret>,
    /// Instead of privateKey: an ARN that the deployment's endpoint_secrets names.
    pub private_key_reference: Option<String>,
    pub client_assertion: Option<ClientAssertion>,
}

/// How a client proves itself to a token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ClientAuthentication {
    Post,
    Basic,
    PrivateKeyJwt,
}

/// An object with tenantId, applicationIdOrUri, clientId and clientSecret or another proof.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntraId {
    /// The tenant's id, or a domain of it.
    #[schema(required = true, min_length = 1, max_length = 1_024)]
    pub tenant_id: Option<String>,
    /// The id or the URI of the endpoint's application.
    #[schema(required = true, min_length = 1, max_length = 1_024)]
    pub application_id_or_uri: Option<String>,
    /// The client's id.
    #[schema(required = true, min_length = 1, max_length = 1_024)]
    pub client_id: Option<String>,
    /// Never read back. Left out, it keeps the stored one while the token URL and the endpoint's
    /// scheme, host and port stay.
    #[schema(value_type = Option<String>)]
    pub client_secret: Option<Secret>,
    /// Instead of clientSecret: an ARN that the deployment's endpoint_secrets names.
    pub client_secret_reference: Option<String>,
    pub client_assertion: Option<ClientAssertion>,
}

/// The proof of a client's identity.
struct Proof {
    id: Option<String>,
    secret: Option<Secret>,
    secret_reference: Option<String>,
    key: Option<Secret>,
    key_reference: Option<String>,
    assertion: Option<ClientAssertion>,
}

impl OAuth2 {
    pub(super) fn read(self, endpoint: &Endpoint<'_>, at: &mut At<'_>) -> Option<Stored> {
        let mut text = |given, name: &str| check_text(given, &mut at.member(name));
        let scope = text(self.scope, "scope");
        let audience = text(self.audience, "audience");
        let key_id = text(self.key_id, "keyId");
        let assertion_audience = text(self.assertion_audience, "assertionAudience");
        let proof = Proof {
            id: text(self.client_id, "clientId"),
            secret: self.client_secret,
            secret_reference: self.client_secret_reference,
            key: self.private_key,
            key_reference: self.private_key_reference,
            assertion: self.client_assertion,
        };
        let sent_by = match self.client_authentication.unwrap_or(ClientAuthentication::Post) {
            ClientAuthentication::PrivateKeyJwt => {
                SentBy::PrivateKeyJwt { key_id, audience: assertion_audience }
            }
            other => {
                let given = [
                    ("keyId", key_id.is_some()),
                    ("assertionAudience", assertion_audience.is_some()),
                    (KEY[0], proof.key.is_some()),
                    (KEY[1], proof.key_reference.is_some()),
                ];
                for (name, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
                    let rule = "is for clientAuthentication PrivateKeyJwt alone";
                    at.member(name).invalid(rule);
                }
                if other == ClientAuthentication::Basic { SentBy::Basic } else { SentBy::Post }
            }
        };
        let grant = self.token_url.map(|token_url| {
            check_token_url(&token_url, endpoint.context, &mut at.member("tokenUrl"));
            Grant::OAuth2 { token_url, scope, audience, sent_by }
        });
        proof.read(grant, endpoint, at)
    }
}

fn check_token_url(url: &str, context: &Context<'_>, at: &mut At<'_>) {
    if let Err(rule) = check_url(url, context) {
        at.invalid(rule);
    } else if url.contains(['?', '#']) {
        let rule = "must have no query and no fragment: reads show it";
        at.invalid(rule);
    }
}

impl EntraId {
    pub(super) fn read(self, endpoint: &Endpoint<'_>, at: &mut At<'_>) -> Option<Stored> {
        let tenant = self.tenant_id;
        let tenant = tenant.and_then(|tenant| check_tenant(tenant, &mut at.member("tenantId")));
        let mut text = |given, name: &str| check_text(given, &mut at.member(name));
        let application = text(self.application_id_or_uri, "applicationIdOrUri");
        let proof = Proof {
            id: text(self.client_id, "clientId"),
            secret: self.client_secret,
            secret_reference: self.client_secret_reference,
            key: None,
            key_reference: None,
            assertion: self.client_assertion,
        };
        let grant = tenant.zip(application);
        let grant = grant.map(|(tenant, application)| Grant::EntraId { tenant, application });
        proof.read(grant, endpoint, at)
    }
}

/// Checks a tenant, which becomes a part of a URL's path.
pub(super) fn check_tenant(tenant: String, at: &mut At<'_>) -> Option<String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    if !tenant.bytes().all(legal) || tenant.bytes().all(|byte| byte == b'.') {
        let rule = "must be a tenant's id or a domain: letters, digits, '-' and '.'";
        at.invalid(rule);
        return None;
    }
    Some(tenant)
}

/// The members of what a client of that grant proves itself by.
fn names(grant: Option<&Grant>) -> Names {
    match grant {
        Some(Grant::OAuth2 { sent_by: SentBy::PrivateKeyJwt { .. }, .. }) => KEY,
        _ => SECRET,
    }
}

impl Proof {
    fn read(
        mut self,
        grant: Option<Grant>,
        endpoint: &Endpoint<'_>,
        at: &mut At<'_>,
    ) -> Option<Stored> {
        let secret = match self.assertion.take() {
            Some(assertion) => {
                let rule = format!("must be left out (null) where {ASSERTION} is given");
                self.refuse(&[SECRET, KEY].concat(), &rule, at);
                let at = &mut at.member(ASSERTION);
                assertion.read(grant.as_ref(), endpoint, at)
            }
            None if at.member(ASSERTION).is_broken() => None,
            None => self.read_secret(grant.as_ref(), endpoint, at),
        };
        let client = Client::Own { id: self.id?, secret: secret? };
        Some(Stored::ClientCredentials(ClientCredentials { grant: grant?, client }))
    }

    /// Refuses those of the members that are given.
    fn refuse(&self, names: &[&str], rule: &str, at: &mut At<'_>) {
        let given = [
            (SECRET[0], self.secret.is_some()),
            (SECRET[1], self.secret_reference.is_some()),
            (KEY[0], self.key.is_some()),
            (KEY[1], self.key_reference.is_some()),
        ];
        for (name, is_given) in given {
            if is_given && names.contains(&name) {
                at.member(name).invalid(rule);
            }
        }
    }

    /// Reads the secret or its name. One that is left out is the stored one, if neither the endpoint
    /// nor the token URL is another party's.
    fn read_secret(
        &mut self,
        grant: Option<&Grant>,
        endpoint: &Endpoint<'_>,
        at: &mut At<'_>,
    ) -> Option<ClientSecret> {
        let names @ [secret, reference] = names(grant);
        let (given, name) = match names {
            KEY => {
                let rule =
                    format!("must be left out: PrivateKeyJwt takes {} or {}", KEY[0], KEY[1]);
                self.refuse(&SECRET, &rule, at);
                (self.key.take(), self.key_reference.take())
            }
            _ => (self.secret.take(), self.secret_reference.take()),
        };
        if let Some(name) = name {
            let name_at = &mut at.member(reference);
            if given.is_some() {
                let rule = format!("must be left out (null) where {secret} is given");
                name_at.invalid(rule);
                return None;
            }
            if let Some(grant) = grant {
                endpoint.check_reference(&name, &grant.token_url(), name_at);
                let secrets = &endpoint.context.allowed.secrets;
                let audience = grant.assertion_audience();
                if audience.is_some_and(|url| secrets.check(&name, url).is_err()) {
                    let rule = format!(
                        "must be left out, or the https URL of a host that the deployment names for the \
                         key of {reference}: another server would take the assertion, too"
                    );
                    at.member("assertionAudience").invalid(rule);
                }
            }
            return Some(ClientSecret::Reference { name });
        }
        let at = &mut at.member(secret);
        let Some(given) = given.filter(|given| given.expose() != HIDDEN) else {
            let stored = match endpoint.stored() {
                Some(Stored::ClientCredentials(stored)) => Some(stored),
                _ => None,
            };
            let kept = stored.zip(grant).and_then(|(stored, grant)| kept(stored, grant));
            if kept.is_none() {
                let rule = format!(
                    "is required, or {reference} (left out or 'Hidden', it keeps the stored secret while the token \
                     URL and the endpoint's scheme, host and port stay as they are, and nothing is \
                     stored)"
                );
                at.require(rule);
            }
            return kept;
        };
        check_size(given.expose(), SECRET_BYTES_MAX, at);
        if names == KEY
            && let Err(problem) = pem::private_key(given.expose())
        {
            at.invalid(problem.to_string());
        }
        Some(ClientSecret::Inline { value: given })
    }
}

/// The stored secret, if tokens are still asked for at the same URL, and by the same kind of secret for
/// the same audience.
fn kept(stored: &ClientCredentials, grant: &Grant) -> Option<ClientSecret> {
    match &stored.client {
        Client::Own { secret: secret @ ClientSecret::Inline { .. }, .. }
            if stored.grant.token_url() == grant.token_url()
                && stored.grant.assertion_audience() == grant.assertion_audience()
                && names(Some(&stored.grant)) == names(Some(grant)) =>
        {
            Some(secret.clone())
        }
        _ => None,
    }
}

/// Returns what a read shows of a client. Event Grid's own members are set on the webhook.
pub(super) fn write(by: &ClientCredentials, webhook: &mut WebHook) -> Option<Authentication> {
    let Client::Own { id, secret } = &by.client else {
        if let Grant::EntraId { tenant, application } = &by.grant {
            webhook.azure_active_directory_tenant_id = Some(tenant.clone());
            webhook.azure_active_directory_application_id_or_uri = Some(application.clone());
        }
        return None;
    };
    let client_id = Some(id.clone());
    let (reference, client_assertion) = match secret {
        ClientSecret::Inline { .. } => (None, None),
        ClientSecret::Reference { name } => (Some(name.clone()), None),
        ClientSecret::AwsWebIdentity(by) => (None, Some(ClientAssertion::of(by))),
    };
    Some(match &by.grant {
        Grant::EntraId { tenant, application } => Authentication::EntraId(EntraId {
            tenant_id: Some(tenant.clone()),
            application_id_or_uri: Some(application.clone()),
            client_id,
            client_secret: None,
            client_secret_reference: reference,
            client_assertion,
        }),
        Grant::OAuth2 { token_url, scope, audience, sent_by } => {
            let mut shown = OAuth2 {
                token_url: Some(token_url.clone()),
                scope: scope.clone(),
                audience: audience.clone(),
                client_id,
                client_assertion,
                ..OAuth2::default()
            };
            shown.client_authentication = Some(match sent_by {
                SentBy::Post => ClientAuthentication::Post,
                SentBy::Basic => ClientAuthentication::Basic,
                SentBy::PrivateKeyJwt { key_id, audience } => {
                    shown.key_id.clone_from(key_id);
                    shown.assertion_audience.clone_from(audience);
                    ClientAuthentication::PrivateKeyJwt
                }
            });
            match names(Some(&by.grant)) {
                KEY => shown.private_key_reference = reference,
                _ => shown.client_secret_reference = reference,
            }
            Authentication::OAuth2ClientCredentials(shown)
        }
    })
}

//! `authentication`, and Event Grid's own `azureActiveDirectory…` members.

pub mod aws;
pub mod client;

use gridpost_core::{
    endpoint::secrets::SecretRefused,
    pem,
    secret::Secret,
    subscription::{
        DeliveryAttribute, EventSubscription,
        authentication::{
            Authentication as Stored, Client, ClientCredentials, Grant,
            certificate::{self, Material},
        },
    },
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use self::{
    aws::{SigV4, WebIdentity},
    client::{EntraId, OAuth2},
};
use super::{super::Context, WebHook, attributes::HIDDEN};
use crate::document::{
    At, Code,
    azure::{NotSupported, is_empty},
};

/// Event Grid's own members.
const TENANT: &str = "azureActiveDirectoryTenantId";
const APPLICATION: &str = "azureActiveDirectoryApplicationIdOrUri";

/// The advice where the deployment has no client of Entra ID.
const INSTEAD: &str = "its operator sets endpoint_entra_client; or write authentication of type \
                       EntraId, with a client of your own";

pub(super) const OF_AZURE: [NotSupported; 2] =
    [(TENANT, is_empty, INSTEAD), (APPLICATION, is_empty, INSTEAD)];

/// Most bytes of a secret: a private key of 4,096 bits fits.
const SECRET_BYTES_MAX: usize = 4_096;

/// How requests prove who sends them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", content = "properties")]
pub enum Authentication {
    OAuth2ClientCredentials(OAuth2),
    EntraId(EntraId),
    ClientCertificate(ClientCertificate),
    AwsSigV4(SigV4),
    AwsWebIdentity(WebIdentity),
}

/// The endpoint whose requests are authenticated.
pub(super) struct Endpoint<'e> {
    /// Its URL, if that could be read.
    pub(super) url: Option<&'e str>,
    /// Whether it is the stored one's party: only then is a stored secret kept that the document
    /// leaves out.
    pub(super) has_stayed: bool,
    pub(super) context: &'e Context<'e>,
}

impl Endpoint<'_> {
    /// Reads how a webhook's requests are authenticated.
    pub(super) fn read(&self, webhook: &mut WebHook, at: &mut At<'_>) -> Option<Stored> {
        let of_azure = self.read_azure(webhook, at);
        let at = &mut at.member("authentication");
        let Some(given) = webhook.authentication.take() else { return of_azure };
        if of_azure.is_some() {
            let rule = format!("must be left out where {TENANT} and {APPLICATION} are given");
            at.invalid(rule);
        }
        let at = &mut at.member("properties");
        match given {
            Authentication::OAuth2ClientCredentials(given) => given.read(self, at),
            Authentication::EntraId(given) => given.read(self, at),
            Authentication::ClientCertificate(given) => given.read(self, at),
            Authentication::AwsSigV4(given) => given.read(self, at),
            Authentication::AwsWebIdentity(given) => given.read(self, at),
        }
    }

    /// Reads Event Grid's own members: the deployment's client asks for tokens.
    fn read_azure(&self, webhook: &mut WebHook, at: &mut At<'_>) -> Option<Stored> {
        let tenant = webhook.azure_active_directory_tenant_id.take();
        let application = webhook.azure_active_directory_application_id_or_uri.take();
        if tenant.is_none() && application.is_none() {
            return None;
        }
        let missing = [
            (TENANT, &tenant, client::TENANT_IS),
            (APPLICATION, &application, client::APPLICATION_IS),
        ];
        for (name, _, what) in missing.into_iter().filter(|(_, given, _)| given.is_none()) {
            at.member(name).require(format!("is required: {what}"));
        }
        let tenant = client::check_tenant(tenant?, &mut at.member(TENANT));
        let application = check_text(Some(application?), &mut at.member(APPLICATION));
        let grant = Grant::EntraId { tenant: tenant?, application: application? };
        let credentials = ClientCredentials { grant, client: Client::Deployment };
        Some(Stored::ClientCredentials(credentials))
    }

    /// The stored authentication, if its secrets may be kept.
    fn stored(&self) -> Option<&Stored> {
        let existing = self.context.existing.filter(|_| self.has_stayed);
        existing.and_then(|existing| existing.authentication.as_deref())
    }

    /// Checks that a secret may be used for what is sent to that URL.
    fn check_reference(&self, name: &str, url: &str, at: &mut At<'_>) {
        let Err(refused) = self.context.allowed.secrets.check(name, url) else { return };
        let hint = match refused {
            SecretRefused::Unknown => " (its operator names them in endpoint_secrets)",
            SecretRefused::Host(_) => "",
        };
        at.invalid(format!("{refused}{hint}"));
    }
}

/// Returns a text without control characters.
fn check_text(given: Option<String>, at: &mut At<'_>) -> Option<String> {
    let given = given?;
    if given.chars().any(char::is_control) {
        at.invalid("must have no control characters");
        return None;
    }
    Some(given)
}

/// Checks how long a text is, which is not repeated: it may be a secret.
fn check_size(given: &str, most: usize, at: &mut At<'_>) {
    let bytes = given.len();
    if bytes == 0 || bytes > most {
        let rule = format!("must have 1 to {most} bytes, but has {bytes}");
        at.add(Code::OutOfRange, rule);
    }
}

/// Refuses a delivery attribute that would take the place of a header that authenticates.
pub(super) fn refuse_own_header(attributes: &[DeliveryAttribute], by: &Stored, at: &mut At<'_>) {
    let is_signed = matches!(by, Stored::AwsSigV4(_));
    let has = |is_own: fn(&str) -> bool| {
        attributes.iter().any(|one| is_own(&one.name.to_ascii_lowercase()))
    };
    if has(|name| name == "authorization") {
        let rule = "must not have Authorization where the endpoint's authentication is given: its \
                    token or its signature is sent in that header";
        at.member("deliveryAttributeMappings").invalid(rule);
    }
    // A service of AWS takes commands by such headers.
    if is_signed && has(|name| name.starts_with("x-amz-")) {
        let rule = "must not have headers of AWS's own (x-amz-…) where requests are signed";
        at.member("deliveryAttributeMappings").invalid(rule);
    }
}

/// Adds what a read shows to a webhook: no secret.
pub(super) fn write(subscription: &EventSubscription, webhook: &mut WebHook) {
    webhook.authentication = match subscription.authentication.as_deref() {
        None => None,
        Some(Stored::ClientCredentials(by)) => client::write(by, webhook),
        Some(Stored::ClientCertificate(by)) => {
            Some(Authentication::ClientCertificate(ClientCertificate::of(by)))
        }
        Some(Stored::AwsSigV4(by)) => Some(Authentication::AwsSigV4(SigV4::of(by))),
        Some(Stored::AwsWebIdentity(by)) => {
            Some(Authentication::AwsWebIdentity(WebIdentity::of(by)))
        }
    };
}

const REFERENCE: &str = "certificateReference";

/// Most bytes of a chain of certificates, and of those that are trusted.
const CHAIN_BYTES_MAX: usize = 16 * 1_024;

/// An object with certificate and privateKey, or certificateReference.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertificate {
    /// The chain of certificates as PEM, the client's own first.
    pub certificate: Option<String>,
    /// PEM without a passphrase. Never read back; left out, it keeps the stored one while the
    /// endpoint's scheme, host and port stay.
    #[schema(value_type = Option<String>)]
    pub private_key: Option<Secret>,
    /// Instead of both: an ARN that the deployment's endpoint_secrets names with the endpoint's host.
    /// The secret has certificates and key, one after the other.
    pub certificate_reference: Option<String>,
    /// Certificates of authorities as PEM: the endpoint's certificate must come from one of them, and
    /// public authorities do not count.
    pub trusted_certificates: Option<String>,
}

impl ClientCertificate {
    fn read(self, endpoint: &Endpoint<'_>, at: &mut At<'_>) -> Option<Stored> {
        if endpoint.url.is_some_and(|url| !url.to_ascii_lowercase().starts_with("https:")) {
            let rule =
                "needs an endpointUrl of https: over plain http there is no certificate to show";
            at.member("certificate").invalid(rule);
        }
        let certificates = [
            ("trustedCertificates", &self.trusted_certificates),
            ("certificate", &self.certificate),
        ];
        for (name, given) in certificates {
            if let Some(given) = given {
                check_certificates(given, &mut at.member(name));
            }
        }
        let material = match self.certificate_reference {
            Some(name) => {
                let at = &mut at.member(REFERENCE);
                if self.certificate.is_some() || self.private_key.is_some() {
                    let rule = "must be left out (null) where certificate is given";
                    at.invalid(rule);
                    return None;
                }
                if let Some(url) = endpoint.url {
                    endpoint.check_reference(&name, url, at);
                }
                Material::Reference { name }
            }
            None => {
                if self.certificate.is_none() {
                    let rule = format!(
                        "is required, or {REFERENCE}: certificates as PEM, one's own first"
                    );
                    at.member("certificate").require(rule);
                }
                let private_key =
                    read_key(self.private_key, endpoint, &mut at.member("privateKey"));
                Material::Inline { certificate: self.certificate?, private_key: private_key? }
            }
        };
        let trusted = self.trusted_certificates;
        Some(Stored::ClientCertificate(certificate::ClientCertificate { material, trusted }))
    }

    /// Returns what a read shows: no private key.
    fn of(by: &certificate::ClientCertificate) -> Self {
        let (certificate, certificate_reference) = match &by.material {
            Material::Inline { certificate, .. } => (Some(certificate.clone()), None),
            Material::Reference { name } => (None, Some(name.clone())),
        };
        let trusted_certificates = by.trusted.clone();
        Self { certificate, private_key: None, certificate_reference, trusted_certificates }
    }
}

fn check_certificates(given: &str, at: &mut At<'_>) {
    check_size(given, CHAIN_BYTES_MAX, at);
    if let Err(problem) = pem::certificates(given) {
        at.invalid(problem.to_string());
    }
}

/// Reads the private key. One that is left out is the stored one, unless the endpoint is another
/// party's.
fn read_key(given: Option<Secret>, endpoint: &Endpoint<'_>, at: &mut At<'_>) -> Option<Secret> {
    let Some(given) = given.filter(|given| given.expose() != HIDDEN) else {
        if let Some(Stored::ClientCertificate(stored)) = endpoint.stored()
            && let Material::Inline { private_key, .. } = &stored.material
        {
            return Some(private_key.clone());
        }
        let rule = format!(
            "is required, or {REFERENCE} (left out or 'Hidden', it keeps the stored key while the endpoint's scheme, \
             host and port stay as they are, and nothing is stored)"
        );
        at.require(rule);
        return None;
    };
    check_size(given.expose(), SECRET_BYTES_MAX, at);
    if let Err(problem) = pem::private_key(given.expose()) {
        at.invalid(problem.to_string());
    }
    Some(given)
}

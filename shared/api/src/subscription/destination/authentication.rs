//! `authentication`, and Event Grid's own `azureActiveDirectory…` members.

pub mod aws;
pub mod certificate;
pub mod client;

use gridpost_core::{
    endpoint::secrets::SecretRefused,
    subscription::{
        DeliveryAttribute, EventSubscription,
        authentication::{Authentication as Stored, Client, ClientCredentials, Grant},
    },
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use self::{
    aws::{SigV4, WebIdentity},
    certificate::ClientCertificate,
    client::{EntraId, OAuth2},
};
use super::{super::Context, WebHook};
use crate::document::{
    Code, Problems,
    azure::{NotSupported, is_empty},
};

/// Event Grid's own members.
const TENANT: &str = "azureActiveDirectoryTenantId";
const APPLICATION: &str = "azureActiveDirectoryApplicationIdOrUri";

/// What to write instead of them where the deployment has no client of Entra ID.
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

/// Whose requests are authenticated.
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
    pub(super) fn read(
        &self,
        webhook: &mut WebHook,
        path: &str,
        problems: &mut Problems,
    ) -> Option<Stored> {
        let of_azure = self.read_azure(webhook, path, problems);
        let path = format!("{path}.authentication");
        let Some(given) = webhook.authentication.take() else { return of_azure };
        if of_azure.is_some() {
            let rule = format!("must be left out where {TENANT} and {APPLICATION} are given");
            problems.add(Code::InvalidValue, &path, rule);
        }
        let path = format!("{path}.properties");
        match given {
            Authentication::OAuth2ClientCredentials(given) => given.read(self, &path, problems),
            Authentication::EntraId(given) => given.read(self, &path, problems),
            Authentication::ClientCertificate(given) => given.read(self, &path, problems),
            Authentication::AwsSigV4(given) => given.read(self, &path, problems),
            Authentication::AwsWebIdentity(given) => given.read(self, &path, problems),
        }
    }

    /// Reads Event Grid's own members: the deployment's client asks for tokens.
    fn read_azure(
        &self,
        webhook: &mut WebHook,
        path: &str,
        problems: &mut Problems,
    ) -> Option<Stored> {
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
            require(&format!("{path}.{name}"), &format!("is required: {what}"), problems);
        }
        let tenant = client::check_tenant(tenant?, format!("{path}.{TENANT}"), problems);
        let application =
            check_text(Some(application?), &format!("{path}.{APPLICATION}"), problems);
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
    fn check_reference(&self, name: &str, url: &str, path: String, problems: &mut Problems) {
        let Err(refused) = self.context.allowed.secrets.check(name, url) else { return };
        let hint = match refused {
            SecretRefused::Unknown => " (its operator names them in endpoint_secrets)",
            SecretRefused::Host(_) => "",
        };
        problems.add(Code::InvalidValue, path, format!("{refused}{hint}"));
    }
}

/// Lists that a member is missing, unless it is there and breaks another rule.
fn require(path: &str, rule: &str, problems: &mut Problems) {
    if !problems.is_of(path) {
        problems.add(Code::MissingMember, path, rule);
    }
}

/// Returns a text without control characters.
fn check_text(given: Option<String>, path: &str, problems: &mut Problems) -> Option<String> {
    let given = given?;
    if given.chars().any(char::is_control) {
        problems.add(Code::InvalidValue, path, "must have no control characters");
        return None;
    }
    Some(given)
}

/// Checks how long a text is, which is not repeated: it may be a secret.
fn check_size(given: &str, most: usize, path: &str, problems: &mut Problems) {
    let bytes = given.len();
    if bytes == 0 || bytes > most {
        let rule = format!("must have 1 to {most} bytes, but has {bytes}");
        problems.add(Code::OutOfRange, path, rule);
    }
}

/// Refuses a delivery attribute that would take the place of a header that authenticates.
pub(super) fn refuse_own_header(
    path: &str,
    attributes: &[DeliveryAttribute],
    by: &Stored,
    problems: &mut Problems,
) {
    let is_signed = matches!(by, Stored::AwsSigV4(_));
    let has = |is_own: fn(&str) -> bool| {
        attributes.iter().any(|one| is_own(&one.name.to_ascii_lowercase()))
    };
    if has(|name| name == "authorization") {
        let rule = "must not have Authorization where the endpoint's authentication is given: its \
                    token or its signature is sent in that header";
        problems.add(Code::InvalidValue, format!("{path}.deliveryAttributeMappings"), rule);
    }
    // A service of AWS takes commands by such headers.
    if is_signed && has(|name| name.starts_with("x-amz-")) {
        let rule = "must not have headers of AWS's own (x-amz-…) where requests are signed";
        problems.add(Code::InvalidValue, format!("{path}.deliveryAttributeMappings"), rule);
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

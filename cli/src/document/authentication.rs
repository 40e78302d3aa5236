//! The flags of an endpoint's authentication.

use std::fs;

use clap::Args;
use serde_json::{Value, json};

use super::members;

/// Reads a file of PEM. What it has is not repeated.
fn pem_file(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| error.to_string())
}

/// How requests to a webhook are authenticated.
#[derive(Args, Clone, Debug, Default)]
pub struct AuthenticationFlags {
    /// Authenticate requests by tokens of OAuth 2.0 client credentials, asked for at this URL
    #[arg(long, value_name = "URL", conflicts_with_all = ["file", "entra_tenant"])]
    pub oauth_token_url: Option<String>,

    /// Authenticate requests by tokens of this tenant of Entra ID
    #[arg(long, value_name = "TENANT", requires = "entra_application", conflicts_with = "file")]
    pub entra_tenant: Option<String>,

    /// The application of Entra ID that the endpoint is, by its id or its URI
    #[arg(long, value_name = "APPLICATION", conflicts_with = "file")]
    pub entra_application: Option<String>,

    /// The client's id
    #[arg(long, value_name = "ID", conflicts_with = "file")]
    pub oauth_client_id: Option<String>,

    /// The client's secret, which no read shows
    #[arg(long, value_name = "SECRET", conflicts_with_all = ["file", "oauth_secret_reference"])]
    pub oauth_client_secret: Option<String>,

    /// Where the client's secret is kept: an ARN of Secrets Manager or of an SSM parameter, or
    /// env:GRIDPOST_SECRET_… for `gridpost dev`
    #[arg(long, value_name = "ARN", conflicts_with = "file")]
    pub oauth_secret_reference: Option<String>,

    /// Scopes to ask for, with spaces between them
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["file", "entra_tenant"])]
    pub oauth_scope: Option<String>,

    /// Audience to ask for
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["file", "entra_tenant"])]
    pub oauth_audience: Option<String>,

    /// A file with the client's private key (PEM), which signs instead of a secret: private_key_jwt
    #[arg(long, value_name = "FILE", value_parser = pem_file,
        conflicts_with_all = ["file", "entra_tenant", "oauth_client_secret", "oauth_secret_reference"])]
    pub oauth_private_key: Option<String>,

    /// Where the client's private key is kept, as for --oauth-secret-reference
    #[arg(long, value_name = "ARN", conflicts_with_all = ["file", "entra_tenant", "oauth_client_secret",
        "oauth_secret_reference", "oauth_private_key"])]
    pub oauth_private_key_reference: Option<String>,

    /// The id of the client's private key, for the token server
    #[arg(long, value_name = "ID", conflicts_with_all = ["file", "entra_tenant"])]
    pub oauth_key_id: Option<String>,

    /// Whom the client's assertion is for [default: the token URL]
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["file", "entra_tenant"])]
    pub oauth_assertion_audience: Option<String>,

    /// Show a client certificate (mutual TLS): a file with its chain, one's own first (PEM)
    #[arg(long, value_name = "FILE", value_parser = pem_file,
        conflicts_with_all = ["file", "oauth_token_url", "entra_tenant"])]
    pub client_certificate: Option<String>,

    /// A file with the private key of the client certificate (PEM), which no read shows
    #[arg(long, value_name = "FILE", value_parser = pem_file,
        conflicts_with_all = ["file", "oauth_token_url", "entra_tenant"])]
    pub client_key: Option<String>,

    /// Where client certificate and private key are kept together, as for --oauth-secret-reference
    #[arg(long, value_name = "ARN", conflicts_with_all = ["file", "oauth_token_url", "entra_tenant",
        "client_certificate", "client_key"])]
    pub client_certificate_reference: Option<String>,

    /// Beside a client certificate: trust only the authorities in this file (PEM) at this endpoint
    #[arg(long, value_name = "FILE", value_parser = pem_file,
        conflicts_with_all = ["file", "oauth_token_url", "entra_tenant"])]
    pub trusted_certificates: Option<String>,
}

impl AuthenticationFlags {
    /// The names of all of them.
    pub const NAMES: [&str; 16] = [
        "oauth_token_url",
        "entra_tenant",
        "entra_application",
        "oauth_client_id",
        "oauth_client_secret",
        "oauth_secret_reference",
        "oauth_scope",
        "oauth_audience",
        "oauth_private_key",
        "oauth_private_key_reference",
        "oauth_key_id",
        "oauth_assertion_audience",
        "client_certificate",
        "client_key",
        "client_certificate_reference",
        "trusted_certificates",
    ];

    /// The type that they name, if they name one.
    fn kind(&self) -> Option<&'static str> {
        let certificate =
            self.client_certificate.as_ref().or(self.client_certificate_reference.as_ref());
        match (&self.oauth_token_url, &self.entra_tenant, certificate) {
            (Some(_), ..) => Some("OAuth2ClientCredentials"),
            (None, Some(_), _) => Some("EntraId"),
            (None, None, Some(_)) => Some("ClientCertificate"),
            (None, None, None) => None,
        }
    }

    /// The member of a destination's properties that they describe. Without a token URL, a tenant
    /// and a client certificate it is a change of the one that there is.
    pub fn authentication(&self) -> Option<Value> {
        let text = |given: &Option<String>| given.as_ref().map(|text| json!(text));
        let key = self.oauth_private_key.as_ref().or(self.oauth_private_key_reference.as_ref());
        let private_key = self.oauth_private_key.as_ref().or(self.client_key.as_ref());
        let properties = members([
            ("tokenUrl", text(&self.oauth_token_url)),
            ("tenantId", text(&self.entra_tenant)),
            ("applicationIdOrUri", text(&self.entra_application)),
            ("clientId", text(&self.oauth_client_id)),
            ("clientSecret", text(&self.oauth_client_secret)),
            ("clientSecretReference", text(&self.oauth_secret_reference)),
            ("scope", text(&self.oauth_scope)),
            ("audience", text(&self.oauth_audience)),
            ("clientAuthentication", key.map(|_| json!("PrivateKeyJwt"))),
            ("privateKey", private_key.map(|text| json!(text))),
            ("privateKeyReference", text(&self.oauth_private_key_reference)),
            ("keyId", text(&self.oauth_key_id)),
            ("assertionAudience", text(&self.oauth_assertion_audience)),
            ("certificate", text(&self.client_certificate)),
            ("certificateReference", text(&self.client_certificate_reference)),
            ("trustedCertificates", text(&self.trusted_certificates)),
        ]);
        if properties.is_empty() {
            return None;
        }
        let kind = self.kind().map(|kind| json!(kind));
        Some(members([("type", kind), ("properties", Some(Value::Object(properties)))]).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_describe_an_authentication_or_a_change_of_one() {
        let text = |text: &str| Some(text.to_owned());
        let none = AuthenticationFlags::default;
        let table = [
            (none(), Value::Null),
            (
                AuthenticationFlags {
                    oauth_token_url: text("https://id/token"),
                    oauth_client_id: text("c"),
                    oauth_secret_reference: text("arn:s"),
                    oauth_scope: text("a b"),
                    ..none()
                },
                json!({"type": "OAuth2ClientCredentials", "properties": {
                    "tokenUrl": "https://id/token", "clientId": "c",
                    "clientSecretReference": "arn:s", "scope": "a b"}}),
            ),
            (
                AuthenticationFlags {
                    entra_tenant: text("t"),
                    entra_application: text("api://a"),
                    ..none()
                },
                json!({"type": "EntraId", "properties":
                    {"tenantId": "t", "applicationIdOrUri": "api://a"}}),
            ),
            (
                AuthenticationFlags { oauth_client_secret: text("new"), ..none() },
                json!({"properties": {"clientSecret": "new"}}),
            ),
            (
                AuthenticationFlags {
                    oauth_token_url: text("https://id/token"),
                    oauth_client_id: text("c"),
                    oauth_private_key_reference: text("arn:k"),
                    oauth_key_id: text("k1"),
                    ..none()
                },
                json!({"type": "OAuth2ClientCredentials", "properties": {
                    "tokenUrl": "https://id/token", "clientId": "c", "keyId": "k1",
                    "clientAuthentication": "PrivateKeyJwt", "privateKeyReference": "arn:k"}}),
            ),
            (
                AuthenticationFlags {
                    client_certificate: text("chain"),
                    client_key: text("key"),
                    trusted_certificates: text("ca"),
                    ..none()
                },
                json!({"type": "ClientCertificate", "properties": {
                    "certificate": "chain", "privateKey": "key", "trustedCertificates": "ca"}}),
            ),
            (
                AuthenticationFlags { client_certificate_reference: text("arn:c"), ..none() },
                json!({"type": "ClientCertificate", "properties": {"certificateReference": "arn:c"}}),
            ),
        ];
        for (flags, want) in table {
            assert_eq!(flags.authentication().unwrap_or_default(), want, "{flags:?}");
        }
    }
}

//! The flags of an endpoint's authentication.

use std::{convert::Infallible, fmt, path::Path};

use clap::Args;
use serde_json::{Value, json};

use super::members;
use gridpost_ops::{failure::Misuse, files};

/// Of each type: the members that stay where flags describe another one of that type.
const KEPT: [(&str, &[&str]); 3] = [
    ("OAuth2ClientCredentials", &["scope", "audience"]),
    ("ClientCertificate", &["trustedCertificates"]),
    ("AwsSigV4", &["region", "roleArn"]),
];

/// A file of PEM. What it has does not print.
#[derive(Clone)]
pub struct PemFile {
    path: String,
    text: Result<String, String>,
}

impl PemFile {
    fn read(path: &str) -> Result<Self, Infallible> {
        let text = files::text(Path::new(path)).map_err(|error| format!("{error:#}"));
        Ok(Self { path: path.to_owned(), text })
    }

    fn value(&self) -> Value {
        json!(self.text.as_deref().unwrap_or_default())
    }
}

impl fmt::Debug for PemFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PemFile").field(&self.path).finish()
    }
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
    #[arg(long, value_name = "FILE", value_parser = PemFile::read,
        conflicts_with_all = ["file", "entra_tenant", "oauth_client_secret", "oauth_secret_reference"])]
    pub oauth_private_key: Option<PemFile>,

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
    #[arg(long, value_name = "FILE", value_parser = PemFile::read,
        conflicts_with_all = ["file", "oauth_token_url", "entra_tenant"])]
    pub client_certificate: Option<PemFile>,

    /// A file with the private key of the client certificate (PEM), which no read shows
    #[arg(long, value_name = "FILE", value_parser = PemFile::read,
        conflicts_with_all = ["file", "oauth_token_url", "entra_tenant"])]
    pub client_key: Option<PemFile>,

    /// Where client certificate and private key are kept together, as for --oauth-secret-reference
    #[arg(long, value_name = "ARN", conflicts_with_all = ["file", "oauth_token_url", "entra_tenant",
        "client_certificate", "client_key"])]
    pub client_certificate_reference: Option<String>,

    /// Beside a client certificate: trust only the authorities in this file (PEM) at this endpoint
    #[arg(long, value_name = "FILE", value_parser = PemFile::read,
        conflicts_with_all = ["file", "oauth_token_url", "entra_tenant"])]
    pub trusted_certificates: Option<PemFile>,

    /// Prove the client by a token that AWS signs, instead of a secret: for this audience, or for
    /// Entra ID's own
    #[arg(
        long, value_name = "AUDIENCE", num_args = 0..=1, require_equals = true,
        default_missing_value = "",
        conflicts_with_all = ["file", "oauth_client_secret", "oauth_secret_reference",
            "oauth_private_key", "oauth_private_key_reference"]
    )]
    pub client_by_aws: Option<String>,

    /// Sign requests by AWS's Signature Version 4 for this service: execute-api (API Gateway) or lambda
    /// (function URLs)
    #[arg(long, value_name = "SERVICE", conflicts_with_all = ["file", "oauth_token_url", "entra_tenant",
        "client_certificate", "client_certificate_reference"])]
    pub sigv4_service: Option<String>,

    /// The region to sign for, where the endpoint's host does not show it
    #[arg(long, value_name = "REGION", conflicts_with_all = ["file", "oauth_token_url", "entra_tenant",
        "client_certificate", "client_certificate_reference"])]
    pub sigv4_region: Option<String>,

    /// The role to sign with, one that the deployment names
    #[arg(long, value_name = "ARN", conflicts_with_all = ["file", "oauth_token_url", "entra_tenant",
        "client_certificate", "client_certificate_reference"])]
    pub sigv4_role: Option<String>,

    /// Authenticate requests by tokens that AWS signs for this audience, one that the deployment names
    #[arg(
        long, value_name = "AUDIENCE",
        conflicts_with_all = ["file", "oauth_token_url", "entra_tenant", "sigv4_service",
            "client_certificate", "client_certificate_reference"]
    )]
    pub aws_identity: Option<String>,

    /// How AWS signs such a token: RS256 (the default) or ES384
    #[arg(long, value_name = "ALGORITHM", conflicts_with = "file")]
    pub aws_identity_algorithm: Option<String>,
}

impl AuthenticationFlags {
    fn kind(&self) -> Option<&'static str> {
        let kinds = [
            (self.oauth_token_url.is_some(), "OAuth2ClientCredentials"),
            (self.entra_tenant.is_some(), "EntraId"),
            (self.client_certificate.is_some(), "ClientCertificate"),
            (self.client_certificate_reference.is_some(), "ClientCertificate"),
            (self.sigv4_service.is_some(), "AwsSigV4"),
            (self.aws_identity.is_some(), "AwsWebIdentity"),
        ];
        kinds.iter().find(|(is_given, _)| *is_given).map(|(_, kind)| *kind)
    }

    /// Whether they name a type, and so describe a whole authentication.
    pub fn name_type(&self) -> bool {
        self.kind().is_some()
    }

    /// As [`Self::authentication`], for an event subscription that has `stored`. A patch that names the
    /// type replaces the whole authentication, so what no flag names goes along where it is of the same
    /// type.
    pub fn authentication_beside(&self, stored: &Value) -> Option<Value> {
        let mut given = self.authentication()?;
        let same = |kind: &str| given["type"] == *kind && stored["type"] == *kind;
        let names = KEPT.iter().find(|(kind, _)| same(kind)).map_or(&[][..], |(_, names)| *names);
        for name in names {
            let before = &stored["properties"][name];
            if given["properties"].get(name).is_none() && !before.is_null() {
                given["properties"][name] = before.clone();
            }
        }
        Some(given)
    }

    /// Checks that the files could be read.
    pub fn check(&self) -> Result<(), Misuse> {
        let files = [
            ("--oauth-private-key", &self.oauth_private_key),
            ("--client-certificate", &self.client_certificate),
            ("--client-key", &self.client_key),
            ("--trusted-certificates", &self.trusted_certificates),
        ];
        for (flag, file) in files {
            if let Some(PemFile { path, text: Err(error) }) = file {
                return Err(Misuse(format!("{flag}: {path} can't be read: {error}")));
            }
        }
        Ok(())
    }

    /// What proves a client instead of a secret.
    fn assertion(&self) -> Option<Value> {
        let audience = self.client_by_aws.as_ref()?;
        let properties = members([
            ("audience", (!audience.is_empty()).then(|| json!(audience))),
            ("signingAlgorithm", self.aws_identity_algorithm.as_ref().map(|given| json!(given))),
        ]);
        Some(json!({"type": "AwsWebIdentity", "properties": properties}))
    }

    /// The member of a destination's properties that they describe. Without one that says the type
    /// (a token URL, a tenant, a certificate, a service, an audience) it is a change of the one that
    /// there is.
    pub fn authentication(&self) -> Option<Value> {
        let text = |given: &Option<String>| given.as_ref().map(|text| json!(text));
        let file = |given: &Option<PemFile>| given.as_ref().map(PemFile::value);
        let is_signed =
            self.oauth_private_key.is_some() || self.oauth_private_key_reference.is_some();
        let private_key = self.oauth_private_key.as_ref().or(self.client_key.as_ref());
        let properties = members([
            ("tokenUrl", text(&self.oauth_token_url)),
            ("tenantId", text(&self.entra_tenant)),
            ("applicationIdOrUri", text(&self.entra_application)),
            ("clientId", text(&self.oauth_client_id)),
            ("clientSecret", text(&self.oauth_client_secret)),
            ("clientSecretReference", text(&self.oauth_secret_reference)),
            ("scope", text(&self.oauth_scope)),
            ("clientAuthentication", is_signed.then(|| json!("PrivateKeyJwt"))),
            ("privateKey", private_key.map(PemFile::value)),
            ("privateKeyReference", text(&self.oauth_private_key_reference)),
            ("keyId", text(&self.oauth_key_id)),
            ("assertionAudience", text(&self.oauth_assertion_audience)),
            ("certificate", file(&self.client_certificate)),
            ("certificateReference", text(&self.client_certificate_reference)),
            ("trustedCertificates", file(&self.trusted_certificates)),
            (
                "audience",
                text(
                    self.aws_identity.as_ref().map_or(&self.oauth_audience, |_| &self.aws_identity),
                ),
            ),
            ("clientAssertion", self.assertion()),
            ("service", text(&self.sigv4_service)),
            ("region", text(&self.sigv4_region)),
            ("roleArn", text(&self.sigv4_role)),
            (
                "signingAlgorithm",
                text(&self.aws_identity_algorithm).filter(|_| self.client_by_aws.is_none()),
            ),
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
        let file = |text: &str| Some(PemFile { path: "f".to_owned(), text: Ok(text.to_owned()) });
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
                    entra_tenant: text("t"),
                    client_by_aws: text(""),
                    aws_identity_algorithm: text("RS256"),
                    ..none()
                },
                json!({"type": "EntraId", "properties": {"tenantId": "t", "clientAssertion":
                    {"type": "AwsWebIdentity", "properties": {"signingAlgorithm": "RS256"}}}}),
            ),
            (
                AuthenticationFlags {
                    sigv4_service: text("execute-api"),
                    sigv4_role: text("arn:r"),
                    ..none()
                },
                json!({"type": "AwsSigV4", "properties":
                    {"service": "execute-api", "roleArn": "arn:r"}}),
            ),
            (
                AuthenticationFlags { sigv4_region: text("eu-north-1"), ..none() },
                json!({"properties": {"region": "eu-north-1"}}),
            ),
            (
                AuthenticationFlags {
                    aws_identity: text("aud"),
                    aws_identity_algorithm: text("ES384"),
                    ..none()
                },
                json!({"type": "AwsWebIdentity", "properties":
                    {"audience": "aud", "signingAlgorithm": "ES384"}}),
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
                    client_certificate: file("chain"),
                    client_key: file("key"),
                    trusted_certificates: file("ca"),
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

    #[test]
    fn what_no_flag_names_goes_along_to_another_one_of_that_type() {
        let text = |text: &str| Some(text.to_owned());
        let flags = AuthenticationFlags {
            client_certificate_reference: text("arn:new"),
            ..AuthenticationFlags::default()
        };
        let signing = |region: Option<&str>| AuthenticationFlags {
            sigv4_service: text("lambda"),
            sigv4_region: region.map(str::to_owned),
            ..AuthenticationFlags::default()
        };
        let certificate = json!({"type": "ClientCertificate", "properties": {
            "certificate": "old", "privateKey": null, "trustedCertificates": "ca"}});
        let signed = json!({"type": "AwsSigV4", "properties": {
            "service": "execute-api", "region": "eu-north-1", "roleArn": "arn:r"}});
        let table = [
            (
                &flags,
                &certificate,
                json!({"certificateReference": "arn:new", "trustedCertificates": "ca"}),
            ),
            (&flags, &signed, json!({"certificateReference": "arn:new"})),
            (&flags, &Value::Null, json!({"certificateReference": "arn:new"})),
            (
                &signing(None),
                &signed,
                json!({"service": "lambda", "region": "eu-north-1", "roleArn": "arn:r"}),
            ),
            (
                &signing(Some("eu-west-1")),
                &signed,
                json!({"service": "lambda", "region": "eu-west-1", "roleArn": "arn:r"}),
            ),
            (&signing(None), &certificate, json!({"service": "lambda"})),
        ];
        for (flags, stored, want) in table {
            let given = flags.authentication_beside(stored).expect("an authentication");
            assert_eq!(given["properties"], want, "{stored}");
        }
    }

    #[test]
    fn a_file_that_can_not_be_read_is_named() {
        let file = PemFile::read("no-such-folder/client.key").ok();
        let flags = AuthenticationFlags { client_key: file, ..AuthenticationFlags::default() };
        let misuse = flags.check().expect_err("no such file").to_string();
        assert!(misuse.starts_with("--client-key: no-such-folder/client.key can't"), "{misuse}");
        assert!(AuthenticationFlags::default().check().is_ok());
    }
}

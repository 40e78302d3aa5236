//! How requests prove to an endpoint who sends them.
//!
//! [`token`] asks for tokens and reads the answers; `gridpost_ports::authentication` keeps them.
//!
//! Source: RFC 6749, section 4.4; Event Grid, "Secure WebHook delivery with Microsoft Entra ID".

pub mod assertion;
pub mod aws;
pub mod certificate;
pub mod token;

use serde::{Deserialize, Serialize};

pub use aws::{SigV4, SigningAlgorithm, WebIdentity};

use self::certificate::ClientCertificate;
use crate::{
    endpoint::secrets::{ClientSecrets, ENTRA_HOST, SecretRefused},
    secret::Secret,
};

/// The authentication of an event subscription.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "by")]
pub enum Authentication {
    /// By a token that a client asks for.
    ClientCredentials(ClientCredentials),
    /// By AWS's Signature Version 4.
    AwsSigV4(SigV4),
    /// By a token that AWS signs.
    AwsWebIdentity(WebIdentity),
    /// By the certificate of the TLS connection.
    ClientCertificate(ClientCertificate),
}

/// OAuth 2.0 client credentials.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientCredentials {
    pub grant: Grant,
    pub client: Client,
}

/// The token to request, and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum Grant {
    /// From any OAuth 2.0 server.
    #[serde(rename = "OAuth2ClientCredentials")]
    OAuth2 {
        token_url: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        audience: Option<String>,
        #[serde(default)]
        sent_by: SentBy,
    },
    /// From Entra ID, for an application of that tenant.
    EntraId { tenant: String, application: String },
}

/// How a token request authenticates its client. Source: RFC 6749, 2.3.1; OpenID Connect Core, 9.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all_fields = "camelCase")]
pub enum SentBy {
    /// In the body.
    #[default]
    Post,
    /// In `Authorization: Basic`.
    Basic,
    /// By an [assertion] signed with the client's private key, which is its secret.
    PrivateKeyJwt {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key_id: Option<String>,
        /// `None` means the token URL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        audience: Option<String>,
    },
}

/// The client that asks for tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum Client {
    /// A client of this event subscription.
    Own { id: String, secret: ClientSecret },
    /// The deployment's client of Entra ID: see [`ClientSecrets::entra`].
    Deployment,
}

/// A client's secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum ClientSecret {
    /// Never shown by a read.
    Inline { value: Secret },
    /// The ARN of a secret of Secrets Manager or of a parameter.
    Reference { name: String },
    /// A token that AWS signs takes the secret's place.
    AwsWebIdentity(WebIdentity),
}

impl Authentication {
    /// Returns whether requests carry it in `Authorization`.
    pub fn sends_header(&self) -> bool {
        !matches!(self, Self::ClientCertificate(_))
    }
}

impl Grant {
    /// Returns the URL that tokens are asked from.
    pub fn token_url(&self) -> String {
        match self {
            Self::OAuth2 { token_url, .. } => token_url.clone(),
            Self::EntraId { tenant, .. } => {
                format!("https://{ENTRA_HOST}/{tenant}/oauth2/v2.0/token")
            }
        }
    }

    /// Returns the audience of assertions if it is not the token URL. It must be a host that is
    /// named for a referenced key: others would accept the assertion too.
    pub fn assertion_audience(&self) -> Option<&str> {
        match self {
            Self::OAuth2 { sent_by: SentBy::PrivateKeyJwt { audience, .. }, .. } => {
                audience.as_deref()
            }
            _ => None,
        }
    }
}

impl ClientCredentials {
    /// Returns the client's id and secret, unless settings refuse it by now.
    pub fn client(&self, secrets: &ClientSecrets) -> Result<(String, ClientSecret), SecretRefused> {
        match &self.client {
            Client::Deployment => {
                let entra = secrets.entra.as_ref().ok_or(SecretRefused::Unknown)?;
                let secret = ClientSecret::Reference { name: entra.secret.clone() };
                Ok((entra.client_id.clone(), secret))
            }
            Client::Own { id, secret } => {
                if let ClientSecret::Reference { name } = secret {
                    secrets.check(name, &self.grant.token_url())?;
                    if let Some(audience) = self.grant.assertion_audience() {
                        secrets.check(name, audience)?;
                    }
                }
                Ok((id.clone(), secret.clone()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{certificate::Material, *};

    #[test]
    fn authentications_are_stored_by_kind() {
        let grant = Grant::EntraId { tenant: "t".to_owned(), application: "a".to_owned() };
        let by = ClientCredentials { grant, client: Client::Deployment };
        let audience = "aud".to_owned();
        let identity = WebIdentity { audience, algorithm: SigningAlgorithm::ES384 };
        let secret = ClientSecret::AwsWebIdentity(identity.clone());
        let by_token =
            ClientCredentials { client: Client::Own { id: "c".to_owned(), secret }, ..by.clone() };
        let (service, region) = ("execute-api".to_owned(), Some("eu-north-1".to_owned()));
        let certificate = |material, trusted| {
            Authentication::ClientCertificate(ClientCertificate { material, trusted })
        };
        let inline =
            Material::Inline { certificate: "c".to_owned(), private_key: Secret::new("k") };
        let named = Material::Reference { name: "arn:c".to_owned() };
        let signing = Grant::OAuth2 {
            token_url: "u".to_owned(),
            scope: None,
            audience: None,
            sent_by: SentBy::PrivateKeyJwt { key_id: Some("k".to_owned()), audience: None },
        };
        let signing = ClientCredentials { grant: signing, client: Client::Deployment };
        let table = [
            (
                Authentication::ClientCredentials(by),
                r#"{"by":"ClientCredentials","grant":{"type":"EntraId","tenant":"t","application":"a"},"client":{"type":"Deployment"}}"#,
            ),
            (
                Authentication::ClientCredentials(by_token),
                r#"{"by":"ClientCredentials","grant":{"type":"EntraId","tenant":"t","application":"a"},"client":{"type":"Own","id":"c","secret":{"type":"AwsWebIdentity","audience":"aud","algorithm":"ES384"}}}"#,
            ),
            (
                Authentication::AwsWebIdentity(identity),
                r#"{"by":"AwsWebIdentity","audience":"aud","algorithm":"ES384"}"#,
            ),
            (
                Authentication::AwsSigV4(SigV4 {
                    service: service.clone(),
                    region: None,
                    role: None,
                }),
                r#"{"by":"AwsSigV4","service":"execute-api"}"#,
            ),
            (
                Authentication::AwsSigV4(SigV4 { service, region, role: Some("arn:r".to_owned()) }),
                r#"{"by":"AwsSigV4","service":"execute-api","region":"eu-north-1","role":"arn:r"}"#,
            ),
            (
                Authentication::ClientCredentials(signing),
                r#"{"by":"ClientCredentials","grant":{"type":"OAuth2ClientCredentials","tokenUrl":"u","sentBy":{"PrivateKeyJwt":{"keyId":"k"}}},"client":{"type":"Deployment"}}"#,
            ),
            (
                certificate(inline, None),
                r#"{"by":"ClientCertificate","material":{"type":"Inline","certificate":"c","privateKey":"k"}}"#,
            ),
            (
                certificate(named, Some("t".to_owned())),
                r#"{"by":"ClientCertificate","material":{"type":"Reference","name":"arn:c"},"trusted":"t"}"#,
            ),
        ];
        for (authentication, text) in table {
            assert_eq!(serde_json::to_string(&authentication).expect("written"), text);
            let read: Authentication = serde_json::from_str(text).expect("read");
            assert_eq!(read, authentication);
        }
    }

    #[test]
    fn the_deployments_client_is_there_or_not() {
        let credentials = ClientCredentials {
            grant: Grant::EntraId { tenant: "t".to_owned(), application: "a".to_owned() },
            client: Client::Deployment,
        };
        let none = ClientSecrets::default();
        assert_eq!(credentials.client(&none).err(), Some(SecretRefused::Unknown));
        let some: ClientSecrets =
            r#"{"entra": {"clientId": "c", "secret": "arn:s"}}"#.parse().expect("read");
        let secret = ClientSecret::Reference { name: "arn:s".to_owned() };
        assert_eq!(credentials.client(&some).ok(), Some(("c".to_owned(), secret)));
    }
    #[test]
    fn a_named_key_signs_for_no_audience_of_another_host() {
        let secrets: ClientSecrets =
            r#"{"hosts": {"arn:k": ["id.example"]}}"#.parse().expect("read");
        let client = |audience: Option<&str>, secret: &ClientSecret| {
            let sent_by =
                SentBy::PrivateKeyJwt { key_id: None, audience: audience.map(str::to_owned) };
            let grant = Grant::OAuth2 {
                token_url: "https://id.example/token".to_owned(),
                scope: None,
                audience: None,
                sent_by,
            };
            let client = Client::Own { id: "c".to_owned(), secret: secret.clone() };
            ClientCredentials { grant, client }.client(&secrets).map(|_| ())
        };
        let named = ClientSecret::Reference { name: "arn:k".to_owned() };
        let host = |host: &str| Err(SecretRefused::Host(host.to_owned()));
        let table = [
            (None, Ok(())),
            (Some("https://id.example/"), Ok(())),
            (Some("https://bank.example/token"), host("bank.example")),
            (Some("bank"), host("")),
        ];
        for (audience, want) in table {
            assert_eq!(client(audience, &named), want, "{audience:?}");
            let own = ClientSecret::Inline { value: Secret::new("k") };
            assert_eq!(client(audience, &own), Ok(()), "its author has the key");
        }
    }
}

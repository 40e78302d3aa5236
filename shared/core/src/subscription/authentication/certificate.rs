//! Client certificates, by which TLS proves who sends a request.
//!
//! Source: RFC 8446, section 4.4.2; RFC 5246, section 7.4.6.

use serde::{Deserialize, Serialize};

use crate::{
    endpoint::secrets::{ClientSecrets, SecretRefused},
    pem::{self, Certificate, PemProblem, PrivateKey},
    secret::Secret,
};

/// A client certificate, and the authorities it trusts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertificate {
    pub material: Material,
    /// Authorities' certificates, PEM, which replace the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted: Option<String>,
}

/// A chain of certificates, its own first, and its private key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum Material {
    /// Reads show the certificates.
    Inline { certificate: String, private_key: Secret },
    /// The name of a secret with both, so that they change together.
    Reference { name: String },
}

impl Material {
    /// Splits the texts; `read` is the content of the secret.
    pub fn parts(
        &self,
        read: Option<&Secret>,
    ) -> Result<(Vec<Certificate>, PrivateKey), PemProblem> {
        match self {
            Self::Inline { certificate, private_key } => {
                Ok((pem::certificates(certificate)?, pem::private_key(private_key.expose())?))
            }
            Self::Reference { .. } => pem::chain_and_key(read.map_or("", Secret::expose)),
        }
    }
}

impl ClientCertificate {
    /// Returns the name of its secret, unless settings refuse it by now.
    pub fn reference<'a>(
        &'a self,
        secrets: &ClientSecrets,
        endpoint_url: &str,
    ) -> Result<Option<&'a str>, SecretRefused> {
        match &self.material {
            Material::Inline { .. } => Ok(None),
            Material::Reference { name } => {
                secrets.check(name, endpoint_url).map(|()| Some(&**name))
            }
        }
    }
}

/// The reason why an endpoint gets no request with a client certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCertificate {
    #[error("a client certificate goes by https alone")]
    NotTls,
    #[error("the secret with the client certificate {0}")]
    Refused(#[from] SecretRefused),
    #[error("the secret with the client certificate can't be read: {0}")]
    NoSecret(String),
    #[error("the client certificate {0}")]
    Pem(#[from] PemProblem),
    /// Says why, without the content.
    #[error("the client certificate {0}")]
    Unusable(&'static str),
    /// The endpoint refused it; the text is the name of TLS's alert.
    #[error("the endpoint refused the client certificate: TLS alert {0}")]
    NotTaken(String),
    #[error("trustedCertificates {0}")]
    Trusted(String),
}

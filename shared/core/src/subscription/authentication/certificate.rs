//! A client certificate, by which TLS itself proves who sends a request.
//!
//! Source: RFC 8446, section 4.4.2; RFC 5246, section 7.4.6.

use serde::{Deserialize, Serialize};

use crate::{
    endpoint::secrets::{ClientSecrets, SecretRefused},
    pem::{self, Certificate, PemProblem, PrivateKey},
    secret::Secret,
};

/// Who connects, and whom it trusts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertificate {
    pub material: Material,
    /// Certificates of authorities, PEM: an endpoint's certificate must come from one of them, and the
    /// public ones do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted: Option<String>,
}

/// A chain of certificates, its own one first, and the private key that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum Material {
    /// Stored with the event subscription. Reads show the certificates.
    Inline { certificate: String, private_key: Secret },
    /// Both in one secret of this name, so that they change together.
    Reference { name: String },
}

impl Material {
    /// The texts, where `read` is what the secret has.
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
    /// The name of the secret that has it, if it may be used for that endpoint.
    /// It may be refused: settings may have changed since the event subscription was written.
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

/// Why an endpoint gets no request with a client certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCertificate {
    /// Over plain http there is no certificate to show.
    #[error("a client certificate goes by https alone")]
    NotTls,
    /// The secret may not be used here.
    #[error("the secret with the client certificate {0}")]
    Refused(#[from] SecretRefused),
    /// The secret can't be read; the text says why.
    #[error("the secret with the client certificate can't be read: {0}")]
    NoSecret(String),
    /// It is not what it should be.
    #[error("the client certificate {0}")]
    Pem(#[from] PemProblem),
    /// It can't be used; the text says why, without what it has.
    #[error("the client certificate {0}")]
    Unusable(&'static str),
    /// The endpoint does not take it; the text is the name of TLS's alert.
    #[error("the endpoint refused the client certificate: TLS alert {0}")]
    NotTaken(String),
    /// The certificates to trust can't be used.
    #[error("trustedCertificates {0}")]
    Trusted(String),
}

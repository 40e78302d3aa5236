//! Client certificates.

use gridpost_core::{
    pem,
    secret::Secret,
    subscription::authentication::{
        Authentication as Stored,
        certificate::{self, Material},
    },
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{super::attributes::HIDDEN, Endpoint, SECRET_BYTES_MAX, check_size, require};
use crate::document::{Code, Problems};

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
    pub(super) fn read(
        self,
        endpoint: &Endpoint<'_>,
        path: &str,
        problems: &mut Problems,
    ) -> Option<Stored> {
        let path_of = |name: &str| format!("{path}.{name}");
        if endpoint.url.is_some_and(|url| !url.to_ascii_lowercase().starts_with("https:")) {
            let rule =
                "needs an endpointUrl of https: over plain http there is no certificate to show";
            problems.add(Code::InvalidValue, path_of("certificate"), rule);
        }
        let certificates = [
            ("trustedCertificates", &self.trusted_certificates),
            ("certificate", &self.certificate),
        ];
        for (name, given) in certificates {
            if let Some(given) = given {
                check_certificates(given, &path_of(name), problems);
            }
        }
        let material = match self.certificate_reference {
            Some(name) => {
                let path = path_of(REFERENCE);
                if self.certificate.is_some() || self.private_key.is_some() {
                    let rule = "must be left out (null) where certificate is given";
                    problems.add(Code::InvalidValue, path, rule);
                    return None;
                }
                if let Some(url) = endpoint.url {
                    endpoint.check_reference(&name, url, path, problems);
                }
                Material::Reference { name }
            }
            None => {
                if self.certificate.is_none() {
                    let rule = format!(
                        "is required, or {REFERENCE}: certificates as PEM, one's own first"
                    );
                    require(&path_of("certificate"), &rule, problems);
                }
                let private_key =
                    read_key(self.private_key, endpoint, &path_of("privateKey"), problems);
                Material::Inline { certificate: self.certificate?, private_key: private_key? }
            }
        };
        let trusted = self.trusted_certificates;
        Some(Stored::ClientCertificate(certificate::ClientCertificate { material, trusted }))
    }

    /// Returns what a read shows: no private key.
    pub(super) fn of(by: &certificate::ClientCertificate) -> Self {
        let (certificate, certificate_reference) = match &by.material {
            Material::Inline { certificate, .. } => (Some(certificate.clone()), None),
            Material::Reference { name } => (None, Some(name.clone())),
        };
        let trusted_certificates = by.trusted.clone();
        Self { certificate, private_key: None, certificate_reference, trusted_certificates }
    }
}

fn check_certificates(given: &str, path: &str, problems: &mut Problems) {
    check_size(given, CHAIN_BYTES_MAX, path, problems);
    if let Err(problem) = pem::certificates(given) {
        problems.add(Code::InvalidValue, path, problem.to_string());
    }
}

/// Reads the private key. One that is left out is the stored one, unless the endpoint is another
/// party's.
fn read_key(
    given: Option<Secret>,
    endpoint: &Endpoint<'_>,
    path: &str,
    problems: &mut Problems,
) -> Option<Secret> {
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
        require(path, &rule, problems);
        return None;
    };
    check_size(given.expose(), SECRET_BYTES_MAX, path, problems);
    if let Err(problem) = pem::private_key(given.expose()) {
        problems.add(Code::InvalidValue, path, problem.to_string());
    }
    Some(given)
}

//! Reads and writes the members of a client certificate.

use gridpost_core::{
    pem,
    secret::Secret,
    subscription::{
        Authentication,
        authentication::certificate::{ClientCertificate, Material},
    },
};
use serde_json::{Value, json};

use super::{HIDDEN, SECRET_BYTES_MAX, check_reference, check_size};
use crate::{
    document::{Code, Object, Problems},
    subscription::Context,
};

const CERTIFICATE: &str = "certificate";
const KEY: &str = "privateKey";
const REFERENCE: &str = "certificateReference";
const TRUSTED: &str = "trustedCertificates";

/// Most bytes of a chain of certificates, and of those that are trusted.
const CHAIN_BYTES_MAX: usize = 16 * 1_024;

pub(super) fn read(
    members: &mut Object<'_>,
    url: Option<&str>,
    stored: Option<&Authentication>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Authentication> {
    let stored = match stored {
        Some(Authentication::ClientCertificate(stored)) => Some(&stored.material),
        _ => None,
    };
    if url.is_some_and(|url| !url.to_ascii_lowercase().starts_with("https:")) {
        let rule = "needs an endpointUrl of https: over plain http there is no certificate to show";
        problems.add(Code::InvalidValue, members.path_of(CERTIFICATE), rule);
    }
    let trusted = read_certificates(members, TRUSTED, problems);
    let certificate = read_certificates(members, CERTIFICATE, problems);
    let material = match members.text(REFERENCE, problems) {
        Some(name) => {
            let path = members.path_of(REFERENCE);
            let is_key_given = members.value(KEY).is_some();
            if certificate.is_some() || is_key_given {
                let rule = format!("must be left out (null) where {CERTIFICATE} is given");
                problems.add(Code::InvalidValue, path, rule);
                return None;
            }
            if let Some(url) = url {
                check_reference(name, url, path, context, problems);
            }
            Material::Reference { name: name.to_owned() }
        }
        None => {
            if !members.has(CERTIFICATE) {
                let rule =
                    format!("is required, or {REFERENCE}: certificates as PEM, one's own first");
                problems.add(Code::MissingMember, members.path_of(CERTIFICATE), rule);
            }
            let private_key = read_key(members, stored, problems);
            Material::Inline { certificate: certificate?, private_key: private_key? }
        }
    };
    Some(Authentication::ClientCertificate(ClientCertificate { material, trusted }))
}

fn read_certificates(
    members: &mut Object<'_>,
    name: &'static str,
    problems: &mut Problems,
) -> Option<String> {
    let given = members.text(name, problems)?;
    let path = members.path_of(name);
    check_size(given, CHAIN_BYTES_MAX, &path, problems);
    if let Err(problem) = pem::certificates(given) {
        problems.add(Code::InvalidValue, path, problem.to_string());
    }
    Some(given.to_owned())
}

/// Reads the private key. One that is left out is the stored one, unless the endpoint is another
/// party's.
fn read_key(
    members: &mut Object<'_>,
    stored: Option<&Material>,
    problems: &mut Problems,
) -> Option<Secret> {
    let path = members.path_of(KEY);
    let is_given = members.has(KEY);
    let given = members.text(KEY, problems);
    if is_given && given.is_none() {
        return None;
    }
    let Some(given) = given.filter(|given| *given != HIDDEN) else {
        if let Some(Material::Inline { private_key, .. }) = stored {
            return Some(private_key.clone());
        }
        let rule = format!(
            "is required, or {REFERENCE} (left out or 'Hidden', it keeps the stored key while the \
             endpoint's scheme, host and port stay as they are, and nothing is stored)"
        );
        problems.add(Code::MissingMember, path, rule);
        return None;
    };
    check_size(given, SECRET_BYTES_MAX, &path, problems);
    if let Err(problem) = pem::private_key(given) {
        problems.add(Code::InvalidValue, path, problem.to_string());
    }
    Some(Secret::new(given))
}

/// What a read shows: no private key.
pub(super) fn write(by: &ClientCertificate) -> Value {
    let mut shown = match &by.material {
        Material::Inline { certificate, .. } => json!({CERTIFICATE: certificate, KEY: Value::Null}),
        Material::Reference { name } => json!({REFERENCE: name}),
    };
    shown[TRUSTED] = json!(by.trusted);
    shown
}

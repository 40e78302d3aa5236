//! Certificates and private keys as text: PEM, RFC 7468.
//!
//! Errors never repeat any part of a text: it may be a key.

use pem::Pem;

/// DER.
pub type Certificate = Vec<u8>;

/// A private key without a passphrase. It does not print.
pub struct PrivateKey {
    pub form: Form,
    /// DER.
    pub bytes: Vec<u8>,
}

/// The encoding of a private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `PRIVATE KEY`, of any kind.
    Pkcs8,
    /// `RSA PRIVATE KEY`.
    Pkcs1,
    /// `EC PRIVATE KEY`.
    Sec1,
}

/// The reason why a text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PemProblem {
    #[error("has nothing that begins with '-----BEGIN ': it must be PEM")]
    NoPem,
    #[error(
        "has a part that can't be read: PEM is lines of base64 between '-----BEGIN NAME-----' and \
         '-----END NAME-----', each of these on a line of its own"
    )]
    Broken,
    #[error("has no certificate ('-----BEGIN CERTIFICATE-----')")]
    NoCertificate,
    #[error("has no private key ('-----BEGIN PRIVATE KEY-----')")]
    NoKey,
    #[error("has {0} private keys; it must have one")]
    ManyKeys(usize),
    #[error("has a private key, where only certificates belong")]
    KeyAmongCertificates,
    #[error("has a certificate, where only a private key belongs")]
    CertificateBesideKey,
    #[error("has a private key with a passphrase; it must have none (openssl pkey -in FILE)")]
    Encrypted,
    #[error("has a part that is neither a certificate nor a private key")]
    Other,
}

#[derive(Default)]
struct Parts {
    certificates: Vec<Certificate>,
    keys: Vec<PrivateKey>,
}

fn parts(text: &str) -> Result<Parts, PemProblem> {
    let begun = text.matches("-----BEGIN ").count();
    if begun == 0 {
        return Err(PemProblem::NoPem);
    }
    let read = pem::parse_many(text).map_err(|_| PemProblem::Broken)?;
    // The parser leaves out a part without an end.
    if read.len() != begun {
        return Err(PemProblem::Broken);
    }
    let mut parts = Parts::default();
    for part in read {
        let form = match part.tag() {
            "CERTIFICATE" => {
                parts.certificates.push(part.into_contents());
                continue;
            }
            // openssl writes these before a new key, which says the same.
            "EC PARAMETERS" => continue,
            "ENCRYPTED PRIVATE KEY" => return Err(PemProblem::Encrypted),
            "PRIVATE KEY" => Form::Pkcs8,
            "RSA PRIVATE KEY" => Form::Pkcs1,
            "EC PRIVATE KEY" => Form::Sec1,
            _ => return Err(PemProblem::Other),
        };
        if is_encrypted(&part) {
            return Err(PemProblem::Encrypted);
        }
        parts.keys.push(PrivateKey { form, bytes: part.into_contents() });
    }
    Ok(parts)
}

/// Source: RFC 1421, section 4.6.1.1.
fn is_encrypted(part: &Pem) -> bool {
    part.headers().get("Proc-Type").is_some_and(|kind| kind.contains("ENCRYPTED"))
}

fn only(mut keys: Vec<PrivateKey>) -> Result<PrivateKey, PemProblem> {
    match (keys.pop(), keys.len()) {
        (Some(key), 0) => Ok(key),
        (Some(_), others) => Err(PemProblem::ManyKeys(others + 1)),
        (None, _) => Err(PemProblem::NoKey),
    }
}

/// Reads certificates, at least one, and nothing else.
pub fn certificates(text: &str) -> Result<Vec<Certificate>, PemProblem> {
    let Parts { certificates, keys } = parts(text)?;
    match (certificates.is_empty(), keys.is_empty()) {
        (_, false) => Err(PemProblem::KeyAmongCertificates),
        (true, true) => Err(PemProblem::NoCertificate),
        (false, true) => Ok(certificates),
    }
}

/// Reads one private key, and nothing else.
pub fn private_key(text: &str) -> Result<PrivateKey, PemProblem> {
    let Parts { certificates, keys } = parts(text)?;
    if !certificates.is_empty() {
        return Err(PemProblem::CertificateBesideKey);
    }
    only(keys)
}

/// Reads a chain of certificates and one private key, in any order.
pub fn chain_and_key(text: &str) -> Result<(Vec<Certificate>, PrivateKey), PemProblem> {
    let Parts { certificates, keys } = parts(text)?;
    if certificates.is_empty() {
        return Err(PemProblem::NoCertificate);
    }
    Ok((certificates, only(keys)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(tag: &str, bytes: &[u8]) -> String {
        pem::encode(&Pem::new(tag, bytes))
    }

    fn problem<T>(read: Result<T, PemProblem>) -> Option<PemProblem> {
        read.err()
    }

    #[test]
    fn texts_have_what_they_should_or_it_is_said_what_they_have() {
        use PemProblem::*;
        let (chain, key) = (part("CERTIFICATE", b"one"), part("PRIVATE KEY", b"hush"));
        let both = format!("{chain}{key}");
        let locked = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES,0\n\naHVzaA==\n\
             -----END RSA PRIVATE KEY-----\n";
        let broken = [
            "-----BEGIN PRIVATE KEY-----\nhush!\n-----END PRIVATE KEY-----\n".to_owned(),
            "-----BEGIN PRIVATE KEY-----\naHVzaA==\n-----END CERTIFICATE-----\n".to_owned(),
            "-----BEGIN PRIVATE KEY-----\naHVzaA==\n".to_owned(),
            format!("{key}-----BEGIN PRIVATE KEY-----"),
        ];
        // Text; the error as certificates, as a key, as both.
        let mut table = vec![
            (chain.clone(), None, Some(CertificateBesideKey), Some(NoKey)),
            (key.clone(), Some(KeyAmongCertificates), None, Some(NoCertificate)),
            (both.clone(), Some(KeyAmongCertificates), Some(CertificateBesideKey), None),
            (
                format!("{key}{chain}\nand a remark"),
                Some(KeyAmongCertificates),
                Some(CertificateBesideKey),
                None,
            ),
            (
                format!("{both}{key}"),
                Some(KeyAmongCertificates),
                Some(CertificateBesideKey),
                Some(ManyKeys(2)),
            ),
            (
                format!("{key}{key}{key}"),
                Some(KeyAmongCertificates),
                Some(ManyKeys(3)),
                Some(NoCertificate),
            ),
            (part("EC PARAMETERS", b"x"), Some(NoCertificate), Some(NoKey), Some(NoCertificate)),
        ];
        let all = |text: &str, wrong| (text.to_owned(), Some(wrong), Some(wrong), Some(wrong));
        table.extend(["", "hush", "BEGIN CERTIFICATE"].map(|text| all(text, NoPem)));
        table.extend(broken.iter().map(|text| all(text, Broken)));
        table.push(all(&part("ENCRYPTED PRIVATE KEY", b"x"), Encrypted));
        table.push(all(locked, Encrypted));
        table.push(all(&part("PUBLIC KEY", b"x"), Other));
        for (text, of_certificates, of_key, of_both) in table {
            assert_eq!(problem(certificates(&text)), of_certificates, "{text}");
            assert_eq!(problem(private_key(&text)), of_key, "{text}");
            assert_eq!(problem(chain_and_key(&text)), of_both, "{text}");
        }
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let text = format!("{}{}", part("CERTIFICATE", b"one"), part("CERTIFICATE", b"two"));
        assert_eq!(certificates(&text), Ok(vec![b"one".to_vec(), b"two".to_vec()]));
        let forms = [
            ("PRIVATE KEY", Form::Pkcs8),
            ("RSA PRIVATE KEY", Form::Pkcs1),
            ("EC PRIVATE KEY", Form::Sec1),
        ];
        for (tag, form) in forms {
            // Windows' line ends, and what openssl writes before a key.
            let text = format!("{}{}", part("EC PARAMETERS", b"x"), part(tag, b"key"));
            let key = private_key(&text.replace('\n', "\r\n")).map_err(|it| it.to_string());
            let key = key.expect(tag);
            assert_eq!((key.form, key.bytes), (form, b"key".to_vec()));
        }
    }
}

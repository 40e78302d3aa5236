//! https on this machine, for clients that require it: a CA in a folder, which clients must trust, and a
//! certificate of it for each process. The CA's certificate is limited to this machine's loopback
//! addresses, so its key is of no other use.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use gridpost_ports::Clock;
use gridpost_runtime::system::SystemClock;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints,
};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use time::{Duration, OffsetDateTime};
use tokio_rustls::TlsAcceptor;

const CERTIFICATE: &str = "ca.pem";
const KEY: &str = "ca-key.pem";
const CA_LASTS: Duration = Duration::days(3_650);

/// A certificate's validity. Some clients refuse more than 398 days.
const LASTS: Duration = Duration::days(397);

/// Both are valid this long before now, because clocks differ.
const EARLIER: Duration = Duration::days(1);
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The reason why there is no https.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{path}: {reason}")]
    File { path: PathBuf, reason: io::Error },
    /// A file has no key, or no certificate could be made.
    #[error("the CA in {0} cannot be used ({1}); remove the folder to have a new one")]
    Authority(PathBuf, String),
}

pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// The CA's certificate.
    pub(crate) ca_file: PathBuf,
}

impl Tls {
    /// Reads or makes the CA of that folder, and a certificate.
    pub(crate) fn open(folder: &Path) -> Result<Self, TlsError> {
        let now = SystemClock.now().as_millis();
        let now = OffsetDateTime::UNIX_EPOCH + Duration::milliseconds(now);
        let ca_file = folder.join(CERTIFICATE);
        let key = kept_key(folder, now)?;
        let unfit = |error: &dyn std::fmt::Display| {
            TlsError::Authority(folder.to_owned(), error.to_string())
        };
        let (certificate, own_key) = issued(key, &NAMES, now).map_err(|error| unfit(&error))?;
        let own_key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own_key.serialize_der()));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unfit(&error))?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], own_key)
            .map_err(|error| unfit(&error))?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), ca_file })
    }
}

/// Returns the CA's key, made with its certificate unless both exist.
fn kept_key(folder: &Path, now: OffsetDateTime) -> Result<KeyPair, TlsError> {
    let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
    let unfit = |error: rcgen::Error| TlsError::Authority(folder.to_owned(), error.to_string());
    if certificate.exists() && is_valid(&certificate, now) {
        let text = at(&key, fs::read_to_string(&key))?;
        return KeyPair::from_pem(&text).map_err(unfit);
    }
    let pair = KeyPair::generate().map_err(unfit)?;
    let made = authority(now).self_signed(&pair).map_err(unfit)?;
    at(folder, DirBuilder::new().recursive(true).mode(0o700).create(folder))?;
    // The key first, so that no certificate is without its key.
    at(&key, write(&key, &pair.serialize_pem(), 0o600))?;
    at(&certificate, write(&certificate, &made.pem(), 0o644))?;
    Ok(pair)
}

/// Whether a CA, made when its file was written, outlives a new certificate.
fn is_valid(certificate: &Path, now: OffsetDateTime) -> bool {
    let written = fs::metadata(certificate).and_then(|about| about.modified());
    let written = written.unwrap_or(SystemTime::UNIX_EPOCH);
    OffsetDateTime::from(written) - EARLIER + CA_LASTS > now + LASTS
}

/// Issues a certificate for names. Its key is never stored.
fn issued(
    ca_key: KeyPair,
    names: &[&str],
    now: OffsetDateTime,
) -> Result<(rcgen::Certificate, KeyPair), rcgen::Error> {
    let issuer = Issuer::new(authority(now), ca_key);
    let mut own =
        CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    own.distinguished_name = named("gridpost dev");
    own.not_before = now - EARLIER;
    own.not_after = now + LASTS;
    own.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    own.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    Ok((own.signed_by(&key, &issuer)?, key))
}

/// Describes the CA. All CAs have this name: certificates find theirs by its key.
fn authority(now: OffsetDateTime) -> CertificateParams {
    let mut ca = CertificateParams::default();
    ca.distinguished_name = named("gridpost dev CA for this machine");
    ca.not_before = now - EARLIER;
    ca.not_after = now - EARLIER + CA_LASTS;
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let one = std::net::Ipv6Addr::LOCALHOST.octets();
    ca.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![
            GeneralSubtree::DnsName("localhost".to_owned()),
            GeneralSubtree::IpAddress(CidrSubnet::from_v4_prefix([127, 0, 0, 0], 8)),
            GeneralSubtree::IpAddress(CidrSubnet::from_v6_prefix(one, 128)),
        ],
        excluded_subtrees: Vec::new(),
    });
    ca
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let draft = path.with_extension("draft");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(draft, path)
}

fn at<T>(path: &Path, done: io::Result<T>) -> Result<T, TlsError> {
    done.map_err(|reason| TlsError::File { path: path.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustls::{
        RootCertStore,
        client::{WebPkiServerVerifier, danger::ServerCertVerifier},
        pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    };

    use super::*;

    #[test]
    fn the_ca_speaks_for_this_machine_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let tls = Tls::open(folder.path()).expect("https");
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(tls.ca_file).expect("a certificate"))
            .expect("a CA");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.build().expect("a verifier");
        for (name, is_ours) in [
            ("localhost", true),
            ("127.0.0.1", true),
            ("127.0.0.2", true),
            ("::1", true),
            ("example.com", false),
            ("10.0.0.1", false),
            ("::2", false),
        ] {
            let key = fs::read_to_string(folder.path().join(KEY)).expect("a key");
            let key = KeyPair::from_pem(&key).expect("a key");
            let now = OffsetDateTime::from_unix_timestamp(UnixTime::now().as_secs() as i64);
            let (certificate, _) = issued(key, &[name], now.expect("a time")).expect("issued");
            let asked = ServerName::try_from(name).expect("a name");
            let verified =
                verifier.verify_server_cert(certificate.der(), &[], &asked, &[], UnixTime::now());
            assert_eq!(verified.is_ok(), is_ours, "{name}: {verified:?}");
        }
    }

    #[test]
    fn a_ca_is_made_once_and_its_key_is_the_owners() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("tls");
        let first = Tls::open(&folder).expect("https");
        let certificate = fs::read(&first.ca_file).expect("a certificate");
        let mode = |name: &str| {
            let about = fs::metadata(folder.join(name)).expect("a file");
            about.permissions().mode() & 0o777
        };
        assert_eq!(mode(KEY), 0o600);
        let again = Tls::open(&folder).expect("https");
        assert_eq!(fs::read(&again.ca_file).expect("a certificate"), certificate);

        // One that ends soon is replaced; so is one that a crash has left without its certificate.
        let made = fs::metadata(&first.ca_file).and_then(|about| about.modified()).expect("a time");
        let old = made - std::time::Duration::from_secs(3_300 * 86_400);
        fs::File::open(&first.ca_file).and_then(|file| file.set_modified(old)).expect("set");
        let renewed = Tls::open(&folder).expect("https");
        let newer = fs::read(&renewed.ca_file).expect("a certificate");
        assert_ne!(newer, certificate);
        fs::remove_file(&renewed.ca_file).expect("removed");
        Tls::open(&folder).expect("https");
        assert_ne!(fs::read(&renewed.ca_file).expect("a certificate"), newer);

        fs::write(folder.join(KEY), "no key").expect("written");
        let refused = Tls::open(&folder).err().expect("no key").to_string();
        assert!(refused.contains("remove the folder"), "{refused}");
    }
}

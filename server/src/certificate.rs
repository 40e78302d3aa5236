//! The certificate of `gridpost serve`, from files that are read again once they change: what renews a
//! certificate needs no restart.

use std::{
    fs, io,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use crate::tasks::Stopping;

/// How often the files are looked at.
const LOOKED_AT_EACH: Duration = Duration::from_secs(10);

/// The files of a certificate, with those between it and its CA, and of its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// A certificate that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("{} can't be read: {reason}", .path.display())]
    File { path: PathBuf, reason: String },
    #[error("{} is not the key of {}: {reason}", .files.key.display(), .files.certificate.display())]
    Pair { files: CertificateFiles, reason: rustls::Error },
}

impl CertificateFiles {
    fn read(&self) -> Result<CertifiedKey, CertificateError> {
        let failed = |path: &PathBuf, error: rustls::pki_types::pem::Error| {
            CertificateError::File { path: path.clone(), reason: error.to_string() }
        };
        let chain = CertificateDer::pem_file_iter(&self.certificate);
        let chain = chain.and_then(|chain| chain.collect::<Result<Vec<_>, _>>());
        let chain = chain.map_err(|error| failed(&self.certificate, error))?;
        if chain.is_empty() {
            let reason = "it has no certificate".to_owned();
            return Err(CertificateError::File { path: self.certificate.clone(), reason });
        }
        let key = PrivateKeyDer::from_pem_file(&self.key);
        let key = key.map_err(|error| failed(&self.key, error))?;
        let pair = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
        pair.map_err(|reason| CertificateError::Pair { files: self.clone(), reason })
    }

    /// Returns when the files were written.
    fn written(&self) -> io::Result<[SystemTime; 2]> {
        let written = |path: &PathBuf| fs::metadata(path)?.modified();
        Ok([written(&self.certificate)?, written(&self.key)?])
    }
}

/// The certificate of today.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: CertificateFiles,
    current: RwLock<(Arc<CertifiedKey>, Option<[SystemTime; 2]>)>,
}

impl Certificate {
    /// Reads the files.
    pub(crate) fn open(files: CertificateFiles) -> Result<Arc<Self>, CertificateError> {
        let current = (Arc::new(files.read()?), files.written().ok());
        Ok(Arc::new(Self { files, current: RwLock::new(current) }))
    }

    /// Returns what accepts TLS with it.
    pub(crate) fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor, rustls::Error> {
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as _);
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reads the files again if they have changed. Fails if they can't be used; the certificate stays.
    fn renew(&self) -> Result<bool, CertificateError> {
        let written = self.files.written().ok();
        let before = self.current.read().unwrap_or_else(PoisonError::into_inner).1;
        if written.is_none() || written == before {
            return Ok(false);
        }
        let current = Arc::new(self.files.read()?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = (current, written);
        Ok(true)
    }

    /// Looks at the files until the process stops.
    pub(crate) async fn renew_each_time(self: Arc<Self>, stopping: Stopping) {
        while stopping.unless(sleep(LOOKED_AT_EACH)).await.is_some() {
            match self.renew() {
                Ok(true) => tracing::info!("the certificate has changed"),
                Ok(false) => {}
                // Its files may be written one after the other.
                Err(error) => tracing::warn!(%error, "the certificate stays as it was"),
            }
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).0))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn write(files: &CertificateFiles, name: &str, age: Duration) -> Vec<u8> {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        fs::write(&files.certificate, certificate.pem()).expect("written");
        fs::write(&files.key, key.serialize_pem()).expect("written");
        let file = fs::File::options().append(true).open(&files.key).expect("opened");
        let written = file.metadata().and_then(|about| about.modified()).expect("a time");
        file.set_modified(written - age).expect("set");
        certificate.der().to_vec()
    }

    fn shown(certificate: &Certificate) -> Vec<u8> {
        certificate.current.read().expect("no panic").0.cert[0].to_vec()
    }

    #[test]
    fn a_certificate_is_renewed_without_a_restart_and_half_a_change_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        let files = CertificateFiles { certificate, key };
        assert!(Certificate::open(files.clone()).is_err(), "there are no files");
        let first = write(&files, "a.example", Duration::from_secs(9));
        let open = Certificate::open(files.clone()).expect("a certificate");
        assert!(open.acceptor().is_ok());
        assert!(!open.renew().expect("as it was"));
        let second = write(&files, "b.example", Duration::from_secs(6));
        assert!(open.renew().expect("read") && shown(&open) == second && second != first);
        // Another key alone fits no certificate.
        fs::write(&files.key, KeyPair::generate().expect("a key").serialize_pem())
            .expect("written");
        let refused = open.renew().expect_err("it is another's").to_string();
        assert!(refused.contains("is not the key of"), "{refused}");
        assert_eq!(shown(&open), second);
        for text in ["", "no certificate"] {
            fs::write(&files.certificate, text).expect("written");
            assert!(open.renew().is_err(), "{text}");
        }
        let third = write(&files, "c.example", Duration::from_secs(3));
        assert!(open.renew().expect("read") && shown(&open) == third);
    }
}

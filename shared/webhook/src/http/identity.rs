//! Client certificates. Each has its own pools and TLS sessions, so its connections are used with no
//! other certificate, and not without one.
//!
//! | | |
//! |---|---|
//! | identities kept | 128; the least recently used goes |
//! | a secret is read | once for all who wait, again after 5 min, and when an endpoint refuses the certificate |
//! | a read fails | the last value is used for an hour, with a try every 30 s (10 s if it has expired) |
//! | a failure | is repeated for 2 s |

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::lock::Mutex as Turn;
use gridpost_core::{
    endpoint::Allowed,
    pem::{self, Certificate, Form, PrivateKey},
    secret::Secret,
    subscription::authentication::certificate::{ClientCertificate, NoCertificate},
    time::Timestamp,
};
use gridpost_ports::{
    Clock,
    authentication::{SECRET_WAIT, SecretReader},
};
use rustls::{
    AlertDescription, ClientConfig, ConfigBuilder, Error as TlsError, InconsistentKeys,
    RootCertStore, SignatureScheme,
    client::{ResolvesClientCert, WantsClientCert},
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime},
    sign::CertifiedKey,
};
use tokio::time::timeout;
use webpki::{EndEntityCert, KeyUsage};

use super::{Pools, tls_versions};
use crate::{connect::Connector, network::Network, sockets::OpenSockets};

const IDENTITIES_MAX: usize = 128;

/// The age at which a secret is read again.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(5 * 60);

/// The age up to which it is used if that fails.
const USED_FOR: Duration = Duration::from_secs(60 * 60);

/// The pause between such failed reads.
const REPEATED_AFTER: Duration = Duration::from_secs(30);

/// The pause before a refusal causes another read.
const REFUSED_AFTER: Duration = Duration::from_secs(10);

/// How long a failure is repeated.
const FAILURE_KEPT_FOR: Duration = Duration::from_secs(2);

/// TLS settings with trusted authorities, but no client certificate yet.
pub(super) type Trusting = ConfigBuilder<ClientConfig, WantsClientCert>;

/// The client certificates of all event subscriptions.
pub(super) struct Identities {
    pub(super) network: Arc<dyn Network>,
    pub(super) allowed: Allowed,
    /// Trusts the public authorities.
    pub(super) trusting: Trusting,
    pub(super) reader: Arc<dyn SecretReader>,
    pub(super) clock: Arc<dyn Clock>,
    /// Counts these connections together with those without a certificate.
    open: OpenSockets,
    kept: Mutex<HashMap<ClientCertificate, Arc<Slot>>>,
    uses: AtomicU64,
}

#[derive(Default)]
struct Slot {
    used: AtomicU64,
    last: Mutex<Last>,
    /// Held while reading.
    turn: Turn<()>,
}

#[derive(Clone, Default)]
enum Last {
    #[default]
    Nothing,
    Ready(Identity),
    Failed(NoCertificate, Timestamp),
}

/// A client certificate and its connections.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) pools: Pools,
    own: Arc<Certificate>,
    asked: CertificateRequests,
    /// The secret's value; `None` without a secret.
    text: Option<Secret>,
    read_at: Timestamp,
    /// The last try to read it.
    tried_at: Timestamp,
    read_again_at: Timestamp,
}

/// Counts the endpoints that have asked for the certificate.
#[derive(Clone, Debug, Default)]
struct CertificateRequests(Arc<AtomicUsize>);

/// Provides a certificate, and counts requests for it.
#[derive(Debug)]
struct Counting {
    asked: CertificateRequests,
    inner: Arc<dyn ResolvesClientCert>,
}

impl ResolvesClientCert for Counting {
    fn resolve(
        &self,
        root_hint_subjects: &[&[u8]],
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        self.asked.0.fetch_add(1, Ordering::Relaxed);
        self.inner.resolve(root_hint_subjects, schemes)
    }

    fn has_certs(&self) -> bool {
        self.inner.has_certs()
    }
}

impl Identity {
    pub(super) fn asked(&self) -> usize {
        self.asked.0.load(Ordering::Relaxed)
    }

    fn is_current(&self, now: Timestamp) -> bool {
        if self.text.is_none() {
            return true;
        }
        let is_valid = is_valid(&self.own, now).is_ok() || now.since(self.tried_at) < REFUSED_AFTER;
        is_valid && now < self.read_again_at
    }
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    /// Returns the last result if it answers a request of `asked_at`.
    fn answer(
        &self,
        asked_at: Timestamp,
        now: Timestamp,
    ) -> Option<Result<Identity, NoCertificate>> {
        match &*open(&self.last) {
            Last::Nothing => None,
            Last::Ready(identity) => identity.is_current(now).then(|| Ok(identity.clone())),
            Last::Failed(error, at) => {
                let is_new = *at >= asked_at || now.since(*at) < FAILURE_KEPT_FOR;
                is_new.then(|| Err(error.clone()))
            }
        }
    }

    fn ready(&self) -> Option<Identity> {
        match &*open(&self.last) {
            Last::Ready(identity) => Some(identity.clone()),
            Last::Nothing | Last::Failed(..) => None,
        }
    }
}

impl Identities {
    pub(super) fn new(
        network: Arc<dyn Network>,
        allowed: Allowed,
        trusting: Trusting,
        reader: Arc<dyn SecretReader>,
        clock: Arc<dyn Clock>,
        open: OpenSockets,
    ) -> Self {
        let (kept, uses) = (Mutex::default(), AtomicU64::default());
        Self { network, allowed, trusting, reader, clock, open, kept, uses }
    }

    pub(super) fn reading(&self, reader: Arc<dyn SecretReader>) -> Self {
        let (network, clock) = (Arc::clone(&self.network), Arc::clone(&self.clock));
        let (allowed, trusting) = (self.allowed.clone(), self.trusting.clone());
        Self::new(network, allowed, trusting, reader, clock, self.open.clone())
    }

    pub(super) async fn get(
        &self,
        by: &ClientCertificate,
        url: &str,
    ) -> Result<Identity, NoCertificate> {
        if !url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:")) {
            return Err(NoCertificate::NotTls);
        }
        let name = by.reference(&self.allowed.secrets, url)?;
        let asked_at = self.clock.now();
        let place = self.place(by);
        let answer = match place.answer(asked_at, asked_at) {
            Some(answer) => answer,
            None => {
                let _turn = place.turn.lock().await;
                // The previous holder may have read it.
                match place.answer(asked_at, self.clock.now()) {
                    Some(answer) => answer,
                    None => self.renew(by, name, &place).await,
                }
            }
        };
        let identity = answer?;
        is_valid(&identity.own, self.clock.machine())?;
        Ok(identity)
    }

    /// Returns another identity than the refused one, if its secret has changed.
    pub(super) async fn instead_of(
        &self,
        refused: &Identity,
        by: &ClientCertificate,
        url: &str,
    ) -> Option<Identity> {
        refused.text.as_ref()?;
        let place = self.place(by);
        {
            let now = self.clock.now();
            let mut last = open(&place.last);
            if let Last::Ready(kept) = &mut *last
                && kept.text == refused.text
                && now.since(kept.tried_at) >= REFUSED_AFTER
            {
                kept.read_again_at = now;
            }
        }
        self.get(by, url).await.ok().filter(|other| other.text != refused.text)
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> Vec<ClientCertificate> {
        open(&self.kept).keys().cloned().collect()
    }

    fn place(&self, by: &ClientCertificate) -> Arc<Slot> {
        let mut kept = open(&self.kept);
        let use_number = self.uses.fetch_add(1, Ordering::Relaxed);
        if !kept.contains_key(by) && kept.len() >= IDENTITIES_MAX {
            let oldest = kept.iter().min_by_key(|(_, place)| place.used.load(Ordering::Relaxed));
            let oldest = oldest.map(|(by, _)| by.clone());
            oldest.map(|oldest| kept.remove(&oldest));
        }
        let place = match kept.get(by) {
            Some(place) => Arc::clone(place),
            None => Arc::clone(kept.entry(by.clone()).or_default()),
        };
        place.used.store(use_number, Ordering::Relaxed);
        place
    }

    /// Reads the secret and makes the identity. If nothing changed, it keeps its connections.
    async fn renew(
        &self,
        by: &ClientCertificate,
        name: Option<&str>,
        place: &Slot,
    ) -> Result<Identity, NoCertificate> {
        let before = place.ready();
        let read = match name {
            None => Ok(None),
            Some(name) => self.read(name).await.map(Some),
        };
        let now = self.clock.now();
        let renewed = match (read, before) {
            (Err(error), Some(before)) if now.since(before.read_at) < USED_FOR => {
                tracing::warn!(%error, "a client certificate is used on");
                Ok(Identity { tried_at: now, read_again_at: now + REPEATED_AFTER, ..before })
            }
            (Err(error), _) => Err(error),
            (Ok(text), Some(before)) if before.text == text => {
                let read_again_at = now + READ_AGAIN_AFTER;
                Ok(Identity { read_at: now, tried_at: now, read_again_at, ..before })
            }
            (Ok(text), _) => self.make(by, text, now),
        };
        *open(&place.last) = match &renewed {
            Ok(identity) => Last::Ready(identity.clone()),
            Err(error) => Last::Failed(error.clone(), now),
        };
        renewed
    }

    async fn read(&self, name: &str) -> Result<Secret, NoCertificate> {
        match timeout(SECRET_WAIT, self.reader.read(name)).await {
            Ok(read) => read.map_err(|error| NoCertificate::NoSecret(error.to_string())),
            Err(_) => Err(NoCertificate::NoSecret("no answer in time".to_owned())),
        }
    }

    fn make(
        &self,
        by: &ClientCertificate,
        text: Option<Secret>,
        now: Timestamp,
    ) -> Result<Identity, NoCertificate> {
        let (chain, key) = by.material.parts(text.as_ref())?;
        let own = chain.first().cloned().unwrap_or_default();
        is_valid(&own, now)?;
        let trusting = match &by.trusted {
            None => self.trusting.clone(),
            Some(trusted) => trusting_only(trusted)?,
        };
        let chain = chain.into_iter().map(CertificateDer::from).collect();
        let tls = trusting.with_client_auth_cert(chain, private(key));
        let mut tls = tls.map_err(|error| NoCertificate::Unusable(unusable(&error)))?;
        let asked = CertificateRequests::default();
        let inner = tls.client_auth_cert_resolver;
        tls.client_auth_cert_resolver = Arc::new(Counting { asked: asked.clone(), inner });
        let networks = self.allowed.networks.clone();
        let pools = Pools::of(
            Connector::https(Arc::clone(&self.network), networks, tls, &self.open),
            &self.open,
        );
        let read_again_at = now + READ_AGAIN_AFTER;
        let own = Arc::new(own);
        Ok(Identity { pools, own, asked, text, read_at: now, tried_at: now, read_again_at })
    }
}

fn private(key: PrivateKey) -> PrivateKeyDer<'static> {
    match key.form {
        Form::Pkcs8 => PrivateKeyDer::Pkcs8(key.bytes.into()),
        Form::Pkcs1 => PrivateKeyDer::Pkcs1(key.bytes.into()),
        Form::Sec1 => PrivateKeyDer::Sec1(key.bytes.into()),
    }
}

fn trusting_only(trusted: &str) -> Result<Trusting, NoCertificate> {
    let unusable = |why: String| NoCertificate::Trusted(why);
    let certificates =
        pem::certificates(trusted).map_err(|problem| unusable(problem.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let added = roots.add(CertificateDer::from(certificate));
        added.map_err(|_| unusable("has a part that is no X.509 certificate".to_owned()))?;
    }
    let versions = tls_versions().map_err(|error| unusable(error.to_string()))?;
    Ok(versions.with_root_certificates(roots))
}

/// Checks that a certificate is valid at that time. The rest is for the endpoint to decide, so other
/// results of the check are ignored.
fn is_valid(own: &Certificate, now: Timestamp) -> Result<(), NoCertificate> {
    let unusable = |why| Err(NoCertificate::Unusable(why));
    let der = CertificateDer::from(own.as_slice());
    let Ok(certificate) = EndEntityCert::try_from(&der) else {
        return unusable("is no X.509 certificate of version 3");
    };
    let seconds = u64::try_from(now.as_seconds()).unwrap_or(0);
    let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let checked =
        certificate.verify_for_usage(&[], &[], &[], time, KeyUsage::client_auth(), None, None);
    match checked.map(|_| ()) {
        Err(webpki::Error::CertExpired { .. }) => unusable("has expired"),
        Err(webpki::Error::CertNotValidYet { .. }) => unusable("is not valid yet"),
        _ => Ok(()),
    }
}

fn unusable(error: &TlsError) -> &'static str {
    match error {
        TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            "does not belong to its private key (the client's own comes first, then those of its \
             authorities)"
        }
        TlsError::InvalidCertificate(_) => "is no X.509 certificate of version 3",
        _ => {
            "has a private key that can't be used: it must be RSA (2048 bits or more), ECDSA on P-256, \
             P-384 or P-521, or Ed25519"
        }
    }
}

/// Whether a TLS alert refuses the client's certificate. Some servers only report a failed handshake,
/// which means nothing if they did not ask for one.
pub(super) fn is_refusal(alert: AlertDescription, was_asked: bool) -> bool {
    use AlertDescription::*;
    match alert {
        DecryptError | HandshakeFailure => was_asked,
        AccessDenied
        | BadCertificate
        | CertificateExpired
        | CertificateRequired
        | CertificateRevoked
        | CertificateUnknown
        | NoCertificate
        | UnknownCA
        | UnsupportedCertificate => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;

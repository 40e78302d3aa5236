//! Endpoints that ask for a client's certificate: real TLS on loopback.

use std::sync::{
    Mutex,
    atomic::{AtomicI64, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use gridpost_core::{
    delivery::{probe::Stage, request::Request},
    endpoint::secrets::ClientSecrets,
    subscription::{Authentication, authentication::certificate::Material},
};
use gridpost_ports::{Attempted, EndpointClient, PortError};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::PrivateKeyDer,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use super::{super::*, *};

/// 2026.
const NOW_MS: i64 = 1_780_000_000_000;

/// A clock that is moved by hand.
struct Hands(AtomicI64);

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl Hands {
    fn go_on(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).expect("short");
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

/// One that signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = named(name, 2019, 2100);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("a certificate");
        roots
    }

    /// A certificate and its key, PEM.
    fn signs(&self, name: &str, from: i32, until: i32) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let signed = named(name, from, until).signed_by(&key, &self.0).expect("a certificate");
        (signed.pem(), key.serialize_pem())
    }
}

fn named(name: &str, from: i32, until: i32) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = rcgen::date_time_ymd(from, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    params
}

/// An endpoint that notes whose certificate each request came with.
struct Receiver {
    url: String,
    tls: Arc<Mutex<Arc<ServerConfig>>>,
    seen: Arc<Mutex<Vec<Option<Vec<u8>>>>>,
    connections: Arc<AtomicUsize>,
    closes: Arc<Mutex<bool>>,
}

/// How an endpoint asks.
#[derive(Clone, Copy, PartialEq)]
enum Asks {
    Strictly,
    Politely,
}

fn server(own: &Authority, clients: &Authority, asks: Asks) -> Arc<ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(
        Arc::new(clients.roots()),
        Arc::clone(&provider),
    );
    let verifier = match asks {
        Asks::Strictly => verifier,
        Asks::Politely => verifier.allow_unauthenticated(),
    };
    let verifier: Arc<dyn ClientCertVerifier> = verifier.build().expect("a verifier");
    let key = KeyPair::generate().expect("a key");
    let certificate = named("server", 2019, 2100).signed_by(&key, &own.0).expect("signed");
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .expect("versions")
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate.der().clone()], key);
    Arc::new(config.expect("a configuration"))
}

impl Receiver {
    async fn start(tls: Arc<ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}/hook", listener.local_addr().expect("bound"));
        let receiver = Self {
            url,
            tls: Arc::new(Mutex::new(tls)),
            seen: Arc::default(),
            connections: Arc::default(),
            closes: Arc::default(),
        };
        let (tls, seen) = (Arc::clone(&receiver.tls), Arc::clone(&receiver.seen));
        let (connections, closes) =
            (Arc::clone(&receiver.connections), Arc::clone(&receiver.closes));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                let acceptor = TlsAcceptor::from(Arc::clone(&tls.lock().expect("no panic")));
                let (seen, closes) = (Arc::clone(&seen), Arc::clone(&closes));
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let shown = stream.get_ref().1.peer_certificates();
                    let shown = shown.and_then(|all| all.first()).map(|own| own.to_vec());
                    let mut some = [0; 4_096];
                    while matches!(stream.read(&mut some).await, Ok(1..)) {
                        seen.lock().expect("no panic").push(shown.clone());
                        let ends = *closes.lock().expect("no panic");
                        let end = if ends { "connection: close\r\n" } else { "" };
                        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{end}\r\n");
                        let _ = stream.write_all(answer.as_bytes()).await;
                        if ends {
                            let _ = stream.shutdown().await;
                            return;
                        }
                    }
                });
            }
        });
        receiver
    }

    fn asks_as(&self, tls: Arc<ServerConfig>) {
        *self.tls.lock().expect("no panic") = tls;
    }

    /// Who has sent the last requests.
    fn seen(&self) -> Vec<Option<Vec<u8>>> {
        std::mem::take(&mut *self.seen.lock().expect("no panic"))
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// A secret that changes, or can't be read.
#[derive(Default)]
struct Changing {
    text: Mutex<Option<String>>,
    reads: AtomicUsize,
}

impl Changing {
    fn set(&self, text: Option<String>) {
        *self.text.lock().expect("no panic") = text;
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl SecretReader for Changing {
    async fn read(&self, _name: &str) -> Result<Secret, PortError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let text = self.text.lock().expect("no panic").clone();
        text.map(Secret::new).ok_or_else(|| PortError::new("secretsmanager:GetSecretValue", "gone"))
    }
}

struct Fixture {
    client: HttpClient,
    clock: Arc<Hands>,
    secret: Arc<Changing>,
}

impl Fixture {
    /// One that trusts that authority as if it were public.
    fn trusting(public: &Authority) -> Self {
        let (clock, secret) = (Arc::new(Hands(AtomicI64::new(NOW_MS))), Arc::default());
        let secrets: ClientSecrets =
            r#"{"hosts": {"arn:s": ["127.0.0.1"], "arn:o": ["e.example"]}}"#.parse().expect("read");
        let networks = "127.0.0.0/8".parse().expect("a network");
        let allowed = Allowed { networks, secrets, ..Allowed::default() };
        let trusting = tls_versions().expect("versions").with_root_certificates(public.roots());
        let on = Arc::new(SystemNetwork);
        let open = OpenSockets::of(OPEN_MAX);
        let client = HttpClient::trusting(trusting, on, allowed, (Arc::clone(&clock) as _, open));
        let client = client.reading(Arc::clone(&secret) as _);
        Self { client, clock, secret }
    }

    async fn attempt(&self, url: &str, by: Option<&ClientCertificate>) -> (Outcome, String) {
        match self.client.attempt(request(url, by)).await {
            Attempted::Answered { answer, response_text, .. } => {
                (answer.outcome, response_text.unwrap_or_default())
            }
            _ => panic!("it is answered at once"),
        }
    }
}

fn request(url: &str, by: Option<&ClientCertificate>) -> Request {
    let by = by.map(|by| Arc::new(Authentication::ClientCertificate(by.clone())));
    Request {
        url: Secret::new(url),
        headers: Vec::new(),
        attributes: Vec::new(),
        body: b"[]".to_vec(),
        authentication: by,
        reads_results: false,
    }
}

fn inline((certificate, key): &(String, String)) -> ClientCertificate {
    let (certificate, private_key) = (certificate.clone(), Secret::new(key));
    ClientCertificate { material: Material::Inline { certificate, private_key }, trusted: None }
}

fn named_by(name: &str) -> ClientCertificate {
    ClientCertificate { material: Material::Reference { name: name.to_owned() }, trusted: None }
}

fn der((certificate, _): &(String, String)) -> Option<Vec<u8>> {
    gridpost_core::pem::certificates(certificate).expect("PEM").pop()
}

const FAILED: Outcome = Outcome::EndpointAuthenticationFailed;

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_shown_and_who_has_none_or_another_is_refused() {
    let (public, clients, others) =
        (Authority::new("public"), Authority::new("clients"), Authority::new("others"));
    let receiver = Receiver::start(server(&public, &clients, Asks::Strictly)).await;
    let fixture = Fixture::trusting(&public);
    let own = clients.signs("own", 2019, 2100);
    let (outcome, said) = fixture.attempt(&receiver.url, Some(&inline(&own))).await;
    assert_eq!(outcome, Outcome::Delivered, "{said}");
    assert_eq!(receiver.seen(), [der(&own)]);
    let foreign = others.signs("own", 2019, 2100);
    // Often, because the alert of TLS 1.3 races with the request.
    for _ in 0..300 {
        let fixture = Fixture::trusting(&public);
        let (outcome, said) = fixture.attempt(&receiver.url, Some(&inline(&foreign))).await;
        assert_eq!(outcome, FAILED);
        assert!(said.contains("refused the client certificate: TLS alert"), "{said}");
    }
    assert_eq!(fixture.attempt(&receiver.url, None).await.0, Outcome::SocketError);
    assert_eq!(receiver.seen(), [], "neither request was read");
}

#[tokio::test]
async fn a_certificate_that_can_not_be_shown_is_said_and_nothing_is_sent() {
    let (public, clients) = (Authority::new("public"), Authority::new("clients"));
    let receiver = Receiver::start(server(&public, &clients, Asks::Politely)).await;
    let own = clients.signs("own", 2019, 2100);
    let (url, plain) = (receiver.url.as_str(), receiver.url.replace("https:", "http:"));
    let other = clients.signs("other", 2019, 2100);
    let mismatched = (own.0.clone(), other.1.clone());
    let upside_down = (format!("{}{}", clients.pem(), own.0), own.1.clone());
    let noise = "-----BEGIN CERTIFICATE-----\naHVzaA==\n-----END CERTIFICATE-----\n".to_owned();
    let no_key = "-----BEGIN PRIVATE KEY-----\naHVzaA==\n-----END PRIVATE KEY-----\n".to_owned();
    let untrusting = ClientCertificate { trusted: Some(noise.clone()), ..inline(&own) };
    let whole = Some(format!("{}{}", own.0, own.1));
    // URL, by what, what the secret has, what is said.
    let table = [
        (url, inline(&clients.signs("old", 2019, 2020)), None, "has expired"),
        (url, inline(&clients.signs("new", 2090, 2100)), None, "is not valid yet"),
        (url, inline(&mismatched), None, "does not belong to its private key"),
        (url, inline(&upside_down), None, "does not belong to its private key"),
        (url, inline(&(noise, own.1.clone())), None, "is no X.509 certificate"),
        (url, inline(&(own.0.clone(), no_key)), None, "a private key that can't be used"),
        (url, untrusting, None, "trustedCertificates has a part that is no X.509"),
        (url, named_by("arn:s"), None, "can't be read: secretsmanager:GetSecretValue failed: gone"),
        (url, named_by("arn:s"), Some("hush".to_owned()), "it must be PEM"),
        (url, named_by("arn:s"), Some(own.1.clone()), "has no certificate"),
        (url, named_by("arn:s"), Some(own.0.clone()), "has no private key"),
        (url, named_by("arn:o"), whole.clone(), "may not be sent to '127.0.0.1'"),
        (url, named_by("arn:other"), whole.clone(), "is not a secret that this deployment lets"),
        (plain.as_str(), inline(&own), None, "by https alone"),
    ];
    for (url, by, text, want) in table {
        let fixture = Fixture::trusting(&public);
        fixture.secret.set(text);
        let (outcome, said) = fixture.attempt(url, Some(&by)).await;
        assert_eq!(outcome, FAILED, "{want}");
        assert!(said.contains(want) && !said.contains("hush"), "{want}: {said}");
        assert!(!said.contains("aHVzaA"), "{said}");
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn one_that_expires_is_used_no_longer() {
    let (public, clients) = (Authority::new("public"), Authority::new("clients"));
    let receiver = Receiver::start(server(&public, &clients, Asks::Politely)).await;
    let fixture = Fixture::trusting(&public);
    let by = inline(&clients.signs("own", 2019, 2027));
    assert_eq!(fixture.attempt(&receiver.url, Some(&by)).await.0, Outcome::Delivered);
    fixture.clock.go_on(Duration::from_secs(365 * 24 * 60 * 60));
    let (outcome, said) = fixture.attempt(&receiver.url, Some(&by)).await;
    assert_eq!(outcome, FAILED);
    assert!(said.contains("has expired"), "{said}");
    assert_eq!(receiver.seen().len(), 1, "on no connection that is there, either");
}

#[tokio::test]
async fn a_private_authority_is_trusted_alone_and_by_that_event_subscription_alone() {
    let (public, private) = (Authority::new("public"), Authority::new("private"));
    let of_private = Receiver::start(server(&private, &private, Asks::Strictly)).await;
    let of_public = Receiver::start(server(&public, &private, Asks::Strictly)).await;
    let fixture = Fixture::trusting(&public);
    let plain = inline(&private.signs("own", 2019, 2100));
    let trusting = ClientCertificate { trusted: Some(private.pem()), ..plain.clone() };
    let table = [
        (&of_private, &trusting, Outcome::Delivered),
        (&of_private, &plain, Outcome::SocketError),
        (&of_public, &trusting, Outcome::SocketError),
        (&of_public, &plain, Outcome::Delivered),
    ];
    for (receiver, by, want) in table {
        let (outcome, said) = fixture.attempt(&receiver.url, Some(by)).await;
        assert_eq!(outcome, want, "{said}");
    }
}

#[tokio::test]
async fn identities_at_one_url_never_mix() {
    let (public, clients) = (Authority::new("public"), Authority::new("clients"));
    let receiver = Receiver::start(server(&public, &clients, Asks::Politely)).await;
    let fixture = Fixture::trusting(&public);
    let (one, two) = (clients.signs("one", 2019, 2100), clients.signs("two", 2019, 2100));
    let (by_one, by_two) = (inline(&one), inline(&two));
    for closes in [false, true] {
        // Kept connections, and TLS sessions that are resumed.
        *receiver.closes.lock().expect("no panic") = closes;
        for _ in 0..4 {
            for (by, want) in [(Some(&by_one), der(&one)), (None, None), (Some(&by_two), der(&two))]
            {
                let (outcome, said) = fixture.attempt(&receiver.url, by).await;
                assert_eq!(outcome, Outcome::Delivered, "{said}");
                assert_eq!(receiver.seen(), [want]);
            }
        }
        if !closes {
            assert_eq!(receiver.connections(), 3, "each identity keeps its connection");
        }
    }
}

#[tokio::test]
async fn a_secret_is_read_once_for_all_and_again_when_the_endpoint_refuses_what_it_had() {
    let (public, before) = (Authority::new("public"), Authority::new("before"));
    let after = Authority::new("after");
    let receiver = Receiver::start(server(&public, &before, Asks::Strictly)).await;
    *receiver.closes.lock().expect("no panic") = true;
    let fixture = Fixture::trusting(&public);
    let text = |authority: &Authority| {
        let (certificate, key) = authority.signs("own", 2019, 2100);
        Some(format!("{key}{certificate}"))
    };
    fixture.secret.set(text(&before));
    let by = named_by("arn:s");
    let all = (0..20).map(|_| fixture.attempt(&receiver.url, Some(&by)));
    let all = futures::future::join_all(all).await;
    assert!(all.iter().all(|(outcome, _)| *outcome == Outcome::Delivered), "{all:?}");
    assert_eq!(fixture.secret.reads(), 1, "once for all who wait");
    fixture.clock.go_on(Duration::from_secs(5 * 60));
    assert_eq!(fixture.attempt(&receiver.url, Some(&by)).await.0, Outcome::Delivered);
    assert_eq!(fixture.secret.reads(), 2, "and again after a time");
    // The endpoint changes whom it trusts. The secret does not, yet.
    receiver.asks_as(server(&public, &after, Asks::Strictly));
    fixture.clock.go_on(Duration::from_secs(60));
    assert_eq!(fixture.attempt(&receiver.url, Some(&by)).await.0, FAILED);
    assert_eq!(fixture.secret.reads(), 3, "a refusal is a reason to read it");
    assert_eq!(fixture.attempt(&receiver.url, Some(&by)).await.0, FAILED);
    assert_eq!(fixture.secret.reads(), 3, "but not for each event");
    fixture.secret.set(text(&after));
    fixture.clock.go_on(Duration::from_secs(10));
    let (outcome, said) = fixture.attempt(&receiver.url, Some(&by)).await;
    assert_eq!(outcome, Outcome::Delivered, "in the same attempt: {said}");
    assert_eq!(fixture.secret.reads(), 4);
}

#[tokio::test]
async fn a_secret_that_can_not_be_read_again_is_used_for_an_hour() {
    let (public, clients) = (Authority::new("public"), Authority::new("clients"));
    let receiver = Receiver::start(server(&public, &clients, Asks::Strictly)).await;
    let fixture = Fixture::trusting(&public);
    let (certificate, key) = clients.signs("own", 2019, 2100);
    fixture.secret.set(Some(format!("{certificate}{key}")));
    let by = named_by("arn:s");
    assert_eq!(fixture.attempt(&receiver.url, Some(&by)).await.0, Outcome::Delivered);
    fixture.secret.set(None);
    for (minutes, want) in [(6, Outcome::Delivered), (50, Outcome::Delivered), (10, FAILED)] {
        fixture.clock.go_on(Duration::from_secs(minutes * 60));
        assert_eq!(fixture.attempt(&receiver.url, Some(&by)).await.0, want, "{minutes} min later");
    }
    // A secret that is taken away on purpose, and given back.
    fixture.secret.set(Some(format!("{certificate}{key}")));
    fixture.clock.go_on(Duration::from_secs(3));
    assert_eq!(fixture.attempt(&receiver.url, Some(&by)).await.0, Outcome::Delivered);
}

#[tokio::test]
async fn an_expired_certificate_s_secret_that_can_not_be_read_is_tried_once_for_all() {
    let (public, clients) = (Authority::new("public"), Authority::new("clients"));
    let receiver = Receiver::start(server(&public, &clients, Asks::Strictly)).await;
    let fixture = Fixture::trusting(&public);
    let year_2027 = 1_798_761_600_000;
    fixture
        .clock
        .go_on(Duration::from_millis(year_2027 - 60_000 - u64::try_from(NOW_MS).expect("a time")));
    let (certificate, key) = clients.signs("own", 2019, 2027);
    fixture.secret.set(Some(format!("{certificate}{key}")));
    let by = named_by("arn:s");
    assert_eq!(fixture.attempt(&receiver.url, Some(&by)).await.0, Outcome::Delivered);
    fixture.secret.set(None);
    fixture.clock.go_on(Duration::from_secs(90));
    for reads in [2, 2, 3] {
        let all = (0..20).map(|_| fixture.attempt(&receiver.url, Some(&by)));
        for (outcome, said) in futures::future::join_all(all).await {
            assert_eq!(outcome, FAILED);
            assert!(said.contains("has expired"), "{said}");
        }
        assert_eq!(fixture.secret.reads(), reads);
        fixture.clock.go_on(Duration::from_secs(6));
    }
}

#[tokio::test]
async fn a_refusal_reads_a_secret_that_can_not_be_read_every_ten_seconds_at_most() {
    let (public, clients) = (Authority::new("public"), Authority::new("clients"));
    let others = Authority::new("others");
    let receiver = Receiver::start(server(&public, &others, Asks::Strictly)).await;
    let fixture = Fixture::trusting(&public);
    let (certificate, key) = clients.signs("own", 2019, 2100);
    fixture.secret.set(Some(format!("{certificate}{key}")));
    let by = named_by("arn:s");
    assert_eq!(fixture.attempt(&receiver.url, Some(&by)).await.0, FAILED);
    fixture.secret.set(None);
    fixture.clock.go_on(Duration::from_secs(60));
    for reads in [2, 2, 3] {
        assert_eq!(fixture.attempt(&receiver.url, Some(&by)).await.0, FAILED);
        assert_eq!(fixture.secret.reads(), reads);
        fixture.clock.go_on(Duration::from_secs(6));
    }
}

#[tokio::test]
async fn a_handshake_that_fails_before_a_certificate_is_asked_for_is_no_refusal_of_it() {
    use AlertDescription::*;

    let public = Authority::new("public");
    let own = inline(&public.signs("own", 2019, 2100));
    let table = [(HandshakeFailure, 40, Outcome::SocketError), (AccessDenied, 49, FAILED)];
    for (alert, number, want) in table {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}/", listener.local_addr().expect("bound"));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut hello = [0; 4_096];
                let _ = stream.read(&mut hello).await;
                // A fatal alert in a record of its own.
                let _ = stream.write_all(&[21, 3, 3, 0, 2, 2, number]).await;
                let _ = stream.read(&mut hello).await;
            }
        });
        let (outcome, said) = Fixture::trusting(&public).attempt(&url, Some(&own)).await;
        assert_eq!(outcome, want, "{alert:?}: {said}");
        assert_eq!(is_refusal(alert, false), want == FAILED);
        assert!(is_refusal(alert, true), "{alert:?}");
    }
}

#[tokio::test]
async fn identities_are_bounded_and_the_least_used_one_goes() {
    let (public, clients) = (Authority::new("public"), Authority::new("clients"));
    let receiver = Receiver::start(server(&public, &clients, Asks::Strictly)).await;
    let fixture = Fixture::trusting(&public);
    let own = clients.signs("own", 2019, 2100);
    // Each trusts something else, so each is an identity of its own.
    let by = |number: usize| {
        let trusted = format!("{}# {number}\n", public.pem());
        ClientCertificate { trusted: Some(trusted), ..inline(&own) }
    };
    for number in 0..129 {
        for number in [0, number] {
            let identities = &fixture.client.0.identities;
            identities.get(&by(number), &receiver.url).await.map(|_| ()).expect("an identity");
        }
    }
    let kept = fixture.client.0.identities.kept();
    assert_eq!(kept.len(), 128);
    assert!(kept.contains(&by(0)) && kept.contains(&by(128)) && !kept.contains(&by(1)));
}

#[tokio::test]
async fn handshakes_show_it_too() {
    let (public, clients) = (Authority::new("public"), Authority::new("clients"));
    let receiver = Receiver::start(server(&public, &clients, Asks::Strictly)).await;
    let fixture = Fixture::trusting(&public);
    let own = clients.signs("own", 2019, 2100);
    let ask = |by: Option<ClientCertificate>| {
        let request = HandshakeRequest {
            method: Method::OPTIONS,
            url: Secret::new(&receiver.url),
            headers: Vec::new(),
            attributes: Vec::new(),
            body: Vec::new(),
            authentication: by.map(|by| Arc::new(Authentication::ClientCertificate(by))),
            is_sent_once: false,
            wait: Duration::from_secs(10),
        };
        fixture.client.exchange(request)
    };
    let answered = ask(Some(inline(&own))).await.map(|answer| answer.status);
    assert_eq!(answered, Ok(200));
    assert_eq!(receiver.seen(), [der(&own)]);
    let old = ask(Some(inline(&clients.signs("old", 2019, 2020)))).await.expect_err("expired");
    assert!(old.to_string().contains("has expired"), "{old}");
    let none = ask(None).await.expect_err("nothing is shown").to_string();
    assert!(none.contains("CertificateRequired"), "{none}");
}

#[tokio::test]
async fn a_probe_finds_out_where_it_fails() {
    let (public, private) = (Authority::new("public"), Authority::new("private"));
    let clients = Authority::new("clients");
    let asking = Receiver::start(server(&public, &clients, Asks::Strictly)).await;
    let untrusted = Receiver::start(server(&private, &clients, Asks::Politely)).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let refused = format!("https://{}/", closed.local_addr().expect("bound"));
    drop(closed);
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let ends = format!("http://{}/", silent.local_addr().expect("bound"));
    tokio::spawn(async move { while silent.accept().await.is_ok() {} });
    let own = inline(&clients.signs("own", 2019, 2100));
    let old = inline(&clients.signs("own", 2019, 2020));
    let foreign = inline(&private.signs("own", 2019, 2100));
    let table = [
        (asking.url.as_str(), Some(&own), None),
        (asking.url.as_str(), None, Some(Stage::WantsCertificate)),
        (asking.url.as_str(), Some(&old), Some(Stage::Certificate)),
        (asking.url.as_str(), Some(&foreign), Some(Stage::CertificateNotTaken)),
        (untrusted.url.as_str(), None, Some(Stage::Tls)),
        (refused.as_str(), None, Some(Stage::Connection)),
        (ends.as_str(), None, Some(Stage::Answer)),
        ("https://no-such-host.invalid/", None, Some(Stage::Name)),
        ("https://10.0.0.1/", None, Some(Stage::Address)),
        ("https://user:pw@example.com/", None, Some(Stage::Address)),
    ];
    for (url, by, want) in table {
        let fixture = Fixture::trusting(&public);
        let until = Instant::now() + Duration::from_secs(26);
        let probed = fixture.client.probe(request(url, by), until).await;
        let stage = probed.failure.as_ref().map(|failure| failure.stage);
        assert_eq!(stage, want, "{url}: {:?}", probed.failure);
        let Attempted::Answered { answer, .. } = probed.attempted else { panic!("{url}") };
        assert_eq!(answer.outcome == Outcome::Delivered, want.is_none(), "{url}");
        let attempted = fixture.attempt(url, by).await.0;
        assert_eq!(answer.outcome, attempted, "{url}: an attempt comes to the same");
    }
}

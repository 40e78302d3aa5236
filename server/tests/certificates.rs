//! A whole process whose endpoint asks for a client's certificate: handshake, deliveries, test events.

use std::{
    io::ErrorKind,
    sync::{Arc, Mutex},
    time::Duration,
};

use gridpost_server::{Options, Server};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use reqwest::{Client, StatusCode};
use rustls::{
    RootCertStore, ServerConfig, crypto::aws_lc_rs, pki_types::PrivateKeyDer,
    server::WebPkiClientVerifier,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

const PATIENCE: Duration = Duration::from_secs(60);

type Authority = CertifiedIssuer<'static, KeyPair>;

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn authority(name: &str) -> Authority {
    let mut params = named(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    Authority::self_signed(params, key).expect("a certificate")
}

fn client(by: &Authority) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let signed = named("gridpost").signed_by(&key, by).expect("a certificate");
    (signed.pem(), key.serialize_pem())
}

fn server(by: &Authority) -> ServerConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(by.der().clone()).expect("a certificate");
    let roots = Arc::new(roots);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
    let key = KeyPair::generate().expect("a key");
    let certificate = named("endpoint").signed_by(&key, by).expect("signed");
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier.build().expect("a verifier"));
    config.with_single_cert(vec![certificate.der().clone()], key).expect("a configuration")
}

/// An endpoint that consents and records events.
struct Endpoint {
    url: String,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl Endpoint {
    async fn start(tls: ServerConfig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}/hook", listener.local_addr().expect("bound"));
        let seen = Arc::<Mutex<Vec<_>>>::default();
        let (tls, all) = (TlsAcceptor::from(Arc::new(tls)), Arc::clone(&seen));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, seen) = (tls.clone(), Arc::clone(&all));
                tokio::spawn(async move {
                    let Ok(mut stream) = tls.accept(stream).await else { return };
                    while let Ok(event) = read(&mut stream).await {
                        let code = event.pointer("/data/validationCode").cloned();
                        seen.lock().expect("no panic").push(event);
                        let body = json!({ "validationResponse": code }).to_string();
                        let head =
                            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                        if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { url, seen }
    }

    fn ids(&self) -> Vec<String> {
        let seen = self.seen.lock().expect("no panic");
        let ids = seen.iter().filter(|event| event["eventType"] == "T");
        ids.map(|event| event["id"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

async fn read(stream: &mut TlsStream<TcpStream>) -> std::io::Result<Value> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && let Ok(events) = serde_json::from_str::<Value>(body)
        {
            return Ok(events[0].clone());
        }
    }
}

fn event(id: &str) -> Value {
    json!({"id": id, "eventType": "T", "subject": "s", "data": {},
        "eventTime": "2030-01-02T03:04:05Z", "dataVersion": "1"})
}

struct Fixture {
    dev: Server,
    http: Client,
}

impl Fixture {
    async fn send(&self, request: reqwest::RequestBuilder) -> (StatusCode, Value) {
        let answer = request.send().await.expect("an answer");
        let status = answer.status();
        (status, answer.json().await.expect("JSON"))
    }

    async fn subscribe(&self, endpoint: &Endpoint, properties: &Value) -> (StatusCode, Value) {
        let destination = json!({"endpointType": "WebHook", "properties": {
            "endpointUrl": endpoint.url,
            "authentication": {"type": "ClientCertificate", "properties": properties}}});
        let url = format!("{}/topics/orders/eventSubscriptions/safe", self.dev.url());
        let document = json!({"properties": {"destination": destination}});
        self.send(self.http.put(url).json(&document)).await
    }

    async fn test(&self, id: &str) -> Value {
        let url = format!("{}/topics/orders/eventSubscriptions/safe/sendTestEvent", self.dev.url());
        self.send(self.http.post(url).json(&json!({"event": event(id)}))).await.1
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_shows_the_certificate_in_handshakes_deliveries_and_test_events() {
    let (own, other) = (authority("own"), authority("other"));
    let endpoint = Endpoint::start(server(&own)).await;
    let dev = Server::start(Options::default()).await.expect("it starts");
    let fixture = Fixture { dev, http: Client::builder().no_proxy().build().expect("a client") };
    let topic = format!("{}/topics/orders", fixture.dev.url());
    fixture.send(fixture.http.put(&topic).json(&json!({}))).await;

    // The handshake shows it: with another authority's nothing is stored.
    let ((certificate, key), trusted) = (client(&other), own.pem());
    let foreign =
        json!({"certificate": certificate, "privateKey": key, "trustedCertificates": trusted});
    let (status, told) = fixture.subscribe(&endpoint, &foreign).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(told.to_string().contains("refused the client certificate: TLS alert"), "{told}");
    // A key of another certificate.
    let ((certificate, _), (_, key)) = (client(&own), client(&own));
    let mixed =
        json!({"certificate": certificate, "privateKey": key, "trustedCertificates": trusted});
    let (_, told) = fixture.subscribe(&endpoint, &mixed).await;
    assert!(told.to_string().contains("does not belong to its private key"), "{told}");
    let (certificate, key) = client(&own);
    let untrusting = json!({"certificate": certificate, "privateKey": key});
    let (_, told) = fixture.subscribe(&endpoint, &untrusting).await;
    assert!(told.to_string().contains("UnknownIssuer"), "{told}");
    assert!(endpoint.seen.lock().expect("no panic").is_empty(), "no request was read");

    let good =
        json!({"certificate": certificate, "privateKey": key, "trustedCertificates": trusted});
    let (status, stored) = fixture.subscribe(&endpoint, &good).await;
    assert_eq!(status, StatusCode::CREATED, "{stored}");
    assert!(stored.to_string().contains("BEGIN CERTIFICATE"), "{stored}");
    assert!(!stored.to_string().contains("PRIVATE KEY"), "{stored}");
    let (_, keys) = fixture.send(fixture.http.post(format!("{topic}/listKeys"))).await;
    let publish = fixture.http.post(format!("{topic}/api/events"));
    let publish = publish.header("aeg-sas-key", keys["key1"].as_str().expect("a key"));
    let published = publish.json(&json!([event("1")])).send().await.expect("an answer");
    assert_eq!(published.status(), StatusCode::OK);
    let came = timeout(PATIENCE, async {
        while endpoint.ids().is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    });
    came.await.expect("the event comes");
    let met = fixture.test("2").await;
    assert_eq!(met["outcome"], "Delivered", "{met}");
    assert_eq!(endpoint.ids(), ["1", "2"]);
    let steps = met["steps"].as_array().expect("steps");
    let names: Vec<_> = steps.iter().filter_map(|step| step["step"].as_str()).collect();
    assert_eq!(names, ["name", "address", "connection", "tls", "clientCertificate", "answer"]);
    assert!(steps.iter().all(|step| step["result"] == "Passed"), "{met}");
    fixture.dev.stop().await;
}

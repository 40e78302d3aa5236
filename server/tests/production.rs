//! A whole process as in production, with TLS: who gets in where, and what is on its disk.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use gridpost_server::{CertificateFiles, Options, Production, SecretsKeys, Server, socket_path};
use rcgen::{CertificateParams, KeyPair};
use reqwest::{Certificate, Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

struct Fixture {
    folder: tempfile::TempDir,
    server: Server,
    http: Client,
    socket: Client,
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn options(folder: &Path) -> Options {
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.join(name));
    let own = SocketAddr::from(([127, 0, 0, 1], 0));
    Options {
        data: Some(data(folder)),
        production: Some(Production {
            listen: own,
            admin_listen: own,
            public_url: None,
            admin_url: None,
            certificate: Some(CertificateFiles { certificate, key }),
            trusted_proxies: Default::default(),
            endpoint_networks: Default::default(),
            secrets_keys: SecretsKeys::of(&"k".repeat(44)).expect("a key"),
        }),
        ..Options::default()
    }
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        fs::write(folder.path().join("cert.pem"), certificate.pem()).expect("written");
        fs::write(folder.path().join("key.pem"), key.serialize_pem()).expect("written");
        let server = Server::start(options(folder.path())).await.expect("it starts");
        let root = Certificate::from_pem(certificate.pem().as_bytes()).expect("a certificate");
        let http = Client::builder().no_proxy().tls_certs_only([root]).build();
        let socket = Client::builder().no_proxy().unix_socket(socket_path(&data(folder.path())));
        let (http, socket) = (http.expect("a client"), socket.build().expect("a client"));
        Self { folder, server, http, socket }
    }

    /// Makes a token by the socket.
    async fn token(&self, name: &str, role: &str) -> String {
        let made = self.socket.post("http://localhost/tokens");
        let made = made.json(&json!({"name": name, "role": role})).send().await;
        let made: Value = made.expect("an answer").json().await.expect("a token");
        made["token"].as_str().expect("a token").to_owned()
    }

    fn manage(&self, method: Method, path: &str, token: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.server.admin_url()));
        request.header("content-type", "application/json").bearer_auth(token)
    }
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.expect("an answer").status().as_u16()
}

#[tokio::test]
async fn a_token_counts_until_it_is_revoked_and_a_key_publishes_by_tls() {
    let fixture = Fixture::new().await;
    let (admin, reader) =
        (fixture.token("ops", "admin").await, fixture.token("eyes", "read").await);
    let put = |token: &str| fixture.manage(Method::PUT, "/topics/orders", token).body("{}");
    assert_eq!(status(put("gridpost_x")).await, 401);
    assert_eq!(status(put(&reader)).await, 403);
    assert_eq!(status(put(&admin)).await, 201);
    let keys = fixture.manage(Method::POST, "/topics/orders/listKeys", &admin).send().await;
    let keys: Value = keys.expect("an answer").json().await.expect("keys");
    let key = keys["key1"].as_str().expect("a key");
    let event = json!([{"id": "1", "eventType": "T", "subject": "s", "dataVersion": "1",
        "eventTime": "2026-01-01T00:00:00Z", "data": {}}]);
    let url = format!("{}/topics/orders/api/events", fixture.server.url());
    assert!(url.starts_with("https://"), "{url}");
    for (given, want) in [(key, StatusCode::OK), ("bm8=", StatusCode::UNAUTHORIZED)] {
        let sent = fixture.http.post(&url).header("aeg-sas-key", given).json(&event).send().await;
        assert_eq!(sent.expect("an answer").status(), want, "{given}");
    }
    // Neither key nor anything like it is readable on the disk.
    for file in ["gridpost.sqlite", "gridpost.sqlite-wal"] {
        let bytes = fs::read(data(fixture.folder.path()).join(file)).expect("a file");
        let has = |text: &str| bytes.windows(text.len()).any(|at| at == text.as_bytes());
        assert!(!has(key) && !has(&admin) && !has(&reader), "{file}");
    }
    let revoked = fixture.socket.delete("http://localhost/tokens/eyes").send().await;
    assert!(revoked.expect("an answer").status().is_success());
    let topics = |token: &str| fixture.manage(Method::GET, "/topics", token);
    assert_eq!((status(topics(&reader)).await, status(topics(&admin)).await), (401, 200));
    // The next process knows the other one, and opens the keys.
    let folder = fixture.folder.path().to_owned();
    fixture.server.stop().await;
    let server = Server::start(options(&folder)).await.expect("it starts again");
    let url = format!("{}/topics/orders/listKeys", server.admin_url());
    let again: Value = fixture
        .http
        .post(url)
        .bearer_auth(&admin)
        .send()
        .await
        .expect("an answer")
        .json()
        .await
        .expect("keys");
    assert_eq!(again["key1"], key);
    server.stop().await;
    let mut other = options(&folder);
    other.production.as_mut().expect("production").secrets_keys =
        SecretsKeys::of(&"o".repeat(44)).expect("a key");
    let refused = Server::start(other).await.err().expect("another key");
    let told = format!("{:?}", chain(&refused));
    assert!(told.contains("under a key that is not given"), "{told}");
}

/// Writes an error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

type Headers = &'static [(&'static str, &'static str)];

#[tokio::test]
async fn what_operators_may_do_is_not_there_for_others() {
    let fixture = Fixture::new().await;
    let admin = fixture.token("ops", "admin").await;
    let (public, manage) = (fixture.server.url(), fixture.server.admin_url());
    let validate = "/topics/orders/eventSubscriptions/s-1/validate?id=x&token=y";
    // (the base URL, path, headers, what is answered)
    let table: [(&str, &str, Headers, u16); 14] = [
        (&public, "/topics", &[], 404),
        (&public, "/topics/orders/listKeys", &[], 404),
        (&public, "/metrics", &[], 404),
        (&public, "/tokens", &[], 404),
        (&public, "/livez", &[], 200),
        (&public, "/readyz", &[], 200),
        (&public, validate, &[], 403),
        (&manage, validate, &[], 403),
        (&manage, "/topics", &[], 401),
        (&manage, "/tokens", &[], 404),
        (&manage, "/metrics", &[], 200),
        // A proxy on this machine sends it for another one.
        (&manage, "/metrics", &[("x-forwarded-for", "192.0.2.1")], 401),
        (&manage, "/topics", &[("host", "rebound.example")], 403),
        (&manage, "/topics", &[("origin", "https://evil.example")], 403),
    ];
    for (base, path, headers, want) in table {
        for token in [None, Some(&admin)] {
            let mut request = fixture.http.get(format!("{base}{path}"));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            // A token changes what is refused for the lack of one alone.
            let want = if want == 401 && token.is_some() { 200 } else { want };
            assert_eq!(status(request).await, want, "{base}{path} {headers:?} {token:?}");
        }
    }
    let input = json!({"name": "acme", "role": "admin", "topics": "acme-*"});
    let made = fixture.socket.post("http://localhost/tokens").json(&input).send().await;
    let made: Value = made.expect("an answer").json().await.expect("a token");
    let scoped = made["token"].as_str().expect("a token");
    for (path, want) in [("/metrics", 403), ("/poison", 403), ("/topics", 200)] {
        assert_eq!(status(fixture.manage(Method::GET, path, scoped)).await, want, "{path}");
    }
    let folder = data(fixture.folder.path());
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&socket_path(&folder)), 0o600);
    fixture.server.stop().await;
}

#[tokio::test]
async fn an_address_that_others_reach_needs_tls_or_a_proxy() {
    let folder = tempfile::tempdir().expect("a folder");
    for (listen, proxies, is_fine) in [
        ("0.0.0.0:0", "", false),
        ("[::]:0", "", false),
        ("0.0.0.0:0", "10.0.0.0/8", true),
        ("127.0.0.1:0", "", true),
    ] {
        let mut options = options(folder.path());
        let production = options.production.as_mut().expect("production");
        production.certificate = None;
        production.listen = listen.parse().expect("an address");
        production.trusted_proxies = proxies.parse().expect("networks");
        match Server::start(options).await {
            Ok(server) => {
                assert!(is_fine, "{listen} {proxies}");
                let base = format!("http://127.0.0.1:{}", server.address().port());
                let answer =
                    Client::builder().no_proxy().build().expect("a client").get(base + "/livez");
                // This machine is no proxy that is named.
                let want = if proxies.is_empty() { 200 } else { 403 };
                assert_eq!(status(answer).await, want, "{listen}");
                server.stop().await;
            }
            Err(error) => assert!(!is_fine && error.to_string().contains("tls_cert"), "{error}"),
        }
    }
}

//! The endpoints: they answer, mostly at once, and record what arrives.

use std::{net::Ipv4Addr, path::Path, sync::Arc, time::Duration};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivateKeyDer},
};

use super::{
    book::{Book, endpoint_number},
    http::{Reply, Request, Service, serve},
    mix::{Conduct, Endpoint, Mix},
};

/// Everything that endpoints answer with.
struct Sink {
    book: Arc<Book>,
    conducts: Vec<Conduct>,
    answers_after: Duration,
}

impl Service for Sink {
    async fn answer(&self, request: Request) -> Option<Reply> {
        if !self.answers_after.is_zero() {
            tokio::time::sleep(self.answers_after).await;
        }
        let endpoint = endpoint_number(&request.path);
        if endpoint.and_then(|number| self.conducts.get(number)) == Some(&Conduct::Fails) {
            return Some(Reply::new(503, ""));
        }
        if let Some(consent) = consent(&request.body) {
            return Some(Reply::new(200, consent));
        }
        if let Some(number) = endpoint {
            self.book.arrived(number, &request.body);
        }
        Some(Reply::new(200, ""))
    }
}

/// The answer to a validation handshake, if the request is one.
pub fn consent(body: &[u8]) -> Option<String> {
    const ASKED: &str = "Microsoft.EventGrid.SubscriptionValidationEvent";
    memchr::memmem::find(body, ASKED.as_bytes())?;
    let events: Value = serde_json::from_slice(body).ok()?;
    let code = events[0]["data"]["validationCode"].as_str()?;
    Some(json!({ "validationResponse": code }).to_string())
}

/// Running endpoints.
pub struct Sinks {
    plain_port: u16,
    tls_port: u16,
    /// A port on which nothing listens.
    dead_port: u16,
    _tasks: JoinSet<()>,
}

impl Sinks {
    /// Starts the endpoints of a mix, over plain HTTP and over TLS. Each answers after the given time.
    pub async fn start(
        mix: &Mix,
        answers_after: Duration,
        book: &Arc<Book>,
        tls: TlsAcceptor,
    ) -> anyhow::Result<Self> {
        let sink = Arc::new(Sink {
            book: Arc::clone(book),
            conducts: mix.endpoints().iter().map(|endpoint| endpoint.conduct).collect(),
            answers_after,
        });
        // All of 127.0.0.0/8 reaches these: each endpoint has an address of its own.
        let plain = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
        let tls_listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let plain_port = plain.local_addr()?.port();
        let tls_port = tls_listener.local_addr()?.port();
        // Its listener is closed at once: connections are refused.
        let dead_port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.local_addr()?.port();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(plain, None, Arc::clone(&sink)));
        tasks.spawn(serve(tls_listener, Some(tls), sink));
        Ok(Self { plain_port, tls_port, dead_port, _tasks: tasks })
    }

    /// The URL of an endpoint. Each endpoint is a separate host, so that endpoints share no
    /// connections.
    pub fn url(&self, endpoint: &Endpoint, https: bool) -> String {
        let number = endpoint.number;
        if https {
            return format!("https://127.0.0.1:{}/s{number}", self.tls_port);
        }
        let port = match endpoint.conduct {
            Conduct::Dead => self.dead_port,
            _ => self.plain_port,
        };
        format!("http://127.0.{}.{}:{port}/s{number}", number / 250, number % 250 + 1)
    }

    /// The URL at which nothing is recorded.
    pub fn plain_url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.plain_port)
    }
}

/// Makes a certificate for this machine, writes it to `file` for clients to trust, and returns what
/// servers need.
pub fn certificate(file: &Path) -> anyhow::Result<TlsAcceptor> {
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names)?;
    std::fs::write(file, cert.pem())?;
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
    let provider = tokio_rustls::rustls::crypto::aws_lc_rs::default_provider();
    let mut server = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(server)))
}

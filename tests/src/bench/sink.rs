//! The endpoints: they answer, mostly at once, and record what arrives.

use std::{net::Ipv4Addr, path::Path, sync::Arc, time::Duration};

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivateKeyDer},
};

use super::{
    book::{Book, endpoint_number},
    http::{Reply, Request, Service, serve},
    mix::{Conduct, Endpoint},
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
        let works = endpoint.is_none_or(|number| {
            self.conducts.get(number).copied().unwrap_or(Conduct::Works) == Conduct::Works
        });
        if !works {
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
    served: [JoinHandle<()>; 2],
}

impl Drop for Sinks {
    fn drop(&mut self) {
        self.served.iter().for_each(JoinHandle::abort);
    }
}

impl Sinks {
    /// Starts them, over plain HTTP and over TLS. Each answers after the given time.
    pub async fn start(
        endpoints: &[Endpoint],
        book: Arc<Book>,
        tls: TlsAcceptor,
        answers_after: Duration,
    ) -> anyhow::Result<Self> {
        let conducts = endpoints.iter().map(|endpoint| endpoint.conduct).collect();
        let sink = Arc::new(Sink { book, conducts, answers_after });
        // All of 127.0.0.0/8 reaches these: each endpoint has an address of its own.
        let plain = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
        let secure = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Self {
            plain_port: plain.local_addr()?.port(),
            tls_port: secure.local_addr()?.port(),
            dead_port: nobody.local_addr()?.port(),
            served: [
                tokio::spawn(serve(plain, None, Arc::clone(&sink))),
                tokio::spawn(serve(secure, Some(tls), sink)),
            ],
        })
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
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let mut parameters = CertificateParams::new(names)?;
    parameters.not_before = date_time_ymd(2024, 1, 1);
    parameters.not_after = date_time_ymd(2044, 1, 1);
    let key = KeyPair::generate()?;
    let certificate = parameters.self_signed(&key)?;
    std::fs::write(file, pem(certificate.der()))?;
    let chain = vec![certificate.der().clone()];
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
    let provider = tokio_rustls::rustls::crypto::aws_lc_rs::default_provider();
    let mut server = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(server)))
}

fn pem(der: &[u8]) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines: Vec<_> = lines.collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

//! The endpoints: they answer, mostly at once, and record what arrives.

use std::{
    future::ready,
    io,
    net::Ipv4Addr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use gridpost_testkit::server::{Server, consent, response};
use http::{Response, request::Parts};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::{net::TcpListener, time::sleep};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivateKeyDer},
};

use super::{
    book::{Book, endpoint_number},
    mix::{Conduct, Endpoint, Mix},
};

/// Serves all addresses of this machine (127.0.0.0/8), over TLS if there is an acceptor, and counts the
/// connections. Returns the server and its URL.
pub async fn serve<A, F>(
    tls: Option<TlsAcceptor>,
    connections: Arc<AtomicU64>,
    answer: A,
) -> io::Result<(Server, String)>
where
    A: Fn(Parts, Bytes) -> F + Send + Sync + 'static,
    F: Future<Output = Option<Response<Bytes>>> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let server = match tls {
        None => {
            let accept = move |stream| {
                connections.fetch_add(1, Ordering::Relaxed);
                ready(Ok(stream))
            };
            Server::on(listener, accept, answer)?
        }
        // A client that does not trust the certificate is done.
        Some(tls) => {
            let accept = move |stream| {
                connections.fetch_add(1, Ordering::Relaxed);
                tls.accept(stream)
            };
            Server::on(listener, accept, answer)?
        }
    };
    let url = format!("{scheme}://127.0.0.1:{}", server.port());
    Ok((server, url))
}

/// Running endpoints.
pub struct Sinks {
    server: Server,
    connections: Arc<AtomicU64>,
    /// The URL at which nothing is recorded.
    pub root: String,
    is_secure: bool,
    /// A port on which nothing listens.
    dead_port: u16,
}

impl Sinks {
    /// Starts the endpoints of a mix. Each answers after the given time.
    pub async fn start(
        mix: &Mix,
        answers_after: Duration,
        book: &Arc<Book>,
        tls: TlsAcceptor,
    ) -> anyhow::Result<Self> {
        let conducts: Arc<[Conduct]> = mix.endpoints().iter().map(|one| one.conduct).collect();
        let book = Arc::clone(book);
        let answer = move |parts: Parts, body: Bytes| {
            let (book, conducts) = (Arc::clone(&book), Arc::clone(&conducts));
            async move {
                if !answers_after.is_zero() {
                    sleep(answers_after).await;
                }
                let endpoint = endpoint_number(parts.uri.path());
                if endpoint.and_then(|number| conducts.get(number)) == Some(&Conduct::Fails) {
                    return Some(response(503, ""));
                }
                let consent = consent(&parts, &body);
                if let (None, Some(number)) = (&consent, endpoint) {
                    book.arrived(number, &body);
                }
                Some(consent.unwrap_or_else(|| response(200, "")))
            }
        };
        let connections = Arc::default();
        let tls = mix.https.then_some(tls);
        let (server, root) = serve(tls, Arc::clone(&connections), answer).await?;
        // Its listener is closed at once: connections are refused.
        let dead_port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.local_addr()?.port();
        Ok(Self { server, connections, root, is_secure: mix.https, dead_port })
    }

    /// How many connections there have been.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// The URL of an endpoint. Each endpoint is a separate host, so that endpoints share no
    /// connections.
    pub fn url(&self, endpoint: &Endpoint) -> String {
        let number = endpoint.number;
        if self.is_secure {
            return format!("{}/s{number}", self.root);
        }
        let port = match endpoint.conduct {
            Conduct::Dead => self.dead_port,
            _ => self.server.port(),
        };
        format!("http://127.0.{}.{}:{port}/s{number}", number / 250, number % 250 + 1)
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

//! An HTTP server on loopback whose answers a test decides.

use std::{
    future::ready,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use http::{Method, Request, Response, StatusCode, request::Parts};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
    time::sleep,
};

/// A running server. Dropping it closes the port and every connection.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Listens on a free port. `answer` gets each request with its whole body; without a response
    /// the connection is closed.
    pub async fn start<A, F>(answer: A) -> io::Result<Self>
    where
        A: Fn(Parts, Bytes) -> F + Send + Sync + 'static,
        F: Future<Output = Option<Response<Bytes>>> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Self::on(listener, |stream| ready(Ok(stream)), answer)
    }

    /// Listens for clients on this machine only. `accept` makes a stream of a connection, as TLS
    /// does; its error closes the connection.
    pub fn on<C, S, O, A, F>(listener: TcpListener, accept: C, answer: A) -> io::Result<Self>
    where
        C: Fn(TcpStream) -> S + Send + 'static,
        S: Future<Output = io::Result<O>> + Send + 'static,
        O: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        A: Fn(Parts, Bytes) -> F + Send + Sync + 'static,
        F: Future<Output = Option<Response<Bytes>>> + Send + 'static,
    {
        let (address, answer) = (listener.local_addr()?, Arc::new(answer));
        let accepting = tokio::spawn(async move {
            // Dropped with this task, which ends every connection.
            let mut connections = JoinSet::new();
            loop {
                let Ok((stream, peer)) = listener.accept().await else {
                    sleep(Duration::from_millis(20)).await;
                    continue;
                };
                if peer.ip().is_loopback() && stream.set_nodelay(true).is_ok() {
                    connections.spawn(serve(accept(stream), Arc::clone(&answer)));
                }
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, accepting })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its URL, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Serves one connection to its end. Clients are killed on purpose: a broken one is no error.
async fn serve<O, F>(
    accepted: impl Future<Output = io::Result<O>>,
    answer: Arc<impl Fn(Parts, Bytes) -> F>,
) where
    O: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Option<Response<Bytes>>>,
{
    let Ok(stream) = accepted.await else { return };
    let service = service_fn(|request| exchange(request, &*answer));
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn exchange<F>(
    request: Request<Incoming>,
    answer: &impl Fn(Parts, Bytes) -> F,
) -> io::Result<Response<Full<Bytes>>>
where
    F: Future<Output = Option<Response<Bytes>>>,
{
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let answered = answer(parts, body).await;
    answered.map(|it| it.map(Full::new)).ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
}

/// A response without further headers.
pub fn response(status: u16, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response
}

/// The consent to a handshake of either schema; `None` for any other request.
pub fn consent(parts: &Parts, body: &[u8]) -> Option<Response<Bytes>> {
    if parts.method == Method::OPTIONS {
        let mut consent = response(200, "");
        if let Some(origin) = parts.headers.get("webhook-request-origin") {
            consent.headers_mut().insert("webhook-allowed-origin", origin.clone());
        }
        return Some(consent);
    }
    let kind = parts.headers.get("aeg-event-type")?;
    if !kind.as_bytes().eq_ignore_ascii_case(b"SubscriptionValidation") {
        return None;
    }
    let events: Value = serde_json::from_slice(body).unwrap_or_default();
    let code = &events[0]["data"]["validationCode"];
    Some(response(200, json!({ "validationResponse": code }).to_string()))
}

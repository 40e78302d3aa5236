//! A small HTTP/1.1 server for stand-ins, which answer on this machine only.

use std::{future::Future, sync::Arc};

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

#[derive(Debug)]
pub struct Request {
    /// Whether it is a `GET`; all others are taken as `POST`.
    pub is_get: bool,
    pub path: String,
    /// The header `x-amz-target`, which names the call of AWS's JSON protocols.
    pub target: String,
    pub body: Bytes,
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// Headers besides the length.
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
}

impl Reply {
    /// An answer without headers.
    pub fn new(status: u16, body: impl Into<Bytes>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }
}

pub trait Service: Send + Sync + 'static {
    /// The answer to a request; `None` closes the connection.
    fn answer(&self, request: Request) -> impl Future<Output = Option<Reply>> + Send;
}

/// Serves a listener forever, over TLS if there is an acceptor, for clients on this machine only.
pub async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, service: Arc<impl Service>) {
    while let Ok((stream, peer)) = listener.accept().await {
        if !peer.ip().is_loopback() || stream.set_nodelay(true).is_err() {
            continue;
        }
        let (tls, service) = (tls.clone(), Arc::clone(&service));
        tokio::spawn(async move {
            match tls {
                None => exchange(stream, &*service).await,
                Some(tls) => {
                    // A client that does not trust the certificate has closed the connection.
                    let Ok(stream) = tls.accept(stream).await else { return };
                    exchange(stream, &*service).await;
                }
            }
        });
    }
}

async fn exchange(stream: impl AsyncRead + AsyncWrite + Unpin, service: &impl Service) {
    let answered = service_fn(|request| answer(request, service));
    let mut server = http1::Builder::new();
    // A client that drops its connection is done.
    let _ = server.auto_date_header(false).serve_connection(TokioIo::new(stream), answered).await;
}

/// An error closes the connection.
async fn answer(
    request: hyper::Request<Incoming>,
    service: &impl Service,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let target = head.headers.get("x-amz-target").map(|target| target.to_str()).transpose()?;
    let request = Request {
        is_get: head.method == Method::GET,
        path: head.uri.to_string(),
        target: target.unwrap_or_default().to_owned(),
        body: body.collect().await?.to_bytes(),
    };
    let reply = service.answer(request).await.context("it closes the connection")?;
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(reply.body))?)
}

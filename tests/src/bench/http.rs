//! A small HTTP/1.1 server for the driver's stand-ins. It must cost little, because it shares the
//! machine with the programs that are measured.

use std::{future::Future, io, sync::Arc};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

/// Most headers of a request.
const HEADERS_MAX: usize = 64;

/// How much is read at once.
const READ_BYTES: usize = 64 * 1_024;

/// A request.
#[derive(Debug)]
pub struct Request {
    /// Whether it is a `GET`; all others are taken as `POST`.
    pub is_get: bool,
    /// The path with its query.
    pub path: String,
    /// The header `x-amz-target`, which names the call of AWS's JSON protocols.
    pub target: String,
    /// The body.
    pub body: Bytes,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// Headers besides the length.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
}

impl Reply {
    /// An answer without headers.
    pub fn new(status: u16, body: impl Into<Bytes>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    /// The head as it is sent.
    fn head(&self) -> Vec<u8> {
        let mut head = Vec::with_capacity(256);
        head.extend_from_slice(b"HTTP/1.1 ");
        head.extend_from_slice(self.status.to_string().as_bytes());
        head.extend_from_slice(b" -\r\ncontent-length: ");
        head.extend_from_slice(self.body.len().to_string().as_bytes());
        for (name, value) in &self.headers {
            head.extend_from_slice(b"\r\n");
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
        }
        head.extend_from_slice(b"\r\n\r\n");
        head
    }
}

/// Answers requests.
pub trait Service: Send + Sync + 'static {
    /// The answer to a request; `None` closes the connection.
    fn answer(&self, request: Request) -> impl Future<Output = Option<Reply>> + Send;
}

/// Serves a listener forever, over TLS if there is an acceptor, for clients on this machine only.
pub async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, service: Arc<impl Service>) {
    while let Ok((stream, peer)) = listener.accept().await {
        if !peer.ip().is_loopback() {
            continue;
        }
        let (tls, service) = (tls.clone(), Arc::clone(&service));
        tokio::spawn(async move {
            // A client that drops its connection is done.
            let _ = connection(stream, tls, &*service).await;
        });
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    service: &impl Service,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match tls {
        Some(tls) => exchange(tls.accept(stream).await?, service).await,
        None => exchange(stream, service).await,
    }
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    service: &impl Service,
) -> io::Result<()> {
    let mut buffer = BytesMut::with_capacity(READ_BYTES);
    while let Some(request) = read(&mut stream, &mut buffer).await? {
        let Some(reply) = service.answer(request).await else { return Ok(()) };
        let mut bytes = reply.head();
        if reply.body.len() <= READ_BYTES {
            bytes.extend_from_slice(&reply.body);
            stream.write_all(&bytes).await?;
        } else {
            stream.write_all(&bytes).await?;
            stream.write_all(&reply.body).await?;
        }
        stream.flush().await?;
    }
    Ok(())
}

/// The head of a request.
struct Head {
    request: Request,
    head_bytes: usize,
    body_bytes: usize,
}

/// Reads one request; `None` when the client has closed.
async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> io::Result<Option<Request>> {
    let head = loop {
        match parse(buffer)? {
            Some(head) => break head,
            None => {
                buffer.reserve(READ_BYTES);
                if stream.read_buf(buffer).await? == 0 {
                    return Ok(None);
                }
            }
        }
    };
    let Head { mut request, head_bytes, body_bytes } = head;
    let all_bytes = head_bytes + body_bytes;
    buffer.reserve(all_bytes.saturating_sub(buffer.len()));
    while buffer.len() < all_bytes {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let mut all = buffer.split_to(all_bytes).freeze();
    request.body = all.split_off(head_bytes);
    Ok(Some(request))
}

fn parse(buffer: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let status = parsed.parse(buffer).map_err(io::Error::other)?;
    let httparse::Status::Complete(head_bytes) = status else { return Ok(None) };
    let mut body_bytes = 0;
    let mut target = String::new();
    for header in parsed.headers.iter() {
        let value = || String::from_utf8_lossy(header.value);
        if header.name.eq_ignore_ascii_case("content-length") {
            body_bytes = value().parse().map_err(io::Error::other)?;
        } else if header.name.eq_ignore_ascii_case("x-amz-target") {
            target = value().into_owned();
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(io::Error::other("bodies without a length are not read"));
        }
    }
    let request = Request {
        is_get: parsed.method == Some("GET"),
        path: parsed.path.unwrap_or_default().to_owned(),
        target,
        body: Bytes::new(),
    };
    Ok(Some(Head { request, head_bytes, body_bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl Service for Echo {
        async fn answer(&self, request: Request) -> Option<Reply> {
            let said = format!("{} {} {}", request.path, request.target, request.body.len());
            (request.path != "/close").then(|| Reply::new(201, said))
        }
    }

    #[tokio::test]
    async fn requests_are_read_whole_and_one_after_another() {
        let (mut client, server) = tokio::io::duplex(64);
        let served = tokio::spawn(async move { exchange(server, &Echo).await });
        let body = "x".repeat(300);
        let sent = format!(
            "POST /a HTTP/1.1\r\nX-Amz-Target: T.C\r\nContent-Length: 300\r\n\r\n{body}\
             GET /b HTTP/1.1\r\n\r\nGET /close HTTP/1.1\r\n\r\n"
        );
        let mut got = String::new();
        let (mut reader, mut writer) = tokio::io::split(&mut client);
        let sending = async { writer.write_all(sent.as_bytes()).await };
        let (sent, read) = tokio::join!(sending, reader.read_to_string(&mut got));
        sent.expect("sent");
        read.expect("read until closed");
        assert_eq!(
            got,
            "HTTP/1.1 201 -\r\ncontent-length: 10\r\n\r\n/a T.C 300\
             HTTP/1.1 201 -\r\ncontent-length: 5\r\n\r\n/b  0"
        );
        served.await.expect("no panic").expect("served");
    }

    #[test]
    fn a_body_without_length_is_refused() {
        let chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(parse(chunked).is_err());
    }
}

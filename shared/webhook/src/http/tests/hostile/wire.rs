//! An in-memory network, whose receivers follow a script.

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{self, Poll},
};

use rcgen::{CertificateParams, KeyPair};
use rustls::{RootCertStore, ServerConfig, pki_types::PrivateKeyDer};
use tokio::{
    io::{
        AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex, split,
    },
    time::sleep,
};

use crate::http::*;
use crate::{guard::CheckedAddress, network::Io};
use gridpost_core::delivery::request::Request;
use gridpost_ports::{Attempted, EndpointClient};
use gridpost_runtime::system::SystemClock;

/// What a receiver does.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Reads until so many requests have begun to arrive, on this connection.
    Requests(usize),
    Send(Vec<u8>),
    /// Until the other side has gone.
    Forever(Vec<u8>),
    Drip(&'static [u8]),
    Wait(Duration),
    /// Closes its half of the connection.
    EndWrites,
    Hang,
}

pub(super) fn send(text: impl Into<Vec<u8>>) -> Step {
    Step::Send(text.into())
}

/// How the scripts are spoken.
#[derive(Clone, Debug)]
pub(super) enum Transport {
    Plain,
    Tls(Arc<ServerConfig>),
}

/// The network: its connections' bytes are counted.
#[derive(Debug)]
pub(super) struct Net {
    /// One script for each connection; the last one serves all others.
    pub(super) scripts: Vec<Vec<Step>>,
    pub(super) transport: Transport,
    /// What each look-up answers; the last one answers all others.
    pub(super) answers: Mutex<VecDeque<Vec<IpAddr>>>,
    /// Addresses that refuse, and addresses that swallow everything.
    pub(super) refusing: Vec<IpAddr>,
    pub(super) silent: Vec<IpAddr>,
    pub(super) dials_for: Duration,
    pub(super) looked_up: AtomicUsize,
    pub(super) dialled: Mutex<Vec<SocketAddr>>,
    pub(super) read_bytes: Arc<AtomicUsize>,
    /// Requests that receivers have seen, and connections that they have done with.
    pub(super) requests: Arc<AtomicUsize>,
    pub(super) ended: Arc<AtomicUsize>,
}

impl Net {
    pub(super) fn new(transport: Transport, scripts: Vec<Vec<Step>>) -> Self {
        Self {
            scripts,
            transport,
            answers: Mutex::new(VecDeque::from([vec![[93, 184, 215, 14].into()]])),
            refusing: Vec::new(),
            silent: Vec::new(),
            dials_for: Duration::ZERO,
            looked_up: AtomicUsize::new(0),
            dialled: Mutex::default(),
            read_bytes: Arc::default(),
            requests: Arc::default(),
            ended: Arc::default(),
        }
    }

    pub(super) fn dialled(&self) -> Vec<String> {
        self.dialled.lock().expect("not poisoned").iter().map(|to| to.ip().to_string()).collect()
    }
}

#[async_trait]
impl Network for Net {
    async fn look_up(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        self.looked_up.fetch_add(1, Ordering::Relaxed);
        let answer = {
            let mut answers = self.answers.lock().expect("not poisoned");
            let last = answers.len() == 1;
            if last { answers.front().cloned() } else { answers.pop_front() }
        };
        match answer {
            Some(answer) => Ok(answer),
            None => std::future::pending().await,
        }
    }

    async fn dial(&self, address: CheckedAddress) -> io::Result<Box<dyn Io>> {
        let (to, number) = {
            let mut dialled = self.dialled.lock().expect("not poisoned");
            dialled.push(address.get());
            (address.get().ip(), dialled.len() - 1)
        };
        if self.refusing.contains(&to) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        if self.silent.contains(&to) {
            return std::future::pending().await;
        }
        sleep(self.dials_for).await;
        let (near, far) = duplex(16 * 1024);
        let script = self.scripts[number.min(self.scripts.len() - 1)].clone();
        let (requests, ended) = (Arc::clone(&self.requests), Arc::clone(&self.ended));
        let transport = self.transport.clone();
        tokio::spawn(async move {
            match transport {
                Transport::Plain => play(far, script, requests).await,
                Transport::Tls(config) => {
                    let accepted = tokio_rustls::TlsAcceptor::from(config).accept(far).await;
                    if let Ok(stream) = accepted {
                        play(stream, script, requests).await;
                    }
                }
            }
            ended.fetch_add(1, Ordering::Relaxed);
        });
        Ok(Box::new(Counted(near, Arc::clone(&self.read_bytes))))
    }
}

/// Plays a script; the connection is closed at its end.
async fn play<S>(stream: S, script: Vec<Step>, requests: Arc<AtomicUsize>)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (mut reader, mut writer) = split(stream);
    let mut seen = Vec::new();
    let (mut counted, mut gone) = (0, false);
    for step in script {
        let sent = match step {
            Step::Requests(wanted) => {
                while counted < wanted && !gone {
                    gone = reader.read_buf(&mut seen).await.unwrap_or(0) == 0;
                    let now = begun(&seen);
                    requests.fetch_add(now - counted, Ordering::Relaxed);
                    counted = now;
                }
                Ok(())
            }
            Step::Send(bytes) => writer.write_all(&bytes).await,
            // A receiver that reads nothing would stop at the client's own answers.
            Step::Forever(bytes) => loop {
                let mut sink = [0; 4096];
                let written = tokio::select! {
                    read = reader.read(&mut sink) => match read {
                        Ok(1..) => Ok(()),
                        _ => Err(io::ErrorKind::BrokenPipe.into()),
                    },
                    written = writer.write_all(&bytes) => written,
                };
                if let Err(error) = written {
                    break Err(error);
                }
                tokio::task::yield_now().await;
            },
            Step::Wait(wait) => {
                sleep(wait).await;
                Ok(())
            }
            Step::Drip(bytes) => drip(&mut writer, bytes).await,
            Step::EndWrites => writer.shutdown().await,
            // Until the other side has gone.
            Step::Hang => loop {
                match reader.read_buf(&mut seen).await {
                    Ok(1..) => continue,
                    _ => break Ok(()),
                }
            },
        };
        if sent
            .and_then(|()| if gone { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) })
            .is_err()
        {
            return;
        }
    }
    let _ = writer.flush().await;
    let _ = writer.shutdown().await;
}

async fn drip(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    for byte in bytes {
        writer.write_all(&[*byte]).await?;
        sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// How many requests have begun: HTTP/1 request lines, or HTTP/2 frames of headers.
fn begun(seen: &[u8]) -> usize {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let Some(mut frames) = seen.strip_prefix(PREFACE) else {
        return seen.windows(6).filter(|window| window == b" /hook").count();
    };
    let mut found = 0;
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = frames {
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        let Some(rest) = rest.get(length..) else { break };
        found += usize::from(*kind == 1);
        frames = rest;
    }
    found
}

/// The client's end of a connection.
struct Counted(DuplexStream, Arc<AtomicUsize>);

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.0).poll_read(context, buffer);
        self.1.fetch_add(buffer.filled().len() - before, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// A certificate for `example.com` and its key.
pub(super) struct Identity {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Identity {
    pub(super) fn new(name: &str, until_year: i32) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(2019, 1, 1);
        params.not_after = rcgen::date_time_ymd(until_year, 1, 1);
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { certificate, key }
    }

    pub(super) fn server(&self, alpn: &[&str]) -> ServerConfig {
        let key = PrivateKeyDer::Pkcs8(self.key.serialize_der().into());
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_protocol_versions(&[&TLS13, &TLS12])
                .expect("versions")
                .with_no_client_auth()
                .with_single_cert(vec![self.certificate.der().clone()], key)
                .expect("a certificate");
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }
}

/// A client that trusts this certificate alone, and may call 10.0.0.0/8 by plain http.
pub(super) fn client(net: &Arc<Net>, trusted: Option<&Identity>) -> HttpClient {
    let mut roots = RootCertStore::empty();
    if let Some(identity) = trusted {
        roots.add(identity.certificate.der().clone()).expect("a certificate");
    }
    let tls = tls_versions().expect("versions").with_root_certificates(roots);
    let allowed =
        Allowed { networks: "10.0.0.0/8".parse().expect("a network"), ..Allowed::default() };
    let (network, clock) = (Arc::clone(net) as _, Arc::new(SystemClock));
    HttpClient::trusting(tls, network, allowed, (clock as _, OpenSockets::of(OPEN_MAX)))
}

/// One attempt with a body of so many bytes: its answer, and the late one if it timed out.
pub(super) async fn attempt(
    client: &HttpClient,
    url: &str,
    body_bytes: usize,
) -> (Answer, Option<Answer>) {
    let body = vec![b'x'; body_bytes];
    match client
        .attempt(Request {
            url: Secret::new(url),
            headers: Vec::new(),
            attributes: Vec::new(),
            body,
            authentication: None,
            reads_results: false,
        })
        .await
    {
        Attempted::Answered { answer, .. } => (answer, None),
        Attempted::TimedOut { late } => (Answer::without_status(Outcome::TimedOut), late.await),
        Attempted::NotMade => panic!("there are descriptors"),
    }
}

//! Connects to endpoints: resolves, checks, dials and encrypts within a bounded time. Only checked
//! addresses are dialled, so a name that resolves differently later gains nothing.

use std::{
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use http::{Uri, uri::Scheme};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::time::{sleep, timeout};
use tower_service::Service;

use super::{
    guard::{self, CheckedAddress},
    metered_stream::MeteredStream,
    network::{Io, Network},
    sockets::{OpenSockets, Socket},
};
use gridpost_core::endpoint::AllowedNetworks;

/// The system's resolver asks each server for 5 s.
const LOOK_UP_WAIT: Duration = Duration::from_secs(6);

/// For name resolution, connection and TLS together; the wait for the response begins afterwards. A lost
/// SYN is repeated after 1, 3 and 7 s.
pub(super) const CONNECT_WAIT: Duration = Duration::from_secs(12);
const _: () = assert!(LOOK_UP_WAIT.as_secs() < CONNECT_WAIT.as_secs());

/// How long one address is tried before the next is tried in parallel. Source: RFC 8305, section 5.
const STAGGER: Duration = Duration::from_millis(250);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The pause before a connection that found no free descriptor is tried again.
const DESCRIPTOR_WAIT: Duration = Duration::from_millis(100);

/// EMFILE and ENFILE: the process or the system has no descriptor left.
const OUT_OF_DESCRIPTORS: [i32; 2] = [24, 23];

/// A host name has no address. Looked for in a request's error chain.
#[derive(Debug, thiserror::Error)]
#[error("the host name does not resolve")]
pub(super) struct ResolutionError(#[source] Option<io::Error>);

/// No connection within [`CONNECT_WAIT`]. Looked for in a request's error chain.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.not_done())]
pub(super) struct ConnectTimedOut(pub(super) Stage);

tokio::task_local! {
    /// The progress of the connection that this task makes, if anyone watches it.
    static PROGRESS: ConnectProgress;
}

/// How far a connection has come.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectProgress(Arc<AtomicU8>);

/// The step of a connection that is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Name,
    Connection,
    Tls,
}

impl Stage {
    fn not_done(self) -> String {
        let what = match self {
            Self::Name => "no address",
            Self::Connection => "no connection",
            Self::Tls => "TLS is not done",
        };
        format!("{what} within {} s", CONNECT_WAIT.as_secs())
    }
}

impl ConnectProgress {
    /// Tracks the connection that this work makes.
    pub(super) async fn of<T>(&self, work: impl Future<Output = T>) -> T {
        PROGRESS.scope(self.clone(), work).await
    }

    pub(super) fn stage(&self) -> Stage {
        match self.0.load(Ordering::Relaxed) {
            0 => Stage::Name,
            1 => Stage::Connection,
            _ => Stage::Tls,
        }
    }

    fn reaches(stage: Stage) {
        // Most requests are not watched.
        let _ = PROGRESS.try_with(|progress| progress.0.store(stage as u8, Ordering::Relaxed));
    }
}

/// Makes connections for a pool.
#[derive(Clone)]
pub(super) struct Connector(HttpsConnector<Dialler>);

impl Connector {
    /// Makes a connector for `https`, to public addresses and named networks.
    pub(super) fn https(
        network: Arc<dyn Network>,
        allowed: AllowedNetworks,
        tls: ClientConfig,
        open: &OpenSockets,
    ) -> Self {
        let dialler = Dialler { network, allowed, public: true, open: open.clone() };
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_only();
        Self(builder.enable_all_versions().wrap_connector(dialler))
    }

    /// Makes a connector for plain `http`, to named networks only.
    pub(super) fn http(
        network: Arc<dyn Network>,
        allowed: AllowedNetworks,
        tls: ClientConfig,
        open: &OpenSockets,
    ) -> Self {
        let dialler = Dialler { network, allowed, public: false, open: open.clone() };
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        Self(builder.enable_all_versions().wrap_connector(dialler))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<MeteredStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        let progress = PROGRESS.try_with(Clone::clone).unwrap_or_default();
        Box::pin(async move {
            let connected = timeout(CONNECT_WAIT, progress.of(connecting)).await;
            let stream = connected.map_err(|_| ConnectTimedOut(progress.stage()))??;
            Ok(TokioIo::new(MeteredStream::new(TokioIo::new(stream))))
        })
    }
}

#[derive(Clone)]
struct Dialler {
    network: Arc<dyn Network>,
    allowed: AllowedNetworks,
    /// Whether public addresses are allowed too.
    public: bool,
    open: OpenSockets,
}

impl Dialler {
    /// Connects, once there is a free descriptor: a lack is not the endpoint's fault, and must not cost it
    /// an attempt.
    async fn connect(self, uri: Uri) -> Result<TokioIo<Socket>, BoxError> {
        loop {
            match self.connect_now(&uri).await {
                Err(error) if is_out_of_descriptors(&*error) => sleep(DESCRIPTOR_WAIT).await,
                connected => return connected,
            }
        }
    }

    async fn connect_now(&self, uri: &Uri) -> Result<TokioIo<Socket>, BoxError> {
        ConnectProgress::reaches(Stage::Name);
        let host = uri.host().unwrap_or_default();
        let default = if uri.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 };
        let port = uri.port_u16().unwrap_or(default);
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let found = match bare.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => self.look_up(bare).await?,
        };
        ConnectProgress::reaches(Stage::Connection);
        let checked = guard::check_addresses(&found, port, self.public, &self.allowed)?;
        if checked.is_empty() {
            return Err(ResolutionError(None).into());
        }
        let dialled = dial_one_of(&*self.network, checked).await?;
        ConnectProgress::reaches(Stage::Tls);
        Ok(TokioIo::new(Socket(dialled, self.open.one_more())))
    }

    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, ResolutionError> {
        match timeout(LOOK_UP_WAIT, self.network.look_up(name)).await {
            Ok(found) => found.map_err(|error| ResolutionError(Some(error))),
            Err(late) => Err(ResolutionError(Some(late.into()))),
        }
    }
}

fn is_out_of_descriptors(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|error| {
        let code = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        code.is_some_and(|code| OUT_OF_DESCRIPTORS.contains(&code))
    })
}

/// Connects to the first address that accepts.
async fn dial_one_of(
    network: &dyn Network,
    addresses: Vec<CheckedAddress>,
) -> io::Result<Box<dyn Io>> {
    let mut waiting = addresses.into_iter();
    let mut dialling = FuturesUnordered::new();
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        match waiting.next() {
            Some(address) => dialling.push(network.dial(address)),
            None if dialling.is_empty() => return Err(failure),
            None => {}
        }
        let more = waiting.len() > 0;
        tokio::select! {
            Some(dialled) = dialling.next() => match dialled {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            },
            () = sleep(STAGGER), if more => {}
        }
    }
}

impl Service<Uri> for Dialler {
    type Response = TokioIo<Socket>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use async_trait::async_trait;
    use tokio::time::Instant;

    use super::*;

    /// A network that has no descriptor for a while, for names or for connections.
    #[derive(Debug, Default)]
    struct Exhausted {
        names: AtomicUsize,
        connections: AtomicUsize,
    }

    impl Exhausted {
        fn take(left: &AtomicUsize) -> io::Result<()> {
            let taken =
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if taken.is_ok() { Err(io::Error::from_raw_os_error(24)) } else { Ok(()) }
        }
    }

    #[async_trait]
    impl Network for Exhausted {
        async fn look_up(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            Self::take(&self.names).map(|()| vec![IpAddr::from([93, 184, 215, 14])])
        }

        async fn dial(&self, _: CheckedAddress) -> io::Result<Box<dyn Io>> {
            Self::take(&self.connections).map(|()| Box::new(tokio::io::duplex(1).0) as Box<dyn Io>)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_waits_for_a_descriptor() {
        for (names, connections) in [(0, 0), (3, 0), (0, 3), (2, 2)] {
            let network = Exhausted { names: names.into(), connections: connections.into() };
            let (allowed, open) = (AllowedNetworks::default(), OpenSockets::of(9));
            let dialler = Dialler { network: Arc::new(network), allowed, public: true, open };
            let began = Instant::now();
            let connected = dialler.connect(Uri::from_static("https://e.example/")).await;
            assert!(connected.is_ok(), "{names} {connections}");
            let waited = u32::try_from(names + connections).expect("few");
            assert_eq!(began.elapsed(), DESCRIPTOR_WAIT * waited);
        }
    }
}

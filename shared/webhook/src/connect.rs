//! Connects to endpoints: resolves, checks, dials and encrypts within a bounded time. Only checked
//! addresses are dialled, so a name that resolves differently later gains nothing.

use std::{
    io,
    net::IpAddr,
    sync::{
        Arc, Weak,
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
use tokio::time::{Instant, sleep, timeout};
use tower_service::Service;

use super::{
    guard::{self, CheckedAddress},
    metered_stream::MeteredStream,
    network::{Io, Network},
    sockets::{LOOK_AGAIN, NoPlace, OpenSockets, PLACE_WAIT, Socket},
};
use gridpost_core::endpoint::AllowedNetworks;
use gridpost_ports::PlaceWait;

/// The system's resolver asks each server for 5 s.
const LOOK_UP_WAIT: Duration = Duration::from_secs(6);

/// For name resolution, connection and TLS together, once there is a place; the wait for the response begins
/// afterwards. A lost SYN is repeated after 1, 3 and 7 s.
pub(super) const CONNECT_WAIT: Duration = Duration::from_secs(12);
const _: () = assert!(LOOK_UP_WAIT.as_secs() < CONNECT_WAIT.as_secs());

/// How long one address is tried before the next is tried in parallel. Source: RFC 8305, section 5.
const STAGGER: Duration = Duration::from_millis(250);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

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
    /// The progress of the connection that this task makes for a request.
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
    /// Returns what tracks this task's connection, or a new one.
    pub(super) fn current() -> Self {
        PROGRESS.try_with(Clone::clone).unwrap_or_default()
    }

    /// Tracks the connection that this work makes. One that waits for its place is given up once the work is done:
    /// the request has found another.
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
        // A connection for no request is not watched.
        let _ = PROGRESS.try_with(|progress| progress.0.store(stage as u8, Ordering::Relaxed));
    }
}

/// Makes connections for a pool.
#[derive(Clone)]
pub(super) struct Connector {
    inner: HttpsConnector<Dialler>,
    open: OpenSockets,
    pool: u64,
}

impl Connector {
    /// Makes a connector for `https`, to public addresses and named networks.
    pub(super) fn https(
        network: Arc<dyn Network>,
        allowed: AllowedNetworks,
        tls: ClientConfig,
        open: &OpenSockets,
    ) -> Self {
        let dialler = Dialler { network, allowed, public: true };
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_only();
        let inner = builder.enable_all_versions().wrap_connector(dialler);
        Self { inner, open: open.clone(), pool: open.pool() }
    }

    /// Makes a connector for plain `http`, to named networks only.
    pub(super) fn http(
        network: Arc<dyn Network>,
        allowed: AllowedNetworks,
        tls: ClientConfig,
        open: &OpenSockets,
    ) -> Self {
        let dialler = Dialler { network, allowed, public: false };
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let inner = builder.enable_all_versions().wrap_connector(dialler);
        Self { inner, open: open.clone(), pool: open.pool() }
    }

    /// Returns a connector for another pool.
    pub(super) fn apart(&self) -> Self {
        Self { pool: self.open.pool(), ..self.clone() }
    }

    /// Connects, once there is a place and a free descriptor. A lack of them is not the endpoint's fault: it fails
    /// as [`NoPlace`], and takes nothing of the endpoint's time.
    async fn connect(
        mut self,
        uri: Uri,
        wanted: Weak<AtomicU8>,
        waits: PlaceWait,
    ) -> Result<TokioIo<MeteredStream>, BoxError> {
        let host = uri.authority().map_or("", |authority| authority.as_str());
        // A pool can't use what another one has to that host, idle or not.
        let share = format!("{host} {}", self.pool);
        let is_wanted = || wanted.strong_count() > 0;
        let until = Instant::now() + PLACE_WAIT;
        loop {
            waits.begin();
            let place = self.open.wait(&share, until, is_wanted).await;
            waits.end();
            let place = place.inspect_err(|_| {
                if is_wanted() {
                    self.open.tell(host);
                }
            })?;
            let progress = wanted.upgrade().map(ConnectProgress).unwrap_or_default();
            let connecting = progress.of(self.inner.call(uri.clone()));
            match timeout(CONNECT_WAIT, connecting).await {
                Ok(Err(error)) if is_out_of_descriptors(&*error) => {
                    drop(place);
                    if Instant::now() >= until {
                        self.open.tell(host);
                        return Err(NoPlace.into());
                    }
                    sleep(LOOK_AGAIN).await;
                }
                Ok(Err(error)) => return Err(error),
                Ok(Ok(stream)) => {
                    return Ok(TokioIo::new(MeteredStream::new(TokioIo::new(stream), place)));
                }
                Err(_) => return Err(ConnectTimedOut(progress.stage()).into()),
            }
        }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<MeteredStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let ConnectProgress(progress) = ConnectProgress::current();
        Box::pin(self.clone().connect(uri, Arc::downgrade(&progress), PlaceWait::current()))
    }
}

#[derive(Clone)]
struct Dialler {
    network: Arc<dyn Network>,
    allowed: AllowedNetworks,
    /// Whether public addresses are allowed too.
    public: bool,
}

impl Dialler {
    async fn connect(self, uri: Uri) -> Result<TokioIo<Socket>, BoxError> {
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
        Ok(TokioIo::new(Socket(dialled)))
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

    use super::*;
    use async_trait::async_trait;

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
            Self::take(&self.names).map(|()| vec![IpAddr::from([127, 0, 0, 1])])
        }

        async fn dial(&self, _: CheckedAddress) -> io::Result<Box<dyn Io>> {
            Self::take(&self.connections).map(|()| Box::new(tokio::io::duplex(1).0) as Box<dyn Io>)
        }
    }

    fn tls() -> ClientConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let trusting =
            versions.expect("versions").with_root_certificates(rustls::RootCertStore::empty());
        trusting.with_no_client_auth()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_waits_for_a_descriptor() {
        // Lacks when names are looked up and when connections are made, and how it ends.
        let table =
            [((0, 0), true), ((3, 0), true), ((0, 3), true), ((2, 2), true), ((0, 999), false)];
        for ((names, connections), is_connected) in table {
            let network = Exhausted { names: names.into(), connections: connections.into() };
            let tls = tls();
            let allowed = "127.0.0.0/8".parse().expect("a network");
            let open = OpenSockets::of(9);
            let connector = Connector::http(Arc::new(network), allowed, tls, &open);
            let began = Instant::now();
            let uri = Uri::from_static("http://e.example/");
            let progress = ConnectProgress::default();
            let connected =
                connector.connect(uri, Arc::downgrade(&progress.0), PlaceWait::default());
            let connected = connected.await;
            let waited = u32::try_from(names + connections).expect("few");
            let most = if is_connected { LOOK_AGAIN * waited } else { PLACE_WAIT };
            assert_eq!(began.elapsed(), most, "{names} {connections}");
            assert_eq!(open.is_told(), !is_connected, "{names} {connections}");
            match connected {
                Ok(_) => assert!(is_connected && open.count() == 1),
                Err(error) => assert!(!is_connected && error.is::<NoPlace>(), "{error}"),
            }
        }
    }
}

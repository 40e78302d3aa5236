//! Connects to endpoints: resolves, checks, dials and encrypts within a bounded time. Only checked
//! addresses are dialled, so a name that resolves differently the next time gains nothing.

use std::{
    io,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
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
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use rustls::ClientConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, sleep, timeout},
};
use tower_service::Service;

use super::{
    guard::{self, CheckedAddress},
    metered_stream::MeteredStream,
    network::{Io, Network},
};
use gridpost_core::endpoint::AllowedNetworks;

/// How long a name may take to resolve. The system's resolver asks each server for 5 s.
const LOOK_UP_WAIT: Duration = Duration::from_secs(6);

/// How long name resolution, connection and TLS may take together. A lost SYN is repeated after 1,
/// 3 and 7 s. The time for the response begins afterwards.
pub(super) const CONNECT_WAIT: Duration = Duration::from_secs(12);
const _: () = assert!(LOOK_UP_WAIT.as_secs() < CONNECT_WAIT.as_secs());

/// How long one address is tried before the next one is tried in parallel. Source: RFC 8305,
/// section 5.
const STAGGER: Duration = Duration::from_millis(250);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How soon a connection is tried again for which the process has no descriptor left.
const DESCRIPTOR_WAIT: Duration = Duration::from_millis(100);

/// EMFILE and ENFILE: the process or the system has no descriptor left.
const OUT_OF_DESCRIPTORS: [i32; 2] = [24, 23];

/// A host name has no address. Found again in the error chain of a request.
#[derive(Debug, thiserror::Error)]
#[error("the host name does not resolve")]
pub(super) struct ResolutionError(#[source] Option<io::Error>);

/// No connection within [`CONNECT_WAIT`]. Found again in the error chain of a request.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.not_done())]
pub(super) struct ConnectTimedOut(pub(super) Stage);

tokio::task_local! {
    /// The way of the connection that this task makes, for those who look at it.
    static WAY: Way;
}

/// How far the making of a connection has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Way(Arc<AtomicU8>);

/// What of a connection is being made.
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

impl Way {
    /// Lets it be seen how far the connections come that this work makes.
    pub(super) async fn of<T>(&self, work: impl Future<Output = T>) -> T {
        WAY.scope(self.clone(), work).await
    }

    /// What is under way.
    pub(super) fn stage(&self) -> Stage {
        match self.0.load(Ordering::Relaxed) {
            0 => Stage::Name,
            1 => Stage::Connection,
            _ => Stage::Tls,
        }
    }

    fn reaches(stage: Stage) {
        // Most requests are not looked at.
        let _ = WAY.try_with(|way| way.0.store(stage as u8, Ordering::Relaxed));
    }
}

/// Beyond so many open connections, idle ones are closed: a Lambda function has 1,024 file
/// descriptors, and a copy of dispatch may call any number of hosts. The rest is for calls to AWS, for
/// looking names up, and for requests under way. Source: AWS, "Lambda quotas".
pub(super) const OPEN_MAX: usize = 400;

/// Pools begin anew so often at most: what they close is counted off a moment later.
const RENEWED_EVERY: Duration = Duration::from_secs(1);

/// How many connections to endpoints are open, over all pools of a client.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenSockets(Arc<Counted>);

#[derive(Debug, Default)]
struct Counted {
    open: AtomicUsize,
    /// Requests that have no response head yet.
    under_way: AtomicUsize,
    /// How often pools were to begin anew.
    renewals: AtomicU64,
    /// When the last time was.
    renewed_at: Mutex<Option<Instant>>,
}

impl OpenSockets {
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Counts one more, until that is dropped.
    pub(super) fn one_more(&self) -> OpenSocket {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        OpenSocket(self.clone())
    }

    /// Counts a request as under way, until that is dropped.
    pub(super) fn request(&self) -> RequestUnderWay {
        self.0.under_way.fetch_add(1, Ordering::Relaxed);
        RequestUnderWay(self.clone())
    }

    /// Whether so many requests are under way that what they leave open would keep later ones from
    /// connecting: they have their pool already, so that beginning it anew closes nothing.
    pub(super) fn is_crowded(&self) -> bool {
        self.0.under_way.load(Ordering::Relaxed) > OPEN_MAX
    }

    /// How often pools were to begin anew: a pool that began before closes what is idle in it. Only when
    /// too many are open is it once more, for all pools.
    pub(super) fn renewals(&self) -> u64 {
        let Counted { open, renewals, renewed_at, .. } = &*self.0;
        if open.load(Ordering::Relaxed) > OPEN_MAX {
            let mut last = renewed_at.lock().expect("no panic while held");
            if last.is_none_or(|last| last.elapsed() >= RENEWED_EVERY) {
                *last = Some(Instant::now());
                renewals.fetch_add(1, Ordering::Relaxed);
            }
        }
        renewals.load(Ordering::Relaxed)
    }
}

/// One of them.
#[derive(Debug)]
pub(super) struct OpenSocket(OpenSockets);

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.0.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One request that is under way.
pub(super) struct RequestUnderWay(OpenSockets);

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        self.0.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes connections for a pool.
#[derive(Clone)]
pub(super) struct Connector(HttpsConnector<Dialler>);

impl Connector {
    /// A connector for `https`, to public addresses and named networks.
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

    /// A connector for plain `http`, to named networks only.
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
        let way = WAY.try_with(Clone::clone).unwrap_or_default();
        Box::pin(async move {
            let connected = timeout(CONNECT_WAIT, way.of(connecting)).await;
            let stream = connected.map_err(|_| ConnectTimedOut(way.stage()))??;
            Ok(TokioIo::new(MeteredStream::new(TokioIo::new(stream))))
        })
    }
}

/// Resolves, checks and dials.
#[derive(Clone)]
struct Dialler {
    network: Arc<dyn Network>,
    allowed: AllowedNetworks,
    /// Whether public addresses are allowed too.
    public: bool,
    open: OpenSockets,
}

impl Dialler {
    /// Connects, as soon as there is a descriptor: that there is not is no fault of the endpoint, whose
    /// attempt would be spent.
    async fn connect(self, uri: Uri) -> Result<TokioIo<Socket>, BoxError> {
        loop {
            match self.connect_now(&uri).await {
                Err(error) if is_out_of_descriptors(&*error) => sleep(DESCRIPTOR_WAIT).await,
                connected => return connected,
            }
        }
    }

    async fn connect_now(&self, uri: &Uri) -> Result<TokioIo<Socket>, BoxError> {
        Way::reaches(Stage::Name);
        let host = uri.host().unwrap_or_default();
        let default = if uri.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 };
        let port = uri.port_u16().unwrap_or(default);
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let found = match bare.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => self.look_up(bare).await?,
        };
        Way::reaches(Stage::Connection);
        let checked = guard::check_addresses(&found, port, self.public, &self.allowed)?;
        if checked.is_empty() {
            return Err(ResolutionError(None).into());
        }
        let dialled = dial_one_of(&*self.network, checked).await?;
        Way::reaches(Stage::Tls);
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

/// A dialled connection, adapted for the pool.
pub(super) struct Socket(Box<dyn Io>, #[expect(dead_code, reason = "it is counted")] OpenSocket);

impl Connection for Socket {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

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
            let (allowed, open) = (AllowedNetworks::default(), OpenSockets::default());
            let dialler = Dialler { network: Arc::new(network), allowed, public: true, open };
            let began = Instant::now();
            let connected = dialler.connect(Uri::from_static("https://e.example/")).await;
            assert!(connected.is_ok(), "{names} {connections}");
            let waited = u32::try_from(names + connections).expect("few");
            assert_eq!(began.elapsed(), DESCRIPTOR_WAIT * waited);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pools_begin_anew_once_a_second_while_too_many_are_open() {
        let open = OpenSockets::default();
        let mut held: Vec<_> = (0..OPEN_MAX).map(|_| open.one_more()).collect();
        assert_eq!(open.renewals(), 0);
        held.push(open.one_more());
        assert_eq!([open.renewals(), open.renewals()], [1, 1], "once for all pools");
        sleep(RENEWED_EVERY).await;
        assert_eq!(open.renewals(), 2);
        sleep(RENEWED_EVERY).await;
        held.pop();
        assert_eq!((open.renewals(), open.count()), (2, OPEN_MAX));
    }
}

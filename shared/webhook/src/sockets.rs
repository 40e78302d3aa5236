//! Places for connections to endpoints, over all pools of a client: as many as there are file descriptors for.
//!
//! A host may have no more connections of a pool than there are free places, so that one that hangs takes half of
//! all places at most. Several that hang would halve the rest until nothing is left, so the last eighth is for hosts
//! without a connection.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, sleep},
};

use super::network::Io;

/// How many connections may be open, unless a client is made for others. A Lambda function has 1,024 file
/// descriptors, some of them for calls to AWS and name resolution. Source: AWS, "Lambda quotas".
pub(super) const OPEN_MAX: usize = 800;

/// How long a request waits for a place: until then no descriptor, and afterwards it is not made.
pub(super) const PLACE_WAIT: Duration = Duration::from_secs(2);

/// The pause before a waiting request looks for a place again.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The least time between renewals: closed connections are counted off with a delay.
const RENEWED_EVERY: Duration = Duration::from_secs(1);

/// The least time between two words in the log that places are short.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// No place was free within [`PLACE_WAIT`], and nothing was sent. Looked for in a request's error chain.
#[derive(Debug, thiserror::Error)]
#[error("this process has no file descriptor for another connection to the endpoint's host")]
pub(super) struct NoPlace;

/// The open connections of a client. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct OpenSockets(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    most: usize,
    open: Mutex<Open>,
    pools: AtomicU64,
    renewals: AtomicU64,
    renewed_at: Mutex<Option<Instant>>,
    told_at: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    by_host: HashMap<Box<str>, usize>,
}

impl OpenSockets {
    pub(super) fn of(most: usize) -> Self {
        Self(Arc::new(Counted {
            most: most.max(1),
            open: Mutex::default(),
            pools: AtomicU64::default(),
            renewals: AtomicU64::default(),
            renewed_at: Mutex::default(),
            told_at: Mutex::default(),
        }))
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.open().all
    }

    /// Returns the number of a new pool.
    pub(super) fn pool(&self) -> u64 {
        self.0.pools.fetch_add(1, Ordering::Relaxed)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an eighth of all places is free at most.
    fn has_few(&self, open: &Open) -> bool {
        self.0.most - open.all <= self.0.most.div_ceil(8)
    }

    /// Takes a place for a connection to that host, if it may have one more.
    pub(super) fn take(&self, host: &str) -> Option<Place> {
        let most = self.0.most;
        let mut open = self.open();
        let own = open.by_host.get(host).copied().unwrap_or(0);
        if own >= most - open.all || (own > 0 && self.has_few(&open)) {
            return None;
        }
        open.all += 1;
        *open.by_host.entry(host.into()).or_default() += 1;
        let is_kept = !self.has_few(&open);
        Some(Place { open: self.clone(), host: host.into(), is_kept })
    }

    /// Takes a place for a connection to that host, once it may have one more. Fails at `until`, or once the
    /// connection is not wanted any more.
    pub(super) async fn wait(
        &self,
        host: &str,
        until: Instant,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Place, NoPlace> {
        loop {
            if !is_wanted() {
                return Err(NoPlace);
            }
            if let Some(place) = self.take(host) {
                return Ok(place);
            }
            if Instant::now() >= until {
                return Err(NoPlace);
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    #[cfg(test)]
    pub(super) fn is_told(&self) -> bool {
        self.0.told_at.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Says in the log, once in a while, that a request to that host found no file descriptor.
    pub(super) fn tell(&self, host: &str) {
        if is_due(&self.0.told_at, TOLD_EVERY) {
            let (open, most) = (self.open().all, self.0.most);
            tracing::warn!(
                host,
                open,
                most,
                "a request to an endpoint found no file descriptor; a higher limit of open files has more"
            );
        }
    }

    /// Counts renewals, one more if few places are left. A pool of an earlier renewal is replaced, which closes
    /// its idle connections.
    pub(super) fn renewals(&self) -> u64 {
        let Counted { renewals, renewed_at, .. } = &*self.0;
        if self.has_few(&self.open()) && is_due(renewed_at, RENEWED_EVERY) {
            renewals.fetch_add(1, Ordering::Relaxed);
        }
        renewals.load(Ordering::Relaxed)
    }
}

/// Whether something was not done for so long; notes that it is done now.
fn is_due(last: &Mutex<Option<Instant>>, every: Duration) -> bool {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    let is_due = last.is_none_or(|last| last.elapsed() >= every);
    if is_due {
        *last = Some(Instant::now());
    }
    is_due
}

/// A connection's place, free again once it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    open: OpenSockets,
    host: Box<str>,
    is_kept: bool,
}

impl Place {
    /// Whether the connection may be kept for further requests. Not if it left few places: idle connections would
    /// hold up requests to other hosts.
    pub(super) fn is_kept(&self) -> bool {
        self.is_kept
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.open.open();
        open.all -= 1;
        if let Some(own) = open.by_host.get_mut(&self.host) {
            *own -= 1;
            if *own == 0 {
                open.by_host.remove(&self.host);
            }
        }
    }
}

pub(super) struct Socket(pub(super) Box<dyn Io>);

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
    use super::*;

    fn taken(open: &OpenSockets, host: &str) -> Vec<Place> {
        std::iter::from_fn(|| open.take(host)).collect()
    }

    #[test]
    fn a_host_has_no_more_connections_than_are_free() {
        let open = OpenSockets::of(100);
        let first = taken(&open, "a");
        assert_eq!(first.len(), 50, "half of all");
        let second = taken(&open, "b");
        assert_eq!(second.len(), 25, "half of the rest");
        assert_eq!(taken(&open, "a").len(), 0);
        assert!(first.iter().chain(&second).all(Place::is_kept));
        drop(first);
        let third = taken(&open, "c");
        assert_eq!((third.len(), open.count()), (38, 63));
        drop((second, third));
        assert_eq!((open.count(), open.open().by_host.len()), (0, 0));
        assert!(OpenSockets::of(0).take("a").is_some(), "one at least");
    }

    #[test]
    fn many_hosts_that_hang_leave_places_for_others() {
        for (most, hosts) in [(18, 4), (480, 10), (OPEN_MAX, 10)] {
            let open = OpenSockets::of(most);
            let hanging: Vec<_> =
                (0..hosts).map(|host| taken(&open, &format!("hangs-{host}"))).collect();
            assert!(hanging.iter().all(|places| !places.is_empty()), "{most}");
            assert!(open.take("healthy").is_some(), "{most}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_waited_for_while_it_is_wanted() {
        let open = OpenSockets::of(2);
        let first = open.take("a").expect("free");
        let began = Instant::now();
        let waited = open.wait("a", began + PLACE_WAIT, || true).await;
        assert!(waited.is_err() && began.elapsed() == PLACE_WAIT, "{:?}", began.elapsed());
        assert!(open.wait("a", Instant::now() + PLACE_WAIT, || false).await.is_err());
        let freed = async {
            sleep(Duration::from_secs(1)).await;
            drop(first);
        };
        let began = Instant::now();
        let (waited, ()) = futures::join!(open.wait("a", began + PLACE_WAIT, || true), freed);
        assert!(waited.is_ok() && began.elapsed() < PLACE_WAIT, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn pools_begin_anew_once_a_second_while_few_places_are_left() {
        let open = OpenSockets::of(8);
        let mut held: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|host| open.take(host)).into();
        assert_eq!(open.renewals(), 0);
        held.push(open.take("g"));
        assert_eq!([open.renewals(), open.renewals()], [1, 1], "once for all pools");
        sleep(RENEWED_EVERY).await;
        assert_eq!(open.renewals(), 2);
        sleep(RENEWED_EVERY).await;
        held.pop();
        assert_eq!((open.renewals(), open.count()), (2, 6));
    }
}

//! Counts open connections to endpoints over all pools of a client.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

use super::network::Io;

/// Beyond so many, idle connections are closed, unless a client is made for others. A Lambda function has 1,024
/// file descriptors, some of them for calls to AWS, name resolution and current requests. Source: AWS, "Lambda
/// quotas".
pub(super) const OPEN_MAX: usize = 400;

/// The least time between renewals: closed connections are counted off with a delay.
const RENEWED_EVERY: Duration = Duration::from_secs(1);

/// The open connections of a client. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct OpenSockets(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    /// Beyond so many, idle ones are closed.
    most: usize,
    open: AtomicUsize,
    /// Requests that have no response head yet.
    under_way: AtomicUsize,
    renewals: AtomicU64,
    renewed_at: Mutex<Option<Instant>>,
}

impl OpenSockets {
    pub(super) fn of(most: usize) -> Self {
        Self(Arc::new(Counted {
            most,
            open: AtomicUsize::default(),
            under_way: AtomicUsize::default(),
            renewals: AtomicU64::default(),
            renewed_at: Mutex::default(),
        }))
    }

    /// Returns how many may be open, about.
    pub(super) fn most(&self) -> usize {
        self.0.most
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    pub(super) fn one_more(&self) -> OpenSocket {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        OpenSocket(self.clone())
    }

    /// Counts a request until the returned value is dropped.
    pub(super) fn request(&self) -> RequestUnderWay {
        self.0.under_way.fetch_add(1, Ordering::Relaxed);
        RequestUnderWay(self.clone())
    }

    /// Whether current requests could leave too many connections open. They have their pools already, so a
    /// renewal would close nothing.
    pub(super) fn is_crowded(&self) -> bool {
        self.0.under_way.load(Ordering::Relaxed) > self.0.most
    }

    /// Counts renewals, one more if too many connections are open. A pool of an earlier renewal is replaced.
    pub(super) fn renewals(&self) -> u64 {
        let Counted { most, open, renewals, renewed_at, .. } = &*self.0;
        if open.load(Ordering::Relaxed) > *most {
            let mut last = renewed_at.lock().expect("no panic while held");
            if last.is_none_or(|last| last.elapsed() >= RENEWED_EVERY) {
                *last = Some(Instant::now());
                renewals.fetch_add(1, Ordering::Relaxed);
            }
        }
        renewals.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(super) struct OpenSocket(OpenSockets);

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.0.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) struct RequestUnderWay(OpenSockets);

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        self.0.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) struct Socket(
    pub(super) Box<dyn Io>,
    #[expect(dead_code, reason = "it is counted")] pub(super) OpenSocket,
);

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
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pools_begin_anew_once_a_second_while_too_many_are_open() {
        let open = OpenSockets::of(OPEN_MAX);
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

//! Limits what is read from a connection, and records the status of its answer.
//!
//! The HTTP client bounds heads and bodies, but an endpoint could send interim responses (1xx) or HTTP/2
//! pings before a head without end. So each exchange adds a budget of bytes to its connection; one that
//! exceeds it is cut.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use hyper_rustls::MaybeHttpsStream;
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::sockets::{Place, Socket};

/// A head and a body at their limits take half of it.
pub(super) const EXCHANGE_BYTES_MAX: usize = 256 * 1024;

/// The budget before the first exchange: on HTTP/2, for the endpoint's settings.
const UNASKED_BYTES_MAX: usize = 32 * 1024;

/// The most unused budget for later exchanges, of which HTTP/2 may have many at once.
const SAVED_BYTES_MAX: usize = 16 * EXCHANGE_BYTES_MAX;

/// `HTTP/1.1 200`, of which the status is read.
const STATUS_LINE_BYTES: usize = 12;

/// A connection's budget, and the status of its answer.
#[derive(Debug)]
pub(super) struct ReadBudget {
    left_bytes: AtomicUsize,
    exchanges: AtomicUsize,
    read_bytes: AtomicUsize,
    status: AtomicU16,
}

#[derive(Debug)]
pub(super) struct Exchange {
    budget: Arc<ReadBudget>,
    is_reused: bool,
    read_before: usize,
}

impl Exchange {
    /// Whether it is the first on its connection, or anything was read since it began; on HTTP/2, possibly
    /// for another exchange.
    pub(super) fn is_fresh_or_answered(&self) -> bool {
        !self.is_reused || self.budget.read_bytes.load(Ordering::Relaxed) != self.read_before
    }
}

impl Default for ReadBudget {
    fn default() -> Self {
        Self {
            left_bytes: AtomicUsize::new(UNASKED_BYTES_MAX),
            exchanges: AtomicUsize::new(0),
            read_bytes: AtomicUsize::new(0),
            status: AtomicU16::new(0),
        }
    }
}

impl ReadBudget {
    pub(super) fn begin(self: Arc<Self>) -> Exchange {
        let is_reused = self.exchanges.fetch_add(1, Ordering::Relaxed) > 0;
        let read_before = self.read_bytes.load(Ordering::Relaxed);
        self.status.store(0, Ordering::Relaxed);
        let more = |left: usize| Some((left + EXCHANGE_BYTES_MAX).min(SAVED_BYTES_MAX));
        let _ = self.left_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        Exchange { budget: self, is_reused, read_before }
    }

    /// Returns the final status at the beginning of the HTTP/1 response.
    pub(super) fn status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status >= 200)
    }
}

pub(super) struct MeteredStream {
    inner: TokioIo<MaybeHttpsStream<TokioIo<Socket>>>,
    meter: Arc<ReadBudget>,
    /// The first bytes of this exchange's response.
    start: Vec<u8>,
    exchange: usize,
    place: Place,
}

impl MeteredStream {
    pub(super) fn new(inner: TokioIo<MaybeHttpsStream<TokioIo<Socket>>>, place: Place) -> Self {
        let start = Vec::with_capacity(STATUS_LINE_BYTES);
        Self { inner, meter: Arc::default(), start, exchange: 0, place }
    }

    /// Counts bytes, and reads the status.
    fn note(&mut self, read: &[u8]) -> io::Result<()> {
        let left = self.meter.left_bytes.load(Ordering::Relaxed);
        let Some(left) = left.checked_sub(read.len()) else {
            return Err(io::Error::other("the endpoint sends more than an answer may have"));
        };
        self.meter.left_bytes.store(left, Ordering::Relaxed);
        self.meter.read_bytes.fetch_add(read.len(), Ordering::Relaxed);
        let exchange = self.meter.exchanges.load(Ordering::Relaxed);
        if self.exchange != exchange {
            self.exchange = exchange;
            self.start.clear();
        }
        let missing = STATUS_LINE_BYTES - self.start.len();
        if missing > 0 {
            self.start.extend_from_slice(&read[..missing.min(read.len())]);
            self.meter.status.store(status_of(&self.start).unwrap_or(0), Ordering::Relaxed);
        }
        Ok(())
    }
}

fn status_of(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.1 ").or_else(|| line.strip_prefix(b"HTTP/1.0 "))?;
    std::str::from_utf8(rest).ok().filter(|digits| digits.len() == 3)?.parse().ok()
}

impl Connection for MeteredStream {
    fn connected(&self) -> Connected {
        let connected = self.inner.inner().connected().extra(Arc::clone(&self.meter));
        // An HTTP/2 connection is shared by all requests to its host, and takes one place for them.
        if !self.place.is_kept() && !connected.is_negotiated_h2() {
            connected.poison();
        }
        connected
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        Poll::Ready(self.note(&buffer.filled()[before..]))
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

//! The connections of clients: as many as there are file descriptors for. If all are taken, the one that has
//! waited longest for its client is closed for a new one, so that idle and half requests keep no other out.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
    time::{Instant, Sleep, sleep},
};

/// The longest time without progress in sending an answer: its client does not read it.
const WRITES_WITHIN: Duration = Duration::from_secs(60);

/// The least time between two words about the same lack.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// Something that is said once in a while, however often it happens.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// Returns whether it is time to say it.
    pub(crate) fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= TOLD_EVERY);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

/// The open connections.
#[derive(Debug)]
pub(crate) struct Clients {
    most: usize,
    open: Mutex<Open>,
    freed: Notify,
    told: Seldom,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    connections: HashMap<u64, Arc<Connection>>,
}

#[derive(Debug)]
struct Connection {
    /// Since when it waits for its client; `None` while it has a whole request.
    waits_since: Mutex<Option<Instant>>,
    closes: Notify,
}

/// A connection's place, free again once it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    clients: Arc<Clients>,
    number: u64,
    connection: Arc<Connection>,
}

impl Clients {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(1),
            open: Mutex::default(),
            freed: Notify::new(),
            told: Seldom::default(),
        })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a connection. If none is free, has another one closed; waits while all of them have a
    /// request. Only one may wait at a time.
    pub(crate) async fn place(self: &Arc<Self>) -> Place {
        loop {
            if let Some(place) = self.take_or_close() {
                return place;
            }
            if self.told.is_due() {
                let most = self.most;
                tracing::warn!(
                    most,
                    "all connections that clients may have are open, and idle ones are closed; a higher \
                     limit of open files has more"
                );
            }
            self.freed.notified().await;
        }
    }

    fn take_or_close(self: &Arc<Self>) -> Option<Place> {
        let mut open = self.open();
        if open.connections.len() >= self.most {
            let waiting = open.connections.values();
            let waiting = waiting.filter_map(|one| Some(((*one.waits_since())?, one)));
            if let Some((_, longest)) = waiting.min_by_key(|(since, _)| *since) {
                longest.closes.notify_one();
            }
            return None;
        }
        open.last += 1;
        let (waits_since, closes) = (Mutex::new(Some(Instant::now())), Notify::new());
        let connection = Arc::new(Connection { waits_since, closes });
        let number = open.last;
        open.connections.insert(number, Arc::clone(&connection));
        Some(Place { clients: Arc::clone(self), number, connection })
    }
}

impl Connection {
    fn waits_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.waits_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits until the connection must be closed, while it has no request.
    pub(crate) async fn is_wanted(&self) {
        loop {
            self.connection.closes.notified().await;
            if self.connection.waits_since().is_some() {
                return;
            }
            // Another one may be closed instead.
            self.clients.freed.notify_one();
        }
    }

    /// Waits until the connection has had no whole request for so long, from now on.
    pub(crate) async fn has_no_request_for(&self, least: Duration) {
        let began = Instant::now();
        loop {
            sleep(least).await;
            let since = *self.connection.waits_since();
            if since.is_some_and(|since| since.max(began).elapsed() >= least) {
                return;
            }
        }
    }

    /// Notes that the client is heard: its wait begins anew.
    pub(crate) fn hear(&self) {
        *self.connection.waits_since() = Some(Instant::now());
    }

    /// Notes that the connection has a whole request, until the answer is there.
    pub(crate) async fn answering<T>(&self, answer: impl Future<Output = T>) -> T {
        *self.connection.waits_since() = None;
        let answer = answer.await;
        *self.connection.waits_since() = Some(Instant::now());
        self.clients.freed.notify_one();
        answer
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clients.open().connections.remove(&self.number);
        self.clients.freed.notify_one();
    }
}

/// A stream that fails once no write has made progress for a minute.
pub(crate) struct Impatient<S> {
    inner: S,
    stalls: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncWrite + Unpin> Impatient<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner, stalls: None }
    }

    fn write(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.inner), context) {
            self.stalls = None;
            return Poll::Ready(written);
        }
        let stalls = self.stalls.get_or_insert_with(|| Box::pin(sleep(WRITES_WITHIN)));
        ready!(stalls.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |inner, context| inner.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |inner, context| inner.poll_write_vectored(context, slices))
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

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::timeout,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_read_is_given_up() {
        let (stream, mut client) = tokio::io::duplex(4);
        let mut stream = Impatient::new(stream);
        let began = Instant::now();
        // A client that reads a little now and then, and no more after that.
        let reads = async {
            for _ in 0..3 {
                sleep(WRITES_WITHIN / 2).await;
                client.read_exact(&mut [0; 2]).await.expect("some of it");
            }
        };
        let (written, ()) = futures::join!(stream.write_all(&[0; 100]), reads);
        assert_eq!(written.expect_err("not read").kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), WRITES_WITHIN / 2 * 3 + WRITES_WITHIN);
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_waiting_connection_makes_room_and_none_with_a_request() {
        let clients = Clients::new(2);
        let first = clients.place().await;
        sleep(Duration::from_secs(1)).await;
        let second = clients.place().await;
        let wanted = async |place: &Place| timeout(Duration::from_secs(9), place.is_wanted()).await;

        assert!(timeout(Duration::from_secs(1), clients.place()).await.is_err());
        assert!(wanted(&second).await.is_err());
        assert!(wanted(&first).await.is_ok(), "it has waited longest");
        drop(first);
        let third = clients.place().await;

        sleep(Duration::from_secs(1)).await;
        second.hear();
        assert!(timeout(Duration::from_secs(1), clients.place()).await.is_err());
        assert!(wanted(&second).await.is_err(), "it was heard after the other one");
        assert!(wanted(&third).await.is_ok());
        drop(third);
        sleep(Duration::from_secs(1)).await;
        let third = clients.place().await;

        // It gets a request before it is closed: the other one makes room.
        assert!(timeout(Duration::from_secs(1), clients.place()).await.is_err());
        let answering = second.answering(wanted(&second));
        let closing = async {
            third.is_wanted().await;
            drop(third);
        };
        let (is_second, _fourth, ()) = futures::join!(answering, clients.place(), closing);
        assert!(is_second.is_err());
    }
}

//! A write on its way to the writing connection.

use gridpost_ports::PortError;
use rusqlite::Connection;
use tokio::sync::oneshot;

/// Something to write, with others, in one transaction.
pub(super) trait Job: Send {
    /// Writes without committing. A failure is reported when the job is settled.
    fn run(&mut self, connection: &Connection);

    /// Reports the result once the transaction was committed or has failed.
    fn settle(self: Box<Self>, committed: Result<(), &str>);
}

/// A write, the callback after its commit, and the waiting caller.
pub(super) struct Task<W, T, A, U> {
    call: &'static str,
    work: Option<W>,
    worked: Option<rusqlite::Result<T>>,
    then: A,
    answer: oneshot::Sender<Result<U, PortError>>,
}

impl<W, T, A, U> Task<W, T, A, U> {
    pub(super) fn new(
        call: &'static str,
        work: W,
        then: A,
        answer: oneshot::Sender<Result<U, PortError>>,
    ) -> Self {
        Self { call, work: Some(work), worked: None, then, answer }
    }
}

impl<W, T, A, U> Job for Task<W, T, A, U>
where
    W: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
    T: Send,
    A: FnOnce(T) -> U + Send,
    U: Send,
{
    fn run(&mut self, connection: &Connection) {
        self.worked = self.work.take().map(|work| work(connection));
    }

    fn settle(self: Box<Self>, committed: Result<(), &str>) {
        let Self { call, worked, then, answer, .. } = *self;
        let answered = match (committed, worked) {
            (Ok(()), Some(Ok(worked))) => Ok(then(worked)),
            (_, Some(Err(error))) => Err(PortError::new(call, error)),
            (Err(reason), _) => Err(PortError::new(call, reason)),
            (Ok(()), None) => Err(PortError::new(call, "it was not written")),
        };
        // The caller may have gone; the write was done all the same.
        let _ = answer.send(answered);
    }
}

//! Tells how long an attempt waits for a file descriptor: its endpoint is not slow for that.

use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

tokio::task_local! {
    /// The wait of the attempt that this task makes.
    static WAIT: PlaceWait;
}

/// How long an attempt has waited for a file descriptor. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct PlaceWait(Arc<Mutex<Waited>>);

#[derive(Debug, Default)]
struct Waited {
    since: Option<Instant>,
    before: Duration,
}

impl PlaceWait {
    /// Returns what this task's waits are added to, or a new one.
    pub fn current() -> Self {
        WAIT.try_with(Clone::clone).unwrap_or_default()
    }

    /// Adds the waits of this work.
    pub async fn of<T>(&self, work: impl Future<Output = T>) -> T {
        WAIT.scope(self.clone(), work).await
    }

    fn waited(&self) -> MutexGuard<'_, Waited> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self) {
        self.waited().since.get_or_insert_with(Instant::now);
    }

    pub fn end(&self) {
        let mut waited = self.waited();
        if let Some(since) = waited.since.take() {
            waited.before += since.elapsed();
        }
    }

    /// Returns the whole wait until now.
    pub fn so_far(&self) -> Duration {
        let waited = self.waited();
        waited.before + waited.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

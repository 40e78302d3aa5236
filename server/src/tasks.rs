//! Tasks that must run as long as the process, until it stops.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use gridpost_ports::guard::said;
use tokio::sync::watch;

/// Tells tasks to finish what is under way and to begin nothing more. Clones hear the same.
#[derive(Clone, Debug)]
pub(crate) struct Stopping(watch::Receiver<bool>);

impl Stopping {
    /// Returns what says that the process stops, by sending `true`, and what hears it.
    pub(crate) fn channel() -> (watch::Sender<bool>, Self) {
        let (says, hears) = watch::channel(false);
        (says, Self(hears))
    }

    /// Waits until the process stops.
    pub(crate) async fn begun(&self) {
        // Fails if the process is gone.
        let _ = self.0.clone().wait_for(|stops| *stops).await;
    }

    /// Does work unless the process stops meanwhile: then drops it, and returns `None`.
    pub(crate) async fn unless<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.begun() => None,
            done = work => Some(done),
        }
    }
}

/// The unexpected end of such a task, after which the process can't continue.
#[derive(Debug, thiserror::Error)]
#[error("{task} has ended, which is a defect of Gridpost's own: {why}")]
pub struct Ended {
    pub(crate) task: String,
    pub(crate) why: String,
}

/// Runs endless work. Returns why it has ended.
pub(crate) async fn guarded(task: String, work: impl Future<Output = ()>) -> Ended {
    let why = match caught(work).await {
        Ok(()) => "it returned, and must run as long as the process".to_owned(),
        Err(panic) => panic,
    };
    Ended { task, why }
}

/// Runs work. Fails with the message of a panic.
pub(crate) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| said(&*panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_says_why() {
        let number = 7;
        let ended = guarded("counting".to_owned(), async { panic!("at {number}") }).await;
        assert_eq!((ended.task.as_str(), ended.why.as_str()), ("counting", "at 7"));
        let ended = guarded("counting".to_owned(), async {}).await;
        assert!(ended.to_string().contains("counting has ended"), "{ended}");
        assert_eq!(caught(async { 7 }).await, Ok(7));
        assert_eq!(caught::<()>(async { panic!("no") }).await, Err("no".to_owned()));
    }
}

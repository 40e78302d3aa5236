//! Tasks that run as long as the process does.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use gridpost_ports::guard::said;

/// A task that was to run for ever, and has ended: the process can't go on without it.
#[derive(Debug, thiserror::Error)]
#[error("{task} has ended, which is a defect of Gridpost's own: {why}")]
pub struct Ended {
    pub(crate) task: String,
    pub(crate) why: String,
}

/// Does what is to be done for ever; answers why it has ended.
pub(crate) async fn guarded(task: String, work: impl Future<Output = ()>) -> Ended {
    let why = match caught(work).await {
        Ok(()) => "it was to go on for ever".to_owned(),
        Err(panic) => panic,
    };
    Ended { task, why }
}

/// Does the work. Fails with the message of a panic.
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

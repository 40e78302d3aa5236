//! How queues are read, like Lambda's event source mappings, and how long a function may work on a batch.
//! Data only.

use std::time::Duration;

use gridpost_core::delivery::queue::Queue;

/// Enough that the backlog of one endpoint holds up few others.
pub(crate) const RETRY_QUEUES: usize = 4;

/// Timeouts of the functions, by the machine's clock: the deployment's defaults.
pub(crate) const DISPATCH_TIMEOUT: Duration = Duration::from_secs(210);
pub(crate) const DEAD_LETTER_TIMEOUT: Duration = Duration::from_secs(60);
/// Jobs take all of it.
pub(crate) const REDRIVE_TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const EXPAND_TIMEOUT: Duration = Duration::from_secs(29);

/// When an unsettled message is visible again, after its function's timeout.
pub(crate) const VISIBLE_AFTER: Duration = Duration::from_secs(30);

/// How a queue is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    pub(crate) queue: Queue,
    pub(crate) batch: usize,
    /// How long a batch is filled, by the process's clock.
    pub(crate) window: Duration,
    /// Most batches at once.
    pub(crate) concurrency: usize,
    /// By the machine's clock.
    pub(crate) timeout: Duration,
}

/// Returns all mappings. Batches are the deployment's defaults. Windows save invocations, which are free
/// here: retries have none, so that a second does not become two; that of dead letters is short, because
/// developers wait for the file. First attempts need fewer batches than on Lambda.
pub(crate) fn all() -> Vec<Mapping> {
    let at_once = Duration::ZERO;
    let one_s = Duration::from_secs(1);
    let of = |queue, batch, window, concurrency, timeout| Mapping {
        queue,
        batch,
        window,
        concurrency,
        timeout,
    };
    let retry = |shard| of(Queue::Retry(shard), 100, at_once, 50, DISPATCH_TIMEOUT);
    let mut all = vec![
        of(Queue::Dispatch, 10, at_once, 256, DISPATCH_TIMEOUT),
        of(Queue::DeadLetter, 100, one_s, 10, DEAD_LETTER_TIMEOUT),
        of(Queue::FanOut, 1, at_once, 5, EXPAND_TIMEOUT),
        of(Queue::Redrive, 1, at_once, 5, REDRIVE_TIMEOUT),
    ];
    all.extend((0..RETRY_QUEUES).map(retry));
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_queue_but_poison_is_read_once() {
        let queues: Vec<_> = all().iter().map(|mapping| mapping.queue).collect();
        let each: BTreeSet<_> = queues.iter().copied().collect();
        assert_eq!(queues.len(), each.len());
        let own = [Queue::Dispatch, Queue::DeadLetter, Queue::FanOut, Queue::Redrive];
        let wanted: BTreeSet<_> =
            own.into_iter().chain((0..RETRY_QUEUES).map(Queue::Retry)).collect();
        assert_eq!(each, wanted);
    }
}

//! Samples how many messages the retry queues have, and how many are in flight, at most every few
//! seconds.

use std::{collections::HashMap, sync::Arc, time::Duration};

use gridpost_core::{delivery::queue::Queue, error::chain, time::Timestamp};
use gridpost_ports::QueueReceiver;
use tokio::{sync::Mutex, time::Instant};

/// How long a sample is used. SQS's count lags by as much, and one copy of the function hides at most
/// a few thousand messages in that time.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// The latest sample of each kind for each retry queue.
pub struct InFlight {
    receiver: Arc<dyn QueueReceiver>,
    samples: Mutex<HashMap<(Counted, Queue), (Timestamp, u64)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Counted {
    InFlight,
    Backlog,
}

impl InFlight {
    pub fn new(receiver: Arc<dyn QueueReceiver>) -> Self {
        Self { receiver, samples: Mutex::default() }
    }

    /// About how many messages of a queue are in flight. If SQS does not answer, returns the last
    /// sample: a queue near its limit must not be taken for an empty one.
    pub async fn of(&self, queue: Queue, now: Timestamp) -> u64 {
        self.sample(Counted::InFlight, queue, now).await
    }

    /// About how many messages a queue has. Messages that came from the dispatch queue wait as
    /// delayed messages, which are not in flight.
    pub async fn backlog(&self, queue: Queue, now: Timestamp) -> u64 {
        self.sample(Counted::Backlog, queue, now).await
    }

    async fn sample(&self, counted: Counted, queue: Queue, now: Timestamp) -> u64 {
        // Held across the call: the other records of the batch wait for its answer.
        let mut samples = self.samples.lock().await;
        let last = samples.get(&(counted, queue)).copied();
        if let Some((at, count)) = last
            && now.since(at) < KEPT_FOR
        {
            return count;
        }
        let began = Instant::now();
        let answer = match counted {
            Counted::InFlight => self.receiver.in_flight(queue).await,
            Counted::Backlog => self.receiver.backlog(queue).await,
        };
        let count = answer.unwrap_or_else(|error| {
            tracing::warn!(error = %chain(&error), "failed to count a queue's messages");
            last.map_or(0, |(_, count)| count)
        });
        // A call that hangs until it fails must not be made again for each record that waits for it.
        samples.insert((counted, queue), (now + began.elapsed(), count));
        count
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use async_trait::async_trait;
    use gridpost_ports::{Outgoing, PortError, QueueSender, Result};
    use gridpost_testkit::{
        deployment::Deployment,
        dice::SeededDice,
        faults::Plan,
        queue::{QueueSettings, Queues},
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sample_is_kept_for_each_queue() {
        let deployment = Deployment::at(Timestamp::default());
        let settings = QueueSettings { retry_shards: 2, ..QueueSettings::CALM };
        let (clock, history) = (*deployment.clock, Arc::clone(&deployment.history));
        let queues = Arc::new(Queues::new(settings, clock, SeededDice::new(1), history));
        let receive_from = |queue| queues.hand(queue, "{}".to_owned());
        receive_from(Queue::Retry(1));
        *deployment.injector.plan() = Plan::failing([3]);
        let samples = InFlight::new(deployment.of(&queues));
        for (queue, at_ms, want, why) in [
            (Queue::Retry(0), 0, 1, "asked"),
            (Queue::Retry(0), 4_999, 1, "kept"),
            (Queue::Retry(1), 4_999, 2, "another queue"),
            (Queue::Retry(0), 5_000, 1, "asked again, in vain"),
            (Queue::Retry(1), 9_998, 2, "kept"),
        ] {
            // Each time the queue has one more in flight than the row before.
            receive_from(queue);
            let now = Timestamp::from_millis(at_ms);
            assert_eq!(samples.of(queue, now).await, want, "{why}");
        }
        assert_eq!(deployment.injector.made(), 3, "so often SQS is asked");
        // One that is delayed is not in flight.
        let later = Outgoing::new("{}".to_owned(), "t/s".to_owned(), 900);
        queues.send(Queue::Retry(0), vec![later]).await.pop().expect("an answer").expect("sent");
        let now = Timestamp::from_millis(20_000);
        let in_flight = samples.of(Queue::Retry(0), now).await;
        assert_eq!(samples.backlog(Queue::Retry(0), now).await, in_flight + 1);
    }

    /// SQS answers nothing.
    #[derive(Default)]
    struct Hanging(AtomicU32);

    #[async_trait]
    impl QueueReceiver for Hanging {
        async fn hide(&self, _: Queue, _: &str, _: u32) -> Result<()> {
            Ok(())
        }

        async fn delete(&self, _: Queue, _: Vec<String>) -> Result<()> {
            Ok(())
        }

        async fn in_flight(&self, _: Queue) -> Result<u64> {
            self.0.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(6)).await;
            Err(PortError::new("sqs:GetQueueAttributes", "timed out"))
        }

        async fn backlog(&self, queue: Queue) -> Result<u64> {
            self.in_flight(queue).await
        }

        async fn visible(&self, queue: Queue) -> Result<u64> {
            self.in_flight(queue).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_is_not_repeated_for_each_record() {
        let hanging = Arc::new(Hanging::default());
        let samples = InFlight::new(Arc::clone(&hanging) as _);
        let began = Instant::now();
        for _ in 0..30 {
            let now = Timestamp::default() + began.elapsed();
            assert_eq!(samples.of(Queue::Retry(0), now).await, 0);
        }
        assert_eq!(hanging.0.load(Ordering::Relaxed), 1);
    }
}

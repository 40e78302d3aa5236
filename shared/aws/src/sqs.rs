//! Queues in SQS.

mod hiding;

use std::collections::HashSet;

use async_trait::async_trait;
use aws_sdk_sqs::{
    Client,
    error::ProvideErrorMetadata,
    types::{
        DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName as Attribute,
        QueueAttributeName, SendMessageBatchRequestEntry,
    },
};
use futures::future::join_all;
use gridpost_core::{delivery::queue::Queue, poison::Poisoned, time::Timestamp};
use gridpost_ports::{Outgoing, PoisonQueue, PortError, QueueReceiver, QueueSender};
use gridpost_runtime::config::{
    SettingError, queue_url, retry_queue_urls, retry_queues_sent_to, slow_queue_sent_to,
};

use self::hiding::Hiding;
use super::port_error;

/// Most entries of one batch request. Source: SQS quotas.
const ENTRIES_MAX: usize = 10;

/// Most bytes of all bodies of one batch request (1 MiB), less 16 KiB for what else SQS may count.
const BATCH_BYTES_MAX: usize = 1_048_576 - 16_384;

/// Any wait makes a receive ask all servers of a queue instead of a sample.
/// Source: SQS developer guide, "Amazon SQS short and long polling".
const WAIT_S: i32 = 1;

/// The URLs of the queues; those that the function does not use are empty.
#[derive(Clone, Debug, Default)]
pub struct QueueUrls {
    pub dispatch: String,
    pub retry: Vec<String>,
    /// How many retry queues get messages, if not all do.
    pub retry_sent_to: Option<usize>,
    pub slow: String,
    /// Whether the slow queue gets messages; otherwise it is emptied.
    pub slow_sent_to: bool,
    pub dead_letter: String,
    pub fan_out: String,
    pub redrive: String,
    pub poison: String,
}

impl QueueUrls {
    /// Reads the URLs from the environment.
    pub fn from_env() -> Result<Self, SettingError> {
        Ok(Self {
            dispatch: queue_url(Queue::Dispatch)?,
            retry: retry_queue_urls()?,
            retry_sent_to: Some(retry_queues_sent_to()?),
            slow: queue_url(Queue::Slow)?,
            slow_sent_to: slow_queue_sent_to()?,
            dead_letter: queue_url(Queue::DeadLetter)?,
            fan_out: queue_url(Queue::FanOut)?,
            redrive: queue_url(Queue::Redrive)?,
            poison: queue_url(Queue::Poison)?,
        })
    }

    /// Finds a queue that dispatch reads by its name, the end of its URL and ARN.
    pub fn named(&self, name: &str) -> Option<Queue> {
        let is = |url: &String| url.rsplit('/').next() == Some(name);
        if is(&self.dispatch) {
            return Some(Queue::Dispatch);
        }
        if is(&self.slow) {
            return Some(Queue::Slow);
        }
        self.retry.iter().position(is).map(Queue::Retry)
    }

    /// Counts the retry queues that get messages.
    pub fn retry_shards(&self) -> usize {
        let all = self.retry.len();
        self.retry_sent_to.map_or(all, |sent_to| all.min(sent_to))
    }

    fn of(&self, queue: Queue) -> Option<&str> {
        let url = match queue {
            Queue::Dispatch => &self.dispatch,
            Queue::Retry(shard) => self.retry.get(shard)?,
            Queue::Slow => &self.slow,
            Queue::DeadLetter => &self.dead_letter,
            Queue::FanOut => &self.fan_out,
            Queue::Redrive => &self.redrive,
            Queue::Poison => &self.poison,
        };
        Some(url.as_str()).filter(|url| !url.is_empty())
    }
}

/// Gridpost's queues in SQS.
#[derive(Clone, Debug)]
pub struct SqsQueues {
    client: Client,
    urls: QueueUrls,
    hiding: Hiding,
}

impl SqsQueues {
    pub fn new(client: Client, urls: QueueUrls) -> Self {
        Self { client, urls, hiding: Hiding::default() }
    }

    /// Counts the retry queues that get messages.
    pub fn retry_shards(&self) -> usize {
        self.urls.retry_shards()
    }

    /// Whether the slow queue gets messages.
    pub fn sends_to_slow(&self) -> bool {
        self.urls.slow_sent_to && self.has_slow_queue()
    }

    /// Whether there is a slow queue, which may hold messages.
    pub fn has_slow_queue(&self) -> bool {
        !self.urls.slow.is_empty()
    }

    fn url(&self, call: &'static str, queue: Queue) -> Result<&str, PortError> {
        let missing = || PortError::new(call, format!("no URL is set for the queue {queue:?}"));
        self.urls.of(queue).ok_or_else(missing)
    }

    /// Sends one batch request; results are in the order of its entries.
    async fn send_batch(&self, url: &str, batch: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        const CALL: &str = "sqs:SendMessageBatch";
        let count = batch.len();
        let entry = |(index, message): (usize, Outgoing)| {
            SendMessageBatchRequestEntry::builder()
                .id(index.to_string())
                .message_body(message.body)
                .message_group_id(message.group)
                .set_delay_seconds(i32::try_from(message.delay_s).ok().filter(|delay| *delay > 0))
                .build()
                .expect("id and body are set")
        };
        let entries = batch.into_iter().enumerate().map(entry).collect();
        let sent =
            self.client.send_message_batch().queue_url(url).set_entries(Some(entries)).send().await;
        match sent {
            Ok(answer) => {
                let sent: HashSet<_> = answer.successful().iter().map(|entry| entry.id()).collect();
                let failure = |id: &str| {
                    let failed = answer.failed().iter().find(|entry| entry.id() == id);
                    let reason = failed.map_or("no answer for this entry", |entry| entry.code());
                    PortError::new(CALL, reason)
                };
                let answer_of = |index: usize| {
                    let id = index.to_string();
                    if sent.contains(id.as_str()) { Ok(()) } else { Err(failure(&id)) }
                };
                (0..count).map(answer_of).collect()
            }
            Err(error) => {
                let error = port_error(CALL, error);
                (0..count).map(|_| Err(PortError::new(CALL, &error.reason))).collect()
            }
        }
    }

    /// Sums some of SQS's counters of a queue.
    async fn counts(&self, queue: Queue, names: &[QueueAttributeName]) -> Result<u64, PortError> {
        const CALL: &str = "sqs:GetQueueAttributes";
        let asked = self
            .client
            .get_queue_attributes()
            .queue_url(self.url(CALL, queue)?)
            .set_attribute_names(Some(names.to_vec()))
            .send()
            .await;
        let asked = asked.map_err(|error| {
            let code = error.code().unwrap_or("no code").to_owned();
            tracing::debug!(code, "queue attributes could not be read");
            port_error(CALL, error)
        })?;
        let count = |name: &QueueAttributeName| -> Option<u64> {
            asked.attributes().and_then(|all| all.get(name))?.parse().ok()
        };
        let sum = names.iter().map(count).sum::<Option<u64>>();
        sum.ok_or_else(|| PortError::new(CALL, "the answer lacks a number that was asked for"))
    }
}

/// Splits messages into batch requests, in order: at most ten each, and no more bytes than fit.
fn batches(messages: Vec<Outgoing>) -> Vec<Vec<Outgoing>> {
    let mut batches: Vec<Vec<Outgoing>> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        let size = message.body.len();
        match batches.last_mut() {
            Some(last) if last.len() < ENTRIES_MAX && bytes + size <= BATCH_BYTES_MAX => {
                bytes += size;
                last.push(message);
            }
            _ => {
                bytes = size;
                batches.push(vec![message]);
            }
        }
    }
    batches
}

#[async_trait]
impl QueueSender for SqsQueues {
    async fn send(&self, queue: Queue, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        let url = match self.url("sqs:SendMessageBatch", queue) {
            Ok(url) => url,
            Err(error) => {
                let refused = |_| Err(PortError::new(error.call, &error.reason));
                return messages.iter().map(refused).collect();
            }
        };
        let sent = batches(messages).into_iter().map(|batch| self.send_batch(url, batch));
        join_all(sent).await.into_iter().flatten().collect()
    }
}

#[async_trait]
impl QueueReceiver for SqsQueues {
    async fn hide(&self, queue: Queue, receipt: &str, seconds: u32) -> Result<(), PortError> {
        let url = self.url("sqs:ChangeMessageVisibilityBatch", queue)?;
        self.hiding.hide(&self.client, url, (receipt, seconds)).await
    }

    async fn delete(&self, queue: Queue, receipts: Vec<String>) -> Result<(), PortError> {
        const CALL: &str = "sqs:DeleteMessageBatch";
        let url = self.url(CALL, queue)?;
        for receipts in receipts.chunks(ENTRIES_MAX) {
            let entry = |(index, receipt): (usize, &String)| {
                DeleteMessageBatchRequestEntry::builder()
                    .id(index.to_string())
                    .receipt_handle(receipt)
                    .build()
                    .expect("id and receipt are set")
            };
            let entries = receipts.iter().enumerate().map(entry).collect();
            let deleted = self
                .client
                .delete_message_batch()
                .queue_url(url)
                .set_entries(Some(entries))
                .send()
                .await
                .map_err(|error| port_error(CALL, error))?;
            // An unknown receipt belongs to a message that was deleted or received again.
            let real = |code: &str| !code.contains("ReceiptHandleIsInvalid");
            if let Some(failed) = deleted.failed().iter().find(|entry| real(entry.code())) {
                return Err(PortError::new(CALL, failed.code()));
            }
        }
        Ok(())
    }

    async fn in_flight(&self, queue: Queue) -> Result<u64, PortError> {
        self.counts(queue, &[QueueAttributeName::ApproximateNumberOfMessagesNotVisible]).await
    }

    async fn backlog(&self, queue: Queue) -> Result<u64, PortError> {
        let all = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        self.counts(queue, &all).await
    }

    async fn visible(&self, queue: Queue) -> Result<u64, PortError> {
        self.counts(queue, &[QueueAttributeName::ApproximateNumberOfMessages]).await
    }
}

#[async_trait]
impl PoisonQueue for SqsQueues {
    async fn receive(&self, hidden_s: u32) -> Result<Vec<Poisoned>, PortError> {
        const CALL: &str = "sqs:ReceiveMessage";
        let received = self
            .client
            .receive_message()
            .queue_url(self.url(CALL, Queue::Poison)?)
            .max_number_of_messages(i32::try_from(ENTRIES_MAX).unwrap_or(i32::MAX))
            .visibility_timeout(i32::try_from(hidden_s).unwrap_or(i32::MAX))
            .wait_time_seconds(WAIT_S)
            .message_system_attribute_names(Attribute::All)
            .send()
            .await;
        let messages = received.map_err(|error| port_error(CALL, error))?.messages;
        Ok(messages.unwrap_or_default().into_iter().filter_map(poisoned).collect())
    }

    async fn count(&self) -> Result<u64, PortError> {
        self.backlog(Queue::Poison).await
    }
}

/// SQS always gives id and receipt.
fn poisoned(message: Message) -> Option<Poisoned> {
    let attribute = |name: &Attribute| message.attributes.as_ref()?.get(name).cloned();
    let number = |name| attribute(name).and_then(|text| text.parse::<i64>().ok());
    let count = number(&Attribute::ApproximateReceiveCount);
    let source = attribute(&Attribute::DeadLetterQueueSourceArn);
    Some(Poisoned {
        sent_at: Timestamp::from_millis(number(&Attribute::SentTimestamp).unwrap_or_default()),
        receive_count: count.and_then(|count| u32::try_from(count).ok()).unwrap_or(1),
        moved_from: source.and_then(|arn| arn.rsplit(':').next().map(str::to_owned)),
        group: attribute(&Attribute::MessageGroupId),
        id: message.message_id?,
        receipt: message.receipt_handle?,
        body: message.body.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_that_are_emptied_are_read_and_not_sent_to() {
        let retry: Vec<_> = (0..4).map(|shard| format!("https://q/g-retry-{shard}")).collect();
        for (sent_to, want) in
            [(None, 4), (Some(1), 1), (Some(3), 3), (Some(4), 4), (Some(usize::MAX), 4)]
        {
            let urls =
                QueueUrls { retry: retry.clone(), retry_sent_to: sent_to, ..QueueUrls::default() };
            assert_eq!(urls.retry_shards(), want, "{sent_to:?}");
            assert_eq!(urls.named("g-retry-3"), Some(Queue::Retry(3)), "it is read");
        }
    }

    fn message(bytes: usize) -> Outgoing {
        Outgoing::new("x".repeat(bytes), "t/s".to_owned(), 0)
    }

    #[test]
    fn batches_hold_ten_and_a_mebibyte() {
        let table: [(Vec<usize>, Vec<usize>); 4] = [
            (vec![1; 25], vec![10, 10, 5]),
            (vec![262_144; 5], vec![3, 2]),
            (vec![1_048_576], vec![1]),
            (vec![], vec![]),
        ];
        for (sizes, want) in table {
            let cut = batches(sizes.iter().map(|size| message(*size)).collect());
            assert_eq!(cut.iter().map(Vec::len).collect::<Vec<_>>(), want, "{sizes:?}");
        }
    }

    #[test]
    fn a_message_is_read_with_where_it_came_from() {
        let bare = || Message::builder().message_id("m").receipt_handle("r").body("b");
        let arn = "arn:aws:sqs:us-east-1:123456789012:gridpost-retry-1";
        let moved = bare()
            .attributes(Attribute::SentTimestamp, "1500")
            .attributes(Attribute::ApproximateReceiveCount, "1001")
            .attributes(Attribute::DeadLetterQueueSourceArn, arn)
            .attributes(Attribute::MessageGroupId, "t/s");
        let moved = poisoned(moved.build()).expect("a message");
        assert_eq!((moved.sent_at.as_millis(), moved.receive_count), (1_500, 1_001));
        assert_eq!(moved.moved_from.as_deref(), Some("gridpost-retry-1"));
        assert_eq!(moved.group.as_deref(), Some("t/s"));
        let bare = poisoned(bare().build()).expect("a message");
        assert_eq!((bare.receive_count, bare.moved_from, bare.group), (1, None, None));
        assert!(poisoned(Message::builder().body("b").build()).is_none());
    }
}

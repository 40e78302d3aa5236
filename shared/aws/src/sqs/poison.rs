//! The poison queue, for operators.

use async_trait::async_trait;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName as Attribute, QueueAttributeName};

use super::{ENTRIES_MAX, SqsQueues};
use crate::port_error;
use gridpost_core::{delivery::queue::Queue, poison::Poisoned, time::Timestamp};
use gridpost_ports::{PoisonQueue, PortError};

/// Any wait makes a receive ask all servers of a queue instead of a sample of them.
///
/// Source: SQS developer guide, "Amazon SQS short and long polling".
const WAIT_S: i32 = 1;

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
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        self.counts(Queue::Poison, &names).await
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

//! An event source mapping: it receives messages from a queue, invokes a function with them, and
//! deletes those that the reply does not name.

use std::{collections::HashSet, sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use bytes::Bytes;
use serde_json::Value;
use tokio::{
    sync::{Semaphore, watch},
    time::Instant,
};

use super::{aws::Cloud, book::Book, queue::Message, sandbox::Function};

/// Most records of a batch, as the deployment sets it.
const RECORDS_MAX: usize = 10;

/// How long a received message is hidden: the deployment's default.
const VISIBILITY: Duration = Duration::from_secs(240);

/// Most bytes of an invocation, 6 MB, less the envelopes of the bodies. Source: Lambda quotas.
const PAYLOAD_BYTES_MAX: usize = 6 * 1_048_576 - 65_536;

/// The places that the mappings connect.
pub struct Mappings {
    pub cloud: Arc<Cloud>,
    pub function: Function,
    /// Records what is handed over.
    pub book: Arc<Book>,
    /// Whether they poll.
    pub enabled: watch::Sender<bool>,
}

/// Polls a queue forever, with up to this number of invocations at the same time.
pub async fn poll(mappings: Arc<Mappings>, queue: &'static str, at_once: usize) {
    let slots = Arc::new(Semaphore::new(at_once));
    let mut enabled = mappings.enabled.subscribe();
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        let polled = mappings.cloud.queue(queue);
        let received = loop {
            if enabled.wait_for(|enabled| *enabled).await.is_err() {
                return;
            }
            let received =
                polled.receive(RECORDS_MAX, PAYLOAD_BYTES_MAX, VISIBILITY, Instant::now());
            if !received.is_empty() {
                break received;
            }
            polled.news().await;
        };
        let mappings = Arc::clone(&mappings);
        tokio::spawn(async move {
            mappings.cloud.count("sqs:ReceiveMessage");
            // A failed invocation leaves its messages hidden, until they come back by themselves.
            if let Err(error) = mappings.invoke(queue, &received).await {
                mappings.cloud.complain(format!("{queue}: {error:#}"));
            }
            drop(slot);
        });
    }
}

impl Mappings {
    /// Invokes the function with a batch, and deletes what it is done with.
    async fn invoke(&self, queue: &str, received: &[Message]) -> anyhow::Result<()> {
        let (handed, book) = (received.to_vec(), Arc::clone(&self.book));
        let on_hand = move || handed.iter().for_each(|message| book.handed_to_dispatch(message));
        let answer = self.function.invoke(sqs_event(queue, received), on_hand).await?;
        let done = done(&answer, received)?;
        if !done.is_empty() {
            self.cloud.count("sqs:DeleteMessageBatch");
        }
        done.iter().for_each(|message| self.cloud.queue(queue).delete(&message.receipt()));
        Ok(())
    }
}

/// The messages that a reply does not keep. Source: AWS Lambda developer guide, "Implementing partial
/// batch responses": an invalid reply fails the whole batch.
fn done<'m>(answer: &[u8], received: &'m [Message]) -> anyhow::Result<Vec<&'m Message>> {
    let reply: Value = serde_json::from_slice(answer)?;
    ensure!(reply.is_null() || reply.is_object(), "the reply is not that of a batch: {reply}");
    let mut kept = HashSet::new();
    for failure in reply["batchItemFailures"].as_array().into_iter().flatten() {
        let id = &failure["itemIdentifier"];
        let message = received.iter().find(|message| message.id() == *id);
        let message = message.with_context(|| format!("the reply names {id}, not in the batch"))?;
        kept.insert(message.number);
    }
    Ok(received.iter().filter(|message| !kept.contains(&message.number)).collect())
}

/// SQS's event, with all members that Lambda sends.
fn sqs_event(queue: &str, received: &[Message]) -> Bytes {
    let record = |message: &Message| {
        format!(
            concat!(
                r#"{{"messageId":"{id}","receiptHandle":"{receipt}","body":{body},"attributes":{{"#,
                r#""ApproximateReceiveCount":"{receives}","SentTimestamp":"{sent}","#,
                r#""SenderId":"AROAEXAMPLEEXAMPLE:gridpost-ingest","#,
                r#""ApproximateFirstReceiveTimestamp":"{sent}","MessageGroupId":"{group}"}},"#,
                r#""messageAttributes":{{}},"md5OfBody":"00000000000000000000000000000000","#,
                r#""eventSource":"aws:sqs","awsRegion":"us-east-1","#,
                r#""eventSourceARN":"arn:aws:sqs:us-east-1:123456789012:{queue}"}}"#,
            ),
            id = message.id(),
            receipt = message.receipt(),
            body = message.body,
            receives = message.receives,
            sent = message.sent_ms,
            group = message.group,
            queue = queue,
        )
    };
    let records: Vec<_> = received.iter().map(record).collect();
    format!(r#"{{"Records":[{}]}}"#, records.join(",")).into()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::bench::queue::Queue;

    #[tokio::test]
    async fn odd_replies_fail_the_batch() {
        let queue = Queue::default();
        for group in ["t/s0", "t/s1"] {
            let body = RawValue::from_string("\"b\"".to_owned()).expect("JSON");
            queue.send(body.into(), group.into(), Duration::ZERO, Instant::now());
        }
        let received = queue.receive(10, 10_000, Duration::from_secs(9), Instant::now());
        let failure = |id: &str| format!(r#"{{"batchItemFailures":[{{"itemIdentifier":{id}}}]}}"#);
        let known = format!(r#""{}""#, received[1].id());
        let table = [
            ("null".to_owned(), Some(2)),
            ("{}".to_owned(), Some(2)),
            (r#"{"batchItemFailures":[]}"#.to_owned(), Some(2)),
            (failure(&known), Some(1)),
            (failure(r#""""#), None),
            (failure("null"), None),
            (failure(r#""else""#), None),
            (r#"{"batchItemFailures":[{}]}"#.to_owned(), None),
            ("[]".to_owned(), None),
            ("no JSON".to_owned(), None),
        ];
        for (answer, want) in table {
            let done = done(answer.as_bytes(), &received).ok().map(|done| done.len());
            assert_eq!(done, want, "{answer}");
        }
    }
}

//! An event source mapping: it receives messages from a queue, invokes a function with them, and
//! deletes those that the reply does not name.

use std::{collections::HashSet, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use bytes::Bytes;
use serde::Deserialize;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::Instant,
};

use super::{
    aws::Cloud,
    book::Book,
    queue::{Message, Queue},
    sandbox::Function,
};

/// Most records of a batch, as the deployment sets it.
const RECORDS_MAX: usize = 10;

/// How long a received message is hidden: the deployment's default.
const VISIBILITY: Duration = Duration::from_secs(240);

/// Most bytes of an invocation, 6 MB, less the envelopes of the bodies. Source: Lambda quotas.
const PAYLOAD_BYTES_MAX: usize = 6 * 1_048_576 - 65_536;

/// What a mapping connects.
pub struct Mapping {
    /// The queue's name.
    pub name: &'static str,
    /// The queue.
    pub queue: Arc<Queue>,
    /// Counts the calls.
    pub cloud: Arc<Cloud>,
    /// What is invoked.
    pub function: Arc<Function>,
    /// Most invocations at the same time.
    pub concurrency: usize,
    /// Records what is handed over.
    pub book: Arc<Book>,
    /// Receives failures of the function.
    pub failures: mpsc::UnboundedSender<String>,
    /// Polls while this is true.
    pub enabled: watch::Receiver<bool>,
}

/// Lambda's reply for a batch.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Reply {
    batch_item_failures: Vec<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Failure {
    item_identifier: Option<String>,
}

/// Polls forever.
pub async fn poll(mut mapping: Mapping) {
    let slots = Arc::new(Semaphore::new(mapping.concurrency));
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        let received = loop {
            if mapping.enabled.wait_for(|enabled| *enabled).await.is_err() {
                return;
            }
            let now = Instant::now();
            let received = mapping.queue.receive(RECORDS_MAX, PAYLOAD_BYTES_MAX, VISIBILITY, now);
            if !received.is_empty() {
                break received;
            }
            mapping.queue.news().await;
        };
        mapping.cloud.count("sqs:ReceiveMessage");
        let (name, queue) = (mapping.name, Arc::clone(&mapping.queue));
        let (cloud, failures) = (Arc::clone(&mapping.cloud), mapping.failures.clone());
        let (function, book) = (Arc::clone(&mapping.function), Arc::clone(&mapping.book));
        tokio::spawn(async move {
            // A failed invocation leaves its messages hidden, until they come back by themselves.
            match invoke(name, &function, book, &received).await {
                Err(error) => drop(failures.send(format!("{name}: {error:#}"))),
                Ok(gone) if gone.is_empty() => {}
                Ok(gone) => {
                    cloud.count("sqs:DeleteMessageBatch");
                    gone.iter().for_each(|message| queue.delete(&message.receipt()));
                }
            }
            drop(slot);
        });
    }
}

/// Invokes the function with a batch; returns the messages to delete.
async fn invoke<'m>(
    name: &str,
    function: &Function,
    book: Arc<Book>,
    received: &'m [Message],
) -> anyhow::Result<Vec<&'m Message>> {
    let handed = received.to_vec();
    let on_hand = move || handed.iter().for_each(|message| book.handed_to_dispatch(message));
    let answer = function.invoke(sqs_event(name, received), on_hand).await?;
    done(&answer, received)
}

/// The messages that a reply does not keep. Source: AWS Lambda developer guide, "Implementing partial
/// batch responses": an invalid reply fails the whole batch.
fn done<'m>(answer: &[u8], received: &'m [Message]) -> anyhow::Result<Vec<&'m Message>> {
    let reply: Option<Reply> =
        serde_json::from_slice(answer).context("the reply is not that of a batch")?;
    let failures = reply.unwrap_or_default().batch_item_failures;
    let mut kept = HashSet::new();
    for Failure { item_identifier: id } in failures {
        match received.iter().find(|message| Some(message.id()) == id) {
            Some(message) => kept.insert(message.number),
            None => bail!("the reply names {id:?}, which is not in the batch"),
        };
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
    use aws_lambda_events::event::sqs::SqsEvent;
    use serde_json::value::RawValue;

    use super::*;

    fn received(numbers: &[u64]) -> Vec<Message> {
        let queue = Queue::default();
        for number in numbers {
            let body = RawValue::from_string(format!(r#""{{\"n\":{number}}}""#)).expect("JSON");
            queue.send(body.into(), "t/s0".into(), Duration::ZERO, (Instant::now(), 17));
        }
        queue.receive(10, 10_000, Duration::from_secs(9), Instant::now())
    }

    #[tokio::test]
    async fn the_event_is_one_of_sqs() {
        let event = sqs_event("gridpost-dispatch", &received(&[7, 8]));
        let event: SqsEvent = serde_json::from_slice(&event).expect("an event");
        let bodies = event.records.iter().map(|record| record.body.as_deref());
        assert_eq!(bodies.collect::<Vec<_>>(), [Some(r#"{"n":7}"#), Some(r#"{"n":8}"#)]);
        assert_eq!(event.records[0].attributes["ApproximateReceiveCount"], "1");
    }

    #[tokio::test]
    async fn odd_replies_fail_the_batch() {
        let received = received(&[1, 2]);
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
            ("no JSON".to_owned(), None),
        ];
        for (answer, want) in table {
            let done = done(answer.as_bytes(), &received).ok().map(|done| done.len());
            assert_eq!(done, want, "{answer}");
        }
    }
}

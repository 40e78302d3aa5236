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
    queue::{Queue, Received},
    sandbox::Function,
};

/// Most records of a batch, as the deployment sets it.
const RECORDS_MAX: usize = 10;

/// Most bytes of an invocation, 6 MB, less the envelopes of the bodies. Source: Lambda quotas.
const PAYLOAD_BYTES_MAX: usize = 6 * 1_048_576 - 65_536;

/// What a mapping connects.
pub struct Mapping {
    /// The queue's name.
    pub name: String,
    /// The queue.
    pub queue: Arc<Queue>,
    /// Counts the calls.
    pub cloud: Arc<Cloud>,
    /// What is invoked.
    pub function: Arc<Function>,
    /// Most invocations at the same time.
    pub concurrency: usize,
    /// How long a received message is hidden.
    pub visibility: Duration,
    /// Records what is handed over.
    pub book: Arc<Book>,
    /// Receives failures of the function.
    pub failures: mpsc::UnboundedSender<String>,
    /// Polls while this is true.
    pub enabled: watch::Receiver<bool>,
}

/// Lambda's reply for a batch.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Reply {
    batch_item_failures: Vec<Failure>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Failure {
    item_identifier: Option<String>,
}

/// Polls forever.
pub async fn poll(mapping: Arc<Mapping>) {
    let slots = Arc::new(Semaphore::new(mapping.concurrency));
    let mut enabled = mapping.enabled.clone();
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let received = loop {
            if enabled.wait_for(|enabled| *enabled).await.is_err() {
                return;
            }
            let (now, visibility) = (Instant::now(), mapping.visibility);
            let received = mapping.queue.receive(RECORDS_MAX, PAYLOAD_BYTES_MAX, visibility, now);
            if !received.is_empty() {
                break received;
            }
            mapping.queue.news().await;
        };
        mapping.cloud.count("sqs:ReceiveMessage");
        let mapping = Arc::clone(&mapping);
        tokio::spawn(async move {
            if let Err(error) = invoke(&mapping, received).await {
                // The receiver is gone once a run is over.
                let _ = mapping.failures.send(format!("{}: {error:#}", mapping.name));
            }
            drop(slot);
        });
    }
}

async fn invoke(mapping: &Mapping, received: Vec<Received>) -> anyhow::Result<()> {
    let payload = sqs_event(&mapping.name, &received);
    let (book, handed) = (Arc::clone(&mapping.book), received.clone());
    let on_hand = move || {
        for one in &handed {
            let message = &one.message;
            book.handed_to_dispatch(&message.group, message.body.get().as_bytes(), message.sent_at);
        }
    };
    // A failed invocation leaves its messages hidden, until they come back by themselves.
    let answer = mapping.function.invoke(payload, on_hand).await?;
    let kept = kept(&answer, &received)?;
    let gone: Vec<_> = received.iter().filter(|one| !kept.contains(&one.message.id())).collect();
    if !gone.is_empty() {
        mapping.cloud.count("sqs:DeleteMessageBatch");
    }
    gone.into_iter().for_each(|one| mapping.queue.delete(one.receipt));
    Ok(())
}

/// The ids of the messages that a reply keeps. Source: AWS Lambda developer guide, "Implementing
/// partial batch responses": an invalid reply fails the whole batch.
fn kept(answer: &[u8], received: &[Received]) -> anyhow::Result<HashSet<String>> {
    let reply: Option<Reply> =
        serde_json::from_slice(answer).context("the reply is not that of a batch")?;
    let known: HashSet<_> = received.iter().map(|one| one.message.id()).collect();
    let mut kept = HashSet::new();
    for failure in reply.unwrap_or_default().batch_item_failures {
        match failure.item_identifier {
            Some(id) if known.contains(&id) => kept.insert(id),
            id => bail!("the reply names {id:?}, which is not in the batch"),
        };
    }
    Ok(kept)
}

/// SQS's event, with all members that Lambda sends.
fn sqs_event(queue: &str, received: &[Received]) -> Bytes {
    let bodies: usize = received.iter().map(|one| one.message.body.get().len()).sum();
    let mut event = Vec::with_capacity(bodies + received.len() * 768 + 64);
    event.extend_from_slice(br#"{"Records":["#);
    for (index, Received { message, receipt }) in received.iter().enumerate() {
        if index > 0 {
            event.push(b',');
        }
        let (id, body, sent) = (message.id(), message.body.get(), message.sent_ms);
        let (receives, group) = (message.receives, &message.group);
        let record = format!(
            concat!(
                r#"{{"messageId":"{id}","receiptHandle":"{receipt}","body":{body},"attributes":{{"#,
                r#""ApproximateReceiveCount":"{receives}","SentTimestamp":"{sent}","#,
                r#""SenderId":"AROAEXAMPLEEXAMPLE:gridpost-ingest","#,
                r#""ApproximateFirstReceiveTimestamp":"{sent}","MessageGroupId":"{group}"}},"#,
                r#""messageAttributes":{{}},"md5OfBody":"00000000000000000000000000000000","#,
                r#""eventSource":"aws:sqs","awsRegion":"us-east-1","#,
                r#""eventSourceARN":"arn:aws:sqs:us-east-1:123456789012:{queue}"}}"#,
            ),
            id = id,
            receipt = receipt,
            body = body,
            receives = receives,
            sent = sent,
            group = group,
            queue = queue,
        );
        event.extend_from_slice(record.as_bytes());
    }
    event.extend_from_slice(b"]}");
    event.into()
}

#[cfg(test)]
mod tests {
    use aws_lambda_events::event::sqs::SqsEvent;
    use serde_json::value::RawValue;

    use super::*;

    fn received(numbers: &[u64]) -> Vec<Received> {
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
        assert_eq!(event.records.len(), 2);
        let record = &event.records[0];
        assert_eq!(record.body.as_deref(), Some(r#"{"n":7}"#));
        assert_eq!(record.attributes["ApproximateReceiveCount"], "1");
        assert!(
            record.event_source_arn.as_ref().is_some_and(|arn| arn.ends_with(":gridpost-dispatch"))
        );
    }

    #[tokio::test]
    async fn odd_replies_fail_the_batch() {
        let received = received(&[1, 2]);
        let id = received[1].message.id();
        let one = format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"{id}"}}]}}"#);
        let table = [
            ("null", Some(0)),
            ("{}", Some(0)),
            (r#"{"batchItemFailures":[]}"#, Some(0)),
            (&one, Some(1)),
            (r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#, None),
            (r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#, None),
            (r#"{"batchItemFailures":[{"itemIdentifier":"else"}]}"#, None),
            (r#"{"batchItemFailures":[{}]}"#, None),
            ("no JSON", None),
        ];
        for (answer, want) in table {
            let kept = kept(answer.as_bytes(), &received).ok().map(|kept| kept.len());
            assert_eq!(kept, want, "{answer}");
        }
    }
}

//! Hides messages, several in one call: SQS bills calls, and takes ten messages in one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use aws_sdk_sqs::{Client, types::ChangeMessageVisibilityBatchRequestEntry};
use futures::future::join_all;
use gridpost_ports::PortError;
use tokio::sync::oneshot;

use super::ENTRIES_MAX;
use crate::port_error;

const CALL: &str = "sqs:ChangeMessageVisibilityBatch";

/// How long a message waits for others. The deliveries of a batch fail within moments of each other where one
/// endpoint refuses them, and a message is hidden for seconds at least.
const JOINED_WITHIN: Duration = Duration::from_millis(5);

/// The messages that wait for a call, by the URL of their queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Hiding {
    waiting: Arc<Mutex<HashMap<String, Vec<Wanted>>>>,
}

#[derive(Debug)]
struct Wanted {
    receipt: String,
    seconds: i32,
    answer: oneshot::Sender<Result<(), PortError>>,
}

impl Hiding {
    /// Hides a message of a queue, in one call with those that others hide at the same time.
    pub(super) async fn hide(
        &self,
        client: &Client,
        url: &str,
        (receipt, seconds): (&str, u32),
    ) -> Result<(), PortError> {
        let (answer, answered) = oneshot::channel();
        let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
        let wanted = Wanted { receipt: receipt.to_owned(), seconds, answer };
        if self.add(url, wanted) {
            let (hiding, client, url) = (self.clone(), client.clone(), url.to_owned());
            // A task of its own: the caller may give up, and the others still want their answers.
            tokio::spawn(async move {
                tokio::time::sleep(JOINED_WITHIN).await;
                hiding.send(&client, &url).await;
            });
        }
        answered.await.unwrap_or_else(|_| Err(PortError::new(CALL, "no answer came")))
    }

    /// Returns whether it is the first that waits.
    fn add(&self, url: &str, wanted: Wanted) -> bool {
        let mut waiting = self.waiting.lock().expect("no panic while held");
        let all = waiting.entry(url.to_owned()).or_default();
        all.push(wanted);
        all.len() == 1
    }

    async fn send(&self, client: &Client, url: &str) {
        let taken = self.waiting.lock().expect("no panic while held").remove(url);
        let mut all = taken.unwrap_or_default();
        let mut calls = Vec::new();
        while !all.is_empty() {
            let rest = all.split_off(all.len().min(ENTRIES_MAX));
            calls.push(send_batch(client, url, std::mem::replace(&mut all, rest)));
        }
        join_all(calls).await;
    }
}

async fn send_batch(client: &Client, url: &str, batch: Vec<Wanted>) {
    let entry = |(index, wanted): (usize, &Wanted)| {
        ChangeMessageVisibilityBatchRequestEntry::builder()
            .id(index.to_string())
            .receipt_handle(&wanted.receipt)
            .visibility_timeout(wanted.seconds)
            .build()
            .expect("id and receipt are set")
    };
    let entries = batch.iter().enumerate().map(entry).collect();
    let call = client.change_message_visibility_batch().queue_url(url).set_entries(Some(entries));
    let sent = call.send().await.map_err(|error| port_error(CALL, error));
    for (index, wanted) in batch.into_iter().enumerate() {
        let id = index.to_string();
        let answer = match &sent {
            Err(error) => Err(PortError::new(CALL, &error.reason)),
            Ok(answer) if answer.successful().iter().any(|one| one.id() == id) => Ok(()),
            Ok(answer) => {
                let failed = answer.failed().iter().find(|one| one.id() == id);
                let reason = failed.map_or("no answer for this entry", |one| one.code());
                Err(PortError::new(CALL, reason))
            }
        };
        // A caller that has given up wants none.
        let _ = wanted.answer.send(answer);
    }
}

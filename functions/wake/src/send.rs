//! Sends parked deliveries back to their retry queues. The caller removes what was sent.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt};
use gridpost_core::{
    delivery::{
        Delivery, claim,
        parking::{self, Parked},
        queue::Queue,
    },
    error::chain,
    time::Timestamp,
};
use gridpost_ports::Outgoing;

use crate::Context;

/// The most messages of one SQS call.
const BATCH: usize = 10;

/// Concurrent calls of one page.
const CALLS_AT_ONCE: usize = 4;

pub(crate) enum SendResult {
    Sent(Parked),
    /// A later try would fail too.
    Stuck(Parked, String),
    Kept(Parked, Option<String>),
}

/// Fits deliveries to the present queues. Returns them with their queues, and those that can't be sent.
pub(crate) async fn fit_all(
    context: &Context,
    due: Vec<Parked>,
    until: Timestamp,
) -> (Vec<(usize, Parked)>, Vec<SendResult>) {
    let (mut fitted, mut refused) = (Vec::with_capacity(due.len()), Vec::new());
    for parked in due {
        match fitting(context, parked, until).await {
            Ok(one) => fitted.push(one),
            Err(result) => refused.push(result),
        }
    }
    (fitted, refused)
}

/// When calls may begin, and when they are given up.
#[derive(Clone, Copy)]
pub(crate) struct SendTimes {
    pub(crate) begin_until: Timestamp,
    /// `None`: never.
    pub(crate) answered_until: Option<Timestamp>,
}

/// Sends deliveries to their queues, each with the rest of its wait as delay.
pub(crate) async fn send_all(
    context: &Context,
    fitted: Vec<(usize, Parked)>,
    times: SendTimes,
) -> Vec<SendResult> {
    let mut results = Vec::with_capacity(fitted.len());
    let mut queues: BTreeMap<usize, Vec<Parked>> = BTreeMap::new();
    for (queue, parked) in fitted {
        queues.entry(queue).or_default().push(parked);
    }
    let mut batches = Vec::new();
    for (queue, mut all) in queues {
        while !all.is_empty() {
            let rest = all.split_off(all.len().min(BATCH));
            batches.push((Queue::Retry(queue), std::mem::replace(&mut all, rest)));
        }
    }
    let sent = stream::iter(batches)
        .map(|(queue, batch)| send_batch(context, queue, batch, times))
        .buffer_unordered(CALLS_AT_ONCE);
    let mut sent = std::pin::pin!(sent);
    while let Some(batch) = sent.next().await {
        results.extend(batch);
    }
    results
}

/// Fits a delivery to its present queue: there may be fewer queues, and shorter messages, than when
/// it was parked.
async fn fitting(
    context: &Context,
    parked: Parked,
    until: Timestamp,
) -> Result<(usize, Parked), SendResult> {
    let most = context.settings.queue_message_bytes_max;
    let Some(Queue::Retry(queue)) = parking::queue_now(parked.shard, context.settings.retry_shards)
    else {
        return Err(SendResult::Stuck(parked, "there is no retry queue".to_owned()));
    };
    if parked.body.len() <= most {
        return Ok((queue, parked));
    }
    let too_large = format!("{} bytes, and the queue takes {most}", parked.body.len());
    let Some(delivery) = Delivery::decode(&parked.body).ok().filter(|it| !it.is_claimed()) else {
        return Err(SendResult::Stuck(parked, too_large));
    };
    if context.clock.now() >= until {
        return Err(SendResult::Kept(parked, None));
    }
    let (key, events) = (claim::key(delivery.id), claim::encode(delivery.events()));
    if let Err(error) = context.payloads.put(&key, events).await {
        return Err(SendResult::Kept(parked, Some(chain(&error))));
    }
    let body = delivery.into_claimed().encode();
    if body.len() > most {
        return Err(SendResult::Stuck(parked, too_large));
    }
    Ok((queue, Parked { body, ..parked }))
}

async fn send_batch(
    context: &Context,
    queue: Queue,
    batch: Vec<Parked>,
    times: SendTimes,
) -> Vec<SendResult> {
    let now = context.clock.now();
    if now >= times.begin_until {
        return batch.into_iter().map(|parked| SendResult::Kept(parked, None)).collect();
    }
    let messages = batch.iter().map(|parked| {
        Outgoing::new(
            parked.body.clone(),
            parked.group.clone(),
            parking::delay_s(parked.due.since(now)),
        )
    });
    let call = context.sender.send(queue, messages.collect());
    let answers = match times.answered_until {
        None => call.await,
        // It may have been sent: it stays, at worst as a duplicate.
        Some(at) => tokio::time::timeout(context.clock.left(at), call).await.unwrap_or_default(),
    };
    let mut answers = answers.into_iter();
    let result = |parked| match answers.next() {
        Some(Ok(())) => SendResult::Sent(parked),
        Some(Err(error)) => SendResult::Kept(parked, Some(chain(&error))),
        None => SendResult::Kept(parked, Some("no answer came".to_owned())),
    };
    batch.into_iter().map(result).collect()
}

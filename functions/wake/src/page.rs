//! Sends one page of parked deliveries, removes them, and parks again what can't be sent.

use std::{collections::BTreeMap, sync::Mutex};

use futures::stream::{self, StreamExt};
use gridpost_core::{
    delivery::{
        Delivery, claim,
        parking::{self, Parked},
        queue::Queue,
    },
    error::chain,
    metric,
    time::Timestamp,
};
use gridpost_ports::{Outgoing, PortError};

use crate::{
    Context, Woken,
    lot::{self, Kept, Lot},
    strands::Strand,
};

/// The most messages of one SQS call.
const BATCH: usize = 10;

/// Calls of one page that are under way together.
const CALLS_AT_ONCE: usize = 4;

/// The result of a page.
pub(crate) struct Page {
    pub(crate) strand: Strand,
    /// How many were sent, and parked again.
    pub(crate) done: Woken,
    /// Where the strand goes on, if it does.
    pub(crate) rest: Option<Strand>,
    /// Whether nothing of the strand is left, where it does not go on.
    pub(crate) is_whole: bool,
    /// Why this run gives the strand up.
    pub(crate) failed: Option<PortError>,
    /// Whether it failed before anything of it was sent: reading it again makes no duplicates.
    pub(crate) is_unread: bool,
    /// The lots that are to be emptied as far as their pauses allow.
    pub(crate) lots: Vec<Lot>,
}

/// The result of one delivery.
pub(crate) enum SendResult {
    Sent(Parked),
    /// It can't be sent, and a later try would fail too.
    Stuck(Parked, String),
    /// It was not sent this time.
    Kept(Parked, Option<String>),
}

/// Sends the next page of a strand. What is refused stays parked until its minute `is_past`; then
/// it is parked again, because the next minutes must not wait for it.
pub(crate) async fn send(
    context: &Context,
    kept: &Mutex<Kept>,
    strand: Strand,
    (is_past, this_minute): (bool, i64),
    until: Timestamp,
) -> Page {
    let read = context.due.due_in(strand.minute, strand.partition, strand.after.clone()).await;
    let page = match read {
        Ok(page) => page,
        Err(error) => {
            return Page { is_unread: true, ..Page::failed(strand, Woken::default(), error) };
        }
    };
    let (watches, due): (Vec<_>, Vec<_>) =
        page.due.into_iter().partition(|parked| parked.watch.is_some());
    let mut lots = Vec::new();
    for watch in watches {
        let (lot, moved) = lot::meet(context, kept, watch, this_minute).await;
        lots.extend(lot);
        if let Err(error) = moved {
            // The watch is where it was, and the next run meets it.
            return Page { lots, ..Page::failed(strand, Woken::default(), error) };
        }
    }
    let (mut sent, mut postponed, mut is_whole) = (Vec::new(), Vec::new(), strand.is_whole);
    let (fitted, refused) = fit_all(context, due, until).await;
    let times = SendTimes { begin_until: until, answered_until: None };
    for result in send_all(context, fitted, times).await.into_iter().chain(refused) {
        match result {
            SendResult::Sent(parked) => sent.push(parked),
            SendResult::Stuck(parked, reason) => postponed.push((parked, reason)),
            SendResult::Kept(parked, Some(reason)) if is_past => postponed.push((parked, reason)),
            SendResult::Kept(..) => is_whole = false,
        }
    }
    let mut done = Woken { sent: sent.len(), postponed: 0 };
    let removed = if sent.is_empty() { Ok(()) } else { context.due.remove_all(&sent).await };
    if let Err(error) = removed {
        // The next run sends them again. Going on here would only add more of them.
        return Page { lots, ..Page::failed(strand, done, error) };
    }
    for (parked, reason) in postponed {
        if let Err(error) = postpone(context, parked, &reason).await {
            return Page { lots, ..Page::failed(strand, done, error) };
        }
        done.postponed += 1;
    }
    let goes_on = |after| Strand { after: Some(after), is_whole, reads: 0, ..strand.clone() };
    let rest = page.next.map(goes_on);
    Page { strand, done, rest, is_whole, failed: None, is_unread: false, lots }
}

impl Page {
    fn failed(strand: Strand, done: Woken, error: PortError) -> Self {
        let failed = Some(error);
        let (rest, lots) = (None, Vec::new());
        Self { strand, done, rest, is_whole: false, failed, is_unread: false, lots }
    }
}

/// Brings deliveries into the form that their queues take now. Returns them with their queues, and
/// those that can't be sent.
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

/// When calls that send may begin, and when they are given up.
#[derive(Clone, Copy)]
pub(crate) struct SendTimes {
    pub(crate) begin_until: Timestamp,
    /// `None` for as long as calls take.
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

/// The delivery in the form that its queue takes now: there may be fewer queues, and shorter
/// messages, than when it was parked.
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
    let messages = batch.iter().map(|parked| Outgoing {
        body: parked.body.clone(),
        group: parked.group.clone(),
        delay_s: parking::delay_s(parked.due.since(now)),
    });
    let call = context.sender.send(queue, messages.collect());
    let answers = match times.answered_until {
        None => call.await,
        // It may have been sent: it stays, and a duplicate follows at worst.
        Some(at) => tokio::time::timeout(at.since(now), call).await.unwrap_or_default(),
    };
    let mut answers = answers.into_iter();
    let result = |parked| match answers.next() {
        Some(Ok(())) => SendResult::Sent(parked),
        Some(Err(error)) => SendResult::Kept(parked, Some(chain(&error))),
        None => SendResult::Kept(parked, Some("no answer came".to_owned())),
    };
    batch.into_iter().map(result).collect()
}

/// Parks a delivery again that can't be sent. A crash in between leaves it twice: a duplicate.
async fn postpone(context: &Context, parked: Parked, reason: &str) -> Result<(), PortError> {
    let later = parked.clone().postponed(context.clock.now());
    context.parking.park(&later).await?;
    context.parking.remove(&parked).await?;
    context.meter.count(metric::STUCK_PARKED_COUNT, &[], 1);
    tracing::error!(
        delivery.id = %later.id,
        subscription = later.group,
        times = later.postponed,
        next = %later.due.to_iso_8601(),
        reason,
        "failed to send a parked delivery back; it is parked again",
    );
    Ok(())
}

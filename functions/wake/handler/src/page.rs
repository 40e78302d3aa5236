//! One page of parked deliveries: sent, removed, and what can't be sent parked anew.

use std::collections::BTreeMap;

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

use crate::{Context, Woken, strands::Strand};

/// Messages that one call to SQS takes.
const BATCH: usize = 10;

/// Calls of one page that are under way together.
const CALLS_AT_ONCE: usize = 4;

/// What became of a page.
pub(crate) struct Page {
    /// The strand it belongs to.
    pub(crate) strand: Strand,
    /// How many were sent, and parked anew.
    pub(crate) done: Woken,
    /// Where the strand goes on, if it does.
    pub(crate) rest: Option<Strand>,
    /// Whether nothing of the strand is left, where it does not go on.
    pub(crate) is_whole: bool,
    /// Why this run lets the strand be.
    pub(crate) failed: Option<PortError>,
    /// Whether it failed before anything of it was sent: to read it again makes no duplicates.
    pub(crate) is_unread: bool,
}

/// What became of one delivery.
enum Fate {
    /// It is in its queue.
    Sent(Parked),
    /// It can't be sent, and that will not change by itself.
    Stuck(Parked, String),
    /// It was not sent this time.
    Kept(Parked, Option<String>),
}

/// Sends the next page of a strand. What is refused stays parked, but not longer than until its
/// minute `is_past`: then it is parked anew, for the next minutes must not wait for it.
pub(crate) async fn send(
    context: &Context,
    strand: Strand,
    is_past: bool,
    until: Timestamp,
) -> Page {
    let read = context.due.due_in(strand.minute, strand.partition, strand.after.clone()).await;
    let page = match read {
        Ok(page) => page,
        Err(error) => {
            return Page { is_unread: true, ..Page::failed(strand, Woken::default(), error) };
        }
    };
    let (mut sent, mut postponed, mut is_whole) = (Vec::new(), Vec::new(), strand.is_whole);
    for fate in send_all(context, page.due, until).await {
        match fate {
            Fate::Sent(parked) => sent.push(parked),
            Fate::Stuck(parked, reason) => postponed.push((parked, reason)),
            Fate::Kept(parked, Some(reason)) if is_past => postponed.push((parked, reason)),
            Fate::Kept(..) => is_whole = false,
        }
    }
    let mut done = Woken { sent: sent.len(), postponed: 0 };
    let removed = if sent.is_empty() { Ok(()) } else { context.due.remove_all(&sent).await };
    if let Err(error) = removed {
        // They are sent once more by the next run. More of them would be, if this one went on.
        return Page::failed(strand, done, error);
    }
    for (parked, reason) in postponed {
        if let Err(error) = postpone(context, parked, &reason).await {
            return Page::failed(strand, done, error);
        }
        done.postponed += 1;
    }
    let goes_on = |after| Strand { after: Some(after), is_whole, reads: 0, ..strand.clone() };
    let rest = page.next.map(goes_on);
    Page { strand, done, rest, is_whole, failed: None, is_unread: false }
}

impl Page {
    fn failed(strand: Strand, done: Woken, error: PortError) -> Self {
        Self { strand, done, rest: None, is_whole: false, failed: Some(error), is_unread: false }
    }
}

async fn send_all(context: &Context, due: Vec<Parked>, until: Timestamp) -> Vec<Fate> {
    let mut fates = Vec::with_capacity(due.len());
    let mut queues: BTreeMap<usize, Vec<Parked>> = BTreeMap::new();
    for parked in due {
        match fitting(context, parked, until).await {
            Ok((queue, parked)) => queues.entry(queue).or_default().push(parked),
            Err(fate) => fates.push(fate),
        }
    }
    let mut batches = Vec::new();
    for (queue, mut all) in queues {
        while !all.is_empty() {
            let rest = all.split_off(all.len().min(BATCH));
            batches.push((Queue::Retry(queue), std::mem::replace(&mut all, rest)));
        }
    }
    let sent = stream::iter(batches)
        .map(|(queue, batch)| send_batch(context, queue, batch, until))
        .buffer_unordered(CALLS_AT_ONCE);
    let mut sent = std::pin::pin!(sent);
    while let Some(batch) = sent.next().await {
        fates.extend(batch);
    }
    fates
}

/// The delivery as its queue takes it now: there may be fewer queues, and shorter messages, than when
/// it was parked.
async fn fitting(
    context: &Context,
    parked: Parked,
    until: Timestamp,
) -> Result<(usize, Parked), Fate> {
    let most = context.settings.queue_message_bytes_max;
    let Some(Queue::Retry(queue)) = parking::queue_now(parked.shard, context.settings.retry_shards)
    else {
        return Err(Fate::Stuck(parked, "there is no retry queue".to_owned()));
    };
    if parked.body.len() <= most {
        return Ok((queue, parked));
    }
    let too_large = format!("{} bytes, and the queue takes {most}", parked.body.len());
    let Some(delivery) = Delivery::decode(&parked.body).ok().filter(|it| !it.is_claimed()) else {
        return Err(Fate::Stuck(parked, too_large));
    };
    if context.clock.now() >= until {
        return Err(Fate::Kept(parked, None));
    }
    let (key, events) = (claim::key(delivery.id), claim::encode(delivery.events()));
    if let Err(error) = context.payloads.put(&key, events).await {
        return Err(Fate::Kept(parked, Some(chain(&error))));
    }
    let body = delivery.into_claimed().encode();
    if body.len() > most {
        return Err(Fate::Stuck(parked, too_large));
    }
    Ok((queue, Parked { body, ..parked }))
}

async fn send_batch(
    context: &Context,
    queue: Queue,
    batch: Vec<Parked>,
    until: Timestamp,
) -> Vec<Fate> {
    let now = context.clock.now();
    if now >= until {
        return batch.into_iter().map(|parked| Fate::Kept(parked, None)).collect();
    }
    let messages = batch.iter().map(|parked| Outgoing {
        body: parked.body.clone(),
        group: parked.group.clone(),
        delay_s: parking::delay_s(parked.due.since(now)),
    });
    let mut answers = context.sender.send(queue, messages.collect()).await.into_iter();
    let fate = |parked| match answers.next() {
        Some(Ok(())) => Fate::Sent(parked),
        Some(Err(error)) => Fate::Kept(parked, Some(chain(&error))),
        None => Fate::Kept(parked, Some("no answer came".to_owned())),
    };
    batch.into_iter().map(fate).collect()
}

/// Parks one anew that can't be sent. A crash in between leaves it twice: a duplicate.
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
        "a parked delivery can't be sent back and is parked anew",
    );
    Ok(())
}

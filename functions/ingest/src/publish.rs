//! Sends matched events to the dispatch queue and counts them, for ingest and intake; sends pieces of
//! stored publishes to the fan-out queue.

use futures::future::join_all;
use gridpost_core::{
    delivery::{claim, queue::Queue},
    event::ParsedEvent,
    metric::{self, TOPIC, of},
    publish::{
        fan_out::{self, Piece},
        matching::Matched,
        pack::{Acceptance, Packed, UnsentDelivery, pack},
    },
    time::Timestamp,
};
use gridpost_ports::{Meter, Outgoing, Payloads, PortError, QueueSender, Result};
use uuid::Uuid;

/// The most bytes that a request sends. It has 29 s, and a function of the default size sends tens
/// of megabytes in a second at best.
pub const INLINE_BYTES_MAX: usize = 64 * 1_048_576;

/// Where deliveries of a publish are sent, and how many at once.
#[derive(Clone, Copy)]
pub struct SendLimits<'w> {
    pub sink: DeliverySink<'w>,
    pub queue_message_bytes_max: usize,
    /// The most deliveries that are enqueued at once: a larger fan-out is stored first.
    pub inline_fan_out: usize,
    /// The most deliveries that one message of the fan-out queue stands for, at least 1.
    pub piece_deliveries_max: usize,
}

/// Packs matched events and sends their deliveries to the dispatch queue. If they are too many,
/// stores the publish under `own_id`, which no other publish has.
/// After an error, some deliveries may have been sent; a repetition duplicates them.
pub async fn send(
    limits: SendLimits<'_>,
    matched: &Matched,
    events: &[ParsedEvent<'_>],
    acceptance: Acceptance,
    own_id: Uuid,
) -> Result<()> {
    let packed = pack(&matched.matches, events, acceptance, limits.queue_message_bytes_max);
    match packed.at_most(limits.inline_fan_out, INLINE_BYTES_MAX) {
        Some(unsent) => enqueue(limits.sink, &packed, &unsent).await,
        None => store(limits, &packed, own_id).await,
    }
}

/// Stores the publish and sends a message for each of its pieces. A crash leaves an unused object,
/// or pieces of a publish that was not confirmed.
async fn store(limits: SendLimits<'_>, packed: &Packed<'_>, publish: Uuid) -> Result<()> {
    put(limits.sink.payloads, &fan_out::key(publish), fan_out::encode(packed)).await?;
    let pieces = fan_out::cut(packed, publish, limits.piece_deliveries_max);
    let topic = packed.topic();
    tracing::info!(%publish, topic, pieces = pieces.len(), "a large fan-out was stored");
    send_pieces(limits.sink, topic, pieces).await
}

/// Counts a publish whose deliveries were sent.
pub fn count(meter: &dyn Meter, topic: &str, at: Timestamp, events: usize, matched: &Matched) {
    let add = |metric, dimensions: &[(&'static str, &str)], count: usize| {
        if count > 0 {
            meter.count_events(metric, dimensions, at, count as u64);
        }
    };
    add(metric::PUBLISH_SUCCESS_COUNT, &[(TOPIC, topic)], events);
    add(metric::UNMATCHED_EVENT_COUNT, &[(TOPIC, topic)], matched.unmatched);
    for found in &matched.matches {
        add(metric::MATCHED_EVENT_COUNT, &of(&found.subscription.key), found.events.len());
    }
}

/// The most deliveries sent at once: fifty batch requests of SQS.
const WAVE_DELIVERIES_MAX: usize = 500;

/// The most bytes sent at once, except for one larger delivery: bounds the memory of a publish to
/// hundreds of subscriptions.
const WAVE_BYTES_MAX: usize = 8 * 1_048_576;

/// The ports that send deliveries.
#[derive(Clone, Copy)]
pub struct DeliverySink<'o> {
    pub sender: &'o dyn QueueSender,
    /// Stores events that are too large for a message.
    pub payloads: &'o dyn Payloads,
}

/// Sends every delivery, failed ones once more.
/// After an error, other deliveries may have been sent: the publisher's retry duplicates them.
pub async fn enqueue(
    sink: DeliverySink<'_>,
    packed: &Packed<'_>,
    unsent: &[UnsentDelivery<'_>],
) -> Result<()> {
    for wave in waves(unsent) {
        enqueue_wave(sink, packed, wave).await?;
    }
    Ok(())
}

/// Sends the deliveries of one wave.
pub async fn enqueue_wave(
    sink: DeliverySink<'_>,
    packed: &Packed<'_>,
    wave: &[UnsentDelivery<'_>],
) -> Result<()> {
    store_events(sink.payloads, packed, wave).await?;
    let message = |one: &&UnsentDelivery<'_>| {
        Outgoing::new(packed.encode(one), one.recipient.key.to_string(), 0)
    };
    send_each(sink.sender, Queue::Dispatch, wave.iter().collect(), message).await
}

/// Sends pieces of a stored publish to the fan-out queue, whose fair-queue groups are topics.
pub async fn send_pieces(sink: DeliverySink<'_>, topic: &str, pieces: Vec<Piece>) -> Result<()> {
    let message = |piece: &Piece| Outgoing::new(piece.encode(), topic.to_owned(), 0);
    send_each(sink.sender, Queue::FanOut, pieces, message).await
}

/// Stores the events that are too large for a message, before any message refers to them.
async fn store_events(
    payloads: &dyn Payloads,
    packed: &Packed<'_>,
    wave: &[UnsentDelivery<'_>],
) -> Result<()> {
    let stored = wave.iter().filter(|one| one.claimed).map(|one| async move {
        let object = claim::encode(packed.delivery(one).events());
        put(payloads, &claim::key(one.id()), object).await
    });
    join_all(stored).await.into_iter().collect()
}

/// Stores an object. Retries a failed call once.
async fn put(payloads: &dyn Payloads, key: &str, object: Vec<u8>) -> Result<()> {
    match payloads.put(key, object.clone()).await {
        Ok(()) => Ok(()),
        Err(error) => {
            tracing::warn!(%error, "events were not stored, they are stored again");
            payloads.put(key, object).await
        }
    }
}

/// Sends a message for each item, failed ones once more.
/// After an error, the other messages have been sent.
pub async fn send_each<T>(
    sender: &dyn QueueSender,
    queue: Queue,
    items: Vec<T>,
    message: impl Fn(&T) -> Outgoing,
) -> Result<()> {
    let failed = send_once(sender, queue, items, &message).await;
    let Some((_, error)) = failed.first() else { return Ok(()) };
    let count = failed.len();
    tracing::warn!(count, ?queue, %error, "{count} messages were not sent, they are sent again");
    let failed = failed.into_iter().map(|(item, _)| item).collect();
    let failed_again = send_once(sender, queue, failed, &message).await;
    failed_again.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
}

async fn send_once<T>(
    sender: &dyn QueueSender,
    queue: Queue,
    items: Vec<T>,
    message: &impl Fn(&T) -> Outgoing,
) -> Vec<(T, PortError)> {
    let messages = items.iter().map(message).collect();
    let mut answers = sender.send(queue, messages).await.into_iter();
    let failure = |item| match answers.next() {
        Some(Ok(())) => None,
        Some(Err(error)) => Some((item, error)),
        None => Some((item, PortError::new("sending a message", "no answer came"))),
    };
    items.into_iter().filter_map(failure).collect()
}

/// Splits deliveries, in order, into those that are sent at once.
pub fn waves<'w, 'p>(unsent: &'w [UnsentDelivery<'p>]) -> Vec<&'w [UnsentDelivery<'p>]> {
    let mut waves = Vec::new();
    let mut rest = unsent;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |one: &&UnsentDelivery<'_>| {
            bytes += one.encoded_bytes;
            bytes <= WAVE_BYTES_MAX
        };
        let count = rest.iter().take(WAVE_DELIVERIES_MAX).take_while(fits).count().max(1);
        let (wave, after) = rest.split_at(count);
        waves.push(wave);
        rest = after;
    }
    waves
}

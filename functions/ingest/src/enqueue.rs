//! Sends deliveries of a publish to the dispatch queue, and pieces of one to the fan-out queue.

use futures::future::join_all;
use gridpost_core::{
    delivery::{claim, queue::Queue},
    publish::{
        fan_out::Piece,
        pack::{Packed, UnsentDelivery},
    },
};
use gridpost_ports::{Outgoing, Payloads, PortError, QueueSender};

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
) -> Result<(), PortError> {
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
) -> Result<(), PortError> {
    store(sink.payloads, packed, wave).await?;
    let message = |one: &&UnsentDelivery<'_>| Outgoing {
        body: packed.encode(one),
        group: one.recipient.key.to_string(),
        delay_s: 0,
    };
    send(sink.sender, Queue::Dispatch, wave.iter().collect(), message).await
}

/// Sends pieces of a stored publish to the fan-out queue, whose fair-queue groups are topics.
pub async fn send_pieces(
    sink: DeliverySink<'_>,
    topic: &str,
    pieces: Vec<Piece>,
) -> Result<(), PortError> {
    let message =
        |piece: &Piece| Outgoing { body: piece.encode(), group: topic.to_owned(), delay_s: 0 };
    send(sink.sender, Queue::FanOut, pieces, message).await
}

/// Stores the events that are too large for a message, before any message refers to them.
async fn store(
    payloads: &dyn Payloads,
    packed: &Packed<'_>,
    wave: &[UnsentDelivery<'_>],
) -> Result<(), PortError> {
    let stored = wave.iter().filter(|one| one.claimed).map(|one| async move {
        let object = claim::encode(packed.delivery(one).events());
        put(payloads, &claim::key(one.id()), object).await
    });
    join_all(stored).await.into_iter().collect()
}

/// Stores an object. Retries a failed call once.
pub async fn put(payloads: &dyn Payloads, key: &str, object: Vec<u8>) -> Result<(), PortError> {
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
pub async fn send<T>(
    sender: &dyn QueueSender,
    queue: Queue,
    items: Vec<T>,
    message: impl Fn(&T) -> Outgoing,
) -> Result<(), PortError> {
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

//! Puts deliveries of a publish into the dispatch queue, and pieces of one into the fan-out queue.

use futures::future::join_all;
use gridpost_core::{
    delivery::{claim, queue::Queue},
    publish::{
        fan_out::Piece,
        pack::{Packed, UnsentDelivery},
    },
};
use gridpost_ports::{Outgoing, Payloads, PortError, QueueSender};

/// Most deliveries that are sent at once: fifty batch requests of SQS.
const WAVE_PARCELS_MAX: usize = 500;

/// Most bytes that are sent at once, but for one delivery that is larger: what bounds the memory of
/// a publish to hundreds of subscriptions.
const WAVE_BYTES_MAX: usize = 8 * 1_048_576;

/// Where deliveries go.
#[derive(Clone, Copy)]
pub struct DeliverySink<'o> {
    pub sender: &'o dyn QueueSender,
    /// Takes what is too large for a message.
    pub payloads: &'o dyn Payloads,
}

/// Sends every delivery, each failed one once more.
/// After an error, other deliveries have been sent, and nothing takes them back: the publisher's
/// retry makes them duplicates, which are allowed; losses are not.
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

/// Sends pieces of a stored publish to the fan-out queue. Topics are its fair-queue groups.
pub async fn send_pieces(
    sink: DeliverySink<'_>,
    topic: &str,
    pieces: Vec<Piece>,
) -> Result<(), PortError> {
    let message =
        |piece: &Piece| Outgoing { body: piece.encode(), group: topic.to_owned(), delay_s: 0 };
    send(sink.sender, Queue::FanOut, pieces, message).await
}

/// Stores the events that are too large for a message, before any message asks for them.
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

/// Stores an object; a call that fails is made once more.
pub async fn put(payloads: &dyn Payloads, key: &str, object: Vec<u8>) -> Result<(), PortError> {
    match payloads.put(key, object.clone()).await {
        Ok(()) => Ok(()),
        Err(error) => {
            tracing::warn!(%error, "events were not stored, they are stored again");
            payloads.put(key, object).await
        }
    }
}

/// Sends a message for each of the items; those that failed once more.
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

/// Answers those that may not have been sent.
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

/// Cuts unsent, in order, into what is sent at once.
pub fn waves<'w, 'p>(unsent: &'w [UnsentDelivery<'p>]) -> Vec<&'w [UnsentDelivery<'p>]> {
    let mut waves = Vec::new();
    let mut rest = unsent;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |one: &&UnsentDelivery<'_>| {
            bytes += one.encoded_bytes;
            bytes <= WAVE_BYTES_MAX
        };
        let count = rest.iter().take(WAVE_PARCELS_MAX).take_while(fits).count().max(1);
        let (wave, after) = rest.split_at(count);
        waves.push(wave);
        rest = after;
    }
    waves
}

//! Sends matched events to the dispatch queue and counts them, for ingest and intake; sends pieces of
//! stored publishes to the fan-out queue.

use std::collections::BTreeMap;

use futures::future::join_all;
use gridpost_core::{
    delivery::{claim, queue::Queue},
    event::ParsedEvent,
    journal::{Count, Counted, Owner},
    publish::{
        fan_out::{self, Piece},
        matching::Matched,
        pack::{Acceptance, Packed, Start, UnsentDelivery, pack},
    },
    subscription::SubscriptionKey,
};
use gridpost_ports::{Journal, Outgoing, Payloads, PortError, QueueSender, Result};
use uuid::Uuid;

/// The most bytes that a request sends. It has 29 s, and a function of the default size sends tens
/// of megabytes in a second at best.
pub const INLINE_BYTES_MAX: usize = 64 * 1_048_576;

/// Where deliveries of a publish are sent and counted, and how many at once.
#[derive(Clone, Copy)]
pub struct SendLimits<'w> {
    pub sink: DeliverySink<'w>,
    pub journal: &'w dyn Journal,
    pub queue_message_bytes_max: usize,
    /// The most deliveries that are enqueued at once: a larger fan-out is stored first.
    pub inline_fan_out: usize,
    /// The most deliveries that one message of the fan-out queue stands for, at least 1.
    pub piece_deliveries_max: usize,
}

/// A publish that is accepted.
#[derive(Clone, Copy)]
pub struct Accepted<'p> {
    pub topic: &'p str,
    pub matched: &'p Matched,
    pub events: &'p [ParsedEvent<'p>],
    pub acceptance: Acceptance,
    /// An id that no other publish has.
    pub own_id: Uuid,
    /// Whether it is sent with the same ids when the work is repeated after a fault.
    pub is_repeatable: bool,
}

/// Packs matched events, sends their deliveries to the dispatch queue, and counts them. If they are too
/// many, stores the publish under its own id.
/// After an error, some deliveries may have been sent; a repetition duplicates them.
pub async fn send(limits: SendLimits<'_>, publish: Accepted<'_>) -> Result<()> {
    let Accepted { matched, events, acceptance, .. } = publish;
    let mut counts = publish.intake();
    if matched.matches.is_empty() {
        return limits.journal.write(counts).await;
    }
    let packed = pack(&matched.matches, events, acceptance, limits.queue_message_bytes_max);
    match packed.at_most(limits.inline_fan_out, INLINE_BYTES_MAX) {
        Some(unsent) => enqueue(limits.sink, &packed, &unsent, &publish).await?,
        None => store(limits, &packed, &publish).await?,
    }
    let all = matched.matches.iter();
    counts.extend(
        all.map(|found| publish.matched(&found.subscription.key, found.events.len(), None)),
    );
    limits.journal.count_sent(&counts);
    Ok(())
}

/// Stores the publish and sends a message for each of its pieces. A crash leaves an unused object,
/// or pieces of a publish that was not confirmed.
async fn store(limits: SendLimits<'_>, packed: &Packed<'_>, publish: &Accepted<'_>) -> Result<()> {
    let id = publish.own_id;
    put(limits.sink.payloads, &fan_out::key(id), fan_out::encode(packed)).await?;
    let pieces = fan_out::cut(packed, id, limits.piece_deliveries_max);
    let topic = packed.topic();
    tracing::info!(publish = %id, topic, pieces = pieces.len(), "a large fan-out was stored");
    let last = pieces.last().copied();
    let message = |piece: &Piece| {
        let mut counts = match last == Some(*piece) {
            true => publish.intake(),
            false => Vec::new(),
        };
        let mut matched: BTreeMap<_, (Uuid, usize)> = BTreeMap::new();
        for one in piece.unsent(packed) {
            matched.entry(&*one.recipient.key).or_insert((one.id(), 0)).1 += one.events.len();
        }
        let count = |(key, (first, events))| publish.matched(key, events, Some(first));
        counts.extend(matched.into_iter().map(count));
        piece_message(piece, topic).counting(counts)
    };
    send_each(limits.sink.sender, Queue::FanOut, pieces, message).await
}

impl Accepted<'_> {
    /// Counts what the topic accepted.
    fn intake(&self) -> Vec<Count> {
        let all =
            [(Counted::Accepted, self.events.len()), (Counted::Unmatched, self.matched.unmatched)];
        let once = self.is_repeatable.then_some(self.acceptance.id);
        let counted = all.into_iter().filter(|(_, events)| *events > 0);
        let owner = || Owner::Topic(self.topic.to_owned());
        counted.map(|(counted, events)| self.count(owner(), counted, events, once)).collect()
    }

    fn matched_by(&self, one: &UnsentDelivery<'_>) -> Count {
        let once = self.is_repeatable.then(|| one.id());
        self.matched(&one.recipient.key, one.events.len(), once)
    }

    fn matched(&self, key: &SubscriptionKey, events: usize, once: Option<Uuid>) -> Count {
        self.count(Owner::Subscription(key.clone()), Counted::Matched, events, once)
    }

    fn count(&self, owner: Owner, counted: Counted, events: usize, once: Option<Uuid>) -> Count {
        Count { owner, publish_time: self.acceptance.time, counted, events: events as u64, once }
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

/// Sends every delivery, failed ones once more, with what it counts. The last one counts what the topic
/// accepted.
/// After an error, other deliveries may have been sent: the publisher's retry duplicates them.
async fn enqueue(
    sink: DeliverySink<'_>,
    packed: &Packed<'_>,
    unsent: &[UnsentDelivery<'_>],
    publish: &Accepted<'_>,
) -> Result<()> {
    let last: Option<Start> = unsent.last().map(|one| one.place);
    let counts = |one: &UnsentDelivery<'_>| {
        let mut counts = match last == Some(one.place) {
            true => publish.intake(),
            false => Vec::new(),
        };
        counts.push(publish.matched_by(one));
        counts
    };
    for wave in waves(unsent) {
        enqueue_wave(sink, packed, wave, counts).await?;
    }
    Ok(())
}

/// Sends the deliveries of one wave, with what each counts.
pub async fn enqueue_wave(
    sink: DeliverySink<'_>,
    packed: &Packed<'_>,
    wave: &[UnsentDelivery<'_>],
    counts: impl Fn(&UnsentDelivery<'_>) -> Vec<Count>,
) -> Result<()> {
    store_events(sink.payloads, packed, wave).await?;
    let message = |one: &&UnsentDelivery<'_>| {
        let message = Outgoing::new(packed.encode(one), one.recipient.key.to_string(), 0);
        message.counting(counts(one))
    };
    send_each(sink.sender, Queue::Dispatch, wave.iter().collect(), message).await
}

/// Sends pieces of a stored publish to the fan-out queue.
pub async fn send_pieces(sink: DeliverySink<'_>, topic: &str, pieces: Vec<Piece>) -> Result<()> {
    send_each(sink.sender, Queue::FanOut, pieces, |piece| piece_message(piece, topic)).await
}

/// Makes the message of a piece. Fair-queue groups of the fan-out queue are topics.
fn piece_message(piece: &Piece, topic: &str) -> Outgoing {
    Outgoing::new(piece.encode(), topic.to_owned(), 0)
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

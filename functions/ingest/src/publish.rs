//! Sends matched events to the dispatch queue and counts them, for ingest and intake.

use gridpost_core::{
    event::ParsedEvent,
    metric::{self, TOPIC, of},
    publish::{
        fan_out,
        matching::Matched,
        pack::{Acceptance, Packed, pack},
    },
    time::Timestamp,
};
use gridpost_ports::{Meter, PortError};
use uuid::Uuid;

use crate::enqueue::{DeliverySink, enqueue, put, send_pieces};

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
) -> Result<(), PortError> {
    let packed = pack(&matched.matches, events, acceptance, limits.queue_message_bytes_max);
    match packed.at_most(limits.inline_fan_out, INLINE_BYTES_MAX) {
        Some(unsent) => enqueue(limits.sink, &packed, &unsent).await,
        None => store(limits, &packed, own_id).await,
    }
}

/// Stores the publish and sends a message for each of its pieces. A crash leaves an unused object,
/// or pieces of a publish that was not confirmed.
async fn store(
    limits: SendLimits<'_>,
    packed: &Packed<'_>,
    publish: Uuid,
) -> Result<(), PortError> {
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

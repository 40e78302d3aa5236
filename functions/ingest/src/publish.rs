//! What becomes of events that were read and matched: deliveries in the dispatch queue, and counts.
//! ingest and intake share it.

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

/// Most bytes of the messages that a request itself sends. It has 29 s, and a function of the
/// default size sends tens of megabytes in a second at best.
pub const INLINE_BYTES_MAX: usize = 64 * 1_048_576;

/// How deliveries of a publish are sent.
#[derive(Clone, Copy)]
pub struct SendLimits<'w> {
    pub sink: DeliverySink<'w>,
    /// The largest message that the queues take, in bytes: 262,144 to 1,048,576.
    pub queue_message_bytes_max: usize,
    /// Most deliveries that are enqueued at once. What makes more is stored first.
    pub inline_fan_out: usize,
    /// Most deliveries that one message of the fan-out queue stands for, at least 1.
    pub piece_deliveries_max: usize,
}

/// Packs and sends what matched: every delivery is in the dispatch queue then, or, where there are too
/// many, all that they are made of is stored under `own_id`, which no other publish has.
/// After an error, some deliveries may have been sent; what is repeated makes duplicates.
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

/// Stores the publish under that id, which no other request has, and sends a message for each of its pieces. A crash leaves an object that
/// nobody asks for, or pieces of a publish that was not confirmed.
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

/// Counts a publish whose deliveries were sent: the ledger's lines of what came in.
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

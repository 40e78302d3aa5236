//! Publishes that make more deliveries than a request has time for: accepted by storing them.

use gridpost_core::publish::{fan_out, pack::Packed};
use gridpost_expand_handler::enqueue::{put, send_pieces};
use gridpost_ports::PortError;
use uuid::Uuid;

use crate::publish::Way;

/// Most bytes of the messages that a request itself sends. It has 29 s, and a function of the
/// default size sends tens of megabytes in a second at best.
pub const INLINE_BYTES_MAX: usize = 64 * 1_048_576;

/// Stores the publish under that id, which no other request has, and sends a message for each of its pieces. A crash leaves an object that
/// nobody asks for, or pieces of a publish that was not confirmed.
///
/// # Errors
///
/// The publish was not stored, or a message was not sent, twice.
pub async fn fan_out(way: Way<'_>, packed: &Packed<'_>, publish: Uuid) -> Result<(), PortError> {
    put(way.outlet.payloads, &fan_out::key(publish), fan_out::encode(packed)).await?;
    let pieces = fan_out::cut(packed, publish, way.piece_deliveries_max);
    let topic = packed.topic();
    tracing::info!(%publish, topic, pieces = pieces.len(), "a large fan-out was stored");
    send_pieces(way.outlet, topic, pieces).await
}

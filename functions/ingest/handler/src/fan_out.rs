//! Publishes that make more deliveries than a request has time for: accepted by storing them.

use gridpost_core::{
    delivery::queue::Queue,
    publish::{
        fan_out::{self, Piece},
        pack::Packed,
    },
};
use gridpost_ports::{Outgoing, PortError};

use crate::{
    Context,
    enqueue::{put, send},
};

/// Most bytes of the messages that a request itself sends. It has 29 s, and a function of the
/// default size sends tens of megabytes in a second at best.
pub const INLINE_BYTES_MAX: usize = 64 * 1_048_576;

/// Stores the publish and sends a message for each of its pieces. A crash leaves an object that
/// nobody asks for, or pieces of a publish that was not confirmed.
///
/// # Errors
///
/// The publish was not stored, or a message was not sent, twice.
pub async fn fan_out(context: &Context, packed: &Packed<'_>) -> Result<(), PortError> {
    let publish = packed.acceptance().id;
    put(&*context.payloads, &fan_out::key(publish), fan_out::encode(packed)).await?;
    let pieces = fan_out::cut(packed, context.piece_deliveries_max);
    let topic = packed.topic();
    tracing::info!(%publish, topic, pieces = pieces.len(), "a large fan-out was stored");
    send_pieces(context, topic, pieces).await
}

/// Sends pieces of a stored publish to the fan-out queue. Topics are its fair-queue groups.
///
/// # Errors
///
/// A message was not sent, twice.
pub async fn send_pieces(
    context: &Context,
    topic: &str,
    pieces: Vec<Piece>,
) -> Result<(), PortError> {
    let message =
        |piece: &Piece| Outgoing { body: piece.encode(), group: topic.to_owned(), delay_s: 0 };
    send(&*context.sender, Queue::FanOut, pieces, message).await
}

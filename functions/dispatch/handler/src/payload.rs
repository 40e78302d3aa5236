//! Events that are too large for a message: taken out of the payload bucket before an attempt, and
//! let go when their delivery has ended.

use gridpost_core::{
    delivery::{
        Delivery,
        claim::{self, Payload},
    },
    error::chain,
};
use gridpost_ports::PortError;

use crate::Context;

/// What was found of a delivery's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// They are in hand.
    InHand,
    /// The delivery has ended; this is a late copy of its message.
    Ended,
    /// They are gone, and nobody of ours has ended the delivery.
    Missing,
}

/// Takes a delivery's events in hand.
///
/// # Errors
///
/// The payload bucket could not be read, or holds something else.
pub async fn take(context: &Context, delivery: &mut Delivery) -> Result<Found, PortError> {
    if !delivery.is_claimed() {
        return Ok(Found::InHand);
    }
    let Some(object) = context.payloads.get(&claim::key(delivery.id)).await? else {
        return Ok(Found::Missing);
    };
    match claim::decode(&object).map_err(|error| PortError::new("reading a payload", error))? {
        Payload::Events(events) => {
            delivery.claim(events);
            Ok(Found::InHand)
        }
        Payload::Ended => Ok(Found::Ended),
    }
}

/// Keeps the events of a delivery in the payload bucket from now on, and no longer in its message.
///
/// # Errors
///
/// They could not be stored.
pub async fn set_apart(context: &Context, delivery: Delivery) -> Result<Delivery, PortError> {
    if delivery.is_claimed() {
        return Ok(delivery);
    }
    context.payloads.put(&claim::key(delivery.id), claim::encode(delivery.events())).await?;
    Ok(delivery.into_claimed())
}

/// Lets the events of an ended delivery go. Best effort: what stays is removed by the bucket's age
/// limit, and a late copy of the message makes a duplicate. The end is counted first: nobody counts what
/// is let go already.
pub async fn release(context: &Context, delivery: &Delivery) {
    if !delivery.is_claimed() {
        return;
    }
    context.meter.flush(context.clock.now());
    let released = context.payloads.put(&claim::key(delivery.id), claim::ENDED.to_vec()).await;
    if let Err(error) = released {
        tracing::warn!(delivery.id = %delivery.id, error = %chain(&error), "a payload was not released");
    }
}

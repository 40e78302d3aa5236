//! Fetches events that are too large for a message from the payload bucket before an attempt, and
//! releases them when their delivery has ended.

use gridpost_core::{
    delivery::{
        Delivery,
        claim::{self, Payload},
    },
    error::chain,
};
use gridpost_ports::{PortError, Result};

use crate::Context;

/// Fetches what the payload bucket has for a delivery; `None` if that is missing.
pub async fn fetch(context: &Context, delivery: &Delivery) -> Result<Option<Payload>> {
    let object = context.payloads.get(&claim::key(delivery.id)).await?;
    let payload = object.map(|object| claim::decode(&object)).transpose();
    payload.map_err(|error| PortError::new("reading a payload", error))
}

/// Moves the events of a delivery from its message to the payload bucket.
pub async fn set_apart(context: &Context, delivery: Delivery) -> Result<Delivery> {
    if delivery.is_claimed() {
        return Ok(delivery);
    }
    context.payloads.put(&claim::key(delivery.id), claim::encode(delivery.events())).await?;
    Ok(delivery.into_claimed())
}

/// Encodes a delivery as a message. Sets events apart that do not fit: the limit may have been
/// lowered since they were packed.
pub async fn fitting(context: &Context, delivery: Delivery) -> Result<String> {
    let body = delivery.encode();
    if body.len() <= context.settings.queue_message_bytes_max {
        return Ok(body);
    }
    Ok(set_apart(context, delivery).await?.encode())
}

/// Releases the events of an ended delivery. Best effort: the bucket's age limit removes what stays,
/// and a late copy of the message makes a duplicate. The end is counted first, because nothing counts
/// events that are already released.
pub async fn release(context: &Context, delivery: &Delivery) {
    if !delivery.is_claimed() {
        return;
    }
    context.meter.flush(context.clock.now());
    let released = async {
        context.journal.commit(delivery.id).await?;
        context.payloads.put(&claim::key(delivery.id), claim::ENDED.to_vec()).await
    };
    let released = released.await;
    if let Err(error) = released {
        tracing::warn!(delivery.id = %delivery.id, error = %chain(&error), "failed to release a payload");
    }
}

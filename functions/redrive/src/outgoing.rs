//! The messages by which dead letters become deliveries again.

use gridpost_core::{
    delivery::{Delivery, claim},
    publish::pack::HEADROOM_BYTES,
};
use gridpost_ports::{Outgoing, PortError};

use crate::Context;

/// The message of a delivery; events that are too large for it are stored before.
pub(crate) async fn outgoing(
    context: &Context,
    delivery: &Delivery,
) -> Result<Outgoing, PortError> {
    let group = delivery.subscription.to_string();
    let body = delivery.encode();
    if body.len() + HEADROOM_BYTES <= context.queue_message_bytes_max {
        return Ok(Outgoing { body, group, delay_s: 0 });
    }
    let object = claim::encode(delivery.events());
    context.payloads.put(&claim::key(delivery.id), object).await?;
    let body = delivery.clone().into_claimed().encode();
    Ok(Outgoing { body, group, delay_s: 0 })
}

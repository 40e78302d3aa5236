//! The second step: a group's event subscription and the states of its
//! deliveries. The endpoint's health comes from the cache in [`health`](crate::health), when there
//! is something to plan.

use futures::future::{join, join_all};
use gridpost_core::delivery::{queue::Queue, state::DeliveryState};
use gridpost_ports::{PortError, Record, configuration::SubscriptionLookup};

use crate::{
    Context,
    in_hand::{Owner, Received},
    record::Settled,
};

/// A group with everything that was read for it.
pub struct Loaded {
    /// Its topic and event subscription; `None` if they were deleted.
    pub owner: Option<Owner>,
    /// Its deliveries, each with its state.
    pub received: Vec<Received>,
    /// Deliveries whose state could not be read.
    pub failed: Vec<(Record, Settled)>,
}

/// Loads what is known of at least one delivery of one event subscription.
///
/// # Errors
///
/// The configuration could not be read: nothing is known of any of them.
pub async fn load(context: &Context, group: Vec<Received>) -> Result<Loaded, PortError> {
    let (owner, states) = {
        let states = join_all(group.iter().map(|received| state(context, received)));
        join(owner(context, &group), states).await
    };
    let owner = owner?;
    let mut loaded = Loaded { owner, received: Vec::new(), failed: Vec::new() };
    for (received, state) in group.into_iter().zip(states) {
        match state {
            Ok(state) => loaded.received.push(Received { state, ..received }),
            Err(error) => loaded.failed.push((received.record, Err(error))),
        }
    }
    Ok(loaded)
}

/// The state of a delivery, if it may have one: at its first receipt from the dispatch queue it has
/// none, because nothing was attempted before.
async fn state(context: &Context, received: &Received) -> Result<Option<DeliveryState>, PortError> {
    let Received { record, delivery, .. } = received;
    if record.queue == Queue::Dispatch && record.receive_count <= 1 {
        return Ok(None);
    }
    context.states.load(delivery.id).await
}

/// The event subscription of a group, read no earlier than its newest delivery was received.
async fn owner(context: &Context, group: &[Received]) -> Result<Option<Owner>, PortError> {
    let newest = group.iter().map(|received| received.delivery.revision).max();
    let received_at = group.iter().map(|received| received.record.received_at).max();
    let Some(((revision, received_at), first)) = newest.zip(received_at).zip(group.first()) else {
        return Ok(None);
    };
    let (key, uid) = (&first.delivery.subscription, first.delivery.subscription_uid);
    let wanted = SubscriptionLookup { key, uid, revision, received_at };
    let found = context.configuration.subscription(wanted).await?;
    Ok(found.map(|(topic, subscription)| Owner { topic, subscription }))
}

#[cfg(test)]
mod tests;

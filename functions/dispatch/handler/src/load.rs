//! The second step, and the only reads: the event subscription of a group, and the states of its
//! deliveries. The endpoint's health is looked at when there is something to plan, in the memory of
//! [`health`](crate::health).

use futures::future::{join, join_all};
use gridpost_core::delivery::{queue::Queue, state::DeliveryState};
use gridpost_ports::{PortError, Record, configuration::Wanted};

use crate::{
    Context,
    in_hand::{Owner, Received},
    record::Settled,
};

/// What was found of a group.
pub struct Loaded {
    /// Its topic and event subscription; none if they are gone.
    pub owner: Option<Owner>,
    /// Its deliveries, each with its state.
    pub received: Vec<Received>,
    /// Those whose state could not be read.
    pub failed: Vec<(Record, Settled)>,
}

/// Loads what is known of the deliveries of one event subscription, at least one.
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

/// The state of a delivery, where it may have one: a first receive from the dispatch queue has none,
/// since nothing was attempted before it.
async fn state(context: &Context, received: &Received) -> Result<Option<DeliveryState>, PortError> {
    let Received { record, delivery, .. } = received;
    if record.queue == Queue::Dispatch && record.receive_count <= 1 {
        return Ok(None);
    }
    context.states.load(delivery.id).await
}

/// The event subscription of a group, by an answer that is as new as the newest of its deliveries.
async fn owner(context: &Context, group: &[Received]) -> Result<Option<Owner>, PortError> {
    let newest = group.iter().map(|received| received.delivery.revision).max();
    let received_at = group.iter().map(|received| received.record.received_at).max();
    let Some(((revision, received_at), first)) = newest.zip(received_at).zip(group.first()) else {
        return Ok(None);
    };
    let (key, uid) = (&first.delivery.subscription, first.delivery.subscription_uid);
    let wanted = Wanted { key, uid, revision, received_at };
    let found = context.configuration.subscription(wanted).await?;
    Ok(found.map(|(topic, subscription)| Owner { topic, subscription }))
}

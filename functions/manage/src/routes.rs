//! Serves requests: `api` declares the routes, and `router` sends requests to them through the `gate`.

mod api;
mod dead_letters;
mod deliveries;
mod gate;
mod health;
mod journal;
mod openapi;
mod parked;
mod pauses;
mod poison;
mod redrives;
mod resend;
mod router;
mod sent;
mod subscriptions;
mod topics;
mod trial;
mod validation;

use std::sync::Arc;

use axum::extract::State;
use gridpost_core::delivery::{
    Delivery,
    parking::{self, Parked},
    queue::Queue,
    state::{DeliveryState, DeliveryStatus},
};
use gridpost_ports::{Outgoing, PortError};
use serde_json::Value;
use uuid::Uuid;

#[cfg(test)]
pub(crate) use self::api::{all, document};
pub use self::router::{answer, respond};
pub(crate) use self::router::{carry_out, check_subscription};
use crate::{Context, Reply};

type InContext = State<Arc<Context>>;

/// A route's answer. A refusal is a reply, too, so that `?` returns it.
type Answer = Result<Reply, Reply>;

#[derive(Clone, Copy, Debug)]
enum Change<'a> {
    Put(&'a Value),
    Patch(&'a Value),
}

/// Returns the stored resource if the write `own` stored it, although it seemed to conflict: a retried
/// call whose answer was lost conflicts with itself. Also returns whether it was a creation.
fn stored_by<'s, T>(
    own: &Option<(bool, Uuid)>,
    stored: Option<&'s T>,
    tag: impl Fn(&T) -> Uuid,
) -> Option<(bool, &'s T)> {
    let (is_new, etag) = (*own)?;
    stored.filter(|stored| tag(stored) == etag).map(|stored| (is_new, stored))
}

fn first_state(delivery: &Delivery, status: DeliveryStatus) -> DeliveryState {
    DeliveryState {
        id: delivery.id,
        subscription: delivery.subscription.clone(),
        subscription_uid: delivery.subscription_uid,
        publish_time: delivery.publish_time,
        redriven_at: delivery.redriven.map(|redriven| redriven.at),
        events: u32::try_from(delivery.event_count()).unwrap_or(u32::MAX),
        done: delivery.done.clone(),
        attempts: delivery.attempts.clone(),
        status,
        past: Vec::new(),
        receipt: None,
        copies_until: None,
        resend: None,
        revision: 0,
    }
}

/// The present retry queue of a parked delivery.
fn retry_queue(context: &Context, parked: &Parked) -> Result<Queue, PortError> {
    let none = || PortError::new("sending a parked delivery", "there is no retry queue");
    parking::queue_now(parked.shard, context.settings.retry_shards).ok_or_else(none)
}

/// Sends one message. Retries a failure once, which may send it twice.
async fn send_back(context: &Context, queue: Queue, message: Outgoing) -> Result<(), PortError> {
    let mut sent = context.sender.send(queue, vec![message.clone()]).await.pop();
    if !matches!(sent, Some(Ok(()))) {
        sent = context.sender.send(queue, vec![message]).await.pop();
    }
    sent.unwrap_or_else(|| Err(PortError::new("sending a message", "no answer came")))
}

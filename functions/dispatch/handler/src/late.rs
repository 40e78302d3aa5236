//! Responses that come after 30 s: the delivery is queued for retry by then, and a late success
//! takes it out again, as far as that is possible.

use std::sync::Arc;

use futures::future::BoxFuture;
use gridpost_core::{
    delivery::state::DeliveryStatus,
    error::chain,
    retry::outcome::{Answer, Outcome},
    subscription::EventSubscription,
    time::Timestamp,
};
use gridpost_ports::PortError;
use uuid::Uuid;

use crate::{Context, attempt_log::duration_ms, health, settle};

/// A request whose response is still listened for.
pub struct Late {
    /// Resolves to the late answer, or to `None` when none came in time.
    pub answer: BoxFuture<'static, Option<Answer>>,
    /// The deliveries it was made for.
    pub ids: Vec<Uuid>,
    /// Their event subscription.
    pub subscription: Arc<EventSubscription>,
    /// When it was sent.
    pub began_at: Timestamp,
}

/// Listens for a late response. A success marks the deliveries, so that their retries delete
/// themselves; a failure changes nothing.
pub async fn listen(context: &Context, late: Late) {
    let Some(answer) = late.answer.await else { return };
    if answer.outcome != Outcome::Delivered {
        return;
    }
    for id in late.ids {
        match acknowledge(context, id).await {
            Ok(false) => tracing::info!(delivery.id = %id, "a late success came after the end"),
            Ok(true) => tracing::info!(
                delivery.id = %id,
                subscription = %late.subscription.key,
                outcome = %answer.outcome,
                status = answer.status,
                duration_ms = duration_ms(late.began_at, context.clock.now()),
                decision = "Delivered",
                "attempt succeeded late and is taken out of retry",
            ),
            Err(error) => tracing::warn!(
                delivery.id = %id,
                error = %chain(&error),
                "a late success was not noted; the retry makes a duplicate",
            ),
        }
    }
    let now = context.clock.now();
    let spread = health::spread(context, &late.subscription, now).await;
    let noted = context.healths.note_success(&late.subscription, late.began_at, now, spread).await;
    if let Err(error) = noted {
        tracing::warn!(error = %chain(&error), "a recovery was not noted");
    }
}

/// Counts and marks a waiting delivery as delivered, and answers whether it waited. One that has ended
/// meanwhile stays ended.
async fn acknowledge(context: &Context, id: Uuid) -> Result<bool, PortError> {
    let Some(state) = context.states.load(id).await? else { return Ok(false) };
    if !matches!(state.standing, DeliveryStatus::Waiting { .. }) {
        return Ok(false);
    }
    settle::mark_delivered(context, &state).await.map(|()| true)
}

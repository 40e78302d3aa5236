//! Responses that come after 30 s: the delivery is queued for retry by then, and a late success
//! takes it out again, as far as that is possible.

use std::sync::Arc;

use gridpost_core::{
    delivery::state::DeliveryStatus, error::chain, retry::outcome::Outcome,
    subscription::EventSubscription, time::Timestamp,
};
use gridpost_ports::PortError;
use uuid::Uuid;

use crate::{Context, attempt::LateAnswer, attempt_log::duration_ms, settle};

/// A request whose response is still listened for.
pub struct Late {
    /// Resolves to the late answer, or to `None` when none came in time.
    answer: LateAnswer,
    /// The deliveries it was made for that will be attempted again.
    ids: Vec<Uuid>,
    subscription: Arc<EventSubscription>,
    began_at: Timestamp,
    /// When the next attempt of the last of them is due: the answer comes too late then.
    until: Timestamp,
}

impl Late {
    /// A request that began and was given up then.
    pub fn new(
        answer: LateAnswer,
        subscription: Arc<EventSubscription>,
        (began_at, ended_at): (Timestamp, Timestamp),
    ) -> Self {
        Self { answer, ids: Vec::new(), subscription, began_at, until: ended_at }
    }

    /// One of its deliveries is attempted again then. For those that end nothing is listened for.
    pub fn of(&mut self, delivery: Uuid, due: Timestamp) {
        self.ids.push(delivery);
        self.until = self.until.max(due);
    }

    /// Whether a late answer could change anything.
    pub fn is_awaited(&self) -> bool {
        !self.ids.is_empty()
    }
}

/// Listens for a late response. A success marks the deliveries, so that their retries delete
/// themselves; a failure changes nothing.
pub async fn listen(context: &Context, late: Late) {
    let left = late.until.since(context.clock.now());
    let Ok(Some(answer)) = tokio::time::timeout(left, late.answer).await else { return };
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
                "failed to record late success; the retry will duplicate it",
            ),
        }
    }
    let now = context.clock.now();
    settle::note_success(context, &late.subscription, late.began_at, now).await;
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

//! Listens for responses after 30 s. The delivery is queued for retry by then, and a late success
//! takes it out again if possible.

use std::{sync::Arc, time::Duration};

use futures::{
    future::{Either, join_all, select},
    pin_mut,
};
use gridpost_core::{
    delivery::{Delivery, listeners::QUIET_VISIBLE_MAX, queue::Queue, state::DeliveryStatus},
    error::chain,
    retry::{health::SuccessfulAttempt, outcome::Outcome},
    subscription::EventSubscription,
    time::Timestamp,
};
use gridpost_ports::{Listener, Result, guard::guarded};
use tokio::sync::watch;
use uuid::Uuid;

use crate::{
    Context, entry, health,
    response::{LateAnswer, Times},
    settle::{self, Marked},
};

/// How often a listener checks that its lane is still quiet.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// A request whose response is still listened for.
pub struct Late {
    answer: LateAnswer,
    /// Its deliveries that will be attempted again, with their events' ids for the log.
    deliveries: Vec<(Uuid, String)>,
    subscription: Arc<EventSubscription>,
    began_at: Timestamp,
    /// When the last of their next attempts is due: a later answer is too late.
    until: Timestamp,
}

impl Late {
    pub fn new(
        answer: LateAnswer,
        subscription: Arc<EventSubscription>,
        (began_at, ended_at): Times,
    ) -> Self {
        Self { answer, deliveries: Vec::new(), subscription, began_at, until: ended_at }
    }

    /// Adds a delivery whose next attempt is due at `due`.
    pub fn of(&mut self, delivery: &Delivery, due: Timestamp) {
        self.deliveries.push((delivery.id, delivery.event_ids()));
        self.until = self.until.max(due);
    }

    /// Whether a late answer could change anything.
    pub fn is_awaited(&self) -> bool {
        !self.deliveries.is_empty()
    }
}

/// Listens for late responses if this invocation may. An invocation that listens holds a slot of
/// its lane, so it may only while the lane is quiet, within the lane's limit, and, on the dispatch
/// queue, not for endpoints that are marked as slow. It stops when the lane fills.
pub async fn listen_all(context: &Context, queue: Queue, late: Vec<Late>, deadline: Timestamp) {
    let now = context.clock.now();
    let may = |late: &Late| {
        let slow = context.healths.of(&late.subscription).known().slow;
        queue != Queue::Dispatch || !slow.is_slow(now)
    };
    let late: Vec<_> = late.into_iter().filter(may).collect();
    let Some(until) = late.iter().map(|late| late.until).max() else { return };
    let until = until.min(deadline);
    let listener = Listener { queue, id: context.dice.id(), until };
    if !joins(context, listener, now).await {
        return;
    }
    let (stop, stopped) = watch::channel(false);
    let listening = late.into_iter().map(|late| {
        guarded("listening for a late response", listen(context, late, stopped.clone()))
    });
    let all = join_all(listening);
    let over = fills(context, listener);
    pin_mut!(all, over);
    if let Either::Right(((), all)) = select(all, over).await {
        // Finish recording what has arrived: a half-recorded success would be counted twice.
        let _ = stop.send(true);
        all.await;
    }
    if let Err(error) = context.listeners.leave(listener).await {
        tracing::warn!(error = %chain(&error), "failed to release a listener's place; it is free again when its time is over");
    }
}

async fn joins(context: &Context, listener: Listener, now: Timestamp) -> bool {
    let most = match listener.queue {
        Queue::Dispatch => context.settings.first_listeners_max,
        Queue::Slow => context.settings.slow_listeners_max,
        _ => context.settings.retry_listeners_max,
    };
    if most == 0 || !is_quiet(context, listener.queue).await {
        return false;
    }
    let joined = context.listeners.join(listener, most, now).await;
    joined.unwrap_or_else(|error| {
        tracing::warn!(error = %chain(&error), "failed to listen for late responses");
        false
    })
}

/// Whether a lane has slots to spare. If SQS does not answer, it has none.
async fn is_quiet(context: &Context, queue: Queue) -> bool {
    let visible = context.receiver.visible(queue).await;
    visible.is_ok_and(|visible| visible <= QUIET_VISIBLE_MAX)
}

/// Resolves when the listener's time is over or its lane has no more slots to spare.
async fn fills(context: &Context, listener: Listener) {
    loop {
        let left = context.clock.left(listener.until);
        tokio::time::sleep(left.min(LOOK_AGAIN)).await;
        if left <= LOOK_AGAIN || !is_quiet(context, listener.queue).await {
            return;
        }
    }
}

/// Listens for a late response. A success marks the deliveries, so that their retries delete
/// themselves; a failure changes nothing.
async fn listen(context: &Context, late: Late, mut stopped: watch::Receiver<bool>) {
    let left = context.clock.left(late.until);
    let answer = tokio::select! {
        biased;
        answer = tokio::time::timeout(left, late.answer) => answer,
        _ = stopped.wait_for(|stopped| *stopped) => return,
    };
    let Ok(Some(answer)) = answer else { return };
    if answer.outcome != Outcome::Delivered {
        return;
    }
    for (id, event_ids) in late.deliveries {
        let took = context.clock.now().since(late.began_at);
        match acknowledge(context, id, event_ids, (answer.status, took)).await {
            Ok(true) => {}
            Ok(false) => tracing::info!(delivery.id = %id, "a late success came after the end"),
            Err(error) => tracing::warn!(
                delivery.id = %id,
                error = %chain(&error),
                "failed to record late success; the retry will duplicate it",
            ),
        }
    }
    let (began_at, ended_at) = (late.began_at, context.clock.now());
    let success = SuccessfulAttempt { began_at, ended_at, asked_for: false };
    health::note_success(context, &late.subscription, success).await;
}

/// Counts a waiting delivery and marks it as delivered. Returns whether it was waiting; one that
/// has ended meanwhile stays ended.
async fn acknowledge(
    context: &Context,
    id: Uuid,
    event_ids: String,
    answered: (Option<u16>, Duration),
) -> Result<bool> {
    let Some(state) = context.states.load(id).await? else { return Ok(false) };
    if !matches!(state.status, DeliveryStatus::Waiting { .. }) {
        return Ok(false);
    }
    let success = entry::late_success(&state, event_ids, answered, context.clock.now());
    let marked = settle::mark_delivered(context, &state, Some(success), None).await?;
    Ok(marked == Marked::Delivered)
}

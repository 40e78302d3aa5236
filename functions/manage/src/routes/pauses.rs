//! Pauses and resumes event subscriptions.

use gridpost_api::{
    schema::Time,
    subscription::{Pause, PauseInput, PauseStanding, pause},
};
use gridpost_core::{
    delivery::parking::Parked,
    error::chain,
    subscription::{
        EventSubscription, SubscriptionKey,
        pause::{Pauses, Refusal},
    },
    time::Timestamp,
};
use gridpost_ports::Saved;

use super::{Answer, InContext, openapi::*, sent::Sent, subscriptions};
use crate::{Context, Reply, TRIES_MAX};

/// Pauses it: matching goes on, nothing is attempted, deliveries are held
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/pause",
    operation_id = "pause",
    params(InSubscription),
    request_body = PauseInput,
    responses(
        (status = 200, body = PauseStanding,
            description = "It is paused. A copy of dispatch that has not heard of it may attempt \
                until holdsBy."),
        Refused, Missing, Conflicts, NotDocument
    )
)]
// The watch over the held deliveries comes first: a crash before the pause is written leaves a watch
// that finds nothing and is removed.
pub(super) async fn pause(context: InContext, sent: Sent) -> Answer {
    sent.check_query()?;
    let (context, key, by, document) =
        (&context, &sent.key()?, sent.caller.clone(), &sent.document()?);
    let runs = pause::read(document)?;
    change(context, key, "paused", |pauses, now| {
        pauses.paused(runs, by.clone(), now).map_err(|refusal| refused(key, &refusal))
    })
    .await
}

/// Resumes it: what is held comes back, the first of it within a minute
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/resume",
    operation_id = "resume",
    params(InSubscription),
    responses(
        (status = 200, description = "It is not paused.", body = PauseStanding),
        Refused, Missing, Conflicts
    )
)]
// Resumes an event subscription: held deliveries come back from wake's next run on. Parks a watch
// even if it is not paused: deliveries that should not be held come back, too.
pub(super) async fn resume(context: InContext, sent: Sent) -> Answer {
    let (context, key) = (&context, &sent.key()?);
    change(context, key, "resumed", |pauses, now| Ok(pauses.resumed(now))).await
}

async fn change(
    context: &Context,
    key: &SubscriptionKey,
    verb: &str,
    next: impl Fn(&Pauses, Timestamp) -> Result<Pauses, Reply>,
) -> Answer {
    for _ in 0..TRIES_MAX {
        let (topic, subscription) = subscriptions::existing(context, key).await?;
        let now = context.clock.now();
        let pauses = next(&subscription.pauses, now)?;
        let is_same = pauses == subscription.pauses;
        // A new watch for each change: wake can't remove it with an older one.
        let etag = if is_same { subscription.etag } else { context.dice.id() };
        context
            .parking
            .park(&Parked::watch(&subscription.key, subscription.uid, etag, now))
            .await?;
        if is_same {
            // Another caller may have changed it just now.
            context.until_seen().await;
            return Ok(Reply::ok(standing(context, &subscription)));
        }
        let subscription = EventSubscription { pauses, etag, modified_at: now, ..subscription };
        match context.subscriptions.save(&topic, &subscription).await {
            Ok(Saved::Written) => {}
            Ok(Saved::Conflict) => {
                context.back_off().await;
                continue;
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "it may be {verb}, or not");
                return Err(error.into());
            }
        }
        subscriptions::log(&subscription.key, verb);
        context.until_seen().await;
        return Ok(Reply::ok(standing(context, &subscription)));
    }
    Err(Reply::too_many_changes())
}

/// The pause, with the time by which it holds everywhere, or its end.
fn standing(context: &Context, subscription: &EventSubscription) -> PauseStanding {
    let now = context.clock.now();
    let kept_for = context.clock.pace().to_clock(context.settings.dispatch_keeps_configuration);
    match subscription.pauses.current(now).map(Pause::from) {
        Some(Pause { since, until, by, time_to_live_runs }) => PauseStanding {
            is_paused: true,
            since: Some(since),
            until: Some(until),
            by,
            time_to_live_runs: Some(time_to_live_runs),
            holds_by: Some(Time(since.0 + kept_for)),
            resumed_time: None,
        },
        None => PauseStanding {
            resumed_time: subscription.pauses.ended_at(now).map(Into::into),
            ..PauseStanding::default()
        },
    }
}

fn refused(key: &SubscriptionKey, refusal: &Refusal) -> Reply {
    let message = match refusal {
        Refusal::OtherMode(pause) => format!(
            "'{key}' has been paused since {} with \"timeToLiveRuns\": {}. To pause it otherwise, \
             resume it first.",
            pause.since, pause.time_to_live_runs,
        ),
        Refusal::UsedUp => format!(
            "Pauses in which time-to-live stands still may add 7 days to the life of a delivery, and \
             those of '{key}' have. Pause it with \"timeToLiveRuns\": true, or wait until those \
             pauses are older than any delivery."
        ),
    };
    Reply::conflict("properties.pause", message)
}

/// Refuses attempts during a pause.
pub(super) fn refuse_paused(
    context: &Context,
    subscription: &EventSubscription,
) -> Result<(), Reply> {
    let Some(pause) = subscription.pauses.current(context.clock.now()) else { return Ok(()) };
    let message = format!(
        "'{}' has been paused since {}: nothing is attempted. Resume it first.",
        subscription.key, pause.since,
    );
    Err(Reply::conflict("properties.pause", message))
}

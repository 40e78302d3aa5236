//! Purges poison messages and counts their events as dropped.

use gridpost_api::waiting::{HandledMessage, HandledResult};
use gridpost_core::{
    delivery::{
        Delivery,
        queue::Queue,
        state::{DeliveryState, DeliveryStatus},
    },
    metric::{self, DROP_REASON, EVENT_SUBSCRIPTION_NAME, TOPIC, of},
    poison::{Content, Poisoned},
    publish::fan_out::{self, Piece},
    retry::EndReason,
};
use gridpost_ports::{PortError, Saved};

use super::handled_as;
use crate::{Context, routes::first_state};

const PURGED: &str = "PurgedByOperator";

/// The topic and the event subscription of an unreadable message in counts.
const UNKNOWN: &str = "?";

/// Counts and logs the events, then deletes the message: a crash in between counts them again. The
/// state comes last: otherwise a crash would leave an ended delivery whose events were never counted.
///
/// Refuses a delivery whose end is decided: its dead letter may have been sent, and its events would
/// be counted twice.
pub(super) async fn purge_one(
    context: &Context,
    message: &Poisoned,
) -> Result<HandledMessage, PortError> {
    let content = Content::of(&message.body);
    let state = match &content {
        Content::Delivery(delivery) => context.states.load(delivery.id).await?,
        _ => None,
    };
    let status = state.as_ref().map(|state| state.status);
    if let Some(DeliveryStatus::Ending { reason, .. }) = status {
        let refused = handled_as(&message.id, HandledResult::Refused);
        return Ok(HandledMessage { message: Some(ending(reason)), ..refused });
    }
    let has_ended = matches!(status, Some(DeliveryStatus::Ended | DeliveryStatus::Delivered));
    let dropped = match (&content, has_ended) {
        (_, true) => 0,
        (Content::FanOut(piece), _) => count_piece(context, piece).await?,
        _ => count_dropped(context, &content, state.as_ref()),
    };
    tracing::warn!(
        message.id = %message.id,
        delivery.id = content.delivery_id().map(tracing::field::display),
        subscription = content.delivery().map(|it| tracing::field::display(&it.subscription)),
        events = dropped,
        reason = PURGED,
        "events dropped: a poison message is purged",
    );
    context.receiver.delete(Queue::Poison, vec![message.receipt.clone()]).await?;
    if let Content::Delivery(delivery) = &content
        && !has_ended
    {
        note_end(context, delivery, state).await;
    }
    Ok(HandledMessage {
        is_removed: Some(true),
        dropped_events: Some(dropped),
        ..handled_as(&message.id, HandledResult::Purged)
    })
}

/// Why a delivery that ends for this reason is not purged.
fn ending(reason: EndReason) -> String {
    format!(
        "the end of its delivery is decided ({reason}), and its dead letter may have been sent, or its drop \
         counted; send it back instead: the end is carried out, and no further attempt is made"
    )
}

/// Counts a message's events as dropped. Returns how many.
fn count_dropped(context: &Context, content: &Content, state: Option<&DeliveryState>) -> u64 {
    let (metric, reason) = (metric::DROPPED_EVENT_COUNT, (DROP_REASON, PURGED));
    let events = match content.delivery() {
        Some(delivery) => {
            let ([topic, name], at) = (of(&delivery.subscription), delivery.publish_time);
            let events = events_left(delivery, state);
            if events > 0 {
                context.meter.count_events(metric, &[reason, topic, name], at, events);
            }
            events
        }
        // The number of events and their owner are unknown here.
        None => count_unknown(context),
    };
    context.meter.flush(context.clock.now());
    events
}

/// How many events of a delivery are not done. Message and state may each lack some that are: one was
/// written before the other, or a write failed.
fn events_left(delivery: &Delivery, state: Option<&DeliveryState>) -> u64 {
    let mut done = delivery.done.clone();
    state.iter().for_each(|state| done.add_all(&state.done));
    let all = delivery.event_count() + delivery.done.len();
    all.saturating_sub(done.len()) as u64
}

fn count_unknown(context: &Context) -> u64 {
    let whose = [(DROP_REASON, PURGED), (TOPIC, UNKNOWN), (EVENT_SUBSCRIPTION_NAME, UNKNOWN)];
    context.meter.count(metric::DROPPED_EVENT_COUNT, &whose, 1);
    1
}

/// Counts the events of a piece's deliveries by event subscription. Returns how many. If its publish
/// is missing or unreadable, they are unknown.
async fn count_piece(context: &Context, piece: &Piece) -> Result<u64, PortError> {
    let object = context.payloads.get(&fan_out::key(piece.publish)).await?;
    let most = context.settings.queue_message_bytes_max;
    let packed = object.and_then(|object| fan_out::decode(&object, most).ok());
    let mut sum = 0;
    if let Some(packed) = &packed {
        let at = packed.acceptance().time;
        for (key, events) in piece.events(packed) {
            let ([topic, name], metric) = (of(key), metric::DROPPED_EVENT_COUNT);
            context.meter.count_events(metric, &[(DROP_REASON, PURGED), topic, name], at, events);
            sum += events;
        }
    }
    if sum == 0 {
        sum = count_unknown(context);
    }
    context.meter.flush(context.clock.now());
    Ok(sum)
}

/// Writes the end, so that other copies of the message delete themselves. Best effort: without it
/// they may deliver events that were counted as dropped.
async fn note_end(context: &Context, delivery: &Delivery, state: Option<DeliveryState>) {
    let state = state.unwrap_or_else(|| first_state(delivery, DeliveryStatus::Ended));
    let ended = state.over(DeliveryStatus::Ended, context.clock.now());
    let saved = context.states.save(&ended).await;
    if !matches!(saved, Ok(Saved::Written)) {
        tracing::warn!(delivery.id = %delivery.id, "the end of a purged delivery was not noted");
    }
}

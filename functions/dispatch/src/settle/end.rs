//! Ends deliveries: as a dead letter, or as a counted and logged drop.

use gridpost_core::{
    delivery::{
        Delivery,
        dead_letter::{Ended, shown_attributes},
        partial::End,
        queue::{MESSAGE_BYTES_MAX_LOWEST, Queue},
        queue_text,
        state::{DeliveryState, DeliveryStatus},
    },
    error::chain,
    event::{DeliverySchema, mapping::InputSchemaMapping},
    journal::EntryKind,
    publish::pack::HEADROOM_BYTES,
    retry::EndReason,
    time::Timestamp,
};
use gridpost_ports::{Outgoing, PortError, Record, Result};

use super::send_one;
use crate::{
    Context, entry,
    loaded::{Disposition, LoadedDelivery, Settled},
    payload,
};

/// Up to this size, a part with its own id fits any queue message.
const PART_BYTES_MAX: usize = 128 * 1_024;
const _: () = assert!(PART_BYTES_MAX + HEADROOM_BYTES < MESSAGE_BYTES_MAX_LOWEST);

pub(super) async fn carry_out(
    context: &Context,
    loaded: LoadedDelivery,
    reason: EndReason,
    at: Timestamp,
) -> Settled {
    dead_letter_or_drop(context, &loaded, reason, at).await?;
    note_end(context, loaded.state(DeliveryStatus::Ended)).await;
    Ok(Disposition::Delete)
}

/// Carries out an end that could not be recorded. If that fails too, the record comes back late, to
/// be attempted again: nothing says that it ended.
pub(super) async fn carry_out_unwritten(
    context: &Context,
    loaded: LoadedDelivery,
    reason: EndReason,
    at: Timestamp,
) -> Settled {
    if let Err(error) = dead_letter_or_drop(context, &loaded, reason, at).await {
        let (id, error) = (loaded.delivery.id, chain(&error));
        tracing::warn!(delivery.id = %id, %error, "an end could neither be written nor carried out");
        return Ok(Disposition::Keep);
    }
    context.meter.flush(context.clock.now());
    Ok(Disposition::Delete)
}

/// Ends some events of a delivery before the others. That is not recorded yet: another copy ends
/// them again.
pub(super) async fn end_part(
    context: &Context,
    loaded: &LoadedDelivery,
    End { answer, reason, requests, last_at, events }: &End,
    began_at: Timestamp,
) -> Result<()> {
    let mut part = LoadedDelivery { delivery: loaded.delivery.part(events), ..loaded.clone() };
    let began_at = (began_at, last_at.unwrap_or(began_at));
    part.delivery.attempts = loaded.delivery.attempts.with_requests(began_at, *answer, *requests);
    let is_of_its_own = part.delivery.id != loaded.delivery.id;
    if is_of_its_own && part.delivery.events_bytes() > PART_BYTES_MAX {
        part.delivery = payload::set_apart(context, part.delivery).await?;
    }
    let at = context.clock.now();
    dead_letter_or_drop(context, &part, *reason, at).await?;
    context.meter.flush(at);
    Ok(())
}

/// Sends a delivery to its dead-letter destination, or drops it if there is none.
async fn dead_letter_or_drop(
    context: &Context,
    loaded: &LoadedDelivery,
    reason: EndReason,
    at: Timestamp,
) -> Result<()> {
    let delivery = &loaded.delivery;
    if delivery.event_count() == 0 {
        // This copy and another one have delivered everything.
        return Ok(());
    }
    let Some(destination) = loaded.destination() else {
        drop_events(context, delivery, reason, &loaded.record).await;
        return Ok(());
    };
    let topic = &loaded.owner.topic.topic;
    let mut ended = Ended {
        delivery: delivery.clone(),
        reason,
        at,
        destination: destination.clone(),
        schema: delivery.form(loaded.subscription()).schema,
        mapping: mapping(loaded),
        profile: topic.delivery_profile,
        attributes: shown_attributes(delivery, loaded.subscription(), topic.delivery_profile),
    };
    let mut body = text_of(&ended)?;
    // The details of an end may not fit the message.
    if body.len() > context.settings.queue_message_bytes_max && !delivery.is_claimed() {
        ended.delivery = payload::set_apart(context, delivery.rest()).await?;
        body = text_of(&ended)?;
    }
    let group = loaded.subscription().key.to_string();
    let message = Outgoing::new(body, group, context.settings.dead_letter_delay_s);
    send_one(context, Queue::DeadLetter, message).await?;
    let end = entry::ended(delivery, EntryKind::Ending, reason, at);
    context.journal.note(end, Some(&loaded.record.receipt));
    Ok(())
}

fn text_of(ended: &Ended) -> Result<String> {
    let text = serde_json::to_string(ended);
    text.map(queue_text).map_err(|error| PortError::new("writing a dead letter", error))
}

/// Returns the topic's mapping for events of a custom schema: their dead letters are in Event Grid's
/// schema.
fn mapping(loaded: &LoadedDelivery) -> Option<InputSchemaMapping> {
    let mapping = loaded.owner.topic.topic.input_schema_mapping.as_ref()?;
    let schema = loaded.delivery.form(loaded.subscription()).schema;
    let own = schema == DeliverySchema::CustomInputSchema;
    own.then(|| mapping.clone())
}

/// Marks a delivery as ended. Best effort: without the mark, a late copy of the message ends again,
/// and the delivery still seems to wait. The end is counted first: a recorded end is never counted.
async fn note_end(context: &Context, state: DeliveryState) {
    context.meter.flush(context.clock.now());
    let state = state.over(DeliveryStatus::Ended, context.clock.now());
    if let Err(error) = context.states.save(&state).await {
        tracing::warn!(delivery.id = %state.id, error = %chain(&error), "failed to record an end");
    }
}

/// Drops a delivery, and marks its state if it has one.
pub async fn drop_delivery(
    context: &Context,
    record: &Record,
    delivery: &Delivery,
    state: Option<DeliveryState>,
    reason: EndReason,
) -> Disposition {
    drop_events(context, delivery, reason, record).await;
    if let Some(state) = state {
        note_end(context, state).await;
    }
    Disposition::Delete
}

async fn drop_events(context: &Context, delivery: &Delivery, reason: EndReason, record: &Record) {
    let end = entry::ended(delivery, EntryKind::Dropped, reason, context.clock.now());
    context.journal.note(end, Some(&record.receipt));
    payload::release(context, delivery).await;
}

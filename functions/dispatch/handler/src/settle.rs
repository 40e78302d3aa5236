//! Carries out what was decided, in the order that can leave a duplicate but never a loss: the
//! state first, then the successor (a message, a hidden message, a parked delivery, a dead letter),
//! and last of all the record itself is let go.

use std::time::Duration;

use gridpost_core::{
    delivery::{
        DecodeError, Delivery,
        dead_letter::{Ended, shown_attributes},
        parking::{self, Hold, Parked},
        queue::Queue,
        queue_text,
        state::{DeliveryState, DeliveryStatus},
    },
    error::chain,
    event::{DeliverySchema, mapping::InputSchemaMapping},
    metric::{self, DROP_REASON, of},
    poison,
    retry::{EndReason, outcome::Answer},
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{Outgoing, PortError, Saved};

use crate::{
    Context, payload,
    prepare::Work,
    record::{Fate, Record, Settled},
};

/// Settles a delivered delivery. Where nothing had failed before, nothing is written.
pub async fn delivered(context: &Context, work: Work) -> Settled {
    let delivery = &work.delivery;
    if work.revision == 0 {
        let events = delivery.event_count() as u64;
        count_delivered(context, &delivery.subscription, delivery.publish_time, events);
    } else if let Err(error) = mark_delivered(context, &work.state(DeliveryStatus::Delivered)).await
    {
        // Only late copies of the message would ask for the mark: worth one try, not a failure.
        let id = delivery.id;
        tracing::warn!(delivery.id = %id, error = %chain(&error), "a success was not noted");
    }
    payload::release(context, delivery).await;
    Ok(Fate::Delete)
}

fn count_delivered(context: &Context, key: &SubscriptionKey, at: Timestamp, events: u64) {
    context.meter.count_events(metric::DELIVERY_SUCCESS_COUNT, &of(key), at, events);
}

/// Marks a delivery that has failed before as delivered, and counts it. One that has ended meanwhile
/// stays as it is: a late success may meet an attempt in hand, and one of them counts.
///
/// It is counted first. A crash before the mark leaves it to be delivered once more, and counted once
/// more; the other way round nobody would count it.
///
/// # Errors
///
/// It could not be marked. It is delivered and counted all the same.
pub async fn mark_delivered(context: &Context, known: &DeliveryState) -> Result<(), PortError> {
    let mut counted = false;
    for _ in 0..3 {
        let stored = context.states.load(known.id).await;
        if matches!(&stored, Ok(Some(state)) if !matches!(state.standing, DeliveryStatus::Waiting { .. }))
        {
            return Ok(());
        }
        if !counted {
            let events = u64::from(known.events);
            count_delivered(context, &known.subscription, known.publish_time, events);
            context.meter.flush(context.clock.now());
            counted = true;
        }
        let Some(stored) = stored? else { return Ok(()) };
        // It knows of the attempt that succeeded, unless others have written meanwhile.
        let state = if stored.revision == known.revision { known.clone() } else { stored };
        let state = DeliveryState { standing: DeliveryStatus::Delivered, ..state };
        if context.states.save(&state).await? == Saved::Written {
            return Ok(());
        }
    }
    Err(PortError::new("noting a success", "others wrote at the same time"))
}

/// Settles a failed delivery that is to be attempted again. Its attempts count the failed one.
pub async fn retry(context: &Context, work: Work, due: Timestamp) -> Settled {
    let standing = DeliveryStatus::Waiting { due };
    match context.states.save(&work.state(standing)).await? {
        Saved::Written => follow(context, work, standing).await,
        Saved::Conflict => follow_stored(context, work).await,
    }
}

/// Settles a delivery that ends undelivered.
pub async fn end(context: &Context, work: Work, reason: EndReason) -> Settled {
    let standing = DeliveryStatus::Ending { reason, at: context.clock.now() };
    match context.states.save(&work.state(standing)).await? {
        Saved::Written => {
            let work = Work { revision: work.revision + 1, ..work };
            follow(context, work, standing).await
        }
        Saved::Conflict => follow_stored(context, work).await,
    }
}

/// Another copy of the message has written the state: what stands there holds.
async fn follow_stored(context: &Context, mut work: Work) -> Settled {
    let stored = context.states.load(work.delivery.id).await?;
    let Some(state) = stored else {
        return Err(PortError::new(
            "reading a delivery's state",
            "it vanished while it was written",
        ));
    };
    work.merge_state(&state);
    let waits = matches!(state.standing, DeliveryStatus::Waiting { .. });
    if waits && work.delivery.event_count() == 0 {
        // The other copy has delivered what this one has not: together nothing is left.
        return delivered(context, work).await;
    }
    follow(context, work, state.standing).await
}

/// Carries out what a stored state says. A state proves what was decided, not that it was done: it
/// is done once more.
pub async fn follow(context: &Context, work: Work, standing: DeliveryStatus) -> Settled {
    match standing {
        DeliveryStatus::Delivered => {
            payload::release(context, &work.delivery).await;
            Ok(Fate::Delete)
        }
        DeliveryStatus::Ended => Ok(Fate::Delete),
        DeliveryStatus::Waiting { due } => wait(context, &work, due).await,
        DeliveryStatus::Ending { reason, at } => carry_out_end(context, work, reason, at).await,
    }
}

async fn carry_out_end(context: &Context, work: Work, reason: EndReason, at: Timestamp) -> Settled {
    bury(context, &work, reason, at).await?;
    note_end(context, work.state(DeliveryStatus::Ended)).await;
    Ok(Fate::Delete)
}

/// Ends some events of a delivery before the others. Nothing says yet that they have ended: whoever
/// comes here again ends them again.
///
/// # Errors
///
/// Their dead letter could not be sent.
pub async fn end_part(context: &Context, part: &Work, reason: EndReason) -> Result<(), PortError> {
    bury(context, part, reason, context.clock.now()).await?;
    context.meter.flush(context.clock.now());
    Ok(())
}

/// Counts events that were delivered before the others of their delivery. It is counted first, as in
/// [`mark_delivered`].
pub fn count_part(context: &Context, work: &Work, events: usize) {
    let delivery = &work.delivery;
    let (key, at) = (&delivery.subscription, delivery.publish_time);
    count_delivered(context, key, at, events as u64);
    context.meter.flush(context.clock.now());
}

/// Sends what ended to its dead-letter destination, or drops it where there is none.
async fn bury(
    context: &Context,
    work: &Work,
    reason: EndReason,
    at: Timestamp,
) -> Result<(), PortError> {
    if work.delivery.event_count() == 0 {
        // What another copy has not done, this one has.
        return Ok(());
    }
    let Some(destination) = work.destination() else {
        drop_events(context, &work.delivery, reason).await;
        return Ok(());
    };
    let ended = Ended {
        delivery: work.delivery.clone(),
        reason,
        at,
        destination: destination.clone(),
        schema: work.subscription.delivery_schema,
        mapping: mapping(work),
        profile: work.topic.topic.delivery_profile,
        attributes: shown_attributes(
            &work.delivery,
            &work.subscription,
            work.topic.topic.delivery_profile,
        ),
    };
    let body = serde_json::to_string(&ended)
        .map_err(|error| PortError::new("writing a dead letter", error))?;
    let delay_s = context.settings.dead_letter_delay_s;
    send(context, Queue::DeadLetter, work, queue_text(body), delay_s).await?;
    tracing::warn!(
        delivery.id = %work.delivery.id,
        subscription = %work.subscription.key,
        attempts = work.delivery.attempts.made,
        outcome = work.delivery.attempts.last_outcome.map(tracing::field::display),
        status = work.delivery.attempts.last_status,
        %reason,
        events = work.delivery.event_count(),
        event_ids = work.delivery.event_ids(),
        publish_time = %work.delivery.publish_time.to_iso_8601(),
        traceparent = work.delivery.traceparent.map(tracing::field::display),
        "ended undelivered, goes to its dead-letter destination",
    );
    Ok(())
}

/// Marks a delivery as ended. Best effort: without it a late copy of the message ends a second time,
/// and it seems to wait. Its end is counted first: nobody counts what is noted already.
async fn note_end(context: &Context, state: DeliveryState) {
    context.meter.flush(context.clock.now());
    let state = DeliveryState { standing: DeliveryStatus::Ended, ..state };
    if let Err(error) = context.states.save(&state).await {
        tracing::warn!(delivery.id = %state.id, error = %chain(&error), "an end was not noted");
    }
}

/// Drops a delivery for which nothing more can be done, and whose state is this, where it has one.
pub async fn give_up(
    context: &Context,
    delivery: &Delivery,
    state: Option<DeliveryState>,
    reason: EndReason,
) -> Fate {
    drop_events(context, delivery, reason).await;
    if let Some(state) = state {
        note_end(context, state).await;
    }
    Fate::Delete
}

/// What explains events of the publisher's own schema: their dead letters are in Event Grid's.
fn mapping(work: &Work) -> Option<InputSchemaMapping> {
    let mapping = work.topic.topic.input_schema_mapping.as_ref()?;
    let own = work.subscription.delivery_schema == DeliverySchema::CustomInputSchema;
    own.then(|| mapping.clone())
}

/// Counts and logs events that end without a dead letter.
async fn drop_events(context: &Context, delivery: &Delivery, reason: EndReason) {
    let text = reason.to_string();
    let [topic, name] = of(&delivery.subscription);
    let dimensions = [(DROP_REASON, text.as_str()), topic, name];
    let (at, events) = (delivery.publish_time, delivery.event_count() as u64);
    context.meter.count_events(metric::DROPPED_EVENT_COUNT, &dimensions, at, events);
    tracing::warn!(
        delivery.id = %delivery.id,
        subscription = %delivery.subscription,
        events = delivery.event_count(),
        attempts = delivery.attempts.made,
        outcome = delivery.attempts.last_outcome.map(tracing::field::display),
        status = delivery.attempts.last_status,
        %reason,
        event_ids = delivery.event_ids(),
        publish_time = %delivery.publish_time.to_iso_8601(),
        traceparent = delivery.traceparent.map(tracing::field::display),
        "events dropped",
    );
    payload::release(context, delivery).await;
}

/// Lets a delivery wait for its next attempt. It may come back in the last second before `due`.
pub async fn wait(context: &Context, work: &Work, due: Timestamp) -> Settled {
    let now = context.clock.now();
    hold_back(context, work, due, now, parking::held(due.since(now))).await
}

/// Lets a delivery wait that may not be attempted now. A second more does not matter, but a life
/// that ends during the wait ends then, not after it.
pub async fn defer(context: &Context, work: &Work, until: Timestamp) -> Settled {
    let now = context.clock.now();
    let until = until.min(work.expires_at());
    hold_back(context, work, until, now, until.since(now)).await
}

/// Holds a delivery back for `left` from `now` without an attempt. The dispatch queue holds nothing
/// back, so what comes from it moves to a retry queue; there it is hidden, or parked.
async fn hold_back(
    context: &Context,
    work: &Work,
    due: Timestamp,
    now: Timestamp,
    left: Duration,
) -> Settled {
    if work.record.queue == Queue::Dispatch {
        let next = work.delivery.due_at(due);
        let queue = work.delivery.retry_queue(context.settings.retry_shards);
        send(context, queue, work, next.encode(), parking::delay_s(left)).await?;
        return Ok(Fate::Delete);
    }
    let in_flight = if parking::is_parkable(left) {
        context.in_flight.of(work.record.queue, now).await
    } else {
        0
    };
    let since_received = now.since(work.record.received_at);
    let limit = context.settings.retry_in_flight_limit;
    match parking::hold(left, since_received, work.record.receive_count, in_flight, limit) {
        Hold::Hide { seconds } => hide(context, &work.record, seconds).await,
        Hold::Park => park(context, work, parking::parked_until(due, now)).await,
    }
}

async fn park(context: &Context, work: &Work, due: Timestamp) -> Settled {
    let Queue::Retry(shard) = work.record.queue else {
        return Err(PortError::new("parking a delivery", "it is not in a retry queue"));
    };
    let mut body = work.delivery.due_at(due).encode();
    if body.len() > parking::BODY_BYTES_MAX {
        body = payload::set_apart(context, work.delivery.due_at(due)).await?.encode();
    }
    let group = work.subscription.key.to_string();
    let parked = Parked { id: work.delivery.id, due, shard, group, body };
    context.parking.park(&parked).await?;
    context.meter.count(metric::PARKED_COUNT, &[], 1);
    Ok(Fate::Delete)
}

/// Hides a record. One that SQS does not hide comes back early and is hidden again: the due time
/// decides, not the queue.
async fn hide(context: &Context, record: &Record, seconds: u32) -> Settled {
    for last in [false, true] {
        match context.receiver.hide(record.queue, &record.receipt, seconds).await {
            Ok(()) => break,
            Err(error) if last => {
                context.meter.count(metric::HIDE_FAIL_COUNT, &[], 1);
                tracing::warn!(message.id = %record.message_id, error = %chain(&error), "not hidden");
            }
            Err(_) => {}
        }
    }
    Ok(Fate::Keep)
}

/// Hides a record that could not be settled for a little while, longer each time.
pub async fn come_back(context: &Context, record: &Record) {
    let seconds = (5 * record.receive_count).clamp(5, 120);
    if let Err(error) = context.receiver.hide(record.queue, &record.receipt, seconds).await {
        tracing::warn!(message.id = %record.message_id, error = %chain(&error), "not hidden");
    }
}

/// Moves a record that this code can't read to the poison queue.
pub async fn poison(context: &Context, record: &Record, error: &DecodeError) -> Settled {
    tracing::error!(
        message.id = %record.message_id,
        queue = ?record.queue,
        error = %chain(error),
        "a message is no delivery and goes to the poison queue; look at it there",
    );
    let message =
        Outgoing { body: record.body.clone(), group: poison::group(record.queue), delay_s: 0 };
    send_one(context, Queue::Poison, message).await?;
    let queue = format!("{:?}", record.queue);
    context.meter.count(metric::POISON_COUNT, &[("Queue", &queue)], 1);
    Ok(Fate::Delete)
}

async fn send(
    context: &Context,
    queue: Queue,
    work: &Work,
    body: String,
    delay_s: u32,
) -> Result<(), PortError> {
    let group = work.subscription.key.to_string();
    send_one(context, queue, Outgoing { body, group, delay_s }).await
}

/// Sends one message; a failure is tried once more, which may send it twice.
async fn send_one(context: &Context, queue: Queue, message: Outgoing) -> Result<(), PortError> {
    let mut answers = context.sender.send(queue, vec![message.clone()]).await;
    if !matches!(answers.pop(), Some(Ok(()))) {
        answers = context.sender.send(queue, vec![message]).await;
        return answers
            .pop()
            .unwrap_or_else(|| Err(PortError::new("sending a message", "no answer came")));
    }
    Ok(())
}

/// Counts a failed attempt.
pub fn count_failure(context: &Context, work: &Work, answer: Answer) {
    count_error(context, metric::DELIVERY_ATTEMPT_FAIL_COUNT, work, answer);
}

/// Counts a wait of the endpoint that has begun.
pub fn count_probation(context: &Context, work: &Work, answer: Answer) {
    count_error(context, metric::PROBATION_COUNT, work, answer);
}

fn count_error(context: &Context, metric: &'static str, work: &Work, answer: Answer) {
    let error = answer.outcome.to_string();
    let [topic, name] = of(&work.subscription.key);
    let dimensions = [("Error", error.as_str()), topic, name];
    context.meter.count(metric, &dimensions, 1);
}

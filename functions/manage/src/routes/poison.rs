//! Lists, shows, resends and purges messages of the poison queue.
//!
//! SQS reads messages only by receiving, so they are hidden for a moment and shown again at the end.
//! A queue has no order and no pages: every request starts over, and says whether it saw all.

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt, stream};
use gridpost_api::{
    document::quoted,
    error::ErrorCode,
    requests::{PurgeInput, ResendInput, choice},
    waiting::{
        Handled, HandledMessage, HandledResult, MovedBy, PoisonKind, PoisonList, PoisonMessage,
        PoisonShown,
    },
};
use gridpost_core::{
    delivery::{
        Delivery,
        queue::Queue,
        state::{DeliveryState, DeliveryStatus},
    },
    error::chain,
    journal::{Count, Counted, Entry, EntryKind, Owner},
    metric::{self, DROP_REASON, EVENT_SUBSCRIPTION_NAME, TOPIC},
    poison::{Content, Origin, Poisoned, ResendTarget, resend_queue},
    publish::fan_out::{self, Piece},
    retry::EndReason,
    time::Timestamp,
};
use gridpost_ports::{Outgoing, PortError, Saved};

use super::{Answer, InContext, first_state, openapi::*, send_back, sent::Sent};
use crate::{Context, Reply, page::Form};

pub(super) const LIST: Form = Form { filters: &[], is_token: None };

/// How long one request receives: API Gateway waits 30 s for its answer.
const SEARCH_MAX: Duration = Duration::from_secs(12);

/// How long a received message stays hidden if it is not shown again: longer than a request.
const HIDDEN_FOR: Duration = Duration::from_secs(60);

/// The most messages that one request sends back or purges.
const REMOVED_MAX: usize = 100;

/// The most results in an answer, including messages that can't be sent back.
const RESULTS_MAX: usize = 500;

/// Concurrent calls of SQS.
const AT_ONCE_MAX: usize = 32;

/// The most characters shown of a message's body.
const BODY_CHARS_MAX: usize = 64 * 1024;

/// Receives messages until a time limit, and shows them again at the end.
struct Search<'c> {
    context: &'c Context,
    until: Timestamp,
    seen: BTreeSet<String>,
    /// Receipts of the messages to show again.
    hidden: Vec<String>,
    /// Whether all visible messages were received.
    is_complete: bool,
}

impl<'c> Search<'c> {
    fn new(context: &'c Context) -> Self {
        let until = context.clock.after(SEARCH_MAX);
        Self { context, until, seen: BTreeSet::new(), hidden: Vec::new(), is_complete: false }
    }

    /// Returns more messages, or none at the end of the queue or after the time limit.
    async fn next(&mut self) -> Result<Vec<Poisoned>, PortError> {
        let hidden_for = self.context.clock.pace().to_clock(HIDDEN_FOR);
        let hidden_s = u32::try_from(hidden_for.as_secs()).unwrap_or(u32::MAX);
        while self.context.clock.now() < self.until {
            let received = self.context.poison.receive(hidden_s).await?;
            if received.is_empty() {
                self.is_complete = true;
                break;
            }
            self.hidden.extend(received.iter().map(|message| message.receipt.clone()));
            let mut new = received;
            // A standard queue may deliver twice.
            new.retain(|message| self.seen.insert(message.id.clone()));
            if !new.is_empty() {
                return Ok(new);
            }
        }
        Ok(Vec::new())
    }

    /// Forgets a removed message, which can't be shown again.
    fn forget(&mut self, message: &Poisoned) {
        self.hidden.retain(|receipt| *receipt != message.receipt);
    }

    /// Shows the hidden messages again; otherwise they come back a minute later. Returns whether all
    /// visible messages were received.
    async fn end(self) -> bool {
        let receiver = &self.context.receiver;
        // Receipts by value: a closure over references makes the future not `Send`.
        let shown = stream::iter(self.hidden)
            .map(|receipt| async move { receiver.hide(Queue::Poison, &receipt, 0).await });
        let shown: Vec<_> = shown.buffer_unordered(AT_ONCE_MAX).collect().await;
        if let Some(error) = shown.into_iter().find_map(Result::err) {
            tracing::warn!(error = %chain(&error), "a poison message stays hidden for a minute");
        }
        self.is_complete
    }
}

/// What our own code could not settle, without what the messages carry
#[utoipa::path(
    get,
    path = "/poison",
    operation_id = "listPoison",
    params(Top),
    responses(
        (status = 200, description = "Some or all of it: see isComplete.", body = PoisonList),
        Refused
    )
)]
pub(super) async fn list(context: InContext, sent: Sent) -> Answer {
    let (context, page) = (&context, &sent.page_of(LIST)?);
    let count = context.poison.count().await?;
    let mut search = Search::new(context);
    let listed = listed(&mut search, page.most()).await;
    let is_complete = search.end().await;
    Ok(Reply::ok(PoisonList { value: listed?, approximate_count: count, is_complete }))
}

async fn listed(search: &mut Search<'_>, most: usize) -> Result<Vec<PoisonMessage>, PortError> {
    let mut listed = Vec::new();
    while listed.len() < most {
        let messages = search.next().await?;
        if messages.is_empty() {
            break;
        }
        let shards = search.context.settings.retry_shards;
        let documents = messages.iter().map(|it| document(it, &Content::of(&it.body), shards));
        listed.extend(documents.take(most - listed.len()));
    }
    Ok(listed)
}

/// One message with its body, which holds the events
#[utoipa::path(
    get,
    path = "/poison/{id}",
    operation_id = "getPoison",
    params(OfMessage),
    responses((status = 200, description = "The message.", body = PoisonShown), MissingMessage)
)]
pub(super) async fn show(context: InContext, sent: Sent) -> Answer {
    let (context, id) = (&context, &sent.id()?);
    let mut search = Search::new(context);
    let found = find(&mut search, id).await;
    let (count, is_complete) = (search.seen.len(), search.end().await);
    let message = found?.ok_or_else(|| {
        Reply::error(404, ErrorCode::ResourceNotFound, not_found(id, count, is_complete))
    })?;
    let body: String = message.body.chars().take(BODY_CHARS_MAX).collect();
    Ok(Reply::ok(PoisonShown {
        message: document(&message, &Content::of(&message.body), context.settings.retry_shards),
        is_body_cut: body.len() < message.body.len(),
        body,
    }))
}

async fn find(search: &mut Search<'_>, id: &str) -> Result<Option<Poisoned>, PortError> {
    loop {
        let messages = search.next().await?;
        if messages.is_empty() {
            return Ok(None);
        }
        if let Some(found) = messages.into_iter().find(|message| message.id == id) {
            return Ok(Some(found));
        }
    }
}

fn not_found(id: &str, count: usize, is_complete: bool) -> String {
    let id = quoted(id);
    if is_complete {
        format!(
            "There is no message {id} in the poison queue now. One that somebody else looks at is \
             hidden for up to a minute; one that was sent back has another id."
        )
    } else {
        format!(
            "The message {id} was not among the first {count} that the queue gave out. Try again."
        )
    }
}

/// Describes a message, its origin and its target, without its events.
fn document(message: &Poisoned, content: &Content, shards: usize) -> PoisonMessage {
    let (moved_by, from_queue) = match message.origin() {
        Origin::Sqs(queue) => (Some(MovedBy::Sqs), Some(queue)),
        Origin::Gridpost(queue) => (Some(MovedBy::Gridpost), Some(queue)),
        Origin::Unknown => (None, None),
    };
    let mut document = PoisonMessage {
        id: message.id.clone(),
        kind: PoisonKind::Delivery,
        moved_by,
        from_queue,
        sent_time: message.sent_at.into(),
        receive_count: message.receive_count,
        body_bytes: message.body.len(),
        dead_letter_reason: None,
        publish: None,
        problem: None,
        delivery: content.delivery().map(Into::into),
        resend_to: resend_queue(content, None, shards).ok().map(|queue| queue.to_string()),
    };
    match content {
        Content::Delivery(_) => {}
        Content::Ended(ended) => {
            document.kind = PoisonKind::EndedDelivery;
            document.dead_letter_reason = Some(ended.reason.to_string());
        }
        Content::FanOut(piece) => {
            document.kind = PoisonKind::FanOut;
            document.publish = Some(piece.publish);
        }
        Content::Unreadable(why) => {
            document.kind = PoisonKind::Unreadable;
            document.problem = Some(why.clone());
        }
    }
    document
}

/// Send messages back to where they belong, up to 100
#[utoipa::path(
    post,
    path = "/poison:resend",
    operation_id = "resendPoison",
    request_body = choice::ResendInput,
    responses(
        (status = 200, description = "What became of each.", body = Handled),
        Refused, NotDocument
    )
)]
pub(super) async fn resend(context: InContext, sent: Sent) -> Answer {
    let ResendInput { ids, to, .. } = ResendInput::read(&sent.document()?)?;
    handle(&context, ids.as_ref(), Action::Resend(to)).await
}

/// Remove messages, up to 100: their events are counted and logged as dropped
#[utoipa::path(
    post,
    path = "/poison:purge",
    operation_id = "purgePoison",
    request_body = choice::PurgeInput,
    responses(
        (status = 200, description = "What became of each.", body = Handled),
        Refused, NotDocument
    )
)]
pub(super) async fn purge(context: InContext, sent: Sent) -> Answer {
    let PurgeInput { ids, .. } = PurgeInput::read(&sent.document()?)?;
    handle(&context, ids.as_ref(), Action::Purge).await
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Resend(Option<ResendTarget>),
    Purge,
}

async fn handle(context: &Context, chosen: Option<&BTreeSet<String>>, action: Action) -> Answer {
    let mut search = Search::new(context);
    let mut handled = Vec::new();
    let done = handle_all(&mut search, chosen, action, &mut handled).await;
    let (count, is_complete) = (search.seen.len(), search.end().await);
    if let Err(error) = done {
        if handled.is_empty() {
            return Err(error.into());
        }
        // Report what was handled: no other request finds it.
        tracing::warn!(error = %chain(&error), "a look through the poison queue ended early");
    }
    if let Some(ids) = chosen {
        let done: BTreeSet<_> = handled.iter().map(|one| one.id.clone()).collect();
        handled.extend(ids.difference(&done).map(|id| HandledMessage {
            message: Some(not_found(id, count, is_complete)),
            is_removed: None,
            ..handled_as(id, HandledResult::NotFound)
        }));
    }
    Ok(Reply::ok(Handled { value: handled, is_complete }))
}

async fn handle_all(
    search: &mut Search<'_>,
    chosen: Option<&BTreeSet<String>>,
    action: Action,
    handled: &mut Vec<HandledMessage>,
) -> Result<(), PortError> {
    let results_max = chosen.map_or(RESULTS_MAX, BTreeSet::len);
    let is_chosen = |id: &String| chosen.is_none_or(|ids| ids.contains(id));
    let mut removed = 0;
    while removed < REMOVED_MAX && handled.len() < results_max {
        let messages = search.next().await?;
        if messages.is_empty() {
            break;
        }
        for message in messages.iter().filter(|message| is_chosen(&message.id)) {
            let result = match action {
                Action::Resend(to) => resend_one(search.context, message, to).await,
                Action::Purge => purge_one(search.context, message).await,
            };
            let one = result.unwrap_or_else(|error| failed(&message.id, &error));
            if one.is_removed == Some(true) {
                search.forget(message);
                removed += 1;
            }
            handled.push(one);
        }
    }
    Ok(())
}

fn failed(id: &str, error: &PortError) -> HandledMessage {
    tracing::warn!(error = %error, "a poison message was not handled: {error}");
    let message = Some(format!("{} failed. Try again.", error.call));
    HandledMessage { message, ..handled_as(id, HandledResult::Failed) }
}

/// The result of a message that is not removed.
fn handled_as(id: &str, result: HandledResult) -> HandledMessage {
    HandledMessage {
        id: id.to_owned(),
        result,
        message: None,
        is_removed: Some(false),
        to: None,
        dropped_events: None,
    }
}

/// Sends a message back, then removes it: a crash in between leaves a duplicate.
async fn resend_one(
    context: &Context,
    message: &Poisoned,
    to: Option<ResendTarget>,
) -> Result<HandledMessage, PortError> {
    let content = Content::of(&message.body);
    let queue = match resend_queue(&content, to, context.settings.retry_shards) {
        Ok(queue) => queue,
        Err(refused) => {
            let why = Some(refused.to_string());
            let refused = handled_as(&message.id, HandledResult::Refused);
            return Ok(HandledMessage { message: why, ..refused });
        }
    };
    let group = match &content {
        Content::FanOut(piece) => piece.publish.to_string(),
        _ => content
            .delivery()
            .map_or_else(|| "unreadable".to_owned(), |it| it.subscription.to_string()),
    };
    let outgoing = Outgoing::new(message.body.clone(), group, 0);
    send_back(context, queue, outgoing).await?;
    tracing::info!(
        message.id = %message.id,
        delivery.id = content.delivery_id().map(tracing::field::display),
        queue = %queue,
        "a poison message was sent back",
    );
    let removed = context.receiver.delete(Queue::Poison, vec![message.receipt.clone()]).await;
    if let Err(error) = &removed {
        tracing::warn!(message.id = %message.id, error = %chain(error), "sent back, not removed");
    }
    Ok(HandledMessage {
        to: Some(queue.to_string()),
        is_removed: Some(removed.is_ok()),
        ..handled_as(&message.id, HandledResult::Resent)
    })
}

const PURGED: &str = "PurgedByOperator";

/// The topic and the event subscription of an unreadable message in counts.
const UNKNOWN: &str = "?";

/// Counts and logs the events, then deletes the message: a crash in between counts them again. The
/// state comes last: otherwise a crash would leave an ended delivery whose events were never counted.
///
/// Refuses a delivery whose end is decided: its dead letter may have been sent, and its events would
/// be counted twice.
async fn purge_one(context: &Context, message: &Poisoned) -> Result<HandledMessage, PortError> {
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
        (Content::FanOut(piece), _) => count_piece(context, message, piece).await?,
        _ => count_dropped(context, message, &content, state.as_ref()),
    };
    tracing::warn!(
        message.id = %message.id,
        delivery.id = content.delivery_id().map(tracing::field::display),
        subscription = content.delivery().map(|it| tracing::field::display(&it.subscription)),
        events = dropped,
        reason = PURGED,
        "a poison message is purged",
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
fn count_dropped(
    context: &Context,
    message: &Poisoned,
    content: &Content,
    state: Option<&DeliveryState>,
) -> u64 {
    let events = match content.delivery() {
        Some(delivery) => {
            let events = events_left(delivery, state);
            if events > 0 {
                let now = context.clock.now();
                let end = Entry::end(delivery, EntryKind::Dropped, PURGED.to_owned(), now);
                let end = Entry { events: u32::try_from(events).unwrap_or(u32::MAX), ..end };
                context.journal.note(end, Some(&message.receipt));
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
async fn count_piece(
    context: &Context,
    message: &Poisoned,
    piece: &Piece,
) -> Result<u64, PortError> {
    let object = context.payloads.get(&fan_out::key(piece.publish)).await?;
    let most = context.settings.queue_message_bytes_max;
    let packed = object.and_then(|object| fan_out::decode(&object, most).ok());
    let mut sum = 0;
    if let Some(packed) = &packed {
        let at = packed.acceptance().time;
        for (key, events) in piece.events(packed) {
            let count = Count {
                owner: Owner::Subscription(key.clone()),
                publish_time: at,
                counted: Counted::Dropped(PURGED.to_owned()),
                events,
                once: None,
            };
            context.journal.count(count, Some(&message.receipt));
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

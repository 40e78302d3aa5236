//! Lists, shows, resends and purges messages of the poison queue.
//!
//! SQS reads messages only by receiving, so they are hidden for a moment and shown again at the end.
//! A queue has no order and no pages: every request starts over, and says whether it saw all.

mod purged;

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt, stream};
use gridpost_api::{
    document::quoted,
    error::ErrorCode,
    requests::{PurgeInput, ResendInput},
    waiting::{
        Handled, HandledMessage, HandledResult, MovedBy, PoisonKind, PoisonList, PoisonMessage,
        PoisonShown,
    },
};
use gridpost_core::{
    delivery::queue::Queue,
    error::chain,
    poison::{Content, Origin, Poisoned, ResendTarget, resend_queue},
    time::Timestamp,
};
use gridpost_ports::{Outgoing, PortError};
use serde_json::Value;

use super::{Answer, send_back};
use crate::{
    Context, Reply,
    page::{Form, Page},
};

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

/// Lists messages without their events.
pub(super) async fn list(context: &Context, page: &Page) -> Answer {
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

pub(super) async fn show(context: &Context, id: &str) -> Answer {
    let mut search = Search::new(context);
    let found = find(&mut search, id).await;
    let (count, is_complete) = (search.seen.len(), search.end().await);
    let message = found?.ok_or_else(|| not_found(id, count, is_complete))?;
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

fn not_found(id: &str, count: usize, is_complete: bool) -> Reply {
    Reply::error(404, ErrorCode::ResourceNotFound, not_found_message(id, count, is_complete))
}

fn not_found_message(id: &str, count: usize, is_complete: bool) -> String {
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

#[derive(Debug)]
enum Chosen {
    All,
    These(BTreeSet<String>),
}

impl Chosen {
    fn of(ids: Option<BTreeSet<String>>) -> Self {
        ids.map_or(Self::All, Self::These)
    }

    fn has(&self, id: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(ids) => ids.contains(id),
        }
    }
}

pub(super) async fn resend(context: &Context, input: &Value) -> Answer {
    let ResendInput { ids, to, .. } = ResendInput::read(input)?;
    handle(context, &Chosen::of(ids), Action::Resend(to)).await
}

/// Removes messages. Their events are counted and logged as dropped.
pub(super) async fn purge(context: &Context, input: &Value) -> Answer {
    let PurgeInput { ids, .. } = PurgeInput::read(input)?;
    handle(context, &Chosen::of(ids), Action::Purge).await
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Resend(Option<ResendTarget>),
    Purge,
}

async fn handle(context: &Context, chosen: &Chosen, action: Action) -> Answer {
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
    if let Chosen::These(ids) = chosen {
        let done: BTreeSet<_> = handled.iter().map(|one| one.id.clone()).collect();
        handled.extend(ids.difference(&done).map(|id| HandledMessage {
            message: Some(not_found_message(id, count, is_complete)),
            is_removed: None,
            ..handled_as(id, HandledResult::NotFound)
        }));
    }
    Ok(Reply::ok(Handled { value: handled, is_complete }))
}

async fn handle_all(
    search: &mut Search<'_>,
    chosen: &Chosen,
    action: Action,
    handled: &mut Vec<HandledMessage>,
) -> Result<(), PortError> {
    let results_max = match chosen {
        Chosen::All => RESULTS_MAX,
        Chosen::These(ids) => ids.len(),
    };
    let mut removed = 0;
    while removed < REMOVED_MAX && handled.len() < results_max {
        let messages = search.next().await?;
        if messages.is_empty() {
            break;
        }
        for message in messages.iter().filter(|message| chosen.has(&message.id)) {
            let result = match action {
                Action::Resend(to) => resend_one(search.context, message, to).await,
                Action::Purge => purged::purge_one(search.context, message).await,
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
    let outgoing = Outgoing { body: message.body.clone(), group, delay_s: 0 };
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

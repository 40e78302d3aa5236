//! The poison queue: what lies there, back to where it belongs, or away.
//!
//! SQS has no look without a receive: what is looked at is hidden for a moment and shown again at the
//! end. A queue hands out in no order and has no pages, so every request begins anew, and says
//! whether it has come to the end.

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

/// What the query of the list may have: no place where a next page begins.
pub(super) const LIST: Form = Form { filters: &[], is_token: None };

/// How long one request looks through the queue: API Gateway waits 30 s for its answer.
const LOOK_MAX: Duration = Duration::from_secs(12);

/// How long what is looked at stays hidden if it is not shown again: longer than the request lasts.
const HIDDEN_FOR: Duration = Duration::from_secs(60);

/// Messages that one request sends back or purges.
const REMOVED_MAX: usize = 100;

/// Messages that an answer tells of, those that can't be sent back included.
const TOLD_MAX: usize = 500;

/// Calls of SQS at the same time.
const AT_ONCE_MAX: usize = 32;

/// Characters of a message's body that are shown.
const BODY_CHARS_MAX: usize = 64 * 1024;

/// A look through the queue.
struct Look<'c> {
    context: &'c Context,
    until: Timestamp,
    seen: BTreeSet<String>,
    /// Receipts of what is shown again at the end.
    hidden: Vec<String>,
    /// Whether nothing that is not hidden was left.
    is_complete: bool,
}

impl<'c> Look<'c> {
    fn new(context: &'c Context) -> Self {
        let until = context.clock.after(LOOK_MAX);
        Self { context, until, seen: BTreeSet::new(), hidden: Vec::new(), is_complete: false }
    }

    /// Some messages more, or none at the end of the queue or of the time.
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
            // A standard queue may hand over twice.
            new.retain(|message| self.seen.insert(message.id.clone()));
            if !new.is_empty() {
                return Ok(new);
            }
        }
        Ok(Vec::new())
    }

    /// Notes that a message is gone: there is nothing of it to show again.
    fn forget(&mut self, message: &Poisoned) {
        self.hidden.retain(|receipt| *receipt != message.receipt);
    }

    /// Shows again what was hidden. What can't be comes back a minute later by itself.
    async fn end(self) -> bool {
        let receiver = &self.context.receiver;
        // Receipts by value: a closure over references makes a future that can't change threads.
        let shown = stream::iter(self.hidden)
            .map(|receipt| async move { receiver.hide(Queue::Poison, &receipt, 0).await });
        let shown: Vec<_> = shown.buffer_unordered(AT_ONCE_MAX).collect().await;
        if let Some(error) = shown.into_iter().find_map(Result::err) {
            tracing::warn!(error = %chain(&error), "a poison message stays hidden for a minute");
        }
        self.is_complete
    }
}

/// What is in the queue, each message as far as it can be read, without what it carries.
pub(super) async fn list(context: &Context, page: &Page) -> Answer {
    let count = context.poison.count().await?;
    let mut look = Look::new(context);
    let listed = listed(&mut look, page.most()).await;
    let is_complete = look.end().await;
    Ok(Reply::ok(PoisonList { value: listed?, approximate_count: count, is_complete }))
}

async fn listed(look: &mut Look<'_>, most: usize) -> Result<Vec<PoisonMessage>, PortError> {
    let mut listed = Vec::new();
    while listed.len() < most {
        let messages = look.next().await?;
        if messages.is_empty() {
            break;
        }
        let shards = look.context.settings.retry_shards;
        let documents = messages.iter().map(|it| document(it, &Content::of(&it.body), shards));
        listed.extend(documents.take(most - listed.len()));
    }
    Ok(listed)
}

pub(super) async fn show(context: &Context, id: &str) -> Answer {
    let mut look = Look::new(context);
    let found = find(&mut look, id).await;
    let (count, is_complete) = (look.seen.len(), look.end().await);
    let message = found?.ok_or_else(|| not_found(id, count, is_complete))?;
    let body: String = message.body.chars().take(BODY_CHARS_MAX).collect();
    Ok(Reply::ok(PoisonShown {
        message: document(&message, &Content::of(&message.body), context.settings.retry_shards),
        is_body_cut: body.len() < message.body.len(),
        body,
    }))
}

async fn find(look: &mut Look<'_>, id: &str) -> Result<Option<Poisoned>, PortError> {
    loop {
        let messages = look.next().await?;
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

/// What a message is, where it came from and where it may go, without what it carries.
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

/// Which messages are meant.
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

/// Removes messages: their events are dropped, counted and logged.
pub(super) async fn purge(context: &Context, input: &Value) -> Answer {
    let PurgeInput { ids, .. } = PurgeInput::read(input)?;
    handle(context, &Chosen::of(ids), Action::Purge).await
}

/// What is done with a message.
#[derive(Clone, Copy, Debug)]
enum Action {
    Resend(Option<ResendTarget>),
    Purge,
}

async fn handle(context: &Context, chosen: &Chosen, action: Action) -> Answer {
    let mut look = Look::new(context);
    let mut handled = Vec::new();
    let done = handle_all(&mut look, chosen, action, &mut handled).await;
    let (count, is_complete) = (look.seen.len(), look.end().await);
    if let Err(error) = done {
        if handled.is_empty() {
            return Err(error.into());
        }
        // What was handled is told: it is gone, and no other request finds it.
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
    look: &mut Look<'_>,
    chosen: &Chosen,
    action: Action,
    handled: &mut Vec<HandledMessage>,
) -> Result<(), PortError> {
    let (mut removed, told_max) = match chosen {
        Chosen::All => (0, TOLD_MAX),
        Chosen::These(ids) => (0, ids.len()),
    };
    while removed < REMOVED_MAX && handled.len() < told_max {
        let messages = look.next().await?;
        if messages.is_empty() {
            break;
        }
        for message in messages.iter().filter(|message| chosen.has(&message.id)) {
            let result = match action {
                Action::Resend(to) => resend_one(look.context, message, to).await,
                Action::Purge => purged::purge_one(look.context, message).await,
            };
            let one = result.unwrap_or_else(|error| failed(&message.id, &error));
            if one.is_removed == Some(true) {
                look.forget(message);
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

/// Returns the result of a message that is not removed.
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

/// Sent first and removed afterwards: a crash in between leaves a duplicate.
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

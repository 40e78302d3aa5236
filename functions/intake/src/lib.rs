//! intake: publishes messages of a source's queue (an EventBridge rule, a bucket, an SNS topic, an
//! SQS queue) to a topic.
//!
//! The core maps each message to events and reads them like any publish. Messages that can't be
//! mapped or read go to the source's poison queue. The rest of the batch is one publish, which
//! [`publish`] sends. SQS deletes a message only then: a crash repeats it, with the same event ids.
//!
//! If the code panics at one message, that message is kept, and the others are published.
//!
//! A message decides nothing but the events' content: the topic and the mapping are the
//! [`Source`]'s, which Terraform sets.
//!
//! [`publish`]: gridpost_ingest::publish

use std::sync::Arc;

use gridpost_core::{
    delivery::queue::Queue,
    error::chain,
    event::{ParsedEvent, custom::Stamps},
    intake::{self, Event, Mapped, Message, Source, Unmappable},
    metric,
    publish::{self as rules, BODY_BYTES_MAX, PublishError, pack::Acceptance},
    time::Timestamp,
    topic::Topic,
};
use gridpost_ingest::publish::{Accepted, DeliverySink, SendLimits, send};
use gridpost_ports::{
    Clock, Dice, Journal, Meter, Outgoing, Payloads, PortError, QueueSender, SourceMessage,
    configuration::{ConfigurationCache, TopicSnapshot},
    guard::{caught, guarded},
};
use uuid::Uuid;

/// The ports and settings of intake.
pub struct Context {
    pub source: Source,
    pub clock: Arc<dyn Clock>,
    pub dice: Arc<dyn Dice>,
    pub configuration: ConfigurationCache,
    /// Its poison queue is the source's.
    pub sender: Arc<dyn QueueSender>,
    /// Stores events that are too large for a queue message, and large fan-outs.
    pub payloads: Arc<dyn Payloads>,
    pub meter: Arc<dyn Meter>,
    pub journal: Arc<dyn Journal>,
    /// 262,144 to 1,048,576.
    pub queue_message_bytes_max: usize,
    /// The most deliveries of a batch that are enqueued at once: a larger fan-out is stored first.
    pub inline_fan_out: usize,
    /// The most deliveries that one message of the fan-out queue stands for, at least 1.
    pub piece_deliveries_max: usize,
}

impl Context {
    /// Counts a message that comes back, for an alarm: SQS does not report the age of messages that
    /// were received several times.
    fn count_kept(&self) {
        self.meter.count(metric::SOURCE_KEPT_COUNT, &[("Source", &*self.source.name)], 1);
    }

    fn limits(&self) -> SendLimits<'_> {
        SendLimits {
            sink: DeliverySink { sender: &*self.sender, payloads: &*self.payloads },
            journal: &*self.journal,
            queue_message_bytes_max: self.queue_message_bytes_max,
            inline_fan_out: self.inline_fan_out,
            piece_deliveries_max: self.piece_deliveries_max,
        }
    }
}

/// Publishes messages to the source's topic. Returns the ids of those that SQS keeps.
///
/// SQS deletes a message once all deliveries of its events are in the dispatch queue or stored for
/// expand, or the message is in the poison queue. If the topic can't be read, SQS keeps them all.
pub async fn take(context: &Context, messages: Vec<SourceMessage>) -> Vec<String> {
    let topic = &context.source.topic;
    let snapshot = match context.configuration.topic(topic).await {
        Ok(Some(snapshot)) => snapshot,
        Ok(None) => {
            let why = || Refusal::Publish(PublishError::TopicNotFound);
            return refuse(context, messages.iter().map(|message| (message, why()))).await;
        }
        Err(error) => return keep(context, &messages, "its topic can't be read", &error),
    };
    let (mut refused, mut kept) = (Vec::new(), Vec::new());
    let mut mapped = Vec::new();
    for message in &messages {
        match caught("mapping a message", || map(context, message, &snapshot.topic)) {
            Ok(Ok(body)) => mapped.extend(body),
            Ok(Err(error)) => refused.push((message, Refusal::Unmappable(error))),
            Err(panic) => kept.extend(keep(context, [message], PANICKED, &panic)),
        }
    }
    let topic_id = snapshot.topic.id();
    let now = context.clock.now();
    let mut taken = Vec::new();
    for one in &mapped {
        match caught("reading a message", || one.read(&snapshot.topic, &topic_id, now)) {
            Ok(Ok(events)) => taken.push(Taken { message: one.message, events }),
            Ok(Err(error)) => refused.push((one.message, Refusal::Publish(error))),
            Err(panic) => kept.extend(keep(context, [one.message], PANICKED, &panic)),
        }
    }
    kept.extend(publish_all(context, &snapshot, taken, now).await);
    kept.extend(refuse(context, refused.into_iter()).await);
    kept
}

const PANICKED: &str = "a bug in Gridpost";

const PUBLISHING: &str = "publishing messages";

struct Taken<'m> {
    message: &'m SourceMessage,
    events: Vec<ParsedEvent<'m>>,
}

/// A message in the topic's schema, as the body of a publish.
struct Body<'m> {
    message: &'m SourceMessage,
    text: String,
    /// One for each event, for topics whose events have no ids.
    ids: Vec<Uuid>,
}

impl Body<'_> {
    fn read<'b>(
        &'b self,
        topic: &Topic,
        topic_id: &'b str,
        now: Timestamp,
    ) -> Result<Vec<ParsedEvent<'b>>, PublishError> {
        let size_bytes = self.text.len();
        if size_bytes > BODY_BYTES_MAX {
            return Err(PublishError::BodyTooLarge { size_bytes });
        }
        let mut ids = self.ids.iter();
        let mut id = || ids.next().copied().unwrap_or_default();
        rules::read(topic, topic_id, self.text.as_bytes(), Stamps { now, id: &mut id })
    }
}

/// Maps a message to the topic's schema. Returns `None` if it holds no event.
fn map<'m>(
    context: &Context,
    message: &'m SourceMessage,
    topic: &Topic,
) -> Result<Option<Body<'m>>, Unmappable> {
    let SourceMessage { message_id, body, sent_at } = message;
    let given = Message { id: message_id, body, sent_at: *sent_at };
    let Mapped::Events(events) = intake::map(&context.source, &given)? else {
        tracing::info!(source = context.source.name, "S3's test event holds no event");
        context.meter.count(metric::SOURCE_IGNORED_COUNT, &[], 1);
        return Ok(None);
    };
    let ids = events.iter().map(Event::uuid).collect();
    let text = intake::body(&events, topic.input_schema)?;
    Ok(Some(Body { message, text, ids }))
}

/// Publishes the events of all messages at once. Returns the ids of messages that SQS keeps because
/// that failed. After a panic, publishes each message separately, which repeats sent deliveries.
async fn publish_all(
    context: &Context,
    snapshot: &TopicSnapshot,
    taken: Vec<Taken<'_>>,
    now: Timestamp,
) -> Vec<String> {
    let of_each: Vec<_> = taken.iter().map(|one| (one.message, one.events.len())).collect();
    let messages: Vec<_> = of_each.iter().map(|(message, _)| *message).collect();
    let events: Vec<_> = taken.into_iter().flat_map(|one| one.events).collect();
    let all = publish(context, snapshot, &messages, &events, now);
    if let Ok(kept) = guarded(PUBLISHING, all).await {
        return kept;
    }
    let (mut kept, mut rest) = (Vec::new(), &events[..]);
    for (message, count) in of_each {
        let (own, others) = rest.split_at(count);
        rest = others;
        let one = [message];
        let publish = publish(context, snapshot, &one, own, now);
        kept.extend(match guarded(PUBLISHING, publish).await {
            Ok(kept) => kept,
            Err(panic) => keep(context, [message], PANICKED, &panic),
        });
    }
    kept
}

/// Publishes events of messages. Returns the ids of messages that SQS keeps because that failed.
async fn publish(
    context: &Context,
    snapshot: &TopicSnapshot,
    taken: &[&SourceMessage],
    events: &[ParsedEvent<'_>],
    now: Timestamp,
) -> Vec<String> {
    if events.is_empty() {
        return Vec::new();
    }
    let matched = snapshot.matcher().match_events(events, now);
    // A new id each time: SQS may return the messages in another batch, matched by another filter,
    // and a delivery whose id has ended would be dropped uncounted. Events keep their ids.
    let id = context.dice.id();
    let acceptance =
        Acceptance { id, time: now, revision: snapshot.topic.at(), trace_parent: None };
    let publish = Accepted {
        topic: &snapshot.topic.name,
        matched: &matched,
        events,
        acceptance,
        own_id: context.dice.id(),
        is_repeatable: false,
    };
    match send(context.limits(), publish).await {
        Ok(()) => Vec::new(),
        Err(error) => {
            keep(context, taken.iter().copied(), "its events could not be sent on", &error)
        }
    }
}

/// Logs and counts messages that come back. Returns their ids.
fn keep<'m>(
    context: &Context,
    messages: impl IntoIterator<Item = &'m SourceMessage>,
    why: &str,
    error: &PortError,
) -> Vec<String> {
    let keep = |message: &SourceMessage| {
        tracing::warn!(
            source = context.source.name,
            topic.name = context.source.topic,
            message.id = %message.message_id,
            error = %chain(error),
            "a message of a source comes back: {why}",
        );
        context.count_kept();
        message.message_id.to_string()
    };
    messages.into_iter().map(keep).collect()
}

/// The reason why a message is refused.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Unmappable(Unmappable),
    #[error(transparent)]
    Publish(PublishError),
}

impl Refusal {
    fn reason(&self) -> &'static str {
        match self {
            Self::Unmappable(_) => "Unmappable",
            Self::Publish(error) => error.detail(),
        }
    }
}

/// Moves messages unchanged to the source's poison queue, from where they can be sent back. Returns
/// the ids of those that could not be moved.
///
/// The deployment's poison queue would be wrong: an operator may send its messages back, which are
/// then read as Gridpost's own, and these texts are untrusted.
async fn refuse<'m>(
    context: &Context,
    refused: impl Iterator<Item = (&'m SourceMessage, Refusal)>,
) -> Vec<String> {
    let refused: Vec<_> = refused.collect();
    if refused.is_empty() {
        return Vec::new();
    }
    let message = |(message, _): &(&SourceMessage, Refusal)| {
        Outgoing::new(message.body.clone(), "refused".to_owned(), 0)
    };
    let outgoing = refused.iter().map(message).collect();
    let mut answers = context.sender.send(Queue::Poison, outgoing).await.into_iter();
    let mut kept = Vec::new();
    for (message, why) in &refused {
        let (id, reason) = (&message.message_id, why.reason());
        let (source, topic) = (&context.source.name, &context.source.topic);
        match answers.next() {
            Some(Ok(())) => {
                context.meter.count(metric::SOURCE_REFUSED_COUNT, &[("Reason", reason)], 1);
                tracing::error!(
                    source, topic.name = topic, message.id = %id, reason, error = %chain(why),
                    "a message of a source was refused and is in the source's poison queue",
                );
            }
            failed => {
                let error = failed.and_then(Result::err).map(|error| error.to_string());
                tracing::error!(
                    source, topic.name = topic, message.id = %id, reason, error = %chain(why),
                    poison = error.as_deref().unwrap_or("no answer came"),
                    "a message of a source was refused, could not be moved to the poison queue, and comes back",
                );
                context.count_kept();
                kept.push(id.to_string());
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests;

//! The journal: entries and counts go in, answers to questions come out.

use async_trait::async_trait;
use gridpost_core::{
    journal::{Answer, Count, Entry, EntryKind, Question},
    subscription::SubscriptionKey,
};
use tracing::field::display;
use uuid::Uuid;

use super::PortError;

/// Writes the journal.
///
/// A note with the receipt of a message, or about a delivery, takes effect at the latest with the
/// next write about it: with its state, its successor or the deletion of the message. So it is given before
/// that write. A store that can commits both together; a log has it at once.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Whether it keeps first attempts that succeed; it always counts them.
    fn keeps_first_successes(&self) -> bool;

    /// Notes an entry and its count. `receipt` is that of the message in hand.
    fn note(&self, entry: Entry, receipt: Option<&str>);

    /// Counts events that no entry counts, with the message in hand.
    fn count(&self, count: Count, receipt: Option<&str>);

    /// Counts what was sent. A store that commits the counts of [`Outgoing`](super::Outgoing) messages with
    /// them has done so.
    fn count_sent(&self, counts: &[Count]);

    /// Writes counts that go with no message.
    async fn write(&self, counts: Vec<Count>) -> Result<(), PortError>;

    /// Commits the notes about a delivery. Call it before its end is recorded in another store, such as the
    /// payload bucket.
    async fn commit(&self, delivery: Uuid) -> Result<(), PortError>;
}

/// Answers questions from the journal.
#[async_trait]
pub trait JournalReader: Send + Sync {
    /// Answers a question, or goes on after the page whose token is given.
    ///
    /// Where the answer takes long, `max_dollars` starts a run, if it costs no more than that; without it,
    /// only a run that was started before is looked at. Equal questions share a run.
    async fn ask(
        &self,
        question: &Question,
        page: Option<&str>,
        max_dollars: Option<f64>,
    ) -> Result<JournalReply, JournalError>;

    /// Counts the events of each of these event subscriptions that were matched or redriven and have not ended,
    /// attempted or not. Returns `None` where that takes long, or costs.
    async fn waiting(&self, _of: &[SubscriptionKey]) -> Result<Option<Vec<u64>>, PortError> {
        Ok(None)
    }
}

/// The reply to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalReply {
    pub reads: Reads,
    pub progress: Progress,
}

/// The data that an answer reads, about.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reads {
    pub gigabytes: f64,
    /// U.S. dollars.
    pub dollars: f64,
}

/// How far an answer is.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    Answered(Answer),
    Running,
    /// It would cost more than was allowed, and was not started.
    TooDear,
}

/// The reason why a question has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    /// It reads more than can be answered at once; the text says how to ask for less.
    #[error("{0}")]
    TooMuch(String),
    /// The token is not one of this question's.
    #[error("the page is not one of this answer's")]
    Page,
    /// No run of this question is known: it was never started, or is forgotten.
    #[error("the answer is no longer there: ask again")]
    Forgotten,
    /// The service refuses for now.
    #[error("too many questions at once: ask again in some seconds")]
    Busy,
    /// The deployment may not read its journal; the text names what is missing.
    #[error("{0}")]
    Denied(String),
    #[error(transparent)]
    Failed(#[from] PortError),
}

/// The module of the lines that [`log`] writes, by which filters know them.
pub const TARGET: &str = module_path!();

/// Logs an entry as one line that can be read alone. A stored dead letter has no line, but a count.
///
/// Events and the endpoint's URL are left out, unless the response repeats them and the deployment keeps the
/// beginning of responses.
pub fn log(entry: &Entry) {
    if entry.kind == EntryKind::DeadLettered {
        return;
    }
    let message = entry.kind.message();
    let Entry { delivery, subscription, status, events, event_ids, .. } = entry;
    let outcome = entry.outcome.map(display);
    let attempt = (entry.kind != EntryKind::LateSuccess).then_some(entry.attempt);
    let duration_ms = entry.took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    let publish_time = entry.publish_time.to_iso_8601();
    let due = entry.due.map(|due| display(due.to_iso_8601()));
    let because = entry.because.map(display);
    let reason = entry.reason.as_deref().map(display);
    let traceparent = entry.trace_parent.map(display);
    if entry.kind.is_end() {
        return tracing::warn!(
            delivery.id = %delivery,
            %subscription,
            attempts = entry.attempt,
            outcome,
            status,
            reason,
            events,
            event_ids,
            publish_time,
            traceparent,
            "{message}",
        );
    }
    tracing::info!(
        delivery.id = %delivery,
        %subscription,
        attempt,
        outcome,
        status,
        duration_ms,
        decision = entry.kind.decision(due.is_some()),
        receives = entry.receives,
        due,
        because,
        reason,
        events,
        event_ids,
        publish_time,
        traceparent,
        response = entry.response.as_deref(),
        "{message}",
    );
}

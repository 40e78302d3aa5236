//! dead-letter: writes ended deliveries to their dead-letter destinations.
//!
//! dispatch sends them through the dead-letter queue with a delay (five minutes), so that those that
//! ended together arrive together. [`gather`] writes one object per subscription, and [`notify`]
//! publishes an event about it.

pub mod notify;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::future::join_all;
use gridpost_core::{
    delivery::{
        DecodeError,
        claim::{self, Payload},
        dead_letter::{Ended, Folder},
        parking::RECEIVES_MAX,
        queue::Queue,
    },
    error::chain,
    journal::{Entry, EntryKind},
    metric, poison,
    time::Timestamp,
};
use gridpost_ports::{
    Bucket, BucketError, Clock, Journal, Meter, Outgoing, Payloads, PortError, QueueReceiver,
    QueueSender, Record, Result,
};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use self::notify::{Written, notify};

/// How long a refused record is hidden, by how often it was received.
/// Source: Event Grid, "Dead lettering for event subscriptions to namespace topics".
const REFUSED_WAITS_S: [u32; 3] = [10, 60, 300];

/// The fewest receives before a record is given up, however old its events are.
const RECEIVES_MIN: u32 = 4;

/// Waits before a notification that failed is sent again.
const NOTIFY_AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// The ports of dead-letter.
pub struct Context {
    pub clock: Arc<dyn Clock>,
    pub sender: Arc<dyn QueueSender>,
    pub receiver: Arc<dyn QueueReceiver>,
    pub bucket: Arc<dyn Bucket>,
    /// Holds events that are too large for a message.
    pub payloads: Arc<dyn Payloads>,
    pub meter: Arc<dyn Meter>,
    pub journal: Arc<dyn Journal>,
    pub notifier: Option<notify::Notifier>,
    /// How long after its end a delivery is dropped if its destination refuses. Event Grid: 4 hours.
    pub give_up_after: Duration,
}

/// Stores the records' dead letters. Returns the ids of the messages that SQS keeps.
///
/// SQS deletes a record only if its object is stored, or its events were dropped and counted.
pub async fn gather(context: &Context, records: Vec<Record>) -> Vec<String> {
    let (mut kept, mut claimed) = (Vec::new(), Vec::new());
    let mut folders: BTreeMap<Folder, Vec<(Record, Ended)>> = BTreeMap::new();
    let again = records.iter().filter(|record| record.receive_count > 1);
    let again: BTreeSet<_> = again.map(|record| record.message_id.to_string()).collect();
    for record in records {
        match Ended::decode(&record.body) {
            Ok(ended) if ended.delivery.is_claimed() => claimed.push((record, ended)),
            Ok(ended) => folders.entry(ended.folder()).or_default().push((record, ended)),
            Err(error) => kept.extend(poison(context, record, &error).await),
        }
    }
    let stored = folders.into_iter().map(|(folder, ended)| store(context, folder, ended));
    kept.extend(join_all(stored).await.into_iter().flatten());
    // Count before more calls of S3, which may hang until the function's time is up.
    note_kept(context, &again, &kept);
    // One after the other: a hundred of these would not fit the function's memory.
    for (record, ended) in claimed {
        let more = store_claimed(context, record, ended).await;
        note_kept(context, &again, &more);
        kept.extend(more);
    }
    kept
}

/// Counts records that come back and have come back before: one failure is normal.
fn note_kept(context: &Context, again: &BTreeSet<String>, kept: &[String]) {
    let count = kept.iter().filter(|id| again.contains(*id)).count();
    if count > 0 {
        context.meter.count(metric::KEPT_COUNT, &[], count as u64);
        context.meter.flush(context.clock.now());
    }
}

/// Stores the dead letters of one delivery whose events are in the payload bucket, and releases
/// those. Returns the message's id if SQS keeps it.
async fn store_claimed(context: &Context, record: Record, mut ended: Ended) -> Vec<String> {
    let id = ended.delivery.id;
    match take(context, &ended).await {
        Ok(Some(Payload::Events(events))) => {
            ended.delivery.claim(events);
            let kept = store(context, ended.folder(), vec![(record, ended)]).await;
            if kept.is_empty() {
                release(context, id).await;
            }
            kept
        }
        // A second copy: the first one was stored, or dropped and counted.
        Ok(Some(Payload::Ended)) => Vec::new(),
        Ok(None) => {
            drop_events(context, &record, &ended, "PayloadMissing");
            Vec::new()
        }
        Err(error) => {
            tracing::warn!(delivery.id = %id, error = %chain(&error), "a payload could not be read");
            let now = context.clock.now();
            // If it is given up, its unread payload stays until the bucket's age limit.
            refused(context, (record, ended), now).await.into_iter().collect()
        }
    }
}

async fn take(context: &Context, ended: &Ended) -> Result<Option<Payload>> {
    let object = context.payloads.get(&claim::key(ended.delivery.id)).await?;
    let payload = object.map(|object| claim::decode(&object)).transpose();
    payload.map_err(|error| PortError::new("reading a payload", error))
}

/// Releases the events of a delivery. Best effort: the bucket's age limit removes what stays. The end
/// is counted first, because nothing counts events that are already released.
async fn release(context: &Context, delivery: Uuid) {
    context.meter.flush(context.clock.now());
    let released = async {
        context.journal.commit(delivery).await?;
        context.payloads.put(&claim::key(delivery), claim::ENDED.to_vec()).await
    };
    let released = released.await;
    if let Err(error) = released {
        tracing::warn!(delivery.id = %delivery, error = %chain(&error), "a payload was not released");
    }
}

/// Publishes the notification, with retries here: records that are kept for it come back among
/// others, and are then written again in another object.
async fn notify_with_retries(context: &Context, written: Written<'_>) -> Result<()> {
    for wait in NOTIFY_AGAIN_AFTER {
        match notify(context, written).await {
            Ok(()) => return Ok(()),
            Err(_) => tokio::time::sleep(wait).await,
        }
    }
    notify(context, written).await
}

/// Stores one folder's dead letters as one object. Returns the ids of the messages that SQS keeps.
async fn store(context: &Context, folder: Folder, ended: Vec<(Record, Ended)>) -> Vec<String> {
    let now = context.clock.now();
    let id = object_id(&ended);
    let key = folder.key(now, id);
    let records: Vec<String> = ended.iter().flat_map(|(_, ended)| ended.records()).collect();
    let body = format!("[{}]", records.join(","));
    let events = records.len();
    match context.bucket.put(&folder.bucket, &key, &folder.labels, body.into_bytes()).await {
        Ok(()) => {
            let all: Vec<_> = ended.iter().map(|(_, ended)| ended).collect();
            let written = Written { id, folder: &folder, key: &key, ended: &all };
            if let Err(error) = notify_with_retries(context, written).await {
                let (bucket, error) = (&folder.bucket, chain(&error));
                let is_old = |(_, ended): &(Record, Ended)| is_given_up(context, ended, now);
                if !ended.iter().all(is_old) {
                    tracing::warn!(
                        bucket,
                        key,
                        error,
                        "nobody was told of dead letters; it is tried again"
                    );
                    return hide_all(context, ended, now).await;
                }
                tracing::error!(bucket, key, error, "nobody will be told of dead letters");
            }
            for (record, ended) in &ended {
                let reason = ended.reason.to_string();
                note(context, EntryKind::DeadLettered, reason, (record, ended));
            }
            tracing::info!(bucket = folder.bucket, key, events, "dead letters written");
            Vec::new()
        }
        Err(BucketError::NotFound) => {
            for (record, ended) in &ended {
                drop_events(context, record, ended, "DeadLetterDestinationNotFound");
            }
            Vec::new()
        }
        Err(BucketError::Unavailable(error) | BucketError::Unreadable(error)) => {
            tracing::error!(
                bucket = folder.bucket,
                events,
                error = %chain(&error),
                "the dead-letter destination refuses; it is tried again until the events are too old",
            );
            let kept = ended.into_iter().map(|ended| refused(context, ended, now));
            join_all(kept).await.into_iter().flatten().collect()
        }
    }
}

/// Keeps a record whose destination refuses, or drops its events after too long.
async fn refused(
    context: &Context,
    (record, ended): (Record, Ended),
    now: Timestamp,
) -> Option<String> {
    // Events that come late, after an outage of this function, are tried too, and more than once.
    if record.receive_count >= RECEIVES_MIN && is_given_up(context, &ended, now) {
        drop_events(context, &record, &ended, "DeadLetterDestinationUnavailable");
        return None;
    }
    hide(context, &record, &ended, now).await;
    Some(record.message_id.to_string())
}

fn is_given_up(context: &Context, ended: &Ended, now: Timestamp) -> bool {
    now.since(ended.at) >= context.give_up_after
}

/// Keeps records whose notification failed: their object is then written again, under the same name.
async fn hide_all(context: &Context, ended: Vec<(Record, Ended)>, now: Timestamp) -> Vec<String> {
    let hidden = ended.iter().map(|(record, ended)| hide(context, record, ended, now));
    join_all(hidden).await;
    ended.into_iter().map(|(record, _)| record.message_id.to_string()).collect()
}

/// Hides a record for a while, longer each time.
async fn hide(context: &Context, record: &Record, ended: &Ended, now: Timestamp) {
    let left = context.give_up_after.saturating_sub(now.since(ended.at));
    let wait = refused_wait(record.receive_count, context.give_up_after);
    let wait = if left.is_zero() { wait } else { wait.min(left) };
    let seconds = u32::try_from(wait.as_secs()).unwrap_or(0).max(1);
    if let Err(error) = context.receiver.hide(Queue::DeadLetter, &record.receipt, seconds).await {
        tracing::warn!(message.id = %record.message_id, error = %chain(&error), "not hidden");
    }
}

/// How long a refused record waits. The last wait is long enough that the record is given up before
/// SQS moves it to the poison queue.
fn refused_wait(receives: u32, give_up_after: Duration) -> Duration {
    let index = usize::try_from(receives.max(1) - 1).unwrap_or(usize::MAX);
    let last = REFUSED_WAITS_S.len() - 1;
    let wait = Duration::from_secs(u64::from(REFUSED_WAITS_S[index.min(last)]));
    if index < last { wait } else { wait.max(give_up_after / RECEIVES_MAX) }
}

/// The id of the object, the same for the same deliveries: a batch that is received twice is stored
/// once. Parts of one delivery that ended apart differ in the events that were done before.
fn object_id(ended: &[(Record, Ended)]) -> Uuid {
    let part = |(_, ended): &(Record, Ended)| (ended.delivery.id, ended.delivery.done.to_string());
    let mut parts: Vec<_> = ended.iter().map(part).collect();
    parts.sort_unstable();
    let mut hash = Sha256::new();
    for (id, done) in &parts {
        hash.update(id.as_bytes());
        hash.update(done);
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

fn drop_events(context: &Context, record: &Record, ended: &Ended, reason: &str) {
    let Ended { delivery, destination, reason: ended_by, .. } = ended;
    tracing::error!(
        delivery.id = %delivery.id,
        subscription = %delivery.subscription,
        bucket = destination.bucket,
        %ended_by,
        problem = reason,
        "events can't be dead-lettered",
    );
    note(context, EntryKind::Dropped, reason.to_owned(), (record, ended));
}

fn note(context: &Context, kind: EntryKind, reason: String, (record, ended): (&Record, &Ended)) {
    let entry = Entry::end(&ended.delivery, kind, reason, context.clock.now());
    context.journal.note(entry, Some(&record.receipt));
}

/// Moves an undecodable record to the poison queue. Returns its message's id if that failed.
async fn poison(context: &Context, record: Record, error: &DecodeError) -> Option<String> {
    tracing::error!(
        message.id = %record.message_id,
        error = %chain(error),
        "a message is no ended delivery and goes to the poison queue; look at it there",
    );
    let group = poison::group(Queue::DeadLetter);
    let message = Outgoing::new(record.body, group, 0);
    let sent = context.sender.send(Queue::Poison, vec![message]).await.pop();
    let sent = sent.unwrap_or_else(|| Err(PortError::new("sending a message", "no answer came")));
    match sent {
        Ok(()) => {
            context.meter.count(metric::POISON_COUNT, &[("Queue", "DeadLetter")], 1);
            None
        }
        Err(error) => {
            tracing::warn!(error = %chain(&error), "not moved to the poison queue; it comes back");
            Some(record.message_id.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_wait_table() {
        let (four_hours, week) = (4 * 60 * 60, 7 * 24 * 60 * 60);
        let table = [
            (0, four_hours, 10),
            (1, four_hours, 10),
            (2, four_hours, 60),
            (3, four_hours, 300),
            (1_000, four_hours, 300),
            (2, week, 60),
            // At five minutes a week would take 2,016 receives, of which SQS allows 1,000.
            (3, week, 1_209),
        ];
        for (receives, give_up_s, want) in table {
            let wait = refused_wait(receives, Duration::from_secs(give_up_s));
            assert_eq!(wait.as_secs(), want, "{receives} receives");
        }
    }
}

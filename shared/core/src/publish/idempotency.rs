//! Idempotent publish, where a topic asks for it: a request that is repeated under its key is
//! answered as the first one was, and makes no second delivery.
//!
//! A record under the key is written before anything is enqueued, and says that the publish has
//! *begun*; once all is enqueued it is *done*. A request that meets a record which is done is
//! answered; one that meets a fresh one waits. After a crash it is unknown what was enqueued: once the
//! lease of the record has passed, a repetition does all of the work again, with the same ids of
//! deliveries. So a crash may leave a duplicate, and never a loss.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::PublishError;
use crate::{
    event::cloud_events::binary,
    time::{Pace, Timestamp},
    topic::{Revision, Topic},
};

/// The headers that a key may be in; the first that a request has counts. Azure's SDKs send the
/// second with every request, and repeat it when they retry.
pub const KEY_HEADERS: [&str; 2] = ["idempotency-key", "x-ms-client-request-id"];

/// Most characters of a key.
pub const KEY_CHARS_MAX: usize = 256;

/// How long a publish may be under way before it counts as dead: ingest is stopped after 29 s, and
/// the rest is for clocks that differ.
pub const LEASE: Duration = Duration::from_secs(35);

/// A publish usually takes less than this: until then it is worth asking again in a second. After
/// that it is probably dead, and a repetition is told to wait for the end of its lease. So the three
/// repetitions of an Azure SDK reach past the lease.
const USUAL: Duration = Duration::from_secs(2);

/// A publish with a key, to a topic that heeds keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed {
    key: RecordKey,
    /// What was sent, as a hash.
    content: String,
    /// How long a record is heeded.
    window: Duration,
}

/// The name of a record: a hash of topic and key. Hashes are spread over all partitions of a table,
/// and tell nothing of the key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey(String);

/// What is stored of a publish under its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// From which the ids of its deliveries are derived, whichever request makes them.
    pub publish: Uuid,
    /// The request that wrote it last.
    pub by: Uuid,
    /// What was sent, as a hash.
    pub content: String,
    /// Until when it is heeded.
    pub until: Timestamp,
    pub standing: Standing,
    /// Counts its writes; stored beside it.
    #[serde(skip)]
    pub revision: u64,
}

/// How far a publish is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Standing {
    /// Under way. After the end of its lease it is dead, or was given up.
    Begun { lease_until: Timestamp },
    /// All of its deliveries are in the queue.
    Done,
}

/// What a request with a key does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Write this record, and enqueue once it is written.
    Begin(Record),
    /// Its own record is written: enqueue.
    Begun(Record),
    /// Nothing: it was done before.
    Repeated,
}

impl RecordKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Keyed {
    /// The key of a request, and what is sent under it; `None` where the topic heeds no keys, or the
    /// request has none.
    /// Refuses an unusable key: ignoring it would break the publisher's guarantee without a word.
    pub fn of(
        topic: &Topic,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Option<Self>, PublishError> {
        let Some(idempotency) = topic.idempotency else { return Ok(None) };
        let given = KEY_HEADERS.into_iter().find(|name| headers.contains_key(*name));
        let Some(header) = given else { return Ok(None) };
        let Some(value) = binary::only(headers, header)? else { return Ok(None) };
        let is_usable = |key: &[u8]| {
            (1..=KEY_CHARS_MAX).contains(&key.len())
                && key.iter().all(|byte| (b' '..=b'~').contains(byte))
        };
        let value = value.as_bytes();
        if !is_usable(value) {
            return Err(PublishError::KeyUnusable { header });
        }
        let created_at = topic.created_at.as_millis().to_be_bytes();
        let parts = [topic.name.as_bytes(), &created_at, header.as_bytes(), value];
        Ok(Some(Self {
            key: RecordKey(hash(parts)),
            content: content(headers, body),
            window: idempotency.window(),
        }))
    }

    pub fn key(&self) -> &RecordKey {
        &self.key
    }

    /// The id of an event that came without one: the same whenever the request is repeated.
    pub fn event_id(&self, number: u64) -> Uuid {
        id([self.key.0.as_bytes(), self.content.as_bytes(), &number.to_be_bytes()])
    }

    /// What request `by` does, if that is stored under its key.
    /// Fails for other content under the same key, and while another request with it is under way.
    pub fn next(
        &self,
        stored: Option<&Record>,
        by: Uuid,
        now: Timestamp,
        pace: Pace,
    ) -> Result<Next, PublishError> {
        let lease = pace.to_clock(LEASE);
        let fresh = |publish, revision| Record {
            publish,
            by,
            content: self.content.clone(),
            until: now + self.window.max(lease),
            standing: Standing::Begun { lease_until: now + lease },
            revision,
        };
        let Some(stored) = stored else { return Ok(Next::Begin(fresh(by, 0))) };
        if stored.until <= now {
            // The table deletes late.
            return Ok(Next::Begin(fresh(by, stored.revision)));
        }
        if stored.content != self.content {
            return Err(PublishError::KeyReused);
        }
        match stored.standing {
            Standing::Done => Ok(Next::Repeated),
            // Its write was answered by an error, and yet took effect.
            Standing::Begun { .. } if stored.by == by => Ok(Next::Begun(stored.clone())),
            Standing::Begun { lease_until } if lease_until > now => {
                let left = pace.to_real(lease_until.since(now));
                Err(PublishError::UnderWay { retry_after_s: wait_s(left) })
            }
            Standing::Begun { .. } => Ok(Next::Begin(fresh(stored.publish, stored.revision))),
        }
    }
}

impl Record {
    /// The same, once all is enqueued.
    #[must_use]
    pub fn done(self) -> Self {
        Self { standing: Standing::Done, ..self }
    }

    /// The same where enqueuing failed: the next request need not wait for the lease.
    #[must_use]
    pub fn given_up(self, now: Timestamp) -> Self {
        Self { standing: Standing::Begun { lease_until: now }, ..self }
    }

    /// The id from which those of its deliveries are derived.
    ///
    /// It is another one under another revision of the topic, where a delivery of the same place may
    /// have other events: one that has ended would end those. And in another hour, because the ledger
    /// is kept by hours.
    pub fn publish_id(&self, revision: Revision, at: Timestamp) -> Uuid {
        let (created_at, number) = (revision.created_at.as_millis(), revision.number);
        let hour = at.hour().as_millis();
        let parts = [created_at.to_be_bytes(), number.to_be_bytes(), hour.to_be_bytes()];
        id([self.publish.as_bytes().as_slice(), &parts.concat()])
    }
}

/// Returns how long a repetition is told to wait, in seconds, given what is left of the lease.
fn wait_s(left: Duration) -> u32 {
    if left > LEASE.saturating_sub(USUAL) {
        return 1;
    }
    let whole = u32::try_from(left.as_secs()).unwrap_or(u32::MAX);
    whole.saturating_add(u32::from(left.subsec_nanos() > 0)).max(1)
}

/// What was sent: the body and, of a binary `CloudEvent`, the attributes. Other headers may differ
/// between the tries of one send.
fn content(headers: &HeaderMap, body: &[u8]) -> String {
    let mut attributes: Vec<(&HeaderName, &HeaderValue)> =
        headers.iter().filter(|(name, _)| name.as_str().starts_with("ce-")).collect();
    if !attributes.is_empty() {
        attributes.extend(headers.get(CONTENT_TYPE).map(|value| (&CONTENT_TYPE, value)));
    }
    attributes.sort_by(|(one, one_is), (other, other_is)| {
        (one.as_str(), one_is.as_bytes()).cmp(&(other.as_str(), other_is.as_bytes()))
    });
    let parts =
        attributes.iter().flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()]);
    hash(parts.chain([body]))
}

/// Each part with its length, so that no two lists of parts are the same text.
fn digest<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

fn hash<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    URL_SAFE_NO_PAD.encode(digest(parts))
}

fn id<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Uuid {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest(parts)[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests;

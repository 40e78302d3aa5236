//! Idempotent publish: a request repeated under its key gets the first answer and no new delivery.
//!
//! A record under the key says *begun* before anything is enqueued, and *done* after everything
//! is. A repetition of a done publish is answered; one of a fresh publish waits. After a crash
//! it is unknown what was enqueued: once the record's lease is over, a repetition does all of
//! the work again, with the same ids of deliveries. So a crash may duplicate, but not lose.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::PublishError;
use crate::{
    delivery::hashed_id,
    event::cloud_events::binary,
    time::{Pace, Timestamp},
    topic::{Revision, Topic},
};

/// The headers of a key; the first counts. Azure's SDKs send the second with all requests.
pub const KEY_HEADERS: [&str; 2] = ["idempotency-key", "x-ms-client-request-id"];
pub const KEY_CHARS_MAX: usize = 256;

/// After this, a publish counts as dead: ingest is stopped after 29 s, and clocks differ.
pub const LEASE: Duration = Duration::from_secs(35);

/// Most publishes take less than this; until then, repetitions ask again in a second. A longer one
/// is probably dead, and the three repetitions of an Azure SDK must reach past its lease.
const USUAL: Duration = Duration::from_secs(2);

/// A publish with a key, to a topic that remembers keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed {
    key: RecordKey,
    /// A hash.
    content: String,
    /// How long a record is valid.
    window: Duration,
}

/// The name of a record: a hash of topic and key, which spreads records and reveals no key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey(String);

/// The record stored under a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The ids of its deliveries derive from this.
    pub publish: Uuid,
    /// The request that wrote it last.
    pub by: Uuid,
    /// A hash.
    pub content: String,
    /// How long it is valid.
    pub until: Timestamp,
    pub standing: PublishProgress,
    /// Counts its writes; stored beside it.
    #[serde(skip)]
    pub revision: u64,
}

/// How far a publish is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PublishProgress {
    /// Dead or given up after the end of its lease.
    Begun { lease_until: Timestamp },
    /// All of its deliveries are in the queue.
    Done,
}

/// The next step of a request with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Write this record, then enqueue.
    Begin(Record),
    /// The record is already written: enqueue.
    Begun(Record),
    /// Nothing.
    Repeated,
}

impl RecordKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Keyed {
    /// Returns a request's key and content; `None` without a key, or if the topic does not remember
    /// any. Unusable keys are refused: ignoring one would silently break the publisher's guarantee.
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

    /// Returns the id of an event that has none: the same for every repetition.
    pub fn event_id(&self, number: u64) -> Uuid {
        let parts = [self.key.0.as_bytes(), self.content.as_bytes(), &number.to_be_bytes()];
        hashed_id(digest(parts))
    }

    /// Decides what request `by` does, given the stored record. Fails for other content under the
    /// same key, and while another request with it is under way.
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
            standing: PublishProgress::Begun { lease_until: now + lease },
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
            PublishProgress::Done => Ok(Next::Repeated),
            // Its write took effect despite an error.
            PublishProgress::Begun { .. } if stored.by == by => Ok(Next::Begun(stored.clone())),
            PublishProgress::Begun { lease_until } if lease_until > now => {
                let left = pace.to_real(lease_until.since(now));
                Err(PublishError::UnderWay { retry_after_s: wait_s(left) })
            }
            PublishProgress::Begun { .. } => {
                Ok(Next::Begin(fresh(stored.publish, stored.revision)))
            }
        }
    }
}

impl Record {
    /// Marks the publish as done, once all is enqueued.
    #[must_use]
    pub fn done(self) -> Self {
        Self { standing: PublishProgress::Done, ..self }
    }

    /// Ends the lease of a publish that failed, so that a repetition need not wait.
    #[must_use]
    pub fn given_up(self, now: Timestamp) -> Self {
        Self { standing: PublishProgress::Begun { lease_until: now }, ..self }
    }

    /// Returns the id from which those of its deliveries derive.
    ///
    /// It depends on the topic's revision: under another one, a delivery in the same place may have
    /// other events, and must not end with the first. It depends on the hour because the ledger
    /// does.
    pub fn publish_id(&self, revision: Revision, at: Timestamp) -> Uuid {
        let (created_at, number) = (revision.created_at.as_millis(), revision.number);
        let hour = at.hour().as_millis();
        let parts = [created_at.to_be_bytes(), number.to_be_bytes(), hour.to_be_bytes()];
        hashed_id(digest([self.publish.as_bytes().as_slice(), &parts.concat()]))
    }
}

fn wait_s(left: Duration) -> u32 {
    if left > LEASE.saturating_sub(USUAL) {
        return 1;
    }
    let whole = u32::try_from(left.as_secs()).unwrap_or(u32::MAX);
    whole.saturating_add(u32::from(left.subsec_nanos() > 0)).max(1)
}

/// Hashes the body and a binary CloudEvent's attributes. Other headers may differ in repetitions.
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

/// Hashes each part with its length: ("a", "bc") and ("ab", "c") must differ.
pub(crate) fn digest<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Sha256 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash
}

fn hash<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    URL_SAFE_NO_PAD.encode(digest(parts).finalize())
}

#[cfg(test)]
mod tests;

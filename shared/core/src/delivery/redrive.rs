//! Redrive: a job that sends dead letters again, its verdict on each letter, and its progress.
//!
//! A job goes through the dead letters of one event subscription twice: it counts, then sends.
//! Its position is saved after each batch, so an interruption repeats one batch at most. Jobs
//! are kept: no later job sends what an earlier one has sent, unless told to.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{
    Delivery, Redriven,
    dead_letter::{
        position::{Hours, Position},
        stored::Letter,
    },
    hashed_id,
};
use crate::{
    event::DeliverySchema,
    subscription::SubscriptionKey,
    time::{Pace, Timestamp},
};

/// How long a job, and its record of what it has sent, is kept after its last change.
pub const KEPT_FOR: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// How long a job waits before it lists objects. S3 may date an object to the start of its PUT,
/// which takes up to 5 s: one that appears later would count as already sent.
const SEEN_AFTER: Duration = Duration::from_secs(5);

/// How many ranges of unreadable objects a job keeps: it is written after each batch.
const UNREAD_MAX: usize = 100;

/// An interruption may send as many twice.
const BATCH_EVENTS_MAX: u32 = 100;

/// Selects dead letters: those that match every given member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedriveFilter {
    /// Inclusive.
    pub from: Option<Timestamp>,
    /// Inclusive.
    pub to: Option<Timestamp>,
    /// As the record says it.
    pub reason: Option<String>,
    pub event_type: Option<String>,
    pub event_id: Option<String>,
}

impl RedriveFilter {
    /// Returns whether it selects every dead letter.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    pub fn hours(&self) -> Hours {
        Hours::between(self.from, self.to)
    }

    /// Returns whether it selects unreadable letters: only if it ignores their content.
    pub fn has_unreadable(&self) -> bool {
        self.reason.is_none() && self.event_type.is_none() && self.event_id.is_none()
    }

    /// Returns whether it selects objects written at that time.
    pub fn has_time(&self, written_at: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= written_at) && self.to.is_none_or(|to| written_at <= to)
    }

    /// Returns whether it selects a letter of such an object.
    pub fn has(&self, letter: &Letter) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        is(&self.reason, &letter.reason)
            && is(&self.event_type, &letter.event_type)
            && is(&self.event_id, &letter.event_id)
    }
}

/// The activity of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[derive(strum::Display, strum::VariantNames, Serialize, Deserialize)]
pub enum JobPhase {
    Counting,
    Sending,
}

/// The status of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[derive(strum::Display, strum::VariantNames, Serialize, Deserialize)]
pub enum JobStatus {
    Running,
    /// Stopped by an operator; can be resumed.
    Canceled,
    /// Stopped by a problem; can be resumed.
    Failed,
    Completed,
}

/// Counts the letters that a job has looked at in its current phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Sent or, in the counting phase, to be sent.
    pub sent: u64,
    /// Left out: redriven too often.
    pub redriven_too_often: u64,
    /// Left out: sent by an earlier job.
    pub sent_before: u64,
    /// Left out: delivered in another schema than the target's.
    pub other_schema: u64,
    pub unreadable: u64,
}

/// The lease of a job's worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    pub holder: String,
    pub until: Timestamp,
}

/// A job that redrives all selected dead letters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    pub id: Uuid,
    pub subscription: SubscriptionKey,
    pub bucket: String,
    /// The common prefix of object names, without a trailing slash.
    pub folder: String,
    /// Excludes letters written after the job began, so a job never meets its own events.
    pub wanted: RedriveFilter,
    /// The target.
    pub to: SubscriptionKey,
    pub to_uid: Uuid,
    /// The target's delivery schema.
    pub schema: DeliverySchema,
    /// The schema of dead letters that do not name theirs; `None` means `schema`.
    #[serde(default)]
    pub source_schema: Option<DeliverySchema>,
    /// At least 1.
    pub events_per_second: u32,
    /// The loop guard: letters redriven this often are left out.
    pub max_redrives: u32,
    /// Whether to send what an earlier job has sent.
    pub send_again: bool,
    pub dry_run: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub status: JobStatus,
    pub phase: JobPhase,
    /// The next letter to look at; `None` at the start of a phase.
    #[serde(default)]
    pub next: Option<Position>,
    pub counts: Counts,
    /// Ranges of objects (ends included) that could not be read while sending, but may be later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<(Position, Position)>,
    /// The number of letters to send, once counted.
    pub total: Option<u64>,
    pub problem: Option<String>,
    pub lease: Option<Lease>,
    /// Counts its writes; a write is conditional on the revision it read.
    #[serde(skip)]
    pub revision: u64,
}

/// The decision of a job about a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Send,
    NotWanted,
    RedrivenTooOften,
    /// Sent to the same target by an earlier job.
    SentBefore,
    /// Delivered in another schema than the target's.
    OtherSchema,
}

/// A letter with its position and object.
#[derive(Clone, Debug)]
pub struct LocatedLetter {
    pub position: Position,
    pub written_at: Timestamp,
    pub schema: DeliverySchema,
    pub letter: Letter,
}

impl Job {
    /// Returns when the job may start: once every object that it covers can be listed.
    pub fn begins_at(&self, pace: Pace) -> Timestamp {
        let unseen = if self.dry_run { Duration::ZERO } else { pace.to_clock(SEEN_AFTER) };
        self.created_at + unseen
    }

    /// Decides about a letter; `earlier` are the event subscription's other jobs.
    pub fn verdict(&self, found: &LocatedLetter, earlier: &[Job]) -> Verdict {
        let LocatedLetter { letter, written_at, schema, .. } = found;
        if !self.wanted.has_time(*written_at) || !self.wanted.has(letter) {
            Verdict::NotWanted
        } else if *schema != self.schema {
            Verdict::OtherSchema
        } else if letter.redriven >= self.max_redrives {
            Verdict::RedrivenTooOften
        } else if !self.send_again && earlier.iter().any(|job| self.is_repeated_by(job, found)) {
            Verdict::SentBefore
        } else {
            Verdict::Send
        }
    }

    fn is_repeated_by(&self, job: &Job, found: &LocatedLetter) -> bool {
        let is_same_target =
            job.to_uid == self.to_uid && (&job.bucket, &job.folder) == (&self.bucket, &self.folder);
        job.id != self.id
            && is_same_target
            && job.has_passed(&found.position)
            && job.verdict(found, &[]) == Verdict::Send
    }

    /// Returns whether it has sent that letter of this bucket and folder back to its own
    /// event subscription. A letter sent elsewhere for inspection is still open.
    pub fn has_sent(&self, found: &LocatedLetter, bucket: &str, folder: &str) -> bool {
        (self.bucket.as_str(), self.folder.as_str()) == (bucket, folder)
            && self.to == self.subscription
            && self.has_passed(&found.position)
            && self.verdict(found, &[]) == Verdict::Send
    }

    fn has_passed(&self, position: &Position) -> bool {
        let is_before = |next: &Position| position.is_before(next);
        if self.may_be_unread(position) {
            return false;
        }
        match (self.dry_run, self.status, self.phase) {
            (true, ..) | (_, _, JobPhase::Counting) => false,
            (_, JobStatus::Completed, JobPhase::Sending) => true,
            (_, _, JobPhase::Sending) => self.next.as_ref().is_some_and(is_before),
        }
    }

    /// Records that an object could not be read while sending, and whether it follows the last such
    /// one. Reading it later does not make it sent.
    pub fn note_unread(&mut self, object: Position, is_next: bool) {
        if self.phase != JobPhase::Sending || self.may_be_unread(&object) {
            return;
        }
        match self.unread.last_mut() {
            Some((_, last)) if is_next => *last = object,
            _ => self.unread.push((object, object)),
        }
    }

    /// Returns whether the object may be one that could not be read: beyond the recorded ranges,
    /// any may be. Sending twice is better than not sending.
    fn may_be_unread(&self, position: &Position) -> bool {
        let object = position.at(0);
        let begun = self.unread.partition_point(|(first, _)| !object.is_before(first));
        let run = begun.checked_sub(1).and_then(|at| self.unread.get(at));
        run.is_some_and(|(_, last)| begun == UNREAD_MAX || !last.is_before(&object))
    }

    /// Returns whether it must wait until another job is over.
    pub fn waits_for(&self, other: &Self) -> bool {
        let sends = |job: &Self| job.status == JobStatus::Running && !job.dry_run;
        let turn = |job: &Self| (job.created_at, job.id);
        sends(self) && sends(other) && turn(other) < turn(self)
    }

    /// Records that nothing before that position is left to look at.
    pub fn pass_to(&mut self, position: Option<Position>) {
        if let Some(position) = position
            && self.next.is_none_or(|next| next.is_before(&position))
        {
            self.next = Some(position);
        }
    }

    /// Counts a letter by its verdict.
    pub fn note(&mut self, verdict: Verdict) {
        let counts = &mut self.counts;
        match verdict {
            Verdict::Send => counts.sent += 1,
            Verdict::NotWanted => {}
            Verdict::RedrivenTooOften => counts.redriven_too_often += 1,
            Verdict::SentBefore => counts.sent_before += 1,
            Verdict::OtherSchema => counts.other_schema += 1,
        }
    }

    /// Begins the next phase, or completes the job.
    pub fn end_phase(&mut self) {
        self.next = None;
        self.problem = None;
        match (self.phase, self.dry_run) {
            (JobPhase::Counting, false) => {
                self.total = Some(self.counts.sent);
                self.counts = Counts::default();
                self.phase = JobPhase::Sending;
            }
            (JobPhase::Counting, true) => {
                self.total = Some(self.counts.sent);
                self.status = JobStatus::Completed;
            }
            (JobPhase::Sending, _) => self.status = JobStatus::Completed,
        }
    }

    /// Takes over operators' changes of the stored job. Returns whether this worker still owns it.
    pub fn take_over(&mut self, stored: &Self) -> bool {
        let holder = |job: &Self| job.lease.as_ref().map(|lease| lease.holder.clone());
        let is_own = holder(stored) == holder(self);
        self.revision = stored.revision;
        self.status = stored.status;
        self.events_per_second = stored.events_per_second;
        is_own
    }

    /// Returns the most events of one batch: half a second's.
    pub fn batch_events_max(&self) -> usize {
        (self.events_per_second / 2).clamp(1, BATCH_EVENTS_MAX) as usize
    }

    /// Returns how long this many events take at the job's rate.
    pub fn pace(&self, events: usize) -> Duration {
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        Duration::from_secs(1) * events / self.events_per_second.max(1)
    }

    /// Creates the delivery of a letter, with the same id if a batch is repeated.
    pub fn delivery(
        &self,
        found: &LocatedLetter,
        now: Timestamp,
    ) -> Result<Delivery, serde_json::Error> {
        let hash = Sha256::new().chain_update(self.id.as_bytes());
        let letter = &found.letter;
        let mut delivery = Delivery::new(
            hashed_id(hash.chain_update(found.position.to_string())),
            self.to.clone(),
            self.to_uid,
            letter.published_at,
            letter.data_version.clone(),
            vec![RawValue::from_string(letter.event.clone())?],
        )
        .traced(letter.trace_parent);
        delivery.redriven = Some(Redriven { times: letter.redriven.saturating_add(1), at: now });
        Ok(delivery)
    }
}

const VERSION: u8 = 1;

/// A message of the redrive queue: asks a worker to continue a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedriveMessage {
    v: u8,
    pub subscription: SubscriptionKey,
    pub redrive: Uuid,
}

impl RedriveMessage {
    pub fn of(job: &Job) -> Self {
        Self { v: VERSION, subscription: job.subscription.clone(), redrive: job.id }
    }

    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("a redrive message has only string keys")
    }

    /// Reads a message's body; `None` if it is malformed or of another version.
    pub fn decode(text: &str) -> Option<Self> {
        serde_json::from_str::<Self>(text).ok().filter(|tick| tick.v == VERSION)
    }
}

#[cfg(test)]
mod tests;

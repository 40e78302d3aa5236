//! Sending dead letters again: a job, what it does with each letter, and how far it has come.
//!
//! A job goes through the dead letters of one event subscription twice: first it counts what it will
//! send, then it sends. Its place is noted after each batch, so whoever goes on after an interruption
//! repeats one batch at most. Jobs are kept: what one of them has sent, no later one sends again
//! unless it is told to.

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
};
use crate::{event::DeliverySchema, subscription::SubscriptionKey, time::Timestamp};

/// How long a job is remembered after its last change, and with it what it has sent: 400 days.
pub const KEPT_FOR: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// Most events of one batch: what an interruption may send twice.
const BATCH_EVENTS_MAX: u32 = 100;

/// Which dead letters are meant: those that have all that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedriveFilter {
    /// Written at this time or later.
    pub from: Option<Timestamp>,
    /// Written at this time or before.
    pub to: Option<Timestamp>,
    /// With this reason, as the record says it.
    pub reason: Option<String>,
    /// Of this event type.
    pub event_type: Option<String>,
    /// Of the event with this id.
    pub event_id: Option<String>,
}

impl RedriveFilter {
    /// Whether every dead letter is meant.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// The hours to look at.
    pub fn hours(&self) -> Hours {
        Hours::between(self.from, self.to)
    }

    /// Whether a letter that can't be read may be meant: nothing chooses by what it says.
    pub fn has_unreadable(&self) -> bool {
        self.reason.is_none() && self.event_type.is_none() && self.event_id.is_none()
    }

    /// Whether an object was written at a time that is meant.
    pub fn has_time(&self, written_at: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= written_at) && self.to.is_none_or(|to| written_at <= to)
    }

    /// Whether a letter of such an object is meant.
    pub fn has(&self, letter: &Letter) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        is(&self.reason, &letter.reason)
            && is(&self.event_type, &letter.event_type)
            && is(&self.event_id, &letter.event_id)
    }
}

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It counts what it will send.
    Counting,
    /// It sends.
    Sending,
}

/// Whether a job goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// It does.
    Running,
    /// Somebody has stopped it; it can be resumed where it is.
    Canceled,
    /// It can't go on by itself; it can be resumed where it is.
    Failed,
    /// It has come to its end.
    Completed,
}

/// What became of the letters that a job has looked at in its phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Sent or, while it counts, to be sent.
    pub sent: u64,
    /// Left out: sent again as often as the job allows.
    pub redriven_too_often: u64,
    /// Left out: an earlier job has sent them there.
    pub sent_before: u64,
    /// Left out: delivered in another schema than the event subscription's that they would go to.
    pub other_schema: u64,
    /// Left out: nobody can read them.
    pub unreadable: u64,
}

/// Who works at a job, and until when nobody else does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// Tells workers apart.
    pub holder: String,
    /// It ends by itself, should the holder die.
    pub until: Timestamp,
}

/// A job: all dead letters that are meant, sent again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Its id.
    pub id: Uuid,
    /// Whose dead letters.
    pub subscription: SubscriptionKey,
    /// The bucket they are in.
    pub bucket: String,
    /// What the names of their objects begin with, without a slash at its end.
    pub folder: String,
    /// Which of them. What was written after the job began is none of its business: it never meets
    /// its own events.
    pub wanted: RedriveFilter,
    /// The event subscription that they go to.
    pub to: SubscriptionKey,
    /// Which creation of it.
    pub to_uid: Uuid,
    /// The schema in which that one's events are delivered.
    pub schema: DeliverySchema,
    /// In which schema the dead letters are that do not say so themselves; in the same, where it is not
    /// known.
    #[serde(default)]
    pub source_schema: Option<DeliverySchema>,
    /// At most so many in a second, at least one.
    pub events_per_second: u32,
    /// What was sent again so often is left out: the loop guard.
    pub max_redrives: u32,
    /// Whether it sends what an earlier job has sent.
    pub send_again: bool,
    /// Whether it only counts.
    pub dry_run: bool,
    /// When it began.
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
    /// Whether it goes on.
    pub status: Status,
    /// What it is doing.
    pub phase: Phase,
    /// The next letter that it looks at; none at the start of a phase.
    #[serde(with = "position_text", default)]
    pub next: Option<Position>,
    /// What became of those before.
    pub counts: Counts,
    /// How many it will send, once that was counted.
    pub total: Option<u64>,
    /// What keeps it from going on.
    pub problem: Option<String>,
    /// Who works at it.
    pub lease: Option<Lease>,
    /// Counts its writes; a write names the one it has read.
    #[serde(skip)]
    pub revision: u64,
}

/// A place as its text.
mod position_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Position;

    pub(super) fn serialize<S: Serializer>(
        position: &Option<Position>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        position.map(|position| position.to_string()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Position>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        let position =
            |text: String| Position::parse(&text).ok_or("it is no place of a dead letter");
        text.map(position).transpose().map_err(serde::de::Error::custom)
    }
}

/// What is to be done with a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is sent.
    Send,
    /// It is not meant.
    NotWanted,
    /// It was sent again as often as the job allows.
    RedrivenTooOften,
    /// An earlier job has sent it there.
    SentBefore,
    /// It was delivered in another schema than it would have to be now.
    OtherSchema,
}

/// A letter in its place.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where it lies.
    pub position: Position,
    /// When its object was written.
    pub written_at: Timestamp,
    /// How its event was delivered.
    pub schema: DeliverySchema,
    /// The letter.
    pub letter: Letter,
}

impl Job {
    /// What is to be done with a letter; `earlier` are the other jobs of the event subscription.
    pub fn verdict(&self, found: &Found, earlier: &[Job]) -> Verdict {
        let Found { letter, written_at, schema, .. } = found;
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

    /// Whether another job has sent that letter to the same event subscription.
    fn is_repeated_by(&self, job: &Job, found: &Found) -> bool {
        let is_same_way =
            job.to_uid == self.to_uid && (&job.bucket, &job.folder) == (&self.bucket, &self.folder);
        job.id != self.id
            && is_same_way
            && job.has_passed(&found.position)
            && job.verdict(found, &[]) == Verdict::Send
    }

    /// Whether it has sent that letter of a folder of that bucket to its own event subscription: what went
    /// elsewhere, to be looked at, is still open.
    pub fn has_sent(&self, found: &Found, bucket: &str, folder: &str) -> bool {
        (self.bucket.as_str(), self.folder.as_str()) == (bucket, folder)
            && self.to == self.subscription
            && self.has_passed(&found.position)
            && self.verdict(found, &[]) == Verdict::Send
    }

    /// Whether it has sent what it was to send up to that place, that letter included.
    fn has_passed(&self, position: &Position) -> bool {
        let is_before = |next: &Position| position.is_before(next);
        match (self.dry_run, self.status, self.phase) {
            (true, ..) | (_, _, Phase::Counting) => false,
            (_, Status::Completed, Phase::Sending) => true,
            (_, _, Phase::Sending) => self.next.as_ref().is_some_and(is_before),
        }
    }

    /// Whether it is to begin when that other job is over.
    pub fn waits_for(&self, other: &Self) -> bool {
        let sends = |job: &Self| job.status == Status::Running && !job.dry_run;
        let turn = |job: &Self| (job.created_at, job.id);
        sends(self) && sends(other) && turn(other) < turn(self)
    }

    /// Notes that nothing before that place is left to look at, which may be known already.
    pub fn pass_to(&mut self, position: Option<Position>) {
        if let Some(position) = position
            && self.next.is_none_or(|next| next.is_before(&position))
        {
            self.next = Some(position);
        }
    }

    /// Notes what was done with a letter.
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

    /// Notes that all letters were looked at: the next phase begins, or the job is over.
    pub fn end_phase(&mut self) {
        self.next = None;
        self.problem = None;
        match (self.phase, self.dry_run) {
            (Phase::Counting, false) => {
                self.total = Some(self.counts.sent);
                self.counts = Counts::default();
                self.phase = Phase::Sending;
            }
            (Phase::Counting, true) => {
                self.total = Some(self.counts.sent);
                self.status = Status::Completed;
            }
            (Phase::Sending, _) => self.status = Status::Completed,
        }
    }

    /// Takes over what somebody else has decided while this was worked at: whether it goes on. All
    /// else is the worker's. Answers whether the stored job still is this worker's.
    pub fn take_over(&mut self, stored: &Self) -> bool {
        let holder = |job: &Self| job.lease.as_ref().map(|lease| lease.holder.clone());
        let is_own = holder(stored) == holder(self);
        self.revision = stored.revision;
        self.status = stored.status;
        // An operator may have given it another pace meanwhile.
        self.events_per_second = stored.events_per_second;
        is_own
    }

    /// Most events of one batch: half a second's.
    pub fn batch_events_max(&self) -> usize {
        (self.events_per_second / 2).clamp(1, BATCH_EVENTS_MAX) as usize
    }

    /// How long so many events take at the job's pace.
    pub fn pace(&self, events: usize) -> Duration {
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        Duration::from_secs(1) * events / self.events_per_second.max(1)
    }

    /// The delivery of a letter. Its id follows from the job and the letter's place, so a batch that is
    /// repeated makes deliveries that can be told as the same.
    ///
    /// # Errors
    ///
    /// The event is no JSON.
    pub fn delivery(&self, found: &Found, now: Timestamp) -> Result<Delivery, serde_json::Error> {
        let mut hash = Sha256::new();
        hash.update(self.id.as_bytes());
        hash.update(found.position.to_string());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        let letter = &found.letter;
        let mut delivery = Delivery::new(
            uuid::Builder::from_custom_bytes(bytes).into_uuid(),
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

/// The version of the tick's form.
const VERSION: u8 = 1;

/// What makes a worker work at a job: a message of the redrive queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedriveMessage {
    v: u8,
    /// Whose dead letters.
    pub subscription: SubscriptionKey,
    /// The job.
    pub redrive: Uuid,
}

impl RedriveMessage {
    /// For that job.
    pub fn of(job: &Job) -> Self {
        Self { v: VERSION, subscription: job.subscription.clone(), redrive: job.id }
    }

    /// The message's body.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("a tick has only string keys")
    }

    /// Reads a message's body; `None` for what is none, or one of another version.
    pub fn decode(text: &str) -> Option<Self> {
        serde_json::from_str::<Self>(text).ok().filter(|tick| tick.v == VERSION)
    }
}

#[cfg(test)]
mod tests;

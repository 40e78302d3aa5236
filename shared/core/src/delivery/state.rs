//! The state of a delivery after its first failure.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::event_set::EventSet;
use crate::{
    retry::{
        DelayReason, EndReason,
        attempts::Attempts,
        outcome::{Answer, Outcome},
        response_text::RESPONSE_TEXT_BYTES_MAX,
    },
    subscription::{SubscriptionKey, pause::PAUSE_MAX},
    time::Timestamp,
};

/// How long a state outlives its delivery: late copies of the message must find it.
const KEPT_FOR: Duration = Duration::from_secs(48 * 60 * 60);

/// The longest that any delivery may live: the namespace profile's time-to-live.
const LIFE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The state of one failing delivery. A delivery that succeeds at once never has one.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryState {
    pub id: Uuid,
    pub subscription: SubscriptionKey,
    #[serde(default)]
    pub subscription_uid: Uuid,
    pub publish_time: Timestamp,
    pub redriven_at: Option<Timestamp>,
    /// Events that are not done.
    #[serde(default)]
    pub events: u32,
    #[serde(default, skip_serializing_if = "EventSet::is_empty")]
    pub done: EventSet,
    pub attempts: Attempts,
    #[serde(rename = "standing")]
    pub status: DeliveryStatus,
    /// The last [`PAST_MAX`] attempts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub past: Vec<AttemptRecord>,
    /// The receipt of its message while it is hidden. SQS accepts it until the next receive.
    pub receipt: Option<String>,
    /// When the last known copy of its message comes back; its wait may end earlier.
    pub copies_until: Option<Timestamp>,
    /// Cleared by the next attempt.
    pub resend: Option<Resend>,
    /// Counts its writes; a write names the revision that it read.
    #[serde(skip)]
    pub revision: u64,
}

/// The most attempts that a state remembers: as many as a retry policy allows.
pub const PAST_MAX: usize = 30;

/// The most bytes of failed responses that a state keeps: those of the newest attempts.
pub const RESPONSES_BYTES_MAX: usize = 4 * RESPONSE_TEXT_BYTES_MAX;

/// A past attempt, in about 35 bytes without a response: a state is written with every failure, and
/// each kilobyte costs money.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "AttemptForm", into = "AttemptForm")]
pub struct AttemptRecord {
    pub at: Timestamp,
    pub took_ms: u64,
    pub outcome: Outcome,
    pub status: Option<u16>,
    /// The reason for the wait after it, if any.
    pub because: Option<DelayReason>,
    /// The beginning of a failed response, escaped, if the deployment keeps it.
    pub response_text: Option<String>,
    /// Set if the delivery is attempted in parts.
    pub part: Option<PartRecord>,
}

/// An attempt of some of a delivery's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord(
    /// The number of this attempt of these events, from 1.
    pub u32,
    /// How many events it carried.
    pub u32,
);

#[derive(Serialize, Deserialize)]
struct AttemptForm(
    Timestamp,
    u64,
    Outcome,
    Option<u16>,
    Option<DelayReason>,
    /// An empty string if absent and a later member follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")] Option<PartRecord>,
);

impl From<AttemptForm> for AttemptRecord {
    fn from(
        AttemptForm(at, took_ms, outcome, status, because, response_text, part): AttemptForm,
    ) -> Self {
        let response_text = response_text.filter(|text| !text.is_empty());
        Self { at, took_ms, outcome, status, because, response_text, part }
    }
}

impl From<AttemptRecord> for AttemptForm {
    fn from(past: AttemptRecord) -> Self {
        let text = past.response_text.or_else(|| past.part.map(|_| String::new()));
        Self(past.at, past.took_ms, past.outcome, past.status, past.because, text, past.part)
    }
}

impl AttemptRecord {
    /// Records an attempt.
    pub fn of(
        answer: Answer,
        (began_at, ended_at): (Timestamp, Timestamp),
        because: Option<DelayReason>,
    ) -> Self {
        let took_ms = u64::try_from(ended_at.since(began_at).as_millis()).unwrap_or(u64::MAX);
        let Answer { outcome, status, .. } = answer;
        Self { at: began_at, took_ms, outcome, status, because, response_text: None, part: None }
    }

    /// Adds the beginning of its response.
    #[must_use]
    pub fn with_response_text(self, response_text: Option<String>) -> Self {
        Self { response_text, ..self }
    }

    /// Restricts it to a part of the delivery.
    #[must_use]
    pub fn of_part(self, part: Option<PartRecord>) -> Self {
        Self { part, ..self }
    }

    /// Appends it to the past attempts and drops the oldest.
    pub fn add_to(self, past: &mut Vec<Self>) {
        if past.len() >= PAST_MAX {
            past.drain(..=past.len() - PAST_MAX);
        }
        past.push(self);
        let mut bytes = 0;
        for attempt in past.iter_mut().rev() {
            bytes += attempt.response_text.as_ref().map_or(0, String::len);
            if bytes > RESPONSES_BYTES_MAX {
                attempt.response_text = None;
            }
        }
    }
}

/// An operator's request to attempt a delivery now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resend {
    pub at: Timestamp,
    /// The due time before the request: until then the message may be hidden.
    pub was_due: Timestamp,
}

/// The status of a failing delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase")]
pub enum DeliveryStatus {
    Waiting {
        due: Timestamp,
    },
    /// Its end is decided but not yet carried out; nothing more is attempted.
    Ending {
        reason: EndReason,
        at: Timestamp,
    },
    /// Dead-lettered or dropped: late copies delete themselves.
    Ended,
    /// Late copies delete themselves.
    Delivered,
}

impl DeliveryState {
    /// Returns its sort key in a list of deliveries by publish time: letters, digits and hyphens.
    pub fn place(&self) -> String {
        format!("{:013}-{}", self.publish_time.as_millis(), self.id)
    }

    /// Returns when its time-to-live starts: at the publish, or at its redrive.
    pub fn ttl_starts_at(&self) -> Timestamp {
        self.redriven_at.unwrap_or(self.publish_time)
    }

    /// Returns when the last known copy of its message comes back.
    pub fn last_copy_at(&self) -> Option<Timestamp> {
        let due = match self.status {
            DeliveryStatus::Waiting { due } => Some(due),
            _ => None,
        };
        self.copies_until.max(due).max(self.resend.map(|resend| resend.was_due))
    }

    /// Marks it as delivered or ended at `now`. The mark outlives the known copies of its message.
    #[must_use]
    pub fn over(self, status: DeliveryStatus, now: Timestamp) -> Self {
        let copies_until = self.last_copy_at().max(Some(now));
        Self { status, copies_until, ..self }
    }

    /// Returns when the table may delete it: two days after a copy could last matter.
    ///
    /// While a delivery waits for its endpoint or a pause, nothing is written for days. Without a
    /// state, its attempts would count from zero, and a copy would not know of its end.
    pub fn forget_at(&self) -> Timestamp {
        let last = match self.status {
            DeliveryStatus::Waiting { due } => due.max(self.ttl_starts_at() + LIFE_MAX + PAUSE_MAX),
            DeliveryStatus::Ending { at, .. } => at,
            DeliveryStatus::Ended | DeliveryStatus::Delivered => {
                self.attempts.last_at.unwrap_or(self.ttl_starts_at())
            }
        };
        last.max(self.copies_until.unwrap_or_default()) + KEPT_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_remembers_its_last_attempts_in_little_space() {
        let at = |seconds: u64| Timestamp::default() + Duration::from_secs(seconds);
        let mut past = Vec::new();
        for number in 0..40 {
            let answer = Answer::of_status(503, None);
            let times = (at(number), at(number) + Duration::from_millis(41));
            AttemptRecord::of(answer, times, Some(DelayReason::MinimumDelay)).add_to(&mut past);
        }
        assert_eq!((past.len(), past[0].at, past[29].at), (PAST_MAX, at(10), at(39)));
        let json = serde_json::to_string(&past[0]).expect("JSON");
        assert_eq!(json, r#"[10000,41,"Busy",503,"LeastWait"]"#);
        assert_eq!(serde_json::from_str::<AttemptRecord>(&json).expect("read back"), past[0]);
    }

    #[test]
    fn responses_of_the_newest_attempts_are_kept() {
        let answer = Answer::of_status(400, None);
        let times = (Timestamp::default(), Timestamp::default());
        let mut past = Vec::new();
        for number in 0..6 {
            let response_text = Some(format!("{number}{}", "x".repeat(999)));
            AttemptRecord::of(answer, times, None)
                .with_response_text(response_text)
                .add_to(&mut past);
        }
        let kept: Vec<_> = past.iter().map(|one| one.response_text.is_some()).collect();
        assert_eq!(kept, [false, false, true, true, true, true]);
        let last =
            AttemptRecord::of(answer, times, None).with_response_text(Some("no \"x\"".to_owned()));
        let json = serde_json::to_string(&last).expect("JSON");
        assert_eq!(json, r#"[0,0,"BadRequest",400,null,"no \"x\""]"#);
        assert_eq!(serde_json::from_str::<AttemptRecord>(&json).expect("read back"), last);
        let part = AttemptRecord::of(answer, times, None).of_part(Some(PartRecord(2, 50)));
        let json = serde_json::to_string(&part).expect("JSON");
        assert_eq!(json, r#"[0,0,"BadRequest",400,null,"",[2,50]]"#);
        assert_eq!(serde_json::from_str::<AttemptRecord>(&json).expect("read back"), part);
    }

    #[test]
    fn states_of_older_versions_are_read() {
        let json = r#"{"id":"00000000-0000-0000-0000-000000000007","subscription":{"topic":"t",
            "name":"s"},"publishTime":1,"attempts":{"made":1},"standing":{"is":"waiting","due":5}}"#;
        let state: DeliveryState = serde_json::from_str(json).expect("a state");
        assert_eq!((state.past.len(), state.receipt, state.resend), (0, None, None));
    }

    /// A waiting state is kept until no attempt can follow, however early the next one is due.
    #[test]
    fn when_a_state_may_be_forgotten() {
        let day = |days: u64| Timestamp::default() + Duration::from_secs(days * 24 * 60 * 60);
        let waits = |days: u64| DeliveryStatus::Waiting { due: day(days) };
        let ends = DeliveryStatus::Ending { reason: EndReason::TimeToLiveExceeded, at: day(4) };
        // Status, first and last attempt, redrive; when it may be deleted.
        let table = [
            // A time-to-live of 7 days, and 7 days of pauses.
            ("waits, due soon", waits(1), (Some(1), Some(1)), None, 14 + 2),
            ("waits, due late", waits(18), (Some(1), Some(6)), None, 18 + 2),
            ("waits, and was not attempted", waits(1), (None, None), None, 14 + 2),
            ("waits, and was redriven", waits(5), (None, None), Some(5), 5 + 14 + 2),
            ("ends", ends, (Some(1), Some(3)), None, 4 + 2),
            ("ended", DeliveryStatus::Ended, (Some(1), Some(3)), None, 3 + 2),
            ("delivered", DeliveryStatus::Delivered, (Some(1), Some(2)), None, 2 + 2),
        ];
        let json = r#"{"id":"00000000-0000-0000-0000-000000000007","subscription":{"topic":"t",
            "name":"s"},"publishTime":0,"attempts":{"made":1},"standing":{"is":"ended"}}"#;
        let ended: DeliveryState = serde_json::from_str(json).expect("a state");
        for (row, status, (first, last), redriven, forgotten) in table {
            let mut state = DeliveryState { status, ..ended.clone() };
            state.attempts.first_at = first.map(day);
            state.attempts.last_at = last.map(day);
            state.redriven_at = redriven.map(day);
            assert_eq!(state.forget_at(), day(forgotten), "{row}");
        }
    }

    /// Ending a wait early leaves the hidden message: the mark must be there when it comes back.
    #[test]
    fn a_mark_outlives_the_copies_of_its_message() {
        let day = |days: u64| Timestamp::default() + Duration::from_secs(days * 24 * 60 * 60);
        let json = r#"{"id":"00000000-0000-0000-0000-000000000007","subscription":{"topic":"t",
            "name":"s"},"publishTime":0,"attempts":{"made":1,"firstAt":0,"lastAt":0},
            "standing":{"is":"ended"}}"#;
        let ended: DeliveryState = serde_json::from_str(json).expect("a state");
        let waits = |days: u64| DeliveryStatus::Waiting { due: day(days) };
        let resend = |was_due| Some(Resend { at: day(0), was_due: day(was_due) });
        // Status, resend, known copy; when it is over, and when the mark may be deleted.
        let table = [
            (waits(5), None, None, 0, 5 + 2),
            (waits(5), None, None, 6, 6 + 2),
            (waits(1), resend(5), None, 1, 5 + 2),
            (waits(1), None, Some(day(5)), 1, 5 + 2),
            (DeliveryStatus::Ended, None, Some(day(5)), 1, 5 + 2),
        ];
        for (status, resend, copies_until, over_at, forgotten) in table {
            for over in [DeliveryStatus::Delivered, DeliveryStatus::Ended] {
                let state = DeliveryState { status, resend, copies_until, ..ended.clone() };
                let state = state.over(over, day(over_at));
                assert_eq!(state.forget_at(), day(forgotten), "{state:?}");
            }
        }
    }
}

//! Pauses of an event subscription: matching goes on, nothing is attempted, deliveries are held.
//!
//! A pause ends when it is resumed, or at its [limit](Pause::until), because held deliveries
//! must not outlive the payloads and tables that hold them. If time-to-live stands still during
//! the pause, every delivery's deadline moves by the part of the pause that it lived through.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The longest pause, and the most that pauses add to one delivery's life: payloads are kept
/// for 30 days, of which 7 are the longest time-to-live and 14 a queue's retention.
pub const PAUSE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A pause that stops time-to-live is refused if less of [`PAUSE_MAX`] is left.
const PAUSE_MIN: Duration = Duration::from_secs(60);

/// The longest time-to-live of an event, and room for clocks that differ.
const LIFE_MAX: Duration = Duration::from_secs((7 * 24 + 1) * 60 * 60);

/// The most past pauses remembered.
pub const SPANS_MAX: usize = 32;

/// A pause that was asked for and not yet resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    pub since: Timestamp,
    /// When it ends if it is not resumed.
    pub until: Timestamp,
    /// The ARN of the IAM principal who asked for it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub time_to_live_runs: bool,
}

/// A time in which time-to-live stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub from: Timestamp,
    pub until: Timestamp,
}

impl Span {
    fn length(self) -> Duration {
        self.until.since(self.from)
    }
}

/// The reason why a pause is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is already paused, with time-to-live treated differently.
    OtherMode(Pause),
    /// Earlier pauses have used up [`PAUSE_MAX`].
    UsedUp,
}

/// The pauses of an event subscription that some delivery may have lived through.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pauses {
    /// The last one, until it is resumed; it may have ended: see [`Self::current`].
    open: Option<Pause>,
    /// Times in which time-to-live stood still, the oldest first, without overlaps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stopped: Vec<Span>,
    resumed_at: Option<Timestamp>,
}

impl Pauses {
    /// Returns the pause that is not resumed, even if it has ended by itself.
    pub fn open(&self) -> Option<&Pause> {
        self.open.as_ref()
    }

    /// Returns the past pauses that stopped time-to-live, the oldest first.
    pub fn stopped(&self) -> &[Span] {
        &self.stopped
    }

    /// Returns the pause in force.
    pub fn current(&self, now: Timestamp) -> Option<&Pause> {
        self.open.as_ref().filter(|pause| now < pause.until)
    }

    /// Ends a pause that has reached its limit.
    #[must_use]
    pub fn as_of(&self, now: Timestamp) -> Self {
        if self.current(now).is_some() { self.clone() } else { self.resumed(now) }
    }

    /// Returns when the last pause ended.
    pub fn ended_at(&self, now: Timestamp) -> Option<Timestamp> {
        match &self.open {
            Some(pause) if now < pause.until => None,
            Some(pause) => Some(pause.until),
            None => self.resumed_at,
        }
    }

    /// Pauses from `now` on. An equal pause stays as it is.
    pub fn paused(
        &self,
        time_to_live_runs: bool,
        by: Option<String>,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        if let Some(pause) = self.current(now) {
            let is_same = pause.time_to_live_runs == time_to_live_runs;
            let refused = || Refusal::OtherMode(pause.clone());
            return is_same.then(|| self.clone()).ok_or_else(refused);
        }
        let mut next = self.resumed(now);
        let used = next.stopped.iter().map(|span| span.length()).sum();
        let most = if time_to_live_runs { PAUSE_MAX } else { PAUSE_MAX.saturating_sub(used) };
        if most < PAUSE_MIN {
            return Err(Refusal::UsedUp);
        }
        // A clock that is behind must not make two spans overlap.
        let since = next.stopped.last().map_or(now, |last| now.max(last.until));
        next.open = Some(Pause { since, until: since + most, by, time_to_live_runs });
        Ok(next)
    }

    /// Ends the pause at `now`, or when it ended by itself. Also forgets what no delivery needs.
    #[must_use]
    pub fn resumed(&self, now: Timestamp) -> Self {
        let mut next = self.clone();
        if let Some(pause) = next.open.take() {
            let until = now.max(pause.since).min(pause.until);
            next.resumed_at = Some(until);
            if !pause.time_to_live_runs {
                next.stopped.push(Span { from: pause.since, until });
            }
        }
        next.forget(now);
        next
    }

    /// Forgets pauses older than any delivery, and joins the nearest two while there are too many:
    /// a deadline may come later than announced, but never earlier.
    fn forget(&mut self, now: Timestamp) {
        let is_needed = |span: &Span| self.expires_at(span.until, LIFE_MAX) > now;
        let needed: Vec<_> = self.stopped.iter().copied().filter(is_needed).collect();
        self.stopped = needed;
        while self.stopped.len() > SPANS_MAX {
            let gap = |at: &usize| self.stopped[at + 1].from.since(self.stopped[*at].until);
            let Some(at) = (0..self.stopped.len() - 1).min_by_key(gap) else { return };
            self.stopped[at].until = self.stopped[at + 1].until;
            self.stopped.remove(at + 1);
        }
    }

    /// Returns when a life ends that began at `start` and is `life` long without pauses. A pause in
    /// force counts up to its limit: resumed earlier, it moves the deadline by less.
    pub fn expires_at(&self, start: Timestamp, life: Duration) -> Timestamp {
        let open = self.open.as_ref().filter(|pause| !pause.time_to_live_runs);
        let open = open.map(|pause| Span { from: pause.since, until: pause.until });
        let mut end = start + life;
        for span in self.stopped.iter().copied().chain(open) {
            if span.from >= end {
                break;
            }
            end = end + span.until.since(span.from.max(start));
        }
        end
    }
}

#[cfg(test)]
mod tests;

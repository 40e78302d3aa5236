//! Runs: questions that Logs Insights answers, in one query or more.

use std::time::Duration;

use async_trait::async_trait;
use gridpost_core::{journal::Question, time::Timestamp};
use gridpost_ports::{PortError, Saved};
use serde::{Deserialize, Serialize};

use super::plan::{Plan, reads};

/// A run is forgotten after this time; Logs Insights keeps results for seven days.
const KEPT_FOR: Duration = Duration::from_secs(60 * 60);

/// How long one caller may take to start queries; manage has 29 s.
const CLAIMED_FOR: Duration = Duration::from_secs(30);

/// Queries of a run, at most.
const PARTS_MAX: usize = 16;

const SECOND_MS: i64 = 1_000;

/// The runs of questions that Logs Insights answers.
#[async_trait]
pub trait RunStore: Send + Sync {
    /// Returns a run with its revision.
    async fn load(&self, key: &str) -> Result<Option<(Run, u64)>, PortError>;

    /// Writes a run as the next revision, if the stored one still is `revision` (0: there is none).
    async fn save(&self, key: &str, run: &Run, revision: u64) -> Result<Saved, PortError>;
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub started_at: Timestamp,
    /// Until then one caller alone starts its queries.
    claimed_until: Timestamp,
    pub groups: Vec<String>,
    pub begins: Option<Timestamp>,
    /// All that it reads, about.
    pub bytes: f64,
    bytes_a_ms: f64,
    /// How many more U.S. dollars it may cost.
    dollars_left: f64,
    pub parts: Vec<Part>,
}

/// A query of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    pub from: Timestamp,
    /// Before this time.
    pub to: Timestamp,
    /// The service's id of it, once it is started.
    pub query_id: Option<String>,
}

impl Run {
    /// Makes a run that may cost `max_dollars`. A ledger that is divided takes a query for each period.
    pub(super) fn of(question: &Question, plan: Plan, max_dollars: f64, now: Timestamp) -> Self {
        let mut times = vec![plan.from];
        if let Question::Ledger(asked) = question {
            let cuts = asked.cuts.iter().copied();
            times.extend(cuts.filter(|cut| plan.from < *cut && *cut < plan.to));
        }
        times.push(plan.to);
        let part = |pair: &[Timestamp]| Part { from: pair[0], to: pair[1], query_id: None };
        let read = plan.reads(now);
        Self {
            started_at: now,
            claimed_until: now + CLAIMED_FOR,
            begins: plan.begins,
            bytes: read.gigabytes * 1e9,
            bytes_a_ms: plan.bytes_a_ms,
            dollars_left: max_dollars - read.dollars,
            parts: times.windows(2).map(part).collect(),
            groups: plan.groups,
        }
    }

    /// Whether it is still known.
    pub(super) fn is_known(&self, now: Timestamp) -> bool {
        self.forget_at() > now
    }

    /// Returns when it is forgotten.
    pub(super) fn forget_at(&self) -> Timestamp {
        self.started_at + KEPT_FOR
    }

    /// Forgets it, so that the question can be asked anew.
    pub(super) fn forget(&mut self) {
        let millis = self.started_at.as_millis() - KEPT_FOR.as_millis() as i64;
        self.started_at = Timestamp::from_millis(millis);
    }

    /// Whether another caller is starting its queries.
    pub(super) fn is_claimed(&self, now: Timestamp) -> bool {
        self.claimed_until > now
    }

    pub(super) fn claim(&mut self, now: Timestamp) {
        self.claimed_until = now + CLAIMED_FOR;
    }

    pub(super) fn release(&mut self) {
        self.claimed_until = Timestamp::MIN;
    }

    /// Divides the time of a query that has too many results. Returns whether the run may cost that much.
    pub(super) fn split(&mut self, index: usize) -> bool {
        let Part { from, to, .. } = self.parts[index];
        let length_ms = to.as_millis() - from.as_millis();
        let more = self.bytes_a_ms * length_ms as f64;
        let dollars = reads(more).dollars;
        if self.parts.len() >= PARTS_MAX || length_ms < 2 * SECOND_MS || dollars > self.dollars_left
        {
            return false;
        }
        self.bytes += more;
        self.dollars_left -= dollars;
        let half = Timestamp::from_millis(from.as_millis() + length_ms / 2);
        let halves = [(from, half), (half, to)].map(|(from, to)| Part { from, to, query_id: None });
        self.parts.splice(index..=index, halves);
        true
    }
}

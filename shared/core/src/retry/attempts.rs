//! The attempts of a delivery.

use serde::{Deserialize, Serialize};

use super::outcome::{Answer, Outcome};
use crate::time::Timestamp;

/// A summary of the attempts made so far.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Attempts {
    pub made: u32,
    /// The schedule's offsets count from here.
    pub first_at: Option<Timestamp>,
    pub last_at: Option<Timestamp>,
    /// `Probation` if it was refused an attempt.
    pub last_outcome: Option<Outcome>,
    pub last_status: Option<u16>,
}

impl Attempts {
    /// Adds an attempt that began at `at`.
    #[must_use]
    pub fn with(&self, at: Timestamp, outcome: Outcome, status: Option<u16>) -> Self {
        Self {
            made: self.made + 1,
            first_at: self.first_at.or(Some(at)),
            last_at: Some(at),
            last_outcome: Some(outcome),
            last_status: status,
        }
    }

    /// Adds an attempt of that many requests, the last at `last_at`: each counts as an attempt.
    #[must_use]
    pub fn with_requests(
        &self,
        (began_at, last_at): (Timestamp, Timestamp),
        Answer { outcome, status, .. }: Answer,
        requests: u32,
    ) -> Self {
        let one = self.with(began_at, outcome, status);
        let more = requests.saturating_sub(1);
        Self { made: one.made + more, last_at: Some(last_at.max(began_at)), ..one }
    }
}

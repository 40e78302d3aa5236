//! Builds explanations of an event for tests.

use std::collections::BTreeMap;

use super::{Question, Told};
use crate::given::TimeSpan;

impl Told {
    /// Returns an explanation with this note alone.
    pub fn noting(note: &str) -> Self {
        Self {
            arguments: Question {
                id: "e-1".to_owned(),
                topic: "orders".to_owned(),
                since: TimeSpan::minutes(1_440),
            },
            given_id: None,
            verdicts: None,
            notes: vec![note.to_owned()],
            deliveries: Vec::new(),
            names: Vec::new(),
            filters: BTreeMap::new(),
            holding: Vec::new(),
            logs_successes: false,
        }
    }
}

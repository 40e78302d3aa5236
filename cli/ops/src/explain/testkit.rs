//! Builds explanations of an event for tests.

use super::{Explanation, Question};
use crate::given::TimeSpan;

impl Explanation {
    /// Returns an explanation with this note alone.
    pub fn noting(note: &str) -> Self {
        let question = Question {
            id: "e-1".to_owned(),
            topic: "orders".to_owned(),
            since: TimeSpan::minutes(1_440),
            ..Question::default()
        };
        Self { question, notes: vec![note.to_owned()], ..Self::default() }
    }
}

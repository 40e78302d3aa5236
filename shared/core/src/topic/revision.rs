//! Revisions of a topic's configuration.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// A state of a topic and its event subscriptions: the topic's creation, and the number of changes
/// since. Numbers only compare within one creation; a later creation is newer.
///
/// It is stored as a pair, `[1795248000123, 7]`. The default is older than any stored one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize)]
#[serde(from = "(Timestamp, u64)", into = "(Timestamp, u64)")]
pub struct Revision {
    pub created_at: Timestamp,
    /// Counts every change of the topic or of one of its event subscriptions.
    pub number: u64,
}

impl From<(Timestamp, u64)> for Revision {
    fn from((created_at, number): (Timestamp, u64)) -> Self {
        Self { created_at, number }
    }
}

impl From<Revision> for (Timestamp, u64) {
    fn from(revision: Revision) -> Self {
        (revision.created_at, revision.number)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering::{Equal, Greater, Less};

    use super::*;

    fn revision(created: i64, number: u64) -> Revision {
        Revision { created_at: Timestamp::from_millis(created), number }
    }

    #[test]
    fn numbers_compare_within_one_creation_and_a_later_creation_is_newer() {
        let table = [
            ((5, 3), (5, 3), Equal),
            ((5, 3), (5, 4), Less),
            ((5, 10), (5, 9), Greater),
            ((6, 1), (5, 9), Greater),
            ((5, 900), (6, 1), Less),
        ];
        for (one, other, want) in table {
            let ordering = revision(one.0, one.1).cmp(&revision(other.0, other.1));
            assert_eq!(ordering, want, "{one:?} {other:?}");
        }
        assert!(Revision::default() < revision(1, 1));
    }

    #[test]
    fn it_travels_as_a_pair() {
        let text = serde_json::to_string(&revision(1_795_248_000_123, 7)).expect("JSON");
        assert_eq!(text, "[1795248000123,7]");
        let read: Revision = serde_json::from_str(&text).expect("a pair");
        assert_eq!(read, revision(1_795_248_000_123, 7));
    }
}

//! The latest changes of a topic, stored with its revision.
//!
//! A cached topic that is a few changes old only reads these, not all of up to 500 event
//! subscriptions. And readers can tell whether they saw a change: DynamoDB shows it item by item.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::name;

/// The most changes kept: with a topic's document, they usually fit one read unit of 4 KB.
const CHANGES_MAX: usize = 16;

/// One change. Names are folded: see [`crate::name`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// Created or changed.
    Written(String),
    Deleted(String),
    Keys,
}

/// What the latest changes wrote or deleted besides the topic itself.
///
/// A change of more than [`CHANGES_MAX`] is dropped with all earlier ones: cached topics read all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// Each with the number of its revision, the oldest first.
    latest: VecDeque<(u64, Change)>,
    /// All changes with greater numbers are known.
    after: u64,
}

/// The changes since an earlier revision, with folded names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangesSince<'c> {
    pub names: BTreeSet<&'c str>,
    pub keys: bool,
}

impl Change {
    /// Records that an event subscription was created or changed.
    pub fn written(name: &str) -> Self {
        Self::Written(name::folded(name))
    }

    /// Records that an event subscription was deleted.
    pub fn deleted(name: &str) -> Self {
        Self::Deleted(name::folded(name))
    }
}

impl Changes {
    /// Adds the changes that make revision `number`.
    #[must_use]
    pub fn with(&self, number: u64, changes: impl IntoIterator<Item = Change>) -> Self {
        let mut next = self.clone();
        next.latest.extend(changes.into_iter().map(|change| (number, change)));
        while next.latest.len() > CHANGES_MAX {
            let forgotten = next.latest.pop_front().map_or(number, |(number, _)| number);
            // The changes of one revision are kept together or not at all.
            next.after = next.after.max(forgotten);
            next.latest.retain(|(number, _)| *number > forgotten);
        }
        next
    }

    /// Returns the changes after revision `number` of the same creation, if they are known.
    pub fn since(&self, number: u64) -> Option<ChangesSince<'_>> {
        if number < self.after {
            return None;
        }
        let mut since = ChangesSince::default();
        for (_, change) in self.latest.iter().filter(|(changed_at, _)| *changed_at > number) {
            match change {
                Change::Written(name) | Change::Deleted(name) => {
                    since.names.insert(name);
                }
                Change::Keys => since.keys = true,
            }
        }
        Some(since)
    }

    /// Returns whether what was read includes these changes. `among` says which names were read;
    /// `found` returns the revision at which a name was written, if it exists.
    pub fn are_in(
        &self,
        among: impl Fn(&str) -> bool,
        found: impl Fn(&str) -> Option<u64>,
    ) -> bool {
        let mut seen = BTreeSet::new();
        // Only the latest change of each name counts.
        self.latest.iter().rev().all(|(number, change)| match change {
            Change::Written(name) | Change::Deleted(name) if !among(name) || !seen.insert(name) => {
                true
            }
            Change::Written(name) => found(name).is_some_and(|revision| revision >= *number),
            Change::Deleted(name) => found(name).is_none_or(|revision| revision > *number),
            Change::Keys => true,
        })
    }

    /// Returns whether access keys of that revision include these changes.
    pub fn are_in_keys(&self, revision: u64) -> bool {
        let mut keys = self.latest.iter().filter(|(_, change)| *change == Change::Keys);
        keys.all(|(number, _)| revision >= *number)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Change::{Deleted, Keys, Written},
        *,
    };

    fn written(name: &str) -> Change {
        Written(name.to_owned())
    }

    fn deleted(name: &str) -> Change {
        Deleted(name.to_owned())
    }

    fn many(count: usize) -> Vec<Change> {
        (0..count).map(|number| written(&format!("s{number}"))).collect()
    }

    #[test]
    fn what_was_changed_since() {
        let none = Changes::default();
        let some = none
            .with(2, [written("a")])
            .with(3, [])
            .with(4, [deleted("b"), deleted("c")])
            .with(5, [Keys])
            .with(6, [written("a")]);
        let table: [(u64, &[&str], bool); 6] = [
            (1, &["a", "b", "c"], true),
            (2, &["a", "b", "c"], true),
            (4, &["a"], true),
            (5, &["a"], false),
            (6, &[], false),
            (9, &[], false),
        ];
        for (number, names, keys) in table {
            let since = some.since(number).expect("known");
            assert_eq!(since.names.into_iter().collect::<Vec<_>>(), names, "since {number}");
            assert_eq!(since.keys, keys, "since {number}");
        }
        assert_eq!(none.since(1), Some(ChangesSince::default()), "the topic alone changed");
    }

    #[test]
    fn the_oldest_are_forgotten_revision_by_revision() {
        let names = |changes: &Changes, number| changes.since(number).map(|some| some.names.len());
        let full = Changes::default().with(2, many(2)).with(3, many(CHANGES_MAX - 2));
        assert_eq!(names(&full, 1), Some(CHANGES_MAX - 2), "two are in both");
        let more = full.with(4, [written("x")]);
        assert_eq!((names(&more, 1), names(&more, 2)), (None, Some(CHANGES_MAX - 1)));
        let too_many = more.with(5, many(CHANGES_MAX + 1));
        assert_eq!((names(&too_many, 4), names(&too_many, 5)), (None, Some(0)));
        let one = too_many.with(6, [written("b")]);
        assert_eq!((names(&one, 4), names(&one, 5)), (None, Some(1)));
    }

    #[test]
    fn what_was_read_too_early_is_told_by_its_revisions() {
        let changes = Changes::default().with(7, [written("a")]).with(8, [deleted("b")]);
        let again = changes.with(9, [deleted("a")]).with(10, [written("b")]);
        // Changes; the revisions of a and b as found; whether the changes are in them.
        let table = [
            (&changes, Some(7), None, true),
            (&changes, Some(12), None, true),
            (&changes, Some(6), None, false),
            (&changes, None, None, false),
            (&changes, Some(7), Some(3), false),
            (&changes, Some(7), Some(11), true),
            (&again, None, Some(10), true),
            (&again, Some(7), Some(10), false),
            (&again, None, Some(3), false),
        ];
        for (changes, a, b, want) in table {
            let found = |name: &str| if name == "a" { a } else { b };
            assert_eq!(changes.are_in(|_| true, found), want, "{changes:?}: {a:?}, {b:?}");
        }
        assert!(changes.are_in(|name| name == "b", |_| None), "the other one was not read");
        let keys = Changes::default().with(3, [Keys]).with(5, [Keys]);
        assert_eq!([4, 5, 6].map(|revision| keys.are_in_keys(revision)), [false, true, true]);
    }
}

//! The latest changes of a topic, as they are kept beside its revision.
//!
//! A copy of the configuration in memory that is a few changes behind reads what these changed, and
//! not all of what may be 500 event subscriptions.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

/// Most names that are kept. A name has at most 64 characters, so that they and a topic's document are
/// read as one unit of 4 KB as a rule.
const NAMES_MAX: usize = 16;

/// Which event subscriptions the latest changes of a topic wrote or deleted.
///
/// Changes of the topic alone name none. A change of more than [`NAMES_MAX`] event subscriptions is
/// forgotten with all before it: whoever is behind that reads everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// The names by the revision number that they were changed at, the oldest first.
    names: VecDeque<(u64, String)>,
    /// All changes after this number are known.
    after: u64,
}

impl Changes {
    /// The same with one more change, of these event subscriptions, that makes revision `number`.
    #[must_use]
    pub fn with(&self, number: u64, names: &[&str]) -> Self {
        let mut next = self.clone();
        next.names.extend(names.iter().map(|name| (number, (*name).to_owned())));
        while next.names.len() > NAMES_MAX {
            let forgotten = next.names.pop_front().map_or(number, |(number, _)| number);
            // A change is known as a whole or not at all.
            next.after = next.after.max(forgotten);
            next.names.retain(|(number, _)| *number > forgotten);
        }
        next
    }

    /// The event subscriptions that were changed after revision `number` of the same creation; `None`
    /// where that is not known any more.
    pub fn since(&self, number: u64) -> Option<BTreeSet<&str>> {
        if number < self.after {
            return None;
        }
        let later = self.names.iter().filter(|(changed_at, _)| *changed_at > number);
        Some(later.map(|(_, name)| name.as_str()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("s{number}")).collect()
    }

    fn changed(changes: &Changes, number: u64, names: &[String]) -> Changes {
        changes.with(number, &names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    #[test]
    fn what_was_changed_since() {
        let none = Changes::default();
        let three = none.with(2, &["a"]).with(3, &[]).with(4, &["b", "c"]).with(5, &["a"]);
        let table: [(u64, &[&str]); 6] = [
            (1, &["a", "b", "c"]),
            (2, &["a", "b", "c"]),
            (3, &["a", "b", "c"]),
            (4, &["a"]),
            (5, &[]),
            (9, &[]),
        ];
        for (number, want) in table {
            let since = three.since(number).expect("known");
            assert_eq!(since.into_iter().collect::<Vec<_>>(), want, "since {number}");
        }
        assert_eq!(none.since(1), Some(BTreeSet::new()), "the topic alone changed");
    }

    #[test]
    fn the_oldest_changes_are_forgotten_as_a_whole() {
        let before = changed(&Changes::default(), 2, &names(2));
        let full = changed(&before, 3, &names(NAMES_MAX - 2));
        assert_eq!(full.since(1).map(|names| names.len()), Some(NAMES_MAX - 2));
        let more = full.with(4, &["x"]);
        assert_eq!(more.since(1), None);
        assert_eq!(more.since(2).map(|names| names.len()), Some(NAMES_MAX - 1));
    }

    #[test]
    fn a_change_of_many_is_read_as_a_whole() {
        let many = changed(&Changes::default().with(2, &["a"]), 3, &names(NAMES_MAX + 1));
        assert_eq!((many.since(1), many.since(2)), (None, None));
        assert_eq!(many.since(3), Some(BTreeSet::new()));
        let one = many.with(4, &["b"]);
        assert_eq!((one.since(2), one.since(3)), (None, Some(BTreeSet::from(["b"]))));
    }
}

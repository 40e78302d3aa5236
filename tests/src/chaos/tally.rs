//! Judges a run: pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::sink::{self, Arrivals};

/// Most missing events that a message names.
const NAMED_MAX: usize = 20;

/// Where every event of a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events that should have ended, over all event subscriptions.
    pub expected: u64,
    /// Of these, those that were delivered at least once.
    pub delivered: u64,
    /// Of these, those that are dead letters because their endpoint refuses them.
    pub dead_lettered: u64,
    /// Those of which there is no trace, as `endpoint id`.
    pub missing: Vec<String>,
    /// Those that arrived or became dead letters although they should not have.
    pub misplaced: Vec<String>,
    /// Arrivals beyond the first.
    pub duplicates: u64,
    /// Dead letters beyond the first.
    pub duplicate_dead_letters: u64,
}

impl Tally {
    /// Compares what arrived, and the ids of dead letters, with the ids that were published.
    pub fn of(ids: &BTreeSet<String>, arrivals: &Arrivals, dead_letters: &[String]) -> Self {
        let mut dead: BTreeMap<&str, u64> = BTreeMap::new();
        for id in dead_letters {
            *dead.entry(id).or_default() += 1;
        }
        let mut tally = Self::default();
        for endpoint in sink::ALL {
            for id in ids {
                let key = (endpoint.to_owned(), id.clone());
                let arrived = arrivals.get(&key).copied().unwrap_or_default();
                let refused = endpoint == sink::REFUSING && sink::is_refused(id);
                let dead = if refused { dead.remove(id.as_str()).unwrap_or_default() } else { 0 };
                tally.expected += 1;
                match (refused, arrived, dead) {
                    (false, 1.., _) => tally.delivered += 1,
                    (true, 0, 1..) => tally.dead_lettered += 1,
                    (true, 1.., _) => tally.misplaced.push(format!("{endpoint} {id}")),
                    _ => tally.missing.push(format!("{endpoint} {id}")),
                }
                tally.duplicates += arrived.saturating_sub(1);
                tally.duplicate_dead_letters += dead.saturating_sub(1);
            }
        }
        tally.misplaced.extend(dead.into_keys().map(|id| format!("dead letter {id}")));
        tally
    }

    /// Whether every event ended as it should.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.misplaced.is_empty()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expected, delivered, dead_lettered, .. } = self;
        write!(
            formatter,
            "{expected} expected: {delivered} delivered, {dead_lettered} dead-lettered, {} missing, {} \
             misplaced; {} duplicates, {} duplicate dead letters",
            self.missing.len(),
            self.misplaced.len(),
            self.duplicates,
            self.duplicate_dead_letters,
        )?;
        for (what, which) in [("missing", &self.missing), ("misplaced", &self.misplaced)] {
            for name in which.iter().take(NAMED_MAX) {
                write!(formatter, "\n  {what}: {name}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(all: &[(&str, &str, u64)]) -> Arrivals {
        let entry = |(endpoint, id, count): &(&str, &str, u64)| {
            (((*endpoint).into(), (*id).into()), *count)
        };
        all.iter().map(entry).collect()
    }

    #[test]
    fn what_is_nowhere_is_missing_and_what_is_twice_is_a_duplicate() {
        let ids = BTreeSet::from(["1-3".to_owned()]);
        let all = arrivals(&[(sink::STEADY, "1-3", 1), (sink::FLAKY, "1-3", 3)]);
        let tally = Tally::of(&ids, &all, &["1-3".to_owned(), "1-3".to_owned()]);
        assert_eq!(tally.missing, ["batched 1-3", "late 1-3"]);
        assert_eq!((tally.expected, tally.delivered, tally.dead_lettered), (5, 2, 1));
        assert_eq!((tally.duplicates, tally.duplicate_dead_letters), (2, 1));
        assert!(!tally.is_complete());
    }

    #[test]
    fn a_dead_letter_in_the_place_of_a_delivery_is_no_delivery() {
        let ids = BTreeSet::from(["1-4".to_owned()]);
        let all = arrivals(&[
            (sink::STEADY, "1-4", 1),
            (sink::FLAKY, "1-4", 1),
            (sink::BATCHED, "1-4", 1),
            (sink::LATE, "1-4", 1),
        ]);
        let tally = Tally::of(&ids, &all, &["1-4".to_owned()]);
        assert_eq!(tally.missing, ["refusing 1-4"]);
        assert_eq!(tally.misplaced, ["dead letter 1-4"]);
    }

    #[test]
    fn an_event_that_is_refused_must_not_arrive() {
        let ids = BTreeSet::from(["1-13".to_owned()]);
        let all = arrivals(&sink::ALL.map(|endpoint| (endpoint, "1-13", 1)));
        let tally = Tally::of(&ids, &all, &[]);
        assert_eq!(tally.misplaced, ["refusing 1-13"]);
        assert!(!tally.is_complete());
    }
}

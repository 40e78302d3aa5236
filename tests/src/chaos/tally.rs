//! Judges a run: pure.

use std::{collections::HashMap, fmt};

use serde_json::Value;

use super::endpoints::Key;

/// Most events that a message names.
const NAMED_MAX: usize = 20;

/// The ends of a run's events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Deliveries that must end: each accepted event at each of its endpoints.
    pub expected: u64,
    /// Events that were delivered at least once.
    pub delivered: u64,
    /// Events that are dead letters because their endpoint refuses them.
    pub dead_lettered: u64,
    /// Events without a trace: they are waiting or lost.
    pub missing: Vec<Key>,
    /// Events that were delivered although their endpoint refuses them, or are dead letters
    /// although it takes them, expected or not.
    pub misplaced: Vec<Key>,
    /// Events that ended as they should although their publish was not confirmed.
    pub unconfirmed: u64,
    /// Deliveries beyond the first of an event.
    pub duplicates: u64,
    /// Dead letters beyond the first of an event.
    pub duplicate_dead_letters: u64,
}

impl Tally {
    /// Compares what was accepted with how often each event arrived and became a dead letter.
    pub fn of(
        accepted: impl IntoIterator<Item = Key>,
        arrivals: &HashMap<Key, u64>,
        dead: &HashMap<Key, u64>,
    ) -> Self {
        let mut tally = Self::default();
        for (key, times) in arrivals {
            tally.duplicates += times - 1;
            if key.0.refuses(key.1) {
                tally.misplaced.push(*key);
            }
        }
        for (key, times) in dead {
            tally.duplicate_dead_letters += times - 1;
            if !key.0.refuses(key.1) {
                tally.misplaced.push(*key);
            }
        }
        for key in accepted {
            tally.expected += 1;
            match (arrivals.contains_key(&key), dead.contains_key(&key)) {
                (true, _) => tally.delivered += 1,
                (false, true) => tally.dead_lettered += 1,
                (false, false) => tally.missing.push(key),
            }
        }
        let once_dead = dead.keys().filter(|key| !arrivals.contains_key(key)).count();
        let ended = (arrivals.len() + once_dead) as u64;
        tally.unconfirmed = ended - tally.delivered - tally.dead_lettered;
        tally
    }

    /// Returns whether every event ended as it should.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.misplaced.is_empty()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expected, delivered, dead_lettered, unconfirmed, .. } = self;
        write!(
            formatter,
            "{expected} accepted: {delivered} delivered, {dead_lettered} dead-lettered, {} without \
             an end, {} misplaced; {} duplicates, {} duplicate dead letters; {unconfirmed} ended \
             whose publish was not confirmed",
            self.missing.len(),
            self.misplaced.len(),
            self.duplicates,
            self.duplicate_dead_letters,
        )?;
        for (what, which) in [("without an end", &self.missing), ("misplaced", &self.misplaced)] {
            for (rule, number) in which.iter().take(NAMED_MAX) {
                write!(formatter, "\n  {what}: {} {number}", rule.name())?;
            }
        }
        Ok(())
    }
}

/// The counts of `gridpost audit`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// `balances`, `underWay` or `missing`.
    pub verdict: String,
    /// Events that it counts as accepted: at least as many as publishers know of.
    pub accepted: u64,
    /// Events that it knows to be under way, or to wait for an attempt.
    pub under_way: u64,
    /// Ends beyond one for each event: those of duplicates and of publishes that were not confirmed.
    pub ends_too_many: u64,
}

impl Ledger {
    /// Reads it from the command's document.
    pub fn of(audit: &Value) -> Self {
        let sum = |list: &str, member: &str| {
            let all = audit[list].as_array().into_iter().flatten();
            all.filter_map(|one| one[member].as_u64()).sum::<u64>()
        };
        let count = |member: &str| audit[member].as_u64().unwrap_or_default();
        Self {
            verdict: audit["verdict"].as_str().unwrap_or_default().to_owned(),
            accepted: sum("topics", "accepted"),
            under_way: count("eventsUnderWay") + sum("eventSubscriptions", "waiting"),
            ends_too_many: count("endsTooMany"),
        }
    }

    /// Returns whether it explains a tally: it knows every event without an end to be under way. If history made
    /// room, it need not know all that was accepted.
    pub fn explains(&self, tally: &Tally, made_room: bool) -> bool {
        // A ledger balances if every event has ended or is waiting.
        let is_balanced = ["balances", "underWay"].contains(&self.verdict.as_str());
        let is_known = is_balanced && tally.missing.len() as u64 <= self.under_way;
        let knows_all = made_room || self.accepted >= tally.expected;
        is_known && knows_all && tally.misplaced.is_empty()
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verdict, accepted, under_way, .. } = self;
        write!(formatter, "the ledger has {accepted} accepted, {under_way} under way: {verdict}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::endpoints::Rule::{Flaky, Refusing, Steady},
        *,
    };

    #[test]
    fn what_is_nowhere_is_missing_and_what_is_twice_is_a_duplicate() {
        let accepted = [(Steady, 3), (Flaky, 3), (Refusing, 3), (Steady, 4)];
        let arrivals = HashMap::from([((Steady, 3), 1), ((Flaky, 3), 3), ((Flaky, 5), 1)]);
        let tally = Tally::of(accepted, &arrivals, &HashMap::from([((Refusing, 3), 2)]));
        assert_eq!((&tally.missing[..], &tally.misplaced[..]), (&[(Steady, 4)][..], &[][..]));
        assert_eq!((tally.expected, tally.delivered, tally.dead_lettered), (4, 2, 1));
        assert_eq!((tally.duplicates, tally.duplicate_dead_letters), (2, 1));
        assert_eq!((tally.unconfirmed, tally.is_complete()), (1, false));
    }

    #[test]
    fn an_end_that_is_not_the_event_s_own_is_misplaced() {
        for (arrivals, dead) in [
            // A refused event must not arrive, and an accepted one is no dead letter.
            (HashMap::from([((Refusing, 3), 1)]), HashMap::new()),
            (HashMap::new(), HashMap::from([((Refusing, 4), 1)])),
            (HashMap::from([((Steady, 4), 1)]), HashMap::from([((Steady, 4), 1)])),
        ] {
            let key = *arrivals.keys().chain(dead.keys()).next().expect("one");
            let tally = Tally::of([key], &arrivals, &dead);
            assert_eq!((&tally.misplaced[..], tally.unconfirmed), (&[key][..], 0));
            assert!(!tally.is_complete());
        }
    }

    #[test]
    fn the_ledger_must_know_what_has_no_end() {
        let ledger = |verdict: &str, waiting: u64| {
            Ledger::of(&json!({"verdict": verdict, "eventsUnderWay": 0, "endsTooMany": 2,
                "topics": [{"accepted": 2}], "eventSubscriptions": [{"waiting": waiting}]}))
        };
        let accepted = [(Steady, 1), (Steady, 2)];
        let tally = Tally::of(accepted, &HashMap::from([((Steady, 1), 1)]), &HashMap::new());
        assert!(ledger("underWay", 1).explains(&tally, false));
        for (verdict, waiting) in [("balances", 0), ("underWay", 0), ("missing", 1)] {
            assert!(!ledger(verdict, waiting).explains(&tally, false), "{verdict}");
        }
        let whole = Tally { missing: Vec::new(), ..tally };
        assert!(ledger("balances", 0).explains(&whole, false));
        let cut = Ledger { accepted: 1, ..ledger("balances", 0) };
        assert!(!cut.explains(&whole, false) && cut.explains(&whole, true));
        let misplaced = Tally { misplaced: vec![(Steady, 1)], ..whole };
        assert!(!ledger("balances", 0).explains(&misplaced, true));
    }
}

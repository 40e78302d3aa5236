//! Judges a run: pure.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    time::Duration,
};

use serde_json::Value;

use super::is_refused;

/// Most events that a message names.
const NAMED_MAX: usize = 20;

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Events that were sent.
    pub sent: u64,
    /// Of these, those that were answered with 200.
    pub accepted: u64,
    /// Of the accepted ones, those that were delivered.
    pub delivered: u64,
    /// Of the accepted ones, those that are dead letters because their endpoint refuses them.
    pub dead_lettered: u64,
    /// Of the accepted ones, those that are neither: they are waiting or lost.
    pub open: Vec<usize>,
    /// Those that were delivered although their endpoint refuses them, or are dead letters although
    /// it takes them.
    pub misplaced: Vec<usize>,
    /// Deliveries beyond the first of an event.
    pub duplicates: u64,
    /// Processes that were killed.
    pub kills: u32,
    /// Messages in the poison queue.
    pub poison: usize,
    /// The verdict of the ledger: `balances`, `underWay` or `missing`.
    pub verdict: String,
    /// Events that the ledger knows to be under way, or to wait for an attempt.
    pub under_way: u64,
    /// Events that the ledger counts as accepted: at least as many as publishers know of.
    pub ledger_accepted: u64,
    /// How long it took.
    pub took: Duration,
}

impl Told {
    /// Compares the accepted events with those that arrived and the dead letters.
    pub fn of(accepted: &[usize], arrivals: &HashMap<usize, u32>, dead: &HashSet<usize>) -> Self {
        let mut told = Self { accepted: accepted.len() as u64, ..Self::default() };
        for number in accepted {
            let (arrived, is_dead) = (arrivals.get(number).copied(), dead.contains(number));
            match (arrived, is_dead) {
                (Some(_), _) => told.delivered += 1,
                (None, true) => told.dead_lettered += 1,
                (None, false) => told.open.push(*number),
            }
            if is_dead != is_refused(*number) && (is_dead || arrived.is_some()) {
                told.misplaced.push(*number);
            }
        }
        told.duplicates = arrivals.values().map(|times| u64::from(*times) - 1).sum();
        told
    }

    /// The same with what `gridpost audit` says.
    #[must_use]
    pub fn with_ledger(self, audit: &Value) -> Self {
        let accepted = audit["topics"].as_array().into_iter().flatten();
        let waiting = audit["eventSubscriptions"].as_array().into_iter().flatten();
        let waiting: u64 = waiting.filter_map(|one| one["waiting"].as_u64()).sum();
        Self {
            verdict: audit["verdict"].as_str().unwrap_or_default().to_owned(),
            under_way: audit["eventsUnderWay"].as_u64().unwrap_or_default() + waiting,
            ledger_accepted: accepted.filter_map(|topic| topic["accepted"].as_u64()).sum(),
            ..self
        }
    }

    /// Whether nothing is lost: the ledger knows every event that has not ended to be under way.
    pub fn holds(&self) -> bool {
        // A ledger balances if every event has ended or is waiting.
        let is_balanced = ["balances", "underWay"].contains(&self.verdict.as_str());
        let is_known = is_balanced && self.open.len() as u64 <= self.under_way;
        let is_counted = self.ledger_accepted >= self.accepted;
        is_known && is_counted && self.misplaced.is_empty() && self.poison == 0
    }
}

impl fmt::Display for Told {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} sent, {} accepted: {} delivered, {} dead-lettered, {} still due, {} misplaced; {} \
             delivered more than once; {} kills, {} poison messages; the ledger has {} accepted, \
             {} under way: {}; {:.0} s",
            self.sent,
            self.accepted,
            self.delivered,
            self.dead_lettered,
            self.open.len(),
            self.misplaced.len(),
            self.duplicates,
            self.kills,
            self.poison,
            self.ledger_accepted,
            self.under_way,
            self.verdict,
            self.took.as_secs_f64(),
        )?;
        for (what, which) in [("without an end", &self.open), ("misplaced", &self.misplaced)] {
            for number in which.iter().take(NAMED_MAX) {
                write!(formatter, "\n{what}: {number}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn audit(verdict: &str, under_way: u64) -> Value {
        json!({"verdict": verdict, "eventsUnderWay": under_way, "topics": [{"accepted": 4}]})
    }

    #[test]
    fn what_is_nowhere_is_open_and_must_be_known_to_the_ledger() {
        // 1 is refused by its endpoint; the others are not.
        let accepted = [1, 8, 9, 10];
        let arrivals = HashMap::from([(8, 1), (9, 3)]);
        let told = Told::of(&accepted, &arrivals, &HashSet::from([1]));
        assert_eq!((told.delivered, told.dead_lettered, told.duplicates), (2, 1, 2));
        assert_eq!((&told.open[..], &told.misplaced[..]), (&[10][..], &[][..]));
        assert!(told.clone().with_ledger(&audit("underWay", 1)).holds());
        for (verdict, under_way) in [("balances", 0), ("underWay", 0), ("missing", 1)] {
            let told = told.clone().with_ledger(&audit(verdict, under_way));
            assert!(!told.holds(), "{verdict}");
        }
        let all = Told::of(&accepted, &HashMap::from([(8, 1), (9, 1), (10, 1)]), &[1].into());
        let all = all.with_ledger(&audit("balances", 0));
        assert!(all.holds());
        assert!(!Told { poison: 1, ..all.clone() }.holds());
        assert!(!Told { ledger_accepted: 3, ..all }.holds());
    }

    #[test]
    fn an_end_that_is_not_the_event_s_own_is_misplaced() {
        let told = Told::of(&[1, 8], &HashMap::from([(1, 1)]), &HashSet::from([8]));
        assert_eq!(told.misplaced, [1, 8]);
        assert!(!told.with_ledger(&audit("balances", 0)).holds());
    }
}

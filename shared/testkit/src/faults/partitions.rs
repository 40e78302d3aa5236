//! Tracks the use of each partition of a table, second by second.

use std::collections::HashMap;

use gridpost_core::time::Timestamp;

/// The limits of a partition per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub writes: u32,
    pub reads: u32,
}

impl Limits {
    /// DynamoDB's limits of one key.
    ///
    /// Source: DynamoDB developer guide, "Partition throughput limits".
    pub const DYNAMODB: Self = Self { writes: 1_000, reads: 3_000 };
}

/// Units that a call uses of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    Write(u32),
    Read(u32),
}

/// Units used in the current second, and the most that any partition ever saw in one.
#[derive(Debug, Default)]
pub struct Partitions {
    second: i64,
    used: HashMap<String, (u32, u32)>,
    busiest: Option<(String, u32)>,
    refused: u64,
}

impl Partitions {
    /// Whether one of the partitions lacks the units in this second.
    pub(super) fn lacks(
        &mut self,
        units: &[(String, Units)],
        most: Limits,
        now: Timestamp,
    ) -> bool {
        if now.as_seconds() != self.second {
            self.second = now.as_seconds();
            self.used.clear();
        }
        let is_over = |(key, units): &(String, Units)| {
            let (written, read) = self.used.get(key).copied().unwrap_or_default();
            match units {
                Units::Write(more) => written > 0 && written + more > most.writes,
                Units::Read(more) => read > 0 && read + more > most.reads,
            }
        };
        units.iter().any(is_over)
    }

    /// Returns whether one of the partitions has too few units left. If none does, the units are
    /// used.
    pub(super) fn is_full(
        &mut self,
        units: &[(String, Units)],
        most: Limits,
        now: Timestamp,
    ) -> bool {
        if self.lacks(units, most, now) {
            self.refused += 1;
            return true;
        }
        for (key, units) in units {
            let used = self.used.entry(key.clone()).or_default();
            match units {
                Units::Write(more) => used.0 += more,
                Units::Read(more) => used.1 += more,
            }
            if self.busiest.as_ref().is_none_or(|(_, most)| used.0 > *most) {
                self.busiest = Some((key.clone(), used.0));
            }
        }
        false
    }

    /// The partition that was written most in one second, and how much.
    pub fn busiest(&self) -> Option<(&str, u32)> {
        self.busiest.as_ref().map(|(key, writes)| (key.as_str(), *writes))
    }

    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_takes_so_many_units_in_a_second() {
        let mut partitions = Partitions::default();
        let most = Limits { writes: 2, reads: 3 };
        let mut full = |key: &str, units, ms| {
            partitions.is_full(&[(key.to_owned(), units)], most, Timestamp::from_millis(ms))
        };
        assert!(!full("a", Units::Write(1), 1_000));
        assert!(!full("a", Units::Write(1), 1_500));
        assert!(full("a", Units::Write(1), 1_999));
        assert!(!full("a", Units::Read(3), 1_999), "reads are counted apart");
        assert!(full("a", Units::Read(1), 1_999));
        assert!(!full("b", Units::Write(9), 1_999), "one call is always taken");
        assert!(!full("a", Units::Write(2), 2_000), "the next second");
        assert_eq!((partitions.busiest(), partitions.refused()), (Some(("b", 9)), 2));
    }
}

//! What became of numbered events: which were accepted, which arrived, how often and how late.
//!
//! Pure: times are given, nothing is asked of a clock.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

const GAPS_MAX: usize = 20;

/// The numbered events of one run.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    accepted: BTreeMap<u64, Instant>,
    arrived: BTreeMap<u64, Arrived>,
    refusals: BTreeMap<String, u64>,
    longest_refusal: Duration,
    last_arrival: Option<Instant>,
    longest_silence: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Arrived {
    first: Instant,
    times: u64,
}

impl Probe {
    /// Event `number`, whose request was begun at `begun_at`, was accepted, `after` this time of refusals.
    pub fn accept(&mut self, number: u64, begun_at: Instant, after: Duration) {
        self.accepted.insert(number, begun_at);
        self.longest_refusal = self.longest_refusal.max(after);
    }

    /// A publish was not accepted, for this reason.
    pub fn refuse(&mut self, reason: String) {
        *self.refusals.entry(reason).or_default() += 1;
    }

    /// Event `number` arrived.
    pub fn arrive(&mut self, number: u64, at: Instant) {
        let arrived = self.arrived.entry(number).or_insert(Arrived { first: at, times: 0 });
        arrived.times += 1;
        if let Some(last) = self.last_arrival {
            self.longest_silence = self.longest_silence.max(at.saturating_duration_since(last));
        }
        self.last_arrival = Some(at);
    }

    /// Events that were accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.len() as u64
    }

    /// Events that arrived at least once. One may arrive although its publish seemed to fail.
    pub fn arrived(&self) -> u64 {
        self.arrived.len() as u64
    }

    /// Events that were accepted and have not arrived.
    pub fn missing(&self) -> u64 {
        self.accepted.keys().filter(|number| !self.arrived.contains_key(number)).count() as u64
    }

    /// Arrivals beyond the first.
    pub fn duplicates(&self) -> u64 {
        self.arrived.values().map(|arrived| arrived.times - 1).sum()
    }

    /// The missing events as ranges, first and last number.
    pub fn gaps(&self) -> Vec<(u64, u64)> {
        let mut gaps: Vec<(u64, u64)> = Vec::new();
        for number in self.accepted.keys().filter(|number| !self.arrived.contains_key(number)) {
            match gaps.last_mut() {
                Some((_, last)) if *last + 1 == *number => *last = *number,
                _ => gaps.push((*number, *number)),
            }
        }
        gaps
    }

    /// Times from the beginning of the publish to the first arrival, in order.
    fn latencies(&self) -> Vec<Duration> {
        let mut all: Vec<_> = self
            .accepted
            .iter()
            .filter_map(|(number, begun_at)| {
                Some(self.arrived.get(number)?.first.saturating_duration_since(*begun_at))
            })
            .collect();
        all.sort_unstable();
        all
    }

    /// The report as a document; times are milliseconds.
    pub fn document(&self) -> Value {
        let latencies = self.latencies();
        let percentile = |share: f64| {
            let index = (latencies.len().saturating_sub(1) as f64 * share).round() as usize;
            latencies.get(index).map(milliseconds)
        };
        let gaps: Vec<_> = self.gaps().into_iter().take(GAPS_MAX).collect();
        json!({
            "accepted": self.accepted(),
            "arrived": self.arrived(),
            "missing": self.missing(),
            "gaps": gaps,
            "duplicates": self.duplicates(),
            "refusedPublishes": self.refusals,
            "longestRefusalMs": milliseconds(&self.longest_refusal),
            "longestSilenceMs": milliseconds(&self.longest_silence),
            "latencyMs": {"p50": percentile(0.5), "p99": percentile(0.99), "max": percentile(1.0)},
        })
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let document = self.document();
        let latency = |at: &str| match document["latencyMs"][at].as_u64() {
            Some(ms) => format!("{ms} ms"),
            None => "-".to_owned(),
        };
        let refusals: Vec<_> =
            self.refusals.iter().map(|(reason, count)| format!("{count} x {reason}")).collect();
        let mut lines = vec![
            format!(
                "{} accepted, {} missing, {} duplicates",
                self.accepted(),
                self.missing(),
                self.duplicates()
            ),
            format!(
                "publish to arrival: p50 {}, p99 {}, longest {}",
                latency("p50"),
                latency("p99"),
                latency("max")
            ),
            format!("longest time without an arrival: {} ms", milliseconds(&self.longest_silence)),
        ];
        if !refusals.is_empty() {
            lines.push(format!(
                "publishes not accepted at once, and repeated: {}; the longest for {} ms",
                refusals.join(", "),
                milliseconds(&self.longest_refusal)
            ));
        }
        let gaps = self.gaps();
        for (first, last) in gaps.iter().take(GAPS_MAX) {
            lines.push(match first == last {
                true => format!("missing: {first}"),
                false => format!("missing: {first} to {last}"),
            });
        }
        if gaps.len() > GAPS_MAX {
            lines.push(format!("missing: {} more gaps", gaps.len() - GAPS_MAX));
        }
        lines.join("\n")
    }
}

fn milliseconds(time: &Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(accepted: &[u64], arrived: &[u64]) -> Probe {
        let begun = Instant::now();
        let mut probe = Probe::default();
        for number in accepted {
            probe.accept(*number, begun, Duration::ZERO);
        }
        for (place, number) in arrived.iter().enumerate() {
            probe.arrive(*number, begun + Duration::from_millis(place as u64 * 10));
        }
        probe
    }

    #[test]
    fn gaps_and_duplicates_table() {
        type Row = (&'static [u64], &'static [u64], &'static [(u64, u64)], u64);
        let table: [Row; 6] = [
            (&[], &[], &[], 0),
            (&[1, 2, 3], &[3, 1, 2], &[], 0),
            (&[1, 2, 3], &[1, 1, 3, 1], &[(2, 2)], 2),
            (&[1, 2, 3, 4, 5, 6], &[3], &[(1, 2), (4, 6)], 0),
            // Accepted, but the answer was lost: it arrives and nobody misses it.
            (&[1], &[1, 2], &[], 0),
            (&[1, 3], &[], &[(1, 1), (3, 3)], 0),
        ];
        for (accepted, arrived, gaps, duplicates) in table {
            let probe = probe(accepted, arrived);
            assert_eq!(probe.gaps(), gaps, "{accepted:?} {arrived:?}");
            assert_eq!(probe.duplicates(), duplicates, "{accepted:?} {arrived:?}");
            let missing: u64 = gaps.iter().map(|(first, last)| last - first + 1).sum();
            assert_eq!(probe.missing(), missing, "{accepted:?} {arrived:?}");
        }
    }

    #[test]
    fn the_report_says_how_late_and_how_long_nothing_came() {
        let mut probe = probe(&[0, 1, 2], &[0, 1, 2]);
        probe.refuse("HTTP 503".to_owned());
        let document = probe.document();
        assert_eq!(document["latencyMs"], json!({"p50": 10, "p99": 20, "max": 20}));
        assert_eq!(document["longestSilenceMs"], 10);
        let text = probe.text();
        assert!(text.starts_with("3 accepted, 0 missing, 0 duplicates\n"), "{text}");
        assert!(text.contains("1 x HTTP 503"), "{text}");
    }
}

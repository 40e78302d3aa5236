//! How latencies of delivered events are shown: by percentiles, as far as the ledger's buckets tell.

use gridpost_core::ledger::{Latencies, Latency};
use serde::Serialize;

const PERCENTS: [u32; 3] = [50, 95, 99];

/// The head above [`cells`].
pub const HEAD: [&str; 3] = ["P50", "P95", "P99"];

/// The percentiles for a table, `-` where nothing was delivered.
pub fn cells(latencies: &Latencies) -> [String; 3] {
    PERCENTS.map(|percent| match latencies.percentile(percent) {
        Some(latency) => latency.to_string(),
        None => "-".to_owned(),
    })
}

/// The percentiles in a line.
pub fn told(latencies: &Latencies) -> String {
    let events = crate::output::count(latencies.events(), "event");
    let cells = PERCENTS.iter().zip(cells(latencies));
    let percentiles: Vec<_> = cells.map(|(percent, cell)| format!("p{percent} {cell}")).collect();
    format!("{} (of {events} delivered)", percentiles.join(", "))
}

/// Latencies as `--json` prints them. A percentile above the highest bound is null, as without events.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LatencyDocument {
    pub events: u64,
    pub buckets: Latencies,
    pub p50_at_most_ms: Option<u64>,
    pub p95_at_most_ms: Option<u64>,
    pub p99_at_most_ms: Option<u64>,
}

impl From<&Latencies> for LatencyDocument {
    fn from(latencies: &Latencies) -> Self {
        let bounds = PERCENTS.map(|percent| match latencies.percentile(percent) {
            Some(Latency::AtMost(millis)) => Some(millis),
            Some(Latency::Above(_)) | None => None,
        });
        let [p50_at_most_ms, p95_at_most_ms, p99_at_most_ms] = bounds;
        let (events, buckets) = (latencies.events(), latencies.clone());
        Self { events, buckets, p50_at_most_ms, p95_at_most_ms, p99_at_most_ms }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn percentiles_are_shown_as_bounds() {
        let mut latencies = Latencies::default();
        assert_eq!(cells(&latencies), ["-", "-", "-"].map(str::to_owned));
        latencies.add(40, 94);
        latencies.add(2_000, 4);
        latencies.add(4_000_000, 2);
        let text = "p50 <= 50 ms, p95 <= 2.5 s, p99 > 1 h (of 100 events delivered)";
        assert_eq!(told(&latencies), text);
        let want = json!({
            "events": 100, "buckets": {"50": 94, "2500": 4, "more": 2},
            "p50AtMostMs": 50, "p95AtMostMs": 2_500, "p99AtMostMs": null,
        });
        assert_eq!(json!(LatencyDocument::from(&latencies)), want);
    }
}

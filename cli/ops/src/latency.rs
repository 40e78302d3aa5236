//! How latencies of delivered events are shown: by percentiles, as far as the ledger's buckets tell.

use gridpost_api::journal::latency::PERCENTS;
use gridpost_core::ledger::Latencies;

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

#[cfg(test)]
mod tests {
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
    }
}

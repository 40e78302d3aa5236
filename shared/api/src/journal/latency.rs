//! Latencies of delivered events as documents: percentiles, as far as the ledger's buckets tell.

use gridpost_core::ledger::{Latencies, Latency};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema::stand_in;

/// The percentiles of a [`LatencyDocument`].
pub const PERCENTS: [u32; 3] = [50, 95, 99];

/// How long after their publish events were delivered. A percentile above the highest bound is null, as
/// without events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LatencyDocument {
    pub events: u64,
    /// Delivered events by the inclusive upper bound of their latency in milliseconds; `more` is above all.
    #[schema(value_type = std::collections::BTreeMap<String, u64>)]
    pub buckets: Latencies,
    #[schema(value_type = stand_in::Bound, required = true)]
    pub p50_at_most_ms: Option<u64>,
    #[schema(value_type = stand_in::Bound, required = true)]
    pub p95_at_most_ms: Option<u64>,
    #[schema(value_type = stand_in::Bound, required = true)]
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

//! What a million delivered events cost on AWS: counted calls and measured CPU times the price list.

use std::collections::BTreeMap;

use super::figures::Spread;

/// A price of us-east-1 without free tiers and discounts, in US dollars.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    /// What is paid for: the beginning of a call's kind, or another unit's name.
    pub what: &'static str,
    /// For a million of them.
    pub dollars: f64,
    /// When it was looked up, and where.
    pub source: &'static str,
}

/// The price list.
pub const PRICES: [Price; 10] = [
    // 0.40 for a request of up to 64 KiB, and 0.10 more for those of fair queues.
    Price { what: "sqs:", dollars: 0.50, source: "2026-06, Amazon SQS pricing" },
    Price { what: "dynamodb:GetItem", dollars: 0.125, source: "2026-06, DynamoDB on-demand" },
    Price { what: "dynamodb:Query", dollars: 0.125, source: "2026-06, DynamoDB on-demand" },
    Price { what: "dynamodb:", dollars: 0.625, source: "2026-06, DynamoDB on-demand" },
    Price { what: "s3:PutObject", dollars: 5.0, source: "2026-06, Amazon S3 pricing" },
    Price { what: "s3:GetObject", dollars: 0.4, source: "2026-06, Amazon S3 pricing" },
    Price { what: "invocation", dollars: 0.20, source: "2026-06, AWS Lambda pricing" },
    Price { what: "GB-s", dollars: 13.3334, source: "2026-06, AWS Lambda pricing, arm64" },
    Price { what: "HTTP API request", dollars: 1.0, source: "2026-06, Amazon API Gateway pricing" },
    Price { what: "function URL request", dollars: 0.0, source: "2026-06, AWS Lambda pricing" },
];

/// Memory in GB with which Lambda gives a function one whole processor. Source: AWS Lambda developer
/// guide, "Configure Lambda function memory".
const PROCESSOR_GB: f64 = 1_769.0 / 1_024.0;

/// For how long functions wait while they use no CPU, and how large they are meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// Of ingest for SQS, in milliseconds for each invocation.
    pub ingest_ms: f64,
    /// Of dispatch for the slowest endpoint of a batch, in milliseconds for each invocation.
    pub dispatch_ms: f64,
    /// The functions' memory in GB.
    pub memory_gb: f64,
}

impl Waits {
    /// Services and endpoints that answer at once.
    pub const NONE: Self = Self { ingest_ms: 0.0, dispatch_ms: 0.0, memory_gb: 0.5 };

    /// SQS as it answers within a region, and endpoints across the internet, in functions of 512 MB.
    pub const USUAL: Self = Self { ingest_ms: 10.0, dispatch_ms: 100.0, memory_gb: 0.5 };
}

/// The price of a million of what is named so.
pub fn price(what: &str) -> f64 {
    let found = PRICES.iter().find(|price| what.starts_with(price.what));
    found.map_or(0.0, |price| price.dollars)
}

/// Dollars for a million delivered events of a mix, by its figures; `front` is the price's name for a
/// publish's way in. `None` where figures are missing.
pub fn per_million(figures: &BTreeMap<String, Spread>, front: &str, waits: Waits) -> Option<f64> {
    let of = |name: &str| figures.get(name).map(|spread| spread.median);
    let calls = figures.iter().filter_map(|(name, spread)| {
        Some(price(name.strip_prefix("calls/event ")?) * spread.median)
    });
    let ingest = of("ingest invocations/event")?;
    let dispatch = of("calls/event sqs:ReceiveMessage")?;
    let cpu_ms = of("ingest CPU ms/event")? + of("dispatch CPU ms/event")?;
    let waiting_ms = ingest * waits.ingest_ms + dispatch * waits.dispatch_ms;
    let gb_s = (cpu_ms * PROCESSOR_GB + waiting_ms * waits.memory_gb) / 1_000.0;
    let invocations = (ingest + dispatch) * price("invocation");
    Some(calls.sum::<f64>() + invocations + ingest * price(front) + gb_s * price("GB-s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_costs_its_calls_invocations_and_time() {
        let spread = |median| Spread { median, min: median, max: median };
        let figures = [
            ("calls/event sqs:SendMessageBatch", 1.0),
            ("calls/event sqs:ReceiveMessage", 0.1),
            ("calls/event sqs:DeleteMessageBatch", 0.1),
            ("calls/event dynamodb:GetItem", 0.01),
            ("ingest invocations/event", 1.0),
            ("ingest CPU ms/event", 0.1),
            ("dispatch CPU ms/event", 0.1),
        ];
        let mut figures: BTreeMap<_, _> =
            figures.into_iter().map(|(name, value)| (name.to_owned(), spread(value))).collect();
        let rounded = |figures: &_, front: &str, waits| {
            per_million(figures, front, waits).map(|dollars| (dollars * 1_000.0).round())
        };
        // 1.2 requests, 0.01 reads, 1.1 invocations, 0.0003455 GB-s.
        let url = "function URL request";
        assert_eq!(rounded(&figures, url, Waits::NONE), Some(826.0));
        assert_eq!(rounded(&figures, "HTTP API request", Waits::NONE), Some(1_826.0));
        // And 20 ms in half a GB.
        assert_eq!(rounded(&figures, url, Waits::USUAL), Some(959.0));
        figures.remove("ingest invocations/event");
        assert_eq!(rounded(&figures, url, Waits::NONE), None);
    }
}

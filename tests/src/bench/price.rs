//! What a million delivered events cost on AWS: counted calls and measured CPU, multiplied by the
//! price list.

use std::collections::BTreeMap;

use gridpost_ops::cost::Prices;

use super::figures::Spread;

/// Memory in GB with which Lambda gives a function one whole processor. Source: AWS Lambda developer
/// guide, "Configure Lambda function memory".
const PROCESSOR_GB: f64 = 1_769.0 / 1_024.0;

/// How long functions wait without using CPU, and how large they are meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// Ingest's wait for SQS, in milliseconds per invocation.
    pub ingest_ms: f64,
    /// Dispatch's wait for the slowest endpoint of a batch, in milliseconds per invocation.
    pub dispatch_ms: f64,
    /// The functions' memory in GB.
    pub memory_gb: f64,
}

impl Waits {
    /// Services and endpoints that answer at once.
    pub const NONE: Self = Self { ingest_ms: 0.0, dispatch_ms: 0.0, memory_gb: 0.5 };

    /// Typical answers of SQS within a region and of endpoints on the internet, in functions of 512
    /// MB.
    pub const USUAL: Self = Self { ingest_ms: 10.0, dispatch_ms: 100.0, memory_gb: 0.5 };
}

/// Dollars for a million calls of that kind, e.g. `sqs:SendMessageBatch`; no call takes more than
/// one unit. S3 requests are left out.
fn price(prices: &Prices, call: &str) -> f64 {
    let (service, name) = call.split_once(':').unwrap_or((call, ""));
    let all = match (service, name) {
        ("sqs", _) => vec![&prices.sqs_request, &prices.sqs_fair_request],
        ("dynamodb", "GetItem" | "Query") => vec![&prices.dynamo_db_read],
        ("dynamodb", _) => vec![&prices.dynamo_db_write],
        _ => Vec::new(),
    };
    all.into_iter().map(|price| price.dollars_per_million).sum()
}

/// Dollars for a million delivered events of a mix, from its figures, with ingest at a function
/// URL, which has no fee. `None` if figures are missing.
pub fn per_million(figures: &BTreeMap<String, Spread>, waits: Waits) -> Option<f64> {
    let prices = Prices::current();
    let of = |name: &str| figures.get(name).map(|spread| spread.median);
    let calls = figures.iter().filter_map(|(name, spread)| {
        Some(price(&prices, name.strip_prefix("calls/event ")?) * spread.median)
    });
    let ingest = of("ingest invocations/event")?;
    let dispatch = of("calls/event sqs:ReceiveMessage")?;
    let cpu_ms = of("ingest CPU ms/event")? + of("dispatch CPU ms/event")?;
    let waiting_ms = ingest * waits.ingest_ms + dispatch * waits.dispatch_ms;
    let gb_s = (cpu_ms * PROCESSOR_GB + waiting_ms * waits.memory_gb) / 1_000.0;
    let invocations = (ingest + dispatch) * prices.lambda_request.dollars_per_million;
    Some(calls.sum::<f64>() + invocations + gb_s * prices.lambda_gb_second.dollars_per_million)
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
        let rounded = |figures: &_, waits| {
            per_million(figures, waits).map(|dollars| (dollars * 1_000.0).round())
        };
        // 1.2 requests, 0.01 reads, 1.1 invocations, 0.0003455 GB-s.
        assert_eq!(rounded(&figures, Waits::NONE), Some(826.0));
        // And 20 ms in half a GB.
        assert_eq!(rounded(&figures, Waits::USUAL), Some(959.0));
        figures.remove("ingest invocations/event");
        assert_eq!(rounded(&figures, Waits::NONE), None);
    }
}

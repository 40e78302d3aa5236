//! What a million delivered events cost on AWS: counted calls and measured CPU, multiplied by the
//! price list.

use std::collections::BTreeMap;

use gridpost_ops::cost::Prices;

use super::figures::Spread;

/// Memory in GB with which Lambda gives a function one whole processor. Source: AWS Lambda developer
/// guide, "Configure Lambda function memory".
const PROCESSOR_GB: f64 = 1_769.0 / 1_024.0;

/// Memory in GB of the functions while they wait.
const WAITING_GB: f64 = 0.5;

/// Dollars for a million calls of that kind, e.g. `sqs:SendMessageBatch`; no call takes more than
/// one unit. S3 requests are left out.
fn price(prices: &Prices, call: &str) -> f64 {
    let (request, fair) = (&prices.sqs_request, &prices.sqs_fair_request);
    match call.split_once(':') {
        Some(("sqs", _)) => request.dollars_per_million + fair.dollars_per_million,
        Some(("dynamodb", "GetItem" | "Query")) => prices.dynamo_db_read.dollars_per_million,
        Some(("dynamodb", _)) => prices.dynamo_db_write.dollars_per_million,
        _ => 0.0,
    }
}

/// Dollars for a million delivered events of a mix, from its figures, with ingest at a function
/// URL, which has no fee. An invocation of ingest and one of dispatch wait for so many milliseconds
/// without using CPU. `None` if figures are missing.
pub fn per_million(
    figures: &BTreeMap<String, Spread>,
    [ingest_waits_ms, dispatch_waits_ms]: [f64; 2],
) -> Option<f64> {
    let prices = Prices::current();
    let of = |name: &str| figures.get(name).map(|spread| spread.median);
    let calls = figures.iter().filter_map(|(name, spread)| {
        Some(price(&prices, name.strip_prefix("calls/event ")?) * spread.median)
    });
    let ingest = of("ingest invocations/event")?;
    let dispatch = of("calls/event sqs:ReceiveMessage")?;
    let cpu_ms = of("ingest CPU ms/event")? + of("dispatch CPU ms/event")?;
    let waiting_ms = ingest * ingest_waits_ms + dispatch * dispatch_waits_ms;
    let gb_s = (cpu_ms * PROCESSOR_GB + waiting_ms * WAITING_GB) / 1_000.0;
    let invocations = (ingest + dispatch) * prices.lambda_request.dollars_per_million;
    Some(calls.sum::<f64>() + invocations + gb_s * prices.lambda_gb_second.dollars_per_million)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_costs_its_calls_invocations_and_time() {
        let figures = [
            ("calls/event sqs:SendMessageBatch", 1.0),
            ("calls/event sqs:ReceiveMessage", 0.1),
            ("calls/event sqs:DeleteMessageBatch", 0.1),
            ("calls/event dynamodb:GetItem", 0.01),
            ("ingest invocations/event", 1.0),
            ("ingest CPU ms/event", 0.1),
            ("dispatch CPU ms/event", 0.1),
        ];
        let spread = |median| Spread { median, min: median, max: median };
        let mut figures: BTreeMap<_, _> =
            figures.map(|(name, value)| (name.to_owned(), spread(value))).into();
        let rounded = |figures: &_, waits| {
            per_million(figures, waits).map(|dollars| (dollars * 1_000.0).round())
        };
        // 1.2 requests, 0.01 reads, 1.1 invocations, 0.0003455 GB-s.
        assert_eq!(rounded(&figures, [0.0, 0.0]), Some(826.0));
        // And 20 ms in half a GB.
        assert_eq!(rounded(&figures, [10.0, 100.0]), Some(959.0));
        figures.remove("ingest invocations/event");
        assert_eq!(rounded(&figures, [0.0, 0.0]), None);
    }
}

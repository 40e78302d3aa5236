//! Lines of metrics, checked against CloudWatch's embedded metric format and the table of metrics.
//!
//! Source: Amazon CloudWatch user guide, "Embedded metric format specification".

use gridpost_core::metric;
use gridpost_runtime::config::default::NAMESPACE;
use serde_json::{Value, json};

/// Most characters of a dimension's value. Source: as above.
const VALUE_CHARS_MAX: usize = 1_024;

/// Checks a line that may be a metric: names, units, dimensions and their values must match the
/// table. Returns the metric's name, or `None` for another kind of line.
pub fn check(line: &str) -> Result<Option<String>, String> {
    let Ok(document) = serde_json::from_str::<Value>(line) else { return Ok(None) };
    let Some(metadata) = document.get("_aws") else { return Ok(None) };
    let wrong = |what: &str| Err(format!("{what} in the metric line {line}"));
    if metadata["Timestamp"].as_i64().is_none() {
        return wrong("no time");
    }
    let [directive] = metadata["CloudWatchMetrics"].as_array().map_or(&[][..], Vec::as_slice)
    else {
        return wrong("not one directive");
    };
    let [one] = directive["Metrics"].as_array().map_or(&[][..], Vec::as_slice) else {
        return wrong("not one metric");
    };
    let name = one["Name"].as_str().unwrap_or_default();
    let Some((_, dimensions)) = metric::ALL.iter().find(|(known, _)| *known == name) else {
        return wrong("a metric that is not in the table");
    };
    let is_time = name.ends_with("InMs");
    if directive["Namespace"] != NAMESPACE
        || one["Unit"] != (if is_time { "Milliseconds" } else { "Count" })
    {
        return wrong("another namespace or unit");
    }
    let unnamed: Vec<_> = dimensions.iter().filter(|name| !metric::NAMES.contains(name)).collect();
    let sets = |own: Value| if own == json!([]) { json!([[]]) } else { json!([own, []]) };
    let written = &directive["Dimensions"];
    if *written != sets(json!(unnamed)) && *written != sets(json!(dimensions)) {
        return wrong("other dimensions");
    }
    let fits = |value: &str| (1..=VALUE_CHARS_MAX).contains(&value.chars().count());
    if !dimensions.iter().all(|name| document[*name].as_str().is_some_and(fits)) {
        return wrong("a dimension without a value");
    }
    let sound = match &document[name] {
        Value::Array(values) => {
            is_time && (1..=100).contains(&values.len()) && values.iter().all(Value::is_u64)
        }
        value => !is_time && value.is_u64(),
    };
    if sound { Ok(Some(name.to_owned())) } else { wrong("no value") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gridpost_core::time::Timestamp;
    use gridpost_ports::Meter;
    use gridpost_runtime::telemetry::EmbeddedMeter;

    use super::*;

    #[test]
    fn every_metric_is_written_as_the_table_has_it() {
        for (name, dimensions) in metric::ALL {
            for meter in [EmbeddedMeter::default(), EmbeddedMeter::default().by_name()] {
                let values: Vec<_> = dimensions.iter().map(|dimension| (*dimension, "v")).collect();
                if name.ends_with("InMs") {
                    meter.measure(name, &values, Duration::from_millis(5));
                } else {
                    meter.count(name, &values, 1);
                }
                let line = meter.lines(Timestamp::from_millis(1));
                assert_eq!(check(line.trim()), Ok(Some(name.to_owned())));
            }
        }
    }

    #[test]
    fn what_is_not_in_the_table_is_found() {
        let written = |name: &'static str, dimensions: &[(&'static str, &str)]| {
            let meter = EmbeddedMeter::default();
            meter.count(name, dimensions, 1);
            meter.lines(Timestamp::from_millis(1)).trim().to_owned()
        };
        let good = written("ParkedCount", &[]);
        for line in [
            written("Other", &[]),
            written("PoisonCount", &[]),
            written("PoisonCount", &[("Queue", "")]),
            written("DeliveryLatencyInMs", &[("Topic", "t"), ("EventSubscriptionName", "s")]),
            good.replace("Count\"}", "Bytes\"}"),
        ] {
            assert!(check(&line).is_err(), "{line}");
        }
        assert_eq!(check("START RequestId: 1"), Ok(None));
        assert_eq!(check("{}"), Ok(None));
    }
}

//! Filters with as many values as an event subscription may have, over the events of [`super::payload`].

use serde::Deserialize;
use serde_json::{Value, json};

/// The values that an event subscription filters by: 25, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Values {
    /// By none.
    None,
    /// Four filters of different operators on four keys, the last of which decides.
    Mixed,
    /// One filter: a string that is one of 25.
    In,
    /// One filter: a string that contains one of 25.
    Contains,
    /// 25 filters of one value, of which 24 hold.
    Single,
}

impl Values {
    /// The advanced filters of an event subscription as they are stored: each must check its last
    /// value before it can decide. `number` makes values differ between event subscriptions.
    pub fn advanced(self, number: usize, wants: bool) -> Vec<Value> {
        let texts = |count: usize, last: &str| -> Vec<String> {
            let mut texts: Vec<_> =
                (1..count).map(|value| format!("{last}-{number}-{value}")).collect();
            texts.push(if wants { last.to_owned() } else { format!("no-{last}-{number}") });
            texts
        };
        match self {
            Self::None => Vec::new(),
            Self::Mixed => vec![
                filter("data.total", "NumberInRange", json!(ranges(number))),
                filter("data.region", "StringNotIn", json!(texts_that_miss(number))),
                filter("eventType", "StringNotEndsWith", json!(texts_that_miss(number))),
                filter("subject", "StringContains", json!(texts(10, "orders"))),
            ],
            Self::In => vec![filter("data.region", "StringIn", json!(texts(25, "eu-1")))],
            Self::Contains => vec![filter("subject", "StringContains", json!(texts(25, "orders")))],
            Self::Single => {
                let one = |value| filter("data.total", "NumberGreaterThan", json!(value));
                let mut filters: Vec<_> = (0..24).map(|value| one(format!("-{value}"))).collect();
                filters.push(filter("subject", "StringBeginsWith", json!(texts(1, "orders"))));
                filters
            }
        }
    }
}

fn filter(key: &str, operator: &str, values: Value) -> Value {
    json!({ "key": key, "operator": { "operatorType": operator, "values": values } })
}

/// Five ranges, of which the last one holds the total of every event.
fn ranges(number: usize) -> Vec<[String; 2]> {
    let mut ranges: Vec<_> = (0..4)
        .map(|value| 1_000 + number * 4 + value)
        .map(|from| [from.to_string(), format!("{from}.5")])
        .collect();
    ranges.push(["12".to_owned(), "13".to_owned()]);
    ranges
}

/// Five texts that no event has.
fn texts_that_miss(number: usize) -> Vec<String> {
    (0..5).map(|value| format!("none-{number}-{value}")).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gridpost_core::{
        event::event_grid, publish::matching::Matcher, subscription::filter::advanced::VALUES_MAX,
        time::Timestamp, topic::InputSchema,
    };

    use super::*;
    use crate::bench::{mix::Mix, payload};

    #[test]
    fn every_kind_has_all_the_values_there_may_be_and_only_those_who_want_get() {
        let body = payload::body(&Mix::default());
        let events = event_grid::parse(body.as_bytes(), "/topics/t").expect("an event");
        for values in [Values::Mixed, Values::In, Values::Contains, Values::Single] {
            let mix = Mix { values, subscriptions: 9, wanting: 2, ..Mix::default() };
            let stored = mix.endpoints().into_iter().map(|endpoint| {
                let stored = mix.subscription(&endpoint, "https://example.com/");
                Arc::new(stored.unwrap_or_else(|error| panic!("{values:?}: {error}")))
            });
            let stored: Vec<_> = stored.collect();
            for one in &stored {
                let advanced = one.filter.advanced.iter();
                let count: usize = advanced.map(|filter| filter.operator.values()).sum();
                assert_eq!(count, VALUES_MAX, "{values:?}");
            }
            let matcher = Matcher::new(InputSchema::EventGridSchema, None, &stored);
            let matched = matcher.match_events(&events, Timestamp::from_millis(1));
            assert_eq!(matched.matches.len(), 2, "{values:?}");
        }
    }
}

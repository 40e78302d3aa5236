//! Compiled filters against the naive ones, on any filters and any data.

use gridpost_api::subscription::read_filter;
use gridpost_core::{
    event::{ParsedEvent, event_grid},
    subscription::{Filter, filter::Filters},
    topic::InputSchema,
};
use gridpost_fuzz::naive_filter;
use proptest::prelude::*;
use serde_json::{Value, json};

fn wants(filter: &Filter, data: &Value) -> bool {
    published(data, |event| {
        let filters = Filters::compile(InputSchema::EventGridSchema, None, [filter]);
        let mut is_wanted = false;
        filters.ask(event, |_| is_wanted = true);
        assert_eq!(is_wanted, filters.refusals(0, filter, event).is_empty());
        is_wanted
    })
}

fn published<T>(data: &Value, ask: impl Fn(&ParsedEvent<'_>) -> T) -> T {
    let body = json!([{
        "id": "1", "eventType": "T", "subject": "s", "eventTime": "2026-01-02T03:04:05Z",
        "data": data,
    }]);
    let body = body.to_string();
    let events = event_grid::parse(body.as_bytes(), "/topics/t").expect("an event");
    ask(&events[0])
}

fn document(filters: &Value, arrays: bool) -> Value {
    json!({"advancedFilters": filters, "enableAdvancedFilteringOnArrays": arrays})
}

fn compiled(filters: &Value, arrays: bool) -> Filter {
    read_filter(&json!({ "filter": document(filters, arrays) })).expect("valid")
}

/// Few texts and few numbers, so that they often meet.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[aAbB]{0,4}", "[aßéÉΩωſsS\\u{130}i\u{0}]{0,3}", any::<String>()]
}

fn number() -> impl Strategy<Value = f64> {
    // Eighths, whose digits are read exactly.
    prop_oneof![4 => -4..5_i32, 1 => any::<i32>()].prop_map(|n| f64::from(n) / 8.0)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number().prop_map(Value::from),
        (-3..4_i32).prop_map(Value::from),
        text().prop_map(Value::from),
    ]
}

fn data() -> impl Strategy<Value = Value> {
    let names = || prop::sample::select(vec!["a", "b", "A", "é", "a b"]);
    scalar().prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names(), inner), 0..4).prop_map(Value::from_iter),
        ]
    })
}

fn filter() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec!["data", "data.a", "data.b", "data.a.b", "data.é.a"]);
    let numbers = prop::collection::vec(number().prop_map(Value::from), 1..4);
    let texts = prop::collection::vec(text().prop_map(Value::from), 1..4);
    let range = (number(), number()).prop_map(|(a, b)| json!([a.min(b), a.max(b)]));
    let of = |names: &[&'static str]| prop::sample::select(names.to_vec());
    let operator = prop_oneof![
        (of(&["NumberIn", "NumberNotIn"]), numbers)
            .prop_map(|(name, values)| json!({"operatorType": name, "values": values})),
        (
            of(&[
                "NumberLessThan",
                "NumberLessThanOrEquals",
                "NumberGreaterThan",
                "NumberGreaterThanOrEquals"
            ]),
            number()
        )
            .prop_map(|(name, value)| json!({"operatorType": name, "value": value})),
        (of(&["NumberInRange", "NumberNotInRange"]), prop::collection::vec(range, 1..4))
            .prop_map(|(name, values)| json!({"operatorType": name, "values": values})),
        any::<bool>().prop_map(|value| json!({"operatorType": "BoolEquals", "value": value})),
        (
            of(&[
                "StringIn",
                "StringNotIn",
                "StringBeginsWith",
                "StringNotBeginsWith",
                "StringEndsWith",
                "StringNotEndsWith",
                "StringContains",
                "StringNotContains"
            ]),
            texts
        )
            .prop_map(|(name, values)| json!({"operatorType": name, "values": values})),
        of(&["IsNullOrUndefined", "IsNotNull"]).prop_map(|name| json!({"operatorType": name})),
    ];
    (key, operator).prop_map(|(key, mut filter)| {
        filter["key"] = json!(key);
        filter
    })
}

fn one(operator: &str, member: &str, value: Value) -> Filter {
    let mut filter = json!({"operatorType": operator, "key": "data"});
    filter[member] = value;
    compiled(&json!([filter]), true)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn compiled_filters_are_the_naive_ones(
        filters in prop::collection::vec(filter(), 1..4),
        data in data(),
        arrays in any::<bool>(),
    ) {
        let filters = Value::from(filters);
        let naive = |event: &ParsedEvent<'_>| {
            let document = document(&filters, arrays);
            naive_filter::refused_by(&document, InputSchema::EventGridSchema, event)
        };
        let refused = published(&data, naive).expect("plain values");
        prop_assert_eq!(wants(&compiled(&filters, arrays), &data), refused.is_empty());
    }

    #[test]
    fn in_and_not_in_are_complements_for_their_type(
        wanted in prop::collection::vec(text(), 1..4),
        numbers in prop::collection::vec(number(), 1..4),
        found in prop::collection::vec(text(), 1..4),
        number in number(),
    ) {
        let found = json!(found);
        let is_in = wants(&one("StringIn", "values", json!(wanted)), &found);
        let is_not_in = wants(&one("StringNotIn", "values", json!(wanted)), &found);
        prop_assert!(is_in != is_not_in);
        let number = json!(number);
        let is_in = wants(&one("NumberIn", "values", json!(numbers)), &number);
        let is_not_in = wants(&one("NumberNotIn", "values", json!(numbers)), &number);
        prop_assert!(is_in != is_not_in);
    }

    #[test]
    fn a_range_is_two_comparisons(from in number(), to in number(), found in number()) {
        let (from, to) = (from.min(to), from.max(to));
        let found = json!(found);
        let in_range = wants(&one("NumberInRange", "values", json!([[from, to]])), &found);
        let above = wants(&one("NumberGreaterThanOrEquals", "value", json!(from)), &found);
        let below = wants(&one("NumberLessThanOrEquals", "value", json!(to)), &found);
        prop_assert_eq!(in_range, above && below);
        let under = wants(&one("NumberLessThan", "value", json!(from)), &found);
        prop_assert_eq!(above, !under);
    }
}

use serde_json::json;

use super::{
    advanced::{Number, Operator},
    *,
};
use crate::{
    event::{event_grid, lookup::WALKS},
    topic::InputSchema,
};

/// Filters walk an event's text once or not at all.
#[test]
fn filters_cost_one_walk_over_an_event_however_many_there_are() {
    let types = |name: &str| Filter {
        included_event_types: Some(vec![name.to_owned()]),
        subject_begins_with: "s".to_owned(),
        ..Filter::default()
    };
    let of_data = |number: i32| {
        let path = format!("data.n{}", number % 20);
        let operator = Operator::NumberLessThan(Number::new(number.into()).expect("a number"));
        Filter { advanced: vec![AdvancedFilter { key: path, operator }], ..Filter::default() }
    };
    let also = |filter: Filter, name: &str| Filter {
        included_event_types: Some(vec![name.to_owned()]),
        ..filter
    };
    let table: [(&str, Vec<Filter>, usize); 5] = [
        ("no filters", vec![], 0),
        ("types and subjects", vec![types("T"), types("U"), Filter::default()], 0),
        ("500 of values", (0..500).map(of_data).collect(), 1),
        ("one of values", vec![types("T"), of_data(1), Filter::default()], 1),
        ("values of another type", vec![types("T"), also(of_data(1), "U")], 0),
    ];
    let body = json!([{"id": "1", "eventType": "T", "subject": "s",
        "eventTime": "2026-01-02T03:04:05Z", "data": {"n1": 3}}])
    .to_string();
    let events = event_grid::parse(body.as_bytes(), "/topics/t").expect("events");
    for (row, all, want) in table {
        let filters = Filters::compile(InputSchema::EventGridSchema, None, &all);
        let before = WALKS.get();
        filters.ask(&events[0], |_| {});
        assert_eq!(WALKS.get() - before, want, "{row}");
    }
}

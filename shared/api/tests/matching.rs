//! Filters, read from their documents, against events.

use gridpost_api::subscription::read_filter;
use gridpost_core::subscription::filter::{Filter, Filters, compiled};
use gridpost_core::{
    event::{
        ParsedEvent, cloud_events,
        custom::{self, Stamps},
        event_grid,
        mapping::InputSchemaMapping,
    },
    time::Timestamp,
    topic::InputSchema,
};
use serde_json::{Value, json};

/// An event with those data; `None` leaves them out.
fn event_grid(event_type: &str, subject: &str, data: Option<&Value>) -> String {
    let mut event = json!({
        "id": "1", "eventType": event_type, "subject": subject, "eventTime": "2026-01-02T03:04:05Z",
    });
    if let Some(data) = data {
        event["data"] = data.clone();
    }
    Value::from(vec![event]).to_string()
}

fn wants(filter: &Filter, schema: InputSchema, events: &[ParsedEvent<'_>]) -> bool {
    let filters = Filters::compile(schema, None, [filter]);
    let mut is_wanted = false;
    filters.ask(&events[0], |_| is_wanted = true);
    let refusals = filters.refusals(0, filter, &events[0]);
    assert_eq!(is_wanted, refusals.is_empty(), "{refusals:?}");
    is_wanted
}

fn matches(filter: &Filter, event_type: &str, subject: &str, data: Option<&Value>) -> bool {
    let body = event_grid(event_type, subject, data);
    let events = event_grid::parse(body.as_bytes(), "/topics/t").expect("events");
    wants(filter, InputSchema::EventGridSchema, &events)
}

fn advanced(filters: Value, arrays: bool) -> Filter {
    let properties =
        json!({"filter": {"advancedFilters": filters, "enableAdvancedFilteringOnArrays": arrays}});
    read_filter(&properties).expect("valid")
}

#[test]
fn filter_table() {
    let types = |types: &[&str]| Filter {
        included_event_types: Some(types.iter().map(|name| (*name).to_owned()).collect()),
        ..Filter::default()
    };
    let subject = |begins: &str, ends: &str, is_subject_case_sensitive| Filter {
        subject_begins_with: begins.to_owned(),
        subject_ends_with: ends.to_owned(),
        is_subject_case_sensitive,
        ..Filter::default()
    };
    let table = [
        ("no filter wants all", Filter::default(), "T", "s", true),
        ("no filter wants what has no subject", Filter::default(), "T", "", true),
        ("a type that is included", types(&["A", "T"]), "T", "s", true),
        ("a type that is not", types(&["A"]), "T", "s", false),
        ("types are exact in case", types(&["t"]), "T", "s", false),
        ("types are no prefixes", types(&["T"]), "T.x", "s", false),
        ("an empty list wants nothing", types(&[]), "T", "s", false),
        ("begins", subject("/blobs/", "", false), "T", "/blobs/a", true),
        ("begins elsewhere", subject("blobs", "", false), "T", "/blobs/a", false),
        ("case does not matter", subject("/BLOBS", ".JPG", false), "T", "/blobs/a.jpg", true),
        ("nor beyond ASCII", subject("/éß", "Ω", false), "T", "/Éß/ω", true),
        ("case matters when told", subject("/BLOBS", "", true), "T", "/blobs/a", false),
        ("same case when told", subject("/blobs", "a", true), "T", "/blobs/a", true),
        ("end matters in case when told", subject("", "A", true), "T", "/blobs/a", false),
        ("ends", subject("", ".jpg", false), "T", "a.jpg", true),
        ("ends otherwise", subject("", ".jpg", false), "T", "a.jpg/", false),
        ("longer than the subject", subject("abc", "", false), "T", "ab", false),
        ("both parts may overlap", subject("ab", "bc", false), "T", "abc", true),
        ("no wildcards", subject("*", "", false), "T", "abc", false),
        ("no subject, one is asked for", subject("a", "", false), "T", "", false),
    ];
    for (row, filter, event_type, subject, want) in table {
        assert_eq!(matches(&filter, event_type, subject, None), want, "{row}");
    }
    let both = Filter { subject_begins_with: "s".to_owned(), ..types(&["T", "T"]) };
    assert!(matches(&both, "T", "s1", None) && !matches(&both, "T", "x", None));
    assert!(!matches(&both, "U", "s1", None));
}

/// Each row: the operator with its values, a value that it wants, one that it does not want, one of
/// another type; then whether it wants a key that is missing or null, and an array whose elements
/// are the first two values, not looked into and looked into.
#[test]
fn operator_table() {
    let value = |operator: &str, value: Value| (operator.to_owned(), "value", value);
    let values = |operator: &str, values: Value| (operator.to_owned(), "values", values);
    let table = [
        (values("NumberIn", json!([3, 5.5])), json!(5.5), json!(4), json!("3"), false, true),
        (values("NumberNotIn", json!([3, 5.5])), json!(4), json!(3.0), json!("4"), true, false),
        (value("NumberLessThan", json!(10)), json!(9.99), json!(10), json!("9"), false, true),
        (value("NumberLessThanOrEquals", json!(10)), json!(10), json!(11), json!("9"), false, true),
        (value("NumberGreaterThan", json!(-1)), json!(0), json!(-1), json!(true), false, true),
        (
            value("NumberGreaterThanOrEquals", json!(-1)),
            json!(-1),
            json!(-2),
            json!({}),
            false,
            true,
        ),
        (
            values("NumberInRange", json!([[1, 2], [5, 9]])),
            json!(9),
            json!(3),
            json!("1"),
            false,
            true,
        ),
        (
            values("NumberNotInRange", json!([[1, 2], [5, 9]])),
            json!(3),
            json!(1),
            json!("3"),
            true,
            false,
        ),
        (value("BoolEquals", json!(true)), json!(true), json!(false), json!("true"), false, true),
        (
            values("StringIn", json!(["red", "ÉTÉ"])),
            json!("été"),
            json!("re"),
            json!(1),
            false,
            true,
        ),
        (
            values("StringNotIn", json!(["red", "blue"])),
            json!("re"),
            json!("RED"),
            json!(1),
            true,
            false,
        ),
        (
            values("StringBeginsWith", json!(["re", "bl"])),
            json!("Blue"),
            json!("ared"),
            json!(1),
            false,
            true,
        ),
        (
            values("StringNotBeginsWith", json!(["re", "bl"])),
            json!("ared"),
            json!("RED"),
            json!(1),
            false,
            false,
        ),
        (
            values("StringEndsWith", json!(["ed", "ue"])),
            json!("BLUE"),
            json!("reds"),
            json!(1),
            false,
            true,
        ),
        (
            values("StringNotEndsWith", json!(["ed", "ue"])),
            json!("reds"),
            json!("Red"),
            json!(1),
            false,
            false,
        ),
        (
            values("StringContains", json!(["lu", "x"])),
            json!("bLUe"),
            json!("red"),
            json!(1),
            false,
            true,
        ),
        (
            values("StringNotContains", json!(["lu", "x"])),
            json!("red"),
            json!("X"),
            json!(1),
            false,
            false,
        ),
        (values("IsNotNull", Value::Null), json!(0), Value::Null, Value::Null, false, true),
    ];
    for ((operator, member, values), wanted, unwanted, other_type, missing, in_array) in table {
        let filter = |arrays| {
            let mut filter = json!({"operatorType": operator, "key": "data.k"});
            filter[member] = values.clone();
            advanced(json!([filter]), arrays)
        };
        let got = |arrays, data: Value| matches(&filter(arrays), "T", "s", Some(&data));
        for arrays in [false, true] {
            let got = |data| got(arrays, data);
            assert!(got(json!({"k": wanted})), "{operator}: {wanted}");
            assert!(!got(json!({"k": unwanted})), "{operator}: {unwanted}");
            assert!(!got(json!({"k": other_type})), "{operator}: {other_type}");
            assert_eq!(got(json!({"K": wanted})), missing, "{operator}: missing");
            assert_eq!(got(json!({"k": null})), missing, "{operator}: null");
            assert_eq!(got(json!("text")), missing, "{operator}: data without members");
        }
        let both = json!({"k": [wanted, unwanted]});
        let is_not_null = operator == "IsNotNull";
        assert_eq!(got(false, both.clone()), is_not_null, "{operator}: arrays off");
        assert_eq!(got(true, both), in_array, "{operator}: arrays on");
        assert!(got(true, json!({"k": [wanted]})), "{operator}: one element");
        assert!(!got(true, json!({"k": [[wanted]]})) || is_not_null, "{operator}: nested");
        assert!(!got(true, json!({"k": [{"k": wanted}]})) || is_not_null, "{operator}: objects");
        let negative = operator.contains("Not");
        assert_eq!(got(true, json!({"k": []})), negative, "{operator}: no elements");
        let mixed = json!({"k": [{}, null, wanted]});
        assert!(got(true, mixed), "{operator}: elements of other types are passed over");
    }
    let is_null = advanced(json!([{"operatorType": "isNullOrUndefined", "key": "data.k"}]), true);
    for (data, want) in [
        (json!({}), true),
        (json!({"k": null}), true),
        (json!({"k": 0}), false),
        (json!({"k": ""}), false),
        (json!({"k": []}), false),
        (json!({"k": {}}), false),
    ] {
        assert_eq!(matches(&is_null, "T", "s", Some(&data)), want, "{data}");
    }
    assert!(matches(&is_null, "T", "s", None));
}

#[test]
fn filters_are_all_needed_and_values_are_alternatives() {
    let filter = advanced(
        json!([
            {"operatorType": "StringIn", "key": "data.colour", "values": ["red", "blue"]},
            {"operatorType": "NumberGreaterThan", "key": "data.size", "value": 5},
            {"operatorType": "NumberLessThan", "key": "data.size", "value": 10},
        ]),
        false,
    );
    for (data, want) in [
        (json!({"colour": "blue", "size": 7}), true),
        (json!({"colour": "green", "size": 7}), false),
        (json!({"colour": "red", "size": 10}), false),
        (json!({"colour": "red"}), false),
    ] {
        assert_eq!(matches(&filter, "T", "s", Some(&data)), want, "{data}");
    }
}

#[test]
fn keys_of_event_grids_schema() {
    let data = json!({"a": {"b": "x"}, "n": "y"});
    for (key, text, want) in [
        ("id", "1", true),
        ("ID", "1", true),
        ("Subject", "S", true),
        ("eventtype", "t", true),
        ("EventTime", "2026-01-02T03:04:05Z", true),
        ("Topic", "/topics/t", true),
        ("dataVersion", "", true),
        ("metadataVersion", "1", true),
        ("data.a.b", "X", true),
        ("Data.a.b", "x", true),
        ("data.A.b", "x", false),
        ("data.a", "x", false),
        ("a.b", "x", false),
        ("data.n.length", "1", false),
    ] {
        let filter =
            advanced(json!([{"operatorType": "StringIn", "key": key, "values": [text]}]), false);
        assert_eq!(matches(&filter, "T", "s", Some(&data)), want, "{key}");
    }
}

/// What is delivered decides: a null is left out, and stamped.
#[test]
fn a_null_for_which_a_stamp_is_delivered_is_that_stamp() {
    let body = r#"[{"id":"1","eventType":"T","subject":"s","eventTime":"2026-01-02T03:04:05Z",
        "topic":null,"dataVersion":null,"metadataVersion":null,"data":{"topic":null}}]"#;
    let events = event_grid::parse(body.as_bytes(), "/topics/t").expect("events");
    let absent = |key| json!([{"operatorType": "IsNullOrUndefined", "key": key}]);
    let begins =
        |key, text| json!([{"operatorType": "StringBeginsWith", "key": key, "values": [text]}]);
    for (filter, want) in [
        (begins("topic", "/topics/"), true),
        (begins("metadataVersion", "1"), true),
        (absent("topic"), false),
        (absent("dataVersion"), false),
        (absent("data.topic"), true),
    ] {
        let got = wants(&advanced(filter.clone(), false), InputSchema::EventGridSchema, &events);
        assert_eq!(got, want, "{filter}");
    }
}

#[test]
fn keys_of_cloud_events() {
    let body = r#"{"specversion":"1.0","id":"1","source":"/s","type":"T","subject":null,
        "level":3,"flag":true,"region":"eu","data":{"n":3,"big":1e400,"s":"\ud800"}}"#;
    let events = cloud_events::parse(body.as_bytes()).expect("an event");
    let text = |text: &str| ("StringIn", "values", json!([text]));
    let number = |number: Value| ("NumberIn", "values", json!([number]));
    for (key, (operator, member, values), want) in [
        ("source", text("/S"), true),
        ("Type", text("t"), true),
        ("specversion", text("1.0"), true),
        ("region", text("EU"), true),
        ("level", text("3"), true),
        ("level", number(json!(3)), true),
        ("flag", text("true"), true),
        ("flag", ("BoolEquals", "value", json!(true)), true),
        ("data.n", text("3"), false),
        ("data.n", number(json!(3)), true),
        ("data.big", ("NumberGreaterThan", "value", json!(1e308)), true),
        ("data.big", ("NumberLessThan", "value", json!(1e308)), false),
        ("data.s", ("StringContains", "values", json!(["\u{fffd}"])), true),
        ("subject", ("IsNullOrUndefined", "values", Value::Null), true),
        ("nothere", ("IsNullOrUndefined", "values", Value::Null), true),
    ] {
        let mut filter = json!({"operatorType": operator, "key": key});
        filter[member] = values;
        let filter = advanced(json!([filter]), false);
        let got = wants(&filter, InputSchema::CloudEventSchemaV1_0, &events);
        assert_eq!(got, want, "{filter:?}");
    }
}

#[test]
fn refusals_name_the_part_and_what_was_found() {
    let mut filter = advanced(
        json!([
            {"operatorType": "StringIn", "key": "data.k", "values": ["a"]},
            {"operatorType": "IsNotNull", "key": "data.k"},
            {"operatorType": "IsNotNull", "key": "data.x"},
            {"operatorType": "StringIn", "key": "topic", "values": ["a"]},
        ]),
        false,
    );
    filter.included_event_types = Some(vec!["U".to_owned()]);
    filter.subject_begins_with = "x".to_owned();
    filter.subject_ends_with = "y".to_owned();
    let body = event_grid("T", "s", Some(&json!({"k": 1.50})));
    let events = event_grid::parse(body.as_bytes(), "/topics/t").expect("events");
    let filters = Filters::compile(InputSchema::EventGridSchema, None, [&filter]);
    let found = |index: usize, found: Option<&str>| compiled::Refusal::Advanced {
        index,
        filter: &filter.advanced[index],
        found: found.map(str::to_owned),
    };
    let want = vec![
        compiled::Refusal::EventType,
        compiled::Refusal::SubjectBeginsWith,
        compiled::Refusal::SubjectEndsWith,
        found(0, Some("1.5")),
        found(2, None),
        found(3, Some("\"/topics/t\"")),
    ];
    assert_eq!(filters.refusals(0, &filter, &events[0]), want);
}

#[test]
fn each_filter_of_a_topic_answers_for_itself() {
    let types = |name: &str| Filter {
        included_event_types: Some(vec![name.to_owned()]),
        ..Filter::default()
    };
    let number = |operator: &str, value: i32| {
        advanced(json!([{"operatorType": operator, "key": "data.n", "value": value}]), false)
    };
    let all = [
        types("T"),
        number("NumberLessThan", 5),
        types("U"),
        Filter::default(),
        number("NumberGreaterThan", 5),
        Filter { included_event_types: Some(vec!["T".to_owned()]), ..number("NumberLessThan", 9) },
    ];
    let filters = Filters::compile(InputSchema::EventGridSchema, None, &all);
    let body = event_grid("T", "s", Some(&json!({"n": 3})));
    let events = event_grid::parse(body.as_bytes(), "/topics/t").expect("events");
    let mut wanted = Vec::new();
    filters.ask(&events[0], |position| wanted.push(position));
    wanted.sort_unstable();
    assert_eq!(wanted, [0, 1, 3, 5]);
}

/// Keys are the envelope names that the mapping has, and `data` is the event itself: a filter written for
/// Event Grid's schema works on such a topic.
#[test]
fn keys_of_a_publishers_own_schema_are_the_mappings_and_its_own() {
    let mapping: InputSchemaMapping = serde_json::from_value(json!({
        "id": "orderId", "eventTime": "at", "subject": {"sourceField": "path", "defaultValue": "none"},
        "eventType": {"sourceField": "kind"}, "dataVersion": {"defaultValue": "2.0"},
    }))
    .expect("a mapping");
    let event = r#"{"orderId":7,"at":"2026-01-02T03:04:05Z","kind":"Placed","subject":"own","total":{"n":3},
        "data":{"deep":"x"},"topic":"mine"}"#;
    let filter = |operator: &str, key: &str, values: Value| {
        advanced(json!([{"operatorType": operator, "key": key, "values": values}]), false)
    };
    let table = [
        ("StringIn", "eventType", json!(["Placed"]), true),
        ("StringIn", "EventType", json!(["Placed"]), true),
        ("StringIn", "kind", json!(["Placed"]), true),
        ("StringIn", "data.kind", json!(["Placed"]), true),
        ("StringIn", "id", json!(["7"]), true),
        ("NumberIn", "orderId", json!([7]), true),
        ("NumberIn", "data.orderId", json!([7]), true),
        ("StringIn", "subject", json!(["none"]), true),
        ("StringIn", "subject", json!(["own"]), false),
        ("StringIn", "data.subject", json!(["own"]), true),
        ("StringBeginsWith", "eventTime", json!(["2026-01-02"]), true),
        ("StringIn", "dataVersion", json!(["2.0"]), true),
        ("NumberIn", "data.total.n", json!([3]), true),
        ("NumberIn", "total.n", json!([3]), true),
        ("StringIn", "data.deep", json!(["x"]), true),
        ("StringIn", "data.data.deep", json!(["x"]), true),
        ("StringIn", "topic", json!(["mine"]), true),
        ("StringIn", "data.Kind", json!(["Placed"]), false),
        ("StringIn", "deep", json!(["x"]), false),
    ];
    let now = Timestamp::from_millis(0);
    for (operator, key, values, want) in table {
        let stamps = Stamps { now, id: &mut || panic!("it has an id") };
        let events = custom::parse(event.as_bytes(), "/topics/t", Some(&mapping), stamps);
        let events = events.expect("an event");
        let filter = filter(operator, key, values);
        let filters = Filters::compile(InputSchema::CustomEventSchema, Some(&mapping), [&filter]);
        let mut is_wanted = false;
        filters.ask(&events[0], |_| is_wanted = true);
        assert_eq!(is_wanted, want, "{operator} {key}");
    }
}

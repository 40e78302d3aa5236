//! Advanced filters in documents.

use super::*;

/// One filter of each operator, with 25 values in all but one.
pub(super) fn every_operator() -> Value {
    let one = |operator: &str, member: &str, value: Value| {
        let mut filter = json!({"operatorType": operator, "key": "data.k"});
        if !value.is_null() {
            filter[member] = value;
        }
        filter
    };
    let values = |operator: &str, values: Value| one(operator, "values", values);
    let value = |operator: &str, value: Value| one(operator, "value", value);
    Value::from(vec![
        values("NumberIn", json!([1, 2.5])),
        values("NumberNotIn", json!([0])),
        value("NumberLessThan", json!(1)),
        value("NumberGreaterThan", json!(-1.5)),
        value("NumberLessThanOrEquals", json!(1e300)),
        value("NumberGreaterThanOrEquals", json!(0.1)),
        values("NumberInRange", json!([[1, 2], [5, 9.5]])),
        values("NumberNotInRange", json!([[3, 3]])),
        value("BoolEquals", json!(false)),
        values("StringIn", json!(["a", ""])),
        values("StringNotIn", json!(["é"])),
        values("StringBeginsWith", json!(["A"])),
        values("StringNotBeginsWith", json!(["a"])),
        values("StringEndsWith", json!(["a"])),
        values("StringNotEndsWith", json!(["a"])),
        values("StringContains", json!(["a", "b"])),
        values("StringNotContains", json!(["a", "b"])),
        values("IsNullOrUndefined", Value::Null),
        values("IsNotNull", Value::Null),
    ])
}

fn filters(filters: Value) -> Value {
    with("filter", json!({ "advancedFilters": filters }))
}

fn filter(operator: &str, member: &str, value: Value) -> Value {
    let mut filter = json!({"operatorType": operator, "key": "data.k"});
    filter[member] = value;
    filters(json!([filter]))
}

fn key(key: impl Into<Value>) -> Value {
    filters(json!([{"operatorType": "IsNotNull", "key": key.into()}]))
}

/// Every row has one problem: of this code, at this path below the filters, with these words.
#[test]
fn advanced_filters_are_refused() {
    use Code::*;
    let texts = |count: usize| vec!["a"; count];
    let one = json!({"operatorType": "IsNotNull", "key": "a"});
    let table = [
        (filters(json!({})), WrongType, "", "must be an array, but is an object"),
        (filters(json!("x")), WrongType, "", "must be an array"),
        (filters(json!([1])), WrongType, "[0]", "must be an object, but is a number"),
        (filters(json!([null])), WrongType, "[0]", "must be an object, but is null"),
        (filters(json!(vec![one; 26])), OutOfRange, "", "at most 25 advanced filters, but has 26"),
        (
            filters(json!([{"key": "a"}])),
            MissingMember,
            "[0].operatorType",
            "'NumberIn', 'NumberNotIn'",
        ),
        (
            filters(json!([{"operatorType": 1, "key": "a"}])),
            WrongType,
            "[0].operatorType",
            "string",
        ),
        (
            filters(json!([{"operatorType": "StringMatches", "key": "a", "values": []}])),
            InvalidValue,
            "[0].operatorType",
            "must be 'NumberIn', 'NumberNotIn'",
        ),
        (
            filters(json!([{"operatorType": "IsNotNull"}])),
            MissingMember,
            "[0].key",
            "data.order.total",
        ),
        (key(5), WrongType, "[0].key", "must be a string"),
        (key(""), OutOfRange, "[0].key", "1 to 512 characters, but has 0"),
        (key("a".repeat(513)), OutOfRange, "[0].key", "but has 513"),
        (key("data..k"), InvalidValue, "[0].key", "single dots between them"),
        (key(".k"), InvalidValue, "[0].key", "single dots between them"),
        (key("data."), InvalidValue, "[0].key", "single dots between them"),
        (
            filter("IsNotNull", "value", json!(1)),
            InvalidValue,
            "[0].value",
            "neither value nor values",
        ),
        (filter("IsNullOrUndefined", "values", json!([1])), InvalidValue, "[0].values", "neither"),
        (filter("IsNotNull", "operator", json!(1)), UnknownMember, "[0].operator", "is not known"),
        (filter("StringIn", "values", json!("a")), WrongType, "[0].values", "must be an array"),
        (
            filter("StringIn", "values", json!([])),
            OutOfRange,
            "[0].values",
            "at least one of the strings",
        ),
        (filter("StringIn", "values", json!([1])), WrongType, "[0].values[0]", "must be a string"),
        (
            filter("StringIn", "values", json!(["a", null])),
            WrongType,
            "[0].values[1]",
            "but is null",
        ),
        (
            filter("StringNotIn", "values", json!(["a".repeat(513)])),
            OutOfRange,
            "[0].values[0]",
            "at most 512 characters",
        ),
        (
            filter("StringContains", "values", json!(texts(26))),
            OutOfRange,
            "",
            "at most 25 values in all advanced filters together, but has 26",
        ),
        (
            filter("NumberIn", "values", json!(["1"])),
            WrongType,
            "[0].values[0]",
            "must be a number",
        ),
        (filter("NumberLessThan", "value", json!("1")), WrongType, "[0].value", "must be a number"),
        (
            filter("NumberGreaterThan", "value", json!([1])),
            WrongType,
            "[0].value",
            "must be a number",
        ),
        (
            filter("NumberNotInRange", "values", json!([1])),
            WrongType,
            "[0].values[0]",
            "pair of numbers such as [1, 10]",
        ),
        (
            filter("NumberInRange", "values", json!([[1, 2, 3]])),
            WrongType,
            "[0].values[0]",
            "pair of numbers",
        ),
        (
            filter("NumberInRange", "values", json!([[2, 1]])),
            OutOfRange,
            "[0].values[0]",
            "2 is above 1",
        ),
        (
            filter("NumberInRange", "values", json!([["a", 1]])),
            WrongType,
            "[0].values[0][0]",
            "must be a number",
        ),
        (
            filter("BoolEquals", "value", json!("yes")),
            WrongType,
            "[0].value",
            "must be true or false",
        ),
        (filter("BoolEquals", "value", json!(0)), WrongType, "[0].value", "must be true or false"),
    ];
    // One problem for the number list that should be one, and one for each that it lacks.
    for (operator, given, wanted) in [
        ("StringIn", "value", "values"),
        ("NumberNotIn", "value", "values"),
        ("NumberLessThanOrEquals", "values", "value"),
        ("BoolEquals", "values", "value"),
    ] {
        let document = filter(operator, given, json!([1]));
        let problems = read_for(Kind::Custom, &document).expect_err("refused");
        let found: Vec<_> = problems.iter().map(|problem| (problem.code, &*problem.path)).collect();
        let path = |member: &str| format!("properties.filter.advancedFilters[0].{member}");
        let want = [(InvalidValue, &*path(given)), (MissingMember, &*path(wanted))];
        assert_eq!(found, want, "{document}");
    }
    for (document, code, path, rule) in table {
        let problems = read_for(Kind::Custom, &document).expect_err(&document.to_string());
        let listed: Vec<_> = problems.iter().collect();
        assert_eq!(listed.len(), 1, "{document}: {listed:?}");
        let want = format!("properties.filter.advancedFilters{path}");
        assert_eq!((listed[0].code, &listed[0].path), (code, &want), "{document}: {}", listed[0]);
        assert!(listed[0].rule.contains(rule), "{document}: {}", listed[0]);
    }
}

#[test]
fn documents_of_namespace_topics_name_filters_otherwise() {
    let filters = every_operator();
    let types = json!(["A"]);
    let namespace =
        with("filtersConfiguration", json!({"includedEventTypes": types, "filters": filters}));
    let basic = with("filter", json!({"includedEventTypes": types, "advancedFilters": filters}));
    let read = |document| read_for(Kind::Namespace, document).expect("valid").filter;
    assert_eq!(read(&namespace), read(&basic));
    let mut both = namespace;
    both["properties"]["filter"] = json!({});
    assert_refused(
        Kind::Namespace,
        vec![
            (both, "properties.filter", "must not stand beside filtersConfiguration"),
            (
                with("filtersConfiguration", json!({"filters": [{"key": "a"}]})),
                "properties.filtersConfiguration.filters[0].operatorType",
                "is required",
            ),
        ],
    );
}

#[test]
fn names_of_operators_are_read_in_any_case() {
    let document = filter("stringin", "values", json!(["a"]));
    let read = read_for(Kind::Custom, &document).expect("valid").filter.advanced;
    assert_eq!(read[0].operator.name(), "StringIn");
}

#[test]
fn stored_filters_read_again() {
    let document = with(
        "filter",
        json!({"advancedFilters": every_operator(), "enableAdvancedFilteringOnArrays": true}),
    );
    let filter = read_for(Kind::Custom, &document).expect("valid").filter;
    let stored = serde_json::to_string(&filter).expect("JSON");
    assert_eq!(serde_json::from_str::<Filter>(&stored).expect("a filter"), filter);
    // What was stored before there were advanced filters.
    let old = r#"{"includedEventTypes":null,"subjectBeginsWith":"a","subjectEndsWith":"",
        "isSubjectCaseSensitive":false}"#;
    let old: Filter = serde_json::from_str(old).expect("a filter");
    assert!(old.advanced.is_empty() && !old.enable_advanced_filtering_on_arrays);
}

#[test]
fn included_event_types_are_bounded_and_each_there_once() {
    const PATH: &str = "properties.filter.includedEventTypes";
    let types = |types: Vec<String>| with("filter", json!({"includedEventTypes": types}));
    let numbered = |count: usize| (0..count).map(|number| format!("T{number}")).collect();
    let table = [
        (types(numbered(251)), PATH.to_owned(), "1 to 250 included event types, but has 251"),
        (types(vec!["a".to_owned(); 65_000]), PATH.to_owned(), "1 to 250 included event types"),
        (types(vec!["é".repeat(513)]), format!("{PATH}[0]"), "1 to 512 characters, but has 513"),
    ];
    for (document, path, rule) in table {
        let problems = read_for(Kind::Custom, &document).expect_err(&path);
        let listed: Vec<_> = problems.iter().collect();
        assert_eq!((listed.len(), &listed[0].path), (1, &path), "{listed:?}");
        assert!(listed[0].rule.contains(rule), "{}", listed[0]);
    }
    let read = |given: Vec<String>| {
        read_for(Kind::Custom, &types(given)).expect("valid").filter.included_event_types
    };
    assert_eq!(read(numbered(250)).map(|types| types.len()), Some(250));
    assert_eq!(read(vec!["é".repeat(512)]).map(|types| types.len()), Some(1));
    let twice = ["B", "A", "B", "B"].map(str::to_owned);
    assert_eq!(read(twice.to_vec()), Some(vec!["B".to_owned(), "A".to_owned()]));
    assert_eq!(read(vec!["All".to_owned(); 2]), None);
}

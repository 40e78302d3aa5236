use super::*;

fn arguments() -> ExplainArguments {
    ExplainArguments {
        id: "e-1".to_owned(),
        topic: "orders".to_owned(),
        event: None,
        since: TimeToLive { minutes: 1_440 },
    }
}

fn line(whose: &str, delivery: &str, ids: &str) -> AttemptLine {
    let line = json!({"message": "attempt failed", "timestamp": "T", "subscription": whose,
        "delivery.id": delivery, "event_ids": ids, "outcome": "Busy", "status": 503});
    AttemptLine { id: "1".to_owned(), at_ms: 1, line }
}

#[test]
fn lines_of_other_events_and_topics_are_left_out() {
    let lines = vec![
        line("orders/billing", "d-1", "[\"e-1\",\"e-2\"]"),
        line("orders/billing", "d-1", "[\"e-1\",\"e-2\"]"),
        line("orders/billing", "d-2", "[\"e-10\"]"),
        line("clouds/billing", "d-3", "[\"e-1\"]"),
    ];
    let found = by_delivery(&arguments(), lines);
    let found: Vec<_> = found.iter().map(|(key, lines)| (key.1.as_str(), lines.len())).collect();
    assert_eq!(found, [("d-1", 2)]);
}

#[test]
fn what_is_known_is_told() {
    let names = ["audit", "billing"].map(str::to_owned);
    let found = Found {
        id: "d-1".to_owned(),
        name: "billing".to_owned(),
        state: None,
        lines: vec![line("orders/billing", "d-1", "[\"e-1\"]")],
    };
    let mut told = Told {
        arguments: arguments(),
        verdicts: None,
        deliveries: vec![found],
        names: names.into(),
        filters: filters(&[json!({"name": "audit", "properties": {"filter": {
            "subjectBeginsWith": "bank/", "subjectEndsWith": "", "includedEventTypes": ["All"]}}})]),
        holding: vec![(
            "audit".to_owned(),
            json!({"state": "Probation", "until": "U", "cause": {"outcome": "Busy"}}),
        )],
    };
    let text = told.text();
    for part in [
        "logged:  billing",
        "No log entries for:           audit\n  audit: subjectBeginsWith \"bank/\"\n",
        "delivery d-1\n  T  Busy (503)",
        "audit: attempts nothing until U (Probation, Busy)",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let state = json!({"id": "d-1", "standing": "Ended", "events": 1, "publishTime": "P"});
    told.deliveries[0].state = Some(state);
    let end = json!({"message": "events dropped", "timestamp": "E", "reason": "R"});
    let lines = &mut told.deliveries[0].lines;
    lines.push(AttemptLine { id: "2".to_owned(), at_ms: 2, line: end });
    let text = told.text();
    assert!(text.contains("1 event published at P\n  E  LOST FOR GOOD, dropped for R"), "{text}");
    assert!(told.outcome().is_ok());
    let mut again = told.deliveries[0].clone();
    (again.id, again.lines) = ("d-2".to_owned(), Vec::new());
    told.deliveries.push(again);
    let text = told.text();
    assert!(text.contains("billing: sent again after that end, by a redrive: delivery"), "{text}");
    if let Some(state) = &mut told.deliveries[1].state {
        state["redrivenTime"] = json!("AGAIN");
    }
    assert!(told.text().contains("sent again by a redrive at AGAIN: "));
    told.verdicts = Some(json!({"value": [
        {"eventSubscription": "audit", "matches": false, "state": "Expired", "refusedBy": [
            {"path": "filter.subjectBeginsWith", "message": "no", "found": "s"},
            {"path": "filter.advancedFilters[0]", "message": "M", "isThere": false}]},
        {"eventSubscription": "billing", "matches": true, "state": "Active", "refusedBy": []},
    ]}));
    (told.deliveries, told.holding) = (Vec::new(), Vec::new());
    assert!(told.outcome().is_ok(), "the filters say enough");
    let verdicts = told.verdicts.take();
    let nothing = told.outcome().expect_err("nothing is known").to_string();
    assert!(nothing.contains("nothing is known of an event `e-1` of topic orders"), "{nothing}");
    told.verdicts = verdicts;
    let text = told.text();
    for part in [
        "audit               no       it is Expired",
        "filter.subjectBeginsWith: no",
        "filter.advancedFilters[0]: M",
        "billing             yes",
        "the last 24 hours",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert_eq!(one_event(json!([{"id": 1}])), json!({"id": 1}));
}

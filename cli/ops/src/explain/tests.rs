use gridpost_api::{
    delivery::DeliveryStatus::{Delivered, Ended, Waiting},
    document::merge,
};
use gridpost_core::journal::EntryKind;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::*;
use crate::{
    target::TargetArguments,
    testkit::{FakeApi, documents},
};

const ID: &str = "00000000-0000-0000-0000-000000000001";
const TIME: &str = "2026-01-01T00:00:00.000Z";

fn read<D: DeserializeOwned>(document: Value) -> D {
    serde_json::from_value(document).expect("a whole document")
}

fn subscription(name: &str, properties: &Value) -> EventSubscription {
    read(documents::subscription(name, &json!({ "properties": properties })))
}

fn verdicts(verdicts: Value) -> Vec<ExplainedSubscription> {
    read(verdicts)
}

fn arguments() -> Question {
    Question {
        id: "e-1".to_owned(),
        topic: "orders".to_owned(),
        ..Explanation::noting("").question
    }
}

fn line(patch: &Value) -> AttemptLine {
    AttemptLine(read(documents::journal_entry(patch)))
}

/// An answer about two deliveries, the newest entry first; one has a state. Both are read at once.
#[tokio::test]
async fn deliveries_are_found_by_the_journal() {
    let entry = |delivery: u128, patch: &Value| {
        let mut entry = documents::journal_entry(patch);
        entry["deliveryId"] = json!(uuid::Uuid::from_u128(delivery));
        entry
    };
    let entries = [
        entry(2, &json!({"kind": "Ending", "time": "2026-01-01T00:00:03Z", "reason": "R"})),
        entry(1, &json!({"kind": "Success", "time": "2026-01-01T00:00:02Z"})),
        entry(1, &json!({"time": "2026-01-01T00:00:01Z"})),
    ];
    let state = documents::delivery(&json!({"status": "Waiting", "attempts": []}));
    let at = "GET /topics/orders/eventSubscriptions/one/deliveries/";
    let [first, second] = [1, 2].map(|id| format!("{at}{}", uuid::Uuid::from_u128(id)));
    let rows: [(&str, _, _); 2] = [(&first, 404, json!({})), (&second, 200, state)];
    let api = FakeApi::together((at, 2), &rows).await;
    let manage = ManageApi::connect(&api.url()).await.expect("a client");
    let entries = entries.map(read::<JournalEntry>).to_vec();
    let (found, is_whole) = read_deliveries(&manage, &arguments(), entries).await.expect("found");
    assert!(is_whole);
    let found: Vec<_> = found
        .iter()
        .map(|one| (one.state.is_some(), one.log.iter().map(|line| line.kind).collect::<Vec<_>>()))
        .collect();
    let attempts = vec![EntryKind::Failure, EntryKind::Success];
    let want = [(false, attempts), (true, vec![EntryKind::Ending])];
    assert_eq!(found, want);
    let budget = Budget { deliveries: 0, ..Budget::default() };
    let bounded = Question { budget, ..arguments() };
    let entries = vec![read(entry(1, &json!({})))];
    let (none, is_whole) = read_deliveries(&manage, &bounded, entries).await.expect("found");
    assert!(none.is_empty() && !is_whole);
    let asked = arguments().of_the_journal(Timestamp::from_millis(0));
    let want = json!({"attempts": {"topic": "orders", "eventId": "e-1", "from": "1970-01-01T00:00:00.000Z"}});
    assert_eq!(json!(asked), want);
}

#[tokio::test]
async fn a_deleted_topic_has_a_history_and_a_misspelt_one_none() {
    for (entries, is_known) in [(vec![documents::journal_entry(&json!({}))], true), (vec![], false)]
    {
        let answer = documents::journal_query(&json!({ "attempts": entries }));
        let topics = documents::list(&[documents::topic("orders", &json!({}))]);
        let api = FakeApi::answering(&[
            ("POST /journalQueries ", 200, answer),
            ("GET /topics/order", 404, json!({})),
            ("GET /topics ", 200, topics),
        ])
        .await;
        let arguments = TargetArguments { manage_url: Some(api.url()), ..Default::default() };
        let target = arguments.resolve().expect("a deployment");
        let question = Question { topic: "order".to_owned(), ..self::arguments() };
        match look_up(&target, question, None).await {
            Ok(told) => assert!(is_known && told.outcome().is_ok(), "{}", told.text()),
            Err(error) => {
                let is_misuse = error.is::<crate::failure::Misuse>();
                assert!(is_misuse && !is_known && error.to_string().contains("orders?"), "{error}");
            }
        }
    }
}

/// The topics that entries name; without entries, each whose dead letters have the event.
#[tokio::test]
async fn an_event_is_found_in_all_topics() {
    let of = |topic: &str| documents::journal_entry(&json!({ "topic": topic }));
    let stores = json!({"deadLetterDestination": {"endpointType": "S3Bucket",
        "properties": {"bucketName": "b"}}});
    let one = documents::list(&[documents::subscription("one", &json!({"properties": stores}))]);
    let letter = documents::dead_letter(&json!({"id": "l", "event": "{}"}));
    let verdict =
        json!({"eventSubscription": "one", "state": "Active", "matches": true, "refusedBy": []});
    let topics = ["orders", "shop", "users"].map(|name| documents::topic(name, &json!({})));
    let letters = "GET /topics/shop/eventSubscriptions/one/deadLetters";
    for (entries, want) in
        [(vec![of("users"), of("orders")], vec!["orders", "users"]), (vec![], vec!["shop"])]
    {
        let answer = documents::journal_query(&json!({ "attempts": entries }));
        let api = FakeApi::answering(&[
            ("POST /journalQueries ", 200, answer),
            (&format!("{letters}/l "), 200, letter.clone()),
            (letters, 200, documents::list(std::slice::from_ref(&letter))),
            ("GET /topics/shop/eventSubscriptions ", 200, one.clone()),
            ("POST /topics/shop/explain ", 200, json!({"value": [verdict]})),
            ("GET /topics/shop/eventSubscriptions/one/health ", 200, documents::health(&json!({}))),
            ("GET /topics ", 200, documents::list(&topics)),
            ("GET /topics/orders/eventSubscriptions ", 200, documents::list(&[])),
            ("GET ", 404, json!({})),
        ])
        .await;
        let arguments = TargetArguments { manage_url: Some(api.url()), ..Default::default() };
        let target = arguments.resolve().expect("a deployment");
        let question = Question { topic: String::new(), ..self::arguments() };
        let found = look_everywhere(&target, question.clone()).await.expect("found");
        let known = found.iter().filter(|(_, told)| told.is_ok());
        assert_eq!(known.map(|(topic, _)| topic.as_str()).collect::<Vec<_>>(), want);
        let budget = Budget { topics: 1, ..Budget::default() };
        let bounded =
            look_everywhere(&target, Question { budget, ..question }).await.expect("found");
        let notes = bounded[0].1.as_ref().map(|told| told.notes().concat()).unwrap_or_default();
        assert!(notes.starts_with("only 1 of "), "{notes}");
        let event = found[0].1.as_ref().map(|told| told.event.is_some());
        assert_eq!(event.ok(), Some(want == ["shop"]));
    }
}

#[test]
fn an_id_is_read_where_an_event_has_one() {
    for (event, want) in [
        (r#"[{"id": "e-1", "data": 1}]"#, Some("e-1")),
        (r#"{"specversion": "1.0", "id": "e-2"}"#, Some("e-2")),
        (r#"{"id": 3}"#, None),
        (r#"[{"id": "a"}, {"id": "b"}]"#, None),
        ("1", None),
    ] {
        let event = one_event(serde_json::from_str(event).expect("JSON"));
        assert_eq!(id_of(&event).as_deref(), want, "{event}");
    }
}

#[test]
fn what_is_known_is_told() {
    let log = vec![line(&json!({}))];
    let delivery =
        |id: &str, state, log| EventDelivery::new(id.to_owned(), "billing".to_owned(), state, log);
    let filter = json!({"subjectBeginsWith": "bank/", "subjectEndsWith": "",
        "includedEventTypes": ["All"]});
    let health =
        documents::health(&json!({"state": "Probation", "newEvents": "Waits", "until": TIME,
        "cause": {"outcome": "Busy"}}));
    let audit = subscription("audit", &json!({ "filter": filter }));
    let mut told = Explanation {
        question: arguments(),
        given_event_id: Some("e-1".to_owned()),
        deliveries: vec![delivery("d-1", None, log.clone())],
        holding_back: vec![HoldingBack {
            event_subscription: "audit".to_owned(),
            health: read(health),
        }],
        subscriptions: vec![audit, subscription("billing", &json!({}))],
        ..Explanation::default()
    };
    let text = told.text();
    for part in [
        "by the journal:  billing",
        "No attempts known for:    audit\n  audit: subjectBeginsWith \"bank/\"\n",
        "a filter may not have wanted the event",
        "delivery d-1\n  2026-01-01T00:00:00.000Z  Busy (503)",
        "audit: attempts nothing until 2026-01-01T00:00:00.000Z (Probation, Busy)",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("has the id"), "{text}");
    told.given_event_id = Some("e-2".to_owned());
    assert!(told.text().contains("! the event that was given has the id e-2: "), "another event");
    let state = documents::delivery(&json!({"status": "Ended", "attempts": []}));
    let end = line(&json!({"kind": "Dropped", "reason": "R", "outcome": null}));
    let log = [log, vec![end]].concat();
    told.deliveries = vec![delivery("d-1", Some(read(state.clone())), log)];
    let text = told.text();
    let want = format!("1 event published at {TIME}\n  {TIME}  LOST FOR GOOD, dropped for R");
    assert!(text.contains(&want), "{text}");
    assert!(told.outcome().is_ok());
    told.deliveries.push(delivery("d-2", Some(read(state)), Vec::new()));
    let text = told.text();
    assert!(text.contains("billing: sent again after that end, by a redrive: delivery"), "{text}");
    if let Some(state) = &mut told.deliveries[1].state {
        state.delivery.redriven_time = Some(TIME.parse().expect("a time"));
    }
    assert!(told.text().contains(&format!("sent again by a redrive at {TIME}: ")));
    told.verdicts = Some(verdicts(json!([
        {"eventSubscription": "audit", "matches": false, "state": "Expired", "refusedBy": [
            {"path": "filter.subjectBeginsWith", "message": "no", "found": "s"},
            {"path": "filter.advancedFilters[0]", "message": "M", "found": null, "isThere": false}]},
        {"eventSubscription": "billing", "matches": true, "state": "Active", "refusedBy": []},
    ])));
    (told.deliveries, told.holding_back) = (Vec::new(), Vec::new());
    assert!(told.outcome().is_ok(), "the filters say enough");
    let verdicts = told.verdicts.take();
    let nothing = told.outcome().expect_err("nothing is known");
    assert!(nothing.is::<Unfinished>(), "neither done nor failed");
    let nothing = nothing.to_string();
    for part in [
        "nothing is known of an event `e-1` of topic orders",
        "wanted by no filter",
        "--event FILE",
    ] {
        assert!(nothing.contains(part), "{part} is not in {nothing}");
    }
    let left_out = "successes at the first attempt are not logged here";
    (told.left_out, told.lacks_successes) = (vec![left_out.to_owned()], true);
    let error = told.outcome().expect_err("nothing is known");
    assert!(error.is::<Unfinished>());
    for text in [error.to_string(), told.text()] {
        assert!(text.contains(left_out) && !text.contains("nothing is known"), "{text}");
    }
    told.verdicts = verdicts;
    let text = told.text();
    for part in [
        "audit               no       it is Expired",
        "filter.subjectBeginsWith: no",
        "filter.advancedFilters[0]: M",
        "billing             yes",
        "the last 24 h",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let text = |text: &str| RawValue::from_string(text.to_owned()).expect("JSON");
    for (given, want) in [
        (r#"[ {"id":1e400} ]"#, r#"{"id":1e400}"#),
        (r#"{"id":1}"#, r#"{"id":1}"#),
        ("[1,2]", "[1,2]"),
        ("[]", "[]"),
    ] {
        assert_eq!(one_event(text(given)).get(), want);
    }
}

#[test]
fn what_waits_for_its_validation_gets_nothing() {
    let wants = |state: &str| {
        let properties = json!({"provisioningState": state, "filter": {}});
        describe_wants(&subscription("one", &properties))
    };
    assert_eq!(wants("Succeeded"), "wants every event");
    let want = "wants every event, but gets none: it is AwaitingManualAction";
    assert_eq!(wants("AwaitingManualAction"), want);
}

#[test]
fn only_what_may_hold_the_event_back_is_told() {
    let names = || ["wants", "refuses", "has-it"].into_iter();
    let has_it = EventDelivery::new("d".to_owned(), "has-it".to_owned(), None, Vec::new());
    let verdict = |name: &str, matches: bool| json!({"eventSubscription": name, "state": "Active", "matches": matches, "refusedBy": []});
    let verdicts = verdicts(json!([
        verdict("wants", true),
        verdict("refuses", false),
        verdict("has-it", true),
    ]));
    let deliveries = [has_it];
    assert_eq!(may_wait(names(), &deliveries, Some(&verdicts)), ["wants"]);
    assert_eq!(may_wait(names(), &deliveries, None), ["wants", "refuses"]);

    let health = |effect: &str| -> Health {
        let until = "2026-11-21T08:00:00.000Z";
        read(documents::health(&json!({"newEvents": effect, "until": until})))
    };
    let until = Timestamp::parse_rfc_3339("2026-11-21T08:00:00Z").expect("a time");
    let earlier = Timestamp::from_millis(until.as_millis() - 1);
    for (effect, now, want) in [
        ("Waits", earlier, true),
        ("Waits", until, false),
        ("Attempted", earlier, false),
        ("Ends", earlier, false),
    ] {
        assert_eq!(is_held_back(&health(effect), now), want, "{effect} {now}");
    }
}

#[test]
fn what_a_pause_holds_is_told_as_held_and_not_as_unknown() {
    let paused = |runs: bool| {
        let pause = json!({"since": TIME, "until": "2026-01-02T00:00:00Z", "by": "arn:x",
            "timeToLiveRuns": runs});
        read(documents::health(&json!({"newEvents": "Held", "pause": pause})))
    };
    for (runs, part, is_with_end) in [
        (
            true,
            "billing: paused since 2026-01-01T00:00:00.000Z by arn:x, time-to-live runs. If it wants the event, ",
            true,
        ),
        (
            false,
            "billing: paused since 2026-01-01T00:00:00.000Z by arn:x, time-to-live stands still. If",
            false,
        ),
    ] {
        let mut told = Explanation::noting("");
        let event_subscription = "billing".to_owned();
        told.holding_back = vec![HoldingBack { event_subscription, health: paused(runs) }];
        told.left_out = vec!["successes are not logged".to_owned()];
        let text = told.text();
        assert!(
            text.contains(part) && text.contains("resumed") && text.contains("until 2026-01-02"),
            "{text}"
        );
        assert_eq!(text.contains("ends undelivered if its time-to-live"), is_with_end, "{text}");
        assert!(!text.contains("until -"), "{text}");
        let error = told.outcome().expect_err("nothing is known for certain");
        assert!(error.is::<Unfinished>(), "{error}");
        let error = error.to_string();
        assert!(error.contains("held by a pause (billing)"), "{error}");
        assert!(error.contains("so far, and successes are not logged: it may"), "{error}");
        let (pause, id) = (error.find("held by a pause"), error.find("check the id"));
        assert!(pause < id, "the pause first: {error}");
    }
}

fn failed(events: u64) -> AttemptLine {
    line(&json!({"due": TIME, "events": events}))
}

fn delivered(attempt: u64) -> AttemptLine {
    line(
        &json!({"kind": "Success", "outcome": "Delivered", "httpStatusCode": 200, "attempt": attempt}),
    )
}

/// The end of that many events after that many attempts.
fn ended(events: u64, attempts: u64) -> AttemptLine {
    line(&json!({"kind": "Ending", "outcome": "EventRejected", "httpStatusCode": 200,
        "reason": "RejectedByEndpoint", "events": events, "attempt": attempts}))
}

fn in_state(
    status: &str,
    (events, made): (u64, u64),
    attempts: &Value,
    lines: &[AttemptLine],
) -> EventDelivery {
    let attempts = attempts.as_array().into_iter().flatten().map(|given| {
        let mut attempt = json!({"attempt": 1, "startTime": TIME, "durationInMs": 3,
            "outcome": "Busy"});
        merge(&mut attempt, given);
        attempt
    });
    let state = documents::delivery(&json!({"status": status, "events": events,
        "deliveryAttempts": made, "attempts": attempts.collect::<Vec<_>>()}));
    EventDelivery::new(ID.to_owned(), "billing".to_owned(), Some(read(state)), lines.to_vec())
}

#[test]
fn an_event_stands_where_its_own_lines_say() {
    let (whole, part) = (json!([{"attempt": 1}]), json!([{"attempt": 1, "events": 8}]));
    let parts = |events: &[u32]| -> Value {
        let attempt = |(at, events): (usize, &u32)| json!({"attempt": at + 1, "events": events});
        events.iter().enumerate().map(attempt).collect()
    };
    let (alike, shared) = (parts(&[8, 4, 4]), parts(&[1, 1]));
    // (the delivery's status, its events and attempts, those, the event's lines,
    // whether the events went different ways, the event's status)
    let table: [(_, _, _, &[AttemptLine], _, _); 16] = [
        ("Waiting", (8, 1), &whole, &[failed(8)], false, Some(Waiting)),
        ("Delivered", (8, 1), &whole, &[failed(8)], false, Some(Delivered)),
        ("Ended", (8, 2), &whole, &[failed(8), ended(8, 2)], false, Some(Ended)),
        ("Delivered", (1, 1), &whole, &[failed(1), delivered(2)], false, Some(Delivered)),
        // All parts of its batch failed alike; a batch of deliveries of one event each was split.
        ("Waiting", (8, 2), &alike, &[failed(8)], false, Some(Waiting)),
        ("Ended", (1, 2), &shared, &[ended(1, 2)], false, Some(Ended)),
        // It was delivered before the others, which ended, go on, or were delivered later.
        ("Ended", (1, 1), &whole, &[delivered(1)], true, Some(Delivered)),
        ("Waiting", (1, 1), &whole, &[failed(8), delivered(2)], true, Some(Delivered)),
        ("Delivered", (1, 1), &whole, &[delivered(1)], true, Some(Delivered)),
        // It ended before the others, which were delivered, go on, or ended later.
        ("Delivered", (1, 1), &whole, &[ended(1, 1)], true, Some(Ended)),
        ("Waiting", (1, 1), &whole, &[ended(1, 1)], true, Some(Ended)),
        ("Ended", (1, 4), &whole, &[ended(1, 1)], true, Some(Ended)),
        // Another one ended before it.
        ("Delivered", (1, 2), &whole, &[failed(8), delivered(3)], true, Some(Delivered)),
        ("Waiting", (2, 2), &whole, &[failed(8), failed(2)], true, Some(Waiting)),
        ("Ended", (1, 4), &part, &[failed(1), ended(1, 4)], true, Some(Ended)),
        // Its end is in no line that was found.
        ("Ended", (1, 4), &part, &[failed(8)], true, None),
    ];
    for (status, numbers, attempts, lines, is_divided, want) in table {
        let found = in_state(status, numbers, attempts, lines);
        assert_eq!((found.is_divided, found.event_standing), (is_divided, want), "{found:?}");
    }
}

#[test]
fn an_event_that_went_its_own_way_is_told_by_its_own_lines() {
    let attempts = json!([{"attempt": 2, "outcome": "Delivered", "httpStatusCode": 200}]);
    let mut told = Explanation::noting("");
    told.deliveries = vec![in_state("Delivered", (1, 1), &attempts, &[ended(1, 1)])];
    let text = told.text();
    let own = "billing: delivery 00000000-0000-0000-0000-000000000001, whose events went different ways: this event ended undelivered\n  \
               2026-01-01T00:00:00.000Z  to its dead-letter destination for RejectedByEndpoint (last attempt: EventRejected, \
               200)\nwhat was left of that delivery";
    assert!(text.contains(own), "{text}");
    let of_others = format!(
        "other events alone:\ndelivery {ID}: delivered, 1 event published at {TIME}\n  2  {TIME}"
    );
    assert!(text.contains(&of_others), "{text}");
    let document = &json!(told)["deliveries"][0];
    assert_eq!(
        (&document["isDivided"], &document["eventStanding"]),
        (&json!(true), &json!("Ended"))
    );

    told.deliveries = vec![in_state("Ended", (1, 2), &attempts, &[failed(8)])];
    let text = told.text();
    assert!(text.contains("the journal does not say what became of this event"), "{text}");
    assert!(
        text.contains(&format!(
            "\n  {TIME}  Busy (503) after 41 ms; again at {TIME}\nwhat was left"
        )),
        "{text}"
    );
    // What ended in that delivery was another event: what follows need not be a redrive.
    let mut next = in_state("Waiting", (1, 1), &attempts, &[]);
    next.id = "d-2".to_owned();
    told.deliveries.push(next);
    assert!(!told.text().contains("by a redrive"), "{}", told.text());

    // Without a state: one that was attempted has not waited behind its endpoint until its end.
    for (attempts, has_waited) in [(0, true), (1, false)] {
        let lines = [ended(1, attempts)];
        let found = EventDelivery::new(ID.to_owned(), "a".to_owned(), None, lines.into());
        assert_eq!(
            found.describe().contains("waited behind its endpoint"),
            has_waited,
            "{attempts}"
        );
    }
}

#[test]
fn without_entries_every_dead_letter_folder_is_looked_into() {
    let subscriptions = [
        subscription("audit", &json!({"deadLetterDestination": null})),
        subscription(
            "billing",
            &json!({"deadLetterDestination": {"endpointType": "S3Bucket",
            "properties": {"bucketName": "b"}}}),
        ),
    ];
    let of = |deliveries: &[EventDelivery]| -> Vec<String> {
        may_have_dead_letter(deliveries, &subscriptions).into_iter().map(str::to_owned).collect()
    };
    assert_eq!(of(&[]), ["billing"]);
    let found = |name: &str, status: &str| {
        let state = documents::delivery(&json!({"status": status, "attempts": []}));
        EventDelivery::new(ID.to_owned(), name.to_owned(), Some(read(state)), Vec::new())
    };
    assert_eq!(of(&[found("audit", "Ended"), found("billing", "Waiting")]), ["audit"]);
}

/// The first three have no answer to give, each in its way; the fourth has the event.
#[tokio::test]
async fn dead_letters_that_can_not_be_read_keep_nothing_of_the_others_back() {
    let of = |name: &str| format!("GET /topics/orders/eventSubscriptions/{name}/deadLetters");
    let refused = |code: &str| json!({"error": {"code": code, "message": "no"}});
    let letter = documents::dead_letter(&json!({"id": "l"}));
    let list = documents::list(std::slice::from_ref(&letter));
    let verdict =
        json!({"eventSubscription": "d", "state": "Active", "matches": true, "refusedBy": []});
    let [a, b, c, d] = ["a", "b", "c", "d"].map(of);
    let [letter_b, letter_d] = [&b, &d].map(|path| format!("{path}/l"));
    let api = FakeApi::answering(&[
        (a.as_str(), 404, refused("ResourceNotFound")),
        (letter_b.as_str(), 404, refused("ResourceNotFound")),
        (b.as_str(), 200, list.clone()),
        (c.as_str(), 503, refused("ServiceUnavailable")),
        (letter_d.as_str(), 200, documents::dead_letter(&json!({"id": "l", "event": "{}"}))),
        (d.as_str(), 200, list),
        ("POST /topics/orders/explain ", 200, json!({"value": [verdict]})),
    ])
    .await;
    let manage = ManageApi::connect(&api.url()).await.expect("a client");
    let (arguments, since) = (arguments(), Timestamp::from_millis(0));
    let found = async |names: &[&'static str]| {
        let names = names.iter().copied().collect();
        verdicts_on_dead_letter(&manage, &arguments, since, names).await.expect("no failure")
    };
    let note = "the dead letters of c can't be read: ServiceUnavailable (HTTP 503): no";
    let notes = vec![note.to_owned()];
    let event = EventText { json: "{}".to_owned(), letter_of: Some("d".to_owned()) };
    assert_eq!(
        found(&["a", "b", "c", "d"]).await,
        (Some((verdicts(json!([verdict])), event)), notes.clone())
    );
    assert_eq!(found(&["a", "b", "c"]).await, (None, notes));
    assert_eq!(found(&["a", "b"]).await, (None, Vec::new()));
    let budget = Budget { letter_pages: 2, ..Budget::default() };
    let bounded = Question { budget, ..arguments.clone() };
    let names = ["a", "b", "d"].into();
    let known = verdicts_on_dead_letter(&manage, &bounded, since, names).await.expect("no failure");
    assert_eq!(known, (None, vec!["not all dead letters of orders were looked at".to_owned()]));

    let told = Explanation::noting(note);
    let text = told.text();
    for part in [format!("! {note}\n").as_str(), "No dead letter that can be read has it"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert_eq!(json!(told)["notes"], json!([note]));
}

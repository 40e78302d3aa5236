use proptest::prelude::*;

use super::*;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).expect("JSON")
}

fn read_all(body: &str, is_whole: bool, events: &[Box<RawValue>]) -> String {
    let body = ResponseBody { bytes: body.as_bytes().to_vec(), is_whole };
    let accepted = Answer::of_status(200, None);
    let Some(answers) = read(&body, accepted, events.iter().map(AsRef::as_ref)) else {
        return "all".to_owned();
    };
    assert_eq!(answers.len(), events.len(), "one answer for each event");
    let letter = |answer: &Answer| match answer.outcome {
        Outcome::Delivered => 'd',
        Outcome::EventFailed => 'r',
        Outcome::EventRejected => 'e',
        other => panic!("{other}"),
    };
    answers.iter().map(letter).collect()
}

/// The events are 1, 2, 3 of source `a`, 3 of source `b`, and 4 twice.
#[test]
fn body_table() {
    let events = [
        r#"{"id":"1","source":"a"}"#,
        r#"{"source":"a","id":"2"}"#,
        r#"{"id":"3","source":"a"}"#,
        r#"{"id":"3","source":"b"}"#,
        r#"{"id":"4","source":"a"}"#,
        r#"{"id":"4","source":"a"}"#,
    ]
    .map(raw);
    let table = [
        ("empty", "", true, "all"),
        ("white space", " \r\n", true, "all"),
        ("text", "OK", true, "all"),
        ("a page", "<html>{</html>", true, "all"),
        ("an array", r#"[{"id":"1","status":"retry"}]"#, true, "rrrrrr"),
        ("a byte order mark", "\u{feff}{\"results\":[{\"id\":\"1\"}]}", true, "rddddd"),
        ("other text", "Größe", true, "all"),
        ("bytes of control", "\u{1f}OK", true, "rrrrrr"),
        ("another object", r#"{"ok":true}"#, true, "all"),
        ("no results", r#"{"results":[]}"#, true, "all"),
        ("null", r#"{"results":null}"#, true, "rrrrrr"),
        ("a result as an array", r#"{"results":[["1","a","end"]]}"#, true, "rrrrrr"),
        ("retry", r#"{"results":[{"id":"1","status":"retry"}]}"#, true, "rddddd"),
        ("end", r#"{"results":[{"id":"2","status":"end","reason":"bad"}]}"#, true, "dedddd"),
        (
            "delivered",
            r#" {"results":[{"id":"1","status":"delivered"},{"id":"2","status":"end"}],"more":1}"#,
            true,
            "dedddd",
        ),
        ("an escaped id", r#"{"results":[{"id":"\u0031","status":"retry"}]}"#, true, "rddddd"),
        ("no status", r#"{"results":[{"id":"1"}]}"#, true, "rddddd"),
        ("an unknown status", r#"{"results":[{"id":"1","status":"End"}]}"#, true, "rddddd"),
        ("a status of another type", r#"{"results":[{"id":"1","status":7}]}"#, true, "rddddd"),
        (
            "a reason of another type",
            r#"{"results":[{"id":"1","status":"end","reason":[]}]}"#,
            true,
            "eddddd",
        ),
        (
            "both",
            r#"{"results":[{"id":"1","status":"retry"},{"id":"1","status":"end"}]}"#,
            true,
            "rddddd",
        ),
        (
            "end before delivered",
            r#"{"results":[{"id":"1","status":"end"},{"id":"1","status":"delivered"}]}"#,
            true,
            "eddddd",
        ),
        (
            "with its source",
            r#"{"results":[{"id":"3","source":"b","status":"end"}]}"#,
            true,
            "dddedd",
        ),
        (
            "to retry an id of two sources",
            r#"{"results":[{"id":"3","status":"retry"}]}"#,
            true,
            "ddrrdd",
        ),
        (
            "to end an id of two sources",
            r#"{"results":[{"id":"3","status":"end"}]}"#,
            true,
            "ddrrdd",
        ),
        (
            "an id of two sources is delivered",
            r#"{"results":[{"id":"3","status":"delivered"}]}"#,
            true,
            "dddddd",
        ),
        ("the same event twice", r#"{"results":[{"id":"4","status":"end"}]}"#, true, "ddddee"),
        ("an unknown id", r#"{"results":[{"id":"9","status":"end"}]}"#, true, "rrrrrr"),
        (
            "an unknown id beside known ones",
            r#"{"results":[{"id":"9","status":"retry"},{"id":"1","status":"end"},{"id":"2","status":"delivered"}]}"#,
            true,
            "edrrrr",
        ),
        (
            "an unknown source",
            r#"{"results":[{"id":"1","source":"b","status":"end"}]}"#,
            true,
            "rrrrrr",
        ),
        ("an id of another type", r#"{"results":[{"id":1,"status":"end"}]}"#, true, "rrrrrr"),
        ("a text instead of a result", r#"{"results":["1"]}"#, true, "rrrrrr"),
        ("results of another type", r#"{"results":{"id":"1"}}"#, true, "rrrrrr"),
        ("broken", r#"{"results":[{"id":"1","status":"end"}"#, true, "rrrrrr"),
        ("more after it", r#"{"results":[]} {"#, true, "rrrrrr"),
        ("named twice", r#"{"results":[],"results":[{"id":"1"}]}"#, true, "rrrrrr"),
        ("cut", r#"{"results":[{"id":"1","status":"end"}]}"#, false, "rrrrrr"),
        ("cut before its first byte", "", false, "rrrrrr"),
        ("a long page", "<html>", false, "all"),
    ];
    for (row, body, is_whole, want) in table {
        assert_eq!(read_all(body, is_whole, &events), want, "{row}: {body}");
    }
}

/// A compressed body is not even read.
#[test]
fn bytes_that_are_no_text_ask_for_a_retry() {
    let event = raw(r#"{"id":"1"}"#);
    let accepted = Answer::of_status(200, None);
    for bytes in [&b"\x1f\x8b\x08\x00"[..], b"\x28\xb5\x2f\xfd\x04", b"\x8b\x07\x80"] {
        let body = ResponseBody { bytes: bytes.to_vec(), is_whole: true };
        let answers = read(&body, accepted, [&*event].into_iter()).expect("not all delivered");
        assert_eq!(answers[0].outcome, Outcome::EventFailed, "{bytes:?}");
    }
}

#[test]
fn the_status_and_the_wait_that_was_asked_for_are_kept() {
    let body = br#"{"results":[{"id":"1","status":"retry"}]}"#.to_vec();
    let wait = Some(std::time::Duration::from_secs(7));
    let accepted = Answer::of_status(202, wait);
    let event = raw(r#"{"id":"1"}"#);
    let answers =
        read(&ResponseBody { bytes: body, is_whole: true }, accepted, [&*event].into_iter());
    let want = Answer { outcome: Outcome::EventFailed, status: Some(202), retry_after: wait };
    assert_eq!(answers, Some(vec![want]));
}

/// With as many results as fit, each event is visited twice at most: by id, and by id and source.
#[test]
fn events_are_visited_once_for_each_name() {
    const EVENTS: usize = 5_000;
    let event = |number: usize| raw(&format!(r#"{{"id":"7","source":"s{}"}}"#, number % 100));
    let events: Vec<_> = (0..EVENTS).map(event).collect();
    let index = Index::of(events.iter().map(AsRef::as_ref));
    let result = |number: usize| match number % 3 {
        0 => raw(r#"{"id":"7","status":"end"}"#),
        1 => raw(&format!(r#"{{"id":"7","source":"s{}","status":"end"}}"#, number % 100)),
        _ => raw(&format!(r#"{{"id":"7","source":"s{}"}}"#, number % 200)),
    };
    let results: Vec<_> = (0..100_000).map(result).collect();
    let results: Vec<_> = results.iter().map(AsRef::as_ref).collect();
    let said = WishesByName::by(&results);
    assert_eq!(said.by_name.len(), 201, "one for each name");
    let visits: usize =
        said.by_name.keys().flat_map(|name| index.named(name)).map(<[usize]>::len).sum();
    assert_eq!(visits, 2 * EVENTS);
    let wishes = apply(&results, events.iter().map(AsRef::as_ref));
    assert_eq!(wishes, vec![Wish::Retry; EVENTS]);
}

proptest! {
    /// Whatever a body says, only a result that names an event ends it.
    #[test]
    fn no_event_ends_unnamed(body in ".{0,60}|\\{\"results\":.{0,60}\\}", is_whole: bool) {
        let events = [r#"{"id":"seven"}"#, r#"{"id":"eight"}"#].map(raw);
        let said = read_all(&body, is_whole, &events);
        prop_assert!(!said.contains('e') || body.contains("end"), "{said}");
    }
}

use proptest::prelude::*;

use super::*;
use crate::topic::Idempotency;

const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_000);

const WINDOW_S: u32 = 300;

fn topic() -> Topic {
    let idempotency = Some(Idempotency { window_in_seconds: WINDOW_S });
    Topic { idempotency, ..crate::fixtures::topic() }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), value.parse().expect("a value"))
    };
    pairs.iter().map(pair).collect()
}

fn keyed(pairs: &[(&'static str, &str)], body: &str) -> Keyed {
    Keyed::of(&topic(), &headers(pairs), body.as_bytes()).expect("usable").expect("a key")
}

fn one() -> Keyed {
    keyed(&[("idempotency-key", "k")], "[1]")
}

fn by(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn begun() -> Record {
    match one().next(None, by(1), NOW, Pace::REAL) {
        Ok(Next::Begin(record)) => Record { revision: 1, ..record },
        other => panic!("{other:?}"),
    }
}

fn after(millis: u64) -> Timestamp {
    NOW + Duration::from_millis(millis)
}

#[test]
fn keys_are_heeded_where_the_topic_asks_for_it() {
    let (plain, key) = (crate::fixtures::topic(), headers(&[("idempotency-key", "k")]));
    assert_eq!(Keyed::of(&plain, &key, b"[]").expect("no key is looked at"), None);
    assert_eq!(Keyed::of(&topic(), &HeaderMap::new(), b"[]").expect("fine"), None);
    let other = Topic { created_at: after(1), ..topic() };
    let other = Keyed::of(&other, &key, b"[]").expect("usable").expect("a key");
    assert_ne!(other.key, keyed(&[("idempotency-key", "k")], "[]").key, "created again");
}

#[test]
fn the_key_is_in_either_header_and_its_own_goes_first() {
    let key = |pairs: &[(&'static str, &str)]| keyed(pairs, "[]").key;
    let (own, azures) = (("idempotency-key", "k"), ("x-ms-client-request-id", "k"));
    assert_ne!(key(&[own]), key(&[azures]));
    assert_eq!(key(&[own, ("x-ms-client-request-id", "other")]), key(&[own]));
    assert_eq!(key(&[own]).as_str().len(), 43, "a hash, whatever the key");
    assert_eq!(key(&[(own.0, &"k".repeat(KEY_CHARS_MAX))]).as_str().len(), 43);
}

#[test]
fn an_unusable_key_is_refused() {
    let longer = "k".repeat(KEY_CHARS_MAX + 1);
    for (header, value) in [
        ("idempotency-key", ""),
        ("idempotency-key", longer.as_str()),
        ("idempotency-key", "tab\there"),
        ("x-ms-client-request-id", "é"),
    ] {
        let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
        let headers = HeaderMap::from_iter([(HeaderName::from_static(header), value)]);
        let refused = Keyed::of(&topic(), &headers, b"[]").expect_err(header);
        assert_eq!((refused.status(), refused.detail()), (400, "IdempotencyKeyInvalid"));
        assert!(refused.to_string().contains(header), "{refused}");
    }
}

#[test]
fn content_is_the_body_and_the_attributes_of_a_binary_event() {
    let content = |pairs: &[(&'static str, &str)], body: &str| {
        super::content(&headers(pairs), body.as_bytes())
    };
    let (a, b) = (("ce-id", "1"), ("ce-type", "T"));
    let text = ("content-type", "text/plain");
    assert_eq!(content(&[a, b, text], "x"), content(&[text, b, a], "x"));
    assert_eq!(content(&[("traceparent", "1")], "x"), content(&[("traceparent", "2")], "x"));
    assert_eq!(content(&[text], "x"), content(&[], "x"), "it is no attribute there");
    let different = [
        content(&[a, b, text], "x"),
        content(&[a, b], "x"),
        content(&[a], "x"),
        content(&[("ce-id", "2")], "x"),
        content(&[], "x"),
        content(&[], "y"),
        content(&[], ""),
    ];
    for (index, one) in different.iter().enumerate() {
        assert!(!different[..index].contains(one), "{index}");
    }
}

#[test]
fn what_follows_is_a_table() {
    let (begun, other) = (begun(), keyed(&[("idempotency-key", "k")], "[2]"));
    let done = begun.clone().done();
    let given_up = begun.clone().given_up(after(500));
    let lease = u64::try_from(LEASE.as_millis()).expect("short");
    let window = u64::from(WINDOW_S) * 1_000;
    // Who, stored record, time, by which request; result.
    let table = [
        ("done", one(), &done, 1, 2, "repeated"),
        ("done, at the end of the window", one(), &done, window - 1, 2, "repeated"),
        ("done, after the window", one(), &done, window, 2, "begin new at 1"),
        ("other content", other.clone(), &done, 1, 2, "IdempotencyKeyReused"),
        ("other content, under way", other.clone(), &begun, 1, 2, "IdempotencyKeyReused"),
        ("other content, dead", other.clone(), &begun, lease, 2, "IdempotencyKeyReused"),
        ("other content, after the window", other, &done, window, 2, "begin new at 1"),
        ("under way", one(), &begun, 0, 2, "wait 1"),
        ("under way for longer than usual", one(), &begun, 2_000, 2, "wait 33"),
        ("under way, a part of a second", one(), &begun, lease - 10_500, 2, "wait 11"),
        ("under way, nearly dead", one(), &begun, lease - 1, 2, "wait 1"),
        ("dead", one(), &begun, lease, 2, "begin again at 1"),
        ("given up", one(), &given_up, 500, 2, "begin again at 1"),
        ("its own", one(), &begun, 500, 1, "begun"),
    ];
    for (name, keyed, stored, at, request, want) in table {
        let got = match keyed.next(Some(stored), by(request), after(at), Pace::REAL) {
            Ok(Next::Repeated) => "repeated".to_owned(),
            Ok(Next::Begun(record)) if record == *stored => "begun".to_owned(),
            Ok(Next::Begin(record)) => {
                assert_eq!((record.by, record.content), (by(request), keyed.content), "{name}");
                assert_eq!(record.until, after(at) + Duration::from_secs(300), "{name}");
                let again = if record.publish == stored.publish { "again" } else { "new" };
                format!("begin {again} at {}", record.revision)
            }
            Err(PublishError::UnderWay { retry_after_s }) => format!("wait {retry_after_s}"),
            Err(error) => error.detail().to_owned(),
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn a_lease_lasts_as_long_on_the_machine_by_a_fast_clock() {
    let pace = Pace::times(600);
    let begun = match one().next(None, by(1), NOW, pace) {
        Ok(Next::Begin(record)) => Record { revision: 1, ..record },
        other => panic!("{other:?}"),
    };
    for (real_ms, want) in [(0, Some(1)), (2_001, Some(33)), (34_999, Some(1)), (35_000, None)] {
        let at = NOW + pace.to_clock(Duration::from_millis(real_ms));
        let got = match one().next(Some(&begun), by(2), at, pace) {
            Ok(Next::Begin(_)) => None,
            Err(PublishError::UnderWay { retry_after_s }) => Some(retry_after_s),
            other => panic!("{other:?}"),
        };
        assert_eq!(got, want, "after {real_ms} ms");
    }
}

#[test]
fn three_repetitions_of_an_sdk_reach_past_the_lease() {
    let begun = begun();
    let mut at = after(100);
    for _ in 0..3 {
        match one().next(Some(&begun), by(2), at, Pace::REAL) {
            Err(PublishError::UnderWay { retry_after_s }) => {
                at = at + Duration::from_secs(retry_after_s.into());
            }
            other => panic!("{at:?}: {other:?}"),
        }
    }
    assert!(
        matches!(one().next(Some(&begun), by(2), at, Pace::REAL), Ok(Next::Begin(_))),
        "{at:?}"
    );
}

#[test]
fn ids_are_the_same_while_nothing_has_changed() {
    let record = begun();
    let revision = |number| Revision { created_at: NOW, number };
    let id = record.publish_id(revision(1), NOW);
    assert_eq!(record.clone().done().publish_id(revision(1), after(59 * 60_000)), id);
    assert_ne!(record.publish_id(revision(2), NOW), id);
    assert_ne!(record.publish_id(revision(1), after(60 * 60_000)), id);
    let other = Record { publish: by(7), ..record };
    assert_ne!(other.publish_id(revision(1), NOW), id);
    let events = [one().event_id(0), one().event_id(1)];
    assert_eq!(events, [one().event_id(0), one().event_id(1)]);
    assert_ne!(events[0], events[1]);
}

/// A step of a copy of ingest.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Decides, and writes if nothing came in between.
    Ask {
        by: u128,
    },
    /// Enqueues, if it has begun.
    Enqueue {
        by: u128,
    },
    /// Records that.
    Finish {
        by: u128,
    },
    Die {
        by: u128,
    },
    Wait {
        millis: u64,
    },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (1..6_u128).prop_map(|by| Act::Ask { by }),
        3 => (1..6_u128).prop_map(|by| Act::Enqueue { by }),
        2 => (1..6_u128).prop_map(|by| Act::Finish { by }),
        1 => (1..6_u128).prop_map(|by| Act::Die { by }),
        1 => (1..40_000_u64).prop_map(|millis| Act::Wait { millis }),
    ]
}

proptest! {
    /// In any order of steps, a publish is answered only after it was enqueued, and
    /// enqueued again only after a lease or the window has passed.
    #[test]
    fn what_is_answered_was_enqueued(acts in prop::collection::vec(act(), 1..60)) {
        let (keyed, mut now) = (one(), NOW);
        let mut stored: Option<Record> = None;
        let mut held: std::collections::BTreeMap<u128, (Record, bool)> = Default::default();
        let (mut enqueued, mut leases_passed, mut number) = (0_u32, 0_u32, 100_u128);
        for act in acts {
            match act {
                Act::Wait { millis } => now = now + Duration::from_millis(millis),
                Act::Die { by } => drop(held.remove(&by)),
                Act::Ask { by } if !held.contains_key(&by) => {
                    number += 1;
                    match keyed.next(stored.as_ref(), Uuid::from_u128(number), now, Pace::REAL) {
                        Ok(Next::Begin(record)) => {
                            if let Some(before) = &stored {
                                let is_dead = match before.standing {
                                    PublishProgress::Begun { lease_until } => lease_until <= now,
                                    PublishProgress::Done => false,
                                };
                                prop_assert!(is_dead || before.until <= now, "{before:?} at {now:?}");
                                leases_passed += 1;
                            }
                            let record = Record { revision: record.revision + 1, ..record };
                            stored = Some(record.clone());
                            held.insert(by, (record, false));
                        }
                        Ok(Next::Repeated) => prop_assert!(enqueued > 0, "answered without it"),
                        Ok(Next::Begun(record)) => prop_assert!(false, "not its own: {record:?}"),
                        Err(PublishError::UnderWay { .. }) => {}
                        Err(error) => prop_assert!(false, "{error}"),
                    }
                }
                Act::Enqueue { by } => {
                    if let Some((_, sent)) = held.get_mut(&by).filter(|(_, sent)| !*sent) {
                        *sent = true;
                        enqueued += 1;
                    }
                }
                Act::Finish { by } => {
                    let Some((record, true)) = held.get(&by).cloned() else { continue };
                    held.remove(&by);
                    let is_mine = |it: &Record| it.revision == record.revision;
                    if stored.as_ref().is_some_and(is_mine) {
                        let revision = record.revision + 1;
                        stored = Some(Record { revision, ..record.done() });
                    }
                }
                Act::Ask { .. } => {}
            }
            prop_assert!(enqueued <= 1 + leases_passed, "{enqueued} after {leases_passed} leases");
        }
    }
}

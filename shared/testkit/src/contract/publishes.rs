//! Records of publishes that came with a key.

use std::time::Duration;

use gridpost_core::{
    publish::idempotency::{Keyed, Next, Record, RecordKey},
    time::{Pace, Timestamp},
    topic::{Idempotency, Topic},
};
use gridpost_ports::{Kept, PublishRecords};
use http::{HeaderMap, HeaderValue};
use uuid::Uuid;

use crate::fixtures;

/// A publish under that key at that time, whose window lasts for a day.
pub fn keyed(key: &str, at: Timestamp) -> (RecordKey, Record) {
    let idempotency = Some(Idempotency { window_in_seconds: 86_400 });
    let topic = Topic { idempotency, ..fixtures::topic() };
    let value = HeaderValue::from_str(key).expect("a value");
    let headers = HeaderMap::from_iter([(http::HeaderName::from_static("idempotency-key"), value)]);
    let keyed = Keyed::of(&topic, &headers, b"[]").expect("usable").expect("a key");
    match keyed.next(None, Uuid::from_u128(1), at, Pace::REAL) {
        Ok(Next::Begin(record)) => (keyed.key().clone(), record),
        other => panic!("{other:?}"),
    }
}

async fn save(records: &impl PublishRecords, key: &RecordKey, record: &Record) -> Kept {
    records.save(key, record).await.expect("an answer")
}

/// With an empty fixture: a record is written under its revision, and a write under another one answers
/// with what is stored, whole.
pub async fn a_record_is_written_under_its_revision<T: PublishRecords>(
    records: &T,
    now: Timestamp,
) {
    let ((key, first), (other, _)) = (keyed("one", now), keyed("other", now));
    let later = Record { revision: 1, ..first.clone() };
    assert_eq!(save(records, &key, &later).await, Kept::Other(None), "nothing was there");
    assert_eq!(save(records, &key, &first).await, Kept::Written);
    for revision in [0, 2] {
        let by = Uuid::from_u128(9);
        let late = Record { revision, by, ..first.clone().done() };
        let kept = save(records, &key, &late).await;
        assert_eq!(kept, Kept::Other(Some(later.clone())), "revision {revision}");
    }
    let done = later.done();
    assert_eq!(save(records, &key, &done).await, Kept::Written);
    let stored = Record { revision: 2, ..done };
    assert_eq!(save(records, &key, &first).await, Kept::Other(Some(stored)));
    assert_eq!(save(records, &other, &first).await, Kept::Written, "another key");
}

/// With an empty fixture: of several copies that begin at the same moment, one has begun.
pub async fn one_of_those_that_begin_at_once_has_begun<T: PublishRecords>(
    records: &T,
    now: Timestamp,
) {
    let (key, record) = keyed("race", now);
    let tries = [1, 2, 3, 4].map(|by| Record { by: Uuid::from_u128(by), ..record.clone() });
    let [a, b, c, d] = &tries;
    let (a, b, c, d) = tokio::join!(
        save(records, &key, a),
        save(records, &key, b),
        save(records, &key, c),
        save(records, &key, d),
    );
    let all = [a, b, c, d];
    let winner = all.iter().position(|kept| *kept == Kept::Written).expect("one has begun");
    let stored = Record { revision: 1, ..tries[winner].clone() };
    for (number, kept) in all.into_iter().enumerate().filter(|(number, _)| *number != winner) {
        assert_eq!(kept, Kept::Other(Some(stored.clone())), "{number}");
    }
}

/// A record that has long expired is gone, or is answered so that it can be replaced. `expire` lets
/// two days pass.
pub async fn what_has_expired_can_be_replaced<T: PublishRecords>(
    records: &T,
    now: Timestamp,
    expire: impl AsyncFnOnce(),
) {
    let (key, record) = keyed("old", now);
    assert_eq!(save(records, &key, &record).await, Kept::Written);
    expire().await;
    let at = record.until + Duration::from_secs(2 * 24 * 60 * 60);
    let (_, next) = keyed("old", at);
    let replaced = match save(records, &key, &next).await {
        Kept::Other(Some(stored)) => {
            assert!(stored.until <= at, "{stored:?}");
            let over = Record { revision: stored.revision, ..next.clone() };
            match save(records, &key, &over).await {
                // It was cleaned away meanwhile.
                Kept::Other(None) => save(records, &key, &next).await,
                kept => kept,
            }
        }
        kept => kept,
    };
    assert_eq!(replaced, Kept::Written);
}

/// With a fixture whose table refuses every call, that is an error: mistaken for a record, it would answer
/// for a publish that was never made.
pub async fn a_table_that_refuses_records_nothing<T: PublishRecords>(records: &T) {
    let (key, record) = keyed("one", Timestamp::from_millis(60_000));
    for record in [record.clone(), Record { revision: 1, ..record }] {
        let kept = records.save(&key, &record).await;
        assert!(kept.is_err(), "{kept:?}");
    }
}

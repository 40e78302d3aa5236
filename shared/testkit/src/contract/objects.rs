//! Dead letters and payloads.

use gridpost_core::{
    delivery::{
        claim,
        dead_letter::{Labels, Origin},
    },
    event::DeliverySchema,
};
use gridpost_ports::{Bucket, BucketError, DeadLetters, Payloads, PortError};
use uuid::Uuid;

use super::{BUCKET, key};

async fn put<T: Bucket>(buckets: &T) -> Result<(), BucketError> {
    store(buckets, "k", &Labels::default(), 0).await
}

/// Stores a dead letter with that name and body size, not counting its brackets.
async fn store<T: Bucket>(
    buckets: &T,
    name: &str,
    labels: &Labels,
    spaces: usize,
) -> Result<(), BucketError> {
    buckets.put(BUCKET, name, labels, body(spaces)).await
}

/// An empty list with `spaces` bytes between its brackets.
fn body(spaces: usize) -> Vec<u8> {
    format!("[{}]", " ".repeat(spaces)).into_bytes()
}

fn origin() -> Origin {
    Origin { subscription: key(), schema: DeliverySchema::CloudEventSchemaV1_0 }
}

async fn names<T: DeadLetters>(buckets: &T, prefix: &str, after: Option<&str>) -> Vec<String> {
    let listed = buckets.list(BUCKET, prefix, after).await.expect("a list");
    listed.into_iter().map(|object| object.name).collect()
}

/// With a fixture with an empty bucket: objects are listed by the bytes of their names, read with their
/// labels, replaced, and deleted.
pub async fn dead_letters_are_listed_by_name<T: Bucket + DeadLetters>(buckets: &T) {
    // A hyphen comes before a slash, and that before a digit.
    let all = ["T/S-1/a.json", "T/S/10/b.json", "T/S/9/c.json", "T/S0/d.json", "U/S/e.json"];
    assert!(names(buckets, "", None).await.is_empty());
    for (number, name) in all.iter().enumerate().rev() {
        store(buckets, name, &origin().labels(), number).await.expect("stored");
    }
    let table: [(&str, Option<&str>, &[&str]); 8] = [
        ("", None, &all),
        ("T/S/", None, &all[1..3]),
        ("T/S", None, &all[..4]),
        ("T/S/1", None, &all[1..2]),
        ("T/S/", Some("T/S/10/b.json"), &all[2..3]),
        ("T/", Some("T/S/5"), &all[2..4]),
        ("", Some("T/S0"), &all[3..]),
        ("V", None, &[]),
    ];
    for (prefix, after, want) in table {
        assert_eq!(names(buckets, prefix, after).await, want, "{prefix} {after:?}");
    }
    let listed = buckets.list(BUCKET, "U", None).await.expect("a list");
    assert_eq!((listed.len(), listed[0].bytes), (1, 6));
    assert_eq!(listed[0].written_at.as_millis() % 1_000, 0, "in whole seconds");
    let get = async |name: &str| buckets.get(BUCKET, name).await.expect("readable");
    assert_eq!(get(all[3]).await, Some((body(3), Some(origin()))));
    store(buckets, all[3], &Labels::default(), 9).await.expect("stored in its place");
    assert_eq!(get(all[3]).await, Some((body(9), None)), "its labels are those of the last");
    for name in all {
        for _ in 0..2 {
            buckets.delete(BUCKET, name).await.expect("deleted, or gone already");
        }
        assert_eq!(get(name).await, None);
    }
    assert!(names(buckets, "", None).await.is_empty());
}

/// With the same fixture: names that look like paths, escapes or addresses lead nowhere else.
pub async fn a_name_is_no_path<T: Bucket + DeadLetters>(buckets: &T) {
    let all =
        ["../other/S/a.json", "./S/b.json", "/S//c.json", "50%\\:/d.json", "a b+c?d#e&ü=.json"];
    assert!(all.is_sorted());
    for (number, name) in all.iter().enumerate() {
        store(buckets, name, &origin().labels(), number).await.expect("stored");
    }
    assert_eq!(names(buckets, "", None).await, all);
    assert_eq!(names(buckets, "../", None).await, all[..1]);
    assert_eq!(names(buckets, "", Some("./S/b.json")).await, all[2..]);
    for (number, name) in all.iter().enumerate() {
        let got = buckets.get(BUCKET, name).await.expect("readable");
        assert_eq!(got, Some((body(number), Some(origin()))), "{name}");
        buckets.delete(BUCKET, name).await.expect("deleted");
    }
    assert!(names(buckets, "", None).await.is_empty());
}

/// With the same fixture: a list has at most a thousand names, and continues after the last of them.
pub async fn a_list_has_a_thousand_names_at_most<T: Bucket + DeadLetters>(buckets: &T) {
    for number in 0..1_001 {
        store(buckets, &format!("n/{number:04}"), &Labels::default(), 0).await.expect("stored");
    }
    let first = names(buckets, "n/", None).await;
    assert_eq!((first.len(), first[999].as_str()), (1_000, "n/0999"));
    assert_eq!(names(buckets, "n/", Some("n/0999")).await, ["n/1000"]);
    assert!(names(buckets, "n/", Some("n/1000")).await.is_empty());
}

/// A payload is found under its name, as last stored, with any bytes.
pub async fn payloads_are_found_by_name(payloads: &dyn Payloads) {
    let (one, other) = (claim::key(Uuid::from_u128(7)), claim::key(Uuid::from_u128(8)));
    assert_eq!(payloads.get(&one).await.expect("readable"), None);
    let all_bytes: Vec<_> = (0..300_000_u32).map(|number| (number % 256) as u8).collect();
    for object in [all_bytes, vec![2], Vec::new()] {
        payloads.put(&one, object.clone()).await.expect("stored");
        assert_eq!(payloads.get(&one).await.expect("readable"), Some(object));
        assert_eq!(payloads.get(&other).await.expect("readable"), None);
    }
}

/// With a fixture without the bucket, a write reports that: its events are dropped at once.
pub async fn a_missing_bucket_is_not_found<T: Bucket + DeadLetters>(buckets: &T) {
    let answer = put(buckets).await;
    assert!(matches!(answer, Err(BucketError::NotFound)), "{answer:?}");
    let answer = buckets.list(BUCKET, "p", None).await;
    assert!(matches!(answer, Err(BucketError::NotFound)), "{answer:?}");
}

/// With a fixture whose bucket refuses, calls report a retryable failure, and nothing counts as stored,
/// missing or deleted.
pub async fn a_bucket_that_refuses_is_unavailable<T: Bucket + DeadLetters>(buckets: &T) {
    let unavailable = |answer: Result<(), BucketError>, what: &str| {
        assert!(matches!(answer, Err(BucketError::Unavailable(_))), "{what}: {answer:?}");
    };
    unavailable(put(buckets).await, "writing");
    unavailable(buckets.list(BUCKET, "p", None).await.map(drop), "listing");
    unavailable(buckets.get(BUCKET, "k").await.map(drop), "reading");
    unavailable(buckets.delete(BUCKET, "k").await, "deleting");
}

/// With a fixture where the payload bucket lacks the object, reading finds nothing, without an error.
pub async fn an_object_that_is_not_there_is_none(payloads: &dyn Payloads) {
    assert_eq!(payloads.get("deliveries/7").await.expect("it is readable"), None);
}

/// With a fixture whose payload bucket refuses, reading is an error: if the object counted as missing,
/// its events would be dropped.
pub async fn an_object_that_is_refused_is_an_error(payloads: &dyn Payloads) {
    let read: Result<_, PortError> = payloads.get("deliveries/7").await;
    assert!(read.is_err(), "{read:?}");
    assert!(payloads.put("deliveries/7", vec![1]).await.is_err(), "it is not stored");
}

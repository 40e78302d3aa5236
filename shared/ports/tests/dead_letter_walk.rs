//! Walks through a bucket with pages of three objects.
//!
//! Not a unit test, because testkit's bucket depends on the finished crate.

use std::sync::Arc;

use async_trait::async_trait;
use gridpost_core::{
    delivery::{
        dead_letter::{Origin, position::Position},
        redrive::RedriveFilter,
    },
    event::DeliverySchema,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{
    BucketError, DeadLetters, Listed, PortError,
    dead_letter_walk::{Item, Source, Walk},
};
use gridpost_testkit::{
    bucket::{Buckets, DELETE, GET, LIST, Object},
    deployment::Deployment,
};
use uuid::Uuid;

const BUCKET: &str = "b";

/// Objects are written at half past.
fn written_at(name: &str) -> Timestamp {
    let parts: Vec<i64> = name.split('/').filter_map(|part| part.parse().ok()).collect();
    let [year, month, day, hour] = parts.as_slice() else { return Timestamp::default() };
    Timestamp::parse_rfc_3339(&format!("{year}-{month:02}-{day:02}T{hour:02}:30:00Z"))
        .expect("a time")
}

fn put(buckets: &Buckets, name: &str, body: Vec<u8>, origin: Option<Origin>) {
    buckets.insert(BUCKET, name, Object { body, origin, written_at: written_at(name) });
}

fn key(topic: &str) -> SubscriptionKey {
    SubscriptionKey { topic: topic.to_owned(), name: "s".to_owned() }
}

fn source() -> Source {
    let schema = DeliverySchema::EventGridSchema;
    Source { subscription: key("t"), bucket: BUCKET.to_owned(), folder: "p/S".to_owned(), schema }
}

fn object(ids: &[String]) -> Vec<u8> {
    let record = |id: &String| {
        format!(
            r#"{{"id":"{id}","deadLetterReason":"R","publishTime":"2026-01-01T00:00:00Z","deliveryAttempts":1}}"#
        )
    };
    format!("[{}]", ids.iter().map(record).collect::<Vec<_>>().join(",")).into_bytes()
}

/// Two letters in each of four objects in each hour, among others.
fn filled(hours: &[&str]) -> Arc<Buckets> {
    let buckets = Deployment::at(Timestamp::default()).buckets;
    buckets.settings().page_max = 3;
    let mut id = 0;
    for hour in hours {
        for number in 0..4 {
            let name = format!("p/S/{hour}/{}.json", Uuid::from_u128(number + 1));
            let ids = [format!("{}", id), format!("{}", id + 1)];
            id += 2;
            let labels = Origin { subscription: key("t"), schema: DeliverySchema::EventGridSchema };
            let labels = (number % 2 == 0).then_some(labels);
            put(&buckets, &name, object(&ids), labels);
        }
        let name = format!("p/S/{hour}/{}.json", Uuid::from_u128(9));
        let other = Origin { subscription: key("u"), schema: DeliverySchema::EventGridSchema };
        put(&buckets, &name, object(&["other".to_owned()]), Some(other));
        put(&buckets, &format!("p/S/{hour}/notes.txt"), Vec::new(), None);
    }
    buckets
}

async fn walked(
    buckets: &dyn DeadLetters,
    wanted: &RedriveFilter,
    from: Option<Position>,
) -> Vec<Item> {
    let source = source();
    let mut walk = Walk::from(buckets, &source, wanted, from);
    let mut found = Vec::new();
    while let Some(item) = walk.next().await.expect("no call fails") {
        found.push(item);
    }
    found
}

fn ids(items: &[Item]) -> Vec<u64> {
    let id = |item: &Item| {
        let found = item.found.as_ref().expect("a letter");
        found.letter.event_id.parse().expect("a number")
    };
    items.iter().map(id).collect()
}

#[tokio::test(start_paused = true)]
async fn every_letter_is_found_once_from_wherever_the_walk_begins() {
    let buckets = filled(&["2026/1/9/8", "2026/1/10/8", "2026/2/1/0"]);
    let all = walked(&*buckets, &RedriveFilter::default(), None).await;
    let mut sorted = ids(&all);
    sorted.sort_unstable();
    assert_eq!(sorted, (0..24).collect::<Vec<_>>());
    for (index, item) in all.iter().enumerate() {
        let from_here = walked(&*buckets, &RedriveFilter::default(), Some(item.position)).await;
        assert_eq!(ids(&from_here), ids(&all[index..]));
        let behind = walked(&*buckets, &RedriveFilter::default(), Some(item.next())).await;
        assert_eq!(ids(&behind), ids(&all[index + 1..]));
        assert_eq!(item.is_last, item.position.index == 1);
    }
}

#[tokio::test(start_paused = true)]
async fn other_hours_are_neither_listed_nor_read() {
    let hours: Vec<_> = (1..=28).map(|day| format!("2026/1/{day}/8")).collect();
    let hours: Vec<_> = hours.iter().map(String::as_str).collect();
    let buckets = filled(&hours);
    let at = |text: &str| Timestamp::parse_rfc_3339(text);
    let wanted = RedriveFilter {
        from: at("2026-01-20T08:30:00Z"),
        to: at("2026-01-21T08:29:59Z"),
        ..RedriveFilter::default()
    };
    let found = walked(&*buckets, &wanted, None).await;
    assert_eq!(ids(&found), (19 * 8..20 * 8).collect::<Vec<_>>());
    assert_eq!(buckets.calls(GET).len(), 5, "those of one day");
    // At most one for each skipped day, and those of two days.
    let lists = buckets.calls(LIST).len();
    assert!(lists <= 34, "{lists}");
    assert_eq!(buckets.calls(DELETE).len(), 0, "a walk deletes nothing");
}

#[tokio::test(start_paused = true)]
async fn what_can_t_be_read_has_a_place_and_holds_up_nothing() {
    let buckets = filled(&["2026/1/9/8"]);
    let name = format!("p/S/2026/1/9/8/{}.json", Uuid::from_u128(1));
    put(&buckets, &name, b"[{".to_vec(), None);
    let all = walked(&*buckets, &RedriveFilter::default(), None).await;
    assert_eq!(all.len(), 7);
    assert!(all[0].found.as_ref().is_err_and(|why| why.contains("can't be read")));
    assert_eq!(ids(&all[1..]), [2, 3, 4, 5, 6, 7]);
    buckets.settings().unreadable.insert(name);
    let source = source();
    let wanted = RedriveFilter::default();
    let mut walk = Walk::from(&*buckets, &source, &wanted, None);
    assert!(walk.next().await.is_err(), "a call that fails is no letter");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_takes_no_other_along_and_is_met_again() {
    let buckets = filled(&["2026/1/9/8"]);
    let name = format!("p/S/2026/1/9/8/{}.json", Uuid::from_u128(2));
    buckets.settings().unreadable.insert(name.clone());
    let (source, wanted) = (source(), RedriveFilter::default());
    let mut walk = Walk::from(&*buckets, &source, &wanted, None);
    let mut found = Vec::new();
    for _ in 0..2 {
        found.push(walk.next().await.expect("before the failure").expect("a letter"));
    }
    assert_eq!(ids(&found), [0, 1]);
    for _ in 0..2 {
        assert!(walk.next().await.is_err(), "it is not passed over");
    }
    buckets.settings().unreadable.clear();
    while let Some(item) = walk.next().await.expect("no call fails") {
        found.push(item);
    }
    assert_eq!(ids(&found), (0..8).collect::<Vec<_>>());
}

/// A bucket with an object that is removed after it was listed, or unreadable.
struct Odd {
    buckets: Arc<Buckets>,
    name: String,
    is_archived: bool,
}

impl Odd {
    fn new(is_archived: bool) -> Self {
        let name = format!("p/S/2026/1/9/8/{}.json", Uuid::from_u128(2));
        Self { buckets: filled(&["2026/1/9/8"]), name, is_archived }
    }
}

#[async_trait]
impl DeadLetters for Odd {
    async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<Listed>, BucketError> {
        self.buckets.list(bucket, prefix, after).await
    }

    async fn get(
        &self,
        bucket: &str,
        name: &str,
    ) -> Result<Option<(Vec<u8>, Option<Origin>)>, BucketError> {
        match (name == self.name, self.is_archived) {
            (false, _) => self.buckets.get(bucket, name).await,
            (true, false) => Ok(None),
            (true, true) => {
                Err(BucketError::Unreadable(PortError::new("s3:GetObject", "InvalidObjectState")))
            }
        }
    }

    async fn delete(&self, bucket: &str, name: &str) -> Result<(), BucketError> {
        self.buckets.delete(bucket, name).await
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_removed_while_it_is_listed_holds_up_nothing() {
    let found = walked(&Odd::new(false), &RedriveFilter::default(), None).await;
    assert_eq!(ids(&found), [0, 1, 4, 5, 6, 7]);
}

#[tokio::test(start_paused = true)]
async fn an_archived_object_holds_up_nothing() {
    let found = walked(&Odd::new(true), &RedriveFilter::default(), None).await;
    let (found, unreadable): (Vec<_>, Vec<_>) = found.into_iter().partition(|it| it.found.is_ok());
    assert_eq!(ids(&found), [0, 1, 4, 5, 6, 7]);
    let why: Vec<_> = unreadable.into_iter().filter_map(|it| it.found.err()).collect();
    assert_eq!(why, ["s3:GetObject failed: InvalidObjectState"]);
}

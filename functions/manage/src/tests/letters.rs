//! Dead letters of the event subscription `s-1` of `demo`.

use gridpost_core::{
    delivery::dead_letter::{Origin, position::Position},
    event::DeliverySchema,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_testkit::{bucket::Object, deployment::Deployment};
use uuid::Uuid;

use super::NOW;

/// The bucket that they are in.
pub(super) const BUCKET: &str = "letters";

/// A deployment whose lists have pages of three objects.
pub(super) fn deployment() -> Deployment {
    let deployment = Deployment::at(NOW);
    deployment.buckets.settings().page_max = 3;
    deployment
}

/// An object of `s-1` of `demo` that was written so many hours ago.
fn name(number: u128, hours_ago: i64) -> String {
    let at = Timestamp::from_millis(NOW.as_millis() - hours_ago * 3_600_000).utc();
    let (year, month, day, hour) = (at.year(), u8::from(at.month()), at.day(), at.hour());
    format!("dead/S-1/{year}/{month}/{day}/{hour}/{}.json", Uuid::from_u128(number))
}

/// A record of Event Grid's form.
pub(super) fn record(id: u64, event_type: &str, reason: &str) -> String {
    format!(
        r#"{{"id":"{id}","eventType":"{event_type}","n":1.50,"data":"confidential","deadLetterReason":"{reason}","deliveryAttempts":2,"lastDeliveryOutcome":"Busy","lastHttpStatusCode":503,"publishTime":"2026-11-20T08:00:00.000Z"}}"#
    )
}

/// Stores records as an object that was written so many hours ago.
pub(super) fn store(fixture: &Deployment, number: u128, hours_ago: i64, records: &[String]) {
    store_at(fixture, number, (hours_ago, 0), records);
}

/// The same, so many minutes behind that.
pub(super) fn store_at(fixture: &Deployment, number: u128, at: (i64, i64), records: &[String]) {
    let (hours_ago, minutes_later) = at;
    let written_ms = NOW.as_millis() - hours_ago * 3_600_000 + minutes_later * 60_000;
    let subscription = SubscriptionKey { topic: "demo".to_owned(), name: "s-1".to_owned() };
    let object = Object {
        body: format!("[{}]", records.join(",")).into_bytes(),
        origin: Some(Origin { subscription, schema: DeliverySchema::EventGridSchema }),
        written_at: Timestamp::from_millis(written_ms),
    };
    fixture.buckets.insert(BUCKET, &name(number, hours_ago), object);
}

/// The id of a record in such an object.
pub(super) fn id(number: u128, hours_ago: i64, index: usize) -> String {
    let position = Position::first_of("dead/S-1", &name(number, hours_ago));
    position.expect("a position").at(index).to_string()
}

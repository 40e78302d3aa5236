//! Dead letters: the records of deliveries that ended undelivered.
//!
//! Source: Event Grid, "Message delivery and retry" and "Manage event delivery".

pub mod position;
pub mod stored;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{DecodeError, Delivery, queue::MESSAGE_BYTES_MAX_LOWEST};
use crate::{
    event::{DeliverySchema, custom, mapping::InputSchemaMapping, members},
    retry::{EndReason, profile::ProfileName},
    subscription::{
        DeadLetterDestination, DeliveryAttribute, EventSubscription, SubscriptionKey,
        attributes::{ATTRIBUTES_MAX, VALUE_BYTES_MAX, shown_values},
    },
    time::Timestamp,
    topic,
};
pub use stored::{Labels, Origin};

/// An ended delivery as it travels in the dead-letter queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// With its final attempts.
    pub delivery: Delivery,
    pub reason: EndReason,
    pub at: Timestamp,
    /// The event subscription's destination when it ended.
    pub destination: DeadLetterDestination,
    pub schema: DeliverySchema,
    /// Set if the events are delivered in the publisher's own schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<InputSchemaMapping>,
    /// Decides the form of the record and of the object's name.
    pub profile: ProfileName,
    /// See [`shown_attributes`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<DeliveryAttribute>,
}

/// The size of delivery attributes that a queue message always has room for.
pub(crate) const ATTRIBUTES_BYTES_ROOMY: usize = 2_048;

/// A delivery up to this size fits a queue message with the most delivery attributes allowed, even
/// if each of their characters is escaped.
const DELIVERY_BYTES_ROOMY: usize = 128 * 1_024;
const _: () =
    assert!(DELIVERY_BYTES_ROOMY + 2 * ATTRIBUTES_MAX * VALUE_BYTES_MAX < MESSAGE_BYTES_MAX_LOWEST);

/// Returns the attributes that dead letters of namespace topics show: no secrets, if there is room.
pub fn shown_attributes(
    delivery: &Delivery,
    subscription: &EventSubscription,
    profile: ProfileName,
) -> Vec<DeliveryAttribute> {
    if profile != ProfileName::Namespace {
        return Vec::new();
    }
    let shown = subscription.delivery_attributes.iter().filter(|one| !one.is_secret());
    let shown: Vec<_> = shown.cloned().collect();
    let bytes = serde_json::to_string(&shown).map_or(usize::MAX, |json| json.len());
    let fits = bytes <= ATTRIBUTES_BYTES_ROOMY || delivery.events_bytes() <= DELIVERY_BYTES_ROOMY;
    if fits { shown } else { Vec::new() }
}

impl Ended {
    /// Reads the queue form.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        let ended: Self = serde_json::from_str(text).map_err(DecodeError::NotEnded)?;
        Ok(Self { delivery: ended.delivery.checked()?, ..ended })
    }

    /// Returns the records of its events as JSON texts that keep the publisher's bytes.
    pub fn records(&self) -> Vec<String> {
        let events = self.delivery.left();
        events.map(|(index, event)| self.record(index, event.get())).collect()
    }

    fn record(&self, index: usize, event: &str) -> String {
        match self.profile {
            ProfileName::Namespace => format!(
                r#"{{"deadLetterProperties":{},"customDeliveryProperties":{},"event":{event}}}"#,
                self.namespace_properties(),
                json!(shown_values(&self.attributes, event)),
            ),
            ProfileName::Basic | ProfileName::Basic2021 => {
                let event = match self.schema {
                    DeliverySchema::EventGridSchema | DeliverySchema::CloudEventSchemaV1_0 => {
                        Cow::Borrowed(event)
                    }
                    DeliverySchema::CustomInputSchema => Cow::Owned(self.enveloped(index, event)),
                };
                with_members(&event, &self.basic_members())
            }
        }
    }

    /// Puts an event of the publisher's own schema into Event Grid's envelope. A missing id
    /// is derived from the delivery's, so that the same dead letter is the same record.
    fn enveloped(&self, index: usize, event: &str) -> String {
        let Delivery { id, publish_time, subscription, .. } = &self.delivery;
        let id = Uuid::from_u128(id.as_u128().wrapping_add(index as u128));
        let topic_id = topic::id_of(&subscription.topic);
        custom::enveloped(event, &topic_id, self.mapping.as_ref(), *publish_time, id)
    }

    /// Returns the members that a record adds to an event: in lower case for CloudEvents, and null
    /// if there is nothing to say.
    fn basic_members(&self) -> [(String, Value); 7] {
        let Delivery { attempts, publish_time, redriven, .. } = &self.delivery;
        let members = [
            ("deadLetterReason", json!(self.reason)),
            ("deliveryAttempts", json!(attempts.made)),
            ("lastDeliveryOutcome", json!(attempts.last_outcome)),
            ("lastHttpStatusCode", json!(attempts.last_status)),
            ("publishTime", json!(publish_time.to_iso_8601())),
            ("lastDeliveryAttemptTime", json!(attempts.last_at.map(Timestamp::to_iso_8601))),
            (stored::REDRIVE_COUNT, json!(redriven.map(|redriven| redriven.times))),
        ];
        members.map(|(name, value)| match self.schema {
            DeliverySchema::CloudEventSchemaV1_0 => (name.to_ascii_lowercase(), value),
            _ => (name.to_owned(), value),
        })
    }

    fn namespace_properties(&self) -> Value {
        let Delivery { attempts, publish_time, redriven, .. } = &self.delivery;
        let properties = [
            ("deadletterreason", json!(sentence(self.reason))),
            ("deliveryattempts", json!(attempts.made)),
            ("deliveryresult", json!(attempts.last_outcome)),
            ("publishutc", json!(publish_time.to_iso_8601())),
            ("deliveryattemptutc", json!(attempts.last_at.map(Timestamp::to_iso_8601))),
            ("redrivecount", json!(redriven.map(|redriven| redriven.times))),
        ];
        properties.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }

    /// Returns where the records are stored.
    pub fn folder(&self) -> Folder {
        let (key, destination) = (&self.delivery.subscription, &self.destination);
        let origin = Origin { subscription: key.clone(), schema: self.schema };
        Folder {
            bucket: destination.bucket.clone(),
            path: folder_path(destination, key, self.profile),
            labels: origin.labels(),
        }
    }
}

/// Returns the common prefix of an event subscription's dead letters, without a trailing slash.
/// Under the basic profiles, event subscriptions of the same name share it.
pub fn folder_path(
    destination: &DeadLetterDestination,
    subscription: &SubscriptionKey,
    profile: ProfileName,
) -> String {
    let (prefix, SubscriptionKey { topic, name }) = (&destination.prefix, subscription);
    match profile {
        ProfileName::Basic | ProfileName::Basic2021 => {
            format!("{prefix}{}", name.to_ascii_uppercase())
        }
        ProfileName::Namespace => format!("{prefix}{topic}/{name}"),
    }
}

/// Appends members that are not null to an object's text, and drops its own of these names.
fn with_members(object: &str, more: &[(String, Value)]) -> String {
    let is_replaced = |name: &str| more.iter().any(|(ours, _)| ours == name);
    let own = members(object).unwrap_or_default();
    let mut text = match own.iter().any(|(name, _)| is_replaced(name)) {
        false => object.trim_end().strip_suffix('}').unwrap_or(object).trim_end().to_owned(),
        true => {
            let kept = own.iter().filter(|(name, _)| !is_replaced(name));
            let kept = kept.map(|(name, value)| format!("{}:{value}", json!(name)));
            format!("{{{}", kept.collect::<Vec<_>>().join(","))
        }
    };
    for (name, value) in more.iter().filter(|(_, value)| !value.is_null()) {
        if !text.ends_with('{') {
            text.push(',');
        }
        text.push_str(&format!("{}:{value}", json!(name)));
    }
    text.push('}');
    text
}

fn sentence(reason: EndReason) -> &'static str {
    match reason {
        EndReason::MaxDeliveryAttemptsExceeded => "Maximum delivery attempts was exceeded.",
        EndReason::TimeToLiveExceeded => "Event time to live was exceeded.",
        EndReason::SubscriptionDeleted => "Event subscription was deleted.",
        EndReason::CanceledByOperator => "Delivery was canceled by an operator.",
        EndReason::RejectedByEndpoint => "Event was rejected by the endpoint.",
        _ => "Undeliverable due to client error",
    }
}

/// The place of an event subscription's dead letters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Folder {
    pub bucket: String,
    /// The name's part before the date, without a trailing slash.
    pub path: String,
    /// See [`Origin`].
    pub labels: Labels,
}

impl Folder {
    /// Returns the name of an object written at `now`: UTC, no zero padding.
    pub fn key(&self, now: Timestamp, id: Uuid) -> String {
        let at = now.utc();
        let (year, month, day, hour) = (at.year(), u8::from(at.month()), at.day(), at.hour());
        format!("{}/{year}/{month}/{day}/{hour}/{id}.json", self.path)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;
    use crate::retry::{attempts::Attempts, outcome::Outcome};

    fn ended(
        schema: DeliverySchema,
        profile: ProfileName,
        event: &str,
        attempts: Attempts,
    ) -> Ended {
        let mut delivery = Delivery::new(
            Uuid::from_u128(1),
            SubscriptionKey { topic: "orders".to_owned(), name: "Ship-it".to_owned() },
            Uuid::from_u128(2),
            Timestamp::from_millis(1_565_250_000_000),
            String::new(),
            vec![RawValue::from_string(event.to_owned()).expect("JSON")],
        );
        delivery.attempts = attempts;
        Ended {
            delivery,
            reason: EndReason::UndeliverableDueToHttpBadRequest,
            at: Timestamp::from_millis(1_565_250_001_000),
            destination: DeadLetterDestination {
                bucket: "b".to_owned(),
                prefix: "dead/".to_owned(),
            },
            schema,
            mapping: None,
            profile,
            attributes: Vec::new(),
        }
    }

    fn one_attempt() -> Attempts {
        let at = Timestamp::from_millis(1_565_250_000_500);
        Attempts::default().with(at, Outcome::BadRequest, Some(400))
    }

    #[test]
    fn namespace_records_show_attributes_but_no_secrets() {
        use crate::{
            fixtures::subscription,
            secret::Secret,
            subscription::attributes::AttributeValue::{self, Dynamic, Static},
        };
        let attribute =
            |name: &str, value: AttributeValue| DeliveryAttribute { name: name.to_owned(), value };
        let mut subscription = subscription("s");
        subscription.delivery_attributes = vec![
            attribute("X-S", Static { value: "s".to_owned() }),
            attribute("X-D", Dynamic { source_field: "id".to_owned() }),
            attribute("X-H", AttributeValue::Secret { value: Secret::new("hush") }),
        ];
        let (schema, namespace) = (DeliverySchema::CloudEventSchemaV1_0, ProfileName::Namespace);
        let mut ended = ended(schema, namespace, r#"{"id":"7"}"#, one_attempt());
        ended.attributes = shown_attributes(&ended.delivery, &subscription, namespace);
        let record: Value = serde_json::from_str(&ended.records()[0]).expect("JSON");
        assert_eq!(record["customDeliveryProperties"], json!({"X-S": "s", "X-D": "7"}));
        assert!(!serde_json::to_string(&ended).expect("JSON").contains("hush"));
        assert!(shown_attributes(&ended.delivery, &subscription, ProfileName::Basic).is_empty());
        // A delivery that fills its message leaves room for few.
        let large = format!(r#"{{"d":"{}"}}"#, "x".repeat(200_000));
        ended.delivery.events = vec![RawValue::from_string(large).expect("JSON")].into();
        let few = shown_attributes(&ended.delivery, &subscription, namespace);
        assert_eq!(few.len(), 2);
        let value = "v".repeat(4_096);
        subscription.delivery_attributes[0].value = Static { value };
        assert!(shown_attributes(&ended.delivery, &subscription, namespace).is_empty());
    }

    #[test]
    fn records_in_every_form() {
        let event_grid = json!({
            "id": "7",
            "deadLetterReason": "UndeliverableDueToHttpBadRequest",
            "deliveryAttempts": 1,
            "lastDeliveryOutcome": "BadRequest",
            "lastHttpStatusCode": 400,
            "publishTime": "2019-08-08T07:40:00.000Z",
            "lastDeliveryAttemptTime": "2019-08-08T07:40:00.500Z",
        });
        let cloud_events = json!({
            "id": "7",
            "deadletterreason": "UndeliverableDueToHttpBadRequest",
            "deliveryattempts": 1,
            "lastdeliveryoutcome": "BadRequest",
            "lasthttpstatuscode": 400,
            "publishtime": "2019-08-08T07:40:00.000Z",
            "lastdeliveryattempttime": "2019-08-08T07:40:00.500Z",
        });
        let never = json!({
            "id": "7",
            "deadLetterReason": "UndeliverableDueToHttpBadRequest",
            "deliveryAttempts": 0,
            "publishTime": "2019-08-08T07:40:00.000Z",
        });
        let namespace = json!({
            "deadLetterProperties": {
                "deadletterreason": "Undeliverable due to client error",
                "deliveryattempts": 1,
                "deliveryresult": "BadRequest",
                "publishutc": "2019-08-08T07:40:00.000Z",
                "deliveryattemptutc": "2019-08-08T07:40:00.500Z",
            },
            "customDeliveryProperties": {},
            "event": {"id": "7"},
        });
        let event = r#"{"id":"7"}"#;
        let (eg, ce) = (DeliverySchema::EventGridSchema, DeliverySchema::CloudEventSchemaV1_0);
        let table = [
            ("Event Grid", ended(eg, ProfileName::Basic, event, one_attempt()), event_grid),
            ("CloudEvents", ended(ce, ProfileName::Basic, event, one_attempt()), cloud_events),
            ("never attempted", ended(eg, ProfileName::Basic, event, Attempts::default()), never),
            ("namespace", ended(ce, ProfileName::Namespace, event, one_attempt()), namespace),
        ];
        for (row, ended, want) in table {
            let records: Vec<Value> = ended
                .records()
                .iter()
                .map(|record| serde_json::from_str(record).expect("JSON"))
                .collect();
            assert_eq!(records, [want], "{row}");
        }
    }

    #[test]
    fn an_event_of_the_publishers_own_schema_is_kept_in_event_grids_envelope() {
        let event = r#"{ "key": 7,"n":1.50 }"#;
        let schema = DeliverySchema::CustomInputSchema;
        let mapping = Some(InputSchemaMapping { id: Some("key".to_owned()), ..Default::default() });
        let one = Ended { mapping, ..ended(schema, ProfileName::Basic, event, one_attempt()) };
        let want = concat!(
            r#"{"id":"7","topic":"/topics/orders","subject":"","eventType":"CustomEvent","#,
            r#""eventTime":"2019-08-08T07:40:00.000Z","dataVersion":"","metadataVersion":"1","#,
            r#""data":{ "key": 7,"n":1.50 },"deadLetterReason":"UndeliverableDueToHttpBadRequest","#,
            r#""deliveryAttempts":1,"lastDeliveryOutcome":"BadRequest","lastHttpStatusCode":400,"#,
            r#""publishTime":"2019-08-08T07:40:00.000Z","#,
            r#""lastDeliveryAttemptTime":"2019-08-08T07:40:00.500Z"}"#,
        );
        assert_eq!(one.records(), [want]);
        let unmapped = Ended { mapping: None, ..one.clone() };
        let id = r#"{"id":"00000000-0000-0000-0000-000000000001","#;
        assert!(unmapped.records()[0].starts_with(id), "{:?}", unmapped.records());
        let namespace = Ended { profile: ProfileName::Namespace, ..one };
        let want = r#""event":{ "key": 7,"n":1.50 }}"#;
        assert!(namespace.records()[0].ends_with(want), "{:?}", namespace.records());
    }

    #[test]
    fn what_the_publisher_wrote_stays_as_it_was_written() {
        let (schema, profile) = (DeliverySchema::EventGridSchema, ProfileName::Basic);
        let event = r#"{ "z" : 1.50, "a": 123456789012345678901234567890 } "#;
        let record = ended(schema, profile, event, one_attempt()).records().remove(0);
        let want = r#"{ "z" : 1.50, "a": 123456789012345678901234567890,"deadLetterReason":"#;
        assert!(record.starts_with(want), "{record}");
        let empty = ended(schema, profile, "{}", one_attempt()).records().remove(0);
        assert!(empty.starts_with(r#"{"deadLetterReason":"#), "{empty}");
    }

    proptest! {
        #[test]
        fn no_record_has_a_member_twice(
            names in prop::collection::btree_set(
                prop_oneof![
                    Just("deadletterreason"), Just("deliveryattempts"), Just("lastdeliveryoutcome"),
                    Just("lasthttpstatuscode"), Just("publishtime"), Just("lastdeliveryattempttime"),
                    Just("redrivecount"), Just("deadLetterReason"), Just("publishTime"),
                    Just("lastDeliveryAttemptTime"), Just("id"), Just("type"), Just("data"),
                ],
                0..13,
            ),
            is_attempted: bool,
            is_cloud_event: bool,
        ) {
            let schema = match is_cloud_event {
                true => DeliverySchema::CloudEventSchemaV1_0,
                false => DeliverySchema::EventGridSchema,
            };
            let event = names.iter().map(|name| format!(r#" "{name}" : "theirs""#));
            let event = format!("{{{}}}", event.collect::<Vec<_>>().join(","));
            let attempts = if is_attempted { one_attempt() } else { Attempts::default() };
            let ended = ended(schema, ProfileName::Basic, &event, attempts);
            let record = ended.records().remove(0);
            let found = members(&record).expect("an object");
            let all_ours = ended.basic_members();
            let written = all_ours.iter().filter(|(_, value)| !value.is_null());
            let ours: Vec<String> = written.map(|(name, _)| name.clone()).collect();
            // What an earlier record said must not stand beside what this one says.
            let is_ours = |name: &str| all_ours.iter().any(|(ours, _)| ours == name);
            let mut all: Vec<String> = found.iter().map(|(name, _)| name.to_string()).collect();
            prop_assert!(all.ends_with(&ours), "{record}");
            for (name, value) in &found {
                let is_theirs = value.get() == r#""theirs""#;
                prop_assert_eq!(is_theirs, !is_ours(name), "{}", record);
            }
            all.sort();
            let kept = names.iter().filter(|name| !is_ours(name));
            let mut wanted: Vec<String> = kept.map(|name| (*name).to_owned()).collect();
            wanted.extend(ours);
            wanted.sort();
            wanted.dedup();
            prop_assert_eq!(all, wanted);
        }
    }

    #[test]
    fn object_names_are_event_grids() {
        let now = Timestamp::from_millis(1_565_241_000_000) + Duration::from_secs(0);
        let id = Uuid::from_u128(0x1111_1111);
        let table = [
            (
                ProfileName::Basic,
                "dead/SHIP-IT/2019/8/8/5/00000000-0000-0000-0000-000011111111.json",
            ),
            (
                ProfileName::Namespace,
                "dead/orders/Ship-it/2019/8/8/5/00000000-0000-0000-0000-000011111111.json",
            ),
        ];
        for (profile, want) in table {
            let ended = ended(DeliverySchema::EventGridSchema, profile, "{}", one_attempt());
            assert_eq!(ended.folder().key(now, id), want);
        }
    }
}

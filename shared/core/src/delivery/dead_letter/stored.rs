//! Reads dead letters from the bucket, event by event.
//!
//! A record is the event with our members at its end, or inside ours (`Ended::records`). It comes
//! back byte for byte, but for white space at its end.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    delivery::request::data_version_for_headers,
    event::{DeliverySchema, Member, members, string_of},
    subscription::SubscriptionKey,
    time::Timestamp,
    trace::{TRACE_PARENT, TraceParent},
};

/// The member that counts an event's redrives; absent if 0.
pub const REDRIVE_COUNT: &str = "redriveCount";
const FIRST_MEMBER: &str = "deadLetterReason";
const TOPIC_LABEL: &str = "gridpost-topic";
const SUBSCRIPTION_LABEL: &str = "gridpost-event-subscription";
const SCHEMA_LABEL: &str = "gridpost-delivery-schema";

/// Names and values of an object's metadata in S3.
pub type Labels = Vec<(&'static str, String)>;

/// Identifies an object's event subscription, which its name does not for topics of kind `custom`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub subscription: SubscriptionKey,
    pub schema: DeliverySchema,
}

impl Origin {
    /// Returns the labels of an object.
    pub fn labels(&self) -> Labels {
        vec![
            (TOPIC_LABEL, self.subscription.topic.clone()),
            (SUBSCRIPTION_LABEL, self.subscription.name.clone()),
            (SCHEMA_LABEL, <&str>::from(self.schema).to_owned()),
        ]
    }

    /// Reads labels; `None` if they are not Gridpost's.
    pub fn of(label: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let (topic, name) = (label(TOPIC_LABEL)?, label(SUBSCRIPTION_LABEL)?);
        let schema = label(SCHEMA_LABEL)?.parse().ok()?;
        Some(Self { subscription: SubscriptionKey { topic, name }, schema })
    }
}

/// One dead letter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Letter {
    /// As it was delivered, a JSON text.
    pub event: String,
    /// Empty if its schema has none.
    pub event_id: String,
    /// Empty if its schema has none.
    pub event_type: String,
    /// For the request's header; empty for CloudEvents.
    pub data_version: String,
    /// Only CloudEvents have one.
    pub trace_parent: Option<TraceParent>,
    /// As the record says it.
    pub reason: String,
    pub attempts: u32,
    pub last_outcome: Option<String>,
    pub last_status: Option<u16>,
    pub published_at: Timestamp,
    pub last_attempt_at: Option<Timestamp>,
    pub redriven: u32,
}

/// What a record says: a letter without its event, and whether with the time of its publish.
#[derive(Default)]
struct RawLetter {
    letter: Letter,
    is_dated: bool,
}

impl RawLetter {
    /// Takes one member, in any case. Returns whether it is known.
    fn take(&mut self, name: &str, value: &RawValue) -> bool {
        let letter = &mut self.letter;
        let text = || string_of(value).map(|text| text.into_owned());
        let number = || value.get().parse::<u32>().ok();
        let time = || Timestamp::parse_rfc_3339(&text()?);
        match name.to_ascii_lowercase().as_str() {
            "deadletterreason" => letter.reason = text().unwrap_or_default(),
            "deliveryattempts" => letter.attempts = number().unwrap_or_default(),
            "lastdeliveryoutcome" | "deliveryresult" => letter.last_outcome = text(),
            "lasthttpstatuscode" => letter.last_status = value.get().parse().ok(),
            "publishtime" | "publishutc" => {
                self.is_dated = time().is_some();
                letter.published_at = time().unwrap_or_default();
            }
            "lastdeliveryattempttime" | "deliveryattemptutc" => letter.last_attempt_at = time(),
            "redrivecount" => letter.redriven = number().unwrap_or_default(),
            _ => return false,
        }
        true
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wrapped<'r> {
    #[serde(borrow)]
    dead_letter_properties: &'r RawValue,
    #[serde(borrow)]
    event: &'r RawValue,
}

/// Reads an object's records, delivered in that schema. A record that can't be read says why.
pub fn letters(
    object: &[u8],
    schema: DeliverySchema,
) -> Result<Vec<Result<Letter, String>>, serde_json::Error> {
    let records: Vec<&RawValue> = serde_json::from_slice(object)?;
    Ok(records.into_iter().map(|record| letter(record.get(), schema)).collect())
}

fn letter(record: &str, schema: DeliverySchema) -> Result<Letter, String> {
    let mut said = RawLetter::default();
    if let Ok(Wrapped { dead_letter_properties, event }) = serde_json::from_str(record) {
        let properties = members(dead_letter_properties.get()).map_err(not_a_letter)?;
        for (name, value) in &properties {
            said.take(name, value);
        }
        let event = event.get();
        let inner = members(event).map_err(not_a_letter)?;
        return whole(said, event.to_owned(), &inner, schema);
    }
    let all = members(record).map_err(not_a_letter)?;
    // The event may have a member of that name too: ours come after it.
    let first = all.iter().rposition(|(name, _)| name.eq_ignore_ascii_case(FIRST_MEMBER));
    let first = first.ok_or_else(|| format!("it has no member {FIRST_MEMBER}"))?;
    let (own, ours) = all.split_at(first);
    if !ours.iter().fold(true, |known, (name, value)| said.take(name, value) && known) {
        return Err("it has members after those of a dead letter".to_owned());
    }
    let event = match schema {
        DeliverySchema::CustomInputSchema => {
            let data = own.iter().find(|(name, _)| name == "data");
            let (_, data) = data.ok_or("its envelope has no member data")?;
            data.get().to_owned()
        }
        DeliverySchema::EventGridSchema | DeliverySchema::CloudEventSchemaV1_0 => {
            format!("{}}}", up_to(record, own))
        }
    };
    whole(said, event, own, schema)
}

fn not_a_letter(error: serde_json::Error) -> String {
    format!("it is not a dead-letter record: {error}")
}

fn up_to<'o>(object: &'o str, first: &[Member<'_>]) -> &'o str {
    let Some((_, last)) = first.last() else { return "{" };
    // The value is a slice of the object's text.
    let end = last.get().as_ptr() as usize + last.get().len() - object.as_ptr() as usize;
    &object[..end]
}

fn whole(
    RawLetter { letter, is_dated }: RawLetter,
    event: String,
    envelope: &[Member<'_>],
    schema: DeliverySchema,
) -> Result<Letter, String> {
    let text = |wanted: &str| {
        let found = envelope.iter().find(|(name, _)| name == wanted);
        found.and_then(|(_, value)| string_of(value)).unwrap_or_default().into_owned()
    };
    let (event_type, data_version, trace_parent) = match schema {
        DeliverySchema::CloudEventSchemaV1_0 => {
            (text("type"), String::new(), TraceParent::parse(&text(TRACE_PARENT)))
        }
        _ => (text("eventType"), text("dataVersion"), None),
    };
    if !is_dated {
        return Err("it does not say when it was published".to_owned());
    }
    let data_version = data_version_for_headers(&data_version).to_owned();
    Ok(Letter { event, event_id: text("id"), event_type, trace_parent, data_version, ..letter })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        delivery::{Delivery, Redriven, dead_letter::Ended},
        retry::{EndReason, attempts::Attempts, outcome::Outcome, profile::ProfileName},
        subscription::DeadLetterDestination,
    };

    const PUBLISHED: Timestamp = Timestamp::from_millis(1_565_250_000_000);

    fn key() -> SubscriptionKey {
        SubscriptionKey { topic: "orders".to_owned(), name: "Ship-it".to_owned() }
    }

    fn ended(schema: DeliverySchema, profile: ProfileName, event: &str, times: u32) -> Ended {
        let event = RawValue::from_string(event.to_owned()).expect("JSON");
        let (id, uid) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut delivery = Delivery::new(id, key(), uid, PUBLISHED, String::new(), vec![event]);
        delivery.attempts = Attempts::default().with(PUBLISHED, Outcome::Busy, Some(503));
        delivery.redriven = (times > 0).then_some(Redriven { times, at: PUBLISHED });
        Ended {
            delivery,
            reason: EndReason::MaxDeliveryAttemptsExceeded,
            at: PUBLISHED,
            destination: DeadLetterDestination { bucket: "b".to_owned(), prefix: String::new() },
            schema,
            mapping: None,
            profile,
            attributes: Vec::new(),
        }
    }

    fn back(ended: &Ended) -> Letter {
        let object = format!("[{}]", ended.records().join(","));
        let mut letters = letters(object.as_bytes(), ended.schema).expect("an array");
        letters.remove(0).expect("a letter")
    }

    #[test]
    fn every_event_comes_back_as_it_was_delivered() {
        use DeliverySchema::{CloudEventSchemaV1_0, CustomInputSchema, EventGridSchema};
        let event_grid = r#"{ "id":"7", "eventType" : "T","n":1.50,"dataVersion":"2","big":123456789012345678901234567890}"#;
        let cloud_event = r#"{"specversion":"1.0","id":"7","type":"T","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","data":{"a":[1,{"b":"\uffff}"}]}}"#;
        let own = r#"{ "key": 7,"n":1.50 }"#;
        // Names differ by case: the event keeps its own `DeadLetterReason`.
        let tricky = r#"{"id":"7","eventType":"T","DeadLetterReason":"mine","redriven":"a lot"}"#;
        let bell = r#"{"id":"7","eventType":"T","dataVersion":"\u0007"}"#;
        let (basic, namespace) = (ProfileName::Basic, ProfileName::Namespace);
        let table = [
            ("Event Grid", EventGridSchema, basic, event_grid, "7 T 2"),
            ("CloudEvents", CloudEventSchemaV1_0, ProfileName::Basic2021, cloud_event, "7 T "),
            ("namespace", CloudEventSchemaV1_0, namespace, cloud_event, "7 T "),
            ("the publisher's own", CustomInputSchema, basic, own, " CustomEvent "),
            ("own, namespace", CustomInputSchema, namespace, own, "  "),
            ("with members like ours", EventGridSchema, basic, tricky, "7 T "),
            ("what no header takes", EventGridSchema, basic, bell, "7 T "),
            ("empty", EventGridSchema, basic, "{}", "  "),
        ];
        for (row, schema, profile, event, want) in table {
            for times in [0, 3] {
                let letter = back(&ended(schema, profile, event, times));
                assert_eq!(letter.event, event, "{row}");
                let named = [&letter.event_id, &letter.event_type, &letter.data_version];
                let named = named.map(String::as_str).join(" ");
                assert!(!letter.data_version.contains(char::is_control), "{row}");
                // An event of the publisher's own schema gets an id in its envelope.
                assert!(named.ends_with(want), "{row}: {named}");
                assert_eq!(letter.trace_parent.is_some(), event.contains("traceparent"), "{row}");
                assert_eq!((letter.redriven, letter.attempts), (times, 1), "{row}");
                assert_eq!(letter.published_at, PUBLISHED, "{row}");
                assert_eq!(letter.last_attempt_at, Some(PUBLISHED), "{row}");
                assert_eq!(letter.last_outcome.as_deref(), Some("Busy"), "{row}");
                let is_namespace = profile == namespace;
                assert_eq!(letter.last_status, (!is_namespace).then_some(503), "{row}");
                assert!(letter.reason.starts_with("Max"), "{row}: {}", letter.reason);
            }
        }
    }

    #[test]
    fn only_white_space_at_the_end_is_lost() {
        let (schema, profile) = (DeliverySchema::EventGridSchema, ProfileName::Basic);
        let letter = back(&ended(schema, profile, "{ \"id\":\"7\" \n } ", 0));
        assert_eq!(letter.event, "{ \"id\":\"7\"}");
    }

    #[test]
    fn what_is_no_dead_letter_says_so() {
        let table = [
            (r#"[{"id":"1"}]"#, "it has no member deadLetterReason"),
            (r#"["x"]"#, "it is not a dead-letter record"),
            (r#"[{"deadLetterReason":"a"}]"#, "it does not say when it was published"),
            (r#"[{"deadLetterReason":"a","more":1}]"#, "it has members after"),
        ];
        for (object, want) in table {
            let found = letters(object.as_bytes(), DeliverySchema::EventGridSchema);
            let problem = found.expect("an array").remove(0).expect_err(object);
            assert!(problem.starts_with(want), "{object}: {problem}");
        }
        for object in ["", "{}", "[", "[{]"] {
            assert!(
                letters(object.as_bytes(), DeliverySchema::EventGridSchema).is_err(),
                "{object}"
            );
        }
    }

    #[test]
    fn labels_say_whose_letters_they_are() {
        let origin = Origin { subscription: key(), schema: DeliverySchema::CustomInputSchema };
        let labels = origin.labels();
        let label = |wanted: &str| {
            labels.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.clone())
        };
        assert_eq!(Origin::of(label), Some(origin));
        assert_eq!(Origin::of(|_| None), None);
        assert_eq!(Origin::of(|_| Some("x".to_owned())), None);
    }
}

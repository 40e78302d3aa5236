//! A topic, an event subscription and events for tests.

use uuid::Uuid;

use crate::{
    event::DeliverySchema,
    retry::{health::ProbationPolicy, policy::RetryPolicy, profile::ProfileName},
    secret::Secret,
    subscription::{Endpoint, EventSubscription, Filter, ProvisioningState, SubscriptionKey},
    time::Timestamp,
    topic::{AccessKeys, Changes, InputSchema, Kind, Topic},
};

/// A custom topic that takes Event Grid's schema.
pub fn topic() -> Topic {
    Topic {
        name: "t".to_owned(),
        kind: Kind::Custom,
        input_schema: InputSchema::EventGridSchema,
        input_schema_mapping: None,
        disable_local_auth: false,
        delivery_profile: ProfileName::Basic,
        idempotency: None,
        etag: uuid::Uuid::nil(),
        created_at: Timestamp::from_millis(0),
        revision: 1,
        changes: Changes::default(),
    }
}

pub fn access_keys() -> AccessKeys {
    AccessKeys([Secret::new("a2V5MQ=="), Secret::new("a2V5Mg==")])
}

/// An event subscription that matches everything, in Event Grid's schema, without batches.
pub fn subscription(name: &str) -> EventSubscription {
    EventSubscription {
        key: SubscriptionKey { topic: "t".to_owned(), name: name.to_owned() },
        uid: Uuid::from_u128(5),
        endpoint: Endpoint::WebHook { url: Secret::new("https://example.com/hook?code=hush") },
        endpoint_uid: None,
        batching: None,
        filter: Filter::default(),
        delivery_schema: DeliverySchema::EventGridSchema,
        retry_policy: RetryPolicy::default_of(ProfileName::Basic),
        probation_policy: ProbationPolicy::EventGrid,
        dead_letter: None,
        labels: Vec::new(),
        expires_at: None,
        provisioning_state: ProvisioningState::Succeeded,
        validation: None,
        allowed_rate: None,
        etag: uuid::Uuid::nil(),
        created_at: Timestamp::from_millis(0),
        modified_at: Timestamp::from_millis(0),
        delivery_attributes: Vec::new(),
        signing: None,
        pauses: crate::subscription::Pauses::default(),
        authentication: None,
        batch_failure: crate::subscription::BatchFailure::default(),
    }
}

/// A publish body with events of those types and subjects.
pub fn body(events: &[(&str, &str)]) -> String {
    let event = |(index, (event_type, subject)): (usize, &(&str, &str))| {
        let time = "2026-01-02T03:04:05Z";
        serde_json::json!({
            "id": index.to_string(), "eventType": event_type, "subject": subject, "eventTime": time,
        })
    };
    serde_json::Value::from_iter(events.iter().enumerate().map(event)).to_string()
}

//! Writes event subscriptions as documents, without secrets.

use gridpost_core::{
    retry::profile::ProfileName,
    subscription::{Endpoint, EventSubscription, ProvisioningState, Validation},
    topic,
};
use serde_json::{Value, json};

use super::{
    PROBATION_POLICIES, SCHEMAS, TYPE,
    destination::{attributes, authentication, aws},
    filter::advanced,
    pause, retry, signing,
};
use crate::document::name_of;

/// Writes an event subscription as a document with defaults filled in. `profile` is its topic's,
/// which determines the names of the retry policy's limits.
///
/// The URL's query may carry a key: as in Event Grid's reads, `endpointBaseUrl` replaces the URL.
pub fn write(subscription: &EventSubscription, profile: ProfileName) -> Value {
    let filter = &subscription.filter;
    let topic = topic::id_of(&subscription.key.topic);
    let name = &subscription.key.name;
    let mut document = json!({
        "id": format!("{topic}/eventSubscriptions/{name}"),
        "name": name,
        "type": TYPE,
        "properties": {
            "topic": topic,
            "provisioningState": subscription.provisioning_state,
            "allowedRate": subscription.allowed_rate,
            "destination": destination(subscription),
            "filter": {
                "includedEventTypes": filter.included_event_types,
                "subjectBeginsWith": filter.subject_begins_with,
                "subjectEndsWith": filter.subject_ends_with,
                "isSubjectCaseSensitive": filter.is_subject_case_sensitive,
                "enableAdvancedFilteringOnArrays": filter.enable_advanced_filtering_on_arrays,
                "advancedFilters": advanced::write(&filter.advanced),
            },
            "eventDeliverySchema": name_of(&SCHEMAS, subscription.delivery_schema),
            "retryPolicy": retry::write(&subscription.retry_policy, profile),
            "probationPolicy": name_of(&PROBATION_POLICIES, subscription.probation_policy),
            "deadLetterDestination": subscription.dead_letter.as_ref().map(|destination| json!({
                "endpointType": "S3Bucket",
                "properties": {"bucketName": destination.bucket, "prefix": destination.prefix},
            })),
            "labels": subscription.labels,
            "expirationTimeUtc": subscription.expires_at.map(|at| at.to_iso_8601()),
            "signing": subscription.signing.as_ref().map(signing::write),
        },
    });
    if let Some(pause) = subscription.pauses.open() {
        document["properties"]["pause"] = pause::write(pause);
    }
    if let Some(validation) = self::validation(subscription) {
        document["properties"]["validation"] = validation;
    }
    document
}

/// What a read shows of a consent that has not been given yet.
pub fn validation(subscription: &EventSubscription) -> Option<Value> {
    let validation = subscription.validation.as_ref()?;
    let is_awaited = subscription.provisioning_state != ProvisioningState::Succeeded;
    let Validation { until, reason, .. } = validation;
    is_awaited.then(|| json!({"until": until.to_iso_8601(), "reason": reason}))
}

fn destination(subscription: &EventSubscription) -> Value {
    let url = match &subscription.endpoint {
        Endpoint::WebHook { url } => url,
        Endpoint::Resource(resource) => return aws::write(resource, subscription),
    };
    let batching = subscription.batching();
    let mut properties = json!({
        "endpointBaseUrl": base_url(url.expose()),
        "maxEventsPerBatch": batching.max_events,
        "preferredBatchSizeInKilobytes": batching.preferred_kilobytes,
        "deliveryAttributeMappings": attributes::write(&subscription.delivery_attributes, false),
    });
    authentication::write(subscription, &mut properties);
    if subscription.batch_failure.bisects {
        properties["onBatchFailure"] = json!("Bisect");
    }
    if subscription.batch_failure.reads_results {
        properties["partialResults"] = json!(true);
    }
    json!({"endpointType": "WebHook", "properties": properties})
}

/// The response of `getFullUrl`: the URL with its query. AWS resources have none.
pub fn full_url(subscription: &EventSubscription) -> Option<Value> {
    match &subscription.endpoint {
        Endpoint::WebHook { url } => Some(json!({"endpointUrl": url.expose()})),
        Endpoint::Resource(_) => None,
    }
}

/// The response of `getDeliveryAttributes`: the delivery attributes, secret values included.
pub fn delivery_attributes(subscription: &EventSubscription) -> Value {
    json!({"value": attributes::write(&subscription.delivery_attributes, true)})
}

/// A URL without its query, which may carry a key.
pub fn base_url(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}

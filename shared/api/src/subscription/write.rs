//! Writes event subscriptions as documents, without secrets.

use gridpost_core::{
    retry::profile::ProfileName,
    secret::Secret,
    subscription::{self, Endpoint, ProvisioningState},
    topic,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    AwaitedValidation, DeadLetterDestination, DeliveryAttributes, Destination, EventSubscription,
    EventSubscriptionProperties, EventSubscriptionSettings, Filter, RetryPolicy, Signing, TYPE,
    destination::attributes,
};

/// Writes an event subscription as a document with defaults filled in. `profile` is its topic's,
/// which determines the names of the retry policy's limits.
///
/// The URL's query may carry a key: as in Event Grid's reads, `endpointBaseUrl` replaces the URL.
pub fn write(
    subscription: &subscription::EventSubscription,
    profile: ProfileName,
) -> EventSubscription {
    let topic = topic::id_of(&subscription.key.topic);
    let name = subscription.key.name.clone();
    EventSubscription {
        id: format!("{topic}/eventSubscriptions/{name}"),
        name,
        resource_type: TYPE.to_owned(),
        properties: EventSubscriptionProperties {
            topic,
            provisioning_state: subscription.provisioning_state,
            allowed_rate: subscription.allowed_rate.map(Into::into),
            pause: subscription.pauses.open().map(Into::into),
            validation: validation(subscription),
            settings: EventSubscriptionSettings {
                destination: Some(Destination::of(subscription)),
                filter: Some(Filter::of(&subscription.filter)),
                event_delivery_schema: Some(subscription.delivery_schema),
                retry_policy: Some(RetryPolicy::of(&subscription.retry_policy, profile)),
                probation_policy: Some(subscription.probation_policy),
                dead_letter_destination: subscription
                    .dead_letter
                    .as_ref()
                    .map(DeadLetterDestination::of),
                labels: Some(subscription.labels.clone()),
                expiration_time_utc: subscription.expires_at.map(Into::into),
                signing: subscription.signing.as_ref().map(Signing::of),
                ..EventSubscriptionSettings::default()
            },
        },
    }
}

/// Returns what a read shows of a consent that has not been given yet.
pub fn validation(subscription: &subscription::EventSubscription) -> Option<AwaitedValidation> {
    let validation = subscription.validation.as_ref()?;
    let is_awaited = subscription.provisioning_state != ProvisioningState::Succeeded;
    is_awaited.then(|| AwaitedValidation {
        until: validation.until.into(),
        reason: validation.reason.clone(),
    })
}

/// The URL with its query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FullUrl {
    #[schema(value_type = String)]
    pub endpoint_url: Secret,
}

/// Returns the answer to `getFullUrl`. AWS resources have none.
pub fn full_url(subscription: &subscription::EventSubscription) -> Option<FullUrl> {
    match &subscription.endpoint {
        Endpoint::WebHook { url } => Some(FullUrl { endpoint_url: url.clone() }),
        Endpoint::Resource(_) => None,
    }
}

/// Returns the answer to `getDeliveryAttributes`: secret values included.
pub fn delivery_attributes(subscription: &subscription::EventSubscription) -> DeliveryAttributes {
    DeliveryAttributes { value: attributes::write(&subscription.delivery_attributes, true) }
}

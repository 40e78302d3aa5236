//! Event subscriptions as documents of the resource API, in Event Grid's shape and names.
//!
//! Reading a document checks all of it: every problem is listed with its path. A document from a read
//! can be written back unchanged. Source of names and defaults: Event Grid's resource model,
//! `Microsoft.EventGrid/eventSubscriptions`.

pub mod dead_letter;
pub mod destination;
pub mod filter;
pub mod namespace;
pub mod pause;
pub mod retry;
pub mod sample;
pub mod signing;
mod warnings;

use std::{borrow::Cow, num::NonZeroU32, sync::Arc};

use gridpost_core::{
    endpoint::Allowed,
    event::DeliverySchema,
    retry::{health::ProbationPolicy, policy, profile::ProfileName},
    secret::Secret,
    subscription::{
        self, Authentication, BatchFailure, Batching, DeliveryAttribute, Endpoint, Pauses,
        ProvisioningState, SubscriptionKey, Validation,
    },
    time::Timestamp,
    topic::{InputSchema, Kind, Topic, id_of},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{
    ToSchema,
    openapi::{RefOr, Schema},
};
use uuid::Uuid;

use self::destination::Stored;
pub use self::{
    dead_letter::{Bucket, DeadLetterDestination},
    destination::{
        Destination, OnBatchFailure, WebHook,
        attributes::{AttributeProperties, DeliveryAttributes, SourceKind},
        aws::ResourceDestination,
        base_url,
    },
    filter::{AdvancedFilter, Filter},
    namespace::DeliveryConfiguration,
    pause::{Pause, PauseInput, PauseStanding},
    retry::RetryPolicy,
    signing::{RotateInput, Signing, SigningSecrets},
    warnings::warnings,
};
use crate::{
    document::{
        self, Code, Problem, Problems,
        azure::{Form, NotSupported},
        difference, merge, read as read_as, read_at,
    },
    schema::{List, Time, shown, stand_in},
};

/// The resource type that documents carry.
pub const TYPE: &str = "Gridpost/topics/eventSubscriptions";

/// A page of event subscriptions.
pub type EventSubscriptionList = List<EventSubscription>;

/// An event subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventSubscription {
    pub id: String,
    #[schema(pattern = "^[A-Za-z0-9-]{2,64}$")]
    pub name: String,
    #[serde(rename = "type")]
    #[schema(pattern = "^Gridpost/topics/eventSubscriptions$")]
    pub resource_type: String,
    pub properties: EventSubscriptionProperties,
    #[serde(rename = "systemData")]
    pub system_data: SystemData,
}

/// The times of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemData {
    pub created_at: Time,
    /// Of the last change, pauses and signing secrets included.
    pub last_modified_at: Time,
}

/// The properties of an event subscription, as a read shows them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventSubscriptionProperties {
    /// The topic's id.
    pub topic: String,
    #[schema(value_type = stand_in::ProvisioningState)]
    pub provisioning_state: ProvisioningState,
    /// Requests in a minute that the endpoint allows (WebHook-Allowed-Rate).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub allowed_rate: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<AwaitedValidation>,
    #[serde(flatten)]
    #[schema(schema_with = shown_settings)]
    pub settings: EventSubscriptionSettings,
}

fn shown_settings() -> RefOr<Schema> {
    shown::<EventSubscriptionSettings>(&[
        "destination",
        "filter",
        "eventDeliverySchema",
        "retryPolicy",
        "probationPolicy",
        "labels",
    ])
}

/// The result of a request to the validation URL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Validated {
    #[schema(value_type = stand_in::Succeeded)]
    pub provisioning_state: ProvisioningState,
    pub message: String,
}

/// Present until the endpoint has consented.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Validation)]
pub struct AwaitedValidation {
    /// Until when the validation URL is open.
    pub until: Time,
    /// The endpoint's answer that was no consent, and what was expected.
    pub reason: Option<String>,
}

/// The settings to give an event subscription. Names are read in any case. Documents as Azure's tools print
/// them are taken, too: without properties, with members that only reads have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventSubscriptionInput {
    /// An object with the destination of the events.
    #[schema(required = true)]
    pub properties: Option<EventSubscriptionSettings>,
}

/// Changes of an event subscription: flat, or with properties around it. Members that are named
/// take the place of what was, objects member by member, but a filter as a whole; null goes back to the
/// default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventSubscriptionPatch {}

/// The settings of an event subscription.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventSubscriptionSettings {
    /// Required, unless deliveryConfiguration has it.
    pub destination: Option<Destination>,
    pub filter: Option<Filter>,
    /// In which schema events are delivered. It can't be changed.
    #[schema(value_type = Option<stand_in::DeliverySchema>)]
    pub event_delivery_schema: Option<DeliverySchema>,
    pub retry_policy: Option<RetryPolicy>,
    /// The fate of events that come during a probation which a client error caused.
    #[schema(value_type = Option<stand_in::ProbationPolicy>, default = "EventGrid")]
    pub probation_policy: Option<ProbationPolicy>,
    /// Where events are kept that ended undelivered; without it they are dropped, and counted.
    pub dead_letter_destination: Option<DeadLetterDestination>,
    #[schema(value_type = Option<Vec<stand_in::Label>>, max_items = 50)]
    pub labels: Option<Vec<String>>,
    /// From then on no event matches.
    pub expiration_time_utc: Option<Time>,
    pub signing: Option<Signing>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(write_only)]
    pub delivery_configuration: Option<DeliveryConfiguration>,
    /// Namespace topics: stands for filter, with filters for advancedFilters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(write_only, additional_properties)]
    pub filters_configuration: Option<Map<String, Value>>,
}

/// The context in which a document is read.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub topic: &'a Topic,
    /// The event subscription that it replaces, if any.
    pub existing: Option<&'a subscription::EventSubscription>,
    /// The time: an earlier expiration is refused.
    pub now: Timestamp,
    /// The networks and ports that an endpoint may have.
    pub allowed: &'a Allowed,
}

/// The properties of an event subscription that no document sets.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// See [`subscription::EventSubscription::uid`].
    pub uid: Uuid,
    /// See [`subscription::EventSubscription::endpoint_uid`].
    pub endpoint_uid: Option<Uuid>,
    pub created_at: Timestamp,
    /// See [`subscription::EventSubscription::etag`].
    pub etag: Uuid,
    pub modified_at: Timestamp,
}

/// The result of asking an endpoint whether it wants events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    pub state: ProvisioningState,
    /// See [`subscription::EventSubscription::validation`].
    pub validation: Option<Validation>,
    /// See [`subscription::EventSubscription::allowed_rate`].
    pub allowed_rate: Option<NonZeroU32>,
}

impl Consent {
    /// The stored result for an event subscription.
    pub fn of(existing: &subscription::EventSubscription) -> Self {
        Self {
            state: existing.provisioning_state,
            validation: existing.validation.clone(),
            allowed_rate: existing.allowed_rate,
        }
    }
}

/// The settings that a document gives an event subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub endpoint: Endpoint,
    pub batching: Option<Batching>,
    pub filter: subscription::Filter,
    pub delivery_schema: DeliverySchema,
    /// When to try again, and when to end.
    pub retry_policy: policy::RetryPolicy,
    /// The fate of events that meet a probation caused by a client error.
    pub probation_policy: ProbationPolicy,
    pub dead_letter: Option<subscription::DeadLetterDestination>,
    pub labels: Vec<String>,
    /// When it stops matching events.
    pub expires_at: Option<Timestamp>,
    pub delivery_attributes: Vec<DeliveryAttribute>,
    pub is_signed: bool,
    /// The secrets they are signed with, if it already has some.
    pub signing: Option<subscription::Signing>,
    /// See [`subscription::EventSubscription::authentication`].
    pub authentication: Option<Arc<Authentication>>,
    /// See [`subscription::EventSubscription::batch_failure`].
    pub batch_failure: BatchFailure,
}

impl Settings {
    /// Makes a signing secret if requests are to be signed and there is none yet.
    pub fn make_secret(&mut self, key: impl FnOnce() -> [u8; 32]) {
        if self.is_signed {
            self.signing.get_or_insert_with(|| subscription::Signing::new(key()));
        }
    }

    /// The event subscription with these settings, once its endpoint has consented.
    pub fn into_subscription(
        self,
        key: SubscriptionKey,
        identity: Identity,
        consent: Consent,
    ) -> subscription::EventSubscription {
        let Identity { uid, endpoint_uid, created_at, etag, modified_at } = identity;
        subscription::EventSubscription {
            key,
            uid,
            endpoint: self.endpoint,
            endpoint_uid,
            batching: self.batching,
            filter: self.filter,
            delivery_schema: self.delivery_schema,
            retry_policy: self.retry_policy,
            probation_policy: self.probation_policy,
            dead_letter: self.dead_letter,
            labels: self.labels,
            expires_at: self.expires_at,
            provisioning_state: consent.state,
            validation: consent.validation,
            allowed_rate: consent.allowed_rate,
            created_at,
            etag,
            modified_at,
            delivery_attributes: self.delivery_attributes,
            signing: self.signing,
            pauses: Pauses::default(),
            authentication: self.authentication,
            batch_failure: self.batch_failure,
        }
    }

    /// Whether the endpoint must be asked for its consent: it is new, has not consented yet, or
    /// something that it has consented to has changed.
    pub fn needs_consent(&self, existing: Option<&subscription::EventSubscription>) -> bool {
        existing.is_none_or(|existing| {
            existing.provisioning_state != ProvisioningState::Succeeded
                || existing.endpoint != self.endpoint
        })
    }
}

/// Checks an event subscription's name: 2 to 64 of `[A-Za-z0-9-]`. Event Grid's minimum is 3, but
/// `s1` is too common a name to refuse.
pub fn check_name(name: &str) -> Result<(), Problem> {
    document::check_name(name, "an event subscription's name", 2..=64)
}

/// Reads only a retry policy: the object that a document has as `properties.retryPolicy`.
/// Paths of problems begin with `retryPolicy`.
pub fn read_retry_policy(
    policy: &Value,
    profile: ProfileName,
) -> Result<policy::RetryPolicy, Problems> {
    const PATH: &str = "retryPolicy";
    let mut problems = Problems::default();
    let given: RetryPolicy = read_at(policy, &mut problems.at(PATH));
    let policy = given.read(profile, &mut problems.at(PATH));
    problems.or(Some(policy))
}

/// Reads only the filter of a document's `properties`, in either of its forms.
/// Paths of problems begin with `properties`.
pub fn read_filter(properties: &Value) -> Result<subscription::Filter, Problems> {
    let document = Value::from_iter([("properties", properties.clone())]);
    let mut form = Form::of(&document, &[], |_| false);
    namespace::rename(&mut form, Kind::Namespace);
    form.read(|document, problems| {
        let filter = document.pointer("/properties/filter").filter(|filter| !filter.is_null());
        let at = &mut problems.at("properties.filter");
        let given: Filter = filter.map(|given| read_at(given, at)).unwrap_or_default();
        Some(given.read(at))
    })
}

/// Reads an event subscription's document.
///
/// Documents as Azure's tools print them are read like those of the resource API: without
/// `properties`, with what only reads have.
pub fn read(document: &Value, context: &Context<'_>) -> Result<Settings, Problems> {
    form(document, context, is_flat)
        .read(|document, problems| read_whole(document, context, problems))
}

/// Takes the settings out of a document: its `properties`, which those of Azure's tools may not have.
pub fn properties_of(document: &Value) -> Option<Value> {
    Form::of(document, &[], is_flat).document().get("properties").cloned()
}

/// Whether a document has a setting where others have `properties`.
fn is_flat(members: &Map<String, Value>) -> bool {
    let of_namespaces = [namespace::DELIVERY, namespace::FILTERS];
    let names = ["destination", "filter", "deliveryWithResourceIdentity"];
    names.iter().chain(&of_namespaces).any(|name| members.contains_key(*name))
}

/// Returns the document in the one form that is read.
fn form(
    document: &Value,
    context: &Context<'_>,
    is_flat: impl FnOnce(&Map<String, Value>) -> bool,
) -> Form {
    let kind = context.topic.kind;
    let mut form = Form::of(document, &[], is_flat);
    form.take_envelope(|of_azure| of_azure.ends_with("eventsubscriptions"));
    let of_reads = ["topic", "provisioningState", "allowedRate", "pause", "validation"];
    form.take("/properties", &of_reads);
    if kind == Kind::Namespace {
        // Event Grid's documents of namespaces have them here.
        form.take("/properties", &["tags"]);
    }
    let with_identity = form.document().pointer("/properties/deliveryWithResourceIdentity");
    if with_identity.is_some_and(|value| !value.is_null()) {
        form.silence("/properties/destination");
    }
    form.refuse("/properties", &OTHER_FORMS);
    namespace::rename(&mut form, kind);
    form.wrap("/properties/destination", &["endpointType"]);
    let attributes = "/properties/destination/properties/deliveryAttributeMappings";
    form.wrap_each(attributes, &["name", "type"]);
    form.wrap("/properties/deadLetterDestination", &["endpointType"]);
    destination::refuse_others(&mut form, context);
    form
}

/// Event Grid's alternative forms of the same parts.
const OTHER_FORMS: [NotSupported; 2] = [
    ("deliveryWithResourceIdentity", |_| false, "write the endpoint into destination"),
    ("deadLetterWithResourceIdentity", |_| false, "write the bucket into deadLetterDestination"),
];

fn read_whole(
    document: &Value,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Settings> {
    // The filter of what exists stays allowed whatever the limits are now: an unrelated change must
    // not fail because of it.
    let mut document = Cow::Borrowed(document);
    let existing = context.existing.map(|existing| &existing.filter);
    let kept = existing.filter(|kept| document.pointer(FILTER) == Some(&written(kept)));
    if kept.is_some()
        && let Some(filter) = document.to_mut().pointer_mut(FILTER)
    {
        *filter = Value::Null;
    }
    let EventSubscriptionInput { properties } = read_as(&document, problems);
    let given = properties?;
    if given.destination.is_none() {
        let rule = "is required: an object with endpointType, such as 'WebHook', and properties";
        problems.at("properties.destination").require(rule);
    }
    let destination = given
        .destination
        .and_then(|given| given.read(context, &mut problems.at("properties.destination")));
    let retry_policy = given.retry_policy.unwrap_or_default();
    let profile = context.topic.delivery_profile;
    let retry_policy = retry_policy.read(profile, &mut problems.at("properties.retryPolicy"));
    let dead_letter = given
        .dead_letter_destination
        .and_then(|given| given.read(&mut problems.at("properties.deadLetterDestination")));
    let filter = match kept {
        Some(kept) => kept.clone(),
        None => given.filter.unwrap_or_default().read(&mut problems.at("properties.filter")),
    };
    let delivery_schema = delivery_schema(given.event_delivery_schema, context, problems);
    let expires_at = given.expiration_time_utc.map(|Time(at)| at);
    if let Some(at) = expires_at {
        check_expiration(at, context, problems);
    }
    let Stored { endpoint, batching, batch_failure, delivery_attributes, authentication } =
        destination?;
    refuse_nameless(batch_failure, delivery_schema, problems);
    let is_signed = given.signing.is_some();
    if is_signed && matches!(endpoint, Endpoint::Resource(_)) {
        let rule = "belongs to WebHook: AWS itself signs the calls to its resources";
        problems.add(Code::InvalidValue, "properties.signing", rule);
    }
    Some(Settings {
        endpoint,
        batching,
        filter,
        delivery_schema,
        retry_policy,
        probation_policy: given.probation_policy.unwrap_or_default(),
        dead_letter,
        labels: given.labels.unwrap_or_default(),
        expires_at,
        delivery_attributes,
        is_signed,
        signing: context.existing.filter(|_| is_signed).and_then(|one| one.signing.clone()),
        authentication: authentication.map(Arc::new),
        batch_failure,
    })
}

const FILTER: &str = "/properties/filter";

fn written(filter: &subscription::Filter) -> Value {
    serde_json::to_value(Filter::of(filter)).unwrap_or_default()
}

/// Refuses results for events that a response has no ids to name by.
fn refuse_nameless(of: BatchFailure, schema: DeliverySchema, problems: &mut Problems) {
    if of.reads_results && schema == DeliverySchema::CustomInputSchema {
        let rule = "needs events with ids: set eventDeliverySchema to EventGridSchema or \
                    CloudEventSchemaV1_0";
        let path = "properties.destination.properties.partialResults";
        problems.add(Code::InvalidValue, path, rule);
    }
}

/// Reads the delivery schema. Not every input schema can be converted to it, and it can't be
/// changed after creation.
///
/// Source: Event Grid, "Webhook event delivery", schema conversions; recorded answers of Event Grid to
/// changes of it.
fn delivery_schema(
    given: Option<DeliverySchema>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> DeliverySchema {
    use DeliverySchema::{CloudEventSchemaV1_0, CustomInputSchema, EventGridSchema};
    let input = context.topic.input_schema;
    let stored = context.existing.map(|existing| existing.delivery_schema);
    let default = stored.unwrap_or(match input {
        InputSchema::EventGridSchema | InputSchema::CustomEventSchema => EventGridSchema,
        InputSchema::CloudEventSchemaV1_0 => CloudEventSchemaV1_0,
    });
    let path = "properties.eventDeliverySchema";
    let name: &str = default.into();
    let schema = given.unwrap_or(default);
    let refused = match (input, schema) {
        (InputSchema::CloudEventSchemaV1_0, EventGridSchema) => Some(
            "must be 'CloudEventSchemaV1_0' (the default): the topic takes CloudEvents, and they \
             can't be turned into Event Grid's schema",
        ),
        (InputSchema::CloudEventSchemaV1_0, CustomInputSchema) => Some(
            "must be 'CloudEventSchemaV1_0' (the default): the topic takes CloudEvents, and \
             CustomInputSchema is for topics of inputSchema CustomEventSchema",
        ),
        (InputSchema::EventGridSchema, CustomInputSchema) => Some(
            "must be 'EventGridSchema' (the default) or 'CloudEventSchemaV1_0': the topic takes \
             Event Grid's schema, and CustomInputSchema is for topics of inputSchema \
             CustomEventSchema",
        ),
        _ => None,
    };
    if let Some(rule) = refused {
        problems.add(Code::InvalidValue, path, rule);
    } else if stored.is_some_and(|stored| stored != schema) {
        let rule = format!(
            "is '{name}' and can't be changed: whether events in it are under way is \
             recorded nowhere before their first attempt; create another event subscription, or delete \
             this one first"
        );
        problems.add(Code::InvalidValue, path, rule);
    }
    schema
}

fn check_expiration(at: Timestamp, context: &Context<'_>, problems: &mut Problems) {
    // An expired one can still be changed in other respects.
    let is_kept = context.existing.is_some_and(|existing| existing.expires_at == Some(at));
    if at <= context.now && !is_kept {
        let now = context.now;
        let rule = format!("must be in the future, but is {at}, and now it is {now}");
        problems.add(Code::OutOfRange, "properties.expirationTimeUtc", rule);
    }
}

/// Reads a patch of an existing event subscription: its members replace the old ones, `null`
/// restores the default, and the whole is checked like any document. A filter replaces the whole
/// filter: Event Grid's clients send all of it, without the parts they removed.
///
/// The patch has Event Grid's flat shape (`{"labels": [], "retryPolicy": {…}}`); one with
/// `properties` around it, like a document, works too. Paths of problems are the patch's.
///
/// Source: Event Grid's resource model, `EventSubscriptionUpdateParameters`.
pub fn read_patch(
    patch: &Value,
    existing: &subscription::EventSubscription,
    context: &Context<'_>,
) -> Result<Settings, Problems> {
    let mut problems = Problems::default();
    if !patch.is_object() {
        read_as::<EventSubscriptionInput>(patch, &mut problems);
        return Err(problems);
    }
    form(patch, context, |_| true).read(|patch, problems| {
        let settings = write(existing, context.topic.delivery_profile).properties.settings;
        let existing = EventSubscriptionInput { properties: Some(settings) };
        let mut document = serde_json::to_value(existing).unwrap_or_default();
        let changes = patch.get("properties").and_then(Value::as_object);
        let members = document.get_mut("properties").and_then(Value::as_object_mut);
        if let Some((changes, members)) = changes.zip(members) {
            drop_replaced(members, changes);
        }
        merge(&mut document, patch);
        read_whole(&document, context, problems)
    })
}

/// Removes the parts that the patch replaces as a whole.
fn drop_replaced(members: &mut Map<String, Value>, changes: &Map<String, Value>) {
    // Properties of one type of destination mean nothing to another.
    let destination_type = |members: &Map<String, Value>| {
        let given = members.get("destination")?.get("endpointType")?;
        Some(given.as_str().map_or(given.to_string(), str::to_ascii_lowercase))
    };
    let other =
        destination_type(changes).filter(|new| destination_type(members).as_ref() != Some(new));
    if other.is_some() {
        members.remove("destination");
    }
    if changes.contains_key("filter") {
        members.remove("filter");
    }
    // A patch that names the type replaces the whole object: each type has members of its own.
    let authentication = "/properties/authentication";
    let says_type = changes
        .get("destination")
        .and_then(|it| it.pointer(authentication)?.get("type"))
        .is_some_and(Value::is_string);
    let properties = members.get_mut("destination").and_then(|it| it.get_mut("properties"));
    if let Some(properties) = properties.and_then(Value::as_object_mut).filter(|_| says_type) {
        properties.remove("authentication");
    }
}

/// Makes the patch that changes one document into another: the parts that a patch replaces as a whole are in
/// it as a whole.
pub fn patch_of(old: &Value, new: &Value) -> Value {
    let mut patch = difference(old, new);
    // Each part, and the member whose change says that it is replaced.
    for (part, member) in [
        ("/properties/filter", ""),
        ("/properties/destination", "/endpointType"),
        ("/properties/destination/properties/authentication", "/type"),
    ] {
        let is_replaced = patch.pointer(&format!("{part}{member}")).is_some();
        let whole = new.pointer(part).filter(|_| is_replaced);
        if let Some((changed, whole)) = patch.pointer_mut(part).zip(whole) {
            *changed = whole.clone();
        }
    }
    patch
}

/// Writes an event subscription as a document with defaults filled in. `profile` is its topic's,
/// which determines the names of the retry policy's limits.
///
/// The URL's query may carry a key: as in Event Grid's reads, `endpointBaseUrl` replaces the URL.
pub fn write(
    subscription: &subscription::EventSubscription,
    profile: ProfileName,
) -> EventSubscription {
    let topic = id_of(&subscription.key.topic);
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
        system_data: SystemData {
            created_at: subscription.created_at.into(),
            last_modified_at: subscription.modified_at.into(),
        },
    }
}

/// Returns the validation that a read shows while the endpoint has not consented yet.
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
    DeliveryAttributes {
        value: destination::attributes::write(&subscription.delivery_attributes, true),
    }
}

#[cfg(test)]
mod tests;

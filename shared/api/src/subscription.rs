//! Event subscriptions as documents of the resource API, in Event Grid's shape and names.
//!
//! Reading a document checks all of it: every problem is listed with its path. What a read returned
//! can be written back unchanged. Source of names and defaults: Event Grid's resource model,
//! `Microsoft.EventGrid/eventSubscriptions`.

pub mod pause;
pub mod retry;
pub mod sample;
pub mod signing;

mod dead_letter;
mod destination;
mod filter;
mod namespace;
mod patch;
mod warnings;
mod write;

use std::{num::NonZeroU32, sync::Arc};

use destination::Destination;
use gridpost_core::subscription::{
    Authentication, BatchFailure, Batching, DeadLetterDestination, DeliveryAttribute, Endpoint,
    EventSubscription, Filter, Pauses, ProvisioningState, Signing, SubscriptionKey, Validation,
};
use gridpost_core::{
    endpoint::Allowed,
    event::DeliverySchema,
    retry::{health::ProbationPolicy, policy::RetryPolicy, profile::ProfileName},
    time::Timestamp,
    topic::{InputSchema, Kind, Topic},
};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::document::{
    self, Code, Object, Problem, Problems,
    azure::{self, Form},
    name_of, quoted, text,
};

pub use patch::read_patch;
pub use warnings::warnings;
pub use write::{base_url, delivery_attributes, full_url, validation, write};

/// The resource type that documents carry.
pub const TYPE: &str = "Gridpost/topics/eventSubscriptions";

const LABELS_MAX: usize = 50;

const LABEL_CHARS_MAX: usize = 256;

const SCHEMAS: [(&str, DeliverySchema); 3] = [
    ("EventGridSchema", DeliverySchema::EventGridSchema),
    ("CloudEventSchemaV1_0", DeliverySchema::CloudEventSchemaV1_0),
    ("CustomInputSchema", DeliverySchema::CustomInputSchema),
];

const PROBATION_POLICIES: [(&str, ProbationPolicy); 2] =
    [("EventGrid", ProbationPolicy::EventGrid), ("Delay", ProbationPolicy::Delay)];

/// The context in which a document is read.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub topic: &'a Topic,
    /// The event subscription that it replaces, if any.
    pub existing: Option<&'a EventSubscription>,
    /// The time: an earlier expiration is refused.
    pub now: Timestamp,
    /// The networks and ports that an endpoint may have.
    pub allowed: &'a Allowed,
}

/// The properties of an event subscription that no document sets.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// See [`EventSubscription::uid`].
    pub uid: Uuid,
    /// See [`EventSubscription::endpoint_uid`].
    pub endpoint_uid: Option<Uuid>,
    pub created_at: Timestamp,
    /// See [`EventSubscription::etag`].
    pub etag: Uuid,
}

/// The result of asking an endpoint whether it wants events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    pub state: ProvisioningState,
    /// See [`EventSubscription::validation`].
    pub validation: Option<Validation>,
    /// See [`EventSubscription::allowed_rate`].
    pub allowed_rate: Option<NonZeroU32>,
}

impl Consent {
    /// The stored result for an event subscription.
    pub fn of(existing: &EventSubscription) -> Self {
        Self {
            state: existing.provisioning_state,
            validation: existing.validation.clone(),
            allowed_rate: existing.allowed_rate,
        }
    }
}

/// What a document says about an event subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub endpoint: Endpoint,
    pub batching: Option<Batching>,
    pub filter: Filter,
    pub delivery_schema: DeliverySchema,
    /// When to try again, and when to end.
    pub retry_policy: RetryPolicy,
    /// What happens to events that meet a probation caused by a client error.
    pub probation_policy: ProbationPolicy,
    pub dead_letter: Option<DeadLetterDestination>,
    pub labels: Vec<String>,
    /// When it stops matching events.
    pub expires_at: Option<Timestamp>,
    pub delivery_attributes: Vec<DeliveryAttribute>,
    pub is_signed: bool,
    /// The secrets they are signed with, if it already has some.
    pub signing: Option<Signing>,
    /// See [`EventSubscription::authentication`].
    pub authentication: Option<Arc<Authentication>>,
    /// See [`EventSubscription::batch_failure`].
    pub batch_failure: BatchFailure,
}

impl Settings {
    /// Makes a signing secret if requests are to be signed and there is none yet.
    pub fn make_secret(&mut self, key: impl FnOnce() -> [u8; 32]) {
        if self.is_signed {
            self.signing.get_or_insert_with(|| Signing::new(key()));
        }
    }

    /// The event subscription with these settings, once its endpoint has consented.
    pub fn into_subscription(
        self,
        key: SubscriptionKey,
        identity: Identity,
        consent: Consent,
    ) -> EventSubscription {
        let Identity { uid, endpoint_uid, created_at, etag } = identity;
        EventSubscription {
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
            delivery_attributes: self.delivery_attributes,
            signing: self.signing,
            pauses: Pauses::default(),
            authentication: self.authentication,
            batch_failure: self.batch_failure,
        }
    }

    /// Whether the endpoint must be asked for its consent: it is new, has not consented yet, or
    /// something that it has consented to has changed.
    pub fn needs_consent(&self, existing: Option<&EventSubscription>) -> bool {
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
pub fn read_retry_policy(policy: Value, profile: ProfileName) -> Result<RetryPolicy, Problems> {
    let document = serde_json::json!({ "retryPolicy": policy });
    let mut problems = Problems::default();
    let policy = Object::root(&document, &mut problems)
        .map(|mut root| retry::read(&mut root, profile, &mut problems));
    problems.or(policy)
}

/// Reads only the filter of a document's `properties`, in either of its forms.
/// Paths of problems begin with `properties`.
pub fn read_filter(properties: &Value) -> Result<Filter, Problems> {
    let mut problems = Problems::default();
    let filter = Object::at("properties".to_owned(), properties, &mut problems)
        .map(|mut properties| filter::read(&mut properties, Kind::Namespace, None, &mut problems));
    problems.or(filter)
}

/// Reads an event subscription's document.
///
/// Documents as Azure's tools print them are read like those of the resource API: without
/// `properties`, with what only reads have.
pub fn read(document: &Value, context: &Context<'_>) -> Result<Settings, Problems> {
    form(document, is_flat).read(|document| read_whole(document, context))
}

/// Takes the settings out of a document: its `properties`, which those of Azure's tools may not have.
pub fn properties_of(document: &Value) -> Option<Value> {
    form(document, is_flat).document().get("properties").cloned()
}

/// Whether a document has a setting where others have `properties`.
fn is_flat(members: &Map<String, Value>) -> bool {
    let of_namespaces = [namespace::DELIVERY, namespace::FILTERS];
    let names = ["destination", "filter", "deliveryWithResourceIdentity"];
    names.iter().chain(&of_namespaces).any(|name| members.contains_key(*name))
}

/// The document in the one form that is read.
fn form(document: &Value, is_flat: impl FnOnce(&Map<String, Value>) -> bool) -> Form<'_> {
    let mut form = Form::of(document, &[], is_flat);
    for parent in ["/properties", "/properties/deliveryConfiguration/push"] {
        form.wrap(&format!("{parent}/destination"), &["endpointType"]);
        let attributes = format!("{parent}/destination/properties/deliveryAttributeMappings");
        form.wrap_each(&attributes, &["name", "type"]);
        form.wrap(&format!("{parent}/deadLetterDestination"), &["endpointType"]);
    }
    form
}

fn read_whole(document: &Value, context: &Context<'_>) -> Result<Settings, Problems> {
    let mut problems = Problems::default();
    let settings = Object::root(document, &mut problems).and_then(|mut root| {
        let is_own = |of_azure: &str| of_azure.ends_with("eventsubscriptions");
        azure::read_envelope(&mut root, is_own, &mut problems);
        let what = "an object with the destination of the events";
        let properties = root.required_object("properties", what, &mut problems);
        let settings =
            properties.and_then(|properties| settings(properties, context, &mut problems));
        root.finish(&mut problems);
        settings
    });
    problems.or(settings)
}

fn settings(
    mut properties: Object<'_>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Settings> {
    properties.ignore(&["topic", "provisioningState", "allowedRate", "pause", "validation"]);
    refuse_other_forms(&mut properties, problems);
    let kind = context.topic.kind;
    if kind == Kind::Namespace {
        // Event Grid's documents of namespaces have them here.
        properties.ignore(&["tags"]);
    }
    namespace::check(&mut properties, kind, problems);
    let profile = context.topic.delivery_profile;
    let (destination, retry_policy, dead_letter) =
        match namespace::push(&mut properties, kind, problems) {
            Some(mut push) => {
                let destination = destination::read(&mut push, context, problems);
                let dead_letter = dead_letter::read(&mut push, problems);
                (destination, retry::read_members(push, profile, problems), dead_letter)
            }
            None => (
                destination::read(&mut properties, context, problems),
                retry::read(&mut properties, profile, problems),
                dead_letter::read(&mut properties, problems),
            ),
        };
    let kept = context.existing.map(|existing| &existing.filter);
    let filter = filter::read(&mut properties, kind, kept, problems);
    let delivery_schema = delivery_schema(&mut properties, context, problems);
    let policies = &PROBATION_POLICIES;
    let probation_policy =
        properties.choice("probationPolicy", policies, Some("EventGrid"), problems);
    let labels = labels(&mut properties, problems);
    let expires_at = expires_at(&mut properties, context, problems);
    let signing_path = properties.path_of("signing");
    let is_signed = signing::read(&mut properties, problems);
    properties.finish(problems);
    let Destination { endpoint, batching, batch_failure, delivery_attributes, authentication } =
        destination?;
    refuse_nameless(batch_failure, delivery_schema, problems);
    if is_signed && matches!(endpoint, Endpoint::Resource(_)) {
        let rule = "belongs to WebHook: AWS itself signs the calls to its resources";
        problems.add(Code::InvalidValue, signing_path, rule);
    }
    Some(Settings {
        endpoint,
        batching,
        filter,
        delivery_schema,
        retry_policy,
        probation_policy: probation_policy.unwrap_or_default(),
        dead_letter,
        labels,
        expires_at,
        delivery_attributes,
        is_signed,
        signing: context.existing.filter(|_| is_signed).and_then(|one| one.signing.clone()),
        authentication: authentication.map(Arc::new),
        batch_failure,
    })
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

/// Refuses Event Grid's alternative forms of the same parts.
fn refuse_other_forms(properties: &mut Object<'_>, problems: &mut Problems) {
    let forms = [
        ("deliveryWithResourceIdentity", "write the endpoint into destination"),
        ("deadLetterWithResourceIdentity", "write the bucket into deadLetterDestination"),
    ];
    for (name, instead) in forms {
        properties.not_yet(name, |_| false, instead, problems);
    }
}

/// Reads the delivery schema. Not every input schema can be converted to it, and it can't be
/// changed after creation.
///
/// Source: Event Grid, "Webhook event delivery", schema conversions; recorded answers of Event Grid to
/// changes of it.
fn delivery_schema(
    properties: &mut Object<'_>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> DeliverySchema {
    const NAME: &str = "eventDeliverySchema";
    use DeliverySchema::{CloudEventSchemaV1_0, CustomInputSchema, EventGridSchema};
    let input = context.topic.input_schema;
    let stored = context.existing.map(|existing| existing.delivery_schema);
    let default = stored.unwrap_or(match input {
        InputSchema::EventGridSchema | InputSchema::CustomEventSchema => EventGridSchema,
        InputSchema::CloudEventSchemaV1_0 => CloudEventSchemaV1_0,
    });
    let name = name_of(&SCHEMAS, default);
    let path = properties.path_of(NAME);
    let schema = properties.choice(NAME, &SCHEMAS, Some(name), problems).unwrap_or(default);
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

fn labels(properties: &mut Object<'_>, problems: &mut Problems) -> Vec<String> {
    const NAME: &str = "labels";
    let path = properties.path_of(NAME);
    let given = properties.list(NAME, problems).unwrap_or_default();
    if given.len() > LABELS_MAX {
        let rule = format!("must have at most {LABELS_MAX} labels, but has {}", given.len());
        problems.add(Code::OutOfRange, path, rule);
        return Vec::new();
    }
    let mut labels = Vec::with_capacity(given.len());
    for (path, value) in given {
        let Some(label) = text(value, &path, problems) else { continue };
        if !(1..=LABEL_CHARS_MAX).contains(&label.chars().count()) {
            let rule =
                format!("must have 1 to {LABEL_CHARS_MAX} characters, but is {}", quoted(label));
            problems.add(Code::OutOfRange, path, rule);
        }
        labels.push(label.to_owned());
    }
    labels
}

fn expires_at(
    properties: &mut Object<'_>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Timestamp> {
    const NAME: &str = "expirationTimeUtc";
    let path = properties.path_of(NAME);
    let given = properties.text(NAME, problems)?;
    let Some(at) = Timestamp::parse_rfc_3339(given) else {
        let rule = format!(
            "must be a date and time of RFC 3339, such as 2030-01-01T00:00:00Z, but is {}",
            quoted(given)
        );
        problems.add(Code::InvalidValue, path, rule);
        return None;
    };
    // An expired one can still be changed in other respects.
    let is_kept = context.existing.is_some_and(|existing| existing.expires_at == Some(at));
    if at <= context.now && !is_kept {
        let now = context.now;
        let rule = format!("must be in the future, but is {at}, and now it is {now}");
        problems.add(Code::OutOfRange, path, rule);
    }
    Some(at)
}

#[cfg(test)]
mod tests;

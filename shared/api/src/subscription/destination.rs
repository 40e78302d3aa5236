//! `properties.destination`: where events go.

pub mod attributes;
pub mod authentication;
pub mod aws;

use gridpost_core::{
    endpoint::{self, Refusal},
    secret::Secret,
    subscription::{
        self, BatchFailure, Batching, Endpoint, EventSubscription, ResourceKind,
        authentication as by,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use self::{
    attributes::DeliveryAttribute, authentication::Authentication, aws::ResourceDestination,
};
use super::Context;
use crate::document::{
    At, Code,
    azure::{Form, NotSupported},
};

/// The parts of a destination that are stored.
pub(super) struct Stored {
    pub(super) endpoint: Endpoint,
    pub(super) batching: Option<Batching>,
    pub(super) batch_failure: BatchFailure,
    pub(super) delivery_attributes: Vec<subscription::DeliveryAttribute>,
    pub(super) authentication: Option<by::Authentication>,
}

/// Event Grid's destinations on Azure, and their counterparts here.
const AZURE_RESOURCES: [(&str, &str); 9] = [
    ("AzureFunction", "'LambdaFunction'"),
    ("EventHub", "'KinesisStream'"),
    ("HybridConnection", "'WebHook'"),
    ("MonitorAlert", "'WebHook'"),
    ("NamespaceTopic", "'EventBridgeBus'"),
    ("PartnerDestination", "'WebHook'"),
    ("ServiceBusQueue", "'SqsQueue'"),
    ("ServiceBusTopic", "'SnsTopic'"),
    ("StorageQueue", "'SqsQueue'"),
];

/// An object with endpointType, such as 'WebHook', and properties.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "endpointType", content = "properties")]
pub enum Destination {
    WebHook(Box<WebHook>),
    SqsQueue(ResourceDestination),
    SnsTopic(ResourceDestination),
    KinesisStream(ResourceDestination),
    EventBridgeBus(ResourceDestination),
    LambdaFunction(ResourceDestination),
}

/// An object with endpointUrl, and what else is set of a webhook.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebHook {
    /// An absolute https URL. Never read back, for its query may carry a key.
    #[schema(value_type = Option<String>, write_only, max_length = 2_048)]
    pub endpoint_url: Option<Secret>,
    /// The URL without its query, as reads have it. Written back, it keeps the stored URL.
    pub endpoint_base_url: Option<String>,
    #[schema(minimum = 1, maximum = 5_000, default = 1)]
    pub max_events_per_batch: Option<u32>,
    /// A target: one larger event goes alone.
    #[schema(minimum = 1, maximum = 1_024, default = 64)]
    pub preferred_batch_size_in_kilobytes: Option<u32>,
    /// The fate of a batch that is refused.
    #[schema(default = "Whole")]
    pub on_batch_failure: Option<OnBatchFailure>,
    /// Whether the body of an accepted response may name events that failed.
    #[schema(default = false)]
    pub partial_results: Option<bool>,
    #[schema(max_items = 10)]
    pub delivery_attribute_mappings: Option<Vec<DeliveryAttribute>>,
    pub authentication: Option<Authentication>,
    /// Event Grid's own: the tenant of the endpoint's application.
    #[schema(min_length = 1, max_length = 1_024)]
    pub azure_active_directory_tenant_id: Option<String>,
    /// Event Grid's own: the id or the URI of the endpoint's application.
    #[schema(min_length = 1, max_length = 1_024)]
    pub azure_active_directory_application_id_or_uri: Option<String>,
}

/// The fate of a batch that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum OnBatchFailure {
    /// It is tried again, or ends, as a whole.
    Whole,
    /// It is split until its bad events stand alone.
    Bisect,
}

/// Refuses what belongs to other destinations: those on Azure by their names, and members that this
/// deployment does not support, unless they ask for nothing new.
pub(super) fn refuse_others(form: &mut Form, context: &Context<'_>) {
    const TYPE: &str = "/properties/destination/endpointType";
    const MEMBERS: &str = "/properties/destination/properties";
    let given = form.document().pointer(TYPE).and_then(Value::as_str).unwrap_or_default();
    let is_webhook = match (given, context.existing) {
        // A patch may leave out the type that stays.
        ("", Some(existing)) => matches!(existing.endpoint, Endpoint::WebHook { .. }),
        _ => given.eq_ignore_ascii_case("WebHook"),
    };
    let azure = AZURE_RESOURCES.iter().find(|(name, _)| name.eq_ignore_ascii_case(given));
    if let Some((name, instead)) = azure {
        let rule = format!("is {name}, a resource of Azure's; its counterpart here is {instead}");
        form.add(Code::InvalidValue, TYPE, rule);
    }
    form.refuse(MEMBERS, &NOT_SUPPORTED);
    if context.allowed.secrets.entra.is_none() {
        form.refuse(MEMBERS, &authentication::OF_AZURE);
    }
    for name in ["onBatchFailure", "partialResults"].into_iter().filter(|_| !is_webhook) {
        let is_given = |value: &Value| !value.is_null();
        let given = form.members(MEMBERS).and_then(|members| members.remove(name));
        if given.as_ref().is_some_and(is_given) {
            let rule = "belongs to WebHook";
            form.add(Code::UnknownMember, &format!("{MEMBERS}/{name}"), rule);
        }
    }
}

const NOT_SUPPORTED: [NotSupported; 1] = [(
    "minimumTlsVersionAllowed",
    |value| value.as_str() == Some("1.2"),
    "it must be '1.2' (the default): TLS 1.2 and 1.3 are spoken",
)];

impl Destination {
    /// Returns what is stored of it. Problems have paths below `path`.
    pub(super) fn read(self, context: &Context<'_>, at: &mut At<'_>) -> Option<Stored> {
        let at = &mut at.member("properties");
        match self {
            Self::WebHook(webhook) => webhook.read(context, at),
            resource => {
                let (kind, resource) = resource.resource()?;
                resource.clone().read(kind, context, at)
            }
        }
    }

    /// Returns the kind of an AWS resource, and what is set of it; `None` for a webhook.
    pub fn resource(&self) -> Option<(ResourceKind, &ResourceDestination)> {
        Some(match self {
            Self::WebHook(_) => return None,
            Self::SqsQueue(resource) => (ResourceKind::SqsQueue, resource),
            Self::SnsTopic(resource) => (ResourceKind::SnsTopic, resource),
            Self::KinesisStream(resource) => (ResourceKind::KinesisStream, resource),
            Self::EventBridgeBus(resource) => (ResourceKind::EventBridgeBus, resource),
            Self::LambdaFunction(resource) => (ResourceKind::LambdaFunction, resource),
        })
    }

    /// Returns where a read says that events go: a URL without its query, or an ARN.
    pub fn place(&self) -> Option<&str> {
        match self {
            Self::WebHook(webhook) => webhook.endpoint_base_url.as_deref(),
            other => other.resource()?.1.resource_id.as_deref(),
        }
    }

    /// Returns the headers, or attributes, of every request, to change them.
    pub fn attributes_mut(&mut self) -> &mut Option<Vec<DeliveryAttribute>> {
        match self {
            Self::WebHook(webhook) => &mut webhook.delivery_attribute_mappings,
            Self::SqsQueue(resource)
            | Self::SnsTopic(resource)
            | Self::KinesisStream(resource)
            | Self::EventBridgeBus(resource)
            | Self::LambdaFunction(resource) => &mut resource.delivery_attribute_mappings,
        }
    }

    /// Returns the paths in events that it names, each with where it stands below `properties`.
    pub(super) fn source_fields(&self) -> Vec<(String, String)> {
        let (attributes, keys) = match (self, self.resource()) {
            (Self::WebHook(webhook), _) => (&webhook.delivery_attribute_mappings, Vec::new()),
            (_, Some((_, resource))) => {
                (&resource.delivery_attribute_mappings, resource.source_fields())
            }
            (_, None) => (&None, Vec::new()),
        };
        let attributes = attributes.iter().flatten().enumerate().filter_map(|(index, one)| {
            let field = one.properties.as_ref()?.source_field.clone()?;
            Some((format!("deliveryAttributeMappings[{index}]"), field))
        });
        attributes.chain(keys).collect()
    }

    pub(super) fn of(subscription: &EventSubscription) -> Self {
        let resource = match &subscription.endpoint {
            Endpoint::WebHook { url } => {
                return Self::WebHook(Box::new(WebHook::of(subscription, url)));
            }
            Endpoint::Resource(resource) => resource,
        };
        let written = ResourceDestination::of(resource, subscription);
        match resource.kind {
            ResourceKind::SqsQueue => Self::SqsQueue(written),
            ResourceKind::SnsTopic => Self::SnsTopic(written),
            ResourceKind::KinesisStream => Self::KinesisStream(written),
            ResourceKind::EventBridgeBus => Self::EventBridgeBus(written),
            ResourceKind::LambdaFunction => Self::LambdaFunction(written),
        }
    }
}

impl WebHook {
    fn read(mut self, context: &Context<'_>, at: &mut At<'_>) -> Option<Stored> {
        let url = self.read_url(context, at);
        // If the URL can't be read, that alone is the problem to report.
        let stays = |old: &Endpoint| url.as_deref().is_none_or(|url| old.is_of_origin(url));
        let stored = attributes::kept(context.existing, stays);
        let given = self.delivery_attribute_mappings.take();
        let delivery_attributes = attributes::read(given, stored, at);
        let has_stayed = context.existing.is_some_and(|existing| stays(&existing.endpoint));
        let endpoint = authentication::Endpoint { url: url.as_deref(), has_stayed, context };
        let authentication = endpoint.read(&mut self, at);
        if let Some(by) = authentication.as_ref().filter(|by| by.sends_header()) {
            authentication::refuse_own_header(&delivery_attributes, by, at);
        }
        let batching =
            read_batching(self.max_events_per_batch, self.preferred_batch_size_in_kilobytes);
        let batch_failure = self.read_batch_failure(batching, at);
        let endpoint = Endpoint::WebHook { url: Secret::new(url?) };
        Some(Stored { endpoint, batching, batch_failure, delivery_attributes, authentication })
    }

    /// Reads what batches may come to beside all or none.
    fn read_batch_failure(&self, batching: Option<Batching>, at: &mut At<'_>) -> BatchFailure {
        let read = BatchFailure {
            bisects: self.on_batch_failure == Some(OnBatchFailure::Bisect),
            reads_results: self.partial_results.unwrap_or(false),
        };
        let is_batched = batching.is_some_and(|batching| batching.max_events >= 2);
        let asked = [("onBatchFailure", read.bisects), ("partialResults", read.reads_results)];
        for (name, _) in asked.into_iter().filter(|(_, is_asked)| *is_asked && !is_batched) {
            let rule = "needs batches of several events: set maxEventsPerBatch to 2 or more";
            at.member(name).invalid(rule);
        }
        read
    }

    /// Reads the endpoint's URL. A document from a read has no `endpointUrl`: its `endpointBaseUrl`
    /// means that the stored URL stays, if it still belongs to that URL.
    fn read_url(&mut self, context: &Context<'_>, at: &mut At<'_>) -> Option<String> {
        let at = &mut at.member("endpointUrl");
        let Some(given) = self.endpoint_url.take() else {
            let stored = context.existing.and_then(|existing| match &existing.endpoint {
                Endpoint::WebHook { url } => Some(url.expose()),
                Endpoint::Resource(_) => None,
            });
            let base = self.endpoint_base_url.as_deref();
            if let Some(stored) = stored.filter(|stored| Some(base_url(stored)) == base) {
                return Some(stored.to_owned());
            }
            if !at.is_broken() {
                let rule = match base {
                    None => "is required: an absolute https URL",
                    Some(_) => {
                        "is required: an absolute https URL (endpointBaseUrl alone keeps the URL of an \
                         event subscription that exists, and only if it is that URL without its query; \
                         az prints the whole one with --include-full-endpoint-url true)"
                    }
                };
                at.add(Code::MissingMember, rule);
            }
            return None;
        };
        let given = given.expose().to_owned();
        if let Err(rule) = check_url(&given, context) {
            at.invalid(rule);
        }
        Some(given)
    }

    fn of(subscription: &EventSubscription, url: &Secret) -> Self {
        let batching = subscription.batching();
        let mut written = Self {
            endpoint_base_url: Some(base_url(url.expose()).to_owned()),
            max_events_per_batch: Some(batching.max_events),
            preferred_batch_size_in_kilobytes: Some(batching.preferred_kilobytes),
            on_batch_failure: subscription.batch_failure.bisects.then_some(OnBatchFailure::Bisect),
            partial_results: subscription.batch_failure.reads_results.then_some(true),
            delivery_attribute_mappings: Some(attributes::write(
                &subscription.delivery_attributes,
                false,
            )),
            ..Self::default()
        };
        authentication::write(subscription, &mut written);
        written
    }
}

/// Reads the two settings of batching; either one turns it on.
fn read_batching(max_events: Option<u32>, preferred_kilobytes: Option<u32>) -> Option<Batching> {
    let batching = Batching {
        max_events: max_events.unwrap_or(Batching::OFF.max_events),
        preferred_kilobytes: preferred_kilobytes.unwrap_or(Batching::OFF.preferred_kilobytes),
    };
    // Event Grid's reads include the defaults when batching is off: they must not turn it on.
    Some(batching).filter(|batching| *batching != Batching::OFF)
}

/// Returns a URL without its query, which may carry a key.
pub fn base_url(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}

/// Checks a URL. The error never repeats it, because its query may carry a key.
fn check_url(given: &str, context: &Context<'_>) -> Result<(), String> {
    match endpoint::check_url(given, context.allowed) {
        Ok(_) => Ok(()),
        Err(refusal @ (Refusal::Character | Refusal::NotAbsolute(_))) => Err(refusal.to_string()),
        Err(refusal) => Err(format!("is a URL that must not be called: {refusal}")),
    }
}

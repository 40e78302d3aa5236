//! `properties.destination`: where events go.

pub(super) mod attributes;

use serde_json::Value;

use super::{Context, write::base_url};
use crate::{
    document::{Code, Object, Problems, shown},
    endpoint::guard::{self, Refusal},
    secret::Secret,
    subscription::{Batching, DeliveryAttribute, Endpoint},
};

/// What a destination says.
pub(super) struct Webhook {
    pub(super) endpoint: Endpoint,
    pub(super) batching: Option<Batching>,
    pub(super) delivery_attributes: Vec<DeliveryAttribute>,
}

/// Characters of an endpoint's URL.
const URL_CHARS_MAX: usize = 2_048;

/// Destinations that come with AWS resource endpoints.
const AWS_RESOURCES: [&str; 5] =
    ["SqsQueue", "SnsTopic", "LambdaFunction", "KinesisStream", "EventBridgeBus"];

/// Destinations of Event Grid's that are Azure's own.
const AZURE_RESOURCES: [&str; 8] = [
    "AzureFunction",
    "EventHub",
    "HybridConnection",
    "MonitorAlert",
    "NamespaceTopic",
    "ServiceBusQueue",
    "ServiceBusTopic",
    "StorageQueue",
];

const URL: &str = "endpointUrl";

const BASE_URL: &str = "endpointBaseUrl";

pub(super) fn read(
    properties: &mut Object<'_>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Webhook> {
    let what = "an object with endpointType 'WebHook' and properties";
    let mut destination = properties.required_object("destination", what, problems)?;
    let what = "'WebHook'";
    let endpoint_type = destination.required_text("endpointType", what, problems);
    if let Some(other) = endpoint_type.filter(|name| *name != "WebHook") {
        refuse_type(&destination, other, problems);
        return None;
    }
    let what = "an object with endpointUrl";
    let webhook = destination.required_object("properties", what, problems);
    destination.finish(problems);
    webhook.and_then(|webhook| read_webhook(webhook, context, problems))
}

fn refuse_type(destination: &Object<'_>, given: &str, problems: &mut Problems) {
    let path = destination.path_of("endpointType");
    if AWS_RESOURCES.contains(&given) {
        let rule = format!(
            "is {given}, which is not supported yet by this deployment; it must be 'WebHook'"
        );
        problems.add(Code::NotSupportedYet, path, rule);
    } else if AZURE_RESOURCES.contains(&given) {
        let rule = format!("is {given}, a resource of Azure's; it must be 'WebHook'");
        problems.add(Code::InvalidValue, path, rule);
    } else {
        let rule = format!("must be 'WebHook', but is {}", shown(given));
        problems.add(Code::InvalidValue, path, rule);
    }
}

fn read_webhook(
    mut webhook: Object<'_>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Webhook> {
    refuse_unsupported(&mut webhook, problems);
    let delivery_attributes = attributes::read(&mut webhook, context.existing, problems);
    let url = read_url(&mut webhook, context, problems);
    let Batching { max_events, preferred_kilobytes } = Batching::OFF;
    let batching = Batching {
        max_events: webhook.whole(
            "maxEventsPerBatch",
            1..=Batching::MAX_EVENTS_LIMIT,
            max_events,
            problems,
        ),
        preferred_kilobytes: webhook.whole(
            "preferredBatchSizeInKilobytes",
            1..=Batching::PREFERRED_KILOBYTES_LIMIT,
            preferred_kilobytes,
            problems,
        ),
    };
    webhook.finish(problems);
    // Event Grid's reads fill in the defaults where batching is off: they must not turn it on.
    let batching = Some(batching).filter(|batching| *batching != Batching::OFF);
    let endpoint = Endpoint::WebHook { url: Secret::new(url?) };
    Some(Webhook { endpoint, batching, delivery_attributes })
}

/// Members of Event Grid's webhooks that come later. Values that ask for what is so anyway pass.
fn refuse_unsupported(webhook: &mut Object<'_>, problems: &mut Problems) {
    let nothing = |_: &Value| false;
    let instead = "put credentials into a secret delivery attribute";
    webhook.not_yet("azureActiveDirectoryTenantId", nothing, instead, problems);
    webhook.not_yet("azureActiveDirectoryApplicationIdOrUri", nothing, instead, problems);
    let is_floor = |value: &Value| value.as_str() == Some("1.2");
    let instead = "it must be '1.2' (the default): TLS 1.2 and 1.3 are spoken";
    webhook.not_yet("minimumTlsVersionAllowed", is_floor, instead, problems);
}

/// The endpoint's URL. A document that a read has answered has no `endpointUrl`: its
/// `endpointBaseUrl` says that the stored URL stays, if it still is that URL's.
fn read_url(
    webhook: &mut Object<'_>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<String> {
    webhook.ignore(&[BASE_URL]);
    if !webhook.has(URL) && webhook.has(BASE_URL) {
        return stored_url(webhook, context, problems);
    }
    let what = "an absolute https URL";
    let given = webhook.required_text(URL, what, problems)?;
    if let Err(rule) = check_url(given, context) {
        problems.add(Code::InvalidValue, webhook.path_of(URL), rule);
    }
    Some(given.to_owned())
}

fn stored_url(
    webhook: &mut Object<'_>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<String> {
    let base = webhook.text(BASE_URL, problems)?;
    let stored = context.existing.map(|existing| match &existing.endpoint {
        Endpoint::WebHook { url } => url.expose(),
    });
    if let Some(stored) = stored.filter(|stored| base_url(stored) == base) {
        return Some(stored.to_owned());
    }
    let rule = "is required: an absolute https URL (endpointBaseUrl alone keeps the URL of an \
                event subscription that exists, and only if it is that URL without its query)";
    problems.add(Code::MissingMember, webhook.path_of(URL), rule);
    None
}

/// Checks a URL, and never repeats it: its query may carry a key.
fn check_url(given: &str, context: &Context<'_>) -> Result<(), String> {
    let chars = given.chars().count();
    if chars > URL_CHARS_MAX {
        return Err(format!("must have at most {URL_CHARS_MAX} characters, but has {chars}"));
    }
    match guard::check_url(given, context.allowed) {
        Ok(_) => Ok(()),
        Err(refusal @ (Refusal::Character | Refusal::NotAbsolute(_))) => Err(refusal.to_string()),
        Err(refusal) => Err(format!("is a URL that must not be called: {refusal}")),
    }
}

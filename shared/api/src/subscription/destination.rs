//! `properties.destination`: where events go.

pub(super) mod attributes;
pub(super) mod authentication;
pub(super) mod aws;

use gridpost_core::{
    endpoint::{self, Refusal},
    secret::Secret,
    subscription::{
        Authentication, BatchFailure, Batching, DeliveryAttribute, Endpoint, ResourceKind,
    },
};
use serde_json::Value;

use super::{Context, namespace, write::base_url};
use crate::document::{Code, Object, Problems, quoted};

/// A destination, read from its document.
pub(super) struct Destination {
    pub(super) endpoint: Endpoint,
    pub(super) batching: Option<Batching>,
    pub(super) batch_failure: BatchFailure,
    pub(super) delivery_attributes: Vec<DeliveryAttribute>,
    pub(super) authentication: Option<Authentication>,
}

const URL_CHARS_MAX: usize = 2_048;

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

/// The supported endpoint types.
const TYPES: &str = "'WebHook', 'SqsQueue', 'SnsTopic', 'KinesisStream', 'EventBridgeBus' or \
                     'LambdaFunction'";

const NAME: &str = "destination";

/// Members that Event Grid has in place of it. Where one stands, it is refused or was read.
const IN_PLACE: [&str; 2] = ["deliveryWithResourceIdentity", namespace::DELIVERY];

const URL: &str = "endpointUrl";

const BASE_URL: &str = "endpointBaseUrl";

const MAX_EVENTS: &str = "maxEventsPerBatch";

const PREFERRED_SIZE: &str = "preferredBatchSizeInKilobytes";

pub(super) const ON_BATCH_FAILURE: &str = "onBatchFailure";

pub(super) const PARTIAL_RESULTS: &str = "partialResults";

/// What may happen to a batch that is refused: whether it is split.
const ON_BATCH_FAILURES: [(&str, bool); 2] = [("Whole", false), ("Bisect", true)];

pub(super) fn read(
    properties: &mut Object<'_>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Destination> {
    if !properties.has(NAME) && IN_PLACE.iter().any(|name| properties.has(name)) {
        // That it is refused says all.
        return None;
    }
    let what = "an object with endpointType, such as 'WebHook', and properties";
    let mut destination = properties.required_object(NAME, what, problems)?;
    let endpoint_type = destination.required_text("endpointType", TYPES, problems);
    let resource = endpoint_type.and_then(ResourceKind::named);
    let is_known = |name: &str| resource.is_some() || name.eq_ignore_ascii_case("WebHook");
    if let Some(other) = endpoint_type.filter(|name| !is_known(name)) {
        refuse_type(&destination, other, problems);
        return None;
    }
    let what = if resource.is_some() {
        "an object with resourceId, the resource's ARN"
    } else {
        "an object with endpointUrl"
    };
    let members = destination.required_object("properties", what, problems);
    destination.finish(problems);
    members.and_then(|members| match resource {
        Some(kind) => aws::read(members, kind, context, problems),
        None => read_webhook(members, context, problems),
    })
}

fn refuse_type(destination: &Object<'_>, given: &str, problems: &mut Problems) {
    let path = destination.path_of("endpointType");
    let azure = AZURE_RESOURCES.iter().find(|(name, _)| name.eq_ignore_ascii_case(given));
    let rule = match azure {
        Some((name, instead)) => {
            format!("is {name}, a resource of Azure's; its counterpart here is {instead}")
        }
        None => format!("must be {TYPES}, but is {}", quoted(given)),
    };
    problems.add(Code::InvalidValue, path, rule);
}

fn read_webhook(
    mut webhook: Object<'_>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Destination> {
    refuse_unsupported(&mut webhook, problems);
    let url = read_url(&mut webhook, context, problems);
    // If the URL can't be read, that alone is the problem to report.
    let stays = |old: &Endpoint| url.as_deref().is_none_or(|url| old.is_of_origin(url));
    let stored = attributes::kept(context.existing, stays);
    let delivery_attributes = attributes::read(&mut webhook, stored, problems);
    let has_stayed = context.existing.is_some_and(|existing| stays(&existing.endpoint));
    let authentication =
        authentication::read(&mut webhook, context, url.as_deref(), has_stayed, problems);
    if let Some(by) = authentication.as_ref().filter(|by| by.sends_header()) {
        authentication::refuse_own_header(&webhook, &delivery_attributes, by, problems);
    }
    let batching = read_batching(&mut webhook, problems);
    let batch_failure = read_batch_failure(&mut webhook, batching, problems);
    webhook.finish(problems);
    let endpoint = Endpoint::WebHook { url: Secret::new(url?) };
    Some(Destination { endpoint, batching, batch_failure, delivery_attributes, authentication })
}

/// Reads the two settings of batching; either one turns it on.
fn read_batching(members: &mut Object<'_>, problems: &mut Problems) -> Option<Batching> {
    let Batching { max_events, preferred_kilobytes } = Batching::OFF;
    let batching = Batching {
        max_events: members.whole(MAX_EVENTS, 1..=Batching::MAX_EVENTS_LIMIT, max_events, problems),
        preferred_kilobytes: members.whole(
            PREFERRED_SIZE,
            1..=Batching::PREFERRED_KILOBYTES_LIMIT,
            preferred_kilobytes,
            problems,
        ),
    };
    // Event Grid's reads include the defaults when batching is off: they must not turn it on.
    Some(batching).filter(|batching| *batching != Batching::OFF)
}

/// Reads what batches may come to beside all or none.
fn read_batch_failure(
    members: &mut Object<'_>,
    batching: Option<Batching>,
    problems: &mut Problems,
) -> BatchFailure {
    let on_failure = members.choice(ON_BATCH_FAILURE, &ON_BATCH_FAILURES, Some("Whole"), problems);
    let reads_results = members.flag(PARTIAL_RESULTS, problems);
    let read = BatchFailure { bisects: on_failure.unwrap_or(false), reads_results };
    if batching.is_none_or(|batching| batching.max_events < 2) {
        let asked = [(ON_BATCH_FAILURE, read.bisects), (PARTIAL_RESULTS, read.reads_results)];
        for (name, _) in asked.into_iter().filter(|(_, is_asked)| *is_asked) {
            let rule = format!("needs batches of several events: set {MAX_EVENTS} to 2 or more");
            problems.add(Code::InvalidValue, members.path_of(name), rule);
        }
    }
    read
}

/// Refuses members of Event Grid's webhooks that are not supported yet, except values that ask for
/// nothing new.
fn refuse_unsupported(webhook: &mut Object<'_>, problems: &mut Problems) {
    let is_floor = |value: &Value| value.as_str() == Some("1.2");
    let instead = "it must be '1.2' (the default): TLS 1.2 and 1.3 are spoken";
    webhook.not_yet("minimumTlsVersionAllowed", is_floor, instead, problems);
}

/// Reads the endpoint's URL. A document from a read has no `endpointUrl`: its `endpointBaseUrl`
/// means that the stored URL stays, if it still belongs to that URL.
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
    let stored = context.existing.and_then(|existing| match &existing.endpoint {
        Endpoint::WebHook { url } => Some(url.expose()),
        Endpoint::Resource(_) => None,
    });
    if let Some(stored) = stored.filter(|stored| base_url(stored) == base) {
        return Some(stored.to_owned());
    }
    let rule = "is required: an absolute https URL (endpointBaseUrl alone keeps the URL of an \
                event subscription that exists, and only if it is that URL without its query; az \
                prints the whole one with --include-full-endpoint-url true)";
    problems.add(Code::MissingMember, webhook.path_of(URL), rule);
    None
}

/// Checks a URL. The error never repeats it, because its query may carry a key.
fn check_url(given: &str, context: &Context<'_>) -> Result<(), String> {
    let chars = given.chars().count();
    if chars > URL_CHARS_MAX {
        return Err(format!("must have at most {URL_CHARS_MAX} characters, but has {chars}"));
    }
    match endpoint::check_url(given, context.allowed) {
        Ok(_) => Ok(()),
        Err(refusal @ (Refusal::Character | Refusal::NotAbsolute(_))) => Err(refusal.to_string()),
        Err(refusal) => Err(format!("is a URL that must not be called: {refusal}")),
    }
}

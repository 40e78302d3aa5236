//! What topics of Azure's have in their documents, and topics here have not.

use gridpost_core::topic::Kind;
use serde_json::Value;

use super::KINDS;
use crate::document::{
    Object, Problems,
    azure::{Form, is_empty, read_envelope},
    name_of,
};

const KIND: &str = "kind";

const IDENTITY: &str = "identity";

const SETTINGS: [&str; 5] =
    ["inputSchema", "inputSchemaMapping", "disableLocalAuth", "deliveryProfile", "idempotency"];

/// Members that only reads return, and what Event Grid has and nothing here depends on: where data
/// is, a list of event types for its portal, how long a namespace keeps events that nobody has
/// received.
const READ_ONLY: [&str; 7] = [
    "dataResidencyBoundary",
    "endpoint",
    "eventRetentionInDays",
    "eventTypeInfo",
    "metricResourceId",
    "provisioningState",
    "publisherType",
];

/// Those that namespace topics alone have.
const OF_NAMESPACES: [&str; 2] = ["eventRetentionInDays", "publisherType"];

/// Other members of Event Grid's: which values of theirs ask for nothing, and what to do instead.
type NotSupported = (&'static str, fn(&Value) -> bool, &'static str);

const NOT_SUPPORTED: [NotSupported; 8] = [
    (
        "publicNetworkAccess",
        |value| is(value, &["Enabled"]),
        "it must be 'Enabled' (the default): publishers reach the topic through the publish API, and \
         the deployment restricts who does",
    ),
    (
        "inboundIpRules",
        is_empty,
        "leave the rules out: the deployment restricts from where publishers reach the publish API",
    ),
    (
        "privateEndpointConnections",
        is_empty,
        "leave the private links out: the deployment restricts from where publishers reach the publish \
         API",
    ),
    (
        "minimumTlsVersionAllowed",
        |value| is(value, &["1.0", "1.1", "1.2"]),
        "it must be '1.2' or lower: the publish API speaks TLS 1.2 and 1.3",
    ),
    ("encryption", is_empty, "leave it out: the deployment has the keys that encrypt"),
    (
        "confidentialCompute",
        |value| value.get("mode").is_none_or(|mode| is(mode, &["Disabled"])),
        "leave it out, or set its mode to Disabled",
    ),
    ("source", |_| false, "it is of a system topic: events of a service of AWS come by a source"),
    (
        "topicType",
        |_| false,
        "it is of a system topic: events of a service of AWS come by a source",
    ),
];

/// The document in the one form that is read.
pub(super) fn form(document: &Value) -> Form<'_> {
    let of_azure = NOT_SUPPORTED.iter().map(|(name, ..)| *name);
    let names = SETTINGS.into_iter().chain(READ_ONLY).chain(of_azure);
    let mut form = Form::of(document, &[KIND, IDENTITY], |members| {
        names.into_iter().any(|name| members.contains_key(name))
    });
    form.wrap("/properties/inputSchemaMapping", &["inputSchemaMappingType"]);
    form
}

/// Begins to read a topic: its members other than its settings.
pub(super) fn read_root(root: &mut Object<'_>, problems: &mut Problems) {
    let is_own = |of_azure: &str| {
        ["microsoft.eventgrid/topics", "microsoft.eventgrid/namespaces/topics"].contains(&of_azure)
    };
    read_envelope(root, is_own, problems);
    let is_none = |identity: &Value| identity.get("type").is_none_or(|it| is(it, &["None"]));
    let instead = "topics have no managed identity; endpoints have their own authentication";
    root.not_yet(IDENTITY, is_none, instead, problems);
}

/// Begins to read a topic's settings: those of Event Grid's that are none here.
pub(super) fn read_properties(properties: &mut Object<'_>, problems: &mut Problems) {
    properties.ignore(&READ_ONLY);
    // Microsoft's templates have it.
    properties.ignore(&["name"]);
    for (name, asks_for_nothing, instead) in NOT_SUPPORTED {
        properties.not_yet(name, asks_for_nothing, instead, problems);
    }
}

/// The kind. That of every topic of Azure's is `Azure`; those of namespaces have a type, and settings,
/// of their own.
pub(super) fn kind(root: &mut Object<'_>, document: &Value, problems: &mut Problems) -> Kind {
    let type_of = document.get("type").and_then(Value::as_str).unwrap_or_default();
    let has = |name: &&str| document.pointer(&format!("/properties/{name}")).is_some();
    let is_of_namespace = type_of.to_ascii_lowercase().ends_with("/namespaces/topics")
        || OF_NAMESPACES.iter().any(has);
    let default = if is_of_namespace { Kind::Namespace } else { Kind::Custom };
    if document.get(KIND).is_some_and(|kind| is(kind, &["Azure"])) {
        root.ignore(&[KIND]);
        return default;
    }
    root.choice(KIND, &KINDS, Some(name_of(&KINDS, default)), problems).unwrap_or(default)
}

/// Whether a value is one of these names, in any case.
fn is(value: &Value, names: &[&str]) -> bool {
    value.as_str().is_some_and(|text| names.iter().any(|name| name.eq_ignore_ascii_case(text)))
}

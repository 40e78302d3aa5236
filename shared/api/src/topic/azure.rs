//! Members of Azure's topics that topics here do not have.

use gridpost_core::topic::Kind;
use serde_json::{Map, Value};

use crate::document::azure::{Form, NotSupported, is_empty};

const KIND: &str = "kind";

const MAPPING: &str = "/properties/inputSchemaMapping";

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

/// The members that namespace topics alone have.
const OF_NAMESPACES: [&str; 2] = ["eventRetentionInDays", "publisherType"];

const MANAGED_IDENTITY: NotSupported = (
    IDENTITY,
    |identity| identity.get("type").is_none_or(|it| is(it, &["None"])),
    "topics have no managed identity; endpoints have their own authentication",
);

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

/// Returns the document in the one form that is read.
pub(super) fn form(document: &Value) -> Form {
    let of_azure = NOT_SUPPORTED.iter().map(|(name, ..)| *name);
    let names = SETTINGS.into_iter().chain(READ_ONLY).chain(of_azure);
    let mut form = Form::of(document, &[KIND, IDENTITY], |members| {
        names.into_iter().any(|name| members.contains_key(name))
    });
    form.wrap(MAPPING, &["inputSchemaMappingType"]);
    if let Some(mapping) = form.members(MAPPING).filter(|mapping| !mapping.is_empty()) {
        // Without properties, every member has its default.
        let properties = mapping.entry("properties").or_insert(Value::Null);
        if properties.is_null() {
            *properties = Value::Object(Map::new());
        }
    }
    set_kind(&mut form);
    form.take_envelope(|of_azure| {
        ["microsoft.eventgrid/topics", "microsoft.eventgrid/namespaces/topics"].contains(&of_azure)
    });
    form.refuse("", &[MANAGED_IDENTITY]);
    form.take("/properties", &READ_ONLY);
    // Microsoft's templates have it.
    form.take("/properties", &["name"]);
    form.refuse("/properties", &NOT_SUPPORTED);
    form
}

/// Sets the kind where a topic of Azure's says another way what it is: the kind of each of them is
/// `Azure`, and those of namespaces have a type, and settings, of their own.
fn set_kind(form: &mut Form) {
    let document = form.document();
    let type_of = document.get("type").and_then(Value::as_str).unwrap_or_default();
    let has = |name: &&str| document.pointer(&format!("/properties/{name}")).is_some();
    let is_of_namespace = type_of.to_ascii_lowercase().ends_with("/namespaces/topics")
        || OF_NAMESPACES.iter().any(has);
    let kind = document.get(KIND).filter(|kind| !kind.is_null());
    if kind.is_some_and(|kind| !is(kind, &["Azure"])) {
        return;
    }
    let is_missing = kind.is_none();
    if let Some(members) = form.members("") {
        members.remove(KIND);
        if is_of_namespace || !is_missing {
            let kind = if is_of_namespace { Kind::Namespace } else { Kind::Custom };
            members.insert(KIND.to_owned(), <&str>::from(kind).into());
        }
    }
}

/// Whether a value is one of these names, in any case.
fn is(value: &Value, names: &[&str]) -> bool {
    value.as_str().is_some_and(|text| names.iter().any(|name| name.eq_ignore_ascii_case(text)))
}

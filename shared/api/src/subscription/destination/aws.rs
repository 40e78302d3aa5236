//! AWS resources as destinations.

use gridpost_core::{
    endpoint::arn::{Arn, NotAnArn},
    subscription::{
        self, BatchFailure, Endpoint, EventSubscription, KeySource, Resource, ResourceKind,
        aws::{GROUP_CHARS_MAX, PARTITION_KEY_CHARS_MAX, is_key},
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    super::Context,
    Stored,
    attributes::{self, DeliveryAttribute, SourceKind},
    read_batching,
};
use crate::document::{At, Code, kind as type_of, quoted, read_at};

/// An object with resourceId, the resource's ARN. Further members: maxEventsPerBatch and
/// preferredBatchSizeInKilobytes for LambdaFunction, messageGroupId for SqsQueue and SnsTopic,
/// partitionKey for KinesisStream, deliveryAttributeMappings for LambdaFunction, SqsQueue and SnsTopic.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDestination {
    /// An ARN that the deployment's resource_destinations allows.
    #[schema(required = true, max_length = 2_048)]
    pub resource_id: Option<String>,
    #[schema(minimum = 1, maximum = 5_000, default = 1)]
    pub max_events_per_batch: Option<u32>,
    #[schema(minimum = 1, maximum = 1_024, default = 64)]
    pub preferred_batch_size_in_kilobytes: Option<u32>,
    #[schema(max_items = 10)]
    pub delivery_attribute_mappings: Option<Vec<DeliveryAttribute>>,
    /// The message group of a FIFO resource: a text, or where it stands in the event.
    #[schema(value_type = Option<Key>)]
    pub message_group_id: Option<Value>,
    /// A text, or where it stands in the event.
    #[schema(value_type = Option<Key>)]
    pub partition_key: Option<Value>,
}

/// A text, or where it stands in the event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Key {
    Text(String),
    Source(KeyOrSource),
}

/// A text, or where it stands in the event, by its type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyOrSource {
    /// 'Static' or 'Dynamic'.
    #[serde(rename = "type")]
    #[schema(required = true)]
    pub kind: Option<SourceKind>,
    /// An object with value, or with sourceField where it is Dynamic.
    #[schema(required = true)]
    pub properties: Option<KeyProperties>,
}

/// A text, or where it stands in the event.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyProperties {
    pub value: Option<String>,
    pub source_field: Option<String>,
}

impl ResourceDestination {
    /// Returns what is stored of it. Problems have paths below `path`.
    pub(super) fn read(
        self,
        kind: ResourceKind,
        context: &Context<'_>,
        at: &mut At<'_>,
    ) -> Option<Stored> {
        let arn = self.resource_id.as_deref();
        let arn =
            arn.and_then(|given| read_arn(given, kind, context, &mut at.member("resourceId")));
        let mut refuse = |is_given: bool, name: &str, rule: &str| {
            if is_given {
                at.member(name).add(Code::UnknownMember, rule);
            }
        };
        let mut batching =
            read_batching(self.max_events_per_batch, self.preferred_batch_size_in_kilobytes);
        if kind != ResourceKind::LambdaFunction {
            let rule = format!(
                "belongs to WebHook and LambdaFunction: a {} gets each event as a message of its own, \
                 up to {} in one call",
                kind.name(),
                kind.rules().call_entries_max
            );
            refuse(self.max_events_per_batch.is_some(), "maxEventsPerBatch", &rule);
            let is_given = self.preferred_batch_size_in_kilobytes.is_some();
            refuse(is_given, "preferredBatchSizeInKilobytes", &rule);
            batching = None;
        }
        let (group, partition_key) = (self.message_group_id, self.partition_key);
        if !kind.rules().has_groups {
            refuse(group.is_some(), "messageGroupId", "belongs to SqsQueue and SnsTopic");
        }
        if kind != ResourceKind::KinesisStream {
            refuse(partition_key.is_some(), "partitionKey", "belongs to KinesisStream");
        }
        let stays = |old: &Endpoint| arn.as_ref().is_none_or(|arn| old.is_resource(arn));
        let stored = attributes::kept(context.existing, stays);
        let given = self.delivery_attribute_mappings;
        let delivery_attributes = read_attributes(given, kind, stored, at);
        let mut read_key = |name: &str, given: &Option<Value>, chars_max: usize| {
            read_key(given.as_ref()?, chars_max, &mut at.member(name))
        };
        let message_group_id = read_key("messageGroupId", &group, GROUP_CHARS_MAX);
        let partition_key = read_key("partitionKey", &partition_key, PARTITION_KEY_CHARS_MAX);
        let resource = Resource { kind, arn: arn?, message_group_id, partition_key };
        if resource.is_fifo() && group.is_none() {
            let rule = "is required: the resource is a FIFO one. It is a text, or an object such as \
                        {\"type\": \"Dynamic\", \"properties\": {\"sourceField\": \"data.customer\"}}";
            at.member("messageGroupId").require(rule);
        }
        Some(Stored {
            endpoint: Endpoint::Resource(resource),
            batching,
            batch_failure: BatchFailure::default(),
            delivery_attributes,
            authentication: None,
        })
    }

    /// Returns the paths in events that its keys name, each with the key's name.
    pub(super) fn source_fields(&self) -> Vec<(String, String)> {
        let keys =
            [("messageGroupId", &self.message_group_id), ("partitionKey", &self.partition_key)];
        let found = keys.into_iter().filter_map(|(name, key)| {
            let field = key.as_ref()?.pointer("/properties/sourceField")?.as_str()?;
            Some((name.to_owned(), field.to_owned()))
        });
        found.collect()
    }

    pub(super) fn of(resource: &Resource, subscription: &EventSubscription) -> Self {
        let kind = resource.kind;
        let batching =
            Some(subscription.batching()).filter(|_| kind == ResourceKind::LambdaFunction);
        let attributes = Some(&subscription.delivery_attributes);
        let attributes = attributes.filter(|_| kind.rules().attributes_max > 0);
        Self {
            resource_id: Some(resource.arn.to_string()),
            max_events_per_batch: batching.map(|batching| batching.max_events),
            preferred_batch_size_in_kilobytes: batching
                .map(|batching| batching.preferred_kilobytes),
            delivery_attribute_mappings: attributes.map(|all| attributes::write(all, false)),
            message_group_id: resource.message_group_id.as_ref().map(write_key),
            partition_key: resource.partition_key.as_ref().map(write_key),
        }
    }
}

/// Reads the ARN: of this kind, in the deployment's region, and one that it may deliver to.
fn read_arn(
    given: &str,
    kind: ResourceKind,
    context: &Context<'_>,
    at: &mut At<'_>,
) -> Option<Arn> {
    let allowed = &context.allowed.resources;
    let arn = match given.parse::<Arn>() {
        Ok(arn) if kind.is_of(&arn) => arn,
        Ok(_) | Err(NotAnArn) => {
            let (name, form) = (kind.name(), kind.rules().arn_form);
            let rule = format!(
                "must be the ARN of a {name}: {form} (the account has 12 digits), but is {}",
                quoted(given)
            );
            at.invalid(rule);
            return None;
        }
    };
    if !allowed.region.is_empty() && arn.region != allowed.region {
        let rule = format!(
            "must be in the region of this deployment, {}, but is in {}",
            allowed.region, arn.region
        );
        at.invalid(rule);
        return None;
    }
    // An existing destination is not refused in an unrelated change: dispatch finds out from AWS.
    let stays = context.existing.is_some_and(|existing| match &existing.endpoint {
        Endpoint::Resource(resource) => resource.arn == arn,
        Endpoint::WebHook { .. } => false,
    });
    if !stays && !allowed.patterns.has(&arn) {
        let rule = match allowed.patterns.because() {
            Some(because) => format!("is {arn}, {because}"),
            None => format!(
                "is {arn}, which this deployment may not deliver to. Add it, or a pattern such as \
                 {}, to the Terraform variable resource_destinations, which is now: {}",
                pattern_of(&arn),
                allowed.patterns
            ),
        };
        at.invalid(rule);
        return None;
    }
    Some(arn)
}

/// All resources of that kind in the same account and region.
fn pattern_of(arn: &Arn) -> Arn {
    let at = arn.resource.find([':', '/']).map_or(0, |at| at + 1);
    Arn { resource: format!("{}*", &arn.resource[..at]), ..arn.clone() }
}

fn read_attributes(
    given: Option<Vec<DeliveryAttribute>>,
    kind: ResourceKind,
    stored: &[subscription::DeliveryAttribute],
    at: &mut At<'_>,
) -> Vec<subscription::DeliveryAttribute> {
    let read = attributes::read(given, stored, at);
    let at = &mut at.member("deliveryAttributeMappings");
    let (name, most) = (kind.name(), kind.rules().attributes_max);
    if most == 0 && !read.is_empty() {
        let rule = format!("has no place in a {name}: its records carry the event alone");
        at.invalid(rule);
    } else if read.len() > most {
        let given = read.len();
        let rule = format!(
            "must have at most {most} delivery attributes for a {name}, whose messages have ten with \
             Gridpost's own, but has {given}"
        );
        at.add(Code::OutOfRange, rule);
    } else if kind.rules().has_groups {
        for (index, attribute) in read.iter().enumerate() {
            if !is_attribute_name(&attribute.name) {
                let rule = format!(
                    "must be letters, digits, '_', '-' and single '.' inside, without AWS. or Amazon. \
                     before them, but is {}",
                    quoted(&attribute.name)
                );
                at.element(index).member("name").invalid(rule);
            }
        }
    }
    read
}

/// Source: SQS API reference, `MessageAttributeValue`, and SNS developer guide, "Message attributes".
fn is_attribute_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let reserved = ["aws.", "amazon."].iter().any(|word| lower.starts_with(word));
    name.bytes().all(legal) && name.split('.').all(|part| !part.is_empty()) && !reserved
}

/// Reads a text, or an object that says where it is in the event.
fn read_key(given: &Value, chars_max: usize, at: &mut At<'_>) -> Option<KeySource> {
    match given {
        Value::String(text) => return fixed_key(text, chars_max, at),
        Value::Object(_) => {}
        other => {
            let rule = format!("must be an object, but is {}", type_of(other));
            at.add(Code::WrongType, rule);
            return None;
        }
    }
    let KeyOrSource { kind, properties } = read_at(given, at);
    let (kind, properties) = (kind?, properties?);
    let at = &mut at.member("properties");
    let (other, is_given) = match kind {
        SourceKind::Dynamic => ("value", properties.value.is_some()),
        SourceKind::Static => ("sourceField", properties.source_field.is_some()),
    };
    if is_given {
        let own = if kind == SourceKind::Dynamic { "sourceField" } else { "value" };
        let rule = format!("is not known; members here are {own}");
        at.member(other).add(Code::UnknownMember, rule);
    }
    if kind == SourceKind::Dynamic {
        let source_field = attributes::source_field(properties.source_field, at)?;
        return Some(KeySource::Dynamic { source_field });
    }
    let at = &mut at.member("value");
    if properties.value.is_none() {
        at.require("is required: the key");
    }
    fixed_key(&properties.value?, chars_max, at)
}

fn fixed_key(text: &str, chars_max: usize, at: &mut At<'_>) -> Option<KeySource> {
    if !is_key(text, chars_max) {
        let rule = format!(
            "must have 1 to {chars_max} printable ASCII characters without spaces, but is {}",
            quoted(text)
        );
        at.invalid(rule);
    }
    Some(KeySource::Static { value: text.to_owned() })
}

fn write_key(key: &KeySource) -> Value {
    let (kind, properties) = match key {
        KeySource::Static { value } => {
            (SourceKind::Static, KeyProperties { value: Some(value.clone()), source_field: None })
        }
        KeySource::Dynamic { source_field } => {
            let source_field = Some(source_field.clone());
            (SourceKind::Dynamic, KeyProperties { value: None, source_field })
        }
    };
    let key = KeyOrSource { kind: Some(kind), properties: Some(properties) };
    serde_json::to_value(key).unwrap_or_default()
}

//! The properties of AWS resources as destinations.

use gridpost_core::{
    endpoint::arn::{Arn, NotAnArn},
    subscription::{
        BatchFailure, DeliveryAttribute, Endpoint, EventSubscription, KeySource, Resource,
        ResourceKind,
        aws::{GROUP_CHARS_MAX, PARTITION_KEY_CHARS_MAX, is_key},
    },
};
use serde_json::{Value, json};

use super::{
    super::Context, Destination, MAX_EVENTS, ON_BATCH_FAILURE, PARTIAL_RESULTS, PREFERRED_SIZE,
    attributes, read_batching,
};
use crate::document::{Code, Object, Problems, quoted};

const RESOURCE_ID: &str = "resourceId";

const ATTRIBUTES: &str = "deliveryAttributeMappings";

const GROUP: &str = "messageGroupId";

const PARTITION_KEY: &str = "partitionKey";

pub(super) fn read(
    mut members: Object<'_>,
    kind: ResourceKind,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Destination> {
    let arn = read_arn(&mut members, kind, context, problems);
    let batching = match kind {
        ResourceKind::LambdaFunction => read_batching(&mut members, problems),
        _ => {
            refuse_batching(&mut members, kind, problems);
            None
        }
    };
    let stays = |old: &Endpoint| arn.as_ref().is_none_or(|arn| old.is_resource(arn));
    let stored = attributes::kept(context.existing, stays);
    let delivery_attributes = read_attributes(&mut members, kind, stored, problems);
    let message_group_id = if kind.rules().has_groups {
        read_key(&mut members, GROUP, GROUP_CHARS_MAX, problems)
    } else {
        refuse(&mut members, GROUP, "belongs to SqsQueue and SnsTopic", problems);
        None
    };
    let partition_key = if kind == ResourceKind::KinesisStream {
        read_key(&mut members, PARTITION_KEY, PARTITION_KEY_CHARS_MAX, problems)
    } else {
        refuse(&mut members, PARTITION_KEY, "belongs to KinesisStream", problems);
        None
    };
    for name in [ON_BATCH_FAILURE, PARTIAL_RESULTS] {
        refuse(&mut members, name, "belongs to WebHook", problems);
    }
    let is_without_group = message_group_id.is_none() && !members.has(GROUP);
    let group_path = members.path_of(GROUP);
    members.finish(problems);
    let resource = Resource { kind, arn: arn?, message_group_id, partition_key };
    if resource.is_fifo() && is_without_group {
        let rule = "is required: the resource is a FIFO one. It is a text, or an object such as \
                    {\"type\": \"Dynamic\", \"properties\": {\"sourceField\": \"data.customer\"}}";
        problems.add(Code::MissingMember, group_path, rule);
    }
    let endpoint = Endpoint::Resource(resource);
    let batch_failure = BatchFailure::default();
    Some(Destination {
        endpoint,
        batching,
        batch_failure,
        delivery_attributes,
        authentication: None,
    })
}

/// Reads the ARN: of this kind, in the deployment's region, and one that it may deliver to.
fn read_arn(
    members: &mut Object<'_>,
    kind: ResourceKind,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Arn> {
    let form = kind.rules().arn_form;
    let given = members.required_text(RESOURCE_ID, &format!("an ARN: {form}"), problems)?;
    let path = members.path_of(RESOURCE_ID);
    let allowed = &context.allowed.resources;
    let arn = match given.parse::<Arn>() {
        Ok(arn) if kind.is_of(&arn) => arn,
        Ok(_) | Err(NotAnArn) => {
            let name = kind.name();
            let rule = format!(
                "must be the ARN of a {name}: {form} (the account has 12 digits), but is {}",
                quoted(given)
            );
            problems.add(Code::InvalidValue, path, rule);
            return None;
        }
    };
    if !allowed.region.is_empty() && arn.region != allowed.region {
        let rule = format!(
            "must be in the region of this deployment, {}, but is in {}",
            allowed.region, arn.region
        );
        problems.add(Code::InvalidValue, path, rule);
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
        problems.add(Code::InvalidValue, path, rule);
        return None;
    }
    Some(arn)
}

/// All resources of that kind in the same account and region.
fn pattern_of(arn: &Arn) -> Arn {
    let at = arn.resource.find([':', '/']).map_or(0, |at| at + 1);
    Arn { resource: format!("{}*", &arn.resource[..at]), ..arn.clone() }
}

fn refuse_batching(members: &mut Object<'_>, kind: ResourceKind, problems: &mut Problems) {
    let most = kind.rules().call_entries_max;
    let rule = format!(
        "belongs to WebHook and LambdaFunction: a {} gets each event as a message of its own, up to \
         {most} in one call",
        kind.name()
    );
    refuse(members, MAX_EVENTS, &rule, problems);
    refuse(members, PREFERRED_SIZE, &rule, problems);
}

fn refuse(members: &mut Object<'_>, name: &'static str, rule: &str, problems: &mut Problems) {
    if members.has(name) {
        problems.add(Code::UnknownMember, members.path_of(name), rule);
    }
    members.ignore(&[name]);
}

fn read_attributes(
    members: &mut Object<'_>,
    kind: ResourceKind,
    stored: &[DeliveryAttribute],
    problems: &mut Problems,
) -> Vec<DeliveryAttribute> {
    let path = members.path_of(ATTRIBUTES);
    let read = attributes::read(members, stored, problems);
    let (name, most) = (kind.name(), kind.rules().attributes_max);
    if most == 0 && !read.is_empty() {
        let rule = format!("has no place in a {name}: its records carry the event alone");
        problems.add(Code::InvalidValue, path, rule);
    } else if read.len() > most {
        let given = read.len();
        let rule = format!(
            "must have at most {most} delivery attributes for a {name}, whose messages have ten with \
             Gridpost's own, but has {given}"
        );
        problems.add(Code::OutOfRange, path, rule);
    } else if kind.rules().has_groups {
        for (index, attribute) in read.iter().enumerate() {
            if !is_attribute_name(&attribute.name) {
                let rule = format!(
                    "must be letters, digits, '_', '-' and single '.' inside, without AWS. or Amazon. \
                     before them, but is {}",
                    quoted(&attribute.name)
                );
                problems.add(Code::InvalidValue, format!("{path}[{index}].name"), rule);
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
fn read_key(
    members: &mut Object<'_>,
    name: &'static str,
    chars_max: usize,
    problems: &mut Problems,
) -> Option<KeySource> {
    let path = members.path_of(name);
    let value = members.value(name)?;
    if let Value::String(text) = value {
        return fixed_key(text, path, chars_max, problems);
    }
    let mut object = Object::at(path, value, problems)?;
    object.required("type", "'Static' or 'Dynamic'", problems);
    let is_dynamic = object.choice("type", &[("Static", false), ("Dynamic", true)], None, problems);
    let what = "an object with value, or with sourceField where it is Dynamic";
    let properties = object.required_object("properties", what, problems);
    object.finish(problems);
    let mut properties = properties?;
    if is_dynamic? {
        let source_field = attributes::source_field(properties, problems)?;
        return Some(KeySource::Dynamic { source_field });
    }
    let given = properties.required_text("value", "the key", problems);
    let path = properties.path_of("value");
    properties.finish(problems);
    fixed_key(given?, path, chars_max, problems)
}

fn fixed_key(
    text: &str,
    path: String,
    chars_max: usize,
    problems: &mut Problems,
) -> Option<KeySource> {
    if !is_key(text, chars_max) {
        let rule = format!(
            "must have 1 to {chars_max} printable ASCII characters without spaces, but is {}",
            quoted(text)
        );
        problems.add(Code::InvalidValue, path, rule);
    }
    Some(KeySource::Static { value: text.to_owned() })
}

pub(in crate::subscription) fn write(
    resource: &Resource,
    subscription: &EventSubscription,
) -> Value {
    let mut properties = json!({RESOURCE_ID: resource.arn.to_string()});
    let kind = resource.kind;
    if kind == ResourceKind::LambdaFunction {
        let batching = subscription.batching();
        properties[MAX_EVENTS] = json!(batching.max_events);
        properties[PREFERRED_SIZE] = json!(batching.preferred_kilobytes);
    }
    if kind.rules().attributes_max > 0 {
        properties[ATTRIBUTES] = attributes::write(&subscription.delivery_attributes, false);
    }
    for (name, key) in
        [(GROUP, &resource.message_group_id), (PARTITION_KEY, &resource.partition_key)]
    {
        if let Some(key) = key {
            properties[name] = write_key(key);
        }
    }
    json!({"endpointType": kind.name(), "properties": properties})
}

fn write_key(key: &KeySource) -> Value {
    match key {
        KeySource::Static { value } => json!({"type": "Static", "properties": {"value": value}}),
        KeySource::Dynamic { source_field } => {
            json!({"type": "Dynamic", "properties": {"sourceField": source_field}})
        }
    }
}

//! Reads and writes `deliveryAttributeMappings`; every problem is listed.

use gridpost_core::{
    secret::Secret,
    subscription::{
        Endpoint, EventSubscription,
        attributes::{
            ATTRIBUTES_MAX, AttributeValue, DeliveryAttribute, VALUE_BYTES_MAX, is_header_value,
        },
    },
};
use serde_json::{Value, json};

use crate::document::{Code, Object, Problems, one_of, quoted};

const NAME: &str = "deliveryAttributeMappings";

/// Characters that a name or a path may have.
const CHARS_MAX: usize = 256;

/// Headers that are Gridpost's own or belong to the connection. Source of the hop-by-hop ones: RFC
/// 9110, section 7.6.1.
const RESERVED: [&str; 19] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "expect",
    "host",
    "keep-alive",
    "origin",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// Reserved prefixes of names.
const RESERVED_BEGINNINGS: [&str; 2] = ["aeg-", "webhook-"];

/// What Event Grid's reads show instead of a secret.
const HIDDEN: &str = "Hidden";

/// The attributes whose secrets a document may leave out: the stored ones, if the endpoint `stays`
/// with the party that has them. An author of an endpoint may not read its secrets, so they must
/// not follow it to another one.
pub(super) fn kept(
    existing: Option<&EventSubscription>,
    stays: impl Fn(&Endpoint) -> bool,
) -> &[DeliveryAttribute] {
    let kept = existing.filter(|existing| stays(&existing.endpoint));
    kept.map_or(&[], |existing| &existing.delivery_attributes)
}

/// Reads the attributes of an endpoint. Secrets that are `stored` are kept if the document leaves
/// their value out, as reads do, or says `Hidden`, as Event Grid's reads do.
pub(super) fn read(
    webhook: &mut Object<'_>,
    stored: &[DeliveryAttribute],
    problems: &mut Problems,
) -> Vec<DeliveryAttribute> {
    let path = webhook.path_of(NAME);
    let given = webhook.list(NAME, problems).unwrap_or_default();
    if given.len() > ATTRIBUTES_MAX {
        let rule = format!(
            "must have at most {ATTRIBUTES_MAX} delivery attributes, but has {}",
            given.len()
        );
        problems.add(Code::OutOfRange, path, rule);
        return Vec::new();
    }
    let mut read: Vec<DeliveryAttribute> = Vec::new();
    for (path, value) in given {
        let Some(attribute) = Object::at(path.clone(), value, problems)
            .and_then(|attribute| one(attribute, stored, problems))
        else {
            continue;
        };
        if read.iter().any(|before| before.name.eq_ignore_ascii_case(&attribute.name)) {
            let rule = format!("is given twice (in any case): {}", quoted(&attribute.name));
            problems.add(Code::InvalidValue, format!("{path}.name"), rule);
        }
        read.push(attribute);
    }
    read
}

fn one(
    mut attribute: Object<'_>,
    stored: &[DeliveryAttribute],
    problems: &mut Problems,
) -> Option<DeliveryAttribute> {
    let name = name(&mut attribute, problems);
    let types = [("Static", false), ("Dynamic", true)];
    let what = "'Static' or 'Dynamic'";
    attribute.required("type", what, problems);
    let is_dynamic = attribute.choice("type", &types, None, problems);
    let what = match is_dynamic {
        Some(true) => "an object with sourceField",
        _ => "an object with value and isSecret",
    };
    let properties = attribute.required_object("properties", what, problems);
    attribute.finish(problems);
    let value = match is_dynamic? {
        true => dynamic(properties?, problems),
        false => fixed(properties?, name, stored, problems),
    };
    Some(DeliveryAttribute { name: name?.to_owned(), value: value? })
}

fn name<'d>(attribute: &mut Object<'d>, problems: &mut Problems) -> Option<&'d str> {
    let name = attribute.required_text("name", "the header's name", problems)?;
    let lower_case = name.to_ascii_lowercase();
    let beginning = RESERVED_BEGINNINGS.iter().find(|word| lower_case.starts_with(**word));
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let rule = if !(1..=CHARS_MAX).contains(&name.len()) || !name.bytes().all(token) {
        format!(
            "must be a header's name, 1 to {CHARS_MAX} letters, digits, '-' and '_', but is {}",
            quoted(name)
        )
    } else if let Some(beginning) = beginning {
        format!("must not begin with '{beginning}', in any case: such headers are Gridpost's own")
    } else if RESERVED.contains(&lower_case.as_str()) {
        format!("must not be {}: the request or its connection has that header", one_of(&[name]))
    } else {
        return Some(name);
    };
    problems.add(Code::InvalidValue, attribute.path_of("name"), rule);
    Some(name)
}

fn dynamic(properties: Object<'_>, problems: &mut Problems) -> Option<AttributeValue> {
    source_field(properties, problems).map(|source_field| AttributeValue::Dynamic { source_field })
}

/// Reads the member `sourceField`, the only one of its object: a path in the event.
pub(super) fn source_field(mut properties: Object<'_>, problems: &mut Problems) -> Option<String> {
    const FIELD: &str = "sourceField";
    let what = "where the value stands in the event, such as data.key";
    let given = properties.required_text(FIELD, what, problems);
    let path = properties.path_of(FIELD);
    properties.finish(problems);
    let given = given?;
    // JSONPath's root may precede it; its other operators could find several values.
    let field = given.strip_prefix("$.").unwrap_or(given);
    let is_plain = |name: &str| {
        !name.is_empty() && !name.contains(['[', ']', '*', '?', '@', '$', '(', ')', '\'', '"'])
    };
    if field.chars().count() > CHARS_MAX || !field.split('.').all(is_plain) {
        let rule = format!(
            "must be names with single dots between them, such as data.key, at most {CHARS_MAX} \
             characters, but is {}",
            quoted(given)
        );
        problems.add(Code::InvalidValue, path, rule);
    }
    Some(field.to_owned())
}

fn fixed(
    mut properties: Object<'_>,
    name: Option<&str>,
    stored: &[DeliveryAttribute],
    problems: &mut Problems,
) -> Option<AttributeValue> {
    let is_secret = properties.flag("isSecret", problems);
    let path = properties.path_of("value");
    let given = properties.text("value", problems);
    let is_other_type = given.is_none() && properties.has("value");
    properties.finish(problems);
    if is_other_type {
        return None;
    }
    let Some(given) = given.filter(|given| !is_secret || *given != HIDDEN) else {
        let of_the_name = |one: &&DeliveryAttribute| {
            one.is_secret() && name.is_some_and(|name| one.name.eq_ignore_ascii_case(name))
        };
        let kept = stored.iter().find(of_the_name).filter(|_| is_secret);
        if kept.is_none() {
            let rule = "is required: the header's value (left out or 'Hidden', it keeps the stored \
                        value of a secret of that name while scheme, host and port of the endpoint \
                        stay as they are, and nothing is stored; az prints the value with \
                        --include-static-delivery-attribute-secret true)";
            problems.add(Code::MissingMember, path, rule);
        }
        return kept.map(|kept| kept.value.clone());
    };
    // The value is not repeated: it may be a secret.
    if given.is_empty() || given.len() > VALUE_BYTES_MAX {
        let bytes = given.len();
        let rule = format!("must have 1 to {VALUE_BYTES_MAX} bytes, but has {bytes}");
        problems.add(Code::OutOfRange, path, rule);
    } else if !is_header_value(given) {
        let rule = "must be printable ASCII and tabs, without tabs or spaces at its ends, as \
                    headers are";
        problems.add(Code::InvalidValue, path, rule);
    }
    Some(match is_secret {
        true => AttributeValue::Secret { value: Secret::new(given) },
        false => AttributeValue::Static { value: given.to_owned() },
    })
}

/// Delivery attributes as a document has them: secrets without their values, unless `with_secrets`.
pub(in crate::subscription) fn write(
    attributes: &[DeliveryAttribute],
    with_secrets: bool,
) -> Value {
    let one = |attribute: &DeliveryAttribute| {
        let (kind, properties) = match &attribute.value {
            AttributeValue::Static { value } => {
                ("Static", json!({"value": value, "isSecret": false}))
            }
            AttributeValue::Secret { value } => {
                let value = with_secrets.then(|| value.expose());
                ("Static", json!({"value": value, "isSecret": true}))
            }
            AttributeValue::Dynamic { source_field } => {
                ("Dynamic", json!({"sourceField": source_field}))
            }
        };
        json!({"name": attribute.name, "type": kind, "properties": properties})
    };
    attributes.iter().map(one).collect()
}

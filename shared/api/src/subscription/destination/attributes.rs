//! `deliveryAttributeMappings`: headers of the user's own.

use gridpost_core::{
    secret::Secret,
    subscription::{
        self, Endpoint, EventSubscription,
        attributes::{AttributeValue, VALUE_BYTES_MAX, is_header_value},
    },
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::document::{At, Code, one_of, quoted};

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

/// The text that Event Grid's reads show instead of a secret.
pub(super) const HIDDEN: &str = "Hidden";

/// A header of every request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryAttribute {
    /// The header's name.
    #[schema(required = true)]
    pub name: Option<String>,
    /// 'Static' or 'Dynamic'.
    #[serde(rename = "type")]
    #[schema(required = true)]
    pub kind: Option<SourceKind>,
    /// An object with value and isSecret, or with sourceField where it is Dynamic.
    #[schema(required = true)]
    pub properties: Option<AttributeProperties>,
}

/// Where a value comes from: the document, or each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum SourceKind {
    Static,
    Dynamic,
}

/// The value of a header, or where it stands in an event.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttributeProperties {
    /// Left out, it keeps the stored value of a secret of that name.
    #[schema(value_type = Option<String>)]
    pub value: Option<Secret>,
    pub is_secret: Option<bool>,
    /// Where the value stands in the event, such as data.key.
    pub source_field: Option<String>,
}

/// The delivery attributes with their secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryAttributes {
    pub value: Vec<DeliveryAttribute>,
}

/// The attributes whose secrets a document may leave out: the stored ones, if the endpoint `stays`
/// with the party that has them. An author of an endpoint may not read its secrets, so they must
/// not follow it to another one.
pub(super) fn kept(
    existing: Option<&EventSubscription>,
    stays: impl Fn(&Endpoint) -> bool,
) -> &[subscription::DeliveryAttribute] {
    let kept = existing.filter(|existing| stays(&existing.endpoint));
    kept.map_or(&[], |existing| &existing.delivery_attributes)
}

/// Reads the attributes of an endpoint. Secrets that are `stored` are kept if the document leaves
/// their value out, as reads do, or says `Hidden`, as Event Grid's reads do.
pub(super) fn read(
    given: Option<Vec<DeliveryAttribute>>,
    stored: &[subscription::DeliveryAttribute],
    at: &mut At<'_>,
) -> Vec<subscription::DeliveryAttribute> {
    let at = &mut at.member("deliveryAttributeMappings");
    let mut read: Vec<subscription::DeliveryAttribute> = Vec::new();
    for (index, attribute) in given.into_iter().flatten().enumerate() {
        let at = &mut at.element(index);
        let Some(attribute) = one(attribute, stored, at) else { continue };
        if read.iter().any(|before| before.name.eq_ignore_ascii_case(&attribute.name)) {
            let rule = format!("is given twice (in any case): {}", quoted(&attribute.name));
            at.member("name").invalid(rule);
        }
        read.push(attribute);
    }
    read
}

fn one(
    given: DeliveryAttribute,
    stored: &[subscription::DeliveryAttribute],
    at: &mut At<'_>,
) -> Option<subscription::DeliveryAttribute> {
    let DeliveryAttribute { name, kind, properties } = given;
    if let Some(rule) = name.as_deref().and_then(broken_name_rule) {
        at.member("name").invalid(rule);
    }
    let (kind, properties) = (kind?, properties?);
    let at = &mut at.member("properties");
    let value = match kind {
        SourceKind::Dynamic => {
            properties.source_field(at).map(|source_field| AttributeValue::Dynamic { source_field })
        }
        SourceKind::Static => properties.fixed(name.as_deref(), stored, at),
    };
    Some(subscription::DeliveryAttribute { name: name?, value: value? })
}

/// Returns the rule that a header's name breaks, if any.
fn broken_name_rule(name: &str) -> Option<String> {
    let lower_case = name.to_ascii_lowercase();
    let beginning = RESERVED_BEGINNINGS.iter().find(|word| lower_case.starts_with(**word));
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    Some(if !(1..=CHARS_MAX).contains(&name.len()) || !name.bytes().all(token) {
        format!(
            "must be a header's name, 1 to {CHARS_MAX} letters, digits, '-' and '_', but is {}",
            quoted(name)
        )
    } else if let Some(beginning) = beginning {
        format!("must not begin with '{beginning}', in any case: such headers are Gridpost's own")
    } else if RESERVED.contains(&lower_case.as_str()) {
        format!("must not be {}: the request or its connection has that header", one_of(&[name]))
    } else {
        return None;
    })
}

impl AttributeProperties {
    /// Returns the path in the event, checked.
    fn source_field(self, at: &mut At<'_>) -> Option<String> {
        let others = [("value", self.value.is_some()), ("isSecret", self.is_secret.is_some())];
        for (name, _) in others.into_iter().filter(|(_, is_given)| *is_given) {
            let rule = "is not known; members here are sourceField";
            at.member(name).add(Code::UnknownMember, rule);
        }
        source_field(self.source_field, at)
    }

    fn fixed(
        self,
        name: Option<&str>,
        stored: &[subscription::DeliveryAttribute],
        at: &mut At<'_>,
    ) -> Option<AttributeValue> {
        if self.source_field.is_some() {
            let rule = "is not known; members here are isSecret, value";
            at.member("sourceField").add(Code::UnknownMember, rule);
        }
        let is_secret = self.is_secret.unwrap_or(false);
        let at = &mut at.member("value");
        let Some(given) = self.value.filter(|given| !is_secret || given.expose() != HIDDEN) else {
            let of_the_name = |one: &&subscription::DeliveryAttribute| {
                one.is_secret() && name.is_some_and(|name| one.name.eq_ignore_ascii_case(name))
            };
            let kept = stored.iter().find(of_the_name).filter(|_| is_secret);
            if kept.is_none() && !at.is_broken() {
                let rule = "is required: the header's value (left out or 'Hidden', it keeps the stored \
                            value of a secret of that name while scheme, host and port of the endpoint \
                            stay as they are, and nothing is stored; az prints the value with \
                            --include-static-delivery-attribute-secret true)";
                at.add(Code::MissingMember, rule);
            }
            return kept.map(|kept| kept.value.clone());
        };
        // The value is not repeated: it may be a secret.
        let bytes = given.expose().len();
        if !(1..=VALUE_BYTES_MAX).contains(&bytes) {
            let rule = format!("must have 1 to {VALUE_BYTES_MAX} bytes, but has {bytes}");
            at.add(Code::OutOfRange, rule);
        } else if !is_header_value(given.expose()) {
            let rule = "must be printable ASCII and tabs, without tabs or spaces at its ends, as \
                        headers are";
            at.invalid(rule);
        }
        Some(match is_secret {
            true => AttributeValue::Secret { value: given },
            false => AttributeValue::Static { value: given.expose().to_owned() },
        })
    }
}

/// Checks a path in the event; `path` is that of the object that has it as `sourceField`.
pub(super) fn source_field(given: Option<String>, at: &mut At<'_>) -> Option<String> {
    let at = &mut at.member("sourceField");
    let Some(given) = given else {
        if !at.is_broken() {
            let rule = "is required: where the value stands in the event, such as data.key";
            at.add(Code::MissingMember, rule);
        }
        return None;
    };
    // JSONPath's root may precede it; its other operators could find several values.
    let field = given.strip_prefix("$.").unwrap_or(&given);
    let is_plain = |name: &str| {
        !name.is_empty() && !name.contains(['[', ']', '*', '?', '@', '$', '(', ')', '\'', '"'])
    };
    if field.chars().count() > CHARS_MAX || !field.split('.').all(is_plain) {
        let rule = format!(
            "must be names with single dots between them, such as data.key, at most {CHARS_MAX} \
             characters, but is {}",
            quoted(&given)
        );
        at.invalid(rule);
    }
    Some(field.to_owned())
}

/// Writes delivery attributes: secrets without their values, unless `with_secrets`.
pub(in crate::subscription) fn write(
    attributes: &[subscription::DeliveryAttribute],
    with_secrets: bool,
) -> Vec<DeliveryAttribute> {
    let one = |attribute: &subscription::DeliveryAttribute| {
        let mut properties = AttributeProperties::default();
        let kind = match &attribute.value {
            AttributeValue::Static { value } => {
                properties.value = Some(Secret::new(value.as_str()));
                properties.is_secret = Some(false);
                SourceKind::Static
            }
            AttributeValue::Secret { value } => {
                properties.value = with_secrets.then(|| value.clone());
                properties.is_secret = Some(true);
                SourceKind::Static
            }
            AttributeValue::Dynamic { source_field } => {
                properties.source_field = Some(source_field.clone());
                SourceKind::Dynamic
            }
        };
        let name = Some(attribute.name.clone());
        DeliveryAttribute { name, kind: Some(kind), properties: Some(properties) }
    };
    attributes.iter().map(one).collect()
}

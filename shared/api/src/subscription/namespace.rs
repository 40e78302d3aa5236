//! The form of documents for namespace topics: `deliveryConfiguration` and `filtersConfiguration`.
//! It says the same by other names; reads return one form.

use gridpost_core::topic::Kind;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::document::{
    Code,
    azure::{Form, NotSupported},
};

/// The member with destination, retry policy and dead-letter destination of push delivery.
pub(super) const DELIVERY: &str = "deliveryConfiguration";

pub(super) const FILTERS: &str = "filtersConfiguration";

const STAND_FOR: [(&str, &[&str]); 2] =
    [(DELIVERY, &["destination", "retryPolicy", "deadLetterDestination"]), (FILTERS, &["filter"])];

/// Namespace topics: stands for destination, retryPolicy and deadLetterDestination.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryConfiguration {
    #[schema(default = "Push")]
    pub delivery_mode: Option<DeliveryMode>,
    /// An object with destination, maxDeliveryCount and eventTimeToLive.
    #[schema(required = true, additional_properties)]
    pub push: Option<Map<String, Value>>,
}

/// The party that begins a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum DeliveryMode {
    Push,
    Queue,
}

const QUEUE: [NotSupported; 1] = [("queue", |_| false, "write push")];

const PUSH: [NotSupported; 2] = [
    ("deliveryWithResourceIdentity", |_| false, "write its destination into push.destination"),
    (
        "deadLetterDestinationWithResourceIdentity",
        |_| false,
        "write the bucket into push.deadLetterDestination",
    ),
];

/// Brings this form into the other one. It is refused for other topics, and beside what it stands for.
pub(super) fn rename(form: &mut Form, kind: Kind) {
    for (name, plain) in STAND_FOR {
        let Some(properties) = form.members("/properties") else { return };
        if properties.get(name).is_none_or(Value::is_null) {
            properties.remove(name);
            continue;
        }
        if kind != Kind::Namespace {
            properties.remove(name);
            let rule = format!("belongs to namespace topics; here write {}", plain.join(", "));
            form.add(Code::UnknownMember, &format!("/properties/{name}"), rule);
            form.silence("/properties/destination");
            continue;
        }
        let beside: Vec<_> =
            plain.iter().filter(|plain| properties.remove(**plain).is_some()).collect();
        for plain in beside {
            let rule = format!("must not stand beside {name}, which says the same");
            form.add(Code::InvalidValue, &format!("/properties/{plain}"), rule);
        }
        if name == DELIVERY {
            rename_delivery(form);
        } else {
            form.rename("/properties/filtersConfiguration", "/properties/filter");
            form.rename("/properties/filter/filters", "/properties/filter/advancedFilters");
        }
    }
}

fn rename_delivery(form: &mut Form) {
    const DELIVERY_AT: &str = "/properties/deliveryConfiguration";
    const PUSH_AT: &str = "/properties/deliveryConfiguration/push";
    let given = form.document().pointer(DELIVERY_AT).cloned().unwrap_or_default();
    let mode = &given["deliveryMode"];
    if !mode.is_null() && !mode.as_str().is_some_and(|mode| mode.eq_ignore_ascii_case("Push")) {
        // Members of another mode, or missing for this one, are not problems of their own.
        if let Some(members) = form.members(DELIVERY_AT) {
            members.remove("queue");
            members.insert("push".to_owned(), Value::Object(Map::new()));
        }
        form.silence("/properties/destination");
        let read: Option<DeliveryConfiguration> = form.take_as(DELIVERY_AT);
        if read.is_some_and(|read| read.delivery_mode == Some(DeliveryMode::Queue)) {
            let rule = "is Queue, pull delivery, which is not supported; it must be 'Push' (default). \
                        A destination of type SqsQueue lets receivers fetch events from a queue";
            form.add(Code::NotSupportedYet, &format!("{DELIVERY_AT}/deliveryMode"), rule);
        }
        return;
    }
    form.refuse(DELIVERY_AT, &QUEUE);
    form.take_as::<DeliveryConfiguration>(DELIVERY_AT);
    let push = &given["push"];
    let has_identity = !push["deliveryWithResourceIdentity"].is_null();
    if has_identity || !push.is_object() {
        form.silence("/properties/destination");
    }
    let Value::Object(_) = push else { return };
    let push = push.clone();
    let Some(properties) = form.members("/properties") else { return };
    properties.insert("retryPolicy".to_owned(), push);
    form.moved("/properties/retryPolicy", PUSH_AT);
    form.refuse("/properties/retryPolicy", &PUSH);
    for name in ["destination", "deadLetterDestination"] {
        form.rename(&format!("/properties/retryPolicy/{name}"), &format!("/properties/{name}"));
    }
    form.moved("/properties/destination", &format!("{PUSH_AT}/destination"));
}

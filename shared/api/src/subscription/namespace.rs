//! The form of documents for namespace topics: `deliveryConfiguration` and `filtersConfiguration`.
//! It says the same by other names; reads return one form.

use gridpost_core::topic::Kind;

use crate::document::{Code, Object, Problems};

/// The member with destination, retry policy and dead-letter destination of push delivery.
pub(super) const DELIVERY: &str = "deliveryConfiguration";

pub(super) const FILTERS: &str = "filtersConfiguration";

const STAND_FOR: [(&str, &[&str]); 2] =
    [(DELIVERY, &["destination", "retryPolicy", "deadLetterDestination"]), (FILTERS, &["filter"])];

/// Refuses this form for other topics, and together with its equivalents.
pub(super) fn check(properties: &mut Object<'_>, kind: Kind, problems: &mut Problems) {
    for (name, plain) in STAND_FOR {
        if !properties.has(name) {
            continue;
        }
        if kind != Kind::Namespace {
            properties.ignore(&[name]);
            let rule = format!("belongs to namespace topics; here write {}", plain.join(", "));
            problems.add(Code::UnknownMember, properties.path_of(name), rule);
            continue;
        }
        for plain in plain.iter().filter(|plain| properties.has(plain)) {
            let rule = format!("must not stand beside {name}, which says the same");
            problems.add(Code::InvalidValue, properties.path_of(plain), rule);
        }
    }
}

/// `deliveryConfiguration.push`, if the document has this form. Its members are the caller's to
/// read and to finish.
pub(super) fn push<'d>(
    properties: &mut Object<'d>,
    kind: Kind,
    problems: &mut Problems,
) -> Option<Object<'d>> {
    if kind != Kind::Namespace {
        return None;
    }
    let mut delivery = properties.object(DELIVERY, problems)?;
    properties.ignore(STAND_FOR[0].1);
    let path = delivery.path_of("deliveryMode");
    let modes = [("Push", true), ("Queue", false)];
    let is_push = delivery.choice("deliveryMode", &modes, Some("Push"), problems);
    if is_push == Some(false) {
        let rule = "is Queue, pull delivery, which is not supported; it must be 'Push' (default). A \
                    destination of type SqsQueue lets receivers fetch events from a queue";
        problems.add(Code::NotSupportedYet, path, rule);
    }
    if delivery.has("deliveryMode") && is_push != Some(true) {
        // What belongs to another mode, or is missing for this one, is no problem of its own.
        delivery.ignore(&["queue", "push"]);
        delivery.finish(problems);
        return None;
    }
    delivery.not_yet("queue", |_| false, "write push", problems);
    let what = "an object with destination, maxDeliveryCount and eventTimeToLive";
    let push = delivery.required_object("push", what, problems);
    delivery.finish(problems);
    let mut push = push?;
    let forms = [
        ("deliveryWithResourceIdentity", "write its destination into push.destination"),
        (
            "deadLetterDestinationWithResourceIdentity",
            "write the bucket into push.deadLetterDestination",
        ),
    ];
    for (name, instead) in forms {
        push.not_yet(name, |_| false, instead, problems);
    }
    Some(push)
}

//! The fields of an event subscription on a page.

use maud::{Markup, html};

use super::rows::RETRY;
use super::{TYPE, authentication, has, types};
use crate::{
    form::view::{Text, View},
    page,
};

/// What the two limits of a retry policy are called, and how each is asked for.
pub(crate) type Limits = [(&'static str, &'static str, &'static str); 2];

pub(crate) const BASIC: Limits = [
    (
        "retryPolicy.maxDeliveryAttempts",
        "Attempts at most",
        "1 to 30, the first one included; 30 where empty.",
    ),
    (
        "retryPolicy.eventTimeToLiveInMinutes",
        "Time-to-live in minutes",
        "1 to 1,440, from the publish; 1,440 where empty.",
    ),
];

pub(crate) const NAMESPACE: Limits = [
    (
        "retryPolicy.maxDeliveryCount",
        "Attempts at most",
        "1 to 10, the first one included; 10 where empty.",
    ),
    (
        "retryPolicy.eventTimeToLive",
        "Time-to-live",
        "ISO 8601 in whole minutes, PT1M to P7D; P7D where empty.",
    ),
];

/// The operators of advanced filters, with what their values are.
pub(crate) const OPERATORS: [(&str, &str); 19] = [
    ("NumberIn", "NumberIn: numbers"),
    ("NumberNotIn", "NumberNotIn: numbers"),
    ("NumberLessThan", "NumberLessThan: a number"),
    ("NumberGreaterThan", "NumberGreaterThan: a number"),
    ("NumberLessThanOrEquals", "NumberLessThanOrEquals: a number"),
    ("NumberGreaterThanOrEquals", "NumberGreaterThanOrEquals: a number"),
    ("NumberInRange", "NumberInRange: lines such as 1, 10"),
    ("NumberNotInRange", "NumberNotInRange: lines such as 1, 10"),
    ("BoolEquals", "BoolEquals: true or false"),
    ("StringIn", "StringIn: texts"),
    ("StringNotIn", "StringNotIn: texts"),
    ("StringBeginsWith", "StringBeginsWith: texts"),
    ("StringNotBeginsWith", "StringNotBeginsWith: texts"),
    ("StringEndsWith", "StringEndsWith: texts"),
    ("StringNotEndsWith", "StringNotEndsWith: texts"),
    ("StringContains", "StringContains: texts"),
    ("StringNotContains", "StringNotContains: texts"),
    ("IsNullOrUndefined", "IsNullOrUndefined: no value"),
    ("IsNotNull", "IsNotNull: no value"),
];

#[derive(Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) limits: Limits,
    pub(crate) is_new: bool,
    /// The endpoint that is saved, without its query.
    pub(crate) base_url: Option<&'a str>,
}

pub(crate) fn sections(form: View<'_>, about: About<'_>) -> Markup {
    html! {
        (destination(form, about))
        (filter(form))
        (retry(form, about.limits))
        (ends(form))
        (others(form, about.is_new))
        p.muted { "A text in quotation marks is read as JSON, for characters that do not show: " code { "\"a\\u200bb\"" } "." }
    }
}

fn destination(form: View<'_>, about: About<'_>) -> Markup {
    let kind = form.fields.get(TYPE);
    let field = |member: &str| format!("destination.{member}");
    let url_hint = match about.base_url {
        Some(url) => format!(
            "Empty: {} stays, with its query. Another one is asked for its consent.",
            page::visible(url)
        ),
        None => "An absolute https URL. It is asked for its consent.".to_owned(),
    };
    html! {
        fieldset {
            legend { "Destination" }
            (form.select(TYPE, "Type", "", &types()))
            input type="hidden" name="destination.shown" value=(kind);
            @if form.may_change { button.second name="do" value="choose" { "Show the fields of this type" } }
            @if has(kind, "endpointUrl") {
                (form.text(Text { name: &field("endpointUrl"), label: "Endpoint's URL", hint: &url_hint,
                    placeholder: about.base_url.unwrap_or("https://example.com/hook"), ..Text::default() }))
            }
            @if has(kind, "resourceId") {
                (form.text(Text { name: &field("resourceId"), label: "ARN of the resource",
                    hint: "The deployment's resource_destinations must allow it.", ..Text::default() }))
            }
            @for (member, label) in [("messageGroupId", "Message group"), ("partitionKey", "Partition key")] {
                @if has(kind, member) { (key(form, &field(member), label)) }
            }
            @if has(kind, "maxEventsPerBatch") {
                (form.text(Text { name: &field("maxEventsPerBatch"), label: "Events in a request at most",
                    hint: "1 to 5,000; 1 where empty.", mode: Some("numeric"), ..Text::default() }))
                (form.text(Text { name: &field("preferredBatchSizeInKilobytes"), label: "Preferred size of a request in kilobytes",
                    hint: "1 to 1,024; 64 where empty.", mode: Some("numeric"), ..Text::default() }))
            }
            @if has(kind, authentication::NAME) { (authentication::section(form)) }
            @if has(kind, "onBatchFailure") {
                (form.select(&field("onBatchFailure"), "A request of several events that is refused",
                    "Splitting takes further attempts.", &[("", "ends as a whole"), ("Bisect", "Bisect: is split until the bad events stand alone")]))
                (form.check(&field("partialResults"), "Answers name events to send again or to end",
                    "results in the body of an answer with 200 to 204."))
            }
            @if has(kind, "deliveryAttributeMappings") {
                h2 { "Delivery attributes" }
                p.hint { "Headers of your own on every request, at most 10." }
                (form.rows(&field("deliveryAttributeMappings"), "header", attribute))
            }
        }
    }
}

fn key(form: View<'_>, name: &str, label: &str) -> Markup {
    let kinds = [
        ("", "none of one's own"),
        ("Static", "this text"),
        ("Dynamic", "what stands at this path of the event"),
    ];
    html! {
        (form.select(&format!("{name}.kind"), label, "", &kinds))
        (form.text(Text { name: &format!("{name}.text"), label: &format!("{label}: text or path"),
            placeholder: "data.customer", also: Some(name), ..Text::default() }))
    }
}

fn attribute(form: &View<'_>, name: &str, _: usize) -> Markup {
    let field = |member: &str| format!("{name}.{member}");
    let kinds = [
        ("Static", "Static: always the same"),
        ("Dynamic", "Dynamic: what stands at a path of the event"),
    ];
    html! {
        (form.text(Text { name: &field("name"), label: "Name", placeholder: "X-Tenant", ..Text::default() }))
        (form.select(&field("type"), "Kind", "", &kinds))
        (form.text(Text { name: &field("value"), label: "Value, where static",
            hint: "A secret without a value keeps the one that is stored.", ..Text::default() }))
        (form.check(&field("isSecret"), "Secret: no read shows the value", ""))
        (form.text(Text { name: &field("sourceField"), label: "Path, where dynamic", placeholder: "data.order.id", ..Text::default() }))
    }
}

fn filter(form: View<'_>) -> Markup {
    html! {
        fieldset {
            legend { "Filter" }
            (form.lines(Text { name: "filter.includedEventTypes", label: "Event types, one in a line",
                hint: "Exact names; empty: all.", ..Text::default() }))
            (form.text(Text { name: "filter.subjectBeginsWith", label: "Subject begins with", ..Text::default() }))
            (form.text(Text { name: "filter.subjectEndsWith", label: "Subject ends with", ..Text::default() }))
            (form.check("filter.isSubjectCaseSensitive", "The subject's case counts", ""))
            h2 { "Advanced filters" }
            p.hint { "An event must pass all of them; the values of one are alternatives." }
            (form.rows("filter.advancedFilters", "filter", advanced))
            (form.check("filter.enableAdvancedFilteringOnArrays", "Advanced filters look at the elements of arrays", ""))
        }
    }
}

fn advanced(form: &View<'_>, name: &str, _: usize) -> Markup {
    let field = |member: &str| format!("{name}.{member}");
    html! {
        (form.text(Text { name: &field("key"), label: "Key", placeholder: "data.country", ..Text::default() }))
        (form.select(&field("operatorType"), "Operator", "", &OPERATORS))
        (form.lines(Text { name: &field("values"), label: "Values, one in a line", also: Some(&field("value")), ..Text::default() }))
    }
}

fn retry(form: View<'_>, limits: Limits) -> Markup {
    html! {
        fieldset {
            legend { "Retries" }
            @for (name, label, hint) in limits { (form.text(Text { name, label, hint, ..Text::default() })) }
            (form.text(Text { name: "retryPolicy.schedule", label: "Own schedule",
                hint: "1 to 30 rising offsets from the first attempt in seconds, with commas: 5, 30, 300. Empty: the delivery profile's.",
                ..Text::default() }))
            h2 { "Own rules" }
            p.hint { "What follows an answer, before the delivery profile's own table." }
            (form.rows("retryPolicy.statusRules", "rule", rule))
            (form.select("probationPolicy", "Events that meet a probation caused by a client error", "",
                &[("", "the default"), ("EventGrid", "EventGrid: end"), ("Delay", "Delay: wait")]))
        }
    }
}

fn rule(form: &View<'_>, name: &str, _: usize) -> Markup {
    let field = |member: &str| format!("{name}.{member}");
    let actions =
        [("deadLetter", "ends the delivery"), (RETRY, "is tried again, at the soonest after")];
    html! {
        (form.text(Text { name: &field("which"), label: "A status, a class or an outcome",
            placeholder: "404, 5xx, SocketError", ..Text::default() }))
        (form.select(&field("action"), "It", "", &actions))
        (form.text(Text { name: &field("seconds"), label: "Seconds, where tried again", hint: "0 to 86,400.",
            mode: Some("numeric"), ..Text::default() }))
    }
}

fn ends(form: View<'_>) -> Markup {
    html! {
        fieldset {
            legend { "Dead letters" }
            p.hint { "Without a bucket, what ends undelivered is dropped, counted and logged." }
            (form.text(Text { name: "deadLetterDestination.bucketName", label: "S3 bucket",
                also: Some("deadLetterDestination"), ..Text::default() }))
            (form.text(Text { name: "deadLetterDestination.prefix", label: "Names of objects begin with", ..Text::default() }))
        }
    }
}

fn others(form: View<'_>, is_new: bool) -> Markup {
    let schemas = [
        ("", "as the topic"),
        ("EventGridSchema", "EventGridSchema"),
        ("CloudEventSchemaV1_0", "CloudEventSchemaV1_0"),
        ("CustomInputSchema", "CustomInputSchema"),
    ];
    html! {
        fieldset {
            legend { "Further settings" }
            @if is_new {
                (form.select("eventDeliverySchema", "Schema in which events are delivered", "It can't be changed later.", &schemas))
            }
            (form.check("signing", "Sign requests by Standard Webhooks", "Its secrets are discarded where this is unticked."))
            (form.lines(Text { name: "labels", label: "Labels, one in a line", ..Text::default() }))
            (form.text(Text { name: "expirationTimeUtc", label: "Expires at (UTC)",
                hint: "RFC 3339; empty: never. After that it matches nothing.", placeholder: "2030-01-01T00:00:00Z", ..Text::default() }))
        }
    }
}

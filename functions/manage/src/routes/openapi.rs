//! Common parameters and refusals of operations in `docs/openapi.json`.
//!
//! The publish API in that document is written by hand. A test (`tests/openapi.rs`) generates the rest
//! from the routes and the types of `gridpost_api`.

use std::collections::BTreeMap;

use utoipa::{
    IntoParams, IntoResponses,
    openapi::{
        KnownFormat, ObjectBuilder, Ref, RefOr, Required, Response, SchemaFormat,
        path::{Parameter, ParameterBuilder, ParameterIn},
        schema::Type,
    },
};

macro_rules! parameters {
    ($($(#[$doc:meta])* $name:ident: $($parameter:expr),+;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(super) enum $name {}

        impl IntoParams for $name {
            fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                vec![$($parameter),+]
            }
        }
    )*};
}

parameters! {
    /// A topic in the path.
    InTopics: topic();
    /// An event subscription in the path.
    InSubscription: topic(), in_path("name", "The event subscription's name.", matching("^[A-Za-z0-9-]{2,64}$"));
    /// A delivery in the path.
    OfDelivery: in_path("id", "The delivery's id.", uuid());
    /// A dead letter in the path.
    OfDeadLetter: in_path("id", "The dead letter's id, as a list gives it.", matching("^[0-9a-f-]{1,100}$"));
    /// A redrive job in the path.
    OfRedrive: in_path("id", "The job's id.", uuid());
    /// A poison message in the path.
    OfMessage: in_path("id", "SQS's id of the message.", matching("^[A-Za-z0-9-]{1,100}$"));
    /// What must hold of a resource before it is changed.
    Guard:
        in_header("If-Match", "* or ETags: refuse with 412 if the resource is another."),
        in_header("If-None-Match", "* : refuse with 412 if the resource exists.");
    /// How many of a list.
    Top: top();
    /// Which page of a list.
    Paging: top(), in_query("$skiptoken", "Where the page begins; part of nextLink.", text());
    /// A question to the journal in the path.
    OfJournalQuery: in_path("id", "The question's id.", matching("^[A-Za-z0-9_-]{1,8000}$"));
    /// Which dead letters.
    OfDeadLetters:
        in_query("from", "Only those written at this time or later.", time()),
        in_query("to", "Only those written at this time or before.", time()),
        in_query("reason", "Only those with this reason, as the record says it.", text()),
        in_query("eventType", "Only those of this event type.", text()),
        in_query("eventId", "Only those of the event with this id.", text()),
        in_query(
            "redriven",
            "Only those that a redrive has sent again, or only those that none has.",
            ObjectBuilder::new().schema_type(Type::Boolean)
        );
    /// Which parked deliveries.
    OfParked:
        in_query("topic", "Only those of this topic.", text()),
        in_query("eventSubscription", "Only those of event subscriptions of this name.", text());
    /// What a validation URL carries.
    Token:
        in_query("id", "The validation code.", text()),
        token();
}

fn topic() -> Parameter {
    let rule = "The topic's name, not beginning with Microsoft, EventGrid or System.";
    in_path("topic", rule, matching("^[A-Za-z0-9-]{3,50}$"))
}

fn top() -> Parameter {
    let schema = ObjectBuilder::new().schema_type(Type::Integer);
    let schema = schema.minimum(Some(1)).maximum(Some(100)).default(Some(100.into()));
    in_query("$top", "How many at most.", schema)
}

fn token() -> Parameter {
    let what = "The secret that the endpoint was given, valid for 10 minutes.";
    parameter(ParameterIn::Query, "token", what, text()).required(Required::True).build()
}

fn in_path(name: &str, description: &str, schema: ObjectBuilder) -> Parameter {
    parameter(ParameterIn::Path, name, description, schema).required(Required::True).build()
}

fn in_query(name: &str, description: &str, schema: ObjectBuilder) -> Parameter {
    parameter(ParameterIn::Query, name, description, schema).build()
}

fn in_header(name: &str, description: &str) -> Parameter {
    parameter(ParameterIn::Header, name, description, text()).build()
}

/// Makes an optional parameter.
fn parameter(
    place: ParameterIn,
    name: &str,
    description: &str,
    schema: ObjectBuilder,
) -> ParameterBuilder {
    // The place first: its default is the path, where the builder makes parameters required.
    let parameter = ParameterBuilder::new().parameter_in(place).required(Required::False);
    parameter.name(name).description(Some(description)).schema(Some(schema))
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn matching(pattern: &str) -> ObjectBuilder {
    text().pattern(Some(pattern))
}

fn time() -> ObjectBuilder {
    text().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
}

fn uuid() -> ObjectBuilder {
    text().format(Some(SchemaFormat::Custom("uuid".to_owned())))
}

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident: $($status:literal),+;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(super) enum $name {}

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                let error = |status: u16| {
                    (status.to_string(), Ref::from_response_name("Error").into())
                };
                [$($status),+].map(error).into()
            }
        }
    )*};
}

refusals! {
    /// What any request may meet: it says what nothing can be, API Gateway or the gate refuses it, or
    /// a call fails.
    Refused: 400, 401, 403, 503;
    /// The journal can't be asked now: too many questions at once.
    Busy: 429;
    /// The topic, the event subscription or what belongs to it does not exist.
    Missing: 404;
    /// The same for a message, whose id has no rule.
    MissingMessage: 401, 403, 404, 503;
    /// What exists does not go with the request, or others keep changing it.
    Conflicts: 409;
    /// The validation URL is no longer open.
    Over: 410;
    /// If-Match or If-None-Match does not hold.
    Stale: 412;
    /// The body is too large, or no JSON; or the answer would be too large.
    NotDocument: 413, 415;
}

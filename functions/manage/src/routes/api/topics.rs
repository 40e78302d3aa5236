//! Topics and their keys.

use gridpost_api::{
    requests::ExplainInput,
    subscription::sample::TestInput,
    topic::{KeyName, Keys, Topic, TopicInput, TopicList, TopicPatch},
    trial::{Explained, TestResult},
};
use utoipa_axum::routes;

use super::{InContext, Routes};
use crate::routes::{
    Answer, Change,
    openapi::*,
    sent::{InTopic, Sent},
    topics, trial,
};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list))
        .routes(routes!(put, get, patch, delete))
        .routes(routes!(list_keys))
        .routes(routes!(regenerate_key))
        .routes(routes!(test_filter))
        .routes(routes!(explain))
}

/// A page of the topics, by name
#[utoipa::path(
    get,
    path = "/topics",
    operation_id = "listTopics",
    params(Paging),
    responses((status = 200, description = "The page.", body = TopicList), Refused)
)]
async fn list(context: InContext, sent: Sent) -> Answer {
    topics::list(&context, &sent.page()?).await
}

/// Create a topic, or give an existing one other settings
#[utoipa::path(
    put,
    path = "/topics/{topic}",
    operation_id = "putTopic",
    params(InTopics, Guard),
    request_body = TopicInput,
    responses(
        (status = 200, description = "It was there.", body = Topic,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        (status = 201, description = "It is new.", body = Topic,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        Refused, Conflicts, Stale, NotDocument
    )
)]
async fn put(context: InContext, InTopic(topic): InTopic, sent: Sent) -> Answer {
    let document = sent.document()?;
    topics::write(&context, &topic, Change::Put(&document), &sent.precondition()?).await
}

/// Read a topic
#[utoipa::path(
    get,
    path = "/topics/{topic}",
    operation_id = "getTopic",
    params(InTopics),
    responses(
        (status = 200, description = "The topic.", body = Topic,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        Refused, Missing
    )
)]
async fn get(context: InContext, InTopic(topic): InTopic) -> Answer {
    topics::get(&context, &topic).await
}

/// Change what the patch names (JSON merge patch)
#[utoipa::path(
    patch,
    path = "/topics/{topic}",
    operation_id = "patchTopic",
    params(InTopics, Guard),
    request_body = TopicPatch,
    responses(
        (status = 200, description = "The changed topic.", body = Topic,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        Refused, Missing, Conflicts, Stale, NotDocument
    )
)]
async fn patch(context: InContext, InTopic(topic): InTopic, sent: Sent) -> Answer {
    let patch = sent.document()?;
    topics::write(&context, &topic, Change::Patch(&patch), &sent.precondition()?).await
}

/// Delete a topic with its event subscriptions
#[utoipa::path(
    delete,
    path = "/topics/{topic}",
    operation_id = "deleteTopic",
    params(InTopics, Guard),
    responses(
        (status = 200, description = "It is deleted."),
        (status = 204, description = "There was none."),
        Refused, Conflicts, Stale
    )
)]
async fn delete(context: InContext, InTopic(topic): InTopic, sent: Sent) -> Answer {
    topics::delete(&context, &topic, &sent.precondition()?).await
}

/// The two access keys
#[utoipa::path(
    post,
    path = "/topics/{topic}/listKeys",
    operation_id = "listKeys",
    params(InTopics),
    responses((status = 200, description = "Both keys.", body = Keys), Refused, Missing)
)]
async fn list_keys(context: InContext, InTopic(topic): InTopic) -> Answer {
    topics::list_keys(&context, &topic).await
}

/// Replace one access key
#[utoipa::path(
    post,
    path = "/topics/{topic}/regenerateKey",
    operation_id = "regenerateKey",
    params(InTopics),
    request_body = KeyName,
    responses(
        (status = 200, description = "Both keys, one of them new.", body = Keys),
        Refused, Missing, Conflicts, NotDocument
    )
)]
async fn regenerate_key(context: InContext, InTopic(topic): InTopic, sent: Sent) -> Answer {
    sent.check_query()?;
    topics::regenerate_key(&context, &topic, &sent.document()?).await
}

/// Whether a filter wants sample events, and which part of it refuses them
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions:test",
    operation_id = "testFilter",
    params(InTopics),
    request_body = TestInput,
    responses(
        (status = 200, description = "What was found, event by event.", body = TestResult),
        Refused, Missing, NotDocument
    )
)]
async fn test_filter(context: InContext, InTopic(topic): InTopic, sent: Sent) -> Answer {
    let (document, events) = sent.document_around("events")?;
    trial::test(&context, &topic, &document, events).await
}

/// Which event subscriptions of the topic want an event, and why the others do not
#[utoipa::path(
    post,
    path = "/topics/{topic}/explain",
    operation_id = "explainEvent",
    params(InTopics),
    request_body = ExplainInput,
    responses(
        (status = 200, body = Explained,
            description = "A verdict of each event subscription, by name. Nothing is published."),
        Refused, Missing, NotDocument
    )
)]
async fn explain(context: InContext, InTopic(topic): InTopic, sent: Sent) -> Answer {
    let (document, event) = sent.document_around("event")?;
    trial::explain(&context, &topic, &document, event).await
}

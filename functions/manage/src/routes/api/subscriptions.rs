//! Event subscriptions.

use gridpost_api::{
    requests::ExplainInput,
    subscription::{
        DeliveryAttributes, EventSubscription, EventSubscriptionInput, EventSubscriptionList,
        EventSubscriptionPatch, FullUrl, PauseInput, PauseStanding, RotateInput, SigningSecrets,
        Validated,
    },
    trial::TestEventSent,
};
use utoipa_axum::routes;

use super::{InContext, Routes};
use crate::routes::{
    Answer, Change,
    openapi::*,
    pauses,
    sent::{Caller, InTopic, Named, Sent},
    subscriptions, trial, validation,
};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list))
        .routes(routes!(put, get, patch, delete))
        .routes(routes!(get_full_url))
        .routes(routes!(get_delivery_attributes))
        .routes(routes!(get_signing_secrets))
        .routes(routes!(rotate_signing_secret))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(send_test_event))
        .routes(routes!(validate, validate_by_post))
}

/// A page of the topic's event subscriptions, by name
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions",
    operation_id = "listEventSubscriptions",
    params(InTopics, Paging),
    responses(
        (status = 200, description = "The page.", body = EventSubscriptionList),
        Refused, Missing
    )
)]
async fn list(context: InContext, InTopic(topic): InTopic, sent: Sent) -> Answer {
    subscriptions::list(&context, &topic, &sent.page()?).await
}

/// Create or replace an event subscription; a new endpoint is asked for its consent
#[utoipa::path(
    put,
    path = "/topics/{topic}/eventSubscriptions/{name}",
    operation_id = "putEventSubscription",
    params(InSubscription, Guard),
    request_body = EventSubscriptionInput,
    responses(
        (status = 200, description = "It was there.", body = EventSubscription,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        (status = 201, description = "It is new.", body = EventSubscription,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        Refused, Missing, Conflicts, Stale, NotDocument
    )
)]
async fn put(context: InContext, Named(key): Named, sent: Sent) -> Answer {
    let document = sent.document()?;
    subscriptions::write(&context, &key, Change::Put(&document), &sent.precondition()?).await
}

/// Read an event subscription
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}",
    operation_id = "getEventSubscription",
    params(InSubscription),
    responses(
        (status = 200, description = "The event subscription.", body = EventSubscription,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        Refused, Missing
    )
)]
async fn get(context: InContext, Named(key): Named) -> Answer {
    subscriptions::get(&context, &key).await
}

/// Change what the patch names (JSON merge patch)
#[utoipa::path(
    patch,
    path = "/topics/{topic}/eventSubscriptions/{name}",
    operation_id = "patchEventSubscription",
    params(InSubscription, Guard),
    request_body = EventSubscriptionPatch,
    responses(
        (status = 200, description = "The changed event subscription.", body = EventSubscription,
            headers(("ETag" = String, description = "Names this state of the resource, for If-Match."))),
        Refused, Missing, Conflicts, Stale, NotDocument
    )
)]
async fn patch(context: InContext, Named(key): Named, sent: Sent) -> Answer {
    let patch = sent.document()?;
    subscriptions::write(&context, &key, Change::Patch(&patch), &sent.precondition()?).await
}

/// Delete an event subscription
#[utoipa::path(
    delete,
    path = "/topics/{topic}/eventSubscriptions/{name}",
    operation_id = "deleteEventSubscription",
    params(InSubscription, Guard),
    responses(
        (status = 200, description = "It is deleted."),
        (status = 204, description = "There was none."),
        Refused, Conflicts, Stale
    )
)]
async fn delete(context: InContext, Named(key): Named, sent: Sent) -> Answer {
    subscriptions::delete(&context, &key, &sent.precondition()?).await
}

/// The endpoint's URL, query included
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/getFullUrl",
    operation_id = "getFullUrl",
    params(InSubscription),
    responses(
        (status = 200, description = "The URL.", body = FullUrl),
        Refused, Missing, Conflicts
    )
)]
async fn get_full_url(context: InContext, Named(key): Named) -> Answer {
    subscriptions::full_url(&context, &key).await
}

/// Its delivery attributes, secret values included
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/getDeliveryAttributes",
    operation_id = "getDeliveryAttributes",
    params(InSubscription),
    responses(
        (status = 200, description = "The attributes.", body = DeliveryAttributes),
        Refused, Missing
    )
)]
async fn get_delivery_attributes(context: InContext, Named(key): Named) -> Answer {
    subscriptions::delivery_attributes(&context, &key).await
}

/// The secrets with which its requests are signed
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/getSigningSecrets",
    operation_id = "getSigningSecrets",
    params(InSubscription),
    responses(
        (status = 200, description = "The secrets.", body = SigningSecrets),
        Refused, Missing, Conflicts
    )
)]
async fn get_signing_secrets(context: InContext, Named(key): Named) -> Answer {
    subscriptions::signing_secrets(&context, &key).await
}

/// Makes a new signing secret; the one until now stays valid for a while
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/rotateSigningSecret",
    operation_id = "rotateSigningSecret",
    params(InSubscription),
    request_body = RotateInput,
    responses(
        (status = 200, description = "The secrets.", body = SigningSecrets),
        Refused, Missing, Conflicts, NotDocument
    )
)]
async fn rotate_signing_secret(context: InContext, Named(key): Named, sent: Sent) -> Answer {
    sent.check_query()?;
    subscriptions::rotate_secret(&context, &key, &sent.document()?).await
}

/// Pauses it: matching goes on, nothing is attempted, deliveries are held
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/pause",
    operation_id = "pause",
    params(InSubscription),
    request_body = PauseInput,
    responses(
        (status = 200, body = PauseStanding,
            description = "It is paused. A copy of dispatch that has not heard of it may attempt \
                until holdsBy."),
        Refused, Missing, Conflicts, NotDocument
    )
)]
async fn pause(
    context: InContext,
    Named(key): Named,
    Caller(caller): Caller,
    sent: Sent,
) -> Answer {
    sent.check_query()?;
    pauses::pause(&context, &key, caller, &sent.document()?).await
}

/// Resumes it: what is held comes back, the first of it within a minute
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/resume",
    operation_id = "resume",
    params(InSubscription),
    responses(
        (status = 200, description = "It is not paused.", body = PauseStanding),
        Refused, Missing, Conflicts
    )
)]
async fn resume(context: InContext, Named(key): Named) -> Answer {
    pauses::resume(&context, &key).await
}

/// Sends one event to this event subscription alone, once, and answers what its endpoint answered
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/sendTestEvent",
    operation_id = "sendTestEvent",
    params(InSubscription),
    request_body = ExplainInput,
    responses(
        (status = 200, body = TestEventSent,
            description = "What came of it. The filter is not asked, only its verdict told; nothing \
                is counted, tried again or kept."),
        Refused, Missing, Conflicts, NotDocument
    )
)]
async fn send_test_event(context: InContext, Named(key): Named, sent: Sent) -> Answer {
    let (document, event) = sent.document_around("event")?;
    trial::send(&context, &key, &document, event).await
}

/// Consent to events by the validation URL that the endpoint was given
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/validate",
    operation_id = "validate",
    params(InSubscription, Token),
    // Its callers have no IAM identity here, but the token: the gate lets all of them in.
    security(()),
    responses(
        (status = 200, description = "Events flow from now on.", body = Validated),
        Refused, Conflicts, Over
    )
)]
async fn validate(context: InContext, Named(key): Named, sent: Sent) -> Answer {
    validation::complete(&context, &key, &sent).await
}

/// Consent to events by the validation URL that the endpoint was given
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/validate",
    operation_id = "validateByPost",
    params(InSubscription, Token),
    security(()),
    responses(
        (status = 200, description = "Events flow from now on.", body = Validated),
        Refused, Conflicts, Over
    )
)]
async fn validate_by_post(context: InContext, Named(key): Named, sent: Sent) -> Answer {
    validation::complete(&context, &key, &sent).await
}

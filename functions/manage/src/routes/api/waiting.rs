//! What waits for an operator: the poison queue, and parked deliveries.

use gridpost_api::{
    schema::stand_in::{ParkedInput, PurgeInput, ResendInput},
    waiting::{Handled, HandledDeliveryList, ParkedList, PoisonList, PoisonShown},
};
use utoipa_axum::routes;

use super::{InContext, Routes};
use crate::routes::{
    Answer,
    openapi::*,
    parked, poison,
    sent::{Id, Sent},
};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list_poison))
        .routes(routes!(get_poison))
        .routes(routes!(resend_poison))
        .routes(routes!(purge_poison))
        .routes(routes!(list_parked))
        .routes(routes!(release_parked))
        .routes(routes!(cancel_parked))
}

/// What our own code could not settle, without what the messages carry
#[utoipa::path(
    get,
    path = "/poison",
    operation_id = "listPoison",
    params(Top),
    responses(
        (status = 200, description = "Some or all of it: see isComplete.", body = PoisonList),
        Refused
    )
)]
async fn list_poison(context: InContext, sent: Sent) -> Answer {
    poison::list(&context, &sent.page_of(poison::LIST)?).await
}

/// One message with its body, which holds the events
#[utoipa::path(
    get,
    path = "/poison/{id}",
    operation_id = "getPoison",
    params(OfMessage),
    responses((status = 200, description = "The message.", body = PoisonShown), MissingMessage)
)]
async fn get_poison(context: InContext, Id(id): Id) -> Answer {
    poison::show(&context, &id).await
}

/// Send messages back to where they belong, up to 100
#[utoipa::path(
    post,
    path = "/poison:resend",
    operation_id = "resendPoison",
    request_body = ResendInput,
    responses(
        (status = 200, description = "What became of each.", body = Handled),
        Refused, NotDocument
    )
)]
async fn resend_poison(context: InContext, sent: Sent) -> Answer {
    poison::resend(&context, &sent.document()?).await
}

/// Remove messages, up to 100: their events are counted and logged as dropped
#[utoipa::path(
    post,
    path = "/poison:purge",
    operation_id = "purgePoison",
    request_body = PurgeInput,
    responses(
        (status = 200, description = "What became of each.", body = Handled),
        Refused, NotDocument
    )
)]
async fn purge_poison(context: InContext, sent: Sent) -> Answer {
    poison::purge(&context, &sent.document()?).await
}

/// Parked deliveries, in no order
#[utoipa::path(
    get,
    path = "/parked",
    operation_id = "listParked",
    params(Paging, OfParked),
    responses(
        (status = 200, description = "Some of them; more behind nextLink.", body = ParkedList),
        Refused
    )
)]
async fn list_parked(context: InContext, sent: Sent) -> Answer {
    parked::list(&context, &sent.page_of(parked::LIST)?).await
}

/// Send parked deliveries to their retry queues now
#[utoipa::path(
    post,
    path = "/parked:release",
    operation_id = "releaseParked",
    params(Paging),
    request_body = ParkedInput,
    responses(
        (status = 200, body = HandledDeliveryList,
            description = "What became of each; the same request to nextLink goes on."),
        Refused, NotDocument
    )
)]
async fn release_parked(context: InContext, sent: Sent) -> Answer {
    let page = sent.page_of(parked::CHANGE)?;
    parked::release(&context, &page, &sent.document()?).await
}

/// End parked deliveries: they become dead letters or are dropped
#[utoipa::path(
    post,
    path = "/parked:cancel",
    operation_id = "cancelParked",
    params(Paging),
    request_body = ParkedInput,
    responses(
        (status = 200, body = HandledDeliveryList,
            description = "What became of each; the same request to nextLink goes on."),
        Refused, NotDocument
    )
)]
async fn cancel_parked(context: InContext, sent: Sent) -> Answer {
    let page = sent.page_of(parked::CHANGE)?;
    parked::cancel(&context, &page, &sent.document()?).await
}

//! Deliveries that have failed, and the health of their endpoint.

use gridpost_api::{
    delivery::{DeliveryCount, DeliveryList, DeliveryShown, Resent},
    health::{Health, HealthList},
};
use utoipa_axum::routes;

use super::{InContext, Routes};
use crate::routes::{
    Answer, deliveries, health,
    openapi::*,
    resend,
    sent::{DeliveryId, InTopic, Named, Sent},
};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list))
        .routes(routes!(count))
        .routes(routes!(get))
        .routes(routes!(resend_now))
        .routes(routes!(list_healths))
        .routes(routes!(get_health))
        .routes(routes!(reset_health))
}

/// A page of the event subscription's deliveries that have failed and not ended, by publish time
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/deliveries",
    operation_id = "listDeliveries",
    params(InSubscription, Paging),
    responses(
        (status = 200, body = DeliveryList,
            description = "The page. What failed or ended in the last second may be missing or \
                still be in it."),
        Refused, Missing
    )
)]
async fn list(context: InContext, Named(key): Named, sent: Sent) -> Answer {
    deliveries::list(&context, &key, &sent.page()?).await
}

/// How many of them there are, by the hour of their publish
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/deliveries:count",
    operation_id = "countDeliveries",
    params(InSubscription, Paging),
    responses(
        (status = 200, body = DeliveryCount,
            description = "The counts of those that one request gets through; to be added to those \
                behind nextLink."),
        Refused, Missing
    )
)]
async fn count(context: InContext, Named(key): Named, sent: Sent) -> Answer {
    deliveries::count(&context, &key, &sent.page()?).await
}

/// A delivery that has failed, with every attempt and what comes next
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/deliveries/{id}",
    operation_id = "getDelivery",
    params(InSubscription, OfDelivery),
    responses(
        (status = 200, body = DeliveryShown,
            description = "The delivery. It is known for two days after its end."),
        Refused, Missing
    )
)]
async fn get(context: InContext, Named(key): Named, DeliveryId(id): DeliveryId) -> Answer {
    deliveries::show(&context, &key, id).await
}

/// Have a waiting delivery attempted now, whatever its wait and the endpoint's health
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/deliveries/{id}/resend",
    operation_id = "resendDelivery",
    params(InSubscription, OfDelivery),
    responses(
        (status = 200, description = "Whether its message was reached.", body = Resent),
        Refused, Missing, Conflicts
    )
)]
async fn resend_now(context: InContext, Named(key): Named, DeliveryId(id): DeliveryId) -> Answer {
    resend::resend(&context, &key, id).await
}

/// A page of the healths of a topic's event subscriptions, by name
#[utoipa::path(
    get,
    path = "/topics/{topic}/healths",
    operation_id = "listHealths",
    params(InTopics, Paging),
    responses((status = 200, description = "The page.", body = HealthList), Refused, Missing)
)]
async fn list_healths(context: InContext, InTopic(topic): InTopic, sent: Sent) -> Answer {
    health::list(&context, &topic, &sent.page()?).await
}

/// The health of the event subscription's endpoint, and what it does to events
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/health",
    operation_id = "getHealth",
    params(InSubscription),
    responses((status = 200, description = "The health.", body = Health), Refused, Missing)
)]
async fn get_health(context: InContext, Named(key): Named) -> Answer {
    health::show(&context, &key).await
}

/// End the endpoint's probation or delayed delivery, and its row of failures
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/health:reset",
    operation_id = "resetHealth",
    params(InSubscription),
    responses(
        (status = 200, body = Health,
            description = "The health as it is now. What waits in queues comes when it is due."),
        Refused, Missing, Conflicts
    )
)]
async fn reset_health(context: InContext, Named(key): Named) -> Answer {
    health::reset(&context, &key).await
}

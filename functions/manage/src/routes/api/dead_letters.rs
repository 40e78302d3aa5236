//! Dead letters, and the jobs that send them again.

use gridpost_api::{
    dead_letter::{DeadLetterCount, DeadLetterList, DeadLetterShown, DeadLettersPurged},
    redrive::{Redrive, RedriveList},
    requests::{RedriveInput, ResumeInput},
    schema::stand_in::PurgeDeadLettersInput,
};
use utoipa_axum::routes;

use super::{InContext, Routes};
use crate::routes::{
    Answer, dead_letters,
    openapi::*,
    redrives,
    sent::{Id, Named, Sent},
};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list))
        .routes(routes!(count))
        .routes(routes!(get))
        .routes(routes!(purge))
        .routes(routes!(redrive))
        .routes(routes!(list_redrives))
        .routes(routes!(get_redrive))
        .routes(routes!(cancel_redrive))
        .routes(routes!(resume_redrive))
}

/// A page of its dead letters, without their events, by the names of their objects
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/deadLetters",
    operation_id = "listDeadLetters",
    params(InSubscription, Paging, OfDeadLetters),
    responses(
        (status = 200, body = DeadLetterList,
            description = "Some of them, perhaps none; more behind nextLink."),
        Refused, Missing, Conflicts
    )
)]
async fn list(context: InContext, Named(key): Named, sent: Sent) -> Answer {
    dead_letters::list(&context, &key, &sent.page_of(dead_letters::LIST)?).await
}

/// How many dead letters there are, by reason and event type
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/deadLetters:count",
    operation_id = "countDeadLetters",
    params(InSubscription, Paging, OfDeadLetters),
    responses(
        (status = 200, body = DeadLetterCount,
            description = "The counts of those that one request gets through; to be added to those \
                behind nextLink."),
        Refused, Missing, Conflicts
    )
)]
async fn count(context: InContext, Named(key): Named, sent: Sent) -> Answer {
    dead_letters::count(&context, &key, &sent.page_of(dead_letters::LIST)?).await
}

/// One dead letter with its event
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/deadLetters/{id}",
    operation_id = "getDeadLetter",
    params(InSubscription, OfDeadLetter),
    responses(
        (status = 200, description = "The dead letter.", body = DeadLetterShown),
        Refused, Missing, Conflicts
    )
)]
async fn get(context: InContext, Named(key): Named, Id(id): Id) -> Answer {
    dead_letters::show(&context, &key, &id).await
}

/// Delete objects all of whose dead letters are chosen
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/deadLetters:purge",
    operation_id = "purgeDeadLetters",
    params(InSubscription, Paging),
    request_body = PurgeDeadLettersInput,
    responses(
        (status = 200, body = DeadLettersPurged,
            description = "What one request got through; POST the same to nextLink for more."),
        Refused, Missing, Conflicts, NotDocument
    )
)]
async fn purge(context: InContext, Named(key): Named, sent: Sent) -> Answer {
    let page = sent.page_of(dead_letters::PURGE)?;
    dead_letters::purge(&context, &key, &page, &sent.document()?).await
}

/// Begin a job that sends dead letters again
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/deadLetters:redrive",
    operation_id = "redriveDeadLetters",
    params(InSubscription),
    request_body = RedriveInput,
    responses(
        (status = 201, description = "The job, which runs on.", body = Redrive),
        Refused, Missing, Conflicts, NotDocument
    )
)]
async fn redrive(context: InContext, Named(key): Named, sent: Sent) -> Answer {
    sent.check_query()?;
    redrives::start(&context, &key, &sent.document()?).await
}

/// A page of the event subscription's redrive jobs, the newest first
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/redrives",
    operation_id = "listRedrives",
    params(InSubscription, Paging),
    responses((status = 200, description = "The page.", body = RedriveList), Refused, Missing)
)]
async fn list_redrives(context: InContext, Named(key): Named, sent: Sent) -> Answer {
    redrives::list(&context, &key, &sent.page_of(redrives::LIST)?).await
}

/// One redrive job and how far it has come
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/redrives/{id}",
    operation_id = "getRedrive",
    params(InSubscription, OfRedrive),
    responses((status = 200, description = "The job.", body = Redrive), Refused, Missing)
)]
async fn get_redrive(context: InContext, Named(key): Named, Id(id): Id) -> Answer {
    redrives::get(&context, &key, &id).await
}

/// Stop a redrive job; the batch in flight is sent
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/redrives/{id}/cancel",
    operation_id = "cancelRedrive",
    params(InSubscription, OfRedrive),
    responses(
        (status = 200, body = Redrive,
            description = "The job. One that was not running stays as it is."),
        Refused, Missing, Conflicts
    )
)]
async fn cancel_redrive(context: InContext, Named(key): Named, Id(id): Id) -> Answer {
    redrives::cancel(&context, &key, &id).await
}

/// Have a redrive job go on where it is
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/redrives/{id}/resume",
    operation_id = "resumeRedrive",
    params(InSubscription, OfRedrive),
    request_body = ResumeInput,
    responses(
        (status = 200, description = "The job, running.", body = Redrive),
        Refused, Missing, Conflicts, NotDocument
    )
)]
async fn resume_redrive(context: InContext, Named(key): Named, Id(id): Id, sent: Sent) -> Answer {
    sent.check_query()?;
    redrives::resume(&context, &key, &id, &sent.document()?).await
}

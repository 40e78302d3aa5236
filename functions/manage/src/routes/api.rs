//! What the API can do: each route told once, with its handler and what `docs/openapi.json` says of it.
//! API Gateway's routes in `infra/manage_api.tf` must be the same.

mod dead_letters;
mod deliveries;
mod subscriptions;
mod topics;
mod waiting;

use std::sync::Arc;

use utoipa_axum::router::OpenApiRouter;

use crate::Context;

/// Part of the routes.
type Routes = OpenApiRouter<Arc<Context>>;

/// All of them.
pub(super) fn routes() -> Routes {
    topics::routes()
        .merge(subscriptions::routes())
        .merge(deliveries::routes())
        .merge(dead_letters::routes())
        .merge(waiting::routes())
}

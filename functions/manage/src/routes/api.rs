//! What the API can do: each route told once, with its handler and what `docs/openapi.json` says of it.
//! API Gateway's routes in `infra/manage_api.tf` must be the same.

mod dead_letters;
mod deliveries;
mod subscriptions;
mod topics;
mod waiting;

use std::sync::{Arc, LazyLock};

use axum::{Router, extract::State};
use http::Method;
#[cfg(test)]
use utoipa::openapi::OpenApi;
use utoipa::openapi::{
    path::{Operation, PathItem},
    security::SecurityRequirement,
};
use utoipa_axum::router::OpenApiRouter;

use crate::Context;

/// Part of the routes.
type Routes = OpenApiRouter<Arc<Context>>;

/// What every handler is given.
type InContext = State<Arc<Context>>;

/// All of them.
fn routes() -> Routes {
    topics::routes()
        .merge(subscriptions::routes())
        .merge(deliveries::routes())
        .merge(dead_letters::routes())
        .merge(waiting::routes())
}

/// A route, as API Gateway knows it.
pub(crate) struct Route {
    method: Method,
    /// The path with its variables.
    path: String,
    /// Both, as in `routeKey`.
    pub(crate) key: String,
    /// Whether it asks for no IAM identity.
    pub(crate) is_open: bool,
}

/// What this says: the routes with their handlers, and what is said of them.
pub(super) struct Api {
    pub(super) router: Router<Arc<Context>>,
    routes: Vec<Route>,
    #[cfg(test)]
    document: OpenApi,
}

/// The same for every request.
pub(super) static API: LazyLock<Api> = LazyLock::new(|| {
    let (router, document) = routes().split_for_parts();
    let routes = document.paths.paths.iter().flat_map(|(path, item)| {
        operations(item).map(move |(method, operation)| Route {
            path: path.clone(),
            key: format!("{method} {path}"),
            is_open: operation.security.as_deref() == Some(&[SecurityRequirement::default()]),
            method,
        })
    });
    Api {
        router,
        routes: routes.collect(),
        #[cfg(test)]
        document,
    }
});

/// The operations of a path.
fn operations(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
    let all = [
        (Method::PUT, &item.put),
        (Method::GET, &item.get),
        (Method::PATCH, &item.patch),
        (Method::DELETE, &item.delete),
        (Method::POST, &item.post),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

/// The route of this method at a path that has been matched.
pub(super) fn route(method: &Method, path: &str) -> Option<&'static Route> {
    API.routes.iter().find(|route| route.path == path && route.method == *method)
}

/// The methods of a path that has been matched.
pub(super) fn methods(path: &str) -> impl Iterator<Item = Method> {
    let all = API.routes.iter().filter(move |route| route.path == path);
    all.map(|route| route.method.clone())
}

/// Whether API Gateway has a route of that key.
pub(super) fn is_route(key: &str) -> bool {
    API.routes.iter().any(|route| route.key == key)
}

/// Every route of the API.
#[cfg(test)]
pub(crate) fn all() -> &'static [Route] {
    &API.routes
}

/// What the routes say of themselves.
#[cfg(test)]
pub(crate) fn document() -> &'static OpenApi {
    &API.document
}

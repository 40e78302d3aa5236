//! Declares every route, with its handler and its part of `docs/openapi.json`. API Gateway's routes in
//! `infra/manage_api.tf` must be the same.

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

type Routes = OpenApiRouter<Arc<Context>>;

type InContext = State<Arc<Context>>;

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
    /// The path template.
    path: String,
    /// Method and path, as in `routeKey`.
    pub(crate) key: String,
    /// Whether it needs no IAM identity.
    pub(crate) is_open: bool,
}

pub(super) struct Api {
    pub(super) router: Router<Arc<Context>>,
    routes: Vec<Route>,
    #[cfg(test)]
    document: OpenApi,
}

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

/// The route of a method and a path template.
pub(super) fn route(method: &Method, path: &str) -> Option<&'static Route> {
    API.routes.iter().find(|route| route.path == path && route.method == *method)
}

/// The methods of a path template.
pub(super) fn methods(path: &str) -> impl Iterator<Item = Method> {
    let all = API.routes.iter().filter(move |route| route.path == path);
    all.map(|route| route.method.clone())
}

/// Whether API Gateway has a route of that key.
pub(super) fn is_route(key: &str) -> bool {
    API.routes.iter().any(|route| route.key == key)
}

#[cfg(test)]
pub(crate) fn all() -> &'static [Route] {
    &API.routes
}

#[cfg(test)]
pub(crate) fn document() -> &'static OpenApi {
    &API.document
}

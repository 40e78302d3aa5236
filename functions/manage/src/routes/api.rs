//! Declares every route, with its handler and its part of `docs/openapi.json`. API Gateway's routes in
//! `infra/manage_api.tf` must be the same.

use std::sync::{Arc, LazyLock};

use axum::Router;
use gridpost_core::access::Role;
use http::Method;
#[cfg(test)]
use utoipa::openapi::OpenApi;
use utoipa::openapi::{
    path::{Operation, PathItem},
    security::SecurityRequirement,
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    dead_letters, deliveries, health, journal, parked, pauses, poison, redrives, resend,
    subscriptions, topics, trial, validation,
};
use crate::Context;

fn routes() -> OpenApiRouter<Arc<Context>> {
    OpenApiRouter::new()
        .routes(routes!(topics::list))
        .routes(routes!(topics::put, topics::get, topics::patch, topics::delete))
        .routes(routes!(topics::list_keys))
        .routes(routes!(topics::regenerate_key))
        .routes(routes!(trial::test))
        .routes(routes!(trial::explain))
        .routes(routes!(subscriptions::list))
        .routes(routes!(
            subscriptions::put,
            subscriptions::get,
            subscriptions::patch,
            subscriptions::delete
        ))
        .routes(routes!(subscriptions::full_url))
        .routes(routes!(subscriptions::delivery_attributes))
        .routes(routes!(subscriptions::signing_secrets))
        .routes(routes!(subscriptions::rotate_secret))
        .routes(routes!(pauses::pause))
        .routes(routes!(pauses::resume))
        .routes(routes!(trial::send))
        .routes(routes!(validation::validate, validation::validate_by_post))
        .routes(routes!(deliveries::list))
        .routes(routes!(deliveries::count))
        .routes(routes!(deliveries::show))
        .routes(routes!(resend::resend))
        .routes(routes!(health::list))
        .routes(routes!(health::show))
        .routes(routes!(health::reset))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::count))
        .routes(routes!(dead_letters::show))
        .routes(routes!(dead_letters::purge))
        .routes(routes!(redrives::start))
        .routes(routes!(redrives::list))
        .routes(routes!(redrives::get))
        .routes(routes!(redrives::cancel_one))
        .routes(routes!(redrives::resume))
        .routes(routes!(poison::list))
        .routes(routes!(poison::show))
        .routes(routes!(poison::resend))
        .routes(routes!(poison::purge))
        .routes(routes!(parked::list))
        .routes(routes!(parked::release))
        .routes(routes!(parked::cancel))
        .routes(routes!(journal::ask))
        .routes(routes!(journal::look))
}

/// A route, as API Gateway knows it.
pub(crate) struct Route {
    method: Method,
    /// The path template.
    path: String,
    /// Method and path, as in `routeKey`.
    pub(crate) key: String,
    /// Whether it needs no IAM identity and no token.
    pub(crate) is_open: bool,
    /// The role that a token for it must have.
    pub(crate) role: Role,
}

impl Route {
    /// Whether a token for some topics is not enough: what is poison may be of any.
    pub(super) fn needs_all_topics(&self) -> bool {
        self.path.starts_with("/poison")
    }
}

/// Questions that are asked by `POST`.
const QUESTIONS: [&str; 3] = ["/journalQueries", ":test", "/explain"];

/// The ends of paths that show or change secrets.
const SECRETS: [&str; 6] = [
    "/listKeys",
    "/regenerateKey",
    "/getFullUrl",
    "/getDeliveryAttributes",
    "/getSigningSecrets",
    "/rotateSigningSecret",
];

/// Returns the role of a route. Routes that make, change or delete topics and event subscriptions have other methods.
fn role_of(method: &Method, path: &str) -> Role {
    let ends = |ends: &[&str]| ends.iter().any(|end| path.ends_with(end));
    match *method {
        Method::GET => Role::Read,
        Method::POST if ends(&SECRETS) => Role::Admin,
        Method::POST if ends(&QUESTIONS) => Role::Read,
        Method::POST => Role::Operator,
        _ => Role::Admin,
    }
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
            role: role_of(&method, path),
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

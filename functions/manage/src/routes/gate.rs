//! Checks that a request runs as the route that API Gateway matched and IAM authorised, or that its token has the
//! route's role and topic.
//!
//! axum matches the path again. A name that is decoded in between, or twice, would turn one route
//! into another: the open validation route into one that lists keys. So the two matches are compared.

use std::sync::Arc;

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::Response,
};
use gridpost_core::{access::Grant, gateway::Authorizer};
use http::Method;

use super::{
    api::{Route, is_route, methods, route},
    sent::Names,
};
use crate::{Authorization, Context, Reply, request::Arrival};

/// Runs before every route: passes a request to the route that axum has matched, with the names in its
/// path, or refuses it. Refuses invalid names first.
pub(super) async fn gate(
    State(context): State<Arc<Context>>,
    matched: MatchedPath,
    mut request: Request,
    next: Next,
) -> Result<Response, Reply> {
    let template = matched.as_str();
    let arrival = Arrival::of(&request);
    let names = Names::of(template, &arrival.path);
    names.check()?;
    // axum would run HEAD as GET, which IAM has not authorised.
    let Some(route) = route(request.method(), template) else {
        // API Gateway has matched another route, so its path means something else there.
        if let Some(matched) = arrival.route.as_deref().filter(|matched| is_route(matched)) {
            let asked = format!("{} {template}", request.method());
            return Err(Reply::other_route(&asked, Some(matched)));
        }
        let allowed: Vec<Method> = methods(template).collect();
        return Err(Reply::not_allowed(request.method(), &allowed));
    };
    admit(context.settings.authorization, &arrival, route)?;
    if let Some(Authorizer::Token(grant)) = &arrival.authorizer {
        check_grant(grant, route, &names)?;
    }
    request.extensions_mut().insert(names);
    Ok(next.run(request).await)
}

/// Refuses an unauthorised request with 403.
fn admit(authorization: Authorization, request: &Arrival, route: &Route) -> Result<(), Reply> {
    // A principal that may invoke the function may do all that the API does.
    if request.is_invocation {
        return Ok(());
    }
    let matched = match (&request.route, authorization) {
        (Some(matched), _) => *matched == route.key,
        // On one machine there is no API Gateway.
        (None, Authorization::None | Authorization::Tokens) => true,
        (None, Authorization::Iam) => false,
    };
    if !matched {
        return Err(Reply::other_route(&route.key, request.route.as_deref()));
    }
    let is_admitted = match authorization {
        Authorization::None => true,
        Authorization::Iam => request.authorizer == Some(Authorizer::Iam),
        Authorization::Tokens => matches!(request.authorizer, Some(Authorizer::Token(_))),
    };
    match (is_admitted || route.is_open, authorization) {
        (true, _) => Ok(()),
        (false, Authorization::Tokens) => Err(Reply::without_token()),
        (false, _) => Err(Reply::unsigned()),
    }
}

/// Refuses with 403 what a token does not allow, whether or not such a topic exists.
fn check_grant(grant: &Grant, route: &Route, names: &Names) -> Result<(), Reply> {
    if route.is_open {
        return Ok(());
    }
    let Grant { role, topics } = grant;
    if *role < route.role {
        return Err(Reply::beyond_role(route.role, *role));
    }
    let is_in_scope = match names.topic() {
        Some(topic) => topics.has(topic),
        None => !route.needs_all_topics() || topics.is_whole(),
    };
    if is_in_scope { Ok(()) } else { Err(Reply::beyond_topics(topics)) }
}

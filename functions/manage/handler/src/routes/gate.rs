//! Whether a request is carried out as the route that API Gateway matched it with, and asked IAM for.
//!
//! API Gateway matches a path and asks IAM by its own reading of it; manage reads the path again. A
//! name that is decoded in between, or decoded twice, would turn one route into another: the open
//! validation route into one that lists keys. So the two readings are compared.

use gridpost_core::gateway::Authorizer;

use super::{Resource, allowed};
use crate::{Authorization, Reply, Request};

/// Lets a request through to a resource, or refuses it. A method that the resource does not have is
/// not this gate's to refuse.
///
/// # Errors
///
/// 403.
pub(super) fn admit(
    authorization: Authorization,
    request: &Request,
    resource: &Resource<'_>,
) -> Result<(), Reply> {
    if !allowed(resource).contains(&request.method) {
        return Ok(());
    }
    let route = format!("{} {}", request.method, template(resource));
    let matched = match (&request.route, authorization) {
        (Some(matched), _) => *matched == route,
        // A tool on the developer's machine has no routes.
        (None, Authorization::None) => true,
        (None, Authorization::Iam) => false,
    };
    if !matched {
        return Err(Reply::other_route(&route, request.route.as_deref()));
    }
    let is_open =
        matches!(resource, Resource::Validation(_)) || authorization == Authorization::None;
    if is_open || request.authorizer == Some(Authorizer::Iam) {
        return Ok(());
    }
    Err(Reply::unsigned())
}

/// The path of a resource's routes, as Terraform writes it.
pub(super) fn template(resource: &Resource<'_>) -> &'static str {
    use Resource as R;
    match resource {
        R::Topics => "/topics",
        R::Topic(_) => "/topics/{topic}",
        R::ListKeys(_) => "/topics/{topic}/listKeys",
        R::RegenerateKey(_) => "/topics/{topic}/regenerateKey",
        R::Subscriptions(_) => "/topics/{topic}/eventSubscriptions",
        R::TestSubscription(_) => "/topics/{topic}/eventSubscriptions:test",
        R::Explain(_) => "/topics/{topic}/explain",
        R::Subscription(_) => "/topics/{topic}/eventSubscriptions/{name}",
        R::FullUrl(_) => "/topics/{topic}/eventSubscriptions/{name}/getFullUrl",
        R::SendTestEvent(_) => "/topics/{topic}/eventSubscriptions/{name}/sendTestEvent",
        R::Validation(_) => "/topics/{topic}/eventSubscriptions/{name}/validate",
        R::DeliveryAttributes(_) => {
            "/topics/{topic}/eventSubscriptions/{name}/getDeliveryAttributes"
        }
        R::SigningSecrets(_) => "/topics/{topic}/eventSubscriptions/{name}/getSigningSecrets",
        R::RotateSigningSecret(_) => {
            "/topics/{topic}/eventSubscriptions/{name}/rotateSigningSecret"
        }
        R::Deliveries(_) => "/topics/{topic}/eventSubscriptions/{name}/deliveries",
        R::Delivery(..) => "/topics/{topic}/eventSubscriptions/{name}/deliveries/{id}",
        R::ResendDelivery(..) => "/topics/{topic}/eventSubscriptions/{name}/deliveries/{id}/resend",
        R::Health(_) => "/topics/{topic}/eventSubscriptions/{name}/health",
        R::ResetHealth(_) => "/topics/{topic}/eventSubscriptions/{name}/health:reset",
        R::DeadLetters(_) => "/topics/{topic}/eventSubscriptions/{name}/deadLetters",
        R::CountDeadLetters(_) => "/topics/{topic}/eventSubscriptions/{name}/deadLetters:count",
        R::DeadLetter(..) => "/topics/{topic}/eventSubscriptions/{name}/deadLetters/{id}",
        R::PurgeDeadLetters(_) => "/topics/{topic}/eventSubscriptions/{name}/deadLetters:purge",
        R::RedriveDeadLetters(_) => "/topics/{topic}/eventSubscriptions/{name}/deadLetters:redrive",
        R::Redrives(_) => "/topics/{topic}/eventSubscriptions/{name}/redrives",
        R::Redrive(..) => "/topics/{topic}/eventSubscriptions/{name}/redrives/{id}",
        R::CancelRedrive(..) => "/topics/{topic}/eventSubscriptions/{name}/redrives/{id}/cancel",
        R::ResumeRedrive(..) => "/topics/{topic}/eventSubscriptions/{name}/redrives/{id}/resume",
        R::Poison => "/poison",
        R::PoisonMessage(_) => "/poison/{id}",
        R::ResendPoison => "/poison:resend",
        R::PurgePoison => "/poison:purge",
        R::Parked => "/parked",
        R::ReleaseParked => "/parked:release",
        R::CancelParked => "/parked:cancel",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{super::resource, *};

    /// Every route of Terraform's, as `METHOD /path`.
    fn routes() -> BTreeSet<String> {
        let terraform = include_str!("../../../../../infra/manage_api.tf");
        let quoted = terraform.split('"').filter(|text| text.contains(" /"));
        let routes =
            quoted.filter(|text| text.starts_with(|first: char| first.is_ascii_uppercase()));
        routes.filter(|text| !text.contains("://")).map(str::to_owned).collect()
    }

    #[test]
    fn every_route_of_the_api_is_the_one_that_is_carried_out() {
        let routes = routes();
        assert!(routes.len() > 35 && routes.iter().any(|route| route.ends_with("/validate")));
        for route in &routes {
            let path = route.split_once(' ').expect("a method and a path").1;
            let path = path.replace("{topic}", "demo").replace("{name}", "s-1");
            let id = "00000000-0000-0000-0000-000000000001";
            let path = path.replace("{id}", id);
            let found = resource(&path).unwrap_or_else(|_| panic!("{route} leads nowhere"));
            let all = allowed(&found).iter().map(|method| format!("{method} {}", template(&found)));
            let all: Vec<_> = all.collect();
            assert!(all.contains(route), "{route}: {all:?}");
            assert!(all.iter().all(|route| routes.contains(route)), "{all:?}");
        }
    }
}

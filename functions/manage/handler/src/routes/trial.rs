//! A test event to one event subscription: what its endpoint answers.

use std::time::Duration;

use gridpost_core::{
    delivery::request,
    document::{Object, Problems},
    error::chain,
    publish::trial::{Trial, trial},
    retry::outcome::{Answer as Met, Outcome},
    subscription::{Endpoint, ProvisioningState, SubscriptionKey},
};
use gridpost_ports::Attempted;
use serde_json::{Value, json, value::RawValue};

use super::{Answer, subscriptions};
use crate::{Context, Reply};

/// What API Gateway's 30 s leave for the endpoint: a little less than a delivery waits.
const ANSWER_WITHIN: Duration = Duration::from_secs(26);

/// Sends one event to the event subscription's endpoint, once, whatever its filter says, and answers what
/// came of it. Nothing is counted, tried again or kept, and the endpoint's health is not asked.
pub(super) async fn send(
    context: &Context,
    key: &SubscriptionKey,
    document: &Value,
    event: Option<&RawValue>,
) -> Answer {
    let mut problems = Problems::default();
    let given = Object::root(document, &mut problems).and_then(|mut root| {
        let given = root.required("event", "an event as it would be published", &mut problems);
        root.finish(&mut problems);
        given.and(event)
    });
    let event = problems.or(given)?.get();
    let (topic, subscription) = subscriptions::existing(context, key).await?;
    let Endpoint::WebHook { url } = &subscription.endpoint else {
        let message = format!(
            "'{key}' delivers to an AWS resource, and test events go to webhooks alone. Publish an event \
             that its filter wants."
        );
        return Err(Reply::conflict("properties.destination", message));
    };
    if subscription.provisioning_state != ProvisioningState::Succeeded {
        let message =
            format!("The endpoint of '{key}' has not consented to events: validate it first.");
        return Err(Reply::conflict("properties.provisioningState", message));
    }
    let (began_at, id) = (context.clock.now(), context.dice.id());
    let tried = trial(&topic, &subscription, event, began_at, id).map_err(|refused| {
        Reply::error(refused.status(), refused.detail(), format!("{}.", chain(&refused)))
    })?;
    let Some(Trial { delivery, verdict }) = tried else {
        return Err(Reply::error(400, "InvalidRequest", "A test is of exactly one event."));
    };
    let origin = &context.settings.validation_origin;
    let request = request::build(&subscription, url, &[&delivery], 0, origin, began_at);
    let attempted = tokio::time::timeout(ANSWER_WITHIN, context.endpoints.attempt(request)).await;
    let (met, said) = match attempted {
        Ok(Attempted::Answered { answer, said }) => (answer, said),
        Ok(Attempted::TimedOut { .. }) | Err(_) => (Met::without_status(Outcome::TimedOut), None),
    };
    let took = context.clock.now().since(began_at).as_millis();
    tracing::info!(subscription = %key, outcome = %met.outcome, status = met.status, "test event sent");
    let mut document = verdict;
    document["delivery"] = json!(delivery.id);
    document["outcome"] = json!(met.outcome);
    document["durationInMs"] = json!(u64::try_from(took).unwrap_or(u64::MAX));
    for (name, value) in [("httpStatusCode", json!(met.status)), ("response", json!(said))] {
        if !value.is_null() {
            document[name] = value;
        }
    }
    Ok(Reply::ok(document))
}

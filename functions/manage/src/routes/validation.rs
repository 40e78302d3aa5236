//! Serves the validation URL, by which an endpoint's owner consents.
//!
//! It is open to anybody who knows its token, which only the endpoint got. Refusals do not reveal
//! whether a topic or event subscription exists.

use std::time::Duration;

use gridpost_api::subscription::Validated;
use gridpost_core::{
    delivery::handshake::allowed_rate,
    subscription::{EventSubscription, ProvisioningState, SubscriptionKey, Validation},
};
use gridpost_ports::Saved;
use tokio::time::sleep;
use url::form_urlencoded;

use super::{Answer, InContext, openapi::*, sent::Sent};
use crate::{Context, Reply, TRIES_MAX};

/// How often a token is looked up before it counts as unknown. An endpoint may use the URL while its
/// answer is still being stored.
const LOOKS: u32 = 3;

const LOOK_AGAIN: Duration = Duration::from_millis(400);

/// Consent to events by the validation URL that the endpoint was given
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/validate",
    operation_id = "validate",
    params(InSubscription, Token),
    // Its callers have no IAM identity here, but the token: the gate lets all of them in.
    security(()),
    responses(
        (status = 200, description = "Events flow from now on.", body = Validated),
        Refused, Conflicts, Over
    )
)]
pub(super) async fn validate(context: InContext, sent: Sent) -> Answer {
    complete(&context, &sent.key()?, &sent).await
}

/// Consent to events by the validation URL that the endpoint was given
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/validate",
    operation_id = "validateByPost",
    params(InSubscription, Token),
    security(()),
    responses(
        (status = 200, description = "Events flow from now on.", body = Validated),
        Refused, Conflicts, Over
    )
)]
pub(super) async fn validate_by_post(context: InContext, sent: Sent) -> Answer {
    complete(&context, &sent.key()?, &sent).await
}

async fn complete(context: &Context, key: &SubscriptionKey, sent: &Sent) -> Answer {
    let token = form_urlencoded::parse(sent.query().as_bytes())
        .find_map(|(name, value)| (name == "token").then(|| value.into_owned()))
        .unwrap_or_default();
    if !Validation::is_token(&token) {
        return Err(Reply::no_validation());
    }
    let mut looks = 0;
    for _ in 0..TRIES_MAX {
        // The route is open to all: without a topic, it costs one read.
        let topic = context.configuration.topic(&key.topic).await?;
        let topic = topic.ok_or_else(Reply::no_validation)?;
        let found = context.configuration.subscription(key).await?;
        let is_it = |one: &EventSubscription| {
            one.validation.as_ref().is_some_and(|validation| validation.has_token(&token))
        };
        let Some(found) = found.filter(is_it) else {
            looks += 1;
            if looks >= LOOKS {
                return Err(Reply::no_validation());
            }
            sleep(LOOK_AGAIN).await;
            continue;
        };
        match found.state(context.clock.now()) {
            // A second request: the first may not have waited for the data plane.
            ProvisioningState::Succeeded => {}
            ProvisioningState::Failed => return Err(Reply::validation_over()),
            ProvisioningState::AwaitingManualAction => {
                let rate = allowed_rate(&sent.headers);
                let validated = EventSubscription {
                    provisioning_state: ProvisioningState::Succeeded,
                    allowed_rate: rate.or(found.allowed_rate),
                    etag: context.dice.id(),
                    modified_at: context.clock.now(),
                    ..found
                };
                if context.subscriptions.save(&topic, &validated).await? == Saved::Conflict {
                    context.back_off().await;
                    continue;
                }
                super::subscriptions::log(&validated.key, "validated");
            }
        }
        context.until_seen().await;
        let message = "The endpoint is validated: events flow from now on.";
        return Ok(Reply::ok(Validated {
            provisioning_state: ProvisioningState::Succeeded,
            message: message.to_owned(),
        }));
    }
    Err(Reply::too_many_changes())
}

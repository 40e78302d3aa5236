//! Tests events without publishing them: against filters, or at an endpoint.

use std::{sync::Arc, time::Duration};

use gridpost_api::{
    document::read_whole,
    error::ErrorCode,
    requests::ExplainInput,
    subscription::sample::{self, Of, TestInput},
    trial::{Explained, TestEventSent, TestResult, Trial, trial},
};
use gridpost_core::{
    delivery::{probe, request},
    error::chain,
    publish::PublishError,
    retry::outcome::{Answer as Met, Outcome},
    subscription::{Endpoint, ProvisioningState, SubscriptionKey},
};
use gridpost_ports::Attempted;
use serde_json::{Value, value::RawValue};
use tokio::time::Instant;

use super::{Answer, InContext, openapi::*, sent::Sent, subscriptions, topics};
use crate::Reply;

/// The endpoint's share of API Gateway's 30 s: a little less than a delivery waits.
const ANSWER_WITHIN: Duration = Duration::from_secs(26);

/// Sends one event to this event subscription alone, once, and answers what its endpoint answered
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/sendTestEvent",
    operation_id = "sendTestEvent",
    params(InSubscription),
    request_body = ExplainInput,
    responses(
        (status = 200, body = TestEventSent,
            description = "What came of it. The filter is not asked, only its verdict told; nothing \
                is counted, tried again or kept."),
        Refused, Missing, Conflicts, NotDocument
    )
)]
// Sends one event to the endpoint once, whatever the filter and the endpoint's health, and returns the
// result. Nothing is counted, retried or stored.
pub(super) async fn send(context: InContext, sent: Sent) -> Answer {
    let (document, event) = sent.document_around("event")?;
    let (context, key, document) = (&context, &sent.key()?, &document);
    let event = given(document, event)?;
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
    let tried = trial(&topic, &subscription, event, began_at, id).map_err(unpublishable)?;
    let Some(Trial { delivery, verdict }) = tried else {
        return Err(Reply::error(
            400,
            ErrorCode::InvalidRequest,
            "A test is of exactly one event.",
        ));
    };
    let (origin, now) = (&context.settings.validation_origin, context.clock.machine());
    let request = request::build(&subscription, url, &[&delivery], 0, origin, now);
    let is_tls = url.expose().get(..6).is_some_and(|it| it.eq_ignore_ascii_case("https:"));
    let probed = context.endpoints.probe(request, Instant::now() + ANSWER_WITHIN).await;
    let (met, response_text) = match probed.attempted {
        Attempted::Answered { answer, response_text, .. } => (answer, response_text),
        Attempted::TimedOut { .. } => (Met::without_status(Outcome::TimedOut), None),
        Attempted::NotMade => return Err(Reply::not_asked()),
    };
    let took = context.clock.now().since(began_at);
    let by = subscription.authentication.as_deref();
    let (steps, advice) = probe::explain(is_tls, by, &met, probed.failure.as_ref(), took);
    tracing::info!(subscription = %subscription.key, outcome = %met.outcome, status = met.status, "test event sent");
    Ok(Reply::ok(TestEventSent {
        delivery: delivery.id,
        verdict,
        outcome: met.outcome.to_string(),
        http_status_code: met.status,
        duration_in_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        steps: steps.into_iter().map(Into::into).collect(),
        response: response_text,
        advice: advice.map(str::to_owned),
    }))
}

/// Returns the event of a request's document, unparsed.
fn given<'r>(document: &Value, event: Option<&'r RawValue>) -> Result<&'r str, Reply> {
    read_whole::<ExplainInput>(document)?;
    event
        .map(RawValue::get)
        .ok_or_else(|| Reply::error(400, ErrorCode::InvalidRequest, "There is no event."))
}

/// Answers like a publish.
fn unpublishable(refused: PublishError) -> Reply {
    Reply::error(refused.status(), refused.detail(), format!("{}.", chain(&refused)))
}

/// Whether a filter wants sample events, and which part of it refuses them
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions:test",
    operation_id = "testFilter",
    params(InTopics),
    request_body = TestInput,
    responses(
        (status = 200, description = "What was found, event by event.", body = TestResult),
        Refused, Missing, NotDocument
    )
)]
pub(super) async fn test(context: InContext, sent: Sent) -> Answer {
    let (document, events) = sent.document_around("events")?;
    let (context, topic, document) = (&context, &sent.topic()?, &document);
    let (topic, filter) = match sample::read(document)? {
        Of::Document(filter) => (topics::existing(context, topic).await?, filter),
        Of::Named(name) => {
            let key = SubscriptionKey { topic: topic.to_owned(), name };
            let (topic, subscription) = subscriptions::existing(context, &key).await?;
            (topic, subscription.filter)
        }
    };
    let events = events.map_or("[]", RawValue::get);
    let tested = gridpost_api::trial::sample::test_text(&topic, &filter, events);
    tested.map(Reply::ok).map_err(unpublishable)
}

/// Which event subscriptions of the topic want an event, and why the others do not
#[utoipa::path(
    post,
    path = "/topics/{topic}/explain",
    operation_id = "explainEvent",
    params(InTopics),
    request_body = ExplainInput,
    responses(
        (status = 200, body = Explained,
            description = "A verdict of each event subscription, by name. Nothing is published."),
        Refused, Missing, NotDocument
    )
)]
pub(super) async fn explain(context: InContext, sent: Sent) -> Answer {
    let (document, event) = sent.document_around("event")?;
    let (context, topic, input) = (&context, &sent.topic()?, &document);
    let event = given(input, event)?;
    let topic = topics::existing(context, topic).await?;
    let all = context.configuration.subscriptions(&topic.name).await?;
    let all: Vec<_> = all.into_iter().map(Arc::new).collect();
    let explained = gridpost_api::trial::explain::explain(&topic, &all, event, context.clock.now());
    explained.map(Reply::ok).map_err(unpublishable)
}

//! The endpoint proves that it wants our events, before any are sent to it.
//!
//! Two ways, by the schema of delivery:
//!
//! | schema | we send | the endpoint consents by |
//! |---|---|---|
//! | `EventGridSchema` | `POST` of one `SubscriptionValidationEvent` with a code | 200 and `{"validationResponse": "<the code>"}` |
//! | `CloudEventSchemaV1_0` | `OPTIONS` with `WebHook-Request-Origin` | 2xx and `WebHook-Allowed-Origin`: that origin, or `*` |
//!
//! Source: Event Grid, "Endpoint validation with Event Grid event schema" and "with CloudEvents
//! schema"; CloudEvents, "HTTP 1.1 Web Hooks", section 4.

use std::time::Duration;

use http::{HeaderMap, Method};
use serde_json::{Value, json};
use tokio::time::sleep;
use uuid::Uuid;

use crate::{
    document::shown,
    ports::{HandshakeClient, HandshakeError, HandshakeRequest, HandshakeResponse},
    secret::Secret,
    subscription::{DeliverySchema, SubscriptionKey},
    time::Timestamp,
    topic,
};

/// The longest that one response may take. Event Grid waits 30 s; here the creation itself waits for
/// the handshake, and API Gateway waits for the creation no longer than 30 s.
pub const WAIT_MAX: Duration = Duration::from_secs(10);

/// How long after a try that timed out the second and last begins. Source: Event Grid, as above.
pub const PAUSE: Duration = Duration::from_secs(5);

/// One handshake with one endpoint.
#[derive(Clone, Debug)]
pub struct Handshake {
    /// The event subscription that is made or changed.
    pub key: SubscriptionKey,
    /// The endpoint's URL.
    pub url: Secret,
    /// How its question is put.
    pub question: Question,
    /// How long one response may take, see [`wait_within`].
    pub wait: Duration,
}

/// How long one response may take, so that both tries and the pause between them fit in `budget`.
pub fn wait_within(budget: Duration) -> Duration {
    (budget.saturating_sub(PAUSE) / 2).min(WAIT_MAX)
}

/// What the endpoint is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// To give this code back.
    EventGrid {
        /// The code, which is the event's id too.
        code: Uuid,
        /// When the event was made.
        asked_at: Timestamp,
    },
    /// To allow this origin.
    CloudEvents {
        /// The deployment's name as a sender.
        origin: String,
    },
}

impl Question {
    /// The question that belongs to a schema of delivery.
    pub fn for_schema(
        schema: DeliverySchema,
        code: Uuid,
        asked_at: Timestamp,
        origin: &str,
    ) -> Self {
        match schema {
            DeliverySchema::EventGridSchema | DeliverySchema::CustomInputSchema => {
                Self::EventGrid { code, asked_at }
            }
            DeliverySchema::CloudEventSchemaV1_0 => Self::CloudEvents { origin: origin.to_owned() },
        }
    }
}

/// Why the endpoint gets no events. It names what was received and what is expected, no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No response.
    #[error("it gave no answer ({failure}); expected {expected}")]
    NoResponse {
        /// What happened instead.
        failure: HandshakeError,
        /// What would have been consent.
        expected: String,
    },
    /// A response that is no consent.
    #[error("it answered {received}; expected {expected}")]
    NoConsent {
        /// What is wrong with it.
        received: String,
        /// What would have been consent.
        expected: String,
    },
}

/// Asks the endpoint, a second time if it took too long to answer.
///
/// # Errors
///
/// [`Refused`] when the endpoint did not consent.
pub async fn ask(client: &dyn HandshakeClient, handshake: &Handshake) -> Result<(), Refused> {
    let mut answer = client.exchange(request(handshake)).await;
    if matches!(answer, Err(HandshakeError::TimedOut(_))) {
        sleep(PAUSE).await;
        answer = client.exchange(request(handshake)).await;
    }
    match answer {
        Ok(response) => judge(&handshake.question, &response),
        Err(failure) => {
            Err(Refused::NoResponse { failure, expected: expected(&handshake.question) })
        }
    }
}

/// The request that puts the question.
fn request(handshake: &Handshake) -> HandshakeRequest {
    let url = handshake.url.clone();
    match &handshake.question {
        Question::EventGrid { code, asked_at } => HandshakeRequest {
            method: Method::POST,
            url,
            headers: vec![
                ("content-type", "application/json; charset=utf-8".to_owned()),
                ("aeg-event-type", "SubscriptionValidation".to_owned()),
                ("aeg-subscription-name", handshake.key.name.to_uppercase()),
                ("aeg-delivery-count", "0".to_owned()),
                ("aeg-data-version", "1".to_owned()),
                ("aeg-metadata-version", "1".to_owned()),
            ],
            body: validation_events(&handshake.key, *code, *asked_at),
            wait: handshake.wait,
        },
        Question::CloudEvents { origin } => HandshakeRequest {
            method: Method::OPTIONS,
            url,
            headers: vec![("webhook-request-origin", origin.clone())],
            body: Vec::new(),
            wait: handshake.wait,
        },
    }
}

/// One validation event. It has no `validationUrl`: only the answer to this request counts.
fn validation_events(key: &SubscriptionKey, code: Uuid, asked_at: Timestamp) -> Vec<u8> {
    let events = json!([{
        "id": code,
        "topic": topic::id_of(&key.topic),
        "subject": "",
        "data": {"validationCode": code_text(code)},
        "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
        "eventTime": asked_at.to_iso_8601(),
        "metadataVersion": "1",
        "dataVersion": "1",
    }]);
    events.to_string().into_bytes()
}

/// The code as it is sent: Event Grid's codes are upper-case.
fn code_text(code: Uuid) -> String {
    code.to_string().to_uppercase()
}

/// What consent looks like, for the message.
fn expected(question: &Question) -> String {
    match question {
        Question::EventGrid { .. } => {
            "status 200 with the body {\"validationResponse\": \"<the event's validationCode>\"}"
                .to_owned()
        }
        Question::CloudEvents { origin } => {
            format!("status 2xx with the header WebHook-Allowed-Origin: {origin} (or *)")
        }
    }
}

/// Says whether a response is consent.
fn judge(question: &Question, response: &HandshakeResponse) -> Result<(), Refused> {
    let received = match question {
        Question::EventGrid { code, .. } => no_code(response, &code_text(*code)),
        Question::CloudEvents { origin } => no_origin(response, origin),
    };
    match received {
        None => Ok(()),
        Some(received) => Err(Refused::NoConsent { received, expected: expected(question) }),
    }
}

/// What a response has instead of the code.
fn no_code(response: &HandshakeResponse, code: &str) -> Option<String> {
    let status = response.status;
    if status != 200 {
        return Some(format!("status {status}"));
    }
    let Ok(body) = serde_json::from_slice::<Value>(&response.body) else {
        return Some("status 200 with a body that is not JSON".to_owned());
    };
    match body.get("validationResponse").and_then(Value::as_str) {
        Some(given) if given == code => None,
        Some(_) => Some("status 200 with another validationResponse".to_owned()),
        None => Some("status 200 with a body without the string validationResponse".to_owned()),
    }
}

/// What a response has instead of the origin.
fn no_origin(response: &HandshakeResponse, origin: &str) -> Option<String> {
    const HEADER: &str = "WebHook-Allowed-Origin";
    let status = response.status;
    if !(200..=299).contains(&status) {
        return Some(format!("status {status}"));
    }
    let allowed = header(&response.headers, HEADER);
    match allowed.as_deref() {
        Some("*") => None,
        Some(allowed) if allowed.eq_ignore_ascii_case(origin) => None,
        Some(other) => Some(format!("status {status} with {HEADER}: {}", shown(other))),
        None => Some(format!("status {status} without the header {HEADER}")),
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
}

#[cfg(test)]
mod tests;

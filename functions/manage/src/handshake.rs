//! Asks an endpoint for its consent to events, before any are sent to it.
//!
//! The delivery schema decides how:
//!
//! | schema | we send | the endpoint consents by |
//! |---|---|---|
//! | `EventGridSchema` | `POST` of one `SubscriptionValidationEvent` with a code | 200 and `{"validationResponse": "<the code>"}` |
//! | `CloudEventSchemaV1_0` | `OPTIONS` with `WebHook-Request-Origin` | 2xx and `WebHook-Allowed-Origin`: that origin, or `*` |
//!
//! Both carry a validation URL, except for namespace topics. An endpoint that answers successfully
//! without consenting has ten minutes to consent by a request to that URL.
//!
//! Source: Event Grid, "Endpoint validation with Event Grid event schema" and "with CloudEvents
//! schema"; CloudEvents, "HTTP 1.1 Web Hooks", section 4.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use futures::future::select_ok;
use http::Method;
use serde_json::json;
use tokio::time::timeout;
use uuid::Uuid;

use gridpost_core::{
    delivery::handshake::{self, Judgement, NoConsent, Proof},
    event::DeliverySchema,
    secret::Secret,
    subscription::{Authentication, SubscriptionKey, signing::Signing},
    time::Timestamp,
    topic,
};
use gridpost_ports::{HandshakeClient, HandshakeError, HandshakeRequest, HandshakeResponse};

/// The longest that an answer may take. Source: Event Grid, as above.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);

/// The fraction of the time after which the endpoint is asked once more, and the first answer counts:
/// an endpoint that starts slowly may answer the second question first.
const ASK_AGAIN_AFTER: f64 = 0.6;

#[derive(Clone, Debug)]
pub(crate) struct Handshake {
    pub key: SubscriptionKey,
    pub url: Secret,
    /// The delivery attributes: an endpoint may refuse requests without them.
    pub attributes: Vec<(String, Secret)>,
    pub authentication: Option<Arc<Authentication>>,
    /// The secrets that sign deliveries, and the time of the signature.
    pub signing: Option<(Signing, Timestamp)>,
    pub question: Question,
    /// How long the whole answer may take, at most [`WAIT_MAX`].
    pub wait: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    EventGrid {
        /// Also the event's id.
        code: Uuid,
        asked_at: Timestamp,
        /// The URL for a later consent; `None` for namespace topics.
        validation_url: Option<Secret>,
    },
    CloudEvents {
        id: Uuid,
        /// The deployment's name as a sender.
        origin: String,
        /// The URL for a later consent; `None` for namespace topics.
        validation_url: Option<Secret>,
    },
}

impl Question {
    pub(crate) fn for_schema(
        schema: DeliverySchema,
        code: Uuid,
        asked_at: Timestamp,
        origin: &str,
        validation_url: Option<Secret>,
    ) -> Self {
        match schema {
            DeliverySchema::EventGridSchema | DeliverySchema::CustomInputSchema => {
                Self::EventGrid { code, asked_at, validation_url }
            }
            DeliverySchema::CloudEventSchemaV1_0 => {
                Self::CloudEvents { id: code, origin: origin.to_owned(), validation_url }
            }
        }
    }

    /// Calls `ask` with what an answer must contain.
    fn with_proof<T>(&self, ask: impl FnOnce(Proof<'_>) -> T) -> T {
        match self {
            Self::EventGrid { code, .. } => ask(Proof::Code(&code_text(*code))),
            Self::CloudEvents { origin, .. } => ask(Proof::Origin(origin)),
        }
    }

    fn id(&self) -> Uuid {
        match self {
            Self::EventGrid { code: id, .. } | Self::CloudEvents { id, .. } => *id,
        }
    }

    fn validation_url(&self) -> Option<&Secret> {
        match self {
            Self::EventGrid { validation_url, .. } | Self::CloudEvents { validation_url, .. } => {
                validation_url.as_ref()
            }
        }
    }
}

/// An answer other than a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    Given {
        /// Requests per minute that it allows; `None`: any number.
        allowed_rate: Option<NonZeroU32>,
    },
    /// It may consent later, by the validation URL. Says why its answer was no consent.
    Later(String),
}

/// Why the endpoint gets no events: what was received and what is expected, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("it gave no answer ({failure}); expected {expected}")]
    NoResponse { failure: HandshakeError, expected: String },
    #[error("{0}")]
    NoConsent(NoConsent),
}

/// Asks the endpoint, a second time if it takes long to answer.
pub(crate) async fn ask(
    client: &dyn HandshakeClient,
    handshake: &Handshake,
) -> Result<Consent, Refused> {
    let mut first = client.exchange(request(handshake, handshake.wait));
    let ask_again_after = handshake.wait.mul_f64(ASK_AGAIN_AFTER);
    let answer = match timeout(ask_again_after, &mut first).await {
        Ok(answer) => answer,
        Err(_) => {
            let left = handshake.wait.saturating_sub(ask_again_after);
            let second = client.exchange(request(handshake, left));
            match select_ok([first, second]).await {
                Ok((response, _)) => Ok(response),
                Err(HandshakeError::TimedOut(_)) => Err(HandshakeError::TimedOut(handshake.wait)),
                Err(error) => Err(error),
            }
        }
    };
    match answer {
        Ok(response) => judge(handshake, &response),
        Err(failure) => {
            let expected = handshake.question.with_proof(handshake::expected);
            Err(Refused::NoResponse { failure, expected })
        }
    }
}

fn request(handshake: &Handshake, wait: Duration) -> HandshakeRequest {
    let mut request = unsigned(handshake, wait);
    if let Some((signing, at)) = &handshake.signing {
        let id = handshake.question.id().to_string();
        request.headers.extend(signing.headers(id, *at, &request.body));
    }
    request
}

fn unsigned(handshake: &Handshake, wait: Duration) -> HandshakeRequest {
    let (url, attributes) = (handshake.url.clone(), handshake.attributes.clone());
    let authentication = handshake.authentication.clone();
    match &handshake.question {
        Question::EventGrid { code, asked_at, validation_url } => HandshakeRequest {
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
            attributes,
            body: validation_events(&handshake.key, *code, *asked_at, validation_url.as_ref()),
            authentication,
            is_sent_once: false,
            wait,
        },
        Question::CloudEvents { origin, validation_url, .. } => {
            let mut headers = vec![("webhook-request-origin", origin.clone())];
            let callback = validation_url.as_ref().map(|url| url.expose().to_owned());
            headers.extend(callback.map(|url| ("webhook-request-callback", url)));
            let (method, body) = (Method::OPTIONS, Vec::new());
            let is_sent_once = false;
            HandshakeRequest {
                method,
                url,
                headers,
                attributes,
                body,
                authentication,
                is_sent_once,
                wait,
            }
        }
    }
}

fn validation_events(
    key: &SubscriptionKey,
    code: Uuid,
    asked_at: Timestamp,
    validation_url: Option<&Secret>,
) -> Vec<u8> {
    let mut data = json!({"validationCode": code_text(code)});
    if let Some(url) = validation_url {
        data["validationUrl"] = json!(url.expose());
    }
    let events = json!([{
        "id": code,
        "topic": topic::id_of(&key.topic),
        "subject": "",
        "data": data,
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

fn judge(handshake: &Handshake, response: &HandshakeResponse) -> Result<Consent, Refused> {
    let HandshakeResponse { status, headers, body } = response;
    let response = handshake::Response { status: *status, headers, body };
    let is_open = handshake.question.validation_url().is_some();
    let judgement = handshake
        .question
        .with_proof(|proof| handshake::judge(proof, handshake.authentication.as_deref(), response));
    match judgement {
        Judgement::Consent => {
            let is_cloud_events = matches!(handshake.question, Question::CloudEvents { .. });
            // Source: Event Grid, "Webhook" of namespace topics: no callback, and no rate.
            let allowed_rate =
                (is_cloud_events && is_open).then(|| handshake::allowed_rate(headers)).flatten();
            Ok(Consent::Given { allowed_rate })
        }
        Judgement::Silence(why) if is_open => Ok(Consent::Later(why.to_string())),
        Judgement::Silence(why) | Judgement::Refusal(why) => Err(Refused::NoConsent(why)),
    }
}

#[cfg(test)]
mod tests;

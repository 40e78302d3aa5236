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
    /// The code to repeat, which is also the event's id.
    pub code: Uuid,
    pub asked_at: Timestamp,
    /// The deployment's name as a sender, if the endpoint gets CloudEvents.
    pub origin: Option<String>,
    /// The URL for a later consent; `None` for namespace topics.
    pub validation_url: Option<Secret>,
    /// How long the whole answer may take, at most [`WAIT_MAX`].
    pub wait: Duration,
}

impl Handshake {
    /// Calls `ask` with what an answer must contain.
    fn with_proof<T>(&self, ask: impl FnOnce(Proof<'_>) -> T) -> T {
        match &self.origin {
            None => ask(Proof::Code(&code_text(self.code))),
            Some(origin) => ask(Proof::Origin(origin)),
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

/// The reason why the endpoint gets no events: what was received and what is expected, without
/// secrets.
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
            let expected = handshake.with_proof(handshake::expected);
            Err(Refused::NoResponse { failure, expected })
        }
    }
}

fn request(handshake: &Handshake, wait: Duration) -> HandshakeRequest {
    let mut request = unsigned(handshake, wait);
    if let Some((signing, at)) = &handshake.signing {
        let id = handshake.code.to_string();
        request.headers.extend(signing.headers(id, *at, &request.body));
    }
    request
}

fn unsigned(handshake: &Handshake, wait: Duration) -> HandshakeRequest {
    let (method, headers, body) = match &handshake.origin {
        None => {
            let headers = vec![
                ("content-type", "application/json; charset=utf-8".to_owned()),
                ("aeg-event-type", "SubscriptionValidation".to_owned()),
                ("aeg-subscription-name", handshake.key.name.to_uppercase()),
                ("aeg-delivery-count", "0".to_owned()),
                ("aeg-data-version", "1".to_owned()),
                ("aeg-metadata-version", "1".to_owned()),
            ];
            (Method::POST, headers, validation_events(handshake))
        }
        Some(origin) => {
            let callback = handshake.validation_url.as_ref();
            let callback =
                callback.map(|url| ("webhook-request-callback", url.expose().to_owned()));
            let origin = ("webhook-request-origin", origin.clone());
            (Method::OPTIONS, [origin].into_iter().chain(callback).collect(), Vec::new())
        }
    };
    HandshakeRequest {
        method,
        url: handshake.url.clone(),
        headers,
        attributes: handshake.attributes.clone(),
        body,
        authentication: handshake.authentication.clone(),
        is_sent_once: false,
        wait,
    }
}

fn validation_events(handshake: &Handshake) -> Vec<u8> {
    let mut data = json!({"validationCode": code_text(handshake.code)});
    if let Some(url) = &handshake.validation_url {
        data["validationUrl"] = json!(url.expose());
    }
    let events = json!([{
        "id": handshake.code,
        "topic": topic::id_of(&handshake.key.topic),
        "subject": "",
        "data": data,
        "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
        "eventTime": handshake.asked_at.to_iso_8601(),
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
    let is_open = handshake.validation_url.is_some();
    let by = handshake.authentication.as_deref();
    match handshake.with_proof(|proof| handshake::judge(proof, by, response)) {
        Judgement::Consent => {
            // Source: Event Grid, "Webhook" of namespace topics: no callback, and no rate.
            let has_rate = handshake.origin.is_some() && is_open;
            let allowed_rate = handshake::allowed_rate(headers).filter(|_| has_rate);
            Ok(Consent::Given { allowed_rate })
        }
        Judgement::Silence(why) if is_open => Ok(Consent::Later(why.to_string())),
        Judgement::Silence(why) | Judgement::Refusal(why) => Err(Refused::NoConsent(why)),
    }
}

#[cfg(test)]
mod tests;

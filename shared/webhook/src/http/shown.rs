//! Requests on connections that show a client certificate.

use std::sync::{Arc, OnceLock};

use gridpost_core::{
    retry::{
        outcome::{Answer, Outcome},
        response_text::{ResponseBytes, response_text},
    },
    secret::Secret,
    subscription::{
        Authentication,
        authentication::certificate::{ClientCertificate, NoCertificate},
    },
};
use gridpost_ports::authentication::AUTHENTICATED_WITHIN;
use http::Response;
use hyper::body::Incoming;
use hyper_util::client::legacy::Error;
use tokio::time::{Instant, timeout};

use super::{
    Built, HttpClient,
    failure::{is_unwritten, refusal_in},
    identity::Identity,
};

/// The certificate that a request's connection shows.
pub(super) struct Shown {
    by: Arc<Authentication>,
    url: Secret,
    identity: Identity,
}

pub(super) enum Unanswered {
    NotTaken(NoCertificate),
    Error(Error),
}

impl HttpClient {
    /// Returns the certificate that a request needs, if any.
    pub(super) async fn shown(
        &self,
        authentication: Option<Arc<Authentication>>,
        url: &Secret,
    ) -> Result<Option<Box<Shown>>, NoCertificate> {
        let Some(by) = authentication else { return Ok(None) };
        let Some(certificate) = certificate(&by) else { return Ok(None) };
        let identity = self.0.identities.get(certificate, url.expose());
        let none_in_time = |_| NoCertificate::NoSecret("no answer in time".to_owned());
        let identity = timeout(AUTHENTICATED_WITHIN, identity).await.map_err(none_in_time)??;
        Ok(Some(Box::new(Shown { by, url: url.clone(), identity })))
    }

    /// Sends a request on a connection of that identity; once more with another if the endpoint refuses it
    /// and its secret has changed.
    pub(super) async fn send_shown(
        &self,
        request: Built,
        shown: &Shown,
        sending: &OnceLock<Instant>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let again = request.clone();
        let refused = match send_as(&shown.identity, request, sending).await {
            Err(Unanswered::NotTaken(reason)) => Unanswered::NotTaken(reason),
            sent => return sent,
        };
        let Some(by) = certificate(&shown.by) else { return Err(refused) };
        let other = self.0.identities.instead_of(&shown.identity, by, shown.url.expose()).await;
        let Some(other) = other else { return Err(refused) };
        send_as(&other, again, sending).await
    }
}

/// How often a request is sent that was never written. The alert of TLS 1.3 that refuses a certificate comes
/// when the connection counts as open; about once in 250 times it ends before the request is written, and
/// the alert is lost with it.
const SENT_AT_MOST: usize = 4;

async fn send_as(
    identity: &Identity,
    request: Built,
    sending: &OnceLock<Instant>,
) -> Result<Response<Incoming>, Unanswered> {
    for _ in 1..SENT_AT_MOST {
        match send_once_as(identity, request.clone(), sending).await {
            Err(Unanswered::Error(error)) if is_unwritten(&error) => {}
            sent => return sent,
        }
    }
    send_once_as(identity, request, sending).await
}

async fn send_once_as(
    identity: &Identity,
    request: Built,
    sending: &OnceLock<Instant>,
) -> Result<Response<Incoming>, Unanswered> {
    let asked_before = identity.asked();
    let sent = HttpClient::send_by(&identity.pools, request, sending).await;
    sent.map_err(|error| match refusal_in(&error, identity.asked() != asked_before) {
        Some(alert) => Unanswered::NotTaken(NoCertificate::NotTaken(alert)),
        None => Unanswered::Error(error),
    })
}

fn certificate(by: &Authentication) -> Option<&ClientCertificate> {
    match by {
        Authentication::ClientCertificate(certificate) => Some(certificate),
        _ => None,
    }
}

pub(super) fn unauthenticated() -> Answer {
    Answer::without_status(Outcome::EndpointAuthenticationFailed)
}

pub(super) fn text_of(reason: &NoCertificate) -> Option<String> {
    response_text(reason.to_string().as_bytes(), ResponseBytes::MAX)
}

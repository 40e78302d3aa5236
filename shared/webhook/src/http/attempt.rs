//! Attempts and probes.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use gridpost_core::{
    delivery::{
        partial_results::ResponseBody,
        probe::{Failure, Stage},
        request::Request,
    },
    error::chain,
    retry::{
        outcome::{Answer, LATE_RESPONSE_WAIT, Outcome, RESPONSE_WAIT, parse_retry_after},
        response_text::{ResponseBytes, response_text},
    },
    subscription::authentication::certificate::NoCertificate,
};
use gridpost_ports::{Attempted, EndpointClient, PlaceWait, Probed};
use http::{
    HeaderMap, Method, Response,
    header::{CONTENT_ENCODING, RETRY_AFTER},
};
use hyper::body::{Body, Incoming};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};

use super::{
    Built, HttpClient, answer_without_head,
    body::{first_bytes, read_aside, results},
    failure::{failure_of, found, stage_of},
    hidden::Hidden,
    shown::{Shown, Unanswered, text_of, unauthenticated},
};
use crate::{
    connect::{CONNECT_WAIT, ConnectProgress},
    sockets::{NoPlace, PLACE_WAIT},
};

/// Must exceed the connector's limits.
const CONNECTED_WITHIN: Duration =
    PLACE_WAIT.saturating_add(CONNECT_WAIT).saturating_add(Duration::from_secs(1));

/// An answer, and the rest of the response.
type Exchanged = (Answer, Rest);

enum Rest {
    Nothing,
    /// The body of a failed response, if its beginning is kept.
    Body(Incoming),
    /// The body of an accepted response that may report on single events.
    Results(Incoming),
    /// Such a body in an encoding, usually compressed.
    Encoded(Incoming),
    /// The reason why nothing was sent.
    Reason(NoCertificate),
    /// Nothing was sent, which says nothing about the endpoint.
    NotMade,
}

/// Replaces the text of an encoded body.
const ENCODED: &str = "its body has a Content-Encoding, so what it says about events can't be read";

impl Rest {
    async fn attempted<'h>(
        self,
        answer: Answer,
        most: ResponseBytes,
        hidden: impl Fn() -> Hidden<'h>,
    ) -> Attempted {
        let response_text = match self {
            Self::Nothing => None,
            Self::Body(body) => first_bytes(body, most, &hidden()).await,
            Self::Results(body) => {
                let body = results(body).await;
                let response_text = response_text(&hidden().taken_from(&body.bytes), most);
                return Attempted::Answered { answer, response_text, body: Some(Box::new(body)) };
            }
            Self::Encoded(body) => {
                read_aside(body);
                let body = Some(Box::new(ResponseBody { bytes: Vec::new(), is_whole: false }));
                let response_text = Some(ENCODED.to_owned());
                return Attempted::Answered { answer, response_text, body };
            }
            Self::Reason(reason) => text_of(&reason),
            Self::NotMade => return Attempted::NotMade,
        };
        Attempted::Answered { answer, response_text, body: None }
    }
}

impl HttpClient {
    async fn exchange_attempt(
        &self,
        request: Built,
        shown: Option<Box<Shown>>,
        sending: &OnceLock<Instant>,
        reads_results: bool,
    ) -> Exchanged {
        match self.send(request, shown, sending).await {
            Ok(response) => {
                let answer = self.answer_of(&response);
                let (head, body) = response.into_parts();
                let rest = match answer.outcome {
                    Outcome::Delivered if reads_results => {
                        let is_encoded = is_encoded(&head.headers) && !body.is_end_stream();
                        if is_encoded { Rest::Encoded(body) } else { Rest::Results(body) }
                    }
                    Outcome::Delivered => read_unkept(body),
                    _ if self.1 != ResponseBytes::default() => Rest::Body(body),
                    _ => read_unkept(body),
                };
                (answer, rest)
            }
            Err(Unanswered::NotTaken(reason)) => (unauthenticated(), Rest::Reason(reason)),
            Err(Unanswered::Error(error)) => {
                let is_made = found::<NoPlace>(&error).is_none();
                let rest = if is_made { Rest::Nothing } else { Rest::NotMade };
                (answer_without_head(&error), rest)
            }
        }
    }

    fn answer_of(&self, response: &Response<Incoming>) -> Answer {
        let asked = response.headers().get(RETRY_AFTER);
        let asked = asked.and_then(|value| value.to_str().ok());
        let retry_after = asked.and_then(|value| parse_retry_after(value, self.0.clock.machine()));
        Answer::of_status(response.status().as_u16(), retry_after)
    }
}

/// Whether a body is encoded. Requests ask for no encoding, and none is decoded: a few bytes could
/// become any number.
fn is_encoded(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(CONTENT_ENCODING).iter();
    codings.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).any(|coding| {
        let coding = coding.trim_ascii();
        !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")
    })
}

fn read_unkept(body: Incoming) -> Rest {
    read_aside(body);
    Rest::Nothing
}

#[async_trait]
impl EndpointClient for HttpClient {
    async fn attempt(&self, request: Request) -> Attempted {
        let Request { url, headers, attributes, body, authentication, reads_results } = request;
        let request = match self.build(Method::POST, &url, &headers, &attributes, body) {
            Ok(request) => request,
            Err(refused) => {
                // Allowed at creation, but not now: treated like an unreachable host.
                tracing::warn!(error = %chain(&refused), "an endpoint's URL is refused");
                return Answer::without_status(Outcome::SocketError).into();
            }
        };
        let hidden = || Hidden::of(&url, &headers, &attributes);
        let shown = match self.shown(authentication, &url).await {
            Ok(shown) => shown,
            Err(reason) => {
                return Rest::Reason(reason).attempted(unauthenticated(), self.1, hidden).await;
            }
        };
        // In its own task, the exchange outlives the wait for its response. It bounds itself, because
        // nothing may be left to listen.
        let began = Instant::now();
        let sending = Arc::new(OnceLock::new());
        let exchange = bounded(self.clone(), request, shown, Arc::clone(&sending), reads_results);
        let waits = PlaceWait::current();
        let mut exchange = tokio::spawn(async move { waits.of(exchange).await });
        let mut answer = timeout(RESPONSE_WAIT, &mut exchange).await;
        if answer.is_err() {
            // A request that was not sent by now has failed; the wait counts from sending.
            let until = sending.get().unwrap_or(&began).checked_add(RESPONSE_WAIT);
            answer = timeout_at(until.unwrap_or(began), &mut exchange).await;
        }
        match answer {
            // The head came in time and decides, however long the body takes.
            Ok(Ok(Some((answer, rest)))) => rest.attempted(answer, self.1, hidden).await,
            Ok(_) => Answer::without_status(Outcome::Aborted).into(),
            Err(_) => Attempted::TimedOut { late: late(exchange) },
        }
    }

    async fn probe(&self, request: Request, until: Instant) -> Probed {
        let Request { url, headers, attributes, body, authentication, .. } = request;
        let request = match self.build(Method::POST, &url, &headers, &attributes, body) {
            Ok(request) => request,
            Err(refused) => {
                let failure = Failure::at(Stage::Address, chain(&refused));
                return Probed::failed(Answer::without_status(Outcome::SocketError), failure);
            }
        };
        let not_shown = |stage, reason: NoCertificate| {
            Probed::failed(unauthenticated(), Failure::at(stage, reason.to_string()))
        };
        let began_at = Instant::now();
        let shown = match timeout_at(until, self.shown(authentication, &url)).await {
            Ok(Ok(shown)) => shown,
            Ok(Err(reason)) => return not_shown(Stage::Certificate, reason),
            Err(_) => return Probed::late(Stage::Certificate, began_at),
        };
        let (began_at, sending, progress) =
            (Instant::now(), OnceLock::new(), ConnectProgress::default());
        match timeout_at(until, progress.of(self.send(request, shown, &sending))).await {
            Ok(Ok(response)) => {
                let answer = self.answer_of(&response);
                let hidden = Hidden::of(&url, &headers, &attributes);
                let response_text = first_bytes(response.into_body(), self.1, &hidden).await;
                let is_failure = answer.outcome != Outcome::Delivered;
                let response_text = response_text.filter(|_| is_failure);
                Attempted::Answered { answer, response_text, body: None }.into()
            }
            Ok(Err(Unanswered::NotTaken(reason))) => not_shown(Stage::CertificateNotTaken, reason),
            Ok(Err(Unanswered::Error(error))) if found::<NoPlace>(&error).is_some() => {
                Attempted::NotMade.into()
            }
            Ok(Err(Unanswered::Error(error))) => {
                Probed::failed(answer_without_head(&error), failure_of(&error))
            }
            Err(_) => match sending.get() {
                Some(sent_at) => Probed::late(Stage::Answer, *sent_at),
                None => Probed::late(stage_of(progress.stage()), began_at),
            },
        }
    }
}

/// Makes a request with a bounded connection time, and then at most three minutes for its response.
async fn bounded(
    client: HttpClient,
    request: Built,
    shown: Option<Box<Shown>>,
    sending: Arc<OnceLock<Instant>>,
    reads_results: bool,
) -> Option<Exchanged> {
    let exchange = client.exchange_attempt(request, shown, &sending, reads_results);
    let mut exchange = std::pin::pin!(exchange);
    if let Ok(answer) = timeout(CONNECTED_WITHIN, &mut exchange).await {
        return Some(answer);
    }
    match sending.get() {
        Some(sent) => timeout_at(*sent + LATE_RESPONSE_WAIT, exchange).await.ok(),
        None => Some((Answer::without_status(Outcome::SocketError), Rest::Nothing)),
    }
}

const _: () = assert!(CONNECTED_WITHIN.as_secs() < RESPONSE_WAIT.as_secs());

/// Waits for the rest of the three minutes. Dropping it frees the connection and the body.
fn late(exchange: JoinHandle<Option<Exchanged>>) -> BoxFuture<'static, Option<Answer>> {
    let mut exchange = Abandoned(exchange);
    Box::pin(async move { (&mut exchange.0).await.ok()?.map(|(answer, _)| answer) })
}

/// Aborts an exchange on drop.
struct Abandoned(JoinHandle<Option<Exchanged>>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

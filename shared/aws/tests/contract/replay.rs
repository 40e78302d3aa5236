//! An HTTP client that answers from a script and records the requests.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
};

use aws_credential_types::Credentials;
use aws_smithy_runtime_api::{
    client::{
        http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
        orchestrator::{HttpRequest, HttpResponse},
    },
    http::StatusCode,
};
use aws_smithy_types::body::SdkBody;
use gridpost_aws::Clients;
use serde_json::{Value, json};

/// The number of attempts in the SDK's standard mode of a call that may succeed later.
pub(super) const ATTEMPTS: usize = 3;

#[derive(Clone, Debug)]
pub(super) struct Answer {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
}

pub(super) fn ok(body: Value) -> Answer {
    Answer { status: 200, headers: Vec::new(), body: body.to_string() }
}

/// An error of SQS or DynamoDB, in their JSON protocol.
pub(super) fn error(status: u16, code: &str) -> Answer {
    refusal(status, json!({"__type": code, "message": "as recorded"}))
}

pub(super) fn refusal(status: u16, body: Value) -> Answer {
    Answer { status, headers: Vec::new(), body: body.to_string() }
}

#[cfg(feature = "s3")]
pub(super) fn text(status: u16, body: &str) -> Answer {
    Answer { status, headers: Vec::new(), body: body.to_owned() }
}

#[cfg(feature = "s3")]
impl Answer {
    pub(super) fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }
}

#[derive(Clone, Debug)]
pub(super) struct RecordedRequest {
    /// Without the host.
    pub(super) line: String,
    pub(super) operation: String,
    pub(super) body: Value,
}

#[derive(Default)]
struct Script {
    answers: VecDeque<Answer>,
    always: Option<Answer>,
    asked: Vec<RecordedRequest>,
}

#[derive(Clone, Default)]
pub(super) struct Replay {
    script: Arc<Mutex<Script>>,
}

impl fmt::Debug for Replay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Replay")
    }
}

impl Replay {
    /// Gives these answers in turn.
    pub(super) fn of(answers: impl IntoIterator<Item = Answer>) -> Self {
        let script = Script { answers: answers.into_iter().collect(), ..Script::default() };
        Self { script: Arc::new(Mutex::new(script)) }
    }

    pub(super) fn always(answer: Answer) -> Self {
        let script = Script { always: Some(answer), ..Script::default() };
        Self { script: Arc::new(Mutex::new(script)) }
    }

    pub(super) fn clients(&self) -> Clients {
        let credentials = Credentials::new("key", "secret", None, None, "a test");
        let connector = SharedHttpConnector::new(self.clone());
        let http = http_client_fn(move |_, _| connector.clone());
        Clients::new(credentials, "us-east-1".to_owned(), None).through(http)
    }

    /// Returns the requests, if the whole script was used.
    pub(super) fn asked(&self) -> Vec<RecordedRequest> {
        let script = self.script.lock().expect("no panic while held");
        assert_eq!(script.answers.len(), 0, "answers that were not asked for: {:?}", script.asked);
        script.asked.clone()
    }
}

impl HttpConnector for Replay {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = request.body().bytes().unwrap_or_default();
        let operation = request.headers().get("x-amz-target").unwrap_or_default();
        let asked = RecordedRequest {
            line: format!("{} {}", request.method(), request.uri()),
            operation: operation.rsplit('.').next().unwrap_or_default().to_owned(),
            body: serde_json::from_slice(body).unwrap_or_default(),
        };
        let mut script = self.script.lock().expect("no panic while held");
        let answer = script.answers.pop_front().or_else(|| script.always.clone());
        let answer = answer.unwrap_or_else(|| panic!("one more than recorded: {asked:?}"));
        script.asked.push(asked);
        let status = StatusCode::try_from(answer.status).expect("a status");
        let mut response = HttpResponse::new(status, SdkBody::from(answer.body));
        for (name, value) in answer.headers {
            response.headers_mut().insert(name, value);
        }
        HttpConnectorFuture::ready(Ok(response))
    }
}

//! An in-memory stand-in for SQS, DynamoDB and S3 with their wire protocols (AWS JSON 1.0, S3's
//! `PUT` and `GET`). It counts every call by kind, and refuses calls that the functions don't make.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use gridpost_testkit::server::{Server, response};
use http::{Method, Response, request::Parts};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;

use super::{
    lock,
    queue::Queue,
    sink,
    table::{Refusal, Tables},
};

/// Most entries of a batch, and bytes of all its bodies. Source: SQS quotas.
const BATCH_MAX: (usize, usize) = (10, 1_048_576);

/// The emulator of a developer's machine.
const EMULATOR: &str = "http://127.0.0.1:14566";

/// Replaces the MD5 sum of a body: the SDK does not check it.
const MD5: &str = "00000000000000000000000000000000";

/// The tables and queues of the deployment.
pub const CONFIG_TABLE: &str = "gridpost-config";
pub const STATE_TABLE: &str = "gridpost-state";
pub const DISPATCH: &str = "gridpost-dispatch";
pub const RETRY: &str = "gridpost-retry-0";
const DEAD_LETTER: &str = "gridpost-dead-letter";
const POISON: &str = "gridpost-poison";

/// Gets every message that is sent; returns whether its queue keeps it.
pub type OnSend = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// The account's queues, tables and buckets.
pub struct Cloud {
    queues: BTreeMap<&'static str, Queue>,
    on_send: OnSend,
    answers_after: Duration,
    pub tables: Mutex<Tables>,
    /// All buckets' objects by path.
    objects: Mutex<BTreeMap<String, Bytes>>,
    calls: Mutex<BTreeMap<String, u64>>,
    problems: Mutex<Vec<String>>,
}

impl Cloud {
    /// Makes an account with the deployment's queues. Each call is answered after the given time.
    pub fn new(answers_after: Duration, on_send: OnSend) -> Self {
        Self {
            queues: [DISPATCH, RETRY, DEAD_LETTER, POISON]
                .map(|name| (name, Queue::default()))
                .into(),
            on_send,
            answers_after,
            tables: Mutex::default(),
            objects: Mutex::default(),
            calls: Mutex::default(),
            problems: Mutex::default(),
        }
    }

    /// Serves it, over TLS if there is an acceptor. Returns the server and its URL.
    pub async fn serve(self: &Arc<Self>, tls: Option<TlsAcceptor>) -> io::Result<(Server, String)> {
        let cloud = Arc::clone(self);
        let answer = move |parts, body| {
            let cloud = Arc::clone(&cloud);
            async move { Some(cloud.answer(&parts, body).await) }
        };
        sink::serve(tls, Arc::default(), answer).await
    }

    async fn answer(&self, parts: &Parts, body: Bytes) -> Response<Bytes> {
        let target = parts.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        let answer = match target {
            Some(target) => self.aws_json(target, &body),
            None => self.s3(parts, body),
        };
        if !self.answers_after.is_zero() {
            sleep(self.answers_after).await;
        }
        answer
    }

    /// A queue by its name.
    ///
    /// # Panics
    ///
    /// The deployment has none of that name.
    pub fn queue(&self, name: &str) -> &Queue {
        &self.queues[name]
    }

    /// Counts a call of that kind, e.g. `sqs:SendMessageBatch`.
    pub fn count(&self, kind: &str) {
        *lock(&self.calls).entry(kind.to_owned()).or_default() += 1;
    }

    pub fn calls(&self) -> BTreeMap<String, u64> {
        lock(&self.calls).clone()
    }

    /// Notes what must not happen: a function that fails, or a refusal other than by a condition,
    /// which shows that the functions and this stand-in disagree.
    pub fn complain(&self, problem: String) {
        lock(&self.problems).push(problem);
    }

    /// Returns the problems noted so far.
    pub fn problems(&self) -> Vec<String> {
        lock(&self.problems).clone()
    }

    fn s3(&self, parts: &Parts, body: Bytes) -> Response<Bytes> {
        let path = parts.uri.path();
        if parts.method != Method::GET {
            self.count("s3:PutObject");
            lock(&self.objects).insert(path.to_owned(), body);
            return response(200, "");
        }
        self.count("s3:GetObject");
        match lock(&self.objects).get(path) {
            Some(object) => response(200, Bytes::clone(object)),
            None => response(404, "<Error><Code>NoSuchKey</Code></Error>"),
        }
    }

    fn aws_json(&self, target: &str, body: &[u8]) -> Response<Bytes> {
        let answer = match target.split_once('.') {
            Some(("AmazonSQS", call)) => {
                self.count(&format!("sqs:{call}"));
                self.sqs(call, body)
            }
            Some((_, call)) => {
                self.count(&format!("dynamodb:{call}"));
                lock(&self.tables).call(call, body)
            }
            None => Err(("UnknownOperationException", target.to_owned())),
        };
        answer.map_or_else(
            |(code, reason)| {
                if code != "ConditionalCheckFailedException" {
                    self.complain(format!("{target}: {code}: {reason}"));
                }
                response(400, json!({ "__type": code, "message": reason }).to_string())
            },
            |answer| response(200, answer),
        )
    }

    fn sqs(&self, name: &str, body: &[u8]) -> Result<String, Refusal> {
        let unreadable = |error: serde_json::Error| ("InvalidParameterValue", error.to_string());
        let call: SqsCall<'_> = serde_json::from_slice(body).map_err(unreadable)?;
        let queue = self.queues.get(call.queue_url.rsplit('/').next().unwrap_or_default());
        let queue = queue.ok_or(("QueueDoesNotExist", call.queue_url.to_string()))?;
        let now = Instant::now();
        match name {
            "SendMessageBatch" => self.send(queue, &call.entries, now),
            "ChangeMessageVisibilityBatch" => {
                let hidden = call.entries.iter().filter(|entry| {
                    let visibility = Duration::from_secs(entry.visibility_timeout);
                    queue.hide(&entry.receipt_handle, visibility, now)
                });
                let successful: Vec<_> = hidden.map(|entry| json!({ "Id": entry.id })).collect();
                match successful.len() == call.entries.len() {
                    true => Ok(json!({ "Successful": successful, "Failed": [] }).to_string()),
                    false => Err(("MessageNotInflight", "a message is not in flight".to_owned())),
                }
            }
            "GetQueueAttributes" => {
                let [visible, in_flight, delayed] = queue.counts(now).map(|n| n.to_string());
                let attributes = json!({ "Attributes": {
                    "ApproximateNumberOfMessages": visible,
                    "ApproximateNumberOfMessagesNotVisible": in_flight,
                    "ApproximateNumberOfMessagesDelayed": delayed,
                }});
                Ok(attributes.to_string())
            }
            _ => Err(("UnsupportedOperation", format!("the stand-in has no call {name}"))),
        }
    }

    /// Takes a batch of messages in.
    fn send(&self, queue: &Queue, entries: &[Entry<'_>], now: Instant) -> Result<String, Refusal> {
        if entries.is_empty() || entries.len() > BATCH_MAX.0 {
            return Err(("TooManyEntriesInBatchRequest", format!("{} entries", entries.len())));
        }
        let bodies: Option<Vec<_>> = entries.iter().map(|entry| entry.message_body).collect();
        let Some(bodies) = bodies else {
            return Err(("MissingParameter", "an entry has no MessageBody".to_owned()));
        };
        let texts = || bodies.iter().map(|body| body.get());
        let text_bytes = |body| serde_json::from_str::<String>(body).map_or(0, |text| text.len());
        // Escapes only make it longer, so a body that fits as JSON fits.
        if texts().map(str::len).sum::<usize>() > BATCH_MAX.1
            && texts().map(text_bytes).sum::<usize>() > BATCH_MAX.1
        {
            return Err(("BatchRequestTooLong", "the bodies are above 1 MiB together".to_owned()));
        }
        let sent = entries.iter().zip(&bodies).map(|(entry, body)| {
            let group = &*entry.message_group_id;
            let delay = Duration::from_secs(entry.delay_seconds);
            let id = if (self.on_send)(body.get().as_bytes()) {
                queue.send((*body).to_owned().into(), group.into(), delay, now)
            } else {
                "forgotten".to_owned()
            };
            json!({ "Id": entry.id, "MessageId": id, "MD5OfMessageBody": MD5 })
        });
        let successful: Vec<_> = sent.collect();
        Ok(json!({ "Successful": successful, "Failed": [] }).to_string())
    }
}

/// The members of SQS's calls.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SqsCall<'a> {
    #[serde(borrow)]
    queue_url: Cow<'a, str>,
    #[serde(borrow, default)]
    entries: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    message_body: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message_group_id: Cow<'a, str>,
    #[serde(default)]
    delay_seconds: u64,
    #[serde(borrow, default)]
    receipt_handle: Cow<'a, str>,
    #[serde(default)]
    visibility_timeout: u64,
}

pub fn queue_url(url: &str, name: &str) -> String {
    format!("{url}/000000000000/{name}")
}

/// Returns the environment of functions: a developer's settings, the stand-in's address, and the
/// differences.
pub fn environment(
    url: &str,
    trusted: &Path,
    message_bytes_max: usize,
) -> BTreeMap<String, String> {
    let local = include_str!("../../../functions/local.env").replace(EMULATOR, url);
    let lines = local.lines().filter(|line| !line.starts_with('#'));
    let local = lines.filter_map(|line| line.split_once('='));
    let own = [
        ("AWS_SESSION_TOKEN", "b".repeat(800)),
        ("SSL_CERT_FILE", trusted.display().to_string()),
        ("GRIDPOST_RETRY_QUEUE_URLS", queue_url(url, RETRY)),
        ("GRIDPOST_QUEUE_MESSAGE_BYTES_MAX", message_bytes_max.to_string()),
        ("GRIDPOST_CONFIG_CACHE_MS", "2000".to_owned()),
    ];
    let all = local.map(|(name, value)| (name, value.to_owned())).chain(own);
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_sqs_would_refuse_is_a_problem() {
        let cloud = Cloud::new(Duration::ZERO, Box::new(|_| true));
        let [fits, long] = ["\"".repeat(600_000), "x".repeat(600_000)];
        for (body, count, want) in [
            (&*fits, 1, 200),
            (&long, 1, 200),
            (&long, 2, 400),
            ("x", 10, 200),
            ("x", 11, 400),
            ("x", 0, 400),
        ] {
            let entry = json!({ "Id": "0", "MessageBody": body, "MessageGroupId": "g" });
            let call = json!({ "QueueUrl": queue_url("http://a", DISPATCH), "Entries": vec![entry; count] });
            let answer = cloud.aws_json("AmazonSQS.SendMessageBatch", call.to_string().as_bytes());
            assert_eq!(answer.status(), want, "{count} of {} bytes", body.len());
        }
        assert_eq!((cloud.problems().len(), cloud.calls()["sqs:SendMessageBatch"]), (3, 6));
    }
}

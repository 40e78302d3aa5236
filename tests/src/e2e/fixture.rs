//! The fixture of a case.

use std::time::Duration;

use crate::json_api::JsonApi;
use anyhow::{Context, ensure};
use gridpost_api::journal::query::{AttemptsQuery, JournalQueryInput};
use gridpost_core::time::Timestamp;
use gridpost_ops::{
    attempt_lines::AttemptLine,
    audit::{self, AuditOptions},
    clock,
    failure::Refusal,
    given::TimeSpan,
    journal::Journal,
    target::{Target, TargetArguments},
};
pub use gridpost_stack::terraform::ACCOUNT;
use serde_json::{Value, json};

use super::{
    ground::Ground,
    inside::{self, Object, until},
    python::{self, SampleReceiver},
    receiver::{Endpoint, Receiver, Reply},
};
use crate::dev;

/// Event Grid's own schema.
pub const EVENT_GRID: &str = "EventGridSchema";
/// CloudEvents 1.0.
pub const CLOUD_EVENTS: &str = "CloudEventSchemaV1_0";
/// The publishers' own schema, delivered unchanged.
pub const CUSTOM_INPUT: &str = "CustomInputSchema";

/// Time for a first attempt of something just published, generous for a busy machine.
pub const SOON: Duration = Duration::from_secs(20);
/// Time for a dead letter after its delivery ended: the stack's delay of 5 s, and S3.
pub const DEAD_LETTER_SOON: Duration = Duration::from_secs(40);

/// A stack or a process of `gridpost dev`, with everything else that the cases share.
pub struct Fixture {
    /// The stack, or the process.
    pub ground: Ground,
    /// Its resource API.
    pub api: JsonApi,
    /// Every endpoint.
    pub receiver: Receiver,
    /// A plain HTTP client.
    pub http: reqwest::Client,
    s3: aws_sdk_s3::Client,
    sqs: aws_sdk_sqs::Client,
    /// Tells this run's topics from those of an earlier run on a stack that was kept.
    run: String,
    /// When this run began: the emulator returns only the first lines of a long log.
    began_ms: i64,
}

impl Fixture {
    /// The fixture on a running stack or process.
    pub async fn on(ground: Ground) -> anyhow::Result<Self> {
        let api = JsonApi::connect(&ground.connection.manage_url).await?;
        let http =
            reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(60)).build()?;
        let aws = inside::clients(&ground.connection.emulator_url);
        let (s3, sqs) = (aws.s3(), aws.sqs());
        let receiver = Receiver::start().await?;
        let run = clock::random_id()[..6].to_owned();
        let began_ms = clock::now_ms();
        Ok(Self { ground, api, receiver, http, s3, sqs, run, began_ms })
    }

    /// Returns the text that tells the names of this run from those of an earlier one.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The emulator's S3.
    pub fn s3(&self) -> &aws_sdk_s3::Client {
        &self.s3
    }

    /// The emulator's SQS.
    pub fn sqs(&self) -> &aws_sdk_sqs::Client {
        &self.sqs
    }

    /// Creates a topic of the case's own.
    pub async fn topic(&self, case: &str, schema: &'static str) -> anyhow::Result<Topic<'_>> {
        self.topic_as(case, schema, &json!({"properties": {"inputSchema": schema}})).await
    }

    /// Creates a topic of the case's own by a document; its event subscriptions deliver in `schema`.
    pub async fn topic_as(
        &self,
        case: &str,
        schema: &'static str,
        document: &Value,
    ) -> anyhow::Result<Topic<'_>> {
        let name = format!("{case}-{}", self.run);
        let key = dev::create_topic(&self.api, &name, document).await?;
        let endpoint = dev::publish_endpoint(&self.ground.connection, &name);
        Ok(Topic { fixture: self, name, schema, endpoint, key })
    }

    /// Waits for `count` dead letters below `prefix`, and returns their objects.
    pub async fn dead_letters(&self, prefix: &str, count: usize) -> anyhow::Result<Vec<Object>> {
        let bucket = &self.ground.connection.dead_letter_bucket;
        let what = format!("{count} dead letters under {prefix}");
        let written = || async {
            match self.ground.bucket_folder(bucket) {
                Some(folder) => inside::dead_letter_files(&folder, prefix),
                None => inside::dead_letters(&self.s3, bucket, prefix).await,
            }
        };
        let records = |objects: &[Object]| objects.iter().map(|it| it.records.len()).sum::<usize>();
        until(&what, DEAD_LETTER_SOON, written, |objects| records(objects) >= count).await
    }

    /// The large fan-outs that are stored.
    pub async fn stored_publishes(&self) -> anyhow::Result<Vec<String>> {
        let bucket = self.ground.connection.dead_letter_bucket.replace("dead-letters", "payloads");
        let stored = inside::stored(&self.s3, &bucket, "publishes/").await?;
        Ok(stored.into_iter().map(|(_, _, text)| text).collect())
    }

    /// Audits a topic, looking again for up to `wait_s` seconds while it does not balance.
    pub async fn audit(&self, topic: &str, wait_s: u64) -> anyhow::Result<Value> {
        let options = AuditOptions {
            topic: Some(topic.to_owned()),
            subscription: None,
            since: TimeSpan::minutes(24 * 60),
            wait: Duration::from_secs(wait_s),
            max_dollars: None,
        };
        Ok(json!(audit::look_until(&options, &self.target()?).await?.document()))
    }

    /// The deployment, as the command line finds it.
    pub fn target(&self) -> anyhow::Result<Target> {
        let home = Some(self.ground.home().root().to_owned());
        TargetArguments { home, ..TargetArguments::default() }.resolve()
    }

    /// The health of an event subscription's endpoint, as soon as it is so.
    ///
    /// # Errors
    ///
    /// When it is not so within [`SOON`].
    pub async fn health_when(
        &self,
        topic: &str,
        name: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        until("the endpoint's health", SOON, || self.api.health(topic, name), is_so).await
    }

    /// The lines of a function's log that contain `text`.
    pub async fn log_lines(&self, function: &str, text: &str) -> anyhow::Result<Vec<String>> {
        self.lines_of(&format!("gridpost-{function}"), text).await
    }

    /// Attempts and ends as lines, oldest first, as `gridpost tail --json` prints them.
    async fn journal_lines(&self) -> anyhow::Result<Vec<String>> {
        let from = Timestamp::from_millis(self.began_ms);
        let attempts = AttemptsQuery { from: Some(from.into()), ..AttemptsQuery::default() };
        let question =
            JournalQueryInput { attempts: Some(attempts), ..JournalQueryInput::default() };
        let journal = Journal::connect(&self.target()?, None).await?;
        let entries = journal.ask(question, usize::MAX).await?.attempts.unwrap_or_default();
        let lines = entries.into_iter().rev().map(AttemptLine);
        lines.map(|line| Ok(serde_json::to_string(&line)?)).collect()
    }

    /// The lines of any function's log that contain `text`; of `gridpost dev`, which logs no attempts, those
    /// of its journal.
    pub async fn lines_of(&self, function: &str, text: &str) -> anyhow::Result<Vec<String>> {
        const FILTER: &str = "Logs_20140328.FilterLogEvents";
        if self.target()?.is_dev() {
            let lines = self.journal_lines().await?;
            return Ok(lines.into_iter().filter(|line| line.contains(text)).collect());
        }
        let group = format!("/aws/lambda/{function}");
        let mut ask = json!({"logGroupName": group, "startTime": self.began_ms});
        let mut lines = Vec::new();
        loop {
            let page = self.aws_json("logs", FILTER.to_owned(), ask.clone()).await?;
            let messages = page["events"].as_array().context("a page of lines")?;
            let messages = messages.iter().filter_map(|event| event["message"].as_str());
            lines.extend(messages.filter(|message| message.contains(text)).map(str::to_owned));
            if page["nextToken"].is_null() {
                return Ok(lines);
            }
            ask["nextToken"] = page["nextToken"].clone();
        }
    }

    /// Sends a message to a queue of the deployment, which otherwise only its functions do.
    pub async fn send_to(&self, queue: &str, body: &str) -> anyhow::Result<()> {
        let emulator = &self.ground.connection.emulator_url;
        let url = format!("{emulator}/{ACCOUNT}/gridpost-{queue}");
        self.sqs.send_message().queue_url(url).message_body(body).send().await?;
        Ok(())
    }

    /// The bodies of all messages in all queues.
    pub async fn queued_bodies(&self) -> anyhow::Result<Vec<String>> {
        inside::queued_bodies(&self.http, &self.ground.connection.emulator_url).await
    }

    /// Sends with Azure's SDK; returns the result of each send.
    pub async fn sdk_send(&self, sends: Value) -> anyhow::Result<Value> {
        python::run(self.ground.environment()?, python::SEND, &sends).await
    }

    /// Posts CloudEvents of the CloudEvents SDK; returns status and body of each answer.
    pub async fn cloud_events_post(&self, posts: Value) -> anyhow::Result<Value> {
        python::run(self.ground.environment()?, python::POST, &posts).await
    }

    /// Starts a receiver that is written as the samples for Event Grid are.
    pub async fn sample_receiver(&self) -> anyhow::Result<SampleReceiver> {
        SampleReceiver::start(self.ground.environment()?, &self.http).await
    }

    /// Passes event subscriptions through the models of Azure's management SDK.
    pub async fn through_azures_models(&self, documents: Value) -> anyhow::Result<Value> {
        python::run(self.ground.environment()?, python::MODELS, &documents).await
    }

    /// Verifies signatures with the library of Standard Webhooks; returns why each is refused, or
    /// null.
    pub async fn verify_signatures(&self, deliveries: Value) -> anyhow::Result<Value> {
        python::run(self.ground.environment()?, python::VERIFY, &deliveries).await
    }

    /// Parses delivered events with the SDKs of receivers.
    pub async fn sdk_parse(&self, delivered: Value) -> anyhow::Result<Vec<Value>> {
        let parsed = python::run(self.ground.environment()?, python::PARSE, &delivered).await?;
        Ok(serde_json::from_value(parsed)?)
    }
}

/// A topic that belongs to one case.
pub struct Topic<'a> {
    fixture: &'a Fixture,
    /// Its name.
    pub name: String,
    /// The delivery schema of its event subscriptions; usually also its input schema.
    pub schema: &'static str,
    /// Where its events are posted.
    pub endpoint: String,
    /// One of its keys.
    pub key: String,
}

impl Topic<'_> {
    /// Opens an endpoint that answers `replies`, and subscribes it with more `properties`.
    pub async fn subscribe(
        &self,
        name: &str,
        replies: &[Reply],
        properties: Value,
    ) -> anyhow::Result<Endpoint> {
        let endpoint = self.fixture.receiver.endpoint(&format!("{}/{name}", self.name), replies);
        let created = self.try_subscribe(name, endpoint.url(), properties).await;
        created.with_context(|| format!("event subscription {name} of {}", self.name))?;
        Ok(endpoint)
    }

    /// Subscribes `url` with more `properties`, as [`dev::subscribe`] does.
    pub async fn try_subscribe(
        &self,
        name: &str,
        url: &str,
        mut properties: Value,
    ) -> anyhow::Result<Value> {
        properties["eventDeliverySchema"] = json!(self.schema);
        dev::subscribe(&self.fixture.api, &self.name, name, url, properties).await
    }

    /// The property that sends ended events of this topic to the stack's bucket, below the prefix
    /// that [`Topic::prefix`] names.
    pub fn dead_letter_destination(&self) -> Value {
        json!({"endpointType": "S3Bucket", "properties": {
            "bucketName": self.fixture.ground.connection.dead_letter_bucket,
            "prefix": self.prefix(),
        }})
    }

    /// The prefix of its dead-letter objects.
    pub fn prefix(&self) -> String {
        format!("{}/", self.name)
    }

    /// Publishes events and expects them to be accepted.
    pub async fn publish(&self, events: &[Value]) -> anyhow::Result<()> {
        let (status, body) = self.post(Value::from(events).to_string()).await?;
        ensure!(status == 200 && body.is_empty(), "a publish was answered {status}: {body}");
        Ok(())
    }

    /// Posts a body as it is; returns status and body of the answer.
    pub async fn post(&self, body: String) -> anyhow::Result<(u16, String)> {
        post(&self.fixture.http, &self.endpoint, &self.key, self.content_type(), body).await
    }

    fn content_type(&self) -> &'static str {
        match self.schema {
            CLOUD_EVENTS => "application/cloudevents-batch+json; charset=utf-8",
            _ => "application/json; charset=utf-8",
        }
    }

    /// An event in the topic's schema.
    pub fn event(&self, id: &str, event_type: &str, subject: &str) -> Value {
        match self.schema {
            CLOUD_EVENTS => json!({
                "specversion": "1.0", "id": id, "source": "/gridpost/e2e", "type": event_type,
                "subject": subject, "time": clock::now_rfc3339(), "data": {"of": id},
            }),
            _ => json!({
                "id": id, "eventType": event_type, "subject": subject,
                "eventTime": clock::now_rfc3339(), "data": {"of": id}, "dataVersion": "1.0",
            }),
        }
    }

    /// An event of which only the id matters.
    pub fn plain_event(&self, id: &str) -> Value {
        self.event(id, "Gridpost.Test", "e2e/plain")
    }
}

/// Posts a publish request; returns status and body of the answer.
///
/// # Errors
///
/// The connection fails: what became of the events is unknown.
pub async fn post(
    http: &reqwest::Client,
    url: &str,
    key: &str,
    content_type: &str,
    body: impl Into<reqwest::Body>,
) -> anyhow::Result<(u16, String)> {
    let request = http.post(url).header("aeg-sas-key", key).header("content-type", content_type);
    let answer = request.body(body).send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

/// The refusal in a result that must be one.
pub fn refusal<T>(result: anyhow::Result<T>) -> anyhow::Result<Refusal> {
    match result {
        Ok(_) => anyhow::bail!("it was not refused"),
        Err(err) => err.downcast::<Refusal>(),
    }
}

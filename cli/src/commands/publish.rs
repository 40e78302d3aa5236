//! `gridpost publish`: one event from flags, or a request body as it is.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use serde_json::{Value, json, value::RawValue};

use crate::commands::read_input;
use crate::failure::{Misuse, Refusal};
use crate::manage_api::events::with_text;
use crate::output::Output;
use crate::target::{Target, TargetArguments};
use crate::wall_clock;

/// What to publish.
#[derive(Args, Debug)]
pub struct PublishArguments {
    /// The topic
    #[arg(long)]
    topic: String,

    /// Event type
    #[arg(
        long = "type",
        value_name = "TYPE",
        default_value = "Gridpost.Sample",
        conflicts_with = "file"
    )]
    event_type: String,

    /// Subject
    #[arg(long, default_value = "gridpost/publish", conflicts_with = "file")]
    subject: String,

    /// Event data: JSON, or @FILE (@-: standard input)
    #[arg(long, value_name = "JSON|@FILE", default_value = "{}", conflicts_with = "file")]
    data: String,

    /// Event id [default: a random one]
    #[arg(long, conflicts_with = "file")]
    id: Option<String>,

    /// CloudEvents source
    #[arg(long, default_value = "/gridpost/publish", conflicts_with = "file")]
    source: String,

    /// The whole request body (`-`: standard input)
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Content type of the request body [default: the one for the topic's schema]
    #[arg(long, value_name = "TYPE", requires = "file")]
    content_type: Option<String>,

    /// Topic key [default: read from the manage API]
    #[arg(long, env = "GRIDPOST_KEY", hide_env_values = true)]
    key: Option<String>,
}

/// A topic's input schema, as far as it shapes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputSchema {
    /// Event Grid's own.
    EventGrid,
    /// CloudEvents 1.0.
    CloudEvents,
    /// The publishers' own.
    Custom,
}

impl InputSchema {
    /// The input schema of a topic's document.
    ///
    /// # Errors
    ///
    /// When it is one that this program does not know.
    pub fn of_topic(topic: &Value) -> anyhow::Result<Self> {
        match topic.pointer("/properties/inputSchema").and_then(Value::as_str) {
            Some("EventGridSchema") | None => Ok(Self::EventGrid),
            Some("CloudEventSchemaV1_0") => Ok(Self::CloudEvents),
            Some("CustomEventSchema") => Ok(Self::Custom),
            Some(other) => Err(anyhow!("the topic's schema {other} is not known to this gridpost")),
        }
    }

    /// The content type for `body`: CloudEvents name a single event and a batch differently.
    pub fn content_type(self, body: &[u8]) -> &'static str {
        let is_array = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
        match self {
            Self::CloudEvents if is_array => "application/cloudevents-batch+json; charset=utf-8",
            Self::CloudEvents => "application/cloudevents+json; charset=utf-8",
            Self::EventGrid | Self::Custom => "application/json; charset=utf-8",
        }
    }
}

/// The event that flags describe, ready to be sent.
pub struct Event<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its event type.
    pub event_type: &'a str,
    /// Its subject.
    pub subject: &'a str,
    /// Where CloudEvents say that it comes from.
    pub source: &'a str,
    /// When it happened.
    pub time: &'a str,
    /// Its data, as the JSON text that is sent: a value would round long numbers, and drop members that stand
    /// twice.
    pub data: &'a str,
}

impl Event<'_> {
    /// The request body in the topic's schema.
    pub fn body(&self, schema: InputSchema) -> String {
        let event = self.text(schema);
        match schema {
            InputSchema::CloudEvents => event,
            InputSchema::EventGrid | InputSchema::Custom => format!("[{event}]"),
        }
    }

    /// The event by itself.
    pub fn text(&self, schema: InputSchema) -> String {
        let others = match schema {
            InputSchema::EventGrid => json!({
                "id": self.id,
                "eventType": self.event_type,
                "subject": self.subject,
                "eventTime": self.time,
                "dataVersion": "1.0",
            }),
            InputSchema::CloudEvents => json!({
                "specversion": "1.0",
                "id": self.id,
                "type": self.event_type,
                "source": self.source,
                "subject": self.subject,
                "time": self.time,
            }),
            // A custom event is whatever its publisher makes it.
            InputSchema::Custom => return self.data.to_owned(),
        };
        with_text(&others, "data", self.data)
    }
}

/// Runs `gridpost publish`.
///
/// # Errors
///
/// A refusal by the server, a misuse, or a transport failure.
pub async fn run(
    arguments: PublishArguments,
    target: &TargetArguments,
    output: Output,
) -> anyhow::Result<()> {
    let target = target.resolve()?;
    let topic = describe_topic(&arguments, &target).await?;
    let schema = InputSchema::of_topic(&topic)?;
    let id = arguments.id.clone().unwrap_or_else(wall_clock::random_id);
    let body = body(&arguments, schema, &id)?;
    let content_type = arguments.content_type.as_deref().unwrap_or(schema.content_type(&body));
    let url = events_url(&arguments.topic, &topic, &target)?;
    let key = key(&arguments, &target).await?;
    let events = arguments.file.is_some().then(|| count(&body)).flatten();
    let status = post(&target, &url, &key, content_type, body).await?;
    let id = arguments.file.is_none().then_some(id);
    let topic = &arguments.topic;
    let document =
        json!({"topic": topic, "url": url, "status": status, "id": id, "events": events});
    output.print(&document, |_| match (&id, events) {
        (Some(id), _) => format!("published event {id} to {topic}"),
        (None, Some(1)) => format!("published 1 event to {topic}"),
        (None, Some(events)) => format!("published {events} events to {topic}"),
        (None, None) => format!("published to {topic}"),
    });
    Ok(())
}

/// Publishes a body; the status of the answer.
///
/// # Errors
///
/// A refusal by the server, or a transport failure.
pub(crate) async fn post(
    target: &Target,
    url: &str,
    key: &str,
    content_type: &str,
    body: Vec<u8>,
) -> anyhow::Result<u16> {
    let request = target.http_client(url)?.post(url).header("content-type", content_type);
    let answer = request.header("aeg-sas-key", key).body(body).send().await;
    let answer = answer.with_context(|| format!("POST {url} got no answer"))?;
    match answer.status().as_u16() {
        200 => Ok(200),
        refused => {
            let text = answer.text().await.unwrap_or_default();
            Err(Refusal::from_answer(refused, &text).into())
        }
    }
}

/// How many events a body has; none where it is no JSON, which a binary publish need not be.
pub(crate) fn count(body: &[u8]) -> Option<usize> {
    match serde_json::from_slice(body).ok()? {
        Value::Array(events) => Some(events.len()),
        _ => Some(1),
    }
}

/// The topic's document; an empty one when only the publish API is known and a raw body is sent.
async fn describe_topic(arguments: &PublishArguments, target: &Target) -> anyhow::Result<Value> {
    if target.has_manage_url() {
        return target.manage_api().await?.topic(&arguments.topic).await;
    }
    if arguments.file.is_some() && arguments.content_type.is_some() {
        return Ok(Value::Null);
    }
    let advice = "the topic's schema is not known without the manage API: give --manage-url, or --file with \
                  --content-type";
    Err(Misuse(advice.to_owned()).into())
}

/// Where events of a topic are posted.
///
/// # Errors
///
/// [`Misuse`] when neither flags nor the topic's document say it.
pub fn events_url(name: &str, topic: &Value, target: &Target) -> anyhow::Result<String> {
    let by_topic =
        || topic.pointer("/properties/endpoint").and_then(Value::as_str).map(str::to_owned);
    let is_namespace = topic.get("kind").and_then(Value::as_str) == Some("namespace");
    target.events_url(name, is_namespace).or_else(by_topic).ok_or_else(|| {
        Misuse("the publish API is not known: give --publish-url (GRIDPOST_PUBLISH_URL)".to_owned())
            .into()
    })
}

async fn key(arguments: &PublishArguments, target: &Target) -> anyhow::Result<String> {
    if let Some(key) = &arguments.key {
        return Ok(key.clone());
    }
    if !target.has_manage_url() {
        return Err(Misuse("no topic key: give --key (GRIDPOST_KEY)".to_owned()).into());
    }
    let keys = target.manage_api().await?.keys(&arguments.topic).await?;
    let key = keys.get("key1").and_then(Value::as_str).context("the manage API gave no key1")?;
    Ok(key.to_owned())
}

fn body(arguments: &PublishArguments, schema: InputSchema, id: &str) -> anyhow::Result<Vec<u8>> {
    if let Some(file) = &arguments.file {
        return read_input(file);
    }
    let data = match arguments.data.strip_prefix('@') {
        Some(file) => read_input(Path::new(file))?,
        None => arguments.data.clone().into_bytes(),
    };
    let data: &RawValue =
        serde_json::from_slice(&data).map_err(|err| Misuse(format!("--data is no JSON: {err}")))?;
    let data = data.get();
    let time = wall_clock::now_rfc3339();
    let PublishArguments { event_type, subject, source, .. } = arguments;
    let event = Event { id, event_type, subject, source, time: &time, data };
    Ok(event.body(schema).into_bytes())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn the_content_type_follows_schema_and_shape() {
        use InputSchema::*;
        for (schema, body, want) in [
            (EventGrid, "[]", "application/json; charset=utf-8"),
            (Custom, "{}", "application/json; charset=utf-8"),
            (CloudEvents, " {}", "application/cloudevents+json; charset=utf-8"),
            (CloudEvents, "\n [", "application/cloudevents-batch+json; charset=utf-8"),
        ] {
            assert_eq!(schema.content_type(body.as_bytes()), want, "{schema:?} {body}");
        }
    }

    #[test]
    fn events_are_counted_where_they_can_be() {
        for (body, want) in
            [("[]", Some(0)), ("[{}, {}]", Some(2)), (" {\"a\": [1, 2]}", Some(1)), ("<a/>", None)]
        {
            assert_eq!(count(body.as_bytes()), want, "{body}");
        }
    }

    #[test]
    fn each_schema_has_its_envelope() {
        let event = Event {
            id: "1",
            event_type: "T",
            subject: "s",
            source: "/src",
            time: "2030-01-02T03:04:05Z",
            data: r#"{"a":1}"#,
        };
        let body = |schema| -> Value { serde_json::from_str(&event.body(schema)).expect("JSON") };
        let event_grid = json!([{"id": "1", "eventType": "T", "subject": "s", "data": {"a": 1},
            "eventTime": "2030-01-02T03:04:05Z", "dataVersion": "1.0"}]);
        let cloud_event = json!({"specversion": "1.0", "id": "1", "type": "T", "source": "/src",
            "subject": "s", "time": "2030-01-02T03:04:05Z", "data": {"a": 1}});
        assert_eq!(body(InputSchema::EventGrid), event_grid);
        assert_eq!(body(InputSchema::CloudEvents), cloud_event);
        assert_eq!(body(InputSchema::Custom), json!([{"a": 1}]));
    }

    #[test]
    fn data_are_sent_as_they_were_typed() {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            arguments: PublishArguments,
        }
        let typed = r#"{"n": 12345678901234567890123, "n": 1e400}"#;
        let data = format!(" {typed}\n");
        let line = ["publish", "--topic", "t", "--key", "k", "--data", data.as_str()];
        let Line { arguments } = Line::parse_from(line);
        for schema in [InputSchema::EventGrid, InputSchema::CloudEvents, InputSchema::Custom] {
            let sent = body(&arguments, schema, "1").expect("a body");
            let sent = String::from_utf8(sent).expect("text");
            assert!(sent.contains(typed), "{sent}");
        }
        let broken = PublishArguments { data: "{".to_owned(), ..arguments };
        let refused = body(&broken, InputSchema::Custom, "1").expect_err("no JSON");
        assert!(refused.is::<Misuse>(), "{refused}");
    }

    #[test]
    fn an_unknown_schema_is_no_guess() {
        let topic = |schema: &str| json!({"properties": {"inputSchema": schema}});
        assert_eq!(
            InputSchema::of_topic(&topic("CustomEventSchema")).ok(),
            Some(InputSchema::Custom)
        );
        assert!(InputSchema::of_topic(&topic("Other")).is_err());
    }
}

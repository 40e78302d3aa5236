//! `gridpost publish`: one event from flags, or a request body as it is.

use std::path::{Path, PathBuf};

use clap::Args;
use gridpost_api::topic::Topic;
use gridpost_core::topic::InputSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    output,
    target::{Common, Target},
};
use gridpost_ops::{
    clock,
    failure::Misuse,
    files,
    publish::{Event, content_type, count, events_url, input_schema, post},
};

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

/// A publish as `--json` prints it.
#[derive(Serialize)]
struct Published<'p> {
    topic: &'p str,
    url: String,
    status: u16,
    id: Option<String>,
    events: Option<usize>,
}

/// Runs `gridpost publish`.
pub async fn run(arguments: PublishArguments, common: &Common) -> anyhow::Result<()> {
    let target = common.target.resolve()?;
    let topic = describe_topic(&arguments, &target).await?;
    let schema = topic.as_ref().map_or(InputSchema::EventGridSchema, input_schema);
    let id = arguments.id.clone().unwrap_or_else(clock::random_id);
    let body = body(&arguments, schema, &id)?;
    let content_type = arguments.content_type.as_deref().unwrap_or(content_type(schema, &body));
    let url = events_url(&arguments.topic, topic.as_ref(), &target)?;
    let key = key(&arguments, &target).await?;
    let events = arguments.file.is_some().then(|| count(&body)).flatten();
    let status = post(&target, &url, &key, content_type, body).await?;
    let id = arguments.file.is_none().then_some(id);
    let published = Published { topic: &arguments.topic, url, status, id, events };
    common.output.print(&published, |Published { topic, id, events, .. }| match (id, events) {
        (Some(id), _) => format!("published event {id} to {topic}"),
        (None, Some(events)) => {
            format!("published {} to {topic}", output::count(*events as u64, "event"))
        }
        (None, None) => format!("published to {topic}"),
    });
    Ok(())
}

/// Reads the topic; `None` when only the publish API is known and a raw body is sent.
async fn describe_topic(
    arguments: &PublishArguments,
    target: &Target,
) -> anyhow::Result<Option<Topic>> {
    if target.has_manage_url() {
        let topic = target.manage_api().await?.topic(&arguments.topic).await?;
        return Ok(Some(topic.document));
    }
    if arguments.file.is_some() && arguments.content_type.is_some() {
        return Ok(None);
    }
    let advice = "the topic's schema is not known without the manage API: give --manage-url, or --file with \
                  --content-type";
    Err(Misuse(advice.to_owned()).into())
}

async fn key(arguments: &PublishArguments, target: &Target) -> anyhow::Result<String> {
    if let Some(key) = &arguments.key {
        return Ok(key.clone());
    }
    if !target.has_manage_url() {
        return Err(Misuse("no topic key: give --key (GRIDPOST_KEY)".to_owned()).into());
    }
    let keys = target.manage_api().await?.keys(&arguments.topic).await?;
    Ok(keys.key1.expose().to_owned())
}

fn body(arguments: &PublishArguments, schema: InputSchema, id: &str) -> anyhow::Result<Vec<u8>> {
    if let Some(file) = &arguments.file {
        return Ok(files::text(file)?.into_bytes());
    }
    let data = match arguments.data.strip_prefix('@') {
        Some(file) => files::text(Path::new(file))?,
        None => arguments.data.clone(),
    };
    let data: &RawValue =
        serde_json::from_str(&data).map_err(|err| Misuse(format!("--data is not JSON: {err}")))?;
    let data = data.get();
    let time = clock::now_rfc3339();
    let PublishArguments { event_type, subject, source, .. } = arguments;
    let event = Event { id, event_type, subject, source, time: &time, data };
    Ok(event.body(schema).into_bytes())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

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
        for schema in [
            InputSchema::EventGridSchema,
            InputSchema::CloudEventSchemaV1_0,
            InputSchema::CustomEventSchema,
        ] {
            let sent = body(&arguments, schema, "1").expect("a body");
            let sent = String::from_utf8(sent).expect("text");
            assert!(sent.contains(typed), "{sent}");
        }
        let broken = PublishArguments { data: "{".to_owned(), ..arguments };
        let refused = body(&broken, InputSchema::CustomEventSchema, "1").expect_err("no JSON");
        assert!(refused.is::<Misuse>(), "{refused}");
    }
}

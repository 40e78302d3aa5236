//! `gridpost subscription test`: which part of a filter refuses which sample event. With `--schema` it
//! works offline, by the same code that matches.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use gridpost_api::{
    subscription::{
        properties_of,
        sample::{self, Of, TestInput},
    },
    topic,
    trial::{TestResult, TestedEvent},
};
use gridpost_core::topic::{InputSchema, Kind};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use crate::{
    commands::{one_of_names, read_document, read_events},
    output,
    target::Common,
};
use gridpost_ops::{declared::trial::unsaved, failure::Misuse, subscription::warnings};

/// Whose filter, and which events.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("where").required(true).args(["topic", "input_schema"])))]
#[command(group(ArgGroup::new("filter").required(true).args(["subscription", "file"])))]
pub struct TestArguments {
    /// The topic
    #[arg(long)]
    topic: Option<String>,

    /// Test offline, for a topic that takes this schema
    #[arg(long, visible_alias = "schema", value_name = "SCHEMA", conflicts_with = "subscription",
        value_parser = one_of_names::<InputSchema>(), ignore_case = true)]
    input_schema: Option<InputSchema>,

    /// The event subscription whose filter is tested
    #[arg(long, visible_alias = "name", value_name = "NAME")]
    subscription: Option<String>,

    /// A document whose filter is tested instead, saved or not (`-`: standard input)
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// The events, a JSON array or one by itself (`-`: standard input)
    #[arg(long, value_name = "FILE")]
    events: PathBuf,
}

/// The filter that is tested, as the resource API takes it: a name, or a document's properties.
#[serde_with::skip_serializing_none]
#[derive(Serialize)]
struct Filter<'f> {
    name: Option<&'f str>,
    properties: Option<Value>,
}

pub(super) async fn run(arguments: TestArguments, common: &Common) -> anyhow::Result<()> {
    let events = read_events(&arguments.events)?;
    let document = arguments.file.as_deref().map(read_document).transpose()?.unwrap_or_default();
    let answer = match (&arguments.topic, arguments.input_schema) {
        (Some(topic), _) => {
            let api = common.target.resolve()?.manage_api().await?;
            let name = arguments.subscription.as_deref();
            let filter = Filter { name, properties: properties_of(&document) };
            let answer = api.test_subscription(topic, &filter, &events).await?;
            if let Ok(topic) = api.topic(topic).await {
                let saved = match name {
                    Some(name) => api.subscription(&topic.name, name).await.ok(),
                    None => None,
                };
                warnings::print(match saved {
                    Some(saved) => warnings::unmatched(&topic.document, &saved.document),
                    None => warnings::unmatched(&topic.document, &document),
                });
            }
            answer
        }
        (None, schema) => {
            offline(schema.unwrap_or(InputSchema::EventGridSchema), &document, &events)?
        }
    };
    common.output.print(&answer, table);
    Ok(())
}

fn offline(
    input_schema: InputSchema,
    document: &Value,
    events: &RawValue,
) -> anyhow::Result<TestResult> {
    let properties = properties_of(document).map(serde_json::from_value).transpose()?;
    let input = TestInput { name: None, properties, events: Some(Value::Array(Vec::new())) };
    let sample = sample::read(&serde_json::to_value(input)?);
    let sample = sample.map_err(|problems| Misuse(problems_text(&problems)))?;
    warnings::print(warnings::unmatched_in(input_schema, None, document));
    let Of::Document(filter) = sample else {
        anyhow::bail!(Misuse("offline there are no event subscriptions: give --file".to_owned()))
    };
    let settings = topic::Settings { input_schema, ..topic::defaults(Kind::Custom) };
    let topic = unsaved("topic", settings);
    Ok(gridpost_api::trial::sample::test_text(&topic, &filter, events.get())?)
}

fn problems_text(problems: &gridpost_api::document::Problems) -> String {
    let all: Vec<_> = problems.iter().map(ToString::to_string).collect();
    all.join("\n")
}

/// Prints one line for each event, and one more for each further part that refuses it.
fn table(result: &TestResult) -> String {
    let mut rows = vec![["EVENT", "ID", "MATCHES", "REFUSED BY"].map(str::to_owned)];
    for TestedEvent { index, id, verdict } in &result.value {
        let parts = verdict.refused_by.iter();
        let mut parts = parts.map(|part| format!("{}: {}", part.path, part.message));
        let matches = if verdict.matches { "yes" } else { "no" };
        let first = parts.next().unwrap_or_else(|| "-".to_owned());
        rows.push([index.to_string(), id.clone(), matches.to_owned(), first]);
        rows.extend(parts.map(|part| [String::new(), String::new(), String::new(), part]));
    }
    output::columns(&rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn offline_answers_are_those_of_the_server() {
        let filter = json!({"properties": {"filter": {"advancedFilters":
            [{"operatorType": "StringIn", "key": "level", "values": ["3"]}]}}});
        let raw = |text: &str| RawValue::from_string(text.to_owned()).expect("JSON");
        let event =
            r#"{"specversion":"1.0","id":"e1","source":"/s","type":"T","level":4,"data":1e400}"#;
        let event = raw(event);
        let answer = offline(InputSchema::CloudEventSchemaV1_0, &filter, &event).expect("tested");
        let twice = raw(r#"{"specversion":"1.0","id":"e1","id":"e2","source":"/s","type":"T"}"#);
        let refused =
            offline(InputSchema::CloudEventSchemaV1_0, &filter, &twice).expect_err("twice");
        assert!(refused.to_string().contains("id"), "{refused}");
        let text = table(&answer);
        assert!(text.contains("filter.advancedFilters[0]"), "{text}");
        assert!(text.contains("level is 4; allowed: 3"), "{text}");
        let document = json!({"properties": {"filter": {"subjectBeginsWith": 1}}});
        let refused =
            offline(InputSchema::EventGridSchema, &document, &raw("[]")).expect_err("refused");
        assert!(refused.to_string().contains("properties.filter.subjectBeginsWith"), "{refused}");
    }
}

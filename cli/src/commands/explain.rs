//! `gridpost explain`: what became of an event, and what will. Who wants it and who does not, each
//! attempt, and what comes next.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::attempt_lines::{AttemptLine, AttemptLog};
use crate::commands::{delivery, read_document};
use crate::document::TimeToLive;
use crate::failure::Refusal;
use crate::manage_api::ManageApi;
use crate::output::{self, Output, text_at};
use crate::target::TargetArguments;
use crate::wall_clock;

/// Which event.
#[derive(Args, Debug)]
pub struct ExplainArguments {
    /// The event's id
    id: String,

    /// The topic it was published to
    #[arg(long)]
    topic: String,

    /// The event as it was published: says which event subscriptions do not want it, and why (`-`:
    /// standard input)
    #[arg(long, value_name = "FILE")]
    event: Option<PathBuf>,

    /// Look for its attempts since so long: 90m, 24h, 7d
    #[arg(long, value_name = "TIME", default_value = "24h")]
    since: TimeToLive,
}

/// A delivery that carries the event.
#[derive(Clone, Debug)]
struct Found {
    id: String,
    name: String,
    /// What is known of it by its state, where it has failed.
    state: Option<Value>,
    lines: Vec<AttemptLine>,
}

/// Runs `gridpost explain`.
///
/// # Errors
///
/// A refusal by the server, a log that can't be read, or a transport failure.
pub async fn run(
    arguments: ExplainArguments,
    target: &TargetArguments,
    output: Output,
) -> anyhow::Result<()> {
    let target = target.resolve()?;
    let api = target.manage_api().await?;
    let verdicts = match &arguments.event {
        Some(file) => Some(api.explain(&arguments.topic, &one_event(read_document(file)?)).await?),
        None => None,
    };
    let log = AttemptLog::connect(&target).await?;
    let since_ms = wall_clock::now_ms() - i64::from(arguments.since.minutes) * 60_000;
    let lines = log.read(since_ms, Some(&arguments.id)).await?;
    let deliveries = deliveries(&api, &arguments, lines).await?;
    let subscriptions = api.subscriptions(&arguments.topic).await?;
    let names: Vec<_> = subscriptions.iter().map(|one| text_at(one, "/name").to_owned()).collect();
    let document = document(&arguments, verdicts.as_ref(), &deliveries);
    output.print(&document, |_| text(&arguments, verdicts.as_ref(), &deliveries, &names));
    Ok(())
}

/// The event of a file, which may be a publish with it alone.
fn one_event(document: Value) -> Value {
    match document {
        Value::Array(events) if events.len() == 1 => events.into_iter().next().unwrap_or_default(),
        other => other,
    }
}

/// The deliveries that lines name, with their states where they have failed.
async fn deliveries(
    api: &ManageApi,
    arguments: &ExplainArguments,
    lines: Vec<AttemptLine>,
) -> anyhow::Result<Vec<Found>> {
    let mut found = Vec::new();
    for ((name, id), lines) in by_delivery(arguments, lines) {
        let state = match api.delivery(&arguments.topic, &name, &id).await {
            Ok(state) => Some(state),
            Err(error) if error.downcast_ref::<Refusal>().is_some_and(|it| it.status == 404) => {
                None
            }
            Err(error) => return Err(error),
        };
        found.push(Found { id, name, state, lines });
    }
    Ok(found)
}

/// Lines about the event by event subscription and delivery.
fn by_delivery(
    arguments: &ExplainArguments,
    lines: Vec<AttemptLine>,
) -> BTreeMap<(String, String), Vec<AttemptLine>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in lines {
        let key = match (line.subscription(), line.text("delivery.id")) {
            (Some((topic, name)), Some(id))
                if topic == arguments.topic && line.has_event(&arguments.id) =>
            {
                (name.to_owned(), id.to_owned())
            }
            _ => continue,
        };
        found.entry(key).or_default().push(line);
    }
    found
}

fn document(arguments: &ExplainArguments, verdicts: Option<&Value>, deliveries: &[Found]) -> Value {
    let delivery = |found: &Found| {
        let lines: Vec<_> = found.lines.iter().map(|line| &line.line).collect();
        json!({
            "id": found.id, "eventSubscription": found.name, "state": found.state, "log": lines,
        })
    };
    json!({
        "event": arguments.id,
        "topic": arguments.topic,
        "verdicts": verdicts.map(|verdicts| &verdicts["value"]),
        "deliveries": deliveries.iter().map(delivery).collect::<Value>(),
    })
}

fn text(
    arguments: &ExplainArguments,
    verdicts: Option<&Value>,
    deliveries: &[Found],
    names: &[String],
) -> String {
    let mut text = format!("event {} of topic {}\n\n", arguments.id, arguments.topic);
    match verdicts {
        Some(verdicts) => text.push_str(&verdict_table(verdicts)),
        None => text.push_str(&without_verdicts(arguments, deliveries, names)),
    }
    for found in deliveries {
        text.push_str(&format!("\n\n{}: ", found.name));
        match &found.state {
            Some(state) => text.push_str(&delivery::describe(state)),
            None => {
                text.push_str(&format!("delivery {}", found.id));
                for line in &found.lines {
                    let at = line.text("timestamp").unwrap_or("-");
                    text.push_str(&format!("\n  {at}  {}", line.told()));
                }
            }
        }
    }
    if deliveries.is_empty() {
        text.push_str(&format!(
            "\n\nNo attempt for it is in the logs of the last {}. {NO_LINES}",
            minutes(arguments.since.minutes)
        ));
    }
    text
}

const NO_LINES: &str = "\
Attempts that succeed at once are logged where the\ndeployment's Terraform variable log_successful_attempts says \
so; an event of a schema of your own has no id there.";

fn minutes(minutes: u32) -> String {
    match minutes {
        hours if hours % 60 == 0 => format!("{} hours", hours / 60),
        minutes => format!("{minutes} minutes"),
    }
}

/// What an event subscription makes of the event.
fn verdict_table(verdicts: &Value) -> String {
    let mut rows = vec![["EVENT SUBSCRIPTION", "MATCHES", "WHY NOT"].map(str::to_owned)];
    for verdict in verdicts["value"].as_array().into_iter().flatten() {
        let matches = if verdict["matches"] == json!(true) { "yes" } else { "no" };
        let mut why: Vec<_> = match text_at(verdict, "/state") {
            "Active" => Vec::new(),
            state => vec![format!("it is {state}")],
        };
        let part = |part: &Value| {
            let found = match part["isThere"] == json!(false) {
                true => "nothing".to_owned(),
                false => part["found"].to_string(),
            };
            format!("{}: {} (found {found})", text_at(part, "/path"), text_at(part, "/message"))
        };
        why.extend(verdict["refusedBy"].as_array().into_iter().flatten().map(part));
        let mut why = why.into_iter();
        let name = text_at(verdict, "/eventSubscription").to_owned();
        rows.push([name, matches.to_owned(), why.next().unwrap_or_default()]);
        rows.extend(why.map(|why| [String::new(), String::new(), why]));
    }
    output::columns(&rows)
}

/// What is known without the event itself.
fn without_verdicts(
    arguments: &ExplainArguments,
    deliveries: &[Found],
    names: &[String],
) -> String {
    let matched: BTreeSet<_> = deliveries.iter().map(|found| found.name.as_str()).collect();
    let others: Vec<_> =
        names.iter().map(String::as_str).filter(|name| !matched.contains(name)).collect();
    let list = |names: Vec<&str>| match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    };
    format!(
        "matched, by what was logged:  {}\nnothing was logged of:        {}\n(give the event by --event \
         FILE to see which event subscriptions of {} do not want it, and why)",
        list(matched.into_iter().collect()),
        list(others),
        arguments.topic
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments() -> ExplainArguments {
        ExplainArguments {
            id: "e-1".to_owned(),
            topic: "orders".to_owned(),
            event: None,
            since: TimeToLive { minutes: 1_440 },
        }
    }

    fn line(whose: &str, delivery: &str, ids: &str) -> AttemptLine {
        let line = json!({"message": "attempt failed", "timestamp": "T", "subscription": whose,
            "delivery.id": delivery, "event_ids": ids, "outcome": "Busy", "status": 503});
        AttemptLine { id: "1".to_owned(), at_ms: 1, line }
    }

    #[test]
    fn lines_of_other_events_and_topics_are_left_out() {
        let lines = vec![
            line("orders/billing", "d-1", "[\"e-1\",\"e-2\"]"),
            line("orders/billing", "d-1", "[\"e-1\",\"e-2\"]"),
            line("orders/billing", "d-2", "[\"e-10\"]"),
            line("clouds/billing", "d-3", "[\"e-1\"]"),
        ];
        let found = by_delivery(&arguments(), lines);
        let found: Vec<_> =
            found.iter().map(|(key, lines)| (key.1.as_str(), lines.len())).collect();
        assert_eq!(found, [("d-1", 2)]);
    }

    #[test]
    fn what_is_known_is_told() {
        let names = ["audit", "billing"].map(str::to_owned);
        let found = Found {
            id: "d-1".to_owned(),
            name: "billing".to_owned(),
            state: None,
            lines: vec![line("orders/billing", "d-1", "[\"e-1\"]")],
        };
        let told = text(&arguments(), None, std::slice::from_ref(&found), &names);
        for part in ["logged:  billing", "of:        audit", "delivery d-1\n  T  Busy (503)"] {
            assert!(told.contains(part), "{part} is not in\n{told}");
        }
        let verdicts = json!({"value": [
            {"eventSubscription": "audit", "matches": false, "state": "Expired", "refusedBy": [
                {"path": "filter.subjectBeginsWith", "message": "no", "found": "s"},
                {"path": "filter.advancedFilters[0]", "message": "M", "isThere": false}]},
            {"eventSubscription": "billing", "matches": true, "state": "Active", "refusedBy": []},
        ]});
        let told = text(&arguments(), Some(&verdicts), &[], &names);
        for part in [
            "audit               no       it is Expired",
            "filter.subjectBeginsWith: no (found \"s\")",
            "filter.advancedFilters[0]: M (found nothing)",
            "billing             yes",
            "the last 24 hours",
        ] {
            assert!(told.contains(part), "{part} is not in\n{told}");
        }
        assert_eq!(one_event(json!([{"id": 1}])), json!({"id": 1}));
    }
}

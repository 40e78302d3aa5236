//! A test event, published to a topic; before that, who would get it.

use axum::Form;
use axum::extract::{Path, State};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::App;
use super::failure::{self, Answer};
use super::page::{self, Frame, Tab, subscription_url, topic_url};
use crate::commands::publish;
use crate::commands::subscription::send_test;
use crate::failure::Misuse;
use crate::output::{pretty, text_at};
use crate::wall_clock;

/// The page of a topic.
pub(super) fn url(topic: &str) -> String {
    format!("{}/publish", topic_url(topic))
}

/// An event to begin with, in the topic's schema.
pub(super) fn sample(topic: &Value) -> String {
    let schema = text_at(topic, "/properties/inputSchema");
    let made = send_test::made(schema, wall_clock::random_id());
    pretty(&made.unwrap_or_else(|_| json!({"test": true})))
}

/// The form.
pub(super) async fn show(State(app): State<App>, Path(topic): Path<String>) -> Answer {
    let document = app.api.topic(&topic).await?;
    let event = sample(&document);
    Ok(render(&app, &topic, &document, &event, &html! {}))
}

/// The event, and what to do with it.
#[derive(Deserialize)]
pub(super) struct Event {
    event: String,
    #[serde(default)]
    action: String,
}

/// Publishes the event, or says who would get it.
pub(super) async fn send(
    State(app): State<App>,
    Path(topic): Path<String>,
    Form(Event { event, action }): Form<Event>,
) -> Answer {
    let document = app.api.topic(&topic).await?;
    let done = match action.as_str() {
        "check" => check(&app, &topic, &event).await,
        _ => publish(&app, &topic, &document, &event).await,
    };
    let result = done.unwrap_or_else(|error| {
        html! {
            div.problem role="alert" { p { strong { "Refused." } } (failure::told(&error)) }
        }
    });
    Ok(render(&app, &topic, &document, &event, &result))
}

async fn check(app: &App, topic: &str, event: &str) -> anyhow::Result<Markup> {
    let verdicts = app.api.explain(topic, &json_text(event)?).await?;
    Ok(html! {
        div role="status" {
            h2 { "Who would get it" }
            (table_of_verdicts(topic, &verdicts["value"]))
        }
    })
}

/// An event subscription each: whether it wants the event, and which part of it says no.
pub(super) fn table_of_verdicts(topic: &str, verdicts: &Value) -> Markup {
    let row = |verdict: &Value| {
        let name = text_at(verdict, "/eventSubscription");
        let wants = verdict["matches"] == true;
        let refused = verdict["refusedBy"].as_array().cloned().unwrap_or_default();
        vec![
            html! { a href=(subscription_url(topic, name, "")) { (name) } },
            html! { @if wants { span.good { "yes" } } @else { span.bad { "no" } } },
            html! {
                @if let state @ ("AwaitingManualAction" | "Failed" | "Expired") = text_at(verdict, "/state") {
                    "it is " (state)
                }
                (parts(&refused))
            },
        ]
    };
    let rows: Vec<_> = verdicts.as_array().into_iter().flatten().map(row).collect();
    match rows.is_empty() {
        true => {
            page::empty("The topic has no event subscription: the event would reach no one.", "")
        }
        false => page::table(
            "Who wants it",
            &["Event subscription", "Wants it", "Which part says no"],
            &rows,
        ),
    }
}

/// Parts of a filter that refuse an event.
pub(super) fn parts(refused: &[Value]) -> Markup {
    html! {
        @for part in refused {
            div { code { (text_at(part, "/path")) } ": " (page::visible(text_at(part, "/message"))) }
        }
    }
}

async fn publish(app: &App, topic: &str, document: &Value, event: &str) -> anyhow::Result<Markup> {
    let target = &app.settings.target;
    let schema = publish::InputSchema::of_topic(document)?;
    let is_array = matches!(serde_json::from_str(event), Ok(Value::Array(_)));
    // Event Grid's schema, and one's own, take a list alone.
    let body = match schema {
        publish::InputSchema::CloudEvents => event.to_owned(),
        _ if is_array => event.to_owned(),
        _ => format!("[{}]", json_text(event)?.get()),
    };
    let url = publish::events_url(topic, document, target)?;
    let keys = app.api.keys(topic).await?;
    let content_type = schema.content_type(body.as_bytes());
    publish::post(target, &url, text_at(&keys, "/key1"), content_type, body.into_bytes()).await?;
    let id = serde_json::from_str::<Value>(event).ok();
    let id = id.as_ref().and_then(|event| event["id"].as_str()).unwrap_or_default();
    let found = page::with_query("/events", &[("topic", topic), ("id", id)]);
    Ok(html! {
        div.done role="status" {
            p { "Accepted: Gridpost has stored it. " @if !id.is_empty() { a href=(found) { "What becomes of it" } } }
        }
    })
}

/// A text that is JSON, as it is.
pub(super) fn json_text(text: &str) -> anyhow::Result<Box<RawValue>> {
    serde_json::from_str(text)
        .map_err(|error| Misuse(format!("That is no JSON: {error} of the text")).into())
}

fn render(app: &App, topic: &str, document: &Value, event: &str, result: &Markup) -> Markup {
    let schema = text_at(document, "/properties/inputSchema");
    let body = html! {
        p { "The topic takes " strong { (schema) } ". Every event subscription whose filter wants the event gets it." }
        (result)
        form method="post" action=(url(topic)) {
            (app.token())
            label for="event" { "Event" }
            textarea id="event" name="event" rows="16" spellcheck="false" { "\n" (page::visible_json(event)) }
            @if app.may_change() {
                button name="action" value="publish" { "Publish it" } " "
                button.second name="action" value="check" { "Who would get it?" }
            } @else {
                p.muted { "This console is read-only: it publishes nothing." }
            }
        }
    };
    let above =
        vec![("/topics".to_owned(), "Topics".to_owned()), (topic_url(topic), topic.to_owned())];
    let command = format!("publish --topic {topic} --file event.json");
    let frame = Frame { tab: Tab::Topics, title: "Publish a test event", above, command };
    app.page(&frame, &body)
}

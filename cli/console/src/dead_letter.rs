//! One dead letter, with its event.

use axum::extract::{Path, State};
use maud::html;
use serde_json::Value;

use super::App;
use super::failure::Answer;
use super::page::{self, Frame, Tab, subscription_url, with_query};
use gridpost_ops::output::{self, indented, text_at};

/// The page.
pub(super) async fn show(
    State(app): State<App>,
    Path((topic, name, id)): Path<(String, String, String)>,
) -> Answer {
    let mut letter = app.api.dead_letter(&topic, &name, &id).await?;
    let event = letter.as_object_mut().and_then(|members| members.remove("event"));
    let event = event.as_ref().and_then(Value::as_str).unwrap_or_default();
    let told = indented(event).unwrap_or_else(|| event.to_owned());
    let row = |(name, value): (&String, &Value)| {
        [name.clone(), value.as_str().map_or_else(|| value.to_string(), page::visible)]
    };
    let rows: Vec<_> = letter.as_object().into_iter().flatten().map(row).collect();
    let event_id = text_at(&letter, "/eventId");
    let found = super::event::url(&topic, event_id);
    let redrive = with_query(&subscription_url(&topic, &name, "/redrive"), &[("event", event_id)]);
    let body = html! {
        (page::facts(&rows))
        ul.links {
            @if event_id != "-" {
                li { a href=(found) { "What became of it" } }
                @if app.may_change() { li { a href=(redrive) { "Send it again" } } }
            }
        }
        h2 { "The event as it was delivered" }
        @if letter["isEventCut"] == true { p.warn { "It is longer: this is its beginning." } }
        (page::block("The event", &told))
    };
    let command =
        format!("dead-letter show {} --topic {topic} --subscription {name}", output::word(&id));
    let mut above = page::above(&topic, &name);
    above.push((subscription_url(&topic, &name, "/dead-letters"), "Dead letters".to_owned()));
    let frame = Frame { tab: Tab::DeadLetters, title: "Dead letter", above, command };
    Ok(app.page(&frame, &body))
}

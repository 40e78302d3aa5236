//! Sample events tried on an event subscription: on its filter, or another one, and on its endpoint.

use std::collections::BTreeMap;

use axum::Form;
use axum::extract::{Path, State};
use gridpost_api::trial::{TestEventSent, TestResult, TestedEvent};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::App;
use super::below::Below;
use super::failure::{self, Answer};
use super::kit;
use super::page::Names;
use super::publish::{json_text, parts, sample, wanted};
use super::text;
use super::urls::subscription_url;
use gridpost_ops::{failure::Misuse, output::pretty, subscription::send_test};

pub(super) async fn show(State(app): State<App>, Path((topic, name)): Names) -> Answer {
    let (of, document) =
        tokio::try_join!(app.api.topic(&topic), app.api.subscription(&topic, &name))?;
    let form = Tried { filter: pretty(&document.properties.settings.filter), events: sample(&of) };
    Ok(render(&app, &topic, &name, &form, &html! {}))
}

#[derive(Deserialize)]
pub(super) struct Tried {
    filter: String,
    events: String,
}

pub(super) async fn test(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(form): Form<Tried>,
) -> Answer {
    let result = failure::or_problem("", &verdicts(&app, &topic, &form).await, table);
    Ok(render(&app, &topic, &name, &form, &result))
}

async fn verdicts(app: &App, topic: &str, form: &Tried) -> anyhow::Result<TestResult> {
    let filter: Box<RawValue> = serde_json::from_str(&form.filter)
        .map_err(|error| Misuse(format!("The filter is not JSON: {error} of the text")))?;
    let document = BTreeMap::from([("properties", BTreeMap::from([("filter", filter)]))]);
    app.api.test_subscription(topic, &document, &json_text(&form.events)?).await
}

fn table(answer: &TestResult) -> Markup {
    let row = |one: &TestedEvent| {
        vec![
            html! { (one.index) },
            html! { (text::visible(&one.id)) },
            wanted(one.verdict.matches),
            parts(&one.verdict.refused_by),
        ]
    };
    let head = [("Event", "n"), ("Id", ""), ("Wanted", ""), ("Which part says no", "gr")];
    html! { div role="status" { (kit::table("What the filter says", &head, answer.value.iter().map(row))) } }
}

fn render(app: &App, topic: &str, name: &str, form: &Tried, result: &Markup) -> Markup {
    let url = subscription_url(topic, name, "/filter");
    let body = html! {
        (result)
        form method="post" action=(url) {
            (app.token())
            label for="events" { "Sample event, or a list of them" }
            textarea id="events" name="events" rows="12" spellcheck="false" { "\n" (text::visible_json(&form.events)) }
            label for="filter" { "Filter: the one that is saved, or another one to try. Nothing is saved here." }
            textarea id="filter" name="filter" rows="12" spellcheck="false" { "\n" (text::visible_json(&form.filter)) }
            button.pri { "Test filter" }
        }
        p { a href=(subscription_url(topic, name, "/edit")) { "Edit the saved filter" } }
    };
    let command = ("subscription test", " --events events.json");
    app.below(&Below { of: (topic, name), tab: "/filter", title: "Filter", command }, &body)
}

pub(super) async fn test_event(State(app): State<App>, Path((topic, name)): Names) -> Answer {
    let (of, _) = tokio::try_join!(app.api.topic(&topic), app.api.subscription(&topic, &name))?;
    Ok(render_test(&app, &topic, &name, &sample(&of), &html! {}))
}

#[derive(Deserialize)]
pub(super) struct Sent {
    event: String,
}

/// Sends the event to this endpoint alone, and shows what it answered.
pub(super) async fn send_test_event(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(form): Form<Sent>,
) -> Answer {
    let sent = async {
        let event = json_text(&form.event)?;
        app.api.send_test_event(&topic, &name, &event).await
    };
    let result = failure::or_problem("", &sent.await, answered);
    Ok(render_test(&app, &topic, &name, &form.event, &result))
}

fn answered(sent: &TestEventSent) -> Markup {
    let is_good = sent.outcome == "Delivered";
    let class = if is_good { "done" } else { "problem" };
    let told = send_test::explained(sent);
    html! {
        div class=(class) role="status" { @for line in told.lines() { p { (text::visible(line)) } } }
    }
}

fn render_test(app: &App, topic: &str, name: &str, event: &str, result: &Markup) -> Markup {
    let url = subscription_url(topic, name, "/test-event");
    let body = html! {
        p { "The event goes to this endpoint alone, once, with the headers and signature of a delivery. Its "
            "filter is not asked, and nothing is retried." }
        (result)
        form method="post" action=(url) {
            (app.token())
            label for="event" { "Event" }
            textarea id="event" name="event" rows="14" spellcheck="false" { "\n" (text::visible_json(event)) }
            (app.button("Send test event", "sends nothing"))
        }
    };
    let command = ("subscription send-test", " --event event.json");
    app.below(&Below { of: (topic, name), tab: "/test-event", title: "Test event", command }, &body)
}

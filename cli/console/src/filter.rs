//! Sample events tried on an event subscription: on its filter, or another one, and on its endpoint.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::{Extension, Form};
use gridpost_api::trial::{TestEventSent, TestResult, TestedEvent};
use maud::{Markup, html};
use serde_json::value::RawValue;

use super::App;
use super::below::Below;
use super::failure::{self, Answer};
use super::form::placed::Placed;
use super::form::view::{Field, View};
use super::form::{Fields, Posted};
use super::kit;
use super::page::Names;
use super::publish::{json_text, parts, sample, wanted};
use super::text;
use super::urls::subscription_url;
use gridpost_ops::{failure::Misuse, output::pretty, subscription::send_test};

const EVENTS: &str = "events";
const FILTER: &str = "filter";

/// The thing that a sample event is tried on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    Filter,
    Endpoint,
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(trial): Extension<Trial>,
    Path((topic, name)): Names,
) -> Answer {
    let (of, document) =
        tokio::try_join!(app.api.topic(&topic), app.api.subscription(&topic, &name))?;
    let mut fields = Fields::default();
    fields.set(EVENTS, sample(&of));
    fields.set(FILTER, pretty(&document.properties.settings.filter));
    Ok(render(&app, trial, (&topic, &name), &fields, &html! {}))
}

/// Asks the filter, or sends the event to this endpoint alone.
pub(super) async fn run(
    State(app): State<App>,
    Extension(trial): Extension<Trial>,
    Path((topic, name)): Names,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Answer {
    let Posted { fields, .. } = Posted::of(pairs);
    let result = match trial {
        Trial::Filter => failure::or_problem("", &verdicts(&app, &topic, &fields).await, table),
        Trial::Endpoint => {
            let sent = async {
                let event = json_text(fields.get(EVENTS))?;
                app.api.send_test_event(&topic, &name, &event).await
            };
            failure::or_problem("", &sent.await, answered)
        }
    };
    Ok(render(&app, trial, (&topic, &name), &fields, &result))
}

async fn verdicts(app: &App, topic: &str, fields: &Fields) -> anyhow::Result<TestResult> {
    let filter: Box<RawValue> = serde_json::from_str(fields.get(FILTER))
        .map_err(|error| Misuse(format!("The filter is not JSON: {error} of the text")))?;
    let document = BTreeMap::from([("properties", BTreeMap::from([("filter", filter)]))]);
    app.api.test_subscription(topic, &document, &json_text(fields.get(EVENTS))?).await
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

fn answered(sent: &TestEventSent) -> Markup {
    let is_good = sent.outcome == "Delivered";
    let class = if is_good { "done" } else { "problem" };
    let told = send_test::explained(sent);
    html! {
        div class=(class) role="status" { @for line in told.lines() { p { (text::visible(line)) } } }
    }
}

fn render(
    app: &App,
    trial: Trial,
    (topic, name): (&str, &str),
    fields: &Fields,
    result: &Markup,
) -> Markup {
    let is_filter = trial == Trial::Filter;
    let (tab, title, command, label) = match trial {
        Trial::Filter => {
            let command = ("subscription test", " --events events.json");
            ("/filter", "Filter", command, "Sample event, or a list of them")
        }
        Trial::Endpoint => {
            let command = ("subscription send-test", " --event event.json");
            ("/test-event", "Test event", command, "Event")
        }
    };
    let (problems, may_change) = (&Placed::default(), app.may_change());
    let view = View { fields, problems, focus: None, may_change, is_live: false };
    let body = html! {
        @if !is_filter {
            p { "The event goes to this endpoint alone, once, with the headers and signature of a delivery. Its "
                "filter is not asked, and nothing is retried." }
        }
        (result)
        form method="post" action=(subscription_url(topic, name, tab)) {
            (app.token())
            (view.field(Field::json(EVENTS, label)))
            @if is_filter {
                (view.field(Field::json(FILTER, "Filter: the one that is saved, or another one to try. Nothing is saved here.")))
                button.pri { "Test filter" }
            } @else { (app.button("Send test event", "sends nothing")) }
        }
        @if is_filter { p { a href=(subscription_url(topic, name, "/edit")) { "Edit the saved filter" } } }
    };
    app.below(&Below { of: (topic, name), tab, title, command }, &body)
}

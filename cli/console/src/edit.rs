//! An event subscription edited by a form. Only what was changed is sent, and only if no one else has
//! changed it meanwhile.

use axum::Form;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gridpost_api::{settings::Document, subscription::EventSubscriptionInput};
use maud::{Markup, html};
use serde_json::Value;

use super::App;
use super::below::Below;
use super::edit_json::editable;
use super::failure::{self, Answer};
use super::form::placed::Placed;
use super::form::view::View;
use super::form::{Fields, Posted};
use super::made::{self, Made, is_conflict};
use super::page::{Names, done};
use super::subscription_form::view::{About, sections};
use super::subscription_form::{arranged, document, fields_of, placed, without_secrets};
use super::urls::subscription_url;

struct Shown<'a> {
    fields: &'a Fields,
    made: &'a Made,
    was: &'a EventSubscriptionInput,
    problems: &'a Placed,
    focus: Option<&'a str>,
}

pub(super) async fn show(State(app): State<App>, Path((topic, name)): Names) -> Answer {
    let reply = app.api.subscription(&topic, &name).await?;
    let was = editable(&reply.document);
    let shown = Shown {
        fields: &fields_of(&was),
        made: &Made::of(reply.etag.as_deref(), &was),
        was: &was,
        problems: &Placed::default(),
        focus: None,
    };
    Ok(render(&app, &topic, &name, &shown, &html! {}))
}

/// Saves what was changed, or shows each problem at its field; or adds and removes rows.
pub(super) async fn save(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Answer<Response> {
    let mut posted = Posted::of(pairs);
    let was = posted.made.was()?;
    let focus = arranged(&mut posted);
    let Posted { fields, made, .. } = &posted;
    let shown = |problems, focus| Shown { fields, made, was: &was, problems, focus };
    if let Some(focus) = &focus {
        let none = Placed::default();
        let page = render(&app, &topic, &name, &shown(&none, Some(focus)), &html! {});
        return Ok(page.into_response());
    }
    let (mine, problems) = document(fields, &was, false);
    if !problems.is_empty() {
        let page = render(&app, &topic, &name, &shown(&problems, None), &html! {});
        return Ok((StatusCode::BAD_REQUEST, page).into_response());
    }
    let mine = mine.into_document();
    let error = match made::save(&app, (&topic, &name), made, &mine).await {
        Ok(code) => return Ok(done(&subscription_url(&topic, &name, ""), code)),
        Err(error) => error,
    };
    let status = failure::status(&error);
    if is_conflict(&error) {
        let none = Placed::default();
        let (mine, had_secrets) = without_secrets(&mine);
        let page = match conflict(&app, &topic, &name, &was, &mine, had_secrets).await {
            Ok(page) => page,
            Err(error) => render(&app, &topic, &name, &shown(&none, None), &made::unread(&error)),
        };
        return Ok((status, page).into_response());
    }
    let problems = placed(&error, fields);
    let notice = notice(&error, &problems);
    Ok((status, render(&app, &topic, &name, &shown(&problems, None), &notice)).into_response())
}

/// Shows the saved state with the changes made here, and the changes of another operator.
async fn conflict(
    app: &App,
    topic: &str,
    name: &str,
    was: &EventSubscriptionInput,
    mine: &Value,
    had_secrets: bool,
) -> anyhow::Result<Markup> {
    let reply = app.api.subscription(topic, name).await?;
    let now = editable(&reply.document);
    let merged = made::merged(was, &now, mine);
    let fields = fields_of(&merged);
    // A destination of another type has other fields: what was typed into those that are gone is told.
    let in_form = document(&fields, &now, false).0.into_document();
    let shown = Shown {
        fields: &fields,
        made: &Made::of(reply.etag.as_deref(), &now),
        was: &now,
        problems: &Placed::default(),
        focus: None,
    };
    let both = html! {
        div.problem role="alert" {
            (made::told(was, &now, &in_form))
            (made::lost(was, mine, &in_form))
            @if had_secrets { p { "A secret that you have typed is not shown again: type it once more." } }
        }
    };
    Ok(render(app, topic, name, &shown, &both))
}

/// Shows a refusal that is about no field.
pub(super) fn notice(error: &anyhow::Error, problems: &Placed) -> Markup {
    match problems.is_empty() {
        false => html! {},
        true => failure::problem("Nothing was saved.", error),
    }
}

fn render(app: &App, topic: &str, name: &str, shown: &Shown<'_>, notice: &Markup) -> Markup {
    let Shown { fields, made, was, problems, focus } = *shown;
    let view = View { fields, problems, focus, may_change: app.may_change(), is_live: false };
    let was = Document::of(was);
    let is_of_namespace = was.has("retryPolicy.maxDeliveryCount");
    let profile = if is_of_namespace { "namespace" } else { "basic" };
    let base_url = was.text("destination.endpointBaseUrl");
    let base_url = Some(base_url.as_str()).filter(|url| !url.is_empty());
    let all = sections(view, About { profile, is_new: false, base_url });
    let schema = was.text("eventDeliverySchema");
    let body = html! {
        (notice)
        @if !problems.is_empty() { (view.summary("Nothing was saved.")) }
        p {
            "Only what you change is sent. " a href=(subscription_url(topic, name, "/edit/json")) { "Edit it as JSON" }
        }
        form.document method="post" action=(subscription_url(topic, name, "/edit")) novalidate {
            (app.token())
            (made.fields())
            // The Enter key presses a form's first button.
            @if app.may_change() { button.pri { "Save" } }
            (all)
            @if !schema.is_empty() { p.m { "Events are delivered as " (schema) ", which can't be changed." } }
            (app.button("Save", "saves nothing"))
        }
    };
    let command = ("subscription update", " --file patch.json");
    app.below(&Below { of: (topic, name), tab: "/edit", title: "Settings", command }, &body)
}

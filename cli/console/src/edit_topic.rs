//! A topic's settings, changed by a form. Only what was changed is sent, and only if no one else has
//! changed it meanwhile.

use axum::Form;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use gridpost_api::topic::{Topic, TopicPatch, TopicSettings};
use gridpost_core::topic::InputSchema;
use maud::{Markup, html};
use serde_json::Value;

use super::App;
use super::create_topic::{changeable, document, fields_of, mapping};
use super::edit::notice;
use super::failure::{self, Answer};
use super::form::placed::Placed;
use super::form::view::View;
use super::form::{Fields, Posted};
use super::made::{self, Made, is_conflict};
use super::page::{Frame, Tab, topic_url};
use super::patch::{difference, is_empty};
use gridpost_ops::failure::Refusal;

/// The field that says whether the topic takes events of one's own. No member of a document is called so.
const OWN: &str = "made.own";

const CHANGEABLE: [&str; 4] =
    ["deliveryProfile", "disableLocalAuth", "idempotency", "inputSchemaMapping"];

pub(super) fn url(topic: &str) -> String {
    format!("{}/edit", topic_url(topic))
}

/// Returns the part of a document that is edited: the settings that can be changed.
fn editable(topic: &Topic) -> Value {
    let settings = TopicSettings { input_schema: None, ..topic.properties.settings.clone() };
    let patch = TopicPatch { kind: None, properties: Some(settings) };
    serde_json::to_value(patch).unwrap_or_default()
}

/// The document that the fields mean: the one that was, where they are as they were.
fn mine(fields: &Fields, was: &Value) -> Value {
    let (typed, before) = (document(fields), fields_of(was));
    let mut mine = was.clone();
    for member in CHANGEABLE {
        if fields.is_same(&before, member) {
            continue;
        }
        match typed["properties"].get(member) {
            Some(value) => mine["properties"][member] = value.clone(),
            None => {
                mine["properties"].as_object_mut().map(|members| members.remove(member));
            }
        }
    }
    mine
}

struct Shown<'a> {
    fields: &'a Fields,
    made: &'a Made,
    problems: &'a Placed,
}

pub(super) async fn show(State(app): State<App>, Path(topic): Path<String>) -> Answer {
    let reply = app.api.topic(&topic).await?;
    let was = editable(&reply.document);
    let made = Made::of(reply.etag.as_deref(), &was);
    let mut fields = fields_of(&was);
    let schema = reply.properties.settings.input_schema;
    fields.tick(OWN, schema == Some(InputSchema::CustomEventSchema));
    let shown = Shown { fields: &fields, made: &made, problems: &Placed::default() };
    Ok(render(&app, &topic, &shown, &html! {}))
}

pub(super) async fn save(
    State(app): State<App>,
    Path(topic): Path<String>,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Answer<Response> {
    let Posted { fields, made, .. } = Posted::of(pairs);
    let was = made.was()?;
    let mine = mine(&fields, &was);
    let error = match send(&app, &topic, &made, &difference(&was, &mine)).await {
        Ok(code) => {
            let url = format!("{}?done={code}", topic_url(&topic));
            return Ok(Redirect::to(&url).into_response());
        }
        Err(error) => error,
    };
    let status = failure::status(&error);
    if is_conflict(&error) {
        let page = conflict(&app, &topic, (&fields, &made), (&was, &mine)).await;
        return Ok((status, page).into_response());
    }
    let problems = error.downcast_ref::<Refusal>().map(Placed::of).unwrap_or_default();
    let notice = notice(&error, &problems);
    let shown = Shown { fields: &fields, made: &made, problems: &problems };
    Ok((status, render(&app, &topic, &shown, &notice)).into_response())
}

/// Shows the saved state with the changes made here, and the changes of another operator. Where
/// that can't be read, shows what was typed with the state that it was made from, so that it can't
/// be saved unseen.
async fn conflict(
    app: &App,
    topic: &str,
    (typed, made): (&Fields, &Made),
    (was, mine): (&Value, &Value),
) -> Markup {
    let problems = Placed::default();
    let reply = match app.api.topic(topic).await {
        Ok(reply) => reply,
        Err(error) => {
            let shown = Shown { fields: typed, made, problems: &problems };
            return render(app, topic, &shown, &made::unread(&error));
        }
    };
    let now = editable(&reply.document);
    let both = html! { div.problem role="alert" { (made::told(was, &now, mine)) } };
    let mut fields = fields_of(&made::merged(was, &now, mine));
    fields.tick(OWN, typed.is_on(OWN));
    let made = Made::of(reply.etag.as_deref(), &now);
    render(app, topic, &Shown { fields: &fields, made: &made, problems: &problems }, &both)
}

async fn send(app: &App, topic: &str, made: &Made, patch: &Value) -> anyhow::Result<&'static str> {
    if is_empty(patch) {
        return Ok("unchanged");
    }
    app.api.clone().only_if(made.condition()?).patch_topic(topic, patch).await?;
    Ok("saved")
}

fn render(app: &App, topic: &str, shown: &Shown<'_>, notice: &Markup) -> Markup {
    let Shown { fields, made, problems } = *shown;
    let is_own = fields.is_on(OWN);
    let view = View { fields, problems, focus: None, may_change: app.may_change(), is_live: false };
    let all = html! { (changeable(view)) @if is_own { (mapping(view)) } };
    let body = html! {
        (notice)
        @if !problems.is_empty() { (view.summary("Nothing was saved.")) }
        p { "Only what you change is sent. A topic's kind and its input schema can't be changed." }
        form.document method="post" action=(url(topic)) novalidate {
            (app.token())
            (made.fields())
            @if is_own { input type="hidden" name=(OWN) value="yes"; }
            (all)
            @if app.may_change() { button { "Save" } }
            @else { p.muted { "This console is read-only: it saves nothing." } }
        }
    };
    let above =
        vec![("/topics".to_owned(), "Topics".to_owned()), (topic_url(topic), topic.to_owned())];
    let command = format!("topic update {topic} --file patch.json");
    let title = format!("Settings of {topic}");
    app.page(&Frame { tab: Tab::Topics, title: &title, above, command }, &body)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_touched_is_not_sent() {
        let was = json!({"properties": {"deliveryProfile": "basic", "disableLocalAuth": false,
            "inputSchemaMapping": {"inputSchemaMappingType": "Json", "properties":
                {"id": {"sourceField": "a"}}}}});
        let mut fields = fields_of(&was);
        assert_eq!(difference(&was, &mine(&fields, &was)), json!({}));
        fields.tick("disableLocalAuth", true);
        fields.set("inputSchemaMapping.subject.defaultValue", "s");
        let want = json!({"properties": {"disableLocalAuth": true, "inputSchemaMapping":
            {"properties": {"subject": {"defaultValue": "s"}}}}});
        assert_eq!(difference(&was, &mine(&fields, &was)), want);
    }

    #[test]
    fn an_emptied_window_turns_idempotency_off() {
        let was = json!({"properties": {"idempotency": {"windowInSeconds": 300}}});
        let mut fields = fields_of(&was);
        assert_eq!(difference(&was, &mine(&fields, &was)), json!({}));
        fields.set("idempotency.windowInSeconds", "60");
        let want = json!({"properties": {"idempotency": {"windowInSeconds": 60}}});
        assert_eq!(difference(&was, &mine(&fields, &was)), want);
        let emptied = Fields::default();
        let off = json!({"properties": {"idempotency": null}});
        assert_eq!(difference(&was, &mine(&emptied, &was)), off);
    }
}

//! A topic's settings, changed by a form. Only what was changed is sent, and only if no one else has
//! changed it meanwhile.

use axum::Form;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gridpost_api::{
    document::difference,
    topic::{Topic, TopicInput, TopicPatch, TopicSettings},
};
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
use super::made::{self, Made, is_conflict, is_empty, value};
use super::page::{Frame, Tab, done};
use super::urls::{above, topic_url};

/// The field that says whether the topic takes events of one's own. No member of a document is called so.
const OWN: &str = "made.own";

/// Returns the part of a document that is edited: the settings that can be changed.
fn editable(topic: &Topic) -> TopicPatch {
    let settings = TopicSettings { input_schema: None, ..topic.properties.settings.clone() };
    TopicPatch { kind: None, properties: Some(settings) }
}

/// Returns the settings that the fields mean, and what they say that no topic can have.
fn mine(fields: &Fields) -> (TopicPatch, Placed) {
    let (TopicInput { properties, .. }, problems) = document(fields);
    let disable_local_auth = Some(fields.is_on("disableLocalAuth"));
    let properties = properties.map(|settings| TopicSettings { disable_local_auth, ..settings });
    (TopicPatch { kind: None, properties }, problems)
}

/// The fields of the form, what it was made from, and what is wrong with it.
type Shown<'a> = (&'a Fields, &'a Made, &'a Placed);

pub(super) async fn show(State(app): State<App>, Path(topic): Path<String>) -> Answer {
    let reply = app.api.topic(&topic).await?;
    let was = editable(&reply.document);
    let made = Made::of(reply.etag.as_deref(), &was);
    let mut fields = fields_of(&was);
    let schema = reply.properties.settings.input_schema;
    fields.tick(OWN, schema == Some(InputSchema::CustomEventSchema));
    Ok(render(&app, &topic, (&fields, &made, &Placed::default()), &html! {}))
}

pub(super) async fn save(
    State(app): State<App>,
    Path(topic): Path<String>,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Answer<Response> {
    let Posted { fields, made, .. } = Posted::of(pairs);
    let was: TopicPatch = made.was()?;
    let (mine, problems) = mine(&fields);
    if !problems.is_empty() {
        let page = render(&app, &topic, (&fields, &made, &problems), &html! {});
        return Ok((StatusCode::BAD_REQUEST, page).into_response());
    }
    let error = match send(&app, &topic, &made, &difference(&value(&was), &value(&mine))).await {
        Ok(code) => return Ok(done(&topic_url(&topic, ""), code)),
        Err(error) => error,
    };
    let status = failure::status(&error);
    if is_conflict(&error) {
        let page = conflict(&app, &topic, (&fields, &made), (&was, &mine)).await;
        return Ok((status, page).into_response());
    }
    let problems = Placed::of(&error);
    let notice = notice(&error, &problems);
    let page = render(&app, &topic, (&fields, &made, &problems), &notice);
    Ok((status, page).into_response())
}

/// Shows the saved state with the changes made here, and the changes of another operator. Where
/// that can't be read, shows what was typed with the state that it was made from, so that it can't
/// be saved unseen.
async fn conflict(
    app: &App,
    topic: &str,
    (typed, made): (&Fields, &Made),
    (was, mine): (&TopicPatch, &TopicPatch),
) -> Markup {
    let problems = Placed::default();
    let reply = match app.api.topic(topic).await {
        Ok(reply) => reply,
        Err(error) => return render(app, topic, (typed, made, &problems), &made::unread(&error)),
    };
    let now = editable(&reply.document);
    let merged = made::merged(was, &now, &value(mine));
    let both = html! { div.problem role="alert" { (made::told(was, &now, &merged)) } };
    let fields = serde_json::from_value(merged);
    let mut fields = fields.map_or_else(|_| typed.clone(), |merged| fields_of(&merged));
    fields.tick(OWN, typed.is_on(OWN));
    let made = Made::of(reply.etag.as_deref(), &now);
    render(app, topic, (&fields, &made, &problems), &both)
}

async fn send(app: &App, topic: &str, made: &Made, patch: &Value) -> anyhow::Result<&'static str> {
    if is_empty(patch) {
        return Ok("unchanged");
    }
    app.api.clone().only_if(made.condition()?).patch_topic(topic, patch).await?;
    Ok("saved")
}

fn render(app: &App, topic: &str, (fields, made, problems): Shown<'_>, notice: &Markup) -> Markup {
    let is_own = fields.is_on(OWN);
    let view = View { fields, problems, focus: None, may_change: app.may_change(), is_live: false };
    let all = html! { (changeable(view)) @if is_own { (mapping(view)) } };
    let body = html! {
        (notice)
        @if !problems.is_empty() { (view.summary("Nothing was saved.")) }
        p { "Only what you change is sent. A topic's kind and its input schema can't be changed." }
        form.document method="post" action=(topic_url(topic, "/edit")) novalidate {
            (app.token())
            (made.fields())
            @if is_own { input type="hidden" name=(OWN) value="yes"; }
            (all)
            (app.button("Save", "saves nothing"))
        }
    };
    let above = above(&[topic]);
    let command = format!("topic update {topic} --file patch.json");
    app.page(&Frame { tab: Tab::Topics, title: "Topic settings", above, command }, &body)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WINDOW: &str = "idempotency.windowInSeconds";

    #[test]
    fn what_is_not_touched_is_not_sent() {
        let mapping =
            json!({"inputSchemaMappingType": "Json", "properties": {"id": {"sourceField": "a"}}});
        let mapped = json!({"deliveryProfile": "basic", "disableLocalAuth": false, "inputSchemaMapping": mapping});
        let window = json!({"disableLocalAuth": true, "idempotency": {"windowInSeconds": 300}});
        let subject = json!({"properties": {"subject": {"defaultValue": "s"}}});
        let table: [(_, &[(&str, &str)], _); 5] = [
            (&mapped, &[], None),
            (
                &mapped,
                &[("disableLocalAuth", "yes"), ("inputSchemaMapping.subject.defaultValue", "s")],
                Some(json!({"disableLocalAuth": true, "inputSchemaMapping": subject})),
            ),
            (&window, &[], None),
            (&window, &[(WINDOW, "60")], Some(json!({"idempotency": {"windowInSeconds": 60}}))),
            (&window, &[(WINDOW, "")], Some(json!({"idempotency": null}))),
        ];
        for (was, typed, want) in table {
            let was: TopicPatch =
                serde_json::from_value(json!({ "properties": was })).expect("a patch");
            let mut fields = fields_of(&was);
            for (name, text) in typed {
                fields.clear(name);
                fields.set(*name, *text);
            }
            let (mine, problems) = mine(&fields);
            let want = want.map_or(json!({}), |properties| json!({ "properties": properties }));
            assert!(problems.is_empty());
            assert_eq!(difference(&value(&was), &value(&mine)), want, "{typed:?}");
        }
    }

    #[test]
    fn what_no_topic_can_have_is_a_problem_of_its_field() {
        let mut fields = Fields::default();
        fields.set(WINDOW, "soon");
        let (_, problems) = mine(&fields);
        assert_eq!(problems.all()[0].0, "must be a whole number, but is \"soon\"");
    }
}

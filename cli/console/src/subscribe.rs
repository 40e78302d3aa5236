//! A new event subscription, by the form that edits one.

use axum::Form;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gridpost_api::{client::Condition, subscription::EventSubscriptionInput};
use maud::{Markup, html};

use super::App;
use super::edit::notice;
use super::failure::{self, Answer};
use super::form::placed::Placed;
use super::form::view::{Text, View};
use super::form::{Fields, Posted};
use super::made::is_conflict;
use super::page::{Frame, Tab, done};
use super::subscription_form::view::{About, sections};
use super::subscription_form::{TYPE, arranged, document, placed};
use super::urls::{above, subscription_url, topic_url};

/// The field that has the topic's delivery profile. No member of a document is called so.
const KIND: &str = "made.profile";

pub(super) async fn show(State(app): State<App>, Path(topic): Path<String>) -> Answer {
    let document = app.api.topic(&topic).await?;
    let mut fields = Fields::default();
    fields.set(TYPE, "WebHook");
    let profile = document.document.properties.settings.delivery_profile;
    fields.set(KIND, profile.map_or("-", Into::into));
    let shown = (&fields, &Placed::default(), None);
    Ok(render(&app, &topic, shown, &html! {}))
}

/// Makes it; or shows each problem at its field, or adds and removes rows.
pub(super) async fn create(
    State(app): State<App>,
    Path(topic): Path<String>,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Answer<Response> {
    let mut posted = Posted::of(pairs);
    let focus = arranged(&mut posted);
    let fields = &posted.fields;
    if let Some(focus) = &focus {
        let shown = (fields, &Placed::default(), Some(focus.as_str()));
        return Ok(render(&app, &topic, shown, &html! {}).into_response());
    }
    let (document, problems) = document(fields, &EventSubscriptionInput::default(), true);
    if !problems.is_empty() {
        let page = render(&app, &topic, (fields, &problems, None), &html! {});
        return Ok((StatusCode::BAD_REQUEST, page).into_response());
    }
    let name = fields.get("name").trim();
    let api = app.api.clone().only_if(Some(Condition::IsNew));
    let error = match api.put_subscription(&topic, name, &document.into_document()).await {
        Ok(_) => return Ok(done(&subscription_url(&topic, name, ""), "created")),
        Err(error) => error,
    };
    let mut problems = placed(&error, fields);
    about_name(&error, name, &mut problems);
    let notice = notice(&error, &problems);
    let page = render(&app, &topic, (fields, &problems, None), &notice);
    Ok((failure::status(&error), page).into_response())
}

/// Notes at the name's field what is wrong with it.
pub(super) fn about_name(error: &anyhow::Error, name: &str, problems: &mut Placed) {
    if is_conflict(error) {
        problems.add("name", format!("{name} is there already: edit it, or choose another name."));
    } else if gridpost_ops::failure::is_misuse(error) {
        problems.add("name", error.to_string());
    }
}

fn render(
    app: &App,
    topic: &str,
    (fields, problems, focus): (&Fields, &Placed, Option<&str>),
    notice: &Markup,
) -> Markup {
    let view = View { fields, problems, focus, may_change: app.may_change(), is_live: false };
    let name = view.text(Text {
        name: "name",
        label: "Name",
        hint: "2 to 64 letters, digits and hyphens.",
        ..Text::default()
    });
    // What the form was made for says which limits it has, so that no call has to.
    let all = sections(view, About { profile: fields.get(KIND), is_new: true, base_url: None });
    let body = html! {
        (notice)
        @if !problems.is_empty() { (view.summary("Nothing was made.")) }
        p { "Its endpoint gets the events of " code { (topic) } " that its filter wants, as soon as it has consented." }
        form.document method="post" action=(topic_url(topic, "/subscribe")) novalidate {
            (app.token())
            input type="hidden" name=(KIND) value=(fields.get(KIND));
            @if app.may_change() { button.pri { "Create event subscription" } }
            (name)
            (all)
            (app.button("Create event subscription", "makes nothing"))
        }
    };
    let above = above(&[topic]);
    let command =
        format!("subscription create --topic {topic} --subscription NAME --file document.json");
    let title = "New event subscription";
    app.page(&Frame { tab: Tab::Topics, title, above, command }, &body)
}

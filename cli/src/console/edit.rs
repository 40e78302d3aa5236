//! An event subscription's document, edited. Only what was changed is sent, and only if no one else has
//! changed it meanwhile.

use axum::Form;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use super::App;
use super::failure::{self, Answer};
use super::page::{self, Frame, Tab, subscription_url};
use super::patch;
use crate::failure::{Misuse, Refusal};
use crate::output::pretty;

type Names = Path<(String, String)>;

/// What is edited: the document without what Gridpost itself writes.
fn editable(document: &Value) -> Value {
    let mut properties = document["properties"].clone();
    for member in ["provisioningState", "topic", "allowedRate"] {
        properties.as_object_mut().map(|members| members.remove(member));
    }
    json!({ "properties": properties })
}

/// The form.
pub(super) async fn show(State(app): State<App>, Path((topic, name)): Names) -> Answer {
    let reply = app.api.read_subscription(&topic, &name).await?;
    let text = pretty(&editable(&reply.document));
    Ok(render(&app, &topic, &name, &text, reply.etag.as_deref().unwrap_or_default(), &html! {}))
}

/// The document as it was edited, and the state of it that was read.
#[derive(Deserialize)]
pub(super) struct Edited {
    document: String,
    etag: String,
}

/// Saves what was changed, or shows each problem at its place.
pub(super) async fn save(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(form): Form<Edited>,
) -> Answer<Response> {
    match patch(&app, &topic, &name, &form).await {
        Ok(code) => {
            let url = subscription_url(&topic, &name, &format!("?done={code}"));
            Ok(Redirect::to(&url).into_response())
        }
        Err(error) => {
            let problems = problems(&error, &form.document);
            let page = render(&app, &topic, &name, &form.document, &form.etag, &problems);
            Ok((failure::status(&error), page).into_response())
        }
    }
}

async fn patch(app: &App, topic: &str, name: &str, form: &Edited) -> anyhow::Result<&'static str> {
    let new: Value = serde_json::from_str(&form.document)
        .map_err(|error| Misuse(format!("That is no JSON: {error} of the text")))?;
    if !new.is_object() {
        return Err(Misuse("The document is an object: {\"properties\": …}".to_owned()).into());
    }
    let old = editable(&app.api.subscription(topic, name).await?);
    let patch = patch::difference(&old, &new);
    if patch == json!({}) {
        return Ok("unchanged");
    }
    let etag = Some(form.etag.clone()).filter(|etag| !etag.is_empty());
    app.api.clone().only_if(etag).patch_subscription(topic, name, &patch).await?;
    Ok("saved")
}

fn problems(error: &anyhow::Error, text: &str) -> Markup {
    let refusal = error.downcast_ref::<Refusal>();
    let document: Option<Value> = serde_json::from_str(text).ok();
    let placed = refusal.filter(|refusal| !refusal.details.is_empty()).zip(document);
    html! {
        div.problem role="alert" {
            p { strong { "Nothing was saved." } }
            @match placed {
                Some((refusal, document)) => {
                    p { (refusal.message) }
                    (patch::annotated(&document, &refusal.details))
                    @if let Some(step) = refusal.next_step() { p { (step) } }
                }
                None => { (failure::told(error)) }
            }
        }
    }
}

fn render(app: &App, topic: &str, name: &str, text: &str, etag: &str, problems: &Markup) -> Markup {
    let url = subscription_url(topic, name, "/edit");
    let body = html! {
        (problems)
        p {
            "What you change is sent as a patch; secrets that show no value, or "
            code { "Hidden" } ", stay as they are. To change the endpoint, add "
            code { "endpointUrl" } " to the destination's properties: the new one is asked for its consent."
        }
        form method="post" action=(url) {
            (app.token())
            input type="hidden" name="etag" value=(etag);
            label for="document" { "Document" }
            textarea id="document" name="document" rows="28" spellcheck="false" { "\n" (text) }
            @if app.may_change() { button { "Save" } }
            @else { p.muted { "This console is read-only: it saves nothing." } }
        }
    };
    let command = format!("subscription update --topic {topic} --name {name} --file patch.json");
    let title = format!("Edit {topic}/{name}");
    let above = page::above(topic, name);
    app.page(&Frame { tab: Tab::Topics, title: &title, above, command }, &body)
}

//! An event subscription's document, edited as JSON. Only what was changed is sent, and only if no one else has
//! changed it meanwhile.

use axum::Form;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use gridpost_api::subscription::{EventSubscription, EventSubscriptionInput};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::App;
use super::annotated::annotated;
use super::below::Below;
use super::failure::{self, Answer};
use super::made::{self, Made, is_conflict};
use super::page::{Names, done};
use super::text;
use super::urls::subscription_url;
use gridpost_ops::{
    failure::{Misuse, Refusal},
    output::pretty,
};

/// Returns the part of a document that is edited: its settings.
pub(super) fn editable(document: &EventSubscription) -> EventSubscriptionInput {
    EventSubscriptionInput { properties: Some(document.properties.settings.clone()) }
}

pub(super) async fn show(State(app): State<App>, Path((topic, name)): Names) -> Answer {
    let reply = app.api.subscription(&topic, &name).await?;
    let was = editable(&reply.document);
    let form = Edited { document: pretty(&was), made: Made::of(reply.etag.as_deref(), &was) };
    Ok(render(&app, &topic, &name, &form, &html! {}))
}

/// The document as it was edited, and the state of it that was read.
#[derive(Deserialize)]
pub(super) struct Edited {
    document: String,
    #[serde(flatten)]
    made: Made,
}

impl Edited {
    fn read(&self) -> anyhow::Result<Value> {
        let new: Value = serde_json::from_str(&self.document)
            .map_err(|error| Misuse(format!("That is not JSON: {error} of the text")))?;
        if !new.is_object() {
            return Err(Misuse("The document is an object: {\"properties\": …}".to_owned()).into());
        }
        Ok(new)
    }
}

pub(super) async fn save(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(form): Form<Edited>,
) -> Answer<Response> {
    let saved = async { made::save(&app, (&topic, &name), &form.made, &form.read()?).await };
    let error = match saved.await {
        Ok(code) => return Ok(done(&subscription_url(&topic, &name, ""), code)),
        Err(error) => error,
    };
    let status = failure::status(&error);
    if !is_conflict(&error) {
        let problems = problems(&error, &form.document);
        return Ok((status, render(&app, &topic, &name, &form, &problems)).into_response());
    }
    let reply = match app.api.subscription(&topic, &name).await {
        Ok(reply) => reply,
        Err(error) => {
            let page = render(&app, &topic, &name, &form, &made::unread(&error));
            return Ok((status, page).into_response());
        }
    };
    let (was, now): (EventSubscriptionInput, _) = (form.made.was()?, editable(&reply.document));
    let merged = made::merged(&was, &now, &form.read()?);
    let both = html! { div.problem role="alert" { (made::told(&was, &now, &merged)) } };
    let made = Made::of(reply.etag.as_deref(), &now);
    let form = Edited { document: pretty(&merged), made };
    Ok((status, render(&app, &topic, &name, &form, &both)).into_response())
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
                    p { (text::prose(&refusal.message)) }
                    (annotated(&document, &refusal.details))
                    @if let Some(step) = refusal.next_step() { p { (step) } }
                }
                None => { (failure::told(error)) }
            }
        }
    }
}

fn render(app: &App, topic: &str, name: &str, form: &Edited, problems: &Markup) -> Markup {
    let url = subscription_url(topic, name, "/edit/json");
    let body = html! {
        (problems)
        p { a href=(subscription_url(topic, name, "/edit")) { "Edit it as a form" } }
        p {
            "What you change is sent as a patch; secrets that show no value, or "
            code { "Hidden" } ", stay as they are. To change the endpoint, add "
            code { "endpointUrl" } " to the destination's properties: the new one is asked for its consent."
        }
        form method="post" action=(url) {
            (app.token())
            (form.made.fields())
            label for="document" { "Document" }
            textarea id="document" name="document" rows="28" spellcheck="false" { "\n" (text::visible_json(&form.document)) }
            (app.button("Save", "saves nothing"))
        }
    };
    let command = ("subscription update", " --file patch.json");
    app.below(&Below { of: (topic, name), tab: "/edit", title: "Settings as JSON", command }, &body)
}

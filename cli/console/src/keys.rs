//! A topic's keys: shown when asked for, replaced one at a time.

use axum::Form;
use axum::extract::{Path, State};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::failure::Answer;
use super::form::{Look, Nothing, agreed};
use super::page;
use super::{App, topics};
use gridpost_ops::{failure::Misuse, target};

pub(super) async fn reveal(
    State(app): State<App>,
    Path(topic): Path<String>,
    Form(Nothing {}): Form<Nothing>,
) -> Answer {
    let keys = app.api.keys(&topic).await?;
    topics::of_topic(&app, &topic, Look::default(), Some(&keys)).await
}

#[derive(Deserialize)]
pub(super) struct Rotate {
    key: String,
    #[serde(default)]
    agreed: String,
}

pub(super) async fn rotate(
    State(app): State<App>,
    Path(name): Path<String>,
    Form(form): Form<Rotate>,
) -> Answer {
    agreed(&form.agreed)?;
    if !matches!(form.key.as_str(), "key1" | "key2") {
        return Err(Misuse("There are two keys: key1 and key2.".to_owned()).into());
    }
    let keys = target::new_key(&app.api, &app.settings.target, &name, &form.key).await?;
    let page = topics::of_topic(&app, &name, Look::default(), Some(&keys)).await;
    Ok(page.unwrap_or_else(|_| alone("The key is replaced", &keys)))
}

/// New secrets on a page of their own, where the page that they belong to can't be shown: the old ones are
/// gone, and nothing shows these again but another look at them.
pub(super) fn alone(title: &str, secrets: &Value) -> Markup {
    let body = html! {
        p { "The page that they belong to can't be shown at present. They are now:" }
        dl.facts {
            @for (name, secret) in secrets.as_object().into_iter().flatten() {
                @if let Some(secret) = secret.as_str() {
                    div { dt { (page::visible(name)) } dd { code { (secret) } } }
                }
            }
        }
    };
    page::bare(title, &body)
}

//! A topic's keys: shown when asked for, replaced one at a time.

use axum::Form;
use axum::extract::{Path, State};
use gridpost_api::topic::AccessKey;
use maud::{Markup, html};
use serde::Deserialize;

use super::App;
use super::failure::Answer;
use super::form::{Nothing, agreed};
use super::page;
use super::topics;
use super::traffic::SinceQuery;
use gridpost_ops::{failure::Misuse, target::replace_key};

pub(super) async fn reveal(
    State(app): State<App>,
    Path(topic): Path<String>,
    Form(Nothing {}): Form<Nothing>,
) -> Answer {
    let keys = app.api.keys(&topic).await?;
    topics::of_topic(&app, &topic, SinceQuery::default(), Some(&keys)).await
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
    let key = match form.key.as_str() {
        "key1" => AccessKey::Key1,
        "key2" => AccessKey::Key2,
        _ => return Err(Misuse("There are two keys: key1 and key2.".to_owned()).into()),
    };
    let keys = replace_key(&app.api, &app.settings.target, &name, key).await?;
    let page = topics::of_topic(&app, &name, SinceQuery::default(), Some(&keys)).await;
    let shown = [("key1", Some(keys.key1.expose())), ("key2", Some(keys.key2.expose()))];
    Ok(page.unwrap_or_else(|_| alone("The key is replaced", &shown)))
}

/// Shows new secrets where their page can't be shown: the old ones are gone.
pub(super) fn alone(title: &str, secrets: &[(&str, Option<&str>)]) -> Markup {
    let body = html! {
        p { "The page that they belong to can't be shown at present. They are now:" }
        dl.kv {
            @for (name, secret) in secrets { @if let Some(secret) = secret { dt { (name) } dd { code { (secret) } } } }
        }
    };
    page::bare(title, &body)
}

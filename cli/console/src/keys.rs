//! A topic's keys: shown when asked for, replaced one at a time.

use axum::Form;
use axum::extract::{Path, State};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::failure::Answer;
use super::forms::{Look, Nothing, agreed};
use super::page::{self, topic_url};
use super::{App, topics};
use gridpost_ops::{failure::Misuse, output::text_at, target};

/// What a topic's page says of its keys.
pub(super) fn section(app: &App, topic: &str, document: &Value, keys: Option<&Value>) -> Markup {
    let is_shut = document.pointer("/properties/disableLocalAuth") == Some(&Value::Bool(true));
    let url = topic_url(topic);
    html! {
        h2 id="keys" { "Keys" }
        @if is_shut { p.warn { "Keys are refused: the topic has disableLocalAuth." } }
        @if let Some(keys) = keys {
            dl.facts {
                div { dt { "key1" } dd { code { (text_at(keys, "/key1")) } } }
                div { dt { "key2" } dd { code { (text_at(keys, "/key2")) } } }
            }
        }
        @if app.may_change() {
            @if keys.is_none() {
                form method="post" action={ (url) "/keys#keys" } {
                    (app.token())
                    button.second { "Show both keys" }
                }
            }
            @for key in ["key1", "key2"] {
                details {
                    summary { "Replace " (key) }
                    form method="post" action={ (url) "/keys/rotate#keys" } {
                        (app.token())
                        input type="hidden" name="key" value=(key);
                        label.check {
                            input type="checkbox" name="agreed" value="yes" required;
                            "Publishers that use " (key) " are refused from now on. The other key stays."
                        }
                        button.danger { "Replace " (key) }
                    }
                }
            }
        } @else {
            p.muted { "This console is read-only: it shows no keys." }
        }
    }
}

/// The page with both keys.
pub(super) async fn reveal(
    State(app): State<App>,
    Path(topic): Path<String>,
    Form(Nothing {}): Form<Nothing>,
) -> Answer {
    let keys = app.api.keys(&topic).await?;
    topics::of_topic(&app, &topic, Look::default(), Some(&keys)).await
}

/// Which key.
#[derive(Deserialize)]
pub(super) struct Rotate {
    key: String,
    #[serde(default)]
    agreed: String,
}

/// Replaces a key, and shows both.
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

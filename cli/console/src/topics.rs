//! Topics, and one of them with its event subscriptions.

use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use serde_json::Value;

use super::App;
use super::failure::{self, Answer};
use super::form::Look;
use super::overview::{effect, why};
use super::page::{self, Frame, Tab, subscription_url, topic_url};
use super::{create_topic, edit_topic, publish, subscribe};
use gridpost_ops::{
    manage_api::pages::Page,
    output::text_at,
    subscription::{health, show},
};

pub(super) async fn list(State(app): State<App>, Query(look): Query<Look>) -> Answer {
    let topics = app.api.topics_page(look.after.as_deref()).await?;
    let row = |topic: &Value| {
        let name = text_at(topic, "/name");
        vec![
            html! { a href=(topic_url(name)) { (name) } },
            html! { (text_at(topic, "/kind")) },
            html! { (text_at(topic, "/properties/inputSchema")) },
            html! { (text_at(topic, "/properties/endpoint")) },
        ]
    };
    let rows: Vec<_> = topics.items.iter().map(row).collect();
    let body = html! {
        (page::done(look.done.as_deref()))
        @if app.may_change() { ul.links { li { a href=(create_topic::URL) { "Create a topic" } } } }
        @if rows.is_empty() {
            (page::empty("There is no topic yet. Create one:", "topic create orders"))
        } @else {
            (page::table("Topics", &["Topic", "Kind", "Input schema", "Publish to"], &rows))
        }
        (page::next_page("/topics", &[], topics.next.as_deref()))
    };
    let command = "topic list".to_owned();
    let frame = Frame { tab: Tab::Topics, title: "Topics", above: Vec::new(), command };
    Ok(app.page(&frame, &body))
}

pub(super) async fn show(
    State(app): State<App>,
    Path(topic): Path<String>,
    Query(look): Query<Look>,
) -> Answer {
    of_topic(&app, &topic, look, None).await
}

/// A topic's page; with its keys, where they were asked for.
pub(super) async fn of_topic(app: &App, topic: &str, look: Look, keys: Option<&Value>) -> Answer {
    let after = look.after.as_deref();
    let (document, page, healths) = tokio::join!(
        app.api.topic(topic),
        app.api.subscriptions_page(topic, after),
        app.api.healths_page(topic, after)
    );
    let (document, page) = (document?, page?);
    let body = html! {
        (page::done(look.done.as_deref()))
        (facts(&document))
        ul.links {
            li { a href=(publish::url(topic)) { "Publish a test event" } }
            @if app.may_change() { li { a href=(subscribe::url(topic)) { "Subscribe an endpoint" } } }
            li { a href=(edit_topic::url(topic)) { "Change its settings" } }
            li { a href=(page::with_query("/events", &[("topic", topic)])) { "Find an event" } }
            li { a href=(page::with_query("/tail", &[("topic", topic)])) { "Live tail" } }
        }
        h2 { "Event subscriptions" }
        (subscriptions(topic, page, healths))
        (key_section(app, topic, &document, keys))
        @if app.may_change() {
            h2 { "End it" }
            ul.links { li { a href={ (topic_url(topic)) "/delete" } { "Delete this topic" } } }
        }
    };
    let above = vec![("/topics".to_owned(), "Topics".to_owned())];
    let command = format!("topic show {topic}");
    Ok(app.page(&Frame { tab: Tab::Topics, title: topic, above, command }, &body))
}

fn key_section(app: &App, topic: &str, document: &Value, keys: Option<&Value>) -> Markup {
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

fn facts(topic: &Value) -> Markup {
    let row = |name: &str, pointer: &str| [name.to_owned(), text_at(topic, pointer).to_owned()];
    page::facts(&[
        row("publish to", "/properties/endpoint"),
        row("kind", "/kind"),
        row("input schema", "/properties/inputSchema"),
        row("delivery profile", "/properties/deliveryProfile"),
        row("state", "/properties/provisioningState"),
    ])
}

fn subscriptions(topic: &str, page: Page, healths: anyhow::Result<Page>) -> Markup {
    let Page { items, next, .. } = page;
    if items.is_empty() {
        let command = format!(
            "subscription create --topic {topic} --subscription first --endpoint https://example.com/hook"
        );
        return page::empty(
            "No event subscription is on this page. Subscribe an endpoint:",
            &command,
        );
    }
    let (healths, refused) = match healths {
        Ok(page) => (page.items, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let all = gridpost_ops::subscription::untyped::joined(items, &healths);
    let row = |(subscription, health): &(Value, Option<Value>)| {
        let name = text_at(subscription, "/name");
        let none = Value::Null;
        let health = health.as_ref().unwrap_or(&none);
        let state = text_at(health, "/state");
        let class = if state == "Healthy" { "good" } else { "bad" };
        vec![
            html! { a href=(subscription_url(topic, name, "")) { (name) } },
            html! { (show::destination(subscription)) },
            html! { span class=(class) { (state) } },
            why(health),
            html! { (effect(health)) },
            html! { (health::waiting(&health["waitingDeliveries"])) },
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    let head = ["Event subscription", "Endpoint", "Health", "Why", "New events", "Waiting"];
    html! {
        @if let Some(error) = &refused {
            div.problem role="alert" { p { strong { "Their endpoints' health could not be read." } } (failure::told(error)) }
        }
        (page::table("Event subscriptions", &head, &rows))
        (page::next_page(&topic_url(topic), &[], next.as_deref()))
    }
}

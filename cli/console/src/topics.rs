//! Topics, and one of them with its event subscriptions.

use axum::extract::{Path, Query, State};
use gridpost_api::{
    client::Page,
    health::{EndpointState, Health, NamedHealth, NewEvents},
    subscription::EventSubscription,
    topic::{Keys, Topic},
};
use maud::{Markup, html};

use super::App;
use super::failure::{self, Answer};
use super::form::Look;
use super::page::{self, Frame, Tab, subscription_url, topic_url};
use super::{create_topic, edit_topic, publish, subscribe};
use gridpost_ops::subscription::{health, show};

pub(super) async fn list(State(app): State<App>, Query(look): Query<Look>) -> Answer {
    let topics = app.api.topics_page(look.after.as_deref()).await?;
    let row = |topic: &Topic| {
        let [_, kind, schema, ..] = texts(topic);
        vec![
            html! { a href=(topic_url(&topic.name)) { (topic.name) } },
            html! { (kind) },
            html! { (schema) },
            html! { (topic.properties.endpoint) },
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

/// Shows a topic; with its keys, if given.
pub(super) async fn of_topic(app: &App, topic: &str, look: Look, keys: Option<&Keys>) -> Answer {
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
    let above = page::above_topic();
    let command = format!("topic show {topic}");
    Ok(app.page(&Frame { tab: Tab::Topics, title: topic, above, command }, &body))
}

fn key_section(app: &App, topic: &str, document: &Topic, keys: Option<&Keys>) -> Markup {
    let is_shut = document.properties.settings.disable_local_auth == Some(true);
    let url = topic_url(topic);
    html! {
        h2 id="keys" { "Keys" }
        @if is_shut { p.warn { "Keys are refused: the topic has disableLocalAuth." } }
        @if let Some(keys) = keys {
            dl.facts {
                div { dt { "key1" } dd { code { (keys.key1.expose()) } } }
                div { dt { "key2" } dd { code { (keys.key2.expose()) } } }
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

fn facts(topic: &Topic) -> Markup {
    let names = ["publish to", "kind", "input schema", "delivery profile", "state"];
    let rows = names.into_iter().zip(texts(topic));
    page::facts(&rows.map(|(name, value)| [name, value].map(str::to_owned)).collect::<Vec<_>>())
}

/// Returns a topic's URL, kind, input schema, delivery profile and state.
fn texts(topic: &Topic) -> [&str; 5] {
    let properties = &topic.properties;
    let schema = properties.settings.input_schema.map_or("-", Into::into);
    let profile = properties.settings.delivery_profile.map_or("-", Into::into);
    [&properties.endpoint, topic.kind.into(), schema, profile, &properties.provisioning_state]
}

fn subscriptions(
    topic: &str,
    page: Page<EventSubscription>,
    healths: anyhow::Result<Page<NamedHealth>>,
) -> Markup {
    let Page { items, next } = page;
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
    let row = |subscription: &EventSubscription| {
        let name = &subscription.name;
        let mut cells = vec![
            html! { a href=(subscription_url(topic, name, "")) { (name) } },
            html! { (show::destination(subscription)) },
        ];
        match healths.iter().find(|one| one.name == *name) {
            None => cells.extend(std::iter::repeat_n(html! { "-" }, 4)),
            Some(NamedHealth { health, .. }) => cells.extend([
                state(health.state),
                why(health),
                html! { (effect(health)) },
                html! { (health::waiting(health)) },
            ]),
        }
        cells
    };
    let rows: Vec<_> = items.iter().map(row).collect();
    let head = ["Event subscription", "Endpoint", "Health", "Why", "New events", "Waiting"];
    html! {
        @if let Some(error) = &refused {
            (failure::problem("Their endpoints' health could not be read.", error))
        }
        (page::table("Event subscriptions", &head, &rows))
        (page::next_page(&topic_url(topic), &[], next.as_deref()))
    }
}

/// Shows the state of an endpoint.
pub(super) fn state(state: EndpointState) -> Markup {
    let class = if state == EndpointState::Healthy { "good" } else { "bad" };
    html! { span class=(class) { (state.to_string()) } }
}

/// Returns the names of the first topics, about `most` of them, and whether these are all.
pub(super) async fn names(app: &App, most: usize) -> anyhow::Result<(Vec<String>, bool)> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = app.api.topics_page(after.as_deref()).await?;
        names.extend(page.items.into_iter().map(|topic| topic.name));
        after = page.next;
        if after.is_none() || names.len() >= most {
            return Ok((names, after.is_none()));
        }
    }
}

/// Says what put the endpoint into this state.
pub(super) fn why(health: &Health) -> Markup {
    html! {
        @if let Some(cause) = &health.cause {
            (cause.outcome)
            @if let Some(status) = cause.http_status_code { " (HTTP " (status) ")" }
        } @else if health.slow.is_some() { "it answers slowly" } @else { "-" }
    }
}

/// Says what becomes of an event that is published now.
pub(super) fn effect(health: &Health) -> &'static str {
    match health.new_events {
        NewEvents::Attempted if health.slow.is_some() => "attempted, a few at a time",
        NewEvents::Attempted => "attempted",
        NewEvents::Waits => "wait",
        NewEvents::Ends => "end at once",
        NewEvents::Held => "held: paused",
        NewEvents::NotMatched => "none comes: expired, or not validated",
    }
}

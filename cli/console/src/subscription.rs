//! An event subscription: what it is, how its endpoint is, and what can be done about it.

use axum::Form;
use axum::extract::{Path, Query, State};
use axum::response::Redirect;
use gridpost_api::{
    health::Health,
    subscription::{EventSubscription, RotateInput, SigningSecrets},
};
use gridpost_core::time::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::failure::{self, Answer};
use super::form::{Agreed, Look, Nothing};
use super::page::{self, Frame, Names, Tab, subscription_url, with_query};
use super::{App, keys, topics};
use gridpost_ops::{
    output::pretty,
    subscription::{health, pause, show},
};

const BELOW: [(&str, &str); 5] = [
    ("/deliveries", "Failing deliveries"),
    ("/retry", "Retry schedule"),
    ("/filter", "Test its filter"),
    ("/test-event", "Send it a test event"),
    ("/edit", "Edit its document"),
];

const OF_LETTERS: [(&str, &str); 2] =
    [("/dead-letters", "Dead letters"), ("/redrive", "Redrive dead letters")];

pub(super) async fn show(
    State(app): State<App>,
    Path((topic, name)): Names,
    Query(look): Query<Look>,
) -> Answer {
    let done = page::done(look.done.as_deref());
    of_subscription(&app, &topic, &name, &done, None).await
}

async fn of_subscription(
    app: &App,
    topic: &str,
    name: &str,
    done: &Markup,
    secrets: Option<&SigningSecrets>,
) -> Answer {
    let (document, health, now) = tokio::join!(
        app.api.subscription(topic, name),
        app.api.health(topic, name),
        app.settings.target.now()
    );
    let (document, now) = (document?, now?);
    let url = subscription_url(topic, name, "");
    let keeps_letters = document.properties.settings.dead_letter_destination.is_some();
    let letters = if keeps_letters { &OF_LETTERS[..] } else { &[] };
    let body = html! {
        (done)
        @if let Some(awaited) = show::awaited(&document.document) {
            p.warn { (awaited) }
        }
        @match &health {
            Ok(health) => { (health_section(&url, health, now)) (reset_form(app, &url, health)) (pause_form(app, &url, health)) }
            Err(error) => { (failure::problem("Its endpoint's health could not be read.", error)) }
        }
        ul.links {
            @for (below, what) in BELOW.iter().chain(letters) { li { a href={ (url) (below) } { (what) } } }
            li { a href=(with_query("/tail", &[("topic", topic), ("name", name)])) { "Live tail" } }
        }
        h2 { "Settings" }
        (page::facts(&show::rows(&document)))
        details { summary { "The document" } (page::block("The document", &pretty(&document))) }
        (signing(app, &url, &document, secrets))
        @if app.may_change() {
            h2 { "End it" }
            ul.links { li { a href={ (url) "/delete" } { "Delete this event subscription" } } }
        }
    };
    let above = page::above_subscription(topic);
    let command = format!("subscription health --topic {topic} --subscription {name}");
    let title = format!("{topic}/{name}");
    Ok(app.page(&Frame { tab: Tab::Topics, title: &title, above, command }, &body))
}

fn health_section(url: &str, health: &Health, now: Timestamp) -> Markup {
    html! {
        section id="health" hx-get=(url) hx-select="#health" hx-target="#health" hx-swap="outerHTML"
            hx-trigger="every 10s" {
            h2 { "Its endpoint: " (topics::state(health.state)) }
            (page::facts(&health::rows(health, now)[1..]))
        }
    }
}

fn reset_form(app: &App, url: &str, health: &Health) -> Markup {
    html! {
        @if health.until.is_some() && app.may_change() {
            form method="post" action={ (url) "/reset" } {
                (app.token())
                button { "The endpoint is mended: end its waits" }
            }
        }
    }
}

/// Shows a pause with the button that ends it, or the form that pauses.
fn pause_form(app: &App, url: &str, health: &Health) -> Markup {
    let pause = health.pause.as_ref();
    html! {
        @if let Some(pause) = pause {
            p.warn { "It is paused " (pause::told(pause)) ". Events are matched and held until it is resumed, or until "
                (page::time(pause.until)) "." }
        }
        @if app.may_change() && pause.is_some() {
            form method="post" action={ (url) "/resume" } {
                (app.token())
                button { "Resume it" }
            }
        } @else if app.may_change() {
            form method="post" action={ (url) "/pause" } {
                (app.token())
                label { "Time-to-live meanwhile "
                    select name="life" required {
                        option value="" { "choose" }
                        option value="stops" { "stands still" }
                        option value="runs" { "runs" }
                    }
                }
                button.second { "Pause it" }
            }
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Pausing {
    life: String,
}

pub(super) async fn pause(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(form): Form<Pausing>,
) -> Answer<Redirect> {
    app.api.pause(&topic, &name, form.life == "runs").await?;
    Ok(Redirect::to(&subscription_url(&topic, &name, "?done=paused")))
}

pub(super) async fn resume(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(Nothing {}): Form<Nothing>,
) -> Answer<Redirect> {
    app.api.resume(&topic, &name).await?;
    Ok(Redirect::to(&subscription_url(&topic, &name, "?done=unpaused")))
}

/// Ends what keeps the endpoint from being asked.
pub(super) async fn reset(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(Nothing {}): Form<Nothing>,
) -> Answer<Redirect> {
    app.api.reset_health(&topic, &name).await?;
    Ok(Redirect::to(&subscription_url(&topic, &name, "?done=reset")))
}

fn signing(
    app: &App,
    url: &str,
    document: &EventSubscription,
    secrets: Option<&SigningSecrets>,
) -> Markup {
    let is_signed = document.properties.settings.signing.is_some();
    html! {
        @if is_signed {
            h2 id="signing" { "Signing secret" }
            @if let Some(secrets) = secrets {
                dl.facts {
                    div { dt { "secret" } dd { code { (secrets.secret.expose()) } } }
                    div { dt { "previous secret" } dd { code { (secrets.previous_secret.as_ref().map_or("-", |secret| secret.expose())) } } }
                    div { dt { "valid until" } dd { (page::time(secrets.previous_secret_valid_until)) } }
                }
            }
            @if app.may_change() {
                form method="post" action={ (url) "/secrets#signing" } {
                    (app.token())
                    button.second { "Show the secrets" }
                }
                details {
                    summary { "Make a new secret" }
                    form method="post" action={ (url) "/secrets/rotate#signing" } {
                        (app.token())
                        label.check {
                            input type="checkbox" name="agreed" value="yes" required;
                            "Requests carry signatures by both secrets for a while, then by the new one alone."
                        }
                        button.danger { "Make a new secret" }
                    }
                }
            } @else {
                p.muted { "This console is read-only: it shows no secrets." }
            }
        }
    }
}

pub(super) async fn reveal_secrets(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(Nothing {}): Form<Nothing>,
) -> Answer {
    let secrets = app.api.signing_secrets(&topic, &name).await?;
    of_subscription(&app, &topic, &name, &html! {}, Some(&secrets)).await
}

pub(super) async fn rotate_secret(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(form): Form<Agreed>,
) -> Answer {
    form.check()?;
    let secrets = app.api.rotate_signing_secret(&topic, &name, &RotateInput::default()).await?;
    let page = of_subscription(&app, &topic, &name, &html! {}, Some(&secrets)).await;
    let previous = secrets.previous_secret.as_ref().map(|secret| secret.expose());
    let shown = [("secret", Some(secrets.secret.expose())), ("previous secret", previous)];
    Ok(page.unwrap_or_else(|_| keys::alone("The secret is replaced", &shown)))
}

//! Shows parked deliveries and the poison queue, which wait for a person.

use std::cmp::Reverse;

use axum::extract::{Query, State};
use axum::response::Response;
use gridpost_api::{
    client::Page,
    delivery::WaitingDelivery,
    requests::ParkedInput,
    waiting::{Parked, PoisonList, PoisonMessage},
};
use maud::{Markup, html};

use super::App;
use super::action::Action;
use super::failure::{self, Answer};
use super::form::Look;
use super::kit;
use super::lists::{Lists, One, ones};
use super::page::{self, Frame, Head, Tab};
use super::standing;
use super::text;
use super::urls::subscription_url;
use gridpost_ops::{output::or_dash, subscription::holds_back};

/// Event subscriptions that are shown.
const ROWS: usize = 20;

/// Messages of the poison queue that are looked at: a look hides them from others for a while.
const POISON_TOP: u32 = 50;

pub(super) async fn show(State(app): State<App>, Query(look): Query<Look>) -> Answer<Response> {
    let body = html! { (kit::done(look.done.as_deref())) (page::late()) };
    let command = "parked list".to_owned();
    let frame = Frame { tab: Tab::Waiting, title: "Waiting", above: Vec::new(), command };
    let page = app.page_of(&frame, &Head::default(), &body);
    Ok(page::streamed(page, async move {
        let every = ParkedInput::default();
        let (waiting, parked, poison) = tokio::join!(
            by_subscription(&app),
            app.api.parked_page(&every, look.after.as_deref()),
            app.api.poison(POISON_TOP)
        );
        html! {
            (waiting.unwrap_or_else(|error| failure::problem("", &error)))
            section.card { div.in {
                h2 id="parked" { "Parked deliveries" }
                p.m { "Their next attempt is so far away that a table keeps them. They come back by themselves." }
                (failure::or_problem("", &parked, |parked| parked_section(&app, parked)))
                h2 id="poison" { "Poison queue" }
                p.m { "What Gridpost's own code could not read or settle. It should be empty." }
                (failure::or_problem("", &poison, |list| poison_section(&app, list)))
            } }
        }
    }))
}

/// Lists the event subscriptions whose deliveries wait, or are held back, the largest backlog first.
async fn by_subscription(app: &App) -> anyhow::Result<Markup> {
    let (names, is_whole) = app.topic_names().await?;
    let Lists { read, unread, left } = app.healths(names).await;
    let mut all = ones(read, None);
    // Where it is not known how many events wait, all may that are held back.
    all.retain(|one| {
        one.backlog() > 0 || one.health.waiting_events.is_none() && holds_back(&one.health)
    });
    all.sort_by_key(|one| Reverse(one.backlog()));
    let row = |one: &One| {
        let deliveries = &one.health.waiting_deliveries;
        vec![
            one.link(""),
            one.pill(),
            standing::effect(&one.health),
            kit::count(one.health.waiting_events),
            html! {
                @if !deliveries.is_complete { "> " }
                (kit::count(deliveries.count as u64))
            },
            html! { @if let Some(oldest) = deliveries.oldest_publish_time { (text::time(oldest)) } },
        ]
    };
    let (title, count) = ("By event subscription", text::number(all.len() as u64));
    let beside = html! {
        @if all.len() > ROWS { span.sm.m { "the largest " (ROWS) " of " (count) ": topics list the others" } }
    };
    let is_read = unread.is_empty() && is_whole && left.is_empty();
    Ok(html! {
        @if let Some((_, error)) = unread.first() { (failure::problem("Not every health was read.", error)) }
        @if !is_whole || !left.is_empty() { p.m { "There are too many event subscriptions: not all were looked at." } }
        @let head = [("Event subscription", "gr"), ("State", ""), ("New events", "nw"), ("Events", "n"),
            ("Deliveries retrying or parked", "n"), ("Oldest of these", "nw")];
        @if all.is_empty() && is_read { (kit::flush(title, "", kit::empty("Nothing is retried or held back", ""))) }
        @else if !all.is_empty() { (kit::flush(title, beside, kit::table(title, &head, all.iter().take(ROWS).map(row)))) }
    })
}

fn parked_section(app: &App, parked: &Page<Parked>) -> Markup {
    let row = |one: &Parked| {
        let (topic, name, id, due, delivery, problem) = match one {
            Parked::Delivery(one) => {
                let of = &one.delivery;
                let names = (&of.topic, &of.event_subscription);
                (names.0, names.1, of.id, of.due, Some(of), one.problem.as_ref())
            }
            Parked::Unreadable(one) => {
                let due = Some(one.due);
                (&one.topic, &one.event_subscription, one.id, due, None, Some(&one.problem))
            }
        };
        let url = subscription_url(topic, name, &format!("/deliveries/{id}"));
        let count = |of: fn(&WaitingDelivery) -> u64| html! { (or_dash(delivery.map(of).map(text::number))) };
        vec![
            choice(app, "parked", "delivery", &id.to_string()),
            text::time(due),
            html! { a.cut.mono href=(url) { (id) } },
            html! { a href=(subscription_url(topic, name, "")) { (topic) "/" (name) } },
            count(|of| of.events as u64),
            count(|of| of.delivery_attempts.into()),
            match (problem, delivery) {
                (Some(problem), _) => text::prose(problem),
                (None, Some(of)) => {
                    kit::answer(of.last_delivery_outcome.as_deref(), of.last_http_status_code)
                }
                (None, None) => html! { "-" },
            },
        ]
    };
    let rows: Vec<_> = parked.items.iter().map(row).collect();
    html! {
        @let head = [("Choose", ""), ("Due", "nw"), ("Delivery", "nw"), ("Event subscription", ""),
            ("Events", "n"), ("Attempts", "n"), ("Last outcome", "gr")];
        @if rows.is_empty() && parked.next.is_some() {
            p { "None on this page; the next one may have some." }
        } @else if rows.is_empty() { p { "No delivery is parked." } } @else {
            (kit::table("Parked deliveries", &head, &rows))
            (change(app, "parked", (Action::Release, "Attempt selected now"),
                (Action::CancelParked, "Cancel selected"),
                "Cancel them: they become dead letters, or are lost where there is no destination."))
        }
        (kit::next_page("/waiting", &[], parked.next.as_deref()))
    }
}

/// The box that chooses a row of a table.
fn choice(app: &App, table: &str, what: &str, id: &str) -> Markup {
    html! { @if app.may_change() {
        input type="checkbox" name="id" value=(id) form={ "change-" (table) }
            aria-label={ "Choose " (what) " " (id) };
    } }
}

/// The form of these boxes: a button, and another one that takes consent; each with its action.
fn change(
    app: &App,
    table: &str,
    good: (Action, &str),
    bad: (Action, &str),
    consent: &str,
) -> Markup {
    html! { @if app.may_change() {
        form id={ "change-" (table) } method="post" action=(good.0.url("/waiting")) {
            (app.token())
            button.pri { (good.1) }
            label.check { input type="checkbox" name="agreed" value="yes"; (consent) }
            button.dng.pri formaction=(bad.0.url("/waiting")) { (bad.1) }
        }
    } }
}

fn poison_section(app: &App, list: &PoisonList) -> Markup {
    let row = |one: &PoisonMessage| {
        let id = &one.id;
        vec![
            choice(app, "poison", "message", id),
            html! { span.cut.mono title=(id) { (id) } },
            html! { (one.kind.to_string()) },
            text::time(one.sent_time),
            html! { (one.from_queue.as_deref().unwrap_or("-")) },
            text::prose(one.problem.as_deref().unwrap_or("-")),
            html! { (one.resend_to.as_deref().unwrap_or("-")) },
        ]
    };
    let rows: Vec<_> = list.value.iter().map(row).collect();
    let count = text::number(list.approximate_count);
    html! {
        @let head = [("Choose", ""), ("Message", "nw"), ("What it is", ""), ("Sent", "nw"), ("From", ""),
            ("Why it can't be read", "gr"), ("Goes back to", "")];
        @if rows.is_empty() && list.approximate_count == 0 { p.t-ok { "It is empty." } }
        @else if rows.is_empty() {
            p.warn { "About " (count) " messages are there, which another look \
                hides: reload in a minute." }
        } @else {
            p { "About " (count) " messages." }
            (kit::table("Messages of the poison queue", &head, &rows))
            (change(app, "poison", (Action::ResendPoison, "Resend selected"),
                (Action::PurgePoison, "Remove selected"),
                "Remove them for good: their events are counted and logged as dropped."))
        }
    }
}

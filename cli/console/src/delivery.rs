//! Deliveries that have failed: listed, shown attempt by attempt, attempted now.

use axum::Form;
use axum::extract::{Path, Query, State};
use axum::response::Redirect;
use gridpost_core::time::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use super::App;
use super::failure::Answer;
use super::form::{Look, Nothing};
use super::page::{self, Frame, Tab, subscription_url};
use super::picture::{self, Kind, Point};
use gridpost_ops::{
    attempt_lines::because_of,
    delivery,
    output::{self, text_at},
};

pub(super) async fn list(
    State(app): State<App>,
    Path((topic, name)): Path<(String, String)>,
    Query(look): Query<Look>,
) -> Answer {
    let page = app.api.deliveries_page(&topic, &name, look.after.as_deref()).await?;
    let url = subscription_url(&topic, &name, "/deliveries");
    let row = |one: &Value| {
        let id = text_at(one, "/id");
        vec![
            page::time_at(one, "/publishTime"),
            html! { a href={ (url) "/" (page::part(id)) } { (id) } },
            html! { (page::number_at(one, "/events")) },
            html! { (page::number_at(one, "/deliveryAttempts")) },
            outcome(one, "/lastDeliveryOutcome", "/lastHttpStatusCode"),
            html! {
                @match text_at(one, "/status") {
                    "Waiting" => { (page::time_at(one, "/due")) }
                    other => { (other) }
                }
            },
        ]
    };
    let rows: Vec<_> = page.items.iter().map(row).collect();
    let body = html! {
        @if rows.is_empty() {
            (page::empty("No failing delivery waits here. What was delivered at once, or has ended, is found by its event:",
                &format!("explain EVENT-ID --topic {topic}")))
            p { a href=(page::with_query("/events", &[("topic", topic.as_str())])) { "Find an event" } }
        } @else {
            (page::table("Failing deliveries", &["Published", "Delivery", "Events", "Attempts", "Last outcome", "Due"], &rows))
        }
        (page::next_page(&url, &[], page.next.as_deref()))
    };
    let command = format!("delivery list --topic {topic} --subscription {name}");
    let title = format!("Failing deliveries of {topic}/{name}");
    let above = page::above(&topic, &name);
    Ok(app.page(&Frame { tab: Tab::Topics, title: &title, above, command }, &body))
}

pub(super) fn outcome(document: &Value, outcome: &str, status: &str) -> Markup {
    let text = text_at(document, outcome);
    let class = if text == "Delivered" { "good" } else { "bad" };
    html! {
        span class=(class) { (text) }
        @if let Some(status) = document.pointer(status).and_then(Value::as_u64) { " (" (status) ")" }
    }
}

pub(super) async fn show(
    State(app): State<App>,
    Path((topic, name, id)): Path<(String, String, String)>,
    Query(look): Query<Look>,
) -> Answer {
    let (document, now) =
        tokio::try_join!(app.api.delivery(&topic, &name, &id), app.settings.target.now())?;
    let url = subscription_url(&topic, &name, &format!("/deliveries/{}", page::part(&id)));
    let body = html! {
        (page::done(look.done.as_deref()))
        section id="delivery" hx-get=(url) hx-select="#delivery" hx-target="#delivery" hx-swap="outerHTML"
            hx-trigger="every 10s" {
            (facts(&document))
            h2 { "Attempts" }
            (picture::timeline("Attempts since the publish", &points(&document, now)))
            (attempts(&document))
            p { strong { (next(&document)) } }
            (attempt_now(&app, &url, &document))
        }
    };
    let command =
        format!("delivery show {} --topic {topic} --subscription {name}", output::word(&id));
    let mut above = page::above(&topic, &name);
    above.push((subscription_url(&topic, &name, "/deliveries"), "Failing deliveries".to_owned()));
    let title = format!("Delivery {id}");
    Ok(app.page(&Frame { tab: Tab::Topics, title: &title, above, command }, &body))
}

/// The button that has a delivery attempted now, as long as the API takes that: while it waits, due or not.
/// It is a part of what refreshes itself, since that changes while one looks.
pub(super) fn attempt_now(app: &App, url: &str, document: &Value) -> Markup {
    html! {
        @if document["status"] == "Waiting" && app.may_change() {
            form method="post" action={ (url) "/resend" } {
                (app.token())
                button id={ "resend-" (text_at(document, "/id")) } { "Attempt it now" }
                " " span.muted { "Whatever its wait and its endpoint's health." }
            }
        }
    }
}

fn facts(document: &Value) -> Markup {
    let mut rows = vec![
        ["status".to_owned(), text_at(document, "/status").to_owned()],
        ["published".to_owned(), text_at(document, "/publishTime").to_owned()],
        ["events".to_owned(), page::number_at(document, "/events")],
        ["attempts".to_owned(), page::number_at(document, "/deliveryAttempts")],
    ];
    for (name, pointer) in
        [("sent by a redrive", "/redrivenTime"), ("reason", "/reason"), ("ended", "/endedAt")]
    {
        if document.pointer(pointer).is_some() {
            rows.push([name.to_owned(), text_at(document, pointer).to_owned()]);
        }
    }
    page::facts(&rows)
}

fn next(document: &Value) -> String {
    let described = delivery::describe(document);
    let last = described.lines().last().unwrap_or_default();
    match last.strip_prefix("next: ") {
        Some(next) => format!("Next: {next}."),
        None => String::new(),
    }
}

fn attempts(document: &Value) -> Markup {
    let row = |attempt: &Value| {
        vec![
            html! { (attempt["attempt"]) @if let Some(events) = attempt["events"].as_u64() { " of " (events) " events" } },
            page::time_at(attempt, "/startTime"),
            outcome(attempt, "/outcome", "/httpStatusCode"),
            html! { (page::number_at(attempt, "/durationInMs")) " ms" },
            html! { (attempt["waitBecause"].as_str().map(because_of).unwrap_or_default()) },
            html! { (page::visible(attempt["response"].as_str().unwrap_or_default())) },
        ]
    };
    let all = document["attempts"].as_array().into_iter().flatten();
    let rows: Vec<_> = all.map(row).collect();
    let head = ["Attempt", "Began", "Outcome", "Took", "Waited afterwards for", "It said"];
    match rows.is_empty() {
        true => html! { p { "Not attempted so far: its endpoint gets nothing at present." } },
        false => page::table("Attempts", &head, &rows),
    }
}

/// Its attempts, the next one and the end of its time, on the axis that begins at the publish.
fn points(document: &Value, now: Timestamp) -> Vec<Point> {
    let read = |text: &str| Timestamp::parse_rfc_3339(text);
    let began = document["redrivenTime"].as_str().or(document["publishTime"].as_str());
    let Some(began) = began.and_then(read) else { return Vec::new() };
    let since = |at: Timestamp| at.since(began).as_secs_f64();
    let mut points = Vec::new();
    for attempt in document["attempts"].as_array().into_iter().flatten() {
        let Some(at) = read(text_at(attempt, "/startTime")) else { continue };
        let outcome = text_at(attempt, "/outcome");
        let kind = if outcome == "Delivered" { Kind::Delivered } else { Kind::Failed };
        let number = attempt["attempt"].to_string();
        let told = format!("attempt {number}: {outcome}");
        points.push(Point { at: since(at), kind, label: number, told });
    }
    let next = &document["next"];
    let due = next["endpointWaitsUntil"].as_str().or(next["notBefore"].as_str()).and_then(read);
    if let Some(due) = due {
        let told = "the next attempt, not before".to_owned();
        points.push(Point {
            at: since(due.max(now)),
            kind: Kind::Next,
            label: "next".to_owned(),
            told,
        });
    }
    if let Some(end) = next["expires"].as_str().and_then(read) {
        let told = "its time-to-live ends".to_owned();
        points.push(Point { at: since(end), kind: Kind::End, label: "end".to_owned(), told });
    }
    points
}

pub(super) async fn resend(
    State(app): State<App>,
    Path((topic, name, id)): Path<(String, String, String)>,
    Form(Nothing {}): Form<Nothing>,
) -> Answer<Redirect> {
    app.api.resend(&topic, &name, &id).await?;
    let below = format!("/deliveries/{}?done=resent", page::part(&id));
    Ok(Redirect::to(&subscription_url(&topic, &name, &below)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_picture_has_attempts_what_comes_and_the_end() {
        let document = json!({"publishTime": "2026-01-01T00:00:00Z",
            "attempts": [{"attempt": 1, "startTime": "2026-01-01T00:00:01Z", "outcome": "Busy"}],
            "next": {"attempt": 2, "notBefore": "2026-01-01T00:00:11Z", "expires": "2026-01-01T01:00:00Z"}});
        let points = points(&document, Timestamp::from_millis(0));
        let found: Vec<_> = points.iter().map(|point| (point.at, point.kind)).collect();
        assert_eq!(found, [(1.0, Kind::Failed), (11.0, Kind::Next), (3_600.0, Kind::End)]);
        assert!(next(&document).starts_with("Next: attempt 2 not before"), "{}", next(&document));
    }
}

//! Deliveries that have failed: listed, shown attempt by attempt, attempted now.

use axum::Form;
use axum::extract::{Path, Query, State};
use axum::response::Redirect;
use gridpost_api::{
    delivery::{Attempt, Delivery, DeliveryShown, DeliveryStatus},
    schema::Time,
};
use gridpost_core::time::Timestamp;
use maud::{Markup, html};

use super::App;
use super::failure::Answer;
use super::form::{Look, Nothing};
use super::page::{self, Frame, Names, Tab, subscription_url};
use super::picture::{self, Kind, Point};
use gridpost_ops::{attempt_lines::describe_reason, delivery, output};

pub(super) async fn list(
    State(app): State<App>,
    Path((topic, name)): Names,
    Query(look): Query<Look>,
) -> Answer {
    let page = app.api.deliveries_page(&topic, &name, look.after.as_deref()).await?;
    let url = subscription_url(&topic, &name, "/deliveries");
    let row = |one: &Delivery| {
        vec![
            page::time(one.publish_time),
            html! { a href={ (url) "/" (one.id) } { (one.id) } },
            html! { (page::number(one.events.into())) },
            html! { (one.delivery_attempts) },
            outcome(one.last_delivery_outcome.as_deref(), one.last_http_status_code),
            match one.status {
                DeliveryStatus::Waiting => page::time(one.due),
                other => html! { (other.to_string()) },
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

/// Shows an outcome with the status of its answer.
pub(super) fn outcome(outcome: Option<&str>, status: Option<u16>) -> Markup {
    let class = if outcome == Some("Delivered") { "good" } else { "bad" };
    html! {
        span class=(class) { (outcome.unwrap_or("-")) }
        @if let Some(status) = status { " (" (status) ")" }
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
            (attempt_now(&app, &url, &document.delivery))
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
pub(super) fn attempt_now(app: &App, url: &str, delivery: &Delivery) -> Markup {
    html! {
        @if delivery.status == DeliveryStatus::Waiting && app.may_change() {
            form method="post" action={ (url) "/resend" } {
                (app.token())
                button id={ "resend-" (delivery.id) } { "Attempt it now" }
                " " span.muted { "Whatever its wait and its endpoint's health." }
            }
        }
    }
}

fn facts(DeliveryShown { delivery, .. }: &DeliveryShown) -> Markup {
    let text = |at: Time| at.to_string();
    let rows = [
        ("status", Some(delivery.status.to_string())),
        ("published", Some(text(delivery.publish_time))),
        ("events", Some(page::number(delivery.events.into()))),
        ("attempts", Some(delivery.delivery_attempts.to_string())),
        ("sent by a redrive", delivery.redriven_time.map(text)),
        ("reason", delivery.reason.clone()),
        ("ended", delivery.ended_at.map(text)),
    ];
    let rows = rows.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
    page::facts(&rows.collect::<Vec<_>>())
}

fn next(document: &DeliveryShown) -> String {
    let described = delivery::describe(document);
    let last = described.lines().last().unwrap_or_default();
    match last.strip_prefix("next: ") {
        Some(next) => format!("Next: {next}."),
        None => String::new(),
    }
}

fn attempts(document: &DeliveryShown) -> Markup {
    let row = |one: &Attempt| {
        let because = one.wait_because.and_then(|because| because.to_string().parse().ok());
        vec![
            html! { (one.attempt) @if let Some(events) = one.events { " of " (events) " events" } },
            page::time(one.start_time),
            outcome(Some(&one.outcome), one.http_status_code),
            html! { (page::number(one.duration_in_ms)) " ms" },
            html! { (because.map(describe_reason).unwrap_or_default()) },
            html! { (page::visible(one.response.as_deref().unwrap_or_default())) },
        ]
    };
    let rows: Vec<_> = document.attempts.iter().map(row).collect();
    let head = ["Attempt", "Began", "Outcome", "Took", "Waited afterwards for", "It said"];
    match rows.is_empty() {
        true => html! { p { "Not attempted so far: its endpoint gets nothing at present." } },
        false => page::table("Attempts", &head, &rows),
    }
}

/// Places its attempts, the next one and the end of its time on an axis that begins at the publish.
fn points(document: &DeliveryShown, now: Timestamp) -> Vec<Point> {
    let delivery = &document.delivery;
    let began = delivery.redriven_time.unwrap_or(delivery.publish_time);
    let since = |at: Time| at.0.since(began.0).as_secs_f64();
    let attempted = |attempt: &Attempt| {
        let kind = if attempt.outcome == "Delivered" { Kind::Delivered } else { Kind::Failed };
        let label = attempt.attempt.to_string();
        let told = format!("attempt {label}: {}", attempt.outcome);
        Point { at: since(attempt.start_time), kind, label, told }
    };
    let mut points: Vec<_> = document.attempts.iter().map(attempted).collect();
    if let Some(next) = &document.next {
        let due = next.endpoint_waits_until.unwrap_or(next.not_before).max(now.into());
        let point = |at, kind, label: &str, told: &str| Point {
            at: since(at),
            kind,
            label: label.to_owned(),
            told: told.to_owned(),
        };
        points.push(point(due, Kind::Next, "next", "the next attempt, not before"));
        points.push(point(next.expires, Kind::End, "end", "its time-to-live ends"));
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
    use gridpost_ops::testkit::documents;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_picture_has_attempts_what_comes_and_the_end() {
        let document = documents::delivery(&json!({"publishTime": "2026-01-01T00:00:00Z",
            "attempts": [{"attempt": 1, "startTime": "2026-01-01T00:00:01Z", "outcome": "Busy",
                "durationInMs": 1}],
            "next": {"attempt": 2, "notBefore": "2026-01-01T00:00:11Z", "expires": "2026-01-01T01:00:00Z"}}));
        let document: DeliveryShown = serde_json::from_value(document).expect("a delivery");
        let points = points(&document, Timestamp::from_millis(0));
        let found: Vec<_> = points.iter().map(|point| (point.at, point.kind)).collect();
        assert_eq!(found, [(1.0, Kind::Failed), (11.0, Kind::Next), (3_600.0, Kind::End)]);
        assert!(next(&document).starts_with("Next: attempt 2 not before"), "{}", next(&document));
    }
}

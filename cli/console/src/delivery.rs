//! Deliveries that have failed: listed, shown attempt by attempt, attempted now.

use std::time::Duration;

use axum::Form;
use axum::extract::{Path, Query, State};
use axum::response::Redirect;
use gridpost_api::{
    client::Page,
    delivery::{Attempt, AttemptReason, Delivery, DeliveryShown, DeliveryStatus, NextAttempt},
    health::Health,
    schema::Time,
    subscription::EventSubscription,
};
use gridpost_core::time::Timestamp;
use maud::{Markup, html};

use super::App;
use super::chart::{self, Coming, Kind};
use super::failure::{self, Answer};
use super::form::{Look, Nothing};
use super::kit::{self, Icon};
use super::page::{Frame, Head, Names, Tab, live_part};
use super::standing::{self, Standing};
use super::text::{self, number};
use super::urls::{self, subscription_url, with_query};
use gridpost_ops::{lookup::wait_is_over, output};

/// Other deliveries that the page of one lists.
const OTHERS: usize = 5;

pub(super) async fn list(
    State(app): State<App>,
    Path((topic, name)): Names,
    Query(look): Query<Look>,
) -> Answer {
    let (page, health, now) = tokio::join!(
        app.api.deliveries_page(&topic, &name, look.after.as_deref()),
        app.api.health(&topic, &name),
        app.settings.target.now()
    );
    let (page, now) = (page?, now?);
    let url = subscription_url(&topic, &name, "/deliveries");
    let until = health.as_ref().ok().and_then(|health| waits_until(health, now));
    let row = |one: &Delivery| {
        vec![
            link(&url, one),
            text::time(one.publish_time),
            html! { (number(one.events.into())) },
            html! { (one.delivery_attempts) },
            kit::answer(one.last_delivery_outcome.as_deref(), one.last_http_status_code),
            html! { @if let Some(at) = one.last_delivery_attempt_time { (text::time(at)) } },
            html! {
                @if one.status != DeliveryStatus::Waiting { (status(one)) }
                @else if until > one.due { "waits for the endpoint" }
                @else { (text::time(one.due)) }
            },
        ]
    };
    let rows: Vec<_> = page.items.iter().map(row).collect();
    let body = html! {
        @match &health {
            Err(error) => (failure::problem("Its endpoint's health could not be read.", error)),
            Ok(health) => (held(health, now)),
        }
        @if rows.is_empty() {
            @let events = with_query("/events", &[("topic", &topic)]);
            @let find = kit::button(&events, Some(Icon::Search), "Find an event");
            (kit::flush("", "", kit::nothing(Icon::Check, "No failing delivery waits here",
                "What was delivered at once, or has ended, is found by its event.", find, "")))
        } @else {
            @let head = [("Delivery", "gr"), ("Published", "nw"), ("Events", "n"), ("Attempts", "n"),
                ("Last answer", ""), ("Last attempt", "nw"), ("Next attempt", "nw")];
            (kit::flush("", "", kit::table("Failing deliveries", &head, &rows)))
        }
        (kit::next_page(&url, &[], page.next.as_deref()))
    };
    let command = format!("delivery list --topic {topic} --subscription {name}");
    let above = urls::above(&topic, &name);
    let frame = Frame { tab: Tab::Topics, title: "Failing deliveries", above, command };
    Ok(app.page_of(&frame, &Head::default(), &body))
}

fn link(url: &str, one: &Delivery) -> Markup {
    html! { a.cut.mono href={ (url) "/" (one.id) } { (one.id) } }
}

/// Returns until when the endpoint gets nothing.
fn waits_until(health: &Health, now: Timestamp) -> Option<Time> {
    let paused = health.pause.as_ref().map(|pause| pause.until);
    paused.or(health.until.filter(|_| !wait_is_over(health, now)))
}

/// Says that what is due is not attempted, because the endpoint waits.
fn held(health: &Health, now: Timestamp) -> Markup {
    let Some(until) = waits_until(health, now) else { return html! {} };
    let until = text::time(until);
    let (kind, title, told) = match &health.pause {
        Some(_) => {
            let told = html! { "Until it is resumed, or " (until) "." };
            (Kind::Mute, "It is paused: what is due waits", told)
        }
        None => {
            let told = html! { "Until " (until) "; then one delivery probes." };
            (Kind::Warn, "The endpoint waits: what is due is not attempted yet", told)
        }
    };
    kit::note(kind, title, told, "")
}

fn status(delivery: &Delivery) -> Markup {
    let kind = match delivery.status {
        DeliveryStatus::Waiting => Kind::Warn,
        DeliveryStatus::Ending | DeliveryStatus::Ended => Kind::Dead,
        DeliveryStatus::Delivered => Kind::Ok,
    };
    kit::pill(kind, &delivery.status.to_string())
}

/// Shows a delivery. What can't be read beside it is told, and nothing else is lost.
pub(super) async fn show(
    State(app): State<App>,
    Path((topic, name, id)): Path<(String, String, String)>,
    Query(look): Query<Look>,
) -> Answer {
    let (shown, now, health, subscription, others) = tokio::join!(
        app.api.delivery(&topic, &name, &id),
        app.settings.target.now(),
        app.api.health(&topic, &name),
        app.api.subscription(&topic, &name),
        app.api.deliveries_page(&topic, &name, None),
    );
    let (shown, now) = (shown?, now?);
    let subscription = subscription.map(|read| read.document);
    let list = subscription_url(&topic, &name, "/deliveries");
    let url = format!("{list}/{}", urls::part(&id));
    let legend =
        [(Kind::Bad, "failed", None), (Kind::Mute, "wait", None), (Kind::Dead, "end", None)];
    let body = html! {
        (kit::done(look.done.as_deref()))
        (live_part("delivery", &html! {
            (tiles(&shown, subscription.as_ref().ok(), now))
            div.g.g21 {
                div {
                    (kit::flush("Attempts", chart::legend(&legend), html! {
                        (waterfall(&shown, now))
                        @if shown.attempts.is_empty() {
                            p.in { "Not attempted so far: its endpoint gets nothing at present." }
                        }
                    }))
                }
                div {
                    (kit::card("This delivery", "", facts(&shown, &topic, &name)))
                    @match &health {
                        Err(error) => (failure::problem("Its endpoint's health could not be read.", error)),
                        Ok(health) => (health_card(&app, &subscription_url(&topic, &name, ""), health)),
                    }
                    (also_waiting(&list, &others, &shown.delivery))
                }
            }
        }))
    };
    let command =
        format!("delivery show {} --topic {topic} --subscription {name}", output::word(&id));
    let mut above = urls::above(&topic, &name);
    above.push((list, "Failing deliveries".to_owned()));
    let probes = health.as_ref().is_ok_and(|health| {
        health.next_probe.is_some_and(|probe| probe.delivery == Some(shown.delivery.id))
    });
    let head = Head {
        beside: Some(html! {
            (kit::copy(&id, "the id"))
            (live_part("status", &html! {
                (status(&shown.delivery))
                @if probes { " " span.sm.m { "it probes the endpoint now" } }
            }))
        }),
        actions: Some(live_part("act", &attempt_now(&app, &url, &shown.delivery))),
        live: Some(url.clone()),
        ..Head::default()
    };
    let title = format!("Delivery {}", id.get(..8).unwrap_or(&id));
    Ok(app.page_of(&Frame { tab: Tab::Topics, title: &title, above, command }, &head, &body))
}

/// The button that has a delivery attempted now, as long as the API takes that: while it waits, due or not.
/// It is a part of what refreshes itself, since that changes while one looks.
pub(super) fn attempt_now(app: &App, url: &str, delivery: &Delivery) -> Markup {
    html! {
        @if delivery.status == DeliveryStatus::Waiting && app.may_change() {
            (app.act(&format!("{url}/resend"), html! {
                button.pri id={ "resend-" (delivery.id) } title="Whatever its wait and its endpoint's health" {
                    (kit::icon(Icon::Play)) "Attempt now"
                }
            }))
        }
    }
}

/// Returns when its times began to run.
fn began(delivery: &Delivery) -> Time {
    delivery.redriven_time.unwrap_or(delivery.publish_time)
}

/// Returns when the next attempt is due, unless its time-to-live ends before.
fn due(next: &NextAttempt, now: Timestamp) -> Option<Time> {
    let due = next.endpoint_waits_until.or(next.paused_until).unwrap_or(next.not_before);
    Some(due).filter(|due| now.max(due.0) < next.expires.0)
}

fn tiles(shown: &DeliveryShown, of: Option<&EventSubscription>, now: Timestamp) -> Markup {
    let DeliveryShown { delivery, attempts, next } = shown;
    let settings = of.map(|of| &of.properties.settings);
    let retry = settings.and_then(|settings| settings.retry_policy.as_ref());
    let most = retry.and_then(|policy| policy.max_delivery_attempts.or(policy.max_delivery_count));
    let most = most.map_or(String::new(), |most| format!("of {most}"));
    let made = kit::unit(number(delivery.delivery_attempts.into()), most);
    let end = match settings {
        Some(settings) if settings.dead_letter_destination.is_some() => "as a dead letter",
        Some(_) => "lost: no dead letters are kept",
        None => "",
    };
    let ends = next.as_ref().map(|next| ("Ends", next.expires));
    let ends = ends.or(delivery.ended_at.map(|at| ("Ended", at)));
    html! {
        div.g.gt {
            @if let Some(next) = next {
                @let due = due(next, now);
                @let at = due.map_or(html! { "none" }, text::time);
                (kit::tile(None, "Next attempt", at, comes(due, next), ""))
            }
            @let last = delivery.last_delivery_attempt_time.map(text::time);
            (kit::tile(None, "Attempts", made, html! { @if let Some(last) = last { "the last " (last) } }, ""))
            @if let Some(outcome) = &delivery.last_delivery_outcome {
                @let words = text::words(outcome);
                @let status = delivery.last_http_status_code.map(|status| status.to_string());
                @let took = attempts.last().map(|last| Duration::from_millis(last.duration_in_ms));
                (kit::tile(None, "Last answer", status.as_ref().unwrap_or(&words), html! {
                    @if status.is_some() { (words) }
                    @if let Some(took) = took { " after " (chart::duration(took)) }
                }, ""))
            }
            @if let Some((label, at)) = ends { (kit::tile(None, label, text::time(at), end, "")) }
            (kit::tile(None, "Events", number(delivery.events.into()), "", ""))
        }
    }
}

/// Says why an attempt is made when it is.
fn because(reason: AttemptReason) -> &'static str {
    match reason {
        AttemptReason::Schedule => "its schedule",
        AttemptReason::LeastWait => "the least wait after such an answer",
        AttemptReason::RetryAfter => "the answer's Retry-After",
        AttemptReason::EndpointWaits => "the endpoint waits",
        AttemptReason::Resend => "it was asked for",
        AttemptReason::Pause => "it is paused",
    }
}

/// Says when the next attempt is made, and why then.
fn comes(due: Option<Time>, next: &NextAttempt) -> Markup {
    html! {
        @if let Some(due) = due {
            "not before " (text::clock(due)) @if let Some(why) = next.because { ": " (because(why)) }
        } @else { "its time-to-live ends before" }
    }
}

/// Places its attempts, the next one and the end of its time on an axis that begins at the publish.
fn waterfall(shown: &DeliveryShown, now: Timestamp) -> Markup {
    let began = began(&shown.delivery);
    let since = |at: Time| at.0.since(began.0).as_secs_f64();
    let attempt = |one: &Attempt| chart::Attempt {
        number: one.attempt,
        status: kit::answer(Some(&one.outcome), one.http_status_code),
        kind: if one.outcome == "Delivered" { Kind::Ok } else { Kind::Bad },
        begins: since(one.start_time),
        took: Duration::from_millis(one.duration_in_ms),
        told: html! {
            (text::clock(one.start_time)) ", after " (chart::duration(one.start_time.0.since(began.0)))
            @if let Some(events) = one.events { " · " (text::counted(events.into(), "event", "events")) }
            @if let Some(why) = one.wait_because { " · then waits: " (because(why.into())) }
        },
        response: one.response.clone().unwrap_or_default(),
    };
    let attempts: Vec<_> = shown.attempts.iter().map(attempt).collect();
    let coming = shown.next.as_ref().map(|next| {
        let due = due(next, now);
        Coming {
            number: next.attempt,
            status: kit::pill(Kind::Off, if due.is_some() { "next" } else { "none" }),
            at: due.map(|due| since(due.max(now.into()))),
            ends: since(next.expires),
            told: html! {
                (comes(due, next)) @if due.is_some() { " · its time-to-live ends " } @else { ", " }
                (text::time(next.expires))
            },
        }
    });
    chart::waterfall(&attempts, coming.as_ref(), now.since(began.0).as_secs_f64())
}

fn facts(DeliveryShown { delivery, .. }: &DeliveryShown, topic: &str, name: &str) -> Markup {
    let time = |at: Option<Time>| at.map(text::time).unwrap_or_default();
    let reason = delivery.reason.as_deref().unwrap_or_default();
    let url = subscription_url(topic, name, "");
    kit::kv(&[
        ("Status", html! { (delivery.status) }),
        ("Reason", text::soft(reason)),
        ("Topic", html! { a href=(urls::topic_url(topic)) { (text::soft(topic)) } }),
        ("Event subscription", html! { a href=(url) { (text::soft(name)) } }),
        ("Published", time(Some(delivery.publish_time))),
        ("Sent by a redrive", time(delivery.redriven_time)),
        ("Ended", time(delivery.ended_at)),
        ("Id", html! { span.mono { (delivery.id) } }),
    ])
}

fn health_card(app: &App, url: &str, health: &Health) -> Markup {
    let fixed = html! {
        @if health.until.is_some() && app.may_change() {
            @let button = html! { button id="fixed" { (kit::icon(Icon::Check)) "Mark as fixed" } };
            (app.act(&format!("{url}/reset"), button))
        }
    };
    let rows = [
        ("State", Standing::of(health, None).pill()),
        ("Since", standing::since(health)),
        ("Why", standing::why(health, None)),
        ("New events", standing::effect(health)),
        ("Failures in a row", html! { (number(health.failures_in_row.into())) }),
    ];
    kit::card("Endpoint health", fixed, kit::kv(&rows))
}

fn also_waiting(list: &str, others: &anyhow::Result<Page<Delivery>>, shown: &Delivery) -> Markup {
    let others = match others {
        Ok(others) => others.items.iter().filter(|one| one.id != shown.id),
        Err(error) => return failure::problem("What else waits could not be read.", error),
    };
    let row = |one: &Delivery| {
        vec![link(list, one), text::time(one.publish_time), html! { (one.delivery_attempts) }]
    };
    let rows: Vec<_> = others.take(OTHERS).map(row).collect();
    let head = [("Delivery", "gr"), ("Published", "nw"), ("Attempts", "n")];
    kit::listed("Also waiting", html! { a.sm href=(list) { "List" } }, &head, &rows)
}

pub(super) async fn resend(
    State(app): State<App>,
    Path((topic, name, id)): Path<(String, String, String)>,
    Form(Nothing {}): Form<Nothing>,
) -> Answer<Redirect> {
    app.api.resend(&topic, &name, &id).await?;
    let below = format!("/deliveries/{}?done=resent", urls::part(&id));
    Ok(Redirect::to(&subscription_url(&topic, &name, &below)))
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::json;

    use super::*;

    fn shown(next: &serde_json::Value) -> DeliveryShown {
        let document = documents::delivery(&json!({"publishTime": "2026-01-01T00:00:00Z",
            "attempts": [{"attempt": 1, "startTime": "2026-01-01T00:00:01Z", "outcome": "Busy",
                "durationInMs": 1, "waitBecause": "Schedule", "response": "<b>"}], "next": next}));
        serde_json::from_value(document).expect("a delivery")
    }

    #[test]
    fn the_picture_has_attempts_what_comes_and_the_end() {
        let expires = "2026-01-01T01:00:00Z";
        let next = json!({"attempt": 2, "notBefore": "2026-01-01T00:00:11Z", "expires": expires});
        let (mut pauses, mut ends) = (next.clone(), next);
        pauses["because"] = json!("Pause");
        ends["endpointWaitsUntil"] = json!(expires);
        // What comes, what is told of it.
        for (next, parts) in [
            (pauses, ["not before <time", "it is paused · its time-to-live ends"]),
            (ends, ["its time-to-live ends before, <time", ">none<"]),
        ] {
            let drawn = waterfall(&shown(&next), Timestamp::from_millis(0)).into_string();
            let attempt = ["after 1 s · then waits: its schedule", "&lt;b&gt;"];
            for part in parts.into_iter().chain(attempt) {
                assert!(drawn.contains(part), "{part} is not in {drawn}");
            }
        }
    }

    #[test]
    fn what_is_due_waits_for_the_endpoint_and_that_is_told() {
        let until = "2026-01-01T00:00:30Z";
        let pause =
            json!({"since": until, "until": "2026-01-02T00:00:00Z", "timeToLiveRuns": true});
        let now = Timestamp::parse_rfc_3339("2026-01-01T00:00:00Z").expect("a time");
        for (patch, later, want) in [
            (json!({}), 0, ""),
            (json!({ "until": until }), 0, "then one delivery probes"),
            (json!({ "until": until }), 30, ""),
            (json!({"until": until, "pause": pause}), 30, "Until it is resumed, or"),
        ] {
            let health = serde_json::from_value(documents::health(&patch)).expect("a health");
            let told = held(&health, now + Duration::from_secs(later)).into_string();
            assert_eq!(told.is_empty(), want.is_empty(), "{told}");
            assert!(told.contains(want), "{told}");
        }
    }
}

//! Deliveries that have failed: listed, shown attempt by attempt, attempted now.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use axum::extract::{Path, Query, State};
use gridpost_api::{
    client::Page,
    delivery::{Attempt, Delivery, DeliveryShown, DeliveryStatus, NextAttempt},
    health::Health,
    schema::Time,
    subscription::EventSubscription,
};
use gridpost_core::time::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use super::App;
use super::action::Action;
use super::attempts;
use super::below::tabs;
use super::chart::{self, Coming, Kind};
use super::failure::{self, Answer};
use super::form::Look;
use super::kit::{self, Icon};
use super::page::{Frame, Head, Names, Tab, live_part};
use super::standing::{self, Standing};
use super::subscription::{NO_HEALTH, remedy, state_note};
use super::text::{self, number};
use super::urls::{self, subscription_url, with_query};
use gridpost_ops::{attempt_lines::AttemptLine, lookup::wait_is_over, output};

/// Other deliveries that the page of one lists.
const OTHERS: usize = 5;

/// Newest failed attempts that are looked at for the events of deliveries.
const ATTEMPTS_MAX: usize = 100;

#[derive(Deserialize)]
pub(super) struct ListQuery {
    after: Option<String>,
    /// Only deliveries whose last attempt had this outcome.
    outcome: Option<String>,
}

/// Lines of the journal by their deliveries.
type Lines = HashMap<Uuid, AttemptLine>;

/// Returns the newest failed attempt of each delivery: it names the events, which the delivery's state does not.
async fn newest(app: &App, (topic, name): (&str, &str), now: Timestamp) -> anyhow::Result<Lines> {
    let answer = app.newest((topic, name), true, ATTEMPTS_MAX, now).await?;
    let lines = attempts::lines(&answer).into_iter().rev();
    Ok(lines.map(|line| (line.delivery_id, line)).collect())
}

pub(super) async fn list(
    State(app): State<App>,
    Path((topic, name)): Names,
    Query(query): Query<ListQuery>,
) -> Answer {
    let now = app.settings.target.now().await?;
    let (page, health, lines) = tokio::join!(
        app.api.deliveries_page(&topic, &name, query.after.as_deref()),
        app.api.health(&topic, &name),
        newest(&app, (&topic, &name), now)
    );
    let page = page?;
    let url = subscription_url(&topic, &name, "/deliveries");
    let is_paused = health.as_ref().is_ok_and(|health| health.pause.is_some());
    let held = if is_paused { "waits for the end of the pause" } else { "waits for the endpoint" };
    let until = health.as_ref().ok().and_then(|health| waits_until(health, now));
    let row = |one: &Delivery| {
        let line = lines.as_ref().ok().and_then(|lines| lines.get(&one.id));
        vec![
            link(&url, one),
            events(one, line, 1),
            text::time(one.publish_time),
            html! { (one.delivery_attempts) },
            kit::answer(one.last_delivery_outcome.as_deref(), one.last_http_status_code),
            html! { @if let Some(at) = one.last_delivery_attempt_time { (text::time(at)) } },
            html! {
                @if one.status != DeliveryStatus::Waiting { (status(one)) }
                @else if until > one.due { (held) }
                @else if let Some(due) = one.due { (due_at(due, now)) }
            },
        ]
    };
    let [after, outcome] =
        [&query.after, &query.outcome].map(|value| value.as_deref().unwrap_or_default());
    let is_chosen = |one: &&Delivery| outcome.is_empty() || last_outcome(one) == outcome;
    let rows: Vec<_> = page.items.iter().filter(is_chosen).map(row).collect();
    let head = [
        ("Delivery", "nw"),
        ("Events", "gr"),
        ("Published", "nw"),
        ("Attempts", "n"),
        ("Last answer", ""),
        ("Last attempt", "nw"),
        ("Next attempt", "nw"),
    ];
    let find = with_query("/events", &[("topic", &topic)]);
    let find = kit::button(&find, Some(Icon::SEARCH), "Find an event");
    let (title, told) = match page.items.is_empty() {
        true => (
            "No failing delivery waits here",
            "What was delivered at once, or has ended, is found by its event.",
        ),
        false => (
            "No such delivery on this page",
            "The last attempts of all that it has had other answers.",
        ),
    };
    let is_named = |lines: &Lines| page.items.iter().all(|one| lines.contains_key(&one.id));
    let body = html! {
        (failure::or_problem(NO_HEALTH, &health, |health| state_note(health, None, now)))
        (kit::flush("Deliveries", outcomes(&url, (after, outcome), &page), html! {
            @if rows.is_empty() { (kit::nothing(Icon::CHECK, title, told, find, "")) }
            @else { (kit::table("Failing deliveries", &head, &rows)) }
        }))
        @match &lines {
            Err(error) => (failure::problem("Which events these are could not be read.", error)),
            Ok(lines) if is_named(lines) => {},
            Ok(_) => p.sm.m { "Events are named by the newest " (ATTEMPTS_MAX) " failed attempts of the last day." },
        }
        (kit::next_page(&url, &[("outcome", outcome)], page.next.as_deref()))
    };
    let command = format!("delivery list --topic {topic} --subscription {name}");
    let above = urls::above(&[&topic, &name]);
    let frame = Frame { tab: Tab::Topics, title: "Failing deliveries", above, command };
    let head =
        Head { tabs: Some(tabs(&topic, &name, "/deliveries")), is_live: true, ..Head::default() };
    Ok(app.page_of(&frame, &head, &live_part("deliveries", &body)))
}

/// Shows so many of its events, or how many it has.
fn events(one: &Delivery, line: Option<&AttemptLine>, most: usize) -> Markup {
    let count = || html! { (text::counted(one.events.into(), "event", "events")) };
    line.map_or_else(count, |line| attempts::some_events(line, most))
}

fn last_outcome(one: &Delivery) -> &str {
    one.last_delivery_outcome.as_deref().unwrap_or("NotAttempted")
}

/// Links to the deliveries of a page by the outcome of their last attempts.
fn outcomes(url: &str, (after, on): (&str, &str), page: &Page<Delivery>) -> Markup {
    let mut counts = BTreeMap::from([("", page.items.len() as u64)]);
    for one in &page.items {
        *counts.entry(last_outcome(one)).or_default() += 1;
    }
    let name =
        |outcome: &str| if outcome.is_empty() { "All".to_owned() } else { text::outcome(outcome) };
    html! {
        @if counts.len() > 2 || !on.is_empty() {
            nav.row aria-label="Last answer" {
                @for (outcome, count) in counts {
                    a class=(if outcome == on { "btn chip pri" } else { "btn chip" })
                        aria-current=[(outcome == on).then_some("true")]
                        href=(with_query(url, &[("after", after), ("outcome", outcome)])) {
                        (name(outcome)) " " (number(count))
                    }
                }
                @if page.next.is_some() || !after.is_empty() { span.sm.m { "of the deliveries on this page alone" } }
            }
        }
    }
}

fn link(url: &str, one: &Delivery) -> Markup {
    html! { a.cut.mono href={ (url) "/" (one.id) } { (one.id) } }
}

/// Returns until when the endpoint gets nothing.
fn waits_until(health: &Health, now: Timestamp) -> Option<Time> {
    let paused = health.pause.as_ref().map(|pause| pause.until);
    paused.or(health.until.filter(|_| !wait_is_over(health, now)))
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
    let now = app.settings.target.now().await?;
    let (shown, health, subscription, others, lines) = tokio::join!(
        app.api.delivery(&topic, &name, &id),
        app.api.health(&topic, &name),
        app.api.subscription(&topic, &name),
        app.api.deliveries_page(&topic, &name, None),
        newest(&app, (&topic, &name), now),
    );
    let (shown, lines) = (shown?, lines.unwrap_or_default());
    let subscription = subscription.map(|read| read.document);
    let list = subscription_url(&topic, &name, "/deliveries");
    let url = format!("{list}/{}", urls::part(&id));
    let legend =
        [(Kind::Warn, "failed"), (Kind::Bad, "refused"), (Kind::Mute, "wait"), (Kind::Dead, "end")];
    let legend = legend.map(|(kind, name)| (kind, name, None));
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
                    (kit::card("This delivery", "", facts(&shown.delivery, lines.get(&shown.delivery.id))))
                    (failure::or_problem(NO_HEALTH, &health, |health| {
                        health_card(&app, &subscription_url(&topic, &name, ""), &name, health)
                    }))
                    (also_waiting(&list, &others, &shown.delivery))
                }
            }
        }))
    };
    let command =
        format!("delivery show {} --topic {topic} --subscription {name}", output::word(&id));
    let mut above = urls::above(&[&topic, &name]);
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
        tabs: Some(tabs(&topic, &name, "/deliveries")),
        is_live: true,
        ..Head::default()
    };
    let title = format!("Delivery {}", id.get(..8).unwrap_or(&id));
    Ok(app.page_of(&Frame { tab: Tab::Topics, title: &title, above, command }, &head, &body))
}

/// The button that has a delivery attempted now, as long as the API takes that: while it waits, due or not.
/// It is a part of what refreshes itself, since that changes while one looks.
pub(super) fn attempt_now(app: &App, url: &str, delivery: &Delivery) -> Markup {
    html! {
        @if delivery.status == DeliveryStatus::Waiting {
            (Action::Resend.form(app, url, html! {
                button.pri id={ "resend-" (delivery.id) } title="Whatever its wait and its endpoint's health" {
                    (kit::icon(Icon::PLAY)) "Attempt now"
                }
            }))
        }
    }
}

/// Returns when the next attempt is due, unless its time-to-live ends before.
pub(super) fn due(next: &NextAttempt, now: Timestamp) -> Option<Time> {
    let due = next.endpoint_waits_until.or(next.paused_until).unwrap_or(next.not_before);
    Some(due).filter(|due| now.max(due.0) < next.expires.0)
}

fn tiles(shown: &DeliveryShown, of: Option<&EventSubscription>, now: Timestamp) -> Markup {
    let DeliveryShown { delivery, attempts, next } = shown;
    let settings = of.map(|of| &of.properties.settings);
    let retry = settings.and_then(|settings| settings.retry_policy.as_ref());
    let most = retry.and_then(|policy| policy.max_delivery_attempts.or(policy.max_delivery_count));
    let most = most.map_or(String::new(), |most| format!("of {most}"));
    // The state counts no success, which is an attempt.
    let last = attempts.last();
    let made = delivery.delivery_attempts.max(last.map_or(0, |last| last.attempt));
    let made = kit::unit(number(made.into()), most);
    let answer = last.map(|last| (&last.outcome, last.http_status_code));
    let answer = answer
        .or(delivery.last_delivery_outcome.as_ref().map(|it| (it, delivery.last_http_status_code)));
    let at = last.map(|last| last.start_time).or(delivery.last_delivery_attempt_time);
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
                @let at = due.map(|due| if due.0 <= now { html! { "due" } } else { text::time(due) });
                (kit::tile("", None, "Next attempt", at.unwrap_or(html! { "none" }), comes(due, next, now), ""))
            }
            (kit::tile("", None, "Attempts", made, html! { @if at.is_some() { "the last " (text::time(at)) } }, ""))
            @if let Some((outcome, status)) = answer {
                @let took = last.map(|last| Duration::from_millis(last.duration_in_ms));
                (kit::tile("", None, "Last answer", text::met(outcome, status), html! {
                    (text::words(outcome)) @if let Some(took) = took { " after " (chart::duration(took)) }
                }, ""))
            }
            @if let Some((label, at)) = ends { (kit::tile("", None, label, text::time(at), end, "")) }
            (kit::tile("", None, "Events", number(delivery.events.into()), "", ""))
        }
    }
}

/// Says when the next attempt is made, and why then.
fn comes(due: Option<Time>, next: &NextAttempt, now: Timestamp) -> Markup {
    html! {
        @if let Some(due) = due {
            @if due.0 <= now { "due since " } @else { "not before " } (text::clock(due))
            @if let Some(why) = next.because { ", " (attempts::because(why)) }
        } @else { "its time-to-live ends before" }
    }
}

/// Says when an attempt is due; what is past has not come for that alone.
pub(super) fn due_at(due: Time, now: Timestamp) -> Markup {
    html! { @if due.0 <= now { "due since " (text::clock(due)) } @else { (text::time(due)) } }
}

/// Places its attempts, the next one and the end of its time on an axis that begins at the publish.
fn waterfall(shown: &DeliveryShown, now: Timestamp) -> Markup {
    let DeliveryShown { delivery, attempts, next } = shown;
    let began = delivery.redriven_time.unwrap_or(delivery.publish_time);
    let since = |at: Time| at.0.since(began.0).as_secs_f64();
    let attempt = |one: &Attempt| chart::Attempt {
        number: one.attempt,
        status: kit::answer(Some(&one.outcome), one.http_status_code),
        kind: kit::answer_kind(&one.outcome, one.http_status_code),
        begins: since(one.start_time),
        took: Duration::from_millis(one.duration_in_ms),
        told: html! {
            (text::clock(one.start_time)) ", after " (chart::duration(one.start_time.0.since(began.0)))
            @if let Some(events) = one.events { " · " (text::counted(events.into(), "event", "events")) }
            @if let Some(why) = one.wait_because { " · then a wait " (attempts::because(why.into())) }
        },
        response: one.response.clone().unwrap_or_default(),
    };
    let attempts: Vec<_> = attempts.iter().map(attempt).collect();
    let coming = next.as_ref().map(|next| {
        let due = due(next, now);
        Coming {
            number: next.attempt,
            status: kit::pill(Kind::Off, if due.is_some() { "next" } else { "none" }),
            at: due.map(|due| since(due.max(now.into()))),
            ends: since(next.expires),
            told: html! {
                (comes(due, next, now)) @if due.is_some() { " · its time-to-live ends " } @else { ", " }
                (text::time(next.expires))
            },
        }
    });
    chart::waterfall(&attempts, coming.as_ref(), now.since(began.0).as_secs_f64())
}

fn facts(delivery: &Delivery, line: Option<&AttemptLine>) -> Markup {
    let time = |at: Option<Time>| at.map(text::time).unwrap_or_default();
    kit::kv(&[
        ("Events", events(delivery, line, 10)),
        ("Reason", text::soft(&delivery.reason.as_deref().map(text::reason).unwrap_or_default())),
        ("Published", text::time(delivery.publish_time)),
        ("Sent by a redrive", time(delivery.redriven_time)),
        ("Ended", time(delivery.ended_at)),
        ("Id", html! { span.mono { (delivery.id) } }),
    ])
}

fn health_card(app: &App, url: &str, name: &str, health: &Health) -> Markup {
    let remedy = remedy(app, url, health, Some(name)).unwrap_or_default();
    let rows = [
        ("State", Standing::of(health, None).pill(true)),
        ("Since", standing::since(health)),
        ("Why", standing::why(health, None)),
        ("New events", standing::effect(health)),
        ("Failures in a row", html! { (number(health.failures_in_row.into())) }),
    ];
    kit::card("Endpoint health", remedy, kit::kv(&rows))
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

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_success_is_the_last_attempt_though_the_state_counts_failures_alone() {
        let attempt = json!({"attempt": 2, "startTime": "2026-01-01T00:00:09Z", "durationInMs": 12,
            "outcome": "Success", "httpStatusCode": 200});
        let state = documents::delivery(&json!({"status": "Delivered", "attempts": [attempt],
            "deliveryAttempts": 1, "lastDeliveryOutcome": "Busy", "lastHttpStatusCode": 503}));
        let shown = serde_json::from_value(state).expect("a delivery");
        let shown = tiles(&shown, None, Timestamp::from_millis(0)).into_string();
        assert!(shown.contains("200") && !shown.contains("503"), "{shown}");
    }

    #[test]
    fn what_is_past_is_due_since_then() {
        let now = Timestamp::from_millis(1_000);
        for (due, want) in [(999, true), (1_000, true), (1_001, false)] {
            let told = due_at(Timestamp::from_millis(due).into(), now).into_string();
            assert_eq!(told.starts_with("due since "), want, "{told}");
        }
    }
}

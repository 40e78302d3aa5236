//! An event subscription: how its endpoint is, what becomes of its events, and what can be done about it.

use std::sync::Arc;

use axum::Form;
use axum::extract::{Path, Query, State};
use gridpost_api::{
    health::{Health, NewEvents},
    journal::JournalQuery,
    subscription::{EventSubscription, RotateInput, SigningSecrets},
};
use gridpost_core::ledger::{Account, Latencies};
use gridpost_core::time::Timestamp;
use gridpost_ops::{lookup::wait_is_over, output::word, subscription::show};
use maud::{Markup, html};

use super::action::{Action, Fields};
use super::below::tabs;
use super::chart::{self, Heat, Kind};
use super::failure::{self, Answer};
use super::keys::{self, Section};
use super::kit::{self, Icon};
use super::page::{Frame, Head, Names, Tab, live_part};
use super::standing::{self, Standing};
use super::text::{self, number, visible};
use super::tiles;
use super::traffic::{Scope, Since, SinceQuery, Traffic, total};
use super::urls::{self, subscription_url, topic_url, with_query};
use super::{App, attempts, retry, settings};

/// Newest attempts that are shown.
const ATTEMPTS_MAX: usize = 8;

/// The most steps that the heat map and the bars have: more would be thinner than a pixel on a phone.
const STEPS_MAX: usize = 84;

pub(super) const NO_HEALTH: &str = "The endpoint's health could not be read.";
const NO_TRAFFIC: &str = "The traffic could not be read.";

pub(super) async fn show(
    State(app): State<App>,
    Path((topic, name)): Names,
    Query(query): Query<SinceQuery>,
) -> Answer {
    of_subscription(&app, &topic, &name, query, None).await
}

async fn of_subscription(
    app: &App,
    topic: &str,
    name: &str,
    query: SinceQuery,
    secrets: Option<&SigningSecrets>,
) -> Answer {
    let since = query.since();
    let failed = query.failed.is_some();
    let now = app.settings.target.now().await?;
    let scope = Scope { topic: Some(topic), name: Some(name) };
    let (of_topic, document, health, traffic, newest, hours) = tokio::join!(
        app.api.topic(topic),
        app.api.subscription(topic, name),
        app.api.health(topic, name),
        app.traffic(scope, since, now),
        app.newest((topic, name), failed, 2 * ATTEMPTS_MAX, now),
        app.waiting_by_hour(topic, name, now)
    );
    let document = document?;
    let url = subscription_url(topic, name, "");
    let traffic = traffic.map(|traffic| traffic.coarser(STEPS_MAX));
    let counted = traffic.as_ref().ok().map(|traffic| &traffic.total.account);
    let body = html! {
        (kit::done(query.look.done.as_deref()))
        @if let Some(awaited) = show::awaited(&document.document) {
            (kit::note(Kind::Warn, "It has not consented yet", visible(&awaited), ""))
        }
        (live_part("health", &failure::or_problem(NO_HEALTH, &health, |health| html! {
            (state_note(health, counted, now)) (numbers(&url, health, traffic.as_ref().ok(), now))
        })))
        div.g.g21 {
            div {
                (live_part("traffic", &failure::or_problem(NO_TRAFFIC, &traffic, |traffic| html! {
                    (attempts_card(traffic, health.as_ref().ok(), &url, since)) (latency_card(traffic))
                })))
                (live_part("attempts", &newest_card(&newest, (topic, name), since, failed)))
            }
            div {
                (live_part("to-do", &html! { @if let Ok(health) = &health { (to_do(app, &url, &document, (health, counted))) } }))
                (live_part("hours", &html! { @if let Ok(hours) = &hours { (waiting_card(hours)) } }))
                @if let Ok(of_topic) = &of_topic {
                    (kit::card("Retry schedule", html! { a.sm href={ (url) "/retry" } { "Change" } },
                        retry::picture(of_topic, &document)))
                }
                (settings_card(app, &url, &document, secrets))
            }
        }
    };
    let pill = html! { @if let Ok(health) = &health { (Standing::of(health, counted).pill(counted.is_some())) } };
    let beside = html! {
        (live_part("standing", &pill))
        @let place = show::destination(&document);
        span.mono.m.sm { (text::soft(&place)) } (kit::copy(&place, "the endpoint"))
    };
    let head = Head {
        beside: Some(beside),
        actions: Some(actions(app, &url, health.as_ref().ok())),
        tabs: Some(tabs(topic, name, "")),
        // The address of a page with secrets is not one to read again.
        is_live: secrets.is_none(),
        ..Head::default()
    };
    let mut above = urls::above(&[]);
    above.push((with_query(&topic_url(topic, ""), &[("since", since.value)]), topic.to_owned()));
    let [topic, shown, since] = [word(topic), word(name), since.value.to_owned()];
    let command =
        format!("subscription health --topic {topic} --subscription {shown} --since {since}");
    Ok(app.page_of(&Frame { tab: Tab::Topics, title: name, above, command }, &head, &body))
}

/// Shows the button that lets deliveries go on, where a pause or a wait of the endpoint holds them. In a list it
/// says of what.
pub(super) fn remedy(app: &App, url: &str, health: &Health, of: Option<&str>) -> Option<Markup> {
    let (action, icon, label) = match health {
        Health { pause: Some(_), .. } => (Action::Resume, Icon::PLAY, "Resume"),
        Health { until: Some(_), .. } => (Action::Reset, Icon::CHECK, "Mark as fixed"),
        _ => return None,
    };
    let name = of.map(|of| format!("{label}: {of}"));
    let (class, id) = if of.is_none() { (Some("pri"), Some("remedy")) } else { (None, None) };
    let button = html! {
        button class=[class] id=[id] aria-label=[name] { @if of.is_none() { (kit::icon(icon)) } (label) }
    };
    Some(action.form(app, url, button))
}

/// Buttons that act on it; a read-only console has none that changes something.
fn actions(app: &App, url: &str, health: Option<&Health>) -> Markup {
    let is_paused = health.is_some_and(|health| health.pause.is_some());
    html! {
        (kit::button(&format!("{url}/test-event"), Some(Icon::SEND), "Send test event"))
        @if app.may_change() {
            (live_part("acts", &html! {
                div.row {
                    @if let Some(remedy) = health.and_then(|health| remedy(app, url, health, None)) { (remedy) }
                    @if !is_paused {
                        button type="button" popovertarget="pause" { (kit::icon(Icon::PAUSE)) "Pause…" }
                    }
                }
            }))
            // A popover that is replaced closes.
            div.card.in id="pause" popover {
                h2 { "Pause this event subscription?" }
                p.m2 { "Events are matched and held until it is resumed. Meanwhile their time-to-live:" }
                @for (life, label) in [("stops", "Pause, time-to-live is paused too"), ("runs", "Pause, time-to-live runs")] {
                    (Action::Pause.form(app, url, html! {
                        input type="hidden" name="life" value=(life);
                        button { (label) }
                    }))
                }
            }
        }
    }
}

/// Says in a sentence what its state does to events, and until when.
pub(super) fn state_note(health: &Health, counted: Option<&Account>, now: Timestamp) -> Markup {
    let standing = Standing::of(health, counted);
    let probes = html! {
        @if let Some(probe) = health.next_probe {
            @if probe.delivery.is_some() { " A probe is under way." }
            @else if wait_is_over(health, now) { " The next delivery probes." }
            @else { " The next probe is due " (text::time(probe.not_before)) "." }
        }
    };
    let because = html! {
        (text::counted(health.failures_in_row.into(), "attempt", "attempts in a row")) " failed"
        @let why = standing::why(health, None);
        @if !why.0.is_empty() { ", the last with " b { (why) } }
        @if let Some(since) = health.failing_since { "; the first failed " (text::time(since)) }
        "."
    };
    let why = standing::why(health, counted);
    let (title, told) = match standing {
        Standing::Healthy => return html! {},
        Standing::LosesSome => {
            let no_place = ", and it has no place for dead letters, or that could not be written";
            let told = html! {
                "They end undelivered (" (why) ")"
                @if counted.is_some_and(standing::lacks_place) { (no_place) } "."
            };
            ("Events are lost", told)
        }
        Standing::RefusesSome => {
            ("Some events are refused", html! { "They have become dead letters: " (why) "." })
        }
        Standing::EndsEvents => {
            let ends = " Until its probation ends each event ends without an attempt: as a dead letter, or lost \
                        without a dead-letter destination.";
            ("New events end at once", html! { (because) (ends) (probes) })
        }
        Standing::Probation | Standing::DelayedDelivery => {
            let waits = " One delivery probes at a time. Events wait until one succeeds, or their time-to-live ends.";
            ("New events are held back", html! { (because) (waits) (probes) })
        }
        Standing::Paused => {
            let until = health.pause.as_ref().map(|pause| pause.until);
            let besides = text::words(&health.state.to_string()).to_lowercase();
            let told = html! {
                "Events are matched and held: " (why) "."
                @if until.is_some() { " The pause ends by itself " (text::time(until)) "." }
                @if health.until.is_some() { " Besides, its endpoint is in " (besides) "." }
            };
            ("Paused", told)
        }
        Standing::NotValidated => ("Endpoint not validated", html! { "It gets no events." }),
        Standing::Expired => ("No events match", html! { "It has expired, or is not ready." }),
        Standing::Recovering => {
            ("Recovering", html! { "Attempts are let through, twice as many each second." })
        }
        Standing::Slow => {
            let lane = "Deliveries go to a lane of their own, a few at a time: ";
            ("Slow endpoint", html! { (lane) (why) "." })
        }
    };
    let kind = match standing.kind() {
        Kind::Dead | Kind::Off => Kind::Warn,
        kind => kind,
    };
    kit::note(kind, title, told, "")
}

fn numbers(url: &str, health: &Health, traffic: Option<&Traffic>, now: Timestamp) -> Markup {
    let oldest = health.waiting_deliveries.oldest_publish_time;
    let step =
        health.delayed_delivery.map(|delayed| format!("delayed delivery, step {}", delayed.step));
    html! {
        div.g.gt {
            (tiles::waiting_tile(&format!("{url}/deliveries"), &[health], true, traffic))
            @if let Some(oldest) = oldest {
                (kit::tile("", None, "Oldest retrying", text::ago(oldest.0, now),
                    html! { "published " (text::clock(oldest)) }, ""))
            }
            @let failures = number(health.failures_in_row.into());
            (kit::tile("", None, "Failures in a row", failures, "delivery is delayed after 10", ""))
            @if let Some(traffic) = traffic {
                (tiles::delivered_tile(traffic))
                (tiles::ended_tiles(&format!("{url}/dead-letters"), "", traffic))
            }
            @if let Some(probe) = health.next_probe.filter(|_| health.pause.is_none()) {
                @let due = format!("in {}", text::ago(now, probe.not_before.0));
                @let due = if wait_is_over(health, now) { "now" } else { &due };
                (kit::tile("", None, "Next probe", due, step.unwrap_or_default(), ""))
            }
        }
    }
}

fn attempts_card(traffic: &Traffic, health: Option<&Health>, url: &str, since: Since) -> Markup {
    let titles = ("Attempts", "Delivered events and failed attempts");
    let broke = health.and_then(standing::began).map(|at| at.0);
    traffic.figure(titles, Some(since.choice(url)), Traffic::attempts, broke)
}

fn latency_card(traffic: &Traffic) -> Markup {
    let whole = &traffic.total.account.latencies;
    if whole.events() == 0 {
        return html! {};
    }
    let label = "Time from publish to delivery";
    let columns = |traffic: &Traffic| -> Vec<Latencies> {
        traffic.steps.iter().map(|flow| flow.account.latencies.clone()).collect()
    };
    let (fine, rows, coarse) = (columns(traffic), columns(&traffic.in_rows()), traffic.in_rows());
    let heat = Heat { label, columns: &fine, begins: traffic.begins, step: traffic.step };
    let table = Heat { label, columns: &rows, begins: coarse.begins, step: coarse.step }.table();
    let beside = html! { span.sm.m { "darker: more events · line: p95" } };
    let body = html! { (chart::strip(whole)) (heat.picture()) };
    kit::figure("Publish to delivery", beside, body, table)
}

fn newest_card(
    newest: &anyhow::Result<Arc<JournalQuery>>,
    (topic, name): (&str, &str),
    since: Since,
    failed: bool,
) -> Markup {
    let url = subscription_url(topic, name, "");
    let live = with_query("/tail", &[("topic", topic), ("name", name)]);
    let link = |failed: &str| with_query(&url, &[("since", since.value), ("failed", failed)]);
    let on = if failed { "Failed" } else { "All" };
    let beside = html! {
        (kit::choice("Which attempts", on, &[("All", link("")), ("Failed", link("yes"))]))
        a.sm href=(live) { "Follow live" }
    };
    let body = match newest {
        Err(error) => {
            html! { div.in { (failure::problem("The attempts could not be read.", error)) } }
        }
        Ok(answer) => html! {
            @let none = match failed {
                true => "No failed attempt in the last 24 hours",
                false if answer.leaves_out.is_empty() => "No attempt in the last 24 hours",
                false => "No attempt is logged in the last 24 hours",
            };
            @let rows: Vec<_> = attempts::lines(answer).iter().take(ATTEMPTS_MAX)
                .map(|line| attempts::row(line, attempts::events(line))).collect();
            @if rows.is_empty() { (kit::nothing(Icon::TAIL, none, "", "", "")) }
            @else { (kit::table("Newest attempts", &attempts::head("Event"), &rows)) }
            @for gap in answer.gaps() { p.in.sm.m { (text::sentence(&gap)) } }
        },
    };
    kit::flush("Newest attempts", beside, body)
}

/// Says what helps, in the order in which it is done.
fn to_do(
    app: &App,
    url: &str,
    of: &EventSubscription,
    (health, counted): (&Health, Option<&Account>),
) -> Markup {
    let link = |below: &str, told: &str| html! { a href={ (url) (below) } { (told) } };
    let mut steps = Vec::new();
    let is_broken = matches!(health.new_events, NewEvents::Waits | NewEvents::Ends);
    if is_broken {
        steps.push(html! { "Fix the endpoint, whose last answer was " b { (standing::why(health, None)) } });
        steps.push(html! {
            (link("/test-event", "Send a test event")) ", or " (link("/deliveries", "attempt one delivery now"))
        });
    }
    if health.pause.is_none() && health.until.is_some() {
        steps.push(html! { b { "Mark as fixed" } ": what waits goes out at once, twice as many each second" });
    }
    if health.new_events == NewEvents::Held {
        steps.push(html! { b { "Resume" } " it when its endpoint may get events again" });
    }
    if counted.is_some_and(standing::lacks_place) {
        steps.push(match of.properties.settings.dead_letter_destination {
            None => html! { (link("/edit", "Give it a place for dead letters")) ", so that no more events are lost" },
            Some(_) => html! { "See why nothing can be written to its place for dead letters" },
        });
    }
    if counted.is_some_and(|account| total(&account.dead_lettered) > 0) {
        steps.push(html! { (link("/redrive", "Redrive its dead letters")) " once the endpoint takes them" });
    }
    let steps = if app.may_change() { &steps[..] } else { &steps[..is_broken.into()] };
    let list = html! {
        ol.hb {
            @for (at, step) in (1..).zip(steps) { li { span { span.pill.info { (at) } " " (step) } } }
        }
    };
    html! { @if !steps.is_empty() { (kit::card("What to do", "", list)) } }
}

fn waiting_card(hours: &[(Timestamp, u64)]) -> Markup {
    let sum: u64 = hours.iter().map(|(_, events)| events).sum();
    let row = |&(hour, events): &(Timestamp, u64)| {
        let share = chart::mini(&[(Kind::Warn, events, "waiting"), (Kind::Off, sum - events, "")]);
        vec![chart::hour(hour, true), html! { (number(events)) }, share]
    };
    let rows: Vec<_> = hours.iter().map(row).collect();
    let head = [("Hour", "nw"), ("Events", "n"), ("Share", "gr")];
    kit::listed("Waiting of the last 24 h, by hour of publish", "", &head, &rows)
}

fn settings_card(
    app: &App,
    url: &str,
    document: &EventSubscription,
    secrets: Option<&SigningSecrets>,
) -> Markup {
    let section = Section {
        title: "Signing secret",
        url: &format!("{url}/secrets"),
        rows: secret_rows(secrets),
        is_shown: secrets.is_some(),
        rotate: &[(
            "secret",
            "Requests carry signatures by both secrets for a while, then by the new one alone.",
        )],
    };
    let body = html! {
        (settings::list(document))
        @if document.properties.settings.signing.is_some() { (section.show(app)) }
        @if app.may_change() { p { a.btn.dng href={ (url) "/delete" } { "Delete event subscription" } } }
    };
    kit::card("Settings", html! { a.sm href={ (url) "/edit" } { "Edit" } }, body)
}

fn secret_rows(secrets: Option<&SigningSecrets>) -> keys::Rows {
    let mut rows = vec![("secret", keys::shown("secret", secrets.map(|secrets| &secrets.secret)))];
    if let Some(previous) = secrets.and_then(|secrets| secrets.previous_secret.as_ref()) {
        rows.push(("previous secret", keys::shown("previous secret", Some(previous))));
        let until = secrets.and_then(|secrets| secrets.previous_secret_valid_until);
        rows.push(("valid until", text::time(until)));
    }
    rows
}

pub(super) async fn reveal_secrets(State(app): State<App>, Path((topic, name)): Names) -> Answer {
    let secrets = app.api.signing_secrets(&topic, &name).await?;
    of_subscription(&app, &topic, &name, SinceQuery::default(), Some(&secrets)).await
}

pub(super) async fn rotate_secret(
    State(app): State<App>,
    Path((topic, name)): Names,
    Form(fields): Form<Fields>,
) -> Answer {
    fields.agreed()?;
    let secrets = app.api.rotate_signing_secret(&topic, &name, &RotateInput::default()).await?;
    let page = of_subscription(&app, &topic, &name, SinceQuery::default(), Some(&secrets)).await;
    keys::or_alone(page, &secret_rows(Some(&secrets)))
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_paused_has_no_probe_and_says_if_it_is_on_probation_besides() {
        let now = Timestamp::parse_rfc_3339("2026-01-01T00:00:00Z").expect("a time");
        let probe = json!({"notBefore": "2026-01-01T01:00:00Z"});
        let pause = json!({"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z",
            "timeToLiveRuns": true});
        for (patch, wants) in [
            (
                json!({"state": "Probation", "newEvents": "Waits", "nextProbe": probe}),
                [true, false],
            ),
            (
                json!({"state": "Probation", "newEvents": "Held", "nextProbe": probe, "pause": pause,
                    "until": "2026-01-01T01:00:00Z"}),
                [false, true],
            ),
            (json!({"newEvents": "Held", "pause": pause}), [false, false]),
        ] {
            let health: Health =
                serde_json::from_value(documents::health(&patch)).expect("a health");
            let numbers = numbers("", &health, None, now).into_string();
            let note = state_note(&health, None, now).into_string();
            let found = [numbers.contains("Next probe"), note.contains("endpoint is in probation")];
            assert_eq!(found, wants, "{patch}: {numbers} {note}");
        }
    }
}

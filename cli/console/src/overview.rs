//! The first page: endpoints in trouble before all else, and how much there is of everything.

use axum::extract::{Query, State};
use axum::response::Response;
use futures::{StreamExt, stream};
use gridpost_api::{
    health::{EndpointState, Health, NewEvents},
    requests::ParkedInput,
};
use gridpost_core::time::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::App;
use super::failure::{self, Answer};
use super::page::{self, Frame, Tab, number, subscription_url};
use super::topics::{effect, names, why};
use gridpost_ops::{lookup::if_there, subscription::health};

/// Event subscriptions whose health is looked at, and topics: a page must not take minutes.
const LOOKED_AT_MAX: usize = 1_000;
const TOPICS_MAX: usize = 1_000;

const TROUBLE_MAX: usize = 100;

/// Names of what could not be read that are told.
const WHOSE_TOLD: usize = 5;

/// Topics whose event subscriptions are read at the same time.
const AT_ONCE: usize = 4;

/// An event subscription with its endpoint's health.
struct One {
    topic: String,
    name: String,
    health: Health,
}

#[derive(Default)]
struct Seen {
    topics: usize,
    has_more_topics: bool,
    all: Vec<One>,
    is_complete: bool,
    unread: Vec<Unread>,
}

/// A request that failed, and why.
struct Unread {
    what: &'static str,
    whose: String,
    error: anyhow::Error,
}

const TOPICS: &str = "GET /topics";
const HEALTHS: &str = "GET /topics/*/healths";

/// The part of the page that is wanted: its own refresh wants the healths alone, because counting
/// parked deliveries reads a table.
#[derive(Deserialize)]
pub(super) struct Wanted {
    part: Option<String>,
}

pub(super) async fn show(State(app): State<App>, Query(wanted): Query<Wanted>) -> Answer<Response> {
    let now = app.settings.target.now().await?;
    let body = page::late();
    let command = "subscription health".to_owned();
    let frame = Frame { tab: Tab::Overview, title: "Overview", above: Vec::new(), command };
    let page = app.page(&frame, &body);
    Ok(page::streamed(page, async move {
        let seen = look(&app).await;
        html! {
            section id="health" hx-get="/?part=health" hx-select="#health" hx-target="#health" hx-swap="outerHTML"
                hx-trigger="every 15s" {
                (unread(&seen))
                (trouble(&seen, now))
                (counts(&seen))
            }
            @if wanted.part.is_none() {
                h2 { "What waits for a person" }
                (for_a_person(&app).await)
            }
        }
    }))
}

/// Looks at everything. What can't be read is noted, and keeps no one from the rest.
async fn look(app: &App) -> Seen {
    let mut seen = Seen { is_complete: true, ..Seen::default() };
    let mut note = |what, whose: String, error| seen.unread.push(Unread { what, whose, error });
    let (names, is_whole) = names(app, TOPICS_MAX).await.unwrap_or_else(|error| {
        note(TOPICS, String::new(), error);
        (Vec::new(), true)
    });
    (seen.topics, seen.has_more_topics) = (names.len(), !is_whole);
    seen.is_complete = is_whole;
    let of_topic = async |name: String| {
        let found = if_there(app.api.healths(&name).await);
        (name, found)
    };
    let mut left = LOOKED_AT_MAX;
    let mut lists = std::pin::pin!(stream::iter(names).map(of_topic).buffered(AT_ONCE));
    while let Some((topic, found)) = lists.next().await {
        if left == 0 {
            seen.is_complete = false;
            break;
        }
        let mut healths = match found {
            Ok(found) => found.unwrap_or_default(),
            Err(error) => {
                note(HEALTHS, topic, error);
                continue;
            }
        };
        seen.is_complete &= healths.len() <= left;
        healths.truncate(left);
        left -= healths.len();
        seen.all.extend(healths.into_iter().map(|one| One {
            topic: topic.clone(),
            name: one.name,
            health: one.health,
        }));
    }
    seen
}

/// Lists each reason once, with the topics that it concerns.
fn unread(seen: &Seen) -> Markup {
    let mut groups: Vec<(&Unread, Vec<&str>)> = Vec::new();
    for one in &seen.unread {
        let is_same = |first: &Unread| {
            first.what == one.what && first.error.to_string() == one.error.to_string()
        };
        match groups.iter_mut().find(|(first, _)| is_same(first)) {
            Some((_, whose)) => whose.push(&one.whose),
            None => groups.push((one, vec![&one.whose])),
        }
    }
    html! {
        @if !groups.is_empty() {
            div.problem role="alert" {
                p { strong { "Not everything could be read: what is below is not all." } }
                @for (first, whose) in &groups {
                    p {
                        code { (first.what) } " was refused"
                        @if !first.whose.is_empty() {
                            " for " (whose.len()) ": " (whose[..whose.len().min(WHOSE_TOLD)].join(", "))
                            @if whose.len() > WHOSE_TOLD { ", …" }
                        }
                        "."
                    }
                    (failure::told(&first.error))
                }
            }
        }
    }
}

fn is_in_trouble(health: &Health) -> bool {
    health.state != EndpointState::Healthy
        || health.new_events != NewEvents::Attempted
        || health.slow.is_some()
}

fn trouble(seen: &Seen, now: Timestamp) -> Markup {
    let mut found: Vec<_> = seen.all.iter().filter(|one| is_in_trouble(&one.health)).collect();
    // Endpoints that lose events first, then those that wait; of these, the largest backlog first.
    let rank = |one: &&One| {
        let order = [NewEvents::Ends, NewEvents::NotMatched, NewEvents::Held, NewEvents::Waits];
        let at = order.iter().position(|known| *known == one.health.new_events);
        let failed = one.health.waiting_deliveries.count as u64;
        let waiting = one.health.waiting_events.unwrap_or(failed);
        (at.unwrap_or(order.len()), std::cmp::Reverse(waiting))
    };
    found.sort_by_key(rank);
    let rows: Vec<_> = found.iter().take(TROUBLE_MAX).map(|one| row(one, now)).collect();
    let head = ["Event subscription", "State", "Why", "Since", "Until", "New events", "Waiting"];
    html! {
        h2 { "Endpoints in trouble" }
        @if seen.all.is_empty() && seen.unread.is_empty() {
            (page::empty(
                "There is no event subscription yet. Create a topic, subscribe an endpoint, and publish:",
                "subscription create --topic demo --subscription first --endpoint http://127.0.0.1:9000/hook",
            ))
        } @else if rows.is_empty() && seen.unread.is_empty() {
            p.good { "No endpoint is in trouble." }
        } @else if rows.is_empty() {
            p { "No endpoint is in trouble, of those that could be looked at." }
        } @else {
            (page::table("Endpoints in trouble", &head, &rows))
            @if found.len() > TROUBLE_MAX {
                p.muted { (found.len() - TROUBLE_MAX) " more are in trouble; topics list them." }
            }
        }
        @if !seen.is_complete {
            p.muted { "Only the first " (number(seen.all.len() as u64)) " event subscriptions were looked at: topics list "
                "the others." }
        }
    }
}

fn row(one: &One, now: Timestamp) -> Vec<Markup> {
    let One { topic, name, health } = one;
    let url = subscription_url(topic, name, "");
    vec![
        html! { a href=(url) id={ "to-" (topic) "-" (name) } { (topic) "/" (name) } },
        html! { span.bad { (health.state.to_string()) } },
        why(health),
        page::time(health.since),
        page::time_or_text(&health::until(health, now)),
        html! { (effect(health)) },
        html! { (health::waiting(health)) },
    ]
}

fn counts(seen: &Seen) -> Markup {
    let waiting: usize = seen.all.iter().map(|one| one.health.waiting_deliveries.count).sum();
    let events: Option<u64> = seen.all.iter().map(|one| one.health.waiting_events).sum();
    let is_exact = |one: &One| one.health.waiting_deliveries.is_complete;
    let more = |is_whole| if is_whole { "" } else { "more than " };
    let is_whole = seen.is_complete && seen.unread.is_empty();
    let is_counted = is_whole && seen.all.iter().all(is_exact);
    html! {
        h2 { "How much there is" }
        ul.cards {
            li { strong { @if seen.has_more_topics { "more than " } (number(seen.topics as u64)) }
                a href="/topics" id="to-topics" { "topics" } }
            li { strong { (more(is_whole)) (number(seen.all.len() as u64)) } "event subscriptions" }
            @if let Some(events) = events {
                li { strong { (more(is_whole)) (number(events)) } "events that wait" }
            }
            li { strong { (more(is_counted)) (number(waiting as u64)) } "deliveries that have failed and wait" }
        }
    }
}

/// Parked deliveries and the poison queue. What can't be read of them keeps no one from the page.
async fn for_a_person(app: &App) -> Markup {
    let every = ParkedInput::default();
    let (parked, poison) = tokio::join!(app.api.parked_page(&every, None), app.api.poison(1));
    let parked = parked.map(|page| {
        let more = if page.next.is_some() { "at least " } else { "" };
        format!("{more}{}", number(page.items.len() as u64))
    });
    let poison = poison.map(|list| number(list.approximate_count));
    html! {
        ul.cards {
            li { (one_count(&parked)) a href="/waiting" { "parked deliveries" } }
            li { (one_count(&poison)) a href="/waiting#poison" { "messages in the poison queue" } }
        }
        p { a href="/ledger" { "Does the ledger balance?" } " " a href="/dead-letters" { "Dead letters" } }
    }
}

fn one_count(count: &anyhow::Result<String>) -> Markup {
    match count {
        Ok(count) => html! { strong { (count) } },
        Err(error) => failure::told(error),
    }
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::{Value, json};

    use super::*;

    fn health(patch: &Value) -> Health {
        serde_json::from_value(documents::health(patch)).expect("a health")
    }

    #[test]
    fn what_loses_events_stands_first() {
        let one = |name: &str, effect: &str, waiting: u64| One {
            topic: "t".to_owned(),
            name: name.to_owned(),
            health: health(&json!({"state": "Probation", "newEvents": effect,
                "cause": {"outcome": "Busy"}, "waitingDeliveries": {"count": waiting}})),
        };
        let mut healthy = one("fine", "Attempted", 0);
        healthy.health = health(&json!({}));
        let all =
            vec![healthy, one("few", "Waits", 1), one("many", "Waits", 9), one("lost", "Ends", 0)];
        let seen = Seen { topics: 1, all, is_complete: true, ..Seen::default() };
        let shown = trouble(&seen, Timestamp::from_millis(0)).into_string();
        let at = |name: &str| shown.find(&format!("t/{name}<"));
        assert!(
            at("lost") < at("many") && at("many") < at("few") && at("lost").is_some(),
            "{shown}"
        );
        assert!(at("fine").is_none() && shown.contains("Busy"), "{shown}");
    }

    #[test]
    fn a_reason_is_told_once_however_many_it_meets() {
        let one = |number: u32| Unread {
            what: HEALTHS,
            whose: format!("t-{number}"),
            error: gridpost_ops::failure::Refusal::from_answer(429, "{}").into(),
        };
        let all = (0..7).map(one).collect();
        let seen = Seen { topics: 1, unread: all, is_complete: true, ..Seen::default() };
        let shown = unread(&seen).into_string();
        assert_eq!(shown.matches("slow down").count(), 1, "{shown}");
        assert!(shown.contains("for 7: t-0") && shown.contains("t-4, …"), "{shown}");
        assert!(!trouble(&seen, Timestamp::from_millis(0)).into_string().contains("There is no"));
    }
}

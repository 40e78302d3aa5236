//! The first page: endpoints in trouble before all else, and how much there is of everything.

use axum::extract::{Query, State};
use axum::response::Response;
use futures::{StreamExt, stream};
use gridpost_core::time::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::App;
use super::failure::{self, Answer};
use super::page::{self, Frame, Tab, number, subscription_url};
use gridpost_ops::{
    lookup::if_there, manage_api::waiting::ParkedChoice, output::text_at, subscription::health,
};

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
    health: Value,
}

#[derive(Default)]
struct Seen {
    topics: usize,
    has_more_topics: bool,
    all: Vec<One>,
    is_complete: bool,
    unread: Vec<Unread>,
}

/// What could not be read, and why.
struct Unread {
    what: &'static str,
    whose: String,
    error: anyhow::Error,
}

const TOPICS: &str = "GET /topics";
const HEALTHS: &str = "GET /topics/*/healths";

/// What of the page is asked for: its own refresh asks for the healths alone. To count what is parked
/// reads a table.
#[derive(Deserialize)]
pub(super) struct Asked {
    part: Option<String>,
}

pub(super) async fn show(State(app): State<App>, Query(asked): Query<Asked>) -> Answer<Response> {
    let now = app.settings.target.now().await?;
    let body = html! {
        (page::late())
    };
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
            @if asked.part.is_none() {
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
    let (names, is_whole) = app.api.topic_names(TOPICS_MAX).await.unwrap_or_else(|error| {
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
        seen.all.extend(healths.into_iter().map(|mut one| One {
            topic: topic.clone(),
            name: text_at(&one, "/name").to_owned(),
            health: one["health"].take(),
        }));
    }
    seen
}

/// What could not be read: each reason once, with whose it is.
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

fn is_in_trouble(health: &Value) -> bool {
    health["state"] != "Healthy" || health["newEvents"] != "Attempted" || health["slow"].is_object()
}

fn trouble(seen: &Seen, now: Timestamp) -> Markup {
    let mut found: Vec<_> = seen.all.iter().filter(|one| is_in_trouble(&one.health)).collect();
    // Those that lose events first, then those that wait; of those, what waits for most.
    let rank = |one: &&One| {
        let order = ["Ends", "NotMatched", "Held", "Waits"];
        let effect = text_at(&one.health, "/newEvents");
        let at = order.iter().position(|known| *known == effect).unwrap_or(order.len());
        (
            at,
            std::cmp::Reverse(
                one.health.pointer("/waitingDeliveries/count").and_then(Value::as_u64),
            ),
        )
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
        html! { span.bad { (text_at(health, "/state")) } },
        why(health),
        page::time_at(health, "/since"),
        page::time(&health::until(health, now)),
        html! { (effect(health)) },
        html! { (health::waiting(&health["waitingDeliveries"])) },
    ]
}

/// What put the endpoint into this state.
pub(super) fn why(health: &Value) -> Markup {
    let outcome = health.pointer("/cause/outcome").and_then(Value::as_str);
    let status = health.pointer("/cause/httpStatusCode").and_then(Value::as_u64);
    html! {
        @match (outcome, status) {
            (Some(outcome), Some(status)) => { (outcome) " (HTTP " (status) ")" }
            (Some(outcome), None) => { (outcome) }
            (None, _) if health["slow"].is_object() => { "it answers slowly" }
            (None, _) => { "-" }
        }
    }
}

/// What becomes of an event that is published now.
pub(super) fn effect(health: &Value) -> &str {
    match text_at(health, "/newEvents") {
        "Attempted" if health["slow"].is_object() => "attempted, a few at a time",
        "Attempted" => "attempted",
        "Waits" => "wait",
        "Ends" => "end at once",
        "Held" => "held: paused",
        "NotMatched" => "none comes: expired, or not validated",
        other => other,
    }
}

fn counts(seen: &Seen) -> Markup {
    let waiting = seen
        .all
        .iter()
        .filter_map(|one| one.health.pointer("/waitingDeliveries/count").and_then(Value::as_u64));
    let is_exact = |one: &One| {
        one.health.pointer("/waitingDeliveries/isComplete") != Some(&Value::Bool(false))
    };
    let more = |is_whole| if is_whole { "" } else { "more than " };
    let is_whole = seen.is_complete && seen.unread.is_empty();
    let is_counted = is_whole && seen.all.iter().all(is_exact);
    html! {
        h2 { "How much there is" }
        ul.cards {
            li { strong { @if seen.has_more_topics { "more than " } (number(seen.topics as u64)) }
                a href="/topics" id="to-topics" { "topics" } }
            li { strong { (more(is_whole)) (number(seen.all.len() as u64)) } "event subscriptions" }
            li { strong { (more(is_counted)) (number(waiting.sum())) } "deliveries that have failed and wait" }
        }
    }
}

/// Parked deliveries and the poison queue. What can't be read of them keeps no one from the page.
async fn for_a_person(app: &App) -> Markup {
    let choice = ParkedChoice::default();
    let (parked, poison) = tokio::join!(app.api.parked_page(&choice, None), app.api.poison(1));
    let parked = parked.map(|page| {
        let more = if page.next.is_some() { "at least " } else { "" };
        format!("{more}{}", number(page.items.len() as u64))
    });
    let poison = poison.map(|list| page::number_at(&list, "/approximateCount"));
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
    use serde_json::json;

    use super::*;

    #[test]
    fn what_loses_events_stands_first() {
        let one = |name: &str, effect: &str, waiting: u64| One {
            topic: "t".to_owned(),
            name: name.to_owned(),
            health: json!({"state": "Probation", "newEvents": effect, "cause": {"outcome": "Busy"},
                "waitingDeliveries": {"count": waiting, "isComplete": true}}),
        };
        let mut healthy = one("fine", "Attempted", 0);
        healthy.health["state"] = json!("Healthy");
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

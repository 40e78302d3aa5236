//! An event by its id: who wanted it, what was attempted, what comes next. What `gridpost explain` says.

use axum::Form;
use axum::extract::{Query, State};
use gridpost_api::topic::Topic;
use maud::{Markup, html};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::App;
use super::delivery::{attempt_now, outcome};
use super::failure::{self, Answer};
use super::form::given;
use super::page::{self, Frame, Tab, subscription_url};
use super::publish::{json_text, table_of_verdicts};
use super::sought::{EXACT, LeftOut};
use gridpost_ops::{
    attempt_lines::describe_reason,
    explain::{self, Explanation, Question, ends_meanwhile},
    failure::Misuse,
    given::TimeSpan,
    output::{self, text_at},
    subscription::pause,
};

/// How far back attempts are looked for, unless said otherwise.
const SINCE: &str = "24h";

/// Which event; the text of it where it was given.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "Typed")]
pub(super) struct Asked {
    typed: Typed,
    left_out: LeftOut,
}

#[derive(Debug, Default, Deserialize)]
struct Typed {
    topic: Option<String>,
    id: Option<String>,
    since: Option<String>,
    event: Option<String>,
    exact: Option<String>,
}

impl From<Typed> for Asked {
    fn from(mut typed: Typed) -> Self {
        let mut left_out = LeftOut::default();
        if typed.exact.is_none() {
            left_out.clean("topic", &mut typed.topic);
            left_out.clean("id", &mut typed.id);
            left_out.clean("since", &mut typed.since);
        }
        Self { typed, left_out }
    }
}

impl Typed {
    fn pairs(&self) -> Vec<(&'static str, &str)> {
        let all = [("topic", &self.topic), ("id", &self.id), ("since", &self.since)];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }
}

pub(super) async fn show(State(app): State<App>, Query(asked): Query<Asked>) -> Answer {
    answer(&app, &asked).await
}

pub(super) async fn with_event(State(app): State<App>, Form(asked): Form<Asked>) -> Answer {
    answer(&app, &asked).await
}

async fn answer(app: &App, asked: &Asked) -> Answer {
    let Asked { typed: asked, left_out } = asked;
    // One that is looked for exactly may end with a space.
    let given_id = asked.id.clone().filter(|id| asked.exact.is_some() && !id.is_empty());
    let (topic, id) = (given(asked.topic.as_ref()), given_id.or_else(|| given(asked.id.as_ref())));
    let since = given(asked.since.as_ref()).unwrap_or_else(|| SINCE.to_owned());
    let result = match (&topic, &id) {
        (Some(topic), Some(id)) => {
            let found = look_up(app, topic, id, &since, asked.event.as_ref()).await;
            match found {
                Ok(told) => found_of(app, topic, id, &told),
                Err(error) => html! { div.problem role="alert" { (failure::told(&error)) } },
            }
        }
        _ => html! {},
    };
    let names = app.api.topics_page(None).await?;
    let body = html! {
        (search(&names.items, topic.as_deref(), id.as_deref(), &since, names.next.is_some()))
        (left_out.told("/events", &asked.pairs()))
        (result)
        @if let (Some(topic), Some(id)) = (&topic, &id) { (event_form(app, topic, id, &since, asked)) }
    };
    let command = match (&topic, &id) {
        (Some(topic), Some(id)) => {
            format!("explain {} --topic {}", output::word(id), output::word(topic))
        }
        _ => "explain EVENT-ID --topic NAME".to_owned(),
    };
    let frame = Frame { tab: Tab::Events, title: "Find an event", above: Vec::new(), command };
    Ok(app.page(&frame, &body))
}

async fn look_up(
    app: &App,
    topic: &str,
    id: &str,
    since: &str,
    event: Option<&String>,
) -> anyhow::Result<Explanation> {
    let since: TimeSpan = since.parse().map_err(Misuse)?;
    let event = given(event).map(|text| json_text(&text)).transpose()?;
    let arguments = Question { topic: topic.to_owned(), id: id.to_owned(), since };
    explain::look_up(&app.settings.target, arguments, event).await
}

fn search(
    topics: &[Topic],
    topic: Option<&str>,
    id: Option<&str>,
    since: &str,
    more: bool,
) -> Markup {
    html! {
        form.row method="get" action="/events" role="search" aria-label="An event by its id" {
            label { "Topic "
                @if more || topics.is_empty() {
                    input name="topic" required value=(topic.unwrap_or_default());
                } @else {
                    select name="topic" required {
                        @for one in topics {
                            @let name = one.name.as_str();
                            option value=(name) selected[topic == Some(name)] { (name) }
                        }
                    }
                }
            }
            label { "Event id " input.code name="id" required size="40" value=(id.unwrap_or_default()); }
            label { "Look back " input name="since" size="5" value=(since); }
            button { "Find it" }
        }
        @let note = page::hidden_in(id.unwrap_or_default());
        @if !note.0.is_empty() { p { "Event id:" (note) } }
        @if id.is_none() {
            p.muted { "An event is found by the id that its publisher gave it: in the logs of its attempts, and in "
                "dead letters." }
        }
    }
}

fn found_of(app: &App, topic: &str, id: &str, told: &Explanation) -> Markup {
    let document = json!(told);
    let deliveries = document["deliveries"].as_array().cloned().unwrap_or_default();
    html! {
        h2 { "Event " code { (page::visible(id)) } }
        @if let Err(nothing) = told.outcome() { div.problem role="status" { p { (nothing) } } }
        (notes(told))
        @if let Ok(verdicts) = read::<Vec<_>>(&document["verdicts"]) { (table_of_verdicts(topic, &verdicts)) }
        @for delivery in &deliveries { (delivery_of(app, topic, delivery)) }
        @for held in document["holdingBack"].as_array().into_iter().flatten() {
            (held_back(topic, held))
        }
        @if !document["verdicts"].is_array() {
            @let others: Vec<_> = told.others().collect();
            @if !others.is_empty() {
                h2 { "No attempt is logged for these" }
                ul { @for (name, wants) in others {
                    li { a href=(subscription_url(topic, name, "")) { (name) } ": " (page::visible(wants)) }
                } }
            }
        }
    }
}

/// An event subscription that attempts nothing at present: why, and until when.
fn held_back(topic: &str, held: &Value) -> Markup {
    let name = text_at(held, "/eventSubscription");
    html! {
        p.warn {
            a href=(subscription_url(topic, name, "")) { (name) }
            @if let Some(pause) = held.pointer("/health/pause") {
                " is paused " (page::visible(&pause::told(pause))) ": if it wants the event, the event waits until it is "
                "resumed, or until " (page::time_at(pause, "/until")) (ends_meanwhile(pause)) "."
            } @else {
                " attempts nothing until " (page::time_at(held, "/health/until")) ": if it wants the event, the event waits."
            }
        }
    }
}

/// Lists why dead letters that may have the event could not be looked into.
fn notes(told: &Explanation) -> Markup {
    html! { @for note in told.notes() { p.warn { (page::visible(note)) } } }
}

/// A delivery that carries it: what was logged, or its state.
fn delivery_of(app: &App, topic: &str, delivery: &Value) -> Markup {
    let (name, id) = (text_at(delivery, "/eventSubscription"), text_at(delivery, "/id"));
    let url = subscription_url(topic, name, &format!("/deliveries/{}", page::part(id)));
    let rows: Vec<_> = delivery["log"].as_array().into_iter().flatten().map(line).collect();
    html! {
        h2 { "To " a href=(subscription_url(topic, name, "")) { (name) } }
        p {
            @if delivery["state"].is_object() { "Delivery " a href=(url) { (id) } } @else { "Delivery " (id) }
            (status(delivery))
        }
        (page::table(&format!("What was logged of delivery {id}"), &["When", "Attempt", "Outcome", "Took", "What follows"], &rows))
        @if let Ok(state) = read(&delivery["state"]) { (attempt_now(app, &url, &state)) }
    }
}

/// Shows the event's status, which is its delivery's unless the events went different ways.
fn status(delivery: &Value) -> Markup {
    let of = |pointer| delivery.pointer(pointer).and_then(Value::as_str);
    html! {
        @if delivery["isDivided"] == true {
            ", whose events went different ways. This event: " strong { (of("/eventStanding").unwrap_or("not logged")) }
            "; what was left of the delivery: " (text_at(delivery, "/state/status"))
        } @else if let Some(status) = of("/state/status") {
            ": " strong { (status) }
        }
    }
}

fn read<D: DeserializeOwned>(document: &Value) -> serde_json::Result<D> {
    D::deserialize(document)
}

fn line(line: &Value) -> Vec<Markup> {
    let status = line["status"].as_u64().and_then(|status| status.try_into().ok());
    let follows = match (line["due"].as_str(), line["reason"].as_str()) {
        (Some(due), _) => html! {
            "again at " (page::time_or_text(due))
            @if let Some(because) = line["because"].as_str().and_then(|because| because.parse().ok()) { ": " (describe_reason(because)) }
        },
        (None, Some(reason)) => html! { "ends: " (reason) },
        (None, None) => html! {},
    };
    vec![
        page::time_at(line, "/timestamp"),
        html! { (page::number_at(line, "/attempt")) },
        outcome(line["outcome"].as_str(), status),
        html! { @if line["duration_ms"].is_u64() { (page::number_at(line, "/duration_ms")) " ms" } },
        html! {
            (follows)
            @if let Some(said) = line["response"].as_str() { " It said: " (page::visible(said)) }
        },
    ]
}

fn event_form(app: &App, topic: &str, id: &str, since: &str, asked: &Typed) -> Markup {
    html! {
        details open[asked.event.is_some()] {
            summary { "Who did not want it, and why: give the event itself" }
            form method="post" action="/events" {
                (app.token())
                input type="hidden" name="topic" value=(topic);
                input type="hidden" name="id" value=(id);
                input type="hidden" name="since" value=(since);
                @if let Some(exact) = &asked.exact { input type="hidden" name=(EXACT) value=(exact); }
                label for="event" { "The event as it was published" }
                textarea id="event" name="event" rows="12" spellcheck="false" required {
                    "\n" (page::visible_json(asked.event.as_deref().unwrap_or_default()))
                }
                button { "Ask every filter" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sought::event_url;
    use super::*;

    #[test]
    fn an_id_is_looked_for_without_what_does_not_show_unless_a_link_means_it() {
        let of = |id: &str, exact: Option<&str>| {
            serde_json::from_value::<Asked>(serde_json::json!({"id": id, "exact": exact}))
                .expect("read")
        };
        let typed = of("order-1\u{200b}", None);
        assert_eq!(typed.typed.id.as_deref(), Some("order-1"));
        assert_ne!(typed.left_out, LeftOut::default());
        let exact = of("order-1\u{200b}", Some("yes"));
        assert_eq!(exact.typed.id.as_deref(), Some("order-1\u{200b}"));
        assert_eq!(event_url("t", "order-1"), "/events?topic=t&id=order-1");
        assert!(event_url("t", "order-1\u{a0}").ends_with("&exact=yes"));
    }

    #[test]
    fn dead_letters_that_could_not_be_read_are_told() {
        let told = Explanation::noting("the dead letters of a can't be read: <no>");
        let want = "<p class=\"warn\">the dead letters of a can't be read: &lt;no&gt;</p>";
        assert_eq!(notes(&told).0, want);
    }

    #[test]
    fn what_a_pause_holds_is_told_with_the_pause() {
        let (since, until) = ("2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z");
        let pause = serde_json::json!({"since": since, "until": until, "by": "<me>",
            "timeToLiveRuns": true});
        let held = serde_json::json!({"eventSubscription": "a", "health": {"pause": pause}});
        let told = held_back("t", &held).0;
        for part in [
            "is paused since 2026-01-01T00:00:00.000Z by &lt;me&gt;, time-to-live runs",
            "2026-01-02 00:00:00.000 UTC",
            "time-to-live is over",
        ] {
            assert!(told.contains(part), "{part} is not in {told}");
        }
        let waits = serde_json::json!({"eventSubscription": "a", "health": {"until": "U"}});
        let told = held_back("t", &waits).0;
        assert!(told.contains(" attempts nothing until U: if"), "{told}");
    }

    #[test]
    fn an_event_that_went_its_own_way_has_its_own_standing() {
        let state = serde_json::json!({"status": "Delivered"});
        // (whether the events went different ways, where the event stands, what is told)
        for (is_divided, event, want) in [
            (false, Some("Delivered"), ": <strong>Delivered</strong>"),
            (
                true,
                Some("Ended"),
                "This event: <strong>Ended</strong>; what was left of the delivery: Delivered",
            ),
            (true, None, "This event: <strong>not logged</strong>;"),
        ] {
            let delivery = serde_json::json!({
                "state": state, "isDivided": is_divided, "eventStanding": event,
            });
            let told = status(&delivery).0;
            assert!(told.contains(want), "{told}");
        }
    }
}

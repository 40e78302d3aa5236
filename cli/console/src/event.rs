//! An event by its id: who wanted it, what was attempted, what comes next. What `gridpost explain` says.

use axum::Form;
use axum::extract::{Query, State};
use gridpost_api::{delivery::DeliveryStatus, topic::Topic};
use maud::{Markup, html};
use serde::Deserialize;

use super::App;
use super::delivery::{attempt_now, outcome};
use super::failure::{self, Answer};
use super::form::given;
use super::page::{self, Frame, Tab, subscription_url};
use super::publish::{json_text, table_of_verdicts};
use super::sought::{EXACT, LeftOut};
use gridpost_ops::{
    attempt_lines::{AttemptLine, describe_reason},
    explain::{self, EventDelivery, Explanation, HoldingBack, Question, ends_meanwhile},
    failure::Misuse,
    given::TimeSpan,
    output::{self, or_dash},
    subscription::pause,
};

/// How far back attempts are looked for, unless said otherwise.
const SINCE: &str = "24h";

/// The event to find; with its text, if given.
#[derive(Debug, Default, Deserialize)]
pub(super) struct EventQuery {
    topic: Option<String>,
    id: Option<String>,
    since: Option<String>,
    event: Option<String>,
    exact: Option<String>,
}

impl EventQuery {
    /// Leaves out what does not show, unless exactly that is meant.
    fn clean(&mut self) -> LeftOut {
        let mut left_out = LeftOut::default();
        if self.exact.is_none() {
            left_out.clean("topic", &mut self.topic);
            left_out.clean("id", &mut self.id);
            left_out.clean("since", &mut self.since);
        }
        left_out
    }

    fn pairs(&self) -> Vec<(&'static str, &str)> {
        let all = [("topic", &self.topic), ("id", &self.id), ("since", &self.since)];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }
}

pub(super) async fn show(State(app): State<App>, Query(query): Query<EventQuery>) -> Answer {
    answer(&app, query).await
}

pub(super) async fn with_event(State(app): State<App>, Form(query): Form<EventQuery>) -> Answer {
    answer(&app, query).await
}

async fn answer(app: &App, mut typed: EventQuery) -> Answer {
    let left_out = typed.clean();
    // An id that is looked for exactly may end with a space.
    let given_id = typed.id.clone().filter(|id| typed.exact.is_some() && !id.is_empty());
    let (topic, id) = (given(typed.topic.as_ref()), given_id.or_else(|| given(typed.id.as_ref())));
    let since = given(typed.since.as_ref()).unwrap_or_else(|| SINCE.to_owned());
    let result = match (&topic, &id) {
        (Some(topic), Some(id)) => {
            let found = look_up(app, topic, id, &since, typed.event.as_ref()).await;
            match found {
                Ok(told) => found_of(app, topic, id, &told),
                Err(error) => failure::problem("", &error),
            }
        }
        _ => html! {},
    };
    let names = app.api.topics_page(None).await?;
    let body = html! {
        (search(&names.items, topic.as_deref(), id.as_deref(), &since, names.next.is_some()))
        (left_out.told("/events", &typed.pairs()))
        (result)
        @if let (Some(topic), Some(id)) = (&topic, &id) { (event_form(app, topic, id, &since, &typed)) }
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
    let arguments =
        Question { topic: topic.to_owned(), id: id.to_owned(), since, max_dollars: None };
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
            p.muted { "An event is found by the id that its publisher gave it: in the journal of attempts, and in "
                "dead letters." }
        }
    }
}

fn found_of(app: &App, topic: &str, id: &str, explanation: &Explanation) -> Markup {
    html! {
        h2 { "Event " code { (page::visible(id)) } }
        @if let Err(nothing) = explanation.outcome() { div.problem role="status" { p { (nothing) } } }
        (notes(explanation))
        @if let Some(verdicts) = &explanation.verdicts { (table_of_verdicts(topic, verdicts)) }
        @for delivery in &explanation.deliveries { (delivery_of(app, topic, delivery)) }
        @for held in &explanation.holding_back { (held_back(topic, held)) }
        @if explanation.verdicts.is_none() {
            @let others: Vec<_> = explanation.others().collect();
            @if !others.is_empty() {
                h2 { "No attempt is known for these" }
                ul { @for (name, wants) in others {
                    li { a href=(subscription_url(topic, name, "")) { (name) } ": " (page::visible(wants)) }
                } }
            }
        }
    }
}

/// Shows an event subscription that attempts nothing at present: why, and until when.
fn held_back(
    topic: &str,
    HoldingBack { event_subscription: name, health }: &HoldingBack,
) -> Markup {
    html! {
        p.warn {
            a href=(subscription_url(topic, name, "")) { (name) }
            @if let Some(pause) = &health.pause {
                " is paused " (page::visible(&pause::told(pause))) ": if it wants the event, the event waits until it is "
                "resumed, or until " (page::time(pause.until)) (ends_meanwhile(pause)) "."
            } @else {
                " attempts nothing until " (page::time(health.until)) ": if it wants the event, the event waits."
            }
        }
    }
}

/// Lists why dead letters that may have the event could not be looked into.
fn notes(explanation: &Explanation) -> Markup {
    html! { @for note in explanation.notes() { p.warn { (page::visible(note)) } } }
}

/// Shows a delivery that carries it, with the journal's entries.
fn delivery_of(app: &App, topic: &str, delivery: &EventDelivery) -> Markup {
    let (name, id) = (&delivery.name, &delivery.id);
    let url = subscription_url(topic, name, &format!("/deliveries/{}", page::part(id)));
    let rows: Vec<_> = delivery.log.iter().map(line).collect();
    html! {
        h2 { "To " a href=(subscription_url(topic, name, "")) { (name) } }
        p {
            @if delivery.state.is_some() { "Delivery " a href=(url) { (id) } } @else { "Delivery " (id) }
            (status(delivery))
        }
        (page::table(&format!("The journal of delivery {id}"), &["When", "Attempt", "Outcome", "Took", "What follows"], &rows))
        @if let Some(state) = &delivery.state { (attempt_now(app, &url, &state.delivery)) }
    }
}

/// Shows the event's status, which is its delivery's unless the events went different ways.
fn status(delivery: &EventDelivery) -> Markup {
    let text = |status: Option<DeliveryStatus>| status.map(|status| status.to_string());
    let state = delivery.state.as_ref().map(|state| state.delivery.status);
    html! {
        @if delivery.is_divided {
            ", whose events went different ways. This event: "
            strong { (text(delivery.event_standing).unwrap_or_else(|| "not known".to_owned())) }
            "; what was left of the delivery: " (or_dash(state))
        } @else if let Some(status) = text(state) {
            ": " strong { (status) }
        }
    }
}

fn line(line: &AttemptLine) -> Vec<Markup> {
    let follows = match (line.describe_fate(), &line.due, &line.reason) {
        (Some(fate), ..) => html! { (fate) },
        (None, Some(due), _) => html! {
            "again at " (page::time_or_text(&due.to_string()))
            @if let Some(because) = line.wait_because { ": " (describe_reason(because.into())) }
        },
        (None, None, Some(reason)) => html! { "ends: " (reason) },
        (None, None, None) => html! {},
    };
    vec![
        page::time_or_text(&line.time.to_string()),
        html! { (line.label()) },
        outcome(line.outcome.as_deref(), line.http_status_code),
        html! { @if let Some(duration_ms) = line.duration_in_ms { (page::number(duration_ms)) " ms" } },
        html! {
            (follows)
            @if let Some(said) = &line.response { " It said: " (page::visible(said)) }
        },
    ]
}

fn event_form(app: &App, topic: &str, id: &str, since: &str, typed: &EventQuery) -> Markup {
    html! {
        details open[typed.event.is_some()] {
            summary { "Who did not want it, and why: give the event itself" }
            form method="post" action="/events" {
                (app.token())
                input type="hidden" name="topic" value=(topic);
                input type="hidden" name="id" value=(id);
                input type="hidden" name="since" value=(since);
                @if let Some(exact) = &typed.exact { input type="hidden" name=(EXACT) value=(exact); }
                label for="event" { "The event as it was published" }
                textarea id="event" name="event" rows="12" spellcheck="false" required {
                    "\n" (page::visible_json(typed.event.as_deref().unwrap_or_default()))
                }
                button { "Ask every filter" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gridpost_api::delivery::DeliveryShown;
    use gridpost_ops::testkit::documents;
    use serde_json::{Value, json};

    use super::super::sought::event_url;
    use super::*;

    #[test]
    fn an_id_is_looked_for_without_what_does_not_show_unless_a_link_means_it() {
        let of = |id: &str, exact: Option<&str>| {
            let query = json!({"id": id, "exact": exact});
            let mut query = serde_json::from_value::<EventQuery>(query).expect("read");
            let left_out = query.clean();
            (query.id, left_out != LeftOut::default())
        };
        assert_eq!(of("order-1\u{200b}", None), (Some("order-1".to_owned()), true));
        let exact = of("order-1\u{200b}", Some("yes"));
        assert_eq!(exact, (Some("order-1\u{200b}".to_owned()), false));
        assert_eq!(event_url("t", "order-1"), "/events?topic=t&id=order-1");
        assert!(event_url("t", "order-1\u{a0}").ends_with("&exact=yes"));
    }

    #[test]
    fn a_loss_is_told_as_one() {
        let cells = |patch: &Value| {
            let entry = serde_json::from_value(documents::journal_entry(patch));
            line(&AttemptLine(entry.expect("an entry"))).iter().map(|cell| cell.0.clone()).collect()
        };
        let lost: Vec<String> = cells(&json!({"kind": "Dropped", "reason": "R"}));
        assert_eq!(
            (&*lost[1], &*lost[4]),
            ("end", "LOST FOR GOOD, dropped for R (last attempt: Busy, 503)")
        );
        let failed = cells(&json!({"reason": "R"}));
        assert_eq!((&*failed[1], &*failed[4]), ("#1", "ends: R"));
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
        let held = |patch: &Value| HoldingBack {
            event_subscription: "a".to_owned(),
            health: serde_json::from_value(documents::health(patch)).expect("a health"),
        };
        let pause = json!({"since": since, "until": until, "by": "<me>", "timeToLiveRuns": true});
        let told = held_back("t", &held(&json!({ "pause": pause }))).0;
        for part in [
            "is paused since 2026-01-01T00:00:00.000Z by &lt;me&gt;, time-to-live runs",
            "2026-01-02 00:00:00.000 UTC",
            "time-to-live is over",
        ] {
            assert!(told.contains(part), "{part} is not in {told}");
        }
        let told = held_back("t", &held(&json!({ "until": until }))).0;
        assert!(told.contains(" attempts nothing until <time"), "{told}");
    }

    #[test]
    fn an_event_that_went_its_own_way_has_its_own_standing() {
        let state = documents::delivery(&json!({"status": "Delivered", "attempts": []}));
        let state: DeliveryShown = serde_json::from_value(state).expect("a delivery");
        // (whether the events went different ways, the event's status, what is shown)
        for (is_divided, event_standing, want) in [
            (false, Some(DeliveryStatus::Delivered), ": <strong>Delivered</strong>"),
            (
                true,
                Some(DeliveryStatus::Ended),
                "This event: <strong>Ended</strong>; what was left of the delivery: Delivered",
            ),
            (true, None, "This event: <strong>not known</strong>;"),
        ] {
            let shown = status(&EventDelivery {
                id: "d".to_owned(),
                name: "a".to_owned(),
                state: Some(state.clone()),
                log: Vec::new(),
                is_divided,
                event_standing,
            });
            assert!(shown.0.contains(want), "{}", shown.0);
        }
    }
}

//! Dead letters of an event subscription, by reason, type and time.

use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::App;
use super::failure::{self, Answer};
use super::forms::{Look, given};
use super::page::{self, Frame, Tab, subscription_url, with_query};
use crate::manage_api::dead_letters::LetterChoice;
use crate::manage_api::pages::Page;
use crate::output::text_at;

/// Which dead letters a page is about.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Chosen {
    pub(super) reason: Option<String>,
    #[serde(rename = "type")]
    pub(super) event_type: Option<String>,
    pub(super) event: Option<String>,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) sent: Option<String>,
    pub(super) after: Option<String>,
}

impl Chosen {
    pub(super) fn choice(&self) -> LetterChoice {
        LetterChoice {
            from: given(self.from.as_ref()),
            to: given(self.to.as_ref()),
            reason: given(self.reason.as_ref()),
            event_type: given(self.event_type.as_ref()),
            event_id: given(self.event.as_ref()),
            redriven: match self.sent.as_deref() {
                Some("no") => Some(false),
                Some("yes") => Some(true),
                _ => None,
            },
        }
    }

    /// The same as pairs of a query.
    pub(super) fn pairs(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("reason", &self.reason),
            ("type", &self.event_type),
            ("event", &self.event),
            ("from", &self.from),
            ("to", &self.to),
            ("sent", &self.sent),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }

    /// The same as flags of the commands.
    pub(super) fn flags(&self) -> String {
        let flag = |(name, value): (&str, &str)| match (name, value) {
            (_, "") => String::new(),
            ("sent", "no") => " --open".to_owned(),
            ("sent", "yes") => " --redriven".to_owned(),
            ("event", id) => format!(" --event-id {}", page::word(id)),
            (name, value) => format!(" --{name} {}", page::word(value)),
        };
        self.pairs().into_iter().map(flag).collect()
    }

    /// The same as hidden fields of a form.
    pub(super) fn hidden(&self) -> Markup {
        html! { @for (name, value) in self.pairs() { input type="hidden" name=(name) value=(value); } }
    }

    /// The same in words.
    pub(super) fn told(&self) -> Markup {
        let chosen: Vec<_> =
            self.pairs().into_iter().filter(|(_, value)| !value.is_empty()).collect();
        html! {
            @if chosen.is_empty() { "all dead letters" } @else {
                "dead letters with " @for (name, value) in chosen { code { (name) " " (page::visible(value)) } " " }
            }
        }
    }
}

/// Event subscriptions that have a place for dead letters.
pub(super) async fn all(State(app): State<App>, Query(look): Query<Look>) -> Answer {
    let topics = app.api.topics_page(look.after.as_deref()).await?;
    let mut rows = Vec::new();
    for topic in &topics.items {
        let topic = text_at(topic, "/name");
        for one in app.api.subscriptions(topic).await? {
            let bucket = "/properties/deadLetterDestination/properties/bucketName";
            let Some(bucket) = one.pointer(bucket).and_then(Value::as_str) else { continue };
            let name = text_at(&one, "/name");
            rows.push(vec![
                html! { a href=(subscription_url(topic, name, "/dead-letters")) { (topic) "/" (name) } },
                html! { (bucket) },
            ]);
        }
    }
    let body = html! {
        @if rows.is_empty() {
            (page::empty("No event subscription on this page keeps dead letters: what ends undelivered is dropped. \
                Give one a destination:",
                "subscription update --topic orders --name billing --dead-letter-bucket gridpost"))
        } @else {
            p { "Each of these event subscriptions keeps what ended undelivered. Open one to see what it has." }
            (page::table("Event subscriptions with dead letters", &["Event subscription", "Bucket"], &rows))
        }
        (page::next_page("/dead-letters", &[], topics.next.as_deref()))
    };
    let command = "dead-letter count".to_owned();
    let frame = Frame { tab: Tab::DeadLetters, title: "Dead letters", above: Vec::new(), command };
    Ok(app.page(&frame, &body))
}

/// Dead letters of one event subscription.
pub(super) async fn list(
    State(app): State<App>,
    Path((topic, name)): Path<(String, String)>,
    Query(chosen): Query<Chosen>,
) -> Answer {
    let choice = chosen.choice();
    let counted = app.api.count_some_dead_letters(&topic, &name, &choice).await;
    let page = app.api.dead_letters_page(&topic, &name, &choice, chosen.after.as_deref()).await?;
    let url = subscription_url(&topic, &name, "/dead-letters");
    let body = html! {
        (filter_form(&url, &chosen))
        @match &counted {
            Ok(counted) => { (counts(&url, &chosen, counted)) }
            Err(error) => { div.problem { (failure::told(error)) } }
        }
        (table(&url, &page))
        (page::next_page(&url, &chosen.pairs(), page.next.as_deref()))
        @if app.may_change() { (actions(&topic, &name, &chosen)) }
    };
    let command =
        format!("dead-letter list --topic {topic} --subscription {name}{}", chosen.flags());
    let title = format!("Dead letters of {topic}/{name}");
    let above = page::above(&topic, &name);
    Ok(app.page(&Frame { tab: Tab::DeadLetters, title: &title, above, command }, &body))
}

fn actions(topic: &str, name: &str, chosen: &Chosen) -> Markup {
    let to = |below: &str| with_query(&subscription_url(topic, name, below), &chosen.pairs());
    html! {
        ul.links {
            li { a href=(to("/redrive")) { "Redrive these" } }
            // A purge can't choose what was not sent again.
            @if chosen.sent.as_deref() != Some("no") {
                li { a href=(to("/purge")) { "Purge these" } }
            }
        }
    }
}

fn filter_form(url: &str, chosen: &Chosen) -> Markup {
    let text = |given: &Option<String>| given.clone().unwrap_or_default();
    let sent = chosen.sent.as_deref().unwrap_or_default();
    html! {
        form.row method="get" action=(url) role="search" {
            label { "Reason " input name="reason" value=(text(&chosen.reason)); }
            label { "Event type " input name="type" value=(text(&chosen.event_type)); }
            label { "Event id " input name="event" value=(text(&chosen.event)); }
            label { "From (UTC) " input name="from" placeholder="2026-01-31T08:00:00Z" value=(text(&chosen.from)); }
            label { "To (UTC) " input name="to" value=(text(&chosen.to)); }
            label { "Sent again "
                select name="sent" {
                    @for (value, told) in [("", "either"), ("no", "not yet"), ("yes", "yes")] {
                        option value=(value) selected[sent == value] { (told) }
                    }
                }
            }
            button.second { "Show" }
        }
        @for (name, value) in chosen.pairs() {
            @let note = page::hidden_in(value);
            @if !note.0.is_empty() { p { (name) ":" (note) } }
        }
    }
}

fn counts(url: &str, chosen: &Chosen, counted: &Page) -> Markup {
    let document = &counted.document;
    let more = if counted.next.is_some() { "at least " } else { "" };
    let groups = [("byReason", "reason", "By reason"), ("byEventType", "type", "By event type")];
    html! {
        p { strong { (more) (page::number_at(document, "/events")) } " dead letters, "
            (page::number_at(document, "/redrivenEvents")) " of them sent again." }
        @for (member, field, title) in groups {
            @let found = document[member].as_object().filter(|found| !found.is_empty());
            @if let Some(found) = found {
                details open[member == "byReason"] {
                    summary { (title) }
                    ul { @for (value, count) in found {
                        li { a href=(narrowed(url, chosen, field, value)) { (page::visible(value)) } ": " (count) }
                    } }
                }
            }
        }
    }
}

/// The same list of one reason, or type, alone.
fn narrowed(url: &str, chosen: &Chosen, field: &str, value: &str) -> String {
    let others = chosen.pairs().into_iter().filter(|(name, _)| *name != field);
    with_query(url, &others.chain([(field, value)]).collect::<Vec<_>>())
}

fn table(url: &str, page: &Page) -> Markup {
    let row = |one: &Value| {
        let id = text_at(one, "/id");
        let problem = one["problem"].as_str();
        vec![
            page::time_at(one, "/writtenTime"),
            html! { a href={ (url) "/" (page::part(id)) } { (page::visible(one["eventId"].as_str().unwrap_or(id))) } },
            html! { (page::visible(text_at(one, "/eventType"))) },
            html! { (problem.unwrap_or_else(|| text_at(one, "/deadLetterReason"))) },
            html! { (page::number_at(one, "/deliveryAttempts")) },
            super::delivery::outcome(one, "/lastDeliveryOutcome", "/lastHttpStatusCode"),
            html! { @match one["isRedriven"].as_bool() { Some(true) => "yes", Some(false) => "no", None => "-" } },
        ]
    };
    let rows: Vec<_> = page.items.iter().map(row).collect();
    let head = ["Written", "Event", "Type", "Reason", "Attempts", "Last outcome", "Sent again"];
    match (rows.is_empty(), page.next.is_some()) {
        (false, _) => page::table("Dead letters", &head, &rows),
        (true, true) => html! { p { "None on this page; the next one may have some." } },
        (true, false) => page::empty("There is no such dead letter.", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_stays_the_same_from_page_to_page() {
        let text = |text: &str| Some(text.to_owned());
        let chosen = Chosen {
            reason: text("A&B"),
            sent: text("no"),
            event_type: text(" "),
            event: text("e 1"),
            ..Chosen::default()
        };
        let choice = chosen.choice();
        assert_eq!((choice.reason, choice.redriven), (text("A&B"), Some(false)));
        assert_eq!((choice.event_type, choice.event_id), (None, text("e 1")));
        let url = narrowed("/l", &chosen, "reason", "C");
        assert_eq!(url, "/l?type=+&event=e+1&sent=no&reason=C");
        assert!(chosen.flags().ends_with("--event-id 'e 1' --open"), "{}", chosen.flags());
        assert!(chosen.hidden().into_string().contains("value=\"A&amp;B\""));
    }
}

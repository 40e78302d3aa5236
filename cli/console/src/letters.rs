//! Dead letters of an event subscription, by reason, type and time.

use std::ops::ControlFlow;

use anyhow::Context;
use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use gridpost_api::{
    client::Page,
    dead_letter::{DeadLetter, DeadLetterContent, DeadLetterCount, DeadLetterShown},
    requests::PurgeDeadLettersInput,
    schema::Time,
};
use gridpost_core::time::Timestamp;
use gridpost_ops::{
    failure::{Misuse, Refusal},
    output::{self, indented},
};
use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;

use super::{
    App,
    action::Fields,
    below::Below,
    delete::bucket,
    failure::{self, Answer},
    form::Look,
    kit::{self, Icon},
    lists::{LOOKED_AT_MAX, Lists, lists},
    page::{self, Frame, Tab},
    sought::{EXACT, LeftOut, is_exact, letters_query},
    text,
    urls::{self, subscription_url, with_query},
};

/// The fields of a choice, as forms and URLs name them.
const FIELDS: [&str; 7] = ["reason", "type", "event", "from", "to", "sent", EXACT];

/// Which dead letters are meant: the fields that are given, with their texts. With the last of them it is about exactly
/// these texts, whether they show or not.
#[derive(Clone, Debug, Default)]
pub(super) struct Chosen(Vec<(&'static str, String)>);

impl Chosen {
    /// Reads a choice. Leaves out what does not show, unless exactly that is meant.
    pub(super) fn of(fields: &Fields) -> (Self, LeftOut) {
        let mut texts = FIELDS.map(|name| (name, fields.all(name).next().map(str::to_owned)));
        let left_out = match fields.first(EXACT) {
            "" => LeftOut::of(texts.iter_mut().map(|(name, text)| (*name, text))),
            _ => LeftOut::default(),
        };
        let given = texts.into_iter().filter_map(|(name, text)| Some((name, text?)));
        (Self(given.filter(|(_, text)| !text.is_empty()).collect()), left_out)
    }

    /// Returns the text of a field; empty where it is not given.
    pub(super) fn get(&self, field: &str) -> &str {
        self.0.iter().find(|(name, _)| *name == field).map_or("", |(_, text)| text)
    }

    /// Returns the choice with another text of a field, or without it.
    pub(super) fn with(&self, field: &'static str, text: &str) -> Self {
        let others = self.0.iter().filter(|(name, _)| *name != field).cloned();
        let other = (!text.is_empty()).then(|| (field, text.to_owned()));
        Self(others.chain(other).collect())
    }

    /// Reads the choice. Fails if `from` or `to` is not a time.
    pub(super) fn choice(&self) -> Result<PurgeDeadLettersInput, Misuse> {
        let is_exact = !self.get(EXACT).is_empty();
        let text = |field: &str| {
            let text = self.get(field);
            let text = if is_exact { text } else { text.trim() };
            (!text.is_empty()).then(|| text.to_owned())
        };
        Ok(PurgeDeadLettersInput {
            from: text("from").map(|from| time("from", &from)).transpose()?,
            to: text("to").map(|to| time("to", &to)).transpose()?,
            reason: text("reason"),
            event_type: text("type"),
            event_id: text("event"),
            redriven: match self.get("sent") {
                "no" => Some(false),
                "yes" => Some(true),
                _ => None,
            },
            all: None,
        })
    }

    pub(super) fn pairs(&self) -> Vec<(&'static str, &str)> {
        self.0.iter().map(|(name, text)| (*name, text.as_str())).collect()
    }

    pub(super) fn flags(&self) -> String {
        let flag = |(name, value): (&str, &str)| match (name, value) {
            (EXACT, _) => String::new(),
            ("sent", "no") => " --open".to_owned(),
            ("sent", "yes") => " --redriven".to_owned(),
            ("event", id) => format!(" --event-id {}", output::word(id)),
            (name, value) => format!(" --{name} {}", output::word(value)),
        };
        self.pairs().into_iter().map(flag).collect()
    }

    pub(super) fn hidden(&self) -> Markup {
        html! { @for (name, value) in self.pairs() { input type="hidden" name=(name) value=(value); } }
    }

    pub(super) fn told(&self) -> Markup {
        let chosen: Vec<_> = self.pairs().into_iter().filter(|(name, _)| *name != EXACT).collect();
        html! {
            @if chosen.is_empty() { "all dead letters" } @else {
                "dead letters with" @for (name, value) in chosen { " " code { (name) " " (text::visible(value)) } }
            }
        }
    }
}

fn time(field: &str, text: &str) -> Result<Time, Misuse> {
    let told = || {
        Misuse(format!(
            "{field} must be a date and time of RFC 3339, such as 2026-01-31T08:00:00Z, but is `{text}`"
        ))
    };
    Timestamp::parse_rfc_3339(text.trim()).map(Time).ok_or_else(told)
}

/// Event subscriptions that have a place for dead letters, of a page of topics.
pub(super) async fn all(State(app): State<App>, Query(look): Query<Look>) -> Answer<Response> {
    let topics = app.api.topics_page(look.after.as_deref()).await?;
    let body =
        html! { (page::late()) (kit::next_page("/dead-letters", &[], topics.next.as_deref())) };
    let command = "dead-letter count".to_owned();
    let frame = Frame { tab: Tab::DeadLetters, title: "Dead letters", above: Vec::new(), command };
    let page = app.page(&frame, &body);
    Ok(page::streamed(page, async move {
        let names = topics.items.into_iter().map(|topic| topic.name).collect();
        places(&app, names).await
    }))
}

/// Lists the event subscriptions of these topics that have a place for dead letters, of the first
/// topics at least.
async fn places(app: &App, names: Vec<String>) -> Markup {
    let of_topic = async |topic: String| app.api.subscriptions(&topic).await;
    let Lists { read, unread, left } = lists(names, LOOKED_AT_MAX, of_topic).await;
    let all = read.iter().flat_map(|(topic, found)| found.iter().map(move |one| (topic, one)));
    let placed = all.filter_map(|(topic, one)| Some((topic, &one.name, bucket(one)?)));
    let row = |(topic, name, bucket): (&String, &String, &str)| {
        let url = subscription_url(topic, name, "/dead-letters");
        vec![
            html! { a href=(url) { (text::soft(&format!("{topic}/{name}"))) } },
            html! { (bucket) },
        ]
    };
    let rows: Vec<_> = placed.map(row).collect();
    html! {
        @for (topic, error) in &unread {
            (failure::problem(&format!("The event subscriptions of {topic} could not be read."), error))
        }
        @if rows.is_empty() && unread.is_empty() {
            (kit::empty("No event subscription on this page keeps dead letters: what ends undelivered is dropped. \
                Give one a destination:",
                "subscription update --topic orders --subscription billing --dead-letter-bucket gridpost"))
        } @else if !rows.is_empty() {
            p { "Each of these event subscriptions keeps what ended undelivered. Open one to see what it has." }
            (kit::table("Event subscriptions with dead letters", &[("Event subscription", ""), ("Bucket", "")], &rows))
        }
        @if !left.is_empty() {
            p.warn { "There are too many to look at all of them here. Those of these topics are on the topics' pages: "
                @for topic in &left { a href=(urls::topic_url(topic, "")) { (topic) } " " } }
        }
    }
}

pub(super) async fn list(
    State(app): State<App>,
    Path((topic, name)): Path<(String, String)>,
    Query(fields): Query<Fields>,
) -> Answer {
    let (chosen, left_out) = Chosen::of(&fields);
    let choice = chosen.choice()?;
    let counted = count_some(&app, &topic, &name, &choice).await;
    let page = app.api.dead_letters_page(&topic, &name, &choice, fields.all("after").next()).await;
    let (title, command) = ("Dead letters", ("dead-letter list", &*chosen.flags()));
    let frame = Below { of: (&topic, &name), tab: "/dead-letters", title, command };
    let page = match page {
        Err(error) if keeps_none(&error) => {
            return Ok(app.below(&frame, &none_kept(&app, &topic, &name)));
        }
        page => page?,
    };
    let url = subscription_url(&topic, &name, "/dead-letters");
    let body = html! {
        (filter_form(&url, &chosen, &left_out))
        (failure::or_problem("", &counted, |counted| counts(&url, &chosen, counted)))
        @if app.may_change() { (actions(&topic, &name, &chosen)) }
        (table(&url, &page))
        (kit::next_page(&url, &chosen.pairs(), page.next.as_deref()))
    };
    Ok(app.below(&frame, &body))
}

/// Whether it was refused because the event subscription has no dead-letter destination.
fn keeps_none(error: &anyhow::Error) -> bool {
    let targets = error.downcast_ref::<Refusal>().into_iter().flat_map(|refusal| &refusal.details);
    targets
        .filter_map(|detail| detail.target.as_deref())
        .any(|target| target == "properties.deadLetterDestination")
}

fn none_kept(app: &App, topic: &str, name: &str) -> Markup {
    let told = html! {
        p { "This event subscription has no dead-letter destination: an event that ends undelivered is lost. Dead letters of an \
             earlier destination stay where they are." }
    };
    let edit = subscription_url(topic, name, "/edit");
    let edit = html! { @if app.may_change() { (kit::button(&edit, None, "Give it one")) } };
    kit::nothing(Icon::DEAD_LETTER, "It keeps no dead letters", &told, &edit, "")
}

fn actions(topic: &str, name: &str, chosen: &Chosen) -> Markup {
    let to = |below: &str| with_query(&subscription_url(topic, name, below), &chosen.pairs());
    html! {
        p.row {
            a.btn.pri href=(to("/redrive")) { "Redrive…" }
            // A purge can't choose what was not sent again.
            @if chosen.get("sent") != "no" { a.btn.dng href=(to("/purge")) { "Purge…" } }
        }
    }
}

fn filter_form(url: &str, chosen: &Chosen, left_out: &LeftOut) -> Markup {
    let texts = [
        ("reason", "Reason ", ""),
        ("type", "Event type ", ""),
        ("event", "Event id ", ""),
        ("from", "From (UTC) ", "2026-01-31T08:00:00Z"),
        ("to", "To (UTC) ", ""),
    ];
    html! {
        form.row method="get" action=(url) role="search" aria-label="Which dead letters" {
            @for (name, label, example) in texts {
                label { (label) input name=(name) placeholder=(example) value=(chosen.get(name)); }
            }
            label { "Sent again "
                select name="sent" {
                    @for (value, told) in [("", "either"), ("no", "not yet"), ("yes", "yes")] {
                        option value=(value) selected[chosen.get("sent") == value] { (told) }
                    }
                }
            }
            button { "Show" }
        }
        (left_out.told(url, &chosen.pairs()))
        @for (name, value) in chosen.pairs() {
            @let note = text::hidden_in(value);
            @if !note.0.is_empty() { p { (name) ":" (note) } }
        }
    }
}

/// Counts the dead letters that one request reaches.
pub(super) async fn count_some(
    app: &App,
    topic: &str,
    name: &str,
    choice: &PurgeDeadLettersInput,
) -> anyhow::Result<DeadLetterCount> {
    let mut counted = None;
    let take = |count: &DeadLetterCount| {
        counted = Some(count.clone());
        ControlFlow::Break(())
    };
    app.api.count_dead_letters(topic, name, choice, take).await?;
    counted.context("nothing was counted")
}

fn counts(url: &str, chosen: &Chosen, counted: &DeadLetterCount) -> Markup {
    let more = if counted.next_link.is_some() { "at least " } else { "" };
    let groups = [
        ("reason", "By reason", &counted.by_reason),
        ("type", "By event type", &counted.by_event_type),
    ];
    html! {
        p { strong { (more) (text::number(counted.events)) } " dead letters, "
            (text::number(counted.redriven_events)) " of them sent again." }
        @for (field, title, found) in groups {
            @if !found.is_empty() {
                details open[field == "reason"] {
                    summary { (title) }
                    ul { @for (value, count) in found {
                        li { a href=(narrowed(url, chosen, field, value)) { (text::soft(value)) } ": " (count) }
                    } }
                }
            }
        }
    }
}

/// Returns the URL of the same list with one reason or type alone.
fn narrowed(url: &str, chosen: &Chosen, field: &'static str, value: &str) -> String {
    let narrow = chosen.with(EXACT, "").with(field, value);
    let is_exact = narrow.pairs().iter().any(|(_, value)| is_exact(value));
    with_query(url, &narrow.with(EXACT, if is_exact { "yes" } else { "" }).pairs())
}

fn table(url: &str, page: &Page<DeadLetter>) -> Markup {
    let row = |one: &DeadLetter| {
        let link = |text: &str| {
            html! {
                a.cut href={ (url) "/" (urls::part(&one.id)) } title=(text::visible(text)) { (text::visible(text)) }
            }
        };
        let none = || html! { "-" };
        match &one.content {
            DeadLetterContent::Unreadable { problem } => {
                let problem = html! { (problem) };
                vec![none(), link(&one.id), none(), problem, none(), none(), none()]
            }
            DeadLetterContent::Record(record) => vec![
                text::time(record.written_time),
                link(&record.event_id),
                html! { span.cut { (text::visible(&record.event_type)) } },
                text::soft(&record.dead_letter_reason),
                html! { (record.delivery_attempts) },
                kit::answer(record.last_delivery_outcome.as_deref(), record.last_http_status_code),
                html! { @if record.is_redriven { "yes" } @else { "no" } },
            ],
        }
    };
    let rows: Vec<_> = page.items.iter().map(row).collect();
    let head = [
        ("Written", "nw"),
        ("Event", "nw"),
        ("Type", "nw"),
        ("Reason", "gr"),
        ("Attempts", "n"),
        ("Last outcome", ""),
        ("Sent again", ""),
    ];
    match (rows.is_empty(), page.next.is_some()) {
        (false, _) => kit::table("Dead letters", &head, &rows),
        (true, true) => html! { p { "None on this page; the next one may have some." } },
        (true, false) => kit::empty("There is no such dead letter.", ""),
    }
}

pub(super) async fn show_one(
    State(app): State<App>,
    Path((topic, name, id)): Path<(String, String, String)>,
) -> Answer {
    let DeadLetterShown { letter, event, is_event_cut } =
        app.api.dead_letter(&topic, &name, &id).await?;
    let event = event.unwrap_or_default();
    let shown = indented(&event).unwrap_or(event);
    let event_id = match &letter.content {
        DeadLetterContent::Record(record) => record.event_id.as_str(),
        DeadLetterContent::Unreadable { .. } => "-",
    };
    let found = super::sought::event_url(&topic, event_id);
    let redrive =
        with_query(&subscription_url(&topic, &name, "/redrive"), &letters_query(event_id));
    let body = html! {
        (kit::kv(&members(&letter)))
        ul.links {
            @if event_id != "-" {
                li { a href=(found) { "Find event" } }
                @if app.may_change() { li { a href=(redrive) { "Redrive…" } } }
            }
        }
        h2 { "The event as it was delivered" }
        @if is_event_cut == Some(true) { p.warn { "It is longer: this is its beginning." } }
        (kit::block("The event", &shown))
    };
    let command = (&*format!("dead-letter show {}", output::word(&id)), "");
    let (of, title) = ((&*topic, &*name), "Dead letter");
    Ok(app.below(&Below { of, tab: "/dead-letters", title, command }, &body))
}

/// Returns the members of a document that are not objects; a text that is a time is shown as one.
fn members(document: &impl Serialize) -> Vec<(String, Markup)> {
    let text = |value: Value| match value {
        Value::String(text) => text::time_or_text(&text),
        other => text::soft(&other.to_string()),
    };
    let document = serde_json::to_value(document).unwrap_or_default();
    let Value::Object(members) = document else { return Vec::new() };
    let plain = members.into_iter().filter(|(_, value)| !value.is_object());
    plain.map(|(name, value)| (name, text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(pairs: &[(&str, &str)]) -> (Chosen, LeftOut) {
        let pair = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        Chosen::of(&Fields(pairs.iter().map(pair).collect()))
    }

    /// What does not show is left out, unless a link of the console means it.
    #[test]
    fn a_choice_is_cleaned_once() {
        let (typed, left_out) = chosen(&[("reason", "Busy\u{200b}"), ("type", "\u{a0}A\n")]);
        assert_ne!(left_out, LeftOut::default());
        assert_eq!(typed.pairs(), [("reason", "Busy"), ("type", "A")]);
        let (exact, left_out) = chosen(&[("reason", "Busy\u{200b}"), ("exact", "yes")]);
        assert_eq!(left_out, LeftOut::default());
        let hidden = exact.hidden().into_string();
        assert!(hidden.contains("name=\"exact\""), "a purge of these is of these: {hidden}");
        assert!(narrowed("/l", &typed, "type", "A\u{200b}").ends_with("&exact=yes"));
    }

    #[test]
    fn a_choice_stays_the_same_from_page_to_page() {
        let fields = [("reason", "A&B"), ("sent", "no"), ("type", " "), ("event", "e 1")];
        let (chosen, _) = chosen(&fields);
        let choice = chosen.choice().expect("a choice");
        let text = |text: &str| Some(text.to_owned());
        assert_eq!((choice.reason, choice.redriven), (text("A&B"), Some(false)));
        assert_eq!((choice.event_type, choice.event_id), (None, text("e 1")));
        let url = narrowed("/l", &chosen, "reason", "C");
        assert_eq!(url, "/l?type=+&event=e+1&sent=no&reason=C&exact=yes");
        assert!(chosen.flags().ends_with("--event-id 'e 1' --open"), "{}", chosen.flags());
    }
}

//! An event by its id: where it went, what was attempted, what comes next. What `gridpost explain` says.

mod places;

use axum::Form;
use axum::extract::State;
use gridpost_api::{client::Page, topic::Topic};
use gridpost_core::time::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::App;
use super::attempts;
use super::chart::{self, Kind};
use super::failure::{self, Answer};
use super::form::given;
use super::kit::{self, Icon};
use super::page::{Frame, Head, Tab};
use super::publish::json_text;
use super::sought::{EXACT, LeftOut};
use super::text::{self, number, visible};
use super::urls::{topic_url, with_query};
use gridpost_ops::{
    explain::{self, Budget, EventText, Explanation, Question},
    failure::Misuse,
    given::TimeSpan,
    output,
};
use places::{Place, Standing, places};

/// Characters of an event's JSON that are shown: a dead letter's page has all of it.
const EVENT_TOLD: usize = 4_000;

/// Notes of what was not looked at that are shown: there may be one of each topic.
const NOTES_TOLD: usize = 5;

/// The most that is read for a page. A topic has 500 event subscriptions at most.
const BUDGET: Budget = Budget { entries: 10_000, topics: 100, deliveries: 500, letter_pages: 100 };

/// How far back attempts are looked for, unless said otherwise.
const SINCE: &str = "24h";

const SPANS: [(&str, &str); 3] = [("1 h", "1h"), ("24 h", SINCE), ("7 d", "7d")];

/// The event to find; with its text, if given.
#[derive(Debug, Default, Deserialize)]
pub(super) struct EventQuery {
    /// All topics by default.
    topic: Option<String>,
    id: Option<String>,
    since: Option<String>,
    event: Option<String>,
    exact: Option<String>,
}

impl EventQuery {
    /// Leaves out what does not show, unless exactly that is meant.
    fn clean(&mut self) -> LeftOut {
        let Self { topic, id, since, .. } = self;
        match self.exact {
            Some(_) => LeftOut::default(),
            None => LeftOut::of([("topic", topic), ("id", id), ("since", since)]),
        }
    }

    fn id(&self) -> Option<String> {
        // An id that is looked for exactly may end with a space.
        let exact = self.id.clone().filter(|id| self.exact.is_some() && !id.is_empty());
        exact.or_else(|| given(self.id.as_ref()))
    }

    fn since(&self) -> String {
        given(self.since.as_ref()).unwrap_or_else(|| SINCE.to_owned())
    }

    /// Returns the fields of the same search, so far back.
    fn pairs<'a>(&'a self, since: &'a str) -> [(&'static str, &'a str); 4] {
        let [topic, id, exact] =
            [&self.topic, &self.id, &self.exact].map(|value| value.as_deref().unwrap_or_default());
        [("topic", topic), ("id", id), (EXACT, exact), ("since", since)]
    }

    fn back(&self, since: &str) -> String {
        with_query("/events", &self.pairs(since))
    }
}

/// What is known of it by topic, or why that can't be read.
type Explanations = Vec<(String, anyhow::Result<Explanation>)>;

/// Shows an event: a form in a URL has its id, one that is sent may have its text.
pub(super) async fn show(State(app): State<App>, Form(mut typed): Form<EventQuery>) -> Answer {
    let left_out = typed.clean();
    let left_out =
        left_out.told("/events", &typed.pairs(typed.since.as_deref().unwrap_or_default()));
    let (topics, now) = tokio::try_join!(app.api.topics_page(None), app.settings.target.now())?;
    let Some(id) = typed.id() else {
        let body = html! {
            (left_out)
            (kit::card("", "", html! {
                (search(&topics, &typed))
                p.m { "An event is found by the id that its publisher gave it: in the journal of attempts, and in dead letters." }
            }))
        };
        let (title, command) = ("Find an event", "explain EVENT-ID --topic NAME".to_owned());
        let frame = Frame { tab: Tab::Events, title, above: Vec::new(), command };
        return Ok(app.page_of(&frame, &Head::default(), &body));
    };
    let found = look(&app, &typed, &id).await;
    let known: Vec<_> = found.iter().flatten().filter_map(|(_, told)| told.as_ref().ok()).collect();
    let sure: Vec<_> = known.iter().copied().filter(|one| one.outcome().is_ok()).collect();
    let topic = match (&known[..], given(typed.topic.as_ref())) {
        (_, Some(topic)) => Some(topic),
        ([one], None) if !sure.is_empty() => Some(one.topic().to_owned()),
        _ => None,
    };
    let body = html! {
        (left_out)
        @match &found {
            Err(error) => (failure::problem("", error)),
            Ok(found) => {
                @for (topic, told) in found {
                    @if let Err(error) = told {
                        (failure::problem(&format!("What is known in {topic} can't be read."), error))
                    }
                }
                @if sure.is_empty() { (nothing(&typed, &id, &known)) }
                @for one in known.iter().filter(|_| !sure.is_empty() || topic.is_some()) {
                    @if known.len() > 1 { h2 { "In " a href=(topic_url(one.topic(), "")) { (one.topic()) } } br; }
                    (of_topic(&app, one, &id, now))
                }
            }
        }
        (kit::card("", "", html! {
            (event_form(&app, &topics, topic.as_deref(), &id, &typed))
            details { summary { "Find another event, or in another topic" } (search(&topics, &typed)) }
        }))
    };
    let named = topic.as_deref().map_or("NAME".to_owned(), output::word);
    let command = format!("explain {} --topic {named}", output::word(&id));
    let mut above = vec![("/events".to_owned(), "Events".to_owned())];
    above.extend(topic.map(|topic| (topic_url(&topic, ""), topic)));
    let since = typed.since();
    let on = SPANS.iter().find(|(_, span)| *span == since).map_or("", |(name, _)| name);
    let spans = SPANS.map(|(name, span)| (name, typed.back(span)));
    let all: Vec<_> = sure.iter().flat_map(|of| places(of)).collect();
    let head = Head {
        mono: true,
        beside: Some(
            html! { (kit::copy(&id, "the id")) (places::pills(&all, Standing::Delivered)) },
        ),
        actions: Some(kit::choice("Look back", on, &spans)),
        ..Head::default()
    };
    Ok(app.page_of(&Frame { tab: Tab::Events, title: &id, above, command }, &head, &body))
}

async fn look(app: &App, typed: &EventQuery, id: &str) -> anyhow::Result<Explanations> {
    let since: TimeSpan = typed.since().parse().map_err(Misuse)?;
    let topic = given(typed.topic.as_ref());
    let (id, named) = (id.to_owned(), topic.clone().unwrap_or_default());
    let question = Question { topic: named, id, since, budget: BUDGET, ..Question::default() };
    let target = &app.settings.target;
    let mut found = match topic {
        None => explain::look_everywhere(target, question).await?,
        Some(topic) => {
            let event = given(typed.event.as_ref()).map(|text| json_text(&text)).transpose()?;
            vec![(topic, Ok(explain::look_up(target, question, event).await?))]
        }
    };
    for (_, told) in &mut found {
        let deliveries = told.iter_mut().flat_map(|told| &mut told.deliveries);
        deliveries.for_each(|one| attempts::keep_each_end_once(&mut one.log));
    }
    Ok(found)
}

fn search(topics: &Page<Topic>, typed: &EventQuery) -> Markup {
    let id = typed.id.as_deref().unwrap_or_default();
    html! {
        form.row method="get" action="/events" role="search" aria-label="An event by its id" {
            label { "Event id " input.code name="id" required size="36" value=(id); }
            (choose_topic(Some(topics), typed.topic.as_deref(), "All topics"))
            @let since = typed.since();
            label { "Look back "
                select name="since" {
                    @for (name, span) in SPANS { option value=(span) selected[span == since] { (name) } }
                    @if !SPANS.iter().any(|(_, span)| *span == since) {
                        option value=(since) selected { (visible(&since)) }
                    }
                }
            }
            button.pri { "Find" }
        }
        @let note = text::hidden_in(id);
        @if !note.0.is_empty() { p { "Event id:" (note) } }
    }
}

/// A choice of a topic, which is a list unless there are more than a page of them.
pub(super) fn choose_topic(topics: Option<&Page<Topic>>, on: Option<&str>, all: &str) -> Markup {
    let names = names(topics, |topic| &topic.name);
    kit::names("topic", "Topic", all, names.as_deref(), on.unwrap_or_default())
}

/// Returns the names on a page of a list that has no other page.
pub(super) fn names<T>(page: Option<&Page<T>>, name: fn(&T) -> &String) -> Option<Vec<&str>> {
    let page = page.filter(|page| page.next.is_none())?;
    Some(page.items.iter().map(|one| name(one).as_str()).collect())
}

/// Says that nothing is known of it, and where it may be.
fn nothing(typed: &EventQuery, id: &str, known: &[&Explanation]) -> Markup {
    let since = typed.since();
    let back = SPANS.iter().find(|(_, span)| *span == since).map_or(&*since, |(name, _)| name);
    let topic = given(typed.topic.as_ref()).unwrap_or_else(|| "all topics".to_owned());
    let text = html! {
        p {
            "Looked back " (visible(back)) " in " (visible(&topic)) ". It may wait for its first attempt, be wanted by no "
            "filter, be older, or have been delivered where successes are not logged. An event of a schema of your own has "
            "no id there."
        }
        @for note in known.iter().flat_map(|one| one.notes()).take(NOTES_TOLD) { p { "Not everything was looked at: " (visible(note)) "." } }
        @for gap in known.iter().flat_map(|one| &one.left_out) { p { "The journal: " (text::sentence(gap)) "." } }
    };
    let actions = html! {
        @if since != "7d" { (kit::button(&typed.back("7d"), None, "Look back 7 days")) }
        (kit::button("#give", None, "Ask every filter"))
    };
    let title = format!("No attempt of “{}” is known", visible(id));
    kit::flush("", "", kit::nothing(Icon::SEARCH, &title, text, actions, ""))
}

fn of_topic(app: &App, of: &Explanation, id: &str, now: Timestamp) -> Markup {
    html! {
        @for note in of.notes().iter().take(NOTES_TOLD) {
            (kit::note(Kind::Warn, "Not everything was looked at", visible(note), ""))
        }
        @if let Some(other) = of.other_id() {
            (kit::note(Kind::Warn, "The event that was given has another id", html! {
                "It is " code { (visible(other)) } ": what event subscriptions make of an event is told of that one."
            }, ""))
        }
        @if of.outcome().is_ok() { (tiles(of)) }
        (places::lanes(app, of, id, now))
        div.g.g21[of.event.is_some()] {
            div {
                (places::attempts_of(of))
                @if of.outcome().is_ok() {
                    @for gap in &of.left_out { p.sm.m { "The journal: " (text::sentence(gap)) "." } }
                }
            }
            @if let Some(EventText { json, letter_of }) = &of.event {
                @let from = letter_of.as_ref().map(|name| format!("from a dead letter of {name}"));
                @let from = html! { span.sm.m { (from.as_deref().unwrap_or("as it was given")) } };
                @let json = output::indented(json).unwrap_or_else(|| json.clone());
                @let told: String = json.chars().take(EVENT_TOLD).collect();
                @let told = if told.len() < json.len() { told + "…" } else { told };
                @let label = format!("the event in {}", of.topic());
                div { (kit::card("The event", from, kit::json(&label, &told))) }
            }
        }
    }
}

fn tiles(of: &Explanation) -> Markup {
    let places = places(of);
    let is =
        |standing| number(places.iter().filter(|one| one.standing() == standing).count() as u64);
    let wanted = number(places.iter().filter(|one| one.is_wanted()).count() as u64);
    let event = of.event.as_ref().and_then(|event| serde_json::from_str(&event.json).ok());
    let event: Value = event.unwrap_or_default();
    let member = |name: &str| Some(text::soft(event.get(name)?.as_str()?));
    let subject = member("subject");
    let by = match of.verdicts {
        Some(_) => format!("{} not, as the filters are now", is(Standing::Filtered)),
        None => "by the journal, or more".to_owned(),
    };
    let first = places.iter().filter_map(Place::delivered_after).min().map(chart::duration);
    html! {
        div.g.gt {
            @if let Some(at) = places::published(of) {
                (kit::tile("", None, "Published", text::clock(at), text::time(at), ""))
            }
            @if let Some(kind) = member("eventType").or_else(|| member("type")) {
                @let subject = html! { @if let Some(subject) = subject { "subject " (subject) } };
                (kit::tile("", None, "Type", kind, subject, ""))
            }
            (kit::tile("", None, "Wanted by", kit::unit(wanted, format!("of {}", places.len())), by, ""))
            (kit::tile("", Kind::Ok, "Delivered to", is(Standing::Delivered),
                html! { @if let Some(first) = first { "first after " (first) } }, ""))
        }
    }
}

fn event_form(
    app: &App,
    topics: &Page<Topic>,
    topic: Option<&str>,
    id: &str,
    typed: &EventQuery,
) -> Markup {
    html! {
        details id="give" open[typed.event.is_some()] {
            summary { "Who did not want it, and why: give the event itself" }
            (app.act("/events", html! {
                @match topic {
                    Some(topic) => input type="hidden" name="topic" value=(topic);,
                    None => (choose_topic(Some(topics), None, "Choose its topic")),
                }
                input type="hidden" name="id" value=(id);
                input type="hidden" name="since" value=(typed.since());
                @if let Some(exact) = &typed.exact { input type="hidden" name=(EXACT) value=(exact); }
                div.field {
                    label for="event" { "The event as it was published" }
                    textarea id="event" name="event" rows="12" spellcheck="false" required {
                        "\n" (text::visible_json(typed.event.as_deref().unwrap_or_default()))
                    }
                }
                button.pri { "Ask every filter" }
            }))
        }
    }
}

//! Attempts as they are made, by server-sent events from what `gridpost tail` reads.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use gridpost_api::schema::Time;
use gridpost_core::journal::EntryKind;
use gridpost_core::time::Timestamp;
use maud::{Markup, PreEscaped, html};
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};

use super::App;
use super::attempts;
use super::chart::{self, Bars, Kind};
use super::event::{choose_topic, names};
use super::failure::{self, Answer};
use super::form::given;
use super::kit::{self, Icon};
use super::page::{self, Frame, Head, Tab};
use super::sought::LeftOut;
use super::text;
use super::traffic::{Scope, Since};
use super::urls::{subscription_url, with_query};
use gridpost_ops::{
    attempt_lines::AttemptLine,
    failure::chain,
    given::TimeSpan,
    output,
    tail::{CaughtUp, Filter, Follower, POLL},
};

const SINCE: TimeSpan = TimeSpan::minutes(10);

/// A stream that was left for longer does not go on where it was: that would read the log of hours.
const LEFT_MAX: TimeSpan = TimeSpan::minutes(60);

/// Attempts that a stream sends at once at most: a page keeps 500 lines, and some are told of what is missing.
const SENT_MAX: usize = 400;

/// How much further a stream has come before it says so without an attempt: a page that connects again goes on
/// from there.
const MOVED_MS: i64 = 60_000;

/// Attempts that the page has from the beginning: it weighs 100 KB at most.
const FIRST_MAX: usize = 40;

/// The part of the page that shows the rate, and how often it is drawn.
const RATE: &str = "rate";
const RATE_EVERY: Duration = Duration::from_secs(15);

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct TailQuery {
    topic: Option<String>,
    name: Option<String>,
    failed: Option<String>,
    /// How far the page has come, which its stream goes on from.
    from: Option<i64>,
}

impl TailQuery {
    /// Leaves out what does not show: no name has it.
    fn clean(&mut self) -> LeftOut {
        LeftOut::of([("topic", &mut self.topic), ("name", &mut self.name)])
    }

    fn filter(&self) -> Filter {
        let (topic, name) = (given(self.topic.as_ref()), given(self.name.as_ref()));
        Filter { topic, name, outcome: Vec::new(), failed: self.failed.is_some() }
    }

    fn pairs(&self) -> [(&'static str, &str); 3] {
        let all = [("topic", &self.topic), ("name", &self.name), ("failed", &self.failed)];
        all.map(|(name, value)| (name, value.as_deref().unwrap_or_default()))
    }

    fn command(&self) -> String {
        let flag = |(name, value): &(&str, &str)| match (*name, value.trim()) {
            (_, "") => String::new(),
            ("failed", _) => " --failed".to_owned(),
            (name, value) => format!(" --{name} {}", output::word(value)),
        };
        format!("tail --since 10m{}", self.pairs().iter().map(flag).collect::<String>())
    }
}

/// A row as the script gets it.
#[derive(Serialize)]
struct Entry {
    id: String,
    at: i64,
    html: String,
    /// The row that it takes the place of: its end as it was under way.
    over: Option<String>,
}

impl Entry {
    /// An attempt or an end.
    fn of(line: &AttemptLine) -> Self {
        let of_end = |(delivery, events)| format!("end-{delivery}-{events}");
        let id = match line.kind {
            EntryKind::Ending => of_end(attempts::end(line)),
            _ => format!("line-{}", line.id),
        };
        let (at, name) = (line.time.0.as_millis(), line.subscription());
        let url = subscription_url(&line.topic, &line.event_subscription, "");
        let mut cells = attempts::row(line, html! { a.cut href=(url) title=(name) { (name) } });
        cells.insert(5, attempts::events(line));
        let row = html! { tr id=(id) data-at=(at) data-chip=(chip(line)) { (kit::cells(&head(), &cells)) } };
        Self { id, at, html: row.into_string(), over: attempts::done(line).map(of_end) }
    }

    /// What is not shown, at its time.
    fn gap(at: i64, told: &Markup) -> Self {
        let id = format!("gap-{at}");
        let html = html! { tr id=(id) data-at=(at) { td colspan=(head().len()) { (told) } } };
        Self { id, at, html: html.into_string(), over: None }
    }
}

fn head() -> [(&'static str, &'static str); 7] {
    let [time, name, number, answer, took, follows] = attempts::head("Event subscription");
    [time, name, number, answer, took, ("Events", ""), follows]
}

/// What became of an attempt: what the script shows or hides.
const CHIPS: [(&str, &str, Kind); 3] =
    [("ok", "Delivered", Kind::Ok), ("again", "Retried", Kind::Warn), ("end", "Ended", Kind::Dead)];

fn chip(line: &AttemptLine) -> &'static str {
    match line.kind {
        _ if line.is_success() => "ok",
        EntryKind::Failure if line.reason.is_none() => "again",
        _ => "end",
    }
}

/// Makes an event of the stream; its data are JSON.
fn event(name: &str, data: &impl Serialize) -> Event {
    Event::default().event(name).data(serde_json::to_string(data).unwrap_or_default())
}

/// The page with what was logged in the last minutes; the stream goes on from a little before its newest
/// line, and what it has already is left out there.
pub(super) async fn show(State(app): State<App>, Query(mut query): Query<TailQuery>) -> Answer {
    let left_out = query.clean();
    let begin = app.settings.target.ago(SINCE).await?;
    let mut follower = Follower::of(app.tail_journal.clone(), query.filter(), begin);
    let CaughtUp { mut lines, begins_ms } = follower.catch_up(FIRST_MAX).await?;
    attempts::keep_each_end_once(&mut lines);
    let gap = begins_ms
        .map(|at| Entry::gap(at - 1, &html! { "What was attempted before is not shown." }));
    let rows = lines.iter().rev().map(Entry::of).chain(gap);
    let stream = with_query("/tail/stream", &query.pairs());
    let table = html! {
        @if lines.is_empty() {
            div id="tail-empty" {
                (kit::nothing(Icon::TAIL, "Waiting for attempts", html! {
                    "No attempt was logged in the last 10 minutes"
                    @if query.pairs().iter().any(|(_, value)| !value.is_empty()) { " of what is chosen" }
                    ". Publish an event, and it shows here."
                }, "", ""))
            }
        }
        div.scroll id="table-tail" role="region" aria-labelledby="caption-tail" tabindex="0" {
            table.st.feed {
                caption id="caption-tail" { "Attempts, the newest first" }
                (kit::heads(&head()))
                tbody data-stream=(stream) data-from=(follower.position_ms()) {
                    @for row in rows { (PreEscaped(row.html)) }
                }
            }
        }
        footer.sm.m {
            "The newest 500 are kept here. On AWS, attempts that succeed at once are logged only where "
            code { "log_successful_attempts" } " is set."
            @for gap in &follower.gaps { " The journal: " (text::sentence(gap)) "." }
        }
    };
    let (filters, rate) = tokio::join!(filters(&app, &query), rate(&app, &query));
    let body = html! { (filters) (left_out.notes()) (rate) (kit::flush("", "", table)) };
    let head = Head {
        beside: Some(
            html! { span.m.sm id="tail-state" role="status" { "Reload the page for what is new" } },
        ),
        actions: Some(html! { button type="button" id="tail-pause" hidden { "Pause" } }),
        ..Head::default()
    };
    let command = query.command();
    let frame = Frame { tab: Tab::Tail, title: "Live tail", above: Vec::new(), command };
    Ok(app.page_of(&frame, &head, &body))
}

/// Draws how many attempts there were in each of the last minutes.
async fn rate(app: &App, query: &TailQuery) -> Markup {
    // On AWS it is a query of its own every minute, which attempts would wait for.
    if !app.settings.target.is_dev() {
        return html! {};
    }
    let Filter { topic, name, .. } = query.filter();
    let scope = Scope { topic: topic.as_deref(), name: name.as_deref() };
    let traffic = match app.settings.target.now().await {
        Ok(now) => app.traffic(scope, Since::QUARTER_HOUR, now).await,
        Err(error) => Err(error),
    };
    let told = "The rate of attempts is not known.";
    let rate = failure::or_problem(told, &traffic, |traffic| {
        let series = traffic.attempts();
        let label = "Attempts a minute, the last 15 minutes";
        let bars = Bars { low: true, ..traffic.bars(label, &series) };
        kit::card(label, bars.legend(), bars.picture())
    });
    page::live_part(RATE, &rate)
}

/// What is asked for, and what the page shows of it.
async fn filters(app: &App, query: &TailQuery) -> Markup {
    let Filter { topic, name, failed, .. } = query.filter();
    // What can't be read is no list: then there are fields.
    let topics = app.api.topics_page(None).await.ok();
    let subscriptions = match &topic {
        Some(topic) => app.api.subscriptions_page(topic, None).await.ok(),
        None => None,
    };
    let all = names(subscriptions.as_ref(), |one| &one.name);
    let name = name.as_deref().unwrap_or_default();
    html! {
        form.row method="get" action="/tail" role="search" aria-label="Which attempts" data-choose {
            (choose_topic(topics.as_ref(), topic.as_deref(), "All topics"))
            (kit::names("name", "Event subscription", "All event subscriptions", all.as_deref(), name))
            label.check { input type="checkbox" name="failed" value="yes" checked[failed]; "Only failures" }
            button { "Follow" }
            span.row.script id="tail-filters" {
                input type="search" id="tail-words" aria-label="Only lines with these words"
                    placeholder="Event id, response…";
                @for (chip, name, kind) in CHIPS {
                    button.chip type="button" data-only=(chip) aria-pressed="true" {
                        (chart::dot(kind)) (name) " " span.n.m {}
                    }
                }
            }
        }
    }
}

/// The state of a stream between two looks.
struct Following {
    app: App,
    query: TailQuery,
    /// When the rate was drawn, which is sent again from time to time.
    rated: Instant,
    follower: Follower,
    events: VecDeque<Event>,
    /// How far the page knows that it has come.
    told_ms: i64,
    is_over: bool,
    _permit: OwnedSemaphorePermit,
}

/// The stream. What keeps it from being one is told in it: a browser's script can't read the status and
/// the text of a stream that is refused.
pub(super) async fn stream(
    State(app): State<App>,
    headers: HeaderMap,
    Query(mut query): Query<TailQuery>,
) -> Response {
    query.clean();
    let Ok(permit) = std::sync::Arc::clone(&app.tails).try_acquire_owned() else {
        return problem(
            "Four live tails are open, which is the most: close one of them, and go on.",
        );
    };
    // A browser that connects again says how far it has come.
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let position = last.and_then(|text| text.parse().ok()).or(query.from);
    let following = match following(&app, &query, position, permit).await {
        Ok(following) => following,
        Err(error) => return problem(&chain(&error)),
    };
    let events = stream::unfold(following, async |mut following| {
        while following.events.is_empty() && !following.is_over {
            // On AWS, a look may be a call of the account's logs, whose rate is small.
            sleep(POLL).await;
            following.look().await;
        }
        let event = following.events.pop_front()?;
        Some((Ok::<_, Infallible>(event), following))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

async fn following(
    app: &App,
    query: &TailQuery,
    position: Option<i64>,
    permit: OwnedSemaphorePermit,
) -> anyhow::Result<Following> {
    let target = &app.settings.target;
    let now = target.now().await?;
    let earliest = target.ago(LEFT_MAX).await?;
    let wanted_ms = position.unwrap_or(now.as_millis()).clamp(0, now.as_millis());
    let from = wanted_ms.max(earliest.as_millis());
    let mut follower = Follower::resumed(app.tail_journal.clone(), query.filter(), from);
    let CaughtUp { lines, begins_ms } = follower.catch_up(SENT_MAX).await?;
    let begins_ms = begins_ms.or(Some(from).filter(|from| *from > wanted_ms));
    let mut following = Following {
        app: std::sync::Arc::clone(app),
        query: query.clone(),
        rated: Instant::now(),
        follower,
        events: VecDeque::new(),
        told_ms: wanted_ms,
        is_over: false,
        _permit: permit,
    };
    following.tell(CaughtUp { lines, begins_ms });
    Ok(following)
}

fn problem(text: &str) -> Response {
    Sse::new(stream::iter([Ok::<_, Infallible>(event("problem", &text))])).into_response()
}

impl Following {
    async fn look(&mut self) {
        if self.app.settings.target.is_dev() && self.rated.elapsed() >= RATE_EVERY {
            self.rated = Instant::now();
            let html = rate(&self.app, &self.query).await.into_string();
            self.events.push_back(event("part", &html));
        }
        match self.follower.look(SENT_MAX).await {
            Ok(looked) => self.tell(looked),
            Err(error) => {
                self.is_over = true;
                self.events.push_back(event("problem", &chain(&error)));
            }
        }
    }

    /// Sends attempts, or how far the stream has come without one; before them, what is not shown.
    fn tell(&mut self, CaughtUp { mut lines, begins_ms }: CaughtUp) {
        let left_ms = self.told_ms;
        let begins_ms = begins_ms.filter(|begins_ms| *begins_ms > left_ms);
        let gap = begins_ms.map(|begins_ms| Entry::gap(left_ms, &left_out(left_ms, begins_ms)));
        self.events.extend(gap.map(|gap| event("gap", &gap)));
        attempts::keep_each_end_once(&mut lines);
        for entry in lines.iter().map(Entry::of) {
            self.told_ms = self.told_ms.max(entry.at);
            self.events.push_back(event("attempt", &entry).id(entry.at.to_string()));
        }
        let position_ms = self.follower.position_ms();
        if position_ms >= self.told_ms.saturating_add(MOVED_MS) {
            self.told_ms = position_ms;
            let position = Event::default().event("position").id(position_ms.to_string());
            self.events.push_back(position.data("{}"));
        }
    }
}

/// Says what a page that was left, or that gets more than it can show, does not show.
fn left_out(left_ms: i64, begins_ms: i64) -> Markup {
    let [left, begins] =
        [left_ms, begins_ms].map(|at_ms| text::clock(Time(Timestamp::from_millis(at_ms))));
    html! {
        "What was attempted from " (left) " to " (begins) " is not shown. " code { "gridpost tail --since" }
        " and " code { "gridpost explain" } " read it."
    }
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_line_has_the_chip_of_what_became_of_it_and_takes_the_place_of_its_end_under_way() {
        let line = |patch: &Value| {
            let entry = serde_json::from_value(documents::journal_entry(patch));
            AttemptLine(entry.expect("an entry"))
        };
        for (patch, want) in [
            (json!({"kind": "Success"}), "ok"),
            (json!({"kind": "LateSuccess"}), "ok"),
            (json!({"due": "2026-01-01T00:00:00Z"}), "again"),
            (json!({"reason": "R"}), "end"),
            (json!({"kind": "DeadLettered"}), "end"),
            (json!({"kind": "SuccessAfterEnd"}), "end"),
        ] {
            assert_eq!(chip(&line(&patch)), want, "{patch}");
        }
        let entry = |kind: &str| Entry::of(&line(&json!({ "kind": kind })));
        let over = ["Dropped", "Failure", "Ending"].map(|kind| entry(kind).over);
        assert_eq!(over, [Some(entry("Ending").id), None, None]);
    }
}

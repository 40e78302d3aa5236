//! Attempts as they are made, by server-sent events from what `gridpost tail` reads.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream};
use gridpost_api::schema::Time;
use gridpost_core::journal::EntryKind;
use gridpost_core::time::Timestamp;
use maud::{Markup, PreEscaped, html};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};

use super::App;
use super::attempts;
use super::chart::{self, Bars, Kind};
use super::event::choose_topic;
use super::failure::{self, Answer};
use super::form::given;
use super::kit::{self, Icon};
use super::live::Part;
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

/// Attempts that a stream catches up with at most: a page keeps 500 lines, and some are told of what is missing.
const CAUGHT_UP_MAX: usize = 400;

/// How much further a stream has come before it says so without an attempt: a page that connects again goes on
/// from there.
const MOVED_MS: i64 = 60_000;

const FIRST_MAX: usize = 100;

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
        let mut left_out = LeftOut::default();
        left_out.clean("topic", &mut self.topic);
        left_out.clean("name", &mut self.name);
        left_out
    }

    fn filter(&self) -> Filter {
        let (topic, name) = (given(self.topic.as_ref()), given(self.name.as_ref()));
        Filter { topic, name, outcome: Vec::new(), failed: self.failed.is_some() }
    }

    fn is_narrow(&self) -> bool {
        let Filter { topic, name, failed, .. } = self.filter();
        topic.is_some() || name.is_some() || failed
    }

    fn pairs(&self) -> Vec<(&'static str, &str)> {
        let all = [("topic", &self.topic), ("name", &self.name), ("failed", &self.failed)];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }

    fn command(&self) -> String {
        let Filter { topic, name, failed, .. } = self.filter();
        let flag = |flag: &str, value: Option<String>| {
            value.map_or(String::new(), |value| format!(" --{flag} {}", output::word(&value)))
        };
        let failed = if failed { " --failed" } else { "" };
        format!("tail --since 10m{}{}{failed}", flag("topic", topic), flag("name", name))
    }
}

/// Returns a line's id on the page: the line comes again where a stream goes on.
fn id(line: &AttemptLine) -> String {
    let hash = Sha256::digest(line.id.as_bytes());
    hash[..10].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A row as the script gets it.
#[derive(Serialize)]
struct Entry {
    id: String,
    at: i64,
    html: String,
}

impl Entry {
    fn of(line: &AttemptLine) -> Self {
        let (id, at) = (format!("line-{}", id(line)), line.time.0.as_millis());
        let html = row(line, &id).into_string();
        Self { id, at, html }
    }

    /// What is not shown, at its time.
    fn gap(at: i64, told: &Markup) -> Self {
        let id = format!("gap-{at}");
        let html = html! { tr id=(id) data-at=(at) { td colspan=(HEAD.len()) { (told) } } };
        Self { id, at, html: html.into_string() }
    }
}

const HEAD: [(&str, &str); 7] = [
    ("Time", "nw"),
    ("Event subscription", "nw"),
    ("#", "n"),
    ("Answer", ""),
    ("Took", "n nw"),
    ("Events", ""),
    ("What follows", "gr"),
];

/// What became of an attempt: what the script shows or hides.
const CHIPS: [(&str, &str, Kind); 3] =
    [("ok", "Delivered", Kind::Ok), ("again", "Retried", Kind::Warn), ("end", "Ended", Kind::Dead)];

fn chip(line: &AttemptLine) -> &'static str {
    match line.kind {
        EntryKind::Success | EntryKind::LateSuccess => "ok",
        EntryKind::Failure if line.reason.is_none() => "again",
        _ => "end",
    }
}

/// An attempt or an end.
fn row(line: &AttemptLine, id: &str) -> Markup {
    let url = subscription_url(&line.topic, &line.event_subscription, "");
    let name = html! { a.cut href=(url) title=(line.subscription()) { (line.subscription()) } };
    let mut cells = attempts::row(line, name);
    cells.insert(5, attempts::events(line));
    html! {
        tr id=(id) data-at=(line.time.0.as_millis()) data-chip=(chip(line)) { (kit::cells(&HEAD, &cells)) }
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
    let rate = rate(&app, &query).await;
    let older = lines.len().saturating_sub(FIRST_MAX);
    lines.drain(..older);
    let first = lines.first().map(|line| line.time.0.as_millis());
    let begins_ms = if older > 0 { first } else { begins_ms };
    let gap = begins_ms
        .map(|at| Entry::gap(at - 1, &html! { "What was attempted before is not shown." }));
    let entries = lines.iter().rev().map(Entry::of).chain(gap);
    let rows: Vec<_> = entries.map(|entry| PreEscaped(entry.html)).collect();
    let table = html! {
        @if lines.is_empty() {
            div id="tail-empty" {
                (kit::nothing(Icon::Tail, "Waiting for attempts", html! {
                    "Nothing was attempted in the last 10 minutes"
                    @if query.is_narrow() { " of what is chosen" } ". Publish an event, and it shows here."
                }, "", ""))
            }
        }
        div.scroll id="table-tail" role="region" aria-labelledby="caption-tail" tabindex="0" {
            table.st.feed {
                caption id="caption-tail" { "Attempts, the newest first" }
                (kit::heads(&HEAD))
                tbody data-stream=(with_query("/tail/stream", &query.pairs())) data-from=(follower.position_ms()) {
                    @for row in rows { (row) }
                }
            }
        }
        footer.sm.m {
            "The newest 500 are kept here. On AWS, attempts that succeed at once are logged only where "
            code { "log_successful_attempts" } " is set."
            @for gap in &follower.gaps { " The journal: " (text::sentence(gap)) "." }
        }
    };
    let filters = filters(&app, &query).await;
    let rate = page::live_part(RATE, &rate);
    let body = html! { (filters) (left_out.notes()) (rate) (kit::flush("", "", table)) };
    let command = query.command();
    let frame = Frame { tab: Tab::Tail, title: "Live tail", above: Vec::new(), command };
    let state =
        html! { span.m.sm id="tail-state" role="status" { "Reload the page for what is new" } };
    let pause = html! { button type="button" id="tail-pause" hidden { "Pause" } };
    let head = Head { beside: Some(state), actions: Some(pause), ..Head::default() };
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
    let traffic = match traffic {
        Ok(traffic) => traffic,
        Err(error) => return failure::problem("The rate of attempts is not known.", &error),
    };
    let series = traffic.attempts();
    let label = "Attempts a minute, the last 15 minutes";
    let bars = Bars { low: true, ..traffic.bars(label, &series) };
    kit::card(label, bars.legend(), bars.picture())
}

/// What is asked for, and what the page shows of it.
async fn filters(app: &App, query: &TailQuery) -> Markup {
    let (topic, name) =
        (given(query.topic.as_ref()), given(query.name.as_ref()).unwrap_or_default());
    // What can't be read is no list: then there are fields.
    let topics = app.api.topics_page(None).await.ok();
    let subscriptions = match &topic {
        Some(topic) => app.api.subscriptions_page(topic, None).await.ok(),
        None => None,
    };
    let names = subscriptions.filter(|page| page.next.is_none()).map(|page| page.items);
    let names: Option<Vec<_>> =
        names.as_ref().map(|all| all.iter().map(|one| one.name.as_str()).collect());
    html! {
        form.row method="get" action="/tail" role="search" aria-label="Which attempts" data-choose {
            (choose_topic(topics.as_ref(), topic.as_deref(), "All topics"))
            (kit::names("name", "Event subscription", "All event subscriptions", names.as_deref(), &name))
            label.check { input type="checkbox" name="failed" value="yes" checked[query.failed.is_some()]; "Only failures" }
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
    /// What the page was away for and does not show; it is told first.
    gap: Option<Entry>,
    /// Read, and not sent yet; the oldest last.
    lines: Vec<AttemptLine>,
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
    match following(&app, &query, position, permit).await {
        Ok(following) => {
            Sse::new(events(following)).keep_alive(KeepAlive::default()).into_response()
        }
        Err(error) => problem(&chain(&error)),
    }
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
    let CaughtUp { mut lines, begins_ms } = follower.catch_up(CAUGHT_UP_MAX).await?;
    lines.reverse();
    let begins_ms = begins_ms.or(Some(from).filter(|from| *from > wanted_ms));
    let gap = begins_ms.map(|begins_ms| Entry::gap(wanted_ms, &left_out(wanted_ms, begins_ms)));
    Ok(Following {
        app: std::sync::Arc::clone(app),
        query: query.clone(),
        rated: Instant::now(),
        follower,
        gap,
        lines,
        told_ms: wanted_ms,
        is_over: false,
        _permit: permit,
    })
}

fn problem(text: &str) -> Response {
    Sse::new(stream::iter([Ok::<_, Infallible>(event("problem", &text))])).into_response()
}

fn events(following: Following) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(following, async |mut following| {
        if following.is_over {
            return None;
        }
        loop {
            if let Some(event) = following.next() {
                return Some((Ok(event), following));
            }
            if following.rated.elapsed() >= RATE_EVERY {
                following.rated = Instant::now();
                let html = page::live_part(RATE, &rate(&following.app, &following.query).await);
                let part = Part { id: RATE, html: &html.into_string() };
                return Some((Ok(event("part", &part)), following));
            }
            // On AWS, a look may be a call of the account's logs, whose rate is small.
            sleep(POLL).await;
            match following.follower.look().await {
                Ok(lines) => following.lines = lines.into_iter().rev().collect(),
                Err(error) => {
                    following.is_over = true;
                    return Some((Ok(event("problem", &chain(&error))), following));
                }
            }
        }
    })
}

impl Following {
    /// Returns what is known and not sent yet: a gap, an attempt, or how far the stream has come without one.
    fn next(&mut self) -> Option<Event> {
        if let Some(gap) = self.gap.take() {
            return Some(event("gap", &gap));
        }
        if let Some(line) = self.lines.pop() {
            let at_ms = line.time.0.as_millis();
            self.told_ms = self.told_ms.max(at_ms);
            return Some(event("attempt", &Entry::of(&line)).id(at_ms.to_string()));
        }
        let position_ms = self.follower.position_ms();
        if position_ms < self.told_ms.saturating_add(MOVED_MS) {
            return None;
        }
        self.told_ms = position_ms;
        Some(Event::default().event("position").id(position_ms.to_string()).data("{}"))
    }
}

/// Says what a page that was left does not show.
fn left_out(left_ms: i64, begins_ms: i64) -> Markup {
    let [left, begins] =
        [left_ms, begins_ms].map(|at_ms| text::clock(Time(Timestamp::from_millis(at_ms))));
    html! {
        "The page was away: what was attempted from " (left) " to " (begins) " is not shown. " code { "gridpost tail --since" }
        " and " code { "gridpost explain" } " read it."
    }
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_left_out_is_told_by_its_times() {
        let gap = Entry::gap(0, &left_out(0, 60_000));
        let times = ["1970-01-01T00:00:00.000Z\"", "1970-01-01 00:01:00.000 UTC"];
        for part in times.into_iter().chain(["tail --since", "data-at=\"0\""]) {
            assert!(gap.html.contains(part), "{part} is not in {}", gap.html);
        }
    }

    #[test]
    fn a_line_has_the_chip_of_what_became_of_it() {
        let chip = |patch: &Value| {
            let entry = serde_json::from_value(documents::journal_entry(patch));
            chip(&AttemptLine(entry.expect("an entry")))
        };
        for (patch, want) in [
            (json!({"kind": "Success"}), "ok"),
            (json!({"kind": "LateSuccess"}), "ok"),
            (json!({"due": "2026-01-01T00:00:00Z"}), "again"),
            (json!({"reason": "R"}), "end"),
            (json!({"kind": "DeadLettered"}), "end"),
            (json!({"kind": "SuccessAfterEnd"}), "end"),
        ] {
            assert_eq!(chip(&patch), want, "{patch}");
        }
    }
}

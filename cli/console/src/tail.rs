//! Attempts as they are made, by server-sent events from what `gridpost tail` reads.

use std::convert::Infallible;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream};
use gridpost_core::time::Timestamp;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;

use super::App;
use super::failure::Answer;
use super::form::given;
use super::page::{self, Frame, Tab, subscription_url, with_query};
use super::sought::LeftOut;
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

const IDS_TOLD: usize = 3;

const FIRST_MAX: usize = 100;

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

    fn pairs(&self) -> Vec<(&'static str, &str)> {
        let all = [("topic", &self.topic), ("name", &self.name), ("failed", &self.failed)];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }

    fn command(&self) -> String {
        let Filter { topic, name, failed, .. } = self.filter();
        let mut command = "tail --since 10m".to_owned();
        for (flag, value) in [("topic", topic), ("name", name)] {
            if let Some(value) = value {
                command.push_str(&format!(" --{flag} {}", output::word(&value)));
            }
        }
        if failed {
            command.push_str(" --failed");
        }
        command
    }
}

/// Describes a line, with the ids of its events as far as they are logged.
fn told(line: &AttemptLine) -> String {
    let ids = &line.event_ids;
    let more = if ids.len() > IDS_TOLD { ", …" } else { "" };
    match ids.is_empty() {
        true => line.describe(),
        false => {
            let ids = ids[..ids.len().min(IDS_TOLD)].join(", ");
            format!("{} [{ids}{more}]", line.describe())
        }
    }
}

/// Returns a line's id on the page: the line comes again where a stream goes on.
fn id(line: &AttemptLine) -> String {
    let hash = Sha256::digest(line.id.as_bytes());
    hash[..10].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A line as the script gets it; its texts are shown as texts.
#[derive(Serialize)]
struct Entry {
    id: String,
    at: i64,
    time: String,
    subscription: String,
    url: String,
    number: String,
    told: String,
    good: bool,
}

impl Entry {
    fn of(line: &AttemptLine) -> Self {
        Self {
            id: id(line),
            at: line.time.0.as_millis(),
            time: line.time.to_string(),
            subscription: line.subscription(),
            url: subscription_url(&line.topic, &line.event_subscription, ""),
            number: line.label(),
            told: page::visible(&told(line)),
            good: line.outcome.as_deref() == Some("Delivered"),
        }
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
    let CaughtUp { lines, .. } = follower.catch_up(FIRST_MAX).await?;
    let first: Vec<_> = lines.iter().rev().take(FIRST_MAX).map(Entry::of).collect();
    let body = html! {
        (form(&query, &left_out))
        p { span id="tail-state" role="status" { "Reload the page for what is new." } " "
            button.second type="button" id="tail-pause" hidden { "Pause" } }
        @if first.is_empty() {
            p.muted id="tail-empty" { "Nothing was attempted in the last 10 minutes. Publish an event, and it shows here." }
        }
        ol.live data-stream=(with_query("/tail/stream", &query.pairs())) data-from=(follower.position_ms())
            aria-label="Attempts, the newest first" {
            @for one in &first { (item(one)) }
        }
    };
    let command = query.command();
    let frame = Frame { tab: Tab::Tail, title: "Live tail", above: Vec::new(), command };
    Ok(app.page(&frame, &body))
}

fn item(one: &Entry) -> Markup {
    let class = if one.good { "good" } else { "bad" };
    html! {
        li id={ "line-" (one.id) } data-at=(one.at) {
            (page::time_or_text(&one.time)) " "
            a href=(one.url) { (one.subscription) } " "
            (one.number) " " span class=(class) { (one.told) }
        }
    }
}

fn form(query: &TailQuery, left_out: &LeftOut) -> Markup {
    html! {
        form.row method="get" action="/tail" role="search" aria-label="Which attempts" {
            label { "Topic " input name="topic" value=(query.topic.as_deref().unwrap_or_default()); }
            label { "Event subscription of it " input name="name" value=(query.name.as_deref().unwrap_or_default()); }
            label.check { input type="checkbox" name="failed" value="yes" checked[query.failed.is_some()]; "Only failures" }
            button.second { "Follow" }
        }
        (left_out.notes())
        p.muted { "On AWS, attempts that succeed at once are logged only where log_successful_attempts is set." }
    }
}

/// The state of a stream between two looks.
struct Following {
    follower: Follower,
    /// Where it began, if that is later than where the page left.
    began_ms: Option<i64>,
    /// Read, and not sent yet; the oldest last.
    lines: Vec<AttemptLine>,
    left_ms: i64,
    /// How far the page knows that it has come.
    told_ms: i64,
    is_over: bool,
    has_looked: bool,
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
    let follower = Follower::resumed(app.tail_journal.clone(), query.filter(), from);
    Ok(Following {
        follower,
        began_ms: Some(from).filter(|from| *from > wanted_ms),
        lines: Vec::new(),
        left_ms: wanted_ms,
        told_ms: wanted_ms,
        is_over: false,
        has_looked: false,
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
            match following.look().await {
                Ok(Some(gap)) => return Some((Ok(event("gap", &gap)), following)),
                Ok(None) => {}
                Err(error) => {
                    following.is_over = true;
                    return Some((Ok(event("problem", &chain(&error))), following));
                }
            }
        }
    })
}

impl Following {
    /// Returns what is known and not sent yet: an attempt, or how far the stream has come without
    /// one.
    fn next(&mut self) -> Option<Event> {
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

    /// Looks for what is new. The first look catches up, and may have something left out.
    async fn look(&mut self) -> anyhow::Result<Option<String>> {
        let (mut lines, gap) = match std::mem::replace(&mut self.has_looked, true) {
            false => {
                let CaughtUp { lines, begins_ms } = self.follower.catch_up(CAUGHT_UP_MAX).await?;
                let begins_ms = begins_ms.or(self.began_ms);
                (lines, begins_ms.map(|begins_ms| left_out(self.left_ms, begins_ms)))
            }
            // On AWS, a look may be a call of the account's logs, whose rate is small.
            true => {
                sleep(POLL).await;
                (self.follower.look().await?, None)
            }
        };
        lines.reverse();
        self.lines = lines;
        Ok(gap)
    }
}

/// Says what a page that was left does not show.
fn left_out(left_ms: i64, begins_ms: i64) -> String {
    let [left, begins] =
        [left_ms, begins_ms].map(|at_ms| Timestamp::from_millis(at_ms).to_iso_8601());
    format!(
        "The page was away: what was attempted from {left} to {begins} is not shown. `gridpost tail --since` and \
         `gridpost explain` read it."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_told_by_its_times() {
        let told = left_out(0, 60_000);
        for part in ["1970-01-01T00:00:00.000Z", "1970-01-01T00:01:00.000Z", "tail --since"] {
            assert!(told.contains(part), "{part} is not in {told}");
        }
    }
}

//! Attempts as they are made, by server-sent events from what `gridpost tail` reads.

use std::convert::Infallible;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;

use super::App;
use super::failure::Answer;
use super::forms::given;
use super::page::{self, Frame, Tab, subscription_url, with_query};
use crate::attempt_lines::AttemptLine;
use crate::commands::tail::{Filter, Follower, POLL};
use crate::document::TimeToLive;
use crate::failure::chain;
use crate::output::text_at;

/// How far back the page begins.
const SINCE: TimeToLive = TimeToLive { minutes: 10 };

/// Ids of events that a line shows.
const IDS_TOLD: usize = 3;

/// Lines that the page begins with.
const FIRST_MAX: usize = 100;

/// What is followed.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Asked {
    topic: Option<String>,
    name: Option<String>,
    failed: Option<String>,
}

impl Asked {
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
                command.push_str(&format!(" --{flag} {}", page::word(&value)));
            }
        }
        if failed {
            command.push_str(" --failed");
        }
        command
    }
}

/// What a line says, and the ids of its events as far as they are told.
fn told(line: &AttemptLine) -> String {
    let ids = line.event_ids();
    let more = if ids.len() > IDS_TOLD { ", …" } else { "" };
    match ids.is_empty() {
        true => line.told(),
        false => {
            let ids = ids.iter().take(IDS_TOLD).cloned().collect::<Vec<_>>().join(", ");
            format!("{} [{ids}{more}]", line.told())
        }
    }
}

/// A line as the script gets it; what it says is text there.
fn entry(line: &AttemptLine) -> Value {
    let (topic, name) = line.subscription().unwrap_or_default();
    let number = match line.line["attempt"].as_u64() {
        Some(number) => format!("#{number}"),
        None => "end".to_owned(),
    };
    json!({
        "time": line.text("timestamp").unwrap_or("-"),
        "subscription": format!("{topic}/{name}"),
        "url": subscription_url(topic, name, ""),
        "number": number,
        "told": page::visible(&told(line)),
        "good": line.text("outcome") == Some("Delivered"),
    })
}

/// The page with what was logged in the last minutes; the stream goes on from there.
pub(super) async fn show(State(app): State<App>, Query(asked): Query<Asked>) -> Answer {
    let mut follower = Follower::of(&app.settings.target, asked.filter(), SINCE).await?;
    let lines = follower.look().await?;
    let first: Vec<_> = lines.iter().rev().take(FIRST_MAX).map(entry).collect();
    let body = html! {
        (form(&asked))
        p { span id="tail-state" role="status" { "Reload the page for what is new." } " "
            button.second type="button" id="tail-pause" hidden { "Pause" } }
        @if first.is_empty() {
            p.muted { "Nothing was attempted in the last 10 minutes. Publish an event, and it shows here." }
        }
        ol.live data-stream=(with_query("/tail/stream", &asked.pairs())) aria-label="Attempts, the newest first" {
            @for one in &first { (item(one)) }
        }
    };
    let command = asked.command();
    let frame = Frame { tab: Tab::Tail, title: "Live tail", above: Vec::new(), command };
    Ok(app.page(&frame, &body))
}

fn item(one: &Value) -> Markup {
    let class = if one["good"] == true { "good" } else { "bad" };
    html! {
        li {
            (page::time_at(one, "/time")) " "
            a href=(text_at(one, "/url")) { (text_at(one, "/subscription")) } " "
            (text_at(one, "/number")) " " span class=(class) { (text_at(one, "/told")) }
        }
    }
}

fn form(asked: &Asked) -> Markup {
    html! {
        form.row method="get" action="/tail" role="search" {
            label { "Topic " input name="topic" value=(asked.topic.as_deref().unwrap_or_default()); }
            label { "Event subscription of it " input name="name" value=(asked.name.as_deref().unwrap_or_default()); }
            label.check { input type="checkbox" name="failed" value="yes" checked[asked.failed.is_some()]; "Only failures" }
            button.second { "Follow" }
        }
        p.muted { "On AWS, attempts that succeed at once are logged only where log_successful_attempts is set." }
    }
}

/// What a stream keeps between two looks.
struct Following {
    follower: Follower,
    /// Read, and not sent yet; the oldest last.
    lines: Vec<AttemptLine>,
    is_over: bool,
    _permit: OwnedSemaphorePermit,
}

/// The stream.
pub(super) async fn stream(State(app): State<App>, Query(asked): Query<Asked>) -> Response {
    let Ok(permit) = std::sync::Arc::clone(&app.tails).try_acquire_owned() else {
        let told = "Enough live tails are open: close one of them.";
        return (StatusCode::SERVICE_UNAVAILABLE, told).into_response();
    };
    let since = TimeToLive { minutes: 0 };
    match Follower::of(&app.settings.target, asked.filter(), since).await {
        Ok(follower) => {
            let following =
                Following { follower, lines: Vec::new(), is_over: false, _permit: permit };
            Sse::new(events(following)).keep_alive(KeepAlive::default()).into_response()
        }
        Err(error) => (StatusCode::BAD_GATEWAY, chain(&error)).into_response(),
    }
}

fn events(following: Following) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(following, async |mut following| {
        if following.is_over {
            return None;
        }
        loop {
            if let Some(line) = following.lines.pop() {
                let event = Event::default().event("attempt").data(entry(&line).to_string());
                return Some((Ok(event), following));
            }
            match following.follower.look().await {
                Ok(mut lines) => {
                    lines.reverse();
                    following.lines = lines;
                }
                Err(error) => {
                    following.is_over = true;
                    let told = json!(chain(&error)).to_string();
                    return Some((Ok(Event::default().event("problem").data(told)), following));
                }
            }
            if following.lines.is_empty() {
                sleep(POLL).await;
            }
        }
    })
}

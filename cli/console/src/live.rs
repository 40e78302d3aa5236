//! Sends the parts of a page that have changed, while it is looked at: one stream of server-sent events a page.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use axum::body::{Body, to_bytes};
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, StatusCode, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, StreamExt};
use gridpost_api::health::Health;
use gridpost_core::time::Timestamp;
use maud::{Markup, PreEscaped};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};
use tower::ServiceExt;

use super::App;
use super::page::{is_live, live_parts};

/// How often a page is looked at again. On AWS each look reads tables: the more, the rarer.
const EVERY_ON_ONE_MACHINE: Duration = Duration::from_secs(5);
const EVERY_ON_AWS: Duration = Duration::from_secs(30);

/// For each health read on AWS: a read of a table and 16 of an index, so $0.015 in an hour at most.
const EVERY_OF_A_HEALTH: Duration = Duration::from_millis(360);

/// Waiting deliveries whose count costs as much.
const COUNTED_AS_ONE: usize = 400;

/// Begins the comment in a page that says how many of them it has read.
const READ: &str = "<!--read ";

/// Tells pages that they are looked at again, which leaves out what is dear.
pub(super) const AGAIN: &str = "x-again";

/// A page with all that it shows is far smaller.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Deserialize)]
pub(super) struct LiveQuery {
    page: String,
}

/// The pages whose pauses are known at most, and the longest pause for problems alone.
const PAUSES_MAX: usize = 256;
const EVERY_OF_PROBLEMS: Duration = Duration::from_secs(60);

/// The last look at each page, with the pause after it, which holds for its next stream too.
#[derive(Debug, Default)]
pub(super) struct Looks(Mutex<HashMap<String, (Instant, Duration)>>);

impl Looks {
    /// Returns how much of the pause is left.
    fn rest(&self, page: &str) -> Duration {
        let looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        looks.get(page).map_or(Duration::ZERO, |(at, every)| every.saturating_sub(at.elapsed()))
    }

    fn note(&self, page: String, every: Duration) {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        looks.retain(|_, (at, every)| at.elapsed() < *every);
        if looks.len() < PAUSES_MAX {
            looks.insert(page, (Instant::now(), every));
        }
    }
}

/// A page's stream between two looks.
struct Live {
    app: App,
    page: Uri,
    /// The parts as they were sent last, by their ids.
    sent: HashMap<String, String>,
    every: Duration,
    is_over: bool,
    _permit: OwnedSemaphorePermit,
}

pub(super) async fn stream(State(app): State<App>, Query(query): Query<LiveQuery>) -> Response {
    // A script can't read the status and the text of a stream that is refused: what there is to say is said in it.
    let Some(page) = page(&query.page) else { return only("over") };
    let permit = Arc::clone(&app.lives).try_acquire_owned();
    let Ok(permit) = permit else { return only("problem") };
    // Answers that the page did not wait for follow soon.
    let every = EVERY_ON_ONE_MACHINE.max(app.looks.rest(&page.to_string()));
    let live = Live { app, page, sent: HashMap::new(), every, is_over: false, _permit: permit };
    let looks = stream::unfold(live, async |mut live| {
        if live.is_over {
            return None;
        }
        sleep(live.every).await;
        let events = live.look().await;
        live.app.looks.note(live.page.to_string(), live.every);
        Some((stream::iter(events).map(Ok::<_, Infallible>), live))
    });
    Sse::new(looks.flatten()).keep_alive(KeepAlive::default()).into_response()
}

/// Tells, in a comment, how much this look at so many lists of healths has read.
pub(super) fn read<'h>(lists: usize, healths: impl Iterator<Item = &'h Health>) -> Markup {
    let weight = |health: &Health| 1 + health.waiting_deliveries.count.div_ceil(COUNTED_AS_ONE);
    PreEscaped(format!("{READ}{}-->", lists + healths.map(weight).sum::<usize>()))
}

/// Returns how long after a look at this page comes the next one.
fn every(page: &str, is_dev: bool) -> Duration {
    let weight = page.split_once(READ).and_then(|(_, rest)| rest.split_once("-->")?.0.parse().ok());
    match is_dev {
        true => EVERY_ON_ONE_MACHINE,
        false => EVERY_ON_AWS.max(EVERY_OF_A_HEALTH.saturating_mul(weight.unwrap_or(0))),
    }
}

/// A stream of one event.
fn only(name: &str) -> Response {
    Sse::new(stream::iter([Ok::<_, Infallible>(event(name, "-"))])).into_response()
}

/// A browser drops an event without data.
fn event(name: &str, data: &str) -> Event {
    Event::default().event(name).data(data)
}

/// Reads the URL of a page of the console.
fn page(url: &str) -> Option<Uri> {
    let is_page = url.starts_with('/') && !url.starts_with("//");
    url.parse().ok().filter(|_| is_page)
}

impl Live {
    /// Renders the page as if it was opened, and returns what is to be sent: what has changed.
    async fn look(&mut self) -> Vec<Event> {
        let (now, page) = match self.rendered().await {
            Ok((status, now, page)) if status.is_success() => (now, page),
            // What it showed was deleted.
            Ok((StatusCode::NOT_FOUND, ..)) => {
                self.is_over = true;
                return vec![event("gone", "-")];
            }
            _ => {
                self.every = self.every.max(EVERY_OF_PROBLEMS.min(self.every * 2));
                return vec![event("problem", "-")];
            }
        };
        let mut events = vec![event("now", &now.as_millis().to_string())];
        for (id, html) in live_parts(&page) {
            if self.sent.insert(id.to_owned(), html.to_owned()).as_deref() != Some(html) {
                events.push(event("part", &serde_json::Value::from(html).to_string()));
            }
        }
        self.every = every(&page, self.app.settings.target.is_dev());
        self.is_over = !is_live(&page);
        // A browser connects again where a stream merely ends.
        events.extend(self.is_over.then(|| event("over", "-")));
        events
    }

    async fn rendered(&self) -> anyhow::Result<(StatusCode, Timestamp, String)> {
        let now = self.app.settings.target.now().await?;
        let request = Request::get(self.page.clone()).header(AGAIN, "yes").body(Body::empty())?;
        let pages = super::pages().with_state(Arc::clone(&self.app));
        let answer = pages.oneshot(request).await?;
        // A stream has no end.
        let kind = answer.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes());
        kind.filter(|kind| kind.starts_with(b"text/html")).context("it is no page")?;
        let status = answer.status();
        let page = to_bytes(answer.into_body(), PAGE_BYTES_MAX).await?;
        Ok((status, now, String::from_utf8(page.into())?))
    }
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pause_holds_for_the_next_stream_too() {
        let looks = Looks::default();
        (0..=PAUSES_MAX).for_each(|at| looks.note(format!("/{at}"), EVERY_ON_AWS));
        tokio::time::advance(EVERY_ON_ONE_MACHINE).await;
        assert_eq!(looks.rest("/0"), EVERY_ON_AWS - EVERY_ON_ONE_MACHINE);
        assert_eq!(looks.rest(&format!("/{PAUSES_MAX}")), Duration::ZERO);
        tokio::time::advance(EVERY_ON_AWS).await;
        assert_eq!(looks.rest("/0"), Duration::ZERO);
    }

    #[test]
    fn what_reads_much_on_aws_is_looked_at_rarely() {
        // (lists, healths, waiting deliveries of each, seconds until the next look)
        for (lists, healths, count, want) in
            [(1, 3, 0, 30), (10, 1_000, 0, 363), (10, 1_000, 400, 723), (1, 10, 20_000, 183)]
        {
            let patch = json!({"waitingDeliveries": {"count": count}});
            let health: Health =
                serde_json::from_value(documents::health(&patch)).expect("a health");
            let page = read(lists, std::iter::repeat_n(&health, healths)).into_string();
            let every = [false, true].map(|is_dev| every(&page, is_dev).as_secs());
            assert_eq!(every, [want, 5], "{healths} of {count}");
        }
        assert_eq!(every("", false), EVERY_ON_AWS);
    }
}

//! Sends the parts of a page that have changed, while it is looked at: one stream of server-sent events a page.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tower::ServiceExt;

use super::App;
use super::page::{is_live, live_parts};

/// How often a page is looked at again.
const EVERY: Duration = Duration::from_secs(5);

/// A page with all that it shows is far smaller.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Deserialize)]
pub(super) struct LiveQuery {
    page: String,
}

/// A page's stream between two looks.
struct Live {
    app: App,
    page: Uri,
    /// The parts as they were sent last.
    sent: HashMap<String, String>,
    events: VecDeque<Event>,
    is_over: bool,
    _permit: OwnedSemaphorePermit,
}

#[derive(Serialize)]
struct Part<'a> {
    id: &'a str,
    html: &'a str,
}

pub(super) async fn stream(State(app): State<App>, Query(query): Query<LiveQuery>) -> Response {
    // A script can't read the status and the text of a stream that is refused: what there is to say is said in it.
    let Some(page) = page(&query.page) else { return only("over") };
    let permit = Arc::clone(&app.lives).try_acquire_owned();
    let Ok(permit) = permit else { return only("problem") };
    let (sent, events) = (HashMap::new(), VecDeque::new());
    let live = Live { app, page, sent, events, is_over: false, _permit: permit };
    let events = stream::unfold(live, async |mut live| {
        while live.events.is_empty() && !live.is_over {
            sleep(EVERY).await;
            live.look().await;
        }
        let event = live.events.pop_front()?;
        Some((Ok::<_, Infallible>(event), live))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

/// A stream of one event.
fn only(name: &str) -> Response {
    Sse::new(stream::iter([Ok::<_, Infallible>(told(name))])).into_response()
}

/// An event that says no more than its name. A browser drops one without data.
fn told(name: &str) -> Event {
    Event::default().event(name).data("-")
}

/// Reads the URL of a page of the console.
fn page(url: &str) -> Option<Uri> {
    let is_page = url.starts_with('/') && !url.starts_with("//");
    url.parse().ok().filter(|_| is_page)
}

impl Live {
    /// Renders the page as if it was opened, and keeps what has changed to be sent.
    async fn look(&mut self) {
        let found = self.rendered().await;
        let Some((now_ms, page)) = found else {
            self.events.push_back(told("problem"));
            return;
        };
        self.events.push_back(Event::default().event("now").data(now_ms.to_string()));
        self.is_over = !is_live(&page);
        for (id, html) in live_parts(&page) {
            if self.sent.get(id).is_some_and(|sent| sent == html) {
                continue;
            }
            self.sent.insert(id.to_owned(), html.to_owned());
            let data = serde_json::to_string(&Part { id, html }).unwrap_or_default();
            self.events.push_back(Event::default().event("part").data(data));
        }
        // A browser connects again where a stream merely ends.
        self.events.extend(self.is_over.then(|| told("over")));
    }

    async fn rendered(&self) -> Option<(i64, String)> {
        let now = self.app.settings.target.now().await.ok()?;
        let request = Request::get(self.page.clone()).body(Body::empty()).ok()?;
        let answer =
            super::pages().with_state(Arc::clone(&self.app)).oneshot(request).await.ok()?;
        // A stream has no end.
        let is_page = answer
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
        if !is_page || !answer.status().is_success() {
            return None;
        }
        let page = to_bytes(answer.into_body(), PAGE_BYTES_MAX).await.ok()?;
        Some((now.as_millis(), String::from_utf8(page.into()).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_this_console_are_pages() {
        for (url, want) in [
            ("/", true),
            ("/topics/a?since=6h", true),
            ("//evil.example/", false),
            ("http://evil.example/", false),
            ("topics", false),
            ("/\n", false),
            ("", false),
        ] {
            assert_eq!(page(url).is_some(), want, "{url:?}");
        }
    }
}

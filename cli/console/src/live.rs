//! Sends the parts of a page that have changed, while it is looked at: one stream of server-sent events a page.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, StatusCode, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tower::ServiceExt;

use super::App;
use super::page::{is_live, live_parts};

/// How often a page is looked at again. On AWS each look reads tables.
const EVERY_ON_ONE_MACHINE: Duration = Duration::from_secs(5);
const EVERY_ON_AWS: Duration = Duration::from_secs(30);

/// Tells pages that they are looked at again, which leaves out what is dear.
pub(super) const AGAIN: &str = "x-again";

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

/// A part that has changed, as the script gets it.
#[derive(Serialize)]
pub(super) struct Part<'a> {
    pub(super) id: &'a str,
    pub(super) html: &'a str,
}

pub(super) async fn stream(State(app): State<App>, Query(query): Query<LiveQuery>) -> Response {
    // A script can't read the status and the text of a stream that is refused: what there is to say is said in it.
    let Some(page) = page(&query.page) else { return only("over") };
    let permit = Arc::clone(&app.lives).try_acquire_owned();
    let Ok(permit) = permit else { return only("problem") };
    let (sent, events) = (HashMap::new(), VecDeque::new());
    let live = Live { app, page, sent, events, is_over: false, _permit: permit };
    let events = stream::unfold(live, async |mut live| {
        let is_dev = live.app.settings.target.is_dev();
        // What the page did not wait for follows soon.
        let is_soon = is_dev || live.sent.is_empty();
        let every = if is_soon { EVERY_ON_ONE_MACHINE } else { EVERY_ON_AWS };
        while live.events.is_empty() && !live.is_over {
            sleep(every).await;
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
        let named = |name: &str| Event::default().event(name);
        let (now_ms, page) = match self.rendered().await {
            Look::Page(now_ms, page) => (now_ms, page),
            Look::Problem => return self.events.push_back(told("problem")),
            Look::Gone => {
                self.is_over = true;
                return self.events.push_back(told("gone"));
            }
        };
        self.events.push_back(named("now").data(now_ms.to_string()));
        self.is_over = !is_live(&page);
        for (id, html) in live_parts(&page) {
            if self.sent.get(id).is_some_and(|sent| sent == html) {
                continue;
            }
            self.sent.insert(id.to_owned(), html.to_owned());
            let data = serde_json::to_string(&Part { id, html }).unwrap_or_default();
            self.events.push_back(named("part").data(data));
        }
        // A browser connects again where a stream merely ends.
        self.events.extend(self.is_over.then(|| told("over")));
    }

    async fn rendered(&self) -> Look {
        let rendered = async {
            let now = self.app.settings.target.now().await.ok()?;
            let request = Request::get(self.page.clone()).header(AGAIN, "yes");
            let pages = super::pages().with_state(Arc::clone(&self.app));
            let answer = pages.oneshot(request.body(Body::empty()).ok()?).await.ok()?;
            // A stream has no end.
            let kind = answer.headers().get(CONTENT_TYPE)?;
            if !kind.as_bytes().starts_with(b"text/html") {
                return None;
            }
            let status = answer.status();
            let page = to_bytes(answer.into_body(), PAGE_BYTES_MAX).await.ok()?;
            Some((status, now, String::from_utf8(page.into()).ok()?))
        };
        match rendered.await {
            Some((StatusCode::NOT_FOUND, ..)) => Look::Gone,
            Some((status, now, page)) if status.is_success() => Look::Page(now.as_millis(), page),
            _ => Look::Problem,
        }
    }
}

/// What a look at a page gave.
enum Look {
    /// The deployment's time in milliseconds, and HTML.
    Page(i64, String),
    Problem,
    /// What it showed was deleted.
    Gone,
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

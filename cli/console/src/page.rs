//! Parts of all pages: the frame, times, tables, the command that does the same.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::stream::{self, StreamExt};
use gridpost_api::schema::Time;
use gridpost_core::time::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::Shared;
use gridpost_ops::output::hides;

/// Characters that stay as they are in a part of a path.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

const TABS: [(Tab, &str, &str); 8] = [
    (Tab::Overview, "/", "Overview"),
    (Tab::Topics, "/topics", "Topics"),
    (Tab::Events, "/events", "Find an event"),
    (Tab::DeadLetters, "/dead-letters", "Dead letters"),
    (Tab::Waiting, "/waiting", "Parked and poison"),
    (Tab::Tail, "/tail", "Live tail"),
    (Tab::Ledger, "/ledger", "Ledger"),
    (Tab::Cost, "/cost", "Cost"),
];

/// Settings of htmx: nothing inline, nothing evaluated, no page kept in the browser's storage.
const HTMX: &str = r#"{"includeIndicatorStyles":false,"allowEval":false,"allowScriptTags":false,"selfRequestsOnly":true,"historyEnabled":false,"historyCacheSize":0}"#;

/// The topic and the name of an event subscription, in a path.
pub(super) type Names = Path<(String, String)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Overview,
    Topics,
    Events,
    DeadLetters,
    Waiting,
    Tail,
    Ledger,
    Cost,
}

pub(super) struct Frame<'a> {
    pub(super) tab: Tab,
    pub(super) title: &'a str,
    /// Pages above it: URL and name.
    pub(super) above: Vec<(String, String)>,
    /// The command that shows the same, without `gridpost` before it.
    pub(super) command: String,
}

impl Shared {
    pub(super) fn page(&self, frame: &Frame<'_>, body: &Markup) -> Markup {
        let settings = &self.settings;
        let command = visible(&format!("gridpost {}{}", frame.command, settings.flags));
        let content = html! {
            @if !frame.above.is_empty() {
                nav.above aria-label="Where this is" {
                    ol { @for (url, name) in &frame.above { li { a href=(url) { (visible(name)) } } } }
                }
            }
            h1 { (visible(frame.title)) }
            (body)
            aside.command aria-label="On the command line" {
                p { "The same on the command line: " code { (command) } }
            }
        };
        let label = html! {
            p.deployment {
                (settings.name)
                @if settings.read_only { " " span.badge { "read-only" } }
            }
        };
        document(frame.title, Some(frame.tab), &label, &content)
    }

    pub(super) fn token(&self) -> Markup {
        html! { input type="hidden" name="csrf" value=(self.guard.form_token()); }
    }

    /// Shows the button of a form or, in a read-only console, what that does not do.
    pub(super) fn button(&self, label: &str, does_not: &str) -> Markup {
        html! {
            @if self.may_change() { button { (label) } }
            @else { p.muted { "This console is read-only: it " (does_not) "." } }
        }
    }

    pub(super) fn may_change(&self) -> bool {
        !self.settings.read_only
    }
}

/// The place of the part of a page that takes its time. Texts are escaped, so none of them is this.
const LATE: &str = "<!--late-->";

pub(super) fn late() -> Markup {
    PreEscaped(LATE.to_owned())
}

/// A page that is sent up to its late part at once, and is shown so far; the rest follows when it is there. No
/// script is needed for that.
pub(super) fn streamed(
    page: Markup,
    part: impl Future<Output = Markup> + Send + 'static,
) -> Response {
    let page = page.into_string();
    let (before, after) = page.split_once(LATE).unwrap_or((&page, ""));
    let (before, after) = (before.to_owned(), after.to_owned());
    let rest = async move { part.await.into_string() + &after };
    let chunks = stream::iter([before]).chain(stream::once(rest)).map(Ok::<_, Infallible>);
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], Body::from_stream(chunks)).into_response()
}

/// A page that knows of nothing but its text, for failures.
pub(super) fn bare(title: &str, body: &Markup) -> Markup {
    let content = html! { h1 { (title) } (body) };
    document(title, None, &html! {}, &content)
}

fn document(title: &str, tab: Option<Tab>, label: &Markup, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="htmx-config" content=(HTMX);
                title { (visible(title)) " · Gridpost" }
                // Without one, browsers ask for /favicon.ico, which is no page.
                link rel="icon" type="image/svg+xml" href="/assets/icon.svg";
                link rel="stylesheet" href="/assets/console.css";
                script src="/assets/htmx.js" defer {}
                script src="/assets/console.js" defer {}
            }
            body {
                a.skip href="#main" { "To the content" }
                header {
                    p.brand { a href="/" { "Gridpost" } }
                    (label)
                    nav aria-label="Pages" {
                        ul {
                            @for (one, url, name) in TABS {
                                li {
                                    a href=(url) aria-current=[(tab == Some(one)).then_some("page")] { (name) }
                                }
                            }
                        }
                    }
                }
                main id="main" tabindex="-1" {
                    p.problem id="stale" role="alert" hidden {
                        "This page is not up to date: the console got no usable answer. Reload it, unless you have typed something \
                         here."
                    }
                    (content)
                }
            }
        }
    }
}

pub(super) fn part(text: &str) -> String {
    utf8_percent_encode(text, KEPT).to_string()
}

pub(super) fn topic_url(topic: &str) -> String {
    format!("/topics/{}", part(topic))
}

pub(super) fn subscription_url(topic: &str, name: &str, below: &str) -> String {
    format!("/topics/{}/subscriptions/{}{below}", part(topic), part(name))
}

pub(super) fn with_query(url: &str, pairs: &[(&str, &str)]) -> String {
    let mut query = Serializer::new(String::new());
    query.extend_pairs(pairs.iter().filter(|(_, value)| !value.is_empty()));
    match query.finish() {
        none if none.is_empty() => url.to_owned(),
        query => format!("{url}?{query}"),
    }
}

/// Returns the pages above a topic's.
pub(super) fn above_topic() -> Vec<(String, String)> {
    vec![("/topics".to_owned(), "Topics".to_owned())]
}

/// Returns the pages above an event subscription's.
pub(super) fn above_subscription(topic: &str) -> Vec<(String, String)> {
    [above_topic(), vec![(topic_url(topic), topic.to_owned())]].concat()
}

/// Returns the pages above one that belongs to an event subscription.
pub(super) fn above(topic: &str, name: &str) -> Vec<(String, String)> {
    let own = (subscription_url(topic, name, ""), name.to_owned());
    [above_subscription(topic), vec![own]].concat()
}

/// Shows a point in time: UTC here, in the reader's zone where its script runs.
pub(super) fn time(at: impl Into<Option<Time>>) -> Markup {
    let Some(at) = at.into() else { return html! { "-" } };
    let utc = at.to_string();
    let told = utc.replace('T', " ").replace('Z', " UTC");
    html! { time datetime=(utc) title=(told) { (told) } }
}

/// Shows a text, as a time if it is one.
pub(super) fn time_or_text(text: &str) -> Markup {
    match Timestamp::parse_rfc_3339(text) {
        None => html! { (visible(text)) },
        Some(at) => time(Time(at)),
    }
}

pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Lists names and values; a value that is a time is shown as one.
pub(super) fn facts(rows: &[[String; 2]]) -> Markup {
    html! {
        dl.facts {
            @for [name, value] in rows {
                div { dt { (name) } dd { (time_or_text(value)) } }
            }
        }
    }
}

/// Lists the members of a document that are not objects, as rows of [`facts`].
pub(super) fn members(document: &impl Serialize) -> Vec<[String; 2]> {
    let text = |value: Value| match value {
        Value::String(text) => visible(&text),
        other => other.to_string(),
    };
    let document = serde_json::to_value(document).unwrap_or_default();
    let Value::Object(members) = document else { return Vec::new() };
    let plain = members.into_iter().filter(|(_, value)| !value.is_object());
    plain.map(|(name, value)| [name, text(value)]).collect()
}

/// An element's id made of a label. The focus stays on an element that has one when htmx puts a newer
/// state of it in its place.
fn id_of(kind: &str, label: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("{kind}-{}", label.chars().map(letter).collect::<String>())
}

/// A table that scrolls by itself where it is too wide. A page has each label once.
pub(super) fn table(label: &str, head: &[&str], rows: &[Vec<Markup>]) -> Markup {
    let caption = id_of("caption", label);
    html! {
        div.scroll id=(id_of("table", label)) role="region" aria-labelledby=(caption) tabindex="0" {
            table {
                caption id=(caption) { (visible(label)) }
                thead { tr { @for name in head { th scope="col" { (name) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
            }
        }
    }
}

pub(super) fn block(label: &str, text: &str) -> Markup {
    html! {
        pre id=(id_of("text", label)) role="region" aria-label=(label) tabindex="0" dir="ltr" { (visible(text)) }
    }
}

/// JSON in which the same characters stand by their numbers. It says the same: they can be in texts alone.
pub(super) fn visible_json(json: &str) -> String {
    let escaped = |c: char| match hides(c) && u32::from(c) <= 0xffff && c != '\r' {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    if json.contains(hides) { json.chars().map(escaped).collect() } else { json.to_owned() }
}

/// Shows such characters below a field: the field can't.
pub(super) fn hidden_in(value: &str) -> Markup {
    html! {
        @if value.contains(hides) {
            " " span.warn { "It has characters that do not show: " code { (visible(value)) } }
        }
    }
}

/// Text in which characters show that would reorder what stands beside them, or show nothing.
pub(super) fn visible(text: &str) -> String {
    if !text.contains(hides) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|c| if hides(c) { c.escape_unicode().collect() } else { vec![c] })
        .collect()
}

pub(super) fn empty(what: &str, command: &str) -> Markup {
    html! {
        div.empty {
            p { (what) }
            @if !command.is_empty() { p { code { "gridpost " (command) } } }
        }
    }
}

pub(super) fn next_page(url: &str, pairs: &[(&str, &str)], next: Option<&str>) -> Markup {
    html! {
        @if let Some(token) = next {
            @let pairs = pairs.iter().copied().chain([("after", token)]).collect::<Vec<_>>();
            p.more { a href=(with_query(url, &pairs)) rel="next" { "Next page" } }
        }
    }
}

/// Says what was just done, where the URL has a code for it. Only these texts are ever shown.
pub(super) fn done(code: Option<&str>) -> Markup {
    const DONE: [(&str, &str); 13] = [
        ("reset", "The endpoint's waits are ended: its next delivery is attempted when it is due."),
        (
            "resent",
            "Asked for: the delivery is attempted now, or as soon as its queue gives it out.",
        ),
        ("paused", "It is paused: events are matched and held."),
        ("unpaused", "It is resumed: what was held comes back, the first of it within a minute."),
        ("saved", "Saved."),
        ("created", "It is made."),
        ("deleted", "It is deleted."),
        ("unchanged", "Nothing was changed, so nothing was saved."),
        ("canceled", "The redrive is canceled; the batch in flight is still sent."),
        ("resumed", "The redrive goes on."),
        ("released", "The parked deliveries go back to their queues."),
        ("ended", "The parked deliveries end."),
        ("poison", "Done, as far as the queue gave its messages out."),
    ];
    let text = code.and_then(|code| DONE.iter().find(|(known, _)| *known == code));
    html! { @if let Some((_, text)) = text { p.done role="status" { (text) } } }
}

#[cfg(test)]
mod tests {
    use gridpost_ops::output::word;

    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        let shown = block("event", "<script>alert(1)</script>\u{202e}\u{7}\n").into_string();
        assert!(shown.contains("&lt;script&gt;"), "{shown}");
        assert!(shown.contains("\\u{202e}\\u{7}\n"), "{shown}");
        assert_eq!(word("a'b c"), "'a'\\''b c'");
        assert_eq!(word("order-4711"), "order-4711");
        assert_eq!(word("a\u{202e}'b\\\n"), "$'a\\U0000202e\\'b\\\\\\U0000000a'");
        assert_eq!(visible_json("{\"a\":\"\u{202e}\"}\n"), "{\"a\":\"\\u202e\"}\n");
        assert!(hidden_in("a\u{200b}").into_string().contains("\\u{200b}"));
        assert_eq!(hidden_in("a b").into_string(), "");
        assert_eq!(word("a\u{1b}'\\\u{202e}"), r"$'a\U0000001b\'\\\U0000202e'");
        assert_eq!(with_query("/x", &[("a", "b&c"), ("d", "")]), "/x?a=b%26c");
        assert_eq!(part("../a b"), "..%2Fa%20b");
    }

    #[test]
    fn numbers_and_times_are_readable() {
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(number(12), "12");
        let at = time_or_text("2026-11-23T14:48:16.000Z").into_string();
        assert!(at.contains("datetime=\"2026-11-23T14:48:16.000Z\""), "{at}");
        assert_eq!(time_or_text("-").into_string(), time(None).into_string());
    }
}

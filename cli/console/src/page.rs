//! The frame of all pages: navigation, search, the command that does the same, and parts that come later.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Redirect, Response};
use futures::stream::{self, StreamExt};
use gridpost_core::time::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

use super::Shared;
use super::kit::{self, Icon, icon};
use super::text::visible;

/// A page of the navigation: its URL, name, icon, and the key that leads to it after `g`.
type Entry = (Tab, &'static str, &'static str, Icon, char);

/// The navigation, by groups.
const TABS: [(&str, &[Entry]); 3] = [
    (
        "Watch",
        &[
            (Tab::Overview, "/", "Overview", Icon::OVERVIEW, 'o'),
            (Tab::Tail, "/tail", "Live tail", Icon::TAIL, 'l'),
            (Tab::Ledger, "/ledger", "Ledger", Icon::LEDGER, 'b'),
        ],
    ),
    (
        "Look into",
        &[
            (Tab::Topics, "/topics", "Topics", Icon::TOPIC, 't'),
            (Tab::Events, "/events", "Events", Icon::EVENT, 'e'),
            (Tab::Waiting, "/waiting", "Waiting", Icon::WAITING, 'w'),
            (Tab::DeadLetters, "/dead-letters", "Dead letters", Icon::DEAD_LETTER, 'd'),
        ],
    ),
    ("Deployment", &[(Tab::Cost, "/cost", "Cost", Icon::COST, 'c')]),
];

/// Keys that do more than lead to a page.
const KEYS: [(&str, &str); 4] = [
    ("/", "search"),
    ("j k", "next and previous row of a table; Enter opens it"),
    ("← →", "the steps of a chart that has the focus"),
    ("Esc", "close"),
];

tokio::task_local! {
    /// The deployment's clock, which relative times begin with. Where it is not known, that is the reader's.
    pub(super) static NOW: Timestamp;
}

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

/// The rest of a page's head.
#[derive(Default)]
pub(super) struct Head {
    /// Whether the title is an id.
    pub(super) mono: bool,
    /// After the title.
    pub(super) beside: Option<Markup>,
    /// At its right end.
    pub(super) actions: Option<Markup>,
    /// Below it: pages of the same thing.
    pub(super) tabs: Option<Markup>,
    /// Whether parts of it come anew while it is looked at.
    pub(super) is_live: bool,
}

impl Shared {
    /// Shows a page whose body is one box.
    pub(super) fn page(&self, frame: &Frame<'_>, body: &Markup) -> Markup {
        self.page_of(frame, &Head::default(), &html! { section.card { div.in { (body) } } })
    }

    /// Shows a page of several boxes.
    pub(super) fn page_of(&self, frame: &Frame<'_>, head: &Head, body: &Markup) -> Markup {
        // A page of a thing is called by it, too, where there is no more than the title.
        let names = frame.above.iter().skip(1).rev().map(|(_, name)| name.as_str());
        let title = [frame.title].into_iter().chain(names).collect::<Vec<_>>().join(" · ");
        let command = visible(&format!("gridpost {}{}", frame.command, self.settings.flags));
        let content = html! {
            div.head {
                @if !frame.above.is_empty() {
                    nav.crumbs aria-label="Where this is" {
                        ol { @for (url, name) in &frame.above { li { a href=(url) { (visible(name)) } } } }
                    }
                }
                h1 class=[head.mono.then_some("mono")] { (visible(frame.title)) }
                @if let Some(beside) = &head.beside { (beside) }
                @if head.is_live || head.actions.is_some() {
                    div.acts {
                        @if head.is_live { span.lv.sm.m id="live" role="status" hidden { "Live" } }
                        @if let Some(actions) = &head.actions { (actions) }
                    }
                }
            }
            @if let Some(tabs) = &head.tabs { (tabs) }
            (body)
            aside.cli aria-label="The same on the command line" {
                span { "Command line" } " " code { (command) } (kit::copy(&command, "the command"))
            }
        };
        document(&title, &self.side(frame.tab), &content, head.is_live)
    }

    fn side(&self, tab: Tab) -> Markup {
        let settings = &self.settings;
        html! {
            div.where { b { (visible(&settings.name)) } "Gridpost " (env!("CARGO_PKG_VERSION")) }
            (navigation(Some(tab)))
            p {
                @if settings.read_only { span.pill { "read-only" } } @else { "May change" }
                br;
                button.ghost.script type="button" data-open="shortcuts" { kbd { "?" } " keyboard shortcuts" }
            }
        }
    }

    /// Shows a form that has something done.
    pub(super) fn act(&self, url: &str, fields: impl Render) -> Markup {
        html! { form method="post" action=(url) { (self.token()) (fields) } }
    }

    pub(super) fn token(&self) -> Markup {
        html! { input type="hidden" name="csrf" value=(self.guard.form_token()); }
    }

    /// Shows the button of a form or, in a read-only console, what that does not do.
    pub(super) fn button(&self, label: &str, does_not: &str) -> Markup {
        html! {
            @if self.may_change() { button.pri { (label) } }
            @else { p.m { "This console is read-only: it " (does_not) "." } }
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

/// Leads to the page that says what was just done.
pub(super) fn done(url: &str, code: &str) -> Response {
    Redirect::to(&format!("{url}?done={code}")).into_response()
}

/// A page that knows of nothing but its text, for failures.
pub(super) fn bare(title: &str, body: &Markup) -> Markup {
    let content = html! { div.head { h1 { (title) } } (body) };
    document(title, &navigation(None), &content, false)
}

fn navigation(tab: Option<Tab>) -> Markup {
    html! {
        form.find role="search" aria-label="Everywhere" action="/events" {
            (icon(Icon::SEARCH))
            input type="search" name="id" required aria-label="Find an event by its id"
                placeholder="Find event by id…" autocomplete="off" spellcheck="false";
            kbd aria-hidden="true" { "/" }
        }
        nav aria-label="Pages" {
            @for (group, entries) in TABS {
                h2 { (group) }
                ul {
                    @for (one, url, name, symbol, _) in entries {
                        li { a href=(url) aria-current=[(tab == Some(*one)).then_some("page")] { (icon(*symbol)) (name) } }
                    }
                }
            }
        }
    }
}

fn logo() -> Markup {
    html! { a.logo href="/" { img src="/assets/icon.svg" width="26" height="26" alt=""; "Gridpost" } }
}

fn document(title: &str, side: &Markup, content: &Markup, is_live: bool) -> Markup {
    let now_ms = NOW.try_with(|now| now.as_millis()).ok();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (visible(title)) " · Gridpost" }
                // Without one, browsers ask for /favicon.ico, which is no page.
                link rel="icon" type="image/svg+xml" href="/assets/icon.svg";
                link rel="stylesheet" href="/assets/console.css";
                script src="/assets/console.js" defer {}
            }
            body data-live[is_live] data-now=[now_ms] {
                a.skip href="#main" { "To the content" }
                nav.top aria-label="Menu" {
                    (logo())
                    button.ghost type="button" aria-label="Menu and search" popovertarget="nav" { (icon(Icon::MENU)) }
                }
                header.side id="nav" popover { (logo()) (side) }
                main id="main" tabindex="-1" {
                    (stale())
                    (content)
                }
                (keys())
            }
        }
    }
}

/// Notes that the script shows where the page is not up to date.
fn stale() -> Markup {
    html! {
        div.note.warn id="stale" role="alert" hidden {
            (icon(Icon::ALERT))
            div {
                "This page is not up to date: "
                span data-why="note" {
                    "the console gave no usable answer. It is tried again; what you have typed is kept."
                }
                span data-why="closed" {
                    "the console was ended, or this browser is no longer signed in. Open the link that it prints."
                }
                span data-why="gone" { "what it shows is no longer there." }
            }
        }
    }
}

fn keys() -> Markup {
    html! {
        dialog id="shortcuts" aria-labelledby="shortcuts-title" {
            h2 id="shortcuts-title" { "Keyboard shortcuts" }
            dl.kv {
                @for (key, what) in KEYS { dt { kbd { (key) } } dd { (what) } }
                @for (_, url, name, _, key) in TABS.iter().flat_map(|(_, entries)| *entries) {
                    dt { kbd { "g" } " " kbd { (key) } } dd data-go=(key) data-url=(url) { (name) }
                }
            }
            form method="dialog" { button { "Close" } }
        }
    }
}

/// The place of a part that is sent again while its page is looked at: between two comments, which no text can
/// have.
pub(super) fn live_part(id: &str, body: &Markup) -> Markup {
    html! {
        (PreEscaped(format!("<!--part {id}-->")))
        div id=(id) data-part { (body) }
        (PreEscaped(PART_END))
    }
}

const PART_END: &str = "<!--/part-->";

/// Whether parts of a page will change.
pub(super) fn is_live(page: &str) -> bool {
    page.contains("<body data-live")
}

/// Returns the parts of a page that are sent again: id and HTML.
pub(super) fn live_parts(page: &str) -> Vec<(&str, &str)> {
    fn part(text: &str) -> Option<(&str, &str)> {
        let (id, rest) = text.split_once("-->")?;
        Some((id, rest.split_once(PART_END)?.0))
    }
    page.split("<!--part ").skip(1).filter_map(part).collect()
}

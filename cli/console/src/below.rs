//! The pages of one event subscription: tabs that lead to them, and the frame of those below its own page.

use maud::{Markup, html};

use super::Shared;
use super::page::{Frame, Head, Tab};
use super::urls::{self, subscription_url, with_query};

/// The pages: the part of the URL and the name of each.
const TABS: [(&str, &str); 6] = [
    ("", "Overview"),
    ("/deliveries", "Failing deliveries"),
    ("/dead-letters", "Dead letters"),
    ("/edit", "Settings"),
    ("/retry", "Retry policy"),
    ("/filter", "Filter"),
];

/// Links to the pages of an event subscription; `on` is the part of the URL of the one that is open.
pub(super) fn tabs(topic: &str, name: &str, on: &str) -> Markup {
    let live = with_query("/tail", &[("topic", topic), ("name", name)]);
    html! {
        nav.tabs aria-label="Of this event subscription" {
            ul {
                @for (path, label) in TABS {
                    li { a href=(subscription_url(topic, name, path)) aria-current=[(path == on).then_some("page")] { (label) } }
                }
                li { a href=(live) { "Live" } }
            }
        }
    }
}

/// A page below an event subscription's own.
pub(super) struct Below<'a> {
    /// The names of the topic and of the event subscription.
    pub(super) of: (&'a str, &'a str),
    /// The tab that it belongs to.
    pub(super) tab: &'a str,
    pub(super) title: &'a str,
    /// The command that does the same: what comes before and after the flags that name the event subscription.
    pub(super) command: (&'a str, &'a str),
}

impl Shared {
    /// Shows such a page, whose body is one box.
    pub(super) fn below(&self, page: &Below<'_>, body: &Markup) -> Markup {
        self.live_below(page, false, body)
    }

    /// The same, whose parts come anew while it is looked at, if that is so.
    pub(super) fn live_below(&self, page: &Below<'_>, is_live: bool, body: &Markup) -> Markup {
        let Below { of: (topic, name), tab: on, title, command: (command, flags) } = *page;
        let tab = if on == "/dead-letters" { Tab::DeadLetters } else { Tab::Topics };
        let command = format!("{command} --topic {topic} --subscription {name}{flags}");
        let frame = Frame { tab, title, above: urls::above(&[topic, name]), command };
        let head = Head { tabs: Some(tabs(topic, name, on)), is_live, ..Head::default() };
        self.page_of(&frame, &head, &html! { section.card { div.in { (body) } } })
    }
}

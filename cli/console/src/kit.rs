//! The components of pages, each told once: from plain data to HTML.

use maud::{Markup, Render, html};

use super::chart::{Kind, dot};
use super::text::{self, number, visible};
use super::urls::with_query;

/// A picture of one colour beside a word, as a path on a grid of 16.
#[derive(Clone, Copy, Debug)]
pub(super) struct Icon(&'static str);

impl Icon {
    pub(super) const OVERVIEW: Self = Self("M2.5 9.5h4v4h-4zM9.5 2.5h4v11h-4zM2.5 2.5h4v4h-4z");
    pub(super) const TAIL: Self = Self("M1.5 8.5h3l2-5 3 9 2-4h3");
    pub(super) const LEDGER: Self =
        Self("M2 5.5h12M2 10.5h12M9.5 3l2.5 2.5L9.5 8M6.5 8 4 10.5 6.5 13");
    pub(super) const TOPIC: Self = Self(
        "M8 8h.01M5 11a4.2 4.2 0 0 1 0-6M11 5a4.2 4.2 0 0 1 0 6M2.8 13.2a7.4 7.4 0 0 1 0-10.4M13.2 \
         2.8a7.4 7.4 0 0 1 0 10.4",
    );
    pub(super) const EVENT: Self = Self("M8.5 1.5 3 9h4.5l-1 5.5L12.5 7H8z");
    pub(super) const WAITING: Self =
        Self("M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM8 4.5V8l2.5 1.5");
    pub(super) const DEAD_LETTER: Self = Self("M2 3.5h12v9H2zM2.5 4 8 8.5 13.5 4M6 12l4-0");
    pub(super) const COST: Self = Self(
        "M8 1.5v13M11 4.5C10.5 3.5 9.5 3 8 3 6.3 3 5 3.9 5 5.3c0 3.3 6.2 1.7 6.2 5C11.2 12 9.8 13 8 \
         13c-1.7 0-2.9-.6-3.4-1.8",
    );
    pub(super) const SEARCH: Self = Self("M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM14 14l-3.5-3.5");
    pub(super) const PLUS: Self = Self("M8 3v10M3 8h10");
    pub(super) const COPY: Self = Self("M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3");
    pub(super) const ALERT: Self = Self("M8 1.8 15 14H1zM8 6.5v3.2M8 11.9v.01");
    pub(super) const CHECK: Self = Self("M3 8.5 6.5 12 13 4.5");
    pub(super) const PAUSE: Self = Self("M5.5 3v10M10.5 3v10");
    pub(super) const PLAY: Self = Self("M4.5 2.5v11l8.5-5.5z");
    pub(super) const SEND: Self = Self("M14 2 2 7l4.5 2.5L9 14z M6.5 9.5 14 2");
    pub(super) const MENU: Self = Self("M2 4h12M2 8h12M2 12h12");
}

pub(super) fn icon(icon: Icon) -> Markup {
    html! { svg.i viewBox="0 0 16 16" aria-hidden="true" { path d=(icon.0) {} } }
}

/// Returns the class of a background with a text on it.
fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Acc => "info",
        Kind::Mute | Kind::Off => "",
        _ => kind.name(),
    }
}

/// A state: colour, shape and word.
pub(super) fn pill(kind: Kind, word: &str) -> Markup {
    html! {
        span class={ "pill " (class(kind)) } {
            svg viewBox="0 0 8 8" aria-hidden="true" {
                @match kind {
                    Kind::Warn => path d="M4 0l4 8H0z" {},
                    Kind::Bad => path d="M0 0h8v8H0z" {},
                    Kind::Dead => path d="M4 0l4 4-4 4-4-4z" {},
                    Kind::Mute => path d="M0 0h3v8H0zM5 0h3v8H5z" {},
                    Kind::Off => circle cx="4" cy="4" r="3" fill="none" stroke="currentColor" stroke-width="2" {},
                    _ => circle cx="4" cy="4" r="4" {},
                }
            }
            (visible(word))
        }
    }
}

/// What an attempt met.
pub(super) fn answer(outcome: Option<&str>, status: Option<u16>) -> Markup {
    let Some(outcome) = outcome else { return html! {} };
    html! { span title=(outcome) { (pill(answer_kind(outcome, status), &text::met(outcome, status))) } }
}

/// Returns its colour: what is refused is told apart from what may be taken later.
pub(super) fn answer_kind(outcome: &str, status: Option<u16>) -> Kind {
    match (outcome, status) {
        ("Delivered" | "Success", _) => Kind::Ok,
        (_, Some(400 | 401 | 403 | 404 | 410 | 413)) => Kind::Bad,
        _ => Kind::Warn,
    }
}

/// Lists names and values that say something; a name that is long breaks at its humps.
pub(super) fn kv(rows: &[(impl AsRef<str>, Markup)]) -> Markup {
    let rows = rows.iter().filter(|(_, value)| !value.0.is_empty());
    html! { dl.kv { @for (name, value) in rows { dt { (text::soft(name.as_ref())) } dd { (value) } } } }
}

/// A box with a head: a title, and what is beside it.
pub(super) fn card(title: &str, beside: impl Render, body: impl Render) -> Markup {
    flush(title, beside, html! { div.in { (body) } })
}

/// A box that a table, or an empty state, fills to its edges.
pub(super) fn flush(title: &str, beside: impl Render, body: impl Render) -> Markup {
    let beside = beside.render();
    html! {
        section.card {
            @if !title.is_empty() {
                header { h2 { (title) } @if !beside.0.is_empty() { div.row { (beside) } } }
            }
            (body)
        }
    }
}

/// A picture in a box, with its table below.
pub(super) fn figure(
    title: &str,
    beside: impl Render,
    body: impl Render,
    foot: impl Render,
) -> Markup {
    flush(title, beside, html! { div.in { (body) } footer { (foot) } })
}

/// A number with its name, what it says more, and its last hours; a link if there is a URL. A kind is the colour of its
/// dot and number.
pub(super) fn tile(
    url: &str,
    kind: impl Into<Option<Kind>>,
    label: &str,
    value: impl Render,
    note: impl Render,
    spark: impl Render,
) -> Markup {
    let kind = kind.into();
    let tone = match kind {
        Some(kind @ (Kind::Warn | Kind::Bad | Kind::Dead)) => format!("t-{}", kind.name()),
        _ => String::new(),
    };
    let inner = html! {
        span.l { @if let Some(kind) = kind { (dot(kind)) } (label) }
        span class={ "big " (tone) } { (value) }
        span.sm.m { (note) }
        (spark)
    };
    html! { @if url.is_empty() { div.card.tile { (inner) } } @else { a.card.tile href=(url) { (inner) } } }
}

/// A number with its unit.
pub(super) fn unit(value: impl Render, unit: impl Render) -> Markup {
    let unit = unit.render();
    html! { (value) @if !unit.0.is_empty() { " " small { (unit) } } }
}

/// A sentence that says how things are, with what to do.
pub(super) fn note(kind: Kind, title: &str, text: impl Render, actions: impl Render) -> Markup {
    let (icon, role) = match kind {
        Kind::Bad => (Icon::ALERT, "alert"),
        Kind::Warn => (Icon::ALERT, "status"),
        Kind::Mute => (Icon::PAUSE, "status"),
        _ => (Icon::CHECK, "status"),
    };
    html! {
        div class={ "note " (class(kind)) } role=(role) {
            (self::icon(icon))
            div { h2 { (title) } div.m2 { (text) } }
            (acts(actions))
        }
    }
}

fn acts(actions: impl Render) -> Markup {
    let actions = actions.render();
    html! { @if !actions.0.is_empty() { div.acts { (actions) } } }
}

/// Says what is not there, why, and what to do; with the command that does it, unless that is empty.
pub(super) fn nothing(
    icon: Icon,
    title: &str,
    text: impl Render,
    actions: impl Render,
    command: &str,
) -> Markup {
    html! {
        div.empty {
            (self::icon(icon))
            h2 { (title) }
            div { (text) }
            (acts(actions))
            @if !command.is_empty() { p { code { "gridpost " (command) } } }
        }
    }
}

/// Says in one sentence what is not there.
pub(super) fn empty(what: &str, command: &str) -> Markup {
    nothing(Icon::CHECK, what, "", "", command)
}

/// A link that looks like a button.
pub(super) fn button(url: &str, icon: Option<Icon>, label: &str) -> Markup {
    html! { a.btn href=(url) { @if let Some(icon) = icon { (self::icon(icon)) } (label) } }
}

/// A button that copies a text; hidden without a script.
pub(super) fn copy(text: &str, what: &str) -> Markup {
    html! {
        button.ghost.script type="button" data-copy=(text) aria-label={ "Copy " (what) } { (icon(Icon::COPY)) }
    }
}

/// Links to the same page for other times.
pub(super) fn choice(label: &str, on: &str, all: &[(&str, String)]) -> Markup {
    html! {
        nav.seg aria-label=(label) {
            @for (name, url) in all { a href=(url) aria-current=[(*name == on).then_some("true")] { (name) } }
        }
    }
}

/// A choice of names: a list where all are known, else a field. The first choice is all of them.
pub(super) fn names(
    field: &str,
    label: &str,
    all: &str,
    names: Option<&[&str]>,
    on: &str,
) -> Markup {
    html! {
        @match names {
            None => input name=(field) aria-label=(label) placeholder=(all) value=(on);,
            Some(names) => select name=(field) aria-label=(label) {
                option value="" { (all) }
                @if !on.is_empty() && !names.contains(&on) { option value=(on) selected { (visible(on)) } }
                @for name in names { option value=(name) selected[*name == on] { (visible(name)) } }
            },
        }
    }
}

/// An element's id made of a label. The focus stays on an element that has one when a newer state of it takes its
/// place.
fn id_of(kind: &str, label: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("{kind}-{}", label.chars().map(letter).collect::<String>())
}

/// A column: its head, and classes: `n` for numbers, `gr` for the one that takes what is left.
type Column<'a> = (&'a str, &'a str);

/// A table that scrolls by itself where it is too wide; on a phone its rows are cards, without cells that say
/// nothing. A page has each label once.
pub(super) fn table(
    label: &str,
    head: &[Column<'_>],
    rows: impl IntoIterator<Item = impl AsRef<[Markup]>>,
) -> Markup {
    let caption = id_of("caption", label);
    html! {
        div.scroll id=(id_of("table", label)) role="region" aria-labelledby=(caption) tabindex="0" {
            table.st {
                caption id=(caption) { (visible(label)) }
                (heads(head))
                tbody { @for row in rows { tr { (cells(head, row.as_ref())) } } }
            }
        }
    }
}

/// The heads of such a table.
pub(super) fn heads(head: &[Column<'_>]) -> Markup {
    html! {
        thead {
            tr {
                @for (name, class) in head {
                    th scope="col" class=[Some(class).filter(|class| !class.is_empty())] {
                        @if name.is_empty() { span.vh { "Action" } } @else { (name) }
                    }
                }
            }
        }
    }
}

/// A table in a box of the same name; nothing without rows.
pub(super) fn listed(
    title: &str,
    beside: impl Render,
    head: &[Column<'_>],
    rows: &[Vec<Markup>],
) -> Markup {
    html! { @if !rows.is_empty() { (flush(title, beside, table(title, head, rows))) } }
}

/// A count in a cell: zero is quiet, and an unknown count is a dash.
pub(super) fn count(count: impl Into<Option<u64>>) -> Markup {
    html! { @match count.into() { None => "–", Some(0) => span.m { "0" }, Some(count) => (number(count)) } }
}

/// The cells of a row of such a table.
pub(super) fn cells(head: &[Column<'_>], row: &[Markup]) -> Markup {
    let says_nothing = |cell: &Markup| matches!(cell.0.as_str(), "" | "-" | "–");
    html! {
        @for (at, cell) in row.iter().enumerate() {
            @let (name, class) = head.get(at).copied().unwrap_or_default();
            @let hidden = if says_nothing(cell) { "hide" } else { "" };
            @let class = [class, hidden].join(" ");
            td class=[Some(class.trim()).filter(|class| !class.is_empty())]
                data-l=[(at > 0 && !name.is_empty()).then_some(name)] { (cell) }
        }
    }
}

/// A text as it is, with a button that copies it.
pub(super) fn block(label: &str, text: &str) -> Markup {
    block_of(label, &html! { (visible(text)) })
}

/// JSON, with a button that copies it.
pub(super) fn json(label: &str, json: &str) -> Markup {
    block_of(label, &text::json(json))
}

fn block_of(label: &str, text: &Markup) -> Markup {
    html! {
        div.code {
            pre id=(id_of("text", label)) role="region" aria-label=(label) tabindex="0" dir="ltr" { (text) }
            button.ghost.script type="button" data-copy-of aria-label={ "Copy " (label) } { (icon(Icon::COPY)) }
        }
    }
}

pub(super) fn next_page(url: &str, pairs: &[(&str, &str)], next: Option<&str>) -> Markup {
    html! {
        @if let Some(token) = next {
            @let pairs = pairs.iter().copied().chain([("after", token)]).collect::<Vec<_>>();
            p.more { a.btn href=(with_query(url, &pairs)) rel="next" { "Next page" } }
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
    html! { @if let Some((_, text)) = text { p.toast role="status" { (icon(Icon::CHECK)) (text) } } }
}

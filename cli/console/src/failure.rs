//! Shows failures and refused requests.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::chart::Kind;
use super::kit;
use super::page;
use super::text;
use gridpost_ops::failure::{Detail, Refusal, chain, is_misuse};
use gridpost_ops::journal::Late;

pub(super) type Answer<T = Markup> = Result<T, Failure>;

/// The reason why a page can't be shown, or an action was not done.
#[derive(Debug)]
pub(super) struct Failure(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

/// The status that the browser gets: the API's own where it refused, that of a gateway where nothing
/// answered.
pub(super) fn status(error: &anyhow::Error) -> StatusCode {
    match error.downcast_ref::<Refusal>() {
        Some(refusal) if (400..500).contains(&refusal.status) => {
            StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_GATEWAY)
        }
        None if is_misuse(error) => StatusCode::BAD_REQUEST,
        _ => StatusCode::BAD_GATEWAY,
    }
}

/// A failure for people: what was wrong, each problem at its path, what to do.
pub(super) fn told(error: &anyhow::Error) -> Markup {
    let Some(refusal) = error.downcast_ref::<Refusal>() else {
        let text = chain(error);
        return html! { @for line in text.lines() { p { (text::prose(line)) } } };
    };
    html! {
        p { (text::prose(&refusal.message)) }
        (details(&refusal.details))
        @if let Some(step) = refusal.next_step() { p { (step) } }
        p.m {
            "The manage API answered " (refusal.status)
            @if !refusal.code.is_empty() { ", " (refusal.code) }
            "."
        }
    }
}

/// Lists problems, each with its path.
pub(super) fn details<'a>(all: impl IntoIterator<Item = &'a Detail>) -> Markup {
    let mut all = all.into_iter().peekable();
    html! {
        @if all.peek().is_some() {
            ul {
                @for one in all {
                    li {
                        @if let Some(target) = &one.target { code { (text::prose(target)) } ": " }
                        (text::prose(&one.message))
                    }
                }
            }
        }
    }
}

/// Shows a failure as the problem of a page, below a sentence if there is one. A late answer is not shown as a problem.
pub(super) fn problem(head: &str, error: &anyhow::Error) -> Markup {
    if error.is::<Late>() {
        let told = "Its counts come later: reload, or wait while the page is live.";
        return kit::note(Kind::Mute, "The journal is still being read", told, "");
    }
    html! {
        div.problem role="alert" {
            @if !head.is_empty() { p { strong { (head) } } }
            (told(error))
        }
    }
}

/// Shows what was read or, with that sentence, why it could not be.
pub(super) fn or_problem<T>(
    head: &str,
    read: &anyhow::Result<T>,
    show: impl FnOnce(&T) -> Markup,
) -> Markup {
    read.as_ref().map_or_else(|error| problem(head, error), show)
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = status(&self.0);
        let title = match status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::FORBIDDEN => "Not allowed",
            StatusCode::BAD_GATEWAY => "No usable answer",
            _ => "That was refused",
        };
        (status, page::bare(title, &problem("", &self.0))).into_response()
    }
}

pub(super) async fn no_such_page() -> Response {
    let body = html! { p { "There is no such page. " a href="/" { "To the overview" } } };
    (StatusCode::NOT_FOUND, page::bare("Not found", &body)).into_response()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Host,
    OtherSite,
    NotSignedIn {
        path: String,
    },
    /// The link was used, or is not one of this run.
    UsedLink,
    ReadOnly,
    NoForm,
    TooLarge,
    /// A form without the token of this run's pages.
    FormToken,
}

impl Refused {
    fn status(&self) -> StatusCode {
        match self {
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::NotSignedIn { .. } | Self::UsedLink => StatusCode::UNAUTHORIZED,
            Self::OtherSite | Self::ReadOnly | Self::FormToken => StatusCode::FORBIDDEN,
            Self::NoForm => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    fn told(&self) -> &'static str {
        match self {
            Self::Host => "This is Gridpost's console, and it was asked for by another name.",
            Self::OtherSite => "Nothing was done: it did not come from a page of this console.",
            Self::NotSignedIn { .. } => {
                "This browser is not signed in. Open the link that was printed: it works once."
            }
            Self::UsedLink => {
                "This link is not valid: it works once, and only while the command runs that printed it. \
                 If you have not used it, another user of this machine may have: stop the command."
            }
            Self::ReadOnly => {
                "This console runs with --read-only: it changes nothing, shows no secret."
            }
            Self::NoForm => "Only forms of this console's pages change something.",
            Self::TooLarge => "That is too much for a form: publish it by the command line.",
            Self::FormToken => "The form is of an earlier run of the console. Open its page again.",
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let is_out = self.status() == StatusCode::UNAUTHORIZED;
        let body = html! {
            div.problem role="alert" {
                p { (self.told()) }
                // A browser that followed a link from elsewhere has kept its cookie back.
                @if let Self::NotSignedIn { path } = &self && path.starts_with('/') && !path.starts_with("//") {
                    p { "If it is, and you came by a link from elsewhere: " a href=(path) { "open the page" } }
                }
                @if is_out { p.m { "Run `gridpost console` again and open the link that it prints." } }
            }
        };
        let title = if is_out { "Not signed in" } else { "Refused" };
        (self.status(), page::bare(title, &body)).into_response()
    }
}

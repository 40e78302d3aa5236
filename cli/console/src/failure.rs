//! Shows failures and refused requests.

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::page;
use super::text;
use gridpost_ops::failure::{Refusal, chain, is_misuse};

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
        @if !refusal.details.is_empty() {
            ul {
                @for detail in &refusal.details {
                    li {
                        @if let Some(target) = &detail.target { code { (text::prose(target)) } ": " }
                        (text::prose(&detail.message))
                    }
                }
            }
        }
        @if let Some(step) = refusal.next_step() { p { (step) } }
        p.m {
            "The manage API answered " (refusal.status)
            @if !refusal.code.is_empty() { ", " (refusal.code) }
            "."
        }
    }
}

/// Shows a failure as the problem of a page, below a sentence if there is one.
pub(super) fn problem(head: &str, error: &anyhow::Error) -> Markup {
    html! {
        div.problem role="alert" {
            @if !head.is_empty() { p { strong { (head) } } }
            (told(error))
        }
    }
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

    fn told(&self) -> Markup {
        const AGAIN: &str = "Run `gridpost console` again and open the link that it prints.";
        match self {
            Self::Host => {
                html! { p { "This is Gridpost's console, and it was asked for by another name." } }
            }
            Self::OtherSite => html! {
                p { "The request did not come from a page of this console, so nothing was done." }
            },
            Self::NotSignedIn { path } => html! {
                p { "This browser is not signed in. Open the link that the command printed: it works once." }
                // A browser that followed a link from elsewhere has kept its cookie back.
                @if path.starts_with('/') && !path.starts_with("//") {
                    p { "If it is, and you came by a link from elsewhere: " a href=(path) { "open the page" } }
                }
                p.m { (AGAIN) }
            },
            Self::UsedLink => html! {
                p { "This link is not valid: it works once, and only while the command runs that printed it." }
                p { "If you have not used it, another user of this machine may have: stop the command." }
                p.m { (AGAIN) }
            },
            Self::ReadOnly => html! {
                p { "This console runs with --read-only: nothing was changed, and no secret is shown." }
            },
            Self::NoForm => html! { p { "Only forms of this console's pages change something." } },
            Self::TooLarge => {
                html! { p { "That is too much for a form: publish it by the command line." } }
            }
            Self::FormToken => html! {
                p { "The form is of an earlier run of the console. Open the page again and repeat it." }
            },
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let title = match self {
            Self::NotSignedIn { .. } | Self::UsedLink => "Not signed in",
            _ => "Refused",
        };
        let body = html! { div.problem role="alert" { (self.told()) } };
        let mut answer = (self.status(), page::bare(title, &body)).into_response();
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        answer.headers_mut().insert(CONTENT_TYPE, html);
        answer
    }
}

#[cfg(test)]
mod tests {
    use gridpost_api::client::ClientError;
    use gridpost_ops::failure::Misuse;

    use super::*;

    #[test]
    fn the_browser_is_told_whose_fault_it_was() {
        let refusal = |status| anyhow::Error::from(Refusal::from_answer(status, "{}"));
        for (error, expected) in [
            (refusal(404), 404),
            (refusal(503), 502),
            (Misuse("no date".to_owned()).into(), 400),
            (ClientError::Name("<b>".to_owned()).into(), 400),
            (anyhow::anyhow!("no answer"), 502),
        ] {
            assert_eq!(status(&error).as_u16(), expected, "{error}");
        }
    }
}

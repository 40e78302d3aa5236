//! Keys of topics and signing secrets: shown when asked for, replaced one at a time.

use gridpost_core::secret::Secret;
use maud::{Markup, html};

use super::App;
use super::failure::Answer;
use super::kit;
use super::page;

/// Secrets with their names, as a page has them.
pub(super) type Rows = Vec<(&'static str, Markup)>;

/// A secret that was asked for, or the place of one that was not.
pub(super) fn shown(name: &str, secret: Option<&Secret>) -> Markup {
    html! {
        @match secret {
            Some(secret) => { code { (secret.expose()) } " " (kit::copy(secret.expose(), name)) }
            None => span.m aria-label="hidden" role="img" { "••••••••••••" },
        }
    }
}

/// The secrets of a topic or an event subscription.
pub(super) struct Section<'a> {
    pub(super) title: &'a str,
    /// The URL at which they are shown; that below it replaces one.
    pub(super) url: &'a str,
    pub(super) rows: Rows,
    pub(super) is_shown: bool,
    /// Those that can be replaced, each with what that does.
    pub(super) rotate: &'a [(&'a str, &'a str)],
}

impl Section<'_> {
    pub(super) fn show(&self, app: &App) -> Markup {
        let Self { title, url, rows, is_shown, rotate } = self;
        html! {
            h2 id="secrets" { (title) }
            (kit::kv(rows))
            @if app.may_change() {
                @if !is_shown { (app.act(&format!("{url}#secrets"), html! { button { "Show" } })) }
                @for (name, does) in *rotate {
                    details {
                        summary { "Rotate " (name) }
                        (app.act(&format!("{url}/rotate#secrets"), html! {
                            input type="hidden" name="key" value=(name);
                            label.check { input type="checkbox" name="agreed" value="yes" required; (does) }
                            button.dng.pri { "Rotate " (name) }
                        }))
                    }
                }
            } @else {
                p.m { "This console is read-only: it shows no secrets." }
            }
        }
    }
}

/// Returns the page that shows new secrets; where that can't be read, one with the secrets alone: the old ones
/// are gone.
pub(super) fn or_alone(page: Answer, rows: &Rows) -> Answer {
    let told =
        "They are replaced. The page that they belong to can't be shown at present. They are now:";
    Ok(page.unwrap_or_else(|_| page::bare("New secrets", &html! { p { (told) } (kit::kv(rows)) })))
}

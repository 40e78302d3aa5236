//! Forms and queries of pages, read.

use serde::Deserialize;

/// The query that every page may have: which page of a list, and what was just done.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Look {
    pub(super) after: Option<String>,
    pub(super) done: Option<String>,
}

/// What was given, unless it is nothing but space.
pub(super) fn given(text: Option<&String>) -> Option<String> {
    text.map(|text| text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// An empty form, but for its token.
#[derive(Debug, Deserialize)]
pub(super) struct Nothing {}

/// A form whose action has to be agreed to by a box.
#[derive(Debug, Deserialize)]
pub(super) struct Agreed {
    #[serde(default)]
    pub(super) agreed: String,
}

impl Agreed {
    /// Refuses what was not agreed to: a browser does, too, as long as it runs the page's form.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        agreed(&self.agreed)
    }
}

/// Refuses an action that was not agreed to.
pub(super) fn agreed(given: &str) -> anyhow::Result<()> {
    match given {
        "yes" => Ok(()),
        _ => Err(gridpost_ops::failure::Misuse(
            "Nothing was done: tick the box beside the button to say that it is meant.".to_owned(),
        )
        .into()),
    }
}

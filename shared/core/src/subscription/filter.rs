//! Decides whether a subscription matches an event.
//!
//! A [`Filter`] is stored. The filters of a topic are compiled together into [`Filters`] each time
//! they are read.
//!
//! Source: Event Grid, "Understand event filtering for Event Grid subscriptions".

pub mod advanced;
pub mod compiled;

mod values;

use serde::{Deserialize, Serialize};

pub use advanced::AdvancedFilter;
pub use compiled::Filters;

/// Selects events. All parts must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Filter {
    /// Exact event types; `None` means all.
    pub included_event_types: Option<Vec<String>>,
    /// How the subject must begin; empty means any.
    pub subject_begins_with: String,
    /// How the subject must end; empty means any.
    pub subject_ends_with: String,
    /// Whether case matters for the subject (it does not by default).
    pub is_subject_case_sensitive: bool,
    /// Conditions on values of the event, at most [`advanced::FILTERS_MAX`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advanced: Vec<AdvancedFilter>,
    /// Whether the advanced filters look into arrays, at their elements.
    #[serde(skip_serializing_if = "is_false")]
    pub enable_advanced_filtering_on_arrays: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Folds the case of a text, character by character.
fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_uppercase();
    }
    text.chars().map(fold).collect()
}

/// Folds the case of a character: its upper case if that is one character, as in .NET's ordinal
/// comparison.
fn fold(character: char) -> char {
    let mut upper = character.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => upper,
        _ => character,
    }
}

#[cfg(test)]
mod tests;

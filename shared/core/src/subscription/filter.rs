//! Decides whether an event subscription matches an event.
//!
//! [`Filters`] are the compiled [`Filter`]s of a topic.
//!
//! Source: Event Grid, "Understand event filtering for Event Grid subscriptions".

pub mod advanced;
pub mod compiled;

use serde::{Deserialize, Serialize};

pub use advanced::AdvancedFilter;
pub use compiled::Filters;

/// Selects events that match all its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Filter {
    /// Matched exactly; `None` means all.
    pub included_event_types: Option<Vec<String>>,
    /// Empty means any.
    pub subject_begins_with: String,
    /// Empty means any.
    pub subject_ends_with: String,
    pub is_subject_case_sensitive: bool,
    /// At most [`advanced::FILTERS_MAX`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advanced: Vec<AdvancedFilter>,
    /// Whether advanced filters look at the elements of arrays.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enable_advanced_filtering_on_arrays: bool,
}

/// Folds the case of a text, character by character.
fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_uppercase();
    }
    text.chars().map(fold).collect()
}

/// Returns a character's upper case if that is one character, as in .NET's ordinal comparison.
fn fold(character: char) -> char {
    let mut upper = character.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => upper,
        _ => character,
    }
}

#[cfg(test)]
mod tests;

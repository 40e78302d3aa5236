//! Does this subscription want this event?

use serde::{Deserialize, Serialize};

/// Which events a subscription wants. All parts must agree.
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
}

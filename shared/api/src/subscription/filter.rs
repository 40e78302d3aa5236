//! `properties.filter`, or `properties.filtersConfiguration` of a namespace topic's document.

pub mod advanced;

use gridpost_core::subscription;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use self::advanced::AdvancedFilter;
use crate::{document::At, schema::stand_in};

/// The event type that means all of them. Source: Event Grid, "Event filtering".
const ALL: &str = "All";

/// The conditions on events to deliver. All parts must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    /// Exact event types, each once; null and ["All"] stand for every type.
    #[schema(value_type = Option<Vec<stand_in::EventType>>, min_items = 1, max_items = 250)]
    pub included_event_types: Option<Vec<String>>,
    #[schema(max_length = 1_024)]
    pub subject_begins_with: Option<String>,
    #[schema(max_length = 1_024)]
    pub subject_ends_with: Option<String>,
    #[schema(default = false)]
    pub is_subject_case_sensitive: Option<bool>,
    /// Conditions on values of the event.
    #[schema(max_items = 25)]
    pub advanced_filters: Option<Vec<AdvancedFilter>>,
    /// Whether advanced filters look at the elements of arrays.
    #[schema(default = false)]
    pub enable_advanced_filtering_on_arrays: Option<bool>,
}

impl Filter {
    /// Returns what is stored of it. Problems have paths below `path`.
    pub(super) fn read(self, at: &mut At<'_>) -> subscription::Filter {
        subscription::Filter {
            included_event_types: included_event_types(self.included_event_types, at),
            subject_begins_with: self.subject_begins_with.unwrap_or_default(),
            subject_ends_with: self.subject_ends_with.unwrap_or_default(),
            is_subject_case_sensitive: self.is_subject_case_sensitive.unwrap_or(false),
            advanced: advanced::read(self.advanced_filters, at),
            enable_advanced_filtering_on_arrays: self
                .enable_advanced_filtering_on_arrays
                .unwrap_or(false),
        }
    }

    pub(super) fn of(filter: &subscription::Filter) -> Self {
        Self {
            included_event_types: filter.included_event_types.clone(),
            subject_begins_with: Some(filter.subject_begins_with.clone()),
            subject_ends_with: Some(filter.subject_ends_with.clone()),
            is_subject_case_sensitive: Some(filter.is_subject_case_sensitive),
            advanced_filters: Some(filter.advanced.iter().map(AdvancedFilter::of).collect()),
            enable_advanced_filtering_on_arrays: Some(filter.enable_advanced_filtering_on_arrays),
        }
    }
}

/// The exact event types, each once; `None` means all.
fn included_event_types(given: Option<Vec<String>>, at: &mut At<'_>) -> Option<Vec<String>> {
    let mut types: Vec<String> = Vec::new();
    for name in given? {
        if !types.contains(&name) {
            types.push(name);
        }
    }
    if types == [ALL] {
        return None;
    }
    if types.iter().any(|name| name == ALL) {
        let rule = "must have 'All' alone or not at all: it stands for every event type";
        at.member("includedEventTypes").invalid(rule);
    }
    Some(types)
}

//! `properties.filter`, or `properties.filtersConfiguration` of a namespace topic's document.

pub(super) mod advanced;

use gridpost_core::{subscription::Filter, topic::Kind};

use super::namespace;
use crate::document::{Code, Object, Problems, text};

/// The event type that means all of them. Source: Event Grid, "Event filtering".
const ALL: &str = "All";

/// Most characters of a subject's prefix or suffix.
const SUBJECT_CHARS_MAX: usize = 1_024;

/// Most event types of a filter: all are in the memory of every function.
const TYPES_MAX: usize = 250;

/// Most characters of an event type.
const TYPE_CHARS_MAX: usize = 512;

/// Reads `filter`, or `filtersConfiguration` of a namespace topic's document. The filter of
/// `existing` stays allowed whatever the limits are now: an unrelated change must not fail because
/// of it. What can't be read is refused even then: without it, a filter may look like that one.
pub(super) fn read(
    properties: &mut Object<'_>,
    kind: Kind,
    existing: Option<&Filter>,
    problems: &mut Problems,
) -> Filter {
    let mut own = Problems::default();
    let read = read_any(properties, kind, &mut own);
    if existing != Some(&read) || !own.are_limits() {
        problems.add_all(own);
    }
    read
}

fn read_any(properties: &mut Object<'_>, kind: Kind, problems: &mut Problems) -> Filter {
    let (name, advanced) = match kind == Kind::Namespace && properties.has(namespace::FILTERS) {
        true => (namespace::FILTERS, "filters"),
        false => ("filter", "advancedFilters"),
    };
    properties.ignore(&["filter"]);
    let Some(mut filter) = properties.object(name, problems) else {
        return Filter::default();
    };
    let read = Filter {
        included_event_types: included_event_types(&mut filter, problems),
        subject_begins_with: subject(&mut filter, "subjectBeginsWith", problems),
        subject_ends_with: subject(&mut filter, "subjectEndsWith", problems),
        is_subject_case_sensitive: filter.flag("isSubjectCaseSensitive", problems),
        advanced: advanced::read(&mut filter, advanced, problems),
        enable_advanced_filtering_on_arrays: filter
            .flag("enableAdvancedFilteringOnArrays", problems),
    };
    filter.finish(problems);
    read
}

fn subject(filter: &mut Object<'_>, name: &'static str, problems: &mut Problems) -> String {
    let given = filter.text(name, problems).unwrap_or_default();
    let chars = given.chars().count();
    if chars > SUBJECT_CHARS_MAX {
        let rule = format!("must have at most {SUBJECT_CHARS_MAX} characters, but has {chars}");
        problems.add(Code::OutOfRange, filter.path_of(name), rule);
    }
    given.to_owned()
}

/// The exact event types, each once; `null`, absent and `["All"]` mean all.
fn included_event_types(filter: &mut Object<'_>, problems: &mut Problems) -> Option<Vec<String>> {
    const NAME: &str = "includedEventTypes";
    let path = filter.path_of(NAME);
    let given = filter.list(NAME, problems)?;
    if given.len() > TYPES_MAX {
        let rule = format!("must have at most {TYPES_MAX} event types, but has {}", given.len());
        problems.add(Code::OutOfRange, &path, rule);
    }
    let mut types: Vec<String> = Vec::with_capacity(given.len());
    for (path, value) in &given {
        let Some(name) = text(value, path, problems) else { continue };
        let chars = name.chars().count();
        if name.is_empty() {
            problems.add(Code::InvalidValue, path, "must not be empty: it is an exact event type");
        } else if chars > TYPE_CHARS_MAX {
            let rule = format!("must have at most {TYPE_CHARS_MAX} characters, but has {chars}");
            problems.add(Code::OutOfRange, path, rule);
        }
        if !types.iter().any(|known| known == name) {
            types.push(name.to_owned());
        }
    }
    if given.is_empty() {
        let rule = "must name at least one event type; leave it out, or write [\"All\"], for all";
        problems.add(Code::OutOfRange, path, rule);
    } else if types == [ALL] {
        return None;
    } else if types.iter().any(|name| name == ALL) {
        let rule = "must have 'All' alone or not at all: it stands for every event type";
        problems.add(Code::InvalidValue, path, rule);
    }
    Some(types)
}

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

impl Filter {
    /// Whether an event of that type and subject is wanted. An event without subject has an empty
    /// one.
    ///
    /// Source: Event Grid, "Understand event filtering for Event Grid subscriptions".
    pub fn matches(&self, event_type: &str, subject: &str) -> bool {
        self.wants_type(event_type) && self.wants_subject(subject)
    }

    fn wants_type(&self, event_type: &str) -> bool {
        let included = self.included_event_types.as_ref();
        included.is_none_or(|included| included.iter().any(|wanted| wanted == event_type))
    }

    fn wants_subject(&self, subject: &str) -> bool {
        let (begin, end) = (&*self.subject_begins_with, &*self.subject_ends_with);
        if self.is_subject_case_sensitive {
            return subject.starts_with(begin) && subject.ends_with(end);
        }
        leads(subject.chars(), begin.chars()) && leads(subject.chars().rev(), end.chars().rev())
    }
}

/// Whether the characters begin with those of `lead`, whatever their case.
fn leads(mut characters: impl Iterator<Item = char>, mut lead: impl Iterator<Item = char>) -> bool {
    lead.all(|wanted| {
        characters.next().is_some_and(|found| found == wanted || fold(found) == fold(wanted))
    })
}

/// A character without its case: its upper case where that is one character, as .NET's ordinal
/// comparison has it.
fn fold(character: char) -> char {
    let mut upper = character.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => upper,
        _ => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_table() {
        let types = |types: &[&str]| Filter {
            included_event_types: Some(types.iter().map(|name| (*name).to_owned()).collect()),
            ..Filter::default()
        };
        let subject = |begins: &str, ends: &str, is_subject_case_sensitive| Filter {
            included_event_types: None,
            subject_begins_with: begins.to_owned(),
            subject_ends_with: ends.to_owned(),
            is_subject_case_sensitive,
        };
        let table = [
            ("no filter wants all", Filter::default(), "T", "s", true),
            ("no filter wants what has no subject", Filter::default(), "T", "", true),
            ("a type that is included", types(&["A", "T"]), "T", "s", true),
            ("a type that is not", types(&["A"]), "T", "s", false),
            ("types are exact in case", types(&["t"]), "T", "s", false),
            ("types are no prefixes", types(&["T"]), "T.x", "s", false),
            ("an empty list wants nothing", types(&[]), "T", "s", false),
            ("begins", subject("/blobs/", "", false), "T", "/blobs/a", true),
            ("begins elsewhere", subject("blobs", "", false), "T", "/blobs/a", false),
            ("case does not matter", subject("/BLOBS", ".JPG", false), "T", "/blobs/a.jpg", true),
            ("nor beyond ASCII", subject("/éß", "Ω", false), "T", "/Éß/ω", true),
            ("case matters when told", subject("/BLOBS", "", true), "T", "/blobs/a", false),
            ("same case when told", subject("/blobs", "a", true), "T", "/blobs/a", true),
            ("end matters in case when told", subject("", "A", true), "T", "/blobs/a", false),
            ("ends", subject("", ".jpg", false), "T", "a.jpg", true),
            ("ends otherwise", subject("", ".jpg", false), "T", "a.jpg/", false),
            ("longer than the subject", subject("abc", "", false), "T", "ab", false),
            ("both parts may overlap", subject("ab", "bc", false), "T", "abc", true),
            ("no wildcards", subject("*", "", false), "T", "abc", false),
            ("no subject, one is asked for", subject("a", "", false), "T", "", false),
        ];
        for (row, filter, event_type, subject, want) in table {
            assert_eq!(filter.matches(event_type, subject), want, "{row}");
        }
        let both = Filter { subject_begins_with: "s".to_owned(), ..types(&["T"]) };
        assert!(both.matches("T", "s1") && !both.matches("T", "x") && !both.matches("U", "s1"));
    }
}

//! The outcome of applying a file, or of planning that.

use gridpost_api::client::Tagged;
use serde::Serialize;
use serde_json::{Map, Value};

use super::changes::{Change, Resource, between};
use crate::output;

/// The outcome of applying a file to a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Created,
    Changed(Vec<Change>),
    Unchanged,
    /// It was there; its earlier state could not be read.
    Replaced,
    Deleted,
}

impl Outcome {
    /// Compares a resource before and after a PUT, which keeps the ETag where it changes nothing.
    pub(super) fn of<R: Resource>(before: Option<&Tagged<R>>, after: &Tagged<R>) -> Self {
        let Some(before) = before.filter(|_| !after.is_new) else {
            return if after.is_new { Self::Created } else { Self::Replaced };
        };
        match between(&before.document, &after.document) {
            changes if !changes.is_empty() => Self::Changed(changes),
            _ if before.etag == after.etag => Self::Unchanged,
            _ => Self::Changed(vec![Change::of_a_secret()]),
        }
    }
}

/// The changes that an apply has made, or would make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    pub topics: usize,
    pub subscriptions: usize,
    /// The outcomes of both, by their paths in the file.
    pub outcomes: Vec<(String, Outcome)>,
    /// The event subscriptions whose endpoints have not consented yet, each with the reason.
    pub awaited: Vec<String>,
    /// Warnings about what is allowed but probably a mistake.
    pub warnings: Vec<String>,
}

/// The outcome of an apply, or of its plan, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MadeReport<'m> {
    topics: usize,
    event_subscriptions: usize,
    new: usize,
    changed: Vec<Changed<'m>>,
    created: Vec<&'m str>,
    replaced: Vec<&'m str>,
    unchanged: Vec<&'m str>,
    deleted: Vec<&'m str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    awaiting_consent: &'m [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'m [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    refused: &'m [String],
    /// Whether nothing of it was done.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// The changes of what is at that path.
#[derive(Debug, Serialize)]
struct Changed<'m> {
    path: &'m str,
    changes: &'m [Change],
}

impl Made {
    pub(super) fn warn(&mut self, path: &str, warnings: Vec<String>) {
        self.warnings.extend(warnings.into_iter().map(|warning| format!("{path}: {warning}")));
    }

    /// Whether anything differs from what was there.
    pub fn changes_something(&self) -> bool {
        self.outcomes.iter().any(|(_, outcome)| *outcome != Outcome::Unchanged)
    }

    fn paths(&self, is_it: impl Fn(&Outcome) -> bool) -> Vec<&str> {
        let found = self.outcomes.iter().filter(|(_, outcome)| is_it(outcome));
        found.map(|(path, _)| path.as_str()).collect()
    }

    fn changed(&self) -> impl Iterator<Item = Changed<'_>> {
        self.outcomes.iter().filter_map(|(path, outcome)| match outcome {
            Outcome::Changed(changes) => Some(Changed { path, changes }),
            _ => None,
        })
    }

    /// Returns counts, outcomes and warnings for programs.
    pub fn report(&self) -> MadeReport<'_> {
        let created = self.paths(|it| *it == Outcome::Created);
        MadeReport {
            topics: self.topics,
            event_subscriptions: self.subscriptions,
            new: created.len(),
            changed: self.changed().collect(),
            created,
            replaced: self.paths(|it| !matches!(it, Outcome::Created | Outcome::Deleted)),
            unchanged: self.paths(|it| *it == Outcome::Unchanged),
            deleted: self.paths(|it| *it == Outcome::Deleted),
            awaiting_consent: &self.awaited,
            warnings: &self.warnings,
            refused: &[],
            dry_run: false,
        }
    }

    /// Returns the same with what was refused, as members of an error.
    pub(super) fn members(&self, refused: &[String]) -> Map<String, Value> {
        let report = serde_json::to_value(MadeReport { refused, ..self.report() });
        report.ok().and_then(|report| report.as_object().cloned()).unwrap_or_default()
    }

    /// Describes the counts for people.
    pub fn told(&self) -> String {
        let topics = output::count(self.topics as u64, "topic");
        let subscriptions = output::count(self.subscriptions as u64, "event subscription");
        let new = self.paths(|it| *it == Outcome::Created).len();
        format!("{topics} and {subscriptions}, {new} of them new")
    }

    /// Lists the outcomes for people, in lines that begin with a line break.
    pub fn lines(&self) -> String {
        let mut lines = String::new();
        for Changed { path, changes } in self.changed() {
            lines.push_str(&format!("\n  changed: {path}"));
            lines.extend(changes.iter().map(|change| format!("\n    {}", change.told())));
        }
        for (what, outcome) in [
            ("created", Outcome::Created),
            ("unchanged", Outcome::Unchanged),
            ("replaced (what was there could not be read)", Outcome::Replaced),
            ("deleted", Outcome::Deleted),
        ] {
            let paths = self.paths(|it| *it == outcome);
            if !paths.is_empty() {
                lines.push_str(&format!("\n  {what}: {}", paths.join(", ")));
            }
        }
        lines
    }

    /// Describes what was made and what was refused, for people and for programs.
    pub(super) fn in_part(
        &self,
        refused: &[String],
        is_broken: bool,
    ) -> (String, Map<String, Value>) {
        let members = self.members(refused);
        let refused = refused.join("\n  ");
        if self.topics == 0 && !is_broken {
            let told = "what the file declares is refused, and nothing of it was applied";
            return (format!("{told}:\n  {refused}"), members);
        }
        let mut message =
            format!("the file was applied in part: {}{}\n", self.told(), self.lines());
        for told in self.awaited.iter().chain(&self.warnings) {
            message.push_str(&format!("  ! {told}\n"));
        }
        message.push_str(&format!("refused:\n  {refused}"));
        (message, members)
    }
}

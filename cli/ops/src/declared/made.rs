//! The outcome of applying a file, or of planning that.

use gridpost_api::client::Tagged;
use serde_json::{Map, Value, json};

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

    fn changed(&self) -> impl Iterator<Item = (&str, &[Change])> {
        self.outcomes.iter().filter_map(|(path, outcome)| match outcome {
            Outcome::Changed(changes) => Some((path.as_str(), changes.as_slice())),
            _ => None,
        })
    }

    /// Returns counts, outcomes and warnings for programs.
    pub fn members(&self) -> Map<String, Value> {
        let change = |(path, changes): (&str, &[Change])| {
            let changes: Vec<_> = changes.iter().map(Change::document).collect();
            json!({"path": path, "changes": changes})
        };
        let mut members = Map::from_iter([
            ("topics".to_owned(), json!(self.topics)),
            ("eventSubscriptions".to_owned(), json!(self.subscriptions)),
            ("new".to_owned(), json!(self.paths(|it| *it == Outcome::Created).len())),
            ("changed".to_owned(), self.changed().map(change).collect()),
        ]);
        let was_there = |it: &Outcome| !matches!(it, Outcome::Created | Outcome::Deleted);
        let lists = [
            ("created", self.paths(|it| *it == Outcome::Created)),
            ("replaced", self.paths(was_there)),
            ("unchanged", self.paths(|it| *it == Outcome::Unchanged)),
            ("deleted", self.paths(|it| *it == Outcome::Deleted)),
        ];
        members.extend(lists.map(|(name, paths)| (name.to_owned(), json!(paths))));
        for (name, list) in [("awaitingConsent", &self.awaited), ("warnings", &self.warnings)] {
            if !list.is_empty() {
                members.insert(name.to_owned(), json!(list));
            }
        }
        members
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
        for (path, changes) in self.changed() {
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
        let mut members = self.members();
        members.insert("refused".to_owned(), json!(refused));
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

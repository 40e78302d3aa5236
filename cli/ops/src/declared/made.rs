//! What an apply has made, or would make.

use serde_json::{Map, Value, json};

use super::changes::{Change, between};
use crate::{manage_api::Reply, output};

/// What became of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Created,
    Changed(Vec<Change>),
    Unchanged,
    /// It was there; what it was could not be read.
    Replaced,
    Deleted,
}

impl Outcome {
    /// The outcome of a PUT, which keeps the ETag where it changes nothing.
    pub(super) fn of(before: Option<&Reply>, reply: &Reply) -> Self {
        let Some(before) = before.filter(|_| reply.status != 201) else {
            return if reply.status == 201 { Self::Created } else { Self::Replaced };
        };
        match between(&before.document, &reply.document) {
            changes if !changes.is_empty() => Self::Changed(changes),
            _ if before.etag == reply.etag => Self::Unchanged,
            _ => Self::Changed(vec![Change::of_a_secret()]),
        }
    }
}

/// What was made, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    pub topics: usize,
    pub subscriptions: usize,
    /// What became of both, by their paths in the file.
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

    /// The counts and outcomes, for programs, and what is to be known.
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

    /// The counts, for people.
    pub fn told(&self) -> String {
        let topics = output::count(self.topics as u64, "topic");
        let subscriptions = output::count(self.subscriptions as u64, "event subscription");
        let new = self.paths(|it| *it == Outcome::Created).len();
        format!("{topics} and {subscriptions}, {new} of them new")
    }

    /// The outcomes, for people: lines that begin with a line break.
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

    /// What was made and what was refused, for people and for programs.
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

//! Deliberate bugs, one at a time: the proof that tests would notice them.
//!
//! `cargo run -p gridpost-tests --bin mutations` puts each into a copy of the tree, runs the tests
//! that should catch it there, and prints what did. If you change a line that a mutation replaces,
//! change the mutation too; a house rule checks that every `old` still exists.

mod adapters;
mod authentication;
mod batches;
mod beside;
mod dispatching;
mod identities;
mod infrastructure;
mod letters;
mod operators;
mod pausing;
mod publishing;
mod repeats;
mod requests;
mod restarts;
mod rules;
mod sources;
mod tables;
mod waiting;

/// A deliberate bug.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    /// What it does wrong.
    pub name: &'static str,
    /// The file it is in, from the root of the repository.
    pub file: &'static str,
    /// The text that it replaces, which occurs there once.
    pub old: &'static str,
    /// The replacement.
    pub new: &'static str,
}

/// What should catch a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// The simulation: its seeds, and then its worked examples.
    Simulation,
    /// The tests of a package.
    Tests {
        /// The package's name.
        package: &'static str,
        /// The tests to run, as arguments of `cargo test`; empty for all.
        which: &'static [&'static str],
    },
    /// Some tests of the simulation.
    Worlds {
        /// Their file below `tests`.
        test: &'static str,
        /// What their names have in common.
        named: &'static str,
    },
    /// Terraform's tests of the infrastructure.
    Terraform {
        /// The files of `infra/tests`.
        files: &'static [&'static str],
    },
}

/// Bugs that the same tests should catch.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// What should catch each of them.
    pub witness: Witness,
    /// The bugs.
    pub mutations: &'static [Mutation],
}

/// All of them.
pub const AREAS: &[Area] = &[
    Area { witness: Witness::Simulation, mutations: dispatching::ALL },
    Area { witness: Witness::Simulation, mutations: rules::ALL },
    Area { witness: Witness::Simulation, mutations: beside::ALL },
    Area { witness: REPEATED, mutations: repeats::SIMULATION },
    Area { witness: tests("gridpost-ingest", &[]), mutations: repeats::INGEST },
    Area { witness: tests("gridpost-aws", &["--features", "s3"]), mutations: adapters::ALL },
    Area { witness: tests("gridpost-manage", &[]), mutations: operators::ALL },
    Area { witness: tests("gridpost-dead-letter", &[]), mutations: letters::DEAD_LETTER },
    Area { witness: tests("gridpost-redrive", &[]), mutations: letters::REDRIVE },
    Area { witness: tests("gridpost-ingest", &[]), mutations: publishing::ALL },
    Area { witness: tests("gridpost-dispatch", &[]), mutations: requests::DISPATCH },
    Area { witness: NEIGHBOURS, mutations: waiting::LANE },
    Area { witness: tests("gridpost-wake", &[]), mutations: waiting::WAKE },
    Area { witness: tests("gridpost-ports", &[]), mutations: waiting::PORTS },
    Area { witness: tests("gridpost-ports", &[]), mutations: authentication::PORTS },
    Area { witness: tests("gridpost-core", &["--lib"]), mutations: authentication::CORE },
    Area { witness: tests("gridpost-webhook", &[]), mutations: authentication::WEBHOOK },
    Area { witness: tests("gridpost-ports", &[]), mutations: identities::PORTS },
    Area { witness: tests("gridpost-core", &["--lib"]), mutations: identities::CORE },
    Area { witness: tests("gridpost-signing", &[]), mutations: identities::SIGNING },
    Area { witness: tests("gridpost-webhook", &[]), mutations: requests::WEBHOOK },
    Area { witness: tests("gridpost-runtime", &["--all-features"]), mutations: requests::RUNTIME },
    Area { witness: tests("gridpost-core", &["--lib"]), mutations: tables::CORE },
    Area { witness: tests("gridpost-testkit", &["--test", "golden"]), mutations: tables::STORED },
    Area { witness: tests("gridpost-runtime", &["--all-features"]), mutations: tables::LEDGER },
    Area { witness: tests("gridpost-core", &["--lib"]), mutations: pausing::CORE },
    Area { witness: tests("gridpost-wake", &[]), mutations: pausing::WAKE },
    Area { witness: tests("gridpost-dispatch", &[]), mutations: pausing::DISPATCH },
    Area { witness: tests("gridpost-manage", &[]), mutations: pausing::MANAGE },
    Area { witness: tests("gridpost-intake", &[]), mutations: sources::HANDLER },
    Area { witness: tests("gridpost-core", &["--lib"]), mutations: sources::CORE },
    Area { witness: SOURCES, mutations: sources::TERRAFORM },
    Area { witness: tests("gridpost-core", &["--lib"]), mutations: batches::CORE },
    Area { witness: tests("gridpost-dispatch", &[]), mutations: batches::DISPATCH },
    Area { witness: tests("gridpost-webhook", &[]), mutations: batches::WEBHOOK },
    Area { witness: BATCHED, mutations: batches::SIMULATION },
    Area { witness: RESTARTED, mutations: restarts::SIMULATION },
    Area { witness: TERRAFORM, mutations: infrastructure::ALL },
];

const NEIGHBOURS: Witness = Witness::Worlds { test: "neighbours", named: "never_answer" };

const REPEATED: Witness = Witness::Worlds { test: "simulation", named: "a_key_makes" };

const BATCHED: Witness = Witness::Worlds { test: "simulation", named: "bad_events_in_batches" };

const RESTARTED: Witness = Witness::Worlds { test: "simulation", named: "is_started_again" };

const TERRAFORM: Witness =
    Witness::Terraform { files: &["policies.tftest.hcl", "wiring.tftest.hcl"] };

const SOURCES: Witness = Witness::Terraform { files: &["aws_source.tftest.hcl"] };

const fn tests(package: &'static str, which: &'static [&'static str]) -> Witness {
    Witness::Tests { package, which }
}

/// Each bug with what should catch it.
pub fn all() -> impl Iterator<Item = (&'static Mutation, Witness)> {
    AREAS.iter().flat_map(|area| area.mutations.iter().map(|mutation| (mutation, area.witness)))
}

impl Mutation {
    /// The file's text with the bug in it.
    ///
    /// # Errors
    ///
    /// The old text does not occur there exactly once.
    pub fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(self.old).count() {
            1 => Ok(text.replacen(self.old, self.new, 1)),
            times => Err(format!(
                "mutation `{}`: its old text stands {times} times in {}, not once; change the mutation \
                 in tests/src/mutations with the code",
                self.name, self.file,
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn only_what_stands_there_once_is_replaced() {
        let mutation = Mutation { name: "m", file: "f", old: "good", new: "bad" };
        assert_eq!(mutation.apply("a good day").as_deref(), Ok("a bad day"));
        for text in ["a day", "good, good"] {
            assert!(mutation.apply(text).is_err_and(|error| error.contains("`m`")), "{text}");
        }
    }

    #[test]
    fn every_mutation_has_a_name_of_its_own() {
        let names: BTreeSet<_> = all().map(|(mutation, _)| mutation.name).collect();
        assert_eq!(names.len(), all().count());
        assert!(names.len() >= 80, "{}", names.len());
    }
}

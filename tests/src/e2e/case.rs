//! A case, and the cases beside which it may run.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::{fixture::Fixture, needs::Needs};

/// One case, named after what it shows.
#[derive(Clone, Copy)]
pub struct Case {
    /// `module::fact`.
    pub name: &'static str,
    /// When it runs.
    pub phase: Phase,
    /// The tools it needs besides Rust.
    pub needs: Needs,
    /// Runs it.
    pub run: fn(Arc<Fixture>) -> BoxFuture<'static, anyhow::Result<()>>,
}

/// Phases run one after the other. On `gridpost dev`, where another process costs nothing, all
/// cases run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Disturbs no other case.
    Together,
    /// Kills functions or keeps the emulator busy, or tolerates both: no timed case may run beside
    /// it.
    Disturbing,
    /// Restarts the emulator or changes the deployment, so it runs alone. On `gridpost dev` it has
    /// its own process.
    Alone,
    /// Runs alone like those, in its place among them, and measures how long others take.
    Timed,
    /// Removes the deployment.
    Last,
}

impl Phase {
    /// Whether its cases run one by one.
    pub(super) fn is_alone(self) -> bool {
        matches!(self, Self::Alone | Self::Timed)
    }

    /// Whether nothing else may keep the machine busy meanwhile.
    pub(super) fn needs_quiet(self) -> bool {
        matches!(self, Self::Together | Self::Timed)
    }

    /// The phases of what runs one by one are one: their cases keep their order.
    pub(super) fn order(self) -> Self {
        if self.is_alone() { Self::Alone } else { self }
    }
}

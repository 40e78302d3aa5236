//! Leads a deployment's functions to another version by steps, and back when an alarm goes off.
//!
//! [`plan`] says which function goes from which version to which, [`alarms`] which alarms count, [`steps`]
//! what follows from what is seen at a time: all of it pure. [`run`] carries it out on an [`Account`],
//! which [`aws`] is.

pub mod alarms;
pub mod aws;
pub mod plan;
pub mod run;
pub mod steps;

use self::alarms::Alarm;
use self::plan::{Alias, Route};

/// The calls that a rollout needs of an account. Functions are named by their role in the deployment
/// (`dispatch`).
#[expect(async_fn_in_trait, reason = "no caller sends these futures to another thread")]
pub trait Account {
    async fn alias(&self, role: &str) -> anyhow::Result<Option<Alias>>;

    async fn versions(&self, role: &str) -> anyhow::Result<Option<Vec<u64>>>;

    /// Leads a function's alias elsewhere, if it is unchanged since `revision`.
    async fn lead(&self, role: &str, route: Route, revision: &str) -> anyhow::Result<()>;

    async fn alarms(&self) -> anyhow::Result<Vec<Alarm>>;
}

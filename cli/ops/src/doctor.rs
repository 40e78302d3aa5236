//! Checks before a deployment is applied: a plan of Terraform, as JSON, against what AWS enforces and
//! neither a plan nor an emulator does. Pure: no network, no credentials. What a plan does not know yet
//! is not judged. With an account, [`names`] says which names are taken in it.

pub mod account;
pub mod aws;
mod cdn;
pub mod deployer;
mod limits;
pub mod names;
mod plan;
mod queues;
mod rules;
mod secrets;
mod spelling;

use serde::Serialize;
use serde_json::Value;

use self::names::Note;
use crate::schedule::delay_warning_of;

pub use plan::{Plan, PlanError, Regions};

/// Something that AWS would refuse, or that can't work there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The kind of fault, for programs: `role-policies`.
    pub code: &'static str,
    /// The resource's address in the plan, or those of several, with a comma between them.
    pub address: String,
    pub limit: String,
    pub found: String,
    pub source: &'static str,
}

/// The known facts of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    pub concurrency: u64,
    pub api_rate: u64,
    pub api_burst: u64,
}

impl Default for Account {
    fn default() -> Self {
        Self { concurrency: 1_000, api_rate: 10_000, api_burst: 5_000 }
    }
}

/// How many resources a plan has that something is known of, and what is wrong with them, by address.
pub fn check(document: &Value, account: &Account) -> Result<(usize, Vec<Fault>), PlanError> {
    let plan = Plan::read(document)?;
    let mut faults = limits::check(&plan);
    faults.extend(rules::check(&plan, account));
    faults.extend(spelling::check(&plan));
    faults.extend(queues::check(&plan));
    faults.extend(cdn::check(&plan));
    faults.extend(secrets::check(&plan));
    faults.sort_by(|a, b| (&a.address, a.code, &a.found).cmp(&(&b.address, b.code, &b.found)));
    Ok((plan.resources.len(), faults))
}

/// Notes the event subscriptions that the module `event-subscription` makes: their documents are
/// inputs of `terraform_data`.
pub fn notes(document: &Value) -> Result<Vec<Note>, PlanError> {
    let plan = Plan::read(document)?;
    let notes = plan.of("terraform_data").filter_map(|resource| {
        let told = delay_warning_of(&resource.values["input"])?;
        let message = format!("{}: {told}", resource.address);
        Some(Note { code: "short-time-to-live", message })
    });
    Ok(notes.collect())
}

#[cfg(test)]
mod tests;

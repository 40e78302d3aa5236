//! One file per command.

pub mod audit;
pub mod completion;
pub mod cost;
pub mod dead_letter;
pub mod delivery;
pub mod deployment;
pub mod down;
pub mod explain;
pub mod listen;
pub mod parked;
pub mod poison;
pub mod prober;
pub mod publish;
pub mod sas;
pub mod schedule;
pub mod status;
pub mod subscription;
pub mod tail;
pub mod topic;
pub mod up;

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use clap::Args;
use serde_json::Value;

/// An event subscription.
#[derive(Args, Debug)]
pub struct Whose {
    /// Topic of the event subscription
    #[arg(long, value_name = "NAME")]
    topic: String,

    /// The event subscription
    #[arg(long, alias = "name", value_name = "NAME")]
    subscription: String,
}

/// Reads a file, or standard input when it is called `-`.
fn read_input(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path != Path::new("-") {
        return std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()));
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
    Ok(bytes)
}

/// Reads a JSON document from a file, or from standard input when it is called `-`.
fn read_document(path: &Path) -> anyhow::Result<Value> {
    serde_json::from_slice(&read_input(path)?)
        .with_context(|| format!("{} is no JSON document", path.display()))
}

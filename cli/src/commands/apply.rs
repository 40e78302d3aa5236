//! `gridpost apply`: creates or replaces what a file declares.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::{commands::subscription::made::ConsentFlags, target::Common};
use gridpost_ops::{declared::Declared, subscription::warnings};

/// What to apply. What the file does not name stays; repeating it changes nothing.
#[derive(Args, Debug)]
pub struct ApplyArguments {
    /// Topics and event subscriptions as JSON or TOML, as `gridpost export` writes them. `${NAME}` in an
    /// endpoint's URL or in the value of a secret header is replaced by that environment variable
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replace the file's dead-letter bucket FROM by TO; may be given several times
    #[arg(long = "bucket", value_name = "FROM=TO", value_parser = renamed)]
    buckets: Vec<(String, String)>,

    #[command(flatten)]
    consent: ConsentFlags,
}

fn renamed(given: &str) -> Result<(String, String), &'static str> {
    let (from, to) = given.split_once('=').ok_or("write FROM=TO")?;
    Ok((from.to_owned(), to.to_owned()))
}

/// Fails with every problem of the file and everything that the server refuses, in one list behind what
/// was made all the same.
pub async fn run(arguments: &ApplyArguments, common: &Common) -> anyhow::Result<()> {
    let declared = Declared::read(&arguments.file)?.with_buckets(&arguments.buckets)?;
    let api = common.target.resolve()?.manage_api().await?;
    let made = declared.make(&api).await?;
    warnings::print(made.warnings.clone());
    common.output.tell(&Value::Object(made.members()), |_| format!("applied {}", made.told()));
    Ok(arguments.consent.check(made.awaited)?)
}

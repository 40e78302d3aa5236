//! `gridpost down`: stops the local stack and removes it.

use clap::Args;
use serde_json::json;

use crate::commands::status::in_process;
use crate::failure::Misuse;
use crate::local::home::Home;
use crate::local::stack;
use crate::output::{Output, text_at};
use crate::target::TargetArguments;

/// How much to remove.
#[derive(Args, Debug)]
pub struct DownArguments {
    /// Remove the caches too: the Python environment and Terraform's providers
    #[arg(long)]
    purge: bool,
}

/// Runs `gridpost down`. No stack is as good.
///
/// # Errors
///
/// When a process cannot be ended or a file not removed, or `gridpost dev` runs.
pub async fn run(
    arguments: &DownArguments,
    target: &TargetArguments,
    output: Output,
) -> anyhow::Result<()> {
    let was_there = match target.existing_home()? {
        Some(home) => {
            refuse_in_process(&home).await?;
            stack::down(&home, arguments.purge).await?
        }
        None => false,
    };
    output.print(&json!({ "removed": was_there }), |_| match (was_there, arguments.purge) {
        (false, _) => "no local stack is up".to_owned(),
        (true, true) => "the local stack is gone, caches included".to_owned(),
        (true, false) => {
            "the local stack is gone; caches are kept (--purge removes them)".to_owned()
        }
    });
    Ok(())
}

/// Leaves `gridpost dev` alone: other commands would find it no more, and --purge would remove its data.
async fn refuse_in_process(home: &Home) -> anyhow::Result<()> {
    // A damaged file is removed with the rest.
    let Some(found) = in_process(home).await.ok().flatten() else { return Ok(()) };
    let url = text_at(&found, "/manageUrl");
    Err(Misuse(format!("`gridpost dev` runs here, on {url}: end it first, by Ctrl-C")).into())
}

//! The command line's program, as a process that tests start.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use gridpost_stack::child;
use serde_json::Value;
use tokio::sync::OnceCell;

static BUILT: OnceCell<PathBuf> = OnceCell::const_new();

/// Builds the program `gridpost` by the profile of the program that runs, and returns its path. Cargo
/// compiles nothing that `cargo test` has compiled.
pub async fn gridpost() -> anyhow::Result<&'static Path> {
    Ok(BUILT.get_or_try_init(build).await?)
}

async fn build() -> anyhow::Result<PathBuf> {
    let own = env::current_exe()?;
    let folders = own.ancestors().skip(1).filter_map(|folder| folder.file_name()?.to_str());
    // `cargo test` puts its programs a folder deeper than `cargo run`.
    let profile = folders.into_iter().find(|name| *name != "deps").context("a profile's folder")?;
    let profile = if profile == "debug" { "dev" } else { profile };
    let cargo = env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let mut build = child::command(&cargo);
    // Not by its package: features are those of all packages together then, as `cargo test` has them.
    build.args(["build", "--quiet", "--bin", "gridpost", "--profile", profile]);
    build.args(["--message-format", "json-render-diagnostics"]).current_dir(root);
    let built = build.stderr(Stdio::inherit()).output().await.context("cargo can't be started")?;
    ensure!(built.status.success(), "the program gridpost does not compile");
    let told = String::from_utf8(built.stdout)?;
    let messages = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut paths =
        messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    paths.next_back().context("cargo named no program")
}

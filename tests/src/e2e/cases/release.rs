//! A release, as a user without Rust gets it.

use std::path::Path;

use anyhow::Context;
use gridpost_stack::build::architecture;
use gridpost_stack::child;
use tokio::process::Command;

use crate::{e2e::fixture::Fixture, program};

/// The packages of `release/build` are deployed onto their own emulator and verified, in an empty
/// folder, with an empty home folder and without Rust, a C compiler or Git on the PATH. Functions
/// and command line are those of this run. The timed steps of `gridpost verify` can't be shown on a
/// busy machine: [`super::verify`] shows them.
pub async fn it_is_deployed_and_proven_without_rust(fixture: &Fixture) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let packed = folder.path().join("dist");
    let functions = fixture.ground.terraform()?.functions();
    let mut build = script("build")?;
    build.args(["--arch", architecture()?, "--level", "1", "--programs"]);
    build.arg(functions.as_str().context("a folder of functions")?);
    build.arg("--cli").arg(program::gridpost().await?).arg("--out").arg(&packed);
    let logs = fixture.ground.home().logs();
    child::run("release/build", build, &logs.join("release-build.log"), |_| ()).await?;
    let mut tried = script("try")?;
    tried.arg(&packed).args(["--", "--only", "webhook,fan-out,large,dead-letter,redrive"]);
    tried.args(["--events", "10", "--fan-out", "5", "--fan-out-events", "24"]);
    child::run("release/try", tried, &logs.join("release-try.log"), |_| ()).await
}

fn script(name: &str) -> anyhow::Result<Command> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a workspace")?;
    Ok(child::command(&workspace.join("release").join(name)))
}

//! The command line's program, as a process that tests start.

use std::env::{
    self,
    consts::{ARCH, OS},
};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use gridpost_stack::child;
use serde_json::Value;
use tokio::sync::OnceCell;

static BUILT: OnceCell<PathBuf> = OnceCell::const_new();

/// Builds `gridpost` with the profile and target folder of the running program, and returns its path.
/// Cargo reuses what `cargo test` has compiled.
pub async fn gridpost() -> anyhow::Result<&'static Path> {
    Ok(BUILT.get_or_try_init(build).await?)
}

/// How a program was built, read from its path: `FOLDER[/TARGET]/PROFILE[/deps]/NAME`.
#[derive(Debug, PartialEq, Eq)]
struct Place<'p> {
    folder: &'p Path,
    /// The target, if one was passed to cargo.
    target: Option<&'p str>,
    profile: &'p str,
}

impl<'p> Place<'p> {
    fn of(program: &'p Path) -> Option<Self> {
        let beside = program.parent()?;
        // `cargo test` puts programs one folder deeper than `cargo run`.
        let built = if beside.ends_with("deps") { beside.parent()? } else { beside };
        let profile = match built.file_name()?.to_str()? {
            "debug" => "dev",
            name => name,
        };
        let above = built.parent()?;
        let name = above.file_name().and_then(OsStr::to_str);
        match name.filter(|name| is_target(name)) {
            Some(target) => Some(Self { folder: above.parent()?, target: Some(target), profile }),
            None => Some(Self { folder: above, target: None, profile }),
        }
    }
}

/// Returns whether this is a target of this machine, such as `x86_64-unknown-linux-gnu`.
fn is_target(name: &str) -> bool {
    let mut parts = name.split('-');
    parts.next() == Some(ARCH) && parts.any(|part| part == OS)
}

async fn build() -> anyhow::Result<PathBuf> {
    let own = env::current_exe()?;
    let place = Place::of(&own).context("a profile's folder")?;
    // Not by its package: features are those of all packages together then, as `cargo test` has them.
    let mut arguments = vec!["--quiet", "--bin", "gridpost", "--profile", place.profile];
    if let Some(target) = place.target {
        arguments.extend(["--target", target]);
    }
    arguments.extend(["--message-format", "json-render-diagnostics"]);
    let told = cargo_build(place.folder, &arguments).await?;
    let messages = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut paths =
        messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    paths.next_back().context("cargo named no program")
}

/// Builds packages of this workspace into a target folder; returns what cargo printed.
pub async fn cargo_build(target: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let cargo = env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let mut build = child::command(&cargo);
    build.arg("build").args(arguments).arg("--target-dir").arg(target).current_dir(root);
    let built = build.stderr(Stdio::inherit()).output().await.context("cargo can't be started")?;
    ensure!(built.status.success(), "cargo build {} failed", arguments.join(" "));
    Ok(String::from_utf8(built.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_path_tells_how_it_was_built() {
        let target = format!("{ARCH}-unknown-{OS}-gnu");
        let named = Some(target.as_str());
        for (path, folder, want, profile) in [
            ("/w/target/debug/deps/e2e-0f".to_owned(), "/w/target", None, "dev"),
            ("/w/target/debug/crash".to_owned(), "/w/target", None, "dev"),
            ("/tmp/fast-one/fast/crash".to_owned(), "/tmp/fast-one", None, "fast"),
            (format!("/w/target/{target}/debug/deps/e2e-0f"), "/w/target", named, "dev"),
            (format!("/t/{target}/release/crash"), "/t", named, "release"),
            ("/debug/crash".to_owned(), "/", None, "dev"),
        ] {
            let want = Place { folder: Path::new(folder), target: want, profile };
            assert_eq!(Place::of(Path::new(&path)), Some(want), "{path}");
        }
        assert_eq!(Place::of(Path::new("crash")), None);
    }
}

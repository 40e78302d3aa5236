//! Builds the functions for this machine with cargo-lambda.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use crate::{child, prerequisites::Tools, python::Environment};
use gridpost_ops::{home::Home, progress::Progress};

/// The functions as zip files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Functions {
    /// With `{name}/bootstrap.zip` of each function, or a release's `{name}.zip`.
    pub folder: PathBuf,
    /// Sorted.
    pub zips: Vec<PathBuf>,
    /// The hashes that Terraform checks, by function; empty after a build.
    pub sha256: BTreeMap<String, String>,
}

/// A profile of the workspace's `Cargo.toml`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Not optimised, but built in a fraction of the time.
    #[default]
    Dev,
    Release,
}

impl Profile {
    /// Returns Cargo's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Release => "release",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Workspace {
    target_directory: PathBuf,
    /// The programs of the packages below `functions/`, sorted.
    binaries: Vec<String>,
    compiled: usize,
}

/// Builds the functions of the workspace at `root` by `profile`, in its target folder. Unchanged zip files
/// stay the same to the byte.
pub async fn build(
    (root, profile): (&Path, Profile),
    home: &Home,
    tools: &Tools,
    environment: &Environment,
    progress: &Progress,
) -> anyhow::Result<Functions> {
    let step = progress.step(&format!("Building the functions (profile {})", profile.name()));
    let cargo = tools.cargo.as_deref().context("Cargo was not looked for")?;
    let workspace = metadata(root, cargo).await?;
    step.total(workspace.compiled as u64);
    // Apart from a build for AWS, which may be of another architecture.
    let folder = workspace.target_directory.join("lambda-local");
    let mut build = child::command(&environment.program("cargo-lambda"));
    build.current_dir(root).env("PATH", path_with(cargo, environment)?);
    // With Cargo's linker, because the emulator runs this machine's architecture.
    build.args(["lambda", "build", "--profile", profile.name()]);
    build.args(["--output-format", "zip", "--compiler", "cargo"]);
    build.arg(format!("--{}", architecture()?.replace('_', "-")));
    build.arg("--lambda-dir").arg(&folder);
    // By programs instead of packages, so that features are those of all packages together, and the build shares
    // what `cargo test` has compiled.
    for binary in &workspace.binaries {
        build.args(["--bin", binary]);
    }
    let mut compiled = 0;
    child::run("cargo lambda build", build, &home.logs().join("build.log"), |line| {
        if let Some(package) = line.trim_start().strip_prefix("Compiling ") {
            compiled += 1;
            step.reach(compiled, package.split(" (").next().unwrap_or(package));
        }
    })
    .await?;
    let zips: Vec<PathBuf> =
        workspace.binaries.iter().map(|name| folder.join(name).join("bootstrap.zip")).collect();
    for zip in &zips {
        ensure!(zip.is_file(), "cargo lambda build did not make {}", zip.display());
    }
    step.done(&format!("Built {} functions: {}", zips.len(), workspace.binaries.join(", ")));
    Ok(Functions { folder, zips, sha256: BTreeMap::new() })
}

async fn metadata(root: &Path, cargo: &Path) -> anyhow::Result<Workspace> {
    let mut metadata = child::command(cargo);
    metadata.args(["metadata", "--format-version", "1", "--manifest-path"]);
    metadata.arg(root.join("Cargo.toml")).arg("--filter-platform");
    metadata.arg(format!("{}-unknown-linux-gnu", env::consts::ARCH));
    let output = metadata.output().await.context("cargo cannot be started")?;
    if !output.status.success() {
        bail!("cargo metadata failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let document = serde_json::from_slice(&output.stdout).context("cargo metadata gave no JSON")?;
    read_metadata(&document, &root.join("functions")).context("cargo metadata gave no workspace")
}

/// Reads the document of `cargo metadata`.
fn read_metadata(document: &Value, functions: &Path) -> Option<Workspace> {
    let target_directory = PathBuf::from(document.get("target_directory")?.as_str()?);
    let mut workspace = Workspace { target_directory, binaries: vec![], compiled: 0 };
    let mut roots = Vec::new();
    for package in document.get("packages")?.as_array()? {
        let manifest = package.get("manifest_path")?.as_str()?;
        if !Path::new(manifest).starts_with(functions) {
            continue;
        }
        // The functions' own packages are libraries without programs.
        let programs: Vec<_> = programs(package).collect();
        if !programs.is_empty() {
            roots.push(package.get("id")?.as_str()?);
            workspace.binaries.extend(programs);
        }
    }
    workspace.binaries.sort();
    workspace.compiled = reachable(document, roots).unwrap_or(0);
    (!workspace.binaries.is_empty()).then_some(workspace)
}

fn programs(package: &Value) -> impl Iterator<Item = String> {
    let is_program = |target: &&Value| {
        target["kind"].as_array().is_some_and(|kinds| kinds.contains(&json!("bin")))
    };
    let targets = package["targets"].as_array().into_iter().flatten().filter(is_program);
    targets.filter_map(|target| target["name"].as_str().map(str::to_owned))
}

/// Counts the packages that `roots` need, without tests.
fn reachable<'a>(document: &'a Value, roots: Vec<&'a str>) -> Option<usize> {
    let nodes = document.pointer("/resolve/nodes")?.as_array()?;
    let by_id: HashMap<&str, &Value> =
        nodes.iter().filter_map(|node| Some((node.get("id")?.as_str()?, node))).collect();
    let is_built = |dependency: &Value| {
        let kinds = dependency.get("dep_kinds").and_then(Value::as_array);
        kinds.is_none_or(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev"))
    };
    let mut seen: HashSet<&str> = HashSet::new();
    let mut open = roots;
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let dependencies = by_id.get(id).and_then(|node| node.get("deps")?.as_array());
        let needed = dependencies.into_iter().flatten().filter(|dependency| is_built(dependency));
        open.extend(needed.filter_map(|dependency| dependency.get("pkg")?.as_str()));
    }
    Some(seen.len())
}

/// Returns `PATH` with the environment's programs and Cargo's folder first.
pub(super) fn path_with(cargo: &Path, environment: &Environment) -> anyhow::Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let own = [Some(environment.programs()), cargo.parent().map(Path::to_owned)];
    let own = own.into_iter().flatten().filter(|folder| !folder.as_os_str().is_empty());
    Ok(env::join_paths(own.chain(env::split_paths(&path)))?)
}

/// Returns Lambda's name of this machine's architecture.
pub fn architecture() -> anyhow::Result<&'static str> {
    match env::consts::ARCH {
        "x86_64" => Ok("x86_64"),
        "aarch64" => Ok("arm64"),
        other => bail!("AWS Lambda runs x86_64 and arm64; this machine is {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_and_what_they_need_count() {
        let package = |id: &str, manifest: &str, targets: &[(&str, &str)]| {
            let targets = targets.iter().map(|(name, kind)| json!({"name": name, "kind": [kind]}));
            json!({"id": id, "name": id, "manifest_path": manifest,
                "targets": targets.collect::<Vec<_>>()})
        };
        let node = |id: &str, needs: &[(&str, Value)]| {
            let deps: Vec<Value> = needs
                .iter()
                .map(|(pkg, kind)| json!({"pkg": pkg, "dep_kinds": [{"kind": kind}]}))
                .collect();
            json!({"id": id, "deps": deps})
        };
        let document = json!({
            "target_directory": "/w/target",
            "packages": [
                package(
                    "programs",
                    "/w/functions/programs/Cargo.toml",
                    &[("programs", "lib"), ("wake", "bin"), ("ingest", "bin"), ("x", "custom-build")],
                ),
                package("ingest", "/w/functions/ingest/Cargo.toml", &[("ingest", "lib")]),
                package("cli", "/w/cli/Cargo.toml", &[("cli", "bin")]),
                package("serde", "/r/serde/Cargo.toml", &[("serde", "lib")]),
            ],
            "resolve": {"nodes": [
                node("programs", &[("ingest", Value::Null), ("core", Value::Null)]),
                node("ingest", &[("core", Value::Null), ("proptest", json!("dev"))]),
                node("core", &[("serde", Value::Null), ("cc", json!("build"))]),
                node("cli", &[("clap", Value::Null)]),
            ]},
        });
        let want = Workspace {
            target_directory: "/w/target".into(),
            binaries: vec!["ingest".into(), "wake".into()],
            compiled: 5,
        };
        assert_eq!(read_metadata(&document, Path::new("/w/functions")), Some(want));
        assert_eq!(read_metadata(&document, Path::new("/elsewhere")), None);
    }
}

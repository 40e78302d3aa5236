//! The archives of a release, unpacked into one folder: compiled functions, and the Terraform module.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::build::{Functions, architecture};
use gridpost_ops::failure::Misuse;

/// The functions and the module of this program's release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artefacts {
    /// The Terraform module, with `deploy` in it.
    pub infra: PathBuf,
    pub functions: Functions,
}

/// The used members of `release.json`, which `release/build` writes.
#[derive(Debug, Deserialize)]
struct Release {
    version: String,
    architecture: String,
    sha256: BTreeMap<String, String>,
}

impl Artefacts {
    /// Finds them in `folder`, by the names of their archives. Fails with [`Misuse`] if they are missing, or of
    /// another version.
    pub fn find(folder: &Path) -> anyhow::Result<Self> {
        Self::of_version(folder, env!("CARGO_PKG_VERSION"), architecture()?)
    }

    fn of_version(folder: &Path, version: &str, architecture: &str) -> anyhow::Result<Self> {
        let folder = std::path::absolute(folder)?;
        let infra = unpacked(&folder, format!("gridpost-infra-{version}"))?;
        let functions = unpacked(&folder, format!("gridpost-functions-{version}-{architecture}"))?;
        let path = functions.join("release.json");
        let text = fs::read_to_string(&path);
        let text = text.with_context(|| format!("{} can't be read", path.display()))?;
        let release: Release = serde_json::from_str(&text)
            .with_context(|| format!("{} is no release.json of Gridpost", path.display()))?;
        ensure!(
            (release.version.as_str(), release.architecture.as_str()) == (version, architecture),
            "{} is of {} for {}; expected {version} for {architecture}",
            path.display(),
            release.version,
            release.architecture,
        );
        let zips: Vec<_> =
            release.sha256.keys().map(|name| functions.join(format!("{name}.zip"))).collect();
        for zip in &zips {
            ensure!(zip.is_file(), "{} is missing: unpack the archive again", zip.display());
        }
        Ok(Self { infra, functions: Functions { folder: functions, zips, sha256: release.sha256 } })
    }
}

fn unpacked(folder: &Path, name: String) -> anyhow::Result<PathBuf> {
    let path = folder.join(&name);
    if path.is_dir() {
        return Ok(path);
    }
    let there = fs::read_dir(folder).into_iter().flatten().flatten();
    let there = there.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut there: Vec<_> = there.filter(|name| name.starts_with("gridpost-")).collect();
    there.sort();
    let found = if there.is_empty() { "nothing of a release".to_owned() } else { there.join(", ") };
    bail!(Misuse(format!(
        "{} has no folder {name}: unpack {name}.tar.gz there, of the release that this program is of \
         (found: {found})",
        folder.display()
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A release's folder of functions with that `release.json`.
    fn release(told: &Value) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("folder");
        let functions = folder.path().join("gridpost-functions-1.2.3-arm64");
        for path in [&functions, &folder.path().join("gridpost-infra-1.2.3")] {
            fs::create_dir(path).expect("folder");
        }
        fs::write(functions.join("wake.zip"), "wake").expect("written");
        fs::write(functions.join("release.json"), told.to_string()).expect("written");
        folder
    }

    fn find(folder: &Path) -> Result<Artefacts, String> {
        Artefacts::of_version(folder, "1.2.3", "arm64").map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn what_is_unpacked_is_found_with_its_hashes() {
        let told = json!({"version": "1.2.3", "architecture": "arm64", "sha256": {"wake": "h"}});
        let folder = release(&told);
        let found = find(folder.path()).expect("a release");
        assert_eq!(found.infra, folder.path().join("gridpost-infra-1.2.3"));
        let functions = folder.path().join("gridpost-functions-1.2.3-arm64");
        assert_eq!(found.functions.zips, [functions.join("wake.zip")]);
        assert_eq!(found.functions.sha256["wake"], "h");
        assert_eq!(found.functions.folder, functions);
    }

    #[test]
    fn what_is_missing_or_of_another_release_is_named() {
        let empty = tempfile::tempdir().expect("folder");
        let told = find(empty.path()).expect_err("nothing");
        assert!(told.contains("unpack gridpost-infra-1.2.3.tar.gz"), "{told}");
        assert!(told.contains("(found: nothing of a release)"), "{told}");
        let table = [
            (json!({"version": "1.2.4", "architecture": "arm64", "sha256": {}}), "is of 1.2.4"),
            (json!({"version": "1.2.3", "architecture": "x86_64", "sha256": {}}), "for x86_64"),
            (
                json!({"version": "1.2.3", "architecture": "arm64", "sha256": {"ingest": "h"}}),
                "ingest.zip is missing",
            ),
            (json!({"version": "1.2.3"}), "is no release.json"),
        ];
        for (release_json, want) in table {
            let told = find(release(&release_json).path()).expect_err("refused");
            assert!(told.contains(want), "{want} in {told}");
        }
        let folder = release(&json!({}));
        fs::rename(
            folder.path().join("gridpost-functions-1.2.3-arm64"),
            folder.path().join("gridpost-functions-1.2.3-x86_64"),
        )
        .expect("renamed");
        let told = find(folder.path()).expect_err("another architecture");
        assert!(told.contains("(found: gridpost-functions-1.2.3-x86_64, "), "{told}");
    }
}

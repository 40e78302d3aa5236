//! Installs a Python environment with the emulator, cargo-lambda and Azure's publisher SDK.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::{child, fingerprint::Fingerprint};
use gridpost_ops::{
    home::{Home, remove_folder},
    progress::Progress,
};

const REQUIREMENTS: &str = include_str!("../emulator/requirements.txt");

/// A complete environment.
#[derive(Clone, Debug)]
pub struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// Returns its Python.
    pub fn python(&self) -> PathBuf {
        self.program("python")
    }

    /// Returns its folder of programs, for `PATH`.
    pub fn programs(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// Returns one of its programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs().join(name)
    }

    /// Returns a fingerprint of its packages.
    pub fn version() -> String {
        Fingerprint::default().text(REQUIREMENTS).value()
    }
}

/// Installs the environment, unless a complete one with these packages exists.
pub async fn install(
    home: &Home,
    python: &Path,
    progress: &Progress,
) -> anyhow::Result<Environment> {
    let environment = Environment { folder: home.python() };
    // Its programs contain its path, so a moved folder is another environment.
    let place = environment.folder.display().to_string();
    let complete = Fingerprint::default().text(&Environment::version()).text(&place).value();
    // Written last, so an interrupted installation has none.
    let marker = environment.folder.join("complete");
    if fs::read_to_string(&marker).is_ok_and(|found| found == complete) && works(&environment).await
    {
        return Ok(environment);
    }
    let step = progress.step("Installing the emulator and build tools (first run only)");
    let count =
        REQUIREMENTS.lines().filter(|line| line.contains("==") && !line.contains(';')).count();
    step.total(count as u64);
    remove_folder(&environment.folder)?;
    let log = home.logs().join("python.log");
    let mut venv = child::command(python);
    venv.args(["-m", "venv"]).arg(&environment.folder);
    child::run("python3 -m venv", venv, &log, |_| ()).await?;
    let requirements = environment.folder.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS)?;
    let mut pip = child::command(&environment.python());
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input"]);
    pip.args(["--progress-bar", "off", "-r"]).arg(&requirements);
    child::run("pip install", pip, &log, |line| {
        if let Some(package) = line.trim_start().strip_prefix("Collecting ") {
            step.advance(package.split(['=', ' ']).next().unwrap_or(package));
        } else if line.starts_with("Installing") {
            step.detail("installing");
        }
    })
    .await?;
    fs::write(&marker, complete).context("the environment cannot be marked as complete")?;
    step.done("Installed the emulator, cargo-lambda and Azure's SDK");
    Ok(environment)
}

/// Whether its Python still runs: the original may have been removed.
async fn works(environment: &Environment) -> bool {
    let check =
        child::command(&environment.python()).args(["-c", "import ministack"]).output().await;
    check.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned() {
        let lines = REQUIREMENTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            let (name, version) = line.split_once("==").unwrap_or((line, ""));
            assert!(!name.contains(['<', '>', '~']) && !version.is_empty(), "{line}");
            assert!(!version.contains('*'), "{line}");
        }
    }
}

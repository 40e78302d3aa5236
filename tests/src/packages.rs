//! Python packages that only tests need, in separate environments: `gridpost up` installs none of
//! them, and they need other versions than its emulator.

use std::{fs, path::Path};

use anyhow::Context;
use gridpost_cli::local::{child, fingerprint::Fingerprint, home::remove_folder};

/// Makes an environment in `folder` with these packages, unless it exists. The tools' output goes
/// to `log`.
///
/// # Errors
///
/// A package can't be installed; the message has pip's last lines.
pub async fn install(
    python: &Path,
    folder: &Path,
    log: &Path,
    requirements: &str,
) -> anyhow::Result<()> {
    // Programs in the environment hold its path, so a moved folder counts as another environment.
    let place = folder.display().to_string();
    let complete = Fingerprint::default().text(requirements).text(&place).value();
    // Written last: an installation that was cut short has none.
    let marker = folder.join("complete");
    if fs::read_to_string(&marker).is_ok_and(|found| found == complete) {
        return Ok(());
    }
    remove_folder(folder)?;
    let mut venv = child::command(python);
    venv.args(["-m", "venv"]).arg(folder);
    child::run("python3 -m venv", venv, log, |_| ()).await?;
    let list = folder.join("requirements.txt");
    fs::write(&list, requirements)?;
    let mut pip = child::command(&folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "-r"]);
    pip.arg(&list);
    child::run("pip install", pip, log, |_| ()).await?;
    fs::write(&marker, complete).context("the environment cannot be marked as complete")
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_package_is_pinned() {
        let all = [
            include_str!("../e2e/schemathesis.txt"),
            include_str!("../moto/requirements.txt"),
            include_str!("../oauth/requirements.txt"),
        ];
        let lines = all.iter().flat_map(|text| text.lines());
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (name, version) = line.split_once("==").unwrap_or((line, ""));
            assert!(!name.contains(['<', '>', '~']) && !version.is_empty(), "{line}");
            assert!(!version.contains('*'), "{line}");
        }
    }
}

//! Python packages that only tests need, in separate environments: `gridpost up` installs none of
//! them, and they need other versions than its emulator.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, bail};
use gridpost_ops::home;
use gridpost_ops::home::remove_folder;
use gridpost_stack::fingerprint::Fingerprint;
use gridpost_stack::{child, prerequisites};

/// A server in Python that has started.
#[derive(Debug)]
pub struct Server {
    pub url: String,
    /// The rest of the line with its port.
    pub printed: String,
    /// It ends when its standard input is closed, which the end of this process does.
    _process: Child,
}

/// Installs the packages and starts the program, which prints its port, and after a space what its
/// test needs to know. Logs go to `logs`.
pub async fn serve(
    name: &str,
    requirements: &str,
    program: &str,
    logs: &Path,
) -> anyhow::Result<Server> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a workspace")?;
    let kept = workspace.join(home::FOLDER);
    let (cache, logs) = (kept.join("cache"), logs.join(name));
    home::create_ignored(&kept)?;
    for needed in [&cache, &logs] {
        fs::create_dir_all(needed).with_context(|| format!("{}", needed.display()))?;
    }
    let python = prerequisites::find_python().await?;
    let lock = File::create(cache.join(format!("{name}.lock")))?;
    lock.lock().context("another run may install the packages, and cannot be waited for")?;
    let folder = cache.join(name);
    install(&python, &folder, &logs.join("install.log"), requirements).await?;
    drop(lock);
    let log = logs.join("server.log");
    let mut command = Command::new(folder.join("bin/python"));
    command.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(File::create(&log)?);
    // Nothing of the user's environment: what it says of AWS is meant for other programs.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let mut process = command.spawn().with_context(|| format!("{name} cannot be started"))?;
    let mut line = String::new();
    let stdout = process.stdout.take().context("it has a standard output")?;
    BufReader::new(stdout).read_line(&mut line)?;
    let (port, printed) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let Ok(port) = port.parse::<u16>() else {
        let said = fs::read_to_string(&log).unwrap_or_default();
        bail!("{name} has not started; it said:\n{said}");
    };
    let url = format!("http://127.0.0.1:{port}");
    Ok(Server { url, printed: printed.to_owned(), _process: process })
}

/// Makes an environment in `folder` with these packages, unless it exists. The tools' output goes
/// to `log`.
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

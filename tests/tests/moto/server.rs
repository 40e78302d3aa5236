//! moto's server: one for all tests of this process.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, bail};
use gridpost_cli::local::{home, prerequisites};
use gridpost_tests::packages;
use tokio::sync::OnceCell;

const REQUIREMENTS: &str = include_str!("../../moto/requirements.txt");
const PROGRAM: &str = include_str!("../../moto/server.py");

/// The server, or why it does not run: what failed once is not tried for each test again.
static SERVER: OnceCell<Result<Server, String>> = OnceCell::const_new();

struct Server {
    url: String,
    /// It ends when its standard input is closed, which the end of this process does.
    _process: Child,
}

/// The server's URL.
pub(super) async fn url() -> &'static str {
    let server = SERVER.get_or_init(async || start().await.map_err(|error| format!("{error:#}")));
    match server.await {
        Ok(server) => &server.url,
        Err(error) => panic!("there is no moto to test on: {error}"),
    }
}

async fn start() -> anyhow::Result<Server> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a workspace")?;
    let kept = workspace.join(home::FOLDER);
    let (folder, logs) =
        (kept.join("cache/moto"), Path::new(env!("CARGO_TARGET_TMPDIR")).join("moto"));
    home::create_ignored(&kept)?;
    for needed in [kept.join("cache"), logs.clone()] {
        fs::create_dir_all(&needed).with_context(|| format!("{}", needed.display()))?;
    }
    let python = prerequisites::find_python().await?;
    let lock = File::create(kept.join("cache/moto.lock"))?;
    lock.lock().context("another run may install moto, and cannot be waited for")?;
    packages::install(&python, &folder, &logs.join("install.log"), REQUIREMENTS).await?;
    drop(lock);
    run(&folder.join("bin/python"), &logs.join("server.log"))
}

fn run(python: &Path, log: &Path) -> anyhow::Result<Server> {
    let mut command = Command::new(python);
    command.args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(File::create(log)?);
    // Nothing of the user's environment: what it says of AWS is meant for other programs.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let mut process = command.spawn().context("moto cannot be started")?;
    let mut line = String::new();
    let stdout = process.stdout.take().context("it has a standard output")?;
    BufReader::new(stdout).read_line(&mut line)?;
    let Ok(port) = line.trim().parse::<u16>() else {
        let said = fs::read_to_string(log).unwrap_or_default();
        bail!("moto has not started; it said:\n{said}");
    };
    Ok(Server { url: format!("http://127.0.0.1:{port}"), _process: process })
}

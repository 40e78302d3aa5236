//! A process of `gridpost dev`, with its own folder.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use gridpost_stack::child;
use serde_json::{Value, json};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep},
};

use crate::bench::process::Usage;

/// Longest start-up; a busy machine takes long.
const READY_MAX: Duration = Duration::from_secs(120);

/// How often to check whether it is ready.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// How a process is started.
#[derive(Clone, Debug)]
pub struct Program {
    /// The command line's program.
    pub path: PathBuf,
    /// Where it keeps everything, what it prints included.
    pub folder: PathBuf,
    /// Further flags of `gridpost dev`, such as `--sync full`.
    pub arguments: Vec<String>,
}

/// A process that is up. Dropping it kills it.
#[derive(Debug)]
pub struct Dev {
    child: Child,
    /// Base URL of both APIs.
    pub url: String,
    /// Time from just before its start until `.gridpost/local.json` existed.
    pub ready_after: Duration,
    http: reqwest::Client,
}

impl Program {
    fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// Where it keeps its data.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// A `gridpost` command for the process in this folder.
    pub fn command(&self) -> Command {
        let mut command = child::command(&self.path);
        command.arg("--home").arg(self.home());
        command
    }

    /// Starts it and waits until it is ready.
    pub async fn start(&self) -> anyhow::Result<Dev> {
        fs::create_dir_all(self.home())?;
        let connection = self.home().join("local.json");
        // A killed process leaves its file behind.
        let _ = fs::remove_file(&connection);
        let log = self.folder.join("dev.log");
        let printed = OpenOptions::new().create(true).append(true).open(&log)?;
        let mut command = self.command();
        command.args(["dev", "--quiet", "--port", "0", "--data"]).arg(self.data());
        command.args(&self.arguments).stdout(printed.try_clone()?).stderr(printed);
        let began = Instant::now();
        let mut child = command.spawn().context("gridpost can't be started")?;
        loop {
            if let Some(url) = url_of(&connection) {
                let ready_after = began.elapsed();
                let http = reqwest::Client::builder().no_proxy().build()?;
                return Ok(Dev { child, url, ready_after, http });
            }
            if let Some(status) = child.try_wait()? {
                bail!("gridpost dev ended ({status}): {}", last_lines(&log));
            }
            ensure!(began.elapsed() < READY_MAX, "gridpost dev is not ready: {}", last_lines(&log));
            sleep(LOOK_AGAIN).await;
        }
    }
}

/// The URL in the file, once the file is complete.
fn url_of(connection: &Path) -> Option<String> {
    let connection: Value = serde_json::from_slice(&fs::read(connection).ok()?).ok()?;
    connection["publishUrl"].as_str().map(str::to_owned)
}

fn last_lines(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

impl Dev {
    /// What the process has used so far.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(self.child.id().context("it has ended")?)
    }

    /// Ends it with SIGKILL, whatever it is doing.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("gridpost dev had ended by itself ({status})");
        }
        self.child.kill().await.context("gridpost dev can't be killed")
    }

    /// Creates or replaces a resource.
    pub async fn put(&self, path: &str, document: &Value) -> anyhow::Result<()> {
        let request = self.http.put(format!("{}{path}", self.url)).json(document);
        answered(request, path).await.map(drop)
    }

    /// Reads a document.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        answered(self.http.get(format!("{}{path}", self.url)), path).await
    }

    /// The first key of a topic, which is created from that document.
    pub async fn topic(&self, name: &str, document: &Value) -> anyhow::Result<String> {
        self.put(&format!("/topics/{name}"), document).await?;
        let path = format!("/topics/{name}/listKeys");
        let keys = answered(self.http.post(format!("{}{path}", self.url)), &path).await?;
        keys["key1"].as_str().map(str::to_owned).with_context(|| format!("no key in {keys}"))
    }

    /// An event subscription with a webhook, and these further properties.
    pub async fn subscribe(
        &self,
        topic: &str,
        name: &str,
        endpoint: &str,
        mut properties: Value,
    ) -> anyhow::Result<()> {
        properties["destination"] =
            json!({"endpointType": "WebHook", "properties": {"endpointUrl": endpoint}});
        let path = format!("/topics/{topic}/eventSubscriptions/{name}");
        self.put(&path, &json!({ "properties": properties })).await
    }
}

async fn answered(request: reqwest::RequestBuilder, path: &str) -> anyhow::Result<Value> {
    let answer = request.send().await?;
    let status = answer.status();
    let text = answer.text().await?;
    ensure!(status.is_success(), "{path} was answered {status}: {text}");
    Ok(serde_json::from_str(&text)?)
}

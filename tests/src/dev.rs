//! A process of `gridpost dev` as a user starts it, with its own folder: it can be killed while many
//! clients publish.

use std::{
    env,
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use gridpost_ops::home::{Home, connection::Connection};
use gridpost_stack::child;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    process::{Child, Command},
    sync::{Mutex, MutexGuard},
    time::{Instant, sleep, timeout},
};

use crate::json_api::JsonApi;

/// Longest start-up; a busy machine takes long.
const READY_MAX: Duration = Duration::from_secs(120);

/// How often to check whether it is ready.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Time for an end, which waits for requests under way.
const END_MAX: Duration = Duration::from_secs(60);

/// How a process is started.
#[derive(Clone, Debug)]
pub struct Program {
    /// The command line's program.
    pub path: PathBuf,
    /// Where it keeps everything, what it prints included.
    pub home: Home,
    /// Further flags of `gridpost dev`, such as `--sync full`.
    pub arguments: Vec<String>,
    /// Whether it counts latencies, as a deployed stack can.
    pub counts_latencies: bool,
    /// The certificates of endpoints that it trusts, instead of the system's.
    pub trusted: Option<PathBuf>,
}

/// A process that is up. Dropping it kills it.
#[derive(Debug)]
pub struct Dev {
    child: Mutex<Child>,
    program: Program,
    /// How to connect.
    pub connection: Connection,
    /// Its resource API.
    pub api: JsonApi,
    /// Time from just before its start until other commands could find it.
    pub ready_after: Duration,
}

impl Program {
    /// `gridpost` at that path, in that folder, with these flags.
    pub fn new(path: &Path, folder: &Path, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let home = Home::at(folder);
        Self { path: path.to_owned(), home, arguments, counts_latencies: false, trusted: None }
    }

    /// The folder of a bucket of dead letters.
    pub fn bucket(&self, name: &str) -> PathBuf {
        self.home.dev().join("dead-letters").join(name)
    }

    /// A `gridpost` command for the process in this folder.
    pub fn command(&self) -> Command {
        let mut command = child::command(&self.path);
        // Settings for a user's commands are not meant for this process.
        let own = env::vars_os().map(|(name, _)| name);
        for name in own.filter(|name| name.to_string_lossy().starts_with("GRIDPOST_")) {
            command.env_remove(name);
        }
        command.arg("--home").arg(self.home.root());
        command
    }

    /// Starts it and waits until other commands find it.
    pub async fn start(&self) -> anyhow::Result<Dev> {
        self.home.create_root()?;
        // A killed process leaves its file behind.
        let _ = fs::remove_file(self.home.connection_file());
        let printed = OpenOptions::new().create(true).append(true).open(self.log())?;
        let mut command = self.command();
        if self.counts_latencies {
            command.env("GRIDPOST_LATENCY_METRICS", "true");
        }
        if let Some(trusted) = &self.trusted {
            command.env("SSL_CERT_FILE", trusted);
        }
        command.args(["dev", "--quiet", "--port", "0", "--data"]).arg(self.home.dev());
        command.args(&self.arguments).current_dir(self.home.root());
        command.stdout(printed.try_clone()?).stderr(printed);
        let began = Instant::now();
        let started = command.spawn();
        let mut child =
            started.with_context(|| format!("{} can't be started", self.path.display()))?;
        let connection = loop {
            if let Some(connection) = Connection::read(&self.home)? {
                break connection;
            }
            if let Some(status) = child.try_wait()? {
                bail!("gridpost dev ended ({status}): {}", self.said());
            }
            ensure!(began.elapsed() < READY_MAX, "gridpost dev is not ready: {}", self.said());
            sleep(LOOK_AGAIN).await;
        };
        let ready_after = began.elapsed();
        let (api, child) = (connection.manage_api().await?, Mutex::new(child));
        Ok(Dev { child, program: self.clone(), connection, api: JsonApi(api), ready_after })
    }

    fn log(&self) -> PathBuf {
        self.home.root().join("dev.out")
    }

    /// The last lines that it printed.
    fn said(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Dev {
    /// The folder of a bucket of dead letters.
    pub fn bucket(&self, name: &str) -> PathBuf {
        self.program.bucket(name)
    }

    /// Its id among the machine's processes; no other one gets it while this lives.
    pub async fn id(&self) -> anyhow::Result<u32> {
        self.running().await?.id().context("a process that runs has an id")
    }

    /// Ends it with SIGKILL, whatever it is doing.
    pub async fn kill(self) -> anyhow::Result<()> {
        self.running().await?.kill().await.context("gridpost dev can't be killed")
    }

    /// Ends it as Ctrl-C would.
    pub async fn stop(&self) -> anyhow::Result<()> {
        let mut child = self.running().await?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        kill_process(pid.context("a process that runs has an id")?, Signal::INT)?;
        let ended = timeout(END_MAX, child.wait()).await;
        let status = ended.context("gridpost dev does not end")??;
        ensure!(status.success(), "gridpost dev ended with {status}: {}", self.program.said());
        Ok(())
    }

    /// The process, which must not have ended by itself.
    async fn running(&self) -> anyhow::Result<MutexGuard<'_, Child>> {
        let mut child = self.child.lock().await;
        if let Some(status) = child.try_wait()? {
            bail!("gridpost dev had ended by itself ({status}): {}", self.program.said());
        }
        Ok(child)
    }
}

/// Creates a topic from that document; returns its first key.
pub async fn create_topic(api: &JsonApi, name: &str, document: &Value) -> anyhow::Result<String> {
    api.put_topic(name, document).await.with_context(|| format!("topic {name}"))?;
    let keys = api.keys(name).await?;
    keys["key1"].as_str().map(str::to_owned).with_context(|| format!("no key in {keys}"))
}

/// Creates an event subscription with the webhook at `url` and more `properties`; returns its document.
/// Members of `destination` there join the URL.
///
/// # Errors
///
/// What the resource API refuses, as [`Refusal`](gridpost_ops::failure::Refusal).
pub async fn subscribe(
    api: &JsonApi,
    topic: &str,
    name: &str,
    url: &str,
    mut properties: Value,
) -> anyhow::Result<Value> {
    let mut destination = json!({"endpointUrl": url});
    if let Some(more) = properties["destination"].as_object() {
        more.iter().for_each(|(member, value)| destination[member] = value.clone());
    }
    properties["destination"] = json!({"endpointType": "WebHook", "properties": destination});
    let document = json!({ "properties": properties });
    api.put_subscription(topic, name, &document).await
}

/// Where a topic's events are posted.
pub fn publish_endpoint(connection: &Connection, topic: &str) -> String {
    format!("{}/topics/{topic}/api/events", connection.publish_url)
}

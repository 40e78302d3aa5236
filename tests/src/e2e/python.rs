//! Programs in Python that use Azure's and the CloudEvents SDK: third-party publishers and parsers.
//! They read a JSON document from standard input and write one to standard output.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use gridpost_stack::child;
use gridpost_stack::python::Environment;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::inside::until;

/// Sends events with `azure.eventgrid.EventGridPublisherClient`.
pub const SEND: &str = include_str!("../../e2e/send.py");
/// Posts CloudEvents of the CloudEvents SDK by plain HTTP.
pub const POST: &str = include_str!("../../e2e/post.py");
/// Parses delivered bodies with Azure's and the CloudEvents SDK.
pub const PARSE: &str = include_str!("../../e2e/parse.py");
/// Verifies signatures with the library of Standard Webhooks.
pub const VERIFY: &str = include_str!("../../e2e/verify.py");
/// Passes event subscriptions through the models of Azure's management SDK.
pub const MODELS: &str = include_str!("../../e2e/models.py");
/// Publishes with AWS's own clients.
pub const AWS_SOURCES: &str = include_str!("../../e2e/aws_sources.py");
/// Receives events as the samples for Event Grid do.
const RECEIVER: &str = include_str!("../../e2e/receiver.py");

/// Long, for a machine that also compiles.
const RUN_MAX: Duration = Duration::from_secs(120);

/// Runs a program.
pub async fn run(environment: &Environment, program: &str, input: &Value) -> anyhow::Result<Value> {
    answer("the Python program", command(environment, program), input).await
}

/// Runs a command with `input` as its standard input; returns what it writes. Both are JSON.
pub async fn answer(name: &str, mut command: Command, input: &Value) -> anyhow::Result<Value> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("{name} cannot be started"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.to_string().as_bytes()).await?;
    }
    let output = timeout(RUN_MAX, child.wait_with_output()).await;
    let output = output.with_context(|| format!("{name} did not end"))??;
    if !output.status.success() {
        bail!("{name} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("{name} wrote no JSON"))
}

fn command(environment: &Environment, program: &str) -> Command {
    let mut python = child::command(&environment.python());
    python.args(["-c", program]).env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    python
}

/// A receiver written like the samples for Event Grid. Dropping it ends it.
#[derive(Debug)]
pub struct SampleReceiver {
    url: String,
    http: reqwest::Client,
    _process: Child,
}

impl SampleReceiver {
    /// Starts it on a free loopback port.
    pub async fn start(environment: &Environment, http: &reqwest::Client) -> anyhow::Result<Self> {
        let mut process = command(environment, RECEIVER).stdout(Stdio::piped()).spawn()?;
        let output = process.stdout.take().context("its output is piped")?;
        let mut lines = BufReader::new(output).lines();
        let port = timeout(RUN_MAX, lines.next_line()).await.context("no port in time")??;
        let port: u16 = port.context("it ended at once")?.parse().context("no port")?;
        let url = format!("http://127.0.0.1:{port}");
        Ok(Self { url, http: http.clone(), _process: process })
    }

    /// The URL of an endpoint. Below `manual/` it consents to nothing by itself.
    pub fn endpoint(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Reads what an endpoint has seen: its `handshakes`, its `events`, its `problems`.
    pub async fn seen(&self, name: &str) -> anyhow::Result<Value> {
        let answer = self.http.get(format!("{}/seen/{name}", self.url)).send().await?;
        Ok(answer.error_for_status()?.json().await?)
    }

    /// Waits until an endpoint has parsed `count` events, and returns them.
    pub async fn events(
        &self,
        name: &str,
        count: usize,
        limit: Duration,
    ) -> anyhow::Result<Vec<Value>> {
        let events = || async {
            let seen = self.seen(name).await?;
            if seen["problems"].as_array().is_none_or(|problems| !problems.is_empty()) {
                bail!("{name} could not read what it got: {seen}");
            }
            Ok(seen["events"].as_array().cloned().unwrap_or_default())
        };
        let what = format!("{count} events at {name}");
        until(&what, limit, events, |events| events.len() >= count).await
    }
}

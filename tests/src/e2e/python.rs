//! Programs in Python that use Azure's and the CloudEvents SDK: publishers and parsers that are not
//! ours. They take a JSON document on standard input and give one on standard output.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use gridpost_cli::local::child;
use gridpost_cli::local::python::Environment;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

/// Sends events with `azure.eventgrid.EventGridPublisherClient`.
pub const SEND: &str = include_str!("../../e2e/send.py");
/// Parses delivered bodies with Azure's and the CloudEvents SDK.
pub const PARSE: &str = include_str!("../../e2e/parse.py");

/// Long, for a machine that also compiles.
const RUN_MAX: Duration = Duration::from_secs(120);

/// Runs a program.
///
/// # Errors
///
/// When it fails; what it wrote to standard error is in the message.
pub async fn run(environment: &Environment, program: &str, input: &Value) -> anyhow::Result<Value> {
    let mut python = child::command(&environment.python());
    python.args(["-c", program]).env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut python = python.spawn().context("Python cannot be started")?;
    if let Some(mut stdin) = python.stdin.take() {
        stdin.write_all(input.to_string().as_bytes()).await?;
    }
    let output = timeout(RUN_MAX, python.wait_with_output()).await;
    let output = output.context("the Python program did not end")??;
    if !output.status.success() {
        bail!("the Python program failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("the Python program wrote no JSON")
}

//! The limit to compare with: the least that the same work takes, measured in a separate process
//! that does nothing else. It reports its own CPU time, as the operating system counts it.

use std::{
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context, bail, ensure};
use aws_sdk_sqs::{
    Client,
    config::{BehaviorVersion, Credentials, Region},
    types::SendMessageBatchRequestEntry,
};
use bytes::Bytes;
use clap::ValueEnum;
use futures::future::try_join_all;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::{net::TcpStream, process::Command, time::Instant};

use super::{payload::body, process::own_cpu_ms};

/// Work that is done in the barest way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bare {
    /// `POST` by a `reqwest` client.
    Reqwest,
    /// `POST` over `hyper` connections without a pool.
    Hyper,
    /// SQS's `SendMessageBatch` of ten messages by the SDK.
    Send,
    /// A publish's body into raw values by `serde_json`.
    Parse,
    /// A Lambda function that does nothing: the runtime by itself.
    Lambda,
}

/// One measurement.
#[derive(Clone, Debug)]
pub struct Task {
    /// What is done.
    pub bare: Bare,
    /// Where to, empty for `Parse`.
    pub url: String,
    /// Bytes of an event.
    pub bytes: usize,
    /// How many at the same time.
    pub concurrency: usize,
    /// How often. A tenth of that runs first as a warm-up.
    pub times: usize,
}

/// What it took.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// CPU time of one, in milliseconds.
    pub cpu_ms: f64,
    /// How many in a second.
    pub per_second: f64,
}

/// The argument that makes this program a bare one.
pub const FLAG: &str = "--bare";

/// Measures a task in a process of `program`, which is this one.
pub async fn measure(program: &Path, task: &Task) -> anyhow::Result<Cost> {
    let name = task.bare.to_possible_value().context("every one has a name")?;
    let output = Command::new(program)
        .args([FLAG, name.get_name(), "--url", &task.url])
        .args(["--bytes", &task.bytes.to_string(), "--times", &task.times.to_string()])
        .args(["--concurrency", &task.concurrency.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .await?;
    ensure!(output.status.success(), "the bare {} failed", name.get_name());
    serde_json::from_slice(&output.stdout).context("the bare process told no figures")
}

/// Does a task in this process, on a current-thread runtime, and returns its cost.
pub async fn perform(task: &Task) -> anyhow::Result<Cost> {
    let warming = Task { times: (task.times / 10).max(task.concurrency), ..task.clone() };
    match task.bare {
        Bare::Reqwest => {
            let client = reqwest::Client::builder().no_proxy().build()?;
            reqwest_loop(&client, &warming).await?;
            timed(task, reqwest_loop(&client, task)).await
        }
        Bare::Hyper => {
            hyper_loop(&warming).await?;
            timed(task, hyper_loop(task)).await
        }
        Bare::Send => {
            let client = sqs_client(&task.url);
            send_loop(&client, &warming).await?;
            timed(task, send_loop(&client, task)).await
        }
        Bare::Parse => {
            parse_loop(&warming)?;
            timed(task, async { parse_loop(task) }).await
        }
        Bare::Lambda => bail!("a function is measured from outside"),
    }
}

async fn timed(
    task: &Task,
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<Cost> {
    let (began, before) = (Instant::now(), own_cpu_ms());
    work.await?;
    let (took, cpu_ms) = (began.elapsed(), own_cpu_ms() - before);
    let times = task.times as f64;
    Ok(Cost { cpu_ms: cpu_ms / times, per_second: times / took.as_secs_f64() })
}

/// Runs the given number of concurrent loops, which share the turns until all are done.
async fn at_once<W: Future<Output = anyhow::Result<()>>>(
    task: &Task,
    work: impl Fn(Arc<AtomicUsize>) -> W,
) -> anyhow::Result<()> {
    let left = Arc::new(AtomicUsize::new(task.times));
    let loops = (0..task.concurrency).map(|_| work(Arc::clone(&left)));
    try_join_all(loops).await.map(drop)
}

fn take(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

async fn reqwest_loop(client: &reqwest::Client, task: &Task) -> anyhow::Result<()> {
    let body = Bytes::from(body(1, task.bytes));
    at_once(task, |left| {
        let body = body.clone();
        async move {
            while take(&left) {
                let request = client.post(&task.url).body(body.clone());
                let request = request.header("content-type", "application/json; charset=utf-8");
                let response = request.send().await?.error_for_status()?;
                response.bytes().await?;
            }
            Ok(())
        }
    })
    .await
}

async fn hyper_loop(task: &Task) -> anyhow::Result<()> {
    let body = Bytes::from(body(1, task.bytes));
    let url: hyper::Uri = task.url.parse()?;
    let host = url.authority().context("a URL has a host")?.to_string();
    at_once(task, |left| {
        let (body, host, path) = (body.clone(), host.clone(), url.path().to_owned());
        async move {
            let stream = TcpStream::connect(&host).await?;
            stream.set_nodelay(true)?;
            let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
            let (mut sender, connection) = shaken?;
            tokio::spawn(connection);
            while take(&left) {
                let request = Request::post(&path)
                    .header("host", &host)
                    .header("content-type", "application/json; charset=utf-8")
                    .body(Full::new(body.clone()))?;
                let response = sender.send_request(request).await?;
                ensure!(response.status() == 200, "it answered {}", response.status());
                response.into_body().collect().await?;
            }
            Ok(())
        }
    })
    .await
}

fn sqs_client(url: &str) -> Client {
    let endpoint = url.split('/').take(3).collect::<Vec<_>>().join("/");
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("bench", "bench", None, None, "bench"))
        .endpoint_url(endpoint)
        .build();
    Client::from_conf(config)
}

async fn send_loop(client: &Client, task: &Task) -> anyhow::Result<()> {
    let body = super::payload::event(0, task.bytes);
    let entry = |id: usize| {
        let entry = SendMessageBatchRequestEntry::builder().id(id.to_string());
        entry.message_body(&body).message_group_id("bench-0/s0").build()
    };
    let entries: Vec<_> = (0..10).map(entry).collect::<Result<_, _>>()?;
    at_once(task, |left| {
        let entries = entries.clone();
        async move {
            while take(&left) {
                let call = client.send_message_batch().queue_url(&task.url);
                let sent = call.set_entries(Some(entries.clone())).send().await?;
                ensure!(sent.failed().is_empty(), "SQS refused an entry");
            }
            Ok(())
        }
    })
    .await
}

fn parse_loop(task: &Task) -> anyhow::Result<()> {
    let body = body(100, task.bytes);
    for _ in 0..task.times {
        let events: Vec<&RawValue> = serde_json::from_str(std::hint::black_box(&body))?;
        std::hint::black_box(&events);
    }
    Ok(())
}

/// Runs a Lambda function that reads its event as raw JSON and answers with `{}`.
pub async fn empty_function() -> Result<(), lambda_runtime::Error> {
    let nothing = |_: lambda_runtime::LambdaEvent<Box<RawValue>>| async {
        Ok::<_, lambda_runtime::Error>(serde_json::Map::new())
    };
    lambda_runtime::run(lambda_runtime::service_fn(nothing)).await
}

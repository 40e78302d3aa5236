//! The limit to compare with: the least that the same work takes, measured in a separate process
//! that does nothing else. It reports its own CPU time, as the operating system counts it.

use std::{
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context, ensure};
use aws_sdk_sqs::{
    Client,
    config::{BehaviorVersion, Credentials, Region},
    types::SendMessageBatchRequestEntry,
};
use bytes::Bytes;
use futures::future::try_join_all;
use http_body_util::{BodyExt, Full};
use hyper::{Request, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::{net::TcpStream, process::Command, time::Instant};

use super::{mix::Mix, payload::body, process::own_cpu_ms};

/// Work that is done in the barest way, and where to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Bare {
    Reqwest(String),
    /// `POST` over `hyper` connections without a pool.
    Hyper(String),
    /// SQS's `SendMessageBatch` of ten messages by the SDK.
    Send(String),
    /// A publish's body of 100 events into raw values by `serde_json`.
    Parse,
    /// A Lambda function that does nothing: the runtime by itself, measured from outside.
    Lambda,
}

/// One measurement: the work, how many at the same time, and how often. A tenth of that runs first as
/// a warm-up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task(pub Bare, pub usize, pub usize);

/// What it took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// CPU time of one, in milliseconds.
    pub cpu_ms: f64,
    /// How many in a second.
    pub per_second: f64,
}

/// The argument that makes this program a bare one; a task as JSON follows.
pub const FLAG: &str = "--bare";

/// Measures a task in a process of `program`, which is this one.
pub async fn measure(program: &Path, task: &Task) -> anyhow::Result<Cost> {
    let mut bare = Command::new(program);
    bare.arg(FLAG).arg(serde_json::to_string(task)?).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = bare.output().await?;
    ensure!(output.status.success(), "the bare process failed: {task:?}");
    serde_json::from_slice(&output.stdout).context("the bare process told no figures")
}

/// Does a task in this process, on a current-thread runtime, and prints its cost.
pub async fn perform(Task(bare, at_once, times): Task) -> anyhow::Result<()> {
    let mix = Mix::default();
    let text = Bytes::from(body(&mix));
    let cost = match bare {
        Bare::Reqwest(url) => {
            let client = reqwest::Client::builder().no_proxy().build()?;
            timed(at_once, times, async |left| post_by_reqwest(&client, &url, &text, left).await)
                .await?
        }
        Bare::Hyper(url) => {
            let url = url.parse()?;
            timed(at_once, times, async |left| post_by_hyper(&url, &text, left).await).await?
        }
        Bare::Send(url) => {
            let client = sqs_client(&url);
            timed(at_once, times, async |left| send(&client, &url, left).await).await?
        }
        Bare::Parse => {
            let text = body(&Mix { events_per_publish: 100, ..mix });
            timed(at_once, times, async |left| parse(&text, left)).await?
        }
        Bare::Lambda => {
            let ended = empty_function().await;
            return ended.map_err(|error| anyhow::anyhow!("{error}"));
        }
    };
    println!("{}", serde_json::to_string(&cost)?);
    Ok(())
}

/// Runs this number of concurrent loops, which share the turns, and measures them.
async fn timed(
    at_once: usize,
    times: usize,
    work: impl AsyncFn(&AtomicUsize) -> anyhow::Result<()>,
) -> anyhow::Result<Cost> {
    let run = async |times: usize| {
        let left = AtomicUsize::new(times);
        try_join_all((0..at_once).map(|_| work(&left))).await.map(drop)
    };
    run((times / 10).max(at_once)).await?;
    let (began, before) = (Instant::now(), own_cpu_ms());
    run(times).await?;
    let (took, cpu_ms) = (began.elapsed(), own_cpu_ms() - before);
    let times = times as f64;
    Ok(Cost { cpu_ms: cpu_ms / times, per_second: times / took.as_secs_f64() })
}

fn take(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

async fn post_by_reqwest(
    client: &reqwest::Client,
    url: &str,
    body: &Bytes,
    left: &AtomicUsize,
) -> anyhow::Result<()> {
    while take(left) {
        let request = client.post(url).body(body.clone()).header(JSON.0, JSON.1);
        request.send().await?.error_for_status()?.bytes().await?;
    }
    Ok(())
}

async fn post_by_hyper(url: &hyper::Uri, body: &Bytes, left: &AtomicUsize) -> anyhow::Result<()> {
    let host = url.authority().context("a URL has a host")?.as_str();
    let stream = TcpStream::connect(host).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    while take(left) {
        let request = Request::post(url.path()).header("host", host).header(JSON.0, JSON.1);
        let response = sender.send_request(request.body(Full::new(body.clone()))?).await?;
        ensure!(response.status() == 200, "it answered {}", response.status());
        response.into_body().collect().await?;
    }
    Ok(())
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

async fn send(client: &Client, url: &str, left: &AtomicUsize) -> anyhow::Result<()> {
    let body = body(&Mix::default());
    let entry = |id: usize| {
        let entry = SendMessageBatchRequestEntry::builder().id(id.to_string());
        entry.message_body(&body).message_group_id("bench-0/s0").build()
    };
    let entries: Vec<_> = (0..10).map(entry).collect::<Result<_, _>>()?;
    while take(left) {
        let call = client.send_message_batch().queue_url(url);
        let sent = call.set_entries(Some(entries.clone())).send().await?;
        ensure!(sent.failed().is_empty(), "SQS refused an entry");
    }
    Ok(())
}

fn parse(body: &str, left: &AtomicUsize) -> anyhow::Result<()> {
    while take(left) {
        let events: Vec<&RawValue> = serde_json::from_str(std::hint::black_box(body))?;
        std::hint::black_box(&events);
    }
    Ok(())
}

/// Runs a Lambda function that reads its event as raw JSON and answers with `{}`.
async fn empty_function() -> Result<(), lambda_runtime::Error> {
    let nothing = |_: lambda_runtime::LambdaEvent<Box<RawValue>>| async {
        Ok::<_, lambda_runtime::Error>(serde_json::Map::new())
    };
    lambda_runtime::run(lambda_runtime::service_fn(nothing)).await
}

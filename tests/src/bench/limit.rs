//! The limit to compare with: the least that the same work takes, on a thread and a runtime that do
//! nothing else.

use std::{collections::BTreeMap, hint::black_box};

use anyhow::{Context, ensure};
use aws_sdk_sqs::{Client, types::SendMessageBatchRequestEntry};
use bytes::Bytes;
use futures::future::try_join_all;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Uri, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::{net::TcpStream, runtime, time::Instant};

use super::{
    aws::{DISPATCH, queue_url},
    mix::Mix,
    payload::body,
};
use crate::e2e::inside;

/// The cost of a piece of work.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// CPU time of one, in milliseconds.
    pub cpu_ms: f64,
    /// How many in a second.
    pub per_second: f64,
}

const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

/// Measures each kind of work on this thread; each is the median of `repeats` runs, which are a
/// fiftieth as long if `quick`. Posts go to `sink`, messages to the stand-in at `aws`.
pub fn all(
    sink: &str,
    aws: &str,
    quick: bool,
    repeats: usize,
) -> anyhow::Result<BTreeMap<String, Cost>> {
    let event = Bytes::from(body(&Mix::default()));
    let hundred = body(&Mix { events_per_publish: 100, ..Mix::default() });
    let uri: Uri = sink.parse()?;
    let by_reqwest = |at_once, times| {
        let client = reqwest::Client::builder().no_proxy().build()?;
        timed(at_once, times, async |times| post_by_reqwest(&client, sink, &event, times).await)
    };
    let by_hyper = |at_once, times| {
        timed(at_once, times, async |times| post_by_hyper(&uri, &event, times).await)
    };
    let send = |at_once, times| timed(at_once, times, async |times| send(aws, &event, times).await);
    let parse = |at_once, times| timed(at_once, times, async |times| parse(&hundred, times));
    type Work<'w> = &'w dyn Fn(usize, usize) -> anyhow::Result<Cost>;
    let table: [(&str, Work<'_>, usize, usize); 8] = [
        ("reqwest at 1", &by_reqwest, 1, 20_000),
        ("reqwest at 10", &by_reqwest, 10, 50_000),
        ("reqwest at 64", &by_reqwest, 64, 50_000),
        ("hyper at 1", &by_hyper, 1, 20_000),
        ("hyper at 10", &by_hyper, 10, 50_000),
        ("hyper at 64", &by_hyper, 64, 50_000),
        ("send 10", &send, 1, 5_000),
        ("parse 100", &parse, 1, 5_000),
    ];
    let mut found = BTreeMap::new();
    for (name, work, at_once, times) in table {
        eprintln!("limit: {name}");
        let times = if quick { times / 50 } else { times };
        let mut costs: Vec<Cost> =
            (0..repeats).map(|_| work(at_once, times)).collect::<Result<_, _>>()?;
        costs.sort_by(|one, other| one.cpu_ms.total_cmp(&other.cpu_ms));
        found.insert(name.to_owned(), costs[repeats / 2]);
    }
    Ok(found)
}

/// Does work in so many loops at the same time, which do it so many times together, after a tenth of
/// that as a warm-up.
fn timed(
    at_once: usize,
    times: usize,
    work: impl AsyncFn(usize) -> anyhow::Result<()>,
) -> anyhow::Result<Cost> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let run = |each: usize| {
        let loops = (0..at_once).map(|_| work(each));
        runtime.block_on(try_join_all(loops)).map(drop)
    };
    let each = (times / at_once).max(1);
    run((each / 10).max(1))?;
    let (began, before) = (Instant::now(), cpu_ms());
    run(each)?;
    let (took, cpu_ms) = (began.elapsed(), cpu_ms() - before);
    let times = (each * at_once) as f64;
    Ok(Cost { cpu_ms: cpu_ms / times, per_second: times / took.as_secs_f64() })
}

/// The CPU time of this thread so far, in milliseconds.
fn cpu_ms() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1_000.0 + time.tv_nsec as f64 / 1_000_000.0
}

async fn post_by_reqwest(
    client: &reqwest::Client,
    url: &str,
    body: &Bytes,
    times: usize,
) -> anyhow::Result<()> {
    for _ in 0..times {
        let request = client.post(url).body(body.clone()).header(JSON.0, JSON.1);
        request.send().await?.error_for_status()?.bytes().await?;
    }
    Ok(())
}

/// Posts over one connection, without a pool.
async fn post_by_hyper(url: &Uri, body: &Bytes, times: usize) -> anyhow::Result<()> {
    let host = url.authority().context("a URL has a host")?.as_str();
    let stream = TcpStream::connect(host).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    for _ in 0..times {
        let request = Request::post(url.path()).header("host", host).header(JSON.0, JSON.1);
        let response = sender.send_request(request.body(Full::new(body.clone()))?).await?;
        ensure!(response.status() == 200, "it answered {}", response.status());
        response.into_body().collect().await?;
    }
    Ok(())
}

/// Sends ten messages at a time with the SDK.
async fn send(aws: &str, body: &Bytes, times: usize) -> anyhow::Result<()> {
    let client = Client::new(inside::clients(aws).config());
    let body = std::str::from_utf8(body)?;
    let entry = |id: usize| {
        let entry = SendMessageBatchRequestEntry::builder().id(id.to_string());
        entry.message_body(body).message_group_id("bench-0/s0").build()
    };
    let entries: Vec<_> = (0..10).map(entry).collect::<Result<_, _>>()?;
    for _ in 0..times {
        let call = client.send_message_batch().queue_url(queue_url(aws, DISPATCH));
        let sent = call.set_entries(Some(entries.clone())).send().await?;
        ensure!(sent.failed().is_empty(), "SQS refused an entry");
    }
    Ok(())
}

/// Reads a publish's body into raw values.
fn parse(body: &str, times: usize) -> anyhow::Result<()> {
    for _ in 0..times {
        let events: Vec<&RawValue> = serde_json::from_str(black_box(body))?;
        black_box(&events);
    }
    Ok(())
}

/// Runs a Lambda function that reads its event as raw JSON and answers with `{}`: the runtime alone.
pub async fn empty_function() -> Result<(), lambda_runtime::Error> {
    let nothing = |_: lambda_runtime::LambdaEvent<Box<RawValue>>| async {
        Ok::<_, lambda_runtime::Error>(serde_json::Map::new())
    };
    lambda_runtime::run(lambda_runtime::service_fn(nothing)).await
}

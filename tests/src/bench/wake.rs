//! The real program of wake with as many parked deliveries as an outage leaves: how much memory it
//! takes, and whether it sends each of them.
//!
//! Needs as much memory as the parked deliveries take.

use std::{
    fmt,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context, ensure};
use bytes::Bytes;
use gridpost_core::{delivery::parking::Parked, time::Timestamp};
use gridpost_ports::{Clock, PARKED_PARTITIONS};
use gridpost_runtime::system::SystemClock;
use serde_json::json;
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    aws::{Cloud, STATE_TABLE, environment},
    book::{DIGITS, MARK, event_numbers},
    lock,
    process::Usage,
    sandbox::{Function, Program},
    sink::certificate,
};

/// wake's timeout and memory, as deployed.
const TIMEOUT: Duration = Duration::from_secs(55);
const MEMORY_MB: u32 = 256;

/// The deployment's largest queue message in bytes.
const MESSAGE_BYTES_MAX: usize = 1_048_576;

/// Deliveries that are left after this many runs are lost.
const RUNS_MAX: usize = 120;

/// The parked deliveries.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many deliveries.
    pub deliveries: u64,
    /// The bytes of each one's message.
    pub bytes: usize,
    /// The minutes that they are due in, one after the other, the last of which is this one.
    pub minutes: u64,
}

/// The result.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// How often wake ran.
    pub runs: usize,
    /// How long all runs took.
    pub took: Duration,
    /// The usage of its process.
    pub usage: Usage,
    /// Deliveries that were never sent.
    pub lost: usize,
    /// Deliveries that were sent more than once.
    pub repeated: usize,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, took, usage, lost, repeated } = self;
        write!(
            formatter,
            "peak {:.1} MB, {runs} runs of {:.1} s together, {:.1} s of processor time, {lost} lost, \
             {repeated} sent more than once",
            usage.peak_kib as f64 / 1_024.0,
            took.as_secs_f64(),
            usage.cpu_ms / 1_000.0,
        )
    }
}

/// Parks the load, runs wake until nothing is left, and returns the result.
pub async fn run(program: &Path, load: Load, logs: &Path) -> anyhow::Result<Outcome> {
    let trusted = logs.join("trusted.pem");
    let tls = certificate(&trusted)?;
    let sent = Arc::new(Mutex::new(vec![0_u8; usize::try_from(load.deliveries)?]));
    let noted = Arc::clone(&sent);
    let on_send = move |body: &[u8]| {
        event_numbers(body).take(1).for_each(|number| lock(&noted)[number] += 1);
        false
    };
    let cloud = Arc::new(Cloud::new(Duration::ZERO, Box::new(on_send)));
    park(&cloud, load)?;
    // The row of wake's cursor, which is in the same table.
    let left = || lock(&cloud.tables).count(STATE_TABLE) - 1;
    let (_serving, url) = cloud.serve(Some(tls)).await?;
    let program = Program {
        name: "wake",
        path: program.to_owned(),
        environment: environment(&url, &trusted, MESSAGE_BYTES_MAX),
        timeout: TIMEOUT,
        memory_mb: MEMORY_MB,
    };
    let function = Function::start(&program, 1, logs).await?;
    let began = Instant::now();
    let mut runs = 0;
    while left() > 0 && runs < RUNS_MAX {
        runs += 1;
        let woken = function.invoke(Bytes::from_static(b"{}"), || {}).await;
        woken
            .with_context(|| format!("run {runs}, with {} left: see {}", left(), logs.display()))?;
    }
    let (took, usage) = (began.elapsed(), Usage::of(function.measured.processes[0])?);
    ensure!(cloud.problems().is_empty(), "{:?}", cloud.problems());
    let sent = lock(&sent);
    let lost = sent.iter().filter(|times| **times == 0).count();
    let repeated = sent.iter().filter(|times| **times > 1).count();
    Ok(Outcome { runs, took, usage, lost, repeated })
}

/// Parks the load, and puts wake's cursor before it.
fn park(cloud: &Cloud, load: Load) -> anyhow::Result<()> {
    let this_minute = SystemClock.now().as_minutes();
    let mut table = lock(&cloud.tables);
    let before = this_minute - i64::try_from(load.minutes)?;
    let cursor = ["WAKE", "-"].map(str::to_owned);
    table.put(STATE_TABLE, cursor, before.to_string(), &json!({}))?;
    for number in 0..load.deliveries {
        let minute = this_minute - i64::try_from(number % load.minutes)?;
        let parked = Parked {
            id: Uuid::from_u128(u128::from(number)),
            due: Timestamp::from_millis(minute * 60_000),
            shard: 0,
            group: "orders/warehouse".to_owned(),
            postponed: 0,
            lot: None,
            parked_at: Timestamp::default(),
            watch: None,
            body: String::new(),
        };
        let pk = format!("PARKED#{minute}#{}", number % u64::from(PARKED_PARTITIONS));
        let (keys, document) = ([pk, parked.id.to_string()], serde_json::to_string(&parked)?);
        let body = json!({ "body": { "S": body(number, load.bytes) } });
        table.put(STATE_TABLE, keys, document, &body)?;
    }
    Ok(())
}

/// A message with as many quotes as events have: inside JSON they take two bytes.
fn body(number: u64, bytes: usize) -> String {
    let mut body = format!(r#"{{"id":"{MARK}{number:0width$}","events":["#, width = DIGITS);
    while body.len() < bytes {
        body.push_str(r#"{"subject":"a/b/c/0123456789"},"#);
    }
    body
}

//! The real program of wake with as many parked deliveries as an outage leaves: how much memory it
//! takes, and whether it sends each of them.
//!
//! [`Lot`] plays the state table and the retry queue. It makes its items up as they are asked for, and
//! remembers only which are left, so that it holds more than a test's memory would.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, ensure};
use bytes::Bytes;
use gridpost_core::{delivery::parking::Parked, time::Timestamp};
use gridpost_ports::{Clock, PARKED_PARTITIONS};
use gridpost_runtime::system::SystemClock;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::Instant};
use uuid::Uuid;

use super::{
    http::{Reply, Request, Service, serve},
    process::Usage,
    sandbox::{Program, Sandbox},
    sink::certificate,
};

/// wake's timeout and memory, as deployed.
const TIMEOUT: Duration = Duration::from_secs(55);
const MEMORY_MB: u32 = 256;

/// Deliveries that are left after this many runs are lost.
const RUNS_MAX: usize = 120;

/// A page of a query ends when it has so many bytes. Source: Amazon DynamoDB developer guide, "Query".
const PAGE_BYTES_MAX: usize = 1_048_576;

/// Most bytes of all bodies of a batch. Source: SQS quotas.
const BATCH_BYTES_MAX: usize = 1_048_576;

/// What is parked.
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
    /// What its process used.
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
    let lot = Arc::new(Lot::new(load));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("https://{}", listener.local_addr()?);
    let served = tokio::spawn(serve(listener, Some(tls), Arc::clone(&lot)));
    let log = logs.join("wake.log");
    let sandbox = Sandbox::start(&wake(program, &url, &trusted), &log).await?;
    let began = Instant::now();
    let mut runs = 0;
    while lot.left() > 0 && runs < RUNS_MAX {
        runs += 1;
        sandbox.invoke(Bytes::from_static(b"{}"), || {}).await.with_context(|| {
            format!("run {runs}, with {} left: see {}", lot.left(), log.display())
        })?;
    }
    let (took, usage) = (began.elapsed(), sandbox.usage()?);
    served.abort();
    let refused = std::mem::take(&mut *lock(&lot.refused));
    ensure!(refused.is_empty(), "refused: {refused:?}");
    let sent = lock(&lot.sent);
    let lost = sent.iter().filter(|times| **times == 0).count();
    let repeated = sent.iter().filter(|times| **times > 1).count();
    Ok(Outcome { runs, took, usage, lost, repeated })
}

fn wake(path: &Path, url: &str, trusted: &Path) -> Program {
    let pairs = [
        ("AWS_ENDPOINT_URL", url.to_owned()),
        ("AWS_ACCESS_KEY_ID", "bench".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "bench".to_owned()),
        ("AWS_SESSION_TOKEN", "b".repeat(800)),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("SSL_CERT_FILE", trusted.display().to_string()),
        ("GRIDPOST_STATE_TABLE", "gridpost-state".to_owned()),
        ("GRIDPOST_CONFIG_TABLE", "gridpost-config".to_owned()),
        ("GRIDPOST_PAYLOAD_BUCKET", "gridpost-payloads".to_owned()),
        ("GRIDPOST_RETRY_QUEUE_URLS", format!("{url}/123456789012/gridpost-retry-0")),
        ("GRIDPOST_QUEUE_MESSAGE_BYTES_MAX", "1048576".to_owned()),
        ("GRIDPOST_LOG", "info".to_owned()),
    ];
    Program {
        name: "wake",
        path: PathBuf::from(path),
        arguments: Vec::new(),
        environment: pairs.map(|(name, value)| (name.to_owned(), value)).into(),
        timeout: TIMEOUT,
        memory_mb: MEMORY_MB,
    }
}

/// The state table and the retry queue.
struct Lot {
    load: Load,
    this_minute: i64,
    /// What is still parked, by partition key.
    parked: Mutex<BTreeMap<String, BTreeSet<u64>>>,
    /// How often each was sent.
    sent: Mutex<Vec<u8>>,
    cursor: Mutex<i64>,
    refused: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The members of the calls.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Call {
    expression_attribute_values: BTreeMap<String, Text>,
    exclusive_start_key: Option<Key>,
    limit: Option<usize>,
    request_items: BTreeMap<String, Vec<Write>>,
    item: BTreeMap<String, Value>,
    entries: Vec<Entry>,
}

#[derive(Default, Deserialize)]
struct Text {
    #[serde(rename = "S", default)]
    text: String,
}

#[derive(Deserialize)]
struct Key {
    pk: Text,
    sk: Text,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Write {
    delete_request: Delete,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Delete {
    key: Key,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    id: String,
    message_body: String,
}

impl Lot {
    fn new(load: Load) -> Self {
        let this_minute = SystemClock.now().as_minutes();
        let mut parked: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        let minutes = i64::try_from(load.minutes).unwrap_or(1);
        for number in 0..load.deliveries {
            let minute = this_minute - i64::try_from(number % load.minutes).unwrap_or(0);
            let partition = number % u64::from(PARKED_PARTITIONS);
            parked.entry(format!("PARKED#{minute}#{partition}")).or_default().insert(number);
        }
        Self {
            load,
            this_minute,
            parked: Mutex::new(parked),
            sent: Mutex::new(vec![0; usize::try_from(load.deliveries).unwrap_or(0)]),
            cursor: Mutex::new(this_minute - minutes),
            refused: Mutex::default(),
        }
    }

    fn left(&self) -> usize {
        lock(&self.parked).values().map(BTreeSet::len).sum()
    }

    /// A message with as many quotes as events have: inside JSON they take two bytes.
    fn body(&self, number: u64) -> String {
        let mut body = format!(r#"{{"number":{number},"events":["#);
        while body.len() < self.load.bytes {
            body.push_str(r#"{"subject":"a/b/c/0123456789"},"#);
        }
        body
    }

    fn item(&self, pk: &str, number: u64) -> Value {
        let minute = pk.split('#').nth(1).and_then(|minute| minute.parse::<i64>().ok());
        let parked = Parked {
            id: Uuid::from_u128(u128::from(number)),
            due: Timestamp::from_millis(minute.unwrap_or(self.this_minute) * 60_000),
            shard: 0,
            group: "orders/warehouse".to_owned(),
            postponed: 0,
            lot: None,
            parked_at: Timestamp::default(),
            watch: None,
            body: String::new(),
        };
        let document = serde_json::to_string(&parked).unwrap_or_default();
        json!({
            "pk": { "S": pk }, "sk": { "S": parked.id.to_string() }, "revision": { "N": "1" },
            "document": { "S": document }, "body": { "S": self.body(number) },
        })
    }

    fn query(&self, call: &Call) -> Value {
        let pk = call.expression_attribute_values.values().next().map_or("", |pk| &pk.text);
        let after = call.exclusive_start_key.as_ref().and_then(number_of);
        let numbers: Vec<u64> = {
            let parked = lock(&self.parked);
            let of_key = parked.get(pk).into_iter().flatten().copied();
            let behind = of_key.filter(|number| after.is_none_or(|after| *number > after));
            behind.take(call.limit.unwrap_or(usize::MAX)).collect()
        };
        let fitting = numbers.len().min(PAGE_BYTES_MAX.div_ceil(self.load.bytes));
        let found: Vec<_> =
            numbers[..fitting].iter().map(|number| self.item(pk, *number)).collect();
        let mut answer = json!({ "Count": found.len() });
        if fitting < numbers.len() || call.limit == Some(fitting) {
            let last = found.last().map(|item| item["sk"].clone());
            answer["LastEvaluatedKey"] = json!({ "pk": { "S": pk }, "sk": last });
        }
        answer["Items"] = Value::Array(found);
        answer
    }

    fn delete(&self, call: &Call) -> Result<Value, String> {
        let writes: Vec<_> = call.request_items.values().flatten().collect();
        if writes.len() > 25 {
            return Err(format!("{} writes in a batch", writes.len()));
        }
        let mut parked = lock(&self.parked);
        for Write { delete_request: Delete { key } } in writes {
            if let (Some(of_key), Some(number)) = (parked.get_mut(&key.pk.text), number_of(key)) {
                of_key.remove(&number);
            }
        }
        Ok(json!({ "UnprocessedItems": {} }))
    }

    fn send(&self, call: &Call) -> Result<Value, String> {
        let bytes: usize = call.entries.iter().map(|entry| entry.message_body.len()).sum();
        if bytes > BATCH_BYTES_MAX || call.entries.len() > 10 {
            return Err(format!("a batch of {} with {bytes} bytes", call.entries.len()));
        }
        let mut sent = lock(&self.sent);
        for entry in &call.entries {
            let number = entry.message_body.strip_prefix(r#"{"number":"#);
            let number = number.and_then(|rest| rest.split(',').next()?.parse::<usize>().ok());
            let times = number.and_then(|number| sent.get_mut(number));
            *times.ok_or("a message that was never parked")? += 1;
        }
        let one =
            |entry: &Entry| json!({"Id": entry.id, "MessageId": "m", "MD5OfMessageBody": "0"});
        let successful: Vec<_> = call.entries.iter().map(one).collect();
        Ok(json!({ "Successful": successful, "Failed": [] }))
    }

    fn call(&self, target: &str, body: &[u8]) -> Result<Value, String> {
        let call: Call = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        match target.split('.').next_back() {
            Some("Query") => Ok(self.query(&call)),
            Some("BatchWriteItem") => self.delete(&call),
            Some("SendMessageBatch") => self.send(&call),
            Some("GetItem") => {
                let cursor = lock(&self.cursor).to_string();
                Ok(json!({ "Item": {
                    "pk": { "S": "WAKE" }, "sk": { "S": "-" }, "revision": { "N": "1" },
                    "document": { "S": cursor },
                }}))
            }
            Some("PutItem") => {
                let cursor = call.item.get("document").and_then(|document| document["S"].as_str());
                let cursor = cursor.and_then(|cursor| cursor.parse().ok());
                *lock(&self.cursor) = cursor.ok_or("an item that is no cursor")?;
                Ok(json!({}))
            }
            _ => Err("an unknown call".to_owned()),
        }
    }
}

fn number_of(key: &Key) -> Option<u64> {
    u64::try_from(key.sk.text.parse::<Uuid>().ok()?.as_u128()).ok()
}

impl Service for Lot {
    async fn answer(&self, request: Request) -> Option<Reply> {
        let (status, body) = match self.call(&request.target, &request.body) {
            Ok(answer) => (200, answer.to_string()),
            Err(reason) => {
                let body = json!({ "__type": "ValidationException", "message": reason });
                lock(&self.refused).push(format!("{}: {reason}", request.target));
                (400, body.to_string())
            }
        };
        let headers = vec![("content-type", "application/x-amz-json-1.0".to_owned())];
        Some(Reply { status, headers, body: body.into() })
    }
}

//! Internals that a user can see too: objects in S3, messages in queues, logs, processes of
//! functions.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs;
use std::hash::Hash;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::Credentials;
use gridpost_aws::{Clients, Timeouts};
use gridpost_ops::aws_api::REGION;
use gridpost_ops::home::Home;
use gridpost_stack::emulator::Emulator;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::time::{Instant, sleep};

/// How long to wait between two reads.
pub const POLL: Duration = Duration::from_millis(300);

/// A machine that is busy may take long to answer.
const PATIENT: Timeouts =
    Timeouts { attempt: Duration::from_secs(60), operation: Duration::from_secs(120) };

/// Asks again and again until the answer is so, and returns it. `what` says it in the error.
///
/// # Errors
///
/// When it is not so within `limit`.
pub async fn until<T: Debug, F: Future<Output = anyhow::Result<T>>>(
    what: &str,
    limit: Duration,
    mut ask: impl FnMut() -> F,
    is_so: impl Fn(&T) -> bool,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        let answer = ask().await?;
        if is_so(&answer) {
            return Ok(answer);
        }
        ensure!(Instant::now() < deadline, "not within {limit:?}: {what}: {answer:#?}");
        sleep(POLL).await;
    }
}

/// A dead-letter object.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Its records.
    pub records: Vec<Value>,
    /// Its content type.
    pub content_type: String,
}

/// Clients of the emulator, with its own credentials, which may do everything there.
pub fn clients(emulator_url: &str) -> Clients {
    let credentials = Credentials::new("test", "test", None, None, "end-to-end tests");
    let clients = Clients::new(credentials, REGION.to_owned(), Some(emulator_url.to_owned()));
    clients.within(PATIENT)
}

/// The bodies of all messages in all queues, hidden and delayed ones included.
pub async fn queued_bodies(
    http: &reqwest::Client,
    emulator_url: &str,
) -> anyhow::Result<Vec<String>> {
    fn strings(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.push(text.clone()),
            Value::Array(all) => all.iter().for_each(|one| strings(one, found)),
            Value::Object(all) => all.values().for_each(|one| strings(one, found)),
            _ => {}
        }
    }
    let url = format!("{emulator_url}/_ministack/sqs/messages");
    let told: Value = http.get(url).send().await?.error_for_status()?.json().await?;
    let mut found = Vec::new();
    strings(&told, &mut found);
    Ok(found)
}

/// The name of a function's role.
pub fn role(function: &str) -> String {
    format!("{function}-{REGION}")
}

/// A signature that the emulator accepts for its own credentials.
pub fn unsigned(service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=test/20300101/{REGION}/{service}/aws4_request, \
         SignedHeaders=host, Signature=0"
    )
}

/// How often each key is among the ids of dead letters.
pub fn count_ids<K: Eq + Hash>(
    objects: &[Object],
    key_of: impl Fn(&str) -> Option<K>,
) -> HashMap<K, u64> {
    let mut counts = HashMap::new();
    let records = objects.iter().flat_map(|object| &object.records);
    for key in records.filter_map(|record| key_of(record["id"].as_str()?)) {
        *counts.entry(key).or_default() += 1;
    }
    counts
}

/// The dead-letter objects below `prefix`.
pub async fn dead_letters(s3: &Client, bucket: &str, prefix: &str) -> anyhow::Result<Vec<Object>> {
    let mut objects = Vec::new();
    for (key, content_type, text) in stored(s3, bucket, prefix).await? {
        let records = serde_json::from_str(&text).with_context(|| format!("{key} is no array"))?;
        objects.push(Object { key, records, content_type });
    }
    Ok(objects)
}

/// Key, content type and text of the objects below `prefix`.
pub async fn stored(
    s3: &Client,
    bucket: &str,
    prefix: &str,
) -> anyhow::Result<Vec<(String, String, String)>> {
    let list = s3.list_objects_v2().bucket(bucket).prefix(prefix).send().await?;
    let mut objects = Vec::new();
    for key in list.contents().iter().filter_map(|object| object.key()) {
        let object = s3.get_object().bucket(bucket).key(key).send().await?;
        let content_type = object.content_type().unwrap_or_default().to_owned();
        let bytes = object.body.collect().await?.to_vec();
        let text = String::from_utf8(bytes).with_context(|| format!("{key} is not text"))?;
        objects.push((key.to_owned(), content_type, text));
    }
    Ok(objects)
}

/// Returns the key in S3 of a dead letter's file: those of an hour are spread over folders by how they begin.
fn key_of(path: &Path) -> String {
    let text = |path: Option<&OsStr>| path.map(|it| it.to_string_lossy().into_owned());
    let (own, above) = (text(path.file_name()), path.parent().and_then(|it| text(it.file_name())));
    let hour = path.parent().and_then(Path::parent);
    match (own, above, hour) {
        (Some(own), Some(above), Some(hour)) if own.starts_with(&above) => {
            hour.join(own).display().to_string()
        }
        _ => path.display().to_string(),
    }
}

/// Lists dead letters where the bucket is a folder of `gridpost dev`.
pub fn dead_letter_files(folder: &Path, prefix: &str) -> anyhow::Result<Vec<Object>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        // Without dead letters there is no folder.
        for entry in fs::read_dir(&next).into_iter().flatten() {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let key = key_of(path.strip_prefix(folder)?);
            // The name of an incomplete file begins with a dot.
            let is_whole = path.file_name().is_none_or(|it| it.as_encoded_bytes()[0] != b'.');
            if is_whole && key.starts_with(prefix) && key.ends_with(".json") {
                let text = fs::read_to_string(&path)?;
                let records =
                    serde_json::from_str(&text).with_context(|| format!("{key} is no array"))?;
                // A file has no other type than its ending.
                found.push(Object { key, records, content_type: "application/json".to_owned() });
            }
        }
    }
    found.sort_by(|one, other| one.key.cmp(&other.key));
    Ok(found)
}

/// The running processes of a function.
pub fn processes_of(home: &Home, function: &str) -> Vec<u32> {
    let wanted = format!("AWS_LAMBDA_FUNCTION_NAME={function}");
    let is_of_function = |pid: &u32| {
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        })
    };
    let processes = Emulator::of(home).processes();
    let functions = processes.iter().filter(|process| !process.is_emulator);
    functions.map(|process| process.pid).filter(is_of_function).collect()
}

/// Kills a function's processes as a crash would; returns how many.
pub fn kill(home: &Home, function: &str) -> usize {
    let processes = processes_of(home, function);
    let killed = processes.iter().filter_map(|pid| {
        let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw)?;
        kill_process(pid, Signal::KILL).ok()
    });
    killed.count()
}

//! A look behind the scenes that a user has too: objects in S3, logs, processes of functions.

use std::fs;
use std::time::Duration;

use anyhow::{Context, bail};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use gridpost_cli::local::emulator::Emulator;
use gridpost_cli::local::home::Home;
use gridpost_cli::local::terraform::REGION;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const POLL: Duration = Duration::from_millis(300);

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

/// The emulator's S3.
pub fn s3(emulator_url: &str) -> Client {
    // The emulator takes any.
    let credentials = Credentials::builder()
        .access_key_id("test")
        .secret_access_key("test")
        .provider_name("end-to-end tests")
        .build();
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .endpoint_url(emulator_url)
        .force_path_style(true)
        .credentials_provider(credentials)
        .build();
    Client::from_conf(config)
}

/// The dead-letter objects below `prefix`.
///
/// # Errors
///
/// When the bucket cannot be read, or an object is no JSON array.
pub async fn dead_letters(s3: &Client, bucket: &str, prefix: &str) -> anyhow::Result<Vec<Object>> {
    let mut objects = Vec::new();
    for (key, content_type, text) in stored(s3, bucket, prefix).await? {
        let records = serde_json::from_str(&text).with_context(|| format!("{key} is no array"))?;
        objects.push(Object { key, records, content_type });
    }
    Ok(objects)
}

/// Key, content type and text of the objects below `prefix`.
///
/// # Errors
///
/// When the bucket cannot be read, or an object is no text.
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
        let text = String::from_utf8(bytes).with_context(|| format!("{key} is no text"))?;
        objects.push((key.to_owned(), content_type, text));
    }
    Ok(objects)
}

/// Waits until the objects below `prefix` hold `count` records.
///
/// # Errors
///
/// When they do not within `limit`.
pub async fn wait_for_dead_letters(
    s3: &Client,
    bucket: &str,
    prefix: &str,
    count: usize,
    limit: Duration,
) -> anyhow::Result<Vec<Object>> {
    let deadline = Instant::now() + limit;
    loop {
        let objects = dead_letters(s3, bucket, prefix).await?;
        if objects.iter().map(|object| object.records.len()).sum::<usize>() >= count {
            return Ok(objects);
        }
        if Instant::now() >= deadline {
            bail!("{count} dead letters under {prefix} were not written: {objects:?}");
        }
        sleep(POLL).await;
    }
}

/// The lines that a function logged which contain `text`.
///
/// # Errors
///
/// When the log group cannot be read.
pub async fn log_lines(
    http: &reqwest::Client,
    emulator_url: &str,
    function: &str,
    text: &str,
) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut token = Value::Null;
    loop {
        let mut ask = json!({"logGroupName": format!("/aws/lambda/{function}")});
        if !token.is_null() {
            ask["nextToken"] = token;
        }
        let page = http
            .post(emulator_url)
            .header("x-amz-target", "Logs_20140328.FilterLogEvents")
            .header("content-type", "application/x-amz-json-1.1")
            .header(
                "authorization",
                format!(
                    "AWS4-HMAC-SHA256 Credential=test/20300101/{REGION}/logs/aws4_request, \
                 SignedHeaders=host, Signature=0"
                ),
            )
            .body(ask.to_string())
            .send()
            .await?;
        let page: Value = page.error_for_status()?.json().await?;
        let messages = page["events"].as_array().into_iter().flatten();
        let messages = messages.filter_map(|event| event["message"].as_str());
        lines.extend(messages.filter(|message| message.contains(text)).map(str::to_owned));
        token = page["nextToken"].clone();
        if token.is_null() {
            return Ok(lines);
        }
    }
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

/// Kills a function's processes as a crash would; gives how many.
pub fn kill(home: &Home, function: &str) -> usize {
    let processes = processes_of(home, function);
    let killed = processes.iter().filter_map(|pid| {
        let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw)?;
        kill_process(pid, Signal::KILL).ok()
    });
    killed.count()
}

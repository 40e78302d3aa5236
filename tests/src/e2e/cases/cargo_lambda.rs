//! Work on one function: `cargo lambda watch` on the stack, as README shows it.

use std::{
    collections::BTreeSet,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, ensure};
use gridpost_ops::home::Home;
use gridpost_ops::target::TargetArguments;
use gridpost_stack::watched::Relay;
use gridpost_stack::{samples, watched};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::clients::curl;
use crate::e2e::{
    fixture::{ACCOUNT, EVENT_GRID, Fixture, SOON},
    receiver::{Arrival, Endpoint, Reply},
};

/// Time for a function to be linked, and compiled where something has changed since the tests were.
const COMPILED_MAX: Duration = Duration::from_secs(400);

/// Every sample with the function's answer to it, without spaces.
const SAMPLES: [(&str, &str); 14] = [
    ("ingest/publish.json", r#""statusCode":200"#),
    ("intake/message.json", r#""batchItemFailures":[]"#),
    // It goes to the poison queue.
    ("expand/not-a-piece.json", r#""batchItemFailures":[]"#),
    ("dispatch/first-attempt.json", r#""batchItemFailures":[]"#),
    ("dispatch/retry.json", r#""batchItemFailures":[]"#),
    // And so does this.
    ("dispatch/not-a-delivery.json", r#""batchItemFailures":[]"#),
    ("dead-letter/ended.json", r#""batchItemFailures":[]"#),
    ("dead-letter/two-ended-together.json", r#""batchItemFailures":[]"#),
    ("redrive/job-that-is-gone.json", r#""batchItemFailures":[]"#),
    ("manage/create-topic.json", r#""statusCode":200"#),
    ("manage/create-subscription-refused.json", r#""statusCode":400"#),
    ("manage/list-topics.json", r#""statusCode":200"#),
    ("manage/terraform-validate.json", "maxDeliveryAttempts"),
    ("wake/minute.json", ""),
];

/// Under `gridpost watch`'s `cargo lambda watch` every sample that `up` has written works. Events
/// that curl and Azure's SDK publish to the local URL go through the watched ingest and the watched
/// dispatch, since no deployed function reads their queue. The log is quiet.
pub async fn watch_serves_every_sample_and_publishers(fixture: &Fixture) -> anyhow::Result<()> {
    let endpoint = fixture.receiver.endpoint("watched", &[Reply::prompt(200)]);
    let destination =
        json!({"endpointType": "WebHook", "properties": {"endpointUrl": endpoint.url()}});
    let document = json!({"properties": {"destination": destination}});
    fixture.api.put_subscription(samples::TOPIC, samples::SUBSCRIPTION, &document).await?;

    let watch = Watch::start(fixture).await?;
    let shown = async {
        watch.serve(fixture).await?;
        arrive(&endpoint).await
    };
    let shown = shown.await;
    let log = watch.stop().await?;
    shown.with_context(|| format!("its log ends in:\n{}", last_lines(&log)))?;
    let noise = log.lines().find(|line| line.contains(r#""level":"DEBUG""#));
    ensure!(noise.is_none(), "the log is not quiet: {noise:?}");

    // Messages that dispatch could not read must not disturb later cases.
    let emulator = &fixture.ground.connection.emulator_url;
    let poison = format!("{emulator}/{ACCOUNT}/gridpost-poison");
    fixture.sqs().purge_queue().queue_url(poison).send().await?;
    Ok(())
}

/// The watched dispatch delivers the events that the watched ingest published, and the event of
/// dispatch's samples twice: as a first attempt and as a retry.
async fn arrive(endpoint: &Endpoint) -> anyhow::Result<()> {
    let want: BTreeSet<String> = ["1", "curl", "sdk", "sample-1"].map(str::to_owned).into();
    let is_all = |all: &[Arrival]| {
        let ids: Vec<_> = all.iter().flat_map(Arrival::ids).collect();
        let of_samples = ids.iter().filter(|id| *id == "sample-1").count();
        of_samples >= 2 && ids.into_iter().collect::<BTreeSet<_>>().is_superset(&want)
    };
    endpoint.wait_until("all events", 2 * SOON, is_all).await.map(drop)
}

/// A running `cargo lambda watch`.
struct Watch {
    process: Child,
    port: u16,
    log: PathBuf,
    relaying: JoinHandle<()>,
}

impl Watch {
    async fn start(fixture: &Fixture) -> anyhow::Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let home = fixture.ground.home();
        let log = home.logs().join("watch.log");
        let file = fs::File::create(&log)?;
        let of_stack = TargetArguments { home: Some(home.root().to_owned()), ..Default::default() };
        let relay = Relay::open(&of_stack.resolve()?, port).await?;
        let mut command = cargo_lambda(fixture, "watch", port)?;
        command.arg("--ignore-changes").arg("--env-file").arg(home.environment_file());
        command.stdout(Stdio::from(file.try_clone()?)).stderr(Stdio::from(file));
        let relaying = tokio::spawn(async move { relay.run().await });
        let mut watch = Self { process: command.spawn()?, port, log, relaying };
        let deadline = Instant::now() + SOON;
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            let ended = watch.process.try_wait()?;
            ensure!(ended.is_none() && Instant::now() < deadline, "it does not listen: {ended:?}");
            sleep(Duration::from_millis(200)).await;
        }
        Ok(watch)
    }

    async fn serve(&self, fixture: &Fixture) -> anyhow::Result<()> {
        let folder = fixture.ground.home().samples();
        let known: BTreeSet<_> = SAMPLES.iter().map(|(path, _)| (*path).to_owned()).collect();
        ensure!(written(fixture.ground.home())? == known, "other samples than these were written");
        for (path, want) in SAMPLES {
            let function = path.split('/').next().unwrap_or_default();
            let mut command = cargo_lambda(fixture, "invoke", self.port)?;
            command.arg(function).arg("--data-file").arg(folder.join(path));
            let output = timeout(COMPILED_MAX, command.output()).await;
            let output = output.with_context(|| format!("{path}: no answer"))??;
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).replace(char::is_whitespace, "");
            ensure!(said.contains(want), "{path} was answered {said}");
        }
        self.publish(fixture).await
    }

    /// At the URL of the README.
    async fn publish(&self, fixture: &Fixture) -> anyhow::Result<()> {
        let topic = samples::TOPIC;
        let key = &fixture.ground.connection.topics[topic].keys[0];
        let port = self.port;
        let url = format!("http://127.0.0.1:{port}/lambda-url/ingest/topics/{topic}/api/events");
        let event = json!([{
            "id": "curl", "eventType": "Sample.Greeting", "subject": "e2e/curl", "dataVersion": "1",
            "eventTime": "2030-01-02T03:04:05Z", "data": {"hello": "fixture"},
        }]);
        let header = format!("aeg-sas-key: {key}");
        let content = "content-type: application/json";
        curl(&["-H", &header, "-H", content, "-d", &event.to_string(), &url], "").await?;
        let event =
            json!({"id": "sdk", "type": "Sample.Greeting", "subject": "e2e/sdk", "data": {}});
        let send = json!({"endpoint": url, "key": key, "schema": EVENT_GRID, "events": [event]});
        let sent = fixture.sdk_send(json!([send])).await?;
        ensure!(sent == json!([{"ok": true}]), "Azure's SDK: {sent}");
        Ok(())
    }

    /// Ends it with all processes that it has started, and returns its log.
    async fn stop(mut self) -> anyhow::Result<String> {
        self.relaying.abort();
        if let Some(pid) = self.process.id() {
            signal(pid, Signal::INT);
        }
        // A watcher that does not end is killed when it is dropped.
        let _ = timeout(SOON, self.process.wait()).await;
        for pid in served(self.port) {
            signal(pid, Signal::KILL);
        }
        Ok(fs::read_to_string(&self.log)?)
    }
}

fn cargo_lambda(fixture: &Fixture, name: &str, port: u16) -> anyhow::Result<Command> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a workspace")?;
    watched::cargo_lambda(workspace, fixture.ground.environment()?, (name, port))
}

/// The paths of the samples below their folder.
fn written(home: &Home) -> anyhow::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for function in fs::read_dir(home.samples())? {
        let function = function?;
        for file in fs::read_dir(function.path())? {
            let (function, file) = (function.file_name(), file?.file_name());
            found.insert(format!("{}/{}", function.to_string_lossy(), file.to_string_lossy()));
        }
    }
    Ok(found)
}

/// The processes that the watcher on that port serves.
fn served(port: u16) -> Vec<u32> {
    let wanted = format!("AWS_LAMBDA_RUNTIME_API=http://127.0.0.1:{port}/");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_served = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable.starts_with(wanted.as_bytes()))
    };
    pids.filter(is_served).collect()
}

/// Sends a signal, unless the process is gone.
fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

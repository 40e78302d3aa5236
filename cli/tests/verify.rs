//! `gridpost verify` against `gridpost dev`, both as programs.

use std::{
    path::PathBuf,
    process::{Output, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A process, and the folder that it has to itself.
struct Dev {
    folder: TempDir,
    child: Child,
}

impl Dev {
    async fn start(flags: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let line = format!("dev --port 0 --memory --quiet {flags}");
        let mut child = gridpost(&folder, &line).spawn().expect("it runs");
        let home = home(&folder);
        let ready = async {
            while !home.join("local.json").exists() {
                assert!(child.try_wait().expect("a process").is_none(), "it ended");
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, ready).await.expect("it is ready in time");
        Self { folder, child }
    }

    async fn run(&self, line: &str) -> Output {
        let output = gridpost(&self.folder, line).output();
        timeout(PATIENCE, output).await.expect("in time").expect("it runs")
    }

    /// The names of its topics.
    async fn topics(&self) -> Vec<String> {
        let listed = self.run("--json topic list").await;
        let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
        let topics = listed["value"].as_array().expect("a list").iter();
        topics.map(|topic| topic["name"].as_str().expect("a name").to_owned()).collect()
    }

    async fn probe_topics(&self) -> Vec<String> {
        let mut topics = self.topics().await;
        topics.retain(|topic| topic.starts_with("gridpost-verify-"));
        topics
    }

    async fn end(mut self) {
        signal(&self.child, Signal::TERM);
        let ended = timeout(PATIENCE, self.child.wait()).await.expect("at once");
        assert!(ended.expect("a status").success());
    }
}

fn home(folder: &TempDir) -> PathBuf {
    folder.path().join(".gridpost")
}

/// The program, without what the environment says of deployments and AWS.
fn gridpost(folder: &TempDir, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gridpost"));
    command.env_clear().current_dir(folder.path());
    command.arg("--home").arg(home(folder)).args(line.split_whitespace());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    command
}

fn signal(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?)).expect("a process");
    kill_process(pid, signal).expect("signalled");
}

fn text(output: &Output) -> String {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{stdout}{stderr}")
}

/// All but the late answer, which takes a minute at any speed of the clock.
#[tokio::test]
async fn a_process_delivers_retries_and_dead_letters() {
    let dev = Dev::start("--speed 5").await;
    let line = "--json verify --only webhook,queue,fan-out,large,visibility,redrive --events 5 \
                --fan-out 4 --fan-out-events 10";
    let output = dev.run(line).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let verdicts: Vec<_> = report["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| {
            [step["step"].as_str().expect("a name"), step["verdict"].as_str().expect("one")]
        })
        .collect();
    let want = [
        ["webhook", "shown"],
        ["queue", "notShown"],
        ["fan-out", "shown"],
        ["large", "shown"],
        ["retry", "shown"],
        ["visibility", "notShown"],
        ["dead-letter", "shown"],
        ["redrive", "shown"],
        ["late", "notShown"],
    ];
    assert_eq!(verdicts, want, "{report:#}");
    assert_eq!((&report["failed"], &report["runs"]), (&json!(0), &json!("dev")));
    // Its own queues keep what is hidden, and its log says so.
    let visibility = report["steps"][5]["why"].as_str().expect("a reason");
    assert!(visibility.contains("received 2 times by the third attempt"), "{visibility}");
    let stages: Vec<_> =
        report["latencies"].as_array().expect("stages").iter().map(|it| &it["stage"]).collect();
    let want =
        ["publish", "publishToWebhook", "dueToAttempt", "refusalToDeadLetter", "redriveToWebhook"];
    assert_eq!(stages, want);
    assert!(report["cost"]["dollarsPerMillion"].as_f64() > Some(1.0), "{report:#}");
    assert_eq!(dev.probe_topics().await, [""; 0]);
    dev.end().await;
}

#[tokio::test]
async fn nothing_stays_of_a_run_and_what_did_is_found() {
    let dev = Dev::start("").await;
    for stop in [Signal::INT, Signal::TERM] {
        let mut run = gridpost(&dev.folder, "verify --only retry").spawn().expect("it runs");
        let begun = async {
            while dev.probe_topics().await.is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, begun).await.expect("it begins");
        signal(&run, stop);
        let ended = timeout(PATIENCE, run.wait()).await.expect("soon").expect("a status");
        assert_eq!(ended.code(), Some(1), "{stop:?}");
        assert_eq!(dev.probe_topics().await, [""; 0], "{stop:?}");
    }
    // A run that was killed.
    let topic = "gridpost-verify-0123abcd";
    assert!(dev.run(&format!("topic create {topic}")).await.status.success());
    let named = dev.run("--json verify --only webhook --events 1").await;
    let report: Value = serde_json::from_slice(&named.stdout).expect("JSON");
    assert_eq!(report["leftovers"], json!([topic]), "{}", text(&named));
    assert_eq!(dev.probe_topics().await, [topic]);
    let removed = dev.run("verify --only webhook --events 1 --remove-leftovers").await;
    assert!(text(&removed).contains(&format!("removed topic {topic}")), "{}", text(&removed));
    assert_eq!(dev.probe_topics().await, [""; 0]);

    // What can't be tried is no failure of the deployment, and no success.
    for line in ["verify --only queue", "verify --queue arn:aws:sqs:eu-central-1:123456789012:q"] {
        let refused = dev.run(line).await;
        assert_eq!(refused.status.code(), Some(2), "{line}: {}", text(&refused));
    }
    assert_eq!(dev.topics().await.len(), 2, "those of every process");
    dev.end().await;
}

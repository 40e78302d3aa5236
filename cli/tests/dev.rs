//! `gridpost dev` as a developer runs it: the program itself, other commands beside it, signals.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::{ExitStatus, Output, Stdio},
    time::Duration,
};

use gridpost_cli::{
    answers::Answers,
    receiver::{Arrival, Behaviour, Purpose, Receiver},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::{sleep, timeout},
};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder for a process and what is around it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join(".gridpost")
    }

    fn connection_file(&self) -> PathBuf {
        self.home().join("local.json")
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }

    /// The program, without what the environment says of deployments and AWS.
    fn gridpost(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gridpost"));
        command.env_clear().current_dir(self.folder.path());
        command.args(["--home"]).arg(self.home()).args(line.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        command
    }

    async fn run(&self, line: &str) -> Output {
        timeout(PATIENCE, self.gridpost(line).output()).await.expect("in time").expect("it runs")
    }

    /// Starts a process and waits until other commands find it.
    async fn dev(&self, flags: &str) -> Child {
        let mut child = self.gridpost(&format!("dev --port 0 {flags}")).spawn().expect("it runs");
        let ready = async {
            while !self.connection_file().exists() {
                assert!(child.try_wait().expect("a process").is_none(), "it ended");
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, ready).await.expect("it is ready in time");
        child
    }
}

async fn end(mut child: Child, signal: Signal) -> ExitStatus {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?)).expect("a process");
    kill_process(pid, signal).expect("signalled");
    timeout(Duration::from_secs(10), child.wait()).await.expect("at once").expect("a status")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn code(output: &Output, want: i32) -> String {
    let told = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(want), "{told}");
    told
}

/// An endpoint that answers so; what arrives there.
async fn endpoint(answers: &str) -> (Receiver, UnboundedReceiver<Arrival>) {
    let (sender, arrivals) = unbounded_channel();
    let answers: Answers = answers.parse().expect("answers");
    let address = "127.0.0.1:0".parse().expect("an address");
    let receiver =
        Receiver::start(address, HashMap::new(), Behaviour::prompt(answers), sender).await;
    (receiver.expect("a port"), arrivals)
}

async fn next_delivery(arrivals: &mut UnboundedReceiver<Arrival>) -> Arrival {
    let next = async {
        loop {
            let arrival = arrivals.recv().await.expect("an arrival");
            if arrival.purpose == Purpose::Delivery {
                return arrival;
            }
        }
    };
    timeout(PATIENCE, next).await.expect("a delivery in time")
}

fn declared(endpoint_url: &str) -> String {
    let destination =
        json!({"endpointType": "WebHook", "properties": {"endpointUrl": endpoint_url}});
    let billing = json!({"properties": {"destination": destination}});
    json!({"topics": {"orders": {"eventSubscriptions": {"billing": billing}}}}).to_string()
}

#[tokio::test]
async fn what_a_file_declares_is_there_and_a_script_waits_for_it() {
    let place = Place::new();
    let (receiver, mut arrivals) = endpoint("200").await;
    let file = place.write("topics.json", &declared(&receiver.url("/hook")));
    let dev = place.dev(&format!("--memory --quiet --config {}", file.display())).await;
    let topics = place.run("--json topic list").await;
    let topics: Value = serde_json::from_str(&code(&topics, 0)).expect("JSON");
    let names: Vec<_> =
        topics["value"].as_array().expect("a list").iter().map(|topic| &topic["name"]).collect();
    assert_eq!(names, ["orders"]);

    let waited = place.run("wait --topic orders --delivered 1 --timeout 100ms").await;
    assert!(code(&waited, 3).contains("0 of 1 delivered"));
    code(&place.run("publish --topic orders --type T --id e-1").await, 0);
    let arrival = next_delivery(&mut arrivals).await;
    assert_eq!(arrival.events()[0]["id"], "e-1");
    let waited = place.run("--json wait --topic orders --subscription billing --delivered 1").await;
    let counted: Value = serde_json::from_str(&code(&waited, 0)).expect("JSON");
    assert_eq!((&counted["delivered"], &counted["deadLettered"]), (&json!(1), &json!(0)));

    for (line, part) in [
        ("status", "topic orders"),
        ("audit", "The ledger balances"),
        ("explain e-1 --topic orders", "Delivered (200)"),
        ("subscription health", "Healthy"),
    ] {
        let told = code(&place.run(line).await, 0);
        assert!(told.contains(part), "{line}: {told}");
    }
    assert!(code(&place.run("down").await, 2).contains("gridpost dev"));
    assert!(end(dev, Signal::TERM).await.success());
    assert!(!place.connection_file().exists());
    code(&place.run("wait --topic orders --delivered 1").await, 2);
}

#[tokio::test]
async fn every_problem_of_a_declaration_ends_it() {
    let place = Place::new();
    let endpoint = json!({"properties": {"destination": {"endpointType": "WebHook",
        "properties": {"endpointUrl": "http://127.0.0.1:9/"}}}});
    let refused = json!({"topics": {
        "x": {"properties": {"inputSchema": "None"}},
        "orders": {"eventSubscriptions": {"billing": endpoint, "other": {"properties": 1}}},
    }});
    let file = place.write("refused.json", &refused.to_string());
    let line = format!("dev --port 0 --memory --quiet --config {}", file.display());
    let told = code(&place.run(&line).await, 1);
    for part in ["topics.x:", "eventSubscriptions.billing:", "eventSubscriptions.other:"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    assert!(!place.connection_file().exists());
    place.write("broken.toml", "topics = 1");
    code(&place.run("dev --port 0 --memory --quiet --config broken.toml").await, 2);
}

#[tokio::test]
async fn it_shows_the_cases_by_a_fast_clock() {
    let place = Place::new();
    let mut dev = place.gridpost("--json dev --port 0 --speed 60").spawn().expect("it runs");
    let stdout = dev.stdout.take().expect("a pipe");
    let document = timeout(PATIENCE, first_document(stdout)).await.expect("in time");
    let shown = document["demonstration"].as_array().expect("cases");
    assert_eq!(shown.len(), 4, "{document}");
    let letter = shown[3]["lines"][1].as_str().expect("a path");
    assert!(Path::new(letter).starts_with(place.home().join("dev/dead-letters")), "{letter}");
    let records: Value = serde_json::from_slice(&fs::read(letter).expect("a file")).expect("JSON");
    assert_eq!(records[0]["deadLetterReason"], "UndeliverableDueToHttpBadRequest");
    assert!(end(dev, Signal::INT).await.success());
}

/// The first JSON document of a program's output.
async fn first_document(mut output: impl tokio::io::AsyncRead + Unpin) -> Value {
    use tokio::io::AsyncReadExt;
    let mut bytes = Vec::new();
    loop {
        let read = output.read_buf(&mut bytes).await.expect("a pipe");
        if let Ok(document) = serde_json::from_slice(&bytes) {
            return document;
        }
        assert!(read > 0, "it ended: {}", text(&bytes));
    }
}

#[tokio::test]
async fn what_a_killed_process_accepted_is_delivered_by_the_next() {
    let place = Place::new();
    let (receiver, mut arrivals) = endpoint("500,200").await;
    let file = place.write("topics.json", &declared(&receiver.url("/hook")));
    let flags = format!("--quiet --speed 60 --config {}", file.display());
    let dev = place.dev(&flags).await;
    code(&place.run("publish --topic orders --type T --id e-1").await, 0);
    assert_eq!(next_delivery(&mut arrivals).await.status, 500);
    assert!(!end(dev, Signal::KILL).await.success());

    // The file of the one that was killed leads nowhere.
    code(&place.run("wait --topic orders --delivered 1").await, 1);
    fs::remove_file(place.connection_file()).expect("there");
    let dev = place.dev(&flags).await;
    let again = next_delivery(&mut arrivals).await;
    assert_eq!((again.status, again.events()[0]["id"].as_str()), (200, Some("e-1")));
    code(&place.run("wait --topic orders --delivered 1").await, 0);
    assert!(end(dev, Signal::TERM).await.success());
}

//! What others sent never controls a terminal, whatever command prints it.

use gridpost_ops::output::hides;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use super::*;

/// What moves the cursor, clears, sets titles and the clipboard, rings, draws boxes, reorders and hides: C0,
/// C1, OSC, DCS, bidirectional marks, tags.
const HOSTILE: [&str; 6] = [
    "x\u{1b}[1A\u{1b}[2Kfine",
    "\u{1b}]0;owned\u{7}\u{1b}]8;;http://e\u{1b}\\link\r\u{8}\u{c}",
    "\u{9b}2J\u{9d}52;c;AAAA\u{9c}\u{85}\u{7f}",
    "\u{90}+q544e\u{9c}\u{e}\u{f}\u{1b}c",
    "\u{202e}gnp.exe\u{202c}\u{2066}a\u{2069}\u{200f}\u{61c}",
    "\u{feff}\u{200b}\u{2060}\u{e0041}\u{2028}\u{fff9}",
];

fn all_hostile() -> String {
    HOSTILE.concat()
}

/// An endpoint that consents, and fails with a hostile body: 400, or 503 below `/busy`.
async fn failing_endpoint() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(fail(stream));
        }
    });
    url
}

async fn fail(stream: TcpStream) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let (mut request, mut some) = (Vec::new(), [0; 4_096]);
    let code = loop {
        let read = stream.read(&mut some).await.ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&some[..read]);
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let Ok(events) = serde_json::from_str::<Value>(body) else { continue };
        let status = if head.contains("/busy") { 503 } else { 400 };
        break events[0]["data"]["validationCode"].as_str().map(str::to_owned).ok_or(status);
    };
    let (status, body) = match code {
        Ok(code) => (200, json!({"validationResponse": code}).to_string()),
        Err(status) => (status, all_hostile()),
    };
    let head =
        format!("HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-length: {}", body.len());
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.ok()
}

/// Publishes an event of which everything is hostile, with each of the texts as its id.
async fn publish_all(place: &Place) {
    for id in HOSTILE {
        let text = all_hostile();
        let event = json!([{"id": id, "eventType": text, "subject": text, "dataVersion": text,
            "data": {&text: text}, "eventTime": "2030-01-02T03:04:05Z"}]);
        place.write("events.json", &event.to_string());
        code(&place.run("publish --topic orders --file events.json").await, 0);
    }
}

fn assert_harmless(output: &Output, line: &str) {
    for stream in [&output.stdout, &output.stderr] {
        let told = String::from_utf8(stream.clone()).expect("UTF-8");
        assert!(!told.contains(hides), "{line}: {told:?}");
    }
}

async fn first_id(place: &Place, line: &str) -> String {
    let told = async {
        loop {
            let listed = place.run(line).await;
            let listed: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
            if let Some(id) = listed["value"][0]["id"].as_str() {
                return id.to_owned();
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, told).await.expect("in time")
}

fn declaration(endpoint: &str) -> String {
    let subscription = |path: &str| {
        json!({"properties": {
            "destination": {"endpointType": "WebHook",
                "properties": {"endpointUrl": format!("{endpoint}{path}")}},
            "deadLetterDestination": {"endpointType": "S3Bucket",
                "properties": {"bucketName": "gridpost-dead-letters"}},
            "labels": [all_hostile()],
        }})
    };
    json!({"topics": {"orders": {"eventSubscriptions": {
        "bad": subscription("/bad"), "busy": subscription("/busy")}}}})
    .to_string()
}

#[tokio::test]
async fn no_command_lets_what_was_sent_control_a_terminal() {
    let place = Place::new();
    let file = place.write("topics.json", &declaration(&failing_endpoint().await));
    let dev = place.dev(&format!("--memory --quiet --speed 600 --config {}", file.display())).await;
    publish_all(&place).await;
    let of = "--topic orders --subscription bad";
    let letter = first_id(&place, &format!("--json dead-letter list {of}")).await;
    let delivery =
        first_id(&place, "--json delivery list --topic orders --subscription busy").await;
    let mut printed = 0;
    for line in [
        "status".to_owned(),
        "topic list".to_owned(),
        "subscription list --topic orders".to_owned(),
        "subscription show --topic orders --name bad".to_owned(),
        "subscription health".to_owned(),
        format!("dead-letter list {of}"),
        format!("dead-letter count {of}"),
        format!("dead-letter summary {of}"),
        format!("dead-letter show {of} {letter}"),
        format!("dead-letter export {of} --to-file -"),
        format!("dead-letter redrive {of} --dry-run"),
        format!("dead-letter redrives {of}"),
        format!("delivery show --topic orders --subscription busy {delivery}"),
        "delivery list --topic orders --subscription busy".to_owned(),
        "parked list".to_owned(),
        "poison list".to_owned(),
        "tail --since 24h --no-follow".to_owned(),
        "audit".to_owned(),
        "export".to_owned(),
        "subscription test --topic orders --name bad --events events.json".to_owned(),
    ] {
        for line in [line.clone(), format!("--json {line}")] {
            let output = place.run(&line).await;
            assert_harmless(&output, &line);
            assert_ne!(output.status.code(), Some(2), "{line} is misuse: {output:?}");
            printed += usize::from(text(&output.stdout).contains("\\u001b"));
        }
    }
    assert!(printed >= 10, "{printed} commands printed what was sent");
    for id in HOSTILE {
        for line in
            ["explain --topic orders", "dead-letter list --event-id", "publish --topic orders --id"]
        {
            let mut asked = place.gridpost(line);
            assert_harmless(&asked.arg(id).output().await.expect("it runs"), line);
            let mut asked = place.gridpost(&format!("--json {line}"));
            assert_harmless(&asked.arg(id).output().await.expect("it runs"), line);
        }
        for line in [
            "subscription show --topic orders --name",
            "topic show --name",
            "topic show orders",
            "apply",
            "tail --since",
            "schedule --ttl",
            "completion",
            "dead-letter list --reason",
            "",
        ] {
            let mut asked = place.gridpost(line);
            assert_harmless(&asked.arg(id).output().await.expect("it runs"), line);
        }
    }
    assert!(end(dev, Signal::TERM).await.success());
}

/// Sends a request of which all that HTTP allows is hostile.
async fn post_hostile(url: &str) {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let (body, header) = (all_hostile(), HOSTILE[2].replace('\u{7f}', ""));
    let head = format!(
        "POST /hook?{header} HTTP/1.1\r\nhost: h\r\naeg-subscription-name: {header}\r\n\
         content-type: {header}\r\nconnection: close\r\ncontent-length: {}",
        body.len()
    );
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("answered");
}

/// What the process itself prints with `--logs`, and an endpoint that prints what arrives.
#[tokio::test]
async fn no_process_lets_what_was_sent_control_a_terminal() {
    let place = Place::new();
    let mut listener = place.gridpost("listen --port 0").spawn().expect("it runs");
    let mut told = BufReader::new(listener.stderr.take().expect("piped")).lines();
    let first = timeout(PATIENCE, told.next_line()).await.expect("in time").expect("text");
    let first = first.expect("a line");
    let url = first.split_whitespace().nth(2).expect("its URL");
    post_hostile(url).await;
    let file = place.write("topics.json", &declaration(&failing_endpoint().await));
    let dev = place.dev(&format!("--memory --quiet --logs --config {}", file.display())).await;
    publish_all(&place).await;
    sleep(Duration::from_secs(1)).await;
    for (child, line) in [(dev, "dev --logs"), (listener, "listen")] {
        let pid =
            child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?)).expect("a process");
        kill_process(pid, Signal::TERM).expect("signalled");
        let output = child.wait_with_output().await.expect("an end");
        assert_harmless(&output, line);
        assert!(
            text(&output.stdout).contains("\\u001b"),
            "{line} prints what was sent: {output:?}"
        );
    }
}

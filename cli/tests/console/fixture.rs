//! `gridpost dev`, an endpoint, `gridpost console`, and an HTTP client in place of a browser.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::Duration;

use gridpost_ops::receiver::{Answers, Arrival, Behaviour, Receiver};
use reqwest::header::{CONTENT_TYPE, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{sleep, timeout};
use url::form_urlencoded::Serializer;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(90);

/// Has a topic `orders` whose event subscription `refused` gets 400 from its endpoint and has dead
/// letters and signing secrets, and `fine` 200.
pub(crate) struct Fixture {
    folder: TempDir,
    _arrivals: UnboundedReceiver<Arrival>,
    _receiver: Receiver,
    _dev: Child,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (sender, arrivals) = unbounded_channel();
        let address = "127.0.0.1:0".parse().expect("an address");
        let refusing = Behaviour::prompt(Answers::always(400));
        let fine = HashMap::from([("/fine".to_owned(), Behaviour::prompt(Answers::always(200)))]);
        let receiver = Receiver::start(address, fine, refusing, sender).await;
        let receiver = receiver.expect("a port");
        let file = folder.path().join("topics.json");
        let topics = json!({"topics": {"orders": {"eventSubscriptions": {"refused": {"properties": {
            "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": receiver.url("/refused")}},
            "deadLetterDestination": {"endpointType": "S3Bucket", "properties": {"bucketName": "gridpost"}},
            "signing": {"scheme": "StandardWebhooks"},
        }}, "fine": {"properties": {
            "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": receiver.url("/fine")}},
        }}}}}});
        std::fs::write(&file, topics.to_string()).expect("written");
        let flags = ["dev", "--port", "0", "--quiet", "--speed", "60", "--memory", "--config"];
        let mut dev = command(&folder, &flags).arg(&file).spawn().expect("it runs");
        let ready = async {
            while !folder.path().join(".gridpost/local.json").exists() {
                assert!(dev.try_wait().expect("a process").is_none(), "it ended");
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, ready).await.expect("it is ready in time");
        Self { folder, _arrivals: arrivals, _receiver: receiver, _dev: dev }
    }

    /// A command of the program beside it.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        command(&self.folder, arguments)
    }

    /// Starts a console with those flags.
    pub(crate) async fn console(&self, flags: &[&str]) -> Running {
        let console = ["--json", "console", "--no-browser", "--port", "0"];
        let mut child = self.command(&console).args(flags).spawn().expect("it runs");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut text = String::new();
        let said: Value = loop {
            let line =
                timeout(PATIENCE, lines.next_line()).await.expect("in time").expect("a pipe");
            text.push_str(&line.expect("more"));
            if let Ok(document) = serde_json::from_str(&text) {
                break document;
            }
        };
        assert_eq!(said["readOnly"], flags.contains(&"--read-only"));
        let [url, sign_in_url] =
            ["url", "signInUrl"].map(|name| said[name].as_str().expect("a URL").to_owned());
        Running { url, sign_in_url, _child: child, _lines: lines }
    }

    /// A console of it, with a browser that is signed in.
    pub(crate) async fn browser(&self, flags: &[&str]) -> Browser {
        Browser::sign_in(self.console(flags).await).await
    }
}

fn command(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gridpost"));
    command.env_clear().current_dir(folder.path());
    command.arg("--home").arg(folder.path().join(".gridpost")).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// A running console. Dropping it stops it.
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) sign_in_url: String,
    _child: Child,
    _lines: Lines<BufReader<ChildStdout>>,
}

/// What a request was answered with.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
    pub(crate) location: Option<String>,
}

impl Answer {
    /// The page, which has that status and that text.
    #[track_caller]
    pub(crate) fn shows(&self, status: u16, part: &str) -> &str {
        assert_eq!(self.status, status, "{}", self.text);
        assert!(self.text.contains(part), "`{part}` is not in\n{}", self.text);
        &self.text
    }
}

/// A browser that is signed in.
pub(crate) struct Browser {
    pub(crate) http: reqwest::Client,
    pub(crate) cookie: String,
    pub(crate) token: String,
    console: Running,
}

/// A client that follows nothing by itself.
pub(crate) fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().redirect(Policy::none()).build().expect("a client")
}

impl Browser {
    pub(crate) async fn sign_in(console: Running) -> Self {
        let http = http();
        let answer = http.get(&console.sign_in_url).send().await.expect("an answer");
        assert_eq!(answer.status(), 303);
        let cookie = answer.headers()[SET_COOKIE].to_str().expect("text").to_owned();
        for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        let mut browser = Self { console, http, cookie, token: String::new() };
        let page = browser.get("/topics/orders/publish").await.text;
        browser.token = between(&page, "name=\"csrf\" value=\"", "\"").to_owned();
        browser
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        let request = self.http.get(format!("{}{path}", self.console.url));
        answer(request.header(COOKIE, &self.cookie)).await
    }

    /// Uses another host name than the console's.
    pub(crate) async fn get_as(&self, host: &str, path: &str) -> Answer {
        let request = self.http.get(format!("{}{path}", self.console.url)).header(HOST, host);
        answer(request.header(COOKIE, &self.cookie)).await
    }

    /// Sends a form as a page of the console would.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let fields = [&[("csrf", self.token.as_str())], fields].concat();
        self.post_from(&self.console.url, path, &fields).await
    }

    /// Sends a form as a page of that origin would, with those fields alone.
    pub(crate) async fn post_from(
        &self,
        origin: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Answer {
        let body = Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self.http.post(format!("{}{path}", self.console.url)).body(body);
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        answer(request.header(COOKIE, &self.cookie).header(ORIGIN, origin)).await
    }

    /// The beginning of a stream, until it has a text.
    pub(crate) async fn stream_until(&self, path: &str, last: Option<&str>, part: &str) -> String {
        let request = self.http.get(format!("{}{path}", self.console.url));
        let mut request = request.header(COOKIE, &self.cookie);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let mut answer = request.send().await.expect("an answer");
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let mut streamed = String::new();
        let read = async {
            while !(streamed.contains(part) && streamed.ends_with("\n\n")) {
                let chunk = answer.chunk().await.expect("a stream");
                let chunk = chunk.unwrap_or_else(|| panic!("it ended: {streamed}"));
                streamed.push_str(&String::from_utf8_lossy(&chunk));
            }
        };
        timeout(PATIENCE, read).await.unwrap_or_else(|_| panic!("`{part}` did not come"));
        streamed
    }

    /// Looks until a page has a text.
    pub(crate) async fn until(&self, path: &str, part: &str) -> Answer {
        let look = async {
            loop {
                let answer = self.get(path).await;
                if answer.text.contains(part) {
                    return answer;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("`{part}` did not come"))
    }

    /// Publishes an event with that id to `orders`.
    pub(crate) async fn publish(&self, id: &str) {
        let event = json!({"id": id, "eventType": "T", "subject": "s", "data": {}, "dataVersion": "1",
            "eventTime": "2030-01-02T03:04:05Z"});
        let fields = [("event", &*event.to_string()), ("action", "publish")];
        self.post("/topics/orders/publish", &fields).await.shows(200, "Accepted");
    }
}

pub(crate) async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let answer = request.send().await.expect("an answer");
    let policy = answer.headers().get("content-security-policy").expect("a policy");
    assert!(policy.to_str().expect("text").starts_with("default-src 'none'; script-src 'self'"));
    assert_eq!(answer.headers()["x-frame-options"], "DENY");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let status = answer.status().as_u16();
    let location = answer.headers().get(LOCATION).map(|it| it.to_str().expect("text").to_owned());
    Answer { status, location, text: answer.text().await.expect("text") }
}

/// What stands between two texts, the first time.
#[track_caller]
pub(crate) fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = text.split_once(start).unwrap_or_else(|| panic!("`{start}` is not in\n{text}")).1;
    rest.split_once(end).expect("an end").0
}

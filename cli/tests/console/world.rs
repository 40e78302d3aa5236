//! A `gridpost dev`, endpoints, a console in this process, and a browser as far as the server sees one.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::Duration;

use gridpost_console::{Console, Settings};
use gridpost_ops::{
    receiver::{Answers, Arrival, Behaviour, Receiver},
    target::TargetArguments,
};
use reqwest::header::{CONTENT_TYPE, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use url::form_urlencoded::Serializer;

/// Far longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// The event subscriptions of topic `orders`: `fine` is answered 200, `busy` 503, `refused` 400,
/// `locked` 401, and `none` wants nothing.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    _arrivals: UnboundedReceiver<Arrival>,
    _receiver: Receiver,
    _dev: Child,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::keeping(&["--memory"]).await
    }

    /// One that keeps its data where the flags say; in a folder without any.
    pub(crate) async fn keeping(where_to: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (receiver, arrivals) = endpoint().await;
        let file = folder.path().join("topics.json");
        std::fs::write(&file, topics(&receiver).to_string()).expect("written");
        let flags = ["dev", "--port", "0", "--quiet", "--speed", "60", "--config"];
        let mut dev = command(&folder, &flags);
        let mut dev = dev.arg(&file).args(where_to).spawn().expect("it runs");
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

    /// A console of it.
    pub(crate) async fn console(&self, read_only: bool) -> Running {
        self.console_of(None, read_only).await
    }

    /// A console that finds the manage API at another URL, where one is given.
    pub(crate) async fn console_of(&self, manage_url: Option<String>, read_only: bool) -> Running {
        let home = Some(self.folder.path().join(".gridpost"));
        let target = TargetArguments { home, manage_url, ..TargetArguments::default() };
        let settings = Settings {
            target: target.resolve().expect("it runs"),
            name: "test".to_owned(),
            flags: String::new(),
            read_only,
            port: 0,
        };
        let console = Console::bind(settings).await.expect("a port");
        let (url, sign_in_url) = (console.url(), console.sign_in_url());
        let serving = tokio::spawn(async move {
            console.serve().await.expect("it serves");
        });
        Running { url, sign_in_url, serving }
    }

    /// What its clock shows, in milliseconds since the Unix epoch.
    pub(crate) async fn now_ms(&self) -> i64 {
        let home = Some(self.folder.path().join(".gridpost"));
        let target = TargetArguments { home, ..TargetArguments::default() };
        let now = target.resolve().expect("it runs").now().await;
        now.expect("its clock").as_millis()
    }

    /// The URL of its manage API.
    pub(crate) fn manage_url(&self) -> String {
        let file = std::fs::read_to_string(self.folder.path().join(".gridpost/local.json"));
        let file: Value = serde_json::from_str(&file.expect("it runs")).expect("JSON");
        file["manageUrl"].as_str().expect("a URL").to_owned()
    }

    /// A console of it, with a browser that is signed in.
    pub(crate) async fn browser(&self, read_only: bool) -> Browser {
        Browser::sign_in(self.console(read_only).await).await
    }
}

fn command(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gridpost"));
    command.env_clear().current_dir(folder.path());
    command.arg("--home").arg(folder.path().join(".gridpost")).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn endpoint() -> (Receiver, UnboundedReceiver<Arrival>) {
    let (sender, arrivals) = unbounded_channel();
    let always = |status| Behaviour::prompt(Answers::always(status));
    let by_path = [("/busy", 503), ("/refused", 400), ("/locked", 401)];
    let by_path: HashMap<_, _> =
        by_path.into_iter().map(|(path, status)| (path.to_owned(), always(status))).collect();
    let address = "127.0.0.1:0".parse().expect("an address");
    let receiver = Receiver::start(address, by_path, always(200), sender).await.expect("a port");
    (receiver, arrivals)
}

fn topics(receiver: &Receiver) -> Value {
    let subscription = |path: &str, more: Value| {
        let destination =
            json!({"endpointType": "WebHook", "properties": {"endpointUrl": receiver.url(path)}});
        let mut properties = json!({"destination": destination});
        for (name, value) in more.as_object().expect("members") {
            properties[name] = value.clone();
        }
        json!({ "properties": properties })
    };
    let letters = json!({"endpointType": "S3Bucket", "properties": {"bucketName": "gridpost"}});
    let signing = json!({"signing": {"scheme": "StandardWebhooks"}});
    json!({"topics": {
        "orders": {"eventSubscriptions": {
            "fine": subscription("/fine", signing),
            "busy": subscription("/busy", json!({"filter": {"includedEventTypes": ["Busy"]}})),
            "refused": subscription("/refused", json!({"deadLetterDestination": letters,
                "filter": {"subjectBeginsWith": "refuse"}})),
            "locked": subscription("/locked", json!({"deadLetterDestination": letters,
                "filter": {"includedEventTypes": ["Locked"]}})),
            "none": subscription("/none", json!({"filter": {"includedEventTypes": ["None"]}})),
        }},
        "empty": {},
    }})
}

/// A console that is served until it is dropped.
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) sign_in_url: String,
    serving: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.serving.abort();
    }
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
    pub(crate) console: Running,
    pub(crate) http: reqwest::Client,
    pub(crate) cookie: String,
    pub(crate) token: String,
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

    /// What a page's form was made from, as its hidden fields have it.
    pub(crate) async fn made(&self, path: &str) -> [(&'static str, String); 2] {
        let page = self.get(path).await.text;
        ["etag", "was"].map(|name| {
            let start = format!("name=\"{name}\" value=\"");
            (name, unescaped(between(&page, &start, "\"")))
        })
    }

    /// Sends a form that was made from a state, with what was typed.
    pub(crate) async fn post_made(
        &self,
        path: &str,
        made: &[(&'static str, String); 2],
        typed: &[(&str, &str)],
    ) -> Answer {
        let made = made.iter().map(|(name, value)| (*name, value.as_str()));
        self.post(path, &made.chain(typed.iter().copied()).collect::<Vec<_>>()).await
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

    /// Asks by another name than the console's.
    pub(crate) async fn get_as(&self, host: &str, path: &str) -> Answer {
        let request = self.http.get(format!("{}{path}", self.console.url)).header(HOST, host);
        answer(request.header(COOKIE, &self.cookie)).await
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
        match timeout(PATIENCE, look).await {
            Ok(answer) => answer,
            Err(_) => panic!("`{part}` did not come; {path} shows\n{}", self.get(path).await.text),
        }
    }

    /// Publishes one event to `orders` by the console.
    pub(crate) async fn publish(&self, id: &str, kind: &str, subject: &str, data: Value) {
        let event = json!({"id": id, "eventType": kind, "subject": subject, "data": data,
            "eventTime": "2030-01-02T03:04:05Z", "dataVersion": "1"});
        let fields = [("event", event.to_string()), ("action", "publish".to_owned())];
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.post("/topics/orders/publish", &fields).await.shows(200, "Accepted");
    }

    /// An event of that id that becomes a dead letter of `orders/refused`; the letter's page.
    pub(crate) async fn dead_letter(&self, id: &str, kind: &str, data: Value) -> String {
        self.publish(id, kind, "refuse/it", data).await;
        let list = "/topics/orders/subscriptions/refused/dead-letters";
        let list =
            format!("{list}?{}", Serializer::new(String::new()).append_pair("event", id).finish());
        let start = "href=\"/topics/orders/subscriptions/refused/dead-letters/";
        let page = self.until(&list, start).await;
        format!(
            "/topics/orders/subscriptions/refused/dead-letters/{}",
            between(&page.text, start, "\"")
        )
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

/// A text of a page as it was before it was escaped.
pub(crate) fn unescaped(text: &str) -> String {
    let text = text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&amp;", "&")
}

/// What stands between two texts, the first time.
#[track_caller]
pub(crate) fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = text.split_once(start).unwrap_or_else(|| panic!("`{start}` is not in\n{text}")).1;
    rest.split_once(end).expect("an end").0
}

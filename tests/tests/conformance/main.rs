//! The specification's tables, row by row, against the code's.

mod cloud_events;
mod fixture;
mod gateway;
#[path = "../operators/manage.rs"]
mod manage;
mod reads;
mod rows;

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, TcpListener},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use gridpost_core::{
    delivery::request::Request,
    endpoint::{Allowed, check_url},
    publish::authenticate::{AccessRequest, Credentials, authenticate},
    retry::{
        Rules,
        health::{DELAYED_WAITS_S, Durations, ProbationPolicy, UNHEALTHY_AFTER},
        outcome::{Answer, Outcome, RESPONSE_WAIT},
        policy::RetryPolicy,
        profile::{EndpointKind, ProfileName, Rule},
        timeline::{self, End, Question},
    },
    secret::Secret,
    time::Timestamp,
    topic::{AccessKeys, InputSchema, Kind, Topic},
};
use gridpost_ports::{Attempted, EndpointClient};
use gridpost_runtime::system::SystemClock;
use gridpost_webhook::{
    guard::CheckedAddress,
    http::HttpClient,
    network::{Io, Network},
};
use http::HeaderMap;
use serde_json::Value;

const PROFILES: [(&str, ProfileName); 3] = [
    ("basic", ProfileName::Basic),
    ("basic2021", ProfileName::Basic2021),
    ("namespace", ProfileName::Namespace),
];

const KINDS: [(&str, EndpointKind); 2] =
    [("webhook", EndpointKind::Webhook), ("resource", EndpointKind::Resource)];

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("the tables are JSON")
}

fn profiles() -> Value {
    read(include_str!("../../conformance/profiles.json"))["profiles"].take()
}

fn rule(row: &Value) -> Rule {
    match row["retryAfterSeconds"].as_u64() {
        Some(seconds) => Rule::Retry { min_s: u32::try_from(seconds).expect("a short wait") },
        None => {
            assert_eq!(row, "end");
            Rule::End
        }
    }
}

#[test]
fn every_status_and_outcome_of_every_profile_is_followed_by_the_tables_rule() {
    let profiles = profiles();
    for (name, profile) in PROFILES {
        for (kind_name, kind) in KINDS {
            let rows = &profiles[name][kind_name];
            let want = |row: &str| rule(rows.get(row).unwrap_or(&rows["default"]));
            for status in 100..600 {
                let outcome = Outcome::of_status(status);
                let found = profile.profile().rule(kind, Some(status), outcome);
                assert_eq!(found, want(&status.to_string()), "{name} {kind_name} {status}");
            }
            for &outcome in Outcome::ALL {
                let found = profile.profile().rule(kind, None, outcome);
                assert_eq!(found, want(&outcome.to_string()), "{name} {kind_name} {outcome}");
            }
            for row in rows.as_object().expect("rows").keys().filter(|row| *row != "default") {
                let known = row.parse::<u16>().is_ok() || row.parse::<Outcome>().is_ok();
                assert!(known, "{name} {kind_name} has a row for {row}, which nothing asks");
            }
        }
    }
}

#[test]
fn every_profile_has_the_tables_schedule_and_limits() {
    let profiles = profiles();
    for (name, profile) in PROFILES {
        let (table, profile) = (&profiles[name], profile.profile());
        let steps: Vec<u64> = profile.schedule_s.iter().map(|step| u64::from(*step)).collect();
        assert_eq!(serde_json::json!(steps), table["scheduleSeconds"], "{name}");
        assert_eq!(table["thenEverySeconds"], profile.then_every_s, "{name}");
        let limits = &table["limits"];
        let attempts = limits.get("maxDeliveryAttempts").unwrap_or(&limits["maxDeliveryCount"]);
        let most = profile.attempts_max;
        assert_eq!(*attempts, serde_json::json!([1, most, most]), "{name}");
        let most = profile.time_to_live_minutes_max;
        match limits.get("eventTimeToLiveInMinutes") {
            Some(minutes) => assert_eq!(*minutes, serde_json::json!([1, most, most]), "{name}"),
            None => {
                assert_eq!(limits["eventTimeToLive"], serde_json::json!(["PT1M", "P7D", "P7D"]));
                assert_eq!(most, 7 * 24 * 60, "{name}");
            }
        }
    }
}

#[test]
fn steps_follow_the_schedule_for_weeks() {
    let profiles = profiles();
    for (name, profile) in PROFILES {
        let policy = RetryPolicy::default_of(profile);
        let table = &profiles[name];
        let listed = table["scheduleSeconds"].as_array().expect("a list").iter();
        let mut steps: Vec<u64> = listed.filter_map(Value::as_u64).collect();
        let gap = table["thenEverySeconds"].as_u64().expect("a number");
        while steps.len() < 100 {
            steps.push(steps[steps.len() - 1] + gap);
        }
        for (before, step) in std::iter::once(&0).chain(&steps).zip(&steps) {
            let times = [*before as f64, *step as f64 - 0.001];
            for elapsed_s in times {
                let found = policy.step_after(profile, elapsed_s);
                assert_eq!(found, *step, "{name} after {elapsed_s} s");
            }
        }
    }
}

#[test]
fn health_waits_as_long_as_the_table_says() {
    let table = read(include_str!("../../conformance/health.json"));
    let durations = Durations::default();
    for &outcome in Outcome::ALL {
        let want = table["probationSeconds"].get(outcome.to_string()).and_then(Value::as_u64);
        assert_eq!(durations.of(outcome).map(|wait| wait.as_secs()), want, "{outcome}");
    }
    let delayed = &table["delayedDelivery"];
    assert_eq!(delayed["afterConsecutiveFailures"], UNHEALTHY_AFTER);
    assert_eq!(delayed["waitSeconds"], serde_json::json!(DELAYED_WAITS_S));
}

#[test]
fn every_status_has_the_tables_outcome() {
    let table = read(include_str!("../../conformance/outcomes.json"));
    for (status, outcome) in table["webhook"].as_object().expect("rows") {
        let status: u16 = status.parse().expect("a status");
        assert_eq!(*outcome, Outcome::of_status(status).to_string(), "{status}");
    }
}

/// The state of a connection that decides about the answer.
enum Meets {
    Nothing,
    Bytes(&'static [u8]),
    Silence,
}

/// A listener that treats one connection so; its address.
fn listen(meets: Meets) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        match meets {
            Meets::Nothing => {}
            Meets::Bytes(bytes) => {
                std::io::Write::write_all(&mut stream, bytes).expect("written");
                thread::sleep(Duration::from_millis(200));
            }
            Meets::Silence => thread::sleep(RESPONSE_WAIT + Duration::from_secs(5)),
        }
    });
    address
}

fn request(url: &str) -> Request {
    Request {
        url: Secret::new(url),
        headers: Vec::new(),
        attributes: Vec::new(),
        body: b"[]".to_vec(),
        authentication: None,
        reads_results: false,
    }
}

async fn attempt(url: String) -> Answer {
    let networks = "127.0.0.0/8".parse().expect("a network");
    let allowed = Allowed { networks, ..Allowed::default() };
    let client = HttpClient::new(allowed, Arc::new(SystemClock)).expect("a client");
    match client.attempt(request(&url)).await {
        Attempted::Answered { answer, .. } => answer,
        Attempted::TimedOut { .. } => Answer::without_status(Outcome::TimedOut),
        Attempted::NotMade => panic!("there are descriptors"),
    }
}

/// Over real sockets on loopback. One row takes 30 s, all others run meanwhile.
#[tokio::test]
async fn every_transport_error_has_the_tables_outcome() {
    let table = read(include_str!("../../conformance/outcomes.json"));
    let refused = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("an address").to_string()
    };
    let urls = BTreeMap::from([
        ("noResponseIn30Seconds", format!("http://{}", listen(Meets::Silence))),
        ("connectionRefused", format!("http://{refused}")),
        ("connectionReset", format!("http://{}", listen(Meets::Nothing))),
        ("tlsFailure", format!("https://{}", listen(Meets::Bytes(b"this is not TLS at all")))),
        ("notHttp", format!("http://{}", listen(Meets::Bytes(b"220 mail.example ESMTP\r\n")))),
        ("dnsFailure", "https://no-such-host.invalid".to_owned()),
    ]);
    let rows = table["transport"].as_object().expect("rows").iter();
    let rows = rows.map(|(row, want)| {
        let url = urls.get(row.as_str()).unwrap_or_else(|| panic!("no such row: {row}")).clone();
        async move { (row, want, attempt(url).await) }
    });
    for (row, want, answer) in futures::future::join_all(rows).await {
        assert_eq!(*want, answer.outcome.to_string(), "{row}");
        assert_eq!(answer.status, None, "{row}");
    }
}

/// A network on which nothing listens. It answers what it is told to, and notes who is called.
#[derive(Debug, Default)]
struct Nobody {
    answers: Mutex<Vec<IpAddr>>,
    dialled: Mutex<Vec<String>>,
}

#[async_trait::async_trait]
impl Network for Nobody {
    async fn look_up(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(self.answers.lock().expect("not poisoned").clone())
    }

    async fn dial(&self, address: CheckedAddress) -> io::Result<Box<dyn Io>> {
        self.dialled.lock().expect("not poisoned").push(address.get().to_string());
        Err(io::ErrorKind::ConnectionRefused.into())
    }
}

/// Returns why a URL is refused before any request, by the name of the variant.
fn refusal(url: &str) -> Option<String> {
    let refusal = check_url(url, &Allowed::default()).err()?;
    let name = format!("{refusal:?}");
    Some(name.split(|char: char| !char.is_alphanumeric()).next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn every_url_is_allowed_or_refused_as_the_table_says() {
    let table = read(include_str!("../../conformance/endpoint_urls.json"));
    let rows = table["urls"].as_array().expect("a list");
    assert!(rows.len() >= 100, "{} rows", rows.len());
    let network = Arc::new(Nobody::default());
    let clock = Arc::new(SystemClock);
    let client = HttpClient::on(Arc::clone(&network) as _, Allowed::default(), clock);
    let client = client.expect("a client");
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        list.map(str::to_owned).collect()
    };
    let mut wrong = Vec::new();
    for row in rows {
        let url = row["url"].as_str().expect("a URL");
        let answers = if row.get("answers").is_some() {
            texts(&row["answers"])
        } else {
            vec!["93.184.215.14".to_owned()]
        };
        let parsed = answers.iter().map(|answer| answer.parse().expect("an address"));
        *network.answers.lock().expect("not poisoned") = parsed.collect();
        let Attempted::Answered { answer, .. } = client.attempt(request(url)).await else {
            panic!("{url}: an attempt that waits")
        };
        let dialled = std::mem::take(&mut *network.dialled.lock().expect("not poisoned"));
        let reason = row["reason"].as_str();
        let itself = reason.filter(|reason| !matches!(*reason, "Answer" | "Nothing"));
        let outcome = match reason {
            Some("Nothing") => Outcome::ResolutionError,
            _ => Outcome::SocketError,
        };
        let found = (refusal(url), dialled, answer.outcome);
        let want = (itself.map(str::to_owned), texts(&row["dials"]), outcome);
        assert_eq!(row["verdict"] == "allow", reason.is_none(), "{url}");
        if found != want {
            wrong.push(format!("{url:?}: {found:?}, not {want:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Set where the next test runs itself with proxies in its environment.
const IN_CHILD: &str = "GRIDPOST_TEST_WITH_PROXIES";

/// The environment is the process's, so it is another process that has proxies in it.
#[tokio::test]
async fn no_proxy_of_the_environment_is_used() {
    if std::env::var_os(IN_CHILD).is_none() {
        let me = std::env::current_exe().expect("a path");
        let mut child = std::process::Command::new(me);
        child.args(["--exact", "no_proxy_of_the_environment_is_used"]).env(IN_CHILD, "1");
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            child.env(name, "http://127.0.0.1:9").env(name.to_lowercase(), "http://127.0.0.1:9");
        }
        let output = child.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let network = Arc::new(Nobody::default());
    network.answers.lock().expect("not poisoned").push([93, 184, 215, 14].into());
    let allowed = Allowed { networks: "0.0.0.0/0".parse().expect("all"), ..Allowed::default() };
    let client = HttpClient::on(Arc::clone(&network) as _, allowed, Arc::new(SystemClock));
    let client = client.expect("a client");
    for url in ["https://example.com/", "http://example.com/"] {
        client.attempt(request(url)).await;
    }
    let dialled = network.dialled.lock().expect("not poisoned").clone();
    assert_eq!(dialled, ["93.184.215.14:443", "93.184.215.14:80"]);
}

/// An answer as the tables write it: a status or an outcome. A star at its end says that it repeats,
/// which the last one does anyway.
fn answer(text: &str) -> Answer {
    let text = text.trim_end_matches('*');
    match text.parse::<u16>() {
        Ok(status) => Answer::of_status(status, None),
        Err(_) => Answer::without_status(text.parse().expect("an outcome")),
    }
}

#[test]
fn every_schedule_runs_as_the_table_says() {
    let table = read(include_str!("../../conformance/schedules.json"));
    for row in table["scenarios"].as_array().expect("rows") {
        let named = |all: &[(&str, ProfileName)]| {
            all.iter().find(|(name, _)| row["profile"] == *name).map(|(_, profile)| *profile)
        };
        let profile = named(&PROFILES).expect("a profile");
        let kind = KINDS.iter().find(|(name, _)| row["endpoint"] == *name).expect("a kind").1;
        let number = |name: &str| {
            u32::try_from(row[name].as_u64().expect("a number")).expect("a small number")
        };
        let policy = RetryPolicy {
            max_attempts: number("maxAttempts"),
            time_to_live_minutes: number("ttlSeconds") / 60,
            ..RetryPolicy::default_of(profile)
        };
        let answers = row["responses"].as_array().expect("a list").iter();
        let answers: Vec<_> = answers.filter_map(Value::as_str).map(answer).collect();
        let timeline = timeline::play(&Question {
            rules: Rules { profile, kind, policy: &policy },
            probation_policy: ProbationPolicy::EventGrid,
            durations: &Durations::default(),
            answers: &answers,
            dice: 0.0,
        });
        let at: Vec<_> = timeline.attempts.iter().map(|attempt| attempt.at.as_secs()).collect();
        assert_eq!(serde_json::json!(at), row["attemptsAtSeconds"], "{}", row["name"]);
        let reason = match timeline.end {
            End::Delivered => "Delivered".to_owned(),
            End::Undelivered(reason) => reason.to_string(),
        };
        assert_eq!(row["end"]["reason"], reason, "{}", row["name"]);
        // The tables count a missing response's attempt as its beginning.
        let ended = row["end"]["atSeconds"].as_u64().expect("a number");
        let waited = if row["responses"][0] == "TimedOut" { RESPONSE_WAIT.as_secs() } else { 0 };
        let ends = timeline.ends_at.as_secs();
        assert!(ends == ended || ends == ended + waited, "{}: ends at {ends} s", row["name"]);
    }
}

/// Tokens that Azure's SDKs made, against the path that they were made for.
#[test]
fn every_token_of_the_table_opens_until_it_expires() {
    let table = read(include_str!("../../conformance/sas_tokens.json"));
    let key = table["keyBase64"].as_str().expect("a key");
    let at = |text: &str| Timestamp::parse_rfc_3339(text).expect("a time");
    let (before, after) = (at("2029-12-31T23:59:59Z"), at("2030-01-01T00:00:00Z"));
    let path = "/api/events";
    for token in table["tokens"].as_array().expect("rows") {
        let token = token.as_str().expect("a token");
        let open = |token: &str, keys: [&str; 2], path: &str, now| {
            let mut headers = HeaderMap::new();
            headers.insert("aeg-sas-token", token.parse().expect("a value"));
            let asked = AccessRequest { headers: &headers, query: "", path, resource: path };
            let keys = AccessKeys(keys.map(Secret::new));
            let opened = Credentials::of(&asked)
                .and_then(|shown| authenticate(&topic(), &keys, &shown, &asked, now));
            opened.map_or_else(|error| error.detail(), |()| "ok")
        };
        assert_eq!(open(token, [key, "b3RoZXI="], path, before), "ok", "{token}");
        assert_eq!(open(token, ["b3RoZXI=", key], path, before), "ok", "{token}");
        assert_eq!(open(token, [key, key], path, after), "TokenExpired", "{token}");
        let other = "/topics/orders/api/events";
        assert_eq!(open(token, [key, key], other, before), "TokenForOtherResource", "{token}");
        assert_eq!(open(token, ["b3RoZXI="; 2], path, before), "TokenRefused", "{token}");
        // Decoding and encoding again would not bring the signed text back.
        let lower = token.replace("%2F", "%2f").replace("%3A", "%3a");
        assert_eq!(open(&lower, [key, key], path, before), "TokenRefused", "{token}");
        let later = token.replace("2030", "2031");
        assert_eq!(open(&later, [key, key], path, before), "TokenRefused", "{token}");
    }
}

fn topic() -> Topic {
    Topic {
        name: "orders".to_owned(),
        kind: Kind::Custom,
        input_schema: InputSchema::EventGridSchema,
        input_schema_mapping: None,
        disable_local_auth: false,
        delivery_profile: ProfileName::Basic,
        idempotency: None,
        etag: uuid::Uuid::nil(),
        created_at: Timestamp::default(),
        revision: 1,
        changes: Default::default(),
    }
}

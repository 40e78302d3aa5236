//! A whole process, from a publish by HTTP to an endpoint on loopback, by a fast clock.

mod process {
    pub(super) mod issuer;
    pub(super) mod receiver;
}
#[path = "process/fixture.rs"]
mod fixture;
#[path = "process/journal.rs"]
mod journal;
#[path = "process/server.rs"]
mod server;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use fixture::{FAST, Fixture, event, until};
use gridpost_core::time::Timestamp;
use gridpost_ports::Clock;
use gridpost_runtime::system::SystemClock;
use gridpost_server::{DEAD_LETTER_BUCKET, Options, Server};
use gridpost_testkit::server::{self as endpoint, consent};
use process::{
    issuer::{CLIENT, Issuer},
    receiver::Receiver,
};
use reqwest::{Certificate, Client, StatusCode};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};

impl Fixture {
    async fn start(data: Option<&Path>) -> Self {
        Self::of(Options { data: data.map(Path::to_owned), ..Options::default() }).await
    }

    async fn put(&self, path: &str, document: &Value) -> Value {
        let answer = self.http.put(self.url(path)).json(document).send().await;
        let answer = answer.expect("an answer");
        let status = answer.status();
        let text = answer.text().await.expect("a body");
        assert!(status.is_success(), "PUT {path}: {status} {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.http.get(self.url(path)).send().await.expect("an answer");
        answer.json().await.expect("JSON")
    }

    /// Creates an event subscription for events of that type, with its own dead letters.
    async fn subscribe(&self, name: &str, endpoint: &str, bucket: &str) {
        let properties = json!({
            "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": endpoint}},
            "filter": {"includedEventTypes": [name]},
            "deadLetterDestination": {"endpointType": "S3Bucket",
                "properties": {"bucketName": bucket}},
        });
        let path = format!("/topics/orders/eventSubscriptions/{name}");
        self.put(&path, &json!({ "properties": properties })).await;
    }

    /// Waits for the counts of an event subscription.
    async fn counted(&self, name: &str, member: &str) {
        until(&format!("{member} of {name}"), async || {
            let counts = self.get("/dev/counts").await;
            let mut all = counts["value"].as_array().expect("a list").iter();
            all.any(|one| one["eventSubscription"] == name && one[member] == 1).then_some(())
        })
        .await;
    }
}

fn letters(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true => found.extend(letters(&path)),
            false => found.push(path),
        }
    }
    found.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    found
}

fn bucket(folder: &Path) -> PathBuf {
    folder.join("dead-letters").join(DEAD_LETTER_BUCKET)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_delivered_retried_and_dead_lettered() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = Fixture::start(Some(folder.path())).await;
    let receiver = Receiver::start().await;
    for (name, answers) in [("fine", &[][..]), ("twice", &[500, 500]), ("bad", &[400])] {
        receiver.script(name, answers);
        fixture.subscribe(name, &receiver.named(name), DEAD_LETTER_BUCKET).await;
        fixture.publish(name, &format!("{name}-1")).await;
    }
    for (name, attempts) in [("fine", 1), ("twice", 3), ("bad", 1)] {
        let look = async || Some(receiver.seen(name)).filter(|seen| seen.len() >= attempts);
        let seen = until(name, look).await;
        let counts: Vec<_> = seen.iter().map(|attempt| attempt.delivery_count).collect();
        assert_eq!(counts, (0..attempts).collect::<Vec<_>>(), "{name}");
        assert!(seen.iter().all(|attempt| attempt.event_id == format!("{name}-1")), "{name}");
    }
    let file = until("a dead letter", async || letters(&bucket(folder.path())).pop()).await;
    let letter: Value = serde_json::from_slice(&fs::read(file).expect("a file")).expect("JSON");
    assert_eq!((&letter[0]["id"], &letter[0]["deliveryAttempts"]), (&json!("bad-1"), &json!(1)));
    for (name, member) in [("fine", "delivered"), ("twice", "delivered"), ("bad", "deadLettered")] {
        fixture.counted(name, member).await;
    }
    // Settled deliveries are not attempted again.
    assert_eq!((receiver.seen("fine").len(), receiver.seen("bad").len()), (1, 1));
    fixture.dev.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_goes_after_its_retention() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = Fixture::of(Options {
        data: Some(folder.path().to_owned()),
        dead_letter_retention: Some(Duration::from_secs(60 * 60)),
        ..Options::default()
    });
    let (fixture, receiver) = (fixture.await, Receiver::start().await);
    receiver.script("bad", &[400]);
    fixture.subscribe("bad", &receiver.named("bad"), DEAD_LETTER_BUCKET).await;
    fixture.publish("bad", "bad-1").await;
    fixture.counted("bad", "deadLettered").await;
    let bucket = bucket(folder.path());
    // No empty folder is left in it.
    let is_empty = || fs::read_dir(&bucket).expect("the bucket stays").count() == 0;
    until("an empty bucket", async || is_empty().then_some(())).await;
    fixture.dev.stop().await;
}

/// Most of what waits for an endpoint that hangs was never attempted.
#[tokio::test(flavor = "multi_thread")]
async fn a_health_counts_all_that_waits() {
    const EVENTS: u64 = 1_000;
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = Fixture::start(Some(folder.path())).await;
    let hanging = endpoint::Server::start(|parts, body| async move {
        match consent(&parts, &body) {
            None => std::future::pending().await,
            consent => consent,
        }
    });
    let hanging = hanging.await.expect("a port");
    fixture.subscribe("hangs", &hanging.url(), DEAD_LETTER_BUCKET).await;
    for hundred in 0..EVENTS / 100 {
        let events =
            (0..100).map(|number| event("hangs", &format!("h-{hundred}-{number}"))[0].take());
        fixture.publish_all(&events.collect()).await;
    }
    let health = fixture.get("/topics/orders/eventSubscriptions/hangs/health").await;
    assert_eq!(health["waitingEvents"], EVENTS, "{health}");
    let failed = health["waitingDeliveries"]["count"].as_u64().expect("a count");
    assert!(failed < EVENTS / 2, "{health}");
    let healths = fixture.get("/topics/orders/healths").await;
    assert_eq!(healths["value"][0]["health"]["waitingEvents"], EVENTS, "{healths}");
    fixture.dev.stop().await;
}

/// Timeouts that guard real calls must not run on the fast clock.
#[tokio::test(flavor = "multi_thread")]
async fn all_that_a_pause_has_held_comes_once() {
    const EVENTS: usize = 4_000;
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = Fixture::start(Some(folder.path())).await;
    let receiver = Receiver::start().await;
    fixture.subscribe("held", &receiver.named("held"), DEAD_LETTER_BUCKET).await;
    let path = "/topics/orders/eventSubscriptions/held";
    let change = async |verb: &str| {
        let asked = fixture
            .http
            .post(fixture.url(&format!("{path}/{verb}")))
            .json(&json!({"timeToLiveRuns": true}));
        let answer = asked.send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK, "{verb}");
    };
    change("pause").await;
    for hundred in 0..EVENTS / 100 {
        let events =
            (0..100).map(|number| event("held", &format!("h-{hundred}-{number}"))[0].take());
        fixture.publish_all(&events.collect()).await;
    }
    let parked = async || {
        let (mut count, mut path) = (0, "/parked".to_owned());
        loop {
            let page = fixture.get(&path).await;
            count += page["value"].as_array().map_or(0, Vec::len);
            let Some(next) = page["nextLink"].as_str() else { return count };
            path = next.trim_start_matches(&fixture.url("")).to_owned();
        }
    };
    until("what is held", async || (parked().await == EVENTS).then_some(())).await;
    assert_eq!(receiver.seen("held").len(), 0);
    change("resume").await;
    until("all of it", async || (receiver.seen("held").len() >= EVENTS).then_some(())).await;
    // wake runs every 0.1 s, so that any duplicates have been sent by then.
    sleep(Duration::from_secs(3)).await;
    let seen = receiver.seen("held");
    let once: BTreeSet<_> = seen.iter().map(|attempt| &attempt.event_id).collect();
    assert_eq!((seen.len(), once.len(), parked().await), (EVENTS, EVENTS, 0));
    fixture.dev.stop().await;
}

/// Open requests must not keep the folder locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_dropped_leaves_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = Fixture::start(Some(folder.path())).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let endpoint = format!("http://{}", silent.local_addr().expect("an address"));
    let http = fixture.http.clone();
    let path = fixture.url("/topics/orders/eventSubscriptions/silent");
    let document = json!({"properties": {"destination": {"endpointType": "WebHook",
        "properties": {"endpointUrl": endpoint}}}});
    // Keeps the handshake unanswered.
    let asked = tokio::spawn(async move { http.put(path).json(&document).send().await });
    let _unanswered = silent.accept().await.expect("a handshake");
    let dropped_at = Instant::now();
    drop(fixture);
    asked.await.expect("no panic").expect_err("it ends with the process");
    until("the folder", async || {
        let options = Options { data: Some(folder.path().to_owned()), ..Options::default() };
        Server::start(options).await.ok()
    })
    .await;
    assert!(dropped_at.elapsed() < Duration::from_secs(10), "a handshake takes longer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_goes_on_with_the_schedule() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = Fixture::start(Some(folder.path())).await;
    let receiver = Receiver::start().await;
    receiver.script("often", &[500, 500, 500]);
    fixture.subscribe("often", &receiver.named("often"), DEAD_LETTER_BUCKET).await;
    fixture.publish("often", "o-1").await;
    until("the second attempt", async || (receiver.seen("often").len() >= 2).then_some(())).await;
    let stopped_at = fixture.dev.clock().now();
    fixture.dev.stop().await;

    let fixture = Fixture::start(Some(folder.path())).await;
    assert!(fixture.dev.clock().now() >= stopped_at, "the clock went back");
    let attempts = until("the success", async || {
        Some(receiver.seen("often")).filter(|seen| seen.iter().any(|it| it.status == 200))
    });
    // Interrupted attempts may be repeated; none is left out.
    let counts: Vec<_> = attempts.await.iter().map(|attempt| attempt.delivery_count).collect();
    let each = [0, 1, 2].iter().all(|count| counts.contains(count));
    assert!(counts.is_sorted() && each, "{counts:?}");
    fixture.counted("often", "delivered").await;
    fixture.dev.stop().await;
}

/// What is under way needs the rest of the disk.
#[tokio::test(flavor = "multi_thread")]
async fn below_the_floor_of_the_disk_publishes_are_refused_and_deliveries_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = Fixture::start(Some(folder.path())).await;
    let receiver = Receiver::start().await;
    // However late the process stops, the delivery is left for the next one, and has not long to wait.
    receiver.script("often", &[500; 100]);
    let properties = json!({
        "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": receiver.named("often")}},
        "filter": {"includedEventTypes": ["often"]},
        "retryPolicy": {"schedule": [3_600]},
    });
    let path = "/topics/orders/eventSubscriptions/often";
    fixture.put(path, &json!({ "properties": properties })).await;
    fixture.publish("often", "o-1").await;
    until("an attempt", async || receiver.seen("often").pop()).await;
    fixture.dev.stop().await;

    let data = Some(folder.path().to_owned());
    let fixture =
        Fixture::of(Options { data, disk_floor: Some(u64::MAX), ..Options::default() }).await;
    let publish = fixture.http.post(fixture.url("/topics/orders/api/events"));
    let publish = publish.header("aeg-sas-key", fixture.key("orders").await);
    let answer = publish.json(&event("often", "o-2")).send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers()["retry-after"], "1");
    let refusal: Value = answer.json().await.expect("JSON");
    assert_eq!(refusal["error"]["code"], "ServiceUnavailable");
    receiver.script("often", &[]);
    fixture.counted("often", "delivered").await;
    assert!(receiver.seen("often").iter().all(|seen| seen.event_id == "o-1"));
    fixture.dev.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_does_not_run_on_while_no_process_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = Fixture::start(Some(folder.path())).await;
    let stopped_at = fixture.dev.clock().now();
    fixture.dev.stop().await;
    // As left by a process that was killed an hour ago.
    let file = folder.path().join("clock.json");
    let anchor = fs::read(&file).expect("the clock's file");
    let mut anchor: Value = serde_json::from_slice(&anchor).expect("JSON");
    let machine_ms = anchor["machineMs"].as_i64().expect("a time");
    anchor["machineMs"] = json!(machine_ms - 3_600_000);
    anchor["speed"] = json!(FAST);
    fs::write(&file, anchor.to_string()).expect("written");

    let data = Some(folder.path().to_owned());
    let dev = Server::start(Options { data, ..Options::default() }).await.expect("it starts");
    let now = dev.clock().now();
    assert!(now >= stopped_at, "the clock went back");
    // It would be 600 hours ahead.
    assert!(now.since(stopped_at) < Duration::from_secs(100 * 3_600), "{stopped_at} {now}");
    dev.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_file_of_the_clock_does_not_stop_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("clock.json");
    // As left by a fast process: decades ahead of the machine.
    let ahead = Timestamp::from_millis(4_000_000_000_000);
    let anchor = json!({"machineMs": ahead.as_millis(), "clockMs": ahead.as_millis(), "speed": 1});
    fs::write(&file, anchor.to_string()).expect("written");
    let fixture = Fixture::start(Some(folder.path())).await;
    fixture.dev.stop().await;
    fs::write(&file, "").expect("written");

    let data = Some(folder.path().to_owned());
    let dev = Server::start(Options { data, ..Options::default() }).await.expect("it starts");
    assert!(dev.clock().now() >= ahead, "{}", dev.clock().now());
    dev.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_settled_comes_back_alone_and_is_poison_at_last() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = Some(folder.path().to_owned());
    let fixture = Fixture::of(Options { data, receives_max: 3, ..Options::default() }).await;
    let receiver = Receiver::start().await;
    // A file instead of a bucket accepts no dead letter.
    fs::create_dir_all(folder.path().join("dead-letters")).expect("a folder");
    fs::write(folder.path().join("dead-letters").join("blocked"), "").expect("a file");
    for (name, bucket) in [("held", "blocked"), ("bad", DEAD_LETTER_BUCKET)] {
        receiver.script(name, &[400]);
        fixture.subscribe(name, &receiver.named(name), bucket).await;
    }
    for name in ["held", "bad"] {
        fixture.publish(name, &format!("{name}-1")).await;
    }
    fixture.counted("bad", "deadLettered").await;
    let poison = until("the poison message", async || {
        let listed = fixture.get("/poison").await;
        listed["value"].as_array().filter(|all| !all.is_empty()).cloned()
    });
    let poison = poison.await;
    assert_eq!(poison.len(), 1);
    assert_eq!(poison[0]["delivery"]["eventSubscription"], "held", "{}", poison[0]);
    assert_eq!(letters(&bucket(folder.path())).len(), 1);
    fixture.dev.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_aws_resources_are_refused() {
    let fixture = Fixture::start(None).await;
    let ask = |host: &'static str| {
        let request = fixture.http.post(fixture.url("/topics/orders/listKeys"));
        request.header("host", host).send()
    };
    assert_eq!(ask("localhost:1").await.expect("an answer").status(), StatusCode::OK);
    let refused = ask("rebound.example").await.expect("an answer");
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    assert!(refused.headers().keys().all(|name| !name.as_str().starts_with("access-control")));

    let destination = json!({"endpointType": "SqsQueue",
        "properties": {"resourceId": "arn:aws:sqs:eu-north-1:111122223333:orders"}});
    let path = fixture.url("/topics/orders/eventSubscriptions/queue");
    let document = json!({"properties": {"destination": destination}});
    let refused = fixture.http.put(path).json(&document).send().await.expect("an answer");
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    let told = refused.text().await.expect("a body");
    for part in ["delivers to with --allow-aws", "the feature aws", "`gridpost up`"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    assert!(!told.contains("Terraform variable"), "{told}");
    fixture.dev.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_misses_the_publish_path_is_told_it() {
    let fixture = Fixture::of(Options::default()).await;
    let table = [
        ("GET", "/topics/orders/api/events"),
        ("PUT", "/topics/orders:publish"),
        ("GET", "/topics/orders/api/event"),
        ("POST", "/topics/orders/api/event"),
    ];
    for (method, path) in table {
        let method = method.parse().expect("a method");
        let answer =
            fixture.http.request(method, fixture.url(path)).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
        let told = answer.text().await.expect("a body").to_lowercase();
        assert!(told.contains("publish with post to /topics/"), "{path}: {told}");
        assert!(told.contains("/api/events"), "{path}: {told}");
    }
    fixture.dev.stop().await;
}

/// Receivers and publishers use the machine's clock.
#[tokio::test(flavor = "multi_thread")]
async fn what_others_date_goes_by_the_machines_clock() {
    let (fixture, receiver) = (Fixture::of(Options::default()).await, Receiver::start().await);
    let signing = json!({"properties": {
        "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": receiver.named("dated")}},
        "signing": {"scheme": "StandardWebhooks"},
    }});
    let path = fixture.url("/topics/orders/eventSubscriptions/dated");
    let made = fixture.http.put(path).json(&signing).send().await.expect("an answer");
    assert_eq!(made.status(), StatusCode::CREATED, "{}", made.text().await.expect("a text"));
    // By now, the process's clock is ten minutes ahead.
    sleep(Duration::from_secs(1)).await;
    receiver.script("dated", &[503]);
    let now = SystemClock.now().as_millis().unsigned_abs();
    let ahead = SystemTime::UNIX_EPOCH + Duration::from_millis(now) + Duration::from_secs(600);
    receiver.state().retry_after = Some(httpdate::fmt_http_date(ahead));
    let before = now / 1_000;
    let began = Instant::now();
    fixture.publish("dated", "1").await;
    let twice = async || Some(receiver.seen("dated")).filter(|seen| seen.len() == 2);
    let seen = until("a second attempt", twice).await;
    // Ten minutes of the process's clock, less the second that dates omit.
    assert!(began.elapsed() > Duration::from_millis(990), "{:?}", began.elapsed());
    for attempt in seen {
        let signed_at = attempt.signed_at.expect("it is signed");
        assert!((before..before + 60).contains(&signed_at), "{signed_at}, not {before}");
    }
    fixture.dev.stop().await;
}

/// API Gateway joins headers of one name by a comma.
#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_is_given_twice_is_refused() {
    let fixture = Fixture::of(Options::default()).await;
    let document = json!({"properties": {
        "inputSchema": "CloudEventSchemaV1_0", "idempotency": {"windowInSeconds": 300}}});
    let made = fixture.http.put(fixture.url("/topics/clouds")).json(&document).send().await;
    assert_eq!(made.expect("an answer").status(), StatusCode::CREATED);
    let table = [
        ("clouds", "ce-id", ["1", "2"]),
        ("clouds", "ce-type", ["T", "T"]),
        ("clouds", "ce-source", ["/s", "/t"]),
        ("clouds", "ce-specversion", ["1.0", "1.0"]),
        ("clouds", "ce-partitionkey", ["a", "b"]),
        ("clouds", "content-type", ["text/plain", "application/json"]),
        ("clouds", "idempotency-key", ["a", "b"]),
        ("clouds", "x-ms-client-request-id", ["a", "a"]),
        ("orders", "content-type", ["application/json", "application/json"]),
    ];
    for (topic, name, values) in table {
        let request = fixture.http.post(fixture.url(&format!("/topics/{topic}/api/events")));
        let request = request.header("aeg-sas-key", fixture.key(topic).await);
        let once =
            [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "T")];
        let once = once.into_iter().filter(|(one, _)| *one != name);
        let request = once.fold(request, |request, (name, value)| request.header(name, value));
        let request = values.iter().fold(request, |request, value| request.header(name, *value));
        let answer = request.body("[]").send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{name}");
        let told: Value = answer.json().await.expect("JSON");
        assert_eq!(told["error"]["details"][0]["code"], "InputHeaderInvalid", "{told}");
        let message = told["error"]["message"].as_str().expect("a text");
        assert!(message.contains(&format!("'{name}' is given twice")), "{message}");
    }
    fixture.dev.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_https_who_trusts_the_ca_is_served_and_no_other_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let tls = Some(folder.path().join("tls"));
    let dev = Server::start(Options { tls, ..Options::default() }).await.expect("it starts");
    assert!(dev.url().starts_with("https://127.0.0.1:"), "{}", dev.url());
    let ca = fs::read(dev.ca_file().expect("a CA")).expect("a certificate");
    let ca = Certificate::from_pem(&ca).expect("a certificate");
    let trusting = Client::builder().no_proxy().tls_certs_only([ca]).build().expect("a client");
    for host in ["127.0.0.1", "localhost"] {
        let url = dev.url().replace("127.0.0.1", host);
        let made = trusting.put(format!("{url}/topics/orders")).json(&json!({})).send().await;
        let made: Value = made.expect("an answer").json().await.expect("JSON");
        let endpoint = made["properties"]["endpoint"].as_str().expect("an endpoint");
        assert_eq!(endpoint, format!("{}/topics/orders/api/events", dev.url()));
        let keys = trusting.post(format!("{url}/topics/orders/listKeys")).send().await;
        let keys: Value = keys.expect("an answer").json().await.expect("JSON");
        let key = keys["key1"].as_str().expect("a key");
        let publish = trusting.post(endpoint.replace("127.0.0.1", host)).header("aeg-sas-key", key);
        let answer = publish.json(&event("T", "1")).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK, "{host}");
    }
    let stranger = Client::builder().no_proxy().build().expect("a client");
    let refused = stranger.get(format!("{}/topics", dev.url())).send().await;
    let told = format!("{:?}", refused.expect_err("it does not trust the CA"));
    assert!(told.contains("UnknownIssuer"), "{told}");
    let plain = dev.url().replace("https", "http");
    assert!(stranger.get(format!("{plain}/topics")).send().await.is_err());
    dev.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_has_one_process_and_a_port_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = Fixture::start(Some(folder.path())).await;
    let port = fixture.dev.address().port();
    let taken = Server::start(Options { port, ..Options::default() }).await;
    assert!(taken.is_err_and(|error| error.to_string().contains(&port.to_string())));
    let data = Some(folder.path().to_owned());
    let taken = Server::start(Options { data: data.clone(), ..Options::default() }).await;
    assert!(taken.is_err(), "two processes on one folder would both deliver");
    fixture.dev.stop().await;
    let next = Server::start(Options { data, ..Options::default() }).await.expect("it is free");
    next.stop().await;
}

/// Creates an event subscription with an issuer's tokens, by that secret.
async fn subscribe_with_tokens(
    fixture: &Fixture,
    name: &str,
    issuer: &Issuer,
    secret: &str,
) -> String {
    let authentication = json!({
        "type": "OAuth2ClientCredentials",
        "properties": {"tokenUrl": issuer.token_url(), "clientId": CLIENT.0, "clientSecret": secret},
    });
    fixture.subscribe_by(name, &issuer.endpoint(), authentication).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_authenticates_by_tokens_that_expire_and_are_revoked() {
    let (fixture, issuer) = (Fixture::start(None).await, Issuer::start().await);
    issuer.state().expires_in = 86_400;
    // The handshake needs a token: with a wrong secret nothing is stored.
    let refused = subscribe_with_tokens(&fixture, "safe", &issuer, "another").await;
    assert!(refused.contains("answered 401 (invalid_client)"), "{refused}");
    assert_eq!(issuer.state().seen, [], "nothing is sent without a token");
    let stored = subscribe_with_tokens(&fixture, "safe", &issuer, CLIENT.1).await;
    assert!(stored.contains("Succeeded") && !stored.contains(CLIENT.1), "{stored}");
    fixture.publish("safe", "1").await;
    let came = async |id: &str| {
        let look = async || {
            let state = issuer.state();
            let found = state.seen.iter().find(|(seen, _, status)| seen == id && *status == 200);
            found.map(|(_, token, _)| token.clone())
        };
        until(id, look).await
    };
    let first = came("1").await;
    // Revoked: the next event has a new token, after a 401 that does not count. The first token is over a
    // minute old by this clock.
    sleep(Duration::from_millis(300)).await;
    let next = format!("token-{}", issuer.state().issued + 1);
    // The next one lives an hour, which takes 6 s by this clock.
    issuer.state().expires_in = 3_600;
    issuer.state().only = Some(next.clone());
    fixture.publish("safe", "2").await;
    assert_eq!(came("2").await, next);
    let of_two: Vec<_> = issuer.state().seen.iter().filter(|one| one.0 == "2").cloned().collect();
    let two = || "2".to_owned();
    assert_eq!(of_two, [(two(), first, 401), (two(), next, 200)]);
    issuer.state().only = None;
    let before = issuer.state().issued;
    sleep(Duration::from_millis(6_500)).await;
    fixture.publish("safe", "3").await;
    assert_eq!(came("3").await, format!("token-{}", before + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_token_endpoints_change_nothing_but_their_own_outcome() {
    let (fixture, issuer) = (Fixture::start(None).await, Issuer::start().await);
    issuer.state().expires_in = 0;
    subscribe_with_tokens(&fixture, "safe", &issuer, CLIENT.1).await;
    let before = issuer.state().seen.len();
    let table = [
        (200, "<html>", "not a JSON object"),
        (200, r#"{"access_token": "a\r\nx-evil: 1", "token_type": "Bearer"}"#, "characters"),
        (200, r#"{"access_token": 7}"#, "missing"),
        (307, "", "answered 307"),
        (500, r#"{"error": "x\ny"}"#, "answered 500"),
    ];
    for (number, (status, answer, want)) in table.into_iter().enumerate() {
        issuer.state().refuses = Some((status, answer));
        let met = fixture.test("safe", &format!("hostile-{number}")).await;
        assert_eq!(met["outcome"], "EndpointAuthenticationFailed", "{met}");
        assert!(met["response"].as_str().is_some_and(|said| said.contains(want)), "{met}");
        // The next request follows after 2 s of this clock.
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(issuer.state().seen.len(), before, "the endpoint heard nothing");
    issuer.state().refuses = None;
    assert_eq!(fixture.test("safe", "at last").await["outcome"], "Delivered");
}

/// The publish of a client that disconnects is completed: repeated, it is answered at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_publish_is_carried_out_though_its_client_has_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = Fixture::start(Some(folder.path())).await;
    let receiver = Receiver::start().await;
    fixture
        .put("/topics/orders", &json!({"properties": {"idempotency": {"windowInSeconds": 86_400}}}))
        .await;
    fixture.subscribe("kept", &receiver.named("kept"), DEAD_LETTER_BUCKET).await;
    let keys = fixture.http.post(fixture.url("/topics/orders/listKeys")).send().await;
    let keys: Value = keys.expect("an answer").json().await.expect("keys");
    let body = event("kept", "k-1").to_string();
    let request = fixture.http.post(fixture.url("/topics/orders/api/events"));
    let request = request
        .header("aeg-sas-key", keys["key1"].as_str().expect("a key"))
        .header("idempotency-key", "left")
        .header("content-type", "application/json")
        .body(body);
    let held = rusqlite::Connection::open(folder.path().join("gridpost.sqlite")).expect("the file");
    held.execute_batch("BEGIN IMMEDIATE").expect("the writer's lock");
    let again = request.try_clone().expect("the same request");
    let left = request.timeout(Duration::from_millis(300)).send().await;
    assert!(left.expect_err("no answer in time").is_timeout());
    sleep(Duration::from_millis(200)).await;
    held.execute_batch("ROLLBACK").expect("the lock is given back");
    fixture.counted("kept", "delivered").await;
    let answer = again.send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(receiver.seen("kept").len(), 1);
    fixture.dev.stop().await;
}

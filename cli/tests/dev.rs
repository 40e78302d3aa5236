//! `gridpost dev` as a developer runs it: the program itself, other commands beside it, signals.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::{ExitStatus, Output, Stdio},
    time::Duration,
};

use gridpost_ops::receiver::{Answers, Arrival, Behaviour, Purpose, Receiver};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::AsyncReadExt,
    process::{Child, Command},
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::{Instant, sleep, timeout},
};

#[path = "dev/azure.rs"]
mod azure;
#[path = "dev/beside.rs"]
mod beside;
#[path = "dev/descriptors.rs"]
mod descriptors;
#[path = "dev/terminal.rs"]
mod terminal;
#[path = "dev/unwilling.rs"]
mod unwilling;

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
        self.ready(self.gridpost(&format!("dev --port 0 {flags}"))).await
    }

    /// Starts a process by that command and waits until other commands find it.
    async fn ready(&self, mut command: Command) -> Child {
        let mut child = command.spawn().expect("it runs");
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
    endpoint_after(answers, Duration::ZERO).await
}

async fn endpoint_after(answers: &str, delay: Duration) -> (Receiver, UnboundedReceiver<Arrival>) {
    let (sender, arrivals) = unbounded_channel();
    let answers: Answers = answers.parse().expect("answers");
    let address = "127.0.0.1:0".parse().expect("an address");
    let behaviour = Behaviour { answers, delay };
    let receiver = Receiver::start(address, HashMap::new(), behaviour, sender).await;
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

    let waited = place.run("wait --topic Orders --subscription BILLING --delivered 1").await;
    assert!(code(&waited, 0).contains("1 of 1 delivered"));
    for (line, part) in [
        ("status", "topic orders"),
        ("audit", "The ledger balances"),
        ("explain e-1 --topic orders", "Delivered (200)"),
        ("explain e-1 --topic ORDERS", "Delivered (200)"),
        ("audit --topic Orders --subscription BILLING", "The ledger balances"),
        ("subscription show --topic Orders --name bILLING", "billing"),
        ("subscription health --topic ORDERS --name Billing", "orders/billing"),
        ("explain e-1 --topic ORDERS", "event e-1 of topic orders"),
        ("subscription health", "Healthy"),
    ] {
        let told = code(&place.run(line).await, 0);
        assert!(told.contains(part), "{line}: {told}");
    }
    for id in ["a\tb", "e \"2\"\\n", "\n", "é\u{7f}\u{85}", "\u{1b}[1Agone"] {
        let events = json!([{"id": id, "eventType": "T", "subject": "s", "data": {},
            "eventTime": "2030-01-02T03:04:05Z", "dataVersion": "1"}]);
        place.write("events.json", &events.to_string());
        code(&place.run("publish --topic orders --file events.json").await, 0);
        assert_eq!(next_delivery(&mut arrivals).await.events()[0]["id"], id);
        let mut asked = place.gridpost("explain --topic orders");
        let told = code(&asked.arg(id).output().await.expect("it runs"), 0);
        assert!(told.contains("Delivered (200)"), "{id:?}: {told}");
    }
    assert!(code(&place.run("down").await, 2).contains("gridpost dev"));
    assert!(end(dev, Signal::TERM).await.success());
    assert!(!place.connection_file().exists());
    code(&place.run("wait --topic orders --delivered 1").await, 2);
}

#[tokio::test]
async fn a_deleted_topic_has_a_history_and_a_misspelt_one_exits_2() {
    let place = Place::new();
    let (receiver, mut arrivals) = endpoint("200").await;
    place.write("topics.json", &declared(&receiver.url("/hook")));
    let _dev = place.dev("--memory --quiet --config topics.json").await;
    code(&place.run("publish --topic orders --type T --id e-1").await, 0);
    next_delivery(&mut arrivals).await;
    code(&place.run("wait --topic orders --delivered 1").await, 0);
    for line in [
        "audit --topic order",
        "audit --topic orders --subscription bilin",
        "explain e-1 --topic order",
        "subscription health --topic order",
        "subscription health --topic orders --subscription bilin",
        "tail --topic order --since 1h --no-follow",
        "wait --topic order --delivered 1 --timeout 1ms",
    ] {
        let told = code(&place.run(line).await, 2);
        assert!(told.contains("did you mean "), "{line}: {told}");
    }
    code(&place.run("topic delete orders --yes").await, 0);
    for (line, part) in [
        ("audit --topic orders", "The ledger balances"),
        ("explain e-1 --topic orders", "Delivered (200)"),
        ("tail --topic orders --since 1h --no-follow", "Delivered (200)"),
    ] {
        let told = code(&place.run(line).await, 0);
        assert!(told.contains(part), "{line}: {told}");
    }
    for line in ["explain e-2 --topic orders", "tail --topic orders"] {
        assert!(code(&place.run(line).await, 2).contains("there is no topic `orders`"), "{line}");
    }
}

#[tokio::test]
async fn every_problem_of_a_declaration_ends_it() {
    let place = Place::new();
    let endpoint = json!({"properties": {"destination": {"endpointType": "WebHook",
        "properties": {"endpointUrl": "http://127.0.0.1:9/"}}}});
    let refused = json!({"topics": {
        "x": {"properties": {"inputSchema": "None"},
            "eventSubscriptions": {"below": {"properties": {"labels": 1}}}},
        "orders": {"eventSubscriptions": {"billing": endpoint, "other": {"properties": 1}}},
    }});
    let file = place.write("refused.json", &refused.to_string());
    let line = format!("dev --port 0 --memory --quiet --config {}", file.display());
    let told = code(&place.run(&line).await, 1);
    for part in [
        "topics.x:",
        "eventSubscriptions.below: properties.labels",
        "eventSubscriptions.billing:",
        "eventSubscriptions.other:",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
    assert!(!place.connection_file().exists());
    place.write("broken.toml", "topics = 1");
    code(&place.run("dev --port 0 --memory --quiet --config broken.toml").await, 2);
}

/// An export, and what it says beside it.
/// Without AWS's SDK it says how to have it, and with it what it looks for; it never starts as if nothing
/// had been asked for.
#[tokio::test]
async fn resources_are_delivered_to_only_by_a_program_that_can() {
    let place = Place::new();
    let mut asked = place.gridpost("dev --quiet --port 0 --memory --allow-aws");
    for name in ["AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"] {
        asked.env_remove(name);
    }
    asked.env("AWS_CONFIG_FILE", "none").env("AWS_EC2_METADATA_DISABLED", "true");
    let refused = code(&asked.output().await.expect("it runs"), 2);
    let missing = if cfg!(feature = "aws") { "no AWS region" } else { "--features aws" };
    assert!(refused.contains(missing), "{refused}");
    assert!(!place.connection_file().exists());
}

async fn exported(place: &Place, flags: &str) -> (Value, String) {
    let output = place.run(&format!("export {flags}")).await;
    let told = text(&output.stderr);
    assert!(output.status.success(), "{told}");
    (serde_json::from_slice(&output.stdout).expect("JSON"), told)
}

/// Topics of all kinds, with event subscriptions that have what there is.
fn all_kinds(endpoint_url: &str) -> Value {
    let header = |name: &str, value: &str, is_secret: bool| {
        json!({"name": name, "type": "Static",
        "properties": {"value": value, "isSecret": is_secret}})
    };
    let billing = json!({"properties": {
        "destination": {"endpointType": "WebHook", "properties": {
            "endpointUrl": format!("{endpoint_url}?code=s-1"),
            "maxEventsPerBatch": 10,
            "deliveryAttributeMappings": [header("X-T", "s-2$${HOME}$", true), header("X-P", "p", false)],
        }},
        "filter": {"includedEventTypes": ["T"], "advancedFilters": [
            {"operatorType": "NumberIn", "key": "data.n", "values": [1, 2.5]}]},
        "retryPolicy": {"schedule": [5, 30], "maxDeliveryAttempts": 3},
        "deadLetterDestination": {"endpointType": "S3Bucket",
            "properties": {"bucketName": "gridpost", "prefix": "a/../b"}},
        "signing": {"scheme": "StandardWebhooks"},
        "labels": ["l"],
    }});
    let plain = json!({"properties": {"destination": {"endpointType": "WebHook",
        "properties": {"endpointUrl": endpoint_url}}}});
    let mapping = json!({"inputSchemaMappingType": "Json",
        "properties": {"id": {"sourceField": "orderId"}}});
    json!({"topics": {
        "orders": {"eventSubscriptions": {"billing": billing, "plain": plain}},
        "own": {"properties": {"inputSchema": "CustomEventSchema", "inputSchemaMapping": mapping}},
        "space": {"kind": "namespace", "eventSubscriptions": {"plain": plain}},
    }})
}

/// Everything that an apply of these documents says, and what it leaves.
#[tokio::test]
async fn an_apply_says_what_differs_and_prunes_what_is_asked_for() {
    let (receiver, _arrivals) = endpoint("200").await;
    let place = Place::new();
    let mut document = all_kinds(&receiver.url("/hook"));
    place.write("topics.json", &document.to_string());
    place.write("none.json", r#"{"topics": {}}"#);
    let _dev = place.dev("--memory --no-demo --config none.json").await;
    let names = "topics.orders, topics.orders.eventSubscriptions.billing, \
                 topics.orders.eventSubscriptions.plain, topics.own, topics.space, \
                 topics.space.eventSubscriptions.plain";
    let dry = "apply topics.json --dry-run";
    let told = code(&place.run(dry).await, 0);
    assert!(told.contains(&format!("  created: {names}")), "{told}");
    assert!(code(&place.run("--json topic list").await, 0).contains("\"value\": []"));
    let told = code(&place.run("apply topics.json").await, 0);
    assert!(told.contains(&format!("6 of them new\n  created: {names}")), "{told}");
    for line in [dry, "apply topics.json", "apply topics.json --prune-topics --dry-run --exit-code"]
    {
        let told = code(&place.run(line).await, 0);
        assert!(told.contains(&format!("0 of them new\n  unchanged: {names}")), "{line}: {told}");
        assert!(!told.contains("changed: topics.orders.eventSubscriptions.billing"), "{told}");
    }

    let billing = &mut document["topics"]["orders"]["eventSubscriptions"]["billing"]["properties"];
    billing["filter"]["includedEventTypes"] = json!(["T", "U"]);
    let webhook = &mut billing["destination"]["properties"];
    webhook["endpointUrl"] = json!(receiver.url("/hook?code=s-3"));
    webhook["deliveryAttributeMappings"][0]["properties"]["value"] = json!("s-4");
    place.write("topics.json", &document.to_string());
    let told = code(&place.run(&format!("{dry} --exit-code")).await, 3);
    let destination = "properties.destination.properties";
    let want = format!(
        "  changed: topics.orders.eventSubscriptions.billing\n    \
         {destination}.deliveryAttributeMappings: changed (secret)\n    \
         {destination}.endpointUrl: changed (secret)\n    \
         properties.filter.includedEventTypes: [\"T\"] -> [\"T\",\"U\"]\n  unchanged: topics.orders, "
    );
    assert!(told.contains(&want), "{told}");
    let told = code(&place.run(&format!("--json {dry}")).await, 0);
    assert!(told.contains("\"dryRun\": true") && !told.contains("s-3"), "{told}");
    let told = code(&place.run("apply topics.json").await, 0);
    let want = "billing\n    properties.filter.includedEventTypes: [\"T\"] -> [\"T\",\"U\"]\n";
    assert!(told.contains(want) && !told.contains("s-3"), "{told}");
    // Only secrets differ: reads show that something does.
    let webhook = document.pointer_mut(
        "/topics/orders/eventSubscriptions/billing/properties/destination/properties/endpointUrl",
    );
    *webhook.expect("a URL") = json!(receiver.url("/hook?code=s-5"));
    place.write("topics.json", &document.to_string());
    let told = code(&place.run("apply topics.json").await, 0);
    assert!(told.contains("billing\n    properties: changed (secret)\n"), "{told}");

    let topics = document["topics"].as_object_mut().expect("topics");
    topics.remove("own");
    topics["orders"]["eventSubscriptions"].as_object_mut().expect("some").remove("plain");
    place.write("topics.json", &document.to_string());
    let plain = "topics.orders.eventSubscriptions.plain";
    for (flag, deleted) in [("", ""), ("--prune", plain), ("--prune-topics", "topics.own")] {
        let told = code(&place.run(&format!("{dry} {flag}")).await, 0);
        assert_eq!(told.contains("deleted: "), !deleted.is_empty(), "{told}");
        assert!(told.contains(deleted), "{told}");
    }
    let refused = code(&place.run("apply topics.json --prune").await, 2);
    assert!(refused.contains(plain) && refused.contains("Repeat with --yes"), "{refused}");
    let told = code(&place.run("apply topics.json --prune --yes").await, 0);
    assert!(told.ends_with(&format!("deleted: {plain}\n")), "{told}");
    // What the file has and nobody can read is not taken for missing.
    place.write("broken.json", r#"{"topics": {"orders": 1}}"#);
    code(&place.run("apply broken.json --prune-topics --yes").await, 2);
    let left = code(&place.run("--json topic list").await, 0);
    assert!(left.contains("\"orders\"") && left.contains("\"own\""), "{left}");
    let told = code(&place.run("apply topics.json --prune-topics --yes").await, 0);
    assert!(told.ends_with("deleted: topics.own\n"), "{told}");
}

#[tokio::test]
async fn an_export_is_applied_elsewhere_and_exported_as_it_was() {
    let (receiver, _arrivals) = endpoint("200").await;
    let (from, to) = (Place::new(), Place::new());
    let file = from.write("topics.json", &all_kinds(&receiver.url("/hook")).to_string());
    let first = from.dev(&format!("--memory --quiet --config {}", file.display())).await;
    to.write("none.json", r#"{"topics": {}}"#);
    let second = to.dev("--memory --quiet --config none.json").await;

    let (without, told) = exported(&from, "").await;
    for part in ["SECRET_ORDERS_BILLING_QUERY", "SECRET_ORDERS_BILLING_X_T", "signing secret"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    assert!(!without.to_string().contains("s-1") && !without.to_string().contains("s-2"));
    let file = to.write("exported.json", &without.to_string());
    let line = format!("apply {}", file.display());
    // Without its secrets, that event subscription alone is not made.
    let refused = code(&to.run(&line).await, 2);
    assert!(refused.contains("environment variable SECRET_ORDERS_BILLING_X_T"), "{refused}");
    let (some, _) = exported(&to, "").await;
    assert_eq!(some["topics"]["space"], without["topics"]["space"]);
    assert!(some["topics"]["orders"]["eventSubscriptions"]["billing"].is_null());

    let mut apply = to.gridpost(&line);
    apply
        .env("SECRET_ORDERS_BILLING_QUERY", "code=s-1")
        .env("SECRET_ORDERS_BILLING_X_T", "s-2${HOME}$");
    for new in [1, 0] {
        let output = timeout(PATIENCE, apply.output()).await.expect("in time").expect("it runs");
        let told = code(&output, 0);
        assert!(told.contains(&format!("3 topics and 3 event subscriptions, {new} of")), "{told}");
    }
    assert_eq!(exported(&to, "").await.0, without);
    let (with, _) = exported(&to, "--with-secrets").await;
    assert_eq!(with, exported(&from, "--with-secrets").await.0);
    assert!(with.to_string().contains("?code=s-1") && with.to_string().contains("s-2$${HOME}$"));
    let file = to.write("with.json", &with.to_string());
    let told = code(&to.run(&format!("apply {}", file.display())).await, 0);
    assert!(told.contains("3 topics and 3 event subscriptions, 0 of"), "{told}");
    assert_eq!(exported(&to, "--with-secrets").await.0, with);

    let told = code(&from.run("export --topic orders --terraform root").await, 0);
    let applied = told.contains("terraform -chdir=/") && told.contains("/root apply -var ");
    assert!(applied && told.contains("AWS can't reach"), "{told}");
    let root = |name: &str| fs::read_to_string(from.folder.path().join("root").join(name));
    assert!(root("main.tf").expect("a file").contains("for bucket in [\"gridpost\"]"));
    let written: Value = serde_json::from_str(&root("topics.json").expect("a file")).expect("JSON");
    assert_eq!(written["topics"]["orders"], without["topics"]["orders"]);
    for dev in [first, second] {
        assert!(end(dev, Signal::TERM).await.success());
    }
}

#[tokio::test]
async fn commands_work_by_https_and_a_new_key_is_noted() {
    let place = Place::new();
    let file = place.write("topics.json", r#"{"topics": {"orders": {}}}"#);
    let dev = place.dev(&format!("--tls --memory --quiet --config {}", file.display())).await;
    let connection = || -> Value {
        let text = fs::read(place.connection_file()).expect("a file");
        serde_json::from_slice(&text).expect("JSON")
    };
    let read = connection();
    assert!(read["publishUrl"].as_str().expect("a URL").starts_with("https://127.0.0.1:"));
    assert_eq!(read["caFile"], json!(place.home().join("tls/ca.pem")));
    code(&place.run("publish --topic orders --type T --id e-1").await, 0);
    code(&place.run("topic keys orders --regenerate key1").await, 0);
    let new = connection();
    let (old, new) = (&read["topics"]["orders"]["keys"], &new["topics"]["orders"]["keys"]);
    assert_eq!((old[0] == new[0], &old[1]), (false, &new[1]));
    let key = new[0].as_str().expect("a key");
    code(&place.run(&format!("publish --topic orders --type T --key {key}")).await, 0);
    for line in ["status", "audit", "subscription health", "export"] {
        code(&place.run(line).await, 0);
    }
    assert!(end(dev, Signal::TERM).await.success());
    assert!(!place.connection_file().exists());
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
    let mut bytes = Vec::new();
    loop {
        let read = output.read_buf(&mut bytes).await.expect("a pipe");
        if let Ok(document) = serde_json::from_slice(&bytes) {
            return document;
        }
        assert!(read > 0, "it ended: {}", text(&bytes));
    }
}

/// Whether the demonstration's event subscriptions are there.
async fn is_demonstrating(place: &Place) -> bool {
    let listed = place.run("--json subscription list --topic demo").await;
    code(&listed, 0).contains("demonstration-retried")
}

/// Its endpoint is in the process: what is left of it would be retried for a day.
#[tokio::test]
async fn nothing_stays_of_a_demonstration_that_is_broken_off() {
    let place = Place::new();
    let log = || fs::read_to_string(place.home().join("dev/gridpost.log")).expect("a log");
    let deleted = "event subscription demo/demonstration-retried deleted";
    for (signal, removed_by_itself) in [(Signal::INT, true), (Signal::KILL, false)] {
        let dev = place.dev("").await;
        let begun = async {
            while !is_demonstrating(&place).await {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, begun).await.expect("it is shown");
        let before = log().matches(deleted).count();
        end(dev, signal).await;
        assert_eq!(log().matches(deleted).count() > before, removed_by_itself);
        if place.connection_file().exists() {
            fs::remove_file(place.connection_file()).expect("there");
        }
        let dev = place.dev("--quiet").await;
        assert!(!is_demonstrating(&place).await);
        assert!(end(dev, Signal::TERM).await.success());
    }
}

/// An event subscription of a user's own gets what the user publishes, and nothing else.
#[tokio::test]
async fn a_demonstration_is_left_out_where_a_topic_is_in_use() {
    let place = Place::new();
    let (receiver, _arrivals) = endpoint("200").await;
    let dev = place.dev("--quiet").await;
    let url = receiver.url("/hook");
    let create = format!("subscription create --topic demo --name own --endpoint {url}");
    let topics = async |flags| {
        let (export, _) = exported(&place, flags).await;
        let topics = export["topics"].as_object().expect("topics").keys().cloned();
        topics.collect::<Vec<_>>()
    };
    assert_eq!(topics("").await, [""; 0]);
    assert_eq!(topics("--topic demo").await, ["demo"]);
    assert_eq!(topics("--with-demo").await, ["demo", "demo-cloud"]);
    code(&place.run(&create).await, 0);
    assert_eq!(topics("").await, ["demo"]);
    assert!(end(dev, Signal::TERM).await.success());

    let mut dev = place.gridpost("--json dev --port 0").spawn().expect("it runs");
    let mut told = dev.stderr.take().expect("a pipe");
    let stdout = dev.stdout.take().expect("a pipe");
    let document = timeout(PATIENCE, first_document(stdout)).await.expect("in time");
    assert_eq!(document["demonstration"], json!([]));
    let waited = place.run("wait --topic demo --delivered 1 --timeout 100ms").await;
    assert!(code(&waited, 3).contains("0 of 1 delivered"));
    assert!(end(dev, Signal::TERM).await.success());
    let mut said = String::new();
    told.read_to_string(&mut said).await.expect("text");
    assert!(said.contains("No demonstration: the event subscription demo/own"), "{said}");
}

/// At this speed its clock is minutes ahead of the machine's before the first command runs.
#[tokio::test]
async fn commands_look_back_from_what_its_clock_shows() {
    let place = Place::new();
    let (receiver, _arrivals) = endpoint("400").await;
    let billing = json!({"properties": {
        "destination": {"endpointType": "WebHook",
            "properties": {"endpointUrl": receiver.url("/hook")}},
        "deadLetterDestination": {"endpointType": "S3Bucket",
            "properties": {"bucketName": "gridpost"}},
    }});
    let topics = json!({"topics": {"orders": {"eventSubscriptions": {"billing": billing}}}});
    let file = place.write("topics.json", &topics.to_string());
    let flags = format!("--memory --quiet --speed 600 --config {}", file.display());
    let dev = place.dev(&flags).await;
    code(&place.run("publish --topic orders --type T --id e-1").await, 0);
    code(&place.run("wait --topic orders --dead-lettered 1").await, 0);

    let audit = place.run("--json audit --wait 30").await;
    let audit: Value = serde_json::from_str(&code(&audit, 0)).expect("JSON");
    let account = &audit["eventSubscriptions"][0];
    assert_eq!((&account["matched"], &account["deadLettered"]["total"]), (&json!(1), &json!(1)));
    let counted = place.run("--json dead-letter count --since 1d").await;
    let counted: Value = serde_json::from_str(&code(&counted, 0)).expect("JSON");
    assert_eq!(counted["events"], 1);
    let purged = place.run("dead-letter purge --topic orders --yes").await;
    assert!(code(&purged, 0).contains("1 dead letter in 1 object deleted"));
    assert!(end(dev, Signal::TERM).await.success());
}

#[tokio::test]
async fn what_a_killed_process_accepted_is_delivered_by_the_next() {
    let place = Place::new();
    let (receiver, mut arrivals) = endpoint("500,200").await;
    let file = place.write("topics.json", &declared(&receiver.url("/hook")));
    let data = place.folder.path().join("kept");
    let flags = format!("--data {} --quiet --speed 60", data.display());
    let flags = format!("{flags} --config {}", file.display());
    let dev = place.dev(&flags).await;
    // Git passes over what has keys in it.
    for folder in [place.home(), data] {
        assert_eq!(fs::read_to_string(folder.join(".gitignore")).expect("a file"), "*\n");
    }
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

/// Publishes so many events, `e-0` and so on.
async fn publish_many(place: &Place, count: usize) {
    let event = |number| {
        json!({"id": format!("e-{number}"), "eventType": "T", "subject": "s", "data": {},
            "eventTime": "2030-01-02T03:04:05Z", "dataVersion": "1"})
    };
    let events: Vec<_> = (0..count).map(event).collect();
    place.write("events.json", &json!(events).to_string());
    code(&place.run("publish --topic orders --file events.json").await, 0);
}

/// Requests are under way when it is told to end; the others are made by the next process.
#[tokio::test]
async fn an_end_waits_for_the_requests_under_way_and_none_is_made_again() {
    const EVENTS: usize = 300;
    let place = Place::new();
    let (receiver, mut arrivals) = endpoint_after("200", Duration::from_secs(3)).await;
    place.write("topics.json", &declared(&receiver.url("/hook")));
    let dev = place.dev("--quiet --config topics.json").await;
    publish_many(&place, EVENTS).await;
    let mut counts = HashMap::new();
    let mut note = |arrival: &Arrival| {
        let id = arrival.events()[0]["id"].as_str().expect("an id").to_owned();
        *counts.entry(id).or_insert(0) += 1;
        counts.len()
    };
    let mut seen = 0;
    while seen < 50 {
        seen = note(&next_delivery(&mut arrivals).await);
    }
    assert!(end(dev, Signal::TERM).await.success());
    while let Ok(arrival) = arrivals.try_recv() {
        seen = note(&arrival);
    }
    let dev = place.dev("--quiet").await;
    while seen < EVENTS {
        seen = note(&next_delivery(&mut arrivals).await);
    }
    // Longer than until whatever was received and not settled would come again.
    let more = timeout(Duration::from_secs(2), arrivals.recv()).await;
    assert!(more.is_err() && counts.values().all(|count| *count == 1), "{more:?}, {counts:?}");
    assert!(end(dev, Signal::TERM).await.success());
}

#[tokio::test]
async fn an_end_waits_no_longer_than_it_may() {
    let place = Place::new();
    let (receiver, mut arrivals) = endpoint_after("200", Duration::from_secs(20)).await;
    place.write("topics.json", &declared(&receiver.url("/hook")));
    for (flags, signals, most_s) in [("--drain 1s", 1, 5), ("--drain 60s", 2, 5)] {
        let dev = place.dev(&format!("--memory --quiet {flags} --config topics.json")).await;
        code(&place.run("publish --topic orders --type T --id e-1").await, 0);
        next_delivery(&mut arrivals).await;
        for _ in 1..signals {
            let pid = dev.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
            kill_process(pid.expect("a process"), Signal::TERM).expect("signalled");
            sleep(Duration::from_secs(1)).await;
        }
        let began = Instant::now();
        assert!(end(dev, Signal::INT).await.success());
        assert!(began.elapsed() < Duration::from_secs(most_s), "{flags}: {:?}", began.elapsed());
    }
}

/// Large bodies of clients without a key: none of them is kept in memory.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn bodies_without_a_key_take_no_memory() {
    let place = Place::new();
    place.write("topics.json", &json!({"topics": {"orders": {}}}).to_string());
    let dev = place.dev("--memory --quiet --config topics.json").await;
    let connection = fs::read(place.connection_file()).expect("a file");
    let connection: Value = serde_json::from_slice(&connection).expect("JSON");
    let url =
        format!("{}/topics/orders/api/events", connection["publishUrl"].as_str().expect("a URL"));
    let resident_kb = || {
        let status = fs::read_to_string(format!("/proc/{}/status", dev.id().expect("a process")));
        let status = status.expect("readable");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
    };
    let before = resident_kb();
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let all = (0..30).map(|_| {
        let body = vec![b' '; 10_000_000];
        let request = client.post(&url).header("aeg-sas-key", "none").body(body).send();
        tokio::spawn(request)
    });
    for sent in all.collect::<Vec<_>>() {
        // A client that sends on after the answer may not see it.
        if let Ok(answer) = sent.await.expect("no panic") {
            assert_eq!(answer.status(), 401);
        }
    }
    let more_kb = resident_kb() - before;
    // A connection reads up to 400 kB at once.
    assert!(more_kb < 30_000, "{more_kb} kB");
    assert!(end(dev, Signal::TERM).await.success());
}

//! The journal of a whole process, compared with what was published and what endpoints saw.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use gridpost_core::time::Timestamp;
use gridpost_ports::Clock;
use gridpost_server::{DEAD_LETTER_BUCKET, Options};
use gridpost_testkit::server::{consent, response};
use hyper::{Response, body::Bytes, http::request::Parts};
use reqwest::Method;
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    fixture::{self, Fixture, PATIENCE, until},
    server::Server,
};

/// How ids of events end that fail once.
const FAILED: [&str; 3] = ["0.\"", "3.\"", "6.\""];

/// An endpoint whose answers depend on its path and what it receives.
#[derive(Default)]
struct State {
    /// Paths that accept everything.
    well: BTreeSet<String>,
    /// Failed requests by path.
    failed: BTreeMap<String, u64>,
}

impl State {
    fn answer(&mut self, parts: &Parts, body: &[u8]) -> Response<Bytes> {
        if let Some(consent) = consent(parts, body) {
            return consent;
        }
        let path = parts.uri.path().trim_start_matches('/').to_owned();
        let count = parts.headers.get("aeg-delivery-count").and_then(|it| it.to_str().ok());
        let body = String::from_utf8_lossy(body);
        let status = match path.as_str() {
            _ if self.well.contains(&path) => 200,
            "twice" if matches!(count, Some("0" | "1")) => 500,
            "bad" | "lost" => 400,
            "gone" => 500,
            // A third fails once.
            "often" if count == Some("0") && FAILED.iter().any(|id| body.contains(id)) => 500,
            "batched" if body.contains("refused") => 400,
            _ => 200,
        };
        if status != 200 {
            *self.failed.entry(path).or_default() += 1;
        }
        response(status, "a long answer ".repeat(30))
    }
}

/// What became of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sums {
    matched: u64,
    redriven: u64,
    delivered: u64,
    dead: u64,
    dropped: u64,
}

impl Sums {
    fn of(counts: &Value) -> Self {
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        Self {
            matched: number(&counts["matched"]),
            redriven: number(&counts["redriven"]),
            delivered: number(&counts["delivered"]),
            dead: number(&counts["deadLettered"]["total"]),
            dropped: number(&counts["dropped"]["total"]),
        }
    }

    fn add(&mut self, other: Self) {
        self.matched += other.matched;
        self.redriven += other.redriven;
        self.delivered += other.delivered;
        self.dead += other.dead;
        self.dropped += other.dropped;
    }
}

/// Sums by the path of the event subscription; those of topics are by "".
type Totals = BTreeMap<String, Sums>;

/// Names are equal in any spelling.
fn totals(entries: &[Value]) -> Totals {
    let mut totals = Totals::new();
    for entry in entries {
        if let Some(name) = entry["eventSubscription"].as_str() {
            totals.entry(name.to_lowercase()).or_default().add(Sums::of(entry));
        }
    }
    totals.retain(|_, sums| *sums != Sums::default());
    totals
}

fn topic_sum(entries: &[Value], member: &str) -> u64 {
    let topics = entries.iter().filter(|entry| entry["eventSubscription"].is_null());
    topics.filter_map(|entry| entry[member].as_u64()).sum()
}

struct Shop {
    fixture: Fixture,
    endpoint: Server<State>,
    began: Timestamp,
}

impl Shop {
    async fn open(fixture: Fixture) -> Self {
        let endpoint = Server::listen(State::default(), State::answer).await;
        let began = fixture.dev.clock().now();
        let shop = Self { fixture, endpoint, began };
        shop.call(Method::PUT, "/topics/Shop", json!({})).await;
        shop
    }

    async fn call(&self, method: Method, path: &str, document: Value) -> Value {
        let request = self.fixture.http.request(method.clone(), self.fixture.url(path));
        let answer = request.json(&document).send().await.expect("an answer");
        let status = answer.status();
        let text = answer.text().await.expect("a body");
        assert!(status.is_success(), "{method} {path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn at(name: &str) -> String {
        format!("/topics/shop/eventSubscriptions/{name}")
    }

    async fn subscribe(&self, name: &str, has_letters: bool) {
        let url = format!("{}/{}", self.endpoint.url, name.to_lowercase());
        let mut destination = json!({"endpointUrl": url});
        if name == "Batched" {
            destination["maxEventsPerBatch"] = json!(10);
            destination["onBatchFailure"] = json!("Bisect");
        }
        let mut properties = json!({
            "destination": {"endpointType": "WebHook", "properties": destination},
            "filter": {"includedEventTypes": [name.to_lowercase()]},
        });
        if has_letters {
            properties["deadLetterDestination"] = json!({"endpointType": "S3Bucket",
                "properties": {"bucketName": DEAD_LETTER_BUCKET}});
        }
        self.call(Method::PUT, &Self::at(name), json!({ "properties": properties })).await;
    }

    /// Publishes events of that type with these ids.
    async fn publish(&self, topic: &str, event_type: &str, ids: &[&str]) {
        let event = |id: &&str| fixture::event(event_type, id)[0].take();
        let events: Vec<Value> = ids.iter().map(event).collect();
        let request =
            self.fixture.http.post(self.fixture.url(&format!("/topics/{topic}/api/events")));
        let key = self.fixture.key("shop").await;
        let answer = request.header("aeg-sas-key", key).json(&events).send().await;
        assert_eq!(answer.expect("an answer").status(), 200, "{ids:?}");
    }

    /// Asks for all pages.
    async fn ask(&self, kind: &str, more: Value) -> Vec<Value> {
        let mut question = more;
        question["from"] = json!(self.began.to_iso_8601());
        let mut page =
            self.call(Method::POST, "/journalQueries?$top=7", json!({kind: question})).await;
        let mut entries = Vec::new();
        loop {
            let name = kind.to_owned();
            entries.extend(page[&name].as_array().cloned().expect("entries"));
            let Some(next) = page["nextLink"].as_str().map(str::to_owned) else { return entries };
            let path = next.trim_start_matches(&self.fixture.url("")).to_owned();
            let answer = self.fixture.http.get(self.fixture.url(&path)).send().await;
            page = answer.expect("an answer").json().await.expect("a page");
        }
    }

    async fn find(&self, event_id: &str) -> Vec<Value> {
        self.ask("attempts", json!({"eventId": event_id})).await
    }

    async fn ledger(&self) -> Totals {
        totals(&self.ask("ledger", json!({})).await)
    }

    async fn ends(&self, name: &str, want: Sums) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ledger = self.ledger().await;
            if ledger.get(name) == Some(&want) || Instant::now() >= deadline {
                return assert_eq!(ledger.get(name), Some(&want), "{name}");
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn parked(&self) -> usize {
        let page = self.fixture.http.get(self.fixture.url("/parked?eventSubscription=Held")).send();
        let page: Value = page.await.expect("an answer").json().await.expect("a page");
        page["value"].as_array().map_or(0, Vec::len)
    }
}

const IDS: [&str; 10] = [
    "a \"quoted\" one",
    "a \\ back\\slash",
    "a tab\t and a line\n",
    "\u{1}\u{7f}",
    "[\"list\"]",
    "ünï 🦀",
    "0E2D7F9A-86A4-4A0D-A9A0-3C4F3D3D5B11",
    "0e2d7f9a-86a4-4a0d-a9a0-3c4f3d3d5b12",
    "shop/plain",
    " ",
];

async fn begin(data: Option<&Path>) -> Fixture {
    Fixture::of(Options { data: data.map(Path::to_owned), ..Options::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn in_memory_the_journal_tells_what_happened() {
    let fixture = begin(None).await;
    events_end_in_all_ways(fixture, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_disk_the_journal_tells_what_happened_before_and_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = begin(Some(folder.path())).await;
    events_end_in_all_ways(fixture, Some(folder.path())).await;
}

async fn events_end_in_all_ways(fixture: Fixture, data: Option<&Path>) {
    let mut shop = Shop::open(fixture).await;
    for (name, has_letters) in [
        ("Plain", true),
        ("Twice", true),
        ("Bad", true),
        ("Lost", false),
        ("Held", false),
        ("Gone", true),
        ("Batched", true),
    ] {
        shop.subscribe(name, has_letters).await;
    }
    let pause = json!({"timeToLiveRuns": true});
    shop.call(Method::POST, &format!("{}/pause", Shop::at("Held")), pause).await;
    for (topic, id) in ["Shop", "shop", "SHOP"].iter().cycle().zip(IDS) {
        shop.publish(topic, "plain", &[id]).await;
    }
    shop.publish("shop", "twice", &["t1", "t2", "t3"]).await;
    shop.publish("shop", "bad", &["b1", "b2"]).await;
    shop.publish("shop", "lost", &["l1", "l2"]).await;
    shop.publish("shop", "held", &["h1", "h2"]).await;
    shop.publish("shop", "gone", &["g1", "g2", "g3"]).await;
    shop.publish("shop", "unmatched", &["n1", "n2", "n3"]).await;
    // None of these counts.
    let test = json!({"event": fixture::event("plain", "test")[0]});
    shop.call(Method::POST, &format!("{}/sendTestEvent", Shop::at("Plain")), test.clone()).await;
    shop.call(Method::POST, "/topics/Shop/explain", test).await;
    let sums =
        |matched, delivered, dead, dropped| Sums { matched, delivered, dead, dropped, redriven: 0 };
    shop.ends("twice", sums(3, 3, 0, 0)).await;
    shop.ends("bad", sums(2, 0, 2, 0)).await;
    until("what is held", async || (shop.parked().await == 2).then_some(())).await;
    let held = json!({"topic": "SHOP", "eventSubscription": "HELD"});
    shop.call(Method::POST, "/parked:cancel", held).await;
    // Deleted with deliveries under way, and created again in another spelling.
    let look = async || shop.endpoint.state().failed.get("gone").filter(|it| **it > 2).copied();
    until("failed attempts", look).await;
    shop.call(Method::DELETE, &Shop::at("Gone"), json!({})).await;
    shop.ends("gone", sums(3, 0, 0, 3)).await;
    shop.ends("held", sums(2, 0, 0, 2)).await;
    if data.is_some() {
        shop.fixture.dev.stop().await;
        shop.fixture = begin(data).await;
    }
    shop.endpoint.state().well.extend(["gone".to_owned(), "bad".to_owned()]);
    shop.subscribe("gone", true).await;
    shop.publish("shop", "gone", &["g4", "g5"]).await;
    let ids = ["e1", "e2", "e3", "refused", "e5", "e6", "e7", "e8"];
    shop.publish("shop", "batched", &ids).await;
    // A redrive leaves out dead letters of the last 20 minutes, which are 2 s here.
    sleep(Duration::from_millis(2_500)).await;
    shop.call(Method::POST, &format!("{}/deadLetters:redrive", Shop::at("Bad")), json!({})).await;
    let want = Totals::from([
        ("plain".to_owned(), sums(IDS.len() as u64, IDS.len() as u64, 0, 0)),
        ("twice".to_owned(), sums(3, 3, 0, 0)),
        ("bad".to_owned(), Sums { redriven: 2, ..sums(2, 2, 2, 0) }),
        ("lost".to_owned(), sums(2, 0, 0, 2)),
        ("held".to_owned(), sums(2, 0, 0, 2)),
        ("gone".to_owned(), sums(5, 2, 0, 3)),
        ("batched".to_owned(), sums(8, 7, 1, 0)),
    ]);
    for (name, want) in &want {
        shop.ends(name, want.clone()).await;
    }
    assert_eq!(shop.ledger().await, want);
    compare(&shop, &want).await;
    shop.fixture.dev.stop().await;
}

async fn compare(shop: &Shop, want: &Totals) {
    let ledger = shop.ask("ledger", json!({})).await;
    assert!(ledger.iter().all(|entry| entry["waiting"].as_i64().unwrap_or(0) == 0), "{ledger:#?}");
    let published = want.values().map(|sums| sums.matched).sum::<u64>() + 3;
    for step in ["Minute", "Hour"] {
        let series = shop.ask("series", json!({"step": step})).await;
        assert_eq!(&totals(&series), want, "{step}");
        let intake = [topic_sum(&series, "accepted"), topic_sum(&series, "unmatched")];
        assert_eq!(intake, [published, 3], "{step}");
        let mut failed = BTreeMap::new();
        for entry in &series {
            let name = entry["eventSubscription"].as_str().unwrap_or_default().to_lowercase();
            let all = entry["failedAttempts"].as_object().into_iter().flatten();
            let sum: u64 = all.filter_map(|(_, count)| count.as_u64()).sum();
            *failed.entry(name).or_default() += sum;
        }
        // A batch's failure counts for each of its deliveries.
        failed.retain(|name, sum| *sum > 0 && name != "batched");
        let mut seen = shop.endpoint.state().failed.clone();
        seen.remove("batched");
        assert_eq!(failed, seen, "{step}");
    }
    assert_eq!([topic_sum(&ledger, "accepted"), topic_sum(&ledger, "unmatched")], [published, 3]);
    let mut ends = Totals::new();
    for entry in shop.ask("attempts", json!({})).await {
        let events = entry["events"].as_u64().unwrap_or_default();
        let name = entry["eventSubscription"].as_str().unwrap_or_default().to_lowercase();
        let sums = ends.entry(name).or_default();
        match entry["kind"].as_str() {
            Some("Success" | "LateSuccess") => sums.delivered += events,
            Some("DeadLettered") => sums.dead += events,
            Some("Dropped") => sums.dropped += events,
            _ => {}
        }
    }
    let ended = want
        .iter()
        .map(|(name, sums)| (name.clone(), Sums { matched: 0, redriven: 0, ..sums.clone() }));
    assert_eq!(ends, ended.collect());
    for id in IDS {
        let found = shop.find(id).await;
        let of: Vec<_> = found.iter().map(|it| (&it["kind"], &it["eventIds"])).collect();
        assert_eq!(of, [(&json!("Success"), &json!([id]))], "{id:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_has_its_size_and_keeps_what_is_new() {
    const BYTES: i64 = 200_000;
    const EVENTS: usize = 3_000;
    let folder = tempfile::tempdir().expect("a folder");
    let data = Some(folder.path().to_owned());
    let options = Options { data, journal_max: Some(BYTES.unsigned_abs()), ..Options::default() };
    let shop = Shop::open(Fixture::of(options).await).await;
    shop.subscribe("Often", false).await;
    let id = |number: usize| format!("event-{number}.");
    for first in (0..EVENTS).step_by(50) {
        let ids: Vec<_> = (first..first + 50).map(id).collect();
        // None is refused.
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        shop.publish("shop", "often", &ids).await;
    }
    let all = EVENTS as u64;
    shop.ends("often", Sums { matched: all, delivered: all, ..Sums::default() }).await;
    let document = json!({"attempts": {"from": shop.began.to_iso_8601()}});
    let page = shop.call(Method::POST, "/journalQueries", document).await;
    let begins = page["begins"].as_str().expect("history was removed");
    assert!(begins > &*shop.began.to_iso_8601(), "{begins}");
    assert!(shop.find(&id(0)).await.is_empty());
    let newest = shop.ask("attempts", json!({"failed": false})).await;
    assert!(newest.len() > 100 && newest.len() < EVENTS, "{}", newest.len());
    shop.publish("shop", "often", &["the last one"]).await;
    until("the last one", async || shop.find("the last one").await.pop()).await;
    shop.fixture.dev.stop().await;
    let file = Connection::open(folder.path().join("gridpost.sqlite")).expect("a database");
    let sum = "SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_schema WHERE \
               tbl_name IN ('entries', 'segments', 'segment_lists', 'counts', 'recent_counts'))";
    let bytes: i64 = file.query_row(sum, [], |row| row.get(0)).expect("a number");
    assert!(bytes < BYTES * 3 / 2, "{bytes} bytes of the journal");
}

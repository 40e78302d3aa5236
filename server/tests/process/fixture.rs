//! A process with a fast clock and a topic, and a client.

use std::time::Duration;

use gridpost_server::{Options, Server, clock::Speed};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// An hour of the clock takes 6 s.
pub(crate) const FAST: u32 = 600;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Fixture {
    pub(crate) dev: Server,
    pub(crate) http: Client,
}

impl Fixture {
    pub(crate) async fn of(options: Options) -> Self {
        let speed = Speed::new(FAST).expect("a speed");
        let dev = Server::start(Options { speed, ..options }).await.expect("it starts");
        let fixture = Self { dev, http: Client::builder().no_proxy().build().expect("a client") };
        let answer = fixture.http.put(fixture.url("/topics/orders")).json(&json!({})).send().await;
        assert!(answer.expect("an answer").status().is_success());
        fixture
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.dev.url())
    }

    pub(crate) async fn publish(&self, event_type: &str, id: &str) {
        self.publish_all(&event(event_type, id)).await;
    }

    pub(crate) async fn key(&self, topic: &str) -> String {
        let keys = self.http.post(self.url(&format!("/topics/{topic}/listKeys"))).send().await;
        let keys: Value = keys.expect("an answer").json().await.expect("keys");
        keys["key1"].as_str().expect("a key").to_owned()
    }

    pub(crate) async fn publish_all(&self, events: &Value) {
        let key = self.key("orders").await;
        let request = self.http.post(self.url("/topics/orders/api/events"));
        let answer = request.header("aeg-sas-key", key).json(events).send().await;
        assert_eq!(answer.expect("an answer").status(), StatusCode::OK);
    }

    /// Creates an event subscription for events of that type. Returns the document, or the refusal.
    pub(crate) async fn subscribe_by(
        &self,
        name: &str,
        url: &str,
        authentication: Value,
    ) -> String {
        let properties = json!({
            "destination": {"endpointType": "WebHook", "properties": {
                "endpointUrl": url, "authentication": authentication}},
            "filter": {"includedEventTypes": [name]},
        });
        let path = self.url(&format!("/topics/orders/eventSubscriptions/{name}"));
        let answer = self.http.put(path).json(&json!({ "properties": properties })).send().await;
        answer.expect("an answer").text().await.expect("a text")
    }

    pub(crate) async fn test(&self, name: &str, id: &str) -> Value {
        let path = self.url(&format!("/topics/orders/eventSubscriptions/{name}/sendTestEvent"));
        let document = json!({"event": event(name, id)[0]});
        let answer = self.http.post(path).json(&document).send().await.expect("an answer");
        answer.json().await.expect("JSON")
    }
}

pub(crate) fn event(event_type: &str, id: &str) -> Value {
    json!([{"id": id, "eventType": event_type, "subject": "s", "data": {},
        "eventTime": "2030-01-02T03:04:05Z", "dataVersion": "1"}])
}

pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let found = timeout(PATIENCE, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            sleep(Duration::from_millis(10)).await;
        }
    });
    found.await.unwrap_or_else(|_| panic!("{what} did not come"))
}

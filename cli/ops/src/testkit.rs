//! A manage API on this machine that answers as it is told, for tests of commands.

use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

#[derive(Debug)]
pub struct FakeApi {
    url: String,
    serving: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct FakeAnswer {
    rows: Vec<(String, u16, String)>,
    /// The header of the date, whole; empty for none.
    date: String,
    together: Option<(String, Barrier)>,
    /// Whether a row may match anywhere in a request.
    anywhere: bool,
}

impl FakeApi {
    /// One that answers a request by the first row whose method and path it begins with: with that status
    /// and document. Everything else is a 500.
    pub async fn answering(rows: &[(&str, u16, Value)]) -> Self {
        Self::told(FakeAnswer { rows: owned(rows), ..FakeAnswer::default() }).await
    }

    /// One that answers a request by the first row whose text is anywhere in it.
    pub async fn naming(rows: &[(&str, u16, Value)]) -> Self {
        Self::told(FakeAnswer { rows: owned(rows), anywhere: true, ..FakeAnswer::default() }).await
    }

    /// One that answers each request with a 500 of that date.
    pub async fn dated(date: &str) -> Self {
        Self::told(FakeAnswer { date: format!("date: {date}\r\n"), ..FakeAnswer::default() }).await
    }

    /// The same, but what begins with `line` is answered only while `count` such requests are under way,
    /// so that calls which wait for each other are never answered.
    pub async fn together((line, count): (&str, usize), rows: &[(&str, u16, Value)]) -> Self {
        let together = Some((line.to_owned(), Barrier::new(count)));
        Self::told(FakeAnswer { rows: owned(rows), together, ..FakeAnswer::default() }).await
    }

    async fn told(told: FakeAnswer) -> Self {
        let told = Arc::new(told);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&told)));
            }
        });
        Self { url, serving }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn owned(rows: &[(&str, u16, Value)]) -> Vec<(String, u16, String)> {
    let row = |(line, status, document): &(&str, u16, Value)| {
        ((*line).to_owned(), *status, document.to_string())
    };
    rows.iter().map(row).collect()
}

/// Answers one request, whose body is short enough to come with its head.
async fn answer(mut stream: TcpStream, told: Arc<FakeAnswer>) {
    let mut head = vec![0; 16_384];
    let read = stream.read(&mut head).await.unwrap_or(0);
    let head = String::from_utf8_lossy(&head[..read]).into_owned();
    if let Some((line, all)) = &told.together
        && head.starts_with(line.as_str())
    {
        all.wait().await;
    }
    let is_meant = |line: &str| match told.anywhere {
        true => head.contains(line),
        false => head.starts_with(line),
    };
    let found = told.rows.iter().find(|(line, ..)| is_meant(line));
    let (status, body) = found.map_or((500, "{}"), |(_, status, body)| (*status, body));
    let answer = format!(
        "HTTP/1.1 {status} Told\r\n{}content-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        told.date,
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    // What is still unread would reset the connection before its answer is read.
    let _ = stream.shutdown().await;
    let _ = stream.read(&mut [0; 16_384]).await;
}

/// Whole documents of the API, each changed by a merge patch.
pub mod documents {
    use gridpost_api::document::merge;
    use serde_json::{Value, json};

    /// The time that documents of this module name.
    pub const TIME: &str = "2026-01-01T00:00:00Z";

    const ID: &str = "00000000-0000-0000-0000-000000000001";

    fn patched(mut document: Value, patch: &Value) -> Value {
        merge(&mut document, patch);
        document
    }

    pub fn list(items: &[Value]) -> Value {
        json!({ "value": items })
    }

    pub fn topic(name: &str, patch: &Value) -> Value {
        let document = json!({"id": format!("/topics/{name}"), "name": name, "type": "Gridpost/topics",
            "kind": "custom", "properties": {"endpoint": format!("http://127.0.0.1:1/{name}/api/events"),
                "provisioningState": "Succeeded", "inputSchema": "EventGridSchema",
                "disableLocalAuth": false, "deliveryProfile": "basic"}});
        patched(document, patch)
    }

    /// Returns an event subscription of topic `orders`, whose webhook is on this machine.
    pub fn subscription(name: &str, patch: &Value) -> Value {
        let document = json!({"id": format!("/topics/orders/eventSubscriptions/{name}"), "name": name,
            "type": "Gridpost/topics/eventSubscriptions", "properties": {"topic": "/topics/orders",
                "provisioningState": "Succeeded", "destination": {"endpointType": "WebHook",
                    "properties": {"endpointBaseUrl": "http://127.0.0.1:1/hook"}}},
            "systemData": {"createdAt": TIME, "lastModifiedAt": TIME}});
        patched(document, patch)
    }

    /// Returns the health of an endpoint without failures.
    pub fn health(patch: &Value) -> Value {
        let document = json!({"state": "Healthy", "newEvents": "Attempted", "failuresInRow": 0,
            "waitingDeliveries": {"count": 0, "isComplete": true}});
        patched(document, patch)
    }

    /// Returns a delivery that waits after one attempt.
    pub fn delivery(patch: &Value) -> Value {
        let document = json!({"id": ID, "publishTime": TIME, "events": 1, "deliveryAttempts": 1,
            "lastDeliveryAttemptTime": TIME, "lastDeliveryOutcome": "ServerError",
            "lastHttpStatusCode": 500, "status": "Waiting", "due": TIME});
        patched(document, patch)
    }

    /// Returns a delivery in a queue, as parked deliveries and poison messages show it.
    pub fn waiting_delivery(patch: &Value) -> Value {
        let document = json!({"id": ID, "topic": "orders", "eventSubscription": "one",
            "publishTime": TIME, "events": 1, "deliveryAttempts": 1});
        patched(document, patch)
    }

    /// Returns an entry of the journal about a failed attempt.
    pub fn journal_entry(patch: &Value) -> Value {
        let document = json!({"id": "entry-1", "time": TIME, "kind": "Failure", "topic": "orders",
            "eventSubscription": "one", "deliveryId": ID, "publishTime": TIME, "attempt": 1,
            "outcome": "Busy", "httpStatusCode": 503, "durationInMs": 41, "events": 1,
            "eventIds": ["e1"]});
        patched(document, patch)
    }

    /// Returns a whole answer of the journal without entries.
    pub fn journal_query(patch: &Value) -> Value {
        let document = json!({"id": "q", "status": "Succeeded", "gigabytes": 0.0, "dollars": 0.0,
            "knownUntil": TIME, "leavesOut": []});
        patched(document, patch)
    }

    pub fn dead_letter(patch: &Value) -> Value {
        let document = json!({"id": "letter-1", "objectName": "one/letter-1.json", "writtenTime": TIME,
            "isRedriven": false, "eventId": "e1", "eventType": "T",
            "deadLetterReason": "MaxDeliveryAttemptsExceeded", "deliveryAttempts": 1,
            "publishTime": TIME, "redriveCount": 0, "lastDeliveryOutcome": "ServerError"});
        patched(document, patch)
    }

    /// Returns a redrive job of event subscription `one` of topic `orders`.
    pub fn redrive(patch: &Value) -> Value {
        let goal = json!({"topic": "orders", "eventSubscription": "one"});
        let document = json!({"id": ID, "topic": "orders", "eventSubscription": "one", "target": goal,
            "status": "Running", "phase": "Sending", "dryRun": false, "sendAgain": false,
            "eventsPerSecond": 100, "maxRedrives": 3, "createdTime": TIME, "updatedTime": TIME,
            "counted": 0, "redriven": 0, "leftOut": {"redrivenTooOften": 0, "sentBefore": 0,
                "otherSchema": 0, "unreadable": 0}});
        patched(document, patch)
    }

    /// Returns a message of the poison queue that can't be read.
    pub fn poison(patch: &Value) -> Value {
        let document = json!({"id": "m1", "kind": "Unreadable", "movedBy": "Gridpost", "sentTime": TIME,
            "receiveCount": 1, "bodyBytes": 2, "problem": "no JSON"});
        patched(document, patch)
    }
}

#[cfg(test)]
mod tests {
    use gridpost_api::{
        dead_letter, delivery, health, journal, redrive, subscription, topic, waiting,
    };
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::documents;

    #[test]
    fn documents_are_whole() {
        fn reads<T: DeserializeOwned>(document: Value) {
            let read = serde_json::from_value::<T>(document.clone());
            assert!(read.is_ok(), "{:?}: {document}", read.err());
        }
        reads::<topic::Topic>(documents::topic("orders", &json!({})));
        reads::<subscription::EventSubscription>(documents::subscription("one", &json!({})));
        reads::<health::Health>(documents::health(&json!({})));
        reads::<delivery::Delivery>(documents::delivery(&json!({})));
        reads::<delivery::WaitingDelivery>(documents::waiting_delivery(&json!({})));
        reads::<journal::JournalEntry>(documents::journal_entry(&json!({})));
        reads::<journal::JournalQuery>(documents::journal_query(&json!({})));
        reads::<dead_letter::DeadLetter>(documents::dead_letter(&json!({})));
        reads::<redrive::Redrive>(documents::redrive(&json!({})));
        reads::<waiting::PoisonMessage>(documents::poison(&json!({})));
    }
}

//! Publishes whose answers get lost, to topics that heed keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use gridpost_testkit::server::{Server, response};
use http::Response;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, RETRY_AFTER};
use http::request::Parts;
use serde_json::{Value, json};

use crate::e2e::{
    fixture::{EVENT_GRID, Fixture, SOON, Topic},
    receiver::{Arrival, Endpoint, Reply},
};

/// How long a second delivery has to come after one that was published later.
const LATER: Duration = Duration::from_secs(2);

/// How a proxy loses an answer.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// Closes the connection.
    Cut,
    /// Answers 503 in its place, as a gateway does that gives up.
    Unavailable,
}

/// A proxy before the publish API that loses the first answers. Requests get through.
struct Lossy {
    /// The topic's endpoint, through it.
    endpoint: String,
    proxy: Arc<LossyProxy>,
    _server: Server,
}

struct LossyProxy {
    http: reqwest::Client,
    /// Scheme, host and port of the publish API.
    origin: String,
    loss: Loss,
    lost: usize,
    forwarded: AtomicUsize,
}

impl Lossy {
    async fn before(topic: &Topic<'_>, loss: Loss, lost: usize) -> anyhow::Result<Self> {
        let url = reqwest::Url::parse(&topic.endpoint)?;
        let origin = url.origin().ascii_serialization();
        let http = reqwest::Client::builder().no_proxy().build()?;
        let proxy =
            Arc::new(LossyProxy { http, origin, loss, lost, forwarded: AtomicUsize::new(0) });
        let own = Arc::clone(&proxy);
        // An answer that is lost is an error: the connection is closed without one.
        let answer = move |parts, body| {
            let answered = forward(Arc::clone(&own), parts, body);
            async move { answered.await.ok() }
        };
        let server = Server::start(answer).await?;
        let endpoint = format!("{}{}", server.url(), url.path());
        Ok(Self { endpoint, proxy, _server: server })
    }

    /// How many requests have reached the publish API.
    fn forwarded(&self) -> usize {
        self.proxy.forwarded.load(Ordering::Relaxed)
    }
}

async fn forward(
    proxy: Arc<LossyProxy>,
    mut parts: Parts,
    body: Bytes,
) -> anyhow::Result<Response<Bytes>> {
    for name in [HOST, CONTENT_LENGTH, CONNECTION] {
        parts.headers.remove(name);
    }
    let url = format!("{}{}", proxy.origin, parts.uri);
    let answer = proxy.http.post(url).headers(parts.headers).body(body).send().await?;
    let (status, retry_after) = (answer.status(), answer.headers().get(RETRY_AFTER).cloned());
    let body = answer.bytes().await?;
    let is_lost = proxy.forwarded.fetch_add(1, Ordering::Relaxed) < proxy.lost;
    match proxy.loss {
        Loss::Cut if is_lost => anyhow::bail!("the answer is lost"),
        Loss::Unavailable if is_lost => Ok(response(503, "")),
        _ => {
            let mut answer = response(status.as_u16(), body);
            answer.headers_mut().extend(retry_after.map(|seconds| (RETRY_AFTER, seconds)));
            Ok(answer)
        }
    }
}

/// A publisher that gets no answer sends again under the same key, until one comes: the event is
/// delivered once.
pub async fn a_publish_whose_answer_was_lost_is_delivered_once(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    let topic = heeding(fixture, "repeated").await?;
    let endpoint = topic.subscribe("all", &[Reply::prompt(200)], json!({})).await?;
    let lossy = Lossy::before(&topic, Loss::Cut, 2).await?;
    // A connection for each request: one that was closed is not tried again by the client.
    let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build()?;
    let publish = async |key: &str, body: &str| {
        let request = http.post(&lossy.endpoint).header("aeg-sas-key", &topic.key);
        let request = request.header("content-type", "application/json");
        request.header("Idempotency-Key", key).body(body.to_owned()).send().await
    };
    let body = Value::from(vec![topic.plain_event("once")]).to_string();
    for number in 1..=2 {
        let answered = publish("order-1", &body).await;
        ensure!(answered.is_err(), "try {number} was answered: {answered:?}");
    }
    for _ in 0..2 {
        let answer = publish("order-1", &body).await?;
        ensure!(answer.status() == 200, "{answer:?}");
    }
    ensure!(lossy.forwarded() == 4, "{} requests got through", lossy.forwarded());
    let last = Value::from(vec![topic.plain_event("last")]).to_string();
    let refused = publish("order-1", &last).await?;
    ensure!(refused.status() == 409, "{refused:?}");
    let refused: Value = refused.json().await?;
    ensure!(refused["error"]["details"][0]["code"] == "IdempotencyKeyReused", "{refused}");
    ensure!(publish("order-2", &last).await?.status() == 200, "a new key is a new publish");
    each_came_once(&endpoint, &["last", "once"]).await
}

/// Azure's SDKs repeat a publish by themselves, under the same `x-ms-client-request-id`, when a
/// gateway answers 503 for a publish that was accepted.
pub async fn azures_sdk_repeats_and_is_delivered_once(fixture: &Fixture) -> anyhow::Result<()> {
    for client in ["sync", "aio"] {
        let topic = heeding(fixture, &format!("sdk-repeats-{client}")).await?;
        let endpoint = topic.subscribe("all", &[Reply::prompt(200)], json!({})).await?;
        let lossy = Lossy::before(&topic, Loss::Unavailable, 1).await?;
        let send = |id: &str| {
            json!([{
                "endpoint": lossy.endpoint, "key": topic.key, "schema": EVENT_GRID, "client": client,
                "events": [{"id": id, "type": "Sdk.Repeated", "subject": "e2e", "data": 1}],
            }])
        };
        for id in ["once", "last"] {
            let sent = fixture.sdk_send(send(id)).await?;
            ensure!(sent == json!([{"ok": true}]), "{client}: {sent}");
        }
        ensure!(lossy.forwarded() == 3, "{client}: {} requests", lossy.forwarded());
        each_came_once(&endpoint, &["last", "once"]).await.context(client)?;
    }
    Ok(())
}

async fn heeding<'w>(fixture: &'w Fixture, case: &str) -> anyhow::Result<Topic<'w>> {
    let document = json!({"properties": {"idempotency": {"windowInSeconds": 300}}});
    fixture.topic_as(case, EVENT_GRID, &document).await
}

/// Waits until all of these events have come, and a while longer.
async fn each_came_once(endpoint: &Endpoint, ids: &[&str]) -> anyhow::Result<()> {
    let came = |all: &[Arrival]| {
        let mut came: Vec<_> = all.iter().flat_map(Arrival::ids).collect();
        came.sort_unstable();
        came
    };
    let all_came = |all: &[Arrival]| ids.iter().all(|id| came(all).iter().any(|it| it == id));
    endpoint.wait_until("every event", SOON, all_came).await?;
    tokio::time::sleep(LATER).await;
    let came = came(&endpoint.deliveries());
    ensure!(came == ids, "{came:?} came, not {ids:?}");
    Ok(())
}

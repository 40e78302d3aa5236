//! The real handlers of manage and of ingest over one set of fakes: a deployment in one test.

use std::sync::Arc;

use gridpost_core::{
    delivery::{Delivery, queue::Queue, request},
    publish::origin::OriginSecrets,
    subscription::{Endpoint, EventSubscription},
    time::Timestamp,
};
use gridpost_ingest::{
    self as ingest,
    handler::{handle, not_base64},
};
use gridpost_manage::{self as manage, Reply};
use gridpost_ports::configuration::{ConfigurationCache, Limits};
use gridpost_runtime::gateway;
use gridpost_testkit::{deployment::Deployment, queue::QueueSettings};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::manage::{RETRY_SHARDS, manage_context};

/// 21 November 2026, 08:00 UTC.
const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_000);

/// Needs a tokio runtime whose time is paused.
pub(crate) struct Fixture {
    pub(crate) deployment: Deployment,
    pub(crate) manage: manage::Context,
    pub(crate) ingest: ingest::Context,
}

impl Fixture {
    /// An empty deployment. Endpoints consent, and every call succeeds.
    pub(crate) fn new() -> Self {
        let queues = QueueSettings { retry_shards: RETRY_SHARDS, ..QueueSettings::CALM };
        let deployment = Deployment::with_queues(NOW, queues);
        let (manage, ingest) = (manage_context(&deployment), ingest_context(&deployment));
        Self { deployment, manage, ingest }
    }

    /// Sends `METHOD /path` with a document to manage.
    pub(crate) async fn send(&self, line: &str, document: &Value) -> Reply {
        self.send_text(line, document.to_string()).await
    }

    /// Sends a document that is text already.
    pub(crate) async fn send_text(&self, line: &str, document: String) -> Reply {
        let (method, path) = line.split_once(' ').expect("a method and a path");
        let method = method.parse().expect("a method");
        let body = document.into_bytes();
        let request = manage::Request::new(method, path.to_owned(), body);
        manage::answer(&self.manage, &request).await
    }

    /// Hands API Gateway's event, or a function URL's, to manage; answers status and body.
    pub(crate) async fn manage(&self, event: Value) -> (u64, String) {
        let respond = |request| async move {
            let response = manage::respond(&self.manage, &request).await;
            response.map(|document| String::from_utf8_lossy(&document).into_owned())
        };
        answered(gateway::answer(event_of(event), manage::not_base64, respond).await)
    }

    /// Hands the same to ingest.
    pub(crate) async fn publish(&self, event: Value) -> (u64, String) {
        let respond = |request| async move { handle(&self.ingest, &request).await };
        answered(gateway::answer(event_of(event), not_base64, respond).await)
    }

    /// The first access key of a topic.
    pub(crate) async fn key(&self, topic: &str) -> String {
        let keys = self.send(&format!("POST /topics/{topic}/listKeys"), &Value::Null).await;
        keys.body.expect("keys")["key1"].as_str().expect("a key").to_owned()
    }

    /// The requests that dispatch would make first for all that was published: their headers and
    /// bodies.
    pub(crate) fn requests(&self) -> Vec<(HeaderMap, Vec<u8>)> {
        let all = self.deployment.tables.stored_subscriptions();
        let sent = self.deployment.queues.sent_to(Queue::Dispatch);
        let request = |body: &str| {
            let delivery = Delivery::decode(body).expect("a delivery");
            let mine = |one: &&EventSubscription| one.key == delivery.subscription;
            let subscription = all.iter().find(mine).expect("its event subscription");
            let Endpoint::WebHook { url } = &subscription.endpoint else { panic!("a webhook") };
            let built = request::build(subscription, url, &[&delivery], 0, "origin", NOW);
            let headers = built.headers.iter().map(|(name, value)| {
                let value = HeaderValue::from_str(value).expect("a value");
                (HeaderName::from_static(name), value)
            });
            (headers.collect(), built.body)
        };
        sent.iter().map(|message| request(&message.body)).collect()
    }
}

pub(crate) fn event_of<E: DeserializeOwned>(event: Value) -> E {
    serde_json::from_value(event).expect("an event")
}

fn answered<R: Serialize, E: std::error::Error>(answer: Result<R, E>) -> (u64, String) {
    let answer = serde_json::to_value(answer.expect("an HTTP request")).expect("JSON");
    let body = answer["body"].as_str().expect("a body").to_owned();
    (answer["statusCode"].as_u64().expect("a status"), body)
}

fn ingest_context(deployment: &Deployment) -> ingest::Context {
    let (clock, dice) = (Arc::clone(&deployment.clock), Arc::clone(&deployment.dice));
    let tables = deployment.of(&deployment.tables);
    let keys = Arc::clone(&tables) as _;
    let configuration = ConfigurationCache::new(tables, clock, dice, Limits::default());
    ingest::Context {
        clock: Arc::clone(&deployment.clock) as _,
        dice: Arc::clone(&deployment.dice) as _,
        configuration: configuration.with_keys(keys),
        sender: deployment.of(&deployment.queues),
        payloads: deployment.of(&deployment.payloads),
        records: deployment.of(&deployment.tables),
        meter: Arc::clone(&deployment.meter) as _,
        journal: Arc::clone(&deployment.meter) as _,
        latency_metrics: false,
        authorization: ingest::Authorization::Keys,
        origin_secrets: OriginSecrets::default(),
        queue_message_bytes_max: 262_144,
        inline_fan_out: 10_000,
        piece_deliveries_max: 5_000,
    }
}

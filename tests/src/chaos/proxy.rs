//! A proxy between the functions and AWS. Most calls pass; some are refused, some are slow, and
//! some take effect but are answered as if they had not.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use bytes::Bytes;
use gridpost_testkit::server::Server;
use http::{HeaderMap, Response, header, request::Parts};
use tokio::{
    sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock},
    time::{Instant, sleep},
};

use super::planned_answer::{Answer, PlannedAnswer, Reduced, refusal};
use crate::e2e::inside;

/// A service that the functions call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Queues.
    Sqs,
    /// Configuration and state.
    DynamoDb,
    /// Dead letters and payloads.
    S3,
}

impl Service {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sqs, Self::DynamoDb, Self::S3];

    fn of(headers: &HeaderMap) -> Self {
        let target = headers.get("x-amz-target").and_then(|value| value.to_str().ok());
        match target {
            Some(target) if target.starts_with("AmazonSQS") => Self::Sqs,
            Some(target) if target.starts_with("DynamoDB") => Self::DynamoDb,
            _ => Self::S3,
        }
    }

    /// The service's own throttling error, refused in its protocol.
    fn throttled(self) -> anyhow::Result<Response<Bytes>> {
        match self {
            Self::Sqs => refusal("SQS", 400, "com.amazonaws.sqs#RequestThrottled"),
            Self::DynamoDb => refusal(
                "DynamoDB",
                400,
                "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
            ),
            Self::S3 => refusal("S3", 503, "SlowDown"),
        }
    }

    /// The service's own internal error.
    fn failed(self) -> anyhow::Result<Response<Bytes>> {
        match self {
            Self::S3 => refusal("S3", 500, "InternalError"),
            Self::Sqs | Self::DynamoDb => refusal("JSON", 500, "InternalFailure"),
        }
    }
}

/// The fate of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Passes.
    Passes,
    /// Passes after a while.
    Slow(Duration),
    /// Is throttled, and has no effect.
    Throttled,
    /// Fails, and has no effect.
    Fails,
    /// Takes effect, and an error is answered.
    Belied,
    /// Takes effect, and the connection breaks before the answer.
    Cut,
}

/// Percentage of calls for each fate; the others pass. Outages come on top.
const THROTTLED: f64 = 4.0;
const FAILS: f64 = 3.0;
const BELIED: f64 = 3.0;
const CUT: f64 = 2.0;
const SLOW: f64 = 3.0;

/// Longest delay of a slow call.
const SLOW_MAX: Duration = Duration::from_secs(3);

/// The fate for a draw from 0.0 to 100.0; `other` is a draw from 0.0 to 1.0.
fn fate(draw: f64, other: f64) -> Fate {
    let fates = [
        (THROTTLED, Fate::Throttled),
        (FAILS, Fate::Fails),
        (BELIED, Fate::Belied),
        (CUT, Fate::Cut),
        (SLOW, Fate::Slow(SLOW_MAX.mul_f64(other))),
    ];
    let mut below = 0.0;
    for (share, fate) in fates {
        below += share;
        if draw < below {
            return fate;
        }
    }
    Fate::Passes
}

#[derive(Debug)]
struct Weather {
    dice: fastrand::Rng,
    calm: bool,
    outage: Option<(Service, Instant)>,
}

impl Weather {
    fn fate(&mut self, service: Service) -> Fate {
        if self.calm {
            return Fate::Passes;
        }
        match self.outage {
            Some((out, until)) if out == service && Instant::now() < until => Fate::Fails,
            _ => fate(self.dice.f64() * 100.0, self.dice.f64()),
        }
    }
}

#[derive(Debug)]
struct Shared {
    emulator_url: String,
    /// Answers that are each given once.
    once: Mutex<Vec<PlannedAnswer>>,
    http: reqwest::Client,
    weather: Mutex<Weather>,
    gate: Arc<RwLock<()>>,
    calls: AtomicU64,
    disturbed: AtomicU64,
}

/// The running proxy. Dropping it closes the port.
#[derive(Debug)]
pub struct Proxy {
    server: Server,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Listens on a free loopback port, in front of the emulator.
    pub async fn start(emulator_url: &str, seed: u64) -> anyhow::Result<Self> {
        let dice = fastrand::Rng::with_seed(seed);
        let shared = Arc::new(Shared {
            emulator_url: emulator_url.trim_end_matches('/').to_owned(),
            once: Mutex::default(),
            http: reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(60)).build()?,
            weather: Mutex::new(Weather { dice, calm: false, outage: None }),
            gate: Arc::default(),
            calls: AtomicU64::new(0),
            disturbed: AtomicU64::new(0),
        });
        let own = Arc::clone(&shared);
        let answer = move |parts, body| {
            let answered = answer(parts, body, Arc::clone(&own));
            async move { answered.await.ok() }
        };
        let server = Server::start(answer).await.context("no port")?;
        Ok(Self { server, shared })
    }

    /// Its URL.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Everything passes from now on.
    pub fn calm(&self) {
        self.weather(|weather| weather.calm = true);
    }

    /// Gives this answer to the next call of an operation on the resource of that name.
    pub fn answer_once(&self, operation: &'static str, resource: &str, answer: Answer) {
        let mut once = self.shared.once.lock().expect("no panic while held");
        once.push(PlannedAnswer { operation, resource: resource.to_owned(), answer });
    }

    /// Whether a planned answer for that resource is still unused.
    pub fn is_to_answer(&self, resource: &str) -> bool {
        let once = self.shared.once.lock().expect("no panic while held");
        once.iter().any(|planned| planned.resource == resource)
    }

    /// All calls of a service fail for that long.
    pub fn outage(&self, service: Service, lasts: Duration) {
        self.weather(|weather| weather.outage = Some((service, Instant::now() + lasts)));
    }

    /// Waits until calls may be made; while the guard lives, the emulator is not stopped.
    pub async fn pass(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.shared.gate).read_owned().await
    }

    /// Lets no call begin while the guard lives, and waits for those under way. The emulator saves
    /// its state when it is stopped, so the state includes everything it has answered.
    pub async fn hold(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.shared.gate).write_owned().await
    }

    /// Calls so far, and how many of them did not simply pass.
    pub fn counts(&self) -> (u64, u64) {
        let Shared { calls, disturbed, .. } = &*self.shared;
        (calls.load(Ordering::Relaxed), disturbed.load(Ordering::Relaxed))
    }

    fn weather(&self, change: impl FnOnce(&mut Weather)) {
        change(&mut self.shared.weather.lock().expect("no panic while held"));
    }
}

/// An error breaks the connection.
async fn answer(parts: Parts, body: Bytes, shared: Arc<Shared>) -> anyhow::Result<Response<Bytes>> {
    let service = Service::of(&parts.headers);
    if let Some(PlannedAnswer { operation, answer, .. }) = planned(&parts, &body, &shared) {
        return match answer {
            Answer::Refused(status, code) => Ok(refusal(operation, status, code)?),
            Answer::WithoutEntry(text) => {
                let reduced = Reduced::of(operation, std::str::from_utf8(&body)?, text)?;
                without_entry(&shared, parts, &reduced).await
            }
        };
    }
    let fate = shared.weather.lock().expect("no panic while held").fate(service);
    shared.calls.fetch_add(1, Ordering::Relaxed);
    if fate != Fate::Passes {
        shared.disturbed.fetch_add(1, Ordering::Relaxed);
    }
    match fate {
        Fate::Throttled => return service.throttled(),
        Fate::Fails => return service.failed(),
        Fate::Slow(wait) => sleep(wait).await,
        Fate::Passes | Fate::Belied | Fate::Cut => {}
    }
    let answered = forward(&shared, parts, body).await?;
    match fate {
        Fate::Belied => service.failed(),
        Fate::Cut => anyhow::bail!("cut"),
        _ => Ok(answered),
    }
}

/// The planned answer for this call, if there is one.
fn planned(parts: &Parts, body: &[u8], shared: &Shared) -> Option<PlannedAnswer> {
    let body = std::str::from_utf8(body).ok()?;
    let mut once = shared.once.lock().expect("no panic while held");
    let position = once.iter().position(|planned| planned.is_of(parts, body))?;
    Some(once.remove(position))
}

/// Sends a batch on without one of its entries, and reports that entry as failed.
async fn without_entry(
    shared: &Shared,
    mut parts: Parts,
    reduced: &Reduced,
) -> anyhow::Result<Response<Bytes>> {
    reduced.unsign(&mut parts.headers, &inside::unsigned(reduced.service()))?;
    let answer = forward(shared, parts, Bytes::from(reduced.body.clone())).await?;
    let (mut head, body) = answer.into_parts();
    let planned = reduced.tell(&body)?;
    head.headers.remove(header::CONTENT_LENGTH);
    Ok(Response::from_parts(head, Bytes::from(planned)))
}

async fn forward(shared: &Shared, parts: Parts, body: Bytes) -> anyhow::Result<Response<Bytes>> {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut headers = parts.headers;
    for hop_by_hop in [header::CONNECTION, header::TRANSFER_ENCODING, header::EXPECT] {
        headers.remove(hop_by_hop);
    }
    let url = format!("{}{path}", shared.emulator_url);
    let _passing = Arc::clone(&shared.gate).read_owned().await;
    let answer = shared.http.request(parts.method, url).headers(headers).body(body).send().await?;
    let status = answer.status();
    let mut headers = answer.headers().clone();
    headers.remove(header::TRANSFER_ENCODING);
    headers.remove(header::CONNECTION);
    let mut response = Response::new(answer.bytes().await?);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fate_table() {
        for (draw, want) in [
            (0.0, Fate::Throttled),
            (3.9, Fate::Throttled),
            (4.0, Fate::Fails),
            (7.0, Fate::Belied),
            (10.0, Fate::Cut),
            (12.0, Fate::Slow(SLOW_MAX / 2)),
            (15.0, Fate::Passes),
            (99.9, Fate::Passes),
        ] {
            assert_eq!(fate(draw, 0.5), want, "{draw}");
        }
    }

    #[tokio::test]
    async fn an_outage_is_of_one_service_and_calm_ends_it() {
        let proxy = Proxy::start("http://127.0.0.1:1", 1).await.expect("a port");
        proxy.outage(Service::S3, Duration::from_secs(60));
        let fates = |service| proxy.shared.weather.lock().expect("no panic").fate(service);
        assert!((0..50).all(|_| fates(Service::S3) == Fate::Fails));
        assert!((0..50).any(|_| fates(Service::Sqs) == Fate::Passes));
        proxy.calm();
        assert_eq!(fates(Service::S3), Fate::Passes);
    }
}

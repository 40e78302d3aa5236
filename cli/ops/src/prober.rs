//! Publishes numbered events, receives them, and says which are missing or came
//! twice; to be run while a deployment is upgraded.

use std::{
    collections::{BTreeMap, HashMap},
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::anyhow;
use gridpost_api::{
    subscription::{EventSubscriptionInput, EventSubscriptionSettings, Filter},
    topic::TopicInput,
};
use gridpost_core::topic::InputSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout_at},
};

use crate::{
    clock,
    failure::{self, Misuse, Refusal},
    given::TimeSpan,
    manage_api::ManageApi,
    output::or_dash,
    probing::{Publisher, final_refusal, webhook},
    progress::Progress,
    publish,
    receiver::{Answers, Arrival, Behaviour, Purpose, Receiver},
    target::Target,
};

const PATH: &str = "/prober";

const SUBJECT: &str = "gridpost/prober/";

/// How long a publish is repeated. A deployment that accepts nothing for so long is down.
const ACCEPT_MAX: Duration = Duration::from_secs(120);

const AGAIN: Duration = Duration::from_millis(250);

/// Publishes on their way at once; more wait, and the rate drops.
const UNDER_WAY_MAX: usize = 100;

/// The events to publish, and for how long.
#[derive(Clone, Debug)]
pub struct ProberOptions {
    /// An existing topic; without one, a temporary one that is deleted at the end.
    pub topic: Option<String>,
    /// Events published per second, one in each request.
    pub rate: u64,
    pub lasts: TimeSpan,
    /// How long to wait for accepted events that have not arrived.
    pub drain: TimeSpan,
    /// Port on 127.0.0.1 that receives the events; 0: a free one.
    pub port: u16,
    /// Public https URL that leads to that port; without one, the port itself.
    pub endpoint: Option<String>,
}

/// Publishes until `stop` or for as long as was asked, and receives. Missing events are no error: the result
/// counts them.
pub async fn probe(
    arguments: &ProberOptions,
    target: &Target,
    progress: Progress,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Probe> {
    let (sender, arrivals) = mpsc::unbounded_channel();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let answers: Answers = "200".parse().map_err(|problem| anyhow!("{problem}"))?;
    let receiver =
        Receiver::start(address, HashMap::new(), Behaviour::prompt(answers), sender).await?;
    let endpoint = match &arguments.endpoint {
        Some(url) => url.clone(),
        None if target.emulator_url().is_some() => receiver.url(PATH),
        None => {
            let advice = "a deployment on AWS can't reach this machine: give --port, and as --endpoint a public \
                          https URL that leads there";
            return Err(Misuse(advice.to_owned()).into());
        }
    };
    let api = target.manage_api().await?;
    let place = Place::create(arguments.topic.as_deref(), &api, &endpoint).await?;
    let probed = async {
        let run = Arc::new(Run::connect(&place, &api, target).await?);
        publish_and_receive(arguments, run, arrivals, &progress, stop).await
    };
    let probed = probed.await;
    place.clear(&api, &progress).await;
    probed
}

/// The event subscription of a run, and the topic where that is its own too.
struct Place {
    topic: String,
    owns_topic: bool,
    subscription: String,
}

impl Place {
    async fn create(topic: Option<&str>, api: &ManageApi, endpoint: &str) -> anyhow::Result<Self> {
        let id = clock::random_id();
        let name = format!("prober-{}", &id[..8]);
        let place = Self {
            topic: topic.unwrap_or(&name).to_owned(),
            owns_topic: topic.is_none(),
            subscription: name,
        };
        if place.owns_topic {
            api.put_topic(&place.topic, &TopicInput::default()).await?;
        }
        let subject_begins_with = Some(SUBJECT.to_owned());
        let settings = EventSubscriptionSettings {
            destination: Some(webhook(endpoint)),
            filter: Some(Filter { subject_begins_with, ..Filter::default() }),
            ..EventSubscriptionSettings::default()
        };
        let input = EventSubscriptionInput { properties: Some(settings) };
        let created = api.put_subscription(&place.topic, &place.subscription, &input).await;
        if let Err(error) = created {
            if place.owns_topic {
                // The first error is the one to report.
                let _ = api.delete_topic(&place.topic).await;
            }
            return Err(error.context(format!("{endpoint} cannot be subscribed")));
        }
        Ok(place)
    }

    async fn clear(&self, api: &ManageApi, progress: &Progress) {
        let Self { topic, subscription, .. } = self;
        let cleared = match self.owns_topic {
            true => api.delete_topic(topic).await,
            false => api.delete_subscription(topic, subscription).await,
        };
        if let Err(error) = cleared {
            progress.line(&format!(
                "event subscription {subscription} of topic {topic} is left behind: {}",
                failure::chain(&error)
            ));
        }
    }
}

/// A run of the prober.
struct Run {
    publisher: Publisher,
    id: String,
}

/// The data of a numbered event.
#[derive(Deserialize, Serialize)]
struct ProbeData {
    run: String,
    number: u64,
}

impl Run {
    async fn connect(place: &Place, api: &ManageApi, target: &Target) -> anyhow::Result<Self> {
        let topic = api.topic(&place.topic).await?.document;
        let publisher = Publisher::connect(&topic, api, target).await?;
        if publisher.schema == InputSchema::CustomEventSchema {
            let advice = "the topic takes events of its publishers' own schema, which the prober does not know: \
                          give another --topic, or none";
            return Err(Misuse(advice.to_owned()).into());
        }
        Ok(Self { publisher, id: clock::random_id() })
    }

    /// Publishes an event until it is accepted, and reports each answer.
    async fn publish(&self, number: u64, results: &mpsc::UnboundedSender<PublishResult>) {
        let data = ProbeData { run: self.id.clone(), number };
        let event = publish::Event {
            id: &format!("{}-{number}", self.id),
            event_type: "Gridpost.Probe",
            subject: &format!("{SUBJECT}{number}"),
            source: "/gridpost/prober",
            time: &clock::now_rfc3339(),
            data: &serde_json::to_string(&data).unwrap_or_default(),
        };
        let body = event.body(self.publisher.schema);
        let begun_at = Instant::now();
        loop {
            let result = match self.publisher.publish(body.clone()).await {
                Ok(_) => PublishResult::Accepted { number, begun_at, at: Instant::now() },
                Err(error) => PublishResult::Refused {
                    reason: reason(&error),
                    is_final: final_refusal(&error).is_some() || begun_at.elapsed() >= ACCEPT_MAX,
                },
            };
            let is_over = !matches!(result, PublishResult::Refused { is_final: false, .. });
            // The prober may have ended.
            let _ = results.send(result);
            if is_over {
                return;
            }
            sleep(AGAIN).await;
        }
    }

    fn number_of(&self, event: &Value) -> Option<u64> {
        let data = ProbeData::deserialize(event.get("data")?).ok()?;
        (data.run == self.id).then_some(data.number)
    }
}

/// Says why a publish was not accepted, in words that are the same each time.
fn reason(error: &anyhow::Error) -> String {
    if let Some(refusal) = final_refusal(error) {
        return refusal.to_string();
    }
    if let Some(Refusal { status, .. }) = error.downcast_ref() {
        return format!("HTTP {status}");
    }
    let is_timeout = error.downcast_ref().is_some_and(reqwest::Error::is_timeout);
    if is_timeout { "no answer in time".to_owned() } else { "no connection".to_owned() }
}

enum PublishResult {
    Accepted { number: u64, begun_at: Instant, at: Instant },
    Refused { reason: String, is_final: bool },
}

/// Publishes at the rate while it receives, then waits for what is still to arrive.
async fn publish_and_receive(
    arguments: &ProberOptions,
    run: Arc<Run>,
    mut arrivals: mpsc::UnboundedReceiver<Arrival>,
    progress: &Progress,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Probe> {
    let mut probe = Probe::default();
    let step = progress.step("Probing: publishing numbered events (Ctrl-C ends it)");
    let (sender, mut results) = mpsc::unbounded_channel();
    let permits = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    let mut publishes = JoinSet::new();
    let mut ticks = interval(Duration::from_secs(1) / u32::try_from(arguments.rate)?);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let publish_until = Instant::now() + arguments.lasts.0;
    let mut stop = Box::pin(stop);
    let mut number = 0;
    loop {
        tokio::select! {
            () = &mut stop => break,
            () = sleep_until(publish_until) => break,
            _ = ticks.tick() => {
                if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
                    number += 1;
                    let (run, sender) = (Arc::clone(&run), sender.clone());
                    publishes.spawn(async move {
                        run.publish(number, &sender).await;
                        drop(permit);
                    });
                }
                while publishes.try_join_next().is_some() {}
                step.detail(&summary(&probe));
            }
            Some(arrival) = arrivals.recv() => take(&mut probe, &run, &arrival),
            Some(result) = results.recv() => record(&mut probe, result)?,
        }
    }
    step.done(&format!("Published for as long as was asked: {}", summary(&probe)));
    drop(sender);
    let step = progress.step("Probing: waiting for what has not arrived");
    while let Some(result) = results.recv().await {
        record(&mut probe, result)?;
    }
    let drained = Instant::now() + arguments.drain.0;
    while probe.missing() > 0 {
        tokio::select! {
            // A second Ctrl-C ends the wait.
            _ = tokio::signal::ctrl_c() => break,
            arrival = timeout_at(drained, arrivals.recv()) => match arrival {
                Ok(Some(arrival)) => take(&mut probe, &run, &arrival),
                _ => break,
            },
        }
        step.detail(&summary(&probe));
    }
    step.done("Waited for what had not arrived");
    Ok(probe)
}

fn summary(probe: &Probe) -> String {
    let (accepted, missing) = (probe.accepted(), probe.missing());
    format!("{accepted} accepted, {missing} on their way, {} duplicates", probe.duplicates())
}

fn take(probe: &mut Probe, run: &Run, arrival: &Arrival) {
    if arrival.purpose == Purpose::Delivery {
        for number in arrival.events().iter().filter_map(|event| run.number_of(event)) {
            probe.arrive(number, arrival.at);
        }
    }
}

fn record(probe: &mut Probe, result: PublishResult) -> anyhow::Result<()> {
    match result {
        PublishResult::Accepted { number, begun_at, at } => {
            probe.accept(number, begun_at, at.saturating_duration_since(begun_at));
        }
        PublishResult::Refused { reason, is_final: false } => probe.refuse(reason),
        PublishResult::Refused { reason, is_final: true } => {
            return Err(anyhow!("nothing more is accepted: {reason}"));
        }
    }
    Ok(())
}

const GAPS_MAX: usize = 20;

/// The numbered events of one run: which were accepted, which arrived, how often and how late.
///
/// Pure: it reads no clock.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    accepted: BTreeMap<u64, Instant>,
    arrived: BTreeMap<u64, Arrived>,
    refusals: BTreeMap<String, u64>,
    longest_refusal: Duration,
    last_arrival: Option<Instant>,
    longest_silence: Duration,
}

/// A report as JSON; times are milliseconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeReport<'a> {
    accepted: u64,
    arrived: u64,
    missing: u64,
    /// Ranges of missing events, first and last number; at most 20 of them.
    gaps: Vec<(u64, u64)>,
    duplicates: u64,
    refused_publishes: &'a BTreeMap<String, u64>,
    longest_refusal_ms: u64,
    longest_silence_ms: u64,
    latency_ms: LatencyMs,
}

/// Milliseconds from the beginning of a publish to the first arrival; `None` without an arrival.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct LatencyMs {
    p50: Option<u64>,
    p99: Option<u64>,
    max: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Arrived {
    first: Instant,
    times: u64,
}

impl Probe {
    /// Counts event `number` as accepted, whose request was begun at `begun_at`, `after` this time of refusals.
    pub fn accept(&mut self, number: u64, begun_at: Instant, after: Duration) {
        self.accepted.insert(number, begun_at);
        self.longest_refusal = self.longest_refusal.max(after);
    }

    /// Counts a publish that was not accepted, by its reason.
    pub fn refuse(&mut self, reason: String) {
        *self.refusals.entry(reason).or_default() += 1;
    }

    /// Counts an arrival of event `number`.
    pub fn arrive(&mut self, number: u64, at: Instant) {
        let arrived = self.arrived.entry(number).or_insert(Arrived { first: at, times: 0 });
        arrived.times += 1;
        if let Some(last) = self.last_arrival {
            self.longest_silence = self.longest_silence.max(at.saturating_duration_since(last));
        }
        self.last_arrival = Some(at);
    }

    /// Counts events that were accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.len() as u64
    }

    /// Counts events that were accepted and have not arrived.
    pub fn missing(&self) -> u64 {
        self.missing_numbers().count() as u64
    }

    fn missing_numbers(&self) -> impl Iterator<Item = u64> {
        self.accepted.keys().copied().filter(|number| !self.arrived.contains_key(number))
    }

    /// Counts arrivals beyond the first of an event.
    fn duplicates(&self) -> u64 {
        self.arrived.values().map(|arrived| arrived.times - 1).sum()
    }

    /// Lists the missing events as ranges, first and last number.
    fn gaps(&self) -> Vec<(u64, u64)> {
        let mut gaps: Vec<(u64, u64)> = Vec::new();
        for number in self.missing_numbers() {
            match gaps.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => gaps.push((number, number)),
            }
        }
        gaps
    }

    fn latency_ms(&self) -> LatencyMs {
        let latency = |(number, begun_at): (&u64, &Instant)| {
            Some(self.arrived.get(number)?.first.saturating_duration_since(*begun_at))
        };
        let mut latencies: Vec<_> = self.accepted.iter().filter_map(latency).collect();
        latencies.sort_unstable();
        let percentile = |share: f64| {
            let index = (latencies.len().saturating_sub(1) as f64 * share).round() as usize;
            latencies.get(index).map(milliseconds)
        };
        LatencyMs { p50: percentile(0.5), p99: percentile(0.99), max: percentile(1.0) }
    }

    /// Describes it for programs.
    pub fn document(&self) -> ProbeReport<'_> {
        ProbeReport {
            accepted: self.accepted(),
            // An event may arrive although its publish seemed to fail.
            arrived: self.arrived.len() as u64,
            missing: self.missing(),
            gaps: self.gaps().into_iter().take(GAPS_MAX).collect(),
            duplicates: self.duplicates(),
            refused_publishes: &self.refusals,
            longest_refusal_ms: milliseconds(&self.longest_refusal),
            longest_silence_ms: milliseconds(&self.longest_silence),
            latency_ms: self.latency_ms(),
        }
    }

    /// Describes it for people.
    pub fn text(&self) -> String {
        let LatencyMs { p50, p99, max } = self.latency_ms();
        let [p50, p99, max] = [p50, p99, max].map(|ms| or_dash(ms.map(|ms| format!("{ms} ms"))));
        let refusals: Vec<_> =
            self.refusals.iter().map(|(reason, count)| format!("{count} x {reason}")).collect();
        let mut lines = vec![
            format!(
                "{} accepted, {} missing, {} duplicates",
                self.accepted(),
                self.missing(),
                self.duplicates()
            ),
            format!("publish to arrival: p50 {p50}, p99 {p99}, longest {max}"),
            format!("longest time without an arrival: {} ms", milliseconds(&self.longest_silence)),
        ];
        if !refusals.is_empty() {
            lines.push(format!(
                "publishes not accepted at once, and repeated: {}; the longest for {} ms",
                refusals.join(", "),
                milliseconds(&self.longest_refusal)
            ));
        }
        let gaps = self.gaps();
        for (first, last) in gaps.iter().take(GAPS_MAX) {
            lines.push(match first == last {
                true => format!("missing: {first}"),
                false => format!("missing: {first} to {last}"),
            });
        }
        if gaps.len() > GAPS_MAX {
            lines.push(format!("missing: {} more gaps", gaps.len() - GAPS_MAX));
        }
        lines.join("\n")
    }
}

fn milliseconds(time: &Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reasons_are_the_same_each_time() {
        for (status, want) in [(503, "HTTP 503"), (429, "HTTP 429")] {
            assert_eq!(reason(&Refusal::from_answer(status, "{}").into()), want);
        }
        assert_eq!(reason(&anyhow!("POST http://a got no answer")), "no connection");
    }

    fn probe(accepted: &[u64], arrived: &[u64]) -> Probe {
        let begun = Instant::now();
        let mut probe = Probe::default();
        for number in accepted {
            probe.accept(*number, begun, Duration::ZERO);
        }
        for (place, number) in arrived.iter().enumerate() {
            probe.arrive(*number, begun + Duration::from_millis(place as u64 * 10));
        }
        probe
    }

    #[test]
    fn gaps_and_duplicates_table() {
        type Row = (&'static [u64], &'static [u64], &'static [(u64, u64)], u64);
        let table: [Row; 6] = [
            (&[], &[], &[], 0),
            (&[1, 2, 3], &[3, 1, 2], &[], 0),
            (&[1, 2, 3], &[1, 1, 3, 1], &[(2, 2)], 2),
            (&[1, 2, 3, 4, 5, 6], &[3], &[(1, 2), (4, 6)], 0),
            // Accepted, but the response was lost: the event arrives although nothing confirmed it.
            (&[1], &[1, 2], &[], 0),
            (&[1, 3], &[], &[(1, 1), (3, 3)], 0),
        ];
        for (accepted, arrived, gaps, duplicates) in table {
            let probe = probe(accepted, arrived);
            assert_eq!(probe.gaps(), gaps, "{accepted:?} {arrived:?}");
            assert_eq!(probe.duplicates(), duplicates, "{accepted:?} {arrived:?}");
            let missing: u64 = gaps.iter().map(|(first, last)| last - first + 1).sum();
            assert_eq!(probe.missing(), missing, "{accepted:?} {arrived:?}");
        }
    }

    #[test]
    fn the_report_says_how_late_and_how_long_nothing_came() {
        let mut probe = probe(&[0, 1, 2], &[0, 1, 2]);
        probe.refuse("HTTP 503".to_owned());
        let want = json!({"accepted": 3, "arrived": 3, "missing": 0, "gaps": [], "duplicates": 0,
            "refusedPublishes": {"HTTP 503": 1}, "longestRefusalMs": 0, "longestSilenceMs": 10,
            "latencyMs": {"p50": 10, "p99": 20, "max": 20}});
        assert_eq!(serde_json::to_value(probe.document()).expect("JSON"), want);
        let text = probe.text();
        assert!(text.starts_with("3 accepted, 0 missing, 0 duplicates\n"), "{text}");
        assert!(text.contains("1 x HTTP 503"), "{text}");
    }
}

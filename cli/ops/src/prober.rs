//! Publishes numbered events, receives them, and says which are missing or came
//! twice; to be run while a deployment is upgraded.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout_at};

use crate::{
    clock,
    failure::{self, Misuse, Refusal},
    given::TimeSpan,
    manage_api::ManageApi,
    probe::Probe,
    progress::Progress,
    publish::{self, InputSchema},
    receiver::{Answers, Arrival, Behaviour, Purpose, Receiver},
    target::Target,
};

const PATH: &str = "/prober";

const SUBJECT: &str = "gridpost/prober/";

/// How long a publish is tried again. A deployment that accepts nothing for so long is down.
const ACCEPT_MAX: Duration = Duration::from_secs(120);

const AGAIN: Duration = Duration::from_millis(250);

/// Publishes on their way at once; more wait, and the rate drops.
const UNDER_WAY_MAX: usize = 100;

/// What to publish, and for how long.
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

/// Publishes until `stop` or for as long as was asked, receives, and answers what came of it. Missing
/// events are no error: the result counts them.
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
    let place = Place::make(arguments.topic.as_deref(), &api, &endpoint).await?;
    let probed = async {
        let publisher = Arc::new(Publisher::of(&place, &api, target).await?);
        publish_and_receive(arguments, publisher, arrivals, &progress, stop).await
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
    async fn make(topic: Option<&str>, api: &ManageApi, endpoint: &str) -> anyhow::Result<Self> {
        let id = clock::random_id();
        let name = format!("prober-{}", &id[..8]);
        let place = Self {
            topic: topic.unwrap_or(&name).to_owned(),
            owns_topic: topic.is_none(),
            subscription: name,
        };
        if place.owns_topic {
            api.put_topic(&place.topic, &json!({"properties": {}})).await?;
        }
        let document = json!({"properties": {
            "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": endpoint}},
            "filter": {"subjectBeginsWith": SUBJECT},
        }});
        let made = api.put_subscription(&place.topic, &place.subscription, &document).await;
        if let Err(error) = made {
            if place.owns_topic {
                // The refusal is what matters.
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

struct Publisher {
    http: reqwest::Client,
    url: String,
    key: String,
    schema: InputSchema,
    run: String,
}

impl Publisher {
    async fn of(place: &Place, api: &ManageApi, target: &Target) -> anyhow::Result<Self> {
        let topic = api.topic(&place.topic).await?;
        let url = publish::events_url(&place.topic, &topic, target)?;
        let keys = api.keys(&place.topic).await?;
        let key = keys["key1"].as_str().context("the manage API gave no key1")?.to_owned();
        let schema = InputSchema::of_topic(&topic)?;
        if schema == InputSchema::Custom {
            let advice = "the topic takes events of its publishers' own schema, which the prober does not know: \
                          give another --topic, or none";
            return Err(Misuse(advice.to_owned()).into());
        }
        Ok(Self { http: target.http_client(&url)?, url, key, schema, run: clock::random_id() })
    }

    async fn publish(&self, number: u64, told: &mpsc::UnboundedSender<Told>) {
        let begun_at = Instant::now();
        loop {
            // The prober that listens no more has ended.
            let told = |what| drop(told.send(what));
            match self.publish_once(number).await {
                Ok(()) => return told(Told::Accepted { number, begun_at, at: Instant::now() }),
                Err(Refused { reason, is_final }) => {
                    let is_final = is_final || begun_at.elapsed() >= ACCEPT_MAX;
                    told(Told::Refused { reason, is_final });
                    if is_final {
                        return;
                    }
                }
            }
            sleep(AGAIN).await;
        }
    }

    async fn publish_once(&self, number: u64) -> Result<(), Refused> {
        let event = publish::Event {
            id: &format!("{}-{number}", self.run),
            event_type: "Gridpost.Probe",
            subject: &format!("{SUBJECT}{number}"),
            source: "/gridpost/prober",
            time: &clock::now_rfc3339(),
            data: &json!({"run": self.run, "number": number}).to_string(),
        };
        let body = event.body(self.schema);
        let request = self.http.post(&self.url).header("aeg-sas-key", &self.key);
        let content_type = self.schema.content_type(body.as_bytes());
        let answer = request.header("content-type", content_type).body(body).send().await;
        let answer = answer.map_err(|error| {
            let reason = if error.is_timeout() { "no answer in time" } else { "no connection" };
            Refused { reason: reason.to_owned(), is_final: false }
        })?;
        match answer.status().as_u16() {
            200 => Ok(()),
            // Our own request is wrong, and stays so.
            status @ 400..=428 => {
                let text = answer.text().await.unwrap_or_default();
                let reason = Refusal::from_answer(status, &text).to_string();
                Err(Refused { reason, is_final: true })
            }
            status => Err(Refused { reason: format!("HTTP {status}"), is_final: false }),
        }
    }

    fn number_of(&self, event: &Value) -> Option<u64> {
        let data = &event["data"];
        (data["run"] == self.run.as_str()).then(|| data["number"].as_u64()).flatten()
    }
}

struct Refused {
    reason: String,
    is_final: bool,
}

enum Told {
    Accepted { number: u64, begun_at: Instant, at: Instant },
    Refused { reason: String, is_final: bool },
}

/// Publishes at the rate while it receives, then waits for what is still to arrive.
async fn publish_and_receive(
    arguments: &ProberOptions,
    publisher: Arc<Publisher>,
    mut arrivals: mpsc::UnboundedReceiver<Arrival>,
    progress: &Progress,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Probe> {
    let mut probe = Probe::default();
    let step = progress.step("Probing: publishing numbered events (Ctrl-C ends it)");
    let (told, mut tellings) = mpsc::unbounded_channel();
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
                    let (publisher, told) = (Arc::clone(&publisher), told.clone());
                    publishes.spawn(async move {
                        publisher.publish(number, &told).await;
                        drop(permit);
                    });
                }
                while publishes.try_join_next().is_some() {}
                step.detail(&summary(&probe));
            }
            Some(arrival) = arrivals.recv() => take(&mut probe, &publisher, &arrival),
            Some(what) = tellings.recv() => hear(&mut probe, what)?,
        }
    }
    step.done(&format!("Published for as long as was asked: {}", summary(&probe)));
    drop(told);
    let step = progress.step("Probing: waiting for what has not arrived");
    while let Some(what) = tellings.recv().await {
        hear(&mut probe, what)?;
    }
    let drained = Instant::now() + arguments.drain.0;
    while probe.missing() > 0 {
        tokio::select! {
            // Whoever asks twice does not want to wait.
            _ = tokio::signal::ctrl_c() => break,
            arrival = timeout_at(drained, arrivals.recv()) => match arrival {
                Ok(Some(arrival)) => take(&mut probe, &publisher, &arrival),
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

fn take(probe: &mut Probe, publisher: &Publisher, arrival: &Arrival) {
    if arrival.purpose == Purpose::Delivery {
        for number in arrival.events().iter().filter_map(|event| publisher.number_of(event)) {
            probe.arrive(number, arrival.at);
        }
    }
}

fn hear(probe: &mut Probe, told: Told) -> anyhow::Result<()> {
    match told {
        Told::Accepted { number, begun_at, at } => {
            probe.accept(number, begun_at, at.saturating_duration_since(begun_at));
        }
        Told::Refused { reason, is_final: false } => probe.refuse(reason),
        Told::Refused { reason, is_final: true } => {
            return Err(anyhow!("nothing more is accepted: {reason}"));
        }
    }
    Ok(())
}

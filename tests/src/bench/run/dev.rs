//! One run of a mix against `gridpost dev`: the whole product as one process, on data in a folder.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, ensure};
use serde_json::json;
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{Options, Run};
use crate::{
    bench::{
        book::{Book, Sum},
        figures::{Figures, percentile},
        mix::{Conduct, Host, Load, Mix, topic_name},
        payload::Publishes,
        process::{Usage, own_cpu_ms},
        sink::{Sinks, certificate},
    },
    dev::{
        process::{Dev, Program},
        publisher::Publisher,
    },
};

/// Time without an arrival after which the rest counts as missing.
const DRAIN_WAIT: Duration = Duration::from_secs(15);

/// How long its CPU time counts after the last arrival: it still deletes delivered events.
const SETTLE_WAIT: Duration = Duration::from_millis(200);

/// Concurrent publishes that warm it up, and how often they are made.
const WARMING: (usize, usize) = (32, 8);

/// What publishes go to.
struct Target {
    mix: &'static Mix,
    book: Arc<Book>,
    publishes: Publishes,
    publisher: Publisher,
    keys: Vec<String>,
}

impl Target {
    /// Makes one publish, and waits for its arrival if asked to.
    async fn publish(&self, due: Instant, waits: bool) -> anyhow::Result<()> {
        let (number, arrived) = self.book.open(due, |number| self.mix.arrivals_of(self.of(number)));
        let topic = self.of(number);
        let body = self.publishes.make(number);
        let sent = self.publisher.publish(&topic_name(topic), &self.keys[topic], &body).await;
        let status = sent.context("a publish")?;
        ensure!(status == 200, "a publish was answered {status}");
        self.book.accepted(number);
        if waits {
            // What is still missing after that is counted as missing.
            let _ = timeout(DRAIN_WAIT, arrived).await;
        }
        Ok(())
    }

    fn of(&self, publish: usize) -> usize {
        publish % self.mix.topics
    }
}

/// Runs a mix once.
pub async fn run(mix: &'static Mix, host: Host, options: &Options) -> anyhow::Result<Run> {
    let folder = options.logs.join(mix.name);
    // Removes what an earlier run has left there.
    let _ = fs::remove_dir_all(&folder);
    let sync = if host.is_synced { "full" } else { "normal" };
    let arguments = ["--sync", sync].map(str::to_owned).to_vec();
    let path = if host.is_debug { &options.gridpost_debug } else { &options.gridpost };
    let dev = Program { path: path.clone(), folder, arguments }.start().await?;
    let book = Arc::new(Book::new(mix.events_per_publish, mix.topics));
    let tls = certificate(&options.logs.join("trusted.pem"))?;
    let answers_after = options.distance.endpoint;
    let sinks = Sinks::start(&mix.endpoints(), Arc::clone(&book), tls, answers_after).await?;
    let target = Arc::new(Target {
        mix,
        book,
        publishes: Publishes::of_clients(mix),
        publisher: Publisher::new(&dev.url)?,
        keys: subscribe(&dev, mix, &sinks).await?,
    });
    let (at_once, rounds) = WARMING;
    for _ in 0..rounds {
        let warming = (0..at_once).map(|_| target.publish(Instant::now(), true));
        futures::future::try_join_all(warming).await.context("warming up")?;
    }
    measure(&dev, &target, options).await
}

/// Makes the topics and event subscriptions of a mix; returns the topics' keys.
async fn subscribe(dev: &Dev, mix: &Mix, sinks: &Sinks) -> anyhow::Result<Vec<String>> {
    let mut keys = Vec::new();
    for topic in 0..mix.topics {
        keys.push(dev.topic(&topic_name(topic), &json!({})).await?);
    }
    for endpoint in mix.endpoints() {
        let (topic, name) = (topic_name(endpoint.topic), format!("s{}", endpoint.number));
        let url = sinks.url(&endpoint, mix.https);
        dev.subscribe(&topic, &name, &url, json!({})).await?;
    }
    Ok(keys)
}

async fn measure(dev: &Dev, target: &Arc<Target>, options: &Options) -> anyhow::Result<Run> {
    let (book, mix) = (&target.book, target.mix);
    book.count_from_here();
    let (before, driver_ms) = (dev.usage()?, own_cpu_ms());
    let began = Instant::now();
    load(target, options, began).await?;
    drain(book).await;
    let took = began.elapsed();
    sleep(SETTLE_WAIT).await;
    let used = dev.usage()?.since(&before);
    let driver_ms = own_cpu_ms() - driver_ms;
    let endpoints = mix.endpoints();
    let wants = |topic: usize, number: usize| {
        let endpoint = endpoints[number];
        let works = endpoint.conduct == Conduct::Works;
        (endpoint.topic == topic && endpoint.wants).then_some(works)
    };
    let sum = book.sum(endpoints.len(), wants, &HashSet::new());
    let problems = match sum.missing {
        0 => Vec::new(),
        missing => vec![format!("{missing} events are missing")],
    };
    let mut figures = figures(&sum, &used, took);
    let events = sum.arrived.max(1) as f64;
    figures.insert("driver CPU ms/event".to_owned(), driver_ms / events);
    figures.insert("dev ready ms".to_owned(), dev.ready_after.as_secs_f64() * 1_000.0);
    Ok(Run { figures, problems })
}

/// Makes the publishes of a mix.
async fn load(target: &Arc<Target>, options: &Options, began: Instant) -> anyhow::Result<()> {
    let until = began + options.duration;
    let (at_once, waits) = match target.mix.load {
        Load::Closed { publishes } => (publishes, true),
        Load::Open { .. } | Load::Backlog => (Semaphore::MAX_PERMITS, false),
    };
    let slots = Arc::new(Semaphore::new(at_once));
    let mut going = JoinSet::new();
    for number in 0..options.publishes_max {
        let mut due = Instant::now();
        if let Load::Open { per_second } = target.mix.load {
            due = began + Duration::from_secs(1) * u32::try_from(number)? / per_second;
            sleep_until(due).await;
        }
        let slot = Arc::clone(&slots).acquire_owned().await?;
        if Instant::now() >= until {
            break;
        }
        if waits {
            due = Instant::now();
        }
        let target = Arc::clone(target);
        going.spawn(async move {
            let made = target.publish(due, waits).await;
            drop(slot);
            made
        });
        while let Some(made) = going.try_join_next() {
            made??;
        }
    }
    while let Some(made) = going.join_next().await {
        made??;
    }
    Ok(())
}

/// Waits until everything has arrived, or until nothing more arrives.
async fn drain(book: &Book) {
    let (mut open, mut since) = (usize::MAX, Instant::now());
    loop {
        let now_open = book.open_publishes();
        if now_open == 0 || since.elapsed() > DRAIN_WAIT {
            return;
        }
        if now_open != open {
            (open, since) = (now_open, Instant::now());
        }
        sleep(Duration::from_millis(2)).await;
    }
}

fn figures(sum: &Sum, used: &Usage, took: Duration) -> Figures {
    let events = sum.arrived.max(1) as f64;
    let mut figures = Figures::default();
    let mut set = |name: &str, value: f64| {
        figures.insert(name.to_owned(), value);
    };
    set("events", sum.arrived as f64);
    set("missing", sum.missing as f64);
    set("duplicates", sum.duplicates as f64);
    set("strangers", sum.strangers as f64);
    set("delivered/s", events / took.as_secs_f64());
    set("dev CPU ms/event", used.cpu_ms / events);
    set("dev user ms/event", used.user_ms / events);
    set("dev system ms/event", used.system_ms / events);
    set("dev peak MB", used.peak_kib as f64 / 1_024.0);
    for part in [50, 95, 99] {
        let value = percentile(&sum.hops.publish_to_arrival, f64::from(part));
        set(&format!("arrival p{part} ms"), value);
    }
    figures
}

/// The `gridpost` program in a folder that Cargo builds into.
pub fn program(target: &Path, is_debug: bool) -> PathBuf {
    target.join(if is_debug { "debug" } else { "release" }).join("gridpost")
}

//! One run of one mix: its own deployment is warmed up, loaded, drained, and summed up.

use std::{
    collections::HashSet,
    fs,
    future::ready,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, ensure};
use clap::Args;
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use gridpost_testkit::server::Server;
use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_rustls::TlsAcceptor;

use super::{
    aws::{CONFIG_TABLE, Cloud, DISPATCH, RETRY, environment},
    book::{Book, Sum, endpoint_number, event_numbers},
    figures::{Figures, percentile},
    lock,
    mapping::{Mappings, poll},
    mix::{Conduct, Load, Mix, topic_name},
    payload::Publishes,
    process::{Measured, Usage},
    queue::Queue,
    sandbox::{Function, Program},
    sink::{Sinks, certificate},
};
use crate::{
    dev::{self, Dev, create_topic, publish_endpoint, subscribe},
    e2e::fixture::post,
};

/// The functions' timeouts: the deployment's defaults.
const INGEST_TIMEOUT: Duration = Duration::from_secs(29);
const DISPATCH_TIMEOUT: Duration = Duration::from_secs(210);

/// Time without an arrival after which the rest counts as missing.
const DRAIN_WAIT: Duration = Duration::from_secs(15);

/// How long the CPU time of `gridpost dev` counts after the last arrival: it still deletes delivered
/// events.
const DEV_SETTLE_WAIT: Duration = Duration::from_millis(200);

/// How often the warm-up uses everything.
const WARM_ROUNDS: usize = 8;

/// Publishes of a round of the warm-up of `gridpost dev`.
const DEV_WARM_AT_ONCE: usize = 32;

/// Most bytes of memory for the publishes of a backlog.
const BACKLOG_BYTES_MAX: usize = 256 * 1_048_576;

/// How to run.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Seconds for which publishes are made, in each run.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Sandboxes of each function.
    #[arg(long, default_value_t = 2)]
    pub sandboxes: usize,
    /// Calls AWS over TLS, as in a deployment.
    #[arg(long)]
    pub aws_tls: bool,
    /// Milliseconds that AWS takes to answer a function's call.
    #[arg(long, default_value_t = 0)]
    pub aws_ms: u64,
    /// Milliseconds that an endpoint takes to answer.
    #[arg(long, default_value_t = 0)]
    pub endpoint_ms: u64,
    /// The programs.
    #[arg(skip)]
    pub ingest: PathBuf,
    #[arg(skip)]
    pub dispatch: PathBuf,
    #[arg(skip)]
    pub gridpost: PathBuf,
    /// Where the functions' output goes.
    #[arg(skip)]
    pub logs: PathBuf,
    /// Most publishes to make.
    #[arg(skip = usize::MAX)]
    pub publishes_max: usize,
}

impl Options {
    fn endpoint_wait(&self) -> Duration {
        Duration::from_millis(self.endpoint_ms)
    }

    /// The file of the certificate that clients trust.
    pub(super) fn trusted(&self) -> PathBuf {
        self.logs.join("trusted.pem")
    }
}

/// The result of one run.
#[derive(Debug)]
pub struct Run {
    pub figures: Figures,
    /// Problems; a run with problems proves nothing.
    pub problems: Vec<String>,
}

/// Where publishes go.
enum Front {
    /// To ingest.
    Functions { ingest: Function, _serving: Server, _polling: JoinSet<()> },
    /// With the topics' endpoints and keys.
    Dev { http: reqwest::Client, topics: Vec<(String, String)>, _dev: Box<Dev> },
}

/// The measured functions; the mappings to dispatch are theirs.
type Subject = (Front, Vec<Measured>, Option<Arc<Mappings>>);

impl Front {
    /// Starts ingest, and dispatch behind its mappings.
    async fn functions(
        mix: &Mix,
        options: &Options,
        sinks: &Sinks,
        book: &Arc<Book>,
        tls: TlsAcceptor,
    ) -> anyhow::Result<Subject> {
        let sent = Arc::clone(book);
        let on_send = move |body: &[u8]| {
            sent.enqueued(body);
            true
        };
        let cloud = Arc::new(Cloud::new(Duration::from_millis(options.aws_ms), Box::new(on_send)));
        let of_topic = json!({
            "createdAt": { "N": "0" }, "changes": { "S": r#"{"latest":[],"after":0}"# },
        });
        for (keys, document) in mix.documents(|endpoint| sinks.url(endpoint))? {
            lock(&cloud.tables).put(CONFIG_TABLE, keys, document, &of_topic)?;
        }
        let (serving, url) = cloud.serve(options.aws_tls.then_some(tls)).await?;
        let environment = environment(&url, &options.trusted(), mix.message_bytes_max);
        let function = async |name, path: &Path, timeout| {
            let (path, environment) = (path.to_owned(), environment.clone());
            let program = Program { name, path, environment, timeout, memory_mb: 512 };
            Function::start(&program, options.sandboxes, &options.logs).await
        };
        let ingest = function("ingest", &options.ingest, INGEST_TIMEOUT).await?;
        let function = function("dispatch", &options.dispatch, DISPATCH_TIMEOUT).await?;
        let programs = vec![ingest.measured.clone(), function.measured.clone()];
        let (enabled, book) = (watch::Sender::new(true), Arc::clone(book));
        let mappings = Arc::new(Mappings { cloud, function, book, enabled });
        let mut polling = JoinSet::new();
        for queue in [DISPATCH, RETRY] {
            polling.spawn(poll(Arc::clone(&mappings), queue, options.sandboxes));
        }
        let front = Self::Functions { ingest, _serving: serving, _polling: polling };
        Ok((front, programs, Some(mappings)))
    }

    /// Starts `gridpost dev`, on data in a folder.
    async fn dev(
        mix: &Mix,
        sync: &str,
        options: &Options,
        sinks: &Sinks,
    ) -> anyhow::Result<Subject> {
        let folder = options.logs.join(&mix.name);
        // Removes what an earlier run has left there.
        let _ = fs::remove_dir_all(&folder);
        let mut program = dev::Program::new(&options.gridpost, &folder, &["--sync", sync]);
        program.trusted = mix.https.then(|| options.trusted());
        let dev = program.start().await?;
        let mut topics = Vec::new();
        for name in (0..mix.topics).map(topic_name) {
            let key = create_topic(&dev.api, &name, &json!({})).await?;
            topics.push((publish_endpoint(&dev.connection, &name), key));
        }
        for endpoint in mix.endpoints() {
            let (topic, name) = (topic_name(endpoint.topic), format!("s{}", endpoint.number));
            subscribe(&dev.api, &topic, &name, &sinks.url(&endpoint), json!({})).await?;
        }
        let processes = vec![dev.id().await?];
        let programs = vec![Measured { name: "dev", processes, ready_after: dev.ready_after }];
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok((Self::Dev { http, topics, _dev: Box::new(dev) }, programs, None))
    }
}

/// A running deployment.
pub(super) struct Deployment {
    mix: Mix,
    front: Front,
    pub(super) programs: Vec<Measured>,
    mappings: Option<Arc<Mappings>>,
    pub(super) book: Arc<Book>,
    publishes: Publishes,
    sinks: Sinks,
}

impl Deployment {
    /// Brings up what a mix measures.
    pub(super) async fn start(mix: &Mix, options: &Options) -> anyhow::Result<Self> {
        let book = Arc::new(Book::new(mix));
        let tls = certificate(&options.trusted())?;
        let sinks = Sinks::start(mix, options.endpoint_wait(), &book, tls.clone()).await?;
        let (front, programs, mappings) = match &mix.dev {
            Some(sync) => Front::dev(mix, sync, options, &sinks).await?,
            None => Front::functions(mix, options, &sinks, &book, tls).await?,
        };
        let (mix, publishes) = (mix.clone(), Publishes::new(mix)?);
        Ok(Self { mix, front, programs, mappings, book, publishes, sinks })
    }

    /// Starts or stops dispatch's mappings.
    fn enable(&self, enabled: bool) {
        if let Some(mappings) = &self.mappings {
            mappings.enabled.send_replace(enabled);
        }
    }

    /// Makes one publish. Waits until all its events have arrived if `waits` is set.
    pub(super) async fn publish(&self, due: Instant, waits: bool) -> anyhow::Result<()> {
        let (number, arrived) = self.book.open(due);
        let body = self.publishes.make(number);
        match &self.front {
            Front::Functions { ingest, .. } => {
                let book = Arc::clone(&self.book);
                let on_hand = move || book.handed_to_ingest(number);
                let answer = ingest.invoke(body, on_hand).await.context("ingest")?;
                let is_ok = memchr::memmem::find(&answer, br#""statusCode":200"#).is_some();
                ensure!(is_ok, "ingest answered {}", String::from_utf8_lossy(&answer));
            }
            Front::Dev { http, topics, .. } => {
                let (endpoint, key) = &topics[number % topics.len()];
                let answer = post(http, endpoint, key, "application/json", body).await;
                let (status, answer) = answer.context("a publish")?;
                ensure!(status == 200, "a publish was answered {status}: {answer}");
            }
        }
        self.book.accepted(number);
        if waits {
            // What is still missing after that is counted as missing.
            let _ = timeout(DRAIN_WAIT, arrived).await;
        }
        Ok(())
    }

    /// Warms up: reads configuration and opens connections.
    async fn warm(&self, at_once: usize) -> anyhow::Result<()> {
        for _ in 0..WARM_ROUNDS {
            let publishes = (0..at_once).map(|_| self.publish(Instant::now(), true));
            try_join_all(publishes).await.context("warming up")?;
        }
        Ok(())
    }

    /// Makes the publishes of the mix.
    async fn load(self: &Arc<Self>, options: &Options, began: Instant) -> anyhow::Result<()> {
        let mix = &self.mix;
        let bytes = mix.events_per_publish * mix.event_bytes * mix.subscriptions;
        let (at_once, waits, most) = match mix.load {
            Load::Closed(publishes) => (publishes, true, usize::MAX),
            Load::Open(_) => (usize::MAX, false, usize::MAX),
            Load::Backlog => (2 * options.sandboxes, false, BACKLOG_BYTES_MAX / bytes),
        };
        let (load, until) = (mix.load, began + Duration::from_secs_f64(options.seconds));
        let due = |number: usize| async move {
            let Load::Open(per_second) = load else { return Instant::now() };
            let due = began + Duration::from_secs(number as u64) / per_second;
            sleep_until(due).await;
            due
        };
        let publish = |due| {
            let deployment = Arc::clone(self);
            tokio::spawn(async move { deployment.publish(due, waits).await })
        };
        let publishes = stream::iter(0..most.min(options.publishes_max)).then(due);
        let publishes = publishes.take_while(|_| ready(Instant::now() < until)).map(publish);
        publishes.buffer_unordered(at_once).map(|made| made?).try_collect().await
    }

    /// Waits until everything has arrived, or until nothing more arrives.
    async fn drain(&self) {
        let (mut open, mut since) = (usize::MAX, Instant::now());
        while open > 0 && since.elapsed() <= DRAIN_WAIT {
            let now_open = self.book.open_publishes();
            if now_open != open {
                (open, since) = (now_open, Instant::now());
            }
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until first attempts that fail are settled too.
    async fn settle(&self) {
        let Some(mappings) = &self.mappings else { return sleep(DEV_SETTLE_WAIT).await };
        let (queue, until) = (mappings.cloud.queue(DISPATCH), Instant::now() + DRAIN_WAIT);
        while self.mix.first_topic != Conduct::Works
            && queue.counts(Instant::now()) != [0; 3]
            && Instant::now() < until
        {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Sums up the events that have arrived and those that wait in a queue. Poison messages and ended
    /// deliveries do not count as waiting: no mix has an event that ends there.
    pub(super) fn sum(&self) -> Sum {
        let mappings = self.mappings.iter();
        let queues = mappings.flat_map(|of| [DISPATCH, RETRY].map(|name| of.cloud.queue(name)));
        let mut held = HashSet::new();
        for message in queues.flat_map(Queue::messages) {
            let Some(endpoint) = endpoint_number(&message.group) else { continue };
            let events = event_numbers(message.body.get().as_bytes());
            held.extend(events.map(|event| (endpoint, event)));
        }
        self.book.sum(&held)
    }

    /// Reads the usage so far, by the names of the figures that it becomes.
    fn counters(&self) -> anyhow::Result<Figures> {
        let driver = Usage::of(std::process::id())?.cpu_ms;
        let mut counters = Figures::from([("driver CPU ms/event".to_owned(), driver)]);
        for program in &self.programs {
            let (name, usages) = (program.name, program.usages()?);
            let sum = |of: fn(&Usage) -> f64| usages.iter().map(of).sum();
            counters.insert(format!("{name} CPU ms/event"), sum(|usage| usage.cpu_ms));
            counters.insert(format!("{name} user ms/event"), sum(|usage| usage.user_ms));
            counters.insert(format!("{name} system ms/event"), sum(|usage| usage.system_ms));
        }
        if let Some(mappings) = &self.mappings {
            let calls = mappings.cloud.calls();
            counters.insert("calls/event".to_owned(), calls.values().sum::<u64>() as f64);
            let named = |(call, count)| (format!("calls/event {call}"), count as f64);
            counters.extend(calls.into_iter().map(named));
        }
        Ok(counters)
    }

    /// The figures of a run, from what was used in it.
    fn figures(
        &self,
        sum: &Sum,
        used: Figures,
        [publishing, delivering]: [Duration; 2],
    ) -> anyhow::Result<Figures> {
        let events = sum.arrived.max(1) as f64;
        let published = (sum.publishes * self.mix.events_per_publish as u64).max(1) as f64;
        let mut figures: Figures =
            used.into_iter().map(|(name, used)| (name, used / events)).collect();
        let mut set = |name: &str, value: f64| figures.insert(name.to_owned(), value);
        set("events", sum.arrived as f64);
        set("missing", sum.missing as f64);
        set("duplicates", sum.duplicates as f64);
        set("strangers", sum.strangers as f64);
        set("published/s", published / publishing.as_secs_f64());
        set("delivered/s", events / delivering.as_secs_f64());
        for program in &self.programs {
            let peak_kib = program.usages()?.iter().map(|usage| usage.peak_kib).max();
            set(&format!("{} peak MB", program.name), peak_kib.unwrap_or(0) as f64 / 1_024.0);
            match program.name {
                "dev" => set("dev ready ms", program.ready_after.as_secs_f64() * 1_000.0),
                _ => set("ingest invocations/event", sum.publishes as f64 / events),
            };
        }
        if self.mix.dev.is_some() {
            set("connections", self.sinks.connections() as f64);
        }
        if self.mix.load != Load::Backlog {
            for (name, values) in &sum.hops {
                for part in [50, 95, 99] {
                    set(&format!("{name} p{part} ms"), percentile(values, f64::from(part)));
                }
            }
        }
        for name in ["ingest", "dispatch"] {
            if let Some(cpu_ms) = figures.get(&format!("{name} CPU ms/event")) {
                let of_published = cpu_ms * events / published;
                figures.insert(format!("{name} CPU ms/published event"), of_published);
            }
        }
        Ok(figures)
    }
}

/// Runs a mix once.
pub async fn run(mix: &Mix, options: &Options) -> anyhow::Result<Run> {
    let deployment = Arc::new(Deployment::start(mix, options).await?);
    let at_once = mix.dev.as_ref().map_or(2 * options.sandboxes, |_| DEV_WARM_AT_ONCE);
    deployment.warm(at_once).await?;
    deployment.book.count_from_here();
    let before = deployment.counters()?;
    let began = Instant::now();
    deployment.enable(mix.load != Load::Backlog);
    deployment.load(options, began).await?;
    let published = Instant::now();
    deployment.enable(true);
    deployment.drain().await;
    let drained = Instant::now();
    deployment.settle().await;
    let mut used = deployment.counters()?;
    for (name, before) in before {
        used.entry(name).and_modify(|after| *after -= before);
    }
    let sum = deployment.sum();
    let mappings = deployment.mappings.as_ref();
    let mut problems = mappings.map_or_else(Vec::new, |mappings| mappings.cloud.problems());
    if sum.missing > 0 {
        problems.push(format!("{} events are missing", sum.missing));
    }
    let from = if mix.load == Load::Backlog { published } else { began };
    let figures = deployment.figures(&sum, used, [published - began, drained - from])?;
    Ok(Run { figures, problems })
}

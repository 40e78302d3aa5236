//! One run of one mix: its own deployment is warmed up, loaded, drained, and summed up.

pub mod dev;

use std::{
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep, sleep_until},
};

use super::{
    aws::Cloud,
    book::{Book, Sum, endpoint_number, event_numbers},
    figures::{Figures, percentile},
    http::serve,
    mapping::{Mapping, poll},
    mix::{Conduct, Load, Mix},
    payload::Publishes,
    process::{Usage, own_cpu_ms},
    sandbox::{Function, Program},
    sink::{Sinks, certificate},
};

/// The deployment's queues.
const DISPATCH: &str = "gridpost-dispatch";
const RETRY: &str = "gridpost-retry-0";
const QUEUES: [&str; 4] = [DISPATCH, RETRY, "gridpost-dead-letter", "gridpost-poison"];

/// The timeouts of the deployment's defaults.
const DISPATCH_TIMEOUT: Duration = Duration::from_secs(210);
const VISIBILITY: Duration = Duration::from_secs(240);

/// Time without an arrival after which the rest counts as missing.
const DRAIN_WAIT: Duration = Duration::from_secs(15);

/// Most bytes of memory for the publishes of a backlog.
const BACKLOG_BYTES_MAX: usize = 256 * 1_048_576;

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// ingest's program.
    pub ingest: PathBuf,
    /// dispatch's program.
    pub dispatch: PathBuf,
    /// The command line's program, for the mixes of `gridpost dev`.
    pub gridpost: PathBuf,
    /// Its debug build.
    pub gridpost_debug: PathBuf,
    /// How long publishes are made.
    pub duration: Duration,
    /// Most publishes to make.
    pub publishes_max: usize,
    /// Sandboxes of each function.
    pub sandboxes: usize,
    /// Where the functions' output goes.
    pub logs: PathBuf,
    /// Distances and TLS, which a deployment has and one machine lacks.
    pub distance: Distance,
}

/// How far AWS and the endpoints are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Distance {
    /// Whether AWS is called over TLS.
    pub aws_tls: bool,
    /// How long AWS takes to answer a function's call.
    pub aws: Duration,
    /// How long an endpoint takes to answer.
    pub endpoint: Duration,
}

/// The result of one run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The figures by name.
    pub figures: Figures,
    /// What went wrong; a run with problems proves nothing.
    pub problems: Vec<String>,
}

/// A running deployment.
pub(super) struct Deployment {
    pub(super) book: Arc<Book>,
    cloud: Arc<Cloud>,
    pub(super) ingest: Arc<Function>,
    pub(super) dispatch: Arc<Function>,
    failures: mpsc::UnboundedReceiver<String>,
    enabled: watch::Sender<bool>,
    publishes: Arc<Publishes>,
    tasks: Vec<JoinHandle<()>>,
    _sinks: Sinks,
}

impl Drop for Deployment {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Deployment {
    /// Brings everything up for a mix; with `aws_tls`, AWS is called over TLS.
    pub(super) async fn start(mix: &Mix, options: &Options, aws_tls: bool) -> anyhow::Result<Self> {
        let book = Arc::new(Book::new(mix.events_per_publish, mix.topics));
        let trusted = options.logs.join("trusted.pem");
        let tls = certificate(&trusted)?;
        let cloud = Cloud::new(&QUEUES, Arc::clone(&book)).answering_after(options.distance.aws);
        let cloud = Arc::new(cloud);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let scheme = if aws_tls { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr()?);
        let aws_tls = aws_tls.then(|| tls.clone());
        let mut tasks = vec![tokio::spawn(serve(listener, aws_tls, Arc::clone(&cloud)))];
        let answers_after = options.distance.endpoint;
        let sinks = Sinks::start(&mix.endpoints(), Arc::clone(&book), tls, answers_after).await?;
        for item in mix.items(|endpoint| sinks.url(endpoint, mix.https))? {
            cloud.tables.put("gridpost-config", item);
        }
        let environment = environment(mix, &url, &trusted);
        let function = async |name, path: &PathBuf, timeout| {
            let (path, environment) = (path.clone(), environment.clone());
            let arguments = Vec::new();
            let program = Program { name, path, arguments, environment, timeout, memory_mb: 512 };
            Function::start(&program, options.sandboxes, &options.logs).await.map(Arc::new)
        };
        let ingest = function("ingest", &options.ingest, Duration::from_secs(29)).await?;
        let dispatch = function("dispatch", &options.dispatch, DISPATCH_TIMEOUT).await?;
        let (failed, failures) = mpsc::unbounded_channel();
        let (enabled, _) = watch::channel(true);
        for name in [DISPATCH, RETRY] {
            let mapping = Mapping {
                name: name.to_owned(),
                queue: Arc::clone(cloud.queue(name).context("the queue is there")?),
                cloud: Arc::clone(&cloud),
                function: Arc::clone(&dispatch),
                concurrency: options.sandboxes,
                visibility: VISIBILITY,
                book: Arc::clone(&book),
                failures: failed.clone(),
                enabled: enabled.subscribe(),
            };
            tasks.push(tokio::spawn(poll(Arc::new(mapping))));
        }
        let publishes = Arc::new(Publishes::of_mix(mix));
        let _sinks = sinks;
        Ok(Self { book, cloud, ingest, dispatch, failures, enabled, publishes, tasks, _sinks })
    }

    /// Makes one publish and waits until all its events have arrived.
    pub(super) async fn publish(&self, mix: &Mix) -> anyhow::Result<()> {
        let due = Instant::now();
        publish(&self.book, &self.ingest, &self.publishes, mix, due, Wait::Arrived).await
    }

    /// Uses every sandbox a little, so that configuration is read and connections are open.
    async fn warm(&self, mix: &Mix, rounds: usize) -> anyhow::Result<()> {
        for _ in 0..rounds {
            let at_once = (0..self.ingest.sandboxes() * 2).map(|_| self.publish(mix));
            futures::future::try_join_all(at_once).await?;
        }
        Ok(())
    }
}

/// What a publish waits for before it counts as arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Accepted,
    Arrived,
}

async fn publish(
    book: &Arc<Book>,
    ingest: &Function,
    publishes: &Publishes,
    mix: &Mix,
    due: Instant,
    wait: Wait,
) -> anyhow::Result<()> {
    let (number, arrived) = book.open(due, |number| mix.arrivals_of(number % mix.topics));
    let noting = Arc::clone(book);
    let on_hand = move || noting.handed_to_ingest(number);
    let answer = ingest.invoke(publishes.make(number), on_hand).await.context("ingest")?;
    if memchr::memmem::find(&answer, br#""statusCode":200"#).is_none() {
        anyhow::bail!("ingest answered {}", String::from_utf8_lossy(&answer));
    }
    book.accepted(number);
    if wait == Wait::Arrived && mix.arrivals_of(number % mix.topics) > 0 {
        // What is still missing after that is counted as missing.
        let _ = tokio::time::timeout(DRAIN_WAIT, arrived).await;
    }
    Ok(())
}

/// What the deployment's Terraform sets, with the stand-in's addresses.
fn environment(mix: &Mix, url: &str, trusted: &Path) -> BTreeMap<String, String> {
    let queue = |name: &str| format!("{url}/123456789012/{name}");
    let [dispatch, retry, dead_letter, poison] = QUEUES.map(queue);
    let pairs = [
        ("AWS_ENDPOINT_URL", url.to_owned()),
        ("AWS_ACCESS_KEY_ID", "bench".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "bench".to_owned()),
        ("AWS_SESSION_TOKEN", "b".repeat(800)),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("SSL_CERT_FILE", trusted.display().to_string()),
        ("GRIDPOST_CONFIG_TABLE", "gridpost-config".to_owned()),
        ("GRIDPOST_STATE_TABLE", "gridpost-state".to_owned()),
        ("GRIDPOST_PAYLOAD_BUCKET", "gridpost-payloads".to_owned()),
        ("GRIDPOST_DISPATCH_QUEUE_URL", dispatch),
        ("GRIDPOST_RETRY_QUEUE_URLS", retry),
        ("GRIDPOST_DEAD_LETTER_QUEUE_URL", dead_letter),
        ("GRIDPOST_POISON_QUEUE_URL", poison),
        ("GRIDPOST_QUEUE_MESSAGE_BYTES_MAX", mix.message_bytes_max.to_string()),
        ("GRIDPOST_CONFIG_CACHE_MS", "2000".to_owned()),
        ("GRIDPOST_ENDPOINT_ALLOWED_NETWORKS", "127.0.0.0/8".to_owned()),
        ("GRIDPOST_LOG", "info".to_owned()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Runs a mix once.
pub async fn run(mix: &'static Mix, options: &Options) -> anyhow::Result<Run> {
    if let Some(host) = mix.dev {
        return dev::run(mix, host, options).await;
    }
    let mut deployment = Deployment::start(mix, options, options.distance.aws_tls).await?;
    deployment.warm(mix, 8).await.context("warming up")?;
    deployment.book.count_from_here();
    let before = Snapshot::of(&deployment)?;
    let began = Instant::now();
    if mix.load == Load::Backlog {
        deployment.enabled.send_replace(false);
    }
    load(&deployment, mix, options, began).await?;
    let published = Instant::now();
    deployment.enabled.send_replace(true);
    drain(&deployment).await;
    let drained = Instant::now();
    settle(&deployment, mix).await;
    let after = Snapshot::of(&deployment)?;
    let sum = sum(&deployment, mix);
    let mut problems = deployment.cloud.refused();
    while let Ok(failure) = deployment.failures.try_recv() {
        problems.push(failure);
    }
    if sum.missing > 0 {
        problems.push(format!("{} events are missing", sum.missing));
    }
    let times =
        [published - began, drained - if mix.load == Load::Backlog { published } else { began }];
    Ok(Run { figures: figures(mix, &sum, [&before, &after], times), problems })
}

/// Makes the publishes of a mix.
async fn load(
    deployment: &Deployment,
    mix: &'static Mix,
    options: &Options,
    began: Instant,
) -> anyhow::Result<()> {
    let (book, ingest) = (&deployment.book, &deployment.ingest);
    let until = began + options.duration;
    let bytes = mix.events_per_publish * mix.event_bytes * mix.subscriptions;
    let (at_once, wait, most) = match mix.load {
        Load::Closed { publishes } => (publishes, Wait::Arrived, options.publishes_max),
        Load::Open { .. } => (Semaphore::MAX_PERMITS, Wait::Accepted, options.publishes_max),
        Load::Backlog => {
            let most = options.publishes_max.min(BACKLOG_BYTES_MAX / bytes);
            (2 * options.sandboxes, Wait::Accepted, most)
        }
    };
    let slots = Arc::new(Semaphore::new(at_once));
    let mut going = JoinSet::new();
    for number in 0..most {
        let mut due = Instant::now();
        if let Load::Open { per_second } = mix.load {
            due = began + Duration::from_secs(1) * u32::try_from(number)? / per_second;
            sleep_until(due).await;
        }
        let slot = Arc::clone(&slots).acquire_owned().await?;
        if Instant::now() >= until {
            break;
        }
        if !matches!(mix.load, Load::Open { .. }) {
            due = Instant::now();
        }
        let (book, ingest) = (Arc::clone(book), Arc::clone(ingest));
        let publishes = Arc::clone(&deployment.publishes);
        going.spawn(async move {
            let made = publish(&book, &ingest, &publishes, mix, due, wait).await;
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
async fn drain(deployment: &Deployment) {
    let (mut open, mut since) = (usize::MAX, Instant::now());
    loop {
        let now_open = deployment.book.open_publishes();
        if now_open == 0 || since.elapsed() > DRAIN_WAIT {
            return;
        }
        if now_open != open {
            (open, since) = (now_open, Instant::now());
        }
        sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until first attempts that fail are settled too.
async fn settle(deployment: &Deployment, mix: &Mix) {
    let until = Instant::now() + DRAIN_WAIT;
    let Some(queue) = deployment.cloud.queue(DISPATCH) else { return };
    while mix.first_topic != Conduct::Works
        && queue.counts(Instant::now()) != [0; 3]
        && Instant::now() < until
    {
        sleep(Duration::from_millis(5)).await;
    }
}

/// Sums up the events that have arrived and those that wait in a queue. Poison messages and ended
/// deliveries do not count as waiting: no mix has an event that ends there.
pub(super) fn sum(deployment: &Deployment, mix: &Mix) -> Sum {
    let endpoints = mix.endpoints();
    let wants = |topic: usize, number: usize| {
        let endpoint = endpoints[number];
        let works = endpoint.conduct == Conduct::Works;
        (endpoint.topic == topic && endpoint.wants).then_some(works)
    };
    let mut held = HashSet::new();
    for queue in [DISPATCH, RETRY].into_iter().filter_map(|name| deployment.cloud.queue(name)) {
        for message in queue.messages() {
            let Some(endpoint) = endpoint_number(&message.group) else { continue };
            let events = event_numbers(message.body.get().as_bytes());
            held.extend(events.map(|event| (endpoint, event)));
        }
    }
    deployment.book.sum(endpoints.len(), wants, &held)
}

/// Resources used up to a moment.
struct Snapshot {
    ingest: Usage,
    dispatch: Usage,
    driver_ms: f64,
    calls: BTreeMap<String, u64>,
}

impl Snapshot {
    fn of(deployment: &Deployment) -> anyhow::Result<Self> {
        Ok(Self {
            ingest: deployment.ingest.usage()?,
            dispatch: deployment.dispatch.usage()?,
            driver_ms: own_cpu_ms(),
            calls: deployment.cloud.calls(),
        })
    }
}

fn figures(
    mix: &Mix,
    sum: &Sum,
    [before, after]: [&Snapshot; 2],
    [publishing, delivering]: [Duration; 2],
) -> Figures {
    let events = sum.arrived.max(1) as f64;
    let mut figures = Figures::default();
    let mut set = |name: &str, value: f64| {
        figures.insert(name.to_owned(), value);
    };
    set("events", sum.arrived as f64);
    set("missing", sum.missing as f64);
    set("duplicates", sum.duplicates as f64);
    set("strangers", sum.strangers as f64);
    let published = (sum.publishes * mix.events_per_publish as u64) as f64;
    set("published/s", published / publishing.as_secs_f64());
    set("delivered/s", events / delivering.as_secs_f64());
    for (name, before, after) in
        [("ingest", &before.ingest, &after.ingest), ("dispatch", &before.dispatch, &after.dispatch)]
    {
        let used = after.since(before);
        set(&format!("{name} CPU ms/event"), used.cpu_ms / events);
        set(&format!("{name} user ms/event"), used.user_ms / events);
        set(&format!("{name} system ms/event"), used.system_ms / events);
        set(&format!("{name} CPU ms/published event"), used.cpu_ms / published.max(1.0));
        set(&format!("{name} peak MB"), used.peak_kib as f64 / 1_024.0);
    }
    set("driver CPU ms/event", (after.driver_ms - before.driver_ms) / events);
    let mut all = 0.0;
    for (call, count) in &after.calls {
        let count = count - before.calls.get(call).copied().unwrap_or(0);
        all += count as f64;
        set(&format!("calls/event {call}"), count as f64 / events);
    }
    set("calls/event", all / events);
    set("ingest invocations/event", sum.publishes as f64 / events);
    if mix.load != Load::Backlog {
        let hops = &sum.hops;
        for (name, values) in [
            ("arrival", &hops.publish_to_arrival),
            ("driver to ingest", &hops.to_ingest),
            ("in ingest", &hops.in_ingest),
            ("driver to dispatch", &hops.to_dispatch),
            ("in dispatch", &hops.in_dispatch),
        ] {
            for part in [50, 95, 99] {
                set(&format!("{name} p{part} ms"), percentile(values, f64::from(part)));
            }
        }
    }
    figures
}

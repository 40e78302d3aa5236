//! `gridpost dev` under load, with endpoints that fail, ended by SIGKILL at random instants and
//! started again: everything that it has accepted must be delivered or become a dead letter, or
//! still wait, and the ledger must balance.
//!
//! [`endpoints`] fail by rules that depend only on the event, and recover in the end, so that
//! waiting deliveries can end; [`told`] judges.

pub mod endpoints;
pub mod told;

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use self::{
    endpoints::{ALL, Endpoints, Rule, is_failed, rule_of},
    told::Told,
};
use super::{
    process::{Dev, Program},
    publisher::Publisher,
};
use crate::bench::{
    book::{DIGITS, MARK, event_numbers},
    http,
};

/// The topic.
const TOPIC: &str = "crash";

/// Bytes of an event's data, beside its envelope.
const DATA_BYTES: usize = 600;

/// Publishes that wait for an answer, at most.
const UNANSWERED_MAX: usize = 64;

/// A publish that has no answer after this time gets none.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How often to check whether everything has ended.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How long the ledger may take to balance, once everything has ended.
const LEDGER_MAX_S: u32 = 60;

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of the dice.
    pub seed: u64,
    /// Events published in a second, one by one.
    pub per_second: u32,
    /// How long they are.
    pub lasts: Duration,
    /// How long a process lives before it is killed, at least and at most.
    pub lives: [Duration; 2],
    /// One process in this many lives for [`Plan::long_life`]; 0: none does.
    pub long_every: u32,
    /// Longer than an endpoint may take.
    pub long_life: Duration,
    /// How long an endpoint that hangs keeps a connection, before it closes that without an answer.
    pub hangs_for: Duration,
    /// When failed deliveries are attempted again, in seconds from the first attempt; `None`: as
    /// Event Grid does.
    pub schedule: Option<Vec<u32>>,
    /// How long everything may take to end once publishing has ended.
    pub settles: Duration,
}

/// What goes on while a plan is carried out.
struct Run {
    plan: Plan,
    program: Program,
    endpoints: Arc<Endpoints>,
    /// Where publishes go; `None` while nothing is up.
    up: watch::Sender<Option<Arc<Publisher>>>,
    key: String,
    accepted: Mutex<Vec<usize>>,
}

/// Carries out a plan on that program, with its data in `folder`; returns the result.
pub async fn run(program: &Path, folder: &Path, plan: Plan) -> anyhow::Result<Told> {
    let began = Instant::now();
    let endpoints = Arc::new(Endpoints::new(plan.hangs_for));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let serving = tokio::spawn(http::serve(listener, None, Arc::clone(&endpoints)));
    let program =
        Program { path: program.to_owned(), folder: folder.to_owned(), arguments: Vec::new() };
    let dev = program.start().await?;
    let key = dev.topic(TOPIC, &json!({})).await?;
    for rule in ALL {
        let mut properties = json!({
            "filter": {"includedEventTypes": [rule.name()]},
            "deadLetterDestination":
                {"endpointType": "S3Bucket", "properties": {"bucketName": "gridpost"}},
        });
        if let Some(schedule) = &plan.schedule {
            properties["retryPolicy"] = json!({ "schedule": schedule });
        }
        dev.subscribe(TOPIC, rule.name(), &format!("{url}/{}", rule.name()), properties).await?;
    }
    let (up, _) = watch::channel(Some(Arc::new(Publisher::new(&dev.url)?)));
    let accepted = Mutex::default();
    let run = Arc::new(Run { plan, program, endpoints, up, key, accepted });
    let until = Instant::now() + run.plan.lasts;
    let (sent, (dev, kills)) =
        tokio::try_join!(publish_until(Arc::clone(&run), until), run.rage_until(dev, until))?;
    run.endpoints.recover();
    let told = run.settle(&dev, sent, kills).await;
    serving.abort();
    Ok(Told { took: began.elapsed(), ..told? })
}

/// Publishes at the plan's rate; events that could not be sent while nothing was up are sent later.
/// Returns how many were sent.
async fn publish_until(run: Arc<Run>, until: Instant) -> anyhow::Result<usize> {
    let began = Instant::now();
    let slots = Arc::new(Semaphore::new(UNANSWERED_MAX));
    let mut going = JoinSet::new();
    let mut up = run.up.subscribe();
    let mut number = 0;
    loop {
        sleep_until(began + Duration::from_secs(1) * u32::try_from(number)? / run.plan.per_second)
            .await;
        let slot = Arc::clone(&slots).acquire_owned().await?;
        let publisher = up.wait_for(Option::is_some).await?.clone();
        let Some(publisher) = publisher.filter(|_| Instant::now() < until) else { break };
        let run = Arc::clone(&run);
        going.spawn(async move {
            let answered = run.publish(&publisher, number).await;
            drop(slot);
            answered
        });
        number += 1;
        while let Some(ended) = going.try_join_next() {
            ended??;
        }
    }
    while let Some(ended) = going.join_next().await {
        ended??;
    }
    Ok(number)
}

/// The event of that number.
fn event(number: usize) -> String {
    let (id, kind) = (format!("{MARK}{number:0width$}", width = DIGITS), rule_of(number).name());
    let data = "x".repeat(DATA_BYTES);
    json!([{"id": id, "eventType": kind, "subject": "crash", "eventTime": "2026-01-02T03:04:05Z",
        "dataVersion": "1", "data": {"text": data}}])
    .to_string()
}

impl Run {
    /// Publishes an event once, and records it if it was accepted. Without an answer nothing is
    /// known of it, and nothing is required.
    async fn publish(&self, publisher: &Publisher, number: usize) -> anyhow::Result<()> {
        let body = event(number);
        let answer = publisher.publish(TOPIC, &self.key, body.as_bytes());
        match tokio::time::timeout(ANSWER_MAX, answer).await {
            Ok(Ok(200)) => {
                self.accepted.lock().unwrap_or_else(PoisonError::into_inner).push(number);
                Ok(())
            }
            // The answer may be to come back later, or there may be none.
            Ok(Ok(503) | Err(_)) | Err(_) => Ok(()),
            Ok(Ok(status)) => bail!("a publish was answered {status}"),
        }
    }

    /// Kills the process again and again; returns the last one, and how many were killed.
    async fn rage_until(&self, mut dev: Dev, until: Instant) -> anyhow::Result<(Dev, u32)> {
        let mut dice = fastrand::Rng::with_seed(self.plan.seed);
        let mut kills = 0;
        loop {
            let [least, most] = self.plan.lives;
            let is_long = self.plan.long_every > 0 && dice.u32(..self.plan.long_every) == 0;
            let life = least + (most - least).mul_f64(dice.f64());
            let life = if is_long { self.plan.long_life } else { life };
            if Instant::now() + life >= until {
                sleep_until(until).await;
                return Ok((dev, kills));
            }
            sleep(life).await;
            dev.kill().await?;
            kills += 1;
            self.up.send_replace(None);
            dev = self.program.start().await?;
            self.up.send_replace(Some(Arc::new(Publisher::new(&dev.url)?)));
            eprintln!("killed {kills} times; ready again after {:.0?}", dev.ready_after);
        }
    }

    /// Waits until everything that was accepted has ended, or until the time is up.
    async fn settle(&self, dev: &Dev, sent: usize, kills: u32) -> anyhow::Result<Told> {
        let deadline = Instant::now() + self.plan.settles;
        let accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let look = || -> anyhow::Result<Told> {
            let dead = dead_letters(&self.program.data().join("dead-letters"))?;
            Ok(Told::of(&accepted, &self.endpoints.arrivals(), &dead))
        };
        loop {
            let told = look()?;
            if told.open.is_empty() || Instant::now() >= deadline {
                let poison = dev.get("/poison").await?;
                let poison = poison["value"].as_array().map_or(0, Vec::len);
                let audit = self.audit().await?;
                // After it: events that have ended meanwhile are no longer open.
                let told = look()?.with_ledger(&audit);
                return Ok(Told { sent: sent as u64, kills, poison, ..told });
            }
            eprintln!("{} of {} have not ended yet", told.open.len(), accepted.len());
            sleep(LOOK_AGAIN).await;
        }
    }

    /// The ledger, as `gridpost audit` tells it.
    async fn audit(&self) -> anyhow::Result<Value> {
        let mut command = self.program.command();
        command.args(["--json", "audit", "--topic", TOPIC, "--wait", &LEDGER_MAX_S.to_string()]);
        let output = command.output().await.context("gridpost audit")?;
        let said = || String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("gridpost audit says: {}", said()))
    }
}

/// The numbers of the events in the dead letters of a folder.
fn dead_letters(folder: &Path) -> anyhow::Result<HashSet<usize>> {
    let mut found = HashSet::new();
    let mut open: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        // Without a dead letter there is no folder.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "json") {
                let text = fs::read(&path).with_context(|| path.display().to_string())?;
                found.extend(event_numbers(&text));
            }
        }
    }
    Ok(found)
}

/// Whether that event is refused for good.
pub(crate) fn is_refused(number: usize) -> bool {
    rule_of(number) == Rule::Bad && is_failed(number)
}

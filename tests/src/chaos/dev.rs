//! `gridpost dev` under load, with endpoints that fail, ended by SIGKILL at random instants and
//! started again. Each accepted event must be delivered, dead-lettered, dropped if its event subscription
//! has no dead-letter destination, or still wait. The ledger must balance, and the journal must agree with
//! the requests that arrived.
//!
//! The endpoints recover in the end, so that waiting deliveries can end. [`machine`] is what else goes wrong, and a
//! [`disk`](super::disk) may lose its power with each kill.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    future::ready,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tokio::{
    sync::watch::{self, error::RecvError},
    time::{Instant, sleep, sleep_until},
};

use super::{
    disk::Disk,
    endpoints::{Endpoints, Key, Rule, number_of},
    journal::{self, Journal, Records},
    machine::Machine,
    tally::{Ledger, Tally},
};
use crate::{
    dev::{Dev, Program, create_topic, publish_endpoint, subscribe},
    e2e::{fixture::post, inside},
};

/// The endpoints. Each event goes to one of them.
const RULES: [Rule; 6] =
    [Rule::Steady, Rule::Flaky, Rule::Busy, Rule::Refusing, Rule::Losing, Rule::Hanging];

/// The topic.
const TOPIC: &str = "crash";

/// The bucket of its dead letters.
const BUCKET: &str = "gridpost";

/// Bytes of an event's data, beside its envelope.
const DATA_BYTES: usize = 600;

/// Publishes that wait for an answer, at most.
const UNANSWERED_MAX: usize = 64;

/// A publish that has no answer after this time gets none.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How often to check whether everything has ended.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How long a process may take to start, on a disk that is full now and then.
const STARTED_WITHIN: Duration = Duration::from_secs(60);

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
    /// What is wrong with the machine.
    pub machine: Machine,
    /// Further flags of `gridpost dev`.
    pub arguments: Vec<String>,
    /// Whether the power goes with each kill: what the disk has not synced is lost.
    pub loses_power: bool,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Events that were sent.
    pub sent: usize,
    /// The ends of accepted events.
    pub tally: Tally,
    /// The ledger's counts.
    pub ledger: Ledger,
    /// Processes that were killed.
    pub kills: u32,
    /// Messages in the poison queue.
    pub poison: usize,
    /// Whether the disk was full, so that history made room: older counts and drops are no longer known.
    pub made_room: bool,
    /// Where the journal differs from what arrived; `None` if not everything has ended, or history made room.
    pub differences: Option<Vec<String>>,
    /// How long it took.
    pub took: Duration,
}

impl Outcome {
    /// Returns whether nothing is lost.
    pub fn holds(&self) -> bool {
        let agrees = self.differences.as_ref().is_none_or(Vec::is_empty);
        self.ledger.explains(&self.tally, self.made_room) && self.poison == 0 && agrees
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, tally, ledger, kills, poison, made_room, differences, took } = self;
        let took_s = took.as_secs_f64();
        write!(
            formatter,
            "{sent} sent; {kills} kills, {poison} poison messages; {ledger}; {took_s:.0} s; {tally}"
        )?;
        let Some(differences) = differences else {
            let why = match made_room {
                true => {
                    "history may have made room on a full disk: of drops, only the requests are known"
                }
                false => "events wait",
            };
            return write!(formatter, "\n  the journal was not compared: {why}");
        };
        differences.iter().try_for_each(|one| write!(formatter, "\n  the journal: {one}"))
    }
}

/// The endpoint of an event: eleven of twenty events go to the one that works.
fn rule_of(number: usize) -> Rule {
    match number % 20 {
        0 => Rule::Hanging,
        1..=2 => Rule::Refusing,
        8 => Rule::Losing,
        3..=5 => Rule::Flaky,
        6..=7 => Rule::Busy,
        _ => Rule::Steady,
    }
}

/// The state while a plan is carried out.
struct Run {
    plan: Plan,
    program: Program,
    endpoints: Endpoints,
    /// Where publishes go; `None` while nothing is up.
    up: watch::Sender<Option<String>>,
    http: reqwest::Client,
    key: String,
    accepted: Mutex<Vec<usize>>,
}

/// Carries out a plan on that program, with its data in `folder`, perhaps on such a disk; returns the result.
pub async fn run(
    program: &Path,
    folder: &Path,
    plan: Plan,
    disk: Option<&mut Disk>,
) -> anyhow::Result<Outcome> {
    let began = Instant::now();
    let endpoints = Endpoints::open(&RULES, plan.hangs_for).await?;
    let arguments: Vec<_> = plan.arguments.iter().map(String::as_str).collect();
    let program = Program::new(&plan.machine.run_by(program, folder)?, folder, &arguments);
    let dev = program.start().await?;
    let key = create_topic(&dev.api, TOPIC, &json!({})).await?;
    for rule in RULES {
        let mut properties = json!({"filter": {"includedEventTypes": [rule.name()]}});
        if rule != Rule::Losing {
            properties["deadLetterDestination"] =
                json!({"endpointType": "S3Bucket", "properties": {"bucketName": BUCKET}});
        }
        if let Some(schedule) = &plan.schedule {
            properties["retryPolicy"] = json!({ "schedule": schedule });
        }
        subscribe(&dev.api, TOPIC, rule.name(), &endpoints.url(rule), properties).await?;
    }
    let up = watch::Sender::new(Some(publish_endpoint(&dev.connection, TOPIC)));
    let http = reqwest::Client::builder().no_proxy().build()?;
    let accepted = Mutex::default();
    let run = Arc::new(Run { plan, program, endpoints, up, http, key, accepted });
    let until = Instant::now() + run.plan.lasts;
    let (sent, (dev, kills), ()) = tokio::try_join!(
        publish_until(Arc::clone(&run), until),
        run.rage_until(dev, disk.filter(|_| run.plan.loses_power), until),
        run.plan.machine.disturb_until(folder, run.plan.seed, until)
    )?;
    run.endpoints.recover();
    let found = run.settle(&dev, sent).await?;
    Ok(Outcome { kills, took: began.elapsed(), ..found })
}

/// Publishes at the plan's rate; events that could not be sent while nothing was up are sent later.
/// Returns how many were sent.
async fn publish_until(run: Arc<Run>, until: Instant) -> anyhow::Result<usize> {
    let (began, per_second) = (Instant::now(), run.plan.per_second);
    let due = |number: usize| {
        let mut up = run.up.subscribe();
        async move {
            sleep_until(began + Duration::from_secs(number as u64) / per_second).await;
            (number, up.wait_for(Option::is_some).await.map(|endpoint| endpoint.clone()))
        }
    };
    let publish = |(number, endpoint): (_, Result<Option<String>, RecvError>)| {
        let run = Arc::clone(&run);
        let endpoint = endpoint.map(Option::unwrap_or_default);
        tokio::spawn(async move { run.publish(&endpoint?, number).await })
    };
    let publishes = stream::iter(0..).then(due).take_while(|_| ready(Instant::now() < until));
    let publishes = publishes.map(publish).buffer_unordered(UNANSWERED_MAX).map(|made| made?);
    publishes.try_fold(0, |sent, ()| ready(Ok(sent + 1))).await
}

/// The event of that number.
fn event(number: usize) -> String {
    let data = "x".repeat(DATA_BYTES);
    json!([{"id": format!("event-{number}"), "eventType": rule_of(number).name(), "subject": "crash", "eventTime": "2026-01-02T03:04:05Z",
        "dataVersion": "1", "data": {"text": data}}])
    .to_string()
}

impl Run {
    /// Publishes an event once, and records it if it was accepted. Without an answer nothing is
    /// known of it, and nothing is required.
    async fn publish(&self, endpoint: &str, number: usize) -> anyhow::Result<()> {
        let answer = post(&self.http, endpoint, &self.key, "application/json", event(number));
        match tokio::time::timeout(ANSWER_MAX, answer).await {
            Ok(Ok((200, _))) => {
                self.accepted.lock().unwrap_or_else(PoisonError::into_inner).push(number);
                Ok(())
            }
            // The answer may be to come back later, or there may be none.
            Ok(Ok((503, _)) | Err(_)) | Err(_) => Ok(()),
            Ok(Ok((status, body))) => bail!("a publish was answered {status}: {body}"),
        }
    }

    /// Kills the process again and again; returns the last one, and how many were killed.
    async fn rage_until(
        &self,
        mut dev: Dev,
        mut disk: Option<&mut Disk>,
        until: Instant,
    ) -> anyhow::Result<(Dev, u32)> {
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
            // The process sees a disk that fails, if anything, and is gone before it can make something of that.
            if let Some(disk) = &disk {
                disk.cut_power();
            }
            dev.kill().await?;
            kills += 1;
            self.up.send_replace(None);
            if let Some(disk) = &mut disk {
                disk.power_on(&mut dice)?;
            }
            dev = self.start_again().await?;
            self.up.send_replace(Some(publish_endpoint(&dev.connection, TOPIC)));
            eprintln!("killed {kills} times; ready again after {:.0?}", dev.ready_after);
        }
    }

    /// Starts the next process; on a full disk it may take several tries.
    async fn start_again(&self) -> anyhow::Result<Dev> {
        let until = Instant::now() + STARTED_WITHIN;
        loop {
            match self.program.start().await {
                Err(_) if self.plan.machine.fills_disk && Instant::now() < until => {}
                started => return started,
            }
            sleep(LOOK_AGAIN / 10).await;
        }
    }

    /// Waits until everything that was accepted has ended, or until the time is up.
    async fn settle(&self, dev: &Dev, sent: usize) -> anyhow::Result<Outcome> {
        let deadline = Instant::now() + self.plan.settles;
        let accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let accepted = accepted.into_iter().map(|number| (rule_of(number), number));
        let accepted: BTreeSet<Key> = accepted.collect();
        loop {
            let (tally, _) = self.look(dev, &accepted).await?;
            if tally.missing.is_empty() || Instant::now() >= deadline {
                let poison = dev.api.poison(10).await?;
                let poison = poison["value"].as_array().map_or(0, Vec::len);
                let ledger = self.audit().await?;
                let has_ended = ledger.under_way == 0 && tally.missing.is_empty();
                let made_room = self.plan.machine.fills_disk;
                let journal = match has_ended && !made_room {
                    true => Some(Journal::read(&dev.api).await?),
                    false => None,
                };
                // Read it last: events that have ended meanwhile are no longer missing.
                let (tally, dead) = self.look(dev, &accepted).await?;
                let requests = self.endpoints.requests();
                let records = Records { sent, accepted, requests, dead };
                let differences = journal.map(|journal| journal.differences(&RULES, &records));
                return Ok(Outcome {
                    sent,
                    tally,
                    ledger,
                    poison,
                    made_room,
                    differences,
                    ..Outcome::default()
                });
            }
            eprintln!("{} of {} have not ended yet", tally.missing.len(), accepted.len());
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Tells what has ended, and how often each event is a dead letter.
    async fn look(
        &self,
        dev: &Dev,
        accepted: &BTreeSet<Key>,
    ) -> anyhow::Result<(Tally, HashMap<Key, u64>)> {
        let letters = inside::dead_letter_files(&self.program.bucket(BUCKET), "")?;
        let key = |number: usize| (rule_of(number), number);
        let dead = inside::count_ids(&letters, |id| number_of(id).map(key));
        // A drop leaves nothing else.
        let mut dropped = journal::dropped(&dev.api, Rule::Losing).await?;
        if self.plan.machine.fills_disk {
            // The journal may have lost the drop of what was refused.
            let requests = self.endpoints.requests();
            let due = |key: &&Key| {
                key.0 == Rule::Losing && key.0.refuses(key.1) && requests.contains_key(*key)
            };
            dropped.extend(accepted.iter().filter(due));
        }
        let lost = dropped.into_iter().map(|key| (key, 1));
        let ended = dead.clone().into_iter().chain(lost).collect();
        Ok((Tally::of(accepted.iter().copied(), &self.endpoints.arrivals(), &ended), dead))
    }

    /// The ledger, as `gridpost audit` tells it.
    async fn audit(&self) -> anyhow::Result<Ledger> {
        let mut command = self.program.command();
        command.args(["--json", "audit", "--topic", TOPIC, "--wait", &LEDGER_MAX_S.to_string()]);
        let output = command.output().await.context("gridpost audit")?;
        let said = || String::from_utf8_lossy(&output.stderr).into_owned();
        let audit = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("gridpost audit says: {}", said()))?;
        Ok(Ledger::of(&audit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_has_its_events_and_each_that_fails_some_fails_some_of_them() {
        let of = |rule: Rule| (0..20).filter(|number| rule_of(*number) == rule).count();
        assert_eq!(RULES.map(of), [11, 3, 2, 2, 1, 1]);
        let refused = |rule: Rule| {
            (0..60).filter(|number| rule_of(*number) == rule && rule.refuses(*number)).count()
        };
        assert_eq!([Rule::Refusing, Rule::Losing].map(refused), [2, 1]);
    }

    #[test]
    fn a_poison_message_or_a_difference_does_not_hold() {
        let ledger = Ledger { verdict: "balances".to_owned(), ..Ledger::default() };
        let found = Outcome { ledger, ..Outcome::default() };
        assert!(found.holds());
        assert!(!Outcome { poison: 1, ..found.clone() }.holds());
        assert!(!Outcome { differences: Some(vec!["x".to_owned()]), ..found }.holds());
    }
}

//! The schedules of the conformance tables as real deliveries: `gridpost dev` with a fast clock,
//! real endpoints, and the arrival time of each attempt.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};
use gridpost_core::{retry, time::Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    dev::{Dev, Program, create_topic, publish_endpoint, subscribe},
    e2e::{
        fixture::post,
        inside,
        receiver::{Arrival, Endpoint, Receiver, Reply},
    },
};

/// How often to check whether an event has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How long an endpoint keeps silent: longer than an attempt waits.
const HANGS_FOR: Duration = Duration::from_secs(45);

/// How long after its end by the table an event may end, by the machine's clock: dead letters are
/// gathered, and a missing response is waited for in real time.
const END_WAIT: Duration = Duration::from_secs(90);

/// A schedule of the tables.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scenario {
    /// The claim that it shows.
    pub name: String,
    profile: String,
    ttl_seconds: u64,
    max_attempts: u32,
    responses: Vec<String>,
    /// When attempts are made, in seconds after the first.
    pub attempts_at_seconds: Vec<u32>,
    end: End,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct End {
    at_seconds: u64,
    reason: String,
}

/// All schedules of the tables.
pub fn scenarios() -> anyhow::Result<Vec<Scenario>> {
    #[derive(Deserialize)]
    struct Table {
        scenarios: Vec<Scenario>,
    }
    let table: Table = serde_json::from_str(include_str!("../../conformance/schedules.json"))?;
    Ok(table.scenarios)
}

impl Scenario {
    /// Whether it takes an hour at the most, by the clock.
    pub fn is_short(&self) -> bool {
        self.end.at_seconds <= 3_600
    }

    /// Its limits, by their names in its profile.
    fn retry_policy(&self) -> Value {
        let minutes = self.ttl_seconds / 60;
        match self.profile.as_str() {
            "namespace" => json!({"maxDeliveryCount": self.max_attempts,
                "eventTimeToLive": format!("PT{minutes}M")}),
            _ => json!({"maxDeliveryAttempts": self.max_attempts,
                "eventTimeToLiveInMinutes": minutes}),
        }
    }

    /// Its endpoint's answer to an attempt, counted from 0; `None`: no answer. The last answer
    /// repeats.
    fn answer(&self, attempt: usize) -> Option<u16> {
        let answer = self.responses.get(attempt).or(self.responses.last())?;
        answer.trim_end_matches('*').parse().ok()
    }

    /// Its endpoint's answers, in their order.
    fn replies(&self) -> Vec<Reply> {
        let reply = |attempt| match self.answer(attempt) {
            Some(status) => Reply::prompt(status),
            None => Reply::of(None, HANGS_FOR),
        };
        (0..self.responses.len()).map(reply).collect()
    }

    /// Whether its endpoint keeps silent: a process that is ended meanwhile attempts once more.
    pub fn is_silent(&self) -> bool {
        self.answer(0).is_none()
    }
}

/// The result of a scenario.
#[derive(Clone, Debug)]
pub struct Played {
    /// The scenario.
    pub scenario: Scenario,
    /// When attempts arrived, in seconds of the clock after the first.
    pub attempts: Vec<f64>,
    /// How it ended: `Delivered`, or the reason of its dead letter.
    pub end: Option<String>,
}

impl Played {
    /// By how much an attempt was off at most, in seconds of the clock, beyond the jitter of each
    /// wait; `None` if there were more or fewer attempts than there should be.
    pub fn off_by(&self) -> Option<f64> {
        let wanted = &self.scenario.attempts_at_seconds;
        let (mut off, mut before) = (0.0_f64, 0.0);
        for (at, wanted) in self.attempts.iter().zip(wanted) {
            let wanted = f64::from(*wanted);
            let wait = Duration::from_secs_f64((wanted - before).max(0.0));
            let latest = wanted + retry::jitter(wait, 1.0).as_secs_f64();
            off = off.max(wanted - at).max(at - latest);
            before = *at;
        }
        (self.attempts.len() == wanted.len()).then_some(off)
    }

    /// Whether every attempt was at most this many seconds off, and the event ended as it should.
    pub fn holds(&self, tolerance_s: f64) -> bool {
        let has_ended = self.end.as_ref() == Some(&self.scenario.end.reason);
        has_ended && self.off_by().is_some_and(|off| off <= tolerance_s)
    }
}

impl fmt::Display for Played {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempts: Vec<_> = self.attempts.iter().map(|at| format!("{at:.1}")).collect();
        let off = self.off_by().map_or("other attempts".to_owned(), |off| format!("{off:.1} s"));
        let end = self.end.as_deref().unwrap_or("no end");
        write!(formatter, "{}: {} ({end}), off by {off}", self.scenario.name, attempts.join(", "))
    }
}

/// How scenarios are played.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How many times as fast as the machine's the process's clock runs.
    pub speed: u32,
    /// When the process is ended by SIGKILL and started again, by its clock; `None`: never.
    pub killed_at: Option<Duration>,
}

/// Plays scenarios on one process, all at the same time.
pub async fn play(
    program: &Path,
    folder: &Path,
    pace: Pace,
    scenarios: Vec<Scenario>,
) -> anyhow::Result<Vec<Played>> {
    let Pace { speed, killed_at } = pace;
    let program = Program::new(program, folder, &["--speed", &speed.to_string()]);
    let mut dev = program.start().await?;
    let receiver = Receiver::start().await?;
    let began = Instant::now();
    let mut playing = Vec::new();
    for (number, scenario) in scenarios.into_iter().enumerate() {
        let endpoint = receiver.endpoint(&format!("s{number}"), &scenario.replies());
        publish(&dev, endpoint.url(), number, &scenario).await?;
        playing.push(Playing { scenario, endpoint, bucket: program.bucket(&bucket(number)) });
    }
    let mut stood_still = None;
    if let Some(killed_at) = killed_at {
        sleep_until(began + killed_at / speed).await;
        let (before, shown) = (Instant::now(), shown_s(&dev).await?);
        dev.kill().await?;
        dev = program.start().await?;
        // No fast time passes while no process runs.
        let passed = before.elapsed().as_secs_f64() * f64::from(speed);
        stood_still = Some((before, passed - (shown_s(&dev).await? - shown)));
    }
    let latest = playing.iter().map(|playing| playing.scenario.end.at_seconds).max();
    let until = began + Duration::from_secs(latest.unwrap_or_default()) / speed + END_WAIT;
    while !playing.iter().all(|playing| playing.end().is_some()) && Instant::now() < until {
        sleep(LOOK_AGAIN).await;
    }
    dev.kill().await?;
    let clock = Shown { speed, stood_still };
    Ok(playing.into_iter().map(|playing| playing.played(clock)).collect())
}

/// A scenario that is being played.
struct Playing {
    scenario: Scenario,
    endpoint: Endpoint,
    bucket: PathBuf,
}

impl Playing {
    /// How it has ended, if it has.
    fn end(&self) -> Option<String> {
        let last = self.endpoint.deliveries().len().checked_sub(1)?;
        if self.scenario.answer(last) == Some(200) {
            return Some("Delivered".to_owned());
        }
        reason(&self.bucket)
    }

    fn played(self, clock: Shown) -> Played {
        let arrivals = self.endpoint.deliveries();
        let after = |arrival: &Arrival| clock.between(arrivals[0].at, arrival.at);
        let attempts = arrivals.iter().map(after).collect();
        Played { end: self.end(), attempts, scenario: self.scenario }
    }
}

/// The times that the process's clock showed meanwhile.
#[derive(Clone, Copy, Debug)]
struct Shown {
    speed: u32,
    /// Since when it was killed and started again, and by how many of its seconds the clock fell
    /// behind by that.
    stood_still: Option<(Instant, f64)>,
}

impl Shown {
    /// Its seconds between two instants.
    fn between(self, from: Instant, to: Instant) -> f64 {
        let passed = (to - from).as_secs_f64() * f64::from(self.speed);
        let lost = self.stood_still.filter(|(at, _)| from < *at && *at < to);
        passed - lost.map_or(0.0, |(_, seconds)| seconds)
    }
}

fn client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder().no_proxy().build()
}

/// Reads the process's clock, in seconds.
async fn shown_s(dev: &Dev) -> anyhow::Result<f64> {
    let counts = client()?.get(format!("{}/dev/counts", dev.connection.manage_url)).send().await?;
    let counts: Value = counts.error_for_status()?.json().await?;
    let now = counts["now"].as_str().and_then(Timestamp::parse_rfc_3339);
    let now = now.with_context(|| format!("no time in {counts}"))?;
    Ok(Duration::from_millis(now.as_millis().unsigned_abs()).as_secs_f64())
}

/// The dead-letter bucket of a scenario.
fn bucket(number: usize) -> String {
    format!("bucket-{number}")
}

/// Publishes one event to the scenario's own topic, only for its endpoint.
async fn publish(dev: &Dev, url: &str, number: usize, scenario: &Scenario) -> anyhow::Result<()> {
    let topic = format!("schedule-{number}");
    let document = json!({"properties": {"deliveryProfile": scenario.profile}});
    let key = create_topic(&dev.api, &topic, &document).await?;
    let properties = json!({
        "retryPolicy": scenario.retry_policy(),
        "deadLetterDestination":
            {"endpointType": "S3Bucket", "properties": {"bucketName": bucket(number)}},
    });
    subscribe(&dev.api, &topic, "hook", url, properties).await?;
    let event = json!([{"id": "1", "eventType": "Schedule", "subject": "s", "data": {},
        "eventTime": "2026-01-02T03:04:05Z", "dataVersion": "1"}]);
    let (http, endpoint) = (client()?, publish_endpoint(&dev.connection, &topic));
    let (status, _) = post(&http, &endpoint, &key, "application/json", event.to_string()).await?;
    ensure!(status == 200, "the publish for '{}' was answered {status}", scenario.name);
    Ok(())
}

/// Why the event became a dead letter, from its file in that bucket; `None` until one can be read.
fn reason(bucket: &Path) -> Option<String> {
    let letters = inside::dead_letter_files(bucket, "").ok()?;
    letters.first()?.records.first().and_then(reason_of).map(str::to_owned)
}

/// The reasons in dead letters of namespace topics, by those of the others.
const SENTENCES: [(&str, &str); 3] = [
    ("Maximum delivery attempts was exceeded.", "MaxDeliveryAttemptsExceeded"),
    ("Event time to live was exceeded.", "TimeToLiveExceeded"),
    ("Undeliverable due to client error", "UndeliverableDueToClientError"),
];

/// The reason in a dead letter of any form.
fn reason_of(record: &Value) -> Option<&str> {
    let members = ["deadLetterReason", "deadletterreason"];
    let own = members.iter().find_map(|member| record[*member].as_str());
    let said = own.or_else(|| record["deadLetterProperties"]["deadletterreason"].as_str())?;
    Some(SENTENCES.iter().find(|(text, _)| *text == said).map_or(said, |(_, name)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(attempts: &[f64], end: &str) -> Played {
        let scenario = Scenario {
            name: "n".to_owned(),
            profile: "basic".to_owned(),
            ttl_seconds: 1_800,
            max_attempts: 3,
            responses: ["503", "500*"].map(str::to_owned).to_vec(),
            attempts_at_seconds: vec![0, 30, 60],
            end: End { at_seconds: 60, reason: "MaxDeliveryAttemptsExceeded".to_owned() },
        };
        Played { scenario, attempts: attempts.to_vec(), end: Some(end.to_owned()) }
    }

    #[test]
    fn attempts_are_held_against_the_table() {
        const END: &str = "MaxDeliveryAttemptsExceeded";
        for (attempts, end, want) in [
            (&[0.0, 30.2, 61.0][..], END, true),
            (&[0.0, 29.0, 61.1], END, true),
            (&[0.0, 28.9, 61.1], END, false),
            // A tenth of the wait is jitter.
            (&[0.0, 34.0, 63.6], END, true),
            (&[0.0, 34.1, 60.0], END, false),
            (&[0.0, 30.0], END, false),
            (&[0.0, 30.0, 60.0, 90.0], END, false),
            (&[], END, false),
            (&[0.0, 30.0, 60.0], "Delivered", false),
        ] {
            assert_eq!(played(attempts, end).holds(1.05), want, "{attempts:?} {end}");
        }
    }

    #[test]
    fn the_last_answer_repeats() {
        let scenario = played(&[], "").scenario;
        let answers: Vec<_> = (0..4).map(|attempt| scenario.answer(attempt)).collect();
        assert_eq!(answers, [Some(503), Some(500), Some(500), Some(500)]);
        let silent = Scenario { responses: vec!["TimedOut".to_owned()], ..scenario };
        assert_eq!(silent.answer(0), None);
    }

    #[test]
    fn the_tables_have_short_and_long_ones() {
        let all = scenarios().expect("the table");
        assert!(all.iter().any(Scenario::is_short) && !all.iter().all(Scenario::is_short));
    }
}

//! The command's arguments.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, ValueEnum, error::ErrorKind};

use super::{Plan, Spec, live};
use crate::{
    deployed,
    lambda::{Hop, Ramp},
};

/// Most events of one world: more take too long.
const EVENTS_MAX: f64 = 1_000_000.0;

/// Most bad endpoints.
const BAD_MAX: usize = 100;

const SPECS: &str = "\
SPEC is what a bad endpoint does with a request:
  never            no answer ever comes
  STATUS           that status at once, 200 to 599
  STATUS@SECONDS   that status after so many seconds, 0 to 600, such as 200@20
  half:SPEC        one of these with every other request, beginning with the first; the others succeed at once

Every healthy endpoint answers 200 within 200 ms. All endpoints have the deployed defaults (profile basic).
The world runs the real handlers in virtual time, with calls of AWS that take 1 to 20 ms, until every
delivery has ended. From a queue to a function it takes 2 to 300 ms (--hop far), or 2 to 40 ms to a copy that
has run before and 100 to 400 ms to one that must be started (--hop near). It has no faults but the endpoints'. The same arguments
give the same figures.

Latencies: of healthy endpoints from the publish to the first attempt, of bad ones from the publish to the
delivery (events that never arrived have none). inFlightMax counts requests that wait for their answer (at most
30 s) at the same time. invocations and billedGbSeconds are of all functions, with the memory they are deployed with, and
without Lambda's requests for idle queues. violations is what broke a promise; then the command fails.";

/// Shows how bad neighbours affect healthy endpoints
#[derive(Debug, Parser)]
#[command(name = "neighbours", after_help = SPECS)]
pub struct Arguments {
    /// A bad endpoint, by what it does (see below); repeat it for several
    #[arg(long, value_name = "SPEC")]
    bad: Vec<Spec>,

    /// Events a second to each bad endpoint, up to 10000
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = rate)]
    rate: f64,

    /// For how many seconds bad endpoints get events, 1 to 86400
    #[arg(long, value_name = "S", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,

    /// Healthy endpoints, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=1_000))]
    healthy: u64,

    /// Events a second to all healthy endpoints together, from the beginning until 300 s after the last event
    /// of a bad one
    #[arg(long, value_name = "N", default_value_t = 2.0, value_parser = rate)]
    healthy_rate: f64,

    /// Most invocations at the same time for first attempts, 2 to 1000 (first_attempt_concurrency)
    #[arg(long, value_name = "N", default_value_t = deployed::FIRST_ATTEMPT_CONCURRENCY as u64,
          value_parser = clap::value_parser!(u64).range(2..=1_000))]
    concurrency: u64,

    /// Concurrency of each of the retry queues (retry_concurrency)
    #[arg(long, value_name = "N", default_value_t = deployed::RETRY_CONCURRENCY as u64,
          value_parser = clap::value_parser!(u64).range(2..=1_000))]
    retry_concurrency: u64,

    /// Concurrency of the queue for slow endpoints (slow_concurrency)
    #[arg(long, value_name = "N", default_value_t = deployed::SLOW_CONCURRENCY as u64,
          value_parser = clap::value_parser!(u64).range(2..=1_000))]
    slow_concurrency: u64,

    /// Time-to-live of the bad endpoints' events, 1 to 1440
    #[arg(long, value_name = "MINUTES", default_value_t = 1_440,
          value_parser = clap::value_parser!(u32).range(1..=1_440))]
    ttl: u32,

    /// Lambda begins to read each queue with 5 batches at the same time, and grows as documented
    #[arg(long)]
    cold: bool,

    /// With --cold, how "up to 300 more a minute" is read: 5 a second, or 300 at the end of each minute
    #[arg(long, value_enum, default_value_t = RampWord::Continuous)]
    ramp: RampWord,

    /// How far the functions are from their queues (see below)
    #[arg(long, value_enum, default_value_t = HopWord::Far)]
    hop: HopWord,

    /// SQS prefers the messages of quiet event subscriptions, as its fair queues are documented; without
    /// it the oldest go first
    #[arg(long)]
    fair: bool,

    /// Seed of the dice
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RampWord {
    Continuous,
    Steps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HopWord {
    Far,
    Near,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| *rate > 0.0 && *rate <= 10_000.0);
    rate.ok_or_else(|| "a number above 0, up to 10000, is wanted".to_owned())
}

impl Arguments {
    /// The world that they ask for.
    pub fn plan(&self) -> Result<Plan, String> {
        if self.bad.len() > BAD_MAX {
            return Err(format!("{} times --bad; at most {BAD_MAX}", self.bad.len()));
        }
        let healthy_events = self.healthy_rate * (self.seconds + 300) as f64;
        let events = self.rate * self.seconds as f64 * self.bad.len() as f64 + healthy_events;
        if events > EVENTS_MAX {
            return Err(format!(
                "{events:.0} events: at most {EVENTS_MAX} are simulated; lower --rate, --seconds or \
                 --healthy-rate"
            ));
        }
        if self.ramp == RampWord::Steps && !self.cold {
            return Err("--ramp says how --cold grows, which is not given".to_owned());
        }
        Ok(Plan {
            bad: self.bad.clone(),
            rate: self.rate,
            seconds: self.seconds,
            healthy: self.healthy as usize,
            healthy_rate: self.healthy_rate,
            concurrency: self.concurrency as usize,
            retry_concurrency: self.retry_concurrency as usize,
            slow_concurrency: self.slow_concurrency as usize,
            ttl_minutes: self.ttl,
            ramp: self.cold.then_some(match self.ramp {
                RampWord::Continuous => Ramp::Continuous,
                RampWord::Steps => Ramp::Steps,
            }),
            hop: match self.hop {
                HopWord::Far => Hop::FAR,
                HopWord::Near => Hop::NEAR,
            },
            fair: self.fair,
            seed: self.seed,
            ..Plan::default()
        })
    }
}

/// The command `neighbours`: 0, or 1 where a promise was broken, or 2 for arguments that it does not take.
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    let plan = arguments.plan().unwrap_or_else(|wrong| {
        Arguments::command().error(ErrorKind::ValueValidation, wrong).exit()
    });
    let report = live(&plan);
    if arguments.json {
        println!("{}", serde_json::to_string(&report).expect("figures are JSON"));
    } else {
        println!("{report}");
    }
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

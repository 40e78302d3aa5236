//! Verifies a deployment: publishes to a topic of its own, serves the endpoints, and reports what it saw.
//!
//! [`step`] has the steps, [`judge`] how each is judged, [`bill`] what deliveries cost, [`report`] all of it.
//! The other modules carry the steps out.

pub mod bill;
pub mod judge;
mod logs;
mod probe_topic;
mod queue;
pub mod report;
pub mod step;
mod steps;
mod webhook;

use std::sync::Mutex;

use anyhow::anyhow;

use self::{
    bill::Bill,
    probe_topic::ProbeTopic,
    queue::Queue,
    report::{Latencies, Report},
    step::{Environment, Platform, Step, plan},
    steps::Trial,
    webhook::Webhook,
};
use crate::{
    clock,
    cost::{FrontDoor, Measured, Mix, Prices},
    failure::{Misuse, chain},
    home::connection::Connection,
    manage_api::ManageApi,
    progress::Progress,
    target::Target,
};

/// The things to try a deployment with.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// ARN or URL of an SQS queue that the deployment may deliver to and nothing else uses.
    pub queue: Option<String>,
    /// URL of the webhook that `infra/modules/verify` makes; without one, this program serves it.
    pub webhook: Option<String>,
    /// ARN or URL of the queue to which that webhook reports what it receives.
    pub reports: Option<String>,
    pub dead_letter_bucket: Option<String>,
    /// Only these steps, and those that they depend on; empty for all.
    pub only: Vec<Step>,
    /// Events to deliver one after another, to the webhook and to the queue.
    pub events: u32,
    pub fan_out: u32,
    pub fan_out_events: u32,
    pub remove_leftovers: bool,
}

/// Tries all that can be tried, until `stop`, and removes its topic. A dead letter on its way when the run is
/// interrupted comes later, and stays. Fails if the run is interrupted, and with [`Misuse`] if nothing could be
/// tried.
pub async fn report(
    options: &VerifyOptions,
    target: &Target,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Report> {
    let progress = &Progress::on_stderr();
    let api = &target.manage_api().await.map_err(untried)?;
    let setup = &Setup::find(options, target).await.map_err(untried)?;
    let environment = setup.environment;
    let plan = plan(&environment, &options.only);
    if !plan.iter().any(|(_, why)| why.is_none()) {
        let mut why: Vec<_> = plan.iter().filter_map(|(_, why)| *why).collect();
        why.dedup();
        return Err(Misuse(format!("nothing can be tried: {}", why.join("; "))).into());
    }
    let leftovers = probe_topic::leftovers(api).await.map_err(untried)?;
    let mut leftovers = clear(options, api, leftovers, progress).await;
    let topic = &ProbeTopic::create(api, target, &setup.run).await.map_err(untried)?;
    let latencies = &Mutex::new(Latencies::default());
    let trial = Trial { options, target, api, setup, topic, latencies, progress };
    let tried = tokio::select! {
        tried = trial.run(&plan) => Some(tried),
        () = stop => None,
    };
    let is_gone = topic.remove(api, progress).await;
    let name = topic.name();
    let Some((results, span)) = tried else {
        let left = if is_gone { "is removed" } else { "is left behind" };
        let bucket = setup.bucket.iter();
        let letter =
            bucket.map(|bucket| format!("; a dead letter may still come to {bucket}/{name}/"));
        let letter: String = letter.collect();
        return Err(anyhow!("interrupted before all was tried; the topic {name} {left}{letter}"));
    };
    if !is_gone {
        leftovers.push(name.to_owned());
    }
    let (account, unmeasured) = match (&span, environment.platform) {
        (_, Platform::Dev) | (None, _) => (Default::default(), None),
        (Some(span), _) => bill::account(target, span).await,
    };
    let bill = Bill::of(&mix(target), &account, &Prices::current(), &Measured::current());
    let latencies = latencies.lock().map(|latencies| latencies.clone()).unwrap_or_default();
    let topic = name.to_owned();
    Ok(Report { environment, topic, results, latencies, bill, unmeasured, leftovers })
}

/// Makes an error from before anything was published one of exit code 2.
fn untried(error: anyhow::Error) -> anyhow::Error {
    Misuse(format!("nothing could be tried: {}", chain(&error))).into()
}

/// Removes what earlier runs left behind, if that was asked for. Returns what is still there.
async fn clear(
    options: &VerifyOptions,
    api: &ManageApi,
    leftovers: Vec<String>,
    progress: &Progress,
) -> Vec<String> {
    if leftovers.is_empty() {
        return leftovers;
    }
    let names = leftovers.join(", ");
    if !options.remove_leftovers {
        progress.line(&format!(
            "! left behind by earlier runs, or of one that is under way: {names}. `gridpost verify \
             --remove-leftovers` removes them"
        ));
        return leftovers;
    }
    let mut still = Vec::new();
    for topic in leftovers {
        match probe_topic::remove(api, &topic).await {
            Ok(()) => progress.line(&format!("removed topic {topic} of an earlier run")),
            Err(error) => {
                progress.line(&format!("! topic {topic} is left behind: {}", chain(&error)));
                still.push(topic);
            }
        }
    }
    still
}

/// The endpoints of a run.
struct Setup {
    environment: Environment,
    /// Distinguishes this run's events and requests from those of others.
    run: String,
    webhook: Option<Webhook>,
    queue: Option<Queue>,
    bucket: Option<String>,
}

impl Setup {
    async fn find(options: &VerifyOptions, target: &Target) -> anyhow::Result<Self> {
        let platform = match (target.is_dev(), target.emulator_url()) {
            (true, _) => Platform::Dev,
            (false, Some(_)) => Platform::Stack,
            (false, None) => Platform::Aws,
        };
        if platform == Platform::Dev && (options.queue.is_some() || options.reports.is_some()) {
            let advice = "`gridpost dev` has no SQS queue: leave --queue, --webhook and --reports out; this \
                          program plays the webhook itself";
            return Err(Misuse(advice.to_owned()).into());
        }
        let run = clock::random_id()[..8].to_owned();
        let webhook = match (&options.webhook, &options.reports) {
            (Some(url), Some(reports)) => {
                let reports = Queue::find(target, reports).await?;
                Some(Webhook::deployed(target, url, reports, &run).await?)
            }
            _ if platform == Platform::Aws => None,
            _ => Some(Webhook::here(&run).await?),
        };
        let queue = match &options.queue {
            Some(given) => Some(Queue::find(target, given).await?),
            None => None,
        };
        let connection = target.home().map(Connection::read).transpose()?.flatten();
        let own_bucket = connection.map(|connection| connection.dead_letter_bucket);
        let bucket = options.dead_letter_bucket.clone().or(own_bucket);
        let environment = Environment {
            platform,
            speed: target.speed().await?,
            has_webhook: webhook.is_some(),
            has_queue: queue.is_some(),
            has_letters: bucket.is_some(),
        };
        Ok(Self { environment, run, webhook, queue, bucket })
    }
}

/// Returns the mix that the bill is reckoned for: events as they were published here, one after the other.
fn mix(target: &Target) -> Mix {
    let by_function_url = target.publish_url().is_some_and(|url| url.contains(".lambda-url."));
    Mix {
        records_per_invocation: 1,
        front_door: if by_function_url { FrontDoor::FunctionUrl } else { FrontDoor::HttpApi },
        ..Mix::default()
    }
}

//! Publishes to a topic of its own, plays the endpoints, and says what it saw of a deployment.
//!
//! [`step`] says which steps there are, [`judge`] what each must look like, [`figures`] how long things
//! took, [`bill`] what it costs, [`report`] all of it. The other modules do what is planned there.

pub mod bill;
pub mod figures;
pub mod judge;
mod measure;
mod place;
mod queue;
pub mod report;
pub mod step;
mod steps;
mod webhook;

use std::sync::Mutex;

use anyhow::anyhow;

use crate::{
    cost::{FrontDoor, Measured, Mix, Prices},
    failure::{Misuse, chain},
    home::connection::Connection,
    manage_api::ManageApi,
    progress::Progress,
    target::Target,
    verify::{
        bill::Bill,
        figures::Figures,
        report::Report,
        step::{Ground, Step, Where, plan},
    },
};

use place::Place;
use queue::Queue;
use steps::Trial;
use webhook::Webhook;

/// What to try it with.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// ARN or URL of an SQS queue that the deployment may deliver to and nothing else uses.
    pub queue: Option<String>,
    /// URL of the webhook that `infra/modules/verify` makes; without one, this program plays it.
    pub webhook: Option<String>,
    /// ARN or URL of the queue to which that webhook reports what it receives.
    pub reports: Option<String>,
    pub dead_letter_bucket: Option<String>,
    /// Only these steps, and those that they depend on; none for all.
    pub only: Vec<Step>,
    /// Events to deliver one after another, to the webhook and to the queue.
    pub events: u32,
    pub fan_out: u32,
    pub fan_out_events: u32,
    pub remove_leftovers: bool,
}

/// Tries all that can be tried, until `stop`, and says what was seen. Its topic is removed; a dead
/// letter on its way when it was interrupted comes later, and stays. Fails with [`Misuse`] when nothing
/// could be tried; or it was interrupted.
pub async fn report(
    arguments: &VerifyOptions,
    target: &Target,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Report> {
    try_all(arguments, target, &Progress::on_stderr(), stop).await
}

async fn try_all(
    arguments: &VerifyOptions,
    target: &Target,
    progress: &Progress,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Report> {
    let api = target.manage_api().await.map_err(untried)?;
    let with = With::find(arguments, target).await.map_err(untried)?;
    let plan = plan(&with.ground, &arguments.only);
    if !plan.iter().any(|(_, why)| why.is_none()) {
        let mut why: Vec<_> = plan.iter().filter_map(|(_, why)| *why).collect();
        why.dedup();
        return Err(Misuse(format!("nothing can be tried: {}", why.join("; "))).into());
    }
    let leftovers = place::leftovers(&api).await.map_err(untried)?;
    let mut leftovers = clear(arguments, &api, leftovers, progress).await;
    let place = Place::make(&api, target, &with.run).await.map_err(untried)?;
    let figures = Mutex::new(Figures::default());
    let trial = Trial {
        arguments,
        target,
        api: &api,
        with: &with,
        place: &place,
        figures: &figures,
        progress,
    };
    let tried = tokio::select! {
        tried = trial.run(&plan) => Some(tried),
        () = stop => None,
    };
    let is_gone = place.remove(&api, progress).await;
    let Some(tried) = tried else {
        let left = if is_gone { "is removed" } else { "is left behind" };
        let letter = match &with.bucket {
            Some(bucket) => {
                format!("; a dead letter may still come to {bucket}/{}/", place.topic())
            }
            None => String::new(),
        };
        return Err(anyhow!(
            "interrupted before all was tried; the topic {} {left}{letter}",
            place.topic()
        ));
    };
    if !is_gone {
        leftovers.push(place.topic().to_owned());
    }
    let figures = figures.into_inner().unwrap_or_default();
    let (account, unmeasured) = match (&tried.span, with.ground.runs) {
        (_, Where::Dev) | (None, _) => (Default::default(), None),
        (Some(span), _) => measure::account(target, span).await,
    };
    let bill = Bill::of(&mix(target), &account, &Prices::current(), &Measured::current());
    let topic = place.topic().to_owned();
    let tried = tried.tried;
    Ok(Report { ground: with.ground, topic, tried, figures, bill, unmeasured, leftovers })
}

/// What stops it before anything was published: exit code 2.
fn untried(error: anyhow::Error) -> anyhow::Error {
    Misuse(format!("nothing could be tried: {}", chain(&error))).into()
}

/// Removes what earlier runs have left behind, if that was asked for; answers what is still there.
async fn clear(
    arguments: &VerifyOptions,
    api: &ManageApi,
    leftovers: Vec<String>,
    progress: &Progress,
) -> Vec<String> {
    if leftovers.is_empty() {
        return leftovers;
    }
    let names = leftovers.join(", ");
    if !arguments.remove_leftovers {
        progress.line(&format!(
            "! left behind by earlier runs, or of one that is under way: {names}. `gridpost verify \
             --remove-leftovers` removes them"
        ));
        return leftovers;
    }
    let mut still = Vec::new();
    for topic in leftovers {
        match place::remove(api, &topic).await {
            Ok(()) => progress.line(&format!("removed topic {topic} of an earlier run")),
            Err(error) => {
                progress.line(&format!("! topic {topic} is left behind: {}", chain(&error)));
                still.push(topic);
            }
        }
    }
    still
}

struct With {
    ground: Ground,
    /// Tells this run's events and requests from those of others.
    run: String,
    webhook: Option<Webhook>,
    queue: Option<Queue>,
    bucket: Option<String>,
}

impl With {
    async fn find(arguments: &VerifyOptions, target: &Target) -> anyhow::Result<Self> {
        let runs = match (target.is_dev(), target.emulator_url()) {
            (true, _) => Where::Dev,
            (false, Some(_)) => Where::Stack,
            (false, None) => Where::Aws,
        };
        if runs == Where::Dev && (arguments.queue.is_some() || arguments.reports.is_some()) {
            let advice = "`gridpost dev` has no SQS queue: leave --queue, --webhook and --reports out; this \
                          program plays the webhook itself";
            return Err(Misuse(advice.to_owned()).into());
        }
        let run = place::run_id();
        let webhook = match (&arguments.webhook, &arguments.reports) {
            (Some(url), Some(reports)) => {
                let reports = Queue::find(target, reports).await?;
                Some(Webhook::deployed(target, url, reports, &run).await?)
            }
            _ if runs == Where::Aws => None,
            _ => Some(Webhook::here(&run).await?),
        };
        let queue = match &arguments.queue {
            Some(given) => Some(Queue::find(target, given).await?),
            None => None,
        };
        let connection = target.home().map(Connection::read).transpose()?.flatten();
        let own_bucket = connection.map(|connection| connection.dead_letter_bucket);
        let bucket = arguments.dead_letter_bucket.clone().or(own_bucket);
        let ground = Ground {
            runs,
            speed: target.speed().await?,
            has_webhook: webhook.is_some(),
            has_queue: queue.is_some(),
            has_letters: bucket.is_some(),
        };
        Ok(Self { ground, run, webhook, queue, bucket })
    }
}

/// What the bill is reckoned for: events as they were published here, one after the other.
fn mix(target: &Target) -> Mix {
    let by_function_url = target.publish_url().is_some_and(|url| url.contains(".lambda-url."));
    Mix {
        records_per_invocation: 1,
        front_door: if by_function_url { FrontDoor::FunctionUrl } else { FrontDoor::HttpApi },
        ..Mix::default()
    }
}

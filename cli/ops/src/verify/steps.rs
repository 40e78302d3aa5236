//! Tries the steps. Each has an event subscription of its own; its events' subject is that one's name.

mod delivered;
mod failing;

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context;
use futures::future::OptionFuture;
use gridpost_api::subscription::EventSubscriptionSettings;

use super::{
    Setup, VerifyOptions,
    bill::Span,
    probe_topic::ProbeTopic,
    report::{Latencies, Stage},
    step::{Step, StepResult, Verdict},
    webhook::Webhook,
};
use crate::{
    failure::chain, manage_api::ManageApi, probing::webhook, progress::Progress, target::Target,
};

/// Time for a first attempt, on machines and in accounts of any size.
const ARRIVED_MAX: Duration = Duration::from_secs(60);

pub(super) struct Trial<'a> {
    pub(super) options: &'a VerifyOptions,
    pub(super) target: &'a Target,
    pub(super) api: &'a ManageApi,
    pub(super) setup: &'a Setup,
    pub(super) topic: &'a ProbeTopic,
    pub(super) latencies: &'a Mutex<Latencies>,
    pub(super) progress: &'a Progress,
}

/// The lines that a step shows, or why it failed.
type Shown = anyhow::Result<Vec<String>>;

impl Trial<'_> {
    /// Tries all that the plan does not rule out: one after the other the steps that must not be disturbed, then
    /// together those that wait.
    pub(super) async fn run(
        &self,
        plan: &[(Step, Option<&'static str>)],
    ) -> (Vec<StepResult>, Option<Span>) {
        let is_planned = |step: Step| plan.contains(&(step, None));
        let skipped = plan.iter().filter_map(|(step, why)| {
            why.map(|why| StepResult::new(*step, Verdict::not_shown(why)))
        });
        let mut results: Vec<_> = skipped.collect();
        let mut span = None;
        if is_planned(Step::Webhook) {
            results.push(self.attempt(Step::Webhook, self.to_the_webhook(&mut span)).await);
        }
        if is_planned(Step::Queue) {
            results.push(self.attempt(Step::Queue, self.to_the_queue(&mut span)).await);
        }
        if is_planned(Step::FanOut) {
            results.push(self.attempt(Step::FanOut, self.fan_out()).await);
        }
        if is_planned(Step::Large) {
            results.push(self.attempt(Step::Large, self.large()).await);
        }
        let retry = is_planned(Step::Retry).then(|| self.retry(is_planned(Step::Visibility)));
        let dead_letter =
            is_planned(Step::DeadLetter).then(|| self.dead_letter(is_planned(Step::Redrive)));
        let late = is_planned(Step::Late).then(|| self.attempt(Step::Late, self.late()));
        let (retry, dead_letter, late) = tokio::join!(
            OptionFuture::from(retry),
            OptionFuture::from(dead_letter),
            OptionFuture::from(late)
        );
        results.extend([retry, dead_letter].into_iter().flatten().flatten().chain(late));
        results.sort_by_key(|result| result.step);
        (results, span)
    }

    /// Tries a step, and shows that it is under way.
    async fn attempt(&self, step: Step, trying: impl Future<Output = Shown>) -> StepResult {
        let title = format!("{}: {}", step.name(), step.title());
        let shown_as = self.progress.step(&title);
        let verdict = match trying.await {
            Ok(seen) => {
                shown_as.done(&title);
                Verdict::Shown { seen }
            }
            Err(error) => {
                drop(shown_as);
                let why = chain(&error);
                self.progress.line(&format!("✗ {}: {why}", step.name()));
                Verdict::Failed { why }
            }
        };
        StepResult::new(step, verdict)
    }

    fn webhook(&self) -> anyhow::Result<&Webhook> {
        // The plan has no step of it otherwise.
        self.setup.webhook.as_ref().context("there is no webhook")
    }

    async fn subscribe(
        &self,
        name: &str,
        subject: &str,
        settings: EventSubscriptionSettings,
    ) -> anyhow::Result<()> {
        let destination = Some(webhook(&self.webhook()?.endpoint(name)));
        let settings = EventSubscriptionSettings { destination, ..settings };
        self.topic.subscribe(self.api, name, subject, settings).await
    }

    fn measured(&self, stage: Stage, took: Duration) {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner).add(stage, took);
    }

    fn id(&self, step: Step, index: u32) -> String {
        format!("{}-{}-{index}", self.setup.run, step.name())
    }

    fn ids(&self, step: Step, count: u32) -> Vec<String> {
        (0..count).map(|index| self.id(step, index)).collect()
    }
}

/// Returns the time between two readings of one clock, none if the second seems to be before the first.
fn between(from_ms: i64, to_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(to_ms - from_ms).unwrap_or(0))
}

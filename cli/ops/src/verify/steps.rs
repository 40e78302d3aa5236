//! The steps, as they are tried. Each has an event subscription of its own; its events' subject is that
//! one's name.

mod delivered;
mod failing;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use super::measure::Span;
use super::place::Place;
use super::webhook::Webhook;
use super::{VerifyOptions, With};
use crate::{
    failure::chain,
    manage_api::ManageApi,
    progress::Progress,
    target::Target,
    verify::{
        figures::{Figures, Stage},
        step::{Step, Tried, Verdict},
    },
};

/// Time for a first attempt, on machines and in accounts of any size.
const ARRIVED_MAX: Duration = Duration::from_secs(60);

pub(super) struct Trial<'a> {
    pub(super) arguments: &'a VerifyOptions,
    pub(super) target: &'a Target,
    pub(super) api: &'a ManageApi,
    pub(super) with: &'a With,
    pub(super) place: &'a Place,
    pub(super) figures: &'a Mutex<Figures>,
    pub(super) progress: &'a Progress,
}

pub(super) struct All {
    pub(super) tried: Vec<Tried>,
    pub(super) span: Option<Span>,
}

/// What a step shows, in lines, or why it failed.
type Shown = anyhow::Result<Vec<String>>;

impl Trial<'_> {
    /// Tries all that the plan does not rule out. First what must not be disturbed, then together what
    /// waits.
    pub(super) async fn run(&self, plan: &[(Step, Option<&'static str>)]) -> All {
        let mut tried: Vec<_> = plan
            .iter()
            .filter_map(|(step, why)| {
                Some(Tried { step: *step, verdict: Verdict::NotShown((*why)?.to_owned()) })
            })
            .collect();
        let is_wanted = |step: Step| plan.contains(&(step, None));
        let mut span = None;
        if is_wanted(Step::Webhook) {
            let shown = self.told(Step::Webhook, self.to_the_webhook(&mut span)).await;
            tried.push(shown);
        }
        if is_wanted(Step::Queue) {
            let shown = self.told(Step::Queue, self.to_the_queue(&mut span)).await;
            tried.push(shown);
        }
        if is_wanted(Step::FanOut) {
            tried.push(self.told(Step::FanOut, self.fan_out()).await);
        }
        if is_wanted(Step::Large) {
            tried.push(self.told(Step::Large, self.large()).await);
        }
        let retried = async {
            match is_wanted(Step::Retry) {
                true => self.retry(is_wanted(Step::Visibility)).await,
                false => Vec::new(),
            }
        };
        let dead_lettered = async {
            match is_wanted(Step::DeadLetter) {
                true => self.dead_letter(is_wanted(Step::Redrive)).await,
                false => Vec::new(),
            }
        };
        let late = async {
            match is_wanted(Step::Late) {
                true => vec![self.told(Step::Late, self.late()).await],
                false => Vec::new(),
            }
        };
        let (retried, dead_lettered, late) = tokio::join!(retried, dead_lettered, late);
        tried.extend([retried, dead_lettered, late].into_iter().flatten());
        tried.sort_by_key(|one| one.step);
        All { tried, span }
    }

    /// A step while it is shown that it is under way.
    async fn told(&self, step: Step, trying: impl Future<Output = Shown>) -> Tried {
        let shown_as = self.progress.step(&format!("{}: {}", step.name(), step.title()));
        let verdict = match trying.await {
            Ok(lines) => {
                shown_as.done(&format!("{}: {}", step.name(), step.title()));
                Verdict::Shown(lines)
            }
            Err(error) => {
                drop(shown_as);
                let why = chain(&error);
                self.progress.line(&format!("✗ {}: {why}", step.name()));
                Verdict::Failed(why)
            }
        };
        Tried { step, verdict }
    }

    fn webhook(&self) -> anyhow::Result<&Webhook> {
        // The plan has no step of it otherwise.
        self.with.webhook.as_ref().context("there is no webhook")
    }

    async fn subscribe(
        &self,
        name: &str,
        subject: &str,
        mut properties: Value,
    ) -> anyhow::Result<()> {
        let url = self.webhook()?.endpoint(name);
        properties["destination"] =
            json!({"endpointType": "WebHook", "properties": {"endpointUrl": url}});
        self.place.subscribe(self.api, name, subject, properties).await
    }

    fn measured(&self, stage: Stage, took: Duration) {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).add(stage, took);
    }

    fn id(&self, step: Step, index: u32) -> String {
        format!("{}-{}-{index}", self.with.run, step.name())
    }

    fn ids(&self, step: Step, count: u32) -> Vec<String> {
        (0..count).map(|index| self.id(step, index)).collect()
    }
}

/// What is between two times of one clock, none if the second one seems to be before the first.
fn between(from_ms: i64, to_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(to_ms - from_ms).unwrap_or(0))
}

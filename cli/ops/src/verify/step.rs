//! The steps, what each of them needs, and its result.

use std::time::Duration;

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

/// A step, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[derive(Serialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Step {
    Webhook,
    Queue,
    /// A publish reaches many event subscriptions.
    FanOut,
    /// An event that no queue message carries arrives whole.
    Large,
    Retry,
    /// The event source mapping keeps the visibility timeouts that dispatch sets.
    Visibility,
    DeadLetter,
    Redrive,
    /// An answer after 30 s takes the delivery out of retry.
    Late,
}

impl Step {
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns its name, as in `--only`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Says what it shows, in a sentence.
    pub fn title(self) -> &'static str {
        match self {
            Self::Webhook => "events reach a webhook",
            Self::Queue => "events reach an SQS queue",
            Self::FanOut => "one publish reaches every event subscription of a topic",
            Self::Large => "an event that is too large for a queue message arrives whole",
            Self::Retry => "a webhook that fails gets its event again, when it is due",
            Self::Visibility => "Lambda's mapping keeps the visibility timeouts that dispatch sets",
            Self::DeadLetter => "a refused event becomes a dead letter after one attempt",
            Self::Redrive => "a dead letter is sent again",
            Self::Late => "an answer after 30 s cancels the retry",
        }
    }

    /// Returns the step without whose result it has nothing to look at.
    pub fn rests_on(self) -> Option<Self> {
        match self {
            Self::Visibility => Some(Self::Retry),
            Self::Redrive => Some(Self::DeadLetter),
            _ => None,
        }
    }
}

/// The platform that a deployment runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    Aws,
    /// An emulator of AWS: `gridpost up`.
    #[serde(rename = "up")]
    Stack,
    /// One process: `gridpost dev`.
    Dev,
}

/// A deployment, and what there is to try it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Environment {
    pub platform: Platform,
    /// How many times faster than the local clock the deployment's runs.
    pub speed: u32,
    pub has_webhook: bool,
    pub has_queue: bool,
    pub has_letters: bool,
}

impl Environment {
    /// Says why a step can't be tried here; `None` if it can. A step that is tried may still show nothing.
    pub fn obstacle(&self, step: Step) -> Option<&'static str> {
        const NO_WEBHOOK: &str = "there is no webhook that the deployment can reach: \
            infra/modules/verify makes one, --webhook and --reports name it";
        const NO_QUEUE: &str = "no queue was named: --queue takes the ARN or URL of one that \
            resource_destinations allows; infra/modules/verify makes one";
        const DEV_QUEUE: &str = "`gridpost dev` has no SQS";
        const NO_LETTERS: &str = "no bucket for dead letters was named: --dead-letter-bucket takes \
            the Terraform output dead_letter_bucket";
        match step {
            Step::Queue if self.has_queue => None,
            Step::Queue if self.platform == Platform::Dev => Some(DEV_QUEUE),
            Step::Queue => Some(NO_QUEUE),
            _ if !self.has_webhook => Some(NO_WEBHOOK),
            Step::DeadLetter | Step::Redrive if !self.has_letters => Some(NO_LETTERS),
            _ => None,
        }
    }

    /// Converts a time of the deployment's clock to the local clock's.
    pub fn really(&self, by_its_clock: Duration) -> Duration {
        by_its_clock / self.speed.max(1)
    }
}

/// Says of each step why it is not tried: it was not asked for, or can't be tried here. `None` if it is.
pub fn plan(environment: &Environment, only: &[Step]) -> Vec<(Step, Option<&'static str>)> {
    let wanted = |step: Step| only.is_empty() || only.contains(&step);
    let is_wanted = |step: Step| {
        wanted(step) || Step::ALL.iter().any(|it| wanted(*it) && it.rests_on() == Some(step))
    };
    let why = |step: Step| match is_wanted(step) {
        false => Some("left out by --only"),
        true => environment.obstacle(step),
    };
    Step::ALL.iter().map(|step| (*step, why(*step))).collect()
}

/// The verdict of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "camelCase")]
pub enum Verdict {
    Shown {
        /// Lines about what was seen.
        seen: Vec<String>,
    },
    /// Something else was seen.
    Failed { why: String },
    /// It could not be seen, which says nothing about the deployment.
    NotShown { why: String },
}

impl Verdict {
    /// A step that showed nothing.
    pub fn not_shown(why: impl Into<String>) -> Self {
        Self::NotShown { why: why.into() }
    }
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepResult {
    pub step: Step,
    shows: &'static str,
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl StepResult {
    pub fn new(step: Step, verdict: Verdict) -> Self {
        Self { step, shows: step.title(), verdict }
    }
}

/// The webhook's answers to an event subscription's requests, one by one; the last answer repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// The event subscription, and the last part of its endpoint's path.
    pub name: &'static str,
    pub answers: &'static str,
    /// Seconds that it takes to answer, by the local clock.
    pub delay_s: u64,
}

/// Seconds after which the late answer comes: the limit is 30.
pub const LATE_ANSWER_S: u64 = 35;

/// Seconds until the retry would be due that the late answer cancels, by the local clock.
pub const LATE_DUE_S: u32 = 50;

/// Offsets of the attempts that a failing webhook sees, in seconds of the deployment's clock. The second
/// attempt comes from a delayed message, later ones from a hidden one.
pub const RETRY_DUE_S: [u32; 4] = [0, 5, 15, 30];

/// The event subscriptions with answers of their own; others are answered 200.
pub const SCRIPTS: [Script; 6] = [
    Script { name: "webhook", answers: "200", delay_s: 0 },
    Script { name: "large", answers: "200", delay_s: 0 },
    Script { name: "retry", answers: "500,500,500,200", delay_s: 0 },
    Script { name: "refused", answers: "400", delay_s: 0 },
    Script { name: "mended", answers: "200", delay_s: 0 },
    Script { name: "late", answers: "200", delay_s: LATE_ANSWER_S },
];

/// Returns the webhook's answers to an event subscription, and the seconds that each takes.
pub fn script(name: &str) -> (&'static str, u64) {
    let found = SCRIPTS.iter().find(|script| script.name == name);
    found.map_or(("200", 0), |script| (script.answers, script.delay_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(platform: Platform, has: [bool; 3]) -> Environment {
        let [has_webhook, has_queue, has_letters] = has;
        Environment { platform, speed: 1, has_webhook, has_queue, has_letters }
    }

    fn untried(environment: &Environment, only: &[Step]) -> Vec<&'static str> {
        let planned = plan(environment, only).into_iter();
        planned.filter(|(_, why)| why.is_some()).map(|(step, _)| step.name()).collect()
    }

    #[test]
    fn what_cannot_be_tried_is_not_tried() {
        let table: [(Platform, [bool; 3], &[&str]); 5] = [
            (Platform::Aws, [true, true, true], &[]),
            (Platform::Dev, [true, false, true], &["queue"]),
            (Platform::Aws, [true, true, false], &["dead-letter", "redrive"]),
            (Platform::Stack, [true, false, false], &["queue", "dead-letter", "redrive"]),
            (
                Platform::Aws,
                [false, true, true],
                &[
                    "webhook",
                    "fan-out",
                    "large",
                    "retry",
                    "visibility",
                    "dead-letter",
                    "redrive",
                    "late",
                ],
            ),
        ];
        for (platform, has, want) in table {
            let environment = environment(platform, has);
            assert_eq!(untried(&environment, &[]), want, "{environment:?}");
        }
    }

    #[test]
    fn a_step_brings_the_one_that_it_rests_on() {
        let all = environment(Platform::Aws, [true, true, true]);
        for (only, want) in [
            (vec![Step::Visibility], vec!["retry", "visibility"]),
            (vec![Step::Redrive, Step::Queue], vec!["queue", "dead-letter", "redrive"]),
            (vec![Step::Late], vec!["late"]),
        ] {
            let tried = plan(&all, &only).into_iter().filter(|(_, why)| why.is_none());
            let tried: Vec<_> = tried.map(|(step, _)| step.name()).collect();
            assert_eq!(tried, want, "{only:?}");
        }
    }

    #[test]
    fn the_webhooks_script_is_consistent() {
        for Script { name, answers, .. } in SCRIPTS {
            assert!(answers.parse::<crate::receiver::Answers>().is_ok(), "{name}");
            assert_eq!(script(name).0, answers);
        }
        assert_eq!(script("fan-07"), ("200", 0));
        // It answers after the limit, and before the retry.
        const { assert!(30 < LATE_ANSWER_S && LATE_ANSWER_S < LATE_DUE_S as u64) };
        assert_eq!(script("retry").0.split(',').count(), RETRY_DUE_S.len());
    }
}

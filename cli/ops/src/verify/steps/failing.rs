//! Tries steps whose endpoint fails: retries, dead letters, a late answer.

use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use gridpost_api::{
    dead_letter::{DeadLetter, DeadLetterContent, DeadLetterRecord},
    delivery::DeliveryStatus,
    journal::query::{AttemptsQuery, JournalQueryInput},
    redrive::Redrive,
    requests::{PurgeDeadLettersInput, RedriveInput, RedriveTarget},
    subscription::{Bucket, DeadLetterDestination, EventSubscriptionSettings, RetryPolicy},
};
use gridpost_core::{delivery::redrive::JobStatus, time::Timestamp};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{ARRIVED_MAX, Shown, Trial, between};
use crate::{
    clock,
    journal::Journal,
    verify::{
        judge::{Received, SLACK, attempts, of, on_time, visibility},
        probe_topic::REFUSED,
        report::{Stage, describe_time},
        step::{LATE_ANSWER_S, LATE_DUE_S, RETRY_DUE_S, Step, StepResult, Verdict},
    },
};

/// How long to look for the entry of an attempt: the journal may have it some seconds later.
const LOGGED_MAX: Duration = Duration::from_secs(60);

/// How long a dead letter may take by the deployment's clock: `dead_letter_delay_seconds` is 300 by
/// default, and its queue is read in windows of up to 300 more.
const LETTER_MAX: Duration = Duration::from_secs(900);

/// How long it may take beside that, by the local clock.
const WORK_MAX: Duration = Duration::from_secs(30);

const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The pause between two questions to the journal.
const READ_AGAIN: Duration = Duration::from_secs(3);

/// A redrive leaves dead letters of its last two seconds to the next one.
const SETTLED: Duration = Duration::from_secs(3);

/// The event subscription that a redrive sends to: nothing is published for it.
const MENDED: &str = "mended";

impl Trial<'_> {
    /// A failing webhook sees the schedule; then, if wanted, how often its message was received.
    pub(super) async fn retry(&self, with_visibility: bool) -> Vec<StepResult> {
        let since = self.target.now().await;
        let retried = self.attempt(Step::Retry, self.attempts_are_on_time()).await;
        let mut results = Vec::new();
        if with_visibility {
            let verdict = match (&retried.verdict, since) {
                (Verdict::Shown { .. }, Ok(since)) => {
                    let receives = self.receives(since).await;
                    let receives = receives.map_err(|error| format!("{error:#}"));
                    visibility(self.setup.environment.platform, receives)
                }
                _ => Verdict::not_shown("there is nothing to look at where retry failed"),
            };
            results.push(StepResult::new(Step::Visibility, verdict));
        }
        results.push(retried);
        results
    }

    async fn attempts_are_on_time(&self) -> Shown {
        let webhook = self.webhook()?;
        let [_, schedule @ ..] = RETRY_DUE_S;
        self.subscribe("retry", "retry", with_schedule(&schedule)).await?;
        self.topic.publish("retry", &self.ids(Step::Retry, 1), "").await?;
        let last = Duration::from_secs(RETRY_DUE_S.into_iter().max().unwrap_or(0).into());
        let until = Instant::now() + ARRIVED_MAX + self.setup.environment.really(last);
        let has_all = |seen: &[Received]| attempts(&of(seen, "retry")).len() >= RETRY_DUE_S.len();
        let seen = webhook.until(until, has_all).await;
        let judged = on_time(&of(&seen, "retry"), &RETRY_DUE_S, self.setup.environment.speed);
        let (late, line) = judged.map_err(|problem| anyhow!("{}", webhook.explain(problem)))?;
        for late in late {
            self.measured(Stage::DueToAttempt, self.setup.environment.really(late));
        }
        Ok(vec![line])
    }

    /// Asks the journal how often the message had been received when its third attempt was made.
    async fn receives(&self, since: Timestamp) -> anyhow::Result<Option<u32>> {
        let journal = Journal::connect(self.target, None).await?;
        let attempts = AttemptsQuery {
            event_id: Some(self.id(Step::Retry, 0)),
            from: Some(since.into()),
            failed: Some(true),
            ..AttemptsQuery::default()
        };
        let question = JournalQueryInput { attempts: Some(attempts), ..Default::default() };
        let give_up = Instant::now() + LOGGED_MAX;
        loop {
            let answer = journal.ask(question.clone(), usize::MAX).await?;
            let third = answer.attempts.iter().flatten().find(|entry| entry.attempt == 3);
            if let Some(third) = third {
                return Ok(third.receives);
            }
            if Instant::now() >= give_up {
                return Ok(None);
            }
            sleep(READ_AGAIN).await;
        }
    }

    /// A refused event becomes a dead letter; then, if wanted, it is sent again.
    pub(super) async fn dead_letter(&self, with_redrive: bool) -> Vec<StepResult> {
        let written = self.attempt(Step::DeadLetter, self.a_dead_letter_is_written()).await;
        let mut results = Vec::new();
        if with_redrive {
            results.push(match &written.verdict {
                Verdict::Shown { .. } => self.attempt(Step::Redrive, self.it_is_sent_again()).await,
                _ => {
                    let why = "there is no dead letter to send again";
                    StepResult::new(Step::Redrive, Verdict::not_shown(why))
                }
            });
        }
        results.push(written);
        results
    }

    async fn a_dead_letter_is_written(&self) -> Shown {
        let webhook = self.webhook()?;
        let bucket = self.setup.bucket.as_deref().context("no bucket was named")?;
        let prefix = format!("{}/", self.topic.name());
        let bucket = Bucket { bucket_name: Some(bucket.to_owned()), prefix: Some(prefix) };
        let settings = EventSubscriptionSettings {
            dead_letter_destination: Some(DeadLetterDestination::S3Bucket(bucket)),
            ..EventSubscriptionSettings::default()
        };
        self.subscribe(REFUSED, REFUSED, settings).await?;
        let id = self.id(Step::DeadLetter, 0);
        self.topic.publish(REFUSED, std::slice::from_ref(&id), "").await?;
        let is_refused = |seen: &[Received]| !of(seen, REFUSED).is_empty();
        let seen = webhook.until(Instant::now() + ARRIVED_MAX, is_refused).await;
        let missing = || webhook.explain("the event did not arrive".to_owned());
        let refused_ms = of(&seen, REFUSED).first().with_context(missing)?.at_ms;
        let letter = self.letter().await?;
        let took = between(refused_ms, clock::now_ms());
        self.measured(Stage::RefusalToDeadLetter, took);
        let seen = webhook.until(Instant::now(), |_| true).await;
        let requests = attempts(&of(&seen, REFUSED)).len();
        ensure!(
            requests == 1,
            "{requests} attempts, expected 1: what is answered 400 is not retried"
        );
        match &letter.content {
            DeadLetterContent::Record(DeadLetterRecord {
                event_id,
                dead_letter_reason: reason,
                delivery_attempts: 1,
                ..
            }) if *event_id == id && reason == "UndeliverableDueToHttpBadRequest" => {
                let took = describe_time(took);
                Ok(vec![format!("{reason}, readable {took} after the refusal")])
            }
            _ => bail!("another dead letter was written: {}", compact(&letter)),
        }
    }

    async fn letter(&self) -> anyhow::Result<DeadLetter> {
        let really = self.setup.environment.really(LETTER_MAX) + WORK_MAX;
        let give_up = Instant::now() + really;
        loop {
            let all = PurgeDeadLettersInput::default();
            let letters = self.api.dead_letters(self.topic.name(), REFUSED, &all, 1).await?;
            if let Some(letter) = letters.into_iter().next() {
                return Ok(letter);
            }
            ensure!(Instant::now() < give_up, "no dead letter within {}", describe_time(really));
            sleep(LOOK_AGAIN).await;
        }
    }

    async fn it_is_sent_again(&self) -> Shown {
        let webhook = self.webhook()?;
        self.subscribe(MENDED, MENDED, Default::default()).await?;
        sleep(SETTLED).await;
        let goal = RedriveTarget { topic: None, event_subscription: Some(MENDED.to_owned()) };
        let input = RedriveInput { target: Some(goal), ..RedriveInput::default() };
        let begun_ms = clock::now_ms();
        let id = self.api.redrive(self.topic.name(), REFUSED, &input).await?.id.to_string();
        let is_there = |seen: &[Received]| !of(seen, MENDED).is_empty();
        let seen = webhook.until(Instant::now() + ARRIVED_MAX + WORK_MAX, is_there).await;
        let Some(arrived) = of(&seen, MENDED).first().copied() else {
            let job = self.redrive_job(&id).await?;
            let problem = format!("it did not arrive: {}", compact(&job));
            bail!("{}", webhook.explain(problem));
        };
        ensure!(arrived.ids == [self.id(Step::DeadLetter, 0)], "others arrived: {:?}", arrived.ids);
        let took = between(begun_ms, arrived.at_ms);
        self.measured(Stage::RedriveToWebhook, took);
        let job = self.completed(&id).await?;
        ensure!(job.redriven == 1, "the redrive counts another number: {}", compact(&job));
        Ok(vec![format!("at the webhook {} after it was asked for", describe_time(took))])
    }

    async fn redrive_job(&self, id: &str) -> anyhow::Result<Redrive> {
        self.api.redrive_job(self.topic.name(), REFUSED, id).await
    }

    async fn completed(&self, id: &str) -> anyhow::Result<Redrive> {
        let give_up = Instant::now() + ARRIVED_MAX + WORK_MAX;
        loop {
            let job = self.redrive_job(id).await?;
            if job.status == JobStatus::Completed {
                return Ok(job);
            }
            ensure!(Instant::now() < give_up, "the redrive did not end: {}", compact(&job));
            sleep(LOOK_AGAIN).await;
        }
    }

    /// An answer after the limit takes the delivery out of retry.
    pub(super) async fn late(&self) -> Shown {
        let webhook = self.webhook()?;
        // An endpoint has its 30 s by the local clock, at any speed of the deployment's.
        let due_s = LATE_DUE_S.saturating_mul(self.setup.environment.speed);
        self.subscribe("late", "late", with_schedule(&[due_s])).await?;
        self.topic.publish("late", &self.ids(Step::Late, 1), "").await?;
        let is_there = |seen: &[Received]| !of(seen, "late").is_empty();
        let seen = webhook.until(Instant::now() + ARRIVED_MAX, is_there).await;
        let missing = || webhook.explain("the event did not arrive".to_owned());
        let first_ms = of(&seen, "late").first().with_context(missing)?.at_ms;
        // A tenth of the wait is jitter.
        let over = Duration::from_secs((LATE_DUE_S + LATE_DUE_S / 10).into()) + SLACK;
        let passed = between(first_ms, clock::now_ms());
        let until = Instant::now() + over.saturating_sub(passed);
        let seen = webhook.until(until, |seen| attempts(&of(seen, "late")).len() > 1).await;
        let requests = attempts(&of(&seen, "late")).len();
        ensure!(
            requests == 1,
            "{requests} attempts, expected 1: the answer after {LATE_ANSWER_S} s did not cancel the retry. \
             Late responses are heard while the queue is quiet: try again, with --only late"
        );
        let deliveries = self.api.deliveries(self.topic.name(), "late").await?;
        let is_over = |status| matches!(status, DeliveryStatus::Delivered | DeliveryStatus::Ended);
        if let Some(delivery) = deliveries.iter().find(|delivery| !is_over(delivery.status)) {
            bail!("the delivery is still {}", delivery.status);
        }
        Ok(vec![format!(
            "answered 200 after {LATE_ANSWER_S} s; no second request when one was due after {LATE_DUE_S} s"
        )])
    }
}

fn with_schedule(seconds: &[u32]) -> EventSubscriptionSettings {
    let retry_policy = Some(RetryPolicy { schedule: Some(seconds.to_vec()), ..Default::default() });
    EventSubscriptionSettings { retry_policy, ..Default::default() }
}

/// Writes a document in a line, for an error.
fn compact(document: &impl Serialize) -> String {
    serde_json::to_string(document).unwrap_or_default()
}

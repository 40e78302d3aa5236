//! Steps whose endpoint fails: retries, dead letters, a late answer.

use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{ARRIVED_MAX, Shown, Trial, between};
use crate::{
    attempt_lines::AttemptLog,
    clock,
    manage_api::dead_letters::LetterChoice,
    output::text_at,
    verify::{
        figures::{Stage, told},
        judge::{SLACK, Seen, attempts, of, on_time, visibility},
        place::REFUSED,
        step::{LATE_ANSWER_S, LATE_DUE_S, RETRY_DUE_S, Step, Tried, Verdict},
    },
};

/// How long dispatch's log is looked at for the line of an attempt: CloudWatch has it some seconds later.
const LOGGED_MAX: Duration = Duration::from_secs(60);

/// How long a dead letter may take by the deployment's clock: `dead_letter_delay_seconds` is 300 by
/// default, and its queue is read in windows of up to 300 more.
const LETTER_MAX: Duration = Duration::from_secs(900);

/// How long it may take beside that, by the machine's clock.
const WORK_MAX: Duration = Duration::from_secs(30);

const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Between two looks at a log: CloudWatch takes five in a second for a whole account.
const READ_AGAIN: Duration = Duration::from_secs(3);

/// A redrive leaves dead letters of its last two seconds to the next one.
const SETTLED: Duration = Duration::from_secs(3);

/// Where dead letters of a redrive go to: one that nothing is published for.
const MENDED: &str = "mended";

impl Trial<'_> {
    /// A failing webhook sees the schedule; then, if wanted, how often its message was received.
    pub(super) async fn retry(&self, with_visibility: bool) -> Vec<Tried> {
        let since = self.target.now().await.map(|now| now.as_millis());
        let retried = self.told(Step::Retry, self.attempts_are_on_time()).await;
        let mut tried = Vec::new();
        if with_visibility {
            let verdict = match (&retried.verdict, since) {
                (Verdict::Shown(_), Ok(since_ms)) => {
                    let receives = self.receives(since_ms).await;
                    visibility(
                        self.with.ground.runs,
                        receives.map_err(|error| format!("{error:#}")),
                    )
                }
                _ => Verdict::NotShown("there is nothing to look at where retry failed".to_owned()),
            };
            tried.push(Tried { step: Step::Visibility, verdict });
        }
        tried.push(retried);
        tried
    }

    async fn attempts_are_on_time(&self) -> Shown {
        let webhook = self.webhook()?;
        let [_, schedule @ ..] = RETRY_DUE_S;
        let policy = json!({"schedule": schedule, "maxDeliveryAttempts": 10});
        self.subscribe("retry", "retry", json!({ "retryPolicy": policy })).await?;
        self.place.publish("retry", &self.ids(Step::Retry, 1), "").await?;
        let last = Duration::from_secs(RETRY_DUE_S.iter().copied().max().unwrap_or(0));
        let until = Instant::now() + ARRIVED_MAX + self.with.ground.really(last);
        let has_all = |seen: &[Seen]| attempts(&of(seen, "retry")).len() >= RETRY_DUE_S.len();
        let seen = webhook.until(until, has_all).await;
        let judged = on_time(&of(&seen, "retry"), &RETRY_DUE_S, self.with.ground.speed);
        let (late, line) = judged.map_err(|problem| anyhow!("{}", webhook.explain(problem)))?;
        for late in late {
            self.measured(Stage::Retry, self.with.ground.really(late));
        }
        Ok(vec![line])
    }

    /// How often the message had been received when its third attempt was made, by dispatch's log.
    async fn receives(&self, since_ms: i64) -> anyhow::Result<Option<u64>> {
        let log = AttemptLog::connect(self.target).await?;
        let id = self.id(Step::Retry, 0);
        let give_up = Instant::now() + LOGGED_MAX;
        loop {
            let lines = log.read(since_ms, Some(&id)).await?;
            let third = lines
                .iter()
                .find(|line| line.is_attempt() && line.has_event(&id) && line.line["attempt"] == 3);
            if let Some(third) = third {
                return Ok(third.line["receives"].as_u64());
            }
            if Instant::now() >= give_up {
                return Ok(None);
            }
            sleep(READ_AGAIN).await;
        }
    }

    /// A refused event becomes a dead letter; then, if wanted, it is sent again.
    pub(super) async fn dead_letter(&self, with_redrive: bool) -> Vec<Tried> {
        let written = self.told(Step::DeadLetter, self.a_dead_letter_is_written()).await;
        let mut tried = Vec::new();
        if with_redrive {
            let redriven = match &written.verdict {
                Verdict::Shown(_) => self.told(Step::Redrive, self.it_is_sent_again()).await,
                _ => {
                    let why = "there is no dead letter to send again".to_owned();
                    Tried { step: Step::Redrive, verdict: Verdict::NotShown(why) }
                }
            };
            tried.push(redriven);
        }
        tried.push(written);
        tried
    }

    async fn a_dead_letter_is_written(&self) -> Shown {
        let webhook = self.webhook()?;
        let bucket = self.with.bucket.as_deref().context("no bucket was named")?;
        let place = json!({"bucketName": bucket, "prefix": format!("{}/", self.place.topic())});
        let letters = json!({"endpointType": "S3Bucket", "properties": place});
        self.subscribe(REFUSED, REFUSED, json!({ "deadLetterDestination": letters })).await?;
        let id = self.id(Step::DeadLetter, 0);
        self.place.publish(REFUSED, std::slice::from_ref(&id), "").await?;
        let is_refused = |seen: &[Seen]| !of(seen, REFUSED).is_empty();
        let seen = webhook.until(Instant::now() + ARRIVED_MAX, is_refused).await;
        let missing = || webhook.explain("the event did not arrive".to_owned());
        let refused_ms = of(&seen, REFUSED).first().with_context(missing)?.at_ms;
        let letter = self.letter().await?;
        let took = between(refused_ms, clock::now_ms());
        self.measured(Stage::DeadLetter, took);
        let seen = webhook.until(Instant::now(), |_| true).await;
        let requests = attempts(&of(&seen, REFUSED)).len();
        ensure!(
            requests == 1,
            "{requests} attempts, expected 1: what is answered 400 is not retried"
        );
        let (reason, made) = (text_at(&letter, "/deadLetterReason"), &letter["deliveryAttempts"]);
        ensure!(
            letter["eventId"] == id && reason == "UndeliverableDueToHttpBadRequest" && made == 1,
            "another dead letter was written: {letter}"
        );
        Ok(vec![format!("{reason}, readable {} after the refusal", told(took))])
    }

    async fn letter(&self) -> anyhow::Result<Value> {
        let really = self.with.ground.really(LETTER_MAX) + WORK_MAX;
        let give_up = Instant::now() + really;
        loop {
            let all = LetterChoice::default();
            let letters = self.api.dead_letters(self.place.topic(), REFUSED, &all, 1).await?;
            if let Some(letter) = letters.into_iter().next() {
                return Ok(letter);
            }
            ensure!(Instant::now() < give_up, "no dead letter within {}", told(really));
            sleep(LOOK_AGAIN).await;
        }
    }

    async fn it_is_sent_again(&self) -> Shown {
        let webhook = self.webhook()?;
        self.subscribe(MENDED, MENDED, json!({})).await?;
        sleep(SETTLED).await;
        let topic = self.place.topic();
        let ask = json!({
            "eventsPerSecond": 10, "maxRedrives": 3, "sendAgain": false, "dryRun": false,
            "target": {"eventSubscription": MENDED},
        });
        let asked_ms = clock::now_ms();
        let job = self.api.redrive(topic, REFUSED, &ask).await?;
        let is_there = |seen: &[Seen]| !of(seen, MENDED).is_empty();
        let seen = webhook.until(Instant::now() + ARRIVED_MAX + WORK_MAX, is_there).await;
        let id = text_at(&job, "/id");
        let Some(arrived) = of(&seen, MENDED).first().copied() else {
            let job = self.api.redrive_job(topic, REFUSED, id).await?;
            return Err(anyhow!("{}", webhook.explain(format!("it did not arrive: {job}"))));
        };
        ensure!(arrived.ids == [self.id(Step::DeadLetter, 0)], "others arrived: {:?}", arrived.ids);
        let took = between(asked_ms, arrived.at_ms);
        self.measured(Stage::Redrive, took);
        let job = self.completed(id).await?;
        ensure!(job["redriven"] == 1, "the redrive counts another number: {job}");
        Ok(vec![format!("at the webhook {} after it was asked for", told(took))])
    }

    async fn completed(&self, id: &str) -> anyhow::Result<Value> {
        let give_up = Instant::now() + ARRIVED_MAX + WORK_MAX;
        loop {
            let job = self.api.redrive_job(self.place.topic(), REFUSED, id).await?;
            if job["status"] == "Completed" {
                return Ok(job);
            }
            ensure!(Instant::now() < give_up, "the redrive did not end: {job}");
            sleep(LOOK_AGAIN).await;
        }
    }

    /// An answer after the limit takes the delivery out of retry.
    pub(super) async fn late(&self) -> Shown {
        let webhook = self.webhook()?;
        // An endpoint has its 30 s by the machine's clock, at any speed of the deployment's.
        let due_s = LATE_DUE_S * u64::from(self.with.ground.speed);
        let policy = json!({"retryPolicy": {"schedule": [due_s]}});
        self.subscribe("late", "late", policy).await?;
        self.place.publish("late", &self.ids(Step::Late, 1), "").await?;
        let is_there = |seen: &[Seen]| !of(seen, "late").is_empty();
        let seen = webhook.until(Instant::now() + ARRIVED_MAX, is_there).await;
        let missing = || webhook.explain("the event did not arrive".to_owned());
        let first_ms = of(&seen, "late").first().with_context(missing)?.at_ms;
        // A tenth of the wait is jitter.
        let over = Duration::from_secs(LATE_DUE_S + LATE_DUE_S / 10) + SLACK;
        let passed = between(first_ms, clock::now_ms());
        let until = Instant::now() + over.saturating_sub(passed);
        let seen = webhook.until(until, |seen| attempts(&of(seen, "late")).len() > 1).await;
        let requests = attempts(&of(&seen, "late")).len();
        ensure!(
            requests == 1,
            "{requests} attempts, expected 1: the answer after {LATE_ANSWER_S} s did not cancel the retry. \
             Late responses are heard while the queue is quiet: try again, with --only late"
        );
        let mut waiting = Vec::new();
        let take = |one: &Value| {
            if !matches!(text_at(one, "/status"), "Delivered" | "Ended") {
                waiting.push(text_at(one, "/status").to_owned());
            }
        };
        self.api.each_delivery(self.place.topic(), "late", take).await?;
        ensure!(waiting.is_empty(), "the delivery is still {}", waiting.join(", "));
        Ok(vec![format!(
            "answered 200 after {LATE_ANSWER_S} s; no second request when one was due after {LATE_DUE_S} s"
        )])
    }
}

//! redrive: works at redrive jobs, by which dead letters become deliveries again.
//!
//! A job is worked at by whoever holds its lease. Each batch is sent first, and then the job's place is
//! written, under the condition that nobody else has written it: whoever goes on after a crash repeats
//! one batch at most, with the same ids. The job's message is never sent on but hidden, for Lambda stops
//! what sends itself round.

use std::{collections::BTreeSet, ops::RangeInclusive, sync::Arc, time::Duration};

use gridpost_core::{
    delivery::{
        Delivery, claim, parking,
        queue::{POISON_RECEIVES, Queue},
        redrive::{Job, JobPhase, JobStatus, Lease, RedriveMessage, Verdict},
    },
    error::chain,
    metric::{self, of},
    publish::pack::HEADROOM_BYTES,
    time::Timestamp,
    topic::Revision,
};
use gridpost_ports::{
    BucketError, Clock, Configuration, DeadLetters, Meter, Outgoing, Payloads, PortError,
    QueueReceiver, QueueSender, Record, Redrives, Saved,
    dead_letter_walk::{Item, Source, Walk},
};
use tokio::time::sleep;
use uuid::Uuid;

/// What a batch takes at most, its repetition included: none is begun that could not be finished.
const BATCH_WAIT: Duration = Duration::from_secs(10);

/// How long a lease outlasts the invocation that it is for.
const LEASE_SLACK: Duration = Duration::from_secs(2);

/// How often the place of a job that counts is noted: who looks on sees it grow.
const NOTED_EVERY: Duration = Duration::from_secs(2);

/// How long a job waits that could do nothing: as many seconds as its message was received, in these
/// bounds. Lambda stops a message's successors at the sixteenth, so that one must last. A job that got on
/// waits the least.
const FAILED_WAIT_S: RangeInclusive<u32> = 10..=300;

/// A message that was received so often is replaced by a new one before SQS takes it for poison.
const RECEIVES_MAX: u32 = 900;
const _: () = assert!(RECEIVES_MAX < POISON_RECEIVES);

/// How long a message is hidden that this version does not read: another one may run again soon.
const UNREADABLE_WAIT_S: u32 = 60;

/// How often a write that meets another is tried.
const TRIES_MAX: u32 = 5;

/// What redriving needs of the world.
pub struct Context {
    pub clock: Arc<dyn Clock>,
    /// Puts deliveries into the dispatch queue.
    pub sender: Arc<dyn QueueSender>,
    /// Hides the message of a job that is to go on later.
    pub receiver: Arc<dyn QueueReceiver>,
    pub letters: Arc<dyn DeadLetters>,
    pub redrives: Arc<dyn Redrives>,
    /// Says whether the event subscription that events go to is still there.
    pub configuration: Arc<dyn Configuration>,
    /// Events that are too large for a message.
    pub payloads: Arc<dyn Payloads>,
    pub meter: Arc<dyn Meter>,
    /// The largest message that the queues take, in bytes.
    pub queue_message_bytes_max: usize,
}

/// Why a job does not go on here.
#[derive(Debug, thiserror::Error)]
enum Stop {
    /// A call failed: it goes on in a moment.
    #[error(transparent)]
    Failed(#[from] PortError),
    /// The bucket is gone, or the event subscription: somebody must look.
    #[error("{0}")]
    Hopeless(String),
    /// Another job of the event subscription began before it and is not over.
    #[error("it waits for the redrive {0}")]
    Waits(Uuid),
    /// Somebody else works at it.
    #[error("somebody else works at it")]
    Lost,
}

impl From<BucketError> for Stop {
    fn from(error: BucketError) -> Self {
        match error {
            BucketError::NotFound => Self::Hopeless("the bucket does not exist".to_owned()),
            BucketError::Unavailable(error) | BucketError::Unreadable(error) => Self::Failed(error),
        }
    }
}

/// What follows for a job's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    /// The job is over, or stopped: nothing.
    Done,
    /// It goes on after so many seconds.
    GoOn(u32),
    /// It is another's turn, a job's or a worker's: it asks again.
    Waits,
    /// It could do nothing, and is tried again.
    Failed,
}

fn failed_wait_s(receive_count: u32) -> u32 {
    receive_count.clamp(*FAILED_WAIT_S.start(), *FAILED_WAIT_S.end())
}

/// Works at the jobs of these records until the deadline, and answers which records SQS keeps.
///
/// One that can't be read is kept: a newer version may have sent it, which comes back after a rollback.
/// Received too often, SQS moves it to the poison queue.
pub async fn work(context: &Context, records: Vec<Record>, deadline: Timestamp) -> Vec<String> {
    let mut kept = Vec::new();
    for record in records {
        let then = match RedriveMessage::decode(&record.body) {
            // Before the work, which may be what kills the function each time.
            Some(_) if replaced(context, &record).await => continue,
            Some(tick) => run_job(context, &record, &tick, deadline).await,
            None => {
                tracing::error!(
                    message.id = %record.message_id,
                    "a message is no redrive that this version reads; it is kept",
                );
                context.meter.count(metric::KEPT_COUNT, &[], 1);
                NextStep::GoOn(UNREADABLE_WAIT_S)
            }
        };
        let wait_s = match then {
            NextStep::Done => None,
            NextStep::GoOn(seconds) => Some(seconds),
            NextStep::Waits => Some(failed_wait_s(record.receive_count)),
            NextStep::Failed => {
                context.meter.count(metric::KEPT_COUNT, &[], 1);
                Some(failed_wait_s(record.receive_count))
            }
        };
        if let Some(seconds) = wait_s {
            let hidden = context.receiver.hide(Queue::Redrive, &record.receipt, seconds).await;
            if let Err(error) = hidden {
                tracing::warn!(message.id = %record.message_id, error = %chain(&error), "not hidden");
            }
            kept.push(record.message_id.to_string());
        }
    }
    kept
}

/// Sends a new message in the place of one that was received too often.
async fn replaced(context: &Context, record: &Record) -> bool {
    if record.receive_count < RECEIVES_MAX {
        return false;
    }
    let (body, group) = (record.body.clone(), "redrive".to_owned());
    let sent =
        context.sender.send(Queue::Redrive, vec![Outgoing { body, group, delay_s: 0 }]).await;
    sent.into_iter().all(|sent| sent.is_ok())
}

/// Takes the lease of a job, works at it, and gives the lease back.
async fn run_job(
    context: &Context,
    record: &Record,
    tick: &RedriveMessage,
    deadline: Timestamp,
) -> NextStep {
    let holder = format!("{}/{}", record.message_id, record.receive_count);
    let job = match take(context, tick, holder, deadline).await {
        Ok(Ok(job)) => job,
        Ok(Err(then)) => return then,
        Err(error) => {
            tracing::warn!(redrive = %tick.redrive, error = %chain(&error), "a redrive was not begun");
            return NextStep::Failed;
        }
    };
    let (noted_at, revision) = (context.clock.now(), Revision::default());
    let began_at = (job.phase, job.next);
    let mut worker = Worker { context, job, deadline, noted_at, is_behind_sealed: false, revision };
    let stopped = worker.run().await;
    let got_on = (worker.job.phase, worker.job.next) != began_at;
    match worker.give_back(stopped).await {
        NextStep::Waits | NextStep::Failed if got_on => NextStep::GoOn(*FAILED_WAIT_S.start()),
        then => then,
    }
}

/// The job with its lease, or what follows where it is not to be had.
async fn take(
    context: &Context,
    tick: &RedriveMessage,
    holder: String,
    deadline: Timestamp,
) -> Result<Result<Job, NextStep>, PortError> {
    let now = context.clock.now();
    let Some(mut job) = context.redrives.job(&tick.subscription, tick.redrive).await? else {
        tracing::warn!(redrive = %tick.redrive, "a redrive is not there any more");
        return Ok(Err(NextStep::Done));
    };
    if job.status != JobStatus::Running {
        return Ok(Err(NextStep::Done));
    }
    let begins_at = job.begins_at(context.clock.pace());
    if now < begins_at {
        // On a fast clock this is longer than the longest message delay.
        return Ok(Err(NextStep::GoOn(parking::delay_s(begins_at.since(now)))));
    }
    if let Some(lease) = job.lease.as_ref().filter(|lease| lease.until > now) {
        let seconds = lease.until.since(now).as_secs() + 1;
        return Ok(Err(NextStep::GoOn(u32::try_from(seconds).unwrap_or(*FAILED_WAIT_S.end()))));
    }
    let slack = context.clock.pace().to_clock(LEASE_SLACK);
    job.lease = Some(Lease { holder, until: deadline + slack });
    Ok(match context.redrives.save(&job).await? {
        Saved::Written => Ok(Job { revision: job.revision + 1, ..job }),
        Saved::Conflict => Err(NextStep::GoOn(1)),
    })
}

/// Someone who works at a job.
struct Worker<'w> {
    context: &'w Context,
    job: Job,
    deadline: Timestamp,
    noted_at: Timestamp,
    /// Whether S3 does not give out the object that was looked at last.
    is_behind_sealed: bool,
    /// The revision of the topic that events go to, read before their event subscription was found.
    revision: Revision,
}

impl Worker<'_> {
    /// Goes on until the job is over or stopped, or the time is up.
    async fn run(&mut self) -> Result<(), Stop> {
        self.check_target().await?;
        let jobs = self.context.redrives.jobs(&self.job.subscription).await?;
        // Two at once would each send what the other one has not sent yet.
        if let Some(first) = jobs.iter().find(|other| self.job.waits_for(other)) {
            return Err(Stop::Waits(first.id));
        }
        while self.job.status == JobStatus::Running && self.has_time() {
            if self.run_phase(&jobs).await? {
                self.job.end_phase();
                self.note().await?;
            }
        }
        Ok(())
    }

    fn has_time(&self) -> bool {
        self.context.clock.left(self.deadline) >= BATCH_WAIT
    }

    /// Events for an event subscription that is gone would be dropped; their dead letters stay.
    async fn check_target(&mut self) -> Result<(), Stop> {
        let (Job { to, to_uid, .. }, configuration) = (&self.job, &self.context.configuration);
        let gone = || Stop::Hopeless(format!("the event subscription {to} was deleted since"));
        let topic = configuration.topic(&to.topic).await?.ok_or_else(gone)?;
        let names = BTreeSet::from([to.name.as_str()]);
        let found = configuration.written(&to.topic, Some(&names)).await?;
        if !found.iter().any(|(one, _)| one.key == *to && one.uid == *to_uid) {
            return Err(gone());
        }
        self.revision = topic.at();
        Ok(())
    }

    /// Goes through the letters from the job's place on; answers whether it came to their end. It looks at
    /// the time after each look, be there letters of the job or only others, and notes how far it has come
    /// at the end of it: neither a slow day nor a crowded folder lets a job turn in circles.
    async fn run_phase(&mut self, jobs: &[Job]) -> Result<bool, Stop> {
        let context = self.context;
        let Job { subscription, bucket, folder, schema, source_schema, wanted, .. } =
            self.job.clone();
        let schema = source_schema.unwrap_or(schema);
        let source = Source { subscription, bucket, folder, schema };
        let mut walk = Walk::from(&*context.letters, &source, &wanted, self.job.next);
        let mut batch = Vec::new();
        let mut began_at = context.clock.now();
        loop {
            let mut is_over = false;
            match walk.at_hand() {
                Some(item) => batch.extend(self.look_at(&item, jobs)),
                None => {
                    let looked = walk.look().await;
                    self.job.pass_to(walk.reached());
                    match looked {
                        Ok(is_more) => is_over = !is_more,
                        // Else a job would need a batch's calls to succeed in a row.
                        Err(error) => {
                            self.send(batch).await?;
                            self.note().await?;
                            return Err(error.into());
                        }
                    }
                }
            }
            let is_full = batch.len() >= self.job.batch_events_max();
            let since_noted = context.clock.now().since(self.noted_at);
            let is_late = context.clock.pace().to_real(since_noted) >= NOTED_EVERY;
            if !(is_full || is_over || is_late || !self.has_time()) {
                continue;
            }
            let events = batch.len();
            self.send(std::mem::take(&mut batch)).await?;
            self.job.problem = None;
            if is_over {
                return Ok(true);
            }
            self.note().await?;
            if self.job.status != JobStatus::Running || !self.has_time() {
                return Ok(false);
            }
            let paced_until = began_at + self.job.pace(events);
            sleep(context.clock.left(paced_until)).await;
            began_at = context.clock.now();
        }
    }

    /// Counts a letter; answers its delivery where one is to be sent now.
    fn look_at(&mut self, item: &Item, jobs: &[Job]) -> Option<Delivery> {
        self.job.next = Some(item.next());
        let now = self.context.clock.now();
        let is_behind_sealed = std::mem::replace(&mut self.is_behind_sealed, item.is_sealed);
        let Ok(found) = &item.found else {
            self.job.counts.unreadable += 1;
            if item.is_sealed {
                self.job.note_unread(item.position, is_behind_sealed);
            }
            return None;
        };
        let verdict = self.job.verdict(found, jobs);
        match (verdict, self.job.phase) {
            (Verdict::Send, JobPhase::Sending) => match self.job.delivery(found, now) {
                Ok(delivery) => {
                    self.job.note(verdict);
                    Some(delivery.matched_under(self.revision))
                }
                Err(_) => {
                    self.job.counts.unreadable += 1;
                    None
                }
            },
            _ => {
                self.job.note(verdict);
                None
            }
        }
    }

    /// Sends a batch, each failed delivery once more, and counts what was sent.
    async fn send(&self, batch: Vec<Delivery>) -> Result<(), Stop> {
        let mut left = Vec::new();
        for delivery in batch {
            left.push((outgoing(self.context, &delivery).await?, delivery));
        }
        for is_last in [false, true] {
            let messages = left.iter().map(|(message, _)| message.clone()).collect();
            let answers = self.context.sender.send(Queue::Dispatch, messages).await;
            let mut failed = None;
            let mut answers = answers.into_iter();
            left.retain(|(_, delivery)| match answers.next() {
                Some(Ok(())) => {
                    let (counter, key) = (metric::REDRIVEN_EVENT_COUNT, of(&delivery.subscription));
                    self.context.meter.count_events(counter, &key, delivery.publish_time, 1);
                    false
                }
                Some(Err(error)) => {
                    failed = Some(error);
                    true
                }
                None => true,
            });
            if left.is_empty() {
                // What was sent is counted before the position is written: a function that dies behind
                // that repeats nothing, and its counts would be missing.
                self.context.meter.flush(self.context.clock.now());
                return Ok(());
            }
            if is_last {
                let missing = || PortError::new("sending a message", "no answer came");
                return Err(failed.unwrap_or_else(missing).into());
            }
        }
        Ok(())
    }

    /// Writes how far the job has come. Whether it goes on is somebody else's to say: that is taken
    /// over where it was written meanwhile.
    async fn note(&mut self) -> Result<(), Stop> {
        let now = self.context.clock.now();
        (self.job.updated_at, self.noted_at) = (now, now);
        let is_over = self.job.status == JobStatus::Completed;
        for _ in 0..TRIES_MAX {
            if self.context.redrives.save(&self.job).await? == Saved::Written {
                self.job.revision += 1;
                return Ok(());
            }
            let stored = self.context.redrives.job(&self.job.subscription, self.job.id).await?;
            let is_own = stored.is_some_and(|stored| self.job.take_over(&stored));
            if !is_own {
                return Err(Stop::Lost);
            }
            if is_over {
                self.job.status = JobStatus::Completed;
            }
        }
        Err(PortError::new("writing a redrive", "others wrote at the same time").into())
    }

    /// Ends the work: the lease is given back, and what kept the job from going on is written.
    async fn give_back(mut self, stopped: Result<(), Stop>) -> NextStep {
        let id = self.job.id;
        let then = match stopped {
            Ok(()) if self.job.status == JobStatus::Running => NextStep::GoOn(0),
            Ok(()) => {
                let Job { status, counts, .. } = &self.job;
                tracing::info!(redrive = %id, ?status, sent = counts.sent, "redrive ended");
                NextStep::Done
            }
            // What the batch in hand had come to is not known: the job goes on where it was noted.
            Err(Stop::Lost) => return NextStep::Waits,
            Err(Stop::Hopeless(why)) => {
                tracing::error!(redrive = %id, why, "a redrive can't go on; resume it when that is mended");
                return self.note_problem(why, JobStatus::Failed).await;
            }
            Err(stop @ Stop::Waits(_)) => {
                return match self.note_problem(stop.to_string(), JobStatus::Running).await {
                    NextStep::Failed => NextStep::Waits,
                    then => then,
                };
            }
            Err(Stop::Failed(error)) => {
                tracing::warn!(redrive = %id, error = %chain(&error), "a redrive was interrupted and goes on");
                let problem = format!("{} failed; it is tried again", error.call);
                return self.note_problem(problem, JobStatus::Running).await;
            }
        };
        self.job.lease.as_mut().expect("it is held").until = Timestamp::default();
        if let Err(error) = self.note().await {
            tracing::warn!(redrive = %id, error = %chain(&error), "a lease was not given back");
        }
        then
    }

    /// Writes a problem into the job as it is stored, and what follows from it, and gives the lease back
    /// there. Where that can't be written, the message stays and it is found again.
    async fn note_problem(&self, problem: String, status: JobStatus) -> NextStep {
        let own = self.job.lease.as_ref().map(|lease| &lease.holder);
        let stored = self.context.redrives.job(&self.job.subscription, self.job.id).await;
        if let Ok(Some(mut stored)) = stored
            && stored.lease.as_ref().map(|lease| &lease.holder) == own
        {
            (stored.problem, stored.lease) = (Some(problem), None);
            if stored.status == JobStatus::Running {
                stored.status = status;
            }
            let saved = self.context.redrives.save(&stored).await;
            if matches!(saved, Ok(Saved::Written)) && stored.status != JobStatus::Running {
                return NextStep::Done;
            }
        }
        NextStep::Failed
    }
}

/// The message of a delivery; events that are too large for it are stored before.
async fn outgoing(context: &Context, delivery: &Delivery) -> Result<Outgoing, PortError> {
    let group = delivery.subscription.to_string();
    let body = delivery.encode();
    if body.len() + HEADROOM_BYTES <= context.queue_message_bytes_max {
        return Ok(Outgoing { body, group, delay_s: 0 });
    }
    let object = claim::encode(delivery.events());
    context.payloads.put(&claim::key(delivery.id), object).await?;
    let body = delivery.clone().into_claimed().encode();
    Ok(Outgoing { body, group, delay_s: 0 })
}

#[cfg(test)]
mod tests;

//! redrive: runs redrive jobs, which make deliveries of dead letters.
//!
//! Only the lease holder runs a job. It sends a batch, then writes the job's position on condition
//! that nobody else has: a crash repeats at most one batch, with the same ids. The job's message is
//! hidden and not sent again, because Lambda stops recursive loops.

use std::{collections::BTreeSet, ops::RangeInclusive, sync::Arc, time::Duration};

use gridpost_core::{
    delivery::{
        Delivery, claim, parking,
        queue::{POISON_RECEIVES, Queue},
        redrive::{Job, JobPhase, JobStatus, Lease, RedriveMessage, Verdict},
    },
    error::chain,
    journal::{Count, Counted, Owner},
    metric,
    publish::pack::HEADROOM_BYTES,
    time::Timestamp,
    topic::Revision,
};
use gridpost_ports::{
    BucketError, Clock, Configuration, DeadLetters, Journal, Meter, Outgoing, Payloads, PortError,
    QueueReceiver, QueueSender, Record, Redrives, Result, Saved,
    dead_letter_walk::{Item, Source, Walk},
};
use tokio::time::sleep;
use uuid::Uuid;

/// How long a batch takes at most, including the retry: none begins that could not be finished.
const BATCH_WAIT: Duration = Duration::from_secs(10);

const LEASE_SLACK: Duration = Duration::from_secs(2);

/// How often the position of a job is written, so that its progress can be watched.
const NOTED_EVERY: Duration = Duration::from_secs(2);

/// Bounds of how many seconds a job waits if it could do nothing: one for each receive of its
/// message, which is not replaced because Lambda stops a loop at the sixteenth. A job that made
/// progress waits the least.
const FAILED_WAIT_S: RangeInclusive<u32> = 10..=300;

/// After so many receives a message is replaced, before SQS takes it for poison.
const RECEIVES_MAX: u32 = 900;
const _: () = assert!(RECEIVES_MAX < POISON_RECEIVES);

/// How long a message that this version can't read is hidden: a newer one may run again soon.
const UNREADABLE_WAIT_S: u32 = 60;

const TRIES_MAX: u32 = 5;

/// The ports of redrive.
pub struct Context {
    pub clock: Arc<dyn Clock>,
    pub sender: Arc<dyn QueueSender>,
    pub receiver: Arc<dyn QueueReceiver>,
    pub letters: Arc<dyn DeadLetters>,
    pub redrives: Arc<dyn Redrives>,
    pub configuration: Arc<dyn Configuration>,
    /// Stores events that are too large for a message.
    pub payloads: Arc<dyn Payloads>,
    pub meter: Arc<dyn Meter>,
    pub journal: Arc<dyn Journal>,
    pub queue_message_bytes_max: usize,
}

/// The reason why a job does not go on here.
#[derive(Debug, thiserror::Error)]
enum Stop {
    /// A call failed: try again soon.
    #[error(transparent)]
    Failed(#[from] PortError),
    /// The bucket or the event subscription was deleted: an operator must act.
    #[error("{0}")]
    Hopeless(String),
    /// An earlier job of the event subscription still runs.
    #[error("it waits for the redrive {0}")]
    Waits(Uuid),
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    Done,
    /// Seconds to wait.
    GoOn(u32),
    /// Another job or worker has its turn: ask again.
    Waits,
    /// Nothing could be done: try again.
    Failed,
}

fn failed_wait_s(receive_count: u32) -> u32 {
    receive_count.clamp(*FAILED_WAIT_S.start(), *FAILED_WAIT_S.end())
}

/// Runs the jobs of these records until the deadline. Returns the ids of the messages that SQS keeps.
///
/// It keeps unreadable messages: a newer version may have sent them and return after a rollback.
/// After too many receives, SQS moves them to the poison queue.
pub async fn work(context: &Context, records: Vec<Record>, deadline: Timestamp) -> Vec<String> {
    let mut kept = Vec::new();
    for record in records {
        let then = match RedriveMessage::decode(&record.body) {
            // Before the work, which may kill the function each time.
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

/// Replaces a message that was received too often. Returns whether it did.
async fn replaced(context: &Context, record: &Record) -> bool {
    if record.receive_count < RECEIVES_MAX {
        return false;
    }
    let (body, group) = (record.body.clone(), "redrive".to_owned());
    let sent = context.sender.send(Queue::Redrive, vec![Outgoing::new(body, group, 0)]).await;
    sent.into_iter().all(|sent| sent.is_ok())
}

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

/// Leases the job, or returns what follows without the lease.
async fn take(
    context: &Context,
    tick: &RedriveMessage,
    holder: String,
    deadline: Timestamp,
) -> Result<Result<Job, NextStep>> {
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
        // With a fast clock the wait may exceed the longest message delay.
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

struct Worker<'w> {
    context: &'w Context,
    job: Job,
    deadline: Timestamp,
    noted_at: Timestamp,
    /// Whether S3 refused to return the previous object.
    is_behind_sealed: bool,
    /// The target topic's revision, read before its event subscription.
    revision: Revision,
}

impl Worker<'_> {
    async fn run(&mut self) -> Result<(), Stop> {
        self.check_target().await?;
        let jobs = self.context.redrives.jobs(&self.job.subscription).await?;
        // Two jobs at once would send the same dead letters.
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

    /// Stops the job if its target event subscription was deleted: dispatch would drop the events.
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

    /// Walks the dead letters from the job's position. Returns whether it reached the end. It checks
    /// the time after each read, even of letters that are not the job's, and writes the position
    /// before it stops: otherwise a slow run or a crowded folder could repeat forever.
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
                        // Otherwise the job advances only if all calls of a batch succeed.
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

    /// Counts a dead letter. Returns its delivery if one is to be sent now.
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

    /// Sends a batch, failed deliveries once more, and counts what was sent.
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
                    self.context.journal.count_sent(&[redriven(delivery)]);
                    false
                }
                Some(Err(error)) => {
                    failed = Some(error);
                    true
                }
                None => true,
            });
            if left.is_empty() {
                // Count before the position is written: after a crash behind that, nothing is
                // repeated and the counts would be missing.
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

    /// Writes the job's position. Takes over a status that an operator has written meanwhile.
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

    /// Returns the lease and writes why the job could not continue.
    async fn give_back(mut self, stopped: Result<(), Stop>) -> NextStep {
        let id = self.job.id;
        let then = match stopped {
            Ok(()) if self.job.status == JobStatus::Running => NextStep::GoOn(0),
            Ok(()) => {
                let Job { status, counts, .. } = &self.job;
                tracing::info!(redrive = %id, ?status, sent = counts.sent, "redrive ended");
                NextStep::Done
            }
            // The result of the current batch is unknown: the job continues from its stored position.
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

    /// Writes a problem and the status into the stored job, and returns the lease. If the write
    /// fails, the message stays and the problem is found again.
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

/// Encodes a delivery as a message. Stores events that are too large for it first.
async fn outgoing(context: &Context, delivery: &Delivery) -> Result<Outgoing> {
    let (group, counts) = (delivery.subscription.to_string(), vec![redriven(delivery)]);
    let body = delivery.encode();
    if body.len() + HEADROOM_BYTES <= context.queue_message_bytes_max {
        return Ok(Outgoing::new(body, group, 0).counting(counts));
    }
    let object = claim::encode(delivery.events());
    context.payloads.put(&claim::key(delivery.id), object).await?;
    let body = delivery.clone().into_claimed().encode();
    Ok(Outgoing::new(body, group, 0).counting(counts))
}

fn redriven(delivery: &Delivery) -> Count {
    Count {
        owner: Owner::Subscription(delivery.subscription.clone()),
        publish_time: delivery.publish_time,
        counted: Counted::Redriven,
        events: 1,
        once: Some(delivery.id),
    }
}

#[cfg(test)]
mod tests;

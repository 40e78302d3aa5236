//! Starts, shows, cancels and resumes redrive jobs. The redrive function runs them.

use std::time::Duration;

use gridpost_api::{
    document::read_whole,
    error::ErrorCode,
    redrive::{Redrive, RedriveList},
    requests::{RedriveInput, RedriveTarget, ResumeInput},
};
use gridpost_core::{
    delivery::{
        parking,
        queue::Queue,
        redrive::{Counts, Job, JobPhase, JobStatus, RedriveMessage},
    },
    subscription::SubscriptionKey,
    time::{Pace, Timestamp},
};
use gridpost_ports::{Outgoing, PortError, Saved};
use uuid::Uuid;

use super::{Answer, InContext, dead_letters, openapi::*, send_back, sent::Sent, subscriptions};
use crate::{Context, Reply, TRIES_MAX, page::Form};

/// The default of `eventsPerSecond`.
const EVENTS_PER_SECOND: u32 = 100;

/// The default of `maxRedrives`.
const MAX_REDRIVES: u32 = 3;

pub(super) const LIST: Form =
    Form { filters: &[], is_token: Some(|text| place_of(text).is_some()) };

/// Dead letters written less than this before a job began are left to the next one: S3's times are
/// whole seconds.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Begin a job that sends dead letters again
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/deadLetters:redrive",
    operation_id = "redriveDeadLetters",
    params(InSubscription),
    request_body = Option<RedriveInput>,
    responses(
        (status = 201, description = "The job, which runs on.", body = Redrive),
        Refused, Missing, Conflicts, NotDocument
    )
)]
pub(super) async fn start(context: InContext, sent: Sent) -> Answer {
    sent.check_query()?;
    let (context, key, input) = (&context, &sent.key()?, &sent.document()?);
    let source = dead_letters::source(context, key).await?;
    let (_, own) = subscriptions::existing(context, key).await?;
    let key = &own.key;
    let now = context.clock.now();
    let base = Job {
        id: context.dice.id(),
        subscription: key.clone(),
        bucket: source.bucket,
        folder: source.folder,
        wanted: Default::default(),
        to: key.clone(),
        to_uid: own.uid,
        schema: own.delivery_schema,
        source_schema: Some(source.schema),
        events_per_second: EVENTS_PER_SECOND,
        max_redrives: MAX_REDRIVES,
        send_again: false,
        dry_run: false,
        created_at: now,
        updated_at: now,
        status: JobStatus::Running,
        phase: JobPhase::Counting,
        next: None,
        counts: Counts::default(),
        unread: Vec::new(),
        total: None,
        problem: None,
        lease: None,
        revision: 0,
    };
    let input = RedriveInput::read(input, key)?;
    let mut job = asked(&input, base, context.clock.pace());
    if let Some(RedriveTarget { topic, event_subscription: Some(name) }) = input.target {
        let target = SubscriptionKey { topic: topic.unwrap_or_else(|| key.topic.clone()), name };
        sent.check_scope(Some(&target.topic))?;
        let (_, target) = subscriptions::existing(context, &target).await?;
        (job.to, job.to_uid, job.schema) = (target.key, target.uid, target.delivery_schema);
    }
    if !job.dry_run {
        let jobs = context.redrives.jobs(key).await?;
        if let Some(running) = in_the_way(&jobs, None) {
            // Its message may be missing: its request may have died before sending one.
            tick(context, running).await?;
            return Err(refusal(running));
        }
    }
    // A retried call whose answer was lost conflicts with itself: the id is this request's.
    if context.redrives.save(&job).await? == Saved::Conflict
        && context.redrives.job(key, job.id).await?.is_none()
    {
        return Err(PortError::new("writing a redrive", "it was refused, and is not there").into());
    }
    give_way(context, &job).await?;
    tick(context, &job).await?;
    tracing::info!(subscription = %key, redrive = %job.id, to = %job.to, "redrive begun");
    Ok(Reply::created(Redrive::from(&job)))
}

/// Returns the requested job. `base` has the defaults.
fn asked(input: &RedriveInput, base: Job, pace: Pace) -> Job {
    // The job's own events may become dead letters from now on.
    let unsettled = pace.to_clock(SETTLED_AFTER).as_millis();
    let settled = base.created_at.as_millis() - i64::try_from(unsettled).unwrap_or(i64::MAX);
    let settled = Timestamp::from_millis(settled);
    let mut wanted = input.filter();
    wanted.to = Some(wanted.to.map_or(settled, |to| to.min(settled)));
    Job {
        wanted,
        events_per_second: input.events_per_second.unwrap_or(base.events_per_second),
        max_redrives: input.max_redrives.unwrap_or(base.max_redrives),
        send_again: input.send_again.unwrap_or(false),
        dry_run: input.dry_run.unwrap_or(false),
        ..base
    }
}

/// Finds a running job other than `but`: two jobs at once would send the same dead letters.
fn in_the_way(jobs: &[Job], but: Option<Uuid>) -> Option<&Job> {
    jobs.iter().find(|job| job.status == JobStatus::Running && !job.dry_run && Some(job.id) != but)
}

fn refusal(running: &Job) -> Reply {
    let Job { id, subscription, .. } = running;
    let message = format!(
        "The redrive {id} of '{subscription}' is running already. Wait for it, or cancel it."
    );
    Reply::conflict("redrive", message)
}

/// Cancels a job that was just stored, if another one began at the same time. Both may be canceled and
/// refused; a new request then succeeds.
async fn give_way(context: &Context, job: &Job) -> Result<(), Reply> {
    if job.dry_run {
        return Ok(());
    }
    let key = &job.subscription;
    let jobs = context.redrives.jobs(key).await?;
    let Some(other) = in_the_way(&jobs, Some(job.id)) else { return Ok(()) };
    cancel(context, key, &job.id.to_string()).await?;
    Err(refusal(other))
}

/// Sends the job's message, delayed until all its dead letters are visible.
async fn tick(context: &Context, job: &Job) -> Result<(), PortError> {
    let (now, pace) = (context.clock.now(), context.clock.pace());
    let delay_s = parking::delay_s(job.begins_at(pace).since(now));
    let (body, group) = (RedriveMessage::of(job).encode(), job.subscription.to_string());
    send_back(context, Queue::Redrive, Outgoing::new(body, group, delay_s)).await
}

/// A page of the event subscription's redrive jobs, the newest first
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/redrives",
    operation_id = "listRedrives",
    params(InSubscription, Paging),
    responses((status = 200, description = "The page.", body = RedriveList), Refused, Missing)
)]
pub(super) async fn list(context: InContext, sent: Sent) -> Answer {
    let (context, key, page) = (&context, &sent.key()?, &sent.page_of(LIST)?);
    subscriptions::existing(context, key).await?;
    let mut jobs = context.redrives.jobs(key).await?;
    jobs.sort_by_key(|job| std::cmp::Reverse((job.created_at, job.id)));
    // The last job of a page may be deleted before the next one: its token still has its place.
    let after = page.after.as_deref().and_then(place_of);
    let rest = jobs.iter().filter(|job| after.is_none_or(|after| (job.created_at, job.id) < after));
    let rest: Vec<_> = rest.take(page.most() + 1).map(|job| (token_of(job), job)).collect();
    let found = rest.iter().map(|(token, job)| (token.as_str(), Redrive::from(*job))).collect();
    Ok(Reply::ok(page.write(&context.url_of(key, "redrives"), found)))
}

fn token_of(job: &Job) -> String {
    format!("{}.{}", job.created_at.as_millis(), job.id)
}

fn place_of(token: &str) -> Option<(Timestamp, Uuid)> {
    let (millis, id) = token.split_once('.')?;
    Some((Timestamp::from_millis(millis.parse().ok()?), id.parse().ok()?))
}

/// One redrive job and how far it has come
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/redrives/{id}",
    operation_id = "getRedrive",
    params(InSubscription, OfRedrive),
    responses((status = 200, description = "The job.", body = Redrive), Refused, Missing)
)]
pub(super) async fn get(context: InContext, sent: Sent) -> Answer {
    let (context, key, id) = (&context, &sent.key()?, &sent.id()?);
    Ok(Reply::ok(Redrive::from(&existing(context, key, id).await?)))
}

/// Stop a redrive job; the batch in flight is sent
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/redrives/{id}/cancel",
    operation_id = "cancelRedrive",
    params(InSubscription, OfRedrive),
    responses(
        (status = 200, body = Redrive,
            description = "The job. One that was not running stays as it is."),
        Refused, Missing, Conflicts
    )
)]
pub(super) async fn cancel_one(context: InContext, sent: Sent) -> Answer {
    cancel(&context, &sent.key()?, &sent.id()?).await
}

/// Cancels a job. Its current batch is still sent.
async fn cancel(context: &Context, key: &SubscriptionKey, id: &str) -> Answer {
    let canceled = change(context, key, id, |job| {
        if job.status == JobStatus::Running {
            job.status = JobStatus::Canceled;
        }
        Ok(())
    });
    Ok(Reply::ok(Redrive::from(&canceled.await?)))
}

/// Have a redrive job go on where it is
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/redrives/{id}/resume",
    operation_id = "resumeRedrive",
    params(InSubscription, OfRedrive),
    request_body = Option<ResumeInput>,
    responses(
        (status = 200, description = "The job, running.", body = Redrive),
        Refused, Missing, Conflicts, NotDocument
    )
)]
// Resumes a job from its position, at another pace if requested. Nothing else can change: the letters
// before count as sent by the job's settings.
pub(super) async fn resume(context: InContext, sent: Sent) -> Answer {
    sent.check_query()?;
    let (context, key, id, input) = (&context, &sent.key()?, &sent.id()?, &sent.document()?);
    let ResumeInput { events_per_second: pace } = read_whole(input)?;
    let jobs = context.redrives.jobs(key).await?;
    let resumed = change(context, key, id, |job| {
        if job.status == JobStatus::Completed {
            let message = format!("The redrive {} has come to its end. Begin another one.", job.id);
            return Err(Reply::conflict("status", message));
        }
        if let Some(running) = in_the_way(&jobs, Some(job.id)).filter(|_| !job.dry_run) {
            return Err(refusal(running));
        }
        (job.status, job.problem) = (JobStatus::Running, None);
        job.events_per_second = pace.unwrap_or(job.events_per_second);
        Ok(())
    });
    let job = resumed.await?;
    give_way(context, &job).await?;
    tick(context, &job).await?;
    Ok(Reply::ok(Redrive::from(&job)))
}

/// Changes a job, with retries if others write it meanwhile.
async fn change(
    context: &Context,
    key: &SubscriptionKey,
    id: &str,
    change: impl Fn(&mut Job) -> Result<(), Reply>,
) -> Result<Job, Reply> {
    for _ in 0..TRIES_MAX {
        let mut job = existing(context, key, id).await?;
        let before = job.clone();
        change(&mut job)?;
        if job == before {
            return Ok(job);
        }
        job.updated_at = context.clock.now();
        if context.redrives.save(&job).await? == Saved::Written {
            return Ok(job);
        }
        context.back_off().await;
    }
    let message = "The redrive kept being written by others. Try again.";
    Err(Reply::error(409, ErrorCode::Conflict, message))
}

async fn existing(context: &Context, key: &SubscriptionKey, id: &str) -> Result<Job, Reply> {
    let parsed = id.parse::<Uuid>().map_err(|_| Reply::no_id("a redrive", id))?;
    // A job with another target outlives its event subscription, and can be shown and canceled.
    if let Some(job) = context.redrives.job(key, parsed).await? {
        return Ok(job);
    }
    subscriptions::existing(context, key).await?;
    let message = format!("'{key}' has no redrive {parsed}.");
    Err(Reply::error(404, ErrorCode::ResourceNotFound, message))
}

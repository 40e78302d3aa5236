//! Redrive jobs of an event subscription: begun, shown, stopped, resumed. The redrive function
//! does the work.

use std::time::Duration;

use gridpost_api::{
    document::{Object, Problems, quoted, text},
    subscription as subscription_resource, topic as topic_resource,
};
use gridpost_core::{
    delivery::{
        parking,
        queue::Queue,
        redrive::{Counts, Job, Phase, RedriveMessage, Status},
    },
    subscription::SubscriptionKey,
    time::{Pace, Timestamp},
};
use gridpost_ports::{Outgoing, PortError, Saved};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Answer, dead_letters, send_back, subscriptions};
use crate::{
    Context, Reply, TRIES_MAX,
    page::{Form, Page},
};

/// Events in a second, by default.
const EVENTS_PER_SECOND: u32 = 100;

/// The most that one worker sends in a second, about.
const EVENTS_PER_SECOND_MAX: u32 = 1_000;

/// How often an event is sent again, by default.
const MAX_REDRIVES: u32 = 3;

/// The most that a job may allow.
const MAX_REDRIVES_MAX: u32 = 100;

/// What the query of the list may have.
pub(super) const LIST: Form =
    Form { filters: &[], is_token: Some(|text| place_of(text).is_some()) };

/// What was written so shortly before a job began is left to the next one: S3 tells times in whole
/// seconds.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// What a request that begins a job says.
struct Asked {
    job: Job,
    target: Option<SubscriptionKey>,
}

/// Begins a job.
pub(super) async fn start(context: &Context, key: &SubscriptionKey, input: &Value) -> Answer {
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
        status: Status::Running,
        phase: Phase::Counting,
        next: None,
        counts: Counts::default(),
        unread: Vec::new(),
        total: None,
        problem: None,
        lease: None,
        revision: 0,
    };
    let Asked { mut job, target } = read(input, base, context.clock.pace())?;
    if let Some(target) = target {
        let (_, target) = subscriptions::existing(context, &target).await?;
        (job.to, job.to_uid, job.schema) = (target.key, target.uid, target.delivery_schema);
    }
    if !job.dry_run {
        let jobs = context.redrives.jobs(key).await?;
        if let Some(running) = in_the_way(&jobs, None) {
            // Its message may be missing: who began it may have died before sending one.
            tick(context, running).await?;
            return Err(refusal(running));
        }
    }
    // A call that is repeated because its answer was lost meets itself: the id is this request's own.
    if context.redrives.save(&job).await? == Saved::Conflict
        && context.redrives.job(key, job.id).await?.is_none()
    {
        return Err(PortError::new("writing a redrive", "it was refused, and is not there").into());
    }
    give_way(context, &job).await?;
    tick(context, &job).await?;
    tracing::info!(subscription = %key, redrive = %job.id, to = %job.to, "redrive begun");
    Ok(Reply::created(document(&job)))
}

fn read(input: &Value, base: Job, pace: Pace) -> Result<Asked, Problems> {
    let mut problems = Problems::default();
    let read = Object::root(input, &mut problems).map(|mut root| {
        let mut wanted = dead_letters::wanted_of(&mut root, &mut problems);
        // What is written from now on may be what it sends itself.
        let unsettled = pace.to_clock(SETTLED_AFTER).as_millis();
        let settled = base.created_at.as_millis() - i64::try_from(unsettled).unwrap_or(i64::MAX);
        let settled = Timestamp::from_millis(settled);
        wanted.to = Some(wanted.to.map_or(settled, |to| to.min(settled)));
        let target = target(&mut root, &base.subscription, &mut problems);
        let pace = 1..=EVENTS_PER_SECOND_MAX;
        let often = 1..=MAX_REDRIVES_MAX;
        let job = Job {
            wanted,
            events_per_second: root.whole(
                "eventsPerSecond",
                pace,
                EVENTS_PER_SECOND,
                &mut problems,
            ),
            max_redrives: root.whole("maxRedrives", often, MAX_REDRIVES, &mut problems),
            send_again: root.flag("sendAgain", &mut problems),
            dry_run: root.flag("dryRun", &mut problems),
            ..base
        };
        root.finish(&mut problems);
        Asked { job, target }
    });
    problems.or(read)
}

/// `target`: another event subscription, of the same topic unless it names one.
fn target(
    root: &mut Object<'_>,
    own: &SubscriptionKey,
    problems: &mut Problems,
) -> Option<SubscriptionKey> {
    let mut target = root.object("target", problems)?;
    let topic = target.text("topic", problems).unwrap_or(&own.topic).to_owned();
    let what = "the name of an event subscription";
    let path = target.path_of("eventSubscription");
    let name = target.required("eventSubscription", what, problems);
    let name = name.and_then(|name| text(name, &path, problems));
    let named = name.map_or(Ok(()), subscription_resource::check_name);
    for (checked, member) in
        [(topic_resource::check_name(&topic), "topic"), (named, "eventSubscription")]
    {
        if let Err(problem) = checked {
            problems.add(problem.code, target.path_of(member), problem.rule);
        }
    }
    target.finish(problems);
    Some(SubscriptionKey { topic, name: name?.to_owned() })
}

/// A job beside which no other one may run: two at once would each send what the other one has not sent
/// yet.
fn in_the_way(jobs: &[Job], but: Option<Uuid>) -> Option<&Job> {
    jobs.iter().find(|job| job.status == Status::Running && !job.dry_run && Some(job.id) != but)
}

fn refusal(running: &Job) -> Reply {
    let Job { id, subscription, .. } = running;
    let message = format!(
        "The redrive {id} of '{subscription}' is running already. Wait for it, or cancel it."
    );
    Reply::conflict("redrive", message)
}

/// Ends a job that was just stored, where another one was begun at the same time: neither could see the
/// other before. Both may end so, and both are refused: one that is asked for again will run.
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

/// Has the job worked at, once all that it is to send can be seen.
async fn tick(context: &Context, job: &Job) -> Result<(), PortError> {
    let (now, pace) = (context.clock.now(), context.clock.pace());
    let delay_s = parking::delay_s(job.begins_at(pace).since(now));
    let (body, group) = (RedriveMessage::of(job).encode(), job.subscription.to_string());
    send_back(context, Queue::Redrive, Outgoing { body, group, delay_s }).await
}

pub(super) async fn list(context: &Context, key: &SubscriptionKey, page: &Page) -> Answer {
    subscriptions::existing(context, key).await?;
    let mut jobs = context.redrives.jobs(key).await?;
    jobs.sort_by_key(|job| std::cmp::Reverse((job.created_at, job.id)));
    // The job that a page ended with may be forgotten by the next one: its place is known all the same.
    let after = page.after.as_deref().and_then(place_of);
    let rest = jobs.iter().filter(|job| after.is_none_or(|after| (job.created_at, job.id) < after));
    let rest: Vec<_> = rest.take(page.most() + 1).map(|job| (token_of(job), job)).collect();
    let found = rest.iter().map(|(token, job)| (token.as_str(), document(job))).collect();
    let SubscriptionKey { topic, name } = key;
    let base = &context.settings.manage_url;
    let url = format!("{base}/topics/{topic}/eventSubscriptions/{name}/redrives");
    Ok(Reply::ok(page.write(&url, found)))
}

/// Where a job is in the list, for the token of a page.
fn token_of(job: &Job) -> String {
    format!("{}.{}", job.created_at.as_millis(), job.id)
}

fn place_of(token: &str) -> Option<(Timestamp, Uuid)> {
    let (millis, id) = token.split_once('.')?;
    Some((Timestamp::from_millis(millis.parse().ok()?), id.parse().ok()?))
}

pub(super) async fn get(context: &Context, key: &SubscriptionKey, id: &str) -> Answer {
    Ok(Reply::ok(document(&existing(context, key, id).await?)))
}

/// Stops a job. What it is sending at this moment is sent.
pub(super) async fn cancel(context: &Context, key: &SubscriptionKey, id: &str) -> Answer {
    let canceled = change(context, key, id, |job| {
        if job.status == Status::Running {
            job.status = Status::Canceled;
        }
        Ok(())
    });
    Ok(Reply::ok(document(&canceled.await?)))
}

/// Has a job go on where it is, at another pace if that is asked for. All else of it stays: what it has
/// passed counts as sent by what it was to send then.
pub(super) async fn resume(
    context: &Context,
    key: &SubscriptionKey,
    id: &str,
    input: &Value,
) -> Answer {
    let pace = pace(input)?;
    let jobs = context.redrives.jobs(key).await?;
    let resumed = change(context, key, id, |job| {
        if job.status == Status::Completed {
            let message = format!("The redrive {} has come to its end. Begin another one.", job.id);
            return Err(Reply::conflict("status", message));
        }
        if let Some(running) = in_the_way(&jobs, Some(job.id)).filter(|_| !job.dry_run) {
            return Err(refusal(running));
        }
        (job.status, job.problem) = (Status::Running, None);
        job.events_per_second = pace.unwrap_or(job.events_per_second);
        Ok(())
    });
    let job = resumed.await?;
    give_way(context, &job).await?;
    tick(context, &job).await?;
    Ok(Reply::ok(document(&job)))
}

/// The pace that a request to go on asks for.
fn pace(input: &Value) -> Result<Option<u32>, Problems> {
    let mut problems = Problems::default();
    let read = Object::root(input, &mut problems).map(|mut root| {
        let range = 1..=EVENTS_PER_SECOND_MAX;
        let given = root.whole("eventsPerSecond", range, 0, &mut problems);
        root.finish(&mut problems);
        (given > 0).then_some(given)
    });
    problems.or(read)
}

/// Changes a job, whoever else writes it meanwhile.
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
    Err(Reply::error(409, "Conflict", "The redrive kept being written by others. Try again."))
}

async fn existing(context: &Context, key: &SubscriptionKey, id: &str) -> Result<Job, Reply> {
    let parsed = id.parse::<Uuid>().map_err(|_| {
        let rule = "must be the id of a redrive, as a list gives it, but is";
        Reply::from_id(format!("{rule} {}", quoted(id)))
    })?;
    // A job to another event subscription outlives its own: it can be looked at, and stopped.
    if let Some(job) = context.redrives.job(key, parsed).await? {
        return Ok(job);
    }
    subscriptions::existing(context, key).await?;
    let message = format!("'{key}' has no redrive {parsed}.");
    Err(Reply::error(404, "ResourceNotFound", message))
}

fn document(job: &Job) -> Value {
    let Counts { sent, redriven_too_often, sent_before, other_schema, unreadable } = job.counts;
    let mut document = json!({
        "id": job.id,
        "topic": job.subscription.topic,
        "eventSubscription": job.subscription.name,
        "target": {"topic": job.to.topic, "eventSubscription": job.to.name},
        "status": format!("{:?}", job.status),
        "phase": format!("{:?}", job.phase),
        "dryRun": job.dry_run,
        "sendAgain": job.send_again,
        "eventsPerSecond": job.events_per_second,
        "maxRedrives": job.max_redrives,
        "createdTime": job.created_at.to_iso_8601(),
        "updatedTime": job.updated_at.to_iso_8601(),
        // While it counts, these are what it will send.
        "counted": if job.phase == Phase::Counting { sent } else { job.total.unwrap_or(sent) },
        "redriven": if job.phase == Phase::Sending { sent } else { 0 },
        "leftOut": {
            "redrivenTooOften": redriven_too_often,
            "sentBefore": sent_before,
            "otherSchema": other_schema,
            "unreadable": unreadable,
        },
    });
    let mut set = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            document[name] = json!(value);
        }
    };
    set("from", job.wanted.from.map(|at| at.to_iso_8601()));
    set("to", job.wanted.to.map(|at| at.to_iso_8601()));
    set("reason", job.wanted.reason.clone());
    set("eventType", job.wanted.event_type.clone());
    set("eventId", job.wanted.event_id.clone());
    set("problem", job.problem.clone());
    document
}

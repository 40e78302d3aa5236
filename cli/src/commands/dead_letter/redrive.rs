//! `gridpost dead-letter redrive`: begins jobs and follows them. The work is done on AWS, so whatever
//! becomes of this command, a job goes on.

use std::time::Duration;

use clap::Args;
use futures::future::join_all;
use gridpost_api::{
    redrive::{LeftOut, Redrive, RedriveGoal},
    requests::{RedriveInput, RedriveTarget, ResumeInput},
    schema::Time,
};
use gridpost_core::{
    delivery::redrive::{JobPhase, JobStatus},
    time::Timestamp,
};
use tokio::time::sleep;

use super::{Chosen, owners};
use crate::{
    commands::SubscriptionArgs,
    output::{self, Output, count},
};
use gridpost_ops::{
    failure::{Misuse, Refusal, chain},
    given::{TimeSpan, count_in},
    http_client::is_loopback,
    manage_api::{ManageApi, dead_letters::refusal_by_probation},
    progress::{Progress, Step},
};

const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Looks in a row that may fail: a connection may be gone for a while, and the job does not mind.
const FAILED_LOOKS_MAX: u32 = 30;

/// A job leaves to the next one what was written so shortly before it began.
const SETTLED_MS: i64 = 2_000;

/// Events in a second, by default.
const RATE: u32 = 100;

/// Which dead letters, where to, and how fast.
#[derive(Args, Debug)]
pub struct RedriveArguments {
    /// Topic whose dead letters to send again
    #[arg(long, value_name = "NAME")]
    topic: String,

    /// Event subscription of the topic [default: every one that stores dead letters]
    #[arg(long, visible_alias = "name", value_name = "NAME")]
    subscription: Option<String>,

    #[command(flatten)]
    pub(super) chosen: Chosen,

    /// Send them to this event subscription instead of their original one
    #[arg(long, value_name = "NAME", requires = "subscription")]
    to_subscription: Option<String>,

    /// Topic of that event subscription [default: the same topic]
    #[arg(long, value_name = "NAME", requires = "to_subscription")]
    to_topic: Option<String>,

    /// Maximum number of events per second, 1 to 1000 [default: 100; with --resume: the job's rate]
    #[arg(long, value_name = "COUNT", value_parser = count_in::<u32>(1..=1_000))]
    rate: Option<u32>,

    /// Skip events that were redriven this many times already, 1 to 100
    #[arg(long, value_name = "COUNT", default_value = "3", conflicts_with_all = ["resume", "follow"],
        value_parser = count_in::<u32>(1..=100))]
    max_redrives: u32,

    /// Also send dead letters that an earlier job sent
    #[arg(long)]
    again: bool,

    /// Count what would be sent, without sending it
    #[arg(long)]
    dry_run: bool,

    /// Redrive even while the endpoint is on a probation that dead-letters events at once
    #[arg(long)]
    on_probation: bool,

    /// Start the job and don't wait for it to end
    #[arg(long)]
    detach: bool,

    /// Continue this job, which was canceled or failed
    #[arg(long, value_name = "ID", requires = "subscription",
        conflicts_with_all = ["from", "to", "since", "reason", "event_type", "event_id", "to_subscription", "again", "dry_run"])]
    resume: Option<String>,

    /// Show the progress of this job, which is already running
    #[arg(long, value_name = "ID", requires = "subscription",
        conflicts_with_all = ["from", "to", "since", "reason", "event_type", "event_id", "to_subscription", "again", "dry_run", "detach", "resume", "rate"])]
    follow: Option<String>,
}

impl RedriveArguments {
    fn input(&self, now: Timestamp) -> RedriveInput {
        let choice = self.chosen.choice(now, None);
        let target = self.to_subscription.clone().map(|name| RedriveTarget {
            topic: self.to_topic.clone(),
            event_subscription: Some(name),
        });
        RedriveInput {
            from: choice.from,
            to: choice.to,
            reason: choice.reason,
            event_type: choice.event_type,
            event_id: choice.event_id,
            target,
            events_per_second: Some(self.rate.unwrap_or(RATE)),
            max_redrives: Some(self.max_redrives),
            send_again: Some(self.again),
            dry_run: Some(self.dry_run),
        }
    }

    /// Returns whose endpoint must not end events at once: `None` where nothing is sent, or a job is looked
    /// at that runs already.
    async fn watched(
        &self,
        api: &ManageApi,
        of: &SubscriptionArgs,
    ) -> anyhow::Result<Option<SubscriptionArgs>> {
        if self.dry_run || self.on_probation || self.follow.is_some() {
            return Ok(None);
        }
        let Some(id) = &self.resume else { return Ok(Some(self.target(of))) };
        let job = api.redrive_job(&of.topic, &of.subscription, id).await?;
        Ok((!job.dry_run).then(|| goal(&job)))
    }

    /// Returns where the dead letters of an event subscription go.
    fn target(&self, of: &SubscriptionArgs) -> SubscriptionArgs {
        let named = self.to_topic.clone().filter(|_| self.to_subscription.is_some());
        SubscriptionArgs {
            topic: named.unwrap_or_else(|| of.topic.clone()),
            subscription: self.to_subscription.clone().unwrap_or_else(|| of.subscription.clone()),
        }
    }
}

/// Also fails when a job failed or was canceled.
pub(super) async fn run(
    arguments: &RedriveArguments,
    api: &ManageApi,
    now: Timestamp,
    output: Output,
) -> anyhow::Result<()> {
    let progress = Progress::on_stderr();
    let whose = owners(api, Some(&arguments.topic), arguments.subscription.as_deref()).await?;
    if whose.is_empty() {
        let message = format!(
            "no event subscription of the topic {} has a dead-letter destination",
            arguments.topic
        );
        return Err(Misuse(message).into());
    }
    let mut all = Vec::new();
    for one in whose {
        let watched = arguments.watched(api, &one).await?;
        all.push((one, watched));
    }
    for target in all.iter().filter_map(|(_, watched)| watched.as_ref()) {
        if let Some(refused) = refused_by(api, target).await {
            return Err(Misuse(refused).into());
        }
    }
    let (begun, refused) = begin_all(arguments, api, all, now, &progress).await?;
    let jobs: Vec<_> = match arguments.detach {
        true => begun.into_iter().map(|begun| begun.job).collect(),
        false => {
            let all = begun.into_iter().map(|begun| follow(api, begun, &progress));
            join_all(all).await.into_iter().collect::<anyhow::Result<_>>()?
        }
    };
    if !jobs.is_empty() {
        output.tell_list(&jobs, |jobs| jobs.iter().map(summary).collect::<Vec<_>>().join("\n"));
    }
    check(&jobs, &refused)
}

/// Fails if jobs were not begun, or did not come to their end.
fn check(jobs: &[Redrive], refused: &[String]) -> anyhow::Result<()> {
    let open = |job: &&Redrive| matches!(job.status, JobStatus::Canceled | JobStatus::Failed);
    let left = jobs.iter().filter(open).count();
    let mut problems = Vec::new();
    if !refused.is_empty() {
        let all = jobs.len() + refused.len();
        problems.push(format!(
            "{} of {all} redrives were not begun:\n  {}",
            refused.len(),
            refused.join("\n  ")
        ));
    }
    if left > 0 {
        problems.push(format!("{left} of {} redrives did not come to their end", jobs.len()));
    }
    anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// A job that was begun.
#[derive(Clone)]
struct Begun {
    of: SubscriptionArgs,
    job: Redrive,
    /// The event subscription whose endpoint must not end events at once.
    watched: Option<SubscriptionArgs>,
}

/// Begins a job for each event subscription. Returns the jobs, and why others were not begun: one that is
/// refused is told at once, and keeps none of the others from theirs. A single one that is refused is the
/// command's own failure.
async fn begin_all(
    arguments: &RedriveArguments,
    api: &ManageApi,
    all: Vec<(SubscriptionArgs, Option<SubscriptionArgs>)>,
    now: Timestamp,
    progress: &Progress,
) -> anyhow::Result<(Vec<Begun>, Vec<String>)> {
    let is_one = all.len() == 1;
    let (mut begun, mut refused) = (Vec::new(), Vec::new());
    for (of, watched) in all {
        match begin(arguments, api, &of, now, progress).await {
            Ok(job) => begun.push(Begun { of, job, watched }),
            Err(error) if is_one => return Err(error),
            Err(error) => {
                let refusal = format!("{of}: {}", chain(&error));
                progress.line(&format!("! not begun: {refusal}"));
                refused.push(refusal);
            }
        }
    }
    Ok((begun, refused))
}

async fn begin(
    arguments: &RedriveArguments,
    api: &ManageApi,
    of: &SubscriptionArgs,
    now: Timestamp,
    progress: &Progress,
) -> anyhow::Result<Redrive> {
    let SubscriptionArgs { topic, subscription } = of;
    if let Some(id) = &arguments.resume {
        let pace = ResumeInput { events_per_second: arguments.rate };
        return api.resume_redrive(topic, subscription, id, &pace).await;
    }
    if let Some(id) = &arguments.follow {
        return api.redrive_job(topic, subscription, id).await;
    }
    let asked = arguments.input(now);
    match api.redrive(topic, subscription, &asked).await {
        Err(error) if error.downcast_ref::<Refusal>().is_some_and(|it| it.status == 409) => {
            let jobs = api.redrives(topic, subscription).await?;
            let runs = |job: &Redrive| job.status == JobStatus::Running && !job.dry_run;
            let Some(job) = jobs.into_iter().find(runs) else { return Err(error) };
            let id = job.id;
            let other = differences(&job, &asked, of, arguments.chosen.since);
            anyhow::ensure!(
                other.is_empty(),
                "the redrive {id} of {of} runs already, and is another one ({}). Wait for it, `gridpost \
                 dead-letter redrive --topic {topic} --subscription {subscription} --follow {id}`, or cancel it.",
                other.join(", ")
            );
            progress.line(&format!(
                "! {of}: the redrive {id} runs already, with the same settings: following it"
            ));
            Ok(job)
        }
        begun => begun,
    }
}

/// How long the request of a command may have been under way, and how far its clock may be from AWS's.
const UNDER_WAY_MS: i64 = 120_000;

/// Returns the names of the members in which a job differs from what was asked for. The end of its time is
/// its own beginning where none was asked for, and never later than that; what was asked for as a time until
/// now is the same if it is as long.
fn differences(
    job: &Redrive,
    asked: &RedriveInput,
    of: &SubscriptionArgs,
    since: Option<TimeSpan>,
) -> Vec<&'static str> {
    let created_ms = job.created_time.0.as_millis();
    let is_as_long = |since: TimeSpan| {
        job.from.is_some_and(|Time(from)| {
            let back_ms = created_ms - from.as_millis();
            (back_ms - since.0.as_millis() as i64).abs() <= UNDER_WAY_MS
        })
    };
    let is_same_from = since.map_or_else(|| job.from == asked.from, is_as_long);
    let own_end = Time(Timestamp::from_millis(created_ms - SETTLED_MS));
    let end = asked.to.map_or(own_end, |to| to.min(own_end));
    let target = asked.target.clone().unwrap_or_default();
    let target = RedriveGoal {
        topic: target.topic.unwrap_or_else(|| of.topic.clone()),
        event_subscription: target.event_subscription.unwrap_or_else(|| of.subscription.clone()),
    };
    let members = [
        ("reason", job.reason == asked.reason),
        ("eventType", job.event_type == asked.event_type),
        ("eventId", job.event_id == asked.event_id),
        ("eventsPerSecond", Some(job.events_per_second) == asked.events_per_second),
        ("maxRedrives", Some(job.max_redrives) == asked.max_redrives),
        ("sendAgain", Some(job.send_again) == asked.send_again),
        ("from", is_same_from),
        ("to", job.to == Some(end)),
        ("target", job.target == target),
    ];
    members.into_iter().filter(|(_, is_same)| !is_same).map(|(name, _)| name).collect()
}

/// Shows a job's progress until it is over. Cancels it where the endpoint that is watched begins to end
/// events at once: what has not been sent stays for `--resume`.
async fn follow(
    api: &ManageApi,
    Begun { of, mut job, watched }: Begun,
    progress: &Progress,
) -> anyhow::Result<Redrive> {
    let SubscriptionArgs { topic, subscription } = &of;
    let id = job.id.to_string();
    let step = progress.step(&format!(
        "redrive {id} of {of} runs {}, whatever becomes of this command",
        if is_loopback(api.base_url()) { "in the local stack" } else { "on AWS" }
    ));
    let (mut failed, mut has_total) = (0, false);
    while job.status == JobStatus::Running {
        show(&step, &job, &mut has_total);
        sleep(LOOK_AGAIN).await;
        match api.redrive_job(topic, subscription, &id).await {
            Ok(read) => (job, failed) = (read, 0),
            Err(error) if failed == FAILED_LOOKS_MAX => return Err(error),
            Err(_) => failed += 1,
        }
        let is_sending = job.status == JobStatus::Running && job.phase == JobPhase::Sending;
        let Some(target) = watched.as_ref().filter(|_| is_sending) else { continue };
        let Some(refused) = refused_by(api, target).await else { continue };
        match api.cancel_redrive(topic, subscription, &id).await {
            // One that has just ended stays as it is.
            Ok(canceled) => {
                if canceled.status == JobStatus::Canceled {
                    progress.line(&format!("! the redrive is canceled: {refused}"));
                }
                job = canceled;
            }
            Err(error) => {
                progress.line(&format!("! the redrive can't be canceled ({error}): {refused}"));
            }
        }
    }
    show(&step, &job, &mut has_total);
    let verb = match (job.status, job.dry_run) {
        (JobStatus::Completed, true) => "counted",
        (JobStatus::Completed, false) => "redriven",
        (_, _) => "stopped",
    };
    step.done(&format!("{of} {verb}"));
    Ok(job)
}

/// Says why nothing should be sent to an endpoint. A health that can't be read is no reason: a redrive may be
/// allowed where reading health is not.
async fn refused_by(
    api: &ManageApi,
    SubscriptionArgs { topic, subscription }: &SubscriptionArgs,
) -> Option<String> {
    let health = api.health(topic, subscription).await.ok()?;
    refusal_by_probation(topic, subscription, &health)
}

fn show(step: &Step, job: &Redrive, has_total: &mut bool) {
    if job.phase == JobPhase::Counting {
        step.detail(&format!("{} counted", count(job.counted, "event")));
        return;
    }
    if !std::mem::replace(has_total, true) {
        step.total(job.counted);
    }
    step.reach(job.redriven, job.problem.as_deref().unwrap_or_default());
}

fn goal(Redrive { target, .. }: &Redrive) -> SubscriptionArgs {
    let RedriveGoal { topic, event_subscription } = target.clone();
    SubscriptionArgs { topic, subscription: event_subscription }
}

pub(super) fn summary(job: &Redrive) -> String {
    let Redrive { id, topic, event_subscription: name, status, counted, redriven, .. } = job;
    let (events, target) = (count(*counted, "event"), goal(job));
    let mut text = match job.dry_run {
        true => format!("{status}: a redrive of {topic}/{name} would send {events} to {target}"),
        false => format!(
            "{status}: redrive {id} has sent {redriven} of {events} of {topic}/{name} to {target}"
        ),
    };
    let LeftOut { redriven_too_often, sent_before, other_schema, unreadable } = job.left_out;
    for (count, what) in [
        (redriven_too_often, "sent again too often before (--max-redrives)"),
        (sent_before, "sent by an earlier redrive (--again)"),
        (other_schema, "delivered in another schema than that event subscription's"),
        (unreadable, "that can't be read"),
    ] {
        if count > 0 {
            text.push_str(&format!("\n  left out: {count} {what}"));
        }
    }
    if *status == JobStatus::Completed && *counted == 0 {
        text.push_str(
            "\n  dead letters of its last two seconds are left to the next one: storage tells times in \
             whole seconds",
        );
    }
    if let Some(problem) = &job.problem {
        text.push_str(&format!("\n  {problem}"));
    }
    if matches!(status, JobStatus::Canceled | JobStatus::Failed) {
        text.push_str(&format!(
            "\n  to go on: gridpost dead-letter redrive --topic {topic} --subscription {name} --resume {id}"
        ));
    }
    text
}

pub(super) fn list(jobs: &[Redrive]) -> String {
    if jobs.is_empty() {
        return "no redrive".to_owned();
    }
    let head = ["ID", "BEGUN", "STATUS", "TO", "SENT", "OF"];
    let row = |job: &Redrive| {
        let status = match job.dry_run {
            true => format!("{} (dry run)", job.status),
            false => job.status.to_string(),
        };
        [
            job.id.to_string(),
            job.created_time.to_string(),
            status,
            goal(job).to_string(),
            job.redriven.to_string(),
            job.counted.to_string(),
        ]
    };
    output::table(head, jobs.iter().map(row))
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::{
        FakeApi,
        documents::{self, TIME},
    };
    use serde_json::{Value, json};

    use super::*;

    fn job(change: &Value) -> Redrive {
        serde_json::from_value(documents::redrive(change)).expect("whole")
    }

    fn of(name: &str) -> SubscriptionArgs {
        SubscriptionArgs { topic: "orders".to_owned(), subscription: name.to_owned() }
    }

    #[test]
    fn only_a_job_with_the_same_settings_is_followed() {
        let job = job(&json!({"reason": "R", "createdTime": "2026-01-01T00:00:02.000Z",
            "to": "2026-01-01T00:00:00.000Z"}));
        let asked = json!({"reason": "R", "eventsPerSecond": 100, "maxRedrives": 3,
            "sendAgain": false, "dryRun": false});
        let differs = |change: &Value| {
            let mut asked = asked.clone();
            gridpost_api::document::merge(&mut asked, change);
            let asked = serde_json::from_value(asked).expect("an input");
            differences(&job, &asked, &of("one"), None)
        };
        let table = [
            (json!({"reason": null}), "reason"),
            (json!({"eventType": "T"}), "eventType"),
            (json!({"from": "2026-01-01T00:00:00Z"}), "from"),
            (json!({"to": "2025-01-01T00:00:00Z"}), "to"),
            (json!({"eventsPerSecond": 7}), "eventsPerSecond"),
            (json!({"target": {"eventSubscription": "u"}}), "target"),
        ];
        for (change, want) in table {
            assert_eq!(differs(&change), [want], "{change}");
        }
        for same in [json!({}), json!({"to": "2027-01-01T00:00:00Z"})] {
            assert_eq!(differs(&same), [""; 0], "{same}");
        }
    }

    #[test]
    fn the_same_command_with_since_follows_its_job_later() {
        let change = json!({"createdTime": "2026-01-01T06:00:02.000Z",
            "to": "2026-01-01T06:00:00.000Z", "from": "2026-01-01T00:00:01.500Z"});
        let job = job(&change);
        // Repeated ten minutes later: what it asks for begins later, too.
        let asked = RedriveInput {
            from: Timestamp::parse_rfc_3339("2026-01-01T00:10:01.500Z").map(Time),
            events_per_second: Some(100),
            max_redrives: Some(3),
            send_again: Some(false),
            ..RedriveInput::default()
        };
        let differs = |job: &Redrive, minutes: Option<u32>| {
            differences(job, &asked, &of("one"), minutes.map(TimeSpan::minutes))
        };
        assert_eq!(differs(&job, Some(360)), [""; 0]);
        assert_eq!(differs(&job, Some(370)), ["from"]);
        assert_eq!(differs(&job, None), ["from"]);
        assert_eq!(differs(&Redrive { from: None, ..job }, Some(360)), ["from"]);
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: RedriveArguments,
    }

    #[tokio::test]
    async fn one_that_is_refused_keeps_none_of_the_others_from_theirs() {
        let path = |name: &str| format!("/topics/orders/eventSubscriptions/{name}");
        let begins = |name: &str| format!("POST {}/deadLetters:redrive ", path(name));
        let runs = |name: &str| format!("GET {}/redrives ", path(name));
        let begun = |name: &str| documents::redrive(&json!({ "eventSubscription": name }));
        let other = documents::redrive(&json!({"eventsPerSecond": 7}));
        let fake = FakeApi::answering(&[
            (begins("a").as_str(), 201, begun("a")),
            (begins("b").as_str(), 409, json!({})),
            (runs("b").as_str(), 200, documents::list(&[other])),
            (begins("c").as_str(), 201, begun("c")),
        ])
        .await;
        let api = ManageApi::connect(&fake.url()).await.expect("built");
        let words = ["redrive", "--topic", "orders"];
        let arguments = <Line as clap::Parser>::parse_from(words).arguments;
        let begin = async |names: &[&str]| {
            let all = names.iter().map(|name| (of(name), None)).collect();
            let now = Timestamp::from_millis(0);
            begin_all(&arguments, &api, all, now, &Progress::silent()).await
        };
        let (begun, refused) = begin(&["a", "b", "c"]).await.expect("the others");
        let names: Vec<_> = begun.iter().map(|one| one.of.subscription.as_str()).collect();
        assert_eq!(names, ["a", "c"]);
        let jobs: Vec<_> = begun.into_iter().map(|one| one.job).collect();
        let names: Vec<_> = jobs.iter().map(|job| job.event_subscription.as_str()).collect();
        assert_eq!(names, ["a", "c"]);
        let told = check(&jobs, &refused).expect_err("not all").to_string();
        assert!(told.contains("1 of 3 redrives were not begun"), "{told}");
        assert!(told.contains("orders/b: the redrive 00000000-"), "{told}");
        assert!(told.contains("of orders/b runs already"), "{told}");
        assert!(begin(&["b"]).await.is_err(), "a single one is the command's own");
    }

    /// The API answers the first look at each job only while all four are asked for: looks that come one
    /// after the other are never answered.
    #[tokio::test]
    async fn all_jobs_are_watched_at_the_same_time() {
        let running = documents::redrive(&json!({}));
        let path = "/topics/orders/eventSubscriptions/one";
        let look = format!("GET {path}/redrives/");
        let ends = documents::health(&json!({"newEvents": "Ends"}));
        let canceled = documents::redrive(&json!({"status": "Canceled"}));
        let id = running["id"].as_str().unwrap_or_default();
        let rows = [
            (look.as_str(), 200, running.clone()),
            (&format!("GET {path}/health"), 200, ends),
            (&format!("POST {path}/redrives/{id}/cancel"), 200, canceled),
        ];
        let fake = FakeApi::together((&look, 4), &rows).await;
        let api = ManageApi::connect(&fake.url()).await.expect("built");
        let begun = Begun { of: of("one"), job: job(&json!({})), watched: Some(of("one")) };
        let progress = Progress::silent();
        let all = vec![begun; 4].into_iter().map(|begun| follow(&api, begun, &progress));
        let patience = Duration::from_secs(120);
        let ended = tokio::time::timeout(patience, join_all(all)).await;
        let ended = ended.expect("looks at the same time");
        assert!(
            ended.iter().flatten().filter(|job| job.status == JobStatus::Canceled).count() == 4
        );
    }

    #[test]
    fn a_summary_says_what_was_left_out_and_what_to_do() {
        let job = |status: &str, dry_run: bool| {
            job(&json!({"status": status, "dryRun": dry_run, "counted": 9, "redriven": 4,
                "target": {"eventSubscription": "u"}, "leftOut": {"sentBefore": 2}, "problem": "p"}))
        };
        let canceled = job("Canceled", false);
        let id = canceled.id;
        let text = summary(&canceled);
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                &format!("Canceled: redrive {id} has sent 4 of 9 events of orders/one to orders/u"),
                "  left out: 2 sent by an earlier redrive (--again)",
                "  p",
                &format!(
                    "  to go on: gridpost dead-letter redrive --topic orders --subscription one --resume {id}"
                ),
            ]
        );
        let dry = summary(&job("Completed", true));
        let want = "Completed: a redrive of orders/one would send 9 events to orders/u";
        assert!(dry.starts_with(want), "{dry}");
        let listed = list(&[job("Completed", true)]);
        assert!(listed.contains("Completed (dry run)") && listed.contains(&TIME[..19]), "{listed}");
        let empty = summary(&Redrive { counted: 0, ..job("Completed", false) });
        assert!(empty.contains("last two seconds"), "{empty}");
    }
}

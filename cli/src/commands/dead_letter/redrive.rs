//! `gridpost dead-letter redrive`: begins jobs and follows them. The work is done on AWS, so whatever
//! becomes of this command, a job goes on.

use std::time::Duration;

use clap::Args;
use futures::future::join_all;
use gridpost_core::time::Timestamp;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Chosen, owners};
use crate::{
    commands::SubscriptionArgs,
    output::{self, Output, count, text_at},
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
    fn document(&self, now: Timestamp) -> Value {
        let mut document = self.chosen.choice(now).document();
        document["eventsPerSecond"] = json!(self.rate.unwrap_or(RATE));
        document["maxRedrives"] = json!(self.max_redrives);
        document["sendAgain"] = json!(self.again);
        document["dryRun"] = json!(self.dry_run);
        if let Some(name) = &self.to_subscription {
            document["target"] = json!({"eventSubscription": name, "topic": self.to_topic});
        }
        document
    }

    /// Whose endpoint must not end events at once: none where nothing is sent, or a job is looked at that
    /// runs already.
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
        let at = |pointer| text_at(&job, pointer).to_owned();
        let target = || SubscriptionArgs {
            topic: at("/target/topic"),
            subscription: at("/target/eventSubscription"),
        };
        Ok((job["dryRun"] != true).then(target))
    }

    /// Where the dead letters of an event subscription go to.
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
    let mut watched = Vec::new();
    for one in &whose {
        watched.push(arguments.watched(api, one).await?);
    }
    for target in watched.iter().flatten() {
        // What can't be read is no reason: a redrive may be allowed where reading health is not.
        let health = api.health(&target.topic, &target.subscription).await.unwrap_or_default();
        if let Some(refused) = refusal_by_probation(&target.topic, &target.subscription, &health) {
            return Err(Misuse(refused).into());
        }
    }
    let Begun { whose, mut jobs, watched, refused } =
        begin_all(arguments, api, whose.into_iter().zip(watched), now, &progress).await?;
    if !arguments.detach {
        jobs = follow_all(api, &whose, &jobs, &watched, &progress).await?;
    }
    if !jobs.is_empty() {
        output.tell(&json!({ "value": jobs }), |_| {
            jobs.iter().map(summary).collect::<Vec<_>>().join("\n")
        });
    }
    ended(&jobs, &refused)
}

/// What became of the command: which jobs were not begun, and how many did not come to their end.
fn ended(jobs: &[Value], refused: &[String]) -> anyhow::Result<()> {
    let open = |job: &&Value| !matches!(text_at(job, "/status"), "Completed" | "Running");
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

/// The jobs that were begun, each with whose it is and what is watched, and why others were not.
#[derive(Default)]
struct Begun {
    whose: Vec<SubscriptionArgs>,
    jobs: Vec<Value>,
    watched: Vec<Option<SubscriptionArgs>>,
    refused: Vec<String>,
}

/// Begins a job for each event subscription: one that is refused is told at once, and keeps none of
/// the others from theirs. A single one that is refused is the command's own failure.
async fn begin_all(
    arguments: &RedriveArguments,
    api: &ManageApi,
    all: impl ExactSizeIterator<Item = (SubscriptionArgs, Option<SubscriptionArgs>)>,
    now: Timestamp,
    progress: &Progress,
) -> anyhow::Result<Begun> {
    let is_one = all.len() == 1;
    let mut begun = Begun::default();
    for (one, watched) in all {
        match begin(arguments, api, &one, now, progress).await {
            Ok(job) => {
                begun.whose.push(one);
                begun.jobs.push(job);
                begun.watched.push(watched);
            }
            Err(error) if is_one => return Err(error),
            Err(error) => {
                let refused = format!("{}/{}: {}", one.topic, one.subscription, chain(&error));
                progress.line(&format!("! not begun: {refused}"));
                begun.refused.push(refused);
            }
        }
    }
    Ok(begun)
}

async fn begin(
    arguments: &RedriveArguments,
    api: &ManageApi,
    of: &SubscriptionArgs,
    now: Timestamp,
    progress: &Progress,
) -> anyhow::Result<Value> {
    let SubscriptionArgs { topic, subscription } = of;
    if let Some(id) = &arguments.resume {
        let pace = arguments.rate.map(|rate| json!({"eventsPerSecond": rate}));
        return api.change_redrive(topic, subscription, id, "resume", pace.as_ref()).await;
    }
    if let Some(id) = &arguments.follow {
        return api.redrive_job(topic, subscription, id).await;
    }
    let asked = arguments.document(now);
    match api.redrive(topic, subscription, &asked).await {
        Err(error) if error.downcast_ref::<Refusal>().is_some_and(|it| it.status == 409) => {
            let jobs = api.redrives(topic, subscription).await?;
            let runs = |job: &Value| job["status"] == "Running" && job["dryRun"] == false;
            let Some(job) = jobs.into_iter().find(runs) else { return Err(error) };
            let id = text_at(&job, "/id");
            let other = differences(&job, &asked, of, arguments.chosen.since);
            anyhow::ensure!(
                other.is_empty(),
                "the redrive {id} of {topic}/{subscription} runs already, and is another one ({}). Wait for \
                 it, `gridpost dead-letter redrive --topic {topic} --subscription {subscription} --follow \
                 {id}`, or cancel it.",
                other.join(", ")
            );
            progress.line(&format!(
                "! {topic}/{subscription}: the redrive {id} runs already, with the same settings: following it"
            ));
            Ok(job)
        }
        begun => begun,
    }
}

/// How long the request of a command may have been under way, and how far its clock may be from AWS's.
const UNDER_WAY_MS: i64 = 120_000;

/// In what a job differs from what was asked for, by the members' names. The end of its time is its own
/// beginning where none was asked for, and never later than that; what was asked for as a time until now
/// is the same if it is as long.
fn differences(
    job: &Value,
    asked: &Value,
    of: &SubscriptionArgs,
    since: Option<TimeSpan>,
) -> Vec<&'static str> {
    let texts = ["reason", "eventType", "eventId"];
    let values = ["eventsPerSecond", "maxRedrives", "sendAgain"];
    let time =
        |document: &Value, name: &str| document[name].as_str().and_then(Timestamp::parse_rfc_3339);
    let other = |name: &&'static str| job[*name] != asked[*name];
    let mut found: Vec<_> = texts.into_iter().chain(values).filter(other).collect();
    let created = time(job, "createdTime");
    let is_as_long = |since: TimeSpan| {
        let (Some(from), Some(created)) = (time(job, "from"), created) else { return false };
        let back_ms = created.as_millis() - from.as_millis();
        (back_ms - since.0.as_millis() as i64).abs() <= UNDER_WAY_MS
    };
    let is_same = since.map_or_else(|| time(job, "from") == time(asked, "from"), is_as_long);
    if !is_same {
        found.push("from");
    }
    let own_end = created.map(|at| Timestamp::from_millis(at.as_millis() - SETTLED_MS));
    let end = time(asked, "to").map_or(own_end, |to| own_end.map(|own| own.min(to)));
    if time(job, "to") != end {
        found.push("to");
    }
    let name = asked["target"]["eventSubscription"].as_str().unwrap_or(&of.subscription);
    let topic = asked["target"]["topic"].as_str().unwrap_or(&of.topic);
    if (text_at(job, "/target/topic"), text_at(job, "/target/eventSubscription")) != (topic, name) {
        found.push("target");
    }
    found
}

/// Shows the progress of all jobs until they are over. All at the same time: each endpoint that is
/// watched may begin to end events at any.
async fn follow_all(
    api: &ManageApi,
    whose: &[SubscriptionArgs],
    jobs: &[Value],
    watched: &[Option<SubscriptionArgs>],
    progress: &Progress,
) -> anyhow::Result<Vec<Value>> {
    let all = jobs.iter().zip(whose).zip(watched);
    let all = all.map(|((job, one), watched)| follow(api, one, job, watched.as_ref(), progress));
    join_all(all).await.into_iter().collect()
}

/// Shows a job's progress until it is over. Cancels it where the endpoint that is watched begins to end
/// events at once: what has not been sent stays for `--resume`.
async fn follow(
    api: &ManageApi,
    of: &SubscriptionArgs,
    job: &Value,
    watched: Option<&SubscriptionArgs>,
    progress: &Progress,
) -> anyhow::Result<Value> {
    let SubscriptionArgs { topic, subscription } = of;
    let id = text_at(job, "/id");
    let step = progress.step(&format!(
        "redrive {id} of {topic}/{subscription} runs {}, whatever becomes of this command",
        if is_loopback(api.base_url()) { "in the local stack" } else { "on AWS" }
    ));
    let (mut job, mut failed, mut has_total) = (job.clone(), 0, false);
    while job["status"] == "Running" {
        show(&step, &job, &mut has_total);
        sleep(LOOK_AGAIN).await;
        match api.redrive_job(topic, subscription, id).await {
            Ok(read) => (job, failed) = (read, 0),
            Err(error) if failed == FAILED_LOOKS_MAX => return Err(error),
            Err(_) => failed += 1,
        }
        if let Some(refused) = refused_by(api, watched, &job).await {
            match api.change_redrive(topic, subscription, id, "cancel", None).await {
                // One that has just ended stays as it is.
                Ok(canceled) => {
                    if canceled["status"] == "Canceled" {
                        progress.line(&format!("! the redrive is canceled: {refused}"));
                    }
                    job = canceled;
                }
                Err(error) => {
                    progress.line(&format!("! the redrive can't be canceled ({error}): {refused}"));
                }
            }
        }
    }
    show(&step, &job, &mut has_total);
    let verb = match (text_at(&job, "/status"), job["dryRun"] == true) {
        ("Completed", true) => "counted",
        ("Completed", false) => "redriven",
        (_, _) => "stopped",
    };
    step.done(&format!("{topic}/{subscription} {verb}"));
    Ok(job)
}

/// Why no more is to be sent, while a job runs. A look that fails is no reason.
async fn refused_by(
    api: &ManageApi,
    watched: Option<&SubscriptionArgs>,
    job: &Value,
) -> Option<String> {
    let target = watched.filter(|_| job["status"] == "Running" && job["phase"] != "Counting")?;
    let health = api.health(&target.topic, &target.subscription).await.ok()?;
    refusal_by_probation(&target.topic, &target.subscription, &health)
}

fn show(step: &Step, job: &Value, has_total: &mut bool) {
    let counted = job["counted"].as_u64().unwrap_or(0);
    if job["phase"] == "Counting" {
        step.detail(&format!("{} counted", count(counted, "event")));
        return;
    }
    if !std::mem::replace(has_total, true) {
        step.total(counted);
    }
    let problem = job["problem"].as_str().unwrap_or_default();
    step.reach(job["redriven"].as_u64().unwrap_or(0), problem);
}

pub(super) fn summary(job: &Value) -> String {
    let number = |pointer: &str| job.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let whose = format!("{}/{}", text_at(job, "/topic"), text_at(job, "/eventSubscription"));
    let target =
        format!("{}/{}", text_at(job, "/target/topic"), text_at(job, "/target/eventSubscription"));
    let (id, status, counted) = (text_at(job, "/id"), text_at(job, "/status"), number("/counted"));
    let events = count(counted, "event");
    let mut text = match job["dryRun"] == true {
        true => format!("{status}: a redrive of {whose} would send {events} to {target}"),
        false => {
            let sent = number("/redriven");
            format!("{status}: redrive {id} has sent {sent} of {events} of {whose} to {target}")
        }
    };
    for (member, what) in [
        ("redrivenTooOften", "sent again too often before (--max-redrives)"),
        ("sentBefore", "sent by an earlier redrive (--again)"),
        ("otherSchema", "delivered in another schema than that event subscription's"),
        ("unreadable", "that can't be read"),
    ] {
        let count = number(&format!("/leftOut/{member}"));
        if count > 0 {
            text.push_str(&format!("\n  left out: {count} {what}"));
        }
    }
    if status == "Completed" && counted == 0 {
        text.push_str(
            "\n  dead letters of its last two seconds are left to the next one: storage tells times in \
             whole seconds",
        );
    }
    if let Some(problem) = job["problem"].as_str() {
        text.push_str(&format!("\n  {problem}"));
    }
    if matches!(status, "Canceled" | "Failed") {
        text.push_str(&format!(
            "\n  to go on: gridpost dead-letter redrive --topic {} --subscription {} --resume {id}",
            text_at(job, "/topic"),
            text_at(job, "/eventSubscription")
        ));
    }
    text
}

pub(super) fn list(jobs: &[Value]) -> String {
    if jobs.is_empty() {
        return "no redrive".to_owned();
    }
    let head = ["ID", "BEGUN", "STATUS", "TO", "SENT", "OF"];
    let row = |job: &Value| {
        let at = |pointer| text_at(job, pointer).to_owned();
        let to = format!("{}/{}", at("/target/topic"), at("/target/eventSubscription"));
        let status = match job["dryRun"] == true {
            true => format!("{} (dry run)", at("/status")),
            false => at("/status"),
        };
        let [sent, counted] = ["redriven", "counted"].map(|name| job[name].to_string());
        [at("/id"), at("/createdTime"), status, to, sent, counted]
    };
    output::table(head, jobs.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridpost_ops::testkit::FakeApi;

    #[test]
    fn only_a_job_with_the_same_settings_is_followed() {
        let of = SubscriptionArgs { topic: "t".to_owned(), subscription: "s".to_owned() };
        let job = json!({"target": {"topic": "t", "eventSubscription": "s"}, "sendAgain": false,
            "eventsPerSecond": 100, "maxRedrives": 3, "reason": "R",
            "createdTime": "2026-01-01T00:00:02.000Z", "to": "2026-01-01T00:00:00.000Z"});
        let asked = json!({"reason": "R", "eventsPerSecond": 100, "maxRedrives": 3,
            "sendAgain": false, "dryRun": false});
        assert!(differences(&job, &asked, &of, None).is_empty());
        let table = [
            (json!({"reason": null}), "reason"),
            (json!({"eventType": "T"}), "eventType"),
            (json!({"from": "2026-01-01T00:00:00Z"}), "from"),
            (json!({"to": "2025-01-01T00:00:00Z"}), "to"),
            (json!({"eventsPerSecond": 7}), "eventsPerSecond"),
            (json!({"target": {"eventSubscription": "u", "topic": null}}), "target"),
        ];
        for (change, want) in table {
            let mut other = asked.clone();
            for (name, value) in change.as_object().expect("members") {
                other[name] = value.clone();
            }
            assert_eq!(differences(&job, &other, &of, None), [want], "{change}");
        }
        let same_end = json!({"reason": "R", "eventsPerSecond": 100, "maxRedrives": 3,
            "sendAgain": false, "to": "2027-01-01T00:00:00Z"});
        assert!(differences(&job, &same_end, &of, None).is_empty());
    }

    #[test]
    fn the_same_command_with_since_follows_its_job_later() {
        let of = SubscriptionArgs { topic: "t".to_owned(), subscription: "s".to_owned() };
        let job = json!({"target": {"topic": "t", "eventSubscription": "s"},
            "createdTime": "2026-01-01T06:00:02.000Z", "to": "2026-01-01T06:00:00.000Z",
            "from": "2026-01-01T00:00:01.500Z"});
        // Repeated ten minutes later: what it asks for begins later, too.
        let asked = json!({"from": "2026-01-01T00:10:01.500Z"});
        let since = |minutes| Some(TimeSpan::minutes(minutes));
        assert_eq!(differences(&job, &asked, &of, since(360)), [""; 0]);
        assert_eq!(differences(&job, &asked, &of, since(370)), ["from"]);
        assert_eq!(differences(&job, &asked, &of, None), ["from"]);
        let mut of_all = job.clone();
        of_all["from"] = Value::Null;
        assert_eq!(differences(&of_all, &asked, &of, since(360)), ["from"]);
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: RedriveArguments,
    }

    #[tokio::test]
    async fn one_that_is_refused_keeps_none_of_the_others_from_theirs() {
        let of = |name: &str| format!("/topics/t/eventSubscriptions/{name}");
        let begins = |name: &str| format!("POST {}/deadLetters:redrive ", of(name));
        let runs = |name: &str| format!("GET {}/redrives ", of(name));
        let job = |name: &str| json!({"id": format!("of-{name}"), "status": "Running"});
        let other = json!({"value": [{"id": "j", "status": "Running", "dryRun": false,
            "eventsPerSecond": 7}]});
        let api = FakeApi::answering(&[
            (begins("a").as_str(), 201, job("a")),
            (begins("b").as_str(), 409, json!({})),
            (runs("b").as_str(), 200, other),
            (begins("c").as_str(), 201, job("c")),
        ])
        .await;
        let api = ManageApi::connect(&api.url()).await.map(|it| (it, api)).expect("built");
        let arguments = <Line as clap::Parser>::parse_from(["redrive", "--topic", "t"]).arguments;
        let whose =
            |name: &str| SubscriptionArgs { topic: "t".to_owned(), subscription: name.to_owned() };
        let begin = async |names: &[&str]| {
            let all: Vec<_> = names.iter().map(|name| (whose(name), None)).collect();
            let now = Timestamp::from_millis(0);
            begin_all(&arguments, &api.0, all.into_iter(), now, &Progress::silent()).await
        };
        let begun = begin(&["a", "b", "c"]).await.expect("the others");
        let names: Vec<_> = begun.whose.iter().map(|one| one.subscription.as_str()).collect();
        assert_eq!((names, begun.jobs.as_slice()), (vec!["a", "c"], &[job("a"), job("c")][..]));
        let told = ended(&begun.jobs, &begun.refused).expect_err("not all").to_string();
        assert!(told.contains("1 of 3 redrives were not begun"), "{told}");
        assert!(
            told.contains("t/b: ") && told.contains("the redrive j of t/b runs already"),
            "{told}"
        );
        assert!(begin(&["b"]).await.is_err(), "a single one is the command's own");
    }

    /// The API answers the first look at each job only while all four are asked for: looks that come one
    /// after the other are never answered.
    #[tokio::test]
    async fn all_jobs_are_watched_at_the_same_time() {
        let running = json!({"id": "j", "status": "Running", "phase": "Sending"});
        let look = "GET /topics/t/eventSubscriptions/s/redrives/j";
        let rows = [
            (look, 200, running.clone()),
            ("GET /topics/t/eventSubscriptions/s/health", 200, json!({"newEvents": "Ends"})),
            (
                "POST /topics/t/eventSubscriptions/s/redrives/j/cancel",
                200,
                json!({"status": "Canceled"}),
            ),
        ];
        let fake = FakeApi::together((look, 4), &rows).await;
        let api = ManageApi::connect(&fake.url()).await.expect("built");
        let whose = || SubscriptionArgs { topic: "t".to_owned(), subscription: "s".to_owned() };
        let (all, jobs) = ([whose(), whose(), whose(), whose()], vec![running; 4]);
        let watched = [Some(whose()), Some(whose()), Some(whose()), Some(whose())];
        let progress = Progress::silent();
        let ended = follow_all(&api, &all, &jobs, &watched, &progress);
        let patience = Duration::from_secs(120);
        let ended = tokio::time::timeout(patience, ended).await.expect("looks at the same time");
        assert!(ended.expect("all").iter().all(|job| job["status"] == "Canceled"));
    }

    #[test]
    fn a_summary_says_what_was_left_out_and_what_to_do() {
        let job = |status: &str, dry_run: bool| {
            json!({"id": "j", "topic": "t", "eventSubscription": "s", "status": status,
                "target": {"topic": "t", "eventSubscription": "u"}, "dryRun": dry_run,
                "counted": 9, "redriven": 4, "leftOut": {"sentBefore": 2}, "problem": "p"})
        };
        let canceled = summary(&job("Canceled", false));
        let lines: Vec<_> = canceled.lines().collect();
        assert_eq!(
            lines,
            [
                "Canceled: redrive j has sent 4 of 9 events of t/s to t/u",
                "  left out: 2 sent by an earlier redrive (--again)",
                "  p",
                "  to go on: gridpost dead-letter redrive --topic t --subscription s --resume j",
            ]
        );
        let dry = summary(&job("Completed", true));
        assert!(dry.starts_with("Completed: a redrive of t/s would send 9 events to t/u"), "{dry}");
        assert!(list(&[job("Completed", true)]).contains("Completed (dry run)"));
        let mut empty = job("Completed", false);
        empty["counted"] = json!(0);
        assert!(summary(&empty).contains("last two seconds"), "{}", summary(&empty));
    }
}

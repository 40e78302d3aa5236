//! Redrive jobs: begun, listed, stopped, resumed.

use std::{collections::BTreeMap, sync::Arc};

use gridpost_core::{
    delivery::{
        queue::Queue,
        redrive::{Job, JobPhase, JobStatus, RedriveMessage},
    },
    time::Timestamp,
};
use serde_json::json;
use uuid::Uuid;

use super::{Fixture, NOW, body, code, dead_letters::filled, key, message, webhook};
use crate::Reply;

const S: &str = "/topics/demo/eventSubscriptions/s-1";

fn only_job(fixture: &Fixture) -> Job {
    let jobs = jobs(fixture);
    assert_eq!(jobs.len(), 1);
    jobs.into_values().next().expect("one")
}

fn jobs(fixture: &Fixture) -> BTreeMap<Uuid, Job> {
    fixture.letters.tables.with_redrives(|jobs| jobs.clone())
}

fn ticks(fixture: &Fixture) -> Vec<RedriveMessage> {
    let sent = fixture.sent();
    let tick = |(queue, message): &(Queue, gridpost_ports::Outgoing)| {
        assert_eq!((*queue, message.group.as_str()), (Queue::Redrive, "demo/s-1"));
        RedriveMessage::decode(&message.body).expect("a tick")
    };
    sent.iter().map(tick).collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_is_stored_before_anybody_works_at_it() {
    let fixture = filled().await;
    let asked = json!({"reason": "TimeToLiveExceeded", "eventsPerSecond": 7, "maxRedrives": 1});
    let reply = fixture.send(&format!("POST {S}/deadLetters:redrive"), asked).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let job = only_job(&fixture);
    assert_eq!((job.bucket.as_str(), job.folder.as_str()), ("letters", "dead/S-1"));
    assert_eq!(
        (job.wanted.to, job.wanted.reason.as_deref()),
        (Some(Timestamp::from_millis(NOW.as_millis() - 2_000)), Some("TimeToLiveExceeded"))
    );
    assert_eq!((job.events_per_second, job.max_redrives), (7, 1));
    assert_eq!(
        (job.to.clone(), Some(job.to_uid)),
        (key("demo", "s-1"), fixture.subscription_uid("s-1"))
    );
    assert_eq!(ticks(&fixture), [RedriveMessage::of(&job)]);
    let shown = body(&reply);
    assert_eq!((&shown["status"], &shown["phase"]), (&json!("Running"), &json!("Counting")));
    let read = fixture.call(&format!("GET {S}/redrives/{}", job.id)).await;
    assert_eq!(read.body, reply.body);
    let unknown = fixture.call(&format!("GET {S}/redrives/{}", Uuid::nil())).await;
    assert_eq!((unknown.status, code(&unknown)), (404, "ResourceNotFound"));
}

#[tokio::test(start_paused = true)]
async fn a_job_begins_when_all_that_it_is_to_send_can_be_seen() {
    for (dry_run, want) in [(false, 5), (true, 0)] {
        let fixture = filled().await;
        let redrive = format!("POST {S}/deadLetters:redrive");
        assert_eq!(fixture.send(&redrive, json!({"dryRun": dry_run})).await.status, 201);
        let delays: Vec<_> = fixture.sent().iter().map(|(_, sent)| sent.delay_s).collect();
        assert_eq!(delays, [want], "{dry_run}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_go_to_another_event_subscription_that_is_there() {
    let fixture = filled().await;
    let redrive = format!("POST {S}/deadLetters:redrive");
    let to = |topic: &str| json!({"target": {"topic": topic, "eventSubscription": "s-2"}});
    assert_eq!(fixture.send(&redrive, to("demo")).await.status, 404);
    let other = "PUT /topics/demo/eventSubscriptions/s-2";
    assert_eq!(fixture.send(other, webhook("https://e.example/two")).await.status, 201);
    assert_eq!(fixture.send(&redrive, json!({"target": {"topic": "demo"}})).await.status, 400);
    let same_topic = json!({"target": {"eventSubscription": "s-2"}});
    assert_eq!(fixture.send(&redrive, same_topic).await.status, 201);
    let job = only_job(&fixture);
    assert_eq!(
        (job.to.clone(), Some(job.to_uid)),
        (key("demo", "s-2"), fixture.subscription_uid("s-2"))
    );
    assert_eq!(job.subscription, key("demo", "s-1"));
}

/// Lists filter by their query: ignored here, a filter would send everything.
#[tokio::test(start_paused = true)]
async fn a_choice_in_the_query_is_refused() {
    let fixture = filled().await;
    let redrive = format!("POST {S}/deadLetters:redrive");
    for query in ["dryRun=true", "reason=TimeToLiveExceeded", "api-version=1&$top=1"] {
        let reply = fixture.call(&format!("{redrive}?{query}")).await;
        assert_eq!((reply.status, code(&reply)), (400, "InvalidRequest"), "{query}: {reply:?}");
    }
    assert!(jobs(&fixture).is_empty());
    assert_eq!(fixture.call(&format!("{redrive}?api-version=2025-02-15")).await.status, 201);
    let resume = format!("POST {S}/redrives/{}/resume?eventsPerSecond=5", only_job(&fixture).id);
    assert_eq!(fixture.call(&resume).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn two_jobs_do_not_run_at_once_and_dry_runs_do_not_matter() {
    let fixture = filled().await;
    let redrive = format!("POST {S}/deadLetters:redrive");
    assert_eq!(fixture.send(&redrive, json!({"dryRun": true})).await.status, 201);
    let first = fixture.send(&redrive, json!({})).await;
    assert_eq!(first.status, 201);
    let second = fixture.send(&redrive, json!({})).await;
    assert_eq!((second.status, code(&second)), (409, "Conflict"));
    let id = body(&first)["id"].as_str().expect("an id");
    assert!(message(&second).contains(id), "{second:?}");
    assert_eq!(fixture.send(&redrive, json!({"dryRun": true})).await.status, 201);
    let purge = fixture.send(&format!("POST {S}/deadLetters:purge"), json!({"all": true})).await;
    assert_eq!(purge.status, 409, "{purge:?}");
    // Its message may have been lost: each request sends another.
    let of_first = |tick: &&RedriveMessage| tick.redrive.to_string() == id;
    assert_eq!(ticks(&fixture).iter().filter(of_first).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn of_two_jobs_begun_at_once_one_runs_at_most() {
    let fixture = filled().await;
    let redrive = format!("POST {S}/deadLetters:redrive");
    assert_eq!(fixture.send(&redrive, json!({})).await.status, 201);
    let rival = only_job(&fixture);
    let tables = Arc::clone(&fixture.letters.tables);
    tables.with_redrives(BTreeMap::clear);
    // Somebody else stores theirs when the jobs were looked at, just before the next one is stored.
    let (made, other) = (fixture.letters.injector.made(), rival.clone());
    fixture.letters.injector.interfere(made + 2, move || {
        tables.with_redrives(|jobs| jobs.insert(other.id, other));
    });
    let second = fixture.send(&redrive, json!({})).await;
    assert_eq!((second.status, code(&second)), (409, "Conflict"));
    assert!(message(&second).contains(&rival.id.to_string()), "{second:?}");
    let jobs = jobs(&fixture);
    let of = |status: JobStatus| jobs.values().filter(|job| job.status == status).count();
    assert_eq!((of(JobStatus::Running), of(JobStatus::Canceled)), (1, 1));
    assert_eq!(ticks(&fixture), [RedriveMessage::of(&rival)]);
}

#[tokio::test(start_paused = true)]
async fn a_job_is_stopped_and_goes_on() {
    let fixture = filled().await;
    assert_eq!(fixture.send(&format!("POST {S}/deadLetters:redrive"), json!({})).await.status, 201);
    let one = format!("POST {S}/redrives/{}", only_job(&fixture).id);
    for _ in 0..2 {
        let canceled = fixture.call(&format!("{one}/cancel")).await;
        assert_eq!((canceled.status, &body(&canceled)["status"]), (200, &json!("Canceled")));
    }
    assert_eq!(ticks(&fixture).len(), 1);
    let resumed = fixture.call(&format!("{one}/resume")).await;
    assert_eq!((resumed.status, &body(&resumed)["status"]), (200, &json!("Running")));
    // A running job whose message was lost gets another.
    let faster = fixture.send(&format!("{one}/resume"), json!({"eventsPerSecond": 7})).await;
    assert_eq!((faster.status, &body(&faster)["eventsPerSecond"]), (200, &json!(7)));
    assert_eq!(ticks(&fixture).len(), 3);
    for refused in [json!({"eventsPerSecond": 1_001}), json!({"maxRedrives": 5})] {
        assert_eq!(fixture.send(&format!("{one}/resume"), refused).await.status, 400);
    }
    let job = only_job(&fixture);
    assert_eq!(job.events_per_second, 7);
    let over =
        Job { status: JobStatus::Completed, phase: JobPhase::Sending, total: Some(5), ..job };
    fixture.letters.tables.with_redrives(|jobs| jobs.insert(over.id, over));
    let resumed = fixture.call(&format!("{one}/resume")).await;
    assert_eq!((resumed.status, code(&resumed)), (409, "Conflict"));
    let canceled = fixture.call(&format!("{one}/cancel")).await;
    assert_eq!(body(&canceled)["status"], "Completed");
    assert_eq!(body(&canceled)["counted"], 5);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_outlives_its_event_subscription_can_be_stopped() {
    let fixture = filled().await;
    let other = "PUT /topics/demo/eventSubscriptions/s-2";
    assert_eq!(fixture.send(other, webhook("https://e.example/two")).await.status, 201);
    let asked = json!({"target": {"eventSubscription": "s-2"}});
    assert_eq!(fixture.send(&format!("POST {S}/deadLetters:redrive"), asked).await.status, 201);
    assert_eq!(fixture.call(&format!("DELETE {S}")).await.status, 200);
    let canceled =
        fixture.call(&format!("POST {S}/redrives/{}/cancel", only_job(&fixture).id)).await;
    assert_eq!((canceled.status, &body(&canceled)["status"]), (200, &json!("Canceled")));
}

#[tokio::test(start_paused = true)]
async fn jobs_are_listed_in_pages_the_newest_first() {
    let fixture = filled().await;
    for _ in 0..5 {
        let dry = json!({"dryRun": true});
        assert_eq!(fixture.send(&format!("POST {S}/deadLetters:redrive"), dry).await.status, 201);
    }
    let mut next = Some(format!("{S}/redrives?$top=2"));
    let mut found = Vec::new();
    while let Some(path) = next {
        let page = fixture.call(&format!("GET {path}")).await;
        let value = body(&page)["value"].as_array().cloned().expect("a list");
        found.extend(value.iter().map(|job| job["id"].to_string()));
        let link = body(&page)["nextLink"].as_str();
        next = link.map(|link| link.replace("https://manage.example", ""));
    }
    let want: Vec<_> = jobs(&fixture).keys().rev().map(|id| json!(id).to_string()).collect();
    assert_eq!(found, want);
}

/// Jobs are deleted 400 days after their last change, even the last one of a page.
#[tokio::test(start_paused = true)]
async fn a_page_goes_on_behind_a_job_that_is_gone() {
    let fixture = filled().await;
    for _ in 0..5 {
        let dry = json!({"dryRun": true});
        assert_eq!(fixture.send(&format!("POST {S}/deadLetters:redrive"), dry).await.status, 201);
    }
    let ids = |page: &Reply| -> Vec<String> {
        let all = body(page)["value"].as_array().expect("a list").iter();
        all.map(|job| job["id"].as_str().expect("an id").to_owned()).collect()
    };
    let first = fixture.call(&format!("GET {S}/redrives?$top=2")).await;
    let link = body(&first)["nextLink"].as_str().expect("more").to_owned();
    let last: Uuid = ids(&first)[1].parse().expect("an id");
    fixture.letters.tables.with_redrives(|jobs| jobs.remove(&last)).expect("it was there");
    let link = link.replace("https://manage.example", "").replace("top=2", "top=10");
    let rest = fixture.call(&format!("GET {link}")).await;
    let mut found = ids(&first);
    found.remove(1);
    found.extend(ids(&rest));
    let want: Vec<_> = jobs(&fixture).keys().rev().map(Uuid::to_string).collect();
    assert_eq!((rest.status, found), (200, want));
    let no_place = fixture.call(&format!("GET {S}/redrives?$skiptoken=MTph")).await;
    assert_eq!(no_place.status, 400);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_redrive_is_refused() {
    let fixture = filled().await;
    for (document, want) in [
        (json!({"eventsPerSecond": 0}), "eventsPerSecond must be a whole number from 1 to 1000"),
        (json!({"maxRedrives": 101}), "maxRedrives must be a whole number from 1 to 100"),
        (json!({"from": 7}), "from must be a string"),
        (json!({"to": "soon"}), "to must be a date and time"),
        (json!({"rate": 1}), "rate is not known"),
        (json!({"target": {}}), "target.eventSubscription is required"),
        (
            json!({"target": {"eventSubscription": "s".repeat(3_000)}}),
            "target.eventSubscription must be 2 to 64",
        ),
        (
            json!({"target": {"eventSubscription": "s-2", "topic": "t".repeat(3_000)}}),
            "target.topic must be 3 to 50",
        ),
    ] {
        let reply = fixture.send(&format!("POST {S}/deadLetters:redrive"), document).await;
        assert!(reply.status == 400 && message(&reply).contains(want), "{reply:?}");
    }
    assert!(jobs(&fixture).is_empty());
    for line in ["GET", "POST"] {
        let place = if line == "GET" { "" } else { "/cancel" };
        let reply = fixture.call(&format!("{line} {S}/redrives/m-1{place}")).await;
        let want = "path is refused: id must be the id of a redrive";
        assert!(message(&reply).contains(want), "{reply:?}");
    }
}

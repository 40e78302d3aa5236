//! Workers that die before or after each effect, or whose calls fail, and others that continue.

use std::collections::BTreeSet;

use gridpost_core::{
    delivery::{
        dead_letter::{Origin, position::Position},
        redrive::{Counts, RedriveFilter},
    },
    event::DeliverySchema,
    subscription::{EventSubscription, SubscriptionKey},
};
use gridpost_testkit::{
    bucket::{DELETE, Object},
    deployment::Deployment,
    faults::Fault,
    fixtures,
    queue::Received,
    table::Tables,
};
use uuid::Uuid;

use super::*;
use gridpost_core::publish::pack::HEADROOM_BYTES;

const START: Timestamp = Timestamp::from_millis(1_795_248_000_000);

const PUBLISHED: Timestamp = Timestamp::from_millis(1_795_240_000_000);

const TIMEOUT: Duration = Duration::from_secs(60);

const BUCKET: &str = "b";

const JOB: Uuid = Uuid::from_u128(1);

/// A deployment with so many dead letters, five to an object and two objects to a page, and a job.
async fn fixture(letters: usize) -> Deployment {
    let fixture = Deployment::at(START);
    fixture.buckets.settings().page_max = 2;
    let subscription = fixtures::subscription("s");
    let records: Vec<_> = (0..letters).map(|id| record(&id.to_string(), 0)).collect();
    for (number, records) in records.chunks(5).enumerate() {
        put(&fixture, number, records, Some("t"));
    }
    let job = Job {
        id: JOB,
        subscription: subscription.key.clone(),
        bucket: BUCKET.to_owned(),
        folder: "S".to_owned(),
        wanted: RedriveFilter { to: Some(START), ..RedriveFilter::default() },
        to: subscription.key.clone(),
        to_uid: subscription.uid,
        schema: DeliverySchema::EventGridSchema,
        events_per_second: 8,
        max_redrives: 3,
        send_again: false,
        dry_run: false,
        source_schema: None,
        // Old enough to start at once.
        created_at: Timestamp::from_millis(START.as_millis() - 5_000),
        updated_at: START,
        status: JobStatus::Running,
        phase: JobPhase::Counting,
        next: None,
        counts: Counts::default(),
        unread: Vec::new(),
        total: None,
        problem: None,
        lease: None,
        revision: 1,
    };
    insert(&fixture, job);
    fixture.tables.configure(fixtures::topic(), vec![subscription]);
    tick(&fixture).await;
    fixture
}

/// Stores an object labelled with the event subscription `s` of that topic, if any.
fn put(fixture: &Deployment, number: usize, records: &[String], topic: Option<&str>) {
    let origin = topic.map(|topic| Origin {
        subscription: SubscriptionKey { topic: topic.to_owned(), name: "s".to_owned() },
        schema: DeliverySchema::EventGridSchema,
    });
    let body = format!("[{}]", records.join(",")).into_bytes();
    let object = Object { body, origin, written_at: START };
    fixture.buckets.insert(BUCKET, &name(number), object);
}

fn name(number: usize) -> String {
    format!("S/2026/11/21/8/{}.json", Uuid::from_u128(number as u128))
}

fn record(id: &str, redriven: u32) -> String {
    let publish_time = PUBLISHED.to_iso_8601();
    format!(
        r#"{{"id":"{id}","eventType":"T","n":1.50,"deadLetterReason":"TimeToLiveExceeded","deliveryAttempts":1,"publishTime":"{publish_time}","redriveCount":{redriven}}}"#
    )
}

fn context(fixture: &Deployment) -> Context {
    Context {
        clock: Arc::clone(&fixture.clock) as _,
        sender: fixture.of(&fixture.queues),
        receiver: fixture.of(&fixture.queues),
        letters: fixture.of(&fixture.buckets),
        redrives: fixture.of(&fixture.tables),
        configuration: fixture.of(&fixture.tables),
        payloads: fixture.of(&fixture.payloads),
        meter: Arc::clone(&fixture.meter) as _,
        journal: Arc::clone(&fixture.meter) as _,
        queue_message_bytes_max: 262_144,
    }
}

fn job(fixture: &Deployment) -> Job {
    fixture.tables.with_redrives(|jobs| jobs[&JOB].clone())
}

fn insert(fixture: &Deployment, job: Job) {
    fixture.tables.with_redrives(|jobs| jobs.insert(job.id, job));
}

/// Sends the job's message.
async fn tick(fixture: &Deployment) {
    let (body, group) = (RedriveMessage::of(&job(fixture)).encode(), "t/s".to_owned());
    let sent = fixture.queues.send(Queue::Redrive, vec![Outgoing::new(body, group, 0)]).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
}

/// Invokes the function with the job's message, once visible. Returns whether SQS keeps it.
async fn invoked(fixture: &Deployment) -> bool {
    let received = fixture.queues.receive(Queue::Redrive, 1).await.remove(0);
    invoked_with(fixture, &context(fixture), received).await
}

/// The same with a given message. An invocation that dies takes its timeout.
async fn invoked_with(fixture: &Deployment, context: &Context, received: Received) -> bool {
    let deadline = fixture.clock.now() + TIMEOUT;
    let work = work(context, vec![received.record(Queue::Redrive)], deadline);
    let kept = tokio::time::timeout(TIMEOUT, work).await;
    let is_kept = kept.map_or(true, |kept| !kept.is_empty());
    assert!(!fixture.queues.is_empty(Queue::Redrive), "Lambda deletes what it was handed");
    if !is_kept {
        fixture
            .queues
            .delete(Queue::Redrive, vec![received.receipt])
            .await
            .expect("it never fails");
    }
    is_kept
}

/// Invokes until SQS has no message of the job.
async fn worked(fixture: &Deployment) {
    for _ in 1..100 {
        if fixture.queues.is_empty(Queue::Redrive) {
            let violations = &fixture.history.lock().expect("no panic").violations;
            return assert!(violations.is_empty(), "{violations:?}");
        }
        invoked(fixture).await;
    }
    panic!("the job turns in circles: {:?}", job(fixture));
}

fn sent(fixture: &Deployment) -> Vec<Delivery> {
    let sent = fixture.queues.sent().into_iter().filter(|(queue, _)| *queue != Queue::Redrive);
    let delivery = |(queue, message): (Queue, Outgoing)| {
        assert_eq!(queue, Queue::Dispatch);
        let delivery = Delivery::decode(&message.body).expect("a delivery");
        let once: Vec<_> = message.counts.iter().map(|count| count.once).collect();
        assert_eq!(once, [Some(delivery.id)], "a repetition is not counted again");
        delivery
    };
    sent.map(delivery).collect()
}

fn counted(fixture: &Deployment) -> u64 {
    let mut counts = fixture.meter.counts();
    counts.retain(|count| count.metric != metric::KEPT_COUNT);
    for count in &counts {
        let what = (count.metric, count.published_at, count.is_duration);
        assert_eq!(what, (metric::REDRIVEN_EVENT_COUNT, Some(PUBLISHED), false));
    }
    counts.iter().map(|count| count.by).sum()
}

fn kept(fixture: &Deployment) -> usize {
    let counts = fixture.meter.counts();
    counts.iter().filter(|count| count.to_string() == "KeptCount  1").count()
}

fn hidden(fixture: &Deployment) -> Option<u32> {
    fixture.queues.hidden().last().map(|(_, _, seconds)| *seconds)
}

fn ids(fixture: &Deployment) -> Vec<u64> {
    let event_id = |delivery: &Delivery| {
        let event: serde_json::Value =
            serde_json::from_str(delivery.events()[0].get()).expect("JSON");
        event["id"].as_str().expect("an id").parse().expect("a number")
    };
    sent(fixture).iter().map(event_id).collect()
}

#[tokio::test(start_paused = true)]
async fn every_letter_is_sent_once_at_the_jobs_pace() {
    let fixture = fixture(23).await;
    worked(&fixture).await;
    let job = job(&fixture);
    assert_eq!(ids(&fixture), (0..23).collect::<Vec<_>>());
    assert_eq!((job.status, job.total, job.counts.sent), (JobStatus::Completed, Some(23), 23));
    assert_eq!((counted(&fixture), fixture.meter.unwritten()), (23, 0));
    let first = sent(&fixture)[0].clone();
    assert_eq!(first.events()[0].get(), r#"{"id":"0","eventType":"T","n":1.50}"#);
    assert_eq!((first.publish_time, first.subscription_uid), (PUBLISHED, job.to_uid));
    assert!(first.ttl_starts_at() >= START);
    let topic = fixture.tables.stored_topics().remove(0);
    assert_eq!((first.revision, topic.revision), (topic.at(), 1));
    // The pace: five full batches of four were waited for, the last three letters were not.
    assert_eq!(fixture.clock.now().since(START), job.pace(20));
    assert_eq!(fixture.buckets.calls(DELETE), Vec::<String>::new(), "dead letters stay");
}

/// Whatever call fails or kills the process, everything is sent, and duplicates are of one batch and
/// have the same delivery ids.
#[tokio::test(start_paused = true)]
async fn whatever_fails_all_is_sent_and_one_batch_at_most_twice() {
    let calm = fixture(23).await;
    worked(&calm).await;
    let calls = calm.injector.made();
    assert!(calls > 50, "{calls}");
    for fault in [Fault::FailsBefore, Fault::FailsAfter, Fault::DiesBefore, Fault::DiesAfter] {
        for number in 1..=calls {
            let fixture = fixture(23).await;
            fixture.injector.plan().calls.insert(number, fault);
            worked(&fixture).await;
            let row = format!("{fault:?} at call {number}");
            assert!(fixture.history.lock().expect("no panic").faults > 0, "{row} went by");
            assert_eq!(job(&fixture).status, JobStatus::Completed, "{row}");
            let events = ids(&fixture);
            let all: BTreeSet<_> = events.iter().copied().collect();
            assert_eq!(all.len(), 23, "{row}");
            let batch = job(&fixture).batch_events_max();
            assert!(events.len() <= 23 + batch, "{row}: {} were sent", events.len());
            let deliveries: BTreeSet<_> = sent(&fixture).iter().map(|one| one.id).collect();
            assert_eq!(deliveries.len(), 23, "{row}");
            // Counts of a batch in which the function died are lost with it; the repetition's are not.
            let counted = counted(&fixture);
            assert!((23..=events.len() as u64).contains(&counted), "{row}: {counted} were counted");
        }
    }
}

/// Letters found before a failed read are sent and noted: a batch need not succeed as a whole.
#[tokio::test(start_paused = true)]
async fn what_was_found_before_a_read_that_fails_is_sent() {
    let fixture = fixture(23).await;
    let sending = Job { phase: JobPhase::Sending, total: Some(23), ..job(&fixture) };
    insert(&fixture, sending);
    fixture.buckets.settings().unreadable.insert(name(3));
    assert!(invoked(&fixture).await);
    assert_eq!(ids(&fixture), (0..15).collect::<Vec<_>>());
    assert_eq!(job(&fixture).counts.sent, 15);
    assert!(job(&fixture).problem.is_some_and(|problem| problem.contains("it is tried again")));
    fixture.buckets.settings().unreadable.clear();
    worked(&fixture).await;
    assert_eq!(ids(&fixture), (0..23).collect::<Vec<_>>(), "and nothing twice");
}

/// A later job may read what an earlier one could not.
#[tokio::test(start_paused = true)]
async fn what_could_not_be_read_is_sent_by_a_later_job() {
    let fixture = fixture(8).await;
    fixture.buckets.settings().sealed.insert(name(0));
    worked(&fixture).await;
    let first = job(&fixture);
    assert_eq!((first.status, first.counts.unreadable), (JobStatus::Completed, 1));
    assert_eq!(ids(&fixture), [5, 6, 7]);
    fixture.buckets.settings().sealed.clear();
    insert(&fixture, Job { id: Uuid::from_u128(2), ..first.clone() });
    let (status, phase) = (JobStatus::Running, JobPhase::Counting);
    insert(&fixture, Job { status, phase, unread: vec![], counts: Counts::default(), ..first });
    tick(&fixture).await;
    worked(&fixture).await;
    let again = job(&fixture);
    assert_eq!(
        (again.status, again.counts.sent, again.counts.sent_before),
        (JobStatus::Completed, 5, 3)
    );
    assert_eq!(ids(&fixture), [5, 6, 7, 0, 1, 2, 3, 4], "each once");
}

/// An operator cancels or resumes the job, unless it is completed.
fn set(tables: &Tables, status: JobStatus) {
    tables.with_redrives(|jobs| {
        let job = jobs.get_mut(&JOB).expect("there");
        if job.status != JobStatus::Completed {
            (job.status, job.revision) = (status, job.revision + 1);
        }
    });
}

/// Canceled at any call and resumed, nothing is sent twice.
#[tokio::test(start_paused = true)]
async fn canceled_and_resumed_nothing_is_sent_twice() {
    let calm = fixture(23).await;
    worked(&calm).await;
    let mut stopped = 0;
    for number in 1..=calm.injector.made() {
        let fixture = fixture(23).await;
        let tables = Arc::clone(&fixture.tables);
        fixture.injector.interfere(number, move || set(&tables, JobStatus::Canceled));
        worked(&fixture).await;
        stopped += usize::from(job(&fixture).status == JobStatus::Canceled);
        set(&fixture.tables, JobStatus::Running);
        tick(&fixture).await;
        worked(&fixture).await;
        assert_eq!(ids(&fixture), (0..23).collect::<Vec<_>>(), "canceled at call {number}");
        assert_eq!(job(&fixture).status, JobStatus::Completed, "canceled at call {number}");
    }
    assert!(stopped > 40, "{stopped} were stopped");
}

#[tokio::test(start_paused = true)]
async fn a_second_job_sends_what_the_first_one_left() {
    let fixture = fixture(23).await;
    let mut first = job(&fixture);
    (first.status, first.phase) = (JobStatus::Canceled, JobPhase::Sending);
    first.next = Position::first_of("S", &name(2)).map(|place| place.at(2));
    insert(&fixture, Job { id: Uuid::from_u128(2), ..first });
    worked(&fixture).await;
    assert_eq!(ids(&fixture), (12..23).collect::<Vec<_>>());
    assert_eq!((job(&fixture).counts.sent_before, job(&fixture).total), (12, Some(11)));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_sends_nothing_and_says_what_it_would() {
    let fixture = fixture(7).await;
    put(&fixture, 9, &[record("7", 2), record("8", 3), "7".to_owned()], None);
    insert(&fixture, Job { dry_run: true, ..job(&fixture) });
    worked(&fixture).await;
    let job = job(&fixture);
    assert_eq!((job.status, job.total, ids(&fixture).len()), (JobStatus::Completed, Some(8), 0));
    assert_eq!((job.counts.redriven_too_often, job.counts.unreadable), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn two_workers_do_not_meet() {
    let fixture = fixture(23).await;
    let lease = Lease { holder: "another".to_owned(), until: START + TIMEOUT };
    insert(&fixture, Job { lease: Some(lease), ..job(&fixture) });
    assert!(invoked(&fixture).await, "it comes back when the lease is over");
    assert_eq!(ids(&fixture).len(), 0);
    let hidden = hidden(&fixture).expect("hidden");
    assert!((58..=61).contains(&hidden), "{hidden}");
    assert_eq!(kept(&fixture), 0, "nothing has failed");
    worked(&fixture).await;
    assert_eq!(ids(&fixture).len(), 23);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_target_is_gone_fails_and_says_so() {
    // Deleted; and deleted, and created again under its name.
    let another = EventSubscription { uid: Uuid::from_u128(77), ..fixtures::subscription("s") };
    for now in [Vec::new(), vec![another]] {
        let fixture = fixture(3).await;
        fixture.tables.configure(fixtures::topic(), now);
        worked(&fixture).await;
        let job = job(&fixture);
        assert_eq!((job.status, ids(&fixture).len()), (JobStatus::Failed, 0));
        assert!(job.problem.is_some_and(|problem| problem.contains("was deleted since")));
    }
}

/// The bucket disappears at any call and returns: the job says so, and sends the rest when resumed.
#[tokio::test(start_paused = true)]
async fn a_bucket_that_is_gone_for_a_while_loses_nothing() {
    let calm = fixture(23).await;
    worked(&calm).await;
    let mut failed = 0;
    for number in 1..calm.injector.made() {
        let fixture = fixture(23).await;
        let buckets = Arc::clone(&fixture.buckets);
        fixture.injector.interfere(number, move || {
            buckets.settings().missing.insert(BUCKET.to_owned());
        });
        worked(&fixture).await;
        fixture.buckets.settings().missing.clear();
        if job(&fixture).status == JobStatus::Failed {
            failed += 1;
            assert!(job(&fixture).problem.is_some_and(|problem| problem.contains("bucket")));
            assert_eq!(job(&fixture).lease, None, "at call {number}");
            insert(&fixture, Job { status: JobStatus::Running, ..job(&fixture) });
            tick(&fixture).await;
            worked(&fixture).await;
        }
        let all: BTreeSet<_> = ids(&fixture).into_iter().collect();
        assert_eq!(
            (all.len(), job(&fixture).status),
            (23, JobStatus::Completed),
            "at call {number}"
        );
    }
    assert!(failed > 40, "{failed} met no bucket");
}

/// Event subscriptions of one name share a folder: reading the others' takes more than an invocation.
#[tokio::test(start_paused = true)]
async fn a_crowded_folder_lets_no_job_turn_in_circles() {
    let fixture = fixture(23).await;
    for number in 2..400 {
        put(&fixture, number, &[record("1", 0)], Some("other"));
    }
    for number in 0..3 {
        put(&fixture, 500 + number, &[record(&(23 + number).to_string(), 0)], Some("t"));
    }
    let own = ids_in(&fixture);
    fixture.buckets.settings().read_time = Duration::from_secs(1);
    worked(&fixture).await;
    assert_eq!(job(&fixture).status, JobStatus::Completed);
    assert_eq!(ids(&fixture).into_iter().collect::<BTreeSet<_>>(), own);
}

fn ids_in(fixture: &Deployment) -> BTreeSet<u64> {
    let objects = fixture.buckets.objects(BUCKET).into_values();
    let is_own = |origin: &Origin| origin.subscription.topic == "t";
    let own = objects.filter(|object| object.origin.as_ref().is_some_and(is_own));
    let letters = own.flat_map(|object| {
        serde_json::from_slice::<Vec<serde_json::Value>>(&object.body).expect("letters")
    });
    letters.map(|it| it["id"].as_str().expect("an id").parse().expect("a number")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_for_the_one_that_began_before_it() {
    let fixture = fixture(3).await;
    let earlier = Job { id: Uuid::from_u128(9), created_at: Timestamp::default(), ..job(&fixture) };
    insert(&fixture, earlier.clone());
    assert!(invoked(&fixture).await);
    assert_eq!(ids(&fixture), Vec::<u64>::new());
    assert!(job(&fixture).problem.is_some_and(|why| why.contains(&earlier.id.to_string())));
    assert_eq!(kept(&fixture), 0, "nothing has failed");
    insert(&fixture, Job { status: JobStatus::Canceled, ..earlier });
    worked(&fixture).await;
    assert_eq!((ids(&fixture).len(), job(&fixture).status), (3, JobStatus::Completed));
}

#[tokio::test(start_paused = true)]
async fn events_too_large_for_a_message_are_stored_first() {
    let fixture = fixture(3).await;
    let context = Context { queue_message_bytes_max: HEADROOM_BYTES + 64, ..context(&fixture) };
    let received = fixture.queues.receive(Queue::Redrive, 1).await.remove(0);
    assert!(!invoked_with(&fixture, &context, received).await);
    let sent = sent(&fixture);
    assert!(sent.len() == 3 && sent.iter().all(Delivery::is_claimed));
    let history = fixture.history.lock().expect("no panic");
    // One sent before it was stored would be a violation.
    assert!(history.violations.is_empty(), "{:?}", history.violations);
    for delivery in &sent {
        let object = history.payloads[&delivery.id].clone();
        assert!(String::from_utf8(object).expect("text").contains(r#""n":1.50"#));
    }
}

/// A newer version may have sent it, and return after a rollback; otherwise it is poison.
#[tokio::test(start_paused = true)]
async fn a_message_that_this_version_does_not_read_is_kept() {
    let fixture = fixture(3).await;
    let received = fixture.queues.receive(Queue::Redrive, 1).await.remove(0);
    let newer = received.body.replace("\"v\":1", "\"v\":9");
    for count in [1, RECEIVES_MAX] {
        let newer = Received { body: newer.clone(), count, ..received.clone() };
        assert!(invoked_with(&fixture, &context(&fixture), newer).await, "received {count} times");
    }
    assert_eq!(kept(&fixture), 2);
    assert_eq!(
        fixture.queues.bodies(Queue::Redrive),
        [received.body],
        "and no copy of it was sent"
    );
    assert!(sent(&fixture).is_empty());
}

/// Lambda stops a loop after 16 sends, and a bucket may refuse for weeks.
#[tokio::test(start_paused = true)]
async fn a_job_that_can_t_work_outlasts_weeks() {
    let fixture = fixture(3).await;
    fixture.buckets.settings().unreadable.insert(name(0));
    let received = fixture.queues.receive(Queue::Redrive, 1).await.remove(0);
    for (count, want) in [(1, 10), (10, 10), (120, 120), (899, 300)] {
        let often = Received { count, ..received.clone() };
        assert!(invoked_with(&fixture, &context(&fixture), often).await);
        assert_eq!(hidden(&fixture), Some(want), "received {count} times");
    }
    assert_eq!(kept(&fixture), 3, "the first time it came up to the letter");
    // A job that made progress waits the least, however often its message was received.
    insert(&fixture, Job { phase: JobPhase::Sending, next: None, total: Some(3), ..job(&fixture) });
    put(&fixture, 1, &[record("9", 0)], Some("t"));
    fixture.buckets.settings().unreadable = [name(1)].into();
    let often = Received { count: 899, ..received.clone() };
    assert!(invoked_with(&fixture, &context(&fixture), often).await);
    assert_eq!((hidden(&fixture), ids(&fixture).len(), kept(&fixture)), (Some(10), 3, 3));
    let lasts_s: u32 = (1..RECEIVES_MAX).map(failed_wait_s).sum();
    assert!(16 * lasts_s > 30 * 24 * 60 * 60, "{lasts_s} s for each of 16");
}

#[tokio::test(start_paused = true)]
async fn a_message_received_too_often_is_replaced() {
    let fixture = fixture(3).await;
    let received = fixture.queues.receive(Queue::Redrive, 1).await.remove(0);
    let often = Received { count: RECEIVES_MAX, ..received.clone() };
    assert!(!invoked_with(&fixture, &context(&fixture), often).await);
    assert_eq!(fixture.queues.bodies(Queue::Redrive), [received.body], "another one of it");
}

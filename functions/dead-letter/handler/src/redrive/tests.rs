//! A world in which the worker dies after each of its effects, or a call of it fails, and somebody
//! else goes on.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard},
};

use async_trait::async_trait;
use gridpost_core::{
    delivery::{
        dead_letter::Origin,
        redrive::{Counts, RedriveFilter},
    },
    event::DeliverySchema,
    retry::{policy::RetryPolicy, probation::ProbationPolicy, profile::ProfileName},
    secret::Secret,
    subscription::{Endpoint, EventSubscription, Filter, ProvisioningState, SubscriptionKey},
    topic::Topic,
};
use gridpost_ports::Listed;
use uuid::Uuid;

use super::*;

const START: Timestamp = Timestamp::from_millis(1_795_248_000_000);

/// The time of an invocation.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What is planned for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It fails and has no effect.
    Fails,
    /// It takes effect, and its caller never hears of it.
    Dies,
}

/// An object and what its labels say.
type Object = (Vec<u8>, Option<Origin>);

/// What somebody else does.
type Interference = Box<dyn FnOnce(&World) + Send>;

#[derive(Default)]
struct World {
    now: Mutex<Timestamp>,
    objects: Mutex<BTreeMap<String, Object>>,
    jobs: Mutex<BTreeMap<Uuid, Job>>,
    subscriptions: Mutex<Vec<EventSubscription>>,
    sent: Mutex<Vec<Delivery>>,
    ticks: Mutex<Vec<String>>,
    hidden: Mutex<Vec<u32>>,
    payloads: Mutex<BTreeMap<String, Vec<u8>>>,
    counted: Mutex<u64>,
    /// Whether there is no bucket.
    is_missing: Mutex<bool>,
    /// How long reading an object takes.
    slow: Mutex<Duration>,
    /// How many calls were made.
    calls: Mutex<usize>,
    /// What happens to the call of that number.
    fault: Mutex<Option<(usize, Fault)>>,
    /// What somebody else does before the call of that number.
    interference: Mutex<Option<(usize, Interference)>>,
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while held")
}

impl World {
    /// Makes a call; `effect` may happen although nobody hears of it.
    async fn call<T>(&self, effect: impl FnOnce() -> T) -> Result<T, PortError> {
        let number = {
            let mut calls = open(&self.calls);
            *calls += 1;
            *calls
        };
        let interference = open(&self.interference).take_if(|(at, _)| *at == number);
        if let Some((_, interfere)) = interference {
            interfere(self);
        }
        match *open(&self.fault) {
            Some((at, Fault::Fails)) if at == number => {
                return Err(PortError::new("aws:Fake", "by plan"));
            }
            Some((at, Fault::Dies)) if at == number => {}
            _ => return Ok(effect()),
        }
        effect();
        std::future::pending().await
    }

    fn pass(&self, time: Duration) {
        let mut now = open(&self.now);
        *now = *now + time;
    }
}

impl Clock for World {
    /// Every look takes a moment, so that time passes.
    fn now(&self) -> Timestamp {
        self.pass(Duration::from_millis(1));
        *open(&self.now)
    }
}

#[async_trait]
impl QueueSender for World {
    async fn send(&self, queue: Queue, all: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        let mut answers = Vec::new();
        for message in all {
            let effect = || match queue {
                Queue::Dispatch => {
                    let delivery = Delivery::decode(&message.body).expect("a delivery");
                    open(&self.sent).push(delivery);
                }
                _ => open(&self.ticks).push(message.body.clone()),
            };
            answers.push(self.call(effect).await);
        }
        answers
    }
}

#[async_trait]
impl QueueReceiver for World {
    async fn hide(&self, _: Queue, _: &str, seconds: u32) -> Result<(), PortError> {
        self.call(|| open(&self.hidden).push(seconds)).await
    }

    async fn delete(&self, _: Queue, _: Vec<String>) -> Result<(), PortError> {
        unreachable!("Lambda deletes")
    }

    async fn in_flight(&self, _: Queue) -> Result<u64, PortError> {
        unreachable!("nobody asks")
    }
}

#[async_trait]
impl DeadLetters for World {
    async fn list(
        &self,
        _: &str,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<Listed>, BucketError> {
        let list = || {
            let objects = open(&self.objects);
            let names = objects.keys().filter(|name| name.starts_with(prefix));
            let names = names.filter(|name| after.is_none_or(|after| after < name.as_str()));
            let listed = |name: &String| Listed { name: name.clone(), bytes: 1, written_at: START };
            names.take(2).map(listed).collect()
        };
        let listed = self.call(list).await?;
        if *open(&self.is_missing) { Err(BucketError::NotFound) } else { Ok(listed) }
    }

    async fn get(&self, _: &str, name: &str) -> Result<Option<Object>, BucketError> {
        let slow = *open(&self.slow);
        self.pass(slow);
        sleep(slow).await;
        let got = self.call(|| open(&self.objects).get(name).cloned()).await?;
        if *open(&self.is_missing) { Err(BucketError::NotFound) } else { Ok(got) }
    }

    async fn delete(&self, _: &str, _: &str) -> Result<(), BucketError> {
        unreachable!("a redrive deletes nothing")
    }
}

#[async_trait]
impl Redrives for World {
    async fn jobs(&self, _: &SubscriptionKey) -> Result<Vec<Job>, PortError> {
        self.call(|| open(&self.jobs).values().cloned().collect()).await
    }

    async fn job(&self, _: &SubscriptionKey, id: Uuid) -> Result<Option<Job>, PortError> {
        self.call(|| open(&self.jobs).get(&id).cloned()).await
    }

    async fn save(&self, job: &Job) -> Result<Saved, PortError> {
        self.call(|| {
            let mut jobs = open(&self.jobs);
            if jobs.get(&job.id).is_some_and(|stored| stored.revision != job.revision) {
                return Saved::Conflict;
            }
            jobs.insert(job.id, Job { revision: job.revision + 1, ..job.clone() });
            Saved::Written
        })
        .await
    }
}

#[async_trait]
impl Configuration for World {
    async fn topic(&self, _: &str) -> Result<Option<Topic>, PortError> {
        unreachable!("nobody asks")
    }

    async fn subscriptions(&self, _: &str) -> Result<Vec<EventSubscription>, PortError> {
        self.call(|| open(&self.subscriptions).clone()).await
    }
}

#[async_trait]
impl Payloads for World {
    async fn put(&self, key: &str, object: Vec<u8>) -> Result<(), PortError> {
        self.call(|| drop(open(&self.payloads).insert(key.to_owned(), object))).await
    }

    async fn get(&self, _: &str) -> Result<Option<Vec<u8>>, PortError> {
        unreachable!("nobody asks")
    }
}

impl Meter for World {
    fn measure(&self, metric: &'static str, _: &[(&'static str, &str)], _: std::time::Duration) {
        panic!("{metric} is of functions that serve events");
    }

    fn count(&self, _: &'static str, _: &[(&'static str, &str)], _: u64) {}

    fn count_events(
        &self,
        name: &'static str,
        _: &[(&'static str, &str)],
        published_at: Timestamp,
        by: u64,
    ) {
        assert_eq!((name, published_at), (metric::REDRIVEN_EVENT_COUNT, PUBLISHED));
        *open(&self.counted) += by;
    }

    fn flush(&self, _: Timestamp) {}
}

const PUBLISHED: Timestamp = Timestamp::from_millis(1_795_240_000_000);

fn subscription() -> EventSubscription {
    EventSubscription {
        key: SubscriptionKey { topic: "t".to_owned(), name: "s".to_owned() },
        uid: Uuid::from_u128(5),
        endpoint: Endpoint::WebHook { url: Secret::new("https://example.com/hook") },
        batching: None,
        filter: Filter::default(),
        delivery_schema: DeliverySchema::EventGridSchema,
        retry_policy: RetryPolicy::default_of(ProfileName::Basic),
        probation_policy: ProbationPolicy::EventGrid,
        dead_letter: None,
        labels: Vec::new(),
        expires_at: None,
        provisioning_state: ProvisioningState::Succeeded,
        validation: None,
        allowed_rate: None,
        created_at: START,
        etag: Uuid::nil(),
        delivery_attributes: Vec::new(),
        signing: None,
    }
}

/// A world with so many dead letters, five to an object, and a job that sends them.
fn world(letters: usize) -> Arc<World> {
    let world = World::default();
    *open(&world.now) = START;
    let subscription = subscription();
    let origin =
        Origin { subscription: subscription.key.clone(), schema: DeliverySchema::EventGridSchema };
    let records: Vec<_> = (0..letters).map(|id| record(&id.to_string(), 0)).collect();
    for (number, records) in records.chunks(5).enumerate() {
        let object = format!("[{}]", records.join(",")).into_bytes();
        open(&world.objects).insert(name(number), (object, Some(origin.clone())));
    }
    let job = Job {
        id: Uuid::from_u128(1),
        subscription: subscription.key.clone(),
        bucket: "b".to_owned(),
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
        created_at: START,
        updated_at: START,
        status: Status::Running,
        phase: Phase::Counting,
        next: None,
        counts: Counts::default(),
        total: None,
        problem: None,
        lease: None,
        revision: 1,
    };
    open(&world.jobs).insert(job.id, job);
    open(&world.subscriptions).push(subscription);
    Arc::new(world)
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

fn context(world: &Arc<World>) -> Context {
    Context {
        clock: Arc::clone(world) as _,
        sender: Arc::clone(world) as _,
        receiver: Arc::clone(world) as _,
        letters: Arc::clone(world) as _,
        redrives: Arc::clone(world) as _,
        configuration: Arc::clone(world) as _,
        payloads: Arc::clone(world) as _,
        meter: Arc::clone(world) as _,
        queue_message_bytes_max: 262_144,
    }
}

fn job(world: &World) -> Job {
    open(&world.jobs)[&Uuid::from_u128(1)].clone()
}

/// One invocation with the job's message; whether SQS keeps it. One that dies takes its timeout.
async fn invoked(world: &Arc<World>, receive_count: u32) -> bool {
    let deadline = *open(&world.now) + TIMEOUT;
    let record = Record {
        message_id: "m".to_owned(),
        receipt: "r".to_owned(),
        body: RedriveMessage::of(&job(world)).encode(),
        receive_count,
    };
    let context = context(world);
    let work = work(&context, vec![record], deadline);
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(kept) => !kept.is_empty(),
        Err(_) => {
            world.pass(TIMEOUT + Duration::from_secs(30));
            true
        }
    }
}

/// Invokes until SQS keeps the message no more.
async fn worked(world: &Arc<World>) {
    for receive_count in 1..100 {
        if !invoked(world, receive_count).await {
            return;
        }
        let hidden = open(&world.hidden).pop().unwrap_or(0);
        world.pass(Duration::from_secs(hidden.into()));
    }
    panic!("the job turns in circles: {:?}", job(world));
}

fn ids(world: &World) -> Vec<u64> {
    let event_id = |delivery: &Delivery| {
        let event: serde_json::Value =
            serde_json::from_str(delivery.events()[0].get()).expect("JSON");
        event["id"].as_str().expect("an id").parse().expect("a number")
    };
    open(&world.sent).iter().map(event_id).collect()
}

#[tokio::test(start_paused = true)]
async fn every_letter_is_sent_once_at_the_jobs_pace() {
    let world = world(23);
    let began_at = *open(&world.now);
    worked(&world).await;
    let job = job(&world);
    assert_eq!(ids(&world), (0..23).collect::<Vec<_>>());
    assert_eq!((job.status, job.total, job.counts.sent), (Status::Completed, Some(23), 23));
    assert_eq!(*open(&world.counted), 23);
    let first = open(&world.sent)[0].clone();
    assert_eq!(first.events()[0].get(), r#"{"id":"0","eventType":"T","n":1.50}"#);
    assert_eq!((first.publish_time, first.subscription_uid), (PUBLISHED, job.to_uid));
    assert!(first.ttl_starts_at() >= began_at);
}

/// The heart of it: whatever call fails or is the last one of its process, everything is sent, and
/// what is sent twice is of one batch and has the same delivery id.
#[tokio::test(start_paused = true)]
async fn whatever_fails_all_is_sent_and_one_batch_at_most_twice() {
    let calm = world(23);
    worked(&calm).await;
    let calls = *open(&calm.calls);
    assert!(calls > 50, "{calls}");
    for fault in [Fault::Fails, Fault::Dies] {
        for number in 1..=calls {
            let world = world(23);
            *open(&world.fault) = Some((number, fault));
            worked(&world).await;
            let row = format!("{fault:?} at call {number}");
            assert_eq!(job(&world).status, Status::Completed, "{row}");
            let sent = ids(&world);
            let all: BTreeSet<_> = sent.iter().copied().collect();
            assert_eq!(all.len(), 23, "{row}");
            let batch = job(&world).batch_events_max();
            assert!(sent.len() <= 23 + batch, "{row}: {} were sent", sent.len());
            let deliveries: BTreeSet<_> = open(&world.sent).iter().map(|one| one.id).collect();
            assert_eq!(deliveries.len(), 23, "{row}");
            // Counts of a batch in which the function died are lost with it; the repetition's are not.
            let counted = *open(&world.counted);
            assert!((23..=sent.len() as u64).contains(&counted), "{row}: {counted} were counted");
        }
    }
}

/// Interrupted by an operator at any moment and resumed, nothing is sent twice at all.
#[tokio::test(start_paused = true)]
async fn canceled_and_resumed_nothing_is_sent_twice() {
    let set = |status| {
        move |world: &World| {
            let mut jobs = open(&world.jobs);
            let job = jobs.get_mut(&Uuid::from_u128(1)).expect("there");
            if job.status != Status::Completed {
                (job.status, job.revision) = (status, job.revision + 1);
            }
        }
    };
    let calm = world(23);
    worked(&calm).await;
    let mut stopped = 0;
    let calls = *open(&calm.calls);
    for number in 1..=calls {
        let world = world(23);
        *open(&world.interference) = Some((number, Box::new(set(Status::Canceled))));
        worked(&world).await;
        stopped += usize::from(job(&world).status == Status::Canceled);
        set(Status::Running)(&world);
        worked(&world).await;
        assert_eq!(ids(&world), (0..23).collect::<Vec<_>>(), "canceled at call {number}");
        assert_eq!(job(&world).status, Status::Completed, "canceled at call {number}");
    }
    assert!(stopped > 40, "{stopped} were stopped");
}

#[tokio::test(start_paused = true)]
async fn a_second_job_sends_what_the_first_one_left() {
    let world = world(23);
    let mut first = job(&world);
    (first.status, first.phase) = (Status::Canceled, Phase::Sending);
    let place = gridpost_core::delivery::dead_letter::position::Position::first_of("S", &name(2));
    first.next = place.map(|place| place.at(2));
    let second = job(&world);
    open(&world.jobs).insert(Uuid::from_u128(2), Job { id: Uuid::from_u128(2), ..first });
    open(&world.jobs).insert(second.id, second);
    worked(&world).await;
    assert_eq!(ids(&world), (12..23).collect::<Vec<_>>());
    assert_eq!((job(&world).counts.sent_before, job(&world).total), (12, Some(11)));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_sends_nothing_and_says_what_it_would() {
    let world = world(7);
    let more = format!("[{},{},7]", record("7", 2), record("8", 3)).into_bytes();
    open(&world.objects).insert(name(9), (more, None));
    let dry = Job { dry_run: true, ..job(&world) };
    open(&world.jobs).insert(dry.id, dry);
    worked(&world).await;
    let job = job(&world);
    assert_eq!((job.status, job.total, ids(&world).len()), (Status::Completed, Some(8), 0));
    assert_eq!((job.counts.redriven_too_often, job.counts.unreadable), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn two_workers_do_not_meet() {
    let world = world(23);
    let mut held = job(&world);
    held.lease = Some(Lease { holder: "another".to_owned(), until: START + TIMEOUT });
    open(&world.jobs).insert(held.id, held);
    assert!(invoked(&world, 1).await, "it comes back when the lease is over");
    assert_eq!(ids(&world).len(), 0);
    let hidden = open(&world.hidden).pop().expect("hidden");
    assert!((58..=61).contains(&hidden), "{hidden}");
    world.pass(Duration::from_secs(hidden.into()));
    worked(&world).await;
    assert_eq!(ids(&world).len(), 23);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_target_is_gone_fails_and_says_so() {
    let world = world(3);
    open(&world.subscriptions).clear();
    worked(&world).await;
    let job = job(&world);
    assert_eq!((job.status, ids(&world).len()), (Status::Failed, 0));
    assert!(job.problem.is_some_and(|problem| problem.contains("was deleted since")));
}

/// A bucket that is gone at any moment and comes back: the job says so, and what was read and not sent
/// is sent when it is resumed.
#[tokio::test(start_paused = true)]
async fn a_bucket_that_is_gone_for_a_while_loses_nothing() {
    let calm = world(23);
    worked(&calm).await;
    let calls = *open(&calm.calls);
    for number in 1..calls {
        let world = world(23);
        let vanish: Interference = Box::new(|world| *open(&world.is_missing) = true);
        *open(&world.interference) = Some((number, vanish));
        worked(&world).await;
        *open(&world.is_missing) = false;
        if job(&world).status == Status::Failed {
            assert!(job(&world).problem.is_some_and(|problem| problem.contains("bucket")));
            assert_eq!(job(&world).lease, None, "at call {number}");
            open(&world.jobs).values_mut().for_each(|job| job.status = Status::Running);
            worked(&world).await;
        }
        let all: BTreeSet<_> = ids(&world).into_iter().collect();
        assert_eq!((all.len(), job(&world).status), (23, Status::Completed), "at call {number}");
    }
}

/// Event subscriptions of the same name share a folder: those of others take longer than an
/// invocation has.
#[tokio::test(start_paused = true)]
async fn a_crowded_folder_lets_no_job_turn_in_circles() {
    let world = world(23);
    let key = SubscriptionKey { topic: "other".to_owned(), name: "s".to_owned() };
    let others = Origin { subscription: key, schema: DeliverySchema::EventGridSchema };
    for number in 2..400 {
        let object = format!("[{}]", record("1", 0)).into_bytes();
        open(&world.objects).insert(name(number), (object, Some(others.clone())));
    }
    for number in 0..3 {
        let object = format!("[{}]", record(&(23 + number).to_string(), 0)).into_bytes();
        let own = open(&world.objects)[&name(0)].1.clone();
        open(&world.objects).insert(name(500 + number), (object, own));
    }
    let own = ids_in(&world);
    *open(&world.slow) = Duration::from_secs(1);
    worked(&world).await;
    assert_eq!(job(&world).status, Status::Completed);
    assert_eq!(ids(&world).into_iter().collect::<BTreeSet<_>>(), own);
}

/// The ids of the event subscription's own letters.
fn ids_in(world: &World) -> BTreeSet<u64> {
    let objects = open(&world.objects);
    let own = objects.values().filter(|(_, origin)| {
        origin.as_ref().is_some_and(|origin| origin.subscription.topic == "t")
    });
    let letters = own.flat_map(|(object, _)| {
        serde_json::from_slice::<Vec<serde_json::Value>>(object).expect("letters")
    });
    letters.map(|it| it["id"].as_str().expect("an id").parse().expect("a number")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_for_the_one_that_began_before_it() {
    let world = world(3);
    let earlier = Job { id: Uuid::from_u128(9), created_at: Timestamp::default(), ..job(&world) };
    open(&world.jobs).insert(earlier.id, earlier.clone());
    assert!(invoked(&world, 1).await);
    assert_eq!(ids(&world), Vec::<u64>::new());
    assert!(job(&world).problem.is_some_and(|why| why.contains(&earlier.id.to_string())));
    let over = Job { status: Status::Canceled, ..earlier };
    open(&world.jobs).insert(over.id, over);
    worked(&world).await;
    assert_eq!((ids(&world).len(), job(&world).status), (3, Status::Completed));
}

#[tokio::test(start_paused = true)]
async fn events_too_large_for_a_message_are_stored_first() {
    let world = world(3);
    let context = Context { queue_message_bytes_max: HEADROOM_BYTES + 64, ..context(&world) };
    let tick = RedriveMessage::of(&job(&world)).encode();
    let record = Record {
        message_id: "m".to_owned(),
        receipt: "r".to_owned(),
        body: tick,
        receive_count: 1,
    };
    let deadline = *open(&world.now) + TIMEOUT;
    assert!(work(&context, vec![record], deadline).await.is_empty());
    let sent = open(&world.sent);
    assert!(sent.len() == 3 && sent.iter().all(Delivery::is_claimed));
    for delivery in sent.iter() {
        let object = open(&world.payloads)[&claim::key(delivery.id)].clone();
        assert!(String::from_utf8(object).expect("text").contains(r#""n":1.50"#));
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_received_too_often_is_replaced() {
    let world = world(3);
    assert!(!invoked(&world, RECEIVES_MAX).await);
    assert_eq!(open(&world.ticks).len(), 1);
}

//! What wake sends, what it leaves, and how much it holds.

mod lots;

use std::{sync::Mutex, time::Duration};

use futures::FutureExt;
use gridpost_core::{
    delivery::{Delivery, claim, parking::Parked, queue::Queue},
    subscription::SubscriptionKey,
};
use gridpost_testkit::{
    deployment::Deployment,
    faults::{Limits, Plan},
    queue::QueueSettings,
};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::*;

const KIB: usize = 1_024;

const NOW: i64 = 103;

const SETTINGS: Settings = Settings {
    retry_shards: 2,
    queue_message_bytes_max: 300 * KIB,
    configuration_kept_for: Duration::from_secs(15),
    configuration_stale_for: Duration::from_secs(60),
};

fn at_minute(minute: i64) -> Timestamp {
    Timestamp::from_millis(minute * 60_000)
}

fn parked(id: u128, minute: i64, shard: usize, body: String) -> Parked {
    let (id, group) = (Uuid::from_u128(id), "g".to_owned());
    Parked {
        id,
        due: at_minute(minute),
        parked_at: Timestamp::default(),
        shard,
        group,
        postponed: 0,
        lot: None,
        watch: None,
        body,
    }
}

/// A delivery's message with one event of about so many bytes.
fn message(id: u128, bytes: usize) -> String {
    let event = RawValue::from_string(format!(r#"{{"data":"{}"}}"#, "x".repeat(bytes)));
    Delivery::new(
        Uuid::from_u128(id),
        SubscriptionKey { topic: "t".to_owned(), name: "s".to_owned() },
        Uuid::nil(),
        at_minute(1),
        "1".to_owned(),
        vec![event.expect("JSON")],
    )
    .encode()
}

/// A deployment in minute [`NOW`] whose wake cursor is `noted`.
struct Fixture {
    deployment: Deployment,
}

impl Fixture {
    async fn new(noted: i64, due: Vec<Parked>) -> Self {
        let queues = QueueSettings {
            retry_shards: SETTINGS.retry_shards,
            message_bytes_max: SETTINGS.queue_message_bytes_max,
            ..QueueSettings::CALM
        };
        let deployment = Deployment::with_queues(at_minute(NOW), queues);
        WakeCursor::save(&*deployment.tables, noted).await.expect("noted");
        for parked in due {
            deployment.tables.park(&parked).await.expect("parked");
        }
        Self { deployment }
    }

    /// Calls to the parking lot and the queues fail by these plans.
    fn context(&self, parking: Plan, sending: Plan) -> Context {
        let here = &self.deployment;
        let tables = here.apart(&here.tables, parking);
        Context {
            clock: Arc::clone(&here.clock) as _,
            sender: here.apart(&here.queues, sending),
            parking: Arc::clone(&tables) as _,
            due: tables,
            cursor: here.of(&here.tables),
            configuration: here.of(&here.tables),
            payloads: Arc::clone(&here.payloads) as _,
            meter: Arc::clone(&here.meter) as _,
            settings: SETTINGS,
        }
    }

    async fn run(&self) -> Woken {
        let context = self.context(Plan::default(), Plan::default());
        wake(&context, at_minute(NOW + 60)).await.expect("woken")
    }

    fn noted(&self) -> i64 {
        noted_in(&*self.deployment.tables)
    }

    fn sent_to(&self, shard: usize) -> usize {
        self.deployment.queues.sent_to(Queue::Retry(shard)).len()
    }

    fn left(&self) -> usize {
        self.deployment.tables.parked_ids().len()
    }
}

fn noted_in(tables: &dyn WakeCursor) -> i64 {
    let noted = tables.load().now_or_never().expect("a fake answers at once");
    noted.expect("readable").expect("a minute")
}

/// With many minutes to catch up on, some read always fails: not every run may begin with it.
#[tokio::test(start_paused = true)]
async fn a_read_that_fails_is_made_again_by_the_same_run() {
    let fixture = Fixture::new(100, vec![parked(1, 101, 0, "{}".to_owned())]).await;
    let context = fixture.context(Plan::failing([2]), Plan::default());
    let woken = wake(&context, at_minute(NOW + 60)).await.expect("woken");
    assert_eq!(woken, Woken { sent: 1, postponed: 0 });
    assert_eq!((fixture.noted(), fixture.left()), (NOW + 1, 0));
}

#[tokio::test(start_paused = true)]
async fn minutes_that_no_run_has_seen_are_made_up_for() {
    let due = [60, 62, 103, 104].map(|minute| parked(1, minute, 0, "{}".to_owned()));
    let fixture = Fixture::new(60, due.to_vec()).await;
    let marks = Arc::<Mutex<Vec<i64>>>::default();
    for number in 3..20 {
        let (marks, tables) = (Arc::clone(&marks), Arc::clone(&fixture.deployment.tables));
        fixture.deployment.injector.interfere(number, move || {
            marks.lock().expect("no panic while held").push(noted_in(&*tables));
        });
    }
    assert_eq!(fixture.run().await, Woken { sent: 4, postponed: 0 });
    assert_eq!((fixture.noted(), fixture.sent_to(0), fixture.left()), (104, 4, 0));
    // How far it has come is noted on the way, too.
    let mut marks = marks.lock().expect("no panic while held").clone();
    marks.dedup();
    assert!(marks.len() > 5 && marks.is_sorted(), "{marks:?}");
}

#[tokio::test(start_paused = true)]
async fn the_next_run_begins_at_the_minute_that_could_not_be_read() {
    let due = [100, 102].map(|minute| parked(1, minute, 0, "{}".to_owned()));
    let fixture = Fixture::new(100, due.to_vec()).await;
    // Of the calls, 8 read minute 100, one removes what was in it, and then minute 101 is read. One
    // of its partitions comes again when the others are read, and a third time.
    let context = fixture.context(Plan::failing([11, 43, 44]), Plan::default());
    wake(&context, at_minute(NOW + 60)).await.expect_err("one partition was not read");
    assert_eq!((fixture.noted(), fixture.sent_to(0)), (101, 2), "what could be read was sent");
}

#[tokio::test(start_paused = true)]
async fn no_more_is_in_hand_than_a_page_for_each_partition() {
    const LARGE: usize = 300 * KIB;
    let of_minute = |minute: i64, count: u128| {
        let id = move |number| number + 1_000 * u128::try_from(minute).expect("positive");
        (0..count).map(move |number| parked(id(number), minute, 0, "x".repeat(LARGE)))
    };
    // 184 MB that are due in one minute, and 30 in two others.
    let due = of_minute(101, 600).chain(of_minute(102, 50)).chain(of_minute(103, 50)).collect();
    let fixture = Fixture::new(100, due).await;
    assert_eq!(fixture.run().await, Woken { sent: 700, postponed: 0 });
    assert_eq!(fixture.left(), 0);
    let most = fixture.deployment.tables.parked_bytes_in_hand_max();
    assert!(most <= PAGES_AT_ONCE * (KIB * KIB + LARGE), "{most} bytes were in hand");
}

#[tokio::test(start_paused = true)]
async fn what_is_parked_for_a_queue_that_is_gone_goes_to_one_that_is_there() {
    let due = (0..4).map(|shard| parked(shard, 101, shard as usize, "{}".to_owned()));
    let fixture = Fixture::new(101, due.collect()).await;
    assert_eq!(fixture.run().await, Woken { sent: 4, postponed: 0 });
    assert_eq!((fixture.sent_to(0), fixture.sent_to(1), fixture.left()), (2, 2, 0));
    assert_eq!(fixture.noted(), NOW + 1);
}

#[tokio::test(start_paused = true)]
async fn what_no_longer_fits_a_message_goes_to_the_payload_bucket() {
    let due = vec![parked(1, 101, 0, message(1, 310 * KIB)), parked(2, 101, 0, message(2, KIB))];
    let fixture = Fixture::new(101, due).await;
    assert_eq!(fixture.run().await, Woken { sent: 2, postponed: 0 });
    let stored = fixture.deployment.payloads.get(&claim::key(Uuid::from_u128(1))).await;
    let stored = stored.expect("readable").expect("the events of the large one");
    assert!(stored.len() > 310 * KIB);
    let sent = fixture.deployment.queues.sent_to(Queue::Retry(0));
    let claimed = sent.iter().filter(|sent| sent.body.contains("\"claim\"")).count();
    assert_eq!((sent.len(), claimed), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn what_can_never_be_sent_is_parked_anew_and_holds_up_no_minute() {
    let unreadable = "x".repeat(310 * KIB);
    let fixture = Fixture::new(101, vec![parked(1, 101, 0, unreadable.clone())]).await;
    assert_eq!(fixture.run().await, Woken { sent: 0, postponed: 1 });
    assert_eq!(fixture.noted(), NOW + 1, "its minute is finished");
    let later = at_minute(NOW + 5);
    let page = fixture.deployment.tables.due_in(later.as_minutes(), 1, None).await.expect("a page");
    let want = Parked {
        due: later,
        postponed: 1,
        parked_at: page.due[0].parked_at,
        ..parked(1, 101, 0, unreadable)
    };
    assert_eq!(page.due, [want], "nothing of it is lost, and there is one of it");
    assert_eq!(fixture.left(), 1);
    let counts = fixture.deployment.meter.counts();
    let counts: Vec<_> = counts.iter().map(ToString::to_string).collect();
    assert_eq!(counts, ["StuckParkedCount  1"]);
}

/// Wherever parking a delivery again stops, it is parked: twice at worst.
#[tokio::test(start_paused = true)]
async fn what_can_not_be_sent_is_never_parked_nowhere() {
    for call in 1..8 {
        let unreadable = "x".repeat(310 * KIB);
        let fixture = Fixture::new(101, vec![parked(1, 101, 0, unreadable)]).await;
        let plan = Plan { calls_max: Some(call), ..Plan::default() };
        let _ = wake(&fixture.context(plan, Plan::default()), at_minute(NOW + 60)).await;
        assert!(fixture.left() > 0, "it is nowhere after {call} calls");
        fixture.run().await;
        assert!(fixture.left() > 0, "it is nowhere after {call} calls and another run");
    }
}

#[tokio::test(start_paused = true)]
async fn what_its_queue_refuses_stays_until_its_minute_is_past() {
    for (minute, left_in) in [(NOW + 1, NOW + 1), (NOW, NOW), (NOW - 1, NOW + 5)] {
        let fixture = Fixture::new(102, vec![parked(8, minute, 0, "{}".to_owned())]).await;
        let context = fixture.context(Plan::default(), Plan::failing([1]));
        let woken = wake(&context, at_minute(NOW + 60)).await.expect("woken");
        let postponed = usize::from(left_in > NOW + 1);
        assert_eq!(woken, Woken { sent: 0, postponed }, "minute {minute}");
        let page = fixture.deployment.tables.due_in(left_in, 0, None).await.expect("a page");
        assert_eq!((page.due.len(), fixture.left()), (1, 1), "minute {minute}");
        assert_eq!(fixture.noted(), left_in.min(NOW + 1), "minute {minute}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_and_not_removed_is_sent_once_more() {
    let fixture = Fixture::new(101, vec![parked(1, 101, 0, "{}".to_owned())]).await;
    // Of the calls, one reads the first partition, one the second one, and one removes what was in it.
    let context = fixture.context(Plan::failing([3]), Plan::default());
    wake(&context, at_minute(NOW + 60)).await.expect_err("it was not removed");
    assert_eq!((fixture.noted(), fixture.left()), (101, 1));
    assert_eq!(fixture.run().await, Woken { sent: 1, postponed: 0 });
    assert_eq!((fixture.noted(), fixture.left(), fixture.sent_to(0)), (NOW + 1, 0, 2));
}

/// Calls under way may have sent deliveries: given up, they would be sent again.
#[tokio::test(start_paused = true)]
async fn a_cursor_that_can_not_be_noted_gives_up_nothing() {
    let due = (101..=104).flat_map(|minute| {
        (0..40).map(move |id| parked(id + 40 * (minute as u128), minute, 0, "{}".to_owned()))
    });
    let fixture = Fixture::new(100, due.collect()).await;
    let slow = Plan { latency_max: Duration::from_millis(200), ..Plan::default() };
    let cursor = fixture.deployment.apart(&fixture.deployment.tables, Plan::failing([2]));
    let context = Context { cursor, ..fixture.context(slow.clone(), slow) };
    wake(&context, at_minute(NOW + 60)).await.expect_err("it was not noted once");
    assert_eq!((fixture.noted(), fixture.left(), fixture.sent_to(0)), (NOW + 1, 0, 160));
}

#[tokio::test(start_paused = true)]
async fn a_run_stops_in_time_and_the_next_one_goes_on() {
    let due = (0..2_000).map(|id| parked(id, 101, 0, "{}".to_owned())).collect();
    let fixture = Fixture::new(101, due).await;
    let slow = Plan { latency_max: Duration::from_secs(2), ..Plan::default() };
    let mut runs = 0;
    while fixture.left() > 0 {
        let began = fixture.deployment.clock.now();
        let context = fixture.context(slow.clone(), slow.clone());
        wake(&context, began + Duration::from_secs(40)).await.expect("woken");
        let took = fixture.deployment.clock.now().since(began);
        // What was under way: a call to send and one to remove.
        assert!(took < Duration::from_secs(40 + 3 * 20), "a run took {took:?}");
        assert!(
            fixture.left() == 0 || fixture.noted() == 101,
            "it is forgotten: {}",
            fixture.noted()
        );
        runs += 1;
    }
    assert!(runs > 1, "one run did it all");
    assert!(fixture.sent_to(0) >= 2_000);
}

#[tokio::test(start_paused = true)]
async fn a_minute_with_very_many_does_not_hold_up_the_next_one() {
    let many = (0..8_000).map(|id| parked(id, 101, 0, "{}".to_owned()));
    let others = (102..=104).map(|minute| parked(9_000, minute, 1, "{}".to_owned()));
    let fixture = Fixture::new(101, many.chain(others).collect()).await;
    let slow = Plan { latency_max: Duration::from_millis(200), ..Plan::default() };
    let context = fixture.context(slow.clone(), slow);
    wake(&context, fixture.deployment.clock.now() + Duration::from_secs(30)).await.expect("woken");
    assert!(fixture.left() > 1_000, "one run was enough for all");
    assert_eq!(fixture.sent_to(1), 3, "each of the others");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_effect_and_fails_makes_a_duplicate_at_worst() {
    let due = (0..50).map(|id| parked(id, 102, 0, "{}".to_owned())).collect();
    let fixture = Fixture::new(101, due).await;
    for _ in 0..20 {
        let plan = Plan { fails_after: 0.2, fails_before: 0.2, ..Plan::default() };
        let _ = wake(&fixture.context(plan.clone(), plan), at_minute(NOW + 60)).await;
    }
    fixture.run().await;
    let due_later = fixture.left();
    assert!(fixture.sent_to(0) + due_later >= 50, "{} sent, {due_later} left", fixture.sent_to(0));
}

/// Two thousand a second, with calls of 20 ms at most and small pages: a minute in which a great
/// many are due is over before the next one.
#[tokio::test(start_paused = true)]
async fn a_run_sends_many_calls_at_once() {
    let due = (1..=20_000).map(|id| parked(id, NOW, (id % 2) as usize, message(id, 10)));
    let fixture = Fixture::new(NOW, due.collect()).await;
    let plan = Plan {
        latency_max: Duration::from_millis(20),
        partition: Some(Limits::DYNAMODB),
        as_adapters: true,
        ..Plan::default()
    };
    let until = at_minute(NOW) + Duration::from_secs(10);
    let woken = wake(&fixture.context(plan.clone(), plan), until).await.expect("woken");
    assert_eq!((woken.sent, fixture.left()), (20_000, 0));
}

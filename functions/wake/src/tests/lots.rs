//! What wake sends of the lots of paused event subscriptions.

use gridpost_core::{
    delivery::parking,
    subscription::{EventSubscription, Pauses, pause::PAUSE_MAX},
    topic::Topic,
};
use gridpost_ports::Configuration;
use gridpost_testkit::{
    faults::{Fault, Limits},
    fixtures,
};

use super::*;
use crate::lot::REMOVED_WITHIN;

fn subscription(pauses: Pauses) -> EventSubscription {
    EventSubscription { pauses, ..fixtures::subscription("s") }
}

fn paused(runs: bool) -> Pauses {
    Pauses::default().paused(runs, None, at_minute(NOW - 30)).expect("it may be")
}

/// Held deliveries with these numbers, all due at that minute.
fn held(numbers: std::ops::Range<u128>, minute: i64) -> Vec<Parked> {
    let uid = subscription(Pauses::default()).uid;
    let one = |id| Parked { lot: Some(uid), ..parked(id, minute, 0, message(id, 10)) };
    numbers.map(one).collect()
}

/// A deployment with one event subscription, or none, whose lot holds that and is watched.
async fn fixture(pauses: Option<Pauses>, mut lot: Vec<Parked>) -> Fixture {
    let one = subscription(Pauses::default());
    lot.push(Parked::watch(&one.key, one.uid, one.uid, at_minute(NOW)));
    let fixture = Fixture::new(NOW, lot).await;
    let topic = Topic { name: one.key.topic, ..fixtures::topic() };
    let all = pauses.map(subscription).into_iter().collect();
    fixture.deployment.tables.configure(topic, all);
    fixture
}

impl Fixture {
    /// The delays of what was sent, in seconds.
    fn delays(&self) -> Vec<u32> {
        let sent = self.deployment.queues.sent().into_iter();
        sent.map(|(_, message)| message.delay_s).collect()
    }

    /// Runs wake minute by minute. Returns how many each run sent.
    async fn run_for(&self, minutes: i64) -> Vec<usize> {
        let mut sent = Vec::new();
        for _ in 0..minutes {
            let now = self.deployment.clock.now();
            let context = self.context(Plan::default(), Plan::default());
            sent.push(wake(&context, now + Duration::from_secs(40)).await.expect("woken").sent);
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        sent
    }

    fn watch_of(&self, id: Uuid) -> Parked {
        let one = subscription(Pauses::default());
        Parked::watch(&one.key, one.uid, id, self.deployment.clock.now())
    }

    /// Parks a watch under each minute, with these ids.
    async fn watch(&self, minutes: std::ops::Range<i64>, id: impl Fn(i64) -> Uuid) {
        for minute in minutes {
            let watch = Parked { due: at_minute(minute), ..self.watch_of(id(minute)) };
            self.deployment.tables.park(&watch).await.expect("parked");
        }
    }

    async fn watches(&self) -> usize {
        let mut watches = 0;
        for minute in NOW - 20..NOW + 60 {
            for partition in 0..gridpost_ports::PARKED_PARTITIONS {
                let page = self.deployment.tables.due_in(minute, partition, None).await;
                watches += page.expect("a page").due.len();
            }
        }
        watches
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_leaves_while_the_pause_holds() {
    for runs in [false, true] {
        let fixture = fixture(Some(paused(runs)), held(1..30, NOW + 600)).await;
        assert_eq!(fixture.run_for(30).await, [0; 30]);
        assert_eq!((fixture.left(), fixture.watches().await), (29, 1), "runs: {runs}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_ends_meanwhile_leaves_in_time() {
    let lot = [held(1..4, NOW + 5), held(4..9, NOW + 600)].concat();
    let fixture = fixture(Some(paused(true)), lot).await;
    let sent = fixture.run_for(10).await;
    assert_eq!(sent, [0, 0, 0, 0, 3, 0, 0, 0, 0, 0], "in the minute before its end");
    assert_eq!((fixture.delays(), fixture.left()), (vec![60, 61, 61], 5));
}

/// Its key says where it lies, and its message goes on.
#[tokio::test(start_paused = true)]
async fn one_that_can_not_be_read_leaves_its_lot_as_well() {
    let uid = subscription(Pauses::default()).uid;
    let lot = parking::unreadable_lot(parking::lot_minute(uid));
    let held = held(1..4, NOW + 600).into_iter().map(|held| Parked { lot, ..held });
    let fixture = fixture(Some(paused(false).resumed(at_minute(NOW - 1))), held.collect()).await;
    assert_eq!((fixture.run_for(1).await, fixture.left()), (vec![3], 0));
}

#[tokio::test(start_paused = true)]
async fn a_resumed_lot_comes_back_in_the_next_run_by_its_size() {
    let resumed = paused(false).resumed(at_minute(NOW - 1));
    let fixture = fixture(Some(resumed), held(1..1_201, NOW + 600)).await;
    assert_eq!(fixture.run_for(1).await, [1_200]);
    let mut delays = fixture.delays();
    delays.sort_unstable();
    let of = |delay: u32| delays.iter().filter(|it| **it == delay).count();
    // 500 in a second, once they are surely removed; delays are whole seconds, rounded up.
    assert_eq!((of(10), of(11), of(12), of(13)), (1, 500, 500, 199));
    assert_eq!((fixture.left(), fixture.watches().await), (0, 1));
}

/// Held again by a second pause, with another end, before what the first one had sent was removed.
#[tokio::test(start_paused = true)]
async fn a_delivery_that_lies_there_twice_is_removed_twice() {
    let later = held(1..4, NOW + 700).into_iter();
    let later = later.map(|it| Parked { parked_at: at_minute(NOW - 5), ..it }).collect();
    let twice = [held(1..4, NOW + 600), later].concat();
    let fixture = fixture(Some(paused(false).resumed(at_minute(NOW - 1))), twice).await;
    assert_eq!(fixture.run_for(2).await, [6, 0]);
    assert_eq!(fixture.left(), 0);
    let history = fixture.deployment.history.lock().expect("no panic while held");
    assert!(
        history.removed_after_reparking.is_empty(),
        "each row is removed with its own parked_at"
    );
}

/// Copies of dispatch hold what they get until they have heard that the pause is over.
#[tokio::test(start_paused = true)]
async fn what_is_resumed_just_now_waits_until_dispatch_has_heard_of_it() {
    let fixture = fixture(Some(paused(false).resumed(at_minute(NOW))), held(1..3, NOW + 600)).await;
    assert_eq!(fixture.run_for(1).await, [2]);
    assert_eq!(fixture.delays(), [15, 16]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_stays_until_nothing_can_come_any_more() {
    let fixture = fixture(Some(paused(false).resumed(at_minute(NOW - 1))), Vec::new()).await;
    fixture.run_for(10).await;
    let late = held(7..8, NOW + 600).remove(0);
    fixture.deployment.tables.park(&late).await.expect("held by a copy that had not heard of it");
    assert_eq!(fixture.run_for(1).await, [1]);
    fixture.run_for(12).await;
    assert_eq!(fixture.watches().await, 0);
}

/// Nothing can come any more, but what is there could not be sent: without its watch, no run would find it.
#[tokio::test(start_paused = true)]
async fn a_watch_stays_while_deliveries_are_held() {
    let resumed = paused(false).resumed(at_minute(NOW - 1));
    let fixture = fixture(Some(resumed), held(1..4, NOW + 600)).await;
    for _ in 0..25 {
        let context = fixture.context(Plan::default(), Plan::failing(1..100));
        let _ = wake(&context, fixture.deployment.clock.now() + Duration::from_secs(40)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!((fixture.left(), fixture.watches().await), (3, 1));
    assert_eq!((fixture.run_for(1).await, fixture.left()), (vec![3], 0));
}

/// dispatch may hold it again at once, and that must not be what is removed.
#[tokio::test(start_paused = true)]
async fn what_is_over_already_comes_after_its_removal() {
    let fixture = fixture(Some(paused(true)), held(1..4, NOW - 5)).await;
    assert_eq!(fixture.run_for(1).await, [3]);
    assert!(fixture.delays().into_iter().all(|delay| (10..12).contains(&delay)));
}

/// Whichever call is slow: what dispatch holds again as soon as it was sent back is not removed.
#[tokio::test(start_paused = true)]
async fn what_is_held_again_is_not_removed() {
    // In one partition, so that they leave in one page.
    let lot = || held(1..25, NOW - 5).into_iter().filter(|held| held.id.as_u128() % 8 == 0);
    let slow = |call| Plan {
        calls: [(call, Fault::Slow(Duration::from_secs(15)))].into(),
        ..Plan::default()
    };
    let plans = (1..40).map(|call| (slow(call), Plan::default()));
    let plans = plans.chain((1..4).map(|call| (Plan::default(), slow(call))));
    for (row, (parking, sending)) in plans.enumerate() {
        let fixture = fixture(Some(paused(true)), lot().collect()).await;
        let context = fixture.context(parking, sending);
        let first = lot().next().expect("one of three");
        let again = async {
            let queues = &fixture.deployment.queues;
            for _ in 0..600 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                if !queues.sent().is_empty() {
                    break;
                }
            }
            tokio::time::sleep(REMOVED_WITHIN).await;
            fixture.deployment.tables.park(&first).await.expect("held again");
        };
        let (_, ()) = tokio::join!(wake(&context, at_minute(NOW + 60)), again);
        let left = fixture.deployment.tables.parked_ids();
        assert!(left.contains(&first.id), "row {row}: {left:?}");
        let sent = fixture.deployment.queues.sent().len();
        assert!(sent + left.len() >= 3, "row {row}: {sent} sent, {left:?}");
    }
}

/// A pause that ends by itself: what waits for that comes back as after a resumption, not at once.
#[tokio::test(start_paused = true)]
async fn a_pause_that_ends_by_itself_lets_go_by_the_lots_size() {
    let begun =
        Timestamp::from_millis(at_minute(NOW).as_millis() + 30_000 - PAUSE_MAX.as_millis() as i64);
    let pauses = Pauses::default().paused(false, None, begun).expect("it may be");
    let until = pauses.open().expect("open").until;
    let lot = held(1..2_001, NOW).into_iter().map(|held| Parked { due: until, ..held });
    let fixture = fixture(Some(pauses), lot.collect()).await;
    assert_eq!(fixture.run_for(2).await, [0, 2_000]);
    let mut seconds = fixture.delays();
    seconds.sort_unstable();
    seconds.dedup();
    assert!(seconds.len() >= 4, "500 in a second: {seconds:?}");
}

/// One call hangs: what the others sent is removed in time, and comes once.
#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_keeps_no_others() {
    let resumed = paused(false).resumed(at_minute(NOW - 1));
    let lot = held(1..800, NOW + 600).into_iter().filter(|held| held.id.as_u128() % 8 == 0);
    let fixture = fixture(Some(resumed), lot.collect()).await;
    let calls = [(9, Fault::Slow(Duration::from_secs(20)))].into();
    let sending = Plan { calls, as_adapters: true, ..Plan::default() };
    let context = fixture.context(Plan::default(), sending);
    wake(&context, at_minute(NOW) + Duration::from_secs(40)).await.expect("woken");
    assert_eq!(fixture.left(), 10, "those of that call alone");
}

/// A page of a large lot that takes long to send: what was sent is removed in time, the rest stays.
#[tokio::test(start_paused = true)]
async fn a_slow_queue_makes_no_duplicates() {
    let resumed = paused(false).resumed(at_minute(NOW - 1));
    let fixture = fixture(Some(resumed), held(1..1_000, NOW + 600)).await;
    let second = Fault::Slow(Duration::from_secs(1));
    let calls = (1..2_000).map(|call| (call, second)).collect();
    let sending = Plan { calls, as_adapters: true, ..Plan::default() };
    for _ in 0..10 {
        let context = fixture.context(Plan::default(), sending.clone());
        let until = fixture.deployment.clock.now() + Duration::from_secs(40);
        wake(&context, until).await.expect("woken");
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    assert_eq!((fixture.deployment.queues.sent().len(), fixture.left()), (999, 0));
}

/// Two event subscriptions whose lots have one minute: each finds its own there.
#[tokio::test(start_paused = true)]
async fn a_lot_leaves_what_another_one_holds() {
    let resumed = subscription(paused(false).resumed(at_minute(NOW - 1)));
    let uid = Uuid::from_u128(resumed.uid.as_u128() ^ (1 << 90));
    let other = EventSubscription { uid, pauses: paused(false), ..fixtures::subscription("other") };
    assert_eq!(parking::lot_minute(resumed.uid), parking::lot_minute(uid));
    let mut lot = held(1..4, NOW + 600);
    lot.extend(held(4..9, NOW + 600).into_iter().map(|it| Parked { lot: Some(uid), ..it }));
    for one in [&resumed, &other] {
        lot.push(Parked::watch(&one.key, one.uid, one.uid, at_minute(NOW)));
    }
    let fixture = Fixture::new(NOW, lot).await;
    let topic = Topic { name: resumed.key.topic.clone(), ..fixtures::topic() };
    fixture.deployment.tables.configure(topic, vec![resumed, other]);
    assert_eq!((fixture.run_for(2).await, fixture.left()), (vec![3, 0], 5));
}

#[tokio::test(start_paused = true)]
async fn what_is_held_for_a_deleted_event_subscription_comes_back() {
    let fixture = fixture(None, held(1..6, NOW + 600)).await;
    assert_eq!(fixture.run_for(1).await, [5]);
}

#[tokio::test(start_paused = true)]
async fn paused_again_it_is_watched_anew() {
    let fixture = fixture(Some(paused(false).resumed(at_minute(NOW - 1))), Vec::new()).await;
    fixture.run_for(10).await;
    let tables = &fixture.deployment.tables;
    let now = fixture.deployment.clock.now();
    let key = subscription(Pauses::default()).key;
    let stored = tables.subscription(&key).await.expect("readable").expect("there");
    let again = stored.pauses.paused(false, None, now).expect("it may be");
    let topic = tables.stored_topics().remove(0);
    tables.configure(topic, vec![EventSubscription { pauses: again, ..stored }]);
    fixture.run_for(30).await;
    assert_eq!(fixture.watches().await, 1);
}

/// Whatever fails once, the next runs make up for it, and the watch is not lost.
#[tokio::test(start_paused = true)]
async fn a_failure_loses_nothing() {
    for call in 1..40 {
        let resumed = paused(false).resumed(at_minute(NOW - 1));
        let fixture = fixture(Some(resumed), held(1..30, NOW + 600)).await;
        let context = fixture.context(Plan::failing([call]), Plan::default());
        let _ = wake(&context, at_minute(NOW + 60)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        fixture.run_for(2).await;
        assert_eq!((fixture.left(), fixture.watches().await), (0, 1), "call {call}");
        assert!(fixture.deployment.queues.sent().len() >= 29, "call {call}");
    }
}

/// Runs that could not remove a watch from where they met it have left a copy in each minute. Few runs
/// bring them together, though a partition takes two writes a second.
#[tokio::test(start_paused = true)]
async fn copies_of_a_watch_become_one() {
    let fixture = fixture(Some(paused(false).resumed(at_minute(NOW - 1))), Vec::new()).await;
    fixture.watch(NOW - 20..NOW, |_| subscription(Pauses::default()).uid).await;
    WakeCursor::save(&*fixture.deployment.tables, NOW - 20).await.expect("noted");
    for _ in 0..4 {
        let partition = Some(Limits { writes: 2, reads: 6 });
        let context = fixture.context(Plan { partition, ..Plan::default() }, Plan::default());
        let _ = wake(&context, fixture.deployment.clock.now() + Duration::from_secs(40)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(fixture.watches().await, 1);
}

/// Another run has parked the second copy and removes the first one late. This one can't park it.
#[tokio::test(start_paused = true)]
async fn runs_that_overlap_lose_no_watch() {
    for call in 1..40 {
        let fixture = fixture(Some(paused(false)), Vec::new()).await;
        let uid = subscription(Pauses::default()).uid;
        fixture.watch(NOW..NOW + 1, |_| uid).await;
        let latency_max = Duration::from_millis(10);
        let plan = Plan { latency_max, ..Plan::failing([call]) };
        let _ = wake(&fixture.context(plan, Plan::default()), at_minute(NOW + 60)).await;
        let first = Parked { due: at_minute(NOW), ..fixture.watch_of(uid) };
        fixture.deployment.tables.remove(&first).await.expect("removed");
        assert!(fixture.watches().await > 0, "call {call}");
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_pause_lasts_one_watch_is_enough() {
    let fixture = fixture(Some(paused(false)), Vec::new()).await;
    fixture.watch(NOW..NOW + 2, |minute| Uuid::from_u128(minute as u128)).await;
    fixture.run_for(1).await;
    assert_eq!(fixture.watches().await, 1);
}

/// manage parks a watch before it stores the pause.
#[tokio::test(start_paused = true)]
async fn a_pause_that_is_not_seen_yet_is_watched() {
    // In each partition: it is met before the old watch, and behind it.
    for id in 1..=16 {
        let fixture = fixture(Some(paused(false).resumed(at_minute(NOW - 1))), Vec::new()).await;
        fixture.run_for(19).await;
        let now = fixture.deployment.clock.now().as_minutes();
        fixture.watch(now + 1..now + 2, |_| Uuid::from_u128(id)).await;
        fixture.run_for(3).await;
        assert!(fixture.watches().await > 0, "{id}");
    }
}

/// All that came with the pause's end would come at once.
#[tokio::test(start_paused = true)]
async fn what_leaves_while_its_pause_can_not_be_read_is_spread() {
    let soon = at_minute(NOW) + Duration::from_secs(30);
    let lot = held(1..2_001, NOW).into_iter().map(|held| Parked { due: soon, ..held });
    let fixture = fixture(Some(paused(false)), lot.collect()).await;
    let here = &fixture.deployment;
    let configuration: Arc<dyn Configuration> = here.apart(&here.tables, Plan::failing(1..9));
    let context = fixture.context(Plan::default(), Plan::default());
    wake(&Context { configuration, ..context }, at_minute(NOW + 1)).await.expect("woken");
    let delays: BTreeSet<_> = fixture.delays().into_iter().collect();
    assert_eq!((fixture.left(), delays), (0, (30..35).collect()), "500 in a second");
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_fails_holds_up_no_other() {
    let mut unopened = 0;
    for call in 1..60 {
        let resumed = paused(false).resumed(at_minute(NOW - 1));
        let fixture = fixture(Some(resumed), held(1..30, NOW + 600)).await;
        let context = fixture.context(Plan::failing([call]), Plan::default());
        let _ = wake(&context, at_minute(NOW + 60)).await;
        unopened += usize::from(fixture.left() == 29);
        assert!([0, 3, 4, 29].contains(&fixture.left()), "call {call}: {} left", fixture.left());
    }
    assert!(unopened <= 1, "{unopened}");
}

/// More of them than would be let go in a minute if they were resumed.
#[tokio::test(start_paused = true)]
async fn what_ends_during_a_pause_leaves_however_much_there_is() {
    let fixture = fixture(Some(paused(true)), held(1..31_001, NOW - 5)).await;
    assert_eq!((fixture.run_for(1).await, fixture.left()), (vec![31_000], 0));
}

/// Five lots of more than a run can send, of which four have their turn at once.
#[tokio::test(start_paused = true)]
async fn large_lots_hold_up_no_further_one() {
    let pauses = paused(false).resumed(at_minute(NOW - 1));
    let one = |number: u128| EventSubscription {
        uid: Uuid::from_u128(number),
        pauses: pauses.clone(),
        ..fixtures::subscription(&format!("s{number}"))
    };
    let all: Vec<_> = (1..=5).map(one).collect();
    let mut due = Vec::new();
    for (one, numbers) in all.iter().zip(0..) {
        due.push(Parked::watch(&one.key, one.uid, one.uid, at_minute(NOW)));
        let numbers = 1 + numbers * 2_000..(1 + numbers) * 2_000;
        let (lot, group) = (Some(one.uid), one.key.name.clone());
        due.extend(held(numbers, NOW + 600).into_iter().map(|it| Parked {
            lot,
            group: group.clone(),
            ..it
        }));
    }
    let fixture = Fixture::new(NOW, due).await;
    let topic = Topic { name: all[0].key.topic.clone(), ..fixtures::topic() };
    fixture.deployment.tables.configure(topic, all);
    let slow = Plan { latency_max: Duration::from_millis(100), ..Plan::default() };
    let until = at_minute(NOW) + Duration::from_secs(5);
    wake(&fixture.context(slow, Plan::default()), until).await.expect("woken");
    let sent = fixture.deployment.queues.sent();
    let of = |number: u128| {
        let group = format!("s{number}");
        sent.iter().filter(|(_, message)| message.group == group).count()
    };
    let each: Vec<_> = (1..=5).map(of).collect();
    assert!(each.iter().all(|sent| (300..1_999).contains(sent)), "{each:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_sends_no_more_of_a_lot_than_comes_back_in_a_minute() {
    let resumed = paused(false).resumed(at_minute(NOW - 1));
    let fixture = fixture(Some(resumed), held(1..30_101, NOW + 600)).await;
    let sent = fixture.run_for(2).await;
    assert_eq!((sent[0] + sent[1], fixture.left()), (30_100, 0));
    assert!((30_000..30_100).contains(&sent[0]), "{sent:?}: a page more at most");
}

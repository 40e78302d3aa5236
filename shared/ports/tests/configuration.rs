//! The configuration cache: what is cached, and when it is read again.

#[path = "configuration/reads.rs"]
mod reads;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::future::join_all;
use gridpost_core::{
    name,
    secret::Secret,
    subscription::{EventSubscription, SubscriptionKey},
    time::Timestamp,
    topic::{AccessKeys, Change, Revision, Topic},
};
use gridpost_ports::{
    Clock, Configuration, PortError, TopicKeys,
    configuration::{ConfigurationCache, Limits, SubscriptionLookup},
};
use gridpost_testkit::{
    clock::{BEGINNING, VirtualClock},
    dice::CountingDice,
    fixtures,
};
use tokio::time::sleep;
use uuid::Uuid;

const READ_TAKES: Duration = Duration::from_millis(5);

type StoredTopic = (Topic, Vec<(EventSubscription, u64)>);

/// A table that counts reads. Each takes a while, and shows the state at its beginning.
#[derive(Default)]
struct Stored {
    topics: Mutex<BTreeMap<String, StoredTopic>>,
    keys: Mutex<BTreeMap<String, (AccessKeys, u64)>>,
    key_reads: AtomicUsize,
    items_read: AtomicUsize,
    topic_reads: AtomicUsize,
    subscription_reads: AtomicUsize,
    is_down: AtomicBool,
}

impl Stored {
    fn put(&self, name: &str, number: u64, subscriptions: &[(&str, u128)]) {
        let written = subscriptions.iter().map(|(name, _)| Change::written(name));
        let before = Topic { name: name.to_owned(), revision: number - 1, ..fixtures::topic() };
        let topic = before.next(written);
        let subscription = |(name, uid): &(&str, u128)| {
            let uid = Uuid::from_u128(*uid);
            (EventSubscription { uid, ..fixtures::subscription(name) }, number)
        };
        let subscriptions = subscriptions.iter().map(subscription).collect();
        self.topics().insert(name.to_owned(), (topic, subscriptions));
    }

    fn topics(&self) -> MutexGuard<'_, BTreeMap<String, StoredTopic>> {
        self.topics.lock().expect("no panic while held")
    }

    fn reads(&self) -> (usize, usize) {
        let count = |reads: &AtomicUsize| reads.load(Ordering::Relaxed);
        (count(&self.topic_reads), count(&self.subscription_reads))
    }

    fn fail(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }

    async fn answer<T>(
        &self,
        reads: &AtomicUsize,
        answer: impl FnOnce() -> T,
    ) -> Result<T, PortError> {
        reads.fetch_add(1, Ordering::Relaxed);
        let found = answer();
        sleep(READ_TAKES).await;
        if self.is_down.load(Ordering::Relaxed) {
            return Err(PortError::new("dynamodb:GetItem", "ThrottlingException"));
        }
        Ok(found)
    }
}

#[async_trait]
impl Configuration for Stored {
    async fn topic(&self, name: &str) -> Result<Option<Topic>, PortError> {
        let found = || self.topics().get(name).map(|(topic, _)| topic.clone());
        self.answer(&self.topic_reads, found).await
    }

    async fn written(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<Vec<(EventSubscription, u64)>, PortError> {
        let is_asked_for = |one: &EventSubscription| {
            let is_it = |name: &&str| name::is_same(name, &one.key.name);
            names.is_none_or(|names| names.iter().any(is_it))
        };
        let found = || {
            let topics = self.topics();
            let all = topics.get(topic).map(|(_, all)| all.clone()).unwrap_or_default();
            let found: Vec<_> = all.into_iter().filter(|(one, _)| is_asked_for(one)).collect();
            self.items_read.fetch_add(found.len(), Ordering::Relaxed);
            found
        };
        self.answer(&self.subscription_reads, found).await
    }
}

#[async_trait]
impl TopicKeys for Stored {
    async fn keys(&self, topic: &str) -> Result<Option<(AccessKeys, u64)>, PortError> {
        let found = || self.keys.lock().expect("no panic while held").get(topic).cloned();
        self.answer(&self.key_reads, found).await
    }
}

struct Fixture {
    stored: Arc<Stored>,
    clock: VirtualClock,
    cache: ConfigurationCache,
}

impl Fixture {
    fn new(limits: Limits) -> Self {
        let (stored, clock) = (Arc::<Stored>::default(), VirtualClock::start());
        stored.put("t", 1, &[("s", 1)]);
        let dice = Arc::<CountingDice>::default();
        let cache =
            ConfigurationCache::new(Arc::clone(&stored) as _, Arc::new(clock), dice, limits);
        Self { stored, clock, cache }
    }

    async fn find(&self, uid: u128, number: u64) -> Result<bool, PortError> {
        self.find_for(uid, number, self.clock.now()).await
    }

    async fn find_for(
        &self,
        uid: u128,
        number: u64,
        received_at: Timestamp,
    ) -> Result<bool, PortError> {
        let key = SubscriptionKey { topic: "t".to_owned(), name: "s".to_owned() };
        let revision = Revision { created_at: fixtures::topic().created_at, number };
        let wanted =
            SubscriptionLookup { key: &key, uid: Uuid::from_u128(uid), revision, received_at };
        Ok(self.cache.subscription(wanted).await?.is_some())
    }

    async fn number(&self) -> Option<u64> {
        let topic = self.cache.topic("t").await.expect("readable");
        topic.map(|snapshot| snapshot.topic.revision)
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_read_is_used_until_it_is_too_old() {
    let fixture = Fixture::new(Limits::default());
    // Rolls of zero leave it the whole time.
    for (after_ms, reads) in [(0, (1, 1)), (1_985, (1, 1)), (5, (2, 1)), (1_985, (2, 1))] {
        sleep(Duration::from_millis(after_ms)).await;
        assert_eq!(fixture.number().await, Some(1));
        assert_eq!(fixture.stored.reads(), reads, "after {after_ms} ms more");
    }
    fixture.stored.put("t", 2, &[("s", 1)]);
    sleep(Duration::from_millis(10)).await;
    assert_eq!(fixture.number().await, Some(2), "two seconds after the read before");
    assert_eq!(fixture.stored.reads(), (3, 2), "event subscriptions only once the revision moved");
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_in_memory_is_read_anew_before_it_counts_as_deleted() {
    // (revision and uid in the table by then; uid and revision of the delivery; found?; reads)
    let table = [
        ((2, 1), (1, 1), true, 0, "known, and matched under no more than is known"),
        ((2, 1), (1, 2), true, 2, "known, but matched under more"),
        ((1, 1), (1, 5), true, 1, "known, and matched under more than there is"),
        ((2, 2), (2, 2), true, 2, "not known, and matched under more"),
        ((2, 2), (2, 1), true, 2, "not known, though matched under no more than is known"),
        ((2, 1), (9, 1), false, 2, "deleted, or another creation; something has changed"),
        ((1, 1), (9, 1), false, 1, "deleted, and nothing has changed"),
    ];
    for ((number, uid), (asked, matched_under), found, more_reads, row) in table {
        let fixture = Fixture::new(Limits::default());
        assert_eq!(fixture.number().await, Some(1), "{row}");
        let (topics, subscriptions) = fixture.stored.reads();
        fixture.stored.put("t", number, &[("s", uid)]);
        sleep(Duration::from_millis(1)).await;
        let is_found = fixture.find(asked, matched_under).await.expect("readable");
        let now = fixture.stored.reads();
        let made = now.0 - topics + now.1 - subscriptions;
        assert_eq!((is_found, made), (found, more_reads), "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_was_created_again_is_not_taken_for_the_old_one() {
    // It may have fewer changes than the old one, or more.
    for number in [3, 903] {
        let fixture = Fixture::new(Limits::default());
        fixture.stored.put("t", 900, &[("old", 9), ("s", 1)]);
        sleep(Duration::from_secs(2)).await;
        assert_eq!(fixture.number().await, Some(900));
        fixture.stored.put("t", number, &[("s", 2)]);
        let again = BEGINNING;
        fixture.stored.topics().get_mut("t").expect("there").0.created_at = again;
        sleep(Duration::from_millis(1)).await;
        let key = SubscriptionKey { topic: "t".to_owned(), name: "s".to_owned() };
        let revision = Revision { created_at: again, number };
        let (uid, received_at) = (Uuid::from_u128(2), fixture.clock.now());
        let wanted = SubscriptionLookup { key: &key, uid, revision, received_at };
        let found = fixture.cache.subscription(wanted).await.expect("read").expect("found");
        let topic = found.topic;
        assert_eq!((topic.topic.revision, found.subscription.uid), (number, uid));
        assert_eq!(topic.subscriptions.len(), 1, "what the old one had is gone");
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_read_that_began_after_the_message_arrived_is_evidence() {
    let fixture = Fixture::new(Limits::default());
    fixture.stored.put("t", 1, &[("other", 7)]);
    assert_eq!(fixture.number().await, Some(1));
    sleep(Duration::from_secs(3)).await;
    // A refresh saw the topic before the event subscription was created.
    let refresh = fixture.number();
    let arriving = async {
        sleep(Duration::from_millis(1)).await;
        fixture.stored.put("t", 2, &[("other", 7), ("s", 2)]);
        sleep(Duration::from_millis(1)).await;
        // Its sender may know of no newer revision.
        fixture.find(2, 1).await
    };
    let (number, found) = futures::join!(refresh, arriving);
    assert_eq!(number, Some(1));
    assert!(found.expect("readable"), "it was there when its message arrived");
}

#[tokio::test(start_paused = true)]
async fn evidence_is_read_once_for_all_that_arrived_before() {
    let fixture = Fixture::new(Limits::default());
    assert_eq!(fixture.number().await, Some(1));
    sleep(Duration::from_millis(1)).await;
    let received_at = fixture.clock.now();
    let all = (0..10).map(|_| fixture.find_for(9, 1, received_at));
    let found = join_all(all).await;
    assert!(found.into_iter().all(|found| !found.expect("readable")));
    assert_eq!(fixture.stored.reads(), (2, 1));
    // And again for those that arrive later.
    sleep(Duration::from_millis(1)).await;
    assert!(!fixture.find(9, 1).await.expect("readable"));
    assert_eq!(fixture.stored.reads(), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn all_who_ask_share_one_read() {
    let fixture = Fixture::new(Limits::default());
    let all = join_all((0..100).map(|_| fixture.cache.topic("t"))).await;
    assert!(all.into_iter().all(|topic| topic.expect("readable").is_some()));
    assert_eq!(fixture.stored.reads(), (1, 1));
    fixture.stored.put("t", 2, &[("s", 1)]);
    let all = (0..100).map(|_| fixture.find(1, 2));
    assert!(join_all(all).await.into_iter().all(|found| found.expect("readable")));
    assert_eq!(fixture.stored.reads(), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_read_goes_on_when_the_first_who_asked_has_gone() {
    let fixture = Fixture::new(Limits::default());
    let first = async {
        let soon = sleep(Duration::from_millis(2));
        tokio::select! { biased; () = soon => {}, _ = fixture.cache.topic("t") => {} }
    };
    let second = async {
        sleep(Duration::from_millis(1)).await;
        fixture.number().await
    };
    let ((), number) = futures::join!(first, second);
    assert_eq!((number, fixture.stored.reads()), (Some(1), (1, 1)));
    // A read without callers is started again.
    sleep(Duration::from_secs(3)).await;
    let gone = tokio::time::timeout(Duration::from_millis(2), fixture.cache.topic("t")).await;
    assert!(gone.is_err());
    assert_eq!((fixture.number().await, fixture.stored.reads()), (Some(1), (3, 1)));
}

#[tokio::test(start_paused = true)]
async fn while_the_table_can_not_be_read_memory_serves_for_a_bounded_time() {
    let fixture = Fixture::new(Limits::default());
    assert_eq!(fixture.number().await, Some(1));
    fixture.stored.fail(true);
    sleep(Duration::from_secs(50)).await;
    assert_eq!(fixture.number().await, Some(1));
    assert!(fixture.find(1, 7).await.expect("known"), "though it was matched under more");
    assert!(fixture.find(2, 1).await.is_err(), "memory is no evidence of a deletion");
    assert!(fixture.cache.topic("other").await.is_err(), "nothing is known of it");
    fixture.stored.put("t", 2, &[("s", 1)]);
    fixture.stored.fail(false);
    assert_eq!(fixture.number().await, Some(2));
    fixture.stored.fail(true);
    sleep(Duration::from_secs(61)).await;
    assert!(fixture.cache.topic("t").await.is_err());
    assert!(fixture.find(1, 1).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_by_bytes_and_the_least_used_go_first() {
    let bytes = {
        let fixture = Fixture::new(Limits::default());
        fixture.cache.topic("t").await.expect("read").expect("there").bytes()
    };
    let limits = Limits { bytes_max: 3 * bytes + bytes / 2, ..Limits::default() };
    let fixture = Fixture::new(limits);
    for (number, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        fixture.stored.put(name, 1, &[("s", number as u128)]);
    }
    // (who is asked for, how often the table was read by then)
    let asked = [("a", 1), ("b", 2), ("c", 3), ("a", 3), ("d", 4), ("a", 4), ("c", 4), ("b", 5)];
    for (number, (name, reads)) in asked.into_iter().enumerate() {
        assert!(fixture.cache.topic(name).await.expect("read").is_some());
        assert_eq!(fixture.stored.reads().0, reads, "{number}: {name}");
    }
    // Unknown names never take a topic's place.
    for number in 0..5_000 {
        assert!(fixture.cache.topic(&format!("no-{number}")).await.expect("read").is_none());
    }
    let reads = fixture.stored.reads().0;
    assert!(fixture.cache.topic("no-4999").await.expect("read").is_none(), "it is known by now");
    assert_eq!(fixture.stored.reads().0, reads);
    // A topic that exceeds the limit is cached alone.
    let many: Vec<_> = (0..500).map(|number| ("s", number)).collect();
    fixture.stored.put("large", 1, &many);
    for _ in 0..2 {
        assert!(fixture.cache.topic("large").await.expect("read").is_some());
    }
    assert_eq!(fixture.stored.reads().0, reads + 1);
}

#[tokio::test(start_paused = true)]
async fn copies_that_began_together_do_not_read_together() {
    let stored = Arc::<Stored>::default();
    stored.put("t", 1, &[("s", 1)]);
    let clock = VirtualClock::start();
    let limits = Limits { fresh_for: Duration::from_secs(10), ..Limits::default() };
    let copy = |seed| {
        let dice = Arc::new(gridpost_testkit::dice::SeededDice::new(seed));
        ConfigurationCache::new(Arc::clone(&stored) as _, Arc::new(clock), dice, limits)
    };
    let copies: Vec<_> = (0..20).map(copy).collect();
    let mut begun = Vec::new();
    for _ in 0..110 {
        join_all(copies.iter().map(|copy| copy.topic("t"))).await;
        begun.push(stored.reads().0);
        sleep(Duration::from_millis(100)).await;
    }
    let most = begun.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(begun[78] == 20 && begun[109] == 40, "each twice: {begun:?}");
    assert!(most.is_some_and(|most| most <= 6), "{begun:?}");
}

//! How much of a topic is read.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_change_of_one_of_500_reads_that_one() {
    let fixture = Fixture::new(Limits::default());
    let names: Vec<_> = (0..500).map(|number| format!("s{number:03}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
    fixture.stored.put("t", 1, &all);
    assert_eq!(fixture.number().await, Some(1));
    let items = || fixture.stored.items_read.load(Ordering::Relaxed);
    assert_eq!(items(), 500);

    let change = |revision, name: &str, uid: Option<u128>| {
        let mut topics = fixture.stored.topics();
        let (topic, all) = topics.get_mut("t").expect("there");
        all.retain(|(one, _)| one.key.name != name);
        let changed = match uid {
            Some(uid) => {
                let uid = Uuid::from_u128(uid);
                all.push((EventSubscription { uid, ..fixtures::subscription(name) }, revision));
                Change::written(name)
            }
            None => Change::deleted(name),
        };
        *topic = topic.next([changed]);
    };
    change(2, "s007", None);
    change(3, "s123", Some(9));
    change(4, "sNew", Some(10));
    sleep(Duration::from_secs(2)).await;
    let snapshot = fixture.cache.topic("t").await.expect("readable").expect("there");
    assert_eq!((snapshot.topic.revision, items()), (4, 502));
    let uid = |name: &str| snapshot.subscription(name).map(|one| one.uid.as_u128());
    let found = ["s006", "s007", "s123", "sNew"].map(uid);
    assert_eq!(found, [Some(1), None, Some(9), Some(10)]);
    assert_eq!(snapshot.subscriptions.len(), 500);
    let folded = |one: &Arc<EventSubscription>| name::folded(&one.key.name);
    assert!(snapshot.subscriptions.is_sorted_by_key(folded));

    // A cache that is far behind reads everything, as does one after a restore.
    for revision in 5..25 {
        change(revision, &format!("s{revision:03}"), Some(11));
    }
    sleep(Duration::from_secs(2)).await;
    assert_eq!((fixture.number().await, items()), (Some(24), 1_003));
    fixture.stored.put("t", 20, &all);
    sleep(Duration::from_secs(2)).await;
    assert_eq!((fixture.number().await, items()), (Some(20), 1_503));
}

#[tokio::test(start_paused = true)]
async fn what_a_transaction_shows_bit_by_bit_is_read_when_all_of_it_is_there() {
    let fixture = Fixture::new(Limits::default());
    fixture.stored.put("t", 1, &[("s", 1), ("other", 7)]);
    assert_eq!(fixture.number().await, Some(1));
    // The topic's item is visible, its event subscriptions' are not.
    {
        let mut topics = fixture.stored.topics();
        let (topic, _) = topics.get_mut("t").expect("there");
        let deleted = Change::Deleted("other".to_owned());
        *topic = topic.next([Change::Written("s".to_owned()), deleted]);
    }
    let written = async {
        sleep(READ_TAKES * 3 / 2).await;
        let mut topics = fixture.stored.topics();
        let (_, all) = topics.get_mut("t").expect("there");
        all.retain(|(one, _)| one.key.name == "s");
        (all[0].0.uid, all[0].1) = (Uuid::from_u128(2), 2);
    };
    sleep(Duration::from_secs(2)).await;
    let (snapshot, ()) = futures::join!(fixture.cache.topic("t"), written);
    let snapshot = snapshot.expect("readable").expect("there");
    let found: Vec<_> = snapshot.subscriptions.iter().map(|one| one.uid.as_u128()).collect();
    assert_eq!((snapshot.topic.revision, found), (2, vec![2]));
}

#[tokio::test(start_paused = true)]
async fn access_keys_are_read_for_those_who_ask_and_when_they_change() {
    let Fixture { stored, cache, .. } = Fixture::new(Limits::default());
    let keys = |text: &str| AccessKeys([Secret::new(text), Secret::new("b")]);
    let put = |text: &str, revision| {
        let mut all = stored.keys.lock().expect("no panic while held");
        all.insert("t".to_owned(), (keys(text), revision));
    };
    let next = |change| {
        let mut topics = stored.topics();
        let (topic, _) = topics.get_mut("t").expect("there");
        *topic = topic.next([change]);
    };
    next(Change::Keys);
    put("a", 2);
    let without = cache.topic("t").await.expect("readable").expect("there");
    assert_eq!((&without.keys, stored.key_reads.load(Ordering::Relaxed)), (&None, 0));

    let (clock, dice) = (Arc::new(VirtualClock::start()), Arc::<CountingDice>::default());
    let cache = ConfigurationCache::new(Arc::clone(&stored) as _, clock, dice, Limits::default())
        .with_keys(Arc::clone(&stored) as _);
    let read = async || {
        sleep(Duration::from_secs(2)).await;
        let snapshot = cache.topic("t").await.expect("readable").expect("there");
        (snapshot.keys.clone(), stored.key_reads.load(Ordering::Relaxed))
    };
    assert_eq!(read().await, (Some(keys("a")), 1));
    next(Change::Deleted("x".to_owned()));
    assert_eq!(read().await, (Some(keys("a")), 1));
    next(Change::Keys);
    put("c", 4);
    assert_eq!(read().await, (Some(keys("c")), 2));
}

#[tokio::test(start_paused = true)]
async fn what_a_warm_function_reads_for_an_event() {
    let (ingest, dispatch) = (Duration::from_secs(2), Duration::from_secs(10));
    // (milliseconds between events; reads for a thousand of them)
    let table = [
        (10_000, ingest, 1_000),
        (1_000, ingest, 500),
        (10, ingest, 5),
        (10_000, dispatch, 1_000),
        (1_000, dispatch, 100),
        (10, dispatch, 1),
    ];
    for (every_ms, fresh_for, want) in table {
        let fixture = Fixture::new(Limits { fresh_for, ..Limits::default() });
        let begun = fixture.clock.now();
        for number in 0..1_000 {
            fixture.clock.sleep_until(begun + Duration::from_millis(every_ms * number)).await;
            assert!(fixture.find(1, 1).await.expect("readable"));
        }
        assert_eq!(fixture.stored.reads(), (want, 1), "every {every_ms} ms, for {fresh_for:?}");
    }
}

//! Tables that functions write while they deliver, and redrive jobs. Each function has empty ones.

use gridpost_core::{
    delivery::{
        queue::Queue,
        redrive::Job,
        state::{DeliveryState, DeliveryStatus},
    },
    retry::health::Health,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{
    DeliveryStates, DueDeliveries, EndpointHealths, LateListeners, Listener, ParkingLot, Redrives,
    RequestRates, Saved, WaitingCount, WaitingDeliveries,
};
use uuid::Uuid;

use super::{Difference, job, key, parked, state};

async fn save(states: &impl DeliveryStates, state: &DeliveryState) -> Saved {
    states.save(state).await.expect("an answer")
}

async fn load(states: &impl DeliveryStates, number: u128) -> Option<DeliveryState> {
    states.load(Uuid::from_u128(number)).await.expect("an answer")
}

/// A state comes back as it was written, a revision later. A write under any other revision than the
/// stored one changes nothing.
pub async fn a_state_is_read_as_it_was_written<T: DeliveryStates>(tables: &T) {
    let first = state(7);
    assert_eq!(
        save(tables, &DeliveryState { revision: 1, ..first.clone() }).await,
        Saved::Conflict
    );
    assert_eq!(load(tables, 7).await, None, "nothing was there to be changed");
    assert_eq!(save(tables, &first).await, Saved::Written);
    let stored = DeliveryState { revision: 1, ..first.clone() };
    assert_eq!(load(tables, 7).await, Some(stored.clone()));
    for revision in [0, 2] {
        let other = DeliveryState { revision, events: 9, ..first.clone() };
        assert_eq!(save(tables, &other).await, Saved::Conflict, "revision {revision}");
        assert_eq!(load(tables, 7).await, Some(stored.clone()), "revision {revision}");
    }
    let ended = DeliveryState { status: DeliveryStatus::Ended, ..stored };
    assert_eq!(save(tables, &ended).await, Saved::Written);
    assert_eq!(load(tables, 7).await, Some(DeliveryState { revision: 2, ..ended }));
    assert_eq!(load(tables, 8).await, None);
}

/// Each creation of an event subscription has a health of its own.
pub async fn a_health_is_kept_under_its_uid<T: EndpointHealths>(tables: &T) {
    let uid = Uuid::from_u128(5);
    for revision in 0..2 {
        let health = tables.load(&key(), uid).await.expect("a health");
        assert_eq!(health.revision, revision);
        assert_eq!(tables.save(&key(), uid, &health).await.expect("an answer"), Saved::Written);
        let saved = tables.save(&key(), uid, &health).await.expect("an answer");
        assert_eq!(saved, Saved::Conflict, "once");
    }
    let other = tables.load(&key(), Uuid::from_u128(6)).await.expect("a health");
    assert_eq!(other, Health::default());
}

/// Of several writes at the same moment under the same revision, one succeeds.
pub async fn one_of_those_that_write_at_once_has_written<T>(tables: &T)
where
    T: DeliveryStates + EndpointHealths,
{
    for revision in 0..2 {
        let one = DeliveryState { revision, ..state(7) };
        let save_state = || DeliveryStates::save(tables, &one);
        let of_states = tokio::join!(save_state(), save_state(), save_state(), save_state());
        let health = Health { revision, ..Health::default() };
        let (key, uid) = (key(), Uuid::from_u128(5));
        let save_health = || EndpointHealths::save(tables, &key, uid, &health);
        let of_healths = tokio::join!(save_health(), save_health(), save_health(), save_health());
        for (a, b, c, d) in [of_states, of_healths] {
            let all = [a, b, c, d].map(|saved| saved.expect("an answer"));
            let written = all.iter().filter(|saved| **saved == Saved::Written).count();
            assert_eq!(written, 1, "revision {revision}: {all:?}");
        }
    }
}

/// Requests are counted by event subscription and minute, and no two callers get the same number.
pub async fn requests_are_counted_for_all<T: RequestRates>(tables: &T) {
    let (uid, other) = (Uuid::from_u128(5), Uuid::from_u128(6));
    let two = || tables.count(uid, 1, 2);
    let (a, b, c, d) = tokio::join!(two(), two(), two(), two());
    let mut sums = [a, b, c, d].map(|sum| sum.expect("a number"));
    sums.sort_unstable();
    assert_eq!(sums, [2, 4, 6, 8]);
    for (uid, minute, requests, sum) in [(uid, 1, 3, 11), (uid, 2, 1, 1), (other, 1, 7, 7)] {
        let counted = tables.count(uid, minute, requests).await.expect("a number");
        assert_eq!(counted, sum, "minute {minute} of {uid}");
    }
}

/// More than one call reads, in the order of their publish times: those of the event subscription that
/// have not ended.
pub async fn waiting_deliveries_are_found_by_their_place<T>(tables: &T)
where
    T: DeliveryStates + WaitingDeliveries,
{
    const ALL: u128 = 130;
    let uid = state(0).subscription_uid;
    for number in 1..=ALL {
        // The later its number, the earlier it was published; some at the same moment.
        let publish_time = Timestamp::from_millis(i64::try_from((ALL - number) / 2).expect("few"));
        assert_eq!(
            save(tables, &DeliveryState { publish_time, ..state(number) }).await,
            Saved::Written
        );
    }
    let other = DeliveryState { subscription_uid: Uuid::from_u128(6), ..state(1_000) };
    assert_eq!(save(tables, &other).await, Saved::Written);
    for (number, status) in [(9, DeliveryStatus::Ended), (10, DeliveryStatus::Delivered)] {
        let found = load(tables, number).await.expect("a state");
        assert_eq!(save(tables, &DeliveryState { status, ..found }).await, Saved::Written);
    }
    let waiting = async |after: Option<String>, most| {
        tables.waiting(uid, after.as_deref(), most).await.expect("states")
    };
    let all = waiting(None, 1_000).await;
    assert_eq!(all.len(), 128, "those that have ended are not among them");
    assert!(all.is_sorted_by_key(DeliveryState::place));
    let ids: Vec<_> = all.iter().take(3).map(|state| state.id.as_u128()).collect();
    assert_eq!((ids, all[0].revision), (vec![129, 130, 127], 1));
    assert_eq!(waiting(None, 2).await, all[..2]);
    assert_eq!(waiting(Some(all[1].place()), 105).await, all[2..107]);
    assert_eq!(waiting(Some(all[127].place()), 2).await, []);
    let count = async |most| WaitingDeliveries::count(tables, uid, most).await.expect("a number");
    assert_eq!(count(1_000).await, 128);
    assert!((2..=128).contains(&count(2).await), "as far as that");
    assert_eq!(tallied(tables, uid, 1_000).await, (1, 128, 128));
    let (calls, deliveries, events) = tallied(tables, uid, 50).await;
    assert!(calls > 2 && (deliveries, events) == (128, 128), "{calls}: {deliveries}, {events}");
    assert_eq!(tallied(tables, Uuid::from_u128(7), 50).await, (1, 0, 0));
}

/// Counts to the end by so many: calls, deliveries, events. Each was published in the first hour.
async fn tallied<T: WaitingDeliveries>(tables: &T, uid: Uuid, most: usize) -> (u32, u64, u64) {
    let (mut calls, mut all, mut after) = (0, WaitingCount::default(), None);
    loop {
        let tally = tables.tally(uid, after.as_deref(), most).await.expect("a count");
        assert!(tally.hours.keys().all(|hour| *hour == Timestamp::from_millis(0)), "{tally:?}");
        assert!(tally.total().deliveries <= most as u64, "{tally:?}");
        (calls, all) = (calls + 1, all.plus(tally.total()));
        after = tally.next;
        if after.is_none() {
            return (calls, all.deliveries, all.events);
        }
    }
}

/// An expired state is gone two days after its time at the latest. `expire` lets that time pass:
/// until two days after [`forget_at`](DeliveryState::forget_at).
pub async fn what_has_expired_is_gone<T: DeliveryStates>(
    tables: &T,
    one: DeliveryState,
    expire: impl AsyncFnOnce(),
    differs: &[Difference],
) {
    assert_eq!(save(tables, &one).await, Saved::Written);
    expire().await;
    // Some implementations remove expired states only while they write.
    let id = Uuid::from_u128(u128::MAX);
    assert_eq!(save(tables, &DeliveryState { id, ..one.clone() }).await, Saved::Written);
    let is_gone = tables.load(one.id).await.expect("an answer").is_none();
    Difference::KeepsItems.holds(differs, is_gone);
}

/// No more than the limit listen to each queue; one that leaves, or whose time is over, makes room.
pub async fn only_so_many_listen<T: LateListeners>(tables: &T) {
    let at = Timestamp::from_millis;
    let listener = |queue, number: u128, until| {
        let id = Uuid::from_u128(number);
        Listener { queue, id, until: at(until) }
    };
    let (dispatch, retry) = (Queue::Dispatch, Queue::Retry(0));
    let join = async |one, now| tables.join(one, 1, at(now)).await.expect("an answer");
    assert!(join(listener(dispatch, 1, 100), 0).await);
    assert!(!join(listener(dispatch, 2, 100), 0).await);
    assert!(join(listener(retry, 2, 100), 0).await, "another queue has room of its own");
    tables.leave(listener(dispatch, 1, 100)).await.expect("it has left");
    assert!(join(listener(dispatch, 2, 100), 0).await);
    assert!(!join(listener(dispatch, 3, 200), 99).await);
    assert!(join(listener(dispatch, 3, 200), 100).await);
}

/// Jobs are found by their event subscription, and written under their revision.
pub async fn jobs_are_kept_by_event_subscription<T: Redrives>(tables: &T) {
    let (one, other) = (job(1), SubscriptionKey { name: "other".to_owned(), ..key() });
    assert!(tables.job(&one.subscription, one.id).await.expect("an answer").is_none());
    assert_eq!(tables.save(&one).await.expect("an answer"), Saved::Written);
    assert_eq!(tables.save(&one).await.expect("an answer"), Saved::Conflict);
    let stored = tables.job(&one.subscription, one.id).await.expect("an answer").expect("a job");
    assert_eq!(stored, Job { revision: 1, ..one.clone() });
    assert_eq!(tables.save(&stored).await.expect("an answer"), Saved::Written);
    assert_eq!(tables.save(&job(2)).await.expect("an answer"), Saved::Written);
    let jobs = tables.jobs(&one.subscription).await.expect("jobs");
    let mut found: Vec<_> = jobs.iter().map(|job| (job.id.as_u128(), job.revision)).collect();
    found.sort_unstable();
    assert_eq!(found, [(1, 2), (2, 1)]);
    assert!(tables.jobs(&other).await.expect("jobs").is_empty());
    assert!(tables.job(&other, one.id).await.expect("an answer").is_none());
}

/// With a fixture where nothing is stored, nothing is found, without an error.
pub async fn what_is_not_stored_is_not_found<T: DeliveryStates + EndpointHealths>(tables: &T) {
    let found = DeliveryStates::load(tables, Uuid::from_u128(7)).await.expect("it is readable");
    assert_eq!(found, None);
    let health = EndpointHealths::load(tables, &key(), Uuid::from_u128(5)).await;
    assert_eq!(health.expect("it is readable"), Health::default());
}

/// With a fixture where another caller has written the same items, a write under the revision that was read
/// is a conflict.
pub async fn a_lost_race_is_a_conflict<T: DeliveryStates + EndpointHealths>(tables: &T) {
    for revision in [0, 3] {
        let state = DeliveryState { revision, ..state(7) };
        let saved = DeliveryStates::save(tables, &state).await;
        assert_eq!(saved.expect("an answer"), Saved::Conflict, "revision {revision}");
    }
    let saved = EndpointHealths::save(tables, &key(), Uuid::from_u128(5), &Health::default()).await;
    assert_eq!(saved.expect("an answer"), Saved::Conflict);
}

/// With a fixture whose table refuses every call, by throttling or otherwise, that is an error:
/// mistaken for a conflict or a missing item, it would change what happens to a delivery.
pub async fn a_table_that_refuses_says_nothing<T>(tables: &T)
where
    T: DeliveryStates + EndpointHealths + RequestRates,
{
    let saved = DeliveryStates::save(tables, &state(7)).await;
    assert!(saved.is_err(), "{saved:?}");
    let loaded = DeliveryStates::load(tables, Uuid::from_u128(7)).await;
    assert!(loaded.is_err(), "{loaded:?}");
    let uid = Uuid::from_u128(5);
    let saved = EndpointHealths::save(tables, &key(), uid, &Health::default()).await;
    assert!(saved.is_err(), "{saved:?}");
    let loaded = EndpointHealths::load(tables, &key(), uid).await;
    assert!(loaded.is_err(), "{loaded:?}");
    let counted = tables.count(uid, 1, 1).await;
    assert!(counted.is_err(), "{counted:?}");
}

/// A table that refuses stores and removes no parked delivery.
pub async fn a_table_that_refuses_parks_nothing<T: ParkingLot + DueDeliveries>(tables: &T) {
    assert!(tables.park(&parked(7)).await.is_err(), "it is not stored");
    assert!(ParkingLot::remove(tables, &parked(7)).await.is_err(), "it is not removed");
    assert!(tables.remove_all(&[parked(7)]).await.is_err(), "they are not removed");
    assert!(tables.due_in(1, 0, None).await.is_err(), "what is due is not known");
}

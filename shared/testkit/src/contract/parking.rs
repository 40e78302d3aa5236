//! Parked deliveries, and wake's cursor.

use std::collections::BTreeSet;

use gridpost_core::{
    delivery::parking::{self, Parked},
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{
    DeliveryStates, DueDeliveries, PARKED_PARTITIONS, ParkedDeliveries, ParkingLot, Saved,
    WakeCursor, parked_partition,
};
use uuid::Uuid;

use super::{Difference, parked, state};

/// Most bytes of a page of due deliveries, without its last one.
const PAGE_BYTES_MAX: usize = 1_048_576;

const PAGE_MAX: usize = 500;

fn due(number: u128, minute: i64, body: &str) -> Parked {
    let due = Timestamp::from_millis(minute * 60_000 + 30_000);
    Parked { due, body: body.to_owned(), ..parked(number) }
}

/// Every delivery that is due in a minute, by its number, page after page.
async fn all_due(tables: &impl DueDeliveries, minute: i64) -> Vec<u128> {
    let mut all = Vec::new();
    for partition in 0..PARKED_PARTITIONS {
        let mut after = None;
        loop {
            let page = tables.due_in(minute, partition, after).await.expect("a page");
            let but_last = page.due.iter().rev().skip(1).map(|parked| parked.body.len());
            assert!(but_last.sum::<usize>() <= PAGE_BYTES_MAX && page.due.len() <= PAGE_MAX);
            all.extend(page.due.iter().map(|parked| parked.id.as_u128()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    all.sort_unstable();
    all
}

/// Deliveries are found only under their minute, over any number of pages, until they are removed.
/// Parking twice is parking once, and removing a missing one is not an error.
pub async fn parked_deliveries_are_found_when_they_are_due<T>(tables: &T)
where
    T: ParkingLot + DueDeliveries + ParkedDeliveries,
{
    // Several pages of one partition, and some in every other one.
    let large = "x".repeat(250_000);
    let partitions = u128::from(PARKED_PARTITIONS);
    let of_one: Vec<_> = (1..=9).map(|number| number * partitions).collect();
    let mut numbers = [(1..partitions).collect(), of_one.clone()].concat();
    numbers.sort_unstable();
    for number in &numbers {
        let body = if of_one.contains(number) { large.as_str() } else { "b" };
        tables.park(&due(*number, 7, body)).await.expect("parked");
    }
    let late = Parked { shard: 3, postponed: 2, ..due(200, 8, "\"late\"") };
    for _ in 0..2 {
        tables.park(&late).await.expect("the same as once");
    }
    assert_eq!(all_due(tables, 7).await, numbers);
    assert_eq!(all_due(tables, 8).await, [200]);
    assert_eq!(all_due(tables, 9).await, []);
    let found = tables.find(late.id, 8).await.expect("an answer");
    assert_eq!(found.as_ref(), Some(&late), "as it was parked");
    assert_eq!(tables.find(late.id, 7).await.expect("an answer"), None);
    for _ in 0..2 {
        ParkingLot::remove(tables, &late).await.expect("removed, or gone already");
    }
    assert_eq!(all_due(tables, 8).await, []);
    // One more than is there: it is no error either.
    let (last, others) = numbers.split_last().expect("some");
    let mut some: Vec<_> = others.iter().map(|number| due(*number, 7, "")).collect();
    some.push(due(999, 7, ""));
    tables.remove_all(&some).await.expect("removed");
    assert_eq!(all_due(tables, 7).await, [*last]);
    // More than one call takes, and an empty list.
    let many: Vec<_> = (300..360).map(|number| due(number, 7, "b")).collect();
    for parked in &many {
        tables.park(parked).await.expect("parked");
    }
    tables.remove_all(&many).await.expect("removed");
    tables.remove_all(&[]).await.expect("nothing to do");
    assert_eq!(all_due(tables, 7).await, [*last]);
}

/// Deliveries held by a pause lie apart from every minute, under their event subscription, and are
/// found in the order of their ends. A delivery parked twice is stored once, and it can be removed.
pub async fn a_lot_is_found_in_the_order_of_its_ends<T>(tables: &T)
where
    T: ParkingLot + DueDeliveries + ParkedDeliveries,
{
    let lot = Some(Uuid::from_u128(77));
    // All of one partition: the numbers fall while the minutes rise.
    let held = |minute: i64| {
        let number = u128::from(PARKED_PARTITIONS) * u128::try_from(20 - minute).expect("small");
        Parked { lot, ..due(number, minute, "held") }
    };
    for minute in (7..12).chain([9]) {
        tables.park(&held(minute)).await.expect("held");
    }
    let of_lot = parking::lot_minute(Uuid::from_u128(77));
    let page = tables.due_in(of_lot, 0, None).await.expect("a page");
    assert_eq!(page.due, (7..12).map(held).collect::<Vec<_>>());
    let after = Some(held(9).place());
    let page = tables.due_in(of_lot, 0, after).await.expect("a page");
    assert_eq!(page.due, [held(10), held(11)]);
    assert_eq!(all_due(tables, 9).await, [] as [u128; 0], "its minute has nothing of it");
    ParkingLot::remove(tables, &held(8)).await.expect("removed");
    tables.remove_all(&[held(7), held(11)]).await.expect("removed");
    assert_eq!(tables.due_in(of_lot, 0, None).await.expect("a page").due, [held(9), held(10)]);
    // The watch over it lies under a minute, and is no less found than a delivery.
    let now = Timestamp::from_millis(5 * 60_000);
    let key = SubscriptionKey { topic: "t".to_owned(), name: "s".to_owned() };
    let watch = Parked::watch(&key, Uuid::from_u128(77), Uuid::from_u128(78), now);
    tables.park(&watch).await.expect("parked");
    let partition = parked_partition(watch.id);
    assert_eq!(
        tables.due_in(6, partition, None).await.expect("a page").due,
        std::slice::from_ref(&watch)
    );
    tables.remove_all(&[watch, held(9), held(10)]).await.expect("removed");
}

/// An operator's list finds each parked delivery once, and nothing else that may be in the same
/// table.
pub async fn a_list_finds_each_parked_delivery_once<T>(states: &impl DeliveryStates, tables: &T)
where
    T: ParkingLot + ParkedDeliveries,
{
    let large = "x".repeat(250_000);
    for number in 0..7 {
        let saved = states.save(&state(number + 100)).await.expect("an answer");
        assert_eq!(saved, Saved::Written);
        let minute = i64::try_from(number % 3).expect("few");
        tables.park(&due(number, minute, &large)).await.expect("parked");
    }
    let (mut found, mut place, mut places) = (Vec::new(), None, BTreeSet::new());
    loop {
        let page = tables.list_after(place.as_ref()).await.expect("a page");
        found.extend(page.found.iter().map(|(_, parked)| parked.id.as_u128()));
        place = page.next;
        let Some(place) = &place else { break };
        let is_new = places.insert((place.partition.clone(), place.sort.clone()));
        assert!(is_new, "a place is reached once: {place:?}");
    }
    found.sort_unstable();
    assert_eq!(found, (0..7).collect::<Vec<_>>());
    let one = tables.find(Uuid::from_u128(4), 1).await.expect("an answer");
    assert_eq!(one.map(|parked| parked.body.len()), Some(large.len()));
}

/// A parked delivery may be sent, received and parked again under the same key before its sender
/// removes it. Stores that can tell keep the new one.
pub async fn what_is_parked_again_is_not_removed<T>(tables: &T, differences: &[Difference])
where
    T: ParkingLot + DueDeliveries,
{
    let (lot, later) = (Some(Uuid::from_u128(79)), Timestamp::from_millis(60_000));
    let read = [due(1, 27, "b"), Parked { lot, ..due(2, 27, "b") }, due(3, 27, "b")];
    let again = read.clone().map(|parked| Parked { parked_at: later, ..parked });
    let left = async || {
        let mut left = all_due(tables, 27).await;
        left.extend(all_due(tables, parking::lot_minute(Uuid::from_u128(79))).await);
        left
    };
    for parked in read.iter().chain(&again) {
        tables.park(parked).await.expect("parked");
    }
    ParkingLot::remove(tables, &read[0]).await.expect("an answer");
    tables.remove_all(&read[1..]).await.expect("an answer");
    Difference::KeepsWhatIsParkedAgain.holds(differences, left().await.is_empty());
    tables.remove_all(&again).await.expect("removed");
    assert_eq!(left().await, [] as [u128; 0]);
}

/// At first there is no cursor; then the last one saved is returned.
pub async fn how_far_wake_has_come_is_noted<T: WakeCursor>(tables: &T) {
    assert_eq!(tables.load().await.expect("an answer"), None);
    for minute in [5, 6, 4] {
        tables.save(minute).await.expect("noted");
        assert_eq!(tables.load().await.expect("an answer"), Some(minute));
    }
}

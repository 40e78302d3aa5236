//! Parked deliveries, as wake takes them out, page by page, and as operators find them: by a scan
//! of the table, which also holds the states of failing deliveries, or by their minute.

use std::{collections::BTreeMap, ops::Bound};

use async_trait::async_trait;
use gridpost_core::delivery::parking::Parked;
use gridpost_ports::{
    Clock, DueDeliveries, DuePage, ParkedCursor, ParkedDeliveries, ParkedPage, ParkingLot,
    PortError, WakeCursor, parked_partition,
};
use uuid::Uuid;

use super::{Items, Tables, stored};
use crate::history::{Parking, TWO_WAKES};

/// The largest item that DynamoDB takes.
const ITEM_BYTES_MAX: usize = 400_000;

/// Most items of one page of due deliveries: few, so that pages end everywhere.
pub(super) const PAGE_ITEMS_MAX: usize = 20;

/// Most bytes of one page, without its last item.
const PAGE_BYTES_MAX: usize = 1_048_576;

/// Bodies that were read and neither removed nor read again.
#[derive(Debug, Default)]
pub(super) struct InHand {
    bytes: BTreeMap<Uuid, usize>,
    sum: usize,
    most: usize,
}

impl InHand {
    fn take(&mut self, parked: &Parked) {
        let bytes = parked.body.len();
        self.sum += bytes;
        self.sum -= self.bytes.insert(parked.id, bytes).unwrap_or(0);
        self.most = self.most.max(self.sum);
    }

    fn release(&mut self, id: Uuid) {
        self.sum -= self.bytes.remove(&id).unwrap_or(0);
    }
}

impl Tables {
    /// The most bytes of parked deliveries that were read and not yet removed, all readers together.
    pub fn parked_bytes_in_hand_max(&self) -> usize {
        self.items().in_hand.most
    }
}

/// Items that one scan looks at: few, so that pages end everywhere, and some hold nothing parked.
const LOOKED_AT: usize = 3;

impl Items {
    /// Every item of the state table by its key, with the parked delivery that it is.
    fn scanned(&self) -> Vec<((String, String), Option<&Parked>)> {
        let states =
            self.states.keys().map(|id| ((format!("DELIVERY#{id}"), "-".to_owned()), None));
        let parked = self.parked.iter().map(|((minute, place), parked)| {
            ((format!("PARKED#{minute}#0"), place.clone()), Some(parked))
        });
        let mut all: Vec<_> = states.chain(parked).collect();
        all.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        all
    }
}

#[async_trait]
impl ParkingLot for Tables {
    async fn park(&self, parked: &Parked) -> Result<(), PortError> {
        let key = (parked.due_minute(), parked.place());
        if parked.body.len() > ITEM_BYTES_MAX {
            let bytes = parked.body.len();
            self.history.lock().expect("no panic while held").violation(
                self.clock.now(),
                format!("an item of {bytes} bytes: DynamoDB takes {ITEM_BYTES_MAX}"),
            );
        }
        if let Some(real) = self.real() {
            real.park(parked).await?;
        }
        let body = parked.body.clone();
        self.items().parked.insert(key, Parked { body, ..stored(parked)? });
        let mut history = self.history.lock().expect("no panic while held");
        if parked.watch.is_some() {
            return Ok(());
        }
        history.parked += 1;
        if parked.lot.is_some() {
            history.note_held(self.clock.now(), parked.id);
            return Ok(());
        }
        let (at, postponed) = (self.clock.now(), parked.postponed);
        let park = Parking { at, due: parked.due, postponed, gone_at: None };
        history.parks.entry(parked.id).or_default().push(park);
        history.trace(self.clock.now(), || format!("park {} until {}", parked.id, parked.due));
        Ok(())
    }

    async fn remove(&self, parked: &Parked) -> Result<(), PortError> {
        if let Some(real) = self.real() {
            ParkingLot::remove(&*real, parked).await?;
        }
        let mut items = self.items();
        let key = (parked.due_minute(), parked.place());
        let stored = items.parked.get(&key).map(|stored| stored.parked_at);
        let is_other = stored.is_some_and(|at| at != parked.parked_at);
        let mut history = self.history.lock().expect("no panic while held");
        let at = self.clock.now();
        if is_other && self.real().is_some() {
            return Ok(());
        }
        if is_other && parked.watch.is_none() {
            // Nothing is lost: the delivery that was read has been sent.
            history.removed_after_reparking.push(parked.id);
        }
        items.parked.remove(&key);
        items.in_hand.release(parked.id);
        if parked.watch.is_some() {
            return Ok(());
        }
        if parked.lot.is_some() {
            history.note_let_go(at, parked.id);
            return Ok(());
        }
        let parks = history.parks.entry(parked.id).or_default();
        let park = parks.iter_mut().rev().find(|park| park.due == parked.due);
        if park.is_some_and(|park| park.gone_at.replace(park.gone_at.unwrap_or(at)).is_some()) {
            history.disturb(at, parked.id, TWO_WAKES);
        }
        history.trace(at, || format!("unpark {}", parked.id));
        Ok(())
    }
}

#[async_trait]
impl DueDeliveries for Tables {
    async fn due_in(
        &self,
        minute: i64,
        partition: u32,
        after: Option<String>,
    ) -> Result<DuePage, PortError> {
        if let Some(real) = self.real() {
            let page = real.due_in(minute, partition, after).await?;
            page.due.iter().for_each(|parked| self.items().in_hand.take(parked));
            return Ok(page);
        }
        let mut items = self.items();
        let mut page = DuePage::default();
        let mut bytes = 0;
        let from = after.map_or(Bound::Included((minute, String::new())), |after| {
            Bound::Excluded((minute, after))
        });
        let all = items.parked.range((from, Bound::Excluded((minute + 1, String::new()))));
        for ((_, place), parked) in all {
            if parked_partition(parked.id) != partition {
                continue;
            }
            page.due.push(parked.clone());
            bytes += parked.body.len();
            if page.due.len() == self.page_items_max || bytes >= PAGE_BYTES_MAX {
                page.next = Some(place.clone());
                break;
            }
        }
        for parked in &page.due {
            items.in_hand.take(parked);
        }
        Ok(page)
    }

    async fn remove_all(&self, parked: &[Parked]) -> Result<(), PortError> {
        for parked in parked {
            ParkingLot::remove(self, parked).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl WakeCursor for Tables {
    async fn load(&self) -> Result<Option<i64>, PortError> {
        if let Some(real) = self.real() {
            return WakeCursor::load(&*real).await;
        }
        Ok(self.items().cursor)
    }

    async fn save(&self, minute: i64) -> Result<(), PortError> {
        if let Some(real) = self.real() {
            return WakeCursor::save(&*real, minute).await;
        }
        self.items().cursor = Some(minute);
        Ok(())
    }
}

#[async_trait]
impl ParkedDeliveries for Tables {
    async fn list_after(&self, place: Option<&ParkedCursor>) -> Result<ParkedPage, PortError> {
        let items = self.items();
        let is_behind = |(partition, sort): &(String, String)| {
            place.is_none_or(|at| (partition, sort) > (&at.partition, &at.sort))
        };
        let behind = items.scanned().into_iter().filter(|(key, _)| is_behind(key));
        let looked_at = behind
            .take(LOOKED_AT)
            .map(|((partition, sort), parked)| (ParkedCursor { partition, sort }, parked.cloned()));
        let looked_at: Vec<_> = looked_at.collect();
        let last = looked_at.last().filter(|_| looked_at.len() == LOOKED_AT);
        let next = last.map(|(place, _)| place.clone());
        let found = looked_at.into_iter().filter_map(|(place, parked)| Some((place, parked?)));
        Ok(ParkedPage { found: found.collect(), next })
    }

    async fn find(&self, id: Uuid, minute: i64) -> Result<Option<Parked>, PortError> {
        Ok(self.items().parked.get(&(minute, id.to_string())).cloned())
    }
}

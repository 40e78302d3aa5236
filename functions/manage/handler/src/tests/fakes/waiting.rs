//! What waits: a poison queue, retry queues, parked deliveries and states that behave like those of
//! AWS, and count what is done with them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use gridpost_core::{
    delivery::{parking::Parked, queue::Queue, state::DeliveryState},
    poison::Poisoned,
    time::Timestamp,
};
use gridpost_ports::{
    DeliveryStates, Meter, Outgoing, ParkedCursor, ParkedDeliveries, ParkedPage, ParkingLot,
    PoisonQueue, PortError, QueueReceiver, QueueSender, Saved,
};
use uuid::Uuid;

use super::NOW;

/// A message of the poison queue.
pub(crate) struct Lying {
    pub(crate) message: Poisoned,
    pub(crate) is_hidden: bool,
}

/// Everything that waits.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) poison: Mutex<Vec<Lying>>,
    pub(crate) sent: Mutex<Vec<(Queue, Outgoing)>>,
    /// Items of the state table by key: parked deliveries, and other items where there are none.
    pub(crate) items: Mutex<BTreeMap<(String, String), Option<Parked>>>,
    pub(crate) states: Mutex<BTreeMap<Uuid, DeliveryState>>,
    pub(crate) counted: Mutex<Vec<(String, u64)>>,
    /// How many of them are written.
    pub(crate) written: Mutex<usize>,
    /// The calls that change something, in their order.
    pub(crate) calls: Mutex<Vec<String>>,
    /// So many of them succeed, then all fail; `None`: all succeed.
    pub(crate) calls_left: Mutex<Option<usize>>,
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while held")
}

/// Items that one scan looks at.
const LOOKED_AT: usize = 3;

impl Waiting {
    /// Puts a message into the poison queue.
    pub(crate) fn lay(&self, id: &str, body: &str, moved_from: Option<&str>, group: Option<&str>) {
        let message = Poisoned {
            id: id.to_owned(),
            receipt: format!("receipt-{id}"),
            body: body.to_owned(),
            sent_at: NOW,
            receive_count: 1_001,
            moved_from: moved_from.map(str::to_owned),
            group: group.map(str::to_owned),
        };
        open(&self.poison).push(Lying { message, is_hidden: false });
    }

    /// Parks a delivery.
    pub(crate) fn put(&self, parked: Parked) {
        let key = (format!("PARKED#{}#0", parked.due_minute()), parked.id.to_string());
        open(&self.items).insert(key, Some(parked));
    }

    /// The ids of what is in the poison queue, none of it hidden.
    pub(crate) fn lying(&self) -> Vec<String> {
        let poison = open(&self.poison);
        assert!(poison.iter().all(|lying| !lying.is_hidden), "a message was left hidden");
        poison.iter().map(|lying| lying.message.id.clone()).collect()
    }

    fn call(&self, call: String) -> Result<(), PortError> {
        match &mut *open(&self.calls_left) {
            None => {}
            Some(0) => return Err(PortError::new("aws:Fake", "out of calls")),
            Some(left) => *left -= 1,
        }
        open(&self.calls).push(call);
        Ok(())
    }
}

#[async_trait]
impl PoisonQueue for Waiting {
    async fn receive(&self, hidden_s: u32) -> Result<Vec<Poisoned>, PortError> {
        assert!(hidden_s > 0, "it would be received again at once");
        let mut poison = open(&self.poison);
        let visible = poison.iter_mut().filter(|lying| !lying.is_hidden).take(10);
        Ok(visible
            .map(|lying| {
                lying.is_hidden = true;
                lying.message.clone()
            })
            .collect())
    }

    async fn count(&self) -> Result<u64, PortError> {
        Ok(open(&self.poison).len() as u64)
    }
}

#[async_trait]
impl QueueReceiver for Waiting {
    async fn hide(&self, queue: Queue, receipt: &str, seconds: u32) -> Result<(), PortError> {
        assert_eq!(seconds, 0, "looked at, and shown again");
        if queue != Queue::Poison {
            self.call(format!("show {receipt} in {queue}"))?;
            return Ok(());
        }
        let mut poison = open(&self.poison);
        let lying = poison.iter_mut().find(|lying| lying.message.receipt == receipt);
        lying.expect("what is gone is not shown again").is_hidden = false;
        Ok(())
    }

    async fn delete(&self, queue: Queue, receipts: Vec<String>) -> Result<(), PortError> {
        let written = *open(&self.written);
        assert_eq!(written, open(&self.counted).len(), "let go before it was counted for good");
        self.call(format!("delete from {queue}"))?;
        open(&self.poison).retain(|lying| !receipts.contains(&lying.message.receipt));
        Ok(())
    }

    async fn in_flight(&self, _: Queue) -> Result<u64, PortError> {
        Ok(0)
    }
}

#[async_trait]
impl QueueSender for Waiting {
    async fn send(&self, queue: Queue, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        let send = |message| {
            self.call(format!("send to {queue}"))?;
            open(&self.sent).push((queue, message));
            Ok(())
        };
        messages.into_iter().map(send).collect()
    }
}

#[async_trait]
impl ParkedDeliveries for Waiting {
    async fn list_after(&self, place: Option<&ParkedCursor>) -> Result<ParkedPage, PortError> {
        let place = place.map(|place| (place.partition.clone(), place.sort.clone()));
        let items = open(&self.items);
        let behind = items.iter().filter(|(key, _)| place.as_ref().is_none_or(|at| *key > at));
        let looked_at: Vec<_> = behind.take(LOOKED_AT).collect();
        let place =
            |key: &(String, String)| ParkedCursor { partition: key.0.clone(), sort: key.1.clone() };
        let found = looked_at
            .iter()
            .filter_map(|(key, parked)| parked.as_ref().map(|parked| (place(key), parked.clone())));
        let next = looked_at.last().filter(|_| looked_at.len() == LOOKED_AT);
        Ok(ParkedPage { found: found.collect(), next: next.map(|(key, _)| place(key)) })
    }

    async fn find(&self, id: Uuid, minute: i64) -> Result<Option<Parked>, PortError> {
        let key = (format!("PARKED#{minute}#0"), id.to_string());
        Ok(open(&self.items).get(&key).cloned().flatten())
    }
}

#[async_trait]
impl ParkingLot for Waiting {
    async fn park(&self, parked: &Parked) -> Result<(), PortError> {
        self.put(parked.clone());
        Ok(())
    }

    async fn due_in(&self, _: i64) -> Result<Vec<Parked>, PortError> {
        Ok(Vec::new())
    }

    async fn remove(&self, parked: &Parked) -> Result<(), PortError> {
        self.call("remove what was parked".to_owned())?;
        open(&self.items).retain(|_, item| item.as_ref().is_none_or(|item| item.id != parked.id));
        Ok(())
    }
}

#[async_trait]
impl DeliveryStates for Waiting {
    async fn load(&self, id: Uuid) -> Result<Option<DeliveryState>, PortError> {
        Ok(open(&self.states).get(&id).cloned())
    }

    async fn save(&self, state: &DeliveryState) -> Result<Saved, PortError> {
        self.call("write the state".to_owned())?;
        let mut states = open(&self.states);
        if states.get(&state.id).map_or(0, |stored| stored.revision) != state.revision {
            return Ok(Saved::Conflict);
        }
        let revision = state.revision + 1;
        states.insert(state.id, DeliveryState { revision, ..state.clone() });
        Ok(Saved::Written)
    }
}

impl Meter for Waiting {
    fn count(&self, metric: &'static str, dimensions: &[(&'static str, &str)], by: u64) {
        let dimensions: Vec<_> = dimensions.iter().map(|(_, value)| *value).collect();
        open(&self.counted).push((format!("{metric} {}", dimensions.join(" ")), by));
    }

    fn measure(&self, metric: &'static str, _: &[(&'static str, &str)], _: Duration) {
        panic!("{metric} is of functions that serve events");
    }

    fn count_events(
        &self,
        metric: &'static str,
        dimensions: &[(&'static str, &str)],
        published_at: Timestamp,
        by: u64,
    ) {
        assert_eq!(published_at, NOW);
        Meter::count(self, metric, dimensions, by);
    }

    fn flush(&self, _: Timestamp) {
        *open(&self.written) = open(&self.counted).len();
    }
}

//! Decides whether a request may begin in this minute if its endpoint limits them.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use gridpost_core::{
    delivery::rate::{self, RateDecision},
    subscription::EventSubscription,
    time::Timestamp,
};
use gridpost_ports::{RequestRates, Result};
use uuid::Uuid;

use crate::Context;

/// Above this many event subscriptions, those without waiting requests are removed.
const ENTRIES_MAX: usize = 1_000;

/// Numbers requests to endpoints with a rate, across all copies of dispatch.
///
/// A minute's counter is one item of a table, which takes about 1,000 writes a second. So concurrent
/// requests of this copy share one write, and once the minute is full it writes nothing more.
/// Source of the limit: DynamoDB developer guide, "Partition throughput limits".
pub struct Rates {
    table: Arc<dyn RequestRates>,
    entries: Mutex<HashMap<Uuid, Arc<Entry>>>,
}

#[derive(Default)]
struct Entry {
    asking: AtomicU64,
    taken: tokio::sync::Mutex<Taken>,
}

/// The numbers of a minute that this copy has reserved: those after `given`, up to `last`.
#[derive(Default)]
struct Taken {
    minute: i64,
    given: u64,
    last: u64,
}

impl Rates {
    pub fn new(table: Arc<dyn RequestRates>) -> Self {
        Self { table, entries: Mutex::default() }
    }

    /// Returns the number of one more request in that minute. Once the minute is full it is
    /// approximate: it ignores requests of other copies.
    async fn number(&self, uid: Uuid, minute: i64, rate: NonZeroU32) -> Result<u64> {
        let entry = self.entry(uid);
        entry.asking.fetch_add(1, Ordering::Relaxed);
        let mut taken = entry.taken.lock().await;
        if taken.minute == minute && taken.given < taken.last {
            taken.given += 1;
            return Ok(taken.given);
        }
        // Reserves numbers for all that ask now; each takes its own when it gets the lock.
        let asking = entry.asking.swap(0, Ordering::Relaxed).max(1);
        if taken.minute == minute && taken.last >= u64::from(rate.get()) {
            taken.last += asking;
        } else {
            let last = self.table.count(uid, minute, asking).await?;
            *taken = Taken { minute, given: last.saturating_sub(asking), last };
        }
        taken.given += 1;
        Ok(taken.given)
    }

    fn entry(&self, uid: Uuid) -> Arc<Entry> {
        let mut entries = self.entries.lock().expect("no panic while held");
        if entries.len() >= ENTRIES_MAX {
            entries.retain(|_, entry| Arc::strong_count(entry) > 1);
        }
        Arc::clone(entries.entry(uid).or_default())
    }
}

/// Takes a slot of this minute for one request, unless `slot_at` is in this minute. An endpoint
/// without a rate needs none. A slot whose request is never made is wasted: the endpoint gets one
/// request less, never one more.
/// After an error, nothing was attempted.
pub async fn turn(
    context: &Context,
    subscription: &EventSubscription,
    slot_at: Option<Timestamp>,
) -> Result<RateDecision> {
    let Some(rate) = subscription.allowed_rate else { return Ok(RateDecision::Go) };
    let mut now = context.clock.now();
    if slot_at.is_some_and(|at| at.as_minutes() == now.as_minutes()) {
        return Ok(RateDecision::Go);
    }
    loop {
        let minute = now.as_minutes();
        let count = context.rates.number(subscription.uid, minute, rate).await?;
        now = context.clock.now();
        // A slot is valid in its minute only.
        if now.as_minutes() == minute {
            return Ok(rate::turn(minute, rate, count, context.dice.roll()));
        }
    }
}

#[cfg(test)]
mod tests;

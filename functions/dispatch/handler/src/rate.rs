//! May a request begin in this minute, where its endpoint allows only so many?

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use gridpost_core::{
    delivery::rate::{self, Turn},
    subscription::EventSubscription,
    time::Timestamp,
};
use gridpost_ports::{PortError, RequestRates};
use uuid::Uuid;

use crate::Context;

/// Above so many event subscriptions, those that no request is waiting for are forgotten.
const PAGES_MAX: usize = 1_000;

/// Numbers requests to endpoints with a rate, for all copies of dispatch together.
///
/// A minute's number is one item of a table, which takes about 1,000 writes a second. So requests of
/// this copy that ask at the same time are counted by one write, and once its minute is full a copy
/// writes no more: those that wait would be the most.
///
/// Source of the limit: DynamoDB developer guide, "Partition throughput limits".
pub struct Rates {
    table: Arc<dyn RequestRates>,
    pages: Mutex<HashMap<Uuid, Arc<Page>>>,
}

/// The numbers of one event subscription.
#[derive(Default)]
struct Page {
    /// Requests of this copy that have asked and are not counted.
    asking: AtomicU64,
    taken: tokio::sync::Mutex<Taken>,
}

/// Numbers of a minute that this copy has taken: those after `given`, up to `last`.
#[derive(Default)]
struct Taken {
    minute: i64,
    given: u64,
    last: u64,
}

impl Rates {
    /// Counts in that table.
    pub fn new(table: Arc<dyn RequestRates>) -> Self {
        Self { table, pages: Mutex::default() }
    }

    /// The number of one more request in that minute. Once the minute is full it is about that: the
    /// others of this copy are counted in it, and not those of other copies.
    async fn number(&self, uid: Uuid, minute: i64, rate: NonZeroU32) -> Result<u64, PortError> {
        let page = self.page(uid);
        page.asking.fetch_add(1, Ordering::Relaxed);
        let mut taken = page.taken.lock().await;
        if taken.minute == minute && taken.given < taken.last {
            taken.given += 1;
            return Ok(taken.given);
        }
        // All that ask now are numbered here, and take theirs when it is their turn.
        let asking = page.asking.swap(0, Ordering::Relaxed).max(1);
        if taken.minute == minute && taken.last >= u64::from(rate.get()) {
            taken.last += asking;
        } else {
            let last = self.table.count(uid, minute, asking).await?;
            *taken = Taken { minute, given: last.saturating_sub(asking), last };
        }
        taken.given += 1;
        Ok(taken.given)
    }

    fn page(&self, uid: Uuid) -> Arc<Page> {
        let mut pages = self.pages.lock().expect("no panic while held");
        if pages.len() >= PAGES_MAX {
            pages.retain(|_, page| Arc::strong_count(page) > 1);
        }
        Arc::clone(pages.entry(uid).or_default())
    }
}

/// Takes a slot of this minute for one request, unless one of this minute was taken at `slot_at`.
/// Endpoints that set no rate are asked nothing. A slot whose request is never made is wasted: the
/// endpoint gets a request less, never one more.
///
/// # Errors
///
/// The count could not be written. Nothing was attempted.
pub async fn turn(
    context: &Context,
    subscription: &EventSubscription,
    slot_at: Option<Timestamp>,
) -> Result<Turn, PortError> {
    let Some(rate) = subscription.allowed_rate else { return Ok(Turn::Go) };
    let mut now = context.clock.now();
    if slot_at.is_some_and(|at| at.as_minutes() == now.as_minutes()) {
        return Ok(Turn::Go);
    }
    loop {
        let minute = now.as_minutes();
        let count = context.rates.number(subscription.uid, minute, rate).await?;
        now = context.clock.now();
        // A slot is good in its own minute alone.
        if now.as_minutes() == minute {
            return Ok(rate::turn(minute, rate, count, context.dice.roll()));
        }
    }
}

#[cfg(test)]
mod tests;

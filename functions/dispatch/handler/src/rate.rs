//! May a request begin in this minute, where its endpoint allows only so many?
//!
//! Requests are numbered, by all running copies together, in an item of the state table. A copy takes
//! numbers in blocks, and those that wait have numbers too, so neither many requests nor many that wait
//! make many writes to that item.

use std::{collections::HashMap, num::NonZeroU32, sync::Arc};

use gridpost_core::{
    delivery::rate::{self, Turn},
    subscription::EventSubscription,
    time::Timestamp,
};
use gridpost_ports::{Clock, PortError, RequestRates};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::Context;

/// The numbers that this copy of the function has taken and not used yet.
pub struct RateBook {
    rates: Arc<dyn RequestRates>,
    blocks: std::sync::Mutex<HashMap<Uuid, Arc<Mutex<Block>>>>,
}

/// Numbers of one event subscription, good in one minute.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    minute: i64,
    /// The next one that is free, and the one behind the last.
    next: u64,
    end: u64,
    /// How many this copy has used in this minute.
    used: u64,
}

impl RateBook {
    /// A book that has no numbers yet.
    pub fn new(rates: Arc<dyn RequestRates>) -> Self {
        Self { rates, blocks: std::sync::Mutex::default() }
    }

    /// A number that no other request of that event subscription has in the minute that it is, and
    /// that minute.
    async fn number(
        &self,
        clock: &dyn Clock,
        uid: Uuid,
        rate: NonZeroU32,
    ) -> Result<(i64, u64), PortError> {
        let block = self.block(uid, clock.now().as_minutes());
        // Held over the call: the others wait for the block that it brings.
        let mut block = block.lock().await;
        loop {
            // A number is good in its own minute alone, and a call may end in the next one.
            let minute = clock.now().as_minutes();
            if block.minute != minute {
                *block = Block { minute, ..Block::default() };
            }
            if block.next < block.end {
                let number = block.next;
                block.next += 1;
                block.used += 1;
                return Ok((minute, number));
            }
            let numbers = rate::block(rate, block.end.saturating_sub(1), block.used);
            block.next = self.rates.take(uid, minute, numbers).await?;
            block.end = block.next + u64::from(numbers);
        }
    }

    fn block(&self, uid: Uuid, minute: i64) -> Arc<Mutex<Block>> {
        let mut blocks = self.blocks.lock().expect("no panic while held");
        if !blocks.contains_key(&uid) {
            let is_old = |block: &Mutex<Block>| block.try_lock().is_ok_and(|it| it.minute < minute);
            blocks.retain(|_, block| Arc::strong_count(block) > 1 || !is_old(block));
        }
        Arc::clone(blocks.entry(uid).or_default())
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
    let now = context.clock.now();
    if slot_at.is_some_and(|at| at.as_minutes() == now.as_minutes()) {
        return Ok(Turn::Go);
    }
    let (minute, number) = context.rates.number(&*context.clock, subscription.uid, rate).await?;
    Ok(rate::turn(minute, rate, number, context.dice.roll()))
}

#[cfg(test)]
mod tests;

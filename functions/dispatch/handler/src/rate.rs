//! May a request begin in this minute, where its endpoint allows only so many?

use gridpost_core::{
    delivery::rate::{self, Turn},
    subscription::EventSubscription,
    time::Timestamp,
};
use gridpost_ports::PortError;

use crate::Context;

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
        let count = context.rates.count(subscription.uid, minute).await?;
        now = context.clock.now();
        // A slot is good in its own minute alone.
        if now.as_minutes() == minute {
            return Ok(rate::turn(minute, rate, count, context.dice.roll()));
        }
    }
}

#[cfg(test)]
mod tests;

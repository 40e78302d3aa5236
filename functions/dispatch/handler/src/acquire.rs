//! Between plan and attempt: what an attempt needs besides permission. Its events, where they are too
//! large for a message; a slot, where its endpoint allows only so many requests in a minute; the
//! probe, which one delivery alone may be. The probe is claimed last, when all else is in hand: a
//! claim keeps all others waiting.

use gridpost_core::{
    delivery::{plan::Plan, rate::Turn, state::DeliveryStatus},
    retry::{EndReason, health::Health},
    time::Timestamp,
};
use gridpost_ports::PortError;

use crate::{
    Context,
    in_hand::DeliveryInHand,
    payload::{self, Found},
    planned::plan_one,
    rate,
    record::Fate,
    settle::{self, Hold},
};

/// What came of asking for something.
pub enum Acquired<T> {
    /// It is in hand.
    InHand(T),
    /// The delivery is settled.
    Settled(Fate),
    /// It waits.
    Hold(Box<DeliveryInHand>, Hold),
}

/// Takes the events of a delivery in hand. One whose events lie in the payload bucket takes its slot
/// of the rate first: it is fetched when it may go, not each time it asks.
///
/// # Errors
///
/// A call of ours failed. Nothing was attempted.
pub async fn events(
    context: &Context,
    mut hand: DeliveryInHand,
) -> Result<Acquired<DeliveryInHand>, PortError> {
    if !hand.delivery.is_claimed() {
        return Ok(Acquired::InHand(hand));
    }
    if let Some(until) = slot(context, std::slice::from_mut(&mut hand)).await? {
        return Ok(Acquired::Hold(Box::new(hand), Hold::About(until)));
    }
    Ok(match payload::take(context, &mut hand.delivery).await? {
        Found::InHand => Acquired::InHand(hand),
        Found::Ended => Acquired::Settled(Fate::Delete),
        Found::Missing => {
            let state = (hand.revision > 0).then(|| hand.state(DeliveryStatus::Ended));
            let reason = EndReason::PayloadMissing;
            let fate = settle::drop_delivery(context, &hand.delivery, state, reason).await;
            Acquired::Settled(fate)
        }
    })
}

/// Takes one slot for the request of these deliveries; answers until when they wait without one.
///
/// # Errors
///
/// The count could not be written. Nothing was attempted.
pub async fn slot(
    context: &Context,
    hands: &mut [DeliveryInHand],
) -> Result<Option<Timestamp>, PortError> {
    let slot_at = hands.iter().filter_map(|hand| hand.slot_at).max();
    let Some(first) = hands.first() else { return Ok(None) };
    Ok(match rate::turn(context, first.subscription(), slot_at).await? {
        Turn::Go => {
            let now = first.subscription().allowed_rate.map(|_| context.clock.now());
            hands.iter_mut().for_each(|hand| hand.slot_at = now);
            None
        }
        Turn::Wait { until } => Some(until),
    })
}

/// What the plan says once a claim is written, or was lost to another copy of dispatch.
///
/// # Errors
///
/// The endpoint's health could not be read or written. Nothing was attempted.
pub async fn probe(
    context: &Context,
    hand: &DeliveryInHand,
    mut claim: Box<Health>,
) -> Result<Plan, PortError> {
    loop {
        let now = context.clock.now();
        if context.healths.write(hand.subscription(), now, &claim).await? {
            return Ok(Plan::Attempt { leased: false });
        }
        match plan_one(context, hand).await? {
            Plan::Probe(next) => claim = next,
            plan => return Ok(plan),
        }
    }
}

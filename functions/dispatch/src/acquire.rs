//! Between plan and attempt: acquires what an attempt needs besides permission. That is its events,
//! if they are too large for a message; a slot, if its endpoint limits requests per minute; and the
//! probe, claimed last because the claim makes every other delivery wait.

use gridpost_core::{
    delivery::{claim::Payload, plan::Plan, rate::RateDecision, state::DeliveryStatus},
    retry::{EndReason, health::Health},
    time::Timestamp,
};
use gridpost_ports::Result;

use crate::{
    Context,
    loaded::{Disposition, LoadedDelivery},
    payload,
    planned::plan_one,
    rate,
    settle::{self, Wait},
};

/// The result of loading the events of a delivery.
pub enum Acquired {
    InHand(LoadedDelivery),
    Settled(Disposition),
    Wait(LoadedDelivery, Wait),
}

/// Loads the events of a delivery. If they are in the payload bucket, the delivery takes its rate
/// slot first, so that the bucket is read once and not each time the delivery asks.
/// After an error, nothing was attempted.
pub async fn events(context: &Context, mut loaded: LoadedDelivery) -> Result<Acquired> {
    if !loaded.delivery.is_claimed() {
        return Ok(Acquired::InHand(loaded));
    }
    if let Some(until) = slot(context, std::slice::from_mut(&mut loaded)).await? {
        return Ok(Acquired::Wait(loaded, Wait::RecheckAt(until)));
    }
    Ok(match payload::fetch(context, &loaded.delivery).await? {
        Some(Payload::Events(events)) => {
            loaded.delivery.claim(events);
            Acquired::InHand(loaded)
        }
        // This is a late copy of its message.
        Some(Payload::Ended) => Acquired::Settled(Disposition::Delete),
        None => {
            let state = (loaded.revision > 0).then(|| loaded.state(DeliveryStatus::Ended));
            let reason = EndReason::PayloadMissing;
            let LoadedDelivery { record, delivery, .. } = &loaded;
            let disposition = settle::drop_delivery(context, record, delivery, state, reason).await;
            Acquired::Settled(disposition)
        }
    })
}

/// Takes one rate slot for the request of these deliveries. Without a free slot, returns when to
/// ask again.
/// After an error, nothing was attempted.
pub async fn slot(
    context: &Context,
    deliveries: &mut [LoadedDelivery],
) -> Result<Option<Timestamp>> {
    let slot_at = deliveries.iter().filter_map(|loaded| loaded.slot_at).max();
    let Some(first) = deliveries.first() else { return Ok(None) };
    Ok(match rate::turn(context, first.subscription(), slot_at).await? {
        RateDecision::Go => {
            let now = first.subscription().allowed_rate.map(|_| context.clock.now());
            deliveries.iter_mut().for_each(|loaded| loaded.slot_at = now);
            None
        }
        RateDecision::Wait { until } => Some(until),
    })
}

/// Claims the probe. Returns the plan that follows: an attempt if the claim was written, or a new
/// plan if another copy of dispatch claimed it first.
/// After an error, nothing was attempted.
pub async fn probe(
    context: &Context,
    loaded: &LoadedDelivery,
    mut claim: Box<Health>,
) -> Result<Plan> {
    loop {
        let now = context.clock.now();
        if context.healths.of(loaded.subscription()).write(now, &claim).await? {
            return Ok(Plan::Attempt { leased: false });
        }
        match plan_one(context, loaded).await? {
            Plan::Probe(next) => claim = next,
            plan => return Ok(plan),
        }
    }
}

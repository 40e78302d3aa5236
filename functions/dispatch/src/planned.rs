//! The third step: plans for each delivery, and carries out every plan but an attempt.

use std::time::Duration;

use futures::future::{FutureExt, join_all};
use gridpost_core::{
    delivery::plan::{Plan, plan},
    retry::{
        EndReason,
        health::{AdmissionRequest, Health, admit},
        outcome::Outcome,
    },
};
use gridpost_ports::{PortError, Record};

use crate::{
    Context, health,
    in_hand::{DeliveryInHand, Owner, Settled},
    lane,
    report::Report,
    settle::{self, Hold},
};

/// The plans for deliveries of one event subscription.
pub async fn plan_all(
    context: &Context,
    owner: &Owner,
    hands: Vec<DeliveryInHand>,
) -> Result<Vec<(DeliveryInHand, Plan)>, PortError> {
    let now = context.clock.now();
    let mut health = context.healths.look(&owner.subscription, now).await?;
    let spread = health::spread(context, &owner.subscription, now).await;
    let mut planned = Vec::with_capacity(hands.len());
    for hand in hands {
        let plan = plan_for(context, &hand, &health, spread);
        match &plan {
            Plan::Attempt { .. } => context.healths.note_admitted(&owner.subscription, now),
            // One of them probes; the others see its claim.
            Plan::Probe(claim) => health.clone_from(claim),
            _ => {}
        }
        planned.push((hand, plan));
    }
    Ok(planned)
}

fn plan_for(context: &Context, hand: &DeliveryInHand, health: &Health, spread: Duration) -> Plan {
    let now = context.clock.now();
    let subscription = hand.subscription();
    let asking = AdmissionRequest {
        delivery: hand.delivery.id,
        now,
        pace: context.clock.pace(),
        admitted: context.healths.admitted(subscription, now),
        spread,
        dice: context.dice.roll(),
    };
    let admission = admit(health, hand.rules(), subscription.probation_policy, asking);
    plan(hand.facts(admission, health.slow.is_slow(now), now), now)
}

/// The plan for one delivery by what is known now.
pub async fn plan_one(context: &Context, hand: &DeliveryInHand) -> Result<Plan, PortError> {
    let now = context.clock.now();
    let health = context.healths.look(hand.subscription(), now).await?;
    let spread = health::spread(context, hand.subscription(), now).await;
    Ok(plan_for(context, hand, &health, spread))
}

/// Carries out plans that ask for no attempt.
pub async fn carry_out_all(
    context: &Context,
    others: Vec<(DeliveryInHand, Plan)>,
    report: &Report<'_>,
) {
    if !others.is_empty() {
        carry_out_each(context, others, report).boxed().await;
    }
}

async fn carry_out_each(
    context: &Context,
    others: Vec<(DeliveryInHand, Plan)>,
    report: &Report<'_>,
) {
    let mut held = Vec::new();
    let mut ended = Vec::new();
    for (hand, plan) in others {
        match hold_of(context, &hand, &plan).await {
            Some(hold) => held.push((hand, hold)),
            None => ended.push(carry_out(context, hand, plan)),
        }
    }
    let (held, ended) = futures::join!(settle::hold_all(context, held), join_all(ended));
    report.all(held).await;
    report.all(ended).await;
}

async fn hold_of(context: &Context, hand: &DeliveryInHand, plan: &Plan) -> Option<Hold> {
    match plan {
        Plan::Defer { until } => Some(Hold::About(*until)),
        Plan::Wait { due } => Some(Hold::Until(*due)),
        Plan::Hold { until } => Some(Hold::Paused(*until)),
        Plan::MoveLane => Some(lane::to_slow_lane(context, hand).await),
        _ => None,
    }
}

/// Carries out a plan that asks for no attempt.
pub async fn carry_out(
    context: &Context,
    mut hand: DeliveryInHand,
    plan: Plan,
) -> (Record, Settled) {
    let record = hand.record.without_body();
    let settled = match plan {
        Plan::End(reason) => {
            if reason == EndReason::UndeliverableDueToProbationCausedByClientError {
                hand.delivery.attempts.last_outcome = Some(Outcome::Probation);
            }
            settle::end(context, hand, reason).await
        }
        Plan::Follow(status) => settle::apply(context, hand, status).await,
        plan => {
            let hold = hold_of(context, &hand, &plan).await;
            let hold = hold.unwrap_or(Hold::About(context.clock.now()));
            let held = settle::hold_all(context, vec![(hand, hold)]).await.pop();
            let lost = || Err(PortError::new("holding a delivery back", "no answer came"));
            held.map_or_else(lost, |(_, settled)| settled)
        }
    };
    (record, settled)
}

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
    loaded::{LoadedDelivery, Owner, Settled},
    report::Report,
    settle::{self, Wait},
    slow_endpoint,
};

/// Plans for deliveries of one event subscription.
pub async fn plan_all(
    context: &Context,
    owner: &Owner,
    deliveries: Vec<LoadedDelivery>,
) -> Result<Vec<(LoadedDelivery, Plan)>, PortError> {
    let now = context.clock.now();
    let mut health = context.healths.look(&owner.subscription, now).await?;
    let spread = health::spread(context, &owner.subscription, now).await;
    let mut planned = Vec::with_capacity(deliveries.len());
    for loaded in deliveries {
        let plan = plan_for(context, &loaded, &health, spread);
        match &plan {
            Plan::Attempt { .. } => context.healths.note_admitted(&owner.subscription, now),
            // One of them probes; the others see its claim.
            Plan::Probe(claim) => health.clone_from(claim),
            _ => {}
        }
        planned.push((loaded, plan));
    }
    Ok(planned)
}

fn plan_for(context: &Context, loaded: &LoadedDelivery, health: &Health, spread: Duration) -> Plan {
    let now = context.clock.now();
    let subscription = loaded.subscription();
    let asking = AdmissionRequest {
        delivery: loaded.delivery.id,
        now,
        pace: context.clock.pace(),
        admitted: context.healths.admitted(subscription, now),
        spread,
        dice: context.dice.roll(),
    };
    let admission = admit(health, loaded.rules(), subscription.probation_policy, asking);
    plan(loaded.facts(admission, health.slow.is_slow(now), now), now)
}

pub async fn plan_one(context: &Context, loaded: &LoadedDelivery) -> Result<Plan, PortError> {
    let now = context.clock.now();
    let health = context.healths.look(loaded.subscription(), now).await?;
    let spread = health::spread(context, loaded.subscription(), now).await;
    Ok(plan_for(context, loaded, &health, spread))
}

/// Carries out all plans but attempts.
pub async fn carry_out_all(
    context: &Context,
    others: Vec<(LoadedDelivery, Plan)>,
    report: &Report<'_>,
) {
    if !others.is_empty() {
        carry_out_each(context, others, report).boxed().await;
    }
}

async fn carry_out_each(
    context: &Context,
    others: Vec<(LoadedDelivery, Plan)>,
    report: &Report<'_>,
) {
    let mut held = Vec::new();
    let mut ended = Vec::new();
    for (loaded, plan) in others {
        match wait_of(context, &loaded, &plan).await {
            Some(wait) => held.push((loaded, wait)),
            None => ended.push(carry_out(context, loaded, plan)),
        }
    }
    let (held, ended) = futures::join!(settle::wait_all(context, held), join_all(ended));
    report.all(held).await;
    report.all(ended).await;
}

async fn wait_of(context: &Context, loaded: &LoadedDelivery, plan: &Plan) -> Option<Wait> {
    match plan {
        Plan::RecheckAt { until } => Some(Wait::RecheckAt(*until)),
        Plan::Wait { due } => Some(Wait::UntilDue(*due)),
        Plan::Hold { until } => Some(Wait::WhilePaused(*until)),
        Plan::MoveLane => Some(slow_endpoint::to_slow_lane(context, loaded).await),
        _ => None,
    }
}

/// Carries out any plan but an attempt.
pub async fn carry_out(
    context: &Context,
    mut loaded: LoadedDelivery,
    plan: Plan,
) -> (Record, Settled) {
    let record = loaded.record.without_body();
    let settled = match plan {
        Plan::End(reason) => {
            if reason == EndReason::UndeliverableDueToProbationCausedByClientError {
                loaded.delivery.attempts.last_outcome = Some(Outcome::Probation);
            }
            settle::end(context, loaded, reason).await
        }
        Plan::Follow(status) => settle::apply(context, loaded, status).await,
        plan => {
            let wait = wait_of(context, &loaded, &plan).await;
            let wait = wait.unwrap_or(Wait::RecheckAt(context.clock.now()));
            let held = settle::wait_all(context, vec![(loaded, wait)]).await.pop();
            let lost = || Err(PortError::new("holding a delivery back", "no answer came"));
            held.map_or_else(lost, |(_, settled)| settled)
        }
    };
    (record, settled)
}

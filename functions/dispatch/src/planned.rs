//! The third step: plans for each delivery, and carries out every plan but an attempt.

use std::time::Duration;

use futures::future::{FutureExt, join_all};
use gridpost_core::{
    delivery::plan::{Lane, Plan, plan},
    retry::{
        EndReason,
        health::{AdmissionRequest, Health, admit},
        outcome::Outcome,
    },
};
use gridpost_ports::{Result, configuration::Owner};

use crate::{
    Context, health,
    loaded::{LoadedDelivery, SettledRecord},
    report::Report,
    settle::{self, Wait},
    slow_endpoint,
};

pub type PlannedDelivery = (LoadedDelivery, Plan);

/// Plans for deliveries of one event subscription.
pub async fn plan_all(
    context: &Context,
    owner: &Owner,
    deliveries: Vec<LoadedDelivery>,
) -> Result<Vec<PlannedDelivery>> {
    let now = context.clock.now();
    let known = context.healths.of(&owner.subscription);
    let mut health = known.look(now).await?;
    let spread = health::spread(context, &owner.subscription, now).await;
    let mut planned = Vec::with_capacity(deliveries.len());
    for loaded in deliveries {
        let plan = plan_for(context, &loaded, &health, spread);
        match &plan {
            Plan::Attempt { .. } => known.note_admitted(now),
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
        admitted: context.healths.of(subscription).admitted(now),
        spread,
        dice: context.dice.roll(),
    };
    let admission = admit(health, loaded.rules(), subscription.probation_policy, asking);
    let lane = match context.lane_of(&loaded.record) {
        Lane::Retry
            if !health.slow.shares_invocations(now) || !settle::may_move(&loaded.delivery) =>
        {
            Lane::Slow
        }
        lane => lane,
    };
    plan(loaded.facts(lane, (admission, health.slow.is_slow(now)), now), now)
}

pub async fn plan_one(context: &Context, loaded: &LoadedDelivery) -> Result<Plan> {
    let now = context.clock.now();
    let health = context.healths.of(loaded.subscription()).look(now).await?;
    let spread = health::spread(context, loaded.subscription(), now).await;
    Ok(plan_for(context, loaded, &health, spread))
}

/// Carries out all plans but attempts.
pub async fn carry_out_all(others: Vec<PlannedDelivery>, report: &Report<'_>) {
    if !others.is_empty() {
        carry_out_each(others, report).boxed().await;
    }
}

async fn carry_out_each(others: Vec<PlannedDelivery>, report: &Report<'_>) {
    let context = report.context;
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
pub async fn carry_out(context: &Context, mut loaded: LoadedDelivery, plan: Plan) -> SettledRecord {
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
            settle::wait_one(context, loaded, wait).await
        }
    };
    (record, settled)
}

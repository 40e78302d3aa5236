//! Takes the deliveries of one event subscription through five of the six steps: load, plan,
//! attempt, decide, settle.
//!
//! Nearly all deliveries succeed at their first attempt. Futures that only the others need are
//! boxed, because a future is as large as its largest branch and is copied whole.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use gridpost_core::{
    delivery::{
        plan::{Facts, Plan, plan},
        state::DeliveryStatus,
    },
    retry::EndReason,
};
use gridpost_ports::{Result, configuration::Owner};

use crate::{
    Context,
    late_response::Late,
    load::{Loaded, load},
    loaded::{LoadedDelivery, Received, Settled, catch_up, without_bodies},
    planned::{PlannedDelivery, carry_out_all, plan_all},
    report::Report,
    requests::{Admitted, attempts},
    settle,
};

/// Handles the deliveries of one event subscription and reports each when it is settled. Returns
/// the requests whose response may still come.
pub async fn work(group: Vec<Received>, report: &Report<'_>) -> Result<Vec<Late>> {
    let Loaded { owner, received, failed } = load(report.context, group).await?;
    report.all(failed).await;
    if let Some(owner) = owner {
        let deliveries = received.into_iter().map(|received| received.of(&owner)).collect();
        return Ok(wave(&owner, deliveries, report).await);
    }
    for received in received {
        let record = received.record.without_body();
        report.one(record, orphan(report.context, received).boxed().await).await;
    }
    Ok(Vec::new())
}

/// Settles a delivery whose event subscription was deleted.
async fn orphan(context: &Context, received: Received) -> Settled {
    let Received { record, mut delivery, state } = received;
    let (lane, status) = (context.lane_of(&record), state.as_ref().map(|state| state.status));
    let facts = Facts { lane, status, due: None, resend_requested: false, subscription: None };
    if let Plan::Follow(status) = plan(facts, context.clock.now()) {
        return settle::forget(context, &delivery, status).await;
    }
    if let Some(state) = &state {
        catch_up(&mut delivery, state);
    }
    let reason = EndReason::SubscriptionDeleted;
    Ok(settle::drop_delivery(context, &record, &delivery, state, reason).await)
}

/// Plans for deliveries and carries the plans out. Deliveries that are due within a second wait
/// here; the others do not wait for them.
fn wave<'a>(
    owner: &'a Owner,
    deliveries: Vec<LoadedDelivery>,
    report: &'a Report<'_>,
) -> BoxFuture<'a, Vec<Late>> {
    let context = report.context;
    async move {
        let deliveries = with_events_left(deliveries, report).await;
        let all = without_bodies(deliveries.iter().map(|loaded| &loaded.record));
        let planned = match plan_all(context, owner, deliveries).await {
            Ok(planned) => planned,
            Err(error) => {
                report.all_failed(all, &error).await;
                return Vec::new();
            }
        };
        let mut sorted = Sorted::default();
        planned.into_iter().for_each(|(loaded, plan)| sorted.add(loaded, plan));
        let Sorted { admitted, others, resting, rest } = sorted;
        let resting = async {
            if resting.is_empty() {
                return Vec::new();
            }
            tokio::time::sleep(context.clock.pace().to_real(rest)).await;
            wave(owner, resting, report).await
        };
        let others = carry_out_all(others, report);
        let (mut late, resting, ()) = futures::join!(attempts(admitted, report), resting, others);
        late.extend(resting);
        late
    }
    .boxed()
}

/// Settles deliveries whose events were all delivered, in parts, by copies of one message.
async fn with_events_left(
    deliveries: Vec<LoadedDelivery>,
    report: &Report<'_>,
) -> Vec<LoadedDelivery> {
    let is_done = |loaded: &LoadedDelivery| {
        let waits = matches!(loaded.status, None | Some(DeliveryStatus::Waiting { .. }));
        waits && loaded.delivery.event_count() == 0
    };
    if !deliveries.iter().any(is_done) {
        return deliveries;
    }
    let (done, left): (Vec<_>, Vec<_>) = deliveries.into_iter().partition(is_done);
    for loaded in done {
        let record = loaded.record.without_body();
        report.one(record, settle::delivered(report.context, loaded, None).await).await;
    }
    left
}

#[derive(Default)]
struct Sorted {
    admitted: Admitted,
    others: Vec<PlannedDelivery>,
    resting: Vec<LoadedDelivery>,
    rest: Duration,
}

impl Sorted {
    fn add(&mut self, loaded: LoadedDelivery, plan: Plan) {
        match plan {
            Plan::Attempt { leased: false } => self.admitted.plain.push(loaded),
            Plan::Attempt { leased: true } => self.admitted.leased.push(loaded),
            Plan::Probe(claim) => self.admitted.probes.push((loaded, claim)),
            Plan::WaitInProcess(rest) => {
                self.rest = self.rest.max(rest);
                self.resting.push(loaded);
            }
            plan => self.others.push((loaded, plan)),
        }
    }
}

#[cfg(test)]
mod tests;

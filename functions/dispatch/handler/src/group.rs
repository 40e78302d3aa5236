//! The deliveries of one event subscription on their way through the six steps: load, plan, attempt,
//! decide, settle, each told in its own module.

use std::{collections::BTreeMap, time::Duration};

use futures::future::{BoxFuture, FutureExt, join_all};
use gridpost_core::{
    delivery::{
        batch::{self, Load},
        form::Form,
        plan::{Facts, Plan, plan},
    },
    retry::{
        EndReason,
        health::{Asking, Health, admit},
        outcome::{Outcome, RESPONSE_WAIT},
    },
    time::Timestamp,
};
use gridpost_ports::PortError;

use crate::{
    Context,
    acquire::{self, Acquired},
    attempt::attempt,
    count,
    decide::{Then, decide},
    guard::guarded,
    health,
    in_hand::{DeliveryInHand, Owner, Received, catch_up, lane_of},
    lane::{self, Lease, watched},
    late_response::Late,
    load::{Loaded, load},
    record::{Record, Settled},
    report::Report,
    settle::{self, Hold},
};

/// What connecting and settling take at most besides the wait for a response: nothing is started that
/// could not be finished.
const BESIDES_RESPONSE: Duration = Duration::from_secs(12);

/// Handles the deliveries of one event subscription; each is reported when it is settled. Answers the
/// requests whose response may still come.
pub async fn work(context: &Context, group: Vec<Received>, report: &Report<'_>) -> Vec<Late> {
    let records = records(group.iter().map(|received| &received.record));
    let Loaded { owner, received, failed } = match load(context, group).await {
        Ok(loaded) => loaded,
        Err(error) => {
            report.all_failed(records, &error).await;
            return Vec::new();
        }
    };
    report.all(failed).await;
    if let Some(owner) = owner {
        let hands = received.into_iter().map(|received| received.of(&owner)).collect();
        return wave(context, &owner, hands, report).await;
    }
    for received in received {
        let record = received.record.without_body();
        report.one(record, orphan(context, received).await).await;
    }
    Vec::new()
}

fn records<'r>(records: impl Iterator<Item = &'r Record>) -> Vec<Record> {
    records.map(Record::without_body).collect()
}

/// Settles a delivery whose event subscription is gone.
async fn orphan(context: &Context, received: Received) -> Settled {
    let Received { record, mut delivery, state } = received;
    let status = state.as_ref().map(|state| state.standing);
    let facts = Facts {
        lane: lane_of(&record),
        status,
        due: None,
        resend_requested: false,
        subscription: None,
    };
    if let Plan::Follow(status) = plan(facts, context.clock.now()) {
        return settle::forget(context, &delivery, status).await;
    }
    if let Some(state) = &state {
        catch_up(&mut delivery, state);
    }
    let reason = EndReason::SubscriptionDeleted;
    Ok(settle::drop_delivery(context, &delivery, state, reason).await)
}

/// Plans for deliveries and carries the plans out. Those that are due within a second wait for it
/// here; the others do not wait for them.
fn wave<'a>(
    context: &'a Context,
    owner: &'a Owner,
    hands: Vec<DeliveryInHand>,
    report: &'a Report<'_>,
) -> BoxFuture<'a, Vec<Late>> {
    async move {
        let all = records(hands.iter().map(|hand| &hand.record));
        let planned = match plan_all(context, owner, hands).await {
            Ok(planned) => planned,
            Err(error) => {
                report.all_failed(all, &error).await;
                return Vec::new();
            }
        };
        let mut sorted = Sorted::default();
        planned.into_iter().for_each(|(hand, plan)| sorted.add(hand, plan));
        let Sorted { admitted, others, resting, rest } = sorted;
        let resting = async {
            if resting.is_empty() {
                return Vec::new();
            }
            tokio::time::sleep(rest).await;
            wave(context, owner, resting, report).await
        };
        let (mut late, resting, ()) = futures::join!(
            attempts(context, admitted, report),
            resting,
            carry_out_all(context, others, report),
        );
        late.extend(resting);
        late
    }
    .boxed()
}

/// Deliveries by what their plan asks for.
#[derive(Default)]
struct Sorted {
    admitted: Admitted,
    others: Vec<(DeliveryInHand, Plan)>,
    resting: Vec<DeliveryInHand>,
    rest: Duration,
}

/// Deliveries that may be attempted.
#[derive(Default)]
struct Admitted {
    plain: Vec<DeliveryInHand>,
    /// Those whose requests are counted.
    leased: Vec<DeliveryInHand>,
    /// Probes, each with its claim.
    probes: Vec<(DeliveryInHand, Box<Health>)>,
}

impl Sorted {
    fn add(&mut self, hand: DeliveryInHand, plan: Plan) {
        match plan {
            Plan::Attempt { leased: false } => self.admitted.plain.push(hand),
            Plan::Attempt { leased: true } => self.admitted.leased.push(hand),
            Plan::Probe(claim) => self.admitted.probes.push((hand, claim)),
            Plan::Rest(rest) => {
                self.rest = self.rest.max(rest);
                self.resting.push(hand);
            }
            plan => self.others.push((hand, plan)),
        }
    }
}

async fn plan_all(
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
    let asking = Asking {
        delivery: hand.delivery.id,
        now,
        admitted: context.healths.admitted(subscription, now),
        spread,
        dice: context.dice.roll(),
    };
    let admission = admit(health, hand.rules(), subscription.probation_policy, asking);
    plan(hand.facts(admission, health.slow.is_slow(now), now), now)
}

/// The plan for one delivery by what is known now.
///
/// # Errors
///
/// The endpoint's health could not be read.
pub async fn plan_one(context: &Context, hand: &DeliveryInHand) -> Result<Plan, PortError> {
    let now = context.clock.now();
    let health = context.healths.look(hand.subscription(), now).await?;
    let spread = health::spread(context, hand.subscription(), now).await;
    Ok(plan_for(context, hand, &health, spread))
}

async fn carry_out_all(
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
        Plan::MoveLane => Some(lane::to_slow_lane(context, hand).await),
        _ => None,
    }
}

/// Carries out a plan that asks for no attempt.
async fn carry_out(context: &Context, mut hand: DeliveryInHand, plan: Plan) -> (Record, Settled) {
    let record = hand.record.without_body();
    let settled = match plan {
        Plan::End(reason) => {
            if reason == EndReason::UndeliverableDueToProbationCausedByClientError {
                hand.delivery.attempts.last_outcome = Some(Outcome::Probation);
            }
            settle::end(context, hand, reason).await
        }
        Plan::Follow(status) => settle::follow(context, hand, status).await,
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

/// Makes the attempts, as many at the same time as there are requests.
async fn attempts(context: &Context, admitted: Admitted, report: &Report<'_>) -> Vec<Late> {
    let Admitted { plain, leased, probes } = admitted;
    let probes = probes.into_iter().map(|(hand, claim)| async move {
        let hands = with_events(context, vec![hand], report).await;
        request(context, hands, Permit::Claim(claim), report).await
    });
    // What has its events in its message does not wait for those that are fetched.
    let (fetched, ready) = plain.into_iter().partition(|hand| hand.delivery.is_claimed());
    let plain = [ready, fetched].map(|hands: Vec<_>| async {
        let requests = requests(with_events(context, hands, report).await);
        let made = requests.into_iter().map(|hands| request(context, hands, Permit::Free, report));
        join_all(made).await
    });
    let leased = leased_requests(context, leased, report);
    let (probed, made, leased) = futures::join!(join_all(probes), join_all(plain), leased);
    probed.into_iter().chain(made.into_iter().flatten()).chain(leased).flatten().collect()
}

/// Makes those requests to a slow endpoint that may be under way; the others come back.
async fn leased_requests(
    context: &Context,
    hands: Vec<DeliveryInHand>,
    report: &Report<'_>,
) -> Vec<Option<Late>> {
    // The lease first: what is not granted fetches nothing and takes no slot of a rate.
    // What is fetched goes alone: how much it is shows only then.
    let (fetched, ready): (Vec<_>, _) =
        hands.into_iter().partition(|hand| hand.delivery.is_claimed());
    let mut granted = requests(ready);
    granted.extend(fetched.into_iter().map(|hand| vec![hand]));
    let Some(first) = granted.first().and_then(|hands| hands.first()) else { return Vec::new() };
    let subscription = first.subscription().clone();
    let (lease, most) = match Lease::take(context, &subscription, granted.len()).await {
        Ok(taken) => taken,
        Err(error) => {
            let all = records(granted.iter().flatten().map(|hand| &hand.record));
            report.all_failed(all, &error).await;
            return Vec::new();
        }
    };
    let beyond = granted.split_off(most.min(granted.len()));
    let beyond = async {
        let mut held = Vec::new();
        for hand in beyond.into_iter().flatten() {
            let hold = lane::look_again(context, &hand).await;
            held.push((hand, hold));
        }
        report.all(settle::hold_all(context, held).await).await;
    };
    let made = granted.into_iter().map(|hands| async {
        let hands = with_events(context, hands, report).await;
        let late = request(context, hands, Permit::Lease(&lease), report).await;
        lease.end_one();
        late
    });
    let (made, ()) = futures::join!(lease.kept_up(join_all(made)), beyond);
    made
}

/// What lets a request begin.
enum Permit<'l> {
    /// Its endpoint is well, as far as is known.
    Free,
    /// It is one of those that may be under way to a slow endpoint.
    Lease(&'l Lease<'l>),
    /// It is the probe, once that is written.
    Claim(Box<Health>),
}

/// The deliveries whose events are in hand; the others are settled.
async fn with_events(
    context: &Context,
    hands: Vec<DeliveryInHand>,
    report: &Report<'_>,
) -> Vec<DeliveryInHand> {
    let taken = hands.into_iter().map(|hand| async move {
        let record = hand.record.without_body();
        (record, guarded(acquire::events(context, hand)).await.and_then(|taken| taken))
    });
    let (mut ready, mut held) = (Vec::new(), Vec::new());
    for (record, taken) in join_all(taken).await {
        match taken {
            Ok(Acquired::InHand(hand)) => ready.push(hand),
            Ok(Acquired::Hold(hand, hold)) => held.push((*hand, hold)),
            Ok(Acquired::Settled(fate)) => report.one(record, Ok(fate)).await,
            Err(error) => report.one(record, Err(error)).await,
        }
    }
    report.all(settle::hold_all(context, held).await).await;
    ready
}

/// Puts deliveries together that may share a request: those of one form that have had equally many
/// attempts.
fn requests(hands: Vec<DeliveryInHand>) -> Vec<Vec<DeliveryInHand>> {
    let mut groups: BTreeMap<(u32, Form), Vec<DeliveryInHand>> = BTreeMap::new();
    for hand in hands {
        let form = hand.delivery.form(hand.subscription());
        groups.entry((hand.delivery.attempts.made, form)).or_default().push(hand);
    }
    groups.into_values().flat_map(join).collect()
}

fn join(hands: Vec<DeliveryInHand>) -> Vec<Vec<DeliveryInHand>> {
    let load = |hand: &DeliveryInHand| Load {
        events: hand.delivery.event_count(),
        bytes: hand.delivery.events_bytes(),
    };
    let loads: Vec<_> = hands.iter().map(load).collect();
    let Some(first) = hands.first() else { return Vec::new() };
    let subscription = first.subscription();
    let joined = batch::join(&loads, first.delivery.form(subscription).batching(subscription));
    let mut hands = hands.into_iter();
    joined.into_iter().map(|positions| hands.by_ref().take(positions.len()).collect()).collect()
}

/// Makes one request and settles its deliveries. A panic on the way fails them alone.
async fn request(
    context: &Context,
    hands: Vec<DeliveryInHand>,
    permit: Permit<'_>,
    report: &Report<'_>,
) -> Option<Late> {
    let records = records(hands.iter().map(|hand| &hand.record));
    match guarded(make(context, hands, permit, report.deadline)).await.and_then(|made| made) {
        Ok((settled, late)) => {
            report.all(settled).await;
            late
        }
        Err(error) => {
            report.all_failed(records, &error).await;
            None
        }
    }
}

type Made = (Vec<(Record, Settled)>, Option<Late>);

async fn make(
    context: &Context,
    mut hands: Vec<DeliveryInHand>,
    permit: Permit<'_>,
    deadline: Timestamp,
) -> Result<Made, PortError> {
    let Some(first) = hands.first() else { return Ok((Vec::new(), None)) };
    let left = deadline.since(context.clock.now());
    if left < RESPONSE_WAIT + BESIDES_RESPONSE {
        let reason = "too little time is left in this invocation";
        return Err(PortError::new("making an attempt", reason));
    }
    let subscription = first.subscription().clone();
    if let Some(until) = acquire::slot(context, &mut hands).await? {
        let held = hands.into_iter().map(|hand| (hand, Hold::About(until))).collect();
        return Ok((settle::hold_all(context, held).await, None));
    }
    let mut lease = None;
    match permit {
        Permit::Free => {}
        Permit::Lease(granted) => lease = Some(granted),
        Permit::Claim(claim) => match acquire::probe(context, &hands[0], claim).await? {
            Plan::Attempt { .. } => {}
            plan => {
                let lost = hands.into_iter().map(|hand| carry_out(context, hand, plan.clone()));
                return Ok((join_all(lost).await, None));
            }
        },
    }
    let (response, late) = match lease {
        Some(lease) => lease.noting(attempt(context, &hands)).await,
        None => watched(context, &subscription, attempt(context, &hands)).await,
    };
    if context.settings.latency_metrics {
        count::latency(context, &hands, &response);
    }
    let not_before = settle::note_response(context, &hands, &response).await;
    let mut late = late.map(|answer| Late::new(answer, subscription, response.times));
    let settled = hands.into_iter().zip(&response.met).map(|(hand, met)| {
        let verdict = decide(&hand, met, response.times, not_before, context.dice.roll());
        if let (Some(late), Then::Retry { due, .. }) = (&mut late, verdict.then) {
            late.of(hand.delivery.id, due);
        }
        let record = hand.record.without_body();
        async move { (record, settle::settle(context, hand, verdict, response.times).await) }
    });
    let settled = join_all(settled.collect::<Vec<_>>()).await;
    Ok((settled, late.filter(Late::is_awaited)))
}

#[cfg(test)]
mod tests;

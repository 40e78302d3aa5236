//! Groups deliveries into requests, and takes each through acquire, attempt, decide and settle.

use std::{collections::BTreeMap, time::Duration};

use futures::future::{FutureExt, join_all};
use gridpost_core::{
    delivery::{
        batch::{self, Form, Load},
        plan::Plan,
    },
    retry::{health::Health, outcome::RESPONSE_WAIT},
    time::Timestamp,
};
use gridpost_ports::{PortError, Result, authentication::AUTHENTICATED_WITHIN, guard::guarded};

use crate::{
    Context,
    acquire::{self, Acquired},
    attempt::{BESIDES_RESPONSE, send},
    bisect::{self, Batch},
    decide::{NextStep, Verdict, decide},
    health,
    late_response::Late,
    loaded::{LoadedDelivery, SettledRecord, without_bodies},
    planned::carry_out,
    report::Report,
    response::Response,
    settle::{self, Wait},
    slow_endpoint::{self, Lease},
};

/// How long a delivery waits for another invocation if this one has fetched all the events it may.
const FETCHED_LATER: Duration = Duration::from_secs(5);

/// How long a delivery waits whose request found no file descriptor.
const CONNECTED_LATER: Duration = Duration::from_secs(2);

/// Deliveries that may be attempted.
#[derive(Default)]
pub struct Admitted {
    /// Deliveries that need neither a lease nor a claim.
    pub plain: Vec<LoadedDelivery>,
    pub leased: Vec<LoadedDelivery>,
    pub probes: Vec<(LoadedDelivery, Box<Health>)>,
}

/// Makes the attempts, all requests concurrently.
pub async fn attempts(admitted: Admitted, report: &Report<'_>) -> Vec<Late> {
    let Admitted { plain, leased, probes } = admitted;
    // Deliveries with their events in the message do not wait for fetched ones.
    let (fetched, ready): (Vec<_>, _) =
        plain.into_iter().partition(|loaded| loaded.delivery.is_claimed());
    let rare = async {
        if probes.is_empty() && fetched.is_empty() && leased.is_empty() {
            return Vec::new();
        }
        rare_attempts(fetched, leased, probes, report).boxed().await
    };
    let (ready, rare) = futures::join!(free_requests(ready, report), rare);
    ready.into_iter().chain(rare).flatten().collect()
}

async fn free_requests(deliveries: Vec<LoadedDelivery>, report: &Report<'_>) -> Vec<Option<Late>> {
    let requests = requests(deliveries).into_iter();
    join_all(requests.map(|deliveries| request(deliveries, Permit::Free, report))).await
}

async fn rare_attempts(
    fetched: Vec<LoadedDelivery>,
    leased: Vec<LoadedDelivery>,
    probes: Vec<(LoadedDelivery, Box<Health>)>,
    report: &Report<'_>,
) -> Vec<Option<Late>> {
    let probes = probes.into_iter().map(|(loaded, claim)| async move {
        // One for each event subscription, and its others wait for what it finds.
        let deliveries = with_events(vec![loaded], true, report).await;
        request(deliveries, Permit::Claim(claim), report).await
    });
    let fetched = async { free_requests(with_events(fetched, false, report).await, report).await };
    let leased = leased_requests(leased, report);
    let (probed, made, leased) = futures::join!(join_all(probes), fetched, leased);
    probed.into_iter().chain(made).chain(leased).collect()
}

/// Makes the requests to a slow endpoint that may be under way; the others come back later.
async fn leased_requests(
    deliveries: Vec<LoadedDelivery>,
    report: &Report<'_>,
) -> Vec<Option<Late>> {
    let context = report.context;
    // The lease comes first: deliveries without one fetch nothing and take no rate slot.
    let (fetched, ready): (Vec<_>, _) =
        deliveries.into_iter().partition(|loaded| loaded.delivery.is_claimed());
    let mut granted = requests(ready);
    granted.extend(fetched.into_iter().map(|loaded| vec![loaded]));
    let Some(first) = granted.first().and_then(|deliveries| deliveries.first()) else {
        return Vec::new();
    };
    let subscription = first.subscription().clone();
    let (lease, most) = match Lease::take(context, &subscription, granted.len()).await {
        Ok(taken) => taken,
        Err(error) => {
            let all = without_bodies(granted.iter().flatten().map(|loaded| &loaded.record));
            report.all_failed(all, &error).await;
            return Vec::new();
        }
    };
    let beyond = granted.split_off(most.min(granted.len()));
    let beyond = async {
        let mut held = Vec::new();
        for loaded in beyond.into_iter().flatten() {
            let wait = slow_endpoint::look_again(context, &loaded).await;
            held.push((loaded, wait));
        }
        report.all(settle::wait_all(context, held).await).await;
    };
    let made = granted.into_iter().map(|deliveries| async {
        let deliveries = with_events(deliveries, false, report).await;
        let late = request(deliveries, Permit::Lease(&lease), report).await;
        lease.end_one();
        late
    });
    let (made, ()) = futures::join!(lease.kept_up(join_all(made)), beyond);
    made
}

enum Permit<'l> {
    Free,
    Lease(&'l Lease<'l>),
    /// The probe, whose claim is still to be written.
    Claim(Box<Health>),
}

/// Loads the events of deliveries. Settles deliveries without events.
async fn with_events(
    deliveries: Vec<LoadedDelivery>,
    is_probe: bool,
    report: &Report<'_>,
) -> Vec<LoadedDelivery> {
    let context = report.context;
    let (taken, beyond): (Vec<_>, Vec<_>) = deliveries
        .into_iter()
        .partition(|loaded| !loaded.delivery.is_claimed() || report.may_fetch(is_probe));
    let again_at = context.clock.after(FETCHED_LATER);
    let beyond = beyond.into_iter().map(|loaded| (loaded, Wait::RecheckAt(again_at)));
    let (mut held, mut ready) = (beyond.collect::<Vec<_>>(), Vec::new());
    let taken = taken.into_iter().map(|loaded| async move {
        let record = loaded.record.without_body();
        let taken = guarded("loading events", acquire::events(context, loaded)).await;
        (record, taken.and_then(|taken| taken))
    });
    for (record, taken) in join_all(taken).await {
        match taken {
            Ok(Acquired::InHand(loaded)) => ready.push(loaded),
            Ok(Acquired::Wait(loaded, wait)) => held.push((loaded, wait)),
            Ok(Acquired::Settled(disposition)) => report.one(record, Ok(disposition)).await,
            Err(error) => report.one(record, Err(error)).await,
        }
    }
    report.all(settle::wait_all(context, held).await).await;
    ready
}

/// Groups deliveries of one form with equally many attempts, which may share a request.
fn requests(deliveries: Vec<LoadedDelivery>) -> Vec<Vec<LoadedDelivery>> {
    let mut groups: BTreeMap<(u32, Form), Vec<LoadedDelivery>> = BTreeMap::new();
    for loaded in deliveries {
        let form = loaded.delivery.form(loaded.subscription());
        groups.entry((loaded.delivery.attempts.made, form)).or_default().push(loaded);
    }
    groups.into_values().flat_map(join).collect()
}

fn join(deliveries: Vec<LoadedDelivery>) -> Vec<Vec<LoadedDelivery>> {
    let load = |loaded: &LoadedDelivery| Load {
        events: loaded.delivery.event_count(),
        bytes: loaded.delivery.events_bytes(),
    };
    let loads: Vec<_> = deliveries.iter().map(load).collect();
    let Some(first) = deliveries.first() else { return Vec::new() };
    let subscription = first.subscription();
    let joined = batch::join(&loads, first.delivery.form(subscription).batching(subscription));
    let mut deliveries = deliveries.into_iter();
    let request = |positions: Vec<usize>| deliveries.by_ref().take(positions.len()).collect();
    joined.into_iter().map(request).collect()
}

/// A panic fails only these deliveries.
async fn request(
    deliveries: Vec<LoadedDelivery>,
    permit: Permit<'_>,
    report: &Report<'_>,
) -> Option<Late> {
    let records = without_bodies(deliveries.iter().map(|loaded| &loaded.record));
    let sent = send_and_settle(report.context, deliveries, permit, report.deadline);
    match guarded("making a request", sent).await.and_then(|sent| sent) {
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

async fn send_and_settle(
    context: &Context,
    mut deliveries: Vec<LoadedDelivery>,
    permit: Permit<'_>,
    deadline: Timestamp,
) -> Result<(Vec<SettledRecord>, Option<Late>)> {
    let Some(first) = deliveries.first() else { return Ok((Vec::new(), None)) };
    let left = context.clock.left(deadline);
    let is_authenticated = first.subscription().authentication.is_some();
    let token = if is_authenticated { AUTHENTICATED_WITHIN } else { Duration::ZERO };
    if left < token + RESPONSE_WAIT + BESIDES_RESPONSE {
        let reason = "too little time is left in this invocation";
        return Err(PortError::new("making an attempt", reason));
    }
    let subscription = first.subscription().clone();
    if let Some(until) = acquire::slot(context, &mut deliveries).await? {
        return Ok((held(context, deliveries, until).boxed().await, None));
    }
    let (mut lease, mut held_until) = (None, None);
    let is_probe = matches!(permit, Permit::Claim(_));
    match permit {
        Permit::Free => {}
        Permit::Lease(granted) => (lease, held_until) = (Some(granted), Some(granted.until())),
        Permit::Claim(claim) => {
            held_until = claim.probe.map(|probe| probe.lease_until);
            match acquire::probe(context, &deliveries[0], claim).boxed().await? {
                // The minute of its slot may have ended while the claim was written.
                Plan::Attempt { .. } => {
                    if let Some(until) = acquire::slot(context, &mut deliveries).await? {
                        return Ok((held(context, deliveries, until).boxed().await, None));
                    }
                }
                plan => {
                    let lost = deliveries.into_iter();
                    let lost = lost.map(|loaded| carry_out(context, loaded, plan.clone()));
                    return Ok((join_all(lost).boxed().await, None));
                }
            }
        }
    }
    let Some((response, late)) = send(context, &deliveries, lease).await else {
        if is_probe {
            let health = context.healths.of(&subscription);
            health.unclaim(deliveries[0].delivery.id, context.clock.now()).boxed().await;
        }
        let until = context.clock.after(CONNECTED_LATER);
        return Ok((held(context, deliveries, until).boxed().await, None));
    };
    let (response, not_before) = match bisect::begin(&deliveries, &response) {
        None => {
            let not_before = health::note_response(context, &deliveries, &response).await;
            (response, not_before)
        }
        Some(bisection) => {
            let batch = Batch { context, deliveries: &deliveries, lease, held_until, deadline };
            batch.bisect(bisection, response).boxed().await
        }
    };
    let mut late = late.map(|answer| Late::new(answer, subscription, response.times));
    let (mut settled, mut others) = (Vec::with_capacity(deliveries.len()), Vec::new());
    for (loaded, result) in deliveries.into_iter().zip(&response.results) {
        let verdict = decide(&loaded, result, response.times, not_before, context.dice.roll());
        if let (Some(late), NextStep::Retry { due, .. }) = (&mut late, verdict.next_step) {
            late.of(&loaded.delivery, due);
        }
        match settle::at_once(context, &loaded, &verdict, response.times) {
            Some(disposition) => settled.push((loaded.record, Ok(disposition))),
            None => others.push(settle_one(context, loaded, verdict, &response).boxed()),
        }
    }
    if !others.is_empty() {
        settled.extend(join_all(others).await);
    }
    Ok((settled, late.filter(Late::is_awaited)))
}

async fn held(
    context: &Context,
    deliveries: Vec<LoadedDelivery>,
    until: Timestamp,
) -> Vec<SettledRecord> {
    let held = deliveries.into_iter().map(|loaded| (loaded, Wait::RecheckAt(until))).collect();
    settle::wait_all(context, held).await
}

async fn settle_one(
    context: &Context,
    loaded: LoadedDelivery,
    verdict: Verdict,
    response: &Response,
) -> SettledRecord {
    let record = loaded.record.without_body();
    (record, settle::settle(context, loaded, verdict, response).await)
}

//! Marks slow endpoints while a request is under way, and bounds their requests by leases.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{
    future::{Either, pending, select},
    pin_mut,
};
use gridpost_core::{
    delivery::{parking::IN_FLIGHT_HIGH_WATER, queue::Queue},
    error::chain,
    retry::{
        outcome::Outcome,
        slow_endpoint::{self, BeyondBound, HANGS_AFTER, SlowEndpointReport},
    },
    subscription::EventSubscription,
    time::Timestamp,
};
use gridpost_ports::{PlaceWait, Result};
use tokio::{sync::Notify, time::Instant};
use uuid::Uuid;

use crate::{
    Context,
    loaded::LoadedDelivery,
    response::{AttemptResult, Response},
    settle::{self, Wait},
};

/// How often an invocation returns unneeded parts of a lease.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Makes a request without a lease. If it is unanswered after the setting `slow_after`, votes that
/// its endpoint is slow while the request goes on: its end, up to 30 s later, would be too late for
/// the others. Votes again after [`HANGS_AFTER`]. What it waits for a file descriptor does not count.
pub async fn watched<T>(
    context: &Context,
    subscription: &EventSubscription,
    waits: &PlaceWait,
    request: Pin<&mut impl Future<Output = T>>,
) -> T {
    let patience = patience(waits, context.settings.lanes.slow_after);
    pin_mut!(patience);
    let request = match select(request, patience).await {
        Either::Left((answer, _)) => return answer,
        Either::Right(((), request)) => request,
    };
    let vote = async {
        vote(context, subscription).await;
        tokio::time::sleep(HANGS_AFTER.saturating_sub(context.settings.lanes.slow_after)).await;
        vote(context, subscription).await;
        pending::<()>().await;
    };
    match select(request, Box::pin(vote)).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => unreachable!("the vote never ends"),
    }
}

/// Waits for so long, besides the waits for a file descriptor.
async fn patience(waits: &PlaceWait, most: Duration) {
    let began = Instant::now();
    loop {
        let left = (most + waits.so_far()).saturating_sub(began.elapsed());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left).await;
    }
}

async fn vote(context: &Context, subscription: &EventSubscription) {
    let now = context.clock.now();
    let settings = &context.settings.lanes;
    if let Err(error) = context.healths.of(subscription).vote(now, settings).await {
        let (key, error) = (&subscription.key, chain(&error));
        tracing::warn!(subscription = %key, %error, "failed to mark an endpoint as slow");
    }
}

/// The requests that one invocation may have under way to a slow endpoint.
pub struct Lease<'c> {
    context: &'c Context,
    subscription: Arc<EventSubscription>,
    holder: Uuid,
    until: Timestamp,
    learned: Mutex<SlowEndpointReport>,
}

impl<'c> Lease<'c> {
    /// Takes a lease for up to `wanted` requests. Returns it with the number granted.
    /// After an error no request may begin.
    pub async fn take(
        context: &'c Context,
        subscription: &Arc<EventSubscription>,
        wanted: usize,
    ) -> Result<(Self, usize)> {
        let (holder, now) = (context.dice.id(), context.clock.now());
        let settings = &context.settings.lanes;
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        let granted = context.healths.of(subscription).take(holder, wanted, now, settings).await?;
        let learned =
            Mutex::new(SlowEndpointReport { under_way: granted, ..SlowEndpointReport::default() });
        let (subscription, until) = (Arc::clone(subscription), now + settings.lease);
        let lease = Self { context, subscription, holder, until, learned };
        Ok((lease, granted as usize))
    }

    /// When the lease expires. Reports do not prolong it.
    pub fn until(&self) -> Timestamp {
        self.until
    }

    /// Records the result of a request.
    pub fn note(&self, response: &Response) {
        let (began_at, ended_at) = response.times;
        let took = self.context.clock.pace().to_real(ended_at.since(began_at));
        let mut learned = self.learned.lock().expect("no panic while held");
        learned.took += took;
        if response.results.iter().any(is_silent) {
            learned.silent += 1;
        } else if took < self.context.settings.lanes.slow_after {
            learned.fast += 1;
        } else {
            learned.slow += 1;
        }
    }

    /// Makes a request. Notes that it hangs once it is unanswered for [`HANGS_AFTER`], unless that is known of
    /// its endpoint.
    pub async fn watched<T>(
        &self,
        waits: &PlaceWait,
        request: Pin<&mut impl Future<Output = T>>,
    ) -> T {
        let patience = patience(waits, HANGS_AFTER);
        pin_mut!(patience);
        let request = match select(request, patience).await {
            Either::Left((answer, _)) => return answer,
            Either::Right(((), request)) => request,
        };
        if !self.context.healths.of(&self.subscription).known().slow.hangs() {
            self.learned.lock().expect("no panic while held").hanging += 1;
        }
        request.await
    }

    /// Records that a request ended, or was not made.
    pub fn end_one(&self) {
        let mut learned = self.learned.lock().expect("no panic while held");
        learned.under_way = learned.under_way.saturating_sub(1);
    }

    /// Makes the requests, and meanwhile returns unneeded parts of the lease, for which others wait.
    pub async fn kept_up<T>(&self, requests: impl Future<Output = T>) -> T {
        let over = Notify::new();
        let requests = async {
            let made = requests.await;
            over.notify_one();
            made
        };
        // Never dropped during a write: the report would be lost.
        let telling = async {
            while tokio::time::timeout(TOLD_EVERY, over.notified()).await.is_err() {
                if self.has_news() {
                    self.tell().await;
                }
            }
        };
        let (made, ()) = futures::join!(requests, telling);
        self.tell().await;
        made
    }

    /// Returns unneeded parts, with what was learned since the last time.
    async fn tell(&self) {
        let learned = {
            let mut learned = self.learned.lock().expect("no panic while held");
            let under_way = learned.under_way;
            std::mem::replace(
                &mut *learned,
                SlowEndpointReport { under_way, ..SlowEndpointReport::default() },
            )
        };
        let (settings, now) = (&self.context.settings.lanes, self.context.clock.now());
        let health = self.context.healths.of(&self.subscription);
        health.give_back(self.holder, learned, now, settings).await;
    }

    fn has_news(&self) -> bool {
        let learned = self.learned.lock().expect("no panic while held");
        learned.fast + learned.slow + learned.silent + learned.hanging > 0
    }
}

/// Moves a delivery to the slow lane. Returns how long it waits there before it may begin.
pub async fn to_slow_lane(context: &Context, loaded: &LoadedDelivery) -> Wait {
    let (slow, now) = (context.healths.of(loaded.subscription()).known().slow, context.clock.now());
    if slow.free(now, &context.settings.lanes) > 0 {
        return Wait::NotAtAll;
    }
    look_again(context, loaded).await
}

/// Returns how long a delivery waits if its slow endpoint has no room for it.
pub async fn look_again(context: &Context, loaded: &LoadedDelivery) -> Wait {
    let (slow, now) = (context.healths.of(loaded.subscription()).known().slow, context.clock.now());
    let in_slow_queue = loaded.record.queue == Queue::Slow
        || slow.shares_invocations(now) && settle::may_move(&loaded.delivery);
    let queue = match context.settings.sends_to_slow && in_slow_queue {
        true => Queue::Slow,
        false => loaded.delivery.retry_queue(context.settings.retry_shards),
    };
    let backlog = context.in_flight.backlog(queue, now).await;
    // The backlog, already sampled, includes messages in flight.
    let is_nearly_full = backlog >= IN_FLIGHT_HIGH_WATER
        && context.in_flight.of(queue, now).await >= IN_FLIGHT_HIGH_WATER;
    let (age, dice) = (now.since(loaded.delivery.publish_time), context.dice.roll());
    let beyond = BeyondBound { backlog, is_nearly_full, age, dice };
    Wait::RecheckAt(slow_endpoint::look_again(&slow, beyond, now, &context.settings.lanes))
}

/// Whether no response came within 30 s. A response with status 408 is a response.
fn is_silent(result: &AttemptResult) -> bool {
    result.answers().any(|answer| answer.outcome == Outcome::TimedOut && answer.status.is_none())
}

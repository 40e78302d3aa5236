//! Rules that hold under any load: healthy endpoints wait for no other, and no copy of a function
//! has more in hand than its memory holds.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use gridpost_core::{
    retry::outcome::Outcome,
    subscription::{EventSubscription, SubscriptionKey},
    time::Timestamp,
};
use gridpost_testkit::history::Request;
use uuid::Uuid;

use super::Check;

/// An endpoint that always answers within this is healthy.
const QUICK: Duration = Duration::from_secs(1);

/// Bodies in hand may take this fraction (one in so many) of a function's memory: it holds them as
/// received, in requests, and in what it sends on.
const COPIES: u64 = 4;

pub(super) fn check(check: &mut Check<'_>) {
    memory(check);
    keys(check);
    if let Some(most) = check.remains.first_attempt_within {
        first_attempts(check, most);
    }
}

/// No key of a table gets more calls than DynamoDB takes for one.
fn keys(check: &mut Check<'_>) {
    let refused = check.remains.hot_key_refusals;
    if refused > 0 {
        let busiest = check.remains.busiest_key.clone();
        check.fail(format!(
            "{refused} calls were refused for a hot key; the busiest was {busiest:?}"
        ));
    }
}

impl Check<'_> {
    /// However many functions run, crash and repeat, no minute has more requests than the rate
    /// allows.
    pub(super) fn requests_in_rate(&mut self, subscription: &EventSubscription) {
        let Some(rate) = subscription.allowed_rate else { return };
        let mut minutes: BTreeMap<i64, u32> = BTreeMap::new();
        for request in &self.remains.history.requests {
            let at = request.began_at;
            let (soonest, latest) = (self.sooner(at), at + self.remains.pace.lateness());
            // Its copy's clock may have shown another minute.
            let is_sure = soonest.as_minutes() == latest.as_minutes();
            if request.subscription == subscription.key && is_sure {
                *minutes.entry(at.as_minutes()).or_default() += 1;
            }
        }
        for (minute, requests) in minutes.into_iter().filter(|(_, made)| *made > rate.get()) {
            let at = Timestamp::from_millis(minute * 60_000);
            let key = &subscription.key;
            self.fail(format!("{requests} requests to {key} from {at} on, {rate} are allowed"));
        }
    }
}

fn memory(check: &mut Check<'_>) {
    let usage = check.remains.usage.clone();
    for (function, used) in usage.all() {
        let most = function.memory_mb() * 1_024 * 1_024 / COPIES;
        if used.held_max as u64 > most {
            let held = used.held_max;
            check.fail(format!("{function:?} had {held} bytes in hand, at most {most} are safe"));
        }
    }
}

/// Events of endpoints that took everything at once are attempted soon after their publish.
fn first_attempts(check: &mut Check<'_>, most: Duration) {
    let history = &check.remains.history;
    let mut sick: BTreeSet<&SubscriptionKey> = BTreeSet::new();
    let mut first: Vec<(Uuid, &SubscriptionKey, Timestamp)> = Vec::new();
    for request in &history.requests {
        if !is_taken_quickly(request) {
            sick.insert(&request.subscription);
        }
        let firsts = request.deliveries.iter().filter(|_| request.number == 1);
        first.extend(firsts.map(|id| (*id, &request.subscription, request.began_at)));
    }
    first.retain(|(_, key, _)| !sick.contains(key));
    let late = first.into_iter().filter_map(|(delivery, key, at)| {
        let waited = at.since(history.accepted[&delivery].publish_time);
        (waited > most).then(|| {
            format!("an event waited {waited:?} for its first attempt at {at}, to {key}, which is healthy")
        })
    });
    let late: Vec<_> = late.collect();
    late.into_iter().for_each(|what| check.fail(what));
}

fn is_taken_quickly(request: &Request) -> bool {
    request.heard.is_some_and(|(at, answer)| {
        answer.outcome == Outcome::Delivered && at.since(request.began_at) <= QUICK
    })
}

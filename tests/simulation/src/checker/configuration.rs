//! Existing event subscriptions get their events, and deleted ones soon get none.

use std::time::Duration;

use gridpost_core::time::Timestamp;
use gridpost_testkit::history::SubscriptionLife;

use super::Check;

/// A publish that begins this long after a change was written is matched under it, if that can be
/// read.
const PUBLISHES_NOTICE: Duration = Duration::from_secs(2);

pub(super) fn check(check: &mut Check<'_>) {
    nothing_dropped_that_has_an_owner(check);
    everything_matched(check);
    if check.remains.calm {
        changes_noticed(check);
    }
}

impl Check<'_> {
    /// The event subscription that a delivery is for, as it lived.
    fn life(&self, delivery: uuid::Uuid) -> Option<&SubscriptionLife> {
        let history = &self.remains.history;
        history.lives.get(&history.accepted.get(&delivery)?.uid)
    }
}

/// Whatever copies of functions know, a deletion is concluded only from a later read.
fn nothing_dropped_that_has_an_owner(check: &mut Check<'_>) {
    let drops = check.remains.history.drops.iter();
    let deleted = drops.filter(|found| found.reason == "SubscriptionDeleted");
    let wrong = deleted.filter(|found| {
        check.life(found.delivery).is_some_and(|life| life.until.is_none_or(|at| found.at < at))
    });
    let wrong: Vec<_> = wrong.map(|found| (found.delivery, found.at)).collect();
    if let Some((delivery, at)) = wrong.first() {
        let count = wrong.len();
        check.fail(format!("{count} dropped, {delivery} at {at}: its subscription exists"));
    }
}

/// Each event goes to those that existed when it was accepted.
fn everything_matched(check: &mut Check<'_>) {
    let history = &check.remains.history;
    let noticed_within = PUBLISHES_NOTICE + check.unreadable();
    let mut failures = Vec::new();
    for made in &history.confirmed_publishes {
        let there = history.lives.iter().filter(|(_, life)| {
            life.subscription == made.to
                && life.from + noticed_within <= made.began_at
                && life.until.is_none_or(|until| made.answered_at < until)
        });
        for (uid, life) in there {
            let carried = |event: &String| {
                let carrier = history.carrier(&life.subscription, event);
                carrier.is_some_and(|carrier| history.accepted[&carrier].uid == *uid)
            };
            if let Some(event) = made.events.iter().find(|event| !carried(event)) {
                let (key, from) = (&life.subscription, life.from);
                let at = made.began_at;
                failures.push(format!("{event}, published at {at}, is not for {key} of {from}"));
            }
        }
    }
    failures.into_iter().for_each(|failure| check.fail(failure));
}

/// dispatch learns of a change within ten seconds, and at once where a delivery was matched under it.
fn changes_noticed(check: &mut Check<'_>) {
    let history = &check.remains.history;
    // The clock that a publish's time is of may be ahead.
    let ahead = check.remains.pace.tolerance();
    let mut failures = Vec::new();
    for made in &history.requests {
        for delivery in &made.deliveries {
            let Some(life) = check.life(*delivery) else { continue };
            let noticed = |at: Timestamp| at + check.noticed_within();
            let began_at = made.began_at;
            if life.until.is_some_and(|until| noticed(until) <= began_at) {
                failures.push(format!("a request for {delivery} at {began_at}: it was deleted"));
            }
            let accepted = &history.accepted[delivery];
            let known = |at: Timestamp| {
                at + PUBLISHES_NOTICE + ahead < accepted.publish_time || noticed(at) <= began_at
            };
            let newest = life.urls.iter().rev().find(|(at, _)| known(*at));
            let to = life.urls.iter().position(|(_, url)| *url == made.url);
            let oldest_allowed =
                newest.and_then(|newest| life.urls.iter().position(|one| one == newest));
            if !made.url.is_empty() && to < oldest_allowed {
                let url = &made.url;
                failures.push(format!("a request for {delivery} at {began_at} to the old {url}"));
            }
        }
    }
    failures.into_iter().for_each(|failure| check.fail(failure));
}

//! Checks that nothing comes later than it is due, except for what really held it up: attempts,
//! ends, dead letters, and deliveries sent back by wake.

use std::{collections::BTreeMap, time::Duration};

use gridpost_core::{retry::outcome::Outcome, time::Timestamp};
use uuid::Uuid;

use super::{
    Check, ends_in_parts, model,
    waits::{self, Waits},
};
use crate::scenario::{DEAD_LETTER_DELAY_S, GIVE_UP_AFTER};
use gridpost_testkit::history::Request;

/// The time from a due time to the attempt: queues count whole seconds, a batch may wait to be
/// filled, and an invocation must begin.
const PROMPT: Duration = Duration::from_secs(4);

/// Jitter is at most one in so many parts of a wait, ...
const JITTER_PART: u32 = 10;

/// ... and no more than this.
const JITTER_MAX: Duration = Duration::from_secs(300);

/// The margin after which a message hidden for a whole time comes back.
const HALF_A_SECOND: Duration = Duration::from_millis(500);

/// When dead letters were written, by delivery.
type Written = BTreeMap<Uuid, Vec<Timestamp>>;

/// Checks every delivery, and every stay in the table of parked ones.
pub(super) fn check(check: &mut Check<'_>) {
    let waits = Waits::of(check);
    let mut failures = Vec::new();
    for (delivery, parks) in &check.remains.history.parks {
        let most = waits::WAKE_EVERY + PROMPT + check.slack;
        let gone = parks.iter().filter_map(|park| Some(park.due..park.gone_at?));
        for span in gone.filter(|span| span.end.since(span.start) > most) {
            let late = waits.woken_late(check, *delivery, &span);
            if late > most {
                failures.push(format!("{delivery} was sent back {late:?} late: {span:?}"));
            }
        }
    }
    let mut written = Written::new();
    for dead in check.remains.history.dead_letters.values() {
        written.entry(dead.delivery).or_default().push(dead.at);
    }
    let twins = &check.remains.history.twins;
    for delivery in check.remains.history.accepted.keys().filter(|it| !twins.contains_key(it)) {
        failures.extend(one(check, &waits, &written, *delivery));
    }
    check_durations(check, &mut failures);
    failures.into_iter().for_each(|failure| check.fail(failure));
}

fn one(check: &Check<'_>, waits: &Waits, written: &Written, delivery: Uuid) -> Option<String> {
    let accepted = &check.remains.history.accepted[&delivery];
    let (_, subscription) = check.owners[&accepted.subscription];
    if subscription.allowed_rate.is_some() || ends_in_parts(subscription) {
        // How long it waits for its turn is checked elsewhere, and a part's due time follows from
        // other parts.
        return None;
    }
    let requests = check.requests_of(delivery);
    // Anything after its end is another copy of its message, with a time of its own. A dead letter
    // is written this long after its end, at the soonest.
    let delay = Duration::from_secs(u64::from(DEAD_LETTER_DELAY_S));
    let ends = written.get(&delivery).into_iter().flatten().map(|at| super::before(*at, delay));
    let ends = ends.chain(check.drops_of(delivery).iter().map(|drop| drop.at));
    let over_at = ends.min();
    let last = requests.iter().map(|made| made.number).max().unwrap_or(0);
    let most = PROMPT + check.slack;
    for number in 1..=last {
        let began_at = requests.iter().filter(|made| made.number == number);
        let Some(began_at) = began_at.map(|made| made.began_at).min() else { continue };
        let Some(due) = latest_due(check, delivery, &requests, number - 1) else { continue };
        if over_at.is_some_and(|over_at| over_at < began_at) {
            continue;
        }
        if began_at.since(due) > most && waits.late(check, delivery, &(due..began_at)) > most {
            let late = waits.late(check, delivery, &(due..began_at));
            return Some(format!(
                "attempt {number} of {delivery} at {began_at}, due by {due}: {late:?} late, and nothing \
                 held it up"
            ));
        }
    }
    end(check, waits, written, (delivery, &requests, last))
}

/// When the next attempt, or the end, is due after the attempts of that number. The first attempt
/// is due when the delivery is in its queue.
fn latest_due(
    check: &Check<'_>,
    delivery: Uuid,
    requests: &[&Request],
    number: u32,
) -> Option<Timestamp> {
    let accepted = &check.remains.history.accepted[&delivery];
    if number == 0 {
        return Some(accepted.queued_at);
    }
    let (topic, subscription) = check.owners[&accepted.subscription];
    let (_, expires_at) = check.expires(delivery);
    // Which of several first attempts was recorded is unknown here.
    let firsts = requests.iter().filter(|made| made.number == 1).map(|made| made.began_at);
    let made = requests.iter().filter(|made| made.number == number);
    let dues = made.filter_map(|before| {
        let (ended_at, answer) = check.heard(before, delivery)?;
        let due = firsts.clone().filter_map(|first_at| {
            let by = |noted| model::due(topic, subscription, (first_at, noted, expires_at), answer);
            // The clocks of two copies may differ on how long ago the first was.
            let later = ended_at + check.remains.pace.lateness();
            [ended_at, later].into_iter().filter_map(by).max()
        });
        let due = due.max().filter(|_| number < subscription.retry_policy.max_attempts);
        let due = due.unwrap_or(ended_at);
        let jitter = (due.since(ended_at) / JITTER_PART).min(JITTER_MAX);
        Some(due + jitter + HALF_A_SECOND)
    });
    dues.max()
}

/// Checks that it ends at the latest when its next attempt would be due, and that its dead letter
/// is written as soon as it may.
fn end(
    check: &Check<'_>,
    waits: &Waits,
    written: &Written,
    (delivery, requests, last): (Uuid, &[&Request], u32),
) -> Option<String> {
    let is_delivered = |made: &&&Request| {
        let heard = made.heard.map(|(_, answer)| answer.outcome);
        made.heard_late.is_some() || heard == Some(Outcome::Delivered)
    };
    // Parts of one delivery end apart.
    if requests.iter().any(|made| !made.met.is_empty())
        || requests.iter().any(|it| is_delivered(&it))
    {
        return None;
    }
    let due = latest_due(check, delivery, requests, last)?;
    let delay = Duration::from_secs(u64::from(DEAD_LETTER_DELAY_S));
    let dead = written.get(&delivery).into_iter().flatten();
    let dead = dead.map(|at| (*at, delay + check.remains.dead_letter_window));
    let drops = check.drops_of(delivery).iter().filter_map(|drop| {
        let after = match drop.reason.as_str() {
            "SubscriptionDeleted" => return None,
            "DeadLetterDestinationNotFound" => delay,
            "DeadLetterDestinationUnavailable" => delay + GIVE_UP_AFTER,
            _ => Duration::ZERO,
        };
        Some((drop.at, after))
    });
    let (at, after) = dead.chain(drops).min_by_key(|(at, _)| *at)?;
    let most = after + PROMPT * 2 + check.slack * 2;
    if at.since(due) <= most {
        return None;
    }
    // A life that ends while its endpoint waits ends then, unless its next attempt is due later.
    let life = (last == 0).then(|| check.expires(delivery).1.max(due));
    let late = waits.end_late(check, delivery, &(due..at), life);
    (late > most).then(|| {
        format!("{delivery} ended by {due}, but was written at {at}: after {late:?}, not {after:?}")
    })
}

/// The stored health of an endpoint asks for no longer wait than the tables do.
fn check_durations(check: &Check<'_>, failures: &mut Vec<String>) {
    let tolerance = check.remains.pace.tolerance();
    let seconds = |seconds: i64| Duration::from_secs(seconds.unsigned_abs() + 1) + tolerance;
    for (uid, all) in &check.remains.history.healths {
        let mut step = 0;
        for said in all {
            if let Some(wait) = said.delayed {
                let most = seconds(model::delayed_wait_s(wait.step as usize));
                if wait.until.since(wait.since) > most || wait.step > step + 1 {
                    failures.push(format!("{uid}: delivery is delayed too long by {wait:?}"));
                }
            }
            step = said.delayed.map_or(0, |wait| wait.step);
            if let Some(wait) = said.probation {
                // A failed probe is followed by ten seconds at least.
                let most = seconds(model::probation_s(wait.outcome).max(10));
                if wait.until.since(said.at) > most {
                    failures
                        .push(format!("{uid}: at {} a probation is too long: {wait:?}", said.at));
                }
            }
        }
    }
}

//! Pauses: nothing is attempted, nothing stays, time-to-live is as told, and a resumption begins to
//! bring back what was held within a minute.

use std::{collections::BTreeMap, time::Duration};

use gridpost_core::time::Timestamp;
use uuid::Uuid;

use super::{
    Check,
    waits::{WAKE_EVERY, Waits},
};

/// The longest time from wake's message to the release: queues count whole seconds, and pages are
/// read one after the other.
const PROMPT: Duration = Duration::from_secs(6);

/// The time of runs of wake that faults may fail, by calls that are about no delivery.
const FAILED_RUNS: Duration = Duration::from_secs(10 * 60);

impl Check<'_> {
    /// When its time-to-live ends, at the earliest: if a redrive has sent it twice, either message
    /// may count.
    pub(super) fn expires_at(&self, delivery: Uuid) -> Timestamp {
        self.expires(delivery).0
    }

    /// Returns when its time-to-live ends, at the earliest and at the latest.
    pub(super) fn expires(&self, delivery: Uuid) -> (Timestamp, Timestamp) {
        let accepted = &self.remains.history.accepted[&delivery];
        let (from, life) = self.lives(delivery);
        let pauses = of(self, accepted.uid);
        let earliest = ends(&pauses, from.0, life, self.noticed_within());
        (earliest, ends(&pauses, from.1, life, Duration::ZERO))
    }

    /// When its life began, at the earliest and at the latest, and how long it is.
    pub(super) fn lives(&self, delivery: Uuid) -> ((Timestamp, Timestamp), Duration) {
        let accepted = &self.remains.history.accepted[&delivery];
        let minutes = self.owners[&accepted.subscription].1.retry_policy.time_to_live_minutes;
        let life = Duration::from_secs(u64::from(minutes) * 60);
        let from = || accepted.lives_from.iter().copied();
        let at = |from: Option<Timestamp>| from.unwrap_or(accepted.publish_time);
        ((at(from().min()), at(from().max())), life)
    }
}

/// A pause as it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    from: Timestamp,
    until: Timestamp,
    /// When its end was written, if it was resumed.
    resumed: Option<Timestamp>,
    time_to_live_runs: bool,
}

/// The pauses of an event subscription.
pub(super) fn of(check: &Check<'_>, uid: Uuid) -> Vec<Pause> {
    let written = check.remains.history.pauses.get(&uid).map_or(&[][..], Vec::as_slice);
    let mut all: Vec<Pause> = Vec::new();
    for (at, pauses) in written {
        let open = pauses.open();
        if let Some(last) = all.last_mut().filter(|last| last.resumed.is_none())
            && open.is_none_or(|open| open.since != last.from)
        {
            last.until = pauses.ended_at(*at).unwrap_or(last.until).min(last.until);
            last.resumed = Some(*at);
        }
        if let Some(open) = open
            && all.last().is_none_or(|last| last.from != open.since)
        {
            all.push(Pause {
                from: open.since,
                until: open.until,
                resumed: None,
                time_to_live_runs: open.time_to_live_runs,
            });
        }
    }
    all
}

/// When a life ends, by the pauses that dispatch has heard of within that time.
pub(super) fn ends(
    pauses: &[Pause],
    start: Timestamp,
    life: Duration,
    heard_within: Duration,
) -> Timestamp {
    let mut end = start + life;
    for pause in pauses.iter().filter(|pause| !pause.time_to_live_runs) {
        if pause.from + heard_within >= end {
            break;
        }
        end = end + pause.until.since(pause.from.max(start));
    }
    end
}

pub(super) fn check(check: &mut Check<'_>) {
    if check.remains.history.pauses.values().all(Vec::is_empty) {
        return;
    }
    check_none_held(check);
    let mut failures = nothing_attempted(check);
    failures.extend(all_come_back(check));
    failures.into_iter().for_each(|failure| check.fail(failure));
}

/// Checks that no lot holds deliveries after its pause.
pub(super) fn check_none_held(check: &mut Check<'_>) {
    let history = &check.remains.history;
    let all = history.held.iter().filter(|(delivery, _)| history.accepted.contains_key(delivery));
    let held = all.filter(|(_, all)| all.iter().any(|held| held.gone_at.is_none()));
    let held: Vec<_> = held.map(|(delivery, _)| *delivery).collect();
    held.iter().for_each(|delivery| check.fail(format!("{delivery} is held for ever")));
}

fn nothing_attempted(check: &Check<'_>) -> Vec<String> {
    let history = &check.remains.history;
    let mut failures = Vec::new();
    for made in &history.requests {
        let began_at = made.began_at;
        for delivery in &made.deliveries {
            let Some(accepted) = history.accepted.get(delivery) else { continue };
            let pauses = of(check, accepted.uid);
            let during = pauses.iter().find(|pause| {
                pause.from + check.noticed_within() <= began_at
                    && began_at + check.rounding() < pause.until
            });
            if let Some(pause) = during {
                failures.push(format!("a request for {delivery} at {began_at}, in {pause:?}"));
            }
        }
    }
    failures
}

fn all_come_back(check: &Check<'_>) -> Vec<String> {
    let history = &check.remains.history;
    let waits = Waits::of(check);
    let mut failures = Vec::new();
    let mut stays: BTreeMap<Uuid, Vec<(Uuid, Timestamp, Timestamp)>> = BTreeMap::new();
    for (delivery, all) in &history.held {
        let Some(accepted) = history.accepted.get(delivery) else { continue };
        for held in all {
            if let Some(gone_at) = held.gone_at {
                stays.entry(accepted.uid).or_default().push((*delivery, held.at, gone_at));
            }
        }
    }
    let slack = if check.remains.calm { Duration::ZERO } else { FAILED_RUNS };
    let most = WAKE_EVERY + PROMPT + check.slack + slack;
    for (uid, stays) in stays {
        let pauses = of(check, uid);
        for (index, pause) in pauses.iter().enumerate() {
            let Some(resumed) = pause.resumed else { continue };
            let held = stays.iter().filter(|(_, at, gone_at)| *at < resumed && resumed <= *gone_at);
            let Some((delivery, _, gone_at)) = held.min_by_key(|(_, _, gone_at)| *gone_at) else {
                continue;
            };
            // What is paused again before wake could let it go is held on.
            let next = pauses.get(index + 1).map_or(*gone_at, |next| next.from.min(*gone_at));
            let late = waits.woken_late(check, *delivery, &(resumed..next));
            if late > most {
                failures.push(format!(
                    "the first that was held, {delivery}, came back at {gone_at}, {late:?} after it \
                     was resumed at {resumed}"
                ));
            }
        }
    }
    failures
}

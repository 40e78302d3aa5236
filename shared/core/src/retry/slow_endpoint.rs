//! Slow endpoints: detects them, and limits the requests that each may have under way.
//!
//! A first attempt holds a slot that others need. So an endpoint whose requests stay unanswered is
//! *marked* slow while they are under way: copies of dispatch [`vote`]. Its deliveries then go to
//! their retry queue without an attempt. There each invocation [takes](take) a lease for its
//! requests and [gives it back](give_back) with its answers: each raises the bound, silence halves
//! it, and the mark ends when hardly any is slow. Nothing here counts as an attempt.
//!
//! All of it is part of the endpoint's health, and written conditionally for slow endpoints alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::outcome::RESPONSE_WAIT;
use crate::time::{Pace, Timestamp};

/// How long a lease lasts if it is not given back, as after a crash: the time for a response, the 50 s that it
/// takes at most to fetch the events (15 s), get a rate slot (6 s) and a token (15 s), wait for a file
/// descriptor (2 s) and connect (12 s), and 10 s for what takes longer.
pub const LEASE: Duration = RESPONSE_WAIT.saturating_add(Duration::from_secs(60));

/// A request unanswered for this long counts twice: an unknown endpoint that hangs is marked by
/// a single request, and one with few events does not hold an invocation for each.
pub const HANGS_AFTER: Duration = Duration::from_secs(5);

/// With so many requests under way, an endpoint that answers does not get them in its retry queue: each may
/// hold one of its slots, 50 by default.
const SHARED_FROM: u32 = 10;

/// The fewest answers that say anything about an endpoint.
const ANSWERS_MIN: u32 = 20;

/// At this number, all counts of answers are halved.
const ANSWERS_MAX: u32 = 2 * ANSWERS_MIN;

/// A mark ends when less than one answer in this many is slow.
const SLOW_SHARE: u32 = 10;

/// The shortest wait of a delivery beyond the bound.
pub const LOOK_AGAIN_MIN: Duration = Duration::from_secs(2);

/// The longest wait of a delivery beyond the bound, ...
pub const LOOK_AGAIN_MAX: Duration = Duration::from_secs(60);

/// ... and if its retry queue is nearly full, long enough to be parked. Otherwise an endpoint
/// slower than its events come, which never fails, would fill the queue.
const LOOK_AGAIN_MAX_NEARLY_FULL: Duration = Duration::from_secs(10 * 60);

/// A delivery waits no longer than this or its age: the backlog may be another endpoint's.
const LOOK_AGAIN_YOUNG: Duration = Duration::from_secs(10);

/// The assumed time of an answer before the first.
const ANSWER_GUESSED: Duration = Duration::from_secs(5);

/// The average time of an answer is over about this many.
const AVERAGED_OVER: u32 = 20;

/// The assumed time of a request that has been unanswered for [`HANGS_AFTER`], until an endpoint that was
/// quicker is known to hang.
const HANGING_GUESSED: Duration = RESPONSE_WAIT.checked_div(2).expect("not by zero");

/// The settings of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowEndpointSettings {
    /// How long a request is unanswered before it counts as slow.
    pub slow_after: Duration,
    /// How long a mark lasts unless it is renewed.
    pub mark: Duration,
    pub lease: Duration,
    /// The window in which votes are added up.
    pub window: Duration,
    /// The shortest time between two halvings of bound and budget: hanging requests end together.
    pub halved_every: Duration,
    /// The votes that mark an unknown endpoint; at least 1.
    pub first_budget: u32,
    /// The votes that mark any endpoint.
    pub budget_max: u32,
    /// The bound of an endpoint that is marked for the first time.
    pub first_bound: u32,
    /// At least 1.
    pub bound_min: u32,
    pub bound_max: u32,
}

impl Default for SlowEndpointSettings {
    fn default() -> Self {
        Self {
            slow_after: Duration::from_millis(500),
            lease: LEASE,
            mark: Duration::from_secs(10),
            window: Duration::from_secs(10),
            halved_every: Duration::from_secs(5),
            first_budget: 2,
            budget_max: 16,
            first_bound: 50,
            bound_min: 20,
            bound_max: 1_000,
        }
    }
}

impl SlowEndpointSettings {
    /// Scales the durations that depend on requests to a clock of that pace.
    #[must_use]
    pub fn at_pace(self, pace: Pace) -> Self {
        let [lease, mark, window, halved_every] =
            [self.lease, self.mark, self.window, self.halved_every].map(|real| pace.to_clock(real));
        Self { lease, mark, window, halved_every, ..self }
    }
}

/// The facts of an endpoint's slowness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Slowness {
    /// Slow first attempts in the window that began at `votes_since`.
    pub votes: u32,
    pub votes_since: Option<Timestamp>,
    /// The votes that mark it; `None` means the initial number.
    pub budget: Option<u32>,
    /// The end of the mark, unless it is renewed.
    pub marked_until: Option<Timestamp>,
    /// The bound on requests under way while marked; `None` means the initial bound.
    pub bound: Option<u32>,
    pub leases: Vec<Lease>,
    /// Its last answers while it was marked.
    pub answers: AnswerCounts,
    /// When the bound was last halved.
    pub halved_at: Option<Timestamp>,
}

/// Requests that one invocation has under way to a slow endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    pub holder: Uuid,
    pub requests: u32,
    /// When they stop counting, even if the invocation has died.
    pub until: Timestamp,
}

/// Counts of answers in the slow lane; older ones lose weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AnswerCounts {
    pub fast: u32,
    /// Missing responses included.
    pub slow: u32,
    /// The average, in milliseconds; `None` before the first answer.
    pub took_ms: Option<u32>,
}

/// The report of an invocation about requests to a slow endpoint since its last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowEndpointReport {
    /// Responses within [`SlowEndpointSettings::slow_after`], whatever their status.
    pub fast: u32,
    /// Later responses, whatever their status.
    pub slow: u32,
    /// Requests without a response in 30 s.
    pub silent: u32,
    /// Requests that have become unanswered for [`HANGS_AFTER`], and are under way.
    pub hanging: u32,
    /// The total time of all of these.
    pub took: Duration,
    /// Requests still under way: the invocation keeps this part of its lease.
    pub under_way: u32,
}

impl Slowness {
    /// Returns whether it is marked slow. A mark also lasts while requests of the slow lane
    /// are under way: their answers say more than the time that has passed.
    pub fn is_slow(&self, now: Timestamp) -> bool {
        self.marked_until.is_some_and(|until| now < until || self.under_way(now) > 0)
    }

    /// Returns how many requests may be under way to it while it is marked.
    pub fn bound(&self, settings: &SlowEndpointSettings) -> u32 {
        self.bound.unwrap_or(settings.first_bound).clamp(settings.bound_min, settings.bound_max)
    }

    /// Returns the votes that mark it.
    pub fn budget(&self, settings: &SlowEndpointSettings) -> u32 {
        self.budget
            .unwrap_or(settings.first_budget)
            .clamp(settings.first_budget, settings.budget_max)
    }

    /// Returns whether its requests should share invocations in the slow queue. Otherwise they come sooner in its
    /// retry queue, and few enough are under way there to leave room for others, even if it begins to hang.
    pub fn shares_invocations(&self, now: Timestamp) -> bool {
        self.hangs() || self.under_way(now) >= SHARED_FROM
    }

    /// Returns whether its answers take [`HANGS_AFTER`] on the average. One whose answers are not known may
    /// hang: its first requests are unanswered still.
    pub fn hangs(&self) -> bool {
        let took = self.answers.took_ms.map(|ms| Duration::from_millis(ms.into()));
        took.is_none_or(|took| took >= HANGS_AFTER)
    }

    /// Returns how many requests are under way to it, as far as leases tell.
    pub fn under_way(&self, now: Timestamp) -> u32 {
        let live = self.leases.iter().filter(|lease| now < lease.until);
        live.fold(0, |sum, lease| sum.saturating_add(lease.requests))
    }

    /// Returns how many more requests may begin.
    pub fn free(&self, now: Timestamp, settings: &SlowEndpointSettings) -> u32 {
        self.bound(settings).saturating_sub(self.under_way(now))
    }

    /// Returns for how many requests that invocation holds a lease.
    pub fn held_by(&self, holder: Uuid, now: Timestamp) -> u32 {
        let own = self.leases.iter().find(|lease| lease.holder == holder && now < lease.until);
        own.map_or(0, |lease| lease.requests)
    }

    /// Returns the latest time in it, if there is any.
    pub fn last_change_at(&self) -> Option<Timestamp> {
        let lease = self.leases.iter().map(|lease| lease.until).max();
        self.votes_since.max(self.marked_until).max(self.halved_at).max(lease)
    }

    /// Removes its mark and votes. Leases stay, and what was learned.
    #[must_use]
    pub fn unmarked(&self) -> Self {
        let answers = AnswerCounts { took_ms: self.answers.took_ms, ..AnswerCounts::default() };
        Self { votes: 0, votes_since: None, marked_until: None, answers, ..self.clone() }
    }

    fn leases_of_others(&self, holder: Uuid, now: Timestamp) -> Vec<Lease> {
        let counts = |lease: &&Lease| lease.holder != holder && now < lease.until;
        self.leases.iter().filter(counts).copied().collect()
    }
}

/// Votes for `requests` first attempts that have just become slow. Returns `None` if there is
/// nothing to write: there are none, or the endpoint is already marked.
pub fn vote(
    slow: &Slowness,
    requests: u32,
    now: Timestamp,
    settings: &SlowEndpointSettings,
) -> Option<Slowness> {
    if requests == 0 || slow.is_slow(now) {
        return None;
    }
    let began = slow.votes_since.filter(|since| now.since(*since) < settings.window);
    let before = if began.is_some() { slow.votes } else { 0 };
    let votes = before.saturating_add(requests);
    if votes < slow.budget(settings) {
        return Some(Slowness { votes, votes_since: began.or(Some(now)), ..slow.clone() });
    }
    Some(Slowness { marked_until: Some(now + settings.mark), ..slow.unmarked() })
}

/// Leases up to `wanted` requests under way to an invocation, and returns how many. It replaces an
/// earlier lease, so the write can be repeated. A mark is renewed in its second half even if
/// nothing is granted: waiting deliveries do not mean that the endpoint is fast.
///
/// If the value is unchanged, there is nothing to write.
pub fn take(
    slow: &Slowness,
    holder: Uuid,
    wanted: u32,
    now: Timestamp,
    settings: &SlowEndpointSettings,
) -> (Slowness, u32) {
    let mut next = slow.clone();
    let leases = slow.leases_of_others(holder, now);
    let others = Slowness { leases, ..Slowness::default() }.under_way(now);
    let granted = wanted.min(slow.bound(settings).saturating_sub(others));
    if granted > 0 || slow.leases.iter().any(|lease| lease.holder == holder) {
        next.leases = slow.leases_of_others(holder, now);
    }
    if granted > 0 {
        next.leases.push(Lease { holder, requests: granted, until: now + settings.lease });
    }
    (renewed(&next, now, settings), granted)
}

/// Renews a mark in its second half.
fn renewed(slow: &Slowness, now: Timestamp, settings: &SlowEndpointSettings) -> Slowness {
    let is_late = slow.marked_until.is_some_and(|until| until.since(now) < settings.mark / 2);
    let marked_until = (slow.is_slow(now) && is_late).then(|| now + settings.mark);
    Slowness { marked_until: marked_until.or(slow.marked_until), ..slow.clone() }
}

/// Takes back the unused part of a lease, and learns from its answers: each allows one more request
/// under way, silence halves the bound. Once hardly any answer is slow, the mark ends, and the next
/// takes twice as many votes: an occasionally slow endpoint is left alone until it hangs.
pub fn give_back(
    slow: &Slowness,
    holder: Uuid,
    answered: SlowEndpointReport,
    now: Timestamp,
    settings: &SlowEndpointSettings,
) -> Slowness {
    let mut next = learned(slow, answered, now, settings);
    let own = slow.leases.iter().find(|lease| lease.holder == holder && now < lease.until);
    next.leases = slow.leases_of_others(holder, now);
    if let Some(lease) = own.filter(|_| answered.under_way > 0) {
        let requests = lease.requests.min(answered.under_way);
        next.leases.push(Lease { requests, ..*lease });
    }
    if !next.is_slow(now) {
        return next;
    }
    let AnswerCounts { fast, slow: late, .. } = next.answers;
    let known = fast.saturating_add(late);
    if answered.silent == 0 && known >= ANSWERS_MIN && late.saturating_mul(SLOW_SHARE) < known {
        let budget = next.budget(settings).saturating_mul(2).min(settings.budget_max);
        return Slowness { budget: Some(budget), ..next.unmarked() };
    }
    if answered.slow + answered.silent > 0 { renewed(&next, now, settings) } else { next }
}

/// Updates bound, budget and the average time of an answer.
fn learned(
    slow: &Slowness,
    answered: SlowEndpointReport,
    now: Timestamp,
    settings: &SlowEndpointSettings,
) -> Slowness {
    let answers = answered.fast.saturating_add(answered.slow);
    let mut next = slow.clone();
    let bound = slow.bound(settings).saturating_add(answers).min(settings.bound_max);
    next.bound = if answers > 0 { Some(bound) } else { slow.bound };
    next.answers = slow.answers.with(answered);
    if answered.hanging > 0 && !next.hangs() {
        let took_ms = next.answers.averaged(HANGING_GUESSED * answered.hanging, answered.hanging);
        next.answers.took_ms = Some(took_ms);
    }
    let halves = slow.halved_at.is_none_or(|at| now.since(at) >= settings.halved_every);
    if answered.silent > 0 && halves {
        next.bound = Some((bound / 2).max(settings.bound_min));
        next.budget = Some((slow.budget(settings) / 2).max(settings.first_budget));
        next.halved_at = Some(now);
    }
    next
}

impl AnswerCounts {
    fn with(self, answered: SlowEndpointReport) -> Self {
        let SlowEndpointReport { fast, slow, silent, took, .. } = answered;
        let count = fast.saturating_add(slow).saturating_add(silent);
        if count == 0 {
            return self;
        }
        let mut next = Self {
            fast: self.fast.saturating_add(fast),
            slow: self.slow.saturating_add(slow).saturating_add(silent),
            took_ms: Some(self.averaged(took, count)),
        };
        while next.fast.saturating_add(next.slow) > ANSWERS_MAX {
            (next.fast, next.slow) = (next.fast / 2, next.slow / 2);
        }
        next
    }

    fn averaged(self, took: Duration, count: u32) -> u32 {
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let new = i64::from(millis(took / count));
        let old = self.took_ms.map_or(new, i64::from);
        let moved = (new - old) * i64::from(count.min(AVERAGED_OVER)) / i64::from(AVERAGED_OVER);
        u32::try_from(old + moved).unwrap_or(u32::MAX)
    }
}

/// A delivery beyond the bound of its slow endpoint.
#[derive(Clone, Copy, Debug)]
pub struct BeyondBound {
    /// Estimated messages in its retry queue.
    pub backlog: u64,
    /// Whether the retry queue has nearly as many messages in flight as it may.
    pub is_nearly_full: bool,
    /// Since its publish.
    pub age: Duration,
    /// A draw from 0 up to 1.
    pub dice: f64,
}

/// Returns when a delivery beyond the bound comes back. In the time of one answer, about as
/// many come back as the bound admits: it stays used, and few are received in vain.
pub fn look_again(
    slow: &Slowness,
    beyond: BeyondBound,
    now: Timestamp,
    settings: &SlowEndpointSettings,
) -> Timestamp {
    let answer = slow
        .answers
        .took_ms
        .map_or(ANSWER_GUESSED, |millis| Duration::from_millis(u64::from(millis)));
    let rounds = beyond.backlog as f64 / f64::from(slow.bound(settings));
    let most = match beyond.is_nearly_full {
        true => LOOK_AGAIN_MAX_NEARLY_FULL,
        false => LOOK_AGAIN_MAX,
    };
    let most = most.min(beyond.age.max(LOOK_AGAIN_YOUNG));
    let least = LOOK_AGAIN_MIN.as_secs_f64();
    let turn = (answer.as_secs_f64() * rounds).clamp(least, most.as_secs_f64());
    let wait = turn * (0.5 + beyond.dice.clamp(0.0, 1.0));
    now + Duration::from_secs_f64(wait).clamp(LOOK_AGAIN_MIN, most)
}

#[cfg(test)]
mod tests;

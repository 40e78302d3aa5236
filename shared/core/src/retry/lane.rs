//! Slow endpoints: which they are, and how many requests each of them may have under way.
//!
//! A first attempt holds a slot that others need, so an endpoint whose requests stay unanswered is
//! *marked* slow while they are still under way: copies of dispatch [`vote`]. While it is marked,
//! its deliveries go to their retry queue without an attempt. There each invocation takes a lease
//! for its requests ([`take`]) and gives it back with what it has learned ([`give_back`]): the
//! bound grows with each answer and halves when none comes, and the mark ends when hardly an answer
//! is slow any more. Slowness is no failure: nothing here counts as an attempt.
//!
//! All of it is part of the endpoint's health and written under its condition. Only endpoints that
//! are slow cost these writes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::outcome::RESPONSE_WAIT;
use crate::time::Timestamp;

/// How long a lease lasts that is not given back, as after a crash: the time a response may take
/// and 20 s to settle it.
pub const LEASE: Duration = RESPONSE_WAIT.saturating_add(Duration::from_secs(20));

/// The bound and the budget halve at most once in this time: requests that hang do so together.
const HALVED_EVERY: Duration = Duration::from_secs(5);

/// Fewer answers than this say nothing about their endpoint.
const ANSWERS_MIN: u32 = 20;

/// When so many are known, the older half is forgotten.
const ANSWERS_MAX: u32 = 2 * ANSWERS_MIN;

/// A mark ends when less than one answer in so many is slow.
const SLOW_SHARE: u32 = 10;

/// What beyond the bound waits comes back after this at least.
pub const LOOK_AGAIN_MIN: Duration = Duration::from_secs(2);

/// What beyond the bound waits comes back after this at most.
pub const LOOK_AGAIN_MAX: Duration = Duration::from_secs(60);

/// What an answer is thought to take while none has come.
const ANSWER_GUESSED: Duration = Duration::from_secs(5);

/// A new answer counts for one part in so many of the average time of an answer.
const AVERAGED_OVER: u32 = 20;

/// What a deployment may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSettings {
    /// A request that is unanswered for so long counts as slow.
    pub slow_after: Duration,
    /// How long a mark lasts that is not renewed.
    pub mark: Duration,
    /// Votes of this time count together.
    pub window: Duration,
    /// So many votes mark an endpoint of which nothing is known; at least 1.
    pub first_budget: u32,
    /// So many votes mark any endpoint.
    pub budget_max: u32,
    /// So many requests may be under way to an endpoint that was just marked for the first time.
    pub first_bound: u32,
    /// So many always may; at least 1.
    pub bound_min: u32,
    /// So many may at most.
    pub bound_max: u32,
}

impl Default for LaneSettings {
    fn default() -> Self {
        Self {
            slow_after: Duration::from_millis(500),
            mark: Duration::from_secs(10),
            window: Duration::from_secs(10),
            first_budget: 2,
            budget_max: 16,
            first_bound: 50,
            bound_min: 20,
            bound_max: 1_000,
        }
    }
}

/// What is known of an endpoint's slowness. The default is: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Slow {
    /// Slow first attempts of the window that began at `votes_since`.
    pub votes: u32,
    /// When the first of them was told.
    pub votes_since: Option<Timestamp>,
    /// So many votes mark it; `None`: as many as an endpoint begins with.
    pub budget: Option<u32>,
    /// Until when it is marked, unless that is renewed.
    pub marked_until: Option<Timestamp>,
    /// So many requests may be under way while it is marked; `None`: as many as at first.
    pub bound: Option<u32>,
    /// Who has requests under way.
    pub leases: Vec<Lease>,
    /// Its last answers while it was marked.
    pub answers: Answers,
    /// When the bound was last halved.
    pub halved_at: Option<Timestamp>,
}

/// Requests that one invocation has under way to a slow endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// The invocation.
    pub holder: Uuid,
    /// How many requests.
    pub requests: u32,
    /// Then they count no more, whatever became of the invocation.
    pub until: Timestamp,
}

/// Answers of the slow lane, the older ones fading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Answers {
    /// Those that came in time.
    pub fast: u32,
    /// Those that were slow, and requests that had no response at all.
    pub slow: u32,
    /// The average time of one, in milliseconds; `None` before the first.
    pub took_ms: Option<u32>,
}

/// What an invocation has learned from requests to a slow endpoint since it last told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Responses within [`LaneSettings::slow_after`], whatever their status.
    pub fast: u32,
    /// Later ones, whatever their status.
    pub slow: u32,
    /// Requests that had no response in 30 s.
    pub silent: u32,
    /// What all of these took, added up.
    pub took: Duration,
    /// Requests of the invocation that are still under way: so much of its lease is kept. 0 gives
    /// it back, with what was never used of it.
    pub under_way: u32,
}

impl Slow {
    /// Whether it is marked slow at `now`. A mark lasts while requests of the slow lane are under way:
    /// their end may be 30 s away, and says more than the time that has passed.
    pub fn is_slow(&self, now: Timestamp) -> bool {
        self.marked_until.is_some_and(|until| now < until || self.under_way(now) > 0)
    }

    /// How many requests may be under way to it while it is marked.
    pub fn bound(&self, settings: &LaneSettings) -> u32 {
        self.bound.unwrap_or(settings.first_bound).clamp(settings.bound_min, settings.bound_max)
    }

    /// So many votes mark it.
    pub fn budget(&self, settings: &LaneSettings) -> u32 {
        self.budget
            .unwrap_or(settings.first_budget)
            .clamp(settings.first_budget, settings.budget_max)
    }

    /// How many requests are under way to it at `now`, as far as leases tell.
    pub fn under_way(&self, now: Timestamp) -> u32 {
        let live = self.leases.iter().filter(|lease| now < lease.until);
        live.fold(0, |sum, lease| sum.saturating_add(lease.requests))
    }

    /// How many more requests may begin at `now`.
    pub fn free(&self, now: Timestamp, settings: &LaneSettings) -> u32 {
        self.bound(settings).saturating_sub(self.under_way(now))
    }

    /// How many requests that invocation holds a lease for at `now`.
    pub fn held_by(&self, holder: Uuid, now: Timestamp) -> u32 {
        let own = self.leases.iter().find(|lease| lease.holder == holder && now < lease.until);
        own.map_or(0, |lease| lease.requests)
    }

    /// The last time that it says something about; `None` if it says nothing.
    pub fn last_change_at(&self) -> Option<Timestamp> {
        let lease = self.leases.iter().map(|lease| lease.until).max();
        self.votes_since.max(self.marked_until).max(self.halved_at).max(lease)
    }

    /// Without its mark and votes: as its operator resets it. Leases and what was learned stay.
    #[must_use]
    pub fn unmarked(&self) -> Self {
        let answers = Answers { took_ms: self.answers.took_ms, ..Answers::default() };
        Self { votes: 0, votes_since: None, marked_until: None, answers, ..self.clone() }
    }

    /// The leases of others that still count.
    fn leases_of_others(&self, holder: Uuid, now: Timestamp) -> Vec<Lease> {
        let counts = |lease: &&Lease| lease.holder != holder && now < lease.until;
        self.leases.iter().filter(counts).copied().collect()
    }
}

/// Tells of `requests` first attempts that have just become slow: unanswered for
/// [`LaneSettings::slow_after`]. `None` when there is nothing to write: none are told of, or the
/// endpoint is marked already.
pub fn vote(slow: &Slow, requests: u32, now: Timestamp, settings: &LaneSettings) -> Option<Slow> {
    if requests == 0 || slow.is_slow(now) {
        return None;
    }
    let began = slow.votes_since.filter(|since| now.since(*since) < settings.window);
    let before = if began.is_some() { slow.votes } else { 0 };
    let votes = before.saturating_add(requests);
    if votes < slow.budget(settings) {
        return Some(Slow { votes, votes_since: began.or(Some(now)), ..slow.clone() });
    }
    Some(Slow { marked_until: Some(now + settings.mark), ..slow.unmarked() })
}

/// Lets an invocation have up to `wanted` requests under way to a slow endpoint, and answers how
/// many. What the same invocation held before is given back: it asks for all that it wants, once
/// more if a write may not have taken effect. The mark is renewed in its second half, even where
/// nothing is granted: what waits for its turn is no sign that the endpoint has become fast.
///
/// Where nothing is granted and the mark is young, there is nothing to write: the value is the same.
pub fn take(
    slow: &Slow,
    holder: Uuid,
    wanted: u32,
    now: Timestamp,
    settings: &LaneSettings,
) -> (Slow, u32) {
    let mut next = slow.clone();
    let leases = slow.leases_of_others(holder, now);
    let others = Slow { leases, ..Slow::default() }.under_way(now);
    let granted = wanted.min(slow.bound(settings).saturating_sub(others));
    if granted > 0 || slow.leases.iter().any(|lease| lease.holder == holder) {
        next.leases = slow.leases_of_others(holder, now);
    }
    if granted > 0 {
        next.leases.push(Lease { holder, requests: granted, until: now + LEASE });
    }
    (renewed(&next, now, settings), granted)
}

/// Renews a mark of which less than half is left.
fn renewed(slow: &Slow, now: Timestamp, settings: &LaneSettings) -> Slow {
    let is_late = slow.marked_until.is_some_and(|until| until.since(now) < settings.mark / 2);
    let marked_until = (slow.is_slow(now) && is_late).then(|| now + settings.mark);
    Slow { marked_until: marked_until.or(slow.marked_until), ..slow.clone() }
}

/// Takes back what an invocation does not need any more of its lease, and learns from the answers it
/// had: each lets one more request be under way, silence halves the bound. Once hardly an answer is
/// slow, the mark ends; from then on it takes twice as many votes to mark the endpoint, so
/// that one that is slow now and then is left alone, until requests hang again.
pub fn give_back(
    slow: &Slow,
    holder: Uuid,
    answered: Answered,
    now: Timestamp,
    settings: &LaneSettings,
) -> Slow {
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
    let Answers { fast, slow: late, .. } = next.answers;
    let known = fast.saturating_add(late);
    if answered.silent == 0 && known >= ANSWERS_MIN && late.saturating_mul(SLOW_SHARE) < known {
        let budget = next.budget(settings).saturating_mul(2).min(settings.budget_max);
        return Slow { budget: Some(budget), ..next.unmarked() };
    }
    if answered.slow + answered.silent > 0 { renewed(&next, now, settings) } else { next }
}

/// What answers say about bound, budget and the endpoint's pace.
fn learned(slow: &Slow, answered: Answered, now: Timestamp, settings: &LaneSettings) -> Slow {
    let answers = answered.fast.saturating_add(answered.slow);
    let mut next = slow.clone();
    let bound = slow.bound(settings).saturating_add(answers).min(settings.bound_max);
    next.bound = if answers > 0 { Some(bound) } else { slow.bound };
    next.answers = slow.answers.with(answered);
    let halves = slow.halved_at.is_none_or(|at| now.since(at) >= HALVED_EVERY);
    if answered.silent > 0 && halves {
        next.bound = Some((bound / 2).max(settings.bound_min));
        next.budget = Some((slow.budget(settings) / 2).max(settings.first_budget));
        next.halved_at = Some(now);
    }
    next
}

impl Answers {
    /// These and newer ones.
    fn with(self, answered: Answered) -> Self {
        let Answered { fast, slow, silent, took, .. } = answered;
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

/// When a delivery comes back that is beyond the bound of its slow endpoint. `backlog` is about how
/// many wait with it, `dice` a draw from 0 up to 1. In the time of one answer about as many come
/// back as the bound lets through: it stays used, and few are received in vain.
pub fn look_again(
    slow: &Slow,
    backlog: u64,
    dice: f64,
    now: Timestamp,
    settings: &LaneSettings,
) -> Timestamp {
    let answer = slow
        .answers
        .took_ms
        .map_or(ANSWER_GUESSED, |millis| Duration::from_millis(u64::from(millis)));
    let rounds = backlog as f64 / f64::from(slow.bound(settings));
    let most = LOOK_AGAIN_MAX.as_secs_f64();
    let turn = (answer.as_secs_f64() * rounds).clamp(LOOK_AGAIN_MIN.as_secs_f64(), most);
    let wait = turn * (0.5 + dice.clamp(0.0, 1.0));
    let wait = Duration::from_secs_f64(wait).clamp(LOOK_AGAIN_MIN, LOOK_AGAIN_MAX);
    now + wait
}

#[cfg(test)]
mod tests;

//! No attempt during a wait but the one probe: what probation and delayed delivery demand at least.
//!
//! This model of an endpoint's health is built from requests and answers alone. Where order or
//! knowledge is uncertain (answers that cross, a write that failed) it assumes the shorter wait, so
//! whatever it forbids is forbidden.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use gridpost_core::{
    retry::outcome::{Answer, Outcome},
    subscription::EventSubscription,
    time::Timestamp,
};

use uuid::Uuid;

use super::{Check, batches, model, operated};
use gridpost_testkit::history::Request;

/// How long an instance uses what it has read.
const CACHE: Duration = Duration::from_secs(2);

/// The precision with which other copies' successes are known; a wait that would grow by less
/// stays.
const SECOND: Duration = Duration::from_secs(1);

/// The minimum wait after a failed probe, in seconds.
const FAILED_PROBE_WAIT_S: i64 = 10;

/// How long a probe's claim keeps others from probing.
const LEASE: Duration = Duration::from_secs(60);

/// A fault within this time after an answer may have kept it from being recorded.
const NOTING: Duration = Duration::from_secs(15);

#[derive(Clone, Copy)]
struct Wait {
    /// When it began at the earliest.
    since: Timestamp,
    known_at: Timestamp,
    until: Timestamp,
    /// When it was last lengthened, and its end before that.
    lengthened: (Timestamp, Timestamp),
}

#[derive(Default)]
struct Model {
    wait: Option<Wait>,
    /// When a wait was lifted that the endpoint's stored health may still have.
    doubtful_since: Option<Timestamp>,
    /// The requests that are under way, by their start and number.
    under_way: BTreeSet<(Timestamp, usize)>,
    probe_began_at: Option<Timestamp>,
    /// Failures in a row, at least.
    streak: usize,
    /// The times of failures in a row, at most.
    perhaps: Vec<Timestamp>,
    level: usize,
    /// Whether delayed delivery may have begun, but not for sure.
    unsure: bool,
    /// Whether there was a success during the row of failures by an instance that may not know of
    /// the row: it may share that later, and lift a first delayed wait.
    untold: bool,
    last_success_at: Option<Timestamp>,
    /// By how much sooner a wait may be over by another copy's clock.
    sooner: Duration,
    /// Whether an attempt that an operator requested has failed since it was healthy: how that
    /// moved the wait is unknown here, so any success may end it.
    resent: bool,
}

enum Event<'a> {
    Ends(&'a Request, Answer),
    Begins(&'a Request),
    Reset,
    /// The process is killed, and with it what it had under way: the next one owes it no wait.
    Killed,
}

/// Checks the requests to the endpoints that one subscription has had: another destination begins
/// healthy.
pub(super) fn check(check: &mut Check<'_>, subscription: &EventSubscription) {
    let requests = check.remains.history.requests.iter();
    let own = requests.filter(|made| made.subscription == subscription.key);
    let urls: BTreeSet<&str> = own.map(|request| request.url.as_str()).collect();
    let faults = &check.remains.history.health_faults;
    // Which uid belongs to which endpoint is unknown here.
    let own = check.endpoints_of(subscription);
    let mut faults: Vec<Timestamp> = match urls.len() {
        0 | 1 => own.iter().filter_map(|uid| faults.get(uid)).flatten().copied().collect(),
        _ => faults.values().flatten().copied().collect(),
    };
    let resets = check.remains.history.operated.resets.iter();
    let resets = resets.filter(|(uid, _)| own.contains(uid)).flat_map(|(_, at)| at.clone());
    let resets: Vec<_> = resets.collect();
    // An answer that is being recorded may come before or after it.
    faults.extend(resets.iter().copied());
    for url in urls {
        check_endpoint(check, subscription, url, (&faults, &resets));
    }
}

fn check_endpoint(
    check: &mut Check<'_>,
    subscription: &EventSubscription,
    url: &str,
    (faults, resets): (&[Timestamp], &[Timestamp]),
) {
    let requests = check.remains.history.requests.iter();
    let requests = requests.filter(|it| it.subscription == subscription.key && it.url == url);
    let mut events = Vec::new();
    let sooner = check.remains.pace.tolerance();
    let mut alike: BTreeMap<Uuid, Vec<Timestamp>> = BTreeMap::new();
    for (number, request) in requests.enumerate() {
        for delivery in &request.deliveries {
            alike.entry(*delivery).or_default().push(request.began_at);
        }
        events.push((request.began_at, 1, number, Event::Begins(request)));
        if let Some((at, answer)) = request.heard {
            events.push((at, 0, number, Event::Ends(request, answer)));
        }
        if let Some(at) = request.heard_late {
            events.push((at, 0, number, Event::Ends(request, Answer::of_status(200, None))));
        }
    }
    let after = events.len();
    events.extend(resets.iter().map(|at| (*at, 0, after, Event::Reset)));
    events.extend(check.remains.restarts.iter().map(|at| (*at, 2, after, Event::Killed)));
    events.sort_by_key(|(at, kind, number, _)| (*at, *kind, *number));
    let mut model = Model { sooner, ..Model::default() };
    for (at, _, number, event) in events {
        match event {
            // An operator had it attempted whatever its endpoint's health.
            Event::Begins(request) if operated::is_resent(check, request) => {}
            Event::Begins(request) => {
                model.under_way.insert((at, number));
                model.begins(check, request);
            }
            Event::Reset => model.reset(at),
            Event::Killed => {
                model.under_way.clear();
                model.probe_began_at = None;
            }
            Event::Ends(request, answer) => {
                model.under_way.remove(&(request.began_at, number));
                let doubtful = faults.iter().any(|fault| *fault >= at && *fault <= at + NOTING)
                    || request
                        .deliveries
                        .iter()
                        .any(|it| counts_as_one(&alike[it], request.began_at, sooner))
                    || operated::is_resent(check, request)
                    // Refusals of a batch that is split count together, when that is over.
                    || batches::is_split(subscription, request, answer.outcome)
                    || (subscription.batch_failure.bisects && answer.status == Some(500));
                if answer.outcome == Outcome::Delivered {
                    // An attempt that an operator asked for may end a wait that is not over.
                    if operated::is_resent(check, request) {
                        model.reset(at);
                    }
                    model.succeeds(request, at, check.slack, doubtful);
                } else {
                    model.resent |= operated::is_resent(check, request);
                    model.fails(request, at, answer, check.slack, doubtful);
                }
            }
        }
    }
}

/// Whether an attempt may count as one with another of its delivery: two copies that are attempted in
/// the same millisecond, by their own clocks, are one where failures are counted.
fn counts_as_one(attempts: &[Timestamp], at: Timestamp, tolerance: Duration) -> bool {
    let near = |other: &&Timestamp| other.since(at).max(at.since(**other)) <= tolerance;
    attempts.iter().filter(near).count() > 1
}

impl Model {
    fn begins(&mut self, check: &mut Check<'_>, request: &Request) {
        let Some(wait) = self.wait else { return };
        let at = request.began_at;
        let (lengthened_at, before) = wait.lengthened;
        let crosses = at >= before && at <= lengthened_at + check.slack;
        if at < wait.until && !crosses {
            if at > wait.known_at + CACHE + check.slack {
                check.fail(format!(
                    "a request to {} at {at}, though nothing may be attempted from {} to {}",
                    request.subscription, wait.since, wait.until,
                ));
            }
            return;
        }
        match self.probe_began_at {
            Some(probe) if at + check.slack < probe + LEASE => check.fail(format!(
                "a second request to {} at {at}, though the probe of {probe} is under way",
                request.subscription,
            )),
            _ => self.probe_began_at = Some(at),
        }
    }

    /// Whether a wait that was lifted in doubt may be over, and a later request its probe, which
    /// alone decides then.
    fn may_be_probed(&self, request: &Request, at: Timestamp) -> bool {
        let is_later = |began_at: Timestamp| began_at > request.began_at && at < began_at + LEASE;
        self.wait.is_none()
            && self.doubtful_since.is_some()
            && self.under_way.last().is_some_and(|(began_at, _)| is_later(*began_at))
    }

    fn succeeds(&mut self, request: &Request, at: Timestamp, slack: Duration, doubtful: bool) {
        self.streak = 0;
        // A failure that this success's instance does not know yet still counts.
        self.perhaps.retain(|failure| *failure + CACHE + slack >= at);
        // One that may not have been written yet ends the row of failures when it is.
        self.untold = doubtful || !self.perhaps.is_empty();
        self.last_success_at = self.last_success_at.max(Some(at));
        let Some(wait) = self.wait else {
            // A wait that may be stored may be lifted.
            (self.level, self.unsure) = (0, false);
            return;
        };
        let (lengthened_at, before) = wait.lengthened;
        let crosses = request.began_at >= before && at <= lengthened_at + slack;
        if request.began_at >= wait.until {
            // An instance that does not know of the wait yet has none to lift.
            let unseen = at <= wait.known_at + CACHE + slack;
            self.lift(wait, doubtful || unseen);
        } else if crosses || at <= wait.known_at + slack || self.is_first() || self.resent {
            self.lift(wait, true);
        }
    }

    /// Whether the first wait of delayed delivery may be in force, which any success lifts.
    fn is_first(&self) -> bool {
        self.level == 1 || (self.level == 0 && self.unsure)
    }

    fn reset(&mut self, at: Timestamp) {
        self.streak = 0;
        self.perhaps.clear();
        self.last_success_at = self.last_success_at.max(Some(at));
        match self.wait {
            Some(wait) => self.lift(wait, true),
            None => (self.level, self.unsure) = (0, false),
        }
    }

    fn lift(&mut self, wait: Wait, doubtful: bool) {
        self.doubtful_since = if doubtful { Some(wait.since) } else { None };
        (self.wait, self.probe_began_at, self.level) = (None, None, 0);
        (self.unsure, self.untold, self.resent) = (false, false, false);
    }

    fn fails(
        &mut self,
        request: &Request,
        at: Timestamp,
        answer: Answer,
        slack: Duration,
        doubtful: bool,
    ) {
        let probed = self.wait.is_some_and(|wait| request.began_at >= wait.until);
        // One that another's answer pushed into a wait was a probe when it began.
        if probed || self.probe_began_at == Some(request.began_at) {
            self.probe_began_at = None;
        }
        let crossed = self.last_success_at.is_some_and(|success| at <= success + SECOND + slack);
        self.streak += usize::from(!crossed && !doubtful);
        self.perhaps.push(at);
        let unhealthy = model::unhealthy_after();
        let sure = self.streak >= unhealthy && !self.untold;
        if self.level == 0 && self.perhaps.len() >= unhealthy && !sure {
            self.unsure = true;
        }
        if doubtful {
            // The endpoint's stored health may include it or not.
            let since = self.wait.map_or(at, |wait| wait.since);
            self.doubtful_since = self.doubtful_since.or(Some(since));
            // The same holds for the result of a probe under way.
            if probed || self.probe_began_at.take().is_some() {
                self.wait = None;
            }
            return;
        }
        if self.may_be_probed(request, at) {
            // If that wait is not stored, this may be what begins delayed delivery.
            self.unsure |= self.level == 0 && self.perhaps.len() >= unhealthy;
            return;
        }
        let is_over = self.wait.is_some_and(|wait| at >= wait.until);
        if !probed && is_over && self.probe_began_at.is_some_and(|probe| at < probe + LEASE) {
            // What the probe finds decides, not a request from before the wait.
            return;
        }
        let mut wait_s = model::probation_s(answer.outcome);
        let deeper = probed && self.level > 0;
        if deeper || (self.level == 0 && self.streak >= unhealthy && !self.unsure) {
            self.level += 1;
            wait_s = wait_s.max(model::delayed_wait_s(self.level));
        } else if probed {
            wait_s = wait_s.max(FAILED_PROBE_WAIT_S);
        }
        self.wait_until(at, wait_s, probed);
    }

    fn wait_until(&mut self, at: Timestamp, wait_s: i64, probed: bool) {
        let sooner = i64::try_from(self.sooner.as_millis()).unwrap_or(0);
        let until = Timestamp::from_millis(at.as_millis() + wait_s * 1_000 - sooner);
        // Where it lengthens another wait, that may have been up to a second shorter.
        let at_least = Timestamp::from_millis(until.as_millis() - 1_000);
        let current = self.wait.filter(|_| !probed);
        self.wait = match current {
            Some(wait) if wait_s > 0 && until > wait.until + SECOND => {
                let (before_at, before) = wait.lengthened;
                // A probe that takes its time to arrive may have begun before both.
                let both = !self.sooner.is_zero() && at <= before_at + self.sooner;
                let before = if both { before } else { wait.until };
                Some(Wait { until: at_least, lengthened: (at, before), ..wait })
            }
            Some(wait) => Some(wait),
            None if wait_s > 0 => {
                let (since, until) = match self.doubtful_since.take() {
                    Some(since) => (since, at_least),
                    None => (at, until),
                };
                Some(Wait { since, known_at: at, until, lengthened: (at, until) })
            }
            None => None,
        };
    }
}

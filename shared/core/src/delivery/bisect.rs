//! Splits a batch that its endpoint refuses until its bad events stand alone, for event
//! subscriptions that ask for it.
//!
//! A refused request is split in two halves, each is a request of its own, and a half that is
//! refused is split again. Events that stand alone meet what any refused event meets; the others are
//! delivered. The largest part is sent first, so that many good events do not wait for a few bad
//! ones; where many are refused in a row, the smallest, so that some stand alone. Visits take turns
//! at which half comes first: one that is cut short remembers what was delivered, not what was
//! refused. With `k` bad events of `n` that takes at most `1 + 2·k·⌈log₂ n⌉` requests.
//!
//! Every request is an attempt of the events in it. What is not separated when the attempts, the
//! time or the endpoint's patience end goes on together, and is attempted as the delivery's next
//! attempt.

use std::ops::Range;

use super::{partial::EventOutcome, resource_request::EventIndex, state::AttemptRecord};
use crate::{
    retry::{
        Rules,
        outcome::{Answer, Outcome},
        profile::Rule,
    },
    time::Timestamp,
};

/// After how many visits in a row with the same outcome a batch is split whose outcome is retried,
/// and after how many more again: it may be the endpoint that fails, not an event.
pub const AGAIN: u32 = 3;

/// The most parts that are sent in one visit.
const PARTS_MAX: usize = 100;

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub answer: Answer,
    /// The attempts that its deliveries have had before it.
    pub made: u32,
    /// What their states remember of those, for each delivery.
    pub past: &'a [&'a [AttemptRecord]],
}

/// Events that are sent together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Their places among the events of the whole request.
    events: Range<usize>,
    /// The requests that have carried them, since the batch was sent whole.
    requests: u32,
}

/// The answers to a request: one for all, or one for each of its events in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answers {
    Whole(Answer),
    Each(Vec<Answer>),
}

/// A batch that is being split.
#[derive(Clone, Debug)]
pub struct Bisection<'r> {
    rules: Rules<'r>,
    /// The attempts that all of its events have had before.
    made: u32,
    /// Whether a group is split whose outcome is retried.
    again: bool,
    /// Whether right halves are sent first.
    from_right: bool,
    /// Halves that are still to be sent.
    next: Vec<Group>,
    /// Halves that were taken to be sent.
    taken: usize,
    /// Refused requests since the last one that was accepted, without the first.
    refused_in_row: usize,
    refused_in_row_max: usize,
    /// After so many, the smallest halves are sent first.
    narrows_after: usize,
    /// Whether nothing more is sent: the endpoint itself has failed.
    is_over: bool,
    events: Vec<EventIndex>,
    met: Vec<EventOutcome>,
}

/// Whether an outcome may be about what is in a request. Every other one is about the endpoint, or
/// about who asks.
pub fn is_about_events(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::BadRequest | Outcome::PayloadTooLarge | Outcome::ServerError)
}

/// How often so many events can be halved.
fn levels(events: usize) -> usize {
    events.next_power_of_two().trailing_zeros() as usize
}

/// The attempts after which the delivery waited, the last first.
fn waited(past: &[AttemptRecord]) -> impl Iterator<Item = &AttemptRecord> {
    past.iter().rev().filter(|attempt| attempt.because.is_some())
}

/// How many visits in a row, this one included, had that outcome. A visit is an attempt after which
/// the delivery waited.
fn visits(past: &[AttemptRecord], outcome: Outcome) -> u32 {
    1 + waited(past).take_while(|attempt| attempt.outcome == outcome).count() as u32
}

impl Group {
    /// How many requests have carried its events, since the batch was sent whole.
    pub fn requests(&self) -> u32 {
        self.requests
    }
}

impl<'r> Bisection<'r> {
    /// Begins to split a request, if that is due.
    ///
    /// A request that is not retried is split at once. One that is retried is split after every
    /// third visit with the same outcome in a row.
    pub fn begin(rules: Rules<'r>, events: Vec<EventIndex>, asked: Asked<'_>) -> Option<Self> {
        let Asked { answer, made, past } = asked;
        if events.len() < 2 || !is_about_events(answer.outcome) {
            return None;
        }
        let visits = past.iter().map(|past| visits(past, answer.outcome)).min().unwrap_or(1);
        let again = !ends(rules, answer);
        if again && !visits.is_multiple_of(AGAIN) {
            return None;
        }
        let visited = past.iter().map(|past| waited(past).count()).max().unwrap_or(0);
        // Where every request is refused, one event at least is separated before the most.
        let narrows_after = 2 * levels(events.len()) + 2;
        let refused_in_row_max = if again { visits as usize } else { 2 * narrows_after };
        let mut bisection = Self {
            rules,
            made,
            again,
            from_right: !visited.is_multiple_of(2),
            next: Vec::new(),
            taken: 0,
            refused_in_row: 0,
            refused_in_row_max,
            narrows_after: if again { usize::MAX } else { narrows_after },
            is_over: false,
            met: events.iter().map(|at| EventOutcome::new(at.event, answer)).collect(),
            events,
        };
        bisection.refused(Group { events: 0..bisection.events.len(), requests: 1 }, answer, None);
        (!bisection.next.is_empty()).then_some(bisection)
    }

    /// The events of the next request, if another one is to be made.
    pub fn next_part(&mut self) -> Option<Group> {
        if self.is_over || self.refused_in_row >= self.refused_in_row_max {
            return None;
        }
        let narrows = self.refused_in_row >= self.narrows_after;
        // Those that were halved as often are as large, or smaller by one.
        let halved = self.next.iter().map(Group::requests);
        let wanted = if narrows { halved.max() } else { halved.min() }?;
        let place = self.next.iter().position(|group| group.requests == wanted)?;
        self.taken += 1;
        (self.taken <= PARTS_MAX).then(|| self.next.remove(place))
    }

    /// Leaves out the events of these deliveries, which are sent no more. They have met what they have
    /// met so far; the events beside them go on.
    pub fn leave_out(&mut self, is_over: impl Fn(usize) -> bool) {
        let all = &self.events;
        let going_on = |Group { events, requests }: Group| {
            // A delivery's events stand together, and so do those between two deliveries.
            let first = events.start;
            let runs =
                all[events].chunk_by(|one, next| is_over(one.delivery) == is_over(next.delivery));
            let groups = runs.scan(first, move |start, run| {
                let events = *start..*start + run.len();
                *start = events.end;
                Some((run[0].delivery, Group { events, requests }))
            });
            groups
                .filter(|(delivery, _)| !is_over(*delivery))
                .map(|(_, group)| group)
                .collect::<Vec<_>>()
        };
        self.next = std::mem::take(&mut self.next).into_iter().flat_map(going_on).collect();
    }

    /// The events of a group.
    pub fn events(&self, group: &Group) -> &[EventIndex] {
        &self.events[group.events.clone()]
    }

    /// Records the answers to the request of a group, and when that began.
    pub fn note(&mut self, group: Group, answers: &Answers, began_at: Timestamp) {
        let group = Group { requests: group.requests + 1, ..group };
        match answers {
            Answers::Each(each) => {
                self.refused_in_row = 0;
                for (place, answer) in group.events.clone().zip(each) {
                    self.met(place, *answer, (group.requests, Some(began_at)), false);
                }
            }
            Answers::Whole(answer) if answer.outcome.is_accepted() => {
                self.refused_in_row = 0;
                self.all_met(&group, *answer, Some(began_at), false);
            }
            Answers::Whole(answer) => {
                self.refused_in_row += 1;
                self.is_over = !is_about_events(answer.outcome);
                self.refused(group, *answer, Some(began_at));
            }
        }
    }

    /// Splits a refused group, if it can be split and there are attempts left for its halves.
    fn refused(&mut self, group: Group, answer: Answer, began_at: Option<Timestamp>) {
        let Group { events, requests } = group.clone();
        let is_separable = events.len() > 1
            && is_about_events(answer.outcome)
            && (self.again || ends(self.rules, answer));
        // Until a later request says something else about an event, this is what it has met.
        self.all_met(&group, answer, began_at, is_separable);
        if is_separable && self.made + requests < self.rules.policy.max_attempts {
            let middle = events.start + events.len().div_ceil(2);
            let half = |events| Group { events, requests };
            let mut halves = [half(events.start..middle), half(middle..events.end)];
            if self.from_right {
                halves.reverse();
            }
            self.next.extend(halves);
        }
    }

    fn all_met(
        &mut self,
        group: &Group,
        answer: Answer,
        began_at: Option<Timestamp>,
        is_separable: bool,
    ) {
        for place in group.events.clone() {
            self.met(place, answer, (group.requests, began_at), is_separable);
        }
    }

    fn met(
        &mut self,
        place: usize,
        answer: Answer,
        (requests, last_at): (u32, Option<Timestamp>),
        is_separable: bool,
    ) {
        let event = self.events[place].event;
        self.met[place] = EventOutcome { event, answer, requests, last_at, is_separable };
    }

    /// What the events of each of so many deliveries have met.
    pub fn into_met(self, deliveries: usize) -> Vec<Vec<EventOutcome>> {
        let mut all = vec![Vec::new(); deliveries];
        self.events.iter().zip(self.met).for_each(|(at, met)| all[at.delivery].push(met));
        all
    }
}

fn ends(rules: Rules<'_>, answer: Answer) -> bool {
    rules.policy.rule(rules.profile, rules.kind, answer.status, answer.outcome) == Rule::End
}

#[cfg(test)]
mod tests;

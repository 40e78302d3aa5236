//! Splits a refused batch until its bad events stand alone, if the event subscription asks for it.
//!
//! A refused request is split in two halves, and so is a refused half. An event that stands alone
//! is treated like any refused event. The largest part is sent first: many good events should not
//! wait for a few bad ones. After many refusals in a row it is the smallest, so that some stand
//! alone. Visits alternate the half that comes first, because an interrupted visit forgets
//! refusals. `k` bad events of `n` take at most `1 + 2·k·⌈log₂ n⌉` requests.
//!
//! Every request is an attempt of its events. Events not separated when the attempts, the time
//! or the endpoint's patience end go on together, in the delivery's next attempt.

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

/// A batch whose outcome is retried is split after every so many visits in a row with that outcome:
/// the endpoint may be at fault, not an event.
pub const AGAIN: u32 = 3;
const PARTS_MAX: usize = 100;

/// An answered request.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredRequest<'a> {
    pub answer: Answer,
    /// The attempts of its deliveries before it.
    pub made: u32,
    /// Those that each delivery's state remembers.
    pub past: &'a [&'a [AttemptRecord]],
}

/// Events that are sent together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Positions among the events of the whole request.
    events: Range<usize>,
    /// Requests that carried them since the batch was sent whole.
    pub requests: u32,
}

/// The answers to a request: one for all events, or one for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answers {
    Whole(Answer),
    Each(Vec<Answer>),
}

/// A batch that is being split.
#[derive(Clone, Debug)]
pub struct Bisection<'r> {
    rules: Rules<'r>,
    /// Attempts that all of its events had before.
    made: u32,
    /// Whether groups are split even if their outcome is retried.
    again: bool,
    /// Whether right halves are sent first.
    from_right: bool,
    /// Halves still to be sent.
    next: Vec<Group>,
    /// Halves sent.
    taken: usize,
    /// Refusals since the last accepted request, not counting the first.
    refused_in_row: usize,
    refused_in_row_max: usize,
    /// After so many refusals in a row, the smallest halves are sent first.
    narrows_after: usize,
    /// Whether the endpoint itself has failed, so that nothing more is sent.
    is_over: bool,
    events: Vec<EventIndex>,
    outcomes: Vec<EventOutcome>,
}

/// Returns whether an outcome may be caused by the events of a request.
pub fn is_about_events(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::BadRequest | Outcome::PayloadTooLarge | Outcome::ServerError)
}

fn levels(events: usize) -> usize {
    events.next_power_of_two().trailing_zeros() as usize
}

/// Returns the attempts after which the delivery waited, the last first.
fn waited(past: &[AttemptRecord]) -> impl Iterator<Item = &AttemptRecord> {
    past.iter().rev().filter(|attempt| attempt.because.is_some())
}

/// Counts the visits in a row with that outcome, this one included. Each ends with a wait.
fn visits(past: &[AttemptRecord], outcome: Outcome) -> u32 {
    1 + waited(past).take_while(|attempt| attempt.outcome == outcome).count() as u32
}

impl<'r> Bisection<'r> {
    /// Begins to split a request, if that is due.
    ///
    /// A request is split at once, one that is retried after every third equal outcome in a row.
    pub fn begin(
        rules: Rules<'r>,
        events: Vec<EventIndex>,
        asked: AnsweredRequest<'_>,
    ) -> Option<Self> {
        let AnsweredRequest { answer, made, past } = asked;
        if events.len() < 2 || !is_about_events(answer.outcome) {
            return None;
        }
        let visits = past.iter().map(|past| visits(past, answer.outcome)).min().unwrap_or(1);
        let again = !ends(rules, answer);
        if again && !visits.is_multiple_of(AGAIN) {
            return None;
        }
        let visited = past.iter().map(|past| waited(past).count()).max().unwrap_or(0);
        // Even if every request is refused, at least one event is separated before the limit.
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
            outcomes: events.iter().map(|at| EventOutcome::new(at.event, answer)).collect(),
            events,
        };
        bisection.refused(Group { events: 0..bisection.events.len(), requests: 1 }, answer, None);
        (!bisection.next.is_empty()).then_some(bisection)
    }

    /// Takes the events of the next request, if there is to be one.
    pub fn next_part(&mut self) -> Option<Group> {
        if self.is_over || self.refused_in_row >= self.refused_in_row_max {
            return None;
        }
        let narrows = self.refused_in_row >= self.narrows_after;
        // Groups halved equally often differ in size by one at most.
        let halved = self.next.iter().map(|group| group.requests);
        let wanted = if narrows { halved.max() } else { halved.min() }?;
        let place = self.next.iter().position(|group| group.requests == wanted)?;
        self.taken += 1;
        (self.taken <= PARTS_MAX).then(|| self.next.remove(place))
    }

    /// Removes the events of deliveries that are over. They keep their outcomes; the others go on.
    pub fn leave_out(&mut self, is_over: impl Fn(usize) -> bool) {
        let all = &self.events;
        let going_on = |Group { events, requests }: Group| {
            // A delivery's events are consecutive.
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

    /// Returns the events of a group.
    pub fn events(&self, group: &Group) -> &[EventIndex] {
        &self.events[group.events.clone()]
    }

    /// Records the answers to a group's request, and when it began.
    pub fn note(&mut self, group: Group, answers: &Answers, began_at: Timestamp) {
        let group = Group { requests: group.requests + 1, ..group };
        match answers {
            Answers::Each(each) => {
                self.refused_in_row = 0;
                for (place, answer) in group.events.clone().zip(each) {
                    self.record(place, *answer, (group.requests, Some(began_at)), false);
                }
            }
            Answers::Whole(answer) if answer.outcome.is_accepted() => {
                self.refused_in_row = 0;
                self.record_all(&group, *answer, Some(began_at), false);
            }
            Answers::Whole(answer) => {
                self.refused_in_row += 1;
                self.is_over = !is_about_events(answer.outcome);
                self.refused(group, *answer, Some(began_at));
            }
        }
    }

    /// Splits a refused group, if that is possible and its halves have attempts left.
    fn refused(&mut self, group: Group, answer: Answer, began_at: Option<Timestamp>) {
        let Group { events, requests } = group.clone();
        let is_separable = events.len() > 1
            && is_about_events(answer.outcome)
            && (self.again || ends(self.rules, answer));
        // This is the outcome of its events until a later request answers for them.
        self.record_all(&group, answer, began_at, is_separable);
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

    fn record_all(
        &mut self,
        group: &Group,
        answer: Answer,
        began_at: Option<Timestamp>,
        is_separable: bool,
    ) {
        for place in group.events.clone() {
            self.record(place, answer, (group.requests, began_at), is_separable);
        }
    }

    fn record(
        &mut self,
        place: usize,
        answer: Answer,
        (requests, last_at): (u32, Option<Timestamp>),
        is_separable: bool,
    ) {
        let event = self.events[place].event;
        self.outcomes[place] = EventOutcome { event, answer, requests, last_at, is_separable };
    }

    /// Returns the outcomes of each delivery's events.
    pub fn into_outcomes(self, deliveries: usize) -> Vec<Vec<EventOutcome>> {
        let mut all = vec![Vec::new(); deliveries];
        self.events.iter().zip(self.outcomes).for_each(|(at, met)| all[at.delivery].push(met));
        all
    }
}

fn ends(rules: Rules<'_>, answer: Answer) -> bool {
    rules.policy.rule(rules.profile, rules.kind, answer.status, answer.outcome) == Rule::End
}

#[cfg(test)]
mod tests;

//! Splits the events of an attempt that were answered one by one: delivered events are done,
//! events that are not retried end for their own reason, and the rest goes on as the delivery.
//!
//! AWS services answer for each event, some webhooks do, and a split batch has several answers.

use super::event_set::EventSet;
use crate::{
    retry::{
        EndReason, Rules,
        outcome::{Answer, Outcome},
        profile::{DEFAULT_MIN_S, Rule},
    },
    time::Timestamp,
};

/// The outcome of one event of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventOutcome {
    /// Its position in the delivery.
    pub event: usize,
    pub answer: Answer,
    /// Requests of this attempt that carried it, at least 1.
    pub requests: u32,
    /// When the answered request began, if it was not the attempt's first.
    pub last_at: Option<Timestamp>,
    /// Whether the answer was to several events that a later attempt can separate.
    pub is_separable: bool,
}

impl EventOutcome {
    /// Records the answer to the attempt's only request.
    pub fn new(event: usize, answer: Answer) -> Self {
        Self { event, answer, requests: 1, last_at: None, is_separable: false }
    }
}

/// Events that end before the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub answer: Answer,
    pub reason: EndReason,
    /// See [`EventOutcome::requests`].
    pub requests: u32,
    /// See [`EventOutcome::last_at`].
    pub last_at: Option<Timestamp>,
    pub events: EventSet,
}

/// The events that a delivery goes on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The answer that decides.
    pub answer: Answer,
    /// The most requests that carried one of them.
    pub requests: u32,
    /// Of the deciding answer.
    pub last_at: Option<Timestamp>,
    /// Of the deciding answer.
    pub is_separable: bool,
    pub events: EventSet,
}

/// An attempt's events, split by what follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    pub delivered: EventSet,
    pub ends: Vec<End>,
    /// `None` if no event goes on.
    pub rest: Option<Rest>,
}

impl Split {
    /// Returns the events that are done once those in `ends` have ended.
    pub fn done(&self) -> EventSet {
        let mut done = self.delivered.clone();
        self.ends.iter().for_each(|end| done.add_all(&end.events));
        done
    }
}

/// Splits an attempt's events by their answers. `made` counts the attempts before.
///
/// Retried events go on together, under the answer that asks for the longest wait. If none is
/// retried, the last group that ends becomes `rest`, so that the delivery ends like any other.
pub fn split(rules: Rules<'_>, made: u32, met: &[EventOutcome]) -> Split {
    let mut split = Split::default();
    let mut retried: Option<(u64, Rest)> = None;
    for met in met {
        if met.answer.outcome == Outcome::Delivered {
            split.delivered.add(met.event);
            continue;
        }
        match follows(rules, made, met) {
            Ok(wait_s) => {
                let (longest, rest) = retried.get_or_insert_with(|| (wait_s, Rest::of(met)));
                rest.events.add(met.event);
                rest.requests = rest.requests.max(met.requests);
                if wait_s > *longest {
                    *longest = wait_s;
                    (rest.answer, rest.last_at) = (met.answer, met.last_at);
                    rest.is_separable = met.is_separable;
                }
            }
            Err(reason) => {
                let same = |end: &&mut End| {
                    let what = |answer: Answer| (answer.outcome, answer.status);
                    what(end.answer) == what(met.answer)
                        && end.reason == reason
                        && (end.requests, end.last_at) == (met.requests, met.last_at)
                };
                match split.ends.iter_mut().find(same) {
                    Some(end) => end.events.add(met.event),
                    None => split.ends.push(End::of(met, reason)),
                }
            }
        }
    }
    split.rest = match retried {
        Some((_, rest)) => Some(rest),
        None => split.ends.pop().map(|End { answer, requests, last_at, events, .. }| Rest {
            answer,
            requests,
            last_at,
            is_separable: false,
            events,
        }),
    };
    split
}

impl Rest {
    fn of(met: &EventOutcome) -> Self {
        let EventOutcome { answer, requests, last_at, is_separable, .. } = *met;
        Self { answer, requests, last_at, is_separable, events: EventSet::default() }
    }
}

impl End {
    fn of(met: &EventOutcome, reason: EndReason) -> Self {
        let EventOutcome { event, answer, requests, last_at, .. } = *met;
        Self { answer, reason, requests, last_at, events: EventSet::from_iter([event]) }
    }
}

/// Returns after how many seconds an event is retried, or why it ends; each has its own attempts.
fn follows(rules: Rules<'_>, made: u32, met: &EventOutcome) -> Result<u64, EndReason> {
    let Answer { outcome, status, retry_after } = met.answer;
    let is_spent = made + met.requests >= rules.policy.max_attempts;
    let min_s = match rules.policy.rule(rules.profile, rules.kind, status, outcome) {
        Rule::End if is_spent || !met.is_separable => return Err(EndReason::not_retried(outcome)),
        Rule::End => DEFAULT_MIN_S,
        Rule::Retry { .. } if is_spent => return Err(EndReason::MaxDeliveryAttemptsExceeded),
        Rule::Retry { min_s } => min_s,
    };
    let asked = retry_after.map_or(0, |wait| wait.as_secs());
    Ok(u64::from(min_s).max(asked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::{
        policy::RetryPolicy,
        profile::{EndpointKind, ProfileName},
    };

    const BASIC: ProfileName = ProfileName::Basic;

    fn answer(status: u16) -> Answer {
        Answer::of_status(status, None)
    }

    fn set(positions: &[usize]) -> EventSet {
        positions.iter().copied().collect()
    }

    fn all(split: &Split) -> usize {
        let mut all = split.done();
        split.rest.iter().for_each(|rest| all.add_all(&rest.events));
        all.len()
    }

    #[test]
    fn part_table() {
        let (ok, busy, gone) = (200, 503, 404);
        let (bad, large, error) = (400, 413, 500);
        type Row =
            (&'static str, Vec<u16>, Vec<usize>, Vec<(u16, Vec<usize>)>, Option<(u16, Vec<usize>)>);
        let table: Vec<Row> = vec![
            ("all delivered", vec![ok, ok], vec![0, 1], vec![], None),
            ("one is busy", vec![ok, busy, ok], vec![0, 2], vec![], Some((busy, vec![1]))),
            ("all fail alike", vec![busy, busy], vec![], vec![], Some((busy, vec![0, 1]))),
            (
                "the longest wait",
                vec![error, gone, busy],
                vec![],
                vec![],
                Some((gone, vec![0, 1, 2])),
            ),
            ("all end alike", vec![bad, bad], vec![], vec![], Some((bad, vec![0, 1]))),
            ("one ends", vec![ok, large], vec![0], vec![], Some((large, vec![1]))),
            (
                "ends apart from what is retried",
                vec![bad, busy, ok, large, bad],
                vec![2],
                vec![(bad, vec![0, 4]), (large, vec![3])],
                Some((busy, vec![1])),
            ),
            (
                "ends for two reasons",
                vec![bad, large],
                vec![],
                vec![(bad, vec![0])],
                Some((large, vec![1])),
            ),
        ];
        let policy = RetryPolicy::default_of(BASIC);
        let rules = Rules { profile: BASIC, kind: EndpointKind::Resource, policy: &policy };
        for (row, met, delivered, ends, rest) in table {
            let met: Vec<_> = met.into_iter().map(answer).enumerate().collect();
            let met: Vec<_> =
                met.into_iter().map(|(event, met)| EventOutcome::new(event, met)).collect();
            let want = Split {
                delivered: set(&delivered),
                ends: ends
                    .into_iter()
                    .map(|(status, events)| End {
                        answer: answer(status),
                        reason: EndReason::not_retried(answer(status).outcome),
                        requests: 1,
                        last_at: None,
                        events: set(&events),
                    })
                    .collect(),
                rest: rest.map(|(status, events)| Rest {
                    answer: answer(status),
                    requests: 1,
                    last_at: None,
                    is_separable: false,
                    events: set(&events),
                }),
            };
            let split = super::split(rules, 0, &met);
            assert_eq!(split, want, "{row}");
            assert_eq!(all(&split), met.len(), "{row}: none is forgotten");
        }
    }

    /// A dead letter shows the status of its own events.
    #[test]
    fn events_end_apart_by_status() {
        let policy = RetryPolicy::default_of(BASIC);
        let rules = Rules { profile: BASIC, kind: EndpointKind::Webhook, policy: &policy };
        let other = Answer { status: Some(413), ..answer(400) };
        let met = [answer(400), other, answer(503), other];
        let met: Vec<_> =
            met.into_iter().enumerate().map(|(event, met)| EventOutcome::new(event, met)).collect();
        let ends: Vec<_> = super::split(rules, 0, &met)
            .ends
            .into_iter()
            .map(|end| (end.answer.status, end.events))
            .collect();
        assert_eq!(ends, [(Some(400), set(&[0])), (Some(413), set(&[1, 3]))]);
    }

    /// A dead letter says when its own events were sent last.
    #[test]
    fn events_end_apart_by_the_request_that_ended_them() {
        let policy = RetryPolicy::default_of(BASIC);
        let rules = Rules { profile: BASIC, kind: EndpointKind::Webhook, policy: &policy };
        let at = |second: i64| Some(Timestamp::from_millis(second * 1_000));
        let met = |event, status, second| EventOutcome {
            requests: 3,
            last_at: at(second),
            ..EventOutcome::new(event, answer(status))
        };
        let split = super::split(rules, 0, &[met(0, 400, 1), met(1, 400, 2), met(2, 400, 1)]);
        let ends: Vec<_> = split.ends.into_iter().map(|end| (end.last_at, end.events)).collect();
        assert_eq!(ends, [(at(1), set(&[0, 2]))]);
        assert_eq!(split.rest.map(|rest| (rest.last_at, rest.events)), Some((at(2), set(&[1]))));
        // The rest takes its times from the request whose answer decides.
        let split = super::split(rules, 0, &[met(0, 503, 1), met(1, 404, 2), met(2, 503, 3)]);
        let rest = split.rest.expect("all go on");
        assert_eq!((rest.answer, rest.last_at, rest.events.len()), (answer(404), at(2), 3));
    }

    /// Events of a batch may have been in different numbers of requests.
    #[test]
    fn attempts_are_spent_event_by_event() {
        let policy = RetryPolicy { max_attempts: 6, ..RetryPolicy::default_of(BASIC) };
        let rules = Rules { profile: BASIC, kind: EndpointKind::Webhook, policy: &policy };
        let met = |event, status, requests, is_separable| EventOutcome {
            event,
            answer: answer(status),
            requests,
            last_at: None,
            is_separable,
        };
        let all_met = [
            met(0, 200, 2, false),
            met(1, 400, 4, false),
            met(2, 400, 3, true),
            met(3, 400, 4, true),
            met(4, 500, 4, false),
            met(5, 503, 2, false),
        ];
        let split = super::split(rules, 2, &all_met);
        assert_eq!(split.delivered, set(&[0]));
        let ends: Vec<_> = split.ends.iter().map(|end| (end.reason, end.events.clone())).collect();
        let refused = EndReason::UndeliverableDueToHttpBadRequest;
        let spent = EndReason::MaxDeliveryAttemptsExceeded;
        assert_eq!(ends, [(refused, set(&[1, 3])), (spent, set(&[4]))]);
        let rest = split.rest.as_ref().expect("some go on");
        assert_eq!((rest.answer, rest.requests, rest.is_separable), (answer(503), 3, false));
        assert_eq!((rest.events.clone(), all(&split)), (set(&[2, 5]), all_met.len()));
        // An answer to several events does not end those that can still be separated.
        let split = super::split(rules, 2, &all_met[2..3]);
        assert!(split.rest.is_some_and(|rest| rest.is_separable));
    }
}

//! The result of an attempt at a service that answers for each event: delivered events are done,
//! events that are not retried end for their own reason, and the rest goes on as the delivery.

use super::event_set::EventSet;
use crate::retry::{
    Rules,
    outcome::{Answer, Outcome},
    profile::Rule,
};

/// An attempt's events, split by what follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    pub delivered: EventSet,
    /// Events that end before the rest, by the answer that ended them.
    pub ends: Vec<(Answer, EventSet)>,
    /// The events that the delivery goes on with, and the answer that decides about it; `None` if
    /// all others are done.
    pub rest: Option<(Answer, EventSet)>,
}

impl Split {
    /// The events that are done once those in `ends` have ended.
    pub fn done(&self) -> EventSet {
        let mut done = self.delivered.clone();
        self.ends.iter().for_each(|(_, ended)| done.add_all(ended));
        done
    }
}

/// Splits an attempt's events by the answer that each got.
///
/// Retried events go on together, under the answer that asks for the longest wait. If none is
/// retried, the last group that ends becomes `rest`, so that the delivery ends like any other.
pub fn split(rules: Rules<'_>, met: &[(usize, Answer)]) -> Split {
    let mut split = Split::default();
    let mut retried: Option<(u64, Answer, EventSet)> = None;
    for (position, answer) in met {
        if answer.outcome == Outcome::Delivered {
            split.delivered.add(*position);
            continue;
        }
        match rules.policy.rule(rules.profile, rules.kind, answer.status, answer.outcome) {
            Rule::End => {
                let same = |(other, _): &&mut (Answer, EventSet)| other.outcome == answer.outcome;
                match split.ends.iter_mut().find(same) {
                    Some((_, ended)) => ended.add(*position),
                    None => split.ends.push((*answer, EventSet::from_iter([*position]))),
                }
            }
            Rule::Retry { min_s } => {
                let asked = answer.retry_after.map_or(0, |wait| wait.as_secs());
                let wait_s = u64::from(min_s).max(asked);
                let (longest, chosen, set) =
                    retried.get_or_insert_with(|| (wait_s, *answer, EventSet::default()));
                set.add(*position);
                if wait_s > *longest {
                    (*longest, *chosen) = (wait_s, *answer);
                }
            }
        }
    }
    split.rest = match retried {
        Some((_, answer, set)) => Some((answer, set)),
        None => split.ends.pop(),
    };
    split
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::{
        policy::RetryPolicy,
        profile::{EndpointKind, ProfileName},
    };

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
        let policy = RetryPolicy::default_of(ProfileName::Basic);
        let rules =
            Rules { profile: ProfileName::Basic, kind: EndpointKind::Resource, policy: &policy };
        let answer = |status| Answer::of_status(status, None);
        for (row, met, delivered, ends, rest) in table {
            let met: Vec<_> = met.into_iter().map(answer).enumerate().collect();
            let set = |positions: Vec<usize>| positions.into_iter().collect::<EventSet>();
            let group = |(status, positions)| (answer(status), set(positions));
            let want = Split {
                delivered: set(delivered),
                ends: ends.into_iter().map(group).collect(),
                rest: rest.map(group),
            };
            let split = super::split(rules, &met);
            assert_eq!(split, want, "{row}");
            let mut all = split.done();
            split.rest.iter().for_each(|(_, rest)| all.add_all(rest));
            assert_eq!(all.len(), met.len(), "{row}: none is forgotten");
        }
    }
}

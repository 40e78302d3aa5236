//! Decides what a rollout does next: a function of its state, the latest observation, and the time
//! since it began.

use std::fmt;
use std::time::Duration;

use super::alarms::{Alarm, off};

/// Between two looks at the alarms: they change once a minute at most.
pub const LOOK: Duration = Duration::from_secs(15);

/// How long alarms may be unreadable before what was shifted is taken back.
pub const BLIND_MAX: Duration = Duration::from_secs(180);

/// How fast a rollout goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Percent of the invocations that each step shifts, 1 to 100.
    pub step: u8,
    /// The time that each step is watched for, the last one too.
    pub every: Duration,
}

impl Pace {
    /// The percentages of all steps.
    pub fn steps(self) -> Vec<u8> {
        let mut steps = vec![self.after(0)];
        while let Some(last) = steps.last().copied().filter(|last| *last < 100) {
            steps.push(self.after(last));
        }
        steps
    }

    fn after(self, percent: u8) -> u8 {
        percent.saturating_add(self.step.max(1)).min(100)
    }
}

/// The state of a rollout. Times are counted from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Percent of the invocations that go to the new versions.
    pub percent: u8,
    pub since: Duration,
    /// When the alarms were read last.
    pub seen: Duration,
}

/// An observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Alarms(Vec<Alarm>),
    /// They could not be read, and why.
    Nothing(String),
    Stop,
}

/// The reason why a rollout is taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    Alarms(Vec<Alarm>),
    /// Alarms could not be read for too long, and why.
    Blind(String),
    Stopped,
    /// An alias could not be shifted, and why.
    Refused(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alarms(alarms) => {
                let told =
                    alarms.iter().map(|Alarm { name, state, reason }| match reason.as_str() {
                        "" => format!("{name} is in {state}"),
                        reason => format!("{name} is in {state} ({reason})"),
                    });
                f.write_str(&told.collect::<Vec<_>>().join("; "))
            }
            Self::Blind(why) => {
                write!(f, "the alarms could not be read for {} s: {why}", BLIND_MAX.as_secs())
            }
            Self::Stopped => f.write_str("the command was told to end"),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

/// The next action of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Sends this many percent to the new versions.
    Shift(u8),
    Look(Duration),
    /// Everything goes to the new versions, and was watched for long enough.
    Done,
    Revert(Reason),
}

impl State {
    /// Decides what follows from an observation at a time.
    pub fn next(&self, pace: Pace, seen: &Seen, now: Duration) -> Next {
        let alarms = match seen {
            Seen::Stop => return Next::Revert(Reason::Stopped),
            Seen::Nothing(why) if now >= self.seen + BLIND_MAX => {
                return Next::Revert(Reason::Blind(why.clone()));
            }
            // No step is made that isn't watched.
            Seen::Nothing(_) => return Next::Look(now + LOOK),
            Seen::Alarms(alarms) => off(alarms),
        };
        if !alarms.is_empty() {
            return Next::Revert(Reason::Alarms(alarms));
        }
        let due = self.since + pace.every;
        match self.percent {
            0 => Next::Shift(pace.after(0)),
            _ if now < due => Next::Look(due.min(now + LOOK)),
            100.. => Next::Done,
            percent => Next::Shift(pace.after(percent)),
        }
    }

    /// The state after what was seen: alarms that were read count as seen.
    pub fn after(self, seen: &Seen, now: Duration) -> Self {
        match seen {
            Seen::Alarms(_) => Self { seen: now, ..self },
            Seen::Nothing(_) | Seen::Stop => self,
        }
    }

    /// The state after a step.
    pub fn shifted(self, percent: u8, now: Duration) -> Self {
        Self { percent, since: now, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { step: 40, every: Duration::from_secs(600) };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn alarm(state: &str) -> Alarm {
        let (name, reason) = ("g-late".to_owned(), "Threshold Crossed".to_owned());
        Alarm { name, state: state.to_owned(), reason }
    }

    fn quiet() -> Seen {
        Seen::Alarms(vec![alarm("OK")])
    }

    #[test]
    fn what_comes_next() {
        let state = |percent, since| State { percent, since: at(since), seen: at(since) };
        let blind = || Seen::Nothing("no answer".to_owned());
        let off = || Seen::Alarms(vec![alarm("ALARM")]);
        let reverted = || Next::Revert(Reason::Alarms(vec![alarm("ALARM")]));
        let table = [
            ("the first step is at once", state(0, 0), quiet(), 0, Next::Shift(40)),
            ("none while an alarm is off", state(0, 0), off(), 0, reverted()),
            ("a step is watched", state(40, 0), quiet(), 1, Next::Look(at(16))),
            ("to its end", state(40, 0), quiet(), 590, Next::Look(at(600))),
            ("then comes the next", state(40, 0), quiet(), 600, Next::Shift(80)),
            ("which ends at all", state(80, 600), quiet(), 1_200, Next::Shift(100)),
            ("that is watched, too", state(100, 1_200), quiet(), 1_799, Next::Look(at(1_800))),
            ("then it is over", state(100, 1_200), quiet(), 1_800, Next::Done),
            ("an alarm ends it", state(40, 0), off(), 1, reverted()),
            ("at the last moment", state(100, 1_200), off(), 1_800, reverted()),
            ("an alarm unseen changes nothing", state(40, 0), blind(), 179, Next::Look(at(194))),
            (
                "unless for too long",
                state(40, 0),
                blind(),
                180,
                Next::Revert(Reason::Blind("no answer".to_owned())),
            ),
            (
                "no step is made unseen",
                State { seen: at(590), ..state(40, 0) },
                blind(),
                601,
                Next::Look(at(616)),
            ),
            ("stopped", state(40, 0), Seen::Stop, 1, Next::Revert(Reason::Stopped)),
            ("with nothing shifted", state(0, 0), Seen::Stop, 0, Next::Revert(Reason::Stopped)),
        ];
        for (name, state, seen, now, want) in table {
            assert_eq!(state.next(PACE, &seen, at(now)), want, "{name}");
        }
    }

    #[test]
    fn only_what_was_read_counts_as_seen() {
        let state = State { percent: 40, since: at(1), seen: at(2) };
        assert_eq!(state.after(&quiet(), at(9)), State { seen: at(9), ..state });
        assert_eq!(state.after(&Seen::Nothing("no".to_owned()), at(9)), state);
        let next = State { percent: 80, since: at(9), seen: at(2) };
        assert_eq!(state.shifted(80, at(9)), next);
    }

    #[test]
    fn steps_end_at_a_hundred() {
        let table: [(u8, &[u8]); 4] =
            [(100, &[100]), (50, &[50, 100]), (40, &[40, 80, 100]), (99, &[99, 100])];
        for (step, want) in table {
            assert_eq!(Pace { step, every: LOOK }.steps(), want);
        }
        assert_eq!(Pace { step: 1, every: LOOK }.steps().len(), 100);
    }

    #[test]
    fn reasons_are_told_with_what_cloudwatch_says() {
        let table = [
            (
                Reason::Alarms(vec![alarm("ALARM"), Alarm { reason: String::new(), ..alarm("A") }]),
                "g-late is in ALARM (Threshold Crossed); g-late is in A",
            ),
            (Reason::Blind("x".into()), "the alarms could not be read for 180 s: x"),
            (Reason::Stopped, "the command was told to end"),
            (Reason::Refused("y".into()), "y"),
        ];
        for (reason, want) in table {
            assert_eq!(reason.to_string(), want);
        }
    }
}

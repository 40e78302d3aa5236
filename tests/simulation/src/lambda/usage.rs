//! Lambda's bill: how long functions ran, and with how much memory.

use std::{collections::BTreeMap, time::Duration};

use gridpost_core::delivery::queue::Queue;

/// A function that Lambda invokes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// Takes publishes.
    Ingest,
    /// Takes in messages of sources.
    Intake,
    /// Makes large fan-outs.
    Expand,
    Dispatch,
    DeadLetter,
    /// Sends dead letters again.
    Redrive,
    Wake,
    Manage,
}

/// How much a function was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub invocations: u64,
    /// Milliseconds that are billed: each invocation is rounded up to one.
    pub billed_ms: u64,
    /// Most bytes of bodies and objects that one invocation had in hand.
    pub held_max: usize,
}

/// How much each function was used.
#[derive(Clone, Debug, Default)]
pub struct Usage(BTreeMap<Function, Used>);

impl Function {
    /// The function that a queue's mapping invokes.
    pub fn of(queue: Queue) -> Self {
        match queue {
            Queue::DeadLetter => Self::DeadLetter,
            Queue::Redrive => Self::Redrive,
            Queue::FanOut => Self::Expand,
            _ => Self::Dispatch,
        }
    }

    /// Its memory as it is deployed, in MB (`memory_mb` in `infra/functions.tf`).
    pub fn memory_mb(self) -> u64 {
        match self {
            Self::Ingest
            | Self::Intake
            | Self::Expand
            | Self::Dispatch
            | Self::DeadLetter
            | Self::Redrive
            | Self::Manage => 512,
            Self::Wake => 256,
        }
    }
}

impl Usage {
    /// Records an invocation with its duration and bytes in hand.
    pub fn note(&mut self, function: Function, took: Duration, held: usize) {
        let used = self.0.entry(function).or_default();
        used.invocations += 1;
        used.billed_ms += u64::try_from(took.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
        used.held_max = used.held_max.max(held);
    }

    pub fn all(&self) -> impl Iterator<Item = (Function, Used)> {
        self.0.iter().map(|(function, used)| (*function, *used))
    }

    pub fn invocations(&self) -> u64 {
        self.0.values().map(|used| used.invocations).sum()
    }

    /// Gigabyte-seconds of all functions, as Lambda bills them.
    pub fn gb_seconds(&self) -> f64 {
        let mb_ms = |(function, used): (&Function, &Used)| function.memory_mb() * used.billed_ms;
        self.0.iter().map(mb_ms).sum::<u64>() as f64 / 1_024.0 / 1_000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invocation_is_rounded_up_to_a_millisecond() {
        let mut usage = Usage::default();
        usage.note(Function::Dispatch, Duration::from_micros(1_999_100), 7);
        usage.note(Function::Wake, Duration::from_secs(4), 0);
        usage.note(Function::Wake, Duration::ZERO, 3);
        let dispatch = Used { invocations: 1, billed_ms: 2_000, held_max: 7 };
        assert_eq!(usage.all().next(), Some((Function::Dispatch, dispatch)));
        assert_eq!(usage.invocations(), 3);
        // Two seconds of half a gigabyte and four of a quarter.
        assert!((usage.gb_seconds() - 2.0).abs() < 1e-9, "{}", usage.gb_seconds());
    }
}

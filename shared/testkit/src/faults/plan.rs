//! The plan of faults.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use gridpost_core::time::Timestamp;

use super::{Limits, Outage};

/// The faults to inject.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// How often a call fails before it takes effect.
    pub fails_before: f64,
    /// How often a call takes effect but answers an error.
    pub fails_after: f64,
    /// How often the caller dies, before or after the effect.
    pub dies: f64,
    /// How often a call hangs until it times out, before or after it takes effect.
    pub hangs: f64,
    /// How often an invocation is killed at some moment, whatever it is doing.
    pub killed: f64,
    /// How often Lambda's deletion of one message fails, while those of the others succeed.
    pub undeleted: f64,
    /// How often the SDK repeats a call that took effect, because its answer was lost.
    pub repeats: f64,
    /// How often a further page of due deliveries can't be read, after the first one was.
    pub pages_lost: f64,
    /// When services fail nearly every call.
    pub outages: Vec<Outage>,
    /// The limits of each partition of a table; `None` for no limit.
    pub partition: Option<Limits>,
    pub throttled: Vec<Range<Timestamp>>,
    /// The longest time of a call; zero if calls take no time.
    pub latency_max: Duration,
    /// Whether calls of many entries are made as the adapters make them: SQS takes the time of one call
    /// for a batch, and removals that a full partition refuses are tried again. Otherwise entries come
    /// one after the other, and a full partition fails the call.
    pub as_adapters: bool,
    /// The faults of single calls, by their number from 1.
    pub calls: BTreeMap<u64, Fault>,
    /// The number of calls after which all others fail before they take effect.
    pub calls_max: Option<u64>,
}

impl Plan {
    /// A plan in which only the calls with those numbers, counted from 1, fail before they take
    /// effect.
    pub fn failing(calls: impl IntoIterator<Item = u64>) -> Self {
        let calls = calls.into_iter().map(|number| (number, Fault::FailsBefore)).collect();
        Self { calls, ..Self::default() }
    }

    pub fn is_calm(&self) -> bool {
        self.fails_before + self.fails_after + self.dies + self.hangs + self.repeats == 0.0
            && self.outages.is_empty()
            && self.pages_lost + self.killed + self.undeleted == 0.0
            && self.partition.is_none_or(|limits| limits == Limits::DYNAMODB)
            && self.throttled.is_empty()
            && self.calls.is_empty()
            && self.calls_max.is_none()
    }
}

/// The fate of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Fails before it takes effect.
    FailsBefore,
    /// Takes effect but answers an error.
    FailsAfter,
    /// Its caller dies before it takes effect.
    DiesBefore,
    /// Its caller dies after it took effect.
    DiesAfter,
    /// Times out before it takes effect.
    HangsBefore,
    /// Takes effect, but times out.
    HangsAfter,
    /// Takes effect, its answer is lost, and the SDK makes it again.
    RetriedAfter,
    /// Succeeds after this time; of an attempt, its endpoint alone decides how long it takes.
    Slow(Duration),
}

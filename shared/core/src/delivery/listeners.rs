//! Limits how many invocations listen for late responses.
//!
//! An invocation that listens holds a slot of its lane and does nothing else. A first attempt
//! is worth more, so only part of a lane may listen at once, and only while the lane is quiet.
//! Source: Event Grid, "Message delivery and retry": late responses are best effort.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::time::Timestamp;

/// A lane with more visible messages is not quiet: one invocation does not take them all.
pub const QUIET_VISIBLE_MAX: u64 = 10;

/// The invocations of one queue that listen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Listeners(Vec<(Uuid, Timestamp)>);

impl Listeners {
    /// Adds an invocation, unless `most` others listen at `now`. Expired ones do not count.
    #[must_use]
    pub fn join(
        &self,
        listener: Uuid,
        until: Timestamp,
        most: usize,
        now: Timestamp,
    ) -> Option<Self> {
        let others = self.0.iter().filter(|(other, until)| *other != listener && now < *until);
        let mut next: Vec<_> = others.copied().collect();
        if next.len() >= most {
            return None;
        }
        next.push((listener, until));
        Some(Self(next))
    }

    #[must_use]
    pub fn leave(&self, listener: Uuid) -> Self {
        Self(self.0.iter().filter(|(other, _)| *other != listener).copied().collect())
    }

    /// Returns when the last of them stops.
    pub fn until(&self) -> Option<Timestamp> {
        self.0.iter().map(|(_, until)| *until).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn so_many_listen_at_the_same_time() {
        let (one, two, three) = (Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(3));
        let none = Listeners::default();
        assert_eq!(none.join(one, at(9), 0, at(0)), None, "none may");
        let first = none.join(one, at(9), 2, at(0)).expect("room");
        assert_eq!(first.join(one, at(9), 1, at(0)), Some(first.clone()), "a repeated write");
        let both = first.join(two, at(20), 2, at(0)).expect("room");
        assert_eq!(both.join(three, at(20), 2, at(8)), None, "full");
        assert!(both.join(three, at(20), 2, at(9)).is_some(), "the first one's time is over");
        assert!(both.leave(two).join(three, at(20), 2, at(8)).is_some(), "the second has left");
        assert_eq!((both.until(), none.until()), (Some(at(20)), None));
    }
}

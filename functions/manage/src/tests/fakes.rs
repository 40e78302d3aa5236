//! When the tests happen, and what testkit does not have yet.

pub(super) mod dead_letters;

use gridpost_core::time::Timestamp;

pub(super) const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_000);

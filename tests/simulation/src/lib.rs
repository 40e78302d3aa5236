//! Simulates Gridpost: the real handlers on realistic fakes, in virtual time.
//!
//! A [`world::Simulation`] runs a [`scenario::Scenario`]: deliveries are put into the queues of
//! [`gridpost_testkit`], and it hands them to the handlers as [`lambda`] says. They use its tables,
//! buckets and receivers. Every call goes through its faults, which let it fail or kill its caller.
//! What happened is in its history; [`checker`] reads that alone and knows no scenario. The same seed
//! makes the same world, to the millisecond.

pub mod checker;
pub mod deployed;
pub mod lambda;
pub mod lateness;
pub mod log;
pub mod metric_line;
pub mod neighbours;
pub mod scenario;
pub mod wall;
pub mod world;

//! Gridpost in a box: the real handlers over fakes that behave, in virtual time.
//!
//! A [`world::World`] runs a [`scenario::Scenario`]: deliveries are put into the queues of
//! [`queue`], [`lambda`] hands them to the handlers, which use the tables of [`table`], the buckets
//! of [`bucket`] and [`payloads`], and the receivers of [`endpoint`]. Every call goes through [`faults`], which lets
//! it fail or kills its caller. What happened stands in [`history`]; [`checker`] reads that alone
//! and knows no scenario. The same seed makes the same world, to the millisecond.

pub mod bucket;
pub mod checker;
pub mod clock;
pub mod dice;
pub mod endpoint;
pub mod faults;
pub mod history;
pub mod lambda;
pub mod log;
pub mod payloads;
pub mod queue;
pub mod scenario;
pub mod table;
pub mod wall;
pub mod world;

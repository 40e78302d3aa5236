//! Fakes of the pipeline's ports and their faults, written once for the functions' unit tests and
//! the simulation.
//!
//! A fake behaves like the service: queues hide, delay and repeat, tables keep their conditions,
//! receivers answer by script. [`faults`] wraps any of them and lets calls fail or kills their caller.
//! What happened is in [`history`]. [`deployment`] has one of each for a unit test; topics and event
//! subscriptions to put into it are [`fixtures`]. [`server`] answers real requests. What the real ports must do as well is in [`contract`].

pub mod bucket;
pub mod clock;
pub mod cloud_logs;
pub mod consent;
pub mod contract;
pub mod deployment;
pub mod dice;
pub mod endpoint;
pub mod event;
pub mod faults;
pub mod history;
pub mod journal_reader;
pub mod logs;
pub mod meter;
pub mod payloads;
pub mod queue;
pub mod server;
pub mod sigv4;
pub mod stores;
pub mod table;

pub use gridpost_core::fixtures;

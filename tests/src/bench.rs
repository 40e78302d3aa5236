//! The benchmark: the real programs of ingest and dispatch, with a stand-in for AWS and endpoints
//! that answer at once. `docs/benchmarks.md` says what is measured and how to run it.
//!
//! Some mixes measure `gridpost dev` instead: one process, no stand-in.
//!
//! [`sandbox`] plays Lambda's Runtime API, [`mapping`] the event source mapping, [`aws`] SQS,
//! DynamoDB and S3, [`sink`] the endpoints; [`run`] puts them together for a [`mix`]. The driver is
//! one process, the functions are others, and the operating system counts their CPU time.

pub mod aws;
pub mod book;
pub mod driver;
pub mod figures;
pub mod filters;
pub mod limit;
pub mod mapping;
pub mod mix;
pub mod payload;
pub mod process;
pub mod queue;
pub mod report;
pub mod run;
pub mod sandbox;
pub mod sink;
pub mod start;
pub mod table;
pub mod wake;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose users never panic half-way through a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

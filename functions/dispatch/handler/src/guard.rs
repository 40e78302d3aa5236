//! A panic while a group of records is handled must fail that group alone.

use std::{any::Any, panic::AssertUnwindSafe};

use futures::FutureExt;
use gridpost_ports::PortError;

/// Runs the work and turns a panic in it into an error.
///
/// # Errors
///
/// The work panicked.
pub(crate) fn guarded<T>(
    work: impl Future<Output = T>,
) -> impl Future<Output = Result<T, PortError>> {
    // An `async fn` would store the work twice: as its argument, and as the future that it awaits.
    AssertUnwindSafe(work).catch_unwind().map(|done| done.map_err(error_of))
}

fn error_of(panic: Box<dyn Any + Send>) -> PortError {
    let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
    let reason = message.unwrap_or_else(|| "a panic".to_owned());
    tracing::error!(reason, "a record's task panicked: this is a bug in Gridpost");
    PortError::new("settling a record", reason)
}

//! A panic in one record's way must fail that record alone.

use std::{any::Any, panic::AssertUnwindSafe};

use futures::FutureExt;
use gridpost_ports::PortError;

/// Does the work; a panic in it becomes an error.
///
/// # Errors
///
/// It panicked.
pub(crate) fn guarded<T>(
    work: impl Future<Output = T>,
) -> impl Future<Output = Result<T, PortError>> {
    // An `async fn` would hold the work twice: as it came, and as it is awaited.
    AssertUnwindSafe(work).catch_unwind().map(|done| done.map_err(error_of))
}

fn error_of(panic: Box<dyn Any + Send>) -> PortError {
    let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
    let reason = message.unwrap_or_else(|| "a panic".to_owned());
    tracing::error!(reason, "a record's task panicked: a defect of ours");
    PortError::new("settling a record", reason)
}

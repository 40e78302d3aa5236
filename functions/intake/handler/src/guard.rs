//! A panic while a message is handled must fail that message alone.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use futures::FutureExt;
use gridpost_ports::PortError;

/// Does the work and turns a panic in it into an error.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, PortError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(error_of)
}

/// The same for work that waits.
pub(crate) fn guarded<T>(
    work: impl Future<Output = T>,
) -> impl Future<Output = Result<T, PortError>> {
    AssertUnwindSafe(work).catch_unwind().map(|done| done.map_err(error_of))
}

fn error_of(panic: Box<dyn Any + Send>) -> PortError {
    let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
    let reason = message.unwrap_or_else(|| "a panic".to_owned());
    tracing::error!(reason, "taking a message panicked: this is a bug in Gridpost");
    PortError::new("taking a message", reason)
}

//! Turns panics into errors: one in a piece of work must not fail the rest of an invocation.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use futures::FutureExt;

use crate::{PortError, Result};

/// Does the work and turns a panic into an error. `what` reads like "settling a record".
pub fn caught<T>(what: &'static str, work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| error_of(what, panic))
}

/// [`caught`] for a future.
pub fn guarded<T>(
    what: &'static str,
    work: impl Future<Output = T>,
) -> impl Future<Output = Result<T>> {
    // An `async fn` would store the work twice: as its argument, and as the future that it awaits.
    AssertUnwindSafe(work)
        .catch_unwind()
        .map(move |done| done.map_err(|panic| error_of(what, panic)))
}

/// Returns the message of a panic.
pub fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic".to_owned())
}

fn error_of(what: &'static str, panic: Box<dyn Any + Send>) -> PortError {
    let reason = said(&*panic);
    tracing::error!(what, reason, "a panic: this is a bug in Gridpost");
    PortError::new(what, reason)
}

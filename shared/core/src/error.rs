//! Errors as text.

use std::{error::Error, iter};

/// Writes an error with all its sources, at the edge: `sending failed: timed out`.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let errors = iter::successors(Some(error), |error| (*error).source());
    errors.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

//! Errors as text.

use std::fmt::{self, Write as _};

/// Prints an error with all its sources, once, at the edge: `sending failed: timed out`.
pub struct Chain<'a>(pub &'a (dyn std::error::Error + 'a));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            formatter.write_str(": ")?;
            write!(formatter, "{error}")?;
            source = error.source();
        }
        Ok(())
    }
}

/// An error with all its sources, as text.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    // Writing to a string can't fail.
    let _ = write!(text, "{}", Chain(error));
    text
}

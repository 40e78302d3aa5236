//! Values that must never reach a log, an error or a read API.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A string that does not print. It is revealed only where it is stored (tables encrypt at rest)
/// and where [`Secret::expose`] is called, which is easy to search for.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value that must not print.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the value, which must not reach a log line, an error or a read API.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
    }
}

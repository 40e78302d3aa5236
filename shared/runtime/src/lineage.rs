//! The trace of the current invocation, for calls of AWS. A sandbox has one invocation at a time.

use std::sync::RwLock;

static CURRENT: RwLock<Option<String>> = RwLock::new(None);

/// Sets the trace of a new invocation.
pub fn begin(trace: Option<&str>) {
    *CURRENT.write().expect("no panic while held") = trace.map(str::to_owned);
}

/// Returns the trace, if any.
pub fn current() -> Option<String> {
    CURRENT.read().expect("no panic while held").clone()
}

//! The trace of the invocation that runs now, for what calls AWS in it.

use std::sync::RwLock;

/// Of the invocation that runs now: a sandbox has one at a time.
static CURRENT: RwLock<Option<String>> = RwLock::new(None);

/// Notes the trace of the invocation that begins, as Lambda gave it.
pub fn begin(trace: Option<&str>) {
    *CURRENT.write().expect("no panic while held") = trace.map(str::to_owned);
}

/// That trace, if the invocation has one.
pub fn current() -> Option<String> {
    CURRENT.read().expect("no panic while held").clone()
}

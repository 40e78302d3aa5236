//! Checks every line that tests log for secrets.
//!
//! Subscriptions, publishers and events of tests use the words of [`SECRETS`] wherever real ones
//! have something that must not be logged.

use std::{
    cell::RefCell,
    io::{self, Write},
    sync::Once,
};

use serde_json::Value;
use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// Texts that no line may contain: keys in URLs, values of secret delivery attributes, signing
/// secrets as they are and as base64, access keys, and what is in events.
pub const SECRETS: [&str; 7] =
    ["hush", "aHVzaA", "a2V5MQ==", "a2V5Mg==", "Zmlyc3Q", "c2Vjb25k", "confidential"];

thread_local! {
    /// The log of this thread, and so of this test.
    static LOGGED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes for the thread that logs.
struct OwnThread;

impl Write for OwnThread {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        for secret in SECRETS {
            assert!(!text.contains(secret), "a line has {secret} in it: {text}");
        }
        LOGGED.with_borrow_mut(|logged| logged.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks every line of Gridpost's own that is logged from now on, at any level.
///
/// One subscriber serves all tests: with a subscriber per thread, tracing may cache what another
/// thread without one had said.
pub fn watch() {
    static START: Once = Once::new();
    START.call_once(|| {
        let own = Targets::new().with_default(LevelFilter::INFO);
        let own = own.with_target("gridpost", LevelFilter::TRACE);
        let lines = fmt::layer().json().flatten_event(true).with_writer(|| OwnThread);
        tracing_subscriber::registry().with(lines.with_filter(own)).init();
        tracing::callsite::rebuild_interest_cache();
    });
}

/// The lines of this thread since the last call, as in the log: without debug lines.
///
/// # Panics
///
/// A line is not JSON.
pub fn take() -> Vec<Value> {
    let text = String::from_utf8(LOGGED.take()).expect("UTF-8");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON"));
    lines
        .filter(|line: &Value| !matches!(line["level"].as_str(), Some("TRACE" | "DEBUG")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_and_secrets_are_found() {
        watch();
        tracing::info!(a = 1, "a line");
        tracing::debug!("another one");
        let lines = take();
        assert_eq!((lines.len(), &lines[0]["a"]), (1, &Value::from(1)));
        let secret = std::panic::catch_unwind(|| tracing::debug!(url = "https://e/?code=hush"));
        assert!(secret.is_err(), "it is looked for in lines of every level");
    }
}

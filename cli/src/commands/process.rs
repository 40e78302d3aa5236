//! What `dev` and `serve` have in common: the process's limits, its log level, and how it ends.

use std::io::{self, IsTerminal};
use std::pin::pin;
use std::time::Duration;

use gridpost_server::Server;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use gridpost_ops::{failure::Misuse, progress::Progress};

/// The number of open files that the process asks for, if the system allows it.
const OPEN_FILES: u64 = 20_000;

/// How long an end may take without a word.
const ENDS_QUIETLY_WITHIN: Duration = Duration::from_millis(500);

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The signals that end the process cleanly, from the moment on that this is made.
#[derive(Debug)]
pub(super) struct Signals {
    terminated: Signal,
    /// Without a terminal its end is not ours: a process that `nohup` has started outlives it.
    hung_up: Option<Signal>,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        let has_terminal = io::stderr().is_terminal();
        let hung_up = has_terminal.then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self { terminated: signal(SignalKind::terminate())?, hung_up })
    }

    /// Waits for one of them.
    pub(super) async fn any(&mut self) -> anyhow::Result<()> {
        let hung_up = async {
            match &mut self.hung_up {
                Some(hung_up) => hung_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Into::into),
            _ = self.terminated.recv() => Ok(()),
            _ = hung_up => Ok(()),
        }
    }
}

/// Ends a process: waits for requests under way, for `most` at most, unless another signal says that it must not.
pub(super) async fn end(server: Server, mut signals: Signals, most: Duration) {
    let end = tokio::select! {
        is_done = drain(&server, most) => is_done,
        _ = signals.any() => false,
    };
    if !end {
        let word = "! Not all requests were finished: what they delivered may come again";
        Progress::on_stderr().line(word);
    }
    server.stop().await;
}

/// Waits for what is under way, and says so if that takes time.
async fn drain(server: &Server, most: Duration) -> bool {
    let mut drained = pin!(server.drain(most));
    if let Ok(is_done) = timeout(ENDS_QUIETLY_WITHIN, drained.as_mut()).await {
        return is_done;
    }
    let seconds = most.as_secs();
    Progress::on_stderr().line(&format!(
        "· Finishing the requests under way, for {seconds} s at most; Ctrl-C ends at once"
    ));
    drained.await
}

/// Refuses a word of `GRIDPOST_LOG` that is neither a level nor `TARGET=LEVEL`: it would be taken
/// for a part of the program, and a misspelt level would log nothing.
pub(super) fn check_log_filter(filter: &str) -> Result<(), Misuse> {
    let is_level = |word: &str| {
        word.parse::<usize>().is_ok() || LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word))
    };
    let mut words = filter.split(',').filter(|word| !word.is_empty());
    match words.find(|word| !word.contains('=') && !is_level(word)) {
        None => Ok(()),
        Some(word) => Err(Misuse(format!(
            "GRIDPOST_LOG: `{word}` is no level: write {}, or TARGET=LEVEL, with commas and without spaces \
             between several (warn,gridpost_dispatch=debug)",
            LEVELS.join(", ")
        ))),
    }
}

/// A burst to a slow endpoint has thousands of connections at once; usual limits are 1,024 and less. Returns how
/// many are allowed.
pub(super) fn allow_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    if limit.current.is_some_and(|now| now < most) {
        // A system that refuses it leaves things as they are.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(OPEN_FILES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_refused_with_those_that_there_are() {
        for filter in ["", "debug", "INFO", "3", "warn,gridpost_dispatch=debug", "a=off,b=1"] {
            assert!(check_log_filter(filter).is_ok(), "{filter}");
        }
        for (filter, word) in [
            ("debgu", "`debgu`"),
            ("warn,gridpost_dispatch", "`gridpost_dispatch`"),
            ("info, debug", "` debug`"),
        ] {
            let refused = check_log_filter(filter).expect_err(filter).to_string();
            assert!(refused.contains(word), "{refused}");
            assert!(refused.contains("off, error, warn, info, debug, trace"), "{refused}");
        }
    }
}

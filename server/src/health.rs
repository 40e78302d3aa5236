//! Whether a process works, for those that restart it or send it requests.

use std::time::Duration;

use gridpost_embedded::Embedded;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

/// The process runs: one whose tasks have ended ends itself.
pub(crate) const ALIVE: &str = "/livez";

/// It also takes publishes.
pub(crate) const READY: &str = "/readyz";

pub(crate) const METRICS: &str = "/metrics";

/// How long a write to the disk may take.
const COMMITS_WITHIN: Duration = Duration::from_secs(5);

/// How long an answer is good for: who asks often must not write often.
const KNOWN_FOR: Duration = Duration::from_secs(1);

/// The last answer.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Result<(), String>)>>);

/// Fails unless publishes are taken: the disk has room, and a write is committed in time.
pub(crate) async fn ready(store: &Embedded, readiness: &Readiness) -> Result<(), String> {
    // Others wait for the answer that one of them gets.
    let mut known = readiness.0.lock().await;
    let is_new = known.as_ref().is_some_and(|(at, _)| at.elapsed() < KNOWN_FOR);
    if !is_new {
        *known = Some((Instant::now(), looked_at(store).await));
    }
    known.as_ref().map_or(Ok(()), |(_, found)| found.clone())
}

async fn looked_at(store: &Embedded) -> Result<(), String> {
    store.may_publish().map_err(|no_room| no_room.to_string())?;
    match timeout(COMMITS_WITHIN, store.commit_nothing()).await {
        Ok(written) => written.map_err(|error| error.to_string()),
        Err(_) => Err(format!("a write takes longer than {} s", COMMITS_WITHIN.as_secs())),
    }
}

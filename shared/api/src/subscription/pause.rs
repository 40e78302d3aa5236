//! Pauses in documents.

use gridpost_core::subscription::pause::Pause;
use serde_json::{Value, json};

use crate::document::{Object, Problems};

/// The members of documents about a pause.
pub fn write(pause: &Pause) -> Value {
    json!({
        "since": pause.since.to_iso_8601(),
        "until": pause.until.to_iso_8601(),
        "by": pause.by,
        "timeToLiveRuns": pause.time_to_live_runs,
    })
}

/// Reads what a pause must say: whether time-to-live runs meanwhile.
pub fn read(document: &Value) -> Result<bool, Problems> {
    const RUNS: &str = "timeToLiveRuns";
    let mut problems = Problems::default();
    let runs = Object::root(document, &mut problems).map(|mut root| {
        let what = "true if time-to-live goes on during the pause, false if it stands still";
        root.required(RUNS, what, &mut problems);
        let runs = root.flag(RUNS, &mut problems);
        root.finish(&mut problems);
        runs
    });
    problems.or(runs)
}

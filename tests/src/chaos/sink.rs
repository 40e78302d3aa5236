//! Every endpoint of a run: counts how often each event arrived, and answers by rules that depend
//! only on the event, so that each event's end is known in advance.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bench::http::{Reply, Request, Service};

/// Answers 200.
pub const STEADY: &str = "steady";
/// Answers 500 to the first attempts of some events.
pub const FLAKY: &str = "flaky";
/// Always answers 400 to some events, which become dead letters.
pub const REFUSING: &str = "refusing";
/// Answers 200, and takes ten events at once.
pub const BATCHED: &str = "batched";
/// Answers 200, but to the first attempts of a few events only after dispatch has given up on them.
pub const LATE: &str = "late";

/// All of them.
pub const ALL: [&str; 5] = [STEADY, FLAKY, REFUSING, BATCHED, LATE];

/// How long a late answer takes: dispatch waits for 30 s, and still accepts a success a while
/// later.
const LATE_AFTER: Duration = Duration::from_secs(33);

/// What has arrived: how often each event of each endpoint was answered 200.
pub type Arrivals = BTreeMap<(String, String), u64>;

#[derive(Debug, Default)]
struct Seen {
    attempts: BTreeMap<(String, String), u32>,
    delivered: Arrivals,
}

/// The endpoints.
#[derive(Debug, Default)]
pub struct Sink {
    seen: Mutex<Seen>,
}

impl Sink {
    /// What has arrived so far.
    pub fn arrivals(&self) -> Arrivals {
        self.seen.lock().expect("no panic while held").delivered.clone()
    }

    /// The status for these events, and whether the answer is late.
    fn take(&self, endpoint: &str, events: &[Value]) -> (u16, bool) {
        let ids = events.iter().filter_map(|event| event["id"].as_str());
        let keys: Vec<_> = ids.map(|id| (endpoint.to_owned(), id.to_owned())).collect();
        let mut seen = self.seen.lock().expect("no panic while held");
        let (mut status, mut late) = (200, false);
        for key in &keys {
            let attempts = seen.attempts.entry(key.clone()).or_default();
            *attempts += 1;
            status = status.max(answer(endpoint, &key.1, *attempts));
            late |= is_late(endpoint, &key.1, *attempts);
        }
        if status == 200 {
            for key in keys {
                *seen.delivered.entry(key).or_default() += 1;
            }
        }
        (status, late)
    }
}

/// Whether the answer to an event's attempt, counted from 1, is late.
fn is_late(endpoint: &str, id: &str, attempt: u32) -> bool {
    endpoint == LATE && attempt == 1 && number(id) % 50 == 5
}

/// The status of an event's attempt, counted from 1.
fn answer(endpoint: &str, id: &str, attempt: u32) -> u16 {
    let fails = match number(id) % 7 {
        0 => 1,
        1 => 2,
        _ => 0,
    };
    match endpoint {
        REFUSING if is_refused(id) => 400,
        FLAKY if attempt <= fails => 500,
        _ => 200,
    }
}

/// Whether [`REFUSING`] refuses the event.
pub fn is_refused(id: &str) -> bool {
    number(id) % 10 == 3
}

fn number(id: &str) -> u32 {
    id.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

impl Service for Sink {
    async fn answer(&self, request: Request) -> Option<Reply> {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let code = body.pointer("/0/data/validationCode");
        if let Some(code) = code {
            let proof = json!({ "validationResponse": code }).to_string();
            let headers = vec![("content-type", "application/json".to_owned())];
            return Some(Reply { headers, ..Reply::new(200, proof) });
        }
        let events = body.as_array().map(Vec::as_slice).unwrap_or_default();
        let endpoint = request.path.trim_start_matches('/').split('?').next().unwrap_or_default();
        let (status, late) = self.take(endpoint, events);
        if late {
            sleep(LATE_AFTER).await;
        }
        Some(Reply::new(status, ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_depend_on_the_event_alone() {
        for (endpoint, id, attempt, want) in [
            (STEADY, "1-7", 1, 200),
            (FLAKY, "1-7", 1, 500),
            (FLAKY, "1-7", 2, 200),
            (FLAKY, "1-8", 2, 500),
            (FLAKY, "1-8", 3, 200),
            (FLAKY, "1-9", 1, 200),
            (REFUSING, "1-13", 9, 400),
            (REFUSING, "1-14", 1, 200),
            (BATCHED, "1-13", 1, 200),
        ] {
            assert_eq!(answer(endpoint, id, attempt), want, "{endpoint} {id} {attempt}");
        }
        for (endpoint, id, attempt, want) in [
            (LATE, "1-5", 1, true),
            (LATE, "1-5", 2, false),
            (LATE, "1-6", 1, false),
            (STEADY, "1-5", 1, false),
        ] {
            assert_eq!(is_late(endpoint, id, attempt), want, "{endpoint} {id} {attempt}");
        }
    }

    #[test]
    fn what_was_not_answered_200_has_not_arrived() {
        let sink = Sink::default();
        let event = |id: &str| json!({ "id": id });
        assert_eq!(sink.take(FLAKY, &[event("1-7")]), (500, false));
        assert!(sink.arrivals().is_empty());
        assert_eq!(sink.take(FLAKY, &[event("1-7")]), (200, false));
        assert_eq!(sink.arrivals().into_values().collect::<Vec<_>>(), [1]);
    }
}

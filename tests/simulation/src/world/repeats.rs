//! Publishers with a key: they repeat one publish, unchanged, until they have heard 200, and some
//! of them after that, or while it is still under way.

use std::time::Duration;

use gridpost_core::{gateway::Request, publish::idempotency::LEASE};
use gridpost_ports::Clock;
use http::{HeaderValue, Response};

use super::Simulation;
use crate::scenario::Publish;

/// How often an answer is lost on its way.
const CUT: f64 = 0.3;

/// How often a publisher repeats while the first request is under way.
const IMPATIENT: f64 = 0.3;

/// How often it repeats what was answered 200.
const REPEATED: f64 = 0.5;

impl Simulation {
    /// Publishes as an SDK with a key does.
    pub(super) async fn publish_keyed(&self, number: usize, publish: &Publish) {
        let ids: Vec<_> =
            (0..publish.events.len()).map(|event| format!("e{number}-{event}-0")).collect();
        let request = self.keyed(number, publish, &ids);
        self.history.lock().expect("no panic while held").keyed.begin(number, &publish.to, &ids);
        let mut is_confirmed = false;
        loop {
            let began_at = self.clock.now();
            let wait = match self.answer(number, &request).await {
                None => self.dice.millis(500..5_000),
                Some(response) if response.status().as_u16() == 200 => {
                    if !is_confirmed {
                        self.confirm(publish, &ids, began_at);
                    }
                    is_confirmed = true;
                    if !self.dice.chance(REPEATED) {
                        return;
                    }
                    // On the clock, like the lifetime of the record.
                    self.clock.pace().to_real(self.dice.millis(1..120_000))
                }
                Some(response) if response.status().as_u16() == 503 => {
                    let seconds =
                        response.headers().get("retry-after").and_then(|it| it.to_str().ok());
                    Duration::from_secs(seconds.and_then(|it| it.parse().ok()).unwrap_or(1))
                }
                Some(response) => {
                    let (status, body) = (response.status(), response.body());
                    let what = format!("a repeated publish was refused with {status}: {body}");
                    return self.violation(&what);
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Returns what reaches the publisher of the answers to one or two requests.
    async fn answer(&self, number: usize, request: &Request) -> Option<Response<String>> {
        let is_impatient = self.dice.chance(IMPATIENT);
        let second = async {
            if !is_impatient {
                return None;
            }
            // On a fast clock, the lease may end during the request.
            let longest_ms = if self.scenario.speed == 1 { 1_500 } else { 150 };
            tokio::time::sleep(self.dice.millis(0..longest_ms)).await;
            self.ask_noted(number, request).await
        };
        let (first, second) = tokio::join!(self.ask_noted(number, request), second);
        let answers = [first, second].map(|answer| answer.filter(|_| !self.dice.chance(CUT)));
        let [first, second] = answers;
        match (first, second) {
            (Some(one), Some(other))
                if other.status().as_u16() == 200 && one.status().as_u16() != 200 =>
            {
                Some(other)
            }
            (one, other) => one.or(other),
        }
    }

    /// Asks, and notes what may make a repetition do the work again: a copy that died, a call that
    /// failed, a lease that has passed.
    async fn ask_noted(&self, number: usize, request: &Request) -> Option<Response<String>> {
        let faults = || self.history.lock().expect("no panic while held").faults;
        let (before, began_at) = (faults(), self.clock.now());
        let answer = self.ask_ingest(request).await;
        let is_slow = self.clock.pace().to_real(self.clock.now().since(began_at)) >= LEASE;
        let is_troubled = answer.is_none() || is_slow || faults() > before;
        let mut history = self.history.lock().expect("no panic while held");
        history.keyed.note_try(number, is_troubled);
        answer
    }

    fn keyed(&self, number: usize, publish: &Publish, ids: &[String]) -> Request {
        let mut request = self.request(publish, &self.events(publish, ids));
        let header =
            if number.is_multiple_of(2) { "idempotency-key" } else { "x-ms-client-request-id" };
        let key = HeaderValue::from_str(&format!("publish-{number}")).expect("a value");
        request.headers.insert(header, key);
        request
    }
}

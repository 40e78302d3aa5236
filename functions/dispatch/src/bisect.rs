//! Splits a batch that its endpoint refused, until its bad events stand alone. The core's
//! [`bisect`](gridpost_core::delivery::bisect) decides what is sent next.
//!
//! The parts are sent one after the other within this invocation, so that the delivery's message
//! does not change and its state is written once. An accepted part shows that the endpoint works,
//! and that the parts before it were refused for their events. A batch counts at most one failure
//! in the endpoint's health.

use std::time::Duration;

use gridpost_core::{
    delivery::{
        bisect::{AnsweredRequest, Answers, Bisection, Group, is_about_events},
        event_set::EventSet,
        rate::RateDecision,
        resource_request::EventIndex,
        state::PartRecord,
    },
    error::chain,
    retry::{health::SuccessfulAttempt, outcome::RESPONSE_WAIT},
    subscription::Endpoint,
    time::Timestamp,
};
use gridpost_ports::authentication::AUTHENTICATED_WITHIN;

use crate::{
    Context,
    attempt::{BESIDES_RESPONSE, send},
    count, entry, health,
    loaded::LoadedDelivery,
    rate,
    response::{AttemptResult, Parts, Response, Try},
    slow_endpoint::Lease,
};

/// How long after the first part another one may begin: other deliveries wait for this invocation,
/// and the event subscription may have changed.
const BISECTS_FOR: Duration = Duration::from_secs(10);

/// The time for first attempts, which share invocations with all other endpoints.
const FIRST_BISECTS_FOR: Duration = Duration::from_secs(2);

/// The usual time from a response until its endpoint's health is written.
const NOTED_WITHIN: Duration = Duration::from_secs(3);

/// The fewest parts sent, even after that time, so that slow endpoints make progress.
const PARTS_LEAST: u32 = 2;

/// The deliveries of a refused request.
pub struct Batch<'b> {
    pub context: &'b Context,
    pub deliveries: &'b [LoadedDelivery],
    pub lease: Option<&'b Lease<'b>>,
    /// When its lease or its claim of the probe expires.
    pub held_until: Option<Timestamp>,
    pub deadline: Timestamp,
}

/// Begins to split a request, if its event subscription asks for that and its answer calls for it.
pub fn begin<'h>(deliveries: &'h [LoadedDelivery], response: &Response) -> Option<Bisection<'h>> {
    let first = deliveries.first()?;
    let subscription = first.subscription();
    if !subscription.batch_failure.bisects {
        return None;
    }
    let (Endpoint::WebHook { .. }, Some(AttemptResult::Whole(answer))) =
        (&subscription.endpoint, response.results.first())
    else {
        return None;
    };
    let places = deliveries.iter().enumerate().flat_map(|(delivery, loaded)| {
        loaded.delivery.left().map(move |(event, _)| EventIndex { delivery, event })
    });
    let past: Vec<_> = deliveries.iter().map(|loaded| loaded.past.as_slice()).collect();
    let asked =
        AnsweredRequest { answer: *answer, made: first.delivery.attempts.made, past: &past };
    Bisection::begin(first.rules(), places.collect(), asked)
}

struct Run {
    /// The requests that carried some of each delivery's events.
    tries: Vec<Vec<Try>>,
    /// Failed requests since the last one that was accepted.
    failed: Vec<Try>,
    response_text: Option<String>,
    ended_at: Timestamp,
}

impl Batch<'_> {
    /// Sends the parts of a refused request. Returns the results, and until when the endpoint waits.
    pub async fn bisect(
        &self,
        mut bisection: Bisection<'_>,
        whole: Response,
    ) -> (Response, Option<Timestamp>) {
        let (began_at, ended_at) = whole.times;
        let answer = whole.results.iter().flat_map(AttemptResult::answers).next();
        let first = answer.map(|answer| Try { answer, times: whole.times, part: PartRecord(0, 0) });
        let tried = |loaded: &LoadedDelivery| {
            let part = PartRecord(
                loaded.delivery.attempts.made + 1,
                count_of(loaded.delivery.event_count()),
            );
            first.map(|first| Try { part, ..first }).into_iter().collect()
        };
        let mut run = Run {
            tries: self.deliveries.iter().map(tried).collect(),
            failed: first.into_iter().collect(),
            response_text: whole.response_text,
            ended_at,
        };
        let parts_began_at = run.ended_at;
        let is_first = self.deliveries.iter().any(LoadedDelivery::is_first);
        let longest = if is_first { FIRST_BISECTS_FOR } else { BISECTS_FOR };
        let mut parts = 0;
        loop {
            // The time-to-live of one delivery may end before the others'.
            let now = self.context.clock.now();
            bisection.leave_out(|delivery| now >= self.deliveries[delivery].expires_at());
            let Some(group) = bisection.next_part() else { break };
            let passed = self.context.clock.now().since(parts_began_at);
            let is_late = self.context.clock.pace().to_real(passed) >= longest;
            if (is_late && parts >= PARTS_LEAST) || !self.may_go_on().await {
                break;
            }
            parts += 1;
            let Some((answers, began_at)) = self.part(&mut run, &bisection, &group).await else {
                break;
            };
            bisection.note(group, &answers, began_at);
        }
        let mut not_before = None;
        // The endpoint's own failure says more about it than a refusal of events.
        let own = run.failed.iter().rev().find(|made| !is_about_events(made.answer.outcome));
        if let Some(Try { answer, times, .. }) = own.or(run.failed.first()) {
            not_before =
                health::note_failure(self.context, &self.deliveries[0], *answer, *times).await;
        }
        let met = bisection.into_outcomes(self.deliveries.len()).into_iter();
        let parts = met.zip(run.tries).map(|(met, tries)| Parts { met, tries });
        let response = Response {
            times: (began_at, run.ended_at),
            results: parts.map(|parts| AttemptResult::Parts(Box::new(parts))).collect(),
            response_text: run.response_text,
        };
        (response, not_before)
    }

    /// Whether there is time for another part, and the endpoint's rate allows it.
    async fn may_go_on(&self) -> bool {
        let (context, subscription) = (self.context, self.deliveries[0].subscription());
        let is_authenticated = subscription.authentication.is_some();
        let token = if is_authenticated { AUTHENTICATED_WITHIN } else { Duration::ZERO };
        if context.clock.left(self.deadline) < token + RESPONSE_WAIT + BESIDES_RESPONSE {
            return false;
        }
        let is_left = |until: Timestamp| context.clock.left(until) >= RESPONSE_WAIT + NOTED_WITHIN;
        if !self.held_until.is_none_or(is_left) {
            return false;
        }
        match rate::turn(context, subscription, None).await {
            Ok(RateDecision::Go) => true,
            Ok(RateDecision::Wait { .. }) => false,
            Err(error) => {
                let (key, error) = (&subscription.key, chain(&error));
                tracing::warn!(subscription = %key, %error, "a batch is split later");
                false
            }
        }
    }

    /// Sends one part. Returns the answers, and when its request began; `None` if it was not made.
    async fn part(
        &self,
        run: &mut Run,
        bisection: &Bisection<'_>,
        group: &Group,
    ) -> Option<(Answers, Timestamp)> {
        let context = self.context;
        let mut places: Vec<EventSet> = vec![EventSet::default(); self.deliveries.len()];
        bisection.events(group).iter().for_each(|at| places[at.delivery].add(at.event));
        let part = |(loaded, events): (&LoadedDelivery, &EventSet)| {
            let mut part =
                LoadedDelivery { delivery: loaded.delivery.only(events), ..loaded.clone() };
            part.delivery.attempts.made += group.requests;
            part
        };
        let carried = |(_, events): &(&LoadedDelivery, &EventSet)| !events.is_empty();
        let parts: Vec<_> = self.deliveries.iter().zip(&places).filter(carried).map(part).collect();
        let (response, _) = send(context, &parts, self.lease).await?;
        let mut all = response.results.iter().flat_map(AttemptResult::answers);
        let accepted = all.clone().find(|answer| answer.outcome.is_accepted());
        let Some(answer) = accepted.or_else(|| all.next()) else {
            return Some((Answers::Each(Vec::new()), response.times.0));
        };
        let number = parts.first().map_or(0, |part| part.delivery.attempts.made) + 1;
        let made = Try { answer, times: response.times, part: PartRecord(number, 0) };
        run.ended_at = response.times.1;
        let carried = |(_, places): &(&mut Vec<Try>, &EventSet)| !places.is_empty();
        for (tries, places) in run.tries.iter_mut().zip(&places).filter(carried) {
            tries.push(Try { part: PartRecord(number, count_of(places.len())), ..made });
        }
        entry::log_part(&parts, made);
        let is_whole = |result: &AttemptResult| matches!(result, AttemptResult::Whole(_));
        let answers = match response.results.iter().all(is_whole) {
            true => Answers::Whole(answer),
            false => {
                Answers::Each(response.results.iter().flat_map(AttemptResult::answers).collect())
            }
        };
        self.note(run, made, response.response_text, accepted.is_some()).await;
        Some((answers, made.times.0))
    }

    async fn note(
        &self,
        run: &mut Run,
        made: Try,
        response_text: Option<String>,
        is_accepted: bool,
    ) {
        let (context, subscription) = (self.context, self.deliveries[0].subscription());
        if response_text.is_some() {
            run.response_text = response_text;
        }
        if !is_accepted {
            count::failure(context, &self.deliveries[0], made.answer);
            run.failed.push(made);
            return;
        }
        run.failed.clear();
        let (began_at, ended_at) = made.times;
        let asked_for = self.deliveries.iter().any(|loaded| loaded.resend.is_some());
        let success = SuccessfulAttempt { began_at, ended_at, asked_for };
        health::note_success(context, subscription, success).await;
    }
}

fn count_of(events: usize) -> u32 {
    u32::try_from(events).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;

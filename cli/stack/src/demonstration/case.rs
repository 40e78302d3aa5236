//! The demonstration's cases as data, and what each must show. No IO.

use std::collections::HashMap;
use std::time::Duration;

use gridpost_api::subscription::{
    Bucket, DeadLetterDestination, Destination, EventSubscriptionInput, EventSubscriptionSettings,
    Filter, WebHook,
};
use gridpost_core::{event::DeliverySchema, secret::Secret};
use tokio::time::Instant;

use gridpost_ops::receiver::Arrival;

/// A case: an event subscription, an endpoint's behaviour, and an event.
#[derive(Debug, PartialEq, Eq)]
pub struct Case {
    /// Its subscription, path and event type contain it.
    pub name: &'static str,
    pub title: &'static str,
    pub topic: &'static str,
    /// The input and delivery schema.
    pub schema: DeliverySchema,
    pub answers: &'static str,
    /// Seconds after the first attempt (Event Grid's schedule).
    pub due_s: &'static [u64],
}

/// All cases. The last one is dead-lettered.
pub const CASES: [Case; 4] = [
    Case {
        name: "delivered",
        title: "An EventGridEvent is delivered",
        topic: "demo",
        schema: DeliverySchema::EventGridSchema,
        answers: "200",
        due_s: &[0],
    },
    Case {
        name: "cloud-event",
        title: "A CloudEvent is delivered",
        topic: "demo-cloud",
        schema: DeliverySchema::CloudEventSchemaV1_0,
        answers: "200",
        due_s: &[0],
    },
    Case {
        name: "retried",
        title: "An endpoint that answers 500 twice gets its event on the third attempt",
        topic: "demo",
        schema: DeliverySchema::EventGridSchema,
        answers: "500,500,200",
        due_s: &[0, 10, 30],
    },
    Case {
        name: "dead-lettered",
        title: "An endpoint that answers 400 is not asked again; the event becomes a dead letter",
        topic: "demo",
        schema: DeliverySchema::EventGridSchema,
        answers: "400",
        due_s: &[0],
    },
];

/// Rounding and clocks may make an attempt look this early.
const EARLY: Duration = Duration::from_millis(200);
/// How late an attempt may be, beyond a tenth of the wait (the schedule's jitter).
const LATE: Duration = Duration::from_secs(2);

/// An attempt as the endpoint saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub at: Instant,
    pub delivery_count: Option<u32>,
    pub status: u16,
}

/// The attempts seen so far, by case.
#[derive(Clone, Debug, Default)]
pub struct Seen(HashMap<&'static str, Vec<Attempt>>);

impl Seen {
    /// Adds an arrival.
    pub fn add(&mut self, case: &'static Case, arrival: &Arrival) {
        let (at, delivery_count, status) = (arrival.at, arrival.delivery_count(), arrival.status);
        self.0.entry(case.name).or_default().push(Attempt { at, delivery_count, status });
    }

    /// Returns the attempts of a case.
    pub fn of(&self, case: &Case) -> &[Attempt] {
        self.0.get(case.name).map_or(&[], Vec::as_slice)
    }

    /// Whether every case has all its attempts.
    pub fn is_complete(&self) -> bool {
        CASES.iter().all(|case| self.of(case).len() >= case.attempts())
    }
}

impl Case {
    /// Returns the number of attempts.
    pub fn attempts(&self) -> usize {
        self.due_s.len()
    }

    /// Returns its path at the built-in endpoint.
    pub fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// Returns the name of its event subscription.
    pub fn subscription_name(&self) -> String {
        format!("demonstration-{}", self.name)
    }

    /// Returns the event type that its subscription filters for.
    pub fn event_type(&self) -> String {
        format!("Gridpost.Demonstration.{}", self.name)
    }

    /// Returns the document of its event subscription.
    pub fn subscription(&self, url: &str, bucket: &str, prefix: &str) -> EventSubscriptionInput {
        let included_event_types = Some(vec![self.event_type()]);
        let bucket =
            Bucket { bucket_name: Some(bucket.to_owned()), prefix: Some(prefix.to_owned()) };
        EventSubscriptionInput {
            properties: Some(EventSubscriptionSettings {
                destination: Some(webhook(url)),
                filter: Some(Filter { included_event_types, ..Filter::default() }),
                event_delivery_schema: Some(self.schema),
                dead_letter_destination: Some(DeadLetterDestination::S3Bucket(bucket)),
                ..Default::default()
            }),
        }
    }

    /// Describes the attempts, a line for each. Fails if they are too few, too many, miscounted or early. Late
    /// ones are only noted: the machine may be busy. Times are by a clock that runs `speed` times as fast.
    pub fn judge(&self, attempts: &[Attempt], speed: u32) -> Result<Vec<String>, String> {
        let (seen, want) = (attempts.len(), self.attempts());
        let Some(first) = attempts.first() else {
            return Err("no attempt arrived".to_owned());
        };
        if seen != want {
            return Err(format!("{seen} attempts arrived instead of {want}"));
        }
        let judged =
            attempts.iter().zip(self.due_s).enumerate().map(|(index, (attempt, due_s))| {
                let offset = attempt.at.saturating_duration_since(first.at);
                judge_attempt(index, attempt, offset, (*due_s, speed))
            });
        judged.collect()
    }
}

/// Returns a webhook as a destination.
pub(crate) fn webhook(url: &str) -> Destination {
    let endpoint_url = Some(Secret::new(url));
    Destination::WebHook(Box::new(WebHook { endpoint_url, ..WebHook::default() }))
}

fn judge_attempt(
    index: usize,
    attempt: &Attempt,
    offset: Duration,
    (due_s, speed): (u64, u32),
) -> Result<String, String> {
    let number = index + 1;
    if attempt.delivery_count.map(|count| count as usize) != Some(index) {
        let count = attempt.delivery_count;
        return Err(format!(
            "attempt {number} came with aeg-delivery-count {count:?} instead of {index}"
        ));
    }
    let due = Duration::from_secs(due_s);
    // The machine's part is the same at any speed.
    let late = (due + due.mul_f64(0.1)) / speed + LATE;
    let offset_s = (offset * speed).as_secs_f64();
    if offset + EARLY < due / speed {
        return Err(format!(
            "attempt {number} came {offset_s:.1} s after the first, before {due_s} s"
        ));
    }
    let remark = if offset > late { " (late: this machine is busy)" } else { "" };
    Ok(format!(
        "attempt {number} at {offset_s:.1} s (due at {due_s} s): answered {}{remark}",
        attempt.status
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn judge_table() {
        let start = Instant::now();
        let retried = &CASES[2];
        // (row, attempts as (ms after the first, delivery count), what the last line says)
        type Row<'a> = (&'a str, &'a [(u64, Option<u32>)], Result<&'a str, &'a str>);
        let table: [Row<'_>; 7] = [
            (
                "on schedule",
                &[(0, Some(0)), (10_100, Some(1)), (31_000, Some(2))],
                Ok("attempt 3 at 31.0 s (due at 30 s): answered 500"),
            ),
            (
                "a little early by the clock",
                &[(0, Some(0)), (9_900, Some(1)), (30_000, Some(2))],
                Ok("attempt 3 at 30.0 s (due at 30 s): answered 500"),
            ),
            (
                "late",
                &[(0, Some(0)), (10_000, Some(1)), (36_000, Some(2))],
                Ok("attempt 3 at 36.0 s (due at 30 s): answered 500 (late: this machine is busy)"),
            ),
            (
                "early",
                &[(0, Some(0)), (5_000, Some(1)), (30_000, Some(2))],
                Err("attempt 2 came 5.0 s after the first, before 10 s"),
            ),
            (
                "counted wrongly",
                &[(0, Some(0)), (10_000, Some(0)), (30_000, Some(2))],
                Err("attempt 2 came with aeg-delivery-count Some(0) instead of 1"),
            ),
            (
                "one missing",
                &[(0, Some(0)), (10_000, Some(1))],
                Err("2 attempts arrived instead of 3"),
            ),
            ("none", &[], Err("no attempt arrived")),
        ];
        for (row, attempts, want) in table {
            let attempt = |(at_ms, delivery_count): &(u64, Option<u32>)| Attempt {
                at: start + Duration::from_millis(*at_ms),
                delivery_count: *delivery_count,
                status: 500,
            };
            let attempts: Vec<Attempt> = attempts.iter().map(attempt).collect();
            let judged = retried.judge(&attempts, 1);
            let last = judged.as_ref().map(|lines| lines.last().expect("a line").as_str());
            assert_eq!(last.map_err(String::as_str), want, "{row}");
        }
    }

    #[tokio::test]
    async fn a_fast_clock_is_judged_by_its_own_time() {
        let start = Instant::now();
        let attempt = |at_ms, count| Attempt {
            at: start + Duration::from_millis(at_ms),
            delivery_count: Some(count),
            status: 500,
        };
        let attempts = [attempt(0, 0), attempt(1_000, 1), attempt(3_000, 2)];
        let judged = CASES[2].judge(&attempts, 10).expect("on schedule");
        assert_eq!(judged[2], "attempt 3 at 30.0 s (due at 30 s): answered 500");
        assert!(CASES[2].judge(&attempts, 1).is_err());
    }

    #[test]
    fn names_are_within_the_apis_limits() {
        for case in &CASES {
            assert!((3..=64).contains(&case.subscription_name().len()), "{}", case.name);
            assert!(
                case.answers.parse::<gridpost_ops::receiver::Answers>().is_ok(),
                "{}",
                case.name
            );
        }
    }
}

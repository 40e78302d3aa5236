//! How long things took, by stage.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

/// A stage of an event's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Publish,
    /// From the beginning of a publish to the request at the webhook.
    Webhook,
    /// From the beginning of a publish to the message, received here by long polling.
    Queue,
    /// From when an attempt was due to the request at the webhook.
    Retry,
    /// From the refusal to the dead letter that can be read.
    DeadLetter,
    /// From when a redrive was asked for to the request at the webhook.
    Redrive,
}

impl Stage {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Webhook => "publishToWebhook",
            Self::Queue => "publishToQueue",
            Self::Retry => "dueToAttempt",
            Self::DeadLetter => "refusalToDeadLetter",
            Self::Redrive => "redriveToWebhook",
        }
    }

    /// What it is in words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Publish => "publish to its answer",
            Self::Webhook => "publish to the webhook",
            Self::Queue => "publish to the queue's message, polled",
            Self::Retry => "due to the attempt, its jitter included",
            Self::DeadLetter => "refusal to the dead letter",
            Self::Redrive => "redrive to the webhook",
        }
    }
}

/// The percentiles that are shown.
pub const PERCENTS: [usize; 3] = [50, 95, 99];

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Figures(BTreeMap<Stage, Vec<Duration>>);

impl Figures {
    /// Adds a measurement.
    pub fn add(&mut self, stage: Stage, took: Duration) {
        self.0.entry(stage).or_default().push(took);
    }

    /// Each stage that was measured, with its percentiles and how often it was.
    pub fn stages(&self) -> Vec<(Stage, [Duration; 3], usize)> {
        let of = |(stage, all): (&Stage, &Vec<Duration>)| {
            let mut sorted = all.clone();
            sorted.sort_unstable();
            (*stage, PERCENTS.map(|percent| percentile(&sorted, percent)), sorted.len())
        };
        self.0.iter().map(of).collect()
    }

    /// They as JSON, in milliseconds.
    pub fn document(&self) -> Value {
        let of = |(stage, percentiles, count): (Stage, [Duration; 3], usize)| {
            let [p50, p95, p99] = percentiles.map(|took| took.as_secs_f64() * 1_000.0);
            json!({"stage": stage.name(), "p50Ms": p50, "p95Ms": p95, "p99Ms": p99, "count": count})
        };
        self.stages().into_iter().map(of).collect()
    }
}

/// The smallest measurement that so many percent are not above; zero without any.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// A time for people.
pub fn told(took: Duration) -> String {
    match took.as_secs_f64() {
        seconds if seconds >= 10.0 => format!("{seconds:.0} s"),
        seconds if seconds >= 1.0 => format!("{seconds:.1} s"),
        seconds if seconds >= 0.01 => format!("{:.0} ms", seconds * 1_000.0),
        seconds => format!("{:.1} ms", seconds * 1_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measurements() {
        let ms = |range: std::ops::RangeInclusive<u64>| -> Vec<Duration> {
            range.map(Duration::from_millis).collect()
        };
        // (measurements, p50, p95, p99)
        for (sorted, want) in [
            (ms(1..=100), [50, 95, 99]),
            (ms(1..=10), [5, 10, 10]),
            (ms(7..=7), [7, 7, 7]),
            (vec![], [0, 0, 0]),
        ] {
            let got = PERCENTS.map(|percent| percentile(&sorted, percent));
            assert_eq!(got, want.map(Duration::from_millis), "{} of them", sorted.len());
        }
    }

    #[test]
    fn stages_come_in_order_and_only_if_measured() {
        let mut figures = Figures::default();
        figures.add(Stage::Queue, Duration::from_millis(30));
        figures.add(Stage::Publish, Duration::from_millis(20));
        figures.add(Stage::Publish, Duration::from_millis(10));
        let want = json!([
            {"stage": "publish", "p50Ms": 10.0, "p95Ms": 20.0, "p99Ms": 20.0, "count": 2},
            {"stage": "publishToQueue", "p50Ms": 30.0, "p95Ms": 30.0, "p99Ms": 30.0, "count": 1},
        ]);
        assert_eq!(figures.document(), want);
    }

    #[test]
    fn times_are_told_with_what_counts_of_them() {
        for (ms, want) in [
            (0.5, "0.5 ms"),
            (12.0, "12 ms"),
            (999.0, "999 ms"),
            (1_500.0, "1.5 s"),
            (61_000.0, "61 s"),
        ] {
            assert_eq!(told(Duration::from_secs_f64(ms / 1_000.0)), want);
        }
    }
}

//! The report of a run.

use std::{collections::BTreeMap, fmt::Write, iter, time::Duration};

use serde::Serialize;

use super::{
    bill::Bill,
    step::{Environment, Platform, StepResult, Verdict},
};
use crate::output::columns;

/// A run.
#[derive(Debug)]
pub struct Report {
    pub environment: Environment,
    /// The probe topic, which is gone by now.
    pub topic: String,
    pub results: Vec<StepResult>,
    pub latencies: Latencies,
    pub bill: Bill,
    /// The reason why nothing of the bill was measured, if it was to be.
    pub unmeasured: Option<String>,
    /// Topics that earlier runs left behind.
    pub leftovers: Vec<String>,
}

/// A report as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportDocument<'a> {
    runs: Platform,
    topic: &'a str,
    failed: usize,
    steps: &'a [StepResult],
    latencies: Vec<StageLatency>,
    cost: CostDocument<'a>,
    not_shown: Vec<String>,
    leftovers: &'a [String],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CostDocument<'a> {
    dollars_per_million: f64,
    #[serde(flatten)]
    bill: &'a Bill,
}

/// Things that no run shows, wherever the deployment is.
const NEVER: [&str; 4] = [
    "how it behaves under your load, and at your account's quotas: this sends a few events, one after the other",
    "what happens when a function, a zone or a service fails",
    "that endpoints of yours are reached, from your networks and by your names",
    "what AWS will bill: prices are those of `gridpost cost`, without free tiers and transfer",
];

/// Things that no run against a local stack shows.
const NEVER_LOCALLY: &str = "anything of AWS itself: this deployment is on one machine";

impl Report {
    /// Counts the steps that showed something else than they should.
    pub fn failed(&self) -> usize {
        self.results.iter().filter(|one| matches!(one.verdict, Verdict::Failed { .. })).count()
    }

    /// Lists what it could not show.
    fn limits(&self) -> Vec<String> {
        let steps = self.results.iter().filter_map(|one| match &one.verdict {
            Verdict::NotShown { why } => Some(format!("{}: {why}", one.step.title())),
            Verdict::Shown { .. } | Verdict::Failed { .. } => None,
        });
        let unmeasured = self.unmeasured.iter().map(|why| format!("calls of this account: {why}"));
        let is_local = self.environment.platform != Platform::Aws;
        let never = is_local.then_some(NEVER_LOCALLY).into_iter().chain(NEVER);
        steps.chain(unmeasured).chain(never.map(str::to_owned)).collect()
    }

    /// Describes it for programs.
    pub fn document(&self) -> ReportDocument<'_> {
        ReportDocument {
            runs: self.environment.platform,
            topic: &self.topic,
            failed: self.failed(),
            steps: &self.results,
            latencies: self.latencies.stages(),
            cost: CostDocument { dollars_per_million: self.bill.total(), bill: &self.bill },
            not_shown: self.limits(),
            leftovers: &self.leftovers,
        }
    }

    /// Describes it for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for StepResult { step, verdict, .. } in &self.results {
            let (mark, lines) = match verdict {
                Verdict::Shown { seen } => ("✓", seen.clone()),
                Verdict::Failed { why } => ("✗", vec![format!("failed: {why}")]),
                // The reason is among the limits below.
                Verdict::NotShown { .. } => ("-", vec!["not shown".to_owned()]),
            };
            let _ = writeln!(text, "{mark} {:<12}{}", step.name(), step.title());
            for line in lines {
                let _ = writeln!(text, "  {:<12}{line}", "");
            }
        }
        self.add_latencies(&mut text);
        self.add_bill(&mut text);
        text.push_str("\nNot shown:\n");
        for limit in self.limits() {
            let _ = writeln!(text, "  - {limit}");
        }
        text.trim_end().to_owned()
    }

    fn add_latencies(&self, text: &mut String) {
        let stages = self.latencies.stages();
        if stages.is_empty() {
            return;
        }
        let head = ["Latency from", "p50", "p95", "p99", "of"].map(str::to_owned);
        let row = |latency: &StageLatency| {
            let StageLatency { stage, p50_ms, p95_ms, p99_ms, count } = *latency;
            let [p50, p95, p99] = [p50_ms, p95_ms, p99_ms]
                .map(|ms| describe_time(Duration::from_secs_f64(ms / 1_000.0)));
            [stage.title().to_owned(), p50, p95, p99, count.to_string()]
        };
        let rows: Vec<_> = iter::once(head).chain(stages.iter().map(row)).collect();
        let _ = writeln!(text, "\n{}", columns(&rows));
    }

    fn add_bill(&self, text: &mut String) {
        let Bill { lines, prices } = &self.bill;
        let measured = if self.bill.is_measured() {
            "* measured here, if nothing else flowed meanwhile; the rest as `gridpost cost` reckons"
        } else {
            "as `gridpost cost` reckons; nothing of it was measured here"
        };
        let _ = writeln!(
            text,
            "\nA million such events, one in each publish, cost ${:.2}, logs included",
            self.bill.total()
        );
        for line in lines.iter().filter(|line| line.units > 0.0) {
            let mark = if line.is_measured { "*" } else { " " };
            let (dollars, what, units) = (line.dollars, line.what, line.units);
            let digits = if units < 0.001 { 7 } else { 4 };
            let _ = writeln!(text, " {mark}{dollars:>6.2}  {what:<26} {units:.digits$} an event");
        }
        let _ = writeln!(text, "  {measured}; prices of {prices}");
    }
}

/// A part of an event's way whose duration is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    Publish,
    /// From the beginning of a publish to the request at the webhook.
    PublishToWebhook,
    /// From the beginning of a publish to the message, received here by long polling.
    PublishToQueue,
    /// From when an attempt was due to the request at the webhook.
    DueToAttempt,
    /// From the refusal to the dead letter that can be read.
    RefusalToDeadLetter,
    /// From when a redrive was asked for to the request at the webhook.
    RedriveToWebhook,
}

impl Stage {
    fn title(self) -> &'static str {
        match self {
            Self::Publish => "publish to its answer",
            Self::PublishToWebhook => "publish to the webhook",
            Self::PublishToQueue => "publish to the queue's message, polled",
            Self::DueToAttempt => "due to the attempt, its jitter included",
            Self::RefusalToDeadLetter => "refusal to the dead letter",
            Self::RedriveToWebhook => "redrive to the webhook",
        }
    }
}

/// The latency of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageLatency {
    pub stage: Stage,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    /// How often it was measured.
    pub count: usize,
}

/// Measurements by stage.
#[derive(Clone, Debug, Default)]
pub struct Latencies(BTreeMap<Stage, Vec<Duration>>);

impl Latencies {
    /// Adds a measurement.
    pub fn add(&mut self, stage: Stage, took: Duration) {
        self.0.entry(stage).or_default().push(took);
    }

    /// Summarizes each stage that was measured.
    pub fn stages(&self) -> Vec<StageLatency> {
        let summarize = |(stage, all): (&Stage, &Vec<Duration>)| {
            let mut sorted = all.clone();
            sorted.sort_unstable();
            let [p50_ms, p95_ms, p99_ms] =
                [50, 95, 99].map(|percent| percentile(&sorted, percent).as_secs_f64() * 1_000.0);
            StageLatency { stage: *stage, p50_ms, p95_ms, p99_ms, count: sorted.len() }
        };
        self.0.iter().map(summarize).collect()
    }
}

/// Returns the smallest measurement that so many percent are not above; zero without any.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Formats a time for people.
pub fn describe_time(took: Duration) -> String {
    match took.as_secs_f64() {
        seconds if seconds >= 10.0 => format!("{seconds:.0} s"),
        seconds if seconds >= 1.0 => format!("{seconds:.1} s"),
        seconds if seconds >= 0.01 => format!("{:.0} ms", seconds * 1_000.0),
        seconds => format!("{:.1} ms", seconds * 1_000.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        cost::{Measured, Mix, Prices},
        verify::{bill::Account, step::Step},
    };

    fn report(platform: Platform, verdicts: Vec<(Step, Verdict)>) -> Report {
        let mut latencies = Latencies::default();
        latencies.add(Stage::Publish, Duration::from_millis(20));
        let (prices, measured) = (Prices::current(), Measured::current());
        let environment = Environment {
            platform,
            speed: 1,
            has_webhook: true,
            has_queue: false,
            has_letters: true,
        };
        let results = verdicts.into_iter().map(|(step, verdict)| StepResult::new(step, verdict));
        Report {
            environment,
            topic: "gridpost-verify-1".to_owned(),
            results: results.collect(),
            latencies,
            bill: Bill::of(&Mix::default(), &Account::default(), &prices, &measured),
            unmeasured: Some("no lines".to_owned()),
            leftovers: vec![],
        }
    }

    #[test]
    fn what_was_not_shown_is_never_told_as_passed() {
        let report = report(
            Platform::Dev,
            vec![
                (Step::Webhook, Verdict::Shown { seen: vec!["50 of 50 events".to_owned()] }),
                (Step::Queue, Verdict::not_shown("no SQS")),
                (Step::Late, Verdict::Failed { why: "a second request".to_owned() }),
            ],
        );
        assert_eq!(report.failed(), 1);
        let text = report.text();
        for line in [
            "✓ webhook     events reach a webhook\n              50 of 50 events\n",
            "- queue       events reach an SQS queue\n              not shown\n",
            "✗ late        an answer after 30 s cancels the retry\n              failed: a second request\n",
            "Latency from           p50    p95    p99    of\npublish to its answer  20 ms  20 ms  20 ms  1\n",
            "  - events reach an SQS queue: no SQS\n  - calls of this account: no lines\n",
            NEVER_LOCALLY,
            NEVER[3],
        ] {
            assert!(text.contains(line), "{line:?} in\n{text}");
        }
        let document = serde_json::to_value(report.document()).expect("JSON");
        let steps = json!([
            {"step": "webhook", "shows": "events reach a webhook", "verdict": "shown",
                "seen": ["50 of 50 events"]},
            {"step": "queue", "shows": "events reach an SQS queue", "verdict": "notShown",
                "why": "no SQS"},
            {"step": "late", "shows": "an answer after 30 s cancels the retry", "verdict": "failed",
                "why": "a second request"},
        ]);
        assert_eq!(document["steps"], steps);
        assert_eq!((&document["failed"], &document["runs"]), (&json!(1), &json!("dev")));
        assert_eq!(document["notShown"].as_array().map(Vec::len), Some(7));
        assert_eq!(document["cost"]["lines"][0]["measured"], false);
        assert!(document["cost"]["dollarsPerMillion"].is_f64());
    }

    #[test]
    fn on_aws_the_list_says_nothing_of_one_machine() {
        let report = report(Platform::Aws, vec![]);
        assert!(!report.text().contains(NEVER_LOCALLY));
        assert_eq!(report.failed(), 0);
    }

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
            let got = [50, 95, 99].map(|percent| percentile(&sorted, percent));
            assert_eq!(got, want.map(Duration::from_millis), "{} of them", sorted.len());
        }
    }

    #[test]
    fn stages_come_in_order_and_only_if_measured() {
        let mut latencies = Latencies::default();
        latencies.add(Stage::PublishToQueue, Duration::from_millis(30));
        latencies.add(Stage::Publish, Duration::from_millis(20));
        latencies.add(Stage::Publish, Duration::from_millis(10));
        let want = json!([
            {"stage": "publish", "p50Ms": 10.0, "p95Ms": 20.0, "p99Ms": 20.0, "count": 2},
            {"stage": "publishToQueue", "p50Ms": 30.0, "p95Ms": 30.0, "p99Ms": 30.0, "count": 1},
        ]);
        assert_eq!(serde_json::to_value(latencies.stages()).expect("JSON"), want);
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
            assert_eq!(describe_time(Duration::from_secs_f64(ms / 1_000.0)), want);
        }
    }
}

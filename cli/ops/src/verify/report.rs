//! What is printed at the end.

use std::fmt::Write;

use serde_json::{Value, json};

use super::bill::Bill;
use super::figures::{Figures, PERCENTS, told};
use super::step::{Ground, Tried, Verdict, Where};
use crate::output::columns;

/// A run.
#[derive(Debug)]
pub struct Report {
    pub ground: Ground,
    /// The probe topic, which is gone by now.
    pub topic: String,
    pub tried: Vec<Tried>,
    pub figures: Figures,
    pub bill: Bill,
    /// Why nothing of the bill was measured, where it was to be.
    pub unmeasured: Option<String>,
    /// Topics that earlier runs have left behind.
    pub leftovers: Vec<String>,
}

/// What no run shows, wherever the deployment is.
const NEVER: [&str; 4] = [
    "how it behaves under your load, and at your account's quotas: this sends a few events, one after the other",
    "what happens when a function, a zone or a service fails",
    "that endpoints of yours are reached, from your networks and by your names",
    "what AWS will bill: prices are those of `gridpost cost`, without free tiers and transfer",
];

/// What no run against a local stack shows.
const NEVER_LOCALLY: &str = "anything of AWS itself: this deployment is on one machine";

impl Report {
    /// Steps that showed something else than they should.
    pub fn failed(&self) -> usize {
        self.tried.iter().filter(|one| matches!(one.verdict, Verdict::Failed(_))).count()
    }

    /// What it could not show.
    pub fn limits(&self) -> Vec<String> {
        let steps = self.tried.iter().filter_map(|one| match &one.verdict {
            Verdict::NotShown(why) => Some(format!("{}: {why}", one.step.title())),
            Verdict::Shown(_) | Verdict::Failed(_) => None,
        });
        let unmeasured = self.unmeasured.iter().map(|why| format!("calls of this account: {why}"));
        let local = (self.ground.runs != Where::Aws).then(|| NEVER_LOCALLY.to_owned());
        let never = NEVER.into_iter().map(str::to_owned);
        steps.chain(unmeasured).chain(local).chain(never).collect()
    }

    /// It as JSON.
    pub fn document(&self) -> Value {
        let step = |one: &Tried| {
            let mut document = json!({"step": one.step.name(), "shows": one.step.title()});
            match &one.verdict {
                Verdict::Shown(lines) => {
                    document["verdict"] = json!("shown");
                    document["seen"] = json!(lines);
                }
                Verdict::Failed(why) => {
                    document["verdict"] = json!("failed");
                    document["why"] = json!(why);
                }
                Verdict::NotShown(why) => {
                    document["verdict"] = json!("notShown");
                    document["why"] = json!(why);
                }
            }
            document
        };
        let runs = match self.ground.runs {
            Where::Aws => "aws",
            Where::Stack => "up",
            Where::Dev => "dev",
        };
        json!({
            "runs": runs,
            "topic": self.topic,
            "failed": self.failed(),
            "steps": self.tried.iter().map(step).collect::<Value>(),
            "latencies": self.figures.document(),
            "cost": self.bill.document(),
            "notShown": self.limits(),
            "leftovers": self.leftovers,
        })
    }

    /// It for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for Tried { step, verdict } in &self.tried {
            let (mark, lines) = match verdict {
                Verdict::Shown(lines) => ("✓", lines.clone()),
                Verdict::Failed(why) => ("✗", vec![format!("failed: {why}")]),
                // Why is told below, with all else that was not shown.
                Verdict::NotShown(_) => ("-", vec!["not shown".to_owned()]),
            };
            let _ = writeln!(text, "{mark} {:<12}{}", step.name(), step.title());
            for line in lines {
                let _ = writeln!(text, "  {:<12}{line}", "");
            }
        }
        self.add_figures(&mut text);
        self.add_bill(&mut text);
        text.push_str("\nNot shown:\n");
        for limit in self.limits() {
            let _ = writeln!(text, "  - {limit}");
        }
        text.trim_end().to_owned()
    }

    fn add_figures(&self, text: &mut String) {
        let stages = self.figures.stages();
        if stages.is_empty() {
            return;
        }
        let [p50, p95, p99] = PERCENTS.map(|percent| format!("p{percent}"));
        let head = ["Latency from".to_owned(), p50, p95, p99, "of".to_owned()];
        let row = |(stage, percentiles, count): &(super::figures::Stage, _, usize)| {
            let [p50, p95, p99]: [std::time::Duration; 3] = *percentiles;
            [stage.title().to_owned(), told(p50), told(p95), told(p99), count.to_string()]
        };
        let rows: Vec<_> = std::iter::once(head).chain(stages.iter().map(row)).collect();
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        cost::{Measured, Mix, Prices},
        verify::{bill::Account, figures::Stage, step::Step},
    };

    fn report(runs: Where, verdicts: Vec<(Step, Verdict)>) -> Report {
        let mut figures = Figures::default();
        figures.add(Stage::Publish, Duration::from_millis(20));
        let (prices, measured) = (Prices::current(), Measured::current());
        Report {
            ground: Ground {
                runs,
                speed: 1,
                has_webhook: true,
                has_queue: false,
                has_letters: true,
            },
            topic: "gridpost-verify-1".to_owned(),
            tried: verdicts.into_iter().map(|(step, verdict)| Tried { step, verdict }).collect(),
            figures,
            bill: Bill::of(&Mix::default(), &Account::default(), &prices, &measured),
            unmeasured: Some("no lines".to_owned()),
            leftovers: vec![],
        }
    }

    #[test]
    fn what_was_not_shown_is_never_told_as_passed() {
        let report = report(
            Where::Dev,
            vec![
                (Step::Webhook, Verdict::Shown(vec!["50 of 50 events".to_owned()])),
                (Step::Queue, Verdict::NotShown("no SQS".to_owned())),
                (Step::Late, Verdict::Failed("a second request".to_owned())),
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
        let document = report.document();
        let verdicts: Vec<_> = document["steps"].as_array().expect("steps").iter().collect();
        let want = ["shown", "notShown", "failed"];
        assert_eq!(verdicts.iter().map(|one| &one["verdict"]).collect::<Vec<_>>(), want);
        assert_eq!((&document["failed"], &document["runs"]), (&json!(1), &json!("dev")));
        assert_eq!(document["notShown"].as_array().map(Vec::len), Some(7));
    }

    #[test]
    fn on_aws_the_list_says_nothing_of_one_machine() {
        let report = report(Where::Aws, vec![]);
        assert!(!report.text().contains(NEVER_LOCALLY));
        assert_eq!(report.failed(), 0);
    }
}

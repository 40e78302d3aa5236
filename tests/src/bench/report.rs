//! A benchmark's results as tables and as JSON, compared with the bars.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use gridpost_ops::cost::Prices;
use serde::{Deserialize, Serialize};

use super::{figures::Spread, limit::Cost, process::Machine};

/// A figure's name and what it is over all runs.
pub type Spreads = BTreeMap<String, Spread>;

/// Everything that was found.
#[derive(Debug, Deserialize, Serialize)]
pub struct Report {
    pub machine: Machine,
    pub repeats: usize,
    /// The mixes by name, in the order in which they ran.
    pub mixes: Vec<(String, Spreads)>,
    /// The least that each may cost.
    pub limits: BTreeMap<String, Cost>,
    pub start: Spreads,
}

/// The columns of a table of mixes: figure, head, digits.
type Columns = [(&'static str, &'static str, usize)];

/// The columns of both tables of mixes.
const ARRIVALS: &Columns = &[
    ("delivered/s", "delivered/s", 0),
    ("arrival p50 ms", "p50 ms", 2),
    ("arrival p95 ms", "p95 ms", 2),
    ("arrival p99 ms", "p99 ms", 2),
];

/// The further columns of the functions' mixes.
const FUNCTIONS: &Columns = &[
    ("ingest CPU ms/event", "ingest CPU ms", 4),
    ("dispatch CPU ms/event", "dispatch CPU ms", 4),
    ("ingest peak MB", "ingest MB", 1),
    ("dispatch peak MB", "dispatch MB", 1),
    ("calls/event", "AWS calls", 3),
    ("duplicates", "duplicates", 0),
];

/// The further columns of the mixes of `gridpost dev`. Only they have the first one.
const DEV: &Columns = &[
    ("dev CPU ms/event", "CPU ms", 4),
    ("dev peak MB", "MB", 1),
    ("dev ready ms", "ready ms", 0),
    ("events", "events", 0),
    ("connections", "connections", 0),
    ("duplicates", "duplicates", 0),
];

/// The mixes whose writes are compared.
const BACKLOGS: [&str; 3] = ["one-backlog", "ten-backlog", "hundred-backlog"];

/// The milliseconds that SQS usually takes to answer within a region, and endpoints on the internet.
const USUAL_WAITS: [f64; 2] = [10.0, 100.0];

/// A figure that is compared, as `bars.json` has it. Figures are named as in [`Report::medians`].
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Bar {
    about: String,
    /// Figures that are added up.
    of: Vec<String>,
    /// The figure that is subtracted from them, if any.
    less: Option<String>,
    /// The figure by which they are divided, if any.
    over: Option<String>,
    unit: String,
    /// The highest value that passes.
    bar: Option<f64>,
    /// The highest value that is better than that.
    stretch: Option<f64>,
}

impl Bar {
    /// The row of the bar, if its figures were found.
    fn row(&self, medians: &BTreeMap<String, f64>) -> Option<Vec<String>> {
        let of = |name: &String| medians.get(name).copied();
        let sum: f64 = self.of.iter().map(of).sum::<Option<f64>>()?;
        let less = self.less.as_ref().map_or(Some(0.0), of)?;
        let found = (sum - less) / self.over.as_ref().map_or(Some(1.0), of)?;
        let keeps = |most: Option<f64>| most.map(|most| found <= most);
        let passes = match (keeps(self.stretch), keeps(self.bar)) {
            (Some(true), _) => "stretch",
            (_, Some(true)) => "passes",
            (_, Some(false)) => "misses",
            (_, None) => "",
        };
        let unit = &self.unit;
        let most =
            |most: Option<f64>| most.map_or(String::new(), |most| format!("≤ {most} {unit}"));
        let found = format!("{found:.3} {unit}");
        Some(vec![self.about.clone(), most(self.bar), most(self.stretch), found, passes.to_owned()])
    }
}

impl Report {
    /// Each figure's median, by the name of its mix and its own, and what follows from them.
    fn medians(&self) -> BTreeMap<String, f64> {
        let mut medians = BTreeMap::from([("ms of a second".to_owned(), 1_000.0)]);
        let starts = [("start".to_owned(), self.start.clone())];
        for (mix, spreads) in self.mixes.iter().chain(&starts) {
            let named =
                |(name, spread): (&String, &Spread)| (format!("{mix}: {name}"), spread.median);
            medians.extend(spreads.iter().map(named));
            for (name, waits) in [("dollars", [0.0, 0.0]), ("dollars with waits", USUAL_WAITS)] {
                let dollars = per_million(spreads, waits);
                medians.extend(dollars.map(|dollars| (format!("{mix}: {name}"), dollars)));
            }
        }
        let limits = self.limits.iter();
        medians.extend(limits.map(|(name, cost)| (format!("limit: {name}"), cost.cpu_ms)));
        let [parse, send] = ["limit: parse 100", "limit: send 10"].map(|name| medians.get(name));
        // One parses a hundred events at once, the other one sends ten.
        let both = parse.zip(send).map(|(parse, send)| parse / 100.0 + send / 10.0);
        medians.extend(both.map(|both| ("limit: an event parsed and sent".to_owned(), both)));
        let is_write = |name: &str| {
            let call = name.strip_prefix("calls/event dynamodb:");
            call.is_some_and(|call| call != "GetItem" && call != "Query")
        };
        let writes = self.most(|mix| BACKLOGS.contains(&mix), is_write);
        medians.extend(writes.map(|most| ("most writes of a backlog".to_owned(), most)));
        let missing = self.most(|_| true, |figure| figure == "missing");
        medians.extend(missing.map(|most| ("most missing".to_owned(), most)));
        medians
    }

    /// The most that a mix has of the figures that are chosen by their names, summed up in each mix.
    fn most(&self, mixes: impl Fn(&str) -> bool, figures: impl Fn(&str) -> bool) -> Option<f64> {
        let mixes = self.mixes.iter().filter(|(name, _)| mixes(name));
        let sums = mixes.map(|(_, spreads)| {
            let chosen = spreads.iter().filter(|(name, _)| figures(name));
            chosen.fold(0.0, |sum, (_, spread)| sum + spread.max)
        });
        sums.reduce(f64::max)
    }

    /// The rows of the bars whose figures were found.
    fn compared(&self) -> anyhow::Result<Vec<Vec<String>>> {
        let bars: Vec<Bar> = serde_json::from_str(include_str!("bars.json"))?;
        let medians = self.medians();
        Ok(bars.iter().filter_map(|bar| bar.row(&medians)).collect())
    }

    /// Returns all of it as Markdown.
    pub fn to_markdown(&self) -> anyhow::Result<String> {
        let Machine { processor, processors, load } = &self.machine;
        let mut text = format!(
            "{processor}, {processors} processors, load {load:.1} before it began. \
             Medians of {} runs, in brackets the lowest and the highest.\n",
            self.repeats
        );
        self.write_mixes(&mut text, FUNCTIONS);
        self.write_mixes(&mut text, DEV);
        let limits = self.limits.iter().map(|(name, Cost { cpu_ms, per_second })| {
            vec![name.clone(), format!("{cpu_ms:.5}"), format!("{per_second:.0}")]
        });
        write_table(&mut text, &["limit", "CPU ms", "per second"], limits.collect());
        let starts = self.start.iter().map(|(name, spread)| vec![name.clone(), spread.written(2)]);
        write_table(&mut text, &["start and size", ""], starts.collect());
        let heads = ["figure", "bar", "stretch", "found", ""];
        write_table(&mut text, &heads, self.compared()?);
        Ok(text)
    }

    /// Writes the table of the mixes that have the first of those figures.
    fn write_mixes(&self, text: &mut String, further: &Columns) {
        let columns: Vec<_> = ARRIVALS.iter().chain(further).collect();
        let mut heads = vec!["mix"];
        heads.extend(columns.iter().map(|(_, head, _)| *head));
        let of = self.mixes.iter().filter(|(_, spreads)| spreads.contains_key(further[0].0));
        let rows = of.map(|(name, spreads)| {
            let cell = |(figure, _, digits): &&(&str, _, usize)| {
                spreads.get(*figure).map_or("–".to_owned(), |spread| spread.written(*digits))
            };
            [name.clone()].into_iter().chain(columns.iter().map(cell)).collect()
        });
        write_table(text, &heads, rows.collect());
    }

    /// Writes the JSON to `file`, with a line for each figure.
    pub fn write(&self, file: &Path) -> anyhow::Result<()> {
        let json = serde_json::to_string(self)?.replace("},", "},\n");
        Ok(std::fs::write(file, json + "\n")?)
    }
}

/// Writes a table, if it has rows.
fn write_table(text: &mut String, heads: &[&str], rows: Vec<Vec<String>>) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n| {} |\n|{}", heads.join(" | "), "---|".repeat(heads.len()));
    for row in rows {
        // Writing to a string can't fail.
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
}

/// Memory in GB with which Lambda gives a function one whole processor. Source: AWS Lambda developer
/// guide, "Configure Lambda function memory".
const PROCESSOR_GB: f64 = 1_769.0 / 1_024.0;

/// Memory in GB of the functions while they wait.
const WAITING_GB: f64 = 0.5;

/// Dollars for a million calls of that kind, e.g. `sqs:SendMessageBatch`; no call takes more than
/// one unit. S3 requests are left out.
fn price(prices: &Prices, call: &str) -> f64 {
    let (request, fair) = (&prices.sqs_request, &prices.sqs_fair_request);
    match call.split_once(':') {
        Some(("sqs", _)) => request.dollars_per_million + fair.dollars_per_million,
        Some(("dynamodb", "GetItem" | "Query")) => prices.dynamo_db_read.dollars_per_million,
        Some(("dynamodb", _)) => prices.dynamo_db_write.dollars_per_million,
        _ => 0.0,
    }
}

/// Dollars for a million delivered events of a mix, from its figures, with ingest at a function
/// URL, which has no fee. An invocation of ingest and one of dispatch wait for so many milliseconds
/// without using CPU. `None` if figures are missing.
fn per_million(figures: &Spreads, [ingest_waits_ms, dispatch_waits_ms]: [f64; 2]) -> Option<f64> {
    let prices = Prices::current();
    let of = |name: &str| figures.get(name).map(|spread| spread.median);
    let calls = figures.iter().filter_map(|(name, spread)| {
        Some(price(&prices, name.strip_prefix("calls/event ")?) * spread.median)
    });
    let ingest = of("ingest invocations/event")?;
    let dispatch = of("calls/event sqs:ReceiveMessage")?;
    let cpu_ms = of("ingest CPU ms/event")? + of("dispatch CPU ms/event")?;
    let waiting_ms = ingest * ingest_waits_ms + dispatch * dispatch_waits_ms;
    let gb_s = (cpu_ms * PROCESSOR_GB + waiting_ms * WAITING_GB) / 1_000.0;
    let invocations = (ingest + dispatch) * prices.lambda_request.dollars_per_million;
    Some(calls.sum::<f64>() + invocations + gb_s * prices.lambda_gb_second.dollars_per_million)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_passed_and_missed() {
        let medians = BTreeMap::from([("figure".to_owned(), 3.1)]);
        let row = |of: &str, bar, stretch| {
            let of = vec![of.to_owned()];
            Bar { of, bar, stretch, ..Bar::default() }.row(&medians)
        };
        for (bar, stretch, want) in [
            (Some(3.3), Some(3.1), "stretch"),
            (Some(3.3), Some(3.0), "passes"),
            (Some(3.1), None, "passes"),
            (Some(3.0), None, "misses"),
            (None, None, ""),
        ] {
            assert_eq!(row("figure", bar, stretch).expect("a figure")[4], want, "{bar:?}");
        }
        assert_eq!(row("another one", Some(1.0), None), None);
    }

    #[test]
    fn the_documented_rows_follow_from_the_documented_figures() {
        let found = include_str!("../../../docs/benchmarks/bench.json");
        let found: Report = serde_json::from_str(found).expect("a report");
        let rows = found.compared().expect("bars");
        // Those figures have none of `gridpost dev`.
        assert_eq!(rows.len(), 24);
        // Longer runs found the documented one.
        for row in rows.iter().filter(|row| !row[0].starts_with("healthy endpoints' p99")) {
            let row = format!("| {} |", row.join(" | "));
            assert!(include_str!("../../../docs/benchmarks.md").contains(&row), "{row}");
        }
    }
}

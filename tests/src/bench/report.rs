//! A benchmark's results as tables and as JSON, compared with the bars.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use gridpost_ops::cost::Prices;
use serde::Serialize;

use super::{figures::Spread, limit::Cost, process::Machine};

/// A figure's name and what it is over all runs.
pub type Spreads = BTreeMap<String, Spread>;

/// Everything that was found.
#[derive(Debug, Serialize)]
pub struct Report {
    pub machine: Machine,
    pub repeats: usize,
    /// The mixes by name, in the order in which they ran.
    pub mixes: Vec<(String, Spreads)>,
    /// What the same takes at the least.
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
    ("duplicates", "duplicates", 0),
];

/// The milliseconds that SQS usually takes to answer within a region, and endpoints on the internet.
const USUAL_WAITS: [f64; 2] = [10.0, 100.0];

/// Stands for a missing bar or stretch.
const NONE: f64 = f64::INFINITY;

/// A bar: what it is about, its figure, its unit, the highest value that passes, the stretch.
type Bar = (&'static str, Option<f64>, &'static str, f64, f64);

impl Report {
    fn mix(&self, mix: &str) -> Option<&Spreads> {
        self.mixes.iter().find(|(name, _)| name == mix).map(|(_, spreads)| spreads)
    }

    /// A figure's median in a mix.
    fn of(&self, mix: &str, figure: &str) -> Option<f64> {
        Some(self.mix(mix)?.get(figure)?.median)
    }

    /// The sum of two figures' medians in a mix.
    fn sum(&self, mix: &str, figures: [&str; 2]) -> Option<f64> {
        Some(self.of(mix, figures[0])? + self.of(mix, figures[1])?)
    }

    fn dollars(&self, mix: &str, waits: [f64; 2]) -> Option<f64> {
        per_million(self.mix(mix)?, waits)
    }

    fn start(&self, figure: &str) -> Option<f64> {
        Some(self.start.get(figure)?.median)
    }

    fn first(&self, function: &str) -> Option<f64> {
        let of = |turn| self.start(&format!("{function} {turn} ms"));
        Some(of("first")? - of("second")?)
    }

    fn limit(&self, name: &str) -> Option<f64> {
        Some(self.limits.get(name)?.cpu_ms)
    }

    /// The most that a mix has of the figures that are chosen by their names, summed up in each mix.
    fn most(&self, mixes: impl Fn(&str) -> bool, figures: impl Fn(&str) -> bool) -> Option<f64> {
        let mixes = self.mixes.iter().filter(|(name, _)| mixes(name));
        let sums = mixes.map(|(_, spreads)| {
            let chosen = spreads.iter().filter(|(name, _)| figures(name));
            chosen.map(|(_, spread)| spread.max).sum()
        });
        sums.reduce(f64::max)
    }

    /// Compares the functions' CPU time, latency and size with their limits and bars.
    fn function_bars(&self) -> Vec<Bar> {
        let ratio = |found: Option<f64>, limit: Option<f64>| Some(found? / limit?);
        let [ingest, dispatch] = ["ingest CPU ms/event", "dispatch CPU ms/event"];
        let posts = "dispatch: CPU per delivery against bare `reqwest`, batch 10";
        let posting = ratio(self.of("one-backlog", dispatch), self.limit("reqwest at 10"));
        let takes = "ingest: CPU per event against bare parsing and sending, 100 per publish";
        // One parses a hundred events at once, the other one sends ten.
        let (parse, send) = (self.limit("parse 100"), self.limit("send 10"));
        let least = parse.zip(send).map(|(parse, send)| parse / 100.0 + send / 10.0);
        let taking = ratio(self.of("hundred-backlog", ingest), least);
        let [one, ten] =
            ["one-backlog", "ten-backlog"].map(|mix| self.sum(mix, [ingest, dispatch]));
        let [p50, p99] = ["arrival p50 ms", "arrival p99 ms"];
        let driver = self.sum("one-50", ["driver to ingest p50 ms", "driver to dispatch p50 ms"]);
        let [alone, beside] = ["neighbours", "neighbour-dead"].map(|mix| self.of(mix, p99));
        let neighbours = "healthy endpoints' p99 beside a dead one, against without";
        let [first_ingest, first_dispatch] = ["ingest", "dispatch"].map(|name| self.first(name));
        let peak = |name| self.of("one", &format!("{name} peak MB"));
        let start = |figure| self.start(figure);
        vec![
            (posts, posting, "×", 2.5, 1.5),
            (takes, taking, "×", 1.5, 1.2),
            ("ingest + dispatch CPU per event, one per publish", one, "ms", 0.35, 0.20),
            ("ingest + dispatch CPU per event, 10 per publish", ten, "ms", 0.10, 0.06),
            ("publish to arrival at 50/s, p50", self.of("one-50", p50), "ms", 2.5, 1.2),
            ("publish to arrival at 50/s, p99", self.of("one-50", p99), "ms", 7.0, NONE),
            ("of it the driver, p50", driver, "ms", NONE, NONE),
            ("ingest: start to first `next`", start("ingest start ms"), "ms", 10.0, 5.0),
            ("dispatch: start to first `next`", start("dispatch start ms"), "ms", 10.0, 5.0),
            ("ingest: first call with TLS, above a later one", first_ingest, "ms", 5.0, 2.0),
            ("dispatch: first call with TLS, above a later one", first_dispatch, "ms", 5.0, 2.0),
            ("ingest zipped", start("ingest zipped MB"), "MB", 4.0, 2.5),
            ("dispatch zipped", start("dispatch zipped MB"), "MB", 5.0, 3.5),
            ("ingest: peak memory, 1 KiB events", peak("ingest"), "MB", 24.0, NONE),
            ("dispatch: peak memory, 1 KiB events", peak("dispatch"), "MB", 40.0, NONE),
            (neighbours, ratio(beside, alone), "×", 1.1, NONE),
        ]
    }

    /// Compares calls, dollars, losses and `gridpost dev` with their bars.
    fn other_bars(&self) -> Vec<Bar> {
        let (one, ten, hundred) = ("one-backlog", "ten-backlog", "hundred-backlog");
        let calls = |mix| self.of(mix, "calls/event");
        let waits = "the same, SQS answering in 10 ms and endpoints in 100 ms";
        let [one_dollars, ten_dollars] = [one, ten].map(|mix| self.dollars(mix, [0.0, 0.0]));
        let [one_waits, ten_waits] = [one, ten].map(|mix| self.dollars(mix, USUAL_WAITS));
        let is_write = |name: &str| {
            let call = name.strip_prefix("calls/event dynamodb:");
            call.is_some_and(|call| call != "GetItem" && call != "Query")
        };
        let writes = self.most(|mix| [one, ten, hundred].contains(&mix), is_write);
        let missing = self.most(|_| true, |figure| figure == "missing");
        let dev = |figure| self.of("dev", figure);
        let dev_ms = dev("delivered/s").map(|per_second| 1_000.0 / per_second);
        let dev_p50 = self.of("dev-50", "arrival p50 ms");
        vec![
            ("AWS calls per event, one per publish, batch 10", calls(one), "", 1.3, NONE),
            ("AWS calls per event, 10 per publish, batch 10", calls(ten), "", 0.4, NONE),
            ("dollars per million, function URL, one per publish", one_dollars, "$", 0.85, NONE),
            (waits, one_waits, "$", NONE, NONE),
            ("dollars per million, function URL, 10 per publish", ten_dollars, "$", 0.25, NONE),
            (waits, ten_waits, "$", NONE, NONE),
            ("DynamoDB calls per event but for reading configuration", writes, "", 0.0, NONE),
            ("missing events of all mixes", missing, "", 0.0, NONE),
            // 3,000 in a second.
            ("`gridpost dev`: time of a delivered event, saturated", dev_ms, "ms", 0.333, NONE),
            ("`gridpost dev`: CPU per event", dev("dev CPU ms/event"), "ms", 0.35, NONE),
            ("`gridpost dev`: publish to arrival at 50/s, p50", dev_p50, "ms", 5.0, NONE),
            ("`gridpost dev`: peak memory", dev("dev peak MB"), "MB", 50.0, NONE),
            ("`gridpost dev`: start to ready", dev("dev ready ms"), "ms", 1_000.0, NONE),
        ]
    }

    /// Returns all of it as Markdown.
    pub fn to_markdown(&self) -> String {
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
        let bars = self.function_bars().into_iter().chain(self.other_bars());
        let heads = ["figure", "bar", "stretch", "found", ""];
        write_table(&mut text, &heads, bars.filter_map(compared).collect());
        text
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

/// The row of a bar whose figure was found.
fn compared((about, found, unit, bar, stretch): Bar) -> Option<Vec<String>> {
    let found = found?;
    let passes = match () {
        () if stretch.is_finite() && found <= stretch => "stretch",
        () if bar.is_infinite() => "",
        () if found <= bar => "passes",
        () => "misses",
    };
    let most =
        |most: f64| if most.is_finite() { format!("≤ {most} {unit}") } else { String::new() };
    let found = format!("{found:.3} {unit}");
    Some(vec![about.to_owned(), most(bar), most(stretch), found, passes.to_owned()])
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
        for (found, bar, stretch, want) in [
            (1.0, 3.0, 1.0, "stretch"),
            (1.1, 3.0, 1.0, "passes"),
            (3.0, 3.0, NONE, "passes"),
            (3.1, 3.0, NONE, "misses"),
            (3.1, NONE, NONE, ""),
        ] {
            let row = compared(("about", Some(found), "ms", bar, stretch)).expect("a figure");
            assert_eq!(row[4], want, "{row:?}");
        }
        assert_eq!(compared(("about", None, "ms", 1.0, 1.0)), None);
    }

    #[test]
    fn a_million_costs_its_calls_invocations_and_time() {
        let figures = [
            ("calls/event sqs:SendMessageBatch", 1.0),
            ("calls/event sqs:ReceiveMessage", 0.1),
            ("calls/event sqs:DeleteMessageBatch", 0.1),
            ("calls/event dynamodb:GetItem", 0.01),
            ("ingest invocations/event", 1.0),
            ("ingest CPU ms/event", 0.1),
            ("dispatch CPU ms/event", 0.1),
        ];
        let spread = |median| Spread { median, min: median, max: median };
        let mut figures: BTreeMap<_, _> =
            figures.map(|(name, value)| (name.to_owned(), spread(value))).into();
        let rounded = |figures: &_, waits| {
            per_million(figures, waits).map(|dollars| (dollars * 1_000.0).round())
        };
        // 1.2 requests, 0.01 reads, 1.1 invocations, 0.0003455 GB-s.
        assert_eq!(rounded(&figures, [0.0, 0.0]), Some(826.0));
        // And 20 ms in half a GB.
        assert_eq!(rounded(&figures, [10.0, 100.0]), Some(959.0));
        figures.remove("ingest invocations/event");
        assert_eq!(rounded(&figures, [0.0, 0.0]), None);
    }
}

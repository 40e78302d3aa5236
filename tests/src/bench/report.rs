//! A benchmark's results as a table, as JSON and as plots, compared with the bars.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use serde::Serialize;

use super::{
    figures::Spread,
    limit::Cost,
    plot::{Line, Plot},
    price::{Waits, per_million},
    process::Machine,
};

/// A figure's name and what it is over all runs.
pub type Spreads = BTreeMap<String, Spread>;

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// Runs of each mix.
    pub repeats: usize,
    /// The mixes by name, in the order in which they ran.
    pub mixes: Vec<(String, Spreads)>,
    /// What the same takes at the least.
    pub limits: BTreeMap<String, Cost>,
    /// Starts and sizes.
    pub start: Spreads,
}

/// The columns of the table: figure, head, digits.
const COLUMNS: [(&str, &str, usize); 10] = [
    ("delivered/s", "delivered/s", 0),
    ("arrival p50 ms", "p50 ms", 2),
    ("arrival p95 ms", "p95 ms", 2),
    ("arrival p99 ms", "p99 ms", 2),
    ("ingest CPU ms/event", "ingest CPU ms", 4),
    ("dispatch CPU ms/event", "dispatch CPU ms", 4),
    ("ingest peak MB", "ingest MB", 1),
    ("dispatch peak MB", "dispatch MB", 1),
    ("calls/event", "AWS calls", 3),
    ("duplicates", "duplicates", 0),
];

/// The columns of the table of `gridpost dev`.
const DEV_COLUMNS: [(&str, &str, usize); 8] = [
    ("delivered/s", "delivered/s", 0),
    ("arrival p50 ms", "p50 ms", 2),
    ("arrival p95 ms", "p95 ms", 2),
    ("arrival p99 ms", "p99 ms", 2),
    (DEV_CPU, "CPU ms", 4),
    ("dev peak MB", "MB", 1),
    ("dev ready ms", "ready ms", 0),
    ("duplicates", "duplicates", 0),
];

/// The figure that only mixes of `gridpost dev` have.
const DEV_CPU: &str = "dev CPU ms/event";

/// A bar: what it is about, its figure, its unit, the highest value that passes, the stretch.
type Bar = (&'static str, fn(&Report) -> Option<f64>, &'static str, f64, Option<f64>);

/// A plot of growth: name of the file, title, what x is, and the x of each mix.
type Growth = (&'static str, &'static str, &'static str, &'static [(f64, &'static str)]);

/// The bars that this benchmark's figures are compared with.
const BARS: [Bar; 29] = [
    (
        "dispatch: CPU per delivery against bare `reqwest`, batch 10",
        dispatch_ratio,
        "×",
        2.5,
        Some(1.5),
    ),
    (
        "ingest: CPU per event against bare parsing and sending, 100 per publish",
        ingest_ratio,
        "×",
        1.5,
        Some(1.2),
    ),
    (
        "ingest + dispatch CPU per event, one per publish",
        |r| r.both("one-backlog"),
        "ms",
        0.35,
        Some(0.20),
    ),
    (
        "ingest + dispatch CPU per event, 10 per publish",
        |r| r.both("ten-backlog"),
        "ms",
        0.10,
        Some(0.06),
    ),
    ("publish to arrival at 50/s, p50", |r| r.of("one-50", "arrival p50 ms"), "ms", 2.5, Some(1.2)),
    ("publish to arrival at 50/s, p99", |r| r.of("one-50", "arrival p99 ms"), "ms", 7.0, None),
    ("of it the driver, p50", driver_p50, "ms", f64::INFINITY, None),
    ("ingest: start to first `next`", |r| r.start("ingest start ms"), "ms", 10.0, Some(5.0)),
    ("dispatch: start to first `next`", |r| r.start("dispatch start ms"), "ms", 10.0, Some(5.0)),
    ("ingest: first call with TLS, above a later one", |r| r.first("ingest"), "ms", 5.0, Some(2.0)),
    (
        "dispatch: first call with TLS, above a later one",
        |r| r.first("dispatch"),
        "ms",
        5.0,
        Some(2.0),
    ),
    ("ingest zipped", |r| r.start("ingest zipped MB"), "MB", 4.0, Some(2.5)),
    ("dispatch zipped", |r| r.start("dispatch zipped MB"), "MB", 5.0, Some(3.5)),
    ("ingest: peak memory, 1 KiB events", |r| r.of("one", "ingest peak MB"), "MB", 24.0, None),
    ("dispatch: peak memory, 1 KiB events", |r| r.of("one", "dispatch peak MB"), "MB", 40.0, None),
    ("healthy endpoints' p99 beside a dead one, against without", neighbour_ratio, "×", 1.1, None),
    (
        "AWS calls per event, one per publish, batch 10",
        |r| r.of("one-backlog", "calls/event"),
        "",
        1.3,
        None,
    ),
    (
        "AWS calls per event, 10 per publish, batch 10",
        |r| r.of("ten-backlog", "calls/event"),
        "",
        0.4,
        None,
    ),
    (
        "dollars per million, function URL, one per publish",
        |r| r.dollars("one-backlog", Waits::NONE),
        "$",
        0.85,
        None,
    ),
    (
        "the same, SQS answering in 10 ms and endpoints in 100 ms",
        |r| r.dollars("one-backlog", Waits::USUAL),
        "$",
        f64::INFINITY,
        None,
    ),
    (
        "dollars per million, function URL, 10 per publish",
        |r| r.dollars("ten-backlog", Waits::NONE),
        "$",
        0.25,
        None,
    ),
    (
        "the same, SQS answering in 10 ms and endpoints in 100 ms",
        |r| r.dollars("ten-backlog", Waits::USUAL),
        "$",
        f64::INFINITY,
        None,
    ),
    ("DynamoDB calls per event but for reading configuration", writes, "", 0.0, None),
    ("missing events of all mixes", missing, "", 0.0, None),
    // 3,000 in a second.
    (
        "`gridpost dev`: time of a delivered event, saturated",
        |r| Some(1_000.0 / r.of("dev", "delivered/s")?),
        "ms",
        0.333,
        None,
    ),
    ("`gridpost dev`: CPU per event", |r| r.of("dev", DEV_CPU), "ms", 0.35, None),
    (
        "`gridpost dev`: publish to arrival at 50/s, p50",
        |r| r.of("dev-50", "arrival p50 ms"),
        "ms",
        5.0,
        None,
    ),
    ("`gridpost dev`: peak memory", |r| r.of("dev", "dev peak MB"), "MB", 50.0, None),
    ("`gridpost dev`: start to ready", |r| r.of("dev", "dev ready ms"), "ms", 1_000.0, None),
];

fn dispatch_ratio(report: &Report) -> Option<f64> {
    let limit = report.limits.get("reqwest at 10")?.cpu_ms;
    Some(report.of("one-backlog", "dispatch CPU ms/event")? / limit)
}

fn ingest_ratio(report: &Report) -> Option<f64> {
    // One parses a hundred events at once, the other one sends ten.
    let parse = report.limits.get("parse 100")?.cpu_ms / 100.0;
    let send = report.limits.get("send 10")?.cpu_ms / 10.0;
    Some(report.of("hundred-backlog", "ingest CPU ms/event")? / (parse + send))
}

fn driver_p50(report: &Report) -> Option<f64> {
    let to_dispatch = report.of("one-50", "driver to dispatch p50 ms")?;
    Some(report.of("one-50", "driver to ingest p50 ms")? + to_dispatch)
}

fn neighbour_ratio(report: &Report) -> Option<f64> {
    let without = report.of("neighbours", "arrival p99 ms")?;
    Some(report.of("neighbour-dead", "arrival p99 ms")? / without)
}

fn writes(report: &Report) -> Option<f64> {
    let happy = ["one-backlog", "ten-backlog", "hundred-backlog"];
    let of = |mix: &&str| {
        let (_, spreads) = report.mixes.iter().find(|(name, _)| name == mix)?;
        let written = spreads.iter().filter(|(name, _)| {
            name.starts_with("calls/event dynamodb:")
                && !name.ends_with("GetItem")
                && !name.ends_with("Query")
        });
        Some(written.map(|(_, spread)| spread.max).sum::<f64>())
    };
    happy.iter().filter_map(of).reduce(f64::max)
}

fn missing(report: &Report) -> Option<f64> {
    let missing = report.mixes.iter().filter_map(|(_, spreads)| spreads.get("missing"));
    missing.map(|spread| spread.max).reduce(f64::max)
}

impl Report {
    /// A figure's median in a mix.
    pub fn of(&self, mix: &str, figure: &str) -> Option<f64> {
        let (_, spreads) = self.mixes.iter().find(|(name, _)| name == mix)?;
        spreads.get(figure).map(|spread| spread.median)
    }

    fn both(&self, mix: &str) -> Option<f64> {
        Some(self.of(mix, "ingest CPU ms/event")? + self.of(mix, "dispatch CPU ms/event")?)
    }

    fn dollars(&self, mix: &str, waits: Waits) -> Option<f64> {
        let (_, spreads) = self.mixes.iter().find(|(name, _)| name == mix)?;
        per_million(spreads, waits)
    }

    fn start(&self, figure: &str) -> Option<f64> {
        self.start.get(figure).map(|spread| spread.median)
    }

    fn first(&self, function: &str) -> Option<f64> {
        let of = |turn| self.start(&format!("{function} {turn} ms"));
        Some(of("first")? - of("second")?)
    }

    /// All of it as Markdown.
    pub fn to_markdown(&self) -> String {
        let Machine { processor, processors, load } = &self.machine;
        let mut text = format!(
            "{processor}, {processors} processors, load {load:.1} before it began. \
             Medians of {} runs, in brackets the lowest and the highest.\n",
            self.repeats
        );
        self.write_mixes(&mut text, &COLUMNS, |spreads| !spreads.contains_key(DEV_CPU));
        self.write_mixes(&mut text, &DEV_COLUMNS, |spreads| spreads.contains_key(DEV_CPU));
        line(&mut text, "\n| limit | CPU ms | per second |\n|---|---|---|");
        for (name, cost) in &self.limits {
            line(&mut text, &format!("| {name} | {:.5} | {:.0} |", cost.cpu_ms, cost.per_second));
        }
        line(&mut text, "\n| start and size | |\n|---|---|");
        for (name, spread) in &self.start {
            line(&mut text, &format!("| {name} | {} |", written(spread, 2)));
        }
        line(&mut text, "\n| figure | bar | stretch | found | |\n|---|---|---|---|---|");
        for (about, figure, unit, bar, stretch) in BARS {
            let Some(found) = figure(self) else { continue };
            let passes = match stretch {
                Some(stretch) if found <= stretch => "stretch",
                _ if bar.is_infinite() => "",
                _ if found <= bar => "passes",
                _ => "misses",
            };
            let stretch = stretch.map_or(String::new(), |stretch| format!("≤ {stretch} {unit}"));
            let bar = if bar.is_finite() { format!("≤ {bar} {unit}") } else { String::new() };
            line(
                &mut text,
                &format!("| {about} | {bar} | {stretch} | {found:.3} {unit} | {passes} |"),
            );
        }
        text
    }

    /// The table of those mixes, where there are any.
    fn write_mixes(
        &self,
        text: &mut String,
        columns: &[(&str, &str, usize)],
        is_in: impl Fn(&Spreads) -> bool,
    ) {
        let mixes: Vec<_> = self.mixes.iter().filter(|(_, spreads)| is_in(spreads)).collect();
        if mixes.is_empty() {
            return;
        }
        let heads: Vec<_> = columns.iter().map(|(_, head, _)| *head).collect();
        line(text, &format!("\n| mix | {} |", heads.join(" | ")));
        line(text, &format!("|---|{}", "---|".repeat(columns.len())));
        for (name, spreads) in mixes {
            let cell = |(figure, _, digits): &(&str, &str, usize)| {
                spreads.get(*figure).map_or("–".to_owned(), |spread| written(spread, *digits))
            };
            let cells: Vec<_> = columns.iter().map(cell).collect();
            line(text, &format!("| {name} | {} |", cells.join(" | ")));
        }
    }

    /// Plots of growth that have data: name of the file, drawing.
    pub fn plots(&self) -> Vec<(&'static str, String)> {
        let table: [Growth; 3] = [
            (
                "events-per-publish",
                "CPU per event against events per publish",
                "events per publish",
                &[(1.0, "one-backlog"), (10.0, "ten-backlog"), (100.0, "hundred-backlog")],
            ),
            (
                "subscriptions",
                "CPU per delivered event against event subscriptions of the topic",
                "event subscriptions",
                &[(1.0, "one"), (10.0, "fan-10"), (100.0, "fan-100")],
            ),
            (
                "event-bytes",
                "CPU per event against its size",
                "bytes of an event",
                &[
                    (200.0, "bytes-200"),
                    (1_024.0, "one"),
                    (65_536.0, "bytes-64k"),
                    (1_040_384.0, "bytes-1m-queued"),
                ],
            ),
        ];
        let drawn = table.into_iter().filter_map(|(file, title, x, mixes)| {
            let lines: Vec<_> =
                ["ingest", "dispatch"].into_iter().map(|name| self.growth(name, mixes)).collect();
            let (title, x, y) = (title.to_owned(), x.to_owned(), "CPU ms per event".to_owned());
            let is_line = lines.iter().all(|line| line.points.len() > 1);
            is_line.then(|| (file, Plot { title, x, y, lines }.to_svg()))
        });
        drawn.collect()
    }

    fn growth(&self, function: &str, mixes: &[(f64, &str)]) -> Line {
        let figure = format!("{function} CPU ms/event");
        let point =
            |(x, mix): &(f64, &str)| Some((*x, self.of(mix, &figure).filter(|y| *y > 0.0)?));
        Line { name: function.to_owned(), points: mixes.iter().filter_map(point).collect() }
    }

    /// Writes the JSON to `file`, and the plots beside it.
    pub fn write(&self, file: &Path) -> anyhow::Result<()> {
        // A line for each figure.
        let json = serde_json::to_string(self)?.replace("},", "},\n");
        std::fs::write(file, json + "\n")?;
        for (name, svg) in self.plots() {
            std::fs::write(file.with_file_name(format!("{name}.svg")), svg)?;
        }
        Ok(())
    }
}

fn line(text: &mut String, added: &str) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "{added}");
}

fn written(spread: &Spread, digits: usize) -> String {
    let Spread { median, min, max } = spread;
    if min == max {
        return format!("{median:.digits$}");
    }
    format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let figures = |values: &[(&str, f64)]| -> Spreads {
            let spread = |value| Spread { median: value, min: value / 2.0, max: value };
            values.iter().map(|(name, value)| ((*name).to_owned(), spread(*value))).collect()
        };
        let cpu = |ms| figures(&[("ingest CPU ms/event", ms), ("dispatch CPU ms/event", ms / 2.0)]);
        let machine = Machine { processor: "P".to_owned(), processors: 2, load: 0.5 };
        let mixes = [("one-backlog", 0.2), ("ten-backlog", 0.1), ("hundred-backlog", 0.05)];
        let limit = Cost { cpu_ms: 0.02, per_second: 9.0 };
        Report {
            machine,
            repeats: 3,
            mixes: mixes.iter().map(|(name, ms)| ((*name).to_owned(), cpu(*ms))).collect(),
            limits: BTreeMap::from([("reqwest at 10".to_owned(), limit)]),
            start: figures(&[("ingest start ms", 12.0)]),
        }
    }

    #[test]
    fn bars_are_passed_and_missed() {
        let text = report().to_markdown();
        let rows = [
            "| one-backlog | – | – | – | – | 0.2000 (0.1000–0.2000) | 0.1000 (0.0500–0.1000) |",
            "bare `reqwest`, batch 10 | ≤ 2.5 × | ≤ 1.5 × | 5.000 × | misses |",
            "one per publish | ≤ 0.35 ms | ≤ 0.2 ms | 0.300 ms | passes |",
            "| ingest: start to first `next` | ≤ 10 ms | ≤ 5 ms | 12.000 ms | misses |",
        ];
        for row in rows {
            assert!(text.contains(row), "{row}\n{text}");
        }
        assert!(!text.contains("zipped"), "{text}");
    }

    #[test]
    fn only_what_was_measured_is_drawn() {
        let names: Vec<_> = report().plots().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["events-per-publish"]);
    }
}

//! Calls and dollars for a million delivered events: what Lambda's own lines in the logs tell of this
//! account, and for the rest what `gridpost cost` reckons.

use serde_json::{Value, json};

use crate::cost::{self, Measured, Mix, Prices};

/// Runs of a function, by Lambda's `REPORT` lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    pub count: u64,
    /// What they are billed for, in milliseconds.
    pub billed_ms: u64,
    /// The function's memory, in MB.
    pub memory_mb: u64,
}

impl Runs {
    /// Adds a run, if the line reports one.
    pub fn take(&mut self, line: &str) {
        let number = |name: &str| {
            let part = line.split('\t').find_map(|part| part.trim().strip_prefix(name))?;
            part.split_whitespace().next()?.parse::<u64>().ok()
        };
        let found =
            (line.starts_with("REPORT "), number("Billed Duration:"), number("Memory Size:"));
        if let (true, Some(billed_ms), Some(memory_mb)) = found {
            self.count += 1;
            self.billed_ms += billed_ms;
            self.memory_mb = memory_mb;
        }
    }

    fn gb_seconds(&self) -> f64 {
        self.billed_ms as f64 / 1_000.0 * self.memory_mb as f64 / 1_024.0
    }
}

/// What ran while events were delivered, and nothing else was to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub ingest: Runs,
    pub dispatch: Runs,
    pub delivered: u64,
}

/// A line of the bill.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub what: &'static str,
    pub units: f64,
    /// US dollars for a million delivered events.
    pub dollars: f64,
    pub is_measured: bool,
}

/// The bill of a mix, with what was measured of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bill {
    pub lines: Vec<Line>,
    pub prices: String,
}

impl Bill {
    /// Of that mix, and those runs where there are any.
    pub fn of(mix: &Mix, account: &Account, prices: &Prices, measured: &Measured) -> Self {
        let bill = cost::bill(mix, prices, measured);
        let per_event = |units: f64| units / account.delivered as f64;
        let known = account.delivered > 0 && account.ingest.count > 0 && account.dispatch.count > 0;
        let measured_units = |what: &str| match what {
            "invocations of ingest" => Some(per_event(account.ingest.count as f64)),
            "invocations of dispatch" => Some(per_event(account.dispatch.count as f64)),
            "GB-seconds of ingest" => Some(per_event(account.ingest.gb_seconds())),
            "GB-seconds of dispatch" => Some(per_event(account.dispatch.gb_seconds())),
            _ => None,
        };
        let line = |line: &cost::Line| match measured_units(line.what).filter(|_| known) {
            Some(units) => {
                let price = if line.what.starts_with("GB") {
                    &prices.lambda_gb_second
                } else {
                    &prices.lambda_request
                };
                let dollars = units * price.dollars_per_million;
                Line { what: line.what, units, dollars, is_measured: true }
            }
            None => Line {
                what: line.what,
                units: line.units,
                dollars: line.dollars,
                is_measured: false,
            },
        };
        let lines = bill.lines.iter().chain([&bill.logs]).map(line).collect();
        let prices = format!("{}, {}", prices.region, prices.lambda_request.as_of);
        Self { lines, prices }
    }

    /// US dollars for a million delivered events.
    pub fn total(&self) -> f64 {
        self.lines.iter().map(|line| line.dollars).sum()
    }

    /// Whether any of it was measured.
    pub fn is_measured(&self) -> bool {
        self.lines.iter().any(|line| line.is_measured)
    }

    /// It as JSON.
    pub fn document(&self) -> Value {
        let line = |line: &Line| {
            json!({
                "what": line.what, "unitsPerEvent": line.units, "dollarsPerMillion": line.dollars,
                "measured": line.is_measured,
            })
        };
        json!({
            "dollarsPerMillion": self.total(),
            "prices": self.prices,
            "lines": self.lines.iter().map(line).collect::<Value>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "REPORT RequestId: 3f25\tDuration: 10.27 ms\tBilled Duration: 11 ms\t\
        Memory Size: 512 MB\tMax Memory Used: 30 MB\tInit Duration: 40.1 ms\t\n";

    #[test]
    fn lambdas_lines_are_counted() {
        let mut runs = Runs::default();
        for line in [LINE, "START RequestId: 3f25", "{\"message\":\"REPORT\"}", "REPORT x", LINE] {
            runs.take(line);
        }
        assert_eq!(runs, Runs { count: 2, billed_ms: 22, memory_mb: 512 });
    }

    #[test]
    fn what_was_measured_takes_the_estimates_place() {
        let (prices, measured) = (Prices::current(), Measured::current());
        let mix = Mix { records_per_invocation: 1, ..Mix::default() };
        let nothing = Bill::of(&mix, &Account::default(), &prices, &measured);
        let reckoned = cost::bill(&mix, &prices, &measured);
        assert!(!nothing.is_measured());
        assert!((nothing.total() - reckoned.total() - reckoned.logs.dollars).abs() < 1e-9);

        let ingest = Runs { count: 100, billed_ms: 2_000, memory_mb: 512 };
        let dispatch = Runs { count: 50, billed_ms: 4_000, memory_mb: 1_024 };
        let account = Account { ingest, dispatch, delivered: 100 };
        let bill = Bill::of(&mix, &account, &prices, &measured);
        let units = |what: &str| {
            let line = bill.lines.iter().find(|line| line.what == what).expect("a line");
            assert!(line.is_measured, "{what}");
            line.units
        };
        for (what, want) in [
            ("invocations of ingest", 1.0),
            ("invocations of dispatch", 0.5),
            ("GB-seconds of ingest", 0.01),
            ("GB-seconds of dispatch", 0.04),
        ] {
            assert!((units(what) - want).abs() < 1e-9, "{what}: {}", units(what));
        }
        assert!(bill.lines.iter().any(|line| line.what == "SQS requests" && !line.is_measured));
    }
}

//! `gridpost cost month`: what a whole deployment costs in a month, line by line.

use std::fmt::Write;

use clap::Args;
use serde::Serialize;

use super::FRONT_DOORS;
use crate::{commands::one_of, output::Output};
use gridpost_ops::{
    cost::{
        FrontDoor, Measured, Prices, as_of,
        month::{Alarms, Estate, MonthLine, estates, month, price_of_switches, total},
        units,
    },
    failure::Misuse,
    given::count_in,
};

/// What is deployed, and what it does. Without any: an idle deployment with the module's defaults.
#[derive(Args, Debug)]
pub(super) struct MonthArguments {
    /// Topics that receive events
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = count_in::<u32>(..))]
    topics: u32,

    /// Event subscriptions that receive events
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = count_in::<u32>(..))]
    event_subscriptions: u32,

    /// Events published per month
    #[arg(long, value_name = "COUNT", default_value = "0", value_parser = count_in::<u64>(..))]
    events: u64,

    /// Event subscriptions that each event matches
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = count_in::<u32>(1..=500))]
    fan_out: u32,

    /// Additional events per second to one endpoint that never answers
    #[arg(long, value_name = "RATE", default_value_t = 0.0)]
    hanging: f64,

    /// Retry queues (retry_queue_count)
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = count_in::<u32>(1..=32))]
    retry_queues: u32,

    /// Sources made by infra/modules/aws-source, not counting their events (aws_sources)
    #[arg(long, value_name = "COUNT", default_value = "0", value_parser = count_in::<u32>(..))]
    aws_sources: u32,

    /// Alarms to include (alarms)
    #[arg(long, default_value = "pages", value_parser = one_of(ALARMS.to_vec()))]
    alarms: Alarms,

    /// Include a dashboard (dashboard)
    #[arg(long)]
    dashboard: bool,

    /// Include metrics per topic and event subscription (metrics_by_event_subscription)
    #[arg(long)]
    metrics_by_event_subscription: bool,

    /// Include latency metrics (latency_metrics)
    #[arg(long)]
    latency_metrics: bool,

    /// Include a log line for each successful attempt (log_successful_attempts)
    #[arg(long)]
    log_successful_attempts: bool,

    /// Include access logs of publishes (publish_access_logs)
    #[arg(long)]
    publish_access_logs: bool,

    /// Include X-Ray traces of the functions' invocations (tracing)
    #[arg(long)]
    tracing: bool,

    /// Your own KMS keys (kms_key_arns)
    #[arg(long, value_name = "COUNT", default_value = "0", value_parser = count_in::<u32>(..))]
    kms_keys: u32,

    /// How publishers reach ingest (publish_front_door)
    #[arg(long, default_value = "http-api", value_parser = one_of(FRONT_DOORS.to_vec()))]
    front_door: FrontDoor,
}

const ALARMS: [(&str, Alarms); 3] =
    [("none", Alarms::None), ("pages", Alarms::Pages), ("all", Alarms::All)];

/// An estimate as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MonthEstimate<'a> {
    region: &'a str,
    prices_as_of: &'a str,
    lines: &'a [MonthLine],
    dollars_per_month: f64,
}

/// Fails with [`Misuse`] when a figure is outside its range.
pub(super) fn run(
    arguments: &MonthArguments,
    prices: &Prices,
    measured: &Measured,
    output: Output,
) -> anyhow::Result<()> {
    if !(0.0..=10_000.0).contains(&arguments.hanging) {
        let hanging = arguments.hanging;
        return Err(Misuse(format!("--hanging {hanging} is out of range: 0 to 10000")).into());
    }
    let lines = month(&estate(arguments), prices, measured);
    let estimate = MonthEstimate {
        region: &prices.region,
        prices_as_of: as_of(prices),
        lines: &lines,
        dollars_per_month: total(&lines),
    };
    output.print(&estimate, |_| text(&lines, prices));
    Ok(())
}

fn estate(arguments: &MonthArguments) -> Estate {
    #[expect(clippy::cast_precision_loss, reason = "2^53 events cost more than there is money")]
    let events = arguments.events as f64;
    Estate {
        topics: f64::from(arguments.topics),
        event_subscriptions: f64::from(arguments.event_subscriptions),
        events,
        fan_out: arguments.fan_out,
        hanging: arguments.hanging,
        retry_queues: f64::from(arguments.retry_queues),
        aws_sources: f64::from(arguments.aws_sources),
        alarms: arguments.alarms,
        dashboard: arguments.dashboard,
        metrics_by_name: arguments.metrics_by_event_subscription,
        latency_metrics: arguments.latency_metrics,
        log_successes: arguments.log_successful_attempts,
        access_logs: arguments.publish_access_logs,
        tracing: arguments.tracing,
        keys: f64::from(arguments.kms_keys),
        front_door: arguments.front_door,
    }
}

fn text(lines: &[MonthLine], prices: &Prices) -> String {
    let mut text = format!("A month costs ${:.2}\n\n", total(lines));
    for line in lines {
        let _ = writeln!(text, "  {:>8.2}  {:<58} {}", line.dollars, line.what, units(line.units));
    }
    let (region, as_of) = (&prices.region, as_of(prices));
    let _ = write!(
        text,
        "\nPrices of {region}, {as_of}, without free tiers, discounts and data transfer; assumptions: \
         docs/cost.md."
    );
    text
}

pub(super) fn estates_of_page(prices: &Prices, measured: &Measured) -> String {
    let mut text = String::new();
    for (name, estate) in estates() {
        let lines = month(&estate, prices, measured);
        let _ = writeln!(text, "### {}: ${:.2}\n", capital(name), total(&lines));
        text.push_str("| what | units | dollars |\n|---|---|---|\n");
        for line in &lines {
            let _ =
                writeln!(text, "| {} | {} | {:.2} |", line.what, units(line.units), line.dollars);
        }
        text.push('\n');
    }
    text
}

fn capital(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

/// Lists what each switch adds to the first two estates.
pub(super) fn switches_of_page(prices: &Prices, measured: &Measured) -> String {
    let [idle, small] = [0, 1].map(|index| estates()[index].1.clone());
    let of = |estate| price_of_switches(estate, prices, measured);
    let mut text = String::new();
    for ((name, idle), (_, small)) in of(&idle).into_iter().zip(of(&small)) {
        let _ = writeln!(text, "| {name} | {} | {} |", signed(idle), signed(small));
    }
    text
}

/// With its sign, and without one where it is nothing.
fn signed(dollars: f64) -> String {
    let rounded = format!("{dollars:+.2}");
    if matches!(rounded.as_str(), "+0.00" | "-0.00") { "0".to_owned() } else { rounded }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        month: MonthArguments,
    }

    #[test]
    fn without_arguments_it_is_the_modules_defaults() {
        let Line { month } = Line::parse_from(["month"]);
        let one_of_each = Estate { topics: 1.0, event_subscriptions: 1.0, ..Estate::default() };
        assert_eq!(estate(&month), one_of_each);
    }
}

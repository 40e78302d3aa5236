//! `gridpost cost`: what a million delivered events cost, beside other services. Works offline, from a
//! price list and measured figures that are part of the program.

pub(crate) mod month;

use std::fmt::Write;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::{commands::one_of, output::Output};
use gridpost_ops::{
    cost::{Bill, FrontDoor, Line, Measured, Mix, Peer, Prices, as_of, bill, peers},
    failure::Misuse,
    given::{TimeSpan, count_in, span_or_milliseconds},
};

/// What is published and delivered, and how.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CostArguments {
    #[command(subcommand)]
    of: Option<CostCommand>,

    /// Events in each publish
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = count_in::<u32>(1..=5_000))]
    events_per_publish: u32,

    /// Event subscriptions that each event matches
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = count_in::<u32>(1..=500))]
    fan_out: u32,

    /// Maximum number of events in a request to an endpoint (maxEventsPerBatch)
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = count_in::<u32>(1..=5_000))]
    events_per_request: u32,

    /// Records in each invocation of dispatch: 10 under load, 1 below about ten events a second
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count_in::<u32>(1..=10))]
    records_per_invocation: u32,

    /// Size of each event in bytes
    #[arg(long, value_name = "BYTES", default_value = "1024", value_parser = count_in::<u32>(1..=1_048_576))]
    event_bytes: u32,

    /// Percentage of requests that fail once and succeed when retried
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    failing: f64,

    /// How publishers reach ingest (publish_front_door)
    #[arg(long, default_value = "http-api", value_parser = one_of(FRONT_DOORS.to_vec()))]
    front_door: FrontDoor,

    /// Memory of ingest in MB
    #[arg(long, value_name = "MB", default_value = "512", value_parser = count_in::<u32>(128..=10_240))]
    ingest_memory: u32,

    /// Memory of dispatch in MB
    #[arg(long, value_name = "MB", default_value = "512", value_parser = count_in::<u32>(128..=10_240))]
    dispatch_memory: u32,

    /// How long ingest waits for SQS; a bare number is milliseconds
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = span_or_milliseconds)]
    sqs_ms: TimeSpan,

    /// How long an invocation of dispatch waits for its slowest endpoint; a bare number is milliseconds
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = span_or_milliseconds)]
    endpoint_ms: TimeSpan,

    /// Print docs/cost.md instead of an estimate
    #[arg(long, exclusive = true)]
    page: bool,
}

#[derive(Debug, Subcommand)]
enum CostCommand {
    /// Estimate a deployment's monthly bill line by line, idle or with traffic
    Month(month::MonthArguments),
}

const FRONT_DOORS: [(&str, FrontDoor); 2] =
    [("http-api", FrontDoor::HttpApi), ("function-url", FrontDoor::FunctionUrl)];

/// The page as JSON.
#[derive(Serialize)]
struct Page {
    page: String,
}

/// An estimate as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Estimate<'a> {
    region: &'a str,
    prices_as_of: &'a str,
    measured_on: &'a str,
    lines: &'a [Line],
    dollars_per_million: f64,
    logs: &'a Line,
    others: &'a [Peer],
}

/// Fails with [`Misuse`] when a figure is outside its range.
pub fn run(arguments: &CostArguments, output: Output) -> anyhow::Result<()> {
    let (prices, measured) = (Prices::current(), Measured::current());
    if let Some(CostCommand::Month(arguments)) = &arguments.of {
        return month::run(arguments, &prices, &measured, output);
    }
    if arguments.page {
        output.print(&Page { page: page(&prices, &measured) }, |page| page.page.clone());
        return Ok(());
    }
    let mix = mix(arguments)?;
    let bill = bill(&mix, &prices, &measured);
    let estimate = Estimate {
        region: &prices.region,
        prices_as_of: as_of(&prices),
        measured_on: &measured.on,
        lines: &bill.lines,
        dollars_per_million: bill.total(),
        logs: &bill.logs,
        others: &peers(&mix, &prices),
    };
    output.print(&estimate, |_| text(&mix, &bill, &prices, &measured));
    Ok(())
}

fn mix(arguments: &CostArguments) -> Result<Mix, Misuse> {
    let refuse = |name: &str, value: f64, range: &str| {
        Err(Misuse(format!("--{name} {value} is out of range: {range}")))
    };
    if !(0.0..=100.0).contains(&arguments.failing) {
        return refuse("failing", arguments.failing, "0 to 100 percent");
    }
    let ms = |span: TimeSpan| span.0.as_secs_f64() * 1_000.0;
    let (sqs_ms, endpoint_ms) = (ms(arguments.sqs_ms), ms(arguments.endpoint_ms));
    for (name, value) in [("sqs-ms", sqs_ms), ("endpoint-ms", endpoint_ms)] {
        if !(0.0..=900_000.0).contains(&value) {
            return refuse(name, value, "0 to 900000 ms, the longest that a function runs");
        }
    }
    Ok(Mix {
        events_per_publish: arguments.events_per_publish,
        fan_out: arguments.fan_out,
        events_per_request: arguments.events_per_request,
        records_per_invocation: arguments.records_per_invocation,
        event_bytes: arguments.event_bytes,
        failing: arguments.failing / 100.0,
        front_door: arguments.front_door,
        ingest_mb: arguments.ingest_memory,
        dispatch_mb: arguments.dispatch_memory,
        sqs_ms,
        endpoint_ms,
    })
}

fn text(mix: &Mix, bill: &Bill, prices: &Prices, measured: &Measured) -> String {
    let mut text = format!("A million delivered events cost ${:.2}\n\n", bill.total());
    for line in bill.lines.iter().filter(|line| line.units > 0.0) {
        let _ =
            writeln!(text, "  {:>6.2}  {:<26} {:.4} an event", line.dollars, line.what, line.units);
    }
    let _ = writeln!(text, "\nand ${:.2} of logs, at most. Others ask:", bill.logs.dollars);
    for peer in peers(mix, prices) {
        let _ = writeln!(text, "  {:>6.2}  {}", peer.dollars, peer.name);
    }
    let (region, as_of) = (&prices.region, as_of(prices));
    let _ = write!(
        text,
        "\nPrices of {region}, {as_of}, without free tiers and data transfer; processor time: {}.",
        measured.on,
    );
    text
}

fn mixes() -> Vec<(&'static str, Mix)> {
    let usual = Mix::default();
    let ten = Mix { events_per_publish: 10, ..usual.clone() };
    vec![
        (
            "one event per publish, one record per invocation",
            Mix { records_per_invocation: 1, ..usual.clone() },
        ),
        ("one event per publish", usual.clone()),
        ("ten events per publish", ten.clone()),
        ("a hundred events per publish", Mix { events_per_publish: 100, ..usual.clone() }),
        ("ten events per publish, ten per request", Mix { events_per_request: 10, ..ten.clone() }),
        ("one event to five subscriptions", Mix { fan_out: 5, ..usual.clone() }),
        ("64 KB events", Mix { event_bytes: 65_536, ..usual.clone() }),
        ("5 % of requests fail once", Mix { failing: 0.05, ..usual.clone() }),
        ("functions of 256 MB", Mix { ingest_mb: 256, dispatch_mb: 256, ..usual.clone() }),
        ("endpoints that take a second", Mix { endpoint_ms: 1_000.0, ..usual }),
    ]
}

/// The page `docs/cost.md`.
fn page(prices: &Prices, measured: &Measured) -> String {
    let mut page = String::from(include_str!("cost/page.md"));
    let mut table = String::new();
    for (name, mix) in mixes() {
        let by = |front_door| bill(&Mix { front_door, ..mix.clone() }, prices, measured);
        let (api, url) = (by(FrontDoor::HttpApi), by(FrontDoor::FunctionUrl));
        let [event_bridge, sns, event_grid] = peers(&mix, prices).map(|peer| peer.dollars);
        let _ = writeln!(
            table,
            "| {name} | {:.2} | **{:.2}** | {:.2} | {event_bridge:.2} | {sns:.2} | {event_grid:.2} |",
            api.total(),
            url.total(),
            url.logs.dollars,
        );
    }
    let mut lines = String::new();
    let usual = Mix { front_door: FrontDoor::FunctionUrl, ..Mix::default() };
    let ten = Mix { events_per_publish: 10, ..usual.clone() };
    let (usual, ten) = (bill(&usual, prices, measured), bill(&ten, prices, measured));
    for (one, ten) in usual.lines.iter().zip(&ten.lines).filter(|(one, _)| one.units > 0.0) {
        let _ = writeln!(
            lines,
            "| {} | {:.4} | {:.3} | {:.4} | {:.3} |",
            one.what, one.units, one.dollars, ten.units, ten.dollars,
        );
    }
    let mut list = String::new();
    for price in prices.all() {
        let dollars = price.dollars_per_million;
        let _ =
            writeln!(list, "| {} | {dollars} | {} | {} |", price.unit, price.as_of, price.source);
    }
    for (mark, text) in [
        ("{mixes}", table.trim_end()),
        ("{lines}", lines.trim_end()),
        ("{estates}", month::estates_of_page(prices, measured).trim_end()),
        ("{switches}", month::switches_of_page(prices, measured).trim_end()),
        ("{prices}", list.trim_end()),
        ("{keyed}", &format!("{:.2}", 2.0 * prices.dynamo_db_write.dollars_per_million)),
        ("{region}", &prices.region),
        ("{measured}", &measured.on),
    ] {
        page = page.replace(mark, text);
    }
    page.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_command_prints() {
        let page = page(&Prices::current(), &Measured::current());
        assert!(!page.contains('{'), "a mark was left: {page}");
        let kept = include_str!("../../../docs/cost.md").trim_end();
        assert_eq!(
            kept, page,
            "write it anew: cargo run -q --bin gridpost -- cost --page > docs/cost.md"
        );
    }
}

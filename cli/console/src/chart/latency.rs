//! How long events took, as far as the ledger's buckets tell: percentiles on a strip, and a heat map by
//! the time of publish.

use std::time::Duration;

use maud::{Markup, html};

use super::{Kind, bars, dot};
use crate::text::{bound, bounds, number, visible};
use bars::{Series, Span};
use gridpost_api::journal::latency::PERCENTS;
use gridpost_core::ledger::{BOUNDS_MS, Latencies, Latency};
use gridpost_core::time::Timestamp;

/// Buckets: one more than bounds.
const ROWS: usize = BOUNDS_MS.len() + 1;

/// Shares of a step's events, from which a cell is darker, with the opacity.
const SHADES: [(f64, &str); 5] =
    [(0.5, "1"), (0.2, ".72"), (0.06, ".48"), (0.015, ".28"), (0.0, ".14")];

fn bucket(latency: Latency) -> usize {
    match latency {
        Latency::AtMost(millis) => BOUNDS_MS.partition_point(|bound| *bound < millis),
        Latency::Above(_) => ROWS - 1,
    }
}

/// The bucket's name: its bound.
fn name(bucket: usize) -> String {
    let last = Latency::Above(BOUNDS_MS[BOUNDS_MS.len() - 1]);
    bound(BOUNDS_MS.get(bucket).map_or(last, |bound| Latency::AtMost(*bound)))
}

/// The percentiles, and where they are between all bounds; nothing without events.
pub(crate) fn strip(latencies: &Latencies) -> Markup {
    let kinds = PERCENTS.into_iter().zip([Kind::Ok, LINE, Kind::Acc]);
    let found: Vec<_> = kinds
        .filter_map(|(percent, kind)| Some((percent, kind, latencies.percentile(percent)?)))
        .collect();
    let x = |latency| format!("{:.1}%", 100.0 * bucket(latency) as f64 / (ROWS - 1) as f64);
    html! {
        @if let Some((_, _, first)) = found.first() {
            ul.key {
                @for (percent, kind, latency) in &found {
                    li { (dot(*kind)) "p" (percent) " " b.n { (bound(*latency)) } }
                }
            }
            svg.tl height="24" aria-hidden="true" {
                rect.f-sunk y="4" width="100%" height="6" rx="3" {}
                rect.f-ok y="4" width=(x(*first)) height="6" rx="3" {}
                @for (_, kind, latency) in found.iter().rev() {
                    rect class={ "f-" (kind.name()) } x=(x(*latency)) width="3" height="14" rx="1.5"
                        transform="translate(-1.5)" {}
                }
            }
        }
    }
}

/// The percentile of the line, which has the same colour on the strip.
const PERCENT: u32 = 95;
const LINE: Kind = Kind::Warn;

/// Latencies over the time.
pub(crate) struct Heat<'a> {
    pub(crate) label: &'a str,
    /// By step. A step without events is not drawn.
    pub(crate) columns: &'a [Latencies],
    pub(crate) begins: Timestamp,
    pub(crate) step: Duration,
}

/// The height of a bucket's upper bound; a bucket is 10 high.
fn bound_y(bucket: usize) -> usize {
    (ROWS - 1 - bucket) * 10
}

/// The cells of one shade, as one path.
fn cells(columns: &[Latencies], shade: usize) -> String {
    let mut path = String::new();
    for (step, column) in columns.iter().enumerate() {
        let events = column.events() as f64;
        for (bucket, count) in column.counts().iter().enumerate().filter(|(_, count)| **count > 0) {
            let share = *count as f64 / events;
            if SHADES.iter().position(|(from, _)| share > *from) == Some(shade) {
                path += &format!("M{} {}h9.4v9h-9.4z", step * 10, bound_y(bucket));
            }
        }
    }
    path
}

impl Heat<'_> {
    fn span(&self) -> Span {
        Span { begins: self.begins, step: self.step, steps: self.columns.len() }
    }

    /// Draws how many of each step's events took how long: darker where more of them did.
    pub(crate) fn picture(&self) -> Markup {
        let Heat { label, columns, .. } = self;
        let span = self.span().rounded();
        let (width, height) = (span.steps.max(1) * 10, ROWS * 10);
        let height_of = |latency| bound_y(bucket(latency)) as f64;
        let line: Vec<_> =
            columns.iter().map(|one| one.percentile(PERCENT).map(height_of)).collect();
        let line = super::line(&line, 10);
        let plot = html! {
            div.plot {
                // At the bounds, which lie between the rows.
                ol.y aria-hidden="true" {
                    li { "more" }
                    @for bucket in (0..ROWS - 1).rev() { li { (name(bucket).trim_start_matches("≤ ")) } }
                    li { "0" }
                }
                svg viewBox={ "0 0 " (width) " " (height) } preserveAspectRatio="none" role="img"
                    aria-label={ (visible(label)) "; the line is p" (PERCENT) ". The table has percentiles." } {
                    rect.f-sunk width=(width) height=(height) {}
                    @for (shade, (_, opacity)) in SHADES.iter().enumerate() {
                        @let path = cells(columns, shade);
                        @if !path.is_empty() { path.f-acc fill-opacity=(opacity) d=(path) {} }
                    }
                    @if !line.is_empty() { path class={ "ln f-" (LINE.name()) } d=(line) {} }
                }
                (span.labels())
            }
        };
        let row = |bucket: usize| columns.iter().map(|column| column.counts()[bucket]).collect();
        let series = (0..ROWS).map(|bucket| Series::of(Kind::Acc, &name(bucket), row(bucket)));
        let series: Vec<_> = series.collect();
        bars::figure(label, span, &series, &plot)
    }

    /// Lists the percentiles by step, to be unfolded.
    pub(crate) fn table(&self) -> Markup {
        let percents = PERCENTS.map(|percent| format!("p{percent}"));
        let head: Vec<_> = ["Events".to_owned()].into_iter().chain(percents).collect();
        let row = |column: &Latencies| {
            [number(column.events())].into_iter().chain(bounds(column)).collect()
        };
        let rows: Vec<_> = self.columns.iter().map(row).collect();
        bars::table(self.label, self.span(), &head, &rows)
    }
}

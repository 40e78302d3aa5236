//! How long events took, as far as the ledger's buckets tell: percentiles on a strip, and a heat map by
//! the time of publish.

use std::time::Duration;

use maud::{Markup, html};

use super::{Kind, bars, spoken};
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

/// Buckets between two texts that have room beside each other on a phone.
const NEAR: usize = 4;

/// The percentiles on a line with all bounds; nothing without events.
pub(crate) fn strip(latencies: &Latencies) -> Markup {
    let kinds = [Kind::Ok, Kind::Acc, Kind::Warn];
    let found: Vec<_> = PERCENTS
        .into_iter()
        .zip(kinds)
        .filter_map(|(percent, kind)| Some((percent, kind, latencies.percentile(percent)?)))
        .collect();
    let groups: Vec<_> = found.chunk_by(|one, next| one.2 == next.2).collect();
    let at = |group: usize| groups.get(group).map(|same| bucket(same[0].2));
    // On a phone, texts of places that are so near would be written over each other.
    let is_near = |one: Option<usize>, next: Option<usize>| {
        one.zip(next).is_some_and(|(one, next)| next - one < NEAR)
    };
    // Beside the first and the last there is room for a text.
    let x = |bucket: usize| format!("{:.1}%", 15.0 + 73.0 * bucket as f64 / (ROWS - 1) as f64);
    let label = found.iter().map(|(percent, _, latency)| format!("p{percent} {}", bound(*latency)));
    html! {
        @if let Some((_, _, first)) = found.first() {
            svg.tl height="60" role="img" aria-label=(spoken(label)) {
                rect.f-sunk x="0" y="20" width="100%" height="6" rx="3" {}
                rect.f-ok x="0" y="20" width=(x(bucket(*first))) height="6" rx="3" {}
                @for (group, same) in groups.iter().enumerate() {
                    @let (_, kind, latency) = same[same.len() - 1];
                    @let x = x(bucket(latency));
                    @let follows = group > 0 && is_near(at(group - 1), at(group));
                    @let (lower, anchor) = match (follows, is_near(at(group), at(group + 1))) {
                        (false, false) => (false, "middle"),
                        (false, true) => (false, "end"),
                        (true, true) => (true, "middle"),
                        (true, false) => (false, "start"),
                    };
                    @let names: Vec<_> = same.iter().map(|(percent, ..)| percent.to_string()).collect();
                    rect class={ "f-" (kind.name()) } x=(x) y="16" width="3" height="14" rx="1.5"
                        transform="translate(-1.5)" {}
                    text.b x=(x) y="11" text-anchor=(anchor) { "p" (names.join("/")) }
                    text x=(x) y=(if lower { 56 } else { 44 }) text-anchor=(anchor) { (bound(latency)) }
                }
            }
        }
    }
}

/// The percentile of the line.
const PERCENT: u32 = 95;

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

/// The line of the percentile, broken where there is none.
fn line(columns: &[Latencies]) -> String {
    let mut path = String::new();
    let mut last = None;
    for (step, column) in columns.iter().enumerate() {
        let found = column.percentile(PERCENT);
        if let Some(latency) = found {
            let by = if last.is_some() { 'L' } else { 'M' };
            path += &format!("{by}{} {}h10", step * 10, bound_y(bucket(latency)));
        }
        last = found;
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
        let (width, height) = (columns.len().max(1) * 10, ROWS * 10);
        let line = line(columns);
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
                    @if !line.is_empty() { path.ln.s-warn d=(line) {} }
                }
                (self.span().labels())
            }
        };
        let row = |bucket: usize| columns.iter().map(|column| column.counts()[bucket]).collect();
        let series = (0..ROWS).map(|bucket| Series::of(Kind::Acc, &name(bucket), row(bucket)));
        let series: Vec<_> = series.collect();
        bars::figure(label, self.span(), &series, &plot)
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

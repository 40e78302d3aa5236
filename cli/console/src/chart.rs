//! Pictures as SVG: functions from numbers to markup. Positions are in per cent or in units of a view box
//! that is stretched, with the labels around it, so no text is ever scaled. Each says in words what it
//! shows or has the numbers beside it.

mod axis;
mod bars;
mod flow;
mod lanes;
mod latency;
#[cfg(test)]
mod tests;

use std::time::Duration;

use maud::{Markup, html};

use super::text::{number, visible};
use gridpost_ops::schedule::hours;

pub(super) use axis::{Mark, Point, axis};
pub(super) use bars::{Bars, Series, hour, minibars};
pub(super) use flow::{Source, flow};
pub(super) use lanes::{Attempt, Coming, Lane, lanes, waterfall};
pub(super) use latency::{Heat, strip};

/// What a colour says; words beside it say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ok,
    Warn,
    Bad,
    Dead,
    Mute,
    Off,
    Acc,
}

impl Kind {
    /// Returns the ending of its classes: `f-` colours an area or a line, `t-` a text.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
            Self::Dead => "dead",
            Self::Mute | Self::Off => "mute",
            Self::Acc => "acc",
        }
    }
}

/// Writes a time as people do: `41 ms`, `1.2 s`, `3 h 20 min`.
pub(super) fn duration(took: Duration) -> String {
    if took < Duration::from_secs(1) { format!("{} ms", took.as_millis()) } else { hours(took) }
}

/// Joins what a picture shows for those who don't see it.
fn spoken(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().collect::<Vec<_>>().join(", ")
}

/// A line over steps that are so wide: the height of each, if it is known.
fn line(steps: &[Option<f64>], width: usize) -> String {
    let mut path = String::new();
    let mut last = None;
    for (step, y) in steps.iter().enumerate() {
        if let Some(y) = y {
            let by = if last.is_some() { 'L' } else { 'M' };
            path += &format!("{by}{} {y:.1}h{width}", step * width);
        }
        last = *y;
    }
    path
}

/// The least height of a spark's scale: a few events are no mountain.
const SPARK_LEAST: u64 = 4;

/// A line over the time with the area below it. Steps that are not known are not drawn.
pub(super) fn spark(values: &[Option<u64>], kind: Kind) -> Markup {
    let highest = values.iter().flatten().max().copied().unwrap_or(0).max(SPARK_LEAST) as f64;
    let y = |value: u64| 27.0 - 25.0 * (value as f64 / highest);
    let steps: Vec<_> = values.iter().map(|value| value.map(y)).collect();
    let area = |(step, y): (usize, &Option<f64>)| y.map(|y| format!("M{step} 28V{y:.1}h1V28z"));
    let area: String = steps.iter().enumerate().filter_map(area).collect();
    html! {
        @if !area.is_empty() {
            svg.spark viewBox={ "0 0 " (steps.len()) " 28" } preserveAspectRatio="none" aria-hidden="true" {
                path class={ "f-" (kind.name()) } fill-opacity=".16" d=(area) {}
                path class={ "ln f-" (kind.name()) } d=(line(&steps, 1)) {}
            }
        }
    }
}

/// A colour beside its name.
pub(super) fn dot(kind: Kind) -> Markup {
    html! {
        svg class={ "dot f-" (kind.name()) } viewBox="0 0 9 9" aria-hidden="true" {
            rect width="9" height="9" rx="2" {}
        }
    }
}

/// Names the colours of a picture, with their sums where they are known.
pub(super) fn legend(items: &[(Kind, &str, Option<u64>)]) -> Markup {
    html! {
        ul.key {
            @for (kind, name, count) in items {
                @let count = count.map(number);
                li { (dot(*kind)) (visible(name)) @if let Some(count) = count { " " b.n { (count) } } }
            }
        }
    }
}

/// The shares of a whole in one bar. A part that counts anything is seen; one without a name is not told.
pub(super) fn mini(parts: &[(Kind, u64, &str)]) -> Markup {
    let parts: Vec<_> = parts.iter().filter(|(_, count, _)| *count > 0).collect();
    let sum: f64 = parts.iter().map(|(_, count, _)| *count as f64).sum();
    let widths: Vec<_> =
        parts.iter().map(|(_, count, _)| (*count as f64 / sum).max(0.012)).collect();
    let whole: f64 = widths.iter().sum();
    let named = parts.iter().filter(|(_, _, name)| !name.is_empty());
    let told =
        spoken(named.map(|(_, count, name)| format!("{} {}", visible(name), number(*count))));
    let mut x = 0.0;
    html! {
        svg.mini viewBox="0 0 100 6" preserveAspectRatio="none" role="img"
            aria-label=(if told.is_empty() { "nothing" } else { &told }) {
            @for ((kind, ..), width) in parts.iter().zip(widths) {
                @let (begin, width) = (x, 100.0 * width / whole);
                @let () = x += width;
                @let [x, width] = [begin, width].map(|share| format!("{share:.1}"));
                rect class={ "f-" (kind.name()) } x=(x) width=(width) height="6" {}
            }
        }
    }
}

/// A row of a breakdown: its name, its count, and the page about it.
pub(super) type Row = (Kind, String, u64, Option<String>);

/// Names with their counts, each above a bar; the longest bar has the whole width.
pub(super) fn breakdown(rows: &[Row]) -> Markup {
    let highest = rows.iter().map(|(_, _, count, _)| *count).max().unwrap_or(0).max(1) as f64;
    let content = |(kind, name, count, _): &Row| {
        let width = format!("{:.1}", (100.0 * (*count as f64 / highest)).max(0.6));
        html! {
            span.cut title=(visible(name)) { (visible(name)) }
            b.n { (number(*count)) }
            svg.mini viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" {
                @if *count > 0 { rect class={ "f-" (kind.name()) } width=(width) height="6" {} }
            }
        }
    };
    html! {
        ul.hb {
            @for row in rows {
                li { @if let Some(url) = &row.3 { a href=(url) { (content(row)) } } @else { (content(row)) } }
            }
        }
    }
}

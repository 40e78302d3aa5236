//! Points on an axis of time whose beginning is stretched: early seconds get as much room as later hours.

use std::time::Duration;

use maud::{Markup, html};

use super::{Kind, duration};
use crate::text::visible;

/// The shortest axis, in seconds.
pub(super) const LEAST: f64 = 10.0;

/// Marks below the axis, in seconds.
const TICKS: [u32; 12] =
    [0, 1, 10, 60, 300, 1_800, 7_200, 28_800, 86_400, 172_800, 345_600, 604_800];

/// Least distance of two names below the axis, in per cent.
const APART: f64 = 9.0;

/// How a point is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Something that happened.
    Dot(Kind),
    /// The next attempt: hollow.
    Next,
    /// The end: a bar.
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// Seconds since the beginning.
    pub(crate) at: f64,
    pub(crate) mark: Mark,
    /// Above the point where there is room; may be empty, as in lanes.
    pub(crate) label: String,
    pub(crate) told: String,
}

/// Returns the position of a time on an axis of that length, in per cent: the first minutes get as much
/// room as the last hours.
pub(super) fn place(at: f64, longest: f64) -> f64 {
    let share = (1.0 + at.max(0.0)).ln() / (1.0 + longest.max(1.0)).ln();
    2.0 + share.min(1.0) * 96.0
}

pub(super) fn percent(place: f64) -> String {
    format!("{place:.2}%")
}

/// Returns the length that shows all points.
pub(super) fn length<'a>(points: impl IntoIterator<Item = &'a Point>) -> f64 {
    points.into_iter().map(|point| point.at).fold(LEAST, f64::max)
}

/// Writes what a point says and when.
fn told(point: &Point) -> String {
    let at = Duration::try_from_secs_f64(point.at.max(0.0)).unwrap_or(Duration::MAX);
    format!("{} at {}", visible(&point.told), duration(at))
}

/// The points in the order of time, each with its title, on a line at that height, and what is below them.
fn drawn(name: &str, points: &[Point], longest: f64, size: (u32, u32), below: &Markup) -> Markup {
    let (height, y) = size;
    let mut points: Vec<_> = points.iter().collect();
    points.sort_by(|one, other| one.at.total_cmp(&other.at));
    let all: Vec<_> = points.iter().map(|point| told(point)).collect();
    let mut free = f64::MIN;
    html! {
        svg.tl height=(height) role="img" aria-label={ (visible(name)) ": " (all.join("; ")) } {
            (below)
            line.s-line x1="2%" x2="98%" y1=(y) y2=(y) stroke-width="2" {}
            @for (point, told) in points.iter().zip(&all) {
                @let place = place(point.at, longest);
                @let x = percent(place);
                @let half = 1.0 + 0.8 * point.label.chars().count() as f64;
                g {
                    title { (told) }
                    @match point.mark {
                        Mark::Dot(kind) => circle class={ "f-" (kind.name()) } cx=(x) cy=(y) r="6" {},
                        Mark::Next => circle.hol cx=(x) cy=(y) r="6" {},
                        Mark::End => (end(&x, y)),
                    }
                    @if !point.label.is_empty() && place - half >= free {
                        @let () = free = place + half;
                        text.b x=(x) y=(y.saturating_sub(12)) text-anchor="middle" { (visible(&point.label)) }
                    }
                }
            }
        }
    }
}

pub(super) fn end(x: &str, y: u32) -> Markup {
    html! {
        rect.f-dead x=(x) y=(y.saturating_sub(9)) width="4" height="18" rx="2"
            transform="translate(-2)" {}
    }
}

fn ticks(longest: f64, y: u32) -> Markup {
    let mut free = f64::MIN;
    html! {
        @for seconds in TICKS.into_iter().filter(|seconds| f64::from(*seconds) <= longest) {
            @let place = place(seconds.into(), longest);
            @if place >= free {
                @let () = free = place + APART;
                @let x = percent(place);
                line.s-line x1=(x) x2=(x) y1=(y) y2=(y + 8) {}
                text x=(x) y=(y + 22) text-anchor="middle" {
                    @match seconds {
                        0 => "0",
                        1..=86_400 => (duration(Duration::from_secs(seconds.into()))),
                        _ => { (seconds / 86_400) " d" }
                    }
                }
            }
        }
    }
}

/// Returns where the line of the present is, if it is on the axis.
fn present(now: Option<f64>, longest: f64) -> Option<String> {
    now.filter(|now| *now <= longest).map(|now| percent(place(now, longest)))
}

/// Points with their labels, above the names of times.
pub(crate) fn axis(name: &str, points: &[Point]) -> Markup {
    let longest = length(points);
    drawn(name, points, longest, (66, 32), &ticks(longest, 32))
}

/// The axis alone, above lines that have no names of times.
pub(super) fn head(longest: f64, now: Option<f64>) -> Markup {
    html! {
        svg.tl height="44" aria-hidden="true" {
            line.s-line x1="2%" x2="98%" y1="18" y2="18" stroke-width="2" {}
            (ticks(longest, 18))
            @if let Some(x) = present(now, longest) {
                line.s-ink x1=(x) x2=(x) y1="12" y2="26" {}
                text.b x=(x) y="8" text-anchor="middle" { "now" }
            }
        }
    }
}

/// The points alone, on an axis of that length.
pub(super) fn bare(name: &str, points: &[Point], longest: f64, now: Option<f64>) -> Markup {
    let now = present(now, longest);
    let now = html! { @if let Some(x) = now { line.s-ink x1=(x) x2=(x) y1="-14" y2="40" {} } };
    drawn(name, points, longest, (26, 13), &now)
}

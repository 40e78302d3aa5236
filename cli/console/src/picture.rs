//! Pictures as SVG: points on an axis of time whose beginning is stretched, and bars by hour. Each has
//! the table of its numbers beside it, so a picture tells nothing that text does not.

use std::time::Duration;

use maud::{Markup, html};

use gridpost_ops::schedule::hours;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 20.0;
const RIGHT: f64 = 880.0;
const LINE: f64 = 60.0;

/// Marks below the axis: seconds and their names.
const TICKS: [(f64, &str); 12] = [
    (1.0, "1 s"),
    (10.0, "10 s"),
    (60.0, "1 min"),
    (300.0, "5 min"),
    (1_800.0, "30 min"),
    (3_600.0, "1 h"),
    (10_800.0, "3 h"),
    (43_200.0, "12 h"),
    (86_400.0, "1 d"),
    (172_800.0, "2 d"),
    (345_600.0, "4 d"),
    (604_800.0, "7 d"),
];

/// Least distance of two names below the axis.
const APART: f64 = 55.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Failed,
    Delivered,
    Next,
    End,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Self::Failed => "s-bad",
            Self::Delivered => "s-good",
            Self::Next => "s-next",
            Self::End => "s-end",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Point {
    /// Seconds since the beginning.
    pub(super) at: f64,
    pub(super) kind: Kind,
    pub(super) label: String,
    pub(super) told: String,
}

/// Returns the position of a time on an axis of that length: the first minutes get as much room as
/// the last hours.
fn place(at: f64, longest: f64) -> f64 {
    let share = (1.0 + at.max(0.0)).ln() / (1.0 + longest.max(1.0)).ln();
    LEFT + share.min(1.0) * (RIGHT - LEFT)
}

fn coordinate(value: f64) -> String {
    format!("{value:.1}")
}

pub(super) fn timeline(name: &str, points: &[Point]) -> Markup {
    let longest = points.iter().map(|point| point.at).fold(10.0, f64::max);
    let mut last = f64::MIN;
    let ticks: Vec<_> = TICKS
        .iter()
        .map(|(seconds, name)| (place(*seconds, longest), *seconds, *name))
        .filter(|(x, seconds, _)| {
            let fits = *seconds <= longest && *x - last >= APART;
            if fits {
                last = *x;
            }
            fits
        })
        .collect();
    let mut labelled = f64::MIN;
    html! {
        svg viewBox="0 0 900 100" role="img" aria-label={ (name) ". The table has the same." } {
            line.axis x1="20" y1="60" x2="880" y2="60" {}
            text x="16" y="90" { "0" }
            @for (x, _, name) in ticks {
                line.axis x1=(coordinate(x)) y1="60" x2=(coordinate(x)) y2="68" {}
                text x=(coordinate(x)) y="90" text-anchor="middle" { (name) }
            }
            @for point in points {
                @let x = place(point.at, longest);
                g {
                    title { (point.told) " at " (hours(Duration::from_secs_f64(point.at.max(0.0)))) }
                    @if point.kind == Kind::End {
                        rect.s-end x=(coordinate(x - 4.0)) y="46" width="8" height="28" {}
                    } @else {
                        circle class=(point.kind.class()) cx=(coordinate(x)) cy=(coordinate(LINE)) r="7" {}
                    }
                    @if x - labelled >= 24.0 {
                        @let () = labelled = x;
                        text x=(coordinate(x)) y="36" text-anchor="middle" { (point.label) }
                    }
                }
            }
        }
    }
}

/// An hour's bar: its name, and what it is made of from below.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) name: String,
    /// Counts with the classes of their colours.
    pub(super) parts: Vec<(u64, &'static str)>,
    pub(super) told: String,
}

/// Bars beside each other, the highest as high as the picture.
pub(super) fn bars(name: &str, bars: &[Bar]) -> Markup {
    let height = |bar: &Bar| bar.parts.iter().map(|(count, _)| count).sum::<u64>();
    let highest = bars.iter().map(height).max().unwrap_or(0).max(1);
    #[expect(clippy::cast_precision_loss, reason = "a picture is not that fine")]
    let (width, scale) = ((RIGHT - LEFT) / bars.len().max(1) as f64, 120.0 / highest as f64);
    let every = bars.len().div_ceil(12).max(1);
    html! {
        svg viewBox="0 0 900 170" role="img" aria-label={ (name) ". The table has the same." } {
            line.axis x1="20" y1="140" x2="880" y2="140" {}
            @for (index, bar) in bars.iter().enumerate() {
                @let x = LEFT + width * small(index);
                g {
                    title { (bar.told) }
                    @for (y, height, class) in stacked(bar, scale) {
                        rect class=(class) x=(coordinate(x + 1.0)) y=(coordinate(y))
                            width=(coordinate((width - 2.0).max(1.0))) height=(coordinate(height)) {}
                    }
                    @if index.is_multiple_of(every) { text x=(coordinate(x)) y="160" { (bar.name) } }
                }
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "there are hours, not years")]
fn small(index: usize) -> f64 {
    index as f64
}

/// The rectangles of a bar: top, height, class.
#[expect(clippy::cast_precision_loss, reason = "a picture is not that fine")]
fn stacked(bar: &Bar, scale: f64) -> Vec<(f64, f64, &'static str)> {
    let mut top = 140.0;
    let mut found = Vec::new();
    for (count, class) in &bar.parts {
        let height = *count as f64 * scale;
        top -= height;
        if height > 0.0 {
            found.push((top, height, *class));
        }
    }
    found
}

/// The whole width, which the pictures' coordinates are within.
const _: () = assert!(RIGHT < WIDTH);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_in_the_order_of_time_and_inside() {
        let places: Vec<_> =
            [0.0, 10.0, 30.0, 3_600.0, 86_400.0].map(|at| place(at, 86_400.0)).into();
        assert!(places.is_sorted() && places[0] == LEFT && places[4] == RIGHT, "{places:?}");
        let point = |at, label: &str| Point {
            at,
            kind: Kind::Failed,
            label: label.to_owned(),
            told: "<b>".to_owned(),
        };
        let picture = timeline("Attempts", &[point(0.0, "1"), point(10.0, "2")]).into_string();
        assert!(
            picture.contains("&lt;b&gt; at 10 s") && picture.contains("cx=\"880.0\""),
            "{picture}"
        );
        assert!(!picture.contains("style="), "{picture}");
    }

    #[test]
    fn a_bar_is_as_high_as_what_it_counts() {
        let bar = Bar {
            name: "8".to_owned(),
            parts: vec![(3, "s-good"), (0, "s-bad"), (1, "s-bad")],
            told: String::new(),
        };
        assert_eq!(stacked(&bar, 30.0), [(50.0, 90.0, "s-good"), (20.0, 30.0, "s-bad")]);
        assert!(bars("Hours", &[bar]).into_string().contains("height=\"90.0\""));
    }
}

//! Where events went: from sources over one whole to ends, as ribbons whose widths are shares.

use maud::{Markup, html};

use super::{Kind, spoken};
use crate::text::{self, number, visible};

/// The height of the whole.
const WHOLE: f64 = 240.0;
const TOP: f64 = 24.0;

/// Positions of the columns in units of a width of 1,000, and how wide they are.
const MIDDLE: f64 = 340.0;
const LAST: f64 = 640.0;
const THICK: f64 = 8.0;

/// The least height of a source or an end, for its two lines of text, and the gap below it.
const LEAST: f64 = 12.0;
const GAP: f64 = 22.0;

/// Topics or the like: their name, what is told of them, and their events.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) told: String,
    pub(crate) count: u64,
}

/// Returns top and height of each share of the whole, below each other with a gap; what is small is larger.
fn shares(counts: &[u64], gap: f64, least: f64) -> Vec<(f64, f64)> {
    let sum = counts.iter().map(|count| *count as f64).sum::<f64>().max(1.0);
    let free = (WHOLE - gap * counts.len().saturating_sub(1) as f64).max(0.0);
    let mut y = TOP;
    let mut place = |count: &u64| {
        let (top, height) = (y, (*count as f64 / sum * free).max(least));
        y += height + gap;
        (top, height)
    };
    counts.iter().map(&mut place).collect()
}

fn ribbon((x1, (a1, h1)): (f64, (f64, f64)), (x2, (a2, h2)): (f64, (f64, f64))) -> String {
    let (middle, b1, b2) = ((x1 + x2) / 2.0, a1 + h1.max(1.0), a2 + h2.max(1.0));
    format!(
        "M{x1} {a1:.1}C{middle} {a1:.1} {middle} {a2:.1} {x2} {a2:.1}V{b2:.1}\
         C{middle} {b2:.1} {middle} {b1:.1} {x1} {b1:.1}z"
    )
}

fn label(x: &str, (top, height): (f64, f64), name: &str, told: &str) -> Markup {
    let y = top + (height / 2.0).min(18.0);
    html! {
        text.b x=(x) y=(format!("{:.1}", y - 1.0)) { (visible(name)) }
        text x=(x) y=(format!("{:.1}", y + 12.0)) { (visible(told)) }
    }
}

/// Sources, the whole and ends, each with its number; nothing without events.
pub(crate) fn flow(sources: &[Source], ends: &[(Kind, u64, &str)]) -> Markup {
    let sources: Vec<_> = sources.iter().filter(|one| one.count > 0).collect();
    let counts: Vec<_> = sources.iter().map(|one| one.count).collect();
    let ends: Vec<_> = ends.iter().filter(|(_, count, _)| *count > 0).collect();
    let ended: Vec<_> = ends.iter().map(|(_, count, _)| *count).collect();
    let [whole, all_ends] = [&counts, &ended]
        .map(|counts| counts.iter().fold(0_u64, |sum, count| sum.saturating_add(*count)));
    // Some events ended twice, or were published before.
    let more = all_ends.saturating_sub(whole);
    let more = (more > 0).then(|| text::counted(more, "end more", "ends more"));
    let [left, right] = [&counts, &ended].map(|counts| shares(counts, GAP, LEAST));
    let bottom =
        left.iter().chain(&right).map(|(top, height)| top + height).fold(TOP + WHOLE, f64::max);
    let height = bottom + 16.0;
    let told = sources.iter().map(|one| format!("{} {}", visible(&one.name), number(one.count)));
    let told = spoken(
        told.chain(ends.iter().map(|(_, count, name)| format!("{name} {}", number(*count))))
            .chain(more.clone()),
    );
    let spread =
        |counts: &[u64], at| shares(counts, 0.0, 0.0).into_iter().map(move |one| (at, one));
    html! {
        @if whole > 0 {
            svg.tl height=(format!("{height:.0}")) role="img" aria-label=(told) {
                svg width="100%" height=(format!("{height:.0}")) viewBox={ "0 0 1000 " (format!("{height:.0}")) }
                    preserveAspectRatio="none" aria-hidden="true" {
                    @for (from, to) in left.iter().zip(spread(&counts, MIDDLE)) {
                        path.f-acc fill-opacity=".16" d=(ribbon((THICK, *from), to)) {}
                        rect.f-acc x="0" width=(THICK) y=(format!("{:.1}", from.0)) height=(format!("{:.1}", from.1)) {}
                    }
                    rect.f-acc x=(MIDDLE) width=(THICK) y=(TOP) height=(WHOLE) {}
                    @for ((end, to), from) in ends.iter().zip(&right).zip(spread(&ended, MIDDLE + THICK)) {
                        path class={ "f-" (end.0.name()) } fill-opacity=".3" d=(ribbon(from, (LAST, *to))) {}
                        @let [top, height] = [to.0, to.1].map(|at| format!("{at:.1}"));
                        rect class={ "f-" (end.0.name()) } x=(LAST) width=(THICK) y=(top) height=(height) {}
                    }
                }
                text x="0" y="12" { "accepted" }
                text x="34.4%" y="12" text-anchor="middle" { "to deliver" }
                text x="64%" y="12" { "end" }
                @for (one, place) in sources.iter().zip(&left) { (label("2%", *place, &one.name, &one.told)) }
                text.b x="36%" y=(format!("{:.1}", TOP + WHOLE / 2.0)) { (number(whole)) }
                @if let Some(more) = more {
                    text x="36%" y=(format!("{:.1}", TOP + WHOLE / 2.0 + 13.0)) { (more) }
                }
                @for ((_, count, name), place) in ends.iter().zip(&right) {
                    (label("66%", *place, &format!("{name} {}", number(*count)), &text::percent(whole.min(*count), whole)))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_fill_the_whole_and_small_boxes_are_larger() {
        let told = |counts: &[u64], gap, least| format!("{:.0?}", shares(counts, gap, least));
        assert_eq!(told(&[3, 1], 0.0, 0.0), "[(24, 180), (204, 60)]");
        assert_eq!(told(&[999_999, 1], GAP, LEAST), "[(24, 218), (264, 12)]");
        assert_eq!(told(&[u64::MAX, u64::MAX], 0.0, 0.0), "[(24, 120), (144, 120)]");
    }
}

//! Lists with an axis of time in common: what became of one event at each event subscription, and the
//! attempts of one delivery.

use std::time::Duration;

use maud::{Markup, html};

use super::axis::{self, Point, percent, place};
use super::{Kind, duration};
use crate::text::visible;

/// What became of an event at one event subscription.
pub(crate) struct Lane {
    /// For those who don't see the picture.
    pub(crate) name: String,
    pub(crate) head: Markup,
    pub(crate) points: Vec<Point>,
    /// Why there are no points; in their place.
    pub(crate) why: Option<Markup>,
    pub(crate) standing: Markup,
}

/// The lanes of one event, over at least a minute since its publish.
pub(crate) fn lanes(lanes: &[Lane], now: Option<f64>) -> Markup {
    let longest = axis::length(lanes.iter().flat_map(|lane| &lane.points)).max(60.0);
    html! {
        ul.lanes {
            li {
                span.sm.m { "Event subscription" }
                @if lanes.iter().all(|lane| lane.why.is_some()) { span {} }
                @else { (axis::head(longest, now)) }
                span.sm.m { "Standing" }
            }
            @for lane in lanes {
                li {
                    span { (lane.head) }
                    @match &lane.why {
                        Some(why) => span.sm.m2.why { (why) },
                        None => (axis::bare(&lane.name, &lane.points, longest, now)),
                    }
                    span { (lane.standing) }
                }
            }
        }
    }
}

pub(crate) struct Attempt {
    pub(crate) number: u32,
    /// Its outcome as a pill.
    pub(crate) status: Markup,
    pub(crate) kind: Kind,
    /// Seconds since the beginning.
    pub(crate) begins: f64,
    pub(crate) took: Duration,
    pub(crate) told: Markup,
    /// May be empty.
    pub(crate) response: String,
}

/// The attempt that comes, or why none does.
pub(crate) struct Coming {
    pub(crate) number: u32,
    pub(crate) status: Markup,
    /// Seconds since the beginning.
    pub(crate) at: Option<f64>,
    /// When its time ends, in seconds since the beginning.
    pub(crate) ends: f64,
    pub(crate) told: Markup,
}

impl Attempt {
    fn ends(&self) -> f64 {
        self.begins + self.took.as_secs_f64()
    }
}

/// The attempts of a delivery one below the other, each with the wait before it.
pub(crate) fn waterfall(attempts: &[Attempt], next: Option<&Coming>, now: f64) -> Markup {
    let comes = next.iter().flat_map(|next| [next.at, Some(next.ends)]).flatten();
    let longest = attempts.iter().map(Attempt::ends).chain(comes).fold(axis::LEAST, f64::max);
    let mut before = 0.0;
    html! {
        ol.wf {
            li {
                span.sm.m { "#" } span.sm.m { "Answer" } (axis::head(longest, Some(now)))
                span.sm.m.n { "Took" }
            }
            @for one in attempts {
                li {
                    b.n { (one.number) }
                    (one.status)
                    (bar(one, before, longest))
                    @let () = before = one.ends();
                    span.n.m2 { (duration(one.took)) }
                    p.sm.m { (one.told) }
                    @if !one.response.is_empty() {
                        pre tabindex="0" role="region" aria-label={ "Response of attempt " (one.number) }
                            dir="ltr" {
                            (visible(&one.response))
                        }
                    }
                }
            }
            @if let Some(next) = next {
                li {
                    b.n.m { (next.number) }
                    (next.status)
                    svg.tl height="16" aria-hidden="true" {
                        (line())
                        @if let Some(at) = next.at {
                            circle.hol cx=(percent(place(at, longest))) cy="8" r="5" {}
                        }
                        (axis::end(&percent(place(next.ends, longest)), 8))
                    }
                    span {}
                    p.sm.m { (next.told) }
                }
            }
        }
    }
}

fn line() -> Markup {
    html! { rect.f-sunk x="2%" width="96%" y="6" height="4" rx="2" {} }
}

/// An attempt and the wait since the end of the one before. Words beside it say the same.
fn bar(one: &Attempt, before: f64, longest: f64) -> Markup {
    let place = |at| place(at, longest);
    let (waits, begins, ends) = (place(before), place(one.begins), place(one.ends()));
    html! {
        svg.tl height="16" aria-hidden="true" {
            (line())
            rect.f-mute fill-opacity=".35" x=(percent(waits))
                width=(percent((begins - waits).max(0.0))) y="6" height="4" {}
            rect class={ "f-" (one.kind.name()) } x=(percent(begins)) width=(percent((ends - begins).max(0.5)))
                y="2" height="12" rx="2" {}
        }
    }
}

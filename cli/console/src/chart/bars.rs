//! Numbers over the time: stacked bars with their axes, and the same numbers as a table.

use std::time::Duration;

use maud::{Markup, html};

use super::{Kind, legend};
use crate::text::{number, visible};
use gridpost_core::time::Timestamp;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Counts of one kind, step by step.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) values: Vec<u64>,
}

impl Series {
    pub(crate) fn of(kind: Kind, name: &str, values: Vec<u64>) -> Self {
        Self { name: name.to_owned(), kind, values }
    }
}

/// Counts over the time. All series have as many steps as the longest: what is missing is zero.
pub(crate) struct Bars<'a> {
    pub(crate) label: &'a str,
    /// From below.
    pub(crate) series: &'a [Series],
    pub(crate) begins: Timestamp,
    pub(crate) step: Duration,
    /// A point in time to mark, in steps since the beginning.
    pub(crate) mark: Option<f64>,
    /// Whether the picture is about half as high.
    pub(crate) low: bool,
}

/// The time that a picture covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) begins: Timestamp,
    pub(super) step: Duration,
    pub(super) steps: usize,
}

impl Span {
    fn at(self, step: usize) -> Timestamp {
        self.begins + self.step.saturating_mul(u32::try_from(step).unwrap_or(u32::MAX))
    }

    /// Returns the length in milliseconds.
    fn length(self) -> u64 {
        let length = self.at(self.steps).since(self.begins);
        u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the same with so many steps more that its labels are round times: from six hours on whole hours.
    pub(super) fn rounded(self) -> Self {
        let unit = match self.length() / HOUR {
            0 => MINUTE,
            1..6 => 10 * MINUTE,
            _ => HOUR,
        };
        let mut longer = (self.steps..self.steps + 12).map(|steps| Self { steps, ..self });
        let is_round = |span: &Self| parts(span.length(), unit).is_some_and(|parts| parts > 3);
        longer.find(is_round).unwrap_or(self)
    }

    /// Returns how a point in time is written beside it. The script writes it so in the reader's zone.
    fn form(self, every: u64) -> &'static str {
        match every {
            _ if self.length() > DAY => "day",
            every if every.is_multiple_of(MINUTE) => "minute",
            _ => "second",
        }
    }

    /// Writes the beginning of a step.
    pub(super) fn time(self, step: usize) -> Markup {
        let every = u64::try_from(self.step.as_millis()).unwrap_or(u64::MAX);
        time(self.at(step), self.form(every))
    }

    /// The labels below the picture: about seven times from the beginning to the end, at the same distances.
    pub(super) fn labels(self) -> Markup {
        let gaps = gaps(self.length());
        let every = self.length() / gaps;
        let at = |label| self.begins + Duration::from_millis(every * label);
        html! {
            ol.x aria-hidden="true" {
                @if self.steps > 0 { @for label in 0..=gaps { li { (time(at(label), self.form(every))) } } }
            }
        }
    }
}

/// Returns into how many parts a length (milliseconds) is divided so that each is a round time.
fn gaps(length: u64) -> u64 {
    let units = [DAY, HOUR, 10 * MINUTE, MINUTE, 10_000, 1_000];
    units.into_iter().find_map(|unit| parts(length, unit)).unwrap_or(1)
}

/// Returns into how many parts of whole units a length is divided.
fn parts(length: u64, unit: u64) -> Option<u64> {
    [6, 4, 8, 7, 5, 3].into_iter().find(|parts| length.is_multiple_of(unit * parts))
}

/// Writes a point in time as below a picture, with the day where that is not clear.
pub(crate) fn hour(at: Timestamp, has_day: bool) -> Markup {
    time(at, if has_day { "day" } else { "minute" })
}

fn time(at: Timestamp, form: &str) -> Markup {
    let utc = at.utc();
    let (hour, minute, second) = utc.time().as_hms();
    let clock = format!("{hour:02}:{minute:02}");
    let text = match form {
        "second" => format!("{clock}:{second:02}"),
        "day" => format!("{} {:.3} {clock}", utc.day(), utc.month().to_string()),
        _ => clock,
    };
    html! { time datetime=(at.to_iso_8601()) data-form=(form) { (text) } }
}

/// Returns the top of an axis, at least as high as the highest value. Its quarters are whole numbers.
fn nice(highest: u128) -> u128 {
    let tens = (0..).map_while(|power| 10_u128.checked_pow(power));
    let higher = tens.flat_map(|ten| {
        let tops = [12, 16, 20, 24, 32, 40, 60, 80, 100].into_iter();
        tops.filter_map(move |top| ten.checked_mul(top))
    });
    [4, 8].into_iter().chain(higher).find(|top| *top >= highest).unwrap_or(u128::MAX)
}

/// Writes a label of an axis: `750`, `1.5k`, `2M`.
fn short(value: u128) -> String {
    let units = [("E", 18), ("P", 15), ("T", 12), ("G", 9), ("M", 6), ("k", 3)];
    for (unit, power) in units {
        let one = 10_u128.pow(power);
        if value >= one {
            let (whole, tenth) = (value / one, value % one / (one / 10));
            let tenth = if tenth > 0 { format!(".{tenth}") } else { String::new() };
            return format!("{whole}{tenth}{unit}");
        }
    }
    value.to_string()
}

fn steps(series: &[Series]) -> usize {
    series.iter().map(|one| one.values.len()).max().unwrap_or(0)
}

fn highest(series: &[Series]) -> u128 {
    let sum = |step| {
        series.iter().filter_map(|one| one.values.get(step)).map(|count| u128::from(*count)).sum()
    };
    (0..steps(series)).map(sum).max().unwrap_or(0)
}

/// Returns the bars of each series as one path, the first one's lowest; a step is 10 wide. Between series of a
/// bar is a thin gap. What counts anything is seen.
fn paths(series: &[Series], height: f64, top: u128) -> Vec<String> {
    let mut tops = vec![height; steps(series)];
    let mut path = |(at, one): (usize, &Series)| {
        let gap = if at > 0 { height * 0.008 } else { 0.0 };
        let mut path = String::new();
        for (step, count) in one.values.iter().enumerate().filter(|(_, count)| **count > 0) {
            let own = (*count as f64 * height / top as f64).max(height / 110.0);
            tops[step] -= own;
            let shown = if own > 2.5 * gap { own - gap } else { own };
            path += &format!("M{} {:.1}h8v{shown:.1}h-8z", step * 10 + 1, tops[step]);
        }
        path
    };
    series.iter().enumerate().map(&mut path).collect()
}

fn drawn(series: &[Series], height: f64, top: u128) -> Markup {
    html! {
        @for (one, path) in series.iter().zip(paths(series, height, top)) {
            @if !path.is_empty() { path class={ "f-" (one.kind.name()) } d=(path) {} }
        }
    }
}

/// The picture with its frame; the script finds in `data-` what it tells where one points. Beginning and
/// step are in milliseconds, names and values (by name, then by step) are JSON.
pub(super) fn figure(label: &str, span: Span, series: &[Series], plot: &Markup) -> Markup {
    // Of more steps than there are values, the last ones are to come.
    let (names, values): (Vec<_>, Vec<_>) =
        series.iter().map(|one| (visible(&one.name), &one.values)).unzip();
    let json = |text: serde_json::Result<String>| text.unwrap_or_default();
    html! {
        figure.chart tabindex="0" aria-label=(visible(label))
            data-t0=(span.begins.as_millis()) data-step=(span.step.as_millis()) data-steps=(span.steps)
            data-names=(json(serde_json::to_string(&names)))
            data-values=(json(serde_json::to_string(&values))) {
            (plot)
        }
    }
}

impl<'a> Bars<'a> {
    pub(crate) fn of(
        label: &'a str,
        series: &'a [Series],
        begins: Timestamp,
        step: Duration,
    ) -> Self {
        Self { label, series, begins, step, mark: None, low: false }
    }

    fn span(&self) -> Span {
        Span { begins: self.begins, step: self.step, steps: steps(self.series) }
    }

    pub(crate) fn legend(&self) -> Markup {
        let names = self.series.iter().map(|one| (one.kind, one.name.as_str(), None));
        legend(&names.collect::<Vec<_>>())
    }

    /// Draws them stacked.
    pub(crate) fn picture(&self) -> Markup {
        let Bars { label, series, mark, low, .. } = self;
        let span = self.span().rounded();
        let (width, top) = (span.steps.max(1) * 10, nice(highest(series)));
        let mark = mark.filter(|mark| (0.0..=span.steps as f64).contains(mark));
        let plot = html! {
            div class=(if *low { "plot low" } else { "plot" }) {
                ol.y aria-hidden="true" { @for quarter in (0..=4).rev() { li { (short(top / 4 * quarter)) } } }
                svg viewBox={ "0 0 " (width) " 100" } preserveAspectRatio="none" shape-rendering="crispEdges"
                    role="img" aria-label={ (visible(label)) ". The table has the same." } {
                    @for y in [0, 25, 50, 75, 100] { line.s-line x1="0" x2=(width) y1=(y) y2=(y) {} }
                    (drawn(series, 100.0, top))
                    @if let Some(mark) = mark {
                        @let x = format!("{:.1}", mark * 10.0);
                        line.s-ink x1=(x) x2=(x) y1="0" y2="100" {}
                    }
                }
                (span.labels())
            }
        };
        figure(label, span, series, &plot)
    }

    /// Lists the numbers, to be unfolded.
    pub(crate) fn table(&self) -> Markup {
        let names: Vec<_> = self.series.iter().map(|one| visible(&one.name)).collect();
        let cell = |step| move |one: &Series| number(one.values.get(step).copied().unwrap_or(0));
        let row = |step| self.series.iter().map(cell(step)).collect();
        let rows: Vec<Vec<_>> = (0..self.span().steps).map(row).collect();
        table(self.label, self.span(), &names, &rows)
    }
}

/// A folded table of what a picture shows, with a row for each step.
pub(super) fn table(label: &str, span: Span, head: &[String], rows: &[Vec<String>]) -> Markup {
    html! {
        details {
            summary { "Show as a table" }
            div.scroll role="region" aria-label=(visible(label)) tabindex="0" {
                table {
                    caption { (visible(label)) }
                    thead {
                        tr { th scope="col" { "Time" } @for name in head { th.n scope="col" { (name) } } }
                    }
                    tbody {
                        @for (step, cells) in rows.iter().enumerate() {
                            tr { td.nw { (span.time(step)) } @for cell in cells { td.n { (cell) } } }
                        }
                    }
                }
            }
        }
    }
}

/// Small bars in a row of a table, whose other cells have the numbers.
pub(crate) fn minibars(series: &[Series]) -> Markup {
    html! {
        svg width="96" height="22" viewBox={ "0 0 " (steps(series).max(1) * 10) " 22" }
            preserveAspectRatio="none" shape-rendering="crispEdges" aria-hidden="true" {
            (drawn(series, 22.0, highest(series).max(1)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number_whose_quarters_are_whole() {
        let table = [
            (0, 4, "4"),
            (4, 4, "4"),
            (5, 8, "8"),
            (9, 12, "12"),
            (33, 40, "40"),
            (41, 60, "60"),
            (1_201, 1_600, "1.6k"),
            (2_401, 3_200, "3.2k"),
            (999_999, 1_000_000, "1M"),
            (u128::from(u64::MAX), 20_000_000_000_000_000_000, "20E"),
        ];
        for (highest, top, label) in table {
            assert_eq!((nice(highest), short(nice(highest)).as_str()), (top, label), "{highest}");
            assert!(top.is_multiple_of(4));
        }
        assert!(nice(u128::MAX) == u128::MAX);
        assert_eq!([750, 2_500, 999_999].map(short), ["750", "2.5k", "999.9k"]);
    }

    #[test]
    fn the_heights_of_a_bar_sum_up_to_its_share_of_the_axis() {
        let one = |values: &[u64]| Series::of(Kind::Ok, "", values.to_vec());
        let series = [one(&[30, 0, 20]), one(&[10, 40])];
        let want =
            ["M1 62.5h8v37.5h-8zM21 75.0h8v25.0h-8z", "M1 50.0h8v11.7h-8zM11 50.0h8v49.2h-8z"];
        assert_eq!(paths(&series, 100.0, 80), want);
        let series = [one(&[u64::MAX]), one(&[u64::MAX])];
        let want = ["M1 53.9h8v46.1h-8z", "M1 7.8h8v45.3h-8z"];
        assert_eq!(paths(&series, 100.0, nice(highest(&series))), want);
        assert_eq!(paths(&[one(&[1])], 110.0, 1_000_000_000), ["M1 109.0h8v1.0h-8z"]);
    }

    #[test]
    fn the_labels_of_a_span_are_round_times() {
        let begins = Timestamp::parse_rfc_3339("2026-11-28T08:30:00Z").expect("a time");
        // Seconds of a step, steps, the number of labels, the first ones.
        let table: [(u64, usize, usize, &[&str]); 9] = [
            (300, 72, 7, &["08:30", "09:30"]),
            (60, 15, 6, &["08:30", "08:33"]),
            (60, 60, 7, &["08:30", "08:40"]),
            (5, 24, 7, &["08:30:00", "08:30:20"]),
            (3_600, 24, 7, &["08:30", "12:30"]),
            (3_600, 168, 8, &["28 Nov 08:30", "29 Nov 08:30"]),
            (3_600, 3, 4, &["08:30", "09:30"]),
            (3_600, 1, 7, &["08:30", "08:40"]),
            (3_600, 0, 0, &[]),
        ];
        for (seconds, steps, count, first) in table {
            let span = Span { begins, step: Duration::from_secs(seconds), steps };
            let labels = span.labels().into_string();
            let texts = labels.split("</time>").filter_map(|part| part.rsplit('>').next());
            let texts: Vec<_> = texts.take(first.len()).collect();
            assert_eq!((labels.matches("<li>").count(), &texts[..]), (count, first), "{labels}");
        }
        // (seconds of a step, steps that are there, steps that are drawn)
        for (seconds, steps, want) in [
            (60, 16, 16),
            (60, 17, 18),
            (60, 61, 70),
            (300, 79, 84),
            (1_800, 49, 50),
            (10_800, 57, 58),
            (5, 24, 24),
            (3_600, 0, 0),
        ] {
            let span = Span { begins, step: Duration::from_secs(seconds), steps };
            assert_eq!(span.rounded().steps, want, "{steps} of {seconds}");
        }
        let span = Span { begins, step: Duration::from_secs(300), steps: 72 };
        let end = "datetime=\"2026-11-28T14:30:00.000Z\" data-form=\"minute\">14:30";
        assert!(span.labels().into_string().contains(end));
    }
}

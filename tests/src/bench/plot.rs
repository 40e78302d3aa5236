//! Plots as SVG: lines over a logarithmic axis, one colour for each.

use std::fmt::Write as _;

/// A line of a plot.
#[derive(Clone, Debug)]
pub struct Line {
    /// What it is.
    pub name: String,
    /// Its points, rising in x; all above 0.
    pub points: Vec<(f64, f64)>,
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// What x is.
    pub x: String,
    /// What y is.
    pub y: String,
    /// The lines.
    pub lines: Vec<Line>,
}

/// The drawing's size, and where its axes are.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 340.0;

/// Colours that colour-blind readers can tell apart (Okabe and Ito).
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];

impl Plot {
    /// The drawing; both axes are logarithmic.
    pub fn to_svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let xs = bounds(points().map(|(x, _)| *x));
        let ys = decades(bounds(points().map(|(_, y)| *y)));
        let place_x = |x: f64| LEFT + (RIGHT - LEFT) * share(x, xs);
        let place_y = |y: f64| BOTTOM - (BOTTOM - TOP) * share(y, ys);
        let mut svg = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">
<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>
<text x="{LEFT}" y="26" font-size="16">{}</text>
<text x="{}" y="388" text-anchor="middle">{}</text>
<text x="18" y="{}" text-anchor="middle" transform="rotate(-90 18 {})">{}</text>
"##,
            escape(&self.title),
            f64::midpoint(LEFT, RIGHT),
            escape(&self.x),
            f64::midpoint(TOP, BOTTOM),
            f64::midpoint(TOP, BOTTOM),
            escape(&self.y),
        );
        let mut y = ys.0;
        while y <= ys.1 * 1.001 {
            let at = place_y(y);
            add(&mut svg, &format!(r##"<path d="M{LEFT} {at:.1}H{RIGHT}" stroke="#dddddd"/>"##));
            let text =
                format!(r#"<text x="72" y="{:.1}" text-anchor="end">{}</text>"#, at + 4.0, tidy(y));
            add(&mut svg, &text);
            y *= 10.0;
        }
        let mut ticks: Vec<f64> = points().map(|(x, _)| *x).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        for x in ticks {
            let text = format!(
                r#"<text x="{:.1}" y="358" text-anchor="middle">{}</text>"#,
                place_x(x),
                tidy(x)
            );
            add(&mut svg, &text);
        }
        for (index, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let places = line.points.iter().map(|(x, y)| (place_x(*x), place_y(*y)));
            draw(&mut svg, places, colour);
            let (x, y) = (LEFT + 12.0 + 170.0 * index as f64, TOP - 8.0);
            let name = escape(&line.name);
            add(&mut svg, &format!(r#"<text x="{x}" y="{y}" fill="{colour}">{name}</text>"#));
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn add(svg: &mut String, element: &str) {
    svg.push_str(element);
    svg.push('\n');
}

fn draw(svg: &mut String, places: impl Iterator<Item = (f64, f64)>, colour: &str) {
    let (mut path, mut marks) = (String::new(), String::new());
    for (x, y) in places {
        // Writing to a string can't fail.
        let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { 'M' } else { 'L' });
        let _ = writeln!(marks, r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" fill="{colour}"/>"#);
    }
    let path = format!(r#"<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>"#);
    add(svg, &path);
    svg.push_str(&marks);
}

/// The lowest and the highest value, made different if they are equal.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, greatest) =
        values.fold((f64::MAX, f64::MIN), |(a, b), value| (a.min(value), b.max(value)));
    if least < greatest { (least, greatest) } else { (1.0, 10.0) }
}

/// The powers of ten around two values.
fn decades((least, greatest): (f64, f64)) -> (f64, f64) {
    (10_f64.powf(least.log10().floor()), 10_f64.powf(greatest.log10().ceil()))
}

fn share(value: f64, (least, greatest): (f64, f64)) -> f64 {
    (value / least).ln() / (greatest / least).ln()
}

fn tidy(value: f64) -> String {
    if value >= 1.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.6}").trim_end_matches('0').to_owned()
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_lines_inside_its_axes() {
        let line =
            Line { name: "a<b".to_owned(), points: vec![(1.0, 0.2), (10.0, 0.05), (100.0, 0.02)] };
        let text = |text: &str| text.to_owned();
        let plot = Plot { title: text("T"), x: text("X"), y: text("Y"), lines: vec![line] };
        let svg = plot.to_svg();
        assert!(svg.contains("a&lt;b") && svg.ends_with("</svg>\n"));
        // From 0.01 to 1 on y: the first point is at 65 % of the height, the last at 15 %.
        assert!(svg.contains(r#"d="M80.0 151.4L350.0 238.6L620.0 296.4""#), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains(">0.01</text>") && svg.contains(">100</text>"));
    }
}

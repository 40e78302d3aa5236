use std::time::Duration;

use super::*;
use gridpost_core::ledger::Latencies;
use gridpost_core::time::Timestamp;

const HOSTILE: &str = "<b style=x>\"'|,;]\u{202e}";

fn series(name: &str, values: &[u64]) -> Series {
    Series::of(Kind::Ok, name, values.to_vec())
}

fn given<'a>(label: &'a str, series: &'a [Series]) -> Bars<'a> {
    let bars = Bars::of(label, series, Timestamp::MIN, Duration::from_secs(300));
    Bars { mark: Some(0.5), low: true, ..bars }
}

fn point(at: f64, mark: Mark, text: &str) -> Point {
    Point { at, mark, label: text.to_owned(), told: text.to_owned() }
}

fn latencies(counts: &[(u64, u64)]) -> Latencies {
    let mut latencies = Latencies::default();
    for (took_ms, events) in counts {
        latencies.add(*took_ms, *events);
    }
    latencies
}

fn attempt(begins: f64, took: u64) -> Attempt {
    let (took, nothing) = (Duration::from_millis(took), html! {});
    let (number, kind, status, response) = (1, Kind::Bad, nothing.clone(), String::new());
    Attempt { number, status, kind, begins, took, told: nothing, response }
}

/// All pictures with one name and one value.
fn all(name: &str, value: u64) -> Vec<String> {
    let series = [series(name, &[value, 0]), series(name, &[value])];
    let bars_given = given(name, &series);
    let columns = [latencies(&[(value, value), (1, value)]), Latencies::default()];
    let step = Duration::from_millis(value);
    let heat = Heat { label: name, columns: &columns, begins: Timestamp::MAX, step };
    let at = value as f64;
    let marks = [Mark::Dot(Kind::Bad), Mark::Next, Mark::End];
    let points = marks.map(|mark| point(at, mark, name)).to_vec();
    let lane = |why: Option<String>| Lane {
        name: name.to_owned(),
        head: html! { "caller's" },
        points: points.clone(),
        why: why.map(|why| html! { (visible(&why)) }),
        standing: html! { "caller's" },
    };
    let attempt = Attempt { response: name.to_owned(), ..attempt(at, value) };
    let [status, told] = [html! { "caller's" }, html! { "caller's" }];
    let next = Coming { number: 2, status, at: Some(at), ends: at, told };
    let row = (Kind::Dead, name.to_owned(), value, Some("/a".to_owned()));
    let source = Source { name: name.to_owned(), told: name.to_owned(), count: value };
    let drawn = [
        flow(&[source], &[(Kind::Ok, value, "a"), (Kind::Bad, 1, "b")]),
        spark(&[Some(value), None, Some(value)], Kind::Acc),
        bars_given.picture(),
        bars_given.table(),
        minibars(&series),
        legend(&[(Kind::Off, name, Some(value))]),
        mini(&[(Kind::Ok, value, name), (Kind::Off, value, name)]),
        breakdown(&[row]),
        strip(&columns[0]),
        heat.picture(),
        heat.table(),
        axis(name, &points),
        lanes(&[lane(None), lane(Some(name.to_owned()))], Some(at)),
        waterfall(&[attempt], Some(&next), at),
    ];
    drawn.map(Markup::into_string).to_vec()
}

#[test]
fn texts_stay_texts_and_any_number_is_drawn() {
    for value in [0, 1, 300_000, u64::MAX] {
        for picture in all(HOSTILE, value) {
            assert!(!picture.contains("<b style") && !picture.contains('\u{202e}'), "{picture}");
            assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
        }
        for picture in all("a", value) {
            assert!(!picture.contains("style="), "{picture}");
            let told =
                picture.matches("role=\"img\"").count() + picture.matches("aria-hidden").count();
            assert!(told >= picture.matches("<svg").count(), "{picture}");
        }
    }
}

#[test]
fn nothing_is_drawn_of_nothing() {
    let heat = Heat { label: "a", columns: &[], begins: Timestamp::MIN, step: Duration::ZERO };
    for empty in [
        spark(&[None, None], Kind::Ok),
        strip(&Latencies::default()),
        given("a", &[]).picture(),
        given("a", &[series("a", &[])]).picture(),
        given("a", &[series("a", &[0, 0])]).picture(),
        minibars(&[]),
        mini(&[]),
        legend(&[]),
        breakdown(&[]),
        flow(&[], &[(Kind::Ok, 0, "a")]),
        heat.picture(),
        axis("a", &[]),
        lanes(&[], Some(f64::NAN)),
        waterfall(&[], None, f64::NAN),
    ] {
        let empty = empty.into_string();
        let has = ["<path", "<circle", "NaN"].iter().any(|part| empty.contains(part));
        assert!(!has, "{empty}");
    }
}

/// What a picture has in it.
#[test]
fn pictures_show_their_numbers() {
    let two = [series("a", &[1, 1_200]), series("b", &[3])];
    let latencies = latencies(&[(2_000, 94), (3_000, 4), (4_000_000, 2)]);
    let points = [
        point(60.0, Mark::End, "end"),
        point(10.0, Mark::Next, "2"),
        point(0.0, Mark::Dot(Kind::Ok), "1"),
    ];
    let attempts = [attempt(0.0, 9_000), attempt(99.0, 1_200)];
    let next = Coming { number: 3, status: html! {}, at: None, ends: 999.0, told: html! {} };
    let table: [(Markup, &[&str]); 9] = [
        // Steps that are not known are not drawn.
        (
            spark(&[Some(4), None, Some(2), Some(0)], Kind::Acc),
            &["d=\"M0 2.0h1M2 14.5h1L3 27.0h1\"", "d=\"M0 28V2.0h1V28zM2 28V14.5h1V28zM3"],
        ),
        // A few events are no mountain.
        (spark(&[Some(1), Some(0)], Kind::Acc), &["d=\"M0 20.8h1L1 27.0h1\""]),
        // More ends than events are no more than all.
        (
            flow(
                &[Source { name: "a".to_owned(), told: String::new(), count: 4 }],
                &[(Kind::Ok, 6, "sent")],
            ),
            &[">100 %<", "a 4, sent 6, 2 ends more", ">2 ends more<"],
        ),
        // Parts share the whole, and the smallest is seen.
        (
            mini(&[(Kind::Ok, 30, "sent"), (Kind::Bad, 0, "lost"), (Kind::Off, 10, "")]),
            &["aria-label=\"sent 30\"", "width=\"75.0\"", "x=\"75.0\" width=\"25.0\""],
        ),
        (mini(&[(Kind::Ok, 1_000_000, "a"), (Kind::Bad, 1, "b")]), &["x=\"98.8\" width=\"1.2\""]),
        // A step that is missing is zero.
        (
            given("Events", &two).table(),
            &["<td class=\"n\">1\u{202f}200</td><td class=\"n\">0</td></tr></tbody>"],
        ),
        (
            strip(&latencies),
            &[
                "p50 <b class=\"n\">≤ 2.5 s",
                "p95 <b class=\"n\">≤ 10 s",
                "p99 <b class=\"n\">&gt; 1 h",
            ],
        ),
        // In the order of time, from one end of the axis to the other.
        (
            axis("Attempts", &points),
            &[
                "aria-label=\"Attempts: 1 at 0 ms; 2 at 10 s; end at 1 min\"",
                "cx=\"2.00%\"",
                "x=\"98.00%\"",
            ],
        ),
        // The waits, then the attempts: a third of the axis for each factor of ten.
        (
            waterfall(&attempts, Some(&next), 0.0),
            &[
                "x=\"2.00%\" width=\"0.00%\"",
                "x=\"2.00%\" width=\"32.00%\"",
                "x=\"34.00%\" width=\"32.00%\"",
                "x=\"66.00%\" width=\"0.50%\"",
                ">9 s<",
                ">1.2 s<",
                ">now<",
            ],
        ),
    ];
    for (drawn, parts) in table {
        let drawn = drawn.into_string();
        for part in parts {
            assert!(drawn.contains(part), "`{part}` is not in {drawn}");
        }
    }
    let late = waterfall(&[], None, 11.0).into_string();
    assert!(!late.contains(">now<"), "the axis ends before: {late}");
}

#[test]
fn the_heat_map_has_a_cell_for_each_bucket_and_its_line_breaks() {
    let columns = [
        latencies(&[(20, 1), (30, 99)]),
        Latencies::default(),
        latencies(&[(4_000_000, 1)]),
        latencies(&[(20, 1)]),
    ];
    let step = Duration::from_secs(60);
    let given = Heat { label: "a", columns: &columns, begins: Timestamp::MIN, step };
    let drawn = given.picture().into_string();
    assert!(drawn.contains("d=\"M0 100.0h10M20 0.0h10L30 110.0h10\""), "{drawn}");
    assert!(drawn.contains("fill-opacity=\".14\" d=\"M0 110h9.4v9h-9.4z\""), "{drawn}");
    assert_eq!(drawn.matches("h9.4v9").count(), 4, "{drawn}");
    let table = given.table().into_string();
    assert!(table.contains("<td class=\"n\">0</td><td class=\"n\">–</td>"), "{table}");
    assert!(table.contains("<td class=\"n\">100</td><td class=\"n\">≤ 50 ms</td>"), "{table}");
}

#[test]
fn times_are_readable() {
    let table = [(0, "0 ms"), (41, "41 ms"), (1_200, "1.2 s"), (12_000_000, "3 h 20 min")];
    for (millis, text) in table {
        assert_eq!(duration(Duration::from_millis(millis)), text);
    }
}

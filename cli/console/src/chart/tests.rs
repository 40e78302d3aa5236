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
    assert_eq!(spark(&[], Kind::Ok).into_string(), "");
    assert_eq!(spark(&[None, None], Kind::Ok).into_string(), "");
    assert_eq!(strip(&Latencies::default()).into_string(), "");
    let heat = Heat { label: "a", columns: &[], begins: Timestamp::MIN, step: Duration::ZERO };
    for empty in [
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
        assert!(!empty.contains("<path") && !empty.contains("<circle"), "{empty}");
        assert!(!empty.contains("NaN"), "{empty}");
    }
}

#[test]
fn steps_that_are_not_known_are_not_drawn() {
    // Values, and the line's path.
    let table: [(&[Option<u64>], &str); 5] = [
        (&[Some(0), Some(4)], "M0.0 27.0L100.0 2.0"),
        (&[Some(4)], "M0.0 2.0L100.0 2.0"),
        (&[Some(4), None, Some(2)], "M0.0 2.0L25.0 2.0M75.0 14.5L100.0 14.5"),
        (&[None, Some(4), Some(4)], "M50.0 2.0L100.0 2.0"),
        (&[Some(0), Some(0), None], "M0.0 27.0L50.0 27.0"),
    ];
    for (values, path) in table {
        let drawn = spark(values, Kind::Acc).into_string();
        assert!(drawn.contains(&format!("d=\"{path}\"")), "{values:?}: {drawn}");
    }
}

#[test]
fn parts_share_the_whole_and_the_smallest_is_seen() {
    let drawn = mini(&[(Kind::Ok, 30, "sent"), (Kind::Bad, 0, "lost"), (Kind::Off, 10, "")]);
    let drawn = drawn.into_string();
    assert!(drawn.contains("aria-label=\"sent 30\"") && !drawn.contains("f-bad"), "{drawn}");
    assert!(
        drawn.contains("width=\"75.0\"") && drawn.contains("x=\"75.0\" width=\"25.0\""),
        "{drawn}"
    );
    let small = mini(&[(Kind::Ok, 1_000_000, "a"), (Kind::Bad, 1, "b")]).into_string();
    assert!(small.contains("x=\"98.8\" width=\"1.2\""), "{small}");
}

#[test]
fn the_script_gets_names_and_values_as_json_and_the_table_has_the_same() {
    let series = [series("a|b", &[1, 1_200]), series("c", &[3])];
    let given = given("Events", &series);
    let picture = given.picture().into_string();
    assert!(picture.contains(r#"data-names="[&quot;a|b&quot;,&quot;c&quot;]""#), "{picture}");
    assert!(picture.contains(r#"data-values="[[1,1200],[3]]""#), "{picture}");
    assert!(picture.contains("data-step=\"300000\""), "{picture}");
    let table = given.table().into_string();
    let second = "<td class=\"n\">1\u{202f}200</td><td class=\"n\">0</td></tr></tbody>";
    assert!(table.contains(second) && table.matches("<tr>").count() == 3, "{table}");
}

#[test]
fn percentiles_are_bounds() {
    // Times and counts, what the strip says.
    let table: [(&[(u64, u64)], &str); 4] = [
        (&[(20, 1)], "p50 ≤ 25 ms, p95 ≤ 25 ms, p99 ≤ 25 ms"),
        (&[(20, 90), (700, 10)], "p50 ≤ 25 ms, p95 ≤ 1 s, p99 ≤ 1 s"),
        (&[(2_000, 94), (3_000, 4), (4_000_000, 2)], "p50 ≤ 2.5 s, p95 ≤ 10 s, p99 &gt; 1 h"),
        (&[(u64::MAX, u64::MAX)], "p50 &gt; 1 h, p95 &gt; 1 h, p99 &gt; 1 h"),
    ];
    for (counts, told) in table {
        let drawn = strip(&latencies(counts)).into_string();
        assert!(drawn.contains(&format!("aria-label=\"{told}\"")), "{drawn}");
    }
    let same = strip(&latencies(&[(20, 97), (4_000_000, 3)])).into_string();
    assert!(same.contains(">p50/95</text>") && same.contains(">&gt; 1 h</text>"), "{same}");
    assert!(!same.contains("y=\"56\""), "far from each other, no bound is lower: {same}");
    let two = strip(&latencies(&[(20, 60), (40, 40)])).into_string();
    let anchors =
        ["end\">p50<", "start\">p95/99<"].map(|one| two.contains(&format!("text-anchor=\"{one}")));
    assert!(
        anchors == [true, true] && !two.contains("y=\"56\""),
        "each has a side of its own: {two}"
    );
    let three = strip(&latencies(&[(20, 60), (40, 37), (90, 3)])).into_string();
    assert!(three.contains("y=\"56\" text-anchor=\"middle\">≤ 50 ms"), "{three}");
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
    assert!(drawn.contains("d=\"M0 100h10M20 0h10L30 110h10\""), "{drawn}");
    assert!(drawn.contains("fill-opacity=\".14\" d=\"M0 110h9.4v9h-9.4z\""), "{drawn}");
    assert_eq!(drawn.matches("h9.4v9").count(), 4, "{drawn}");
    let table = given.table().into_string();
    assert!(table.contains("<td class=\"n\">0</td><td class=\"n\">–</td>"), "{table}");
    assert!(table.contains("<td class=\"n\">100</td><td class=\"n\">≤ 50 ms</td>"), "{table}");
}

#[test]
fn points_are_in_the_order_of_time_and_the_present_only_on_the_axis() {
    let points = [
        point(60.0, Mark::End, "end"),
        point(10.0, Mark::Next, "2"),
        point(0.0, Mark::Dot(Kind::Ok), "1"),
    ];
    let drawn = axis("Attempts", &points).into_string();
    let label = "aria-label=\"Attempts: 1 at 0 ms; 2 at 10 s; end at 1 min\"";
    assert!(drawn.contains(label), "{drawn}");
    let titles = ["<title>1 at", "<title>2 at", "<title>end at"].map(|title| drawn.find(title));
    assert!(titles.is_sorted() && titles[0].is_some(), "{drawn}");
    assert!(drawn.contains("cx=\"2.00%\"") && drawn.contains("x=\"98.00%\""), "{drawn}");
    let on_axis = |now| waterfall(&[], None, now).into_string().contains(">now<");
    assert!(on_axis(9.0) && !on_axis(11.0));
}

#[test]
fn an_attempt_is_placed_by_its_begin_behind_its_wait() {
    let attempts = [attempt(0.0, 9_000), attempt(99.0, 1_200)];
    let next = Coming { number: 3, status: html! {}, at: None, ends: 999.0, told: html! {} };
    let drawn = waterfall(&attempts, Some(&next), 0.0).into_string();
    // The waits, then the attempts: a third of the axis for each factor of ten.
    for bar in [
        "x=\"2.00%\" width=\"0.00%\"",
        "x=\"2.00%\" width=\"32.00%\"",
        "x=\"34.00%\" width=\"32.00%\"",
        "x=\"66.00%\" width=\"0.50%\"",
    ] {
        assert!(drawn.contains(bar), "{bar}: {drawn}");
    }
    assert!(drawn.contains(">9 s<") && drawn.contains(">1.2 s<"), "{drawn}");
}

#[test]
fn times_are_readable() {
    let table = [(0, "0 ms"), (41, "41 ms"), (1_200, "1.2 s"), (12_000_000, "3 h 20 min")];
    for (millis, text) in table {
        assert_eq!(duration(Duration::from_millis(millis)), text);
    }
}

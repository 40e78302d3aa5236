use super::*;

fn lines(estate: &Estate) -> Vec<MonthLine> {
    month(estate, &Prices::current(), &Measured::current())
}

fn dollars(lines: &[MonthLine], what: &str) -> f64 {
    let line = lines.iter().find(|line| line.what == what);
    line.unwrap_or_else(|| panic!("no line '{what}' in {lines:#?}")).dollars
}

/// The bill of each estate of the page: lines by name and dollars, to the cent.
#[test]
fn estates_cost_what_is_reckoned_by_hand() {
    type Row = (usize, &'static str, f64);
    let table: [Row; 21] = [
        // 8 queues, 5 pollers, 3 polls a minute, 43,800 minutes: 5.256 million requests at 0.40.
        (0, "polling of idle queues by Lambda (SQS requests)", 2.10),
        (0, "metrics that alarms look at", 0.70),
        (0, "wake: schedule, once a minute", 0.04),
        (0, "wake: invocations", 0.01),
        (0, "wake: DynamoDB reads", 0.05),
        (0, "wake: DynamoDB writes", 0.03),
        // A million events, each by itself: 0.4 a second, so nothing is shared.
        (1, "publish requests", 1.00),
        (1, "invocations of ingest", 0.20),
        (1, "SQS requests", 1.20),
        (1, "SQS requests, fair queues", 0.30),
        (1, "invocations of dispatch", 0.20),
        (1, "DynamoDB reads", 0.50),
        // 1,000 bytes of ingest and 700 of dispatch.
        (1, "GB of logs", 0.85),
        (1, "GB of logs kept for 30 days", 0.05),
        (1, "custom metrics of the whole deployment", 1.20),
        (2, "publish requests", 10.00),
        (2, "SQS requests", 12.00),
        (2, "DynamoDB reads", 5.00),
        (2, "custom metrics of the whole deployment", 1.20),
        (3, "hanging endpoint: publish requests", 2.63),
        (3, "hanging endpoint: custom metrics", 3.00),
    ];
    let estates = estates();
    for (index, what, want) in table {
        let (name, estate) = &estates[index];
        let got = dollars(&lines(estate), what);
        assert!((got - want).abs() < 0.005, "{name}: {what} is {got:.4}, not {want}");
    }
}

#[test]
fn an_idle_deployment_costs_less_than_three_dollars() {
    let idle = total(&lines(&Estate::default()));
    assert!((2.5..3.0).contains(&idle), "{idle}");
}

/// What a switch adds, by hand, to 10 topics with 50 event subscriptions and a million events.
#[test]
fn every_switch_is_priced() {
    let (_, small) = &estates()[1];
    let switches = price_of_switches(small, &Prices::current(), &Measured::current());
    let table = [
        ("alarms = \"ALL\"", 3.20),
        ("alarms = \"NONE\"", -0.70),
        ("dashboard", 3.00),
        // 2 for each topic and 2 for each event subscription.
        ("metrics_by_event_subscription", 36.00),
        // Three metrics, and 350 bytes three times for each event.
        ("latency_metrics", 0.90 + 0.525),
        ("log_successful_attempts", 0.25),
        ("publish_access_logs", 0.30),
        // A million runs of ingest, as many of dispatch and 43,800 of wake, each less than one a second.
        ("tracing", 2.0438 * 5.0),
        ("kms_key_arns, each key", 1.00),
        ("retry_queue_count, each queue more", 0.2628),
        // Polling of its queue, and three alarms.
        ("aws_sources, each source", 0.5628),
        // One alarm more.
        ("publish_front_door = \"FUNCTION_URL\"", -1.00 + 0.10),
    ];
    assert_eq!(switches.len(), table.len());
    for ((name, got), (want_name, want)) in switches.iter().zip(table) {
        assert_eq!(*name, want_name);
        assert!((got - want).abs() < 0.005, "{name}: {got}, not {want}");
    }
}

#[test]
fn under_load_invocations_and_reads_are_shared() {
    let of = |events| {
        let estate = Estate { topics: 1.0, event_subscriptions: 1.0, events, ..Estate::default() };
        lines(&estate)
    };
    // 9 and 11 events a second.
    let (quiet, busy) = (of(9.0 * SECONDS), of(11.0 * SECONDS));
    let dispatches = "invocations of dispatch";
    assert!(dollars(&quiet, dispatches) > 8.0 * dollars(&busy, dispatches));
    assert!(busy.iter().all(|line| line.what != "DynamoDB reads"), "{busy:?}");
}

#[test]
fn twice_as_much_costs_twice_as_much() {
    for (_, estate) in estates() {
        let twice =
            Estate { events: 2.0 * estate.events, hanging: 2.0 * estate.hanging, ..estate.clone() };
        let fixed = |what: &str| {
            ["wake", "poll", "metrics that"].iter().any(|start| what.starts_with(start))
                || what.contains("custom metrics")
        };
        for (one, two) in lines(&estate).iter().zip(lines(&twice)) {
            let factor = if fixed(&one.what) { 1.0 } else { 2.0 };
            assert_eq!(one.what, two.what);
            assert!((two.dollars / one.dollars - factor).abs() < 1e-9, "{one:?} {two:?}");
        }
    }
}

/// 100 runs of ingest a second, 10 of dispatch: one of each and a twentieth of the rest.
#[test]
fn traces_are_samples() {
    let events = 100.0 * SECONDS;
    let busy = Estate { events, tracing: true, ..Estate::default() };
    let of_ingest_and_dispatch = (1.0 + 0.05 * 99.0 + 1.0 + 0.05 * 9.0) * SECONDS;
    let want = (of_ingest_and_dispatch + 43_800.0) * 5.0 / 1e6;
    let got = dollars(&lines(&busy), "traces of X-Ray");
    assert!((got - want).abs() < 0.005, "{got}, not {want}");
    let hanging = Estate { hanging: 1.0, tracing: true, ..Estate::default() };
    // One a second of ingest, 4.5 of dispatch.
    let want = ((1.0 + 1.0 + 0.05 * 3.5) * SECONDS + 43_800.0) * 5.0 / 1e6;
    let got = dollars(&lines(&hanging), "traces of X-Ray");
    assert!((got - want).abs() < 0.005, "{got}, not {want}");
}

use super::*;

/// Processor time that is easy to reckon with.
fn measured() -> Measured {
    Measured {
        on: "nothing".to_owned(),
        ingest_ms_per_publish: 0.0,
        ingest_ms_per_event: 0.0,
        dispatch_ms_per_invocation: 0.0,
        dispatch_ms_per_request: 0.0,
    }
}

fn url() -> Mix {
    Mix { front_door: FrontDoor::FunctionUrl, ..Mix::default() }
}

fn units(mix: &Mix, what: &str) -> f64 {
    let bill = bill(mix, &Prices::current(), &measured());
    let line = bill.lines.iter().find(|line| line.what == what);
    line.unwrap_or_else(|| panic!("no line {what}")).units
}

#[test]
fn calls_are_counted_as_they_are_made() {
    let one = url();
    let ten = Mix { events_per_publish: 10, ..url() };
    let batched = Mix { events_per_request: 10, ..ten.clone() };
    let alone = Mix { records_per_invocation: 1, ..url() };
    let fan_out = Mix { fan_out: 20, ..url() };
    let large = Mix { event_bytes: 100_000, ..url() };
    let failing = Mix { failing: 0.5, ..url() };
    // Invocations of ingest, SQS requests, invocations of dispatch; each for one delivered event.
    let table = [
        ("one per publish", &one, 1.0, 1.0 + 0.1 + 0.1, 0.1),
        ("ten per publish", &ten, 0.1, 0.1 + 0.1 + 0.1, 0.1),
        ("ten per publish and request", &batched, 0.1, 0.1 + 0.02 + 0.01, 0.01),
        ("one record per invocation", &alone, 1.0, 1.0 + 1.0 + 1.0, 1.0),
        // Two batches for twenty deliveries.
        ("twenty subscriptions", &fan_out, 0.05, 0.1 + 0.1 + 0.1, 0.1),
        // 64 KB are one request: 2 for the send, 16 for ten of them received at once.
        ("100 kB", &large, 1.0, 2.0 + 1.6 + 0.1, 0.1),
        ("half fail once", &failing, 1.0, 1.0 + 0.15 + 0.15 + 0.5, 0.15),
    ];
    for (name, mix, ingest, sqs, dispatch) in table {
        let near = |what, want: f64| {
            let got = units(mix, what);
            assert!((got - want).abs() < 1e-9, "{name}: {got} {what}, not {want}");
        };
        near("invocations of ingest", ingest);
        near("SQS requests", sqs);
        near("SQS requests, fair queues", sqs);
        near("invocations of dispatch", dispatch);
        near("publish requests", 0.0);
    }
    assert_eq!(units(&failing, "DynamoDB writes"), 3.0);
    assert_eq!(units(&one, "DynamoDB writes"), 0.0, "the happy path writes nothing");
}

#[test]
fn time_is_paid_by_memory_and_the_processor_is_slower_in_small_functions() {
    let busy = Measured { ingest_ms_per_publish: 1.0, ..measured() };
    let of = |mb| {
        let mix = Mix { ingest_mb: mb, sqs_ms: 0.0, ..url() };
        let bill = bill(&mix, &Prices::current(), &busy);
        bill.lines.iter().find(|line| line.what == "GB-seconds of ingest").expect("a line").units
    };
    let whole = 1_769.0 / 1_024.0 / 1_000.0;
    for mb in [128, 256, 512, 1_769] {
        assert!((of(mb) - whole).abs() < 1e-9, "work costs the same in any size: {mb} MB");
    }
    assert!(of(3_538) > 1.9 * whole, "one thread uses no second processor");
    let wait = Mix { ingest_mb: 512, sqs_ms: 10.0, ..url() };
    assert!((units(&wait, "GB-seconds of ingest") - 0.005).abs() < 1e-9);
}

#[test]
fn the_api_counts_large_publishes_several_times() {
    let api = |bytes, events| {
        let mix = Mix { event_bytes: bytes, events_per_publish: events, ..Mix::default() };
        units(&mix, "publish requests") * f64::from(events)
    };
    for (bytes, events, want) in [(1, 1, 1.0), (1_024, 512, 1.0), (1_024, 513, 2.0)] {
        assert!((api(bytes, events) - want).abs() < 1e-9, "{events} of {bytes} bytes");
    }
}

#[test]
fn others_are_paid_by_event_and_chunk() {
    let prices = Prices::current();
    let of = |mix: &Mix| peers(mix, &prices).map(|peer| (peer.dollars * 100.0).round());
    assert_eq!(of(&url()), [120.0, 110.0, 120.0]);
    assert_eq!(of(&Mix { fan_out: 5, ..url() }), [40.0, 70.0, 72.0]);
    assert_eq!(of(&Mix { event_bytes: 65_537, ..url() }), [240.0, 160.0, 240.0]);
    assert_eq!(of(&Mix { failing: 0.5, ..url() }), [130.0, 140.0, 150.0]);
}

#[test]
fn every_price_says_when_and_where() {
    for price in Prices::current().all() {
        assert!(price.dollars_per_million > 0.0 && price.source.len() > 8, "{price:?}");
        let (year, month) = price.as_of.split_once('-').expect("year-month");
        assert!(year.parse::<u32>().is_ok() && month.parse::<u32>().is_ok(), "{price:?}");
    }
}

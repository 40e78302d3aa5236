//! The match of one event with a topic's event subscriptions by itself, without a clock or a network; run
//! by `cargo bench -p gridpost-tests --bench micro`.

use std::{hint::black_box, sync::Arc};

use criterion::{Criterion, criterion_group, criterion_main};
use gridpost_core::{
    event::event_grid, publish::matching::Matcher, subscription::EventSubscription,
    time::Timestamp, topic::InputSchema,
};
use gridpost_tests::bench::{filters::Values, mix::Mix, payload};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Event subscriptions of a topic, of which the first `wanting` want the events.
fn subscriptions(count: usize, wanting: usize, values: Values) -> Vec<Arc<EventSubscription>> {
    let mix = Mix { subscriptions: count, wanting, values, ..Mix::default() };
    let stored = |endpoint| mix.subscription(&endpoint, "https://example.com/hook");
    let stored = mix.endpoints().into_iter().map(stored);
    stored.map(|subscription| Arc::new(subscription.expect("it can be stored"))).collect()
}

fn matcher(subscriptions: &[Arc<EventSubscription>]) -> Matcher {
    Matcher::new(InputSchema::EventGridSchema, None, subscriptions)
}

/// With values, each event subscription has as many as it may have, and none of their filters can be
/// decided before its last value was looked at.
fn matching(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("match");
    let body = payload::body(&Mix::default());
    let events = event_grid::parse(body.as_bytes(), "/topics/bench-0").expect("an event");
    let filtered = |values| subscriptions(500, 1, values);
    for (name, all) in [
        ("1 of 500 by subject", filtered(Values::None)),
        ("1 of 500 by 25 values, mixed", filtered(Values::Mixed)),
        ("1 of 500 by 25 values, StringIn", filtered(Values::In)),
        ("1 of 500 by 25 values, StringContains", filtered(Values::Contains)),
        ("1 of 500 by 25 filters of one value", filtered(Values::Single)),
        ("100 of 100", subscriptions(100, 100, Values::None)),
    ] {
        let matcher = matcher(&all);
        group.bench_function(name, |bench| {
            bench.iter(|| matcher.match_events(black_box(&events), NOW).matches.len());
        });
    }
    let all = filtered(Values::Mixed);
    group.bench_function("compile 500 of 25 values", |bench| {
        bench.iter(|| matcher(black_box(&all)));
    });
    group.finish();
}

criterion_group!(all, matching);
criterion_main!(all);

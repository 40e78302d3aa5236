//! The decisions by themselves: parse, match, pack, build a request, sign, decide, record. No clock, no
//! network; run by `cargo bench -p gridpost-tests --bench micro`.

use std::{future::ready, hint::black_box, sync::Arc};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures::FutureExt;
use gridpost_core::{
    delivery::{Delivery, dead_letter::Ended, request},
    event::{DeliverySchema, event_grid},
    publish::{
        matching::Matcher,
        pack::{Acceptance, pack},
    },
    retry::{
        self, EndReason, Failure, Rules,
        attempts::Attempts,
        outcome::Answer,
        profile::{EndpointKind, ProfileName},
    },
    secret::Secret,
    subscription::{DeadLetterDestination, EventSubscription, Signing},
    time::Timestamp,
    topic::{InputSchema, Revision},
};
use gridpost_runtime::gateway;
use gridpost_tests::bench::{
    filters::Values,
    mix::Mix,
    payload::{self, Publishes},
};
use http::Response;
use uuid::Uuid;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const ACCEPTANCE: Acceptance = Acceptance {
    id: Uuid::nil(),
    time: NOW,
    revision: Revision { created_at: NOW, number: 1 },
    trace_parent: None,
};
const TOPIC: &str = "/topics/bench-0";

/// Event subscriptions of a topic, of which the first `wanting` want the events.
fn subscriptions(count: usize, wanting: usize) -> Vec<Arc<EventSubscription>> {
    filtered(count, wanting, Values::None)
}

/// The same with filter values.
fn filtered(count: usize, wanting: usize, values: Values) -> Vec<Arc<EventSubscription>> {
    let mix = Mix { subscriptions: count, wanting, values, ..Mix::default() };
    let stored = |endpoint| mix.subscription(&endpoint, "https://example.com/hook");
    let stored = mix.endpoints().into_iter().map(stored);
    stored.map(|subscription| Arc::new(subscription.expect("it can be stored"))).collect()
}

fn matcher(subscriptions: &[Arc<EventSubscription>]) -> Matcher {
    Matcher::new(InputSchema::EventGridSchema, subscriptions)
}

/// Publishes of this number of events.
fn publishes_of(events: usize) -> Mix {
    Mix { events_per_publish: events, ..Mix::default() }
}

/// A delivery of so many events.
fn delivery(events: usize) -> (Arc<EventSubscription>, Delivery) {
    let (all, body) = (subscriptions(1, 1), payload::body(&publishes_of(events)));
    let mut subscription = EventSubscription::clone(&all[0]);
    subscription.batching = Some(gridpost_core::subscription::Batching {
        max_events: 5_000,
        preferred_kilobytes: 1_024,
    });
    let all = [Arc::new(subscription)];
    let events = event_grid::parse(body.as_bytes(), TOPIC).expect("events");
    let matched = matcher(&all).match_events(&events, NOW);
    let packed = pack(&matched.matches, &events, ACCEPTANCE, 1_048_576);
    let [subscription] = all;
    let text = packed.encode(&packed.parcels().next().expect("a delivery"));
    (subscription, Delivery::decode(&text).expect("a delivery"))
}

fn publish(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("publish");
    for events in [1, 10, 100] {
        group.throughput(Throughput::Elements(events as u64));
        let sent = Publishes::new(&publishes_of(events)).expect("publishes").make(0);
        group.bench_with_input(BenchmarkId::new("gateway", events), &sent, |bench, sent| {
            bench.iter(|| {
                let event: gateway::Event = serde_json::from_slice(black_box(sent)).expect("JSON");
                let respond = |request| {
                    black_box(request);
                    ready(Response::default())
                };
                let answered =
                    gateway::answer(event, String::new, respond).now_or_never().expect("at once");
                serde_json::to_vec(&answered.expect("a request")).expect("JSON")
            });
        });
        let body = payload::body(&publishes_of(events));
        group.bench_with_input(BenchmarkId::new("parse", events), &body, |bench, body| {
            bench.iter(|| {
                event_grid::parse(black_box(body.as_bytes()), TOPIC).expect("events").len()
            });
        });
        let parsed = event_grid::parse(body.as_bytes(), TOPIC).expect("events");
        let one = subscriptions(1, 1);
        let matched = matcher(&one).match_events(&parsed, NOW);
        group.bench_with_input(BenchmarkId::new("pack", events), &parsed, |bench, parsed| {
            bench.iter(|| {
                let packed = pack(&matched.matches, parsed, ACCEPTANCE, 262_144);
                let parcels = packed.at_most(10_000, usize::MAX).expect("few");
                let encoded = parcels.iter().map(|parcel| packed.encode(parcel));
                encoded.map(|text| text.len()).sum::<usize>()
            });
        });
    }
    group.finish();
}

/// One event against a topic's event subscriptions. With values, each has as many as it may have, and
/// none of their filters can be decided before its last value was looked at.
fn matching(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("match");
    let body = payload::body(&publishes_of(1));
    let events = event_grid::parse(body.as_bytes(), TOPIC).expect("an event");
    let filtered = |values| filtered(500, 1, values);
    for (name, all) in [
        ("1 of 500 by subject", subscriptions(500, 1)),
        ("1 of 500 by 25 values, mixed", filtered(Values::Mixed)),
        ("1 of 500 by 25 values, StringIn", filtered(Values::In)),
        ("1 of 500 by 25 values, StringContains", filtered(Values::Contains)),
        ("1 of 500 by 25 filters of one value", filtered(Values::Single)),
        ("100 of 100", subscriptions(100, 100)),
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

fn dispatch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dispatch");
    for events in [1, 100] {
        let (subscription, delivery) = delivery(events);
        let text = delivery.encode();
        group.bench_with_input(BenchmarkId::new("decode", events), &text, |bench, text| {
            bench.iter(|| Delivery::decode(black_box(text)).expect("a delivery").events().len());
        });
        group.bench_with_input(
            BenchmarkId::new("request", events),
            &delivery,
            |bench, delivery| {
                let (origin, url) =
                    ("eventgrid.azure.net", Secret::new("https://example.com/hook"));
                bench.iter(|| {
                    request::build(&subscription, &url, &[black_box(delivery)], 0, origin, NOW)
                        .body
                        .len()
                });
            },
        );
    }
    let signing = Signing::new([7; 32]);
    for bytes in [1_024, 65_536] {
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_with_input(
            BenchmarkId::new("sign", bytes),
            &vec![b'x'; bytes],
            |bench, body| {
                let id = Uuid::nil().to_string();
                bench.iter(|| signing.signatures(&id, NOW, black_box(body)).len());
            },
        );
    }
    group.finish();
}

fn ends(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("failure");
    let (subscription, delivery) = delivery(1);
    let (profile, policy) = (ProfileName::Basic, &subscription.retry_policy);
    let rules = Rules { profile, kind: EndpointKind::Webhook, policy };
    let answer = Answer::of_status(503, None);
    let failure = Failure {
        attempts: 3,
        first_attempt_at: NOW,
        ended_at: Timestamp::from_millis(NOW.as_millis() + 60_000),
        answer,
        not_before: None,
        expires_at: Timestamp::from_millis(NOW.as_millis() + 86_400_000),
        is_separable: false,
    };
    group.bench_function("decide", |bench| {
        bench.iter(|| retry::decide(rules, black_box(failure), 0.5));
    });
    let mut ended_delivery = delivery;
    ended_delivery.attempts = Attempts::default().with(NOW, answer.outcome, answer.status);
    let ended = Ended {
        delivery: ended_delivery,
        reason: EndReason::MaxDeliveryAttemptsExceeded,
        at: NOW,
        destination: DeadLetterDestination { bucket: "b".to_owned(), prefix: String::new() },
        schema: DeliverySchema::EventGridSchema,
        mapping: None,
        profile,
        attributes: Vec::new(),
    };
    group.bench_function("record", |bench| {
        bench.iter(|| black_box(&ended).records().len());
    });
    group.finish();
}

criterion_group!(all, publish, matching, dispatch, ends);
criterion_main!(all);

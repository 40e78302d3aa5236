//! The benchmark's driver works: a few hundred events go through the real programs of ingest and
//! dispatch, built as this test is. Nothing is timed.

use std::{collections::BTreeMap, path::Path};

use gridpost_tests::bench::{
    mix::Mix,
    run::{Options, Run, run},
};

/// Runs a mix for a moment.
async fn quickly(name: &str, publishes_max: usize) -> Run {
    quickly_with(name, publishes_max, |_| ()).await
}

/// Runs a mix for a moment, with other options.
async fn quickly_with(name: &str, publishes_max: usize, set: impl FnOnce(&mut Options)) -> Run {
    let mix = Mix::named(name).expect("a mix of that name");
    let logs = tempfile::tempdir().expect("a folder");
    let gridpost = gridpost_tests::program::gridpost().await.expect("it compiles");
    let mut options = Options {
        seconds: 5.0,
        sandboxes: 2,
        aws_tls: false,
        aws_ms: 0,
        endpoint_ms: 0,
        ingest: env!("CARGO_BIN_EXE_bench-ingest").into(),
        dispatch: env!("CARGO_BIN_EXE_bench-dispatch").into(),
        gridpost: gridpost.to_owned(),
        logs: logs.path().to_owned(),
        publishes_max,
    };
    set(&mut options);
    let result = run(&mix, &options).await;
    result.unwrap_or_else(|error| panic!("{name}: {error:#}\n{}", output(logs.path())))
}

/// The last lines that the functions wrote.
fn output(folder: &Path) -> String {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let last = |text: String| text.chars().rev().take(2_000).collect::<Vec<_>>();
    texts.flat_map(|text| last(text).into_iter().rev().collect::<Vec<_>>()).collect()
}

fn calls(run: &Run) -> BTreeMap<&str, f64> {
    let calls = run.figures.iter();
    calls.filter_map(|(name, value)| Some((name.strip_prefix("calls/event ")?, *value))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_of_a_backlog_arrives_once_in_full_batches_and_without_a_database() {
    let run = quickly("ten-backlog", 40).await;
    assert_eq!(run.problems, Vec::<String>::new());
    let figure = |name: &str| run.figures[name];
    assert_eq!((figure("events"), figure("missing"), figure("duplicates")), (400.0, 0.0, 0.0));
    let calls = calls(&run);
    assert!((calls["sqs:SendMessageBatch"] - 0.1).abs() < 1e-9, "{calls:?}");
    assert!(calls["sqs:ReceiveMessage"] < 0.2, "{calls:?}");
    assert!(!calls.contains_key("dynamodb:PutItem"), "{calls:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_endpoint_loses_nothing_and_its_neighbours_get_theirs() {
    let run = quickly("neighbour-dead", 60).await;
    assert_eq!(run.problems, Vec::<String>::new());
    assert_eq!((run.figures["events"], run.figures["missing"]), (54.0, 0.0));
    // Its six deliveries wait in a retry queue, perhaps with some of those that warmed it up.
    let sends = calls(&run)["sqs:SendMessageBatch"] * 54.0;
    assert!(sends > 65.9, "{:?}", run.figures);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aws_may_be_far_and_speak_tls() {
    let far = |options: &mut Options| {
        options.aws_tls = true;
        options.aws_ms = 20;
        options.endpoint_ms = 40;
    };
    let run = quickly_with("one", 20, far).await;
    assert_eq!(run.problems, Vec::<String>::new());
    assert_eq!((run.figures["events"], run.figures["missing"]), (20.0, 0.0));
    // ingest sends, dispatch posts: no event is there sooner.
    let fastest = run.figures["arrival p50 ms"];
    assert!(fastest >= 60.0, "an event took {fastest} ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_are_called_over_tls() {
    let run = quickly("https", 30).await;
    assert_eq!(run.problems, Vec::<String>::new());
    assert_eq!((run.figures["events"], run.figures["missing"]), (30.0, 0.0));
    assert!(run.figures["arrival p50 ms"] > 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_delivers_every_event() {
    let run = quickly("dev-full", 300).await;
    assert_eq!(run.problems, Vec::<String>::new());
    assert_eq!((run.figures["events"], run.figures["missing"]), (300.0, 0.0));
    assert!(run.figures["dev CPU ms/event"] > 0.0, "{:?}", run.figures);
}

/// A connection costs a handshake, and in the end the machine's ports.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_endpoint_keeps_its_connections_by_http_and_by_https() {
    for mix in ["dev", "dev-https"] {
        let run = quickly_with(mix, 2_000, |options| options.seconds = 60.0).await;
        assert_eq!(run.problems, Vec::<String>::new());
        assert_eq!((run.figures["events"], run.figures["missing"]), (2_000.0, 0.0));
        let connections = run.figures["connections"];
        assert!((1.0..150.0).contains(&connections), "{mix}: {connections}");
    }
}

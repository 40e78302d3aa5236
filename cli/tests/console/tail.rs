//! The live tail: what it streams, and that nothing is missing where it goes on.

use std::collections::BTreeSet;

use reqwest::header::COOKIE;
use serde_json::json;

use crate::world::{World, between};

/// What the lines of a stream are known by.
fn ids(streamed: &str) -> BTreeSet<&str> {
    let all = streamed.split("\"id\":\"").skip(1);
    all.filter_map(|rest| rest.split('"').next()).collect()
}

#[tokio::test]
async fn the_live_tail_streams_what_is_attempted() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    let path = "/tail/stream?topic=orders&failed=yes";
    browser.publish("s-1", "Busy", "s", json!({})).await;
    let streamed = browser.stream_until(path, None, "orders/busy").await;
    assert!(streamed.contains("event: attempt\nid: "), "{streamed}");
    assert!(!streamed.contains("orders/fine"), "only failures were asked for: {streamed}");
    browser.get("/tail?topic=orders").await.shows(200, "data-stream=\"/tail/stream?topic=orders\"");
}

#[tokio::test]
async fn nothing_is_missing_where_the_live_tail_begins_or_goes_on() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    browser.publish("g-1", "T", "s", json!({})).await;
    let page = browser.until("/tail", "[g-1]").await.text;
    let first = between(&page, "<li id=\"line-", "\"").to_owned();
    let from = between(&page, "data-from=\"", "\"").to_owned();
    // While no stream is open, one more is attempted.
    browser.publish("g-2", "T", "s", json!({})).await;
    browser.until("/tail", "[g-2]").await;
    let streamed = browser.stream_until(&format!("/tail/stream?from={from}"), None, "[g-2]").await;
    assert!(
        ids(&streamed).contains(first.as_str()),
        "it begins before what the page has: {streamed}"
    );
    let last = streamed.rsplit("\nid: ").next().and_then(|rest| rest.lines().next());
    let last = last.expect("a position").to_owned();
    browser.publish("g-3", "T", "s", json!({})).await;
    browser.until("/tail", "[g-3]").await;
    // A browser that connects again asks for the same address, and says how far it has come.
    let path = format!("/tail/stream?from={from}");
    let again = browser.stream_until(&path, Some(&last), "[g-3]").await;
    assert!(!again.contains("event: gap"), "{again}");
    // Who was away for long is told what is left out.
    let late = browser.stream_until("/tail/stream?from=1", None, "event: gap").await;
    assert!(late.contains("from 1970-01-01T00:00:00.001Z to "), "{late}");
}

#[tokio::test]
async fn a_quiet_live_tail_moves_on() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    // A stream that was left half an hour ago, in which nothing was attempted.
    let from = world.now_ms().await - 30 * 60_000;
    let path = format!("/tail/stream?topic=none&from={from}");
    let streamed = browser.stream_until(&path, None, "event: position").await;
    let position = streamed.rsplit("\nid: ").next().and_then(|rest| rest.lines().next());
    let position: i64 = position.and_then(|id| id.parse().ok()).expect("a position");
    assert!(position >= from + 20 * 60_000, "{streamed}");
    assert!(!streamed.contains("event: gap"), "nothing is missing: {streamed}");
}

#[tokio::test]
async fn what_keeps_the_live_tail_from_streaming_is_told_in_the_stream() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    // Each stream reads the log: there are only so many.
    let mut open = Vec::new();
    for _ in 0..4 {
        let request = browser.http.get(format!("{}/tail/stream", browser.console.url));
        open.push(request.header(COOKIE, &browser.cookie).send().await.expect("an answer"));
    }
    let refused = browser.get("/tail/stream").await;
    refused.shows(200, "event: problem");
    refused.shows(200, "close one of them");
    drop(open);
}

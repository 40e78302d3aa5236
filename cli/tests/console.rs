//! Tests the console without a browser: requests that it must refuse, and how a live tail resumes.
//! `tests/browser` tests every page and action.

#[path = "console/fixture.rs"]
mod fixture;

use std::collections::{BTreeMap, BTreeSet};

use reqwest::header::{CONTENT_TYPE, COOKIE, ORIGIN};

use serde_json::Value;

use fixture::{Browser, Fixture, answer, between, http};

const REFUSED: &str = "/topics/orders/subscriptions/refused";

/// The id of nothing.
const NO_ID: &str = "00000000-0000-0000-0000-000000000000";

const EVENT: &str = r#"{"id":"t-1","eventType":"Other","subject":"s","data":{},"dataVersion":"1",
    "eventTime":"2030-01-02T03:04:05Z"}"#;

/// The routes of that method, of `orders/refused`.
fn routes(method: &str) -> Vec<String> {
    let source = include_str!("../console/src/lib.rs");
    let (whole, below) = source.split_once("\nfn of_subscription").expect("two routers");
    let of = |router: &str, above: &str| -> Vec<String> {
        let routes = router.split(".route(").skip(1).filter_map(|rest| {
            let (path, rest) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
            let handlers = rest.split("\n        .").next()?;
            let path =
                path.strip_prefix('/').filter(|_| handlers.contains(&format!("{method}(")))?;
            Some(format!("{above}/{path}").replace("{topic}", "orders").replace("{id}", NO_ID))
        });
        routes.collect()
    };
    let below = of(below, REFUSED).into_iter().map(|path| path.trim_end_matches('/').to_owned());
    of(whole, "").into_iter().chain(below).collect()
}

#[tokio::test]
async fn pages_come_to_whom_the_link_has_signed_in() {
    let fixture = Fixture::new().await;
    let browser = fixture.browser(&[]).await;
    let is_one = |path: &String| {
        !["/assets/", "/sign-in", "/stream", "/live", NO_ID].iter().any(|part| path.contains(part))
    };
    let pages: Vec<_> = routes("get").into_iter().filter(is_one).collect();
    assert!(pages.len() > 20, "{pages:?}");
    for path in &pages {
        let page = browser.get(path).await;
        page.shows(200, "aria-label=\"The same on the command line\"");
        page.shows(200, "<code>gridpost ");
    }
    for path in ["/nothing", "/topics/nothing", "/topics/orders/subscriptions/nothing"] {
        browser.get(path).await.shows(404, "<h1>Not found");
    }
    assert_eq!(browser.get("/assets/other").await.status, 404);
    let without = fixture.command(&["--manage-url", "nothing", "console", "--no-browser"]).output();
    assert_eq!(without.await.expect("it runs").status.code(), Some(2));
}

#[tokio::test]
async fn what_does_not_come_from_its_own_pages_is_refused() {
    let fixture = Fixture::new().await;
    let console = fixture.console(&[]).await;
    let (url, link) = (console.url.clone(), console.sign_in_url.clone());
    let stranger = http();
    for path in
        ["/", "/topics/orders", "/tail/stream", "/live?page=/", "/sign-in?token=guess", "/sign-in"]
    {
        let refused = answer(stranger.get(format!("{url}{path}"))).await;
        assert!(!refused.shows(401, "Not signed in").contains("orders/refused"));
    }
    let browser = Browser::sign_in(console).await;
    answer(stranger.get(&link)).await.shows(401, "it works once");
    let again = answer(browser.http.get(&link).header(COOKIE, &browser.cookie)).await;
    assert_eq!((again.status, again.location.as_deref()), (303, Some("/")));

    let port = url.rsplit(':').next().expect("a port").to_owned();
    for host in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1:1"] {
        browser.get_as(host, "/").await.shows(421, "Refused");
        browser.get_as(host, "/assets/console.css").await.shows(421, "Refused");
    }
    let keys = "/topics/orders/keys";
    let token = [("csrf", browser.token.as_str())];
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost:3000"] {
        browser.post_from(origin, keys, &token).await.shows(403, "did not come from a page");
    }
    for fields in [&[][..], &[("csrf", "guess")], &[("csrf", "")]] {
        browser.post_from(&url, keys, fields).await.shows(403, "earlier run");
    }
    let post = |url: String| browser.http.post(url).header(COOKIE, &browser.cookie);
    answer(post(format!("{url}{keys}"))).await.shows(403, "did not come from a page");
    let json =
        post(format!("{url}{keys}")).header(ORIGIN, &url).header(CONTENT_TYPE, "application/json");
    answer(json.body("{}")).await.shows(415, "Only forms");
    let plain =
        post(format!("{url}{keys}")).header(ORIGIN, &url).header(CONTENT_TYPE, "text/plain");
    answer(plain.body(format!("csrf={}", browser.token))).await.shows(415, "Only forms");
    let large = "x".repeat(4 * 1024 * 1024);
    browser.post("/topics/orders/publish", &[("event", &large)]).await.shows(413, "too much");
    let get = |mode: &str, site: &str| {
        let request =
            browser.http.get(format!("{url}/topics/orders")).header(COOKIE, &browser.cookie);
        request.header("sec-fetch-site", site).header("sec-fetch-mode", mode)
    };
    answer(get("no-cors", "same-site")).await.shows(403, "did not come from a page");
    answer(get("cors", "cross-site")).await.shows(403, "did not come from a page");
    answer(get("navigate", "cross-site")).await.shows(200, "orders");
    browser.post(keys, &[]).await.shows(200, "<dt>key1</dt>");
}

/// The fields of a form.
type Fields<'f> = &'f [(&'f str, &'f str)];

/// Sends forms that a browser would not submit.
#[tokio::test]
async fn what_no_page_sends_changes_nothing() {
    let fixture = Fixture::new().await;
    let browser = fixture.browser(&[]).await;
    let key = |key: &'static str| ("key", key);
    let agreed = ("agreed", "yes");
    let of = |below: &str| format!("{REFUSED}{below}");
    let table: [(&str, Fields<'_>, &str); 12] = [
        ("/topics/orders/keys/rotate", &[key("key1")], "Nothing was done"),
        ("/topics/orders/keys/rotate", &[key("key3"), agreed], "key1 and key2"),
        ("/topics/orders/delete", &[("typed", "")], "Nothing was deleted"),
        ("/waiting/parked/release", &[], "Nothing was done"),
        ("/waiting/parked/cancel", &[("id", NO_ID)], "Nothing was done"),
        ("/waiting/poison/purge", &[("id", NO_ID)], "Nothing was done"),
        (&of("/secrets/rotate"), &[], "Nothing was done"),
        (&of("/delete"), &[("typed", "refused")], "Nothing was deleted"),
        (&of("/purge"), &[("typed", "refused")], "Nothing was deleted"),
        (&of("/redrive"), &[("rate", "fast")], "Nothing was begun"),
        (&of("/retry"), &[("retryPolicy.schedule", "3")], "was made from"),
        (&of("/edit/json"), &[("document", "{}")], "was made from"),
    ];
    for (path, fields, told) in table {
        let refused = browser.post(path, fields).await;
        assert!(refused.status == 400 && refused.text.contains(told), "{path}: {refused:?}");
    }
    for (below, told) in
        [("/purge?sent=no", "choose by reason"), ("/dead-letters?from=soon", "from")]
    {
        browser.get(&of(below)).await.shows(400, told);
    }
    browser.get("/events?topic=orders&id=x&since=soon").await.shows(200, "is not a time");
}

#[tokio::test]
async fn read_only_refuses_every_change() {
    let fixture = Fixture::new().await;
    let browser = fixture.browser(&["--read-only"]).await;
    let fields =
        [("agreed", "yes"), ("key", "key1"), ("typed", "orders/refused"), ("attempts", "1")];
    let asks = ["/filter", "/events", "/retry/preview", "/publish/check"];
    let (questions, changes): (Vec<_>, Vec<_>) =
        routes("post").into_iter().partition(|path| asks.iter().any(|end| path.ends_with(end)));
    assert!(questions.len() == asks.len() && changes.len() > 20, "{changes:?}");
    for path in &changes {
        browser.post(path, &fields).await.shows(403, "--read-only");
    }
    // No page offers a change. Reading still works.
    for path in ["/", "/topics/orders", REFUSED, "/waiting"] {
        let page = browser.get(path).await;
        assert!(!page.shows(200, "read-only").contains("method=\"post\""), "{path}: {}", page.text);
    }
    let page = browser.get("/topics/orders/publish").await;
    assert!(!page.shows(200, "Who would get it?").contains("value=\"publish\""));
    let tried = [("events", EVENT), ("filter", "{}")];
    browser.post(&format!("{REFUSED}/filter"), &tried).await.shows(200, "What the filter says");
}

/// Returns the sums of a page's first chart, by the names of its series.
fn sums(page: &str) -> BTreeMap<String, u64> {
    let read = |name: &str| {
        let text = between(page, &format!("{name}=\""), "\"").replace("&quot;", "\"");
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    let (names, values) = (read("data-names"), read("data-values"));
    let sum =
        |values: &Value| values.as_array().into_iter().flatten().filter_map(Value::as_u64).sum();
    let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).zip(values.as_array().into_iter().flatten().map(sum)).collect()
}

/// What charts and tables show sums up to what the audit counts.
#[tokio::test]
async fn the_sums_of_charts_are_the_ledger_s() {
    let fixture = Fixture::new().await;
    let browser = fixture.browser(&[]).await;
    for id in ["s-1", "s-2", "s-3"] {
        browser.publish(id).await;
    }
    let audit = ["--json", "audit", "--since", "6h", "--wait", "60s"];
    let audit = fixture.command(&audit).output().await.expect("it runs");
    let audit: Value = serde_json::from_slice(&audit.stdout).expect("JSON");
    let total = |member: &str| -> u64 {
        let of = |one: &Value| one[member].as_u64().or_else(|| one[member]["total"].as_u64());
        audit["eventSubscriptions"].as_array().expect("a list").iter().filter_map(of).sum()
    };
    let ends = ["delivered", "deadLettered", "dropped"].map(total);
    assert_eq!((total("matched"), ends.iter().sum()), (6, 6), "{audit}");
    for path in ["/", "/topics/orders", "/?since=24h", "/topics/orders?since=15m"] {
        let page = browser.get(path).await.text;
        let sums = sums(&page);
        let of = ["Delivered", "Dead-lettered", "Lost"].map(|name| sums[name]);
        assert_eq!(of, ends, "{path}: {sums:?}");
    }
}

/// Returns the ids of the lines of a stream.
fn ids(streamed: &str) -> BTreeSet<&str> {
    let all = streamed.split("\"id\":\"").skip(1);
    all.filter_map(|rest| rest.split('"').next()).collect()
}

/// Returns the position that a stream reports.
fn position(streamed: &str) -> &str {
    let last = streamed.rsplit("\nid: ").next().and_then(|rest| rest.lines().next());
    last.expect("a position")
}

#[tokio::test]
async fn nothing_is_missing_where_the_live_tail_begins_or_goes_on() {
    let fixture = Fixture::new().await;
    let browser = fixture.browser(&[]).await;
    browser.publish("g-1").await;
    let page = browser.until("/tail", ">g-1</a>").await.text;
    let first = between(&page, "<tr id=\"", "\"").to_owned();
    let from = between(&page, "data-from=\"", "\"").to_owned();
    // Makes an attempt while no stream is open.
    browser.publish("g-2").await;
    browser.until("/tail", ">g-2</a>").await;
    let path = format!("/tail/stream?from={from}");
    let streamed = browser.stream_until(&path, None, ">g-2</a>").await;
    let all = ids(&streamed);
    assert!(all.contains(first.as_str()), "it begins before what the page has: {streamed}");
    browser.publish("g-3").await;
    browser.until("/tail", ">g-3</a>").await;
    // A browser that reconnects requests the same address with its last position.
    let again = browser.stream_until(&path, Some(position(&streamed)), ">g-3</a>").await;
    assert!(!again.contains("event: gap"), "{again}");
    // After a long absence, the stream says what it omits.
    let late = browser.stream_until("/tail/stream?from=1", None, "event: gap").await;
    assert!(late.contains("attempted from <time datetime=\\\"1970-01-01T00:00:00.001Z"), "{late}");
}

#[tokio::test]
async fn a_quiet_live_tail_moves_on() {
    let fixture = Fixture::new().await;
    let browser = fixture.browser(&[]).await;
    // Resumes a stream of half an hour ago, with no attempts since.
    let now = between(&browser.get("/tail").await.text, "data-from=\"", "\"").parse::<i64>();
    let from = now.expect("a time") - 30 * 60_000;
    let path = format!("/tail/stream?topic=none&from={from}");
    let streamed = browser.stream_until(&path, None, "event: position").await;
    let position: i64 = position(&streamed).parse().expect("a number");
    assert!(position >= from + 20 * 60_000, "{streamed}");
    assert!(!streamed.contains("event: gap"), "nothing is missing: {streamed}");
}

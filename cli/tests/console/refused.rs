//! What must not work: requests of others, changes of a console that is read-only, events as markup.

use reqwest::header::{CONTENT_TYPE, COOKIE, ORIGIN};
use serde_json::json;

use crate::world::{Browser, World, answer, between, http};
use crate::{EVENT, REFUSED};

#[tokio::test]
async fn hostile_events_stay_text_on_every_page() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    let markup = "<script>alert(1)</script>";
    let kind = "\"><img src=x onerror=alert(2)>";
    let data =
        json!({"a": markup, "rtl": "\u{202e}gnp.exe", "long": "x".repeat(200_000), "nul": "\u{0}"});
    let letter = browser.dead_letter(markup, kind, data).await;
    let query = "topic=orders&id=%3Cscript%3Ealert%281%29%3C%2Fscript%3E";
    browser.until(&format!("/events?{query}"), "HttpBadRequest").await;
    let pages = [
        letter.as_str(),
        &format!("{REFUSED}/dead-letters"),
        &format!("{REFUSED}/purge?reason={markup}"),
        &format!("{REFUSED}/redrive?event=%22%3E{markup}"),
        &format!("/events?{query}"),
        "/tail",
        "/ledger",
        &format!("{REFUSED}/retry?answers={markup}&attempts=%22%3E{markup}"),
        &format!("/tail?topic={markup}"),
        &format!("/topics/{}", "%3Cscript%3Ealert(1)%3C%2Fscript%3E"),
        &format!("/?done={markup}"),
        "/%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
    ];
    for path in pages {
        let page = browser.get(path).await.text;
        for part in ["<script>alert", "<img src=x", "\u{202e}", "\u{0}"] {
            assert!(!page.contains(part), "{path} has {part:?}");
        }
    }
    let page = browser.get(&letter).await;
    page.shows(200, "&lt;script&gt;alert(1)&lt;/script&gt;");
    page.shows(200, "\\u{202e}gnp.exe");
    assert!(page.text.len() < 400_000 && page.text.contains("xxxxx"));
}

#[tokio::test]
async fn what_does_not_come_from_its_own_pages_is_refused() {
    let world = World::new().await;
    let console = world.console(false).await;
    let (url, link) = (console.url.clone(), console.sign_in_url.clone());
    let stranger = http();
    for path in ["/", "/topics/orders", "/tail/stream", "/sign-in?token=guess", "/sign-in"] {
        let refused = answer(stranger.get(format!("{url}{path}"))).await;
        assert!(!refused.shows(401, "Not signed in").contains("orders/busy"));
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

#[tokio::test]
async fn read_only_refuses_every_change() {
    let world = World::new().await;
    let all = world.browser(false).await;
    all.publish("o-1", "Busy", "s", json!({})).await;
    let deliveries = "/topics/orders/subscriptions/busy/deliveries";
    let page = all.until(deliveries, &format!("href=\"{deliveries}/")).await;
    let id = between(&page.text, &format!("href=\"{deliveries}/"), "\"").to_owned();
    let browser = world.browser(true).await;
    let before = all.get("/topics/orders/subscriptions/busy/edit").await.text;
    let job = format!("{REFUSED}/redrives/{id}");
    let changes = [
        "/topics/orders/keys".to_owned(),
        "/topics/orders/keys/rotate".to_owned(),
        "/topics/orders/publish".to_owned(),
        "/waiting/parked".to_owned(),
        "/waiting/poison".to_owned(),
        format!("{deliveries}/{id}/resend"),
        format!("{REFUSED}/reset"),
        format!("{REFUSED}/pause"),
        format!("{REFUSED}/resume"),
        format!("{REFUSED}/secrets"),
        format!("{REFUSED}/secrets/rotate"),
        format!("{REFUSED}/edit"),
        format!("{REFUSED}/edit/json"),
        "/topics/orders/subscribe".to_owned(),
        "/topics/orders/delete".to_owned(),
        "/topics/orders/edit".to_owned(),
        "/create-topic".to_owned(),
        format!("{REFUSED}/delete"),
        format!("{REFUSED}/retry"),
        format!("{REFUSED}/test-event"),
        format!("{REFUSED}/redrive"),
        format!("{job}/cancel"),
        format!("{job}/resume"),
        format!("{REFUSED}/purge"),
    ];
    let fields =
        [("agreed", "yes"), ("key", "key1"), ("typed", "orders/refused"), ("attempts", "1")];
    for path in &changes {
        browser.post(path, &fields).await.shows(403, "--read-only");
    }
    assert_eq!(all.get("/topics/orders/subscriptions/busy/edit").await.text, before);
    // Nothing offers a change, and questions are answered.
    for path in ["/", "/topics/orders", REFUSED, &format!("{deliveries}/{id}"), "/waiting"] {
        let page = browser.get(path).await;
        assert!(!page.shows(200, "read-only").contains("method=\"post\""), "{path}: {}", page.text);
    }
    let tried = [("events", EVENT), ("filter", "{}")];
    browser.post(&format!("{REFUSED}/filter"), &tried).await.shows(200, "What the filter says");
}

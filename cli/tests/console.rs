//! The console against a real `gridpost dev`: every page, every action, and what must be refused.

#[path = "console/forms.rs"]
mod forms;
#[path = "console/letters.rs"]
mod letters;
#[path = "console/meanwhile.rs"]
mod meanwhile;
#[path = "console/publish.rs"]
mod publish;
#[path = "console/refused.rs"]
mod refused;
#[path = "console/tail.rs"]
mod tail;
#[path = "console/world.rs"]
mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{Instant, timeout};

use world::{Browser, PATIENCE, World, between, http, unescaped};

const REFUSED: &str = "/topics/orders/subscriptions/refused";

const EVENT: &str = r#"{"id":"t-1","eventType":"Other","subject":"s","data":{},"dataVersion":"1",
    "eventTime":"2030-01-02T03:04:05Z"}"#;

/// Links of a page to pages of the console.
fn links(page: &str) -> BTreeSet<String> {
    let all = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let own = all.filter(|link| link.starts_with('/') && !link.starts_with("/assets/"));
    own.map(|link| link.split('#').next().unwrap_or_default().replace("&amp;", "&")).collect()
}

/// Scripts, styles and handlers that a strict policy would block, and what pages owe everyone.
fn check_markup(path: &str, page: &str) {
    assert_eq!(page.matches("<script").count(), 2, "{path}: {page}");
    for part in [" style=", " onclick", " onload", " onerror", "<style", "javascript:"] {
        assert!(!page.contains(part), "{path} has {part}");
    }
    for part in ["<html lang=\"en\">", "<main id=\"main\"", "class=\"skip\"", "<title>", "<h1>"] {
        assert!(page.contains(part), "{path} has no {part}");
    }
    assert!(page.len() < 200_000, "{path} has {} bytes", page.len());
    check_ids(path, page);
    // Every field has a name that is read out.
    for field in ["<input", "<select", "<textarea"] {
        for (at, _) in page.match_indices(field) {
            let tag = page[at..].split('>').next().unwrap_or_default();
            let before = &page[..at];
            let in_label = before.rfind("<label") > before.rfind("</label>");
            let id = tag.split("id=\"").nth(1).and_then(|rest| rest.split('"').next());
            let by_id = id.is_some_and(|id| page.contains(&format!("<label for=\"{id}\"")));
            let is_hidden = tag.contains("type=\"hidden\"") || tag.contains("aria-label=");
            assert!(is_hidden || in_label || by_id, "{path}: {tag} has no label");
        }
    }
}

/// Each id is there once; and in a part that is fetched anew, everything that can have the focus has one,
/// so that it keeps it.
fn check_ids(path: &str, page: &str) {
    let ids = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut seen = BTreeSet::new();
    for id in ids {
        assert!(seen.insert(id), "{path} has the id {id} twice");
    }
    for part in page.split("<section ").skip(1).filter_map(|rest| rest.split("</section>").next()) {
        let polled = part.split('>').next().is_some_and(|tag| tag.contains("hx-trigger=\"every"));
        for tag in
            part.split('<').skip(1).filter_map(|rest| rest.split('>').next()).filter(|_| polled)
        {
            let focusable = ["a ", "button", "input", "select", "textarea", "summary"];
            let takes =
                focusable.iter().any(|name| tag.starts_with(name)) || tag.contains("tabindex=");
            let is_hidden = tag.contains("type=\"hidden\"");
            assert!(
                !takes || is_hidden || tag.contains(" id=\""),
                "{path}: <{tag}> loses the focus"
            );
        }
    }
}

#[tokio::test]
async fn every_link_leads_to_a_page_that_names_its_command() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    browser.publish("b-1", "Busy", "s", json!({})).await;
    browser.dead_letter("r-1", "Refused", json!({"n": 1})).await;
    browser.until("/topics/orders/subscriptions/busy/deliveries", "/deliveries/").await;
    browser.until("/", "orders/busy").await.shows(200, "Endpoints in trouble");

    let mut open = vec!["/".to_owned()];
    let mut seen = BTreeSet::new();
    while let Some(path) = open.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let page = browser.get(&path).await;
        page.shows(200, "The same on the command line: <code>gridpost ");
        check_markup(&path, &page.text);
        open.extend(links(&page.text));
        assert!(seen.len() < 200, "{seen:?}");
    }
    for page in [
        "/create-topic",
        "/topics/orders/delete",
        "/topics/orders/edit",
        "/topics/orders/subscribe",
    ] {
        assert!(seen.contains(page), "nothing leads to {page}: {seen:?}");
    }
    for page in ["/topics", "/events", "/dead-letters", "/waiting", "/tail", "/ledger", "/cost"] {
        assert!(seen.contains(page), "{page} is in no navigation: {seen:?}");
    }
    for below in [
        "",
        "/edit",
        "/edit/json",
        "/retry",
        "/filter",
        "/test-event",
        "/deliveries",
        "/redrive",
        "/purge",
    ] {
        let page = format!("{REFUSED}{below}");
        assert!(seen.contains(&page), "nothing leads to {page}: {seen:?}");
    }
    assert!(seen.iter().any(|path| path.contains("/busy/deliveries/")), "{seen:?}");
    assert!(seen.iter().any(|path| path.contains("/refused/dead-letters/")), "{seen:?}");
    let none = browser.get("/topics/orders/subscriptions/none/dead-letters").await;
    none.shows(409, "Give it one (properties.deadLetterDestination)");
    for path in ["/nothing", "/topics/nothing", "/topics/orders/subscriptions/nothing"] {
        browser.get(path).await.shows(404, "<h1>Not found");
    }
}

#[tokio::test]
async fn a_topic_is_looked_at_published_to_and_given_new_keys() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    browser.get("/topics/empty").await.shows(200, "subscription create --topic empty");
    let page = browser.get("/topics/orders").await;
    for name in ["fine", "busy", "refused", "none"] {
        page.shows(200, &format!("/topics/orders/subscriptions/{name}\""));
    }
    assert!(!page.text.contains("<dt>key1"), "keys are shown only when asked for");
    let shown = browser.post("/topics/orders/keys", &[]).await;
    let key = between(shown.shows(200, "<dt>key1</dt>"), "<dt>key1</dt><dd><code>", "<").to_owned();
    assert!(key.len() > 20, "{key}");
    let rotate = [("key", "key1"), ("agreed", "yes")];
    browser.post("/topics/orders/keys/rotate", &rotate[..1]).await.shows(400, "Nothing was done");
    let rotated = browser.post("/topics/orders/keys/rotate", &rotate).await;
    assert_ne!(between(rotated.shows(200, "<dt>key1</dt>"), "<dt>key1</dt><dd><code>", "<"), key);
    let other = [("key", "key3"), ("agreed", "yes")];
    browser.post("/topics/orders/keys/rotate", &other).await.shows(400, "key1 and key2");

    let event = json!({"id": "c-1", "eventType": "Busy", "subject": "s", "data": {}, "dataVersion": "1",
        "eventTime": "2030-01-02T03:04:05Z"});
    let event = event.to_string();
    let check = [("event", event.as_str()), ("action", "check")];
    let checked = browser.post("/topics/orders/publish", &check).await;
    checked.shows(200, "filter.includedEventTypes");
    browser
        .post("/topics/orders/publish", &[("event", "{"), ("action", "check")])
        .await
        .shows(200, "That is no JSON");
    browser
        .post("/topics/orders/publish", &[("event", "{}"), ("action", "publish")])
        .await
        .shows(200, "Refused.");
    browser.publish("c-2", "T", "s", json!({})).await;
    let found = browser.until("/events?topic=orders&id=c-2", "Delivered").await;
    found.shows(200, "<h2>To <a href=\"/topics/orders/subscriptions/fine\">fine");
    let asked = [("topic", "orders"), ("id", "c-2"), ("since", "24h"), ("event", event.as_str())];
    browser.post("/events", &asked).await.shows(200, "subjectBeginsWith");
    browser.get("/events?topic=orders&id=nothing").await.shows(200, "nothing is known of an event");
    browser.get("/events?topic=orders&id=x&since=soon").await.shows(200, "is no time");
}

#[tokio::test]
async fn an_event_subscription_is_tested_edited_and_its_endpoint_reset() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    let at = |below: &str| format!("/topics/orders/subscriptions/busy{below}");
    let sent = browser.post(&at("/test-event"), &[("event", EVENT)]).await;
    sent.shows(200, "Busy (503)");
    sent.shows(200, "It would not want this event");
    let tried = [("events", EVENT), ("filter", r#"{"includedEventTypes":["Other"]}"#)];
    browser.post(&at("/filter"), &tried).await.shows(200, "<span class=\"good\">yes</span>");
    let tried = [("events", EVENT), ("filter", r#"{"subjectBeginsWith":1}"#)];
    browser.post(&at("/filter"), &tried).await.shows(200, "subjectBeginsWith");

    browser.get(&at("/retry")).await.shows(200, "TimeToLiveExceeded");
    let shown =
        browser.get(&at("/retry?attempts=3&minutes=30&schedule=5,60&answers=500,200")).await;
    shown.shows(200, "Delivered");
    browser.get(&at("/retry?attempts=99&minutes=30")).await.shows(200, "maxDeliveryAttempts");
    let policy = [("attempts", "3"), ("minutes", "30"), ("schedule", "5, 60"), ("answers", "500")];
    let made = browser.made(&at("/retry")).await;
    let saved = browser.post_made(&at("/retry"), &made, &policy).await;
    assert_eq!(saved.location.as_deref(), Some(at("?done=saved").as_str()), "{}", saved.text);
    browser.get(&at("?done=saved")).await.shows(200, "Saved.");
    let made = browser.made(&at("/retry")).await;
    let shown = browser.post_made(&at("/retry/preview"), &made, &[("attempts", "2")]).await;
    assert_eq!(shown.shows(200, "with 2 attempts").matches("name=\"was\"").count(), 1);
    let unchanged = browser.post_made(&at("/retry"), &made, &policy).await;
    assert_eq!(unchanged.location.as_deref(), Some(at("?done=unchanged").as_str()));
    let refused = browser.post_made(&at("/retry"), &made, &[("attempts", "99")]).await;
    refused.shows(400, "Nothing was saved");
    browser.post(&at("/retry"), &policy).await.shows(400, "does not say what it was made from");

    let (made, mut document) = edited(&browser, &at("/edit/json")).await;
    document["properties"]["labels"] = json!(["watched"]);
    document["properties"]["retryPolicy"]["maxDeliveryAttempts"] = json!(77);
    let text = document.to_string();
    let refused = browser.post_made(&at("/edit/json"), &made, &[("document", &text)]).await;
    refused.shows(400, "&quot;maxDeliveryAttempts&quot;: 77\n<strong class=\"bad\">");
    document["properties"]["retryPolicy"]["maxDeliveryAttempts"] = json!(4);
    document["properties"]["filter"]["subjectBeginsWith"] = json!("s");
    let text = document.to_string();
    let saved = browser.post_made(&at("/edit/json"), &made, &[("document", &text)]).await;
    assert_eq!(saved.location.as_deref(), Some(at("?done=saved").as_str()), "{}", saved.text);
    let filter = &edited(&browser, &at("/edit/json")).await.1["properties"]["filter"];
    assert_eq!(
        (&filter["subjectBeginsWith"], &filter["includedEventTypes"]),
        (&json!("s"), &json!(["Busy"]))
    );
    let broken = browser.post_made(&at("/edit/json"), &made, &[("document", "{")]).await;
    broken.shows(400, "That is no JSON");
    browser.get(&at("")).await.shows(200, "watched");

    browser.publish("h-1", "Busy", "s", json!({})).await;
    browser.until(&at(""), "end its waits").await;
    let reset = browser.post(&at("/reset"), &[]).await;
    assert_eq!(reset.location.as_deref(), Some(at("?done=reset").as_str()));
}

/// The document of the form, and what it was made from.
async fn edited(browser: &Browser, path: &str) -> ([(&'static str, String); 2], Value) {
    let made = browser.made(path).await;
    let page = browser.get(path).await.text;
    let text = unescaped(between(&page, "spellcheck=\"false\">", "</textarea>"));
    (made, serde_json::from_str(&text).expect("JSON"))
}

#[tokio::test]
async fn an_event_subscription_is_paused_and_resumed() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    let fine = "/topics/orders/subscriptions/fine";
    let page = browser.get(fine).await;
    assert!(!page.shows(200, "Pause it").contains("It is paused"));
    let paused = browser.post(&format!("{fine}/pause"), &[("life", "stops")]).await;
    assert_eq!(paused.location.as_deref(), Some(format!("{fine}?done=paused").as_str()));
    let page = browser.get(fine).await;
    let shown = page.shows(200, "time-to-live stands still");
    assert!(shown.contains("Resume it") && !shown.contains("Pause it"), "{shown}");
    browser.get("/").await.shows(200, "held: paused");
    let resumed = browser.post(&format!("{fine}/resume"), &[]).await;
    assert_eq!(resumed.location.as_deref(), Some(format!("{fine}?done=unpaused").as_str()));
    browser.get(fine).await.shows(200, "Pause it");
}

#[tokio::test]
async fn signing_secrets_are_shown_when_asked_for_and_renewed() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    let fine = "/topics/orders/subscriptions/fine";
    let page = browser.get(fine).await;
    assert!(!page.shows(200, "Signing secret").contains("whsec_"));
    let shown = browser.post(&format!("{fine}/secrets"), &[]).await;
    let secret = between(shown.shows(200, "whsec_"), "<code>whsec_", "<").to_owned();
    let rotate = format!("{fine}/secrets/rotate");
    browser.post(&rotate, &[]).await.shows(400, "Nothing was done");
    let rotated = browser.post(&rotate, &[("agreed", "yes")]).await;
    assert_ne!(between(rotated.shows(200, "whsec_"), "<code>whsec_", "<"), secret);
}

#[tokio::test]
async fn a_delivery_is_shown_attempt_by_attempt_and_sent_again() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    browser.publish("d-1", "Busy", "s", json!({})).await;
    let list = "/topics/orders/subscriptions/busy/deliveries";
    let page = browser.until(list, &format!("href=\"{list}/")).await;
    let id = between(&page.text, &format!("href=\"{list}/"), "\"").to_owned();
    let one = browser.until(&format!("{list}/{id}"), "Busy</span> (503)").await;
    one.shows(200, "<svg");
    let sent = browser.post(&format!("{list}/{id}/resend"), &[]).await;
    let want = format!("{list}/{id}?done=resent");
    assert_eq!(sent.location.as_deref(), Some(want.as_str()), "{}", sent.text);
    browser.get(&want).await.shows(200, "Asked for");
}

#[tokio::test]
async fn parked_deliveries_are_released_and_ended() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    browser.get("/waiting").await.shows(200, "No delivery is parked");
    // Of `gridpost dev`, waits of over 15 minutes are parked: the schedule's second step is such a one.
    let policy =
        [("attempts", "5"), ("minutes", "1000"), ("schedule", "3000, 50000"), ("answers", "500")];
    let busy = "/topics/orders/subscriptions/busy";
    let made = browser.made(&format!("{busy}/retry")).await;
    let saved = browser.post_made(&format!("{busy}/retry"), &made, &policy).await;
    assert_eq!(saved.status, 303, "{}", saved.text);
    browser.publish("p-1", "Busy", "s", json!({})).await;
    let page = browser.until("/waiting", "Choose delivery ").await;
    let id = between(&page.text, "name=\"id\" value=\"", "\"").to_owned();
    browser.get("/").await.shows(200, "parked deliveries");
    browser.post("/waiting/parked", &[("action", "release")]).await.shows(400, "Nothing was done");
    let end = [("action", "cancel"), ("id", id.as_str())];
    browser.post("/waiting/parked", &end).await.shows(400, "Nothing was done");
    let released = browser.post("/waiting/parked", &[("action", "release"), ("id", &id)]).await;
    assert_eq!(released.location.as_deref(), Some("/waiting?done=released"), "{}", released.text);

    let parked = browser.until("/waiting", "Choose delivery ").await;
    let id = between(&parked.text, "name=\"id\" value=\"", "\"").to_owned();
    let end = [("action", "cancel"), ("id", id.as_str()), ("agreed", "yes")];
    let ended = browser.post("/waiting/parked", &end).await;
    assert_eq!(ended.location.as_deref(), Some("/waiting?done=ended"), "{}", ended.text);
    let none = [("action", "resend"), ("id", "00000000-0000-0000-0000-000000000000")];
    browser.post("/waiting/poison", &none).await.shows(400, "1 of 1 were not handled");
}

#[tokio::test]
async fn the_command_prints_a_link_that_signs_in() {
    let world = World::new().await;
    let flags = ["--json", "console", "--no-browser", "--port", "0", "--read-only"];
    let mut child = world.command(&flags).spawn().expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut text = String::new();
    let document: Value = loop {
        let line = timeout(PATIENCE, lines.next_line()).await.expect("in time").expect("a pipe");
        text.push_str(&line.expect("more"));
        if let Ok(document) = serde_json::from_str(&text) {
            break document;
        }
    };
    assert_eq!(document["readOnly"], true);
    let link = document["signInUrl"].as_str().expect("a link");
    assert!(
        link.starts_with(&format!("{}/sign-in?token=", document["url"].as_str().expect("a URL")))
    );
    let signed_in = http().get(link).send().await.expect("an answer");
    assert_eq!(signed_in.status(), 303);
    child.kill().await.expect("ended");

    let without =
        world.command(&["--manage-url", "nothing", "console", "--no-browser"]).output().await;
    assert_eq!(without.expect("it runs").status.code(), Some(2));
}

/// The aim on this machine is 50 ms; this only catches a page that has become slow altogether.
#[tokio::test]
async fn pages_are_light_and_come_soon() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    let mut bytes = 0;
    for asset in ["console.css", "console.js", "htmx.js", "icon.svg"] {
        bytes += browser.get(&format!("/assets/{asset}")).await.text.len();
    }
    assert_eq!(browser.get("/assets/other").await.status, 404);
    for page in ["/", "/topics", "/topics/orders", REFUSED, "/waiting"] {
        let mut took = Vec::new();
        for _ in 0..10 {
            let began = Instant::now();
            let answer = browser.get(page).await;
            took.push(began.elapsed());
            let all = answer.text.len() + bytes;
            assert!(all <= 100_000, "{page} and what it loads have {all} bytes");
        }
        took.sort();
        println!("{page}: median of ten {:?}", took[5]);
        assert!(took[5] < Duration::from_secs(5), "{page} took {took:?}");
    }
}

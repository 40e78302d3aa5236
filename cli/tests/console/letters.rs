//! Dead letters: counted, sent again, purged.

use serde_json::json;
use tokio::time::timeout;

use crate::REFUSED;
use crate::world::{Browser, PATIENCE, World, between};

#[tokio::test]
async fn dead_letters_are_counted_redriven_and_purged() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    browser
        .get(&format!("{REFUSED}/dead-letters"))
        .await
        .shows(200, "There is no such dead letter");
    let letter = browser.dead_letter("l-1", "Refused", json!({"total": 12.50})).await;
    browser.get(&letter).await.shows(200, "&quot;total&quot;: 12.5");
    browser.get("/dead-letters").await.shows(200, "orders/refused");
    let by_reason = "?reason=UndeliverableDueToHttpBadRequest&sent=no&type=Refused";
    let list = browser.until(&format!("{REFUSED}/dead-letters{by_reason}"), "l-1").await;
    list.shows(200, "By reason");
    browser.get(&format!("{REFUSED}/dead-letters?from=soon")).await.shows(400, "from");
    let none = browser.get(&format!("{REFUSED}/dead-letters?reason=Nothing")).await;
    none.shows(200, "There is no such dead letter");

    let job = counted(&browser, &[("event", "l-1"), ("action", "count")]).await;
    let page = browser.get(&job).await;
    let form = between(page.shows(200, "Send these 1 event<"), "<section id=\"job\"", "</section>");
    assert!(!form.contains("hx-get"), "a click would fetch it anew, and clear its boxes: {form}");
    let fields = hidden(form);
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let begun = browser
        .post(&format!("{REFUSED}/redrive"), &[&fields[..], &[("action", "send")]].concat())
        .await;
    let sent = begun.location.expect("a job");
    browser.until(&sent, "1 of 1 events sent").await;
    browser.get(&format!("{REFUSED}/redrive")).await.shows(200, "1 of 1");
    let late = browser.post(&format!("{sent}/cancel"), &[]).await;
    assert_eq!(late.location.as_deref(), Some(sent.as_str()), "it was over: {}", late.text);
    let refused = [("rate", "fast"), ("action", "count")];
    browser.post(&format!("{REFUSED}/redrive"), &refused).await.shows(400, "Nothing was begun");

    let purge = format!("{REFUSED}/purge");
    browser.get(&format!("{purge}?sent=no")).await.shows(400, "choose by reason, type or time");
    browser.get(&purge).await.shows(200, "Type <code>orders/refused</code>");
    browser.post(&purge, &[("typed", "refused")]).await.shows(400, "Nothing was deleted");
    let page = browser.get(&purge).await.text;
    let to = between(&page, "name=\"to\" value=\"", "\"").to_owned();
    browser
        .post(&purge, &[("typed", "orders/refused"), ("to", &to)])
        .await
        .shows(200, "are deleted");
}

#[tokio::test]
async fn dead_letters_that_cannot_be_read_are_named_before_a_purge() {
    let world = World::keeping(&[]).await;
    let browser = world.browser(false).await;
    browser.dead_letter("u-1", "Refused", json!({})).await;
    let purge = format!("{REFUSED}/purge");
    assert!(!browser.get(&purge).await.shows(200, "Type <code>").contains("can't be read"));
    let mut folders = vec![world.folder.path().join(".gridpost/dev/dead-letters")];
    let mut spoilt = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                std::fs::write(path, "<b>no letter").expect("written");
                spoilt += 1;
            }
        }
    }
    assert_eq!(spoilt, 1);
    let page = browser.get(&purge).await;
    page.shows(200, "1 more objects or records can't be read");
    let link = between(page.shows(200, "Why it can't be read"), "<tbody><tr><td><a href=\"", "\"");
    browser.get(link).await.shows(200, "<dt>problem</dt>");
}

/// Counts until there is something: a redrive leaves the last two seconds to the next one.
async fn counted(browser: &Browser, fields: &[(&str, &str)]) -> String {
    let count = async {
        loop {
            let begun = browser.post(&format!("{REFUSED}/redrive"), fields).await;
            let job = begun.location.unwrap_or_else(|| panic!("{}", begun.text));
            let page = browser.until(&job, "Completed").await;
            if !page.text.contains("</strong>: 0 events would be sent") {
                return job;
            }
        }
    };
    timeout(PATIENCE, count).await.expect("a count in time")
}

/// An endpoint on a probation that ends events at once would make new dead letters of them. At this speed
/// the probation is over in seconds, so it may take several events.
#[tokio::test]
async fn nothing_is_redriven_into_a_probation_that_ends_events() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    let locked = "/topics/orders/subscriptions/locked";
    let refused = async {
        for number in 0.. {
            browser.publish(&format!("k-{number}"), "Locked", "s", json!({})).await;
            browser.until(locked, "end at once").await;
            let begun = browser.post(&format!("{locked}/redrive"), &[("action", "send")]).await;
            if begun.status == 400 {
                return begun;
            }
        }
        unreachable!("there are more numbers than seconds");
    };
    let refused = timeout(PATIENCE, refused).await.expect("a refusal in time");
    refused.shows(400, "Nothing was begun");
    refused.shows(400, "orders/locked is on probation until");
    let meant = [("action", "send"), ("on_probation", "yes")];
    let begun = browser.post(&format!("{locked}/redrive"), &meant).await;
    assert_eq!(begun.status, 303, "{}", begun.text);
}

/// The hidden fields of a form, but for its token.
fn hidden(form: &str) -> Vec<(String, String)> {
    let all = form.split("<input type=\"hidden\" name=\"").skip(1).map(|rest| {
        let (name, rest) = rest.split_once("\" value=\"").expect("a value");
        (name.to_owned(), rest.split('"').next().unwrap_or_default().to_owned())
    });
    all.filter(|(name, _)| name != "csrf").collect()
}

//! A test event: checked as it is typed, and published.

use crate::check_markup;
use crate::forms::{fields, send};
use crate::world::{World, between};

const PAGE: &str = "/topics/orders/publish";

#[tokio::test]
async fn an_event_is_checked_field_by_field_and_published() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    let page = browser.get(PAGE).await;
    check_markup(PAGE, page.shows(200, "Type it as JSON"));
    let check = format!("{PAGE}/check");
    send(&browser, &check, &page, &[]).await.shows(200, "The topic takes this event");
    // Each of these is a field's own problem, and all are told at once.
    let wrong = [("field.eventTime", "soon"), ("field.data", "{"), ("field.eventType", "")];
    let told = send(&browser, &check, &page, &wrong).await;
    check_markup(&check, told.shows(200, "Refused."));
    for (name, _) in wrong {
        let id = format!("f-{}", name.replace('.', "-"));
        told.shows(200, &format!("<a href=\"#{id}\">"));
        let place = between(&told.text, &format!("id=\"{id}-problem\""), "</p>");
        assert!(place.contains("<span class=\"line\">"), "{name}: {place}");
    }
    // The places are there before the problems: a script fetches them one by one.
    let asked = between(&page.text, "hx-select-oob=\"", "\"").to_owned();
    for id in asked.split(',') {
        page.shows(200, &format!("id=\"{}\"", id.trim_start_matches('#')));
    }
    let refused =
        send(&browser, PAGE, &page, &[&wrong[..], &[("action", "publish")]].concat()).await;
    assert_eq!(fields(&refused.text)["field.eventTime"], "soon", "nothing that was typed is lost");
    let event =
        [("field.id", "typed-1"), ("field.data", "{\"total\": 12.50}"), ("field.eventType", "T")];
    let who = [&event[..], &[("action", "check")]].concat();
    send(&browser, &check, &page, &who).await.shows(200, "filter.includedEventTypes");
    let not_yet =
        send(&browser, &check, &page, &[&event[..], &[("action", "publish")]].concat()).await;
    assert!(!not_yet.shows(200, "The topic takes this event").contains("Accepted"));
    let sent = send(&browser, PAGE, &page, &[&event[..], &[("action", "publish")]].concat()).await;
    sent.shows(200, "Accepted");
    browser.until("/events?topic=orders&id=typed-1", "Delivered").await;

    let json = browser.get(&format!("{PAGE}?as=json")).await;
    check_markup(PAGE, json.shows(200, "Type it in fields"));
    let told = send(&browser, &check, &json, &[("event", "{\"id\": 1}")]).await;
    told.shows(200, "<a href=\"#f-event\">");

    // Who may only look may ask what is wrong, and publishes nothing.
    let reader = world.browser(true).await;
    let page = reader.get(PAGE).await;
    assert!(!page.shows(200, "Who would get it?").contains("value=\"publish\""));
    send(&reader, &check, &page, &wrong[..1]).await.shows(200, "<a href=\"#f-field-eventTime\">");
    send(&reader, PAGE, &page, &[("action", "publish")]).await.shows(403, "--read-only");
}

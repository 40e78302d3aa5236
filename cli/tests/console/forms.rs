//! Event subscriptions edited and made by forms, without a script.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::check_markup;
use crate::world::{Answer, Browser, World, between, unescaped};

const BUSY: &str = "/topics/orders/subscriptions/busy";

/// A form's fields as a browser would send them, by their names.
pub(crate) fn fields(page: &str) -> BTreeMap<String, String> {
    let form = between(page, "<form class=\"document\"", "</form>");
    let value = |tag: &str, name: &str| {
        let rest = tag.split_once(&format!(" {name}=\""))?.1;
        Some(unescaped(rest.split('"').next()?))
    };
    let mut found = BTreeMap::new();
    for (at, _) in form.match_indices('<') {
        let tag = form[at..].split('>').next().unwrap_or_default();
        let Some(name) = value(tag, "name").filter(|_| !tag.starts_with("<button")) else {
            continue;
        };
        let after = &form[at + tag.len() + 1..];
        let text = match tag.split(' ').next() {
            Some("<textarea") => unescaped(
                after.split("</textarea>").next().unwrap_or_default().trim_start_matches('\n'),
            ),
            Some("<select") => {
                let options = after.split("</select>").next().unwrap_or_default();
                let chosen = options.split("<option").find(|option| option.contains(" selected"));
                let first = options.split("<option").nth(1);
                chosen.or(first).and_then(|option| value(option, "value")).unwrap_or_default()
            }
            _ if tag.contains("checkbox") && !tag.contains(" checked") => continue,
            _ => value(tag, "value").unwrap_or_default(),
        };
        found.insert(name, text);
    }
    found
}

/// Sends the form of a page with some fields changed; an empty name is no field.
pub(crate) async fn send(
    browser: &Browser,
    path: &str,
    page: &Answer,
    changed: &[(&str, &str)],
) -> Answer {
    let mut all = fields(&page.text);
    for (name, value) in changed {
        all.insert((*name).to_owned(), (*value).to_owned());
    }
    all.remove("csrf");
    let all: Vec<_> = all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    browser.post(path, &all).await
}

async fn saved(world: &World, topic: &str, name: &str) -> Value {
    let url = format!("{}/topics/{topic}/eventSubscriptions/{name}", world.manage_url());
    let answer = crate::world::http().get(url).send().await.expect("an answer");
    serde_json::from_str(&answer.text().await.expect("text")).expect("JSON")
}

#[tokio::test]
async fn an_event_subscription_is_edited_field_by_field() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    let path = format!("{BUSY}/edit");
    let page = browser.get(&path).await;
    check_markup(&path, page.shows(200, "Edit it as JSON"));
    let unchanged = send(&browser, &path, &page, &[]).await;
    assert_eq!(
        unchanged.location.as_deref(),
        Some(&*format!("{BUSY}?done=unchanged")),
        "{}",
        unchanged.text
    );

    // A row is added by a button, and filled in.
    let added = send(
        &browser,
        &path,
        &page,
        &[("do", "add filter.advancedFilters"), ("labels", "one\r\ntwo")],
    )
    .await;
    added.shows(200, "name=\"filter.advancedFilters.0.key\" value=\"\"");
    added.shows(200, "one\ntwo");
    assert!(added.text.contains("autofocus"), "the new row has the focus");
    let changed = [
        ("filter.advancedFilters.0.key", "data.country"),
        ("filter.advancedFilters.0.values", "SE\r\nNO"),
        ("filter.subjectBeginsWith", "<b>"),
        ("retryPolicy.maxDeliveryAttempts", "7"),
        ("retryPolicy.schedule", "5, 60"),
    ];
    let done = send(&browser, &path, &added, &changed).await;
    assert_eq!(done.location.as_deref(), Some(&*format!("{BUSY}?done=saved")), "{}", done.text);
    let document = saved(&world, "orders", "busy").await;
    let properties = &document["properties"];
    assert_eq!(
        properties["filter"]["advancedFilters"][0]["values"],
        serde_json::json!(["SE", "NO"])
    );
    assert_eq!(properties["filter"]["includedEventTypes"], serde_json::json!(["Busy"]));
    assert_eq!(properties["filter"]["subjectBeginsWith"], "<b>");
    assert_eq!(properties["labels"], serde_json::json!(["one", "two"]));
    assert_eq!(properties["retryPolicy"]["schedule"], serde_json::json!([5, 60]));

    // Each problem is at its field, and nothing that was typed is lost.
    let page = browser.get(&path).await;
    let wrong = [
        ("retryPolicy.maxDeliveryAttempts", "many"),
        ("retryPolicy.schedule", "9, 5"),
        ("filter.advancedFilters.0.operatorType", "NumberIn"),
        ("expirationTimeUtc", "soon"),
    ];
    let refused = send(&browser, &path, &page, &wrong).await;
    check_markup(&path, refused.shows(400, "Nothing was saved."));
    for (name, typed) in &wrong[..2] {
        let input = between(&refused.text, &format!("name=\"{name}\""), ">");
        assert!(input.contains(&format!("value=\"{typed}\"")), "{input}");
        assert!(input.contains("aria-invalid=\"true\""), "{input}");
        let id = format!("f-{}-problem", name.replace('.', "-"));
        assert!(input.contains(&id), "{input}");
        refused.shows(400, &format!("<p class=\"bad\" id=\"{id}\""));
    }
    refused.shows(400, "<a href=\"#f-filter-advancedFilters-0-values\">");
    refused.shows(400, "<a href=\"#f-expirationTimeUtc\">");
    let page = send(&browser, &path, &page, &[("do", "remove filter.advancedFilters 0")]).await;
    assert!(
        !page.shows(200, "add filter.advancedFilters").contains("filter.advancedFilters.0.key")
    );
    assert_eq!(send(&browser, &path, &page, &[]).await.status, 303);
    let filters = &saved(&world, "orders", "busy").await["properties"]["filter"]["advancedFilters"];
    assert!(filters.as_array().is_none_or(Vec::is_empty), "{filters}");
}

#[tokio::test]
async fn a_form_and_another_change_meanwhile_are_both_kept() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    let path = format!("{BUSY}/edit");
    let early = browser.get(&path).await;
    let other = send(&browser, &path, &early, &[("labels", "theirs")]).await;
    assert_eq!(other.status, 303, "{}", other.text);
    let late = send(&browser, &path, &early, &[("retryPolicy.maxDeliveryAttempts", "6")]).await;
    check_markup(&path, late.shows(412, "<code>properties.labels</code>"));
    assert_eq!(fields(&late.text)["labels"], "theirs");
    assert_eq!(fields(&late.text)["retryPolicy.maxDeliveryAttempts"], "6");
    assert_eq!(send(&browser, &path, &late, &[]).await.status, 303);
    let document = saved(&world, "orders", "busy").await;
    assert_eq!(document["properties"]["labels"], serde_json::json!(["theirs"]));
    assert_eq!(document["properties"]["retryPolicy"]["maxDeliveryAttempts"], 6);
}

#[tokio::test]
async fn an_endpoint_is_subscribed_by_a_form() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    let path = "/topics/orders/subscribe";
    let page = browser.get(path).await;
    check_markup(path, page.shows(200, "Subscribe an endpoint to orders"));
    let typed = [("name", "made"), ("destination.endpointUrl", "http://127.0.0.1:1/none")];
    let refused = send(&browser, path, &page, &typed).await;
    check_markup(path, refused.shows(400, "<a href=\"#f-destination-endpointUrl\">"));
    assert_eq!(fields(&refused.text)["name"], "made");
    send(&browser, path, &refused, &[("name", "a b")]).await.shows(400, "<a href=\"#f-name\">");
    let url = saved(&world, "orders", "fine").await;
    let url = url["properties"]["destination"]["properties"]["endpointBaseUrl"]
        .as_str()
        .expect("a URL")
        .to_owned();
    let there =
        send(&browser, path, &refused, &[("name", "busy"), ("destination.endpointUrl", &url)])
            .await;
    there.shows(412, "busy is there already");
    let made =
        send(&browser, path, &refused, &[("destination.endpointUrl", &url), ("labels", "new")])
            .await;
    let to = "/topics/orders/subscriptions/made?done=created";
    assert_eq!(made.location.as_deref(), Some(to), "{}", made.text);
    browser.get(to).await.shows(200, "It is made.");
    assert_eq!(saved(&world, "orders", "made").await["properties"]["labels"][0], "new");

    // Another type has other fields, which a button shows; saving without it shows them, too.
    for button in ["choose", ""] {
        let changed = [("destination.endpointType", "SqsQueue"), ("do", button)];
        let queue = send(&browser, path, &page, &changed).await;
        check_markup(path, queue.shows(200, "name=\"destination.messageGroupId.text\""));
        assert!(!queue.text.contains("destination.endpointUrl\""));
        let refused =
            send(&browser, path, &queue, &[("name", "queue"), ("destination.resourceId", "arn")])
                .await;
        refused.shows(400, "<a href=\"#f-destination-resourceId\">");
    }
    let page =
        send(&browser, path, &page, &[("do", "add destination.deliveryAttributeMappings")]).await;
    let header = [
        ("destination.deliveryAttributeMappings.0.name", "aeg-x"),
        ("destination.deliveryAttributeMappings.0.value", "v"),
        ("name", "hs"),
    ];
    let refused = send(&browser, path, &page, &header).await;
    refused.shows(400, "<a href=\"#f-destination-deliveryAttributeMappings-0-name\">");
}

#[tokio::test]
async fn a_topic_is_made_and_deleted_with_what_it_has() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    let path = "/create-topic";
    let page = browser.get(path).await;
    check_markup(path, page.shows(200, "Create a topic"));
    let wrong = [
        ("name", "made"),
        ("kind", "namespace"),
        ("inputSchema", "EventGridSchema"),
        ("inputSchemaMapping.eventType.sourceField", "kind"),
    ];
    let refused = send(&browser, path, &page, &wrong).await;
    check_markup(path, refused.shows(400, "<a href=\"#f-inputSchema\">"));
    assert_eq!(fields(&refused.text)["inputSchemaMapping.eventType.sourceField"], "kind");
    send(&browser, path, &page, &[("name", "a b")]).await.shows(400, "<a href=\"#f-name\">");
    send(&browser, path, &page, &[("name", "orders")]).await.shows(412, "orders is there already");
    let right = [("kind", "custom"), ("inputSchema", "CustomEventSchema")];
    let made = send(&browser, path, &refused, &right).await;
    assert_eq!(made.location.as_deref(), Some("/topics/made?done=created"), "{}", made.text);
    browser.get("/topics/made?done=created").await.shows(200, "It is made.");

    // Events of one's own are typed as JSON, and checked by the topic's mapping.
    let publish = browser.get("/topics/made/publish").await;
    check_markup("/topics/made/publish", publish.shows(200, "name=\"event\""));
    let check = "/topics/made/publish/check";
    send(&browser, check, &publish, &[("event", "{}")]).await.shows(200, "<a href=\"#f-event\">");
    send(&browser, check, &publish, &[("event", "{\"kind\": \"K\"}")])
        .await
        .shows(200, "The topic takes this event");

    browser.publish("w-1", "Busy", "s", serde_json::json!({})).await;
    browser.until(&format!("{BUSY}/deliveries"), "/deliveries/").await;
    let path = format!("{BUSY}/delete");
    let page = browser.until(&path, "wait: <strong>1</strong>").await;
    check_markup(&path, page.shows(200, "it keeps none."));
    browser.post(&path, &[("typed", "busy")]).await.shows(400, "Nothing was deleted");
    let deleted = browser.post(&path, &[("typed", "orders/busy")]).await;
    assert_eq!(
        deleted.location.as_deref(),
        Some("/topics/orders?done=deleted"),
        "{}",
        deleted.text
    );
    browser.get(BUSY).await.shows(404, "Not found");

    let page = browser.get("/topics/orders/delete").await;
    page.shows(200, "<strong>4</strong> event subscriptions go with it");
    page.shows(200, "stay in the bucket <code>gridpost</code>");
    check_markup("/topics/orders/delete", &page.text);
    browser.post("/topics/orders/delete", &[("typed", "")]).await.shows(400, "Nothing was deleted");
    let deleted = browser.post("/topics/orders/delete", &[("typed", "orders")]).await;
    assert_eq!(deleted.location.as_deref(), Some("/topics?done=deleted"), "{}", deleted.text);
    let topics = browser.get("/topics?done=deleted").await;
    assert!(!topics.shows(200, "It is deleted.").contains("/topics/orders\""));
    browser.get("/topics/orders/delete").await.shows(404, "Not found");
}

#[tokio::test]
async fn a_topic_s_settings_are_changed_and_another_change_is_kept() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    let path = "/topics/orders/edit";
    let page = browser.get(path).await;
    check_markup(path, page.shows(200, "Settings of orders"));
    let same = send(&browser, path, &page, &[]).await;
    assert_eq!(same.location.as_deref(), Some("/topics/orders?done=unchanged"), "{}", same.text);
    let refused = send(&browser, path, &page, &[("deliveryProfile", "none")]).await;
    check_markup(path, refused.shows(400, "<a href=\"#f-deliveryProfile\">"));
    let saved = send(&browser, path, &page, &[("deliveryProfile", "basic2021")]).await;
    assert_eq!(saved.location.as_deref(), Some("/topics/orders?done=saved"), "{}", saved.text);
    let late = send(&browser, path, &page, &[("disableLocalAuth", "yes")]).await;
    check_markup(path, late.shows(412, "<code>properties.deliveryProfile</code>"));
    assert_eq!(fields(&late.text)["deliveryProfile"], "basic2021");
    assert_eq!(send(&browser, path, &late, &[]).await.status, 303);
    browser.get("/topics/orders").await.shows(200, "Keys are refused");
    browser.get("/topics/orders").await.shows(200, "basic2021");
}

//! Documents as `az` prints them, given to the commands that take files.

use super::*;

/// `az eventgrid topic show`.
fn topic(member: &str, value: Value) -> Value {
    let mut topic = json!({
        "disableLocalAuth": false, "endpoint": "https://shop.example/api/events",
        "extendedLocation": null, "identity": {"principalId": null, "type": "None"},
        "inboundIpRules": null, "inputSchema": "EventGridSchema", "inputSchemaMapping": null,
        "kind": "Azure", "location": "westus2", "name": "shop", "provisioningState": "Succeeded",
        "privateEndpointConnections": null, "publicNetworkAccess": "Enabled",
        "resourceGroup": "shop", "sku": {"name": "Basic"}, "systemData": null, "tags": null,
        "type": "Microsoft.EventGrid/topics",
    });
    topic[member] = value;
    topic
}

/// `az eventgrid event-subscription show`.
fn subscription(base_url: &str, member: &str, value: Value) -> Value {
    let mut subscription = json!({
        "deadLetterDestination": null, "deliveryWithResourceIdentity": null,
        "destination": {
            "azureActiveDirectoryTenantId": null, "deliveryAttributeMappings": null,
            "endpointBaseUrl": base_url, "endpointType": "WebHook", "endpointUrl": null,
            "maxEventsPerBatch": 1, "preferredBatchSizeInKilobytes": 64,
        },
        "eventDeliverySchema": "EventGridSchema", "expirationTimeUtc": null,
        "filter": {"includedEventTypes": null, "isSubjectCaseSensitive": null,
            "subjectBeginsWith": "/a", "subjectEndsWith": ""},
        "labels": null, "name": "billing", "provisioningState": "Succeeded",
        "resourceGroup": "shop", "topic": "/subscriptions/s/topics/shop",
        "type": "Microsoft.EventGrid/eventSubscriptions",
    });
    subscription[member] = value;
    subscription
}

#[tokio::test]
async fn files_of_az_are_taken_by_every_command() {
    let place = Place::new();
    let (receiver, _arrivals) = endpoint("200").await;
    let base_url = receiver.url("/hook");
    let url = format!("{base_url}?code=c0de");
    let write = |name: &str, document: &Value| {
        place.write(name, &document.to_string());
    };
    write("topic.json", &topic("tags", json!({"a": "b"})));
    write("closed.json", &topic("disableLocalAuth", json!("True")));
    let whole = json!({"endpointType": "webhook", "endpointUrl": url, "endpointBaseUrl": base_url});
    write("whole.json", &subscription(&base_url, "destination", whole.clone()));
    write("shown.json", &subscription(&base_url, "labels", json!(["shown"])));
    write(
        "events.json",
        &json!([{"id": "1", "eventType": "T", "subject": "/b", "data": {},
        "eventTime": "2030-01-02T03:04:05Z", "dataVersion": "1"}]),
    );
    let of_file = subscription(&base_url, "destination", whole);
    let mut declared = topic("tags", Value::Null);
    declared["eventSubscriptions"] = json!({"billing": of_file});
    write("declared.json", &json!({"topics": {"declared": declared}}));
    let dev = place.dev("--memory --quiet").await;
    let one = "--topic shop --name billing";
    for (line, want, part) in [
        ("topic create shop --file topic.json".to_owned(), 0, "created"),
        ("topic update shop --file closed.json".to_owned(), 0, "disableLocalAuth true"),
        (format!("subscription create {one} --file shown.json"), 1, "--include-full-endpoint-url"),
        (format!("subscription create {one} --file whole.json"), 0, "created"),
        (format!("subscription create {one} --replace --file shown.json"), 0, "shown"),
        (format!("subscription update {one} --file whole.json"), 0, "updated"),
        ("apply declared.json".to_owned(), 0, "1 event subscription"),
        (
            "subscription test --topic shop --file shown.json --events events.json".to_owned(),
            0,
            "subjectBeginsWith",
        ),
    ] {
        let told = code(&place.run(&line).await, want);
        assert!(told.contains(part), "{line}: {part} is not in\n{told}");
    }
    assert!(end(dev, Signal::TERM).await.success());
}

#[tokio::test]
async fn apply_names_what_a_file_of_az_asks_for_in_vain() {
    let place = Place::new();
    let hub = json!({"endpointType": "EventHub", "resourceId": "/subscriptions/s/eventhubs/h"});
    let mut closed = topic("publicNetworkAccess", json!("Disabled"));
    closed["eventSubscriptions"] = json!({"hub": subscription("", "destination", hub.clone())});
    let mut open = topic("tags", Value::Null);
    open["eventSubscriptions"] = json!({"hub": subscription("", "destination", hub)});
    let file = json!({"topics": {"closed": closed, "open": open}});
    place.write("declared.json", &file.to_string());
    let dev = place.dev("--memory --quiet").await;
    let told = code(&place.run("apply declared.json").await, 1);
    let is_a_hub = "destination.endpointType is EventHub, a resource of Azure's";
    for part in [
        "topics.closed: publicNetworkAccess is \"Disabled\", which is not supported yet",
        &format!("topics.closed.eventSubscriptions.hub: {is_a_hub}"),
        &format!("topics.open.eventSubscriptions.hub: {is_a_hub}"),
    ] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
    assert!(end(dev, Signal::TERM).await.success());
}

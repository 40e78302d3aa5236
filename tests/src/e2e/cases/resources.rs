//! Documents of the resource API, by plain HTTP and through Azure's models.

use anyhow::{Context, ensure};
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::e2e::{
    fixture::{CLOUD_EVENTS, EVENT_GRID, Fixture, SOON, Topic},
    receiver::Reply,
    schemathesis,
};

/// Calls the resource API; returns status, headers and document.
async fn call(
    fixture: &Fixture,
    method: Method,
    path_or_url: &str,
    if_match: Option<&str>,
    document: Option<&Value>,
) -> anyhow::Result<(u16, HeaderMap, Value)> {
    let base = &fixture.ground.connection.manage_url;
    let url = match path_or_url.starts_with('/') {
        true => format!("{base}{path_or_url}"),
        false => path_or_url.to_owned(),
    };
    let mut request = fixture.http.request(method, &url);
    if let Some(etag) = if_match {
        request = request.header("if-match", etag);
    }
    if let Some(document) = document {
        request = request.json(document);
    }
    let answer = request.send().await?;
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let text = answer.text().await?;
    Ok((status, headers, serde_json::from_str(&text).unwrap_or_default()))
}

fn path_of(topic: &Topic<'_>, name: &str) -> String {
    format!("/topics/{}/eventSubscriptions/{name}", topic.name)
}

fn etag(headers: &HeaderMap) -> anyhow::Result<String> {
    let etag = headers.get("etag").and_then(|etag| etag.to_str().ok());
    Ok(etag.context("an answer without an ETag")?.to_owned())
}

/// A document goes through the models of Azure's management SDK and back without a change. (Those
/// models don't know dead-letter destinations on S3 and our own members.)
pub async fn azures_management_models_round_trip_documents(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    let topic = fixture.topic("models", EVENT_GRID).await?;
    let cloud = fixture.topic("models-ce", CLOUD_EVENTS).await?;
    let rich = json!({
        "destination": {
            "maxEventsPerBatch": 20,
            "deliveryAttributeMappings": [
                {"name": "X-Plain", "type": "Static", "properties": {"value": "v", "isSecret": false}},
                {"name": "X-Kind", "type": "Dynamic", "properties": {"sourceField": "data.kind"}},
            ],
        },
        "filter": {
            "includedEventTypes": ["A", "B"],
            "subjectBeginsWith": "/shop",
            "isSubjectCaseSensitive": true,
            "enableAdvancedFilteringOnArrays": true,
            "advancedFilters": [
                {"operatorType": "StringIn", "key": "data.country", "values": ["de", "fr"]},
                {"operatorType": "NumberInRange", "key": "data.total", "values": [[1, 2.5], [10, 20]]},
                {"operatorType": "NumberGreaterThan", "key": "data.total", "value": 0.5},
                {"operatorType": "BoolEquals", "key": "data.paid", "value": true},
                {"operatorType": "IsNotNull", "key": "data.id"},
            ],
        },
        "labels": ["billing", "eu"],
        "expirationTimeUtc": "2099-01-01T00:00:00Z",
        "retryPolicy": {"maxDeliveryAttempts": 7, "eventTimeToLiveInMinutes": 90},
    });
    let mut given = Vec::new();
    let mut kept = Vec::new();
    for (topic, name, properties) in
        [(&topic, "plain", json!({})), (&topic, "rich", rich), (&cloud, "plain", json!({}))]
    {
        topic.subscribe(name, &[Reply::prompt(200)], properties).await?;
        let path = path_of(topic, name);
        let (_, headers, document) = call(fixture, Method::GET, &path, None, None).await?;
        let full = fixture.api.full_url(&topic.name, name).await?;
        given.push(json!({"document": document, "endpointUrl": full}));
        kept.push((path, etag(&headers)?, document));
    }
    let passed = fixture.through_azures_models(Value::from(given)).await?;
    for ((path, tag, before), passed) in kept.iter().zip(passed.as_array().into_iter().flatten()) {
        ensure!(passed["destination"] == "WebHookEventSubscriptionDestination", "{passed}");
        ensure!(passed["schema"] == before["properties"]["eventDeliverySchema"], "{passed}");
        let document = Some(&passed["document"]);
        let (status, _, written) = call(fixture, Method::PUT, path, Some(tag), document).await?;
        ensure!(status == 200, "{path}: {status} {written} for {passed}");
        let (_, _, after) = call(fixture, Method::GET, path, None, None).await?;
        ensure!(without_etag(&after) == without_etag(before), "{path}: {before} became {after}");
    }
    let classes = json!([
        "StringInAdvancedFilter",
        "NumberInRangeAdvancedFilter",
        "NumberGreaterThanAdvancedFilter",
        "BoolEqualsAdvancedFilter",
        "IsNotNullAdvancedFilter",
    ]);
    ensure!(passed[1]["filters"] == classes, "{passed}");
    let classes = json!(["StaticDeliveryAttributeMapping", "DynamicDeliveryAttributeMapping"]);
    ensure!(passed[1]["attributes"] == classes, "{passed}");
    Ok(())
}

/// A document without the members that change with each write.
/// Leaves out the members that each change gives anew.
fn without_etag(document: &Value) -> Value {
    let mut document = document.clone();
    document.as_object_mut().map(|members| members.remove("etag"));
    document["systemData"].as_object_mut().map(|times| times.remove("lastModifiedAt"));
    document
}

/// A patch changes only the members that it names. With the ETag of an older read it is refused,
/// and nothing changes.
pub async fn a_patch_is_guarded_by_its_etag(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("patched", EVENT_GRID).await?;
    let properties = json!({"labels": ["old"], "filter": {"subjectBeginsWith": "/shop"}});
    let endpoint = topic.subscribe("patched", &[Reply::prompt(200)], properties).await?;
    let path = path_of(&topic, "patched");
    let (_, headers, before) = call(fixture, Method::GET, &path, None, None).await?;
    let old = etag(&headers)?;

    let patch = json!({"labels": ["new"], "filter": {"subjectEndsWith": ".jpg"}});
    let (status, headers, patched) =
        call(fixture, Method::PATCH, &path, Some(&old), Some(&patch)).await?;
    ensure!(status == 200 || status == 201, "{status} {patched}");
    let mut want = without_etag(&before);
    want["properties"]["labels"] = json!(["new"]);
    // A filter is patched as a whole.
    want["properties"]["filter"]["subjectBeginsWith"] = json!("");
    want["properties"]["filter"]["subjectEndsWith"] = json!(".jpg");
    ensure!(without_etag(&patched) == want, "{patched}");
    let new = etag(&headers)?;
    ensure!(new != old, "the ETag stayed {old}");
    ensure!(endpoint.handshakes().len() == 1, "the endpoint was asked again");

    let late = json!({"labels": ["too late"]});
    let (status, _, refused) = call(fixture, Method::PATCH, &path, Some(&old), Some(&late)).await?;
    ensure!(status == 412 && refused["error"]["code"].is_string(), "{status} {refused}");
    let (status, ..) = call(fixture, Method::DELETE, &path, Some(&old), None).await?;
    ensure!(status == 412, "{status}");
    let (_, _, after) = call(fixture, Method::GET, &path, None, None).await?;
    ensure!(without_etag(&after) == want, "{after}");
    let (status, ..) = call(fixture, Method::DELETE, &path, Some(&new), None).await?;
    ensure!(status == 200, "{status}");
    Ok(())
}

/// A list comes in pages of the size asked for, and the links lead through all of it once.
pub async fn lists_come_in_pages(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("pages", EVENT_GRID).await?;
    let mut want = Vec::new();
    for n in 0..5 {
        let name = format!("sub-{n}");
        topic.subscribe(&name, &[Reply::prompt(200)], json!({})).await?;
        want.push(name);
    }
    let mut names = Vec::new();
    let mut sizes = Vec::new();
    let mut next = Some(format!("/topics/{}/eventSubscriptions?$top=2", topic.name));
    while let Some(link) = next {
        let (status, _, page) = call(fixture, Method::GET, &link, None, None).await?;
        ensure!(status == 200, "{status} {page} for {link}");
        let listed = page["value"].as_array().context("a list")?;
        names.extend(listed.iter().filter_map(|one| one["name"].as_str().map(str::to_owned)));
        sizes.push(listed.len());
        ensure!(sizes.len() <= 5, "the links lead nowhere: {names:?}");
        next = page["nextLink"].as_str().map(str::to_owned);
    }
    ensure!(names == want && sizes == [2, 2, 1], "{names:?} in pages of {sizes:?}");
    Ok(())
}

/// For sample events, the API says which part of a filter refuses them, both for an existing
/// subscription and for a new document; nothing is delivered.
pub async fn a_sample_event_is_tested_against_a_filter(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("tested", EVENT_GRID).await?;
    let filter = json!({
        "includedEventTypes": ["Shop.OrderPlaced"],
        "advancedFilters": [
            {"operatorType": "StringIn", "key": "data.country", "values": ["de", "fr"]},
            {"operatorType": "NumberGreaterThan", "key": "data.total", "value": 100},
        ],
    });
    let properties = json!({"filter": filter});
    let endpoint = topic.subscribe("picky", &[Reply::prompt(200)], properties.clone()).await?;
    let event = |id: &str, event_type: &str, country: &str, total: u32| {
        let mut event = topic.event(id, event_type, "e2e/tested");
        event["data"] = json!({"country": country, "total": total});
        event
    };
    let events = [
        event("wanted", "Shop.OrderPlaced", "DE", 101),
        event("of-another-type", "Shop.OrderPaid", "de", 101),
        event("abroad-and-cheap", "Shop.OrderPlaced", "dk", 100),
    ];
    let want = [
        vec![],
        vec!["filter.includedEventTypes"],
        vec!["filter.advancedFilters[0]", "filter.advancedFilters[1]"],
    ];
    let path = format!("/topics/{}/eventSubscriptions:test", topic.name);
    for about in [json!({"name": "picky"}), json!({"properties": properties})] {
        let mut document = about;
        document["events"] = Value::from(events.to_vec());
        let (status, _, tested) = call(fixture, Method::POST, &path, None, Some(&document)).await?;
        ensure!(status == 200, "{status} {tested}");
        for (index, want) in want.iter().enumerate() {
            let verdict = &tested["value"][index];
            ensure!(verdict["matches"] == json!(want.is_empty()), "{verdict}");
            let refused = verdict["refusedBy"].as_array().into_iter().flatten();
            let paths: Vec<_> = refused.filter_map(|part| part["path"].as_str()).collect();
            ensure!(paths == *want, "{verdict}");
        }
    }
    topic.publish(&events).await?;
    let deliveries = endpoint.wait_for(1, SOON).await?;
    ensure!(
        deliveries.len() == 1 && deliveries[0].ids() == ["wanted"],
        "{:?}",
        deliveries[0].ids()
    );
    Ok(())
}

/// All requests that schemathesis generates from `docs/openapi.json`, alone or in chains, are
/// answered as the document says, and without a server error.
pub async fn what_openapi_says_is_what_is_answered(fixture: &Fixture) -> anyhow::Result<()> {
    let endpoint = fixture.receiver.endpoint("schemathesis", &[Reply::prompt(200)]);
    let ground = &fixture.ground;
    let url = &ground.connection.manage_url;
    schemathesis::run(ground.home(), ground.environment()?, url, endpoint.url()).await
}
